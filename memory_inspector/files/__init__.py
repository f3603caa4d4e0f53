"""Importers and exporters of conversations, facts, graphs and whole sessions.

One module per format. Each parses a file into values such as `ChatMessage`, or raises a one-sentence error that names
the place in the file; the engine stores the result.
"""

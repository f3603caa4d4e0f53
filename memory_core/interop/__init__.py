"""Importers and exporters of conversations, facts, graphs and whole sessions.

One module per format. Each parses a file into values such as `ChatMessage`, or raises a one-sentence error with the
place; the engine stores the result.
"""

"""The rules that stand in for a model: facts, relations, summaries and answers without one. Pure.

Fenced: nothing here is imported but by the learners and clients in `models/`, and by what runs without a model.
"""

"""Rules that replace a model offline: facts, relations, summaries and answers. Pure.

Imported only by the learners and clients in `models/`, and by code that runs without a model.
"""

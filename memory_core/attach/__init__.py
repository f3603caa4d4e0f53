"""Agents elsewhere, as sessions: what was seen of them is read here and recorded, and their code stays as it is."""

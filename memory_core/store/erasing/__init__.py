"""Erase messages, facts and sessions, with their texts unless something else needs them."""

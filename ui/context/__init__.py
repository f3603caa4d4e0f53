"""The Context page: the exact prompt of a turn, and what was left out of it."""

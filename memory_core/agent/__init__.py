"""A model that edits its own memory: its tools, and the loop that lets it."""

"""Pure functions over events and sizes: what happened, and what would have happened."""

"""The Blocks page."""

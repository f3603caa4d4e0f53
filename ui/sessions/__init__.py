"""The Sessions page."""

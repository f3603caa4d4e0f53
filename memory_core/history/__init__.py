"""Read-only views of the past, computed from the log."""

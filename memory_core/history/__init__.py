"""What the log says of the past: read, never written."""

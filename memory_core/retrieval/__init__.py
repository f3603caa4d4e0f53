"""Finding by a question, and why something was not found."""

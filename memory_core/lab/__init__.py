"""Other configurations tried on a whole conversation, beside its own."""

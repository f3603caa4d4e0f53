"""Search by question, and explanations of what was not found."""

"""The Retrieval page: what a question finds among the stored turns."""

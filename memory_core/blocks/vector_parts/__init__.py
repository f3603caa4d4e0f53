"""Parts of the vector block: its units, and how they are stored, cached and packed into a prompt."""

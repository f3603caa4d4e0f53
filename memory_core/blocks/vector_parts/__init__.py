"""What the vector block is made of: its units, how they are stored, cached and packed into a prompt."""

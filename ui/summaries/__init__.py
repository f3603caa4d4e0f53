"""A running summary on screen: how fresh it is, what each version lost, and writing it anew."""

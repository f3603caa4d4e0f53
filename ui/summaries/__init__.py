"""A running summary on screen: its freshness, the losses of each version, and rewriting."""

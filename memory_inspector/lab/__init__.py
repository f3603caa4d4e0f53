"""Experiments on a whole conversation: replay it, or plan it, under other configurations."""

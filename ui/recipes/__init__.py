"""Choosing a recipe: the list, the effect of each on this conversation, and the switch."""

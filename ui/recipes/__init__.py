"""Choosing a recipe: what there is, what each would do to this conversation, and the switch."""

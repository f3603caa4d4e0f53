"""The page Where did it go?: one piece of information followed to the prompt, or to the rule that lost it."""

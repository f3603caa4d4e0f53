"""Where did it go? One piece of information followed through every stage, to the rule that lost it."""

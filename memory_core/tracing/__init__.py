"""Follow one piece of information through every stage, to the prompt or the rule that lost it."""

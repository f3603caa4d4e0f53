"""Look after a database: its damage and repair, the health of what it needs, maintenance, and the tokens of agents."""

"""Look after a database: tokens of agents, retention, damage and its repair, health, and maintenance beside others."""

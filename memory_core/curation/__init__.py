"""Changes made by a person or a tool: to settings, facts, the graph, a summary. Most can be undone."""

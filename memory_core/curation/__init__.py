"""What a person, or a tool, changes afterwards: settings, facts, the graph, a summary. All of it can be undone."""

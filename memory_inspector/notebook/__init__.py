"""HTML of the engine's objects in notebooks: objects in, markup out. No script, no request, every text escaped."""

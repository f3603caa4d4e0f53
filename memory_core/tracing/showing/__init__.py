"""Export a session as a standalone HTML page: contents, replacements and layout. Pure."""

"""The live session. The only package that calls planners inside a transaction."""

"""The live session. The only room that calls planners inside a transaction."""

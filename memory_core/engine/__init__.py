"""The live session: what happens to it inside a transaction. The only room that calls planners there."""

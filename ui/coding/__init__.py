"""Draws sessions of coding agents: their list, compactions, prompts by part, followed phrases, and memory files."""

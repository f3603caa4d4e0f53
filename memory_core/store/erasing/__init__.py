"""Erase messages, facts and sessions with the texts that nothing else needs."""

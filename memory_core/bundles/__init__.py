"""Copies of a session or a database as one file: bundles, archives of idle sessions, backups."""

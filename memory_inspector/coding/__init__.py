"""Sessions of coding agents (Claude Code, Codex and six more), read in place: what was said, sent, compacted and lost.

Nothing here writes, and nothing needs a database: a session's file is the only source. One module reads each program's
records; all else works on the values of `transcript.py`.
"""

"""Tell which script the server was started with: `serve.py` is the whole app; `app.py` alone serves no agents."""

import sys
import threading

MISSING = "Started with app.py: agents are not recorded, pages lack security headers. Start serve.py for the whole app."

# Kept by the process, not by a tab, so that the line is printed once in the terminal.
_whole, _told = threading.Event(), threading.Event()


def started_whole() -> None:
    """Record that this server was started with `serve.py`."""
    _whole.set()


def missing() -> str:
    """Return a line on what this server lacks, and print it the first time; empty if it lacks nothing."""
    if _whole.is_set():
        return ""
    if not _told.is_set():
        _told.set()
        print(MISSING, file=sys.stderr, flush=True)
    return MISSING

"""Tell which command started the server: `serve.py` is the whole app, `app.py` alone lacks what serves agents."""

import sys
import threading

MISSING = "Started as app.py: agents are not recorded, and pages have no security headers. serve.py is the whole app."

# Of the process, not of a tab: the line in the terminal is printed once, whoever looks.
_whole, _told = threading.Event(), threading.Event()


def started_whole() -> None:
    """Note that `serve.py` started this server."""
    _whole.set()


def missing() -> str:
    """Return in one line what this server lacks, and print it the first time; empty if nothing."""
    if _whole.is_set():
        return ""
    if not _told.is_set():
        _told.set()
        print(MISSING, file=sys.stderr, flush=True)
    return MISSING

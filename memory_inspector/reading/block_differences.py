"""Differences between two texts, as a unified diff. Pure; no Streamlit."""

import re
from difflib import unified_diff

MAX_LINES = 2_000
"""Maximum lines of a text; longer ones are not compared, as that takes seconds."""

CONTEXT_LINES = 2


def difference(before: str, after: str) -> str | None:
    """Return removed lines with −, added ones with + and their context; empty if equal, None if a text is too long."""
    old, new = before.splitlines(), after.splitlines()
    if max(len(old), len(new)) > MAX_LINES:
        return None
    lines = list(unified_diff(old, new, lineterm="", n=CONTEXT_LINES))[2:]  # without the two header lines
    shown = [" …" if line.startswith("@@") else line for line in lines]  # where lines were left out
    # At the top of the text nothing was left out before the first lines shown.
    return "\n".join(shown[1:] if lines and re.match(r"@@ -[01][ ,]", lines[0]) else shown)

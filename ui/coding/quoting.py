"""Texts of a session as they are drawn: on one line, shortened, without keys and passwords, and never as markup."""

from memory_inspector.coding.transcript import quotable
from memory_inspector.wording.formatting import plain


def quoted(text: str, most: int = 200) -> str:
    """Return markdown that shows a text literally, at most so many characters of it."""
    return plain(quotable(text, most))

"""Texts of a session as they are drawn: on one line, shortened, without keys and passwords, and never as markup."""

from datetime import UTC, datetime, tzinfo

from memory_core.tracing.showing.replacements import mask_keys
from memory_inspector.wording.formatting import plain, short


def quoted(text: str, most: int = 200) -> str:
    """Return markdown that shows a text literally, at most so many characters of it."""
    # Masked before it is cut, as the half of a key is not recognised as one.
    return plain(short(" ".join(mask_keys(text[: 20 * most]).split()), most))


def zone() -> tzinfo:
    """Return the time zone of this machine, which the files are on."""
    return datetime.now().astimezone().tzinfo or UTC

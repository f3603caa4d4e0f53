"""Edits by an agent to the text of a block: text in, text out. Pure.

An impossible edit raises a `ConfigError` whose sentence is for the model: the problem, that nothing was changed, and
what to do instead.
"""

from memory_core.errors import ConfigError
from memory_core.text import shortened

END = -1
"""Line number with which `insert` puts text at the end."""

QUOTED = 60
"""Maximum characters of a model's text that an error quotes."""


def append(label: str, text: str, content: str) -> str:
    """Append lines to the text; lines that it already contains are not added again.

    >>> append("Human", "Sam lives in Porto", "Sam likes jazz")
    'Sam lives in Porto\\nSam likes jazz'

    Raises:
        ConfigError: there is nothing to add, or nothing new.
    """
    lines: dict[str, str] = {}
    for line in content.splitlines():
        if line.strip():
            lines.setdefault(line.strip(), line.rstrip())
    if not lines:
        raise ConfigError("There is no content to append. Nothing was changed.")
    existing = {line.strip() for line in text.splitlines()}
    new = [line for words, line in lines.items() if words not in existing]
    if not new:
        raise ConfigError(f"{label} says that already. Nothing was changed.")
    # A text may end without a line break; the appended lines must not run into its last one.
    joint = "" if not text or text.endswith("\n") else "\n"
    return text + joint + "\n".join(new)


def replace(label: str, text: str, old: str, new: str) -> str:
    """Replace the only occurrence of `old` by `new`; a whole line that becomes empty is removed.

    Raises:
        ConfigError: `old` is empty, is not there, is there more than once, or is the same as `new`.
    """
    if not old:
        raise ConfigError("There is no old content to replace. Nothing was changed. Use append to add text.")
    if old == new:
        raise ConfigError("Old and new content are the same. Nothing was changed.")
    first = text.find(old)
    if first < 0:
        raise ConfigError(
            f"“{short(old)}” is not in {label}. Nothing was changed. Copy the old content letter by letter."
        )
    # From the next character, not from the end of the match: overlapping occurrences are ambiguous too.
    if text.find(old, first + 1) >= 0:
        raise ConfigError(
            f"“{short(old)}” is more than once in {label}. Nothing was changed. Give more of the text around it."
        )
    before, after = text[:first], text[first + len(old) :]
    if not new:
        begins, ends = not before or before.endswith("\n"), not after or after.startswith("\n")
        # A line break is removed with a whole line: the one behind it, or at the end of the text the one before it.
        if begins and ends:
            return before + after[1:] if after else before[:-1]
    return before + new + after


def replace_all(label: str, text: str, old: str, new: str) -> str:
    """Replace every occurrence of `old` by `new`. Raises as `replace` does, but for several occurrences.

    >>> replace_all("Human", "tea, then tea", "tea", "coffee")
    'coffee, then coffee'
    """
    if old and old != new and text.count(old) > 1:
        return text.replace(old, new)
    return replace(label, text, old, new)


def insert(label: str, text: str, new: str, line: int) -> str:
    """Return the text with `new` inserted as separate lines after line `line`; 0 puts them first, `END` last.

    Raises:
        ConfigError: there is no such line, or nothing to insert.
    """
    if not new.strip():
        raise ConfigError("There is no text to insert. Nothing was changed.")
    # An empty text has no lines; `split` would give one.
    lines = text.split("\n") if text else []
    if line != END and not 0 <= line <= len(lines):
        raise ConfigError(
            f"{label} has {len(lines)} lines, so there is no line {line}. Nothing was changed. "
            f"Use 0 to {len(lines)}, or {END} for the end."
        )
    place = len(lines) if line == END else line
    return "\n".join([*lines[:place], new.strip("\n"), *lines[place:]])


def rethink(label: str, text: str, new: str) -> str:
    """Return `new`, stripped, as the whole text.

    Raises:
        ConfigError: it is the same as the present text.
    """
    new = new.strip()
    if new == text.strip():
        raise ConfigError(f"{label} says that already. Nothing was changed.")
    return new


def check(label: str, before: str, after: str, *, read_only: bool, limit: int | None) -> None:
    """Check that an agent may change a block's text from `before` to `after`; `limit` is in characters.

    A text that is above the limit already, because a person wrote it or lowered the limit, may become shorter.

    Raises:
        ConfigError: the block is read only for agents, or the text would be empty or too long.
    """
    if read_only:
        raise ConfigError(f"{label} is read only. Nothing was changed.")
    if before.strip() and not after.strip():
        raise ConfigError(f"{label} would be empty. Nothing was changed. Replace what is wrong instead.")
    if limit is not None and len(after) > limit and len(after) >= len(before):
        too_long = f"{label} would have {len(after):,} characters; its limit is {limit:,}."
        raise ConfigError(f"{too_long} Nothing was changed. Shorten it first.")


def short(text: str, most: int = QUOTED) -> str:
    """Return a text on one line, truncated to this many characters."""
    return shortened(" ".join(text.split()), most)

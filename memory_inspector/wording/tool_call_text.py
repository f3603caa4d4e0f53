"""A memory tool call in words: in the chat as it happened, in the log as a sentence. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memory_inspector.wording.formatting import count, short

SHOWN = 120
"""Maximum characters shown of a text that was written or searched for."""

_ICONS = {
    "archival_memory_insert": "archive",
    "archival_memory_search": "search",
    "conversation_search": "search",
}


@dataclass(frozen=True, slots=True)
class Told:
    """A call in one line."""

    icon: str
    """Name of a Material icon."""
    text: str
    """Plain text, unescaped; the caller that draws it must escape it."""
    refused: bool = False
    wrote: bool = False
    """True if the call changed memory."""


def arguments_of(stored: str | None) -> Mapping[str, Any]:
    """Arguments as stored in the log; empty if they are not a JSON object, or were erased."""
    try:
        decoded = json.loads(stored or "{}")
    except ValueError:
        return {}
    return decoded if isinstance(decoded, dict) else {}


def pretty_json(text: str) -> str | None:
    """A JSON object or array with line breaks and indents; None if the text is neither.

    Only whitespace is changed: if serialising it again would change more (`1.10`, an escape, a repeated name), the text
    is returned unchanged.

    >>> print(pretty_json('{"a": [1, 2]}'))
    {
      "a": [
        1,
        2
      ]
    }
    """
    # Only objects and arrays gain from line breaks; a bare number or string would parse as well.
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        written = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    # Deeply nested JSON exceeds the recursion limit of the parser.
    except (ValueError, RecursionError):
        return None
    return written if "".join(written.split()) == "".join(text.split()) else text


def chat_line(tool: str, arguments: Mapping[str, Any], result: str | None, *, refused: bool) -> Told:
    """A call as shown in the conversation: its outcome, and the words that were written or searched for.

    >>> said = "Appended to Human. It has 18 characters."
    >>> chat_line("core_memory_append", {"content": "Sam lives in Porto"}, said, refused=False).text
    'Appended to Human: Sam lives in Porto'
    """
    if result is None:
        return Told("hourglass_empty", "Called a memory tool; no result was stored")
    if refused:
        return Told("block", f"Refused: {_flat(result, 240)}", refused=True)
    # The first sentence of a result names the block; searches and the archive have a wording of their own.
    done = result.partition(".")[0] if tool not in _ICONS else ""
    icon = _ICONS.get(tool, "edit_note")
    if tool in ("core_memory_replace", "memory_replace"):
        was, now = ("old_content", "new_content") if tool.startswith("core") else ("old_string", "new_string")
        old, new = _quoted(arguments, was), _quoted(arguments, now)
        became = f"{old} → {new}" if arguments.get(now) else f"{old} deleted"
        return Told(icon, f"{done}: {became}", wrote=True)
    if tool == "archival_memory_insert":
        return Told(icon, f"Archived: {_flat(arguments.get('content', ''))}", wrote=True)
    if tool in _ICONS:
        where = "the conversation" if tool == "conversation_search" else "the archive"
        first_line = result.splitlines()[0].rstrip(":.") if result else "Found nothing"
        return Told(icon, f"Searched {where} for {_quoted(arguments, 'query')}. {first_line}")
    # Tools name what they write differently; a call holds one of these.
    written = next((arguments[name] for name in ("content", "new_string", "new_memory") if name in arguments), "")
    return Told(icon, f"{done}: {_flat(written)}", wrote=True)


def log_line(tool: str, block: str | None, arguments: Mapping[str, Any], result: str | None, *, refused: bool) -> Told:
    """A call as a sentence of the log: the action, its size, and the block."""
    named = short(block) if block else "its memory"
    if refused:
        why = f": {_flat(result, 240).rstrip('.')}" if result else ""
        return Told("block", f"Refused a change by the agent to {named}{why}", refused=True)

    def size(name: str) -> str:
        # Erased arguments are missing, and a model may have sent something else than text.
        value = arguments.get(name)
        return count(len(value), "character") if isinstance(value, str) else "text"

    sentences = {
        "core_memory_append": f"appended {size('content')} to {named}",
        "core_memory_replace": f"replaced {size('old_content')} in {named} by {size('new_content')}",
        "memory_replace": f"replaced {size('old_string')} in {named} by {size('new_string')}",
        "memory_insert": f"inserted {size('new_string')} into {named}",
        "memory_rethink": f"rewrote {named}: {size('new_memory')}",
        "archival_memory_insert": f"archived {size('content')} in {named}",
        "archival_memory_search": f"searched {named} for {_quoted(arguments, 'query')}",
        "conversation_search": f"searched the conversation for {_quoted(arguments, 'query')}",
    }
    return Told(_ICONS.get(tool, "edit_note"), f"The agent {sentences.get(tool, 'called a tool')}")


def _flat(words: object, most: int = SHOWN) -> str:
    return short(" ".join(str(words).split()), most)


def _quoted(arguments: Mapping[str, Any], name: str) -> str:
    return f"“{_flat(arguments[name], 60)}”" if name in arguments else "something erased since"

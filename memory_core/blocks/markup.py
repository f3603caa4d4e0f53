"""How stored pieces stand in the memory section. Pure: reading uses it, and so does who rebuilds a past context."""

import re
from collections.abc import Callable, Iterable
from typing import Literal

from memory_core.messages import ChatMessage, Part, TextPart, message_text
from memory_core.planning.speech import date_line, parse_message

Layout = Literal["lines", "messages"]
"""How stored units stand in a prompt: a date line and `Ana: words`, or LlamaIndex's `<message>` elements."""

UNDATED = "no date"
"""The line above units of an episode that came with no time, where others came with one."""

_BREAK = re.compile(r"\r\n|[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]")
_SET_IN = "\n "

Safe = Callable[[str], str]
"""Makes a text harmless inside the memory section (see `memory_core.planning.rendering.neutralise`)."""


def fact_parts(text: str, safe: Safe) -> tuple[Part, ...]:
    """A fact."""
    return (TextPart(text=f"<fact>{safe(text)}</fact>"),)


def relation_parts(text: str, safe: Safe) -> tuple[Part, ...]:
    """A relation in words: `Alice manages Project Alpha`."""
    return (TextPart(text=f"<relation>{safe(text)}</relation>"),)


def turn_parts(messages: Iterable[ChatMessage], safe: Safe) -> tuple[Part, ...]:
    """A stored turn: a line for each message that has words."""
    lines = [
        f"<message role='{message.role}'>{safe(text)}</message>"
        for message in messages
        if (text := message_text(message))
    ]
    return (TextPart(text="\n".join(lines)),)


def static_parts(content: str | tuple[Part, ...], safe: Safe) -> tuple[Part, ...]:
    """The content of a static block."""
    parts = (TextPart(text=content),) if isinstance(content, str) else content
    return tuple(TextPart(text=safe(part.text)) if isinstance(part, TextPart) else part for part in parts)


def line_parts(messages: Iterable[ChatMessage], safe: Safe) -> tuple[Part, ...]:
    """A stored unit in few tokens: `Ana: words` for each message that has words, `user` where there is no name.

    Further lines of a message are set in by a blank, so that no text can pose as a line of somebody else.
    """
    lines = []
    for message in messages:
        said = parse_message(message)
        if said.words:
            label = safe(said.speaker) if said.speaker else str(message.role)
            lines.append(f"{label}: {_BREAK.sub(_SET_IN, safe(said.words))}")
    return (TextPart(text="\n".join(lines)),)


def day_parts(messages: Iterable[ChatMessage], safe: Safe) -> tuple[Part, ...]:
    """The date line above stored units: the day of the first message that came with a time."""
    dated = next((said for message in messages if (said := parse_message(message)).when), None)
    return (TextPart(text=safe(date_line(dated)) if dated is not None else UNDATED),)

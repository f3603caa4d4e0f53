"""Markup of stored pieces in the memory section. Pure: used for reading, and for rebuilding a past context."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from memory_core.messages import ChatMessage, Part, TextPart, message_text
from memory_core.planning.speakers import date_line, parse_message

Layout = Literal["lines", "messages"]
"""Layout of stored units in a prompt: a date line and `Ana: words`, or LlamaIndex's `<message>` elements."""

SPACED = ", spaced"
"""End of the recorded name of a layout with a blank line between turns; earlier versions had none."""

UNDATED = "no date"
"""Date line of units without a time, if other units have one."""

# Every character that may be shown as a line break, including the vertical tab and U+2028.
_BREAK = re.compile(r"\r\n|[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]")
_SET_IN = "\n "

Safe = Callable[[str], str]
"""Function that escapes markup in a text for the memory section (see `memory_core.planning.rendering.neutralise`)."""


def fact_parts(text: str, safe: Safe, mark: str = "") -> tuple[Part, ...]:
    """Return the parts of a fact; `mark` as for `turn_parts`."""
    return (TextPart(text=f"<fact>{safe(text)}{_former(mark, safe)}</fact>"),)


def relation_parts(text: str, safe: Safe, mark: str = "") -> tuple[Part, ...]:
    """Return the parts of a relation in words: `Alice manages Project Alpha`; `mark` as for `turn_parts`."""
    return (TextPart(text=f"<relation>{safe(text)}{_former(mark, safe)}</relation>"),)


def turn_parts(messages: Sequence[ChatMessage], safe: Safe, marks: Sequence[str] = ()) -> tuple[Part, ...]:
    """Return the parts of a stored unit: a `<message>` line for each message with words.

    `marks`: text after the words of each message, empty for most (see `planning.former_values`).
    """
    lines = [
        f"<message role='{message.role}'>{safe(text)}{_former(mark, safe)}</message>"
        for message, mark in _with_marks(messages, marks)
        if (text := message_text(message))
    ]
    return (TextPart(text="\n".join(lines)),)


def _with_marks(messages: Sequence[ChatMessage], marks: Sequence[str]) -> list[tuple[ChatMessage, str]]:
    return list(zip(messages, marks or [""] * len(messages), strict=True))


def marked_text(text: str, mark: str) -> str:
    """Return a text with its mark, as it is shown and counted."""
    return f"{text} ({mark})" if mark else text


def _former(mark: str, safe: Safe) -> str:
    """Return a mark as a `<former>` element on one line, which no text can imitate; empty without a mark."""
    return f" <former>{_BREAK.sub(' ', safe(mark))}</former>" if mark else ""


def sentence_parts(text: str, safe: Safe, mark: str = "") -> tuple[Part, ...]:
    """Return the parts of a sentence of a summary; `mark` as for `turn_parts`."""
    return (TextPart(text=f"{safe(text)}{_former(mark, safe)}"),)


def static_parts(content: str | tuple[Part, ...], safe: Safe) -> tuple[Part, ...]:
    parts = (TextPart(text=content),) if isinstance(content, str) else content
    return tuple(TextPart(text=safe(part.text)) if isinstance(part, TextPart) else part for part in parts)


def line_parts(messages: Sequence[ChatMessage], safe: Safe, marks: Sequence[str] = ()) -> tuple[Part, ...]:
    """Return the compact parts of a stored unit: `Ana: words` for each message with words, `user` without a name.

    Further lines of a message are indented by a blank, so that no text can pose as another speaker's line. `marks` as
    for `turn_parts`.
    """
    lines = []
    for message, mark in _with_marks(messages, marks):
        parsed = parse_message(message)
        if parsed.words:
            # The name came with the message, so its markup is escaped like the words.
            label = safe(parsed.speaker) if parsed.speaker else str(message.role)
            lines.append(f"{label}: {_BREAK.sub(_SET_IN, safe(parsed.words))}{_former(mark, safe)}")
    return (TextPart(text="\n".join(lines)),)


def unit_words(messages: Sequence[ChatMessage], marks: Sequence[str] = ()) -> str:
    """Return the text of a stored unit as it is shown and counted, with its marks."""
    texts = ((message_text(message), mark) for message, mark in _with_marks(messages, marks))
    return "\n".join(marked_text(text, mark) for text, mark in texts if text)


def unit_parts(
    messages: Sequence[ChatMessage], safe: Safe, layout: Layout, marks: Sequence[str] = ()
) -> tuple[Part, ...]:
    """Return the prompt parts of one stored unit; with the layout `lines`, below a date line if the unit has a date."""
    if layout != "lines":
        return turn_parts(messages, safe, marks)
    lines = line_parts(messages, safe, marks)
    dated = any(parse_message(message).when for message in messages)
    return (*day_parts(messages, safe), *lines) if dated else lines


def day_parts(messages: Iterable[ChatMessage], safe: Safe) -> tuple[Part, ...]:
    """Return the parts of a date line: the day of the first message with a time."""
    dated = next((parsed for message in messages if (parsed := parse_message(message)).when), None)
    return (TextPart(text=safe(date_line(dated)) if dated is not None else UNDATED),)

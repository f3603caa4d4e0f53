"""Render stored pieces and the memory section of a context, and insert it into the messages. Pure text work.

The markup is LlamaIndex's: `<memory>`, one element per block, named after it. Texts of users and
models are untrusted, so one that would open or close such an element is neutralised. A section
that was sent is recognised, by its exact text, when an agent hands it back.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from memory_core.messages import ChatMessage, MessageRole, Part, TextPart, content_hash, message_text
from memory_core.planning.speakers import date_line, parse_message


class InsertMethod(StrEnum):
    """Position of the memory section: the first system message, or the latest user message."""

    SYSTEM = "system"
    USER = "user"


_END = "\n</memory>"


@dataclass(frozen=True, slots=True)
class Section:
    """Contribution of one block to the memory section, in order."""

    name: str
    parts: tuple[Part, ...]


def render_memory(sections: Sequence[Section]) -> tuple[Part, ...]:
    """Return the memory section as parts: one text, or several with images between them.

    >>> render_memory([Section("core_info", (TextPart(text="My name is Logan."),))])[0].text
    '<memory>\\n<core_info>\\nMy name is Logan.\\n</core_info>\\n</memory>'
    """
    if not sections:
        return ()
    parts: list[Part] = []
    lines = ["<memory>"]
    for section in sections:
        lines.append(f"<{section.name}>")
        for part in section.parts:
            if isinstance(part, TextPart):
                lines.append(part.text)
            else:
                # An image is a part of its own, so the text before it ends there.
                parts += [TextPart(text="\n".join(lines)), part]
                lines = []
        lines.append(f"</{section.name}>")
    lines.append("</memory>")
    return (*parts, TextPart(text="\n".join(lines)))


def insert_memory(messages: Sequence[ChatMessage], memory: tuple[Part, ...], method: InsertMethod) -> list[ChatMessage]:
    """Insert the memory section in front of the parts of the first system message, or of the
    latest user message. If there is none, add a new system message first, or a user message last."""
    if not memory:
        return list(messages)
    role = MessageRole.SYSTEM if method is InsertMethod.SYSTEM else MessageRole.USER
    places = [index for index, message in enumerate(messages) if message.role is role]
    result = list(messages)
    if not places:
        new = ChatMessage(role=role, parts=memory)
        return [new, *result] if role is MessageRole.SYSTEM else [*result, new]
    # Of user messages the latest one: the section was read for its question.
    index = places[0] if role is MessageRole.SYSTEM else places[-1]
    result[index] = result[index].with_parts((*memory, *result[index].parts))
    return result


def neutralise(text: str, names: Iterable[str]) -> str:
    """Return the text with `<` as `&lt;` wherever it would open or close one of these elements.

    >>> neutralise("a < b </facts></memory>", ["facts"])
    'a < b &lt;/facts>&lt;/memory>'
    """
    if "<" not in text:
        return text
    # The elements inside of blocks too, or a text could close its fact and open another one.
    words = "|".join(re.escape(name) for name in {"memory", "fact", "relation", "message", "former", *names})
    # Not `\b`: a name may end in a character that is no letter, such as `C++`.
    return re.sub(rf"<(?=\s*/?\s*(?:{words})(?!\w))", "&lt;", text, flags=re.IGNORECASE)


def neutralise_message(message: ChatMessage, names: Iterable[str]) -> ChatMessage:
    """Return the message as it is safe in a context: with memory tags escaped, so that no text poses as a section."""
    if not any(isinstance(part, TextPart) and "<" in part.text for part in message.parts):
        return message
    pattern_names = list(names)
    parts = [
        TextPart(text=_without_memory_tags(part.text, pattern_names)) if isinstance(part, TextPart) else part
        for part in message.parts
    ]
    # The same object if nothing was escaped: callers count the changed messages by identity.
    return message if tuple(parts) == message.parts else message.with_parts(parts)


def _without_memory_tags(text: str, names: list[str]) -> str:
    # Only where a whole section could be forged: other markup in a message is the user's own.
    return neutralise(text, names) if re.search(r"<\s*/?\s*memory\b", text, re.IGNORECASE) else text


def section_hash(memory: tuple[Part, ...]) -> str:
    """Return the hash by which a section is recognised when an agent hands it back."""
    return content_hash("\x00".join(part.text for part in memory if isinstance(part, TextPart)))


def strip_memory(message: ChatMessage, went_out: Callable[[str], bool]) -> ChatMessage:
    """Return the message without the memory section at its start, if `went_out(hash)` says that it was sent.

    A section is handed back as separate parts, or joined to the message's text by a line break. Its
    text cannot contain its end tag (see `neutralise`), so only the first end tag is looked at.
    """
    parts = message.parts
    first = parts[0] if parts else None
    if not isinstance(first, TextPart) or not first.text.startswith("<memory>"):
        return message
    ends = (index for index, part in enumerate(parts) if isinstance(part, TextPart) and _END in part.text)
    last = next(ends, None)
    if last is None:
        return message
    # Handed back as the parts it was sent as.
    if went_out(section_hash(parts[: last + 1])):
        return message.with_parts(parts[last + 1 :])
    # Handed back as one text, joined with the message's own words behind it.
    words, _, rest = first.text.partition(_END)
    if last == 0 and went_out(section_hash((TextPart(text=words + _END),))):
        rest = rest.removeprefix("\n")
        return message.with_parts([TextPart(text=rest), *parts[1:]] if rest else parts[1:])
    # It looks like a section, but none went out with these words: they are the user's own.
    return message


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

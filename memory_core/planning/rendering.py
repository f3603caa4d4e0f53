"""Render the memory section of a context, and insert it into the messages. Pure text work.

The markup is LlamaIndex's: `<memory>`, one element per block, named after it. Texts of users and
models are untrusted, so one that would open or close such an element is neutralised. A section
that was sent is recognised, by its exact text, when an agent hands it back.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from memory_core.messages import ChatMessage, MessageRole, Part, TextPart, content_hash


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

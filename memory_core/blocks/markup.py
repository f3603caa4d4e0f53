"""How stored pieces stand in the memory section. Pure: reading uses it, and so does who rebuilds a past context."""

from collections.abc import Callable, Iterable

from memory_core.messages import ChatMessage, Part, TextPart, message_text

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

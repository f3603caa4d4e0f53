"""Read a program's message (a `ChatMessage`, a mapping or an object of a client library) as `ChatMessage`s."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from memory_core.errors import MessageError
from memory_core.formats.any_message import as_chat
from memory_core.formats.llamaindex_message import message_from_llamaindex
from memory_core.formats.openai_message import messages_from_openai
from memory_core.messages import ChatMessage

_SAYS = ("content", "parts", "tool_calls", "function_call", "refusal", "reasoning_content", "audio")
"""Fields with content: a mapping without any of them is not a message."""


@runtime_checkable
class Dumped(Protocol):
    """Pydantic object, as client libraries return it."""

    def model_dump(self) -> dict[str, Any]: ...


GivenMessage = ChatMessage | Mapping[str, Any] | Dumped
"""Input of `Memory.put`. A whole chat completion is read as the message of its only choice."""


def as_messages(value: Any) -> list[ChatMessage]:
    """Return the message that a program passed, and one more for each tool result in it.

    Raises:
        MessageError: it is no message, has an unknown role or several choices, or a part that cannot be kept.
    """
    if isinstance(value, ChatMessage):
        return [value]
    # A class has the method too, but only an object can be dumped. The protocol is asked last, as it takes longest.
    dumped = type(value) is not dict and not isinstance(value, type) and isinstance(value, Dumped)
    data = value.model_dump() if dumped else value
    if not isinstance(data, Mapping):
        raise MessageError(
            f"a message must be a ChatMessage, a mapping with role and content, or an answer of the openai client, "
            f"not {_full_name(type(value))}"
        )
    data = dict(data)
    if isinstance(choices := data.get("choices"), list):
        # Storing the first of several could record an answer that the program did not use.
        if len(choices) != 1:
            raise MessageError(f"this answer has {len(choices)} choices: put the message of the one that was used")
        return as_messages(choices[0])
    if isinstance(data.get("message"), Mapping) and "role" not in data:
        return as_messages(data["message"])
    if "blocks" in data:
        # In JSON's types: otherwise files are bytes, and addresses objects.
        message, notes = message_from_llamaindex(value.model_dump(mode="json") if dumped else data)
        # A program can correct its message now; an import, by contrast, keeps the notes and goes on.
        if notes:
            raise MessageError(f"this message cannot be kept as it is: {notes[0]}")
        return [message]
    chat = as_chat(data)
    messages = messages_from_openai(chat)
    # Without this check a misspelled field would store an empty message.
    if not any(field in chat for field in _SAYS):
        named = ", ".join(f'"{key}"' for key in data if key != "role") or "nothing else"
        raise MessageError(f'this message has a role and {named}, but no "content" and no "tool_calls"')
    return messages


def _full_name(cls: type) -> str:
    return cls.__name__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__name__}"

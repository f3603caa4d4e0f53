"""Read a message in the form of any library, service or export in use, or as a program passes it, as `ChatMessage`s.

The form is detected by its fields. Fields beyond OpenAI's are mapped to OpenAI's first, so that content
and calls are read in one place (`content`, `openai_message`).
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from memory_core.errors import MessageError
from memory_core.formats.framework_messages import framework_entries, unread_of_framework
from memory_core.formats.llamaindex_message import message_from_llamaindex
from memory_core.formats.openai_message import MESSAGE_FIELDS, messages_from_openai
from memory_core.messages import ChatMessage, seconds_of, storable, timed

_LANGCHAIN = {
    "human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "function", "chat": "chat",
    "developer": "developer",
}  # fmt: skip
"""Role by the `type` of a LangChain message."""
_CLASSES = {"HumanMessage": "human", "AIMessage": "ai", "SystemMessage": "system", "ToolMessage": "tool"}
TIMES = ("create_time", "created_at", "createdAt", "timestamp")
"""Fields in which exports write the time of a message, in order of preference."""
_FILED = frozenset({"id", "uuid", "updated_at", "updatedAt", "update_time", "metadata", *TIMES})
"""Fields under which exports file a message, in forms other than OpenAI's: nobody's words."""
_READ_OF_LANGCHAIN = _FILED | {
    "type", "role", "content", "name", "tool_call_id", "tool_calls", "invalid_tool_calls", "additional_kwargs",
    "response_metadata", "usage_metadata", "example", "status",
}  # fmt: skip
_READ_OF_CHATGPT = _FILED | {"author", "content", "recipient", "status", "end_turn", "weight", "channel"}
_READ_OF_CLAUDE = _FILED | {
    "sender", "text", "content", "attachments", "parent_message_uuid", "index", "truncated",
    # LibreChat's
    "messageId", "parentMessageId", "conversationId", "isCreatedByUser", "children", "_id", "__v", "user", "endpoint",
    "model", "unfinished", "error", "tokenCount", "finish_reason", "isEdited", "iconURL",
}  # fmt: skip
_READ = MESSAGE_FIELDS | {"blocks", "text", "additional_kwargs", *TIMES}


def read_messages(data: Any, *, other_as_text: bool = False) -> list[ChatMessage]:
    """Return the message that a conversation's entry holds, and one more for each tool result in it.

    A message with an unknown role is read as the assistant's, with the role as its name; `other_as_text` as in
    `messages_from_openai`. Characters that cannot be stored become U+FFFD.

    >>> [(str(message.role), message.content) for message in read_messages({"from": "human", "value": "Hello"})]
    [('user', 'Hello')]

    Raises:
        MessageError: the entry is of no known form.
    """
    data, _ = storable(data)
    # LlamaIndex's own form is read directly, as it has more fields than OpenAI's.
    if isinstance(data, Mapping) and isinstance(data.get("blocks"), list) and "role" in data:
        return [message_from_llamaindex(data, any_role=True)[0]]
    entries = framework_entries(data) if isinstance(data, Mapping) else None
    read: list[ChatMessage] = []
    for chat in [as_chat(data)] if entries is None else entries:
        # Some exports call the content `text`, which OpenAI's form has no field for.
        if (
            isinstance(chat, Mapping)
            and isinstance(text := chat.get("text"), str)
            and not {"content", "parts"} & set(chat)
        ):
            chat = {**chat, "content": text}
        messages = messages_from_openai(chat, any_role=True, other_as_text=other_as_text)
        # The time stands beside the message in most exports, so it is read from the entry as it came.
        read += [timed(message, said_at(data) or said_at(chat)) for message in messages]
    return read


def as_chat(data: Any) -> Any:
    """Convert an entry in another library's form to OpenAI's fields; return any other entry unchanged."""
    if not isinstance(data, Mapping):
        return data
    if (fields := langchain_fields(data)) is not None:
        return _from_langchain(fields)
    match data:
        case {"author": {"role": str(role)}, "content": {"content_type": str(kind)} as content}:
            return _from_chatgpt(role, kind, content, data)
        case {"sender": str(sender)} if "text" in data or "content" in data:
            return _from_claude(sender, data)
        case {"from": str(sender)} if "value" in data:
            return _from_sharegpt(sender, data["value"])
        case {"message": {"role": _} as inner} if "role" not in data:
            return inner
    return data


def unread_fields(data: Any) -> list[str]:
    """Return the fields with content of an entry that no reader reads, and that are not what it is filed under.

    >>> unread_fields({"from": "human", "value": "Soup?", "translation": "Suppe?"})
    ['translation']
    """
    if not isinstance(data, Mapping):
        return []
    if (unread := unread_of_framework(data)) is not None:
        return unread
    if (fields := langchain_fields(data)) is not None:
        return _unread(fields, _READ_OF_LANGCHAIN)
    match data:
        case {"author": {"role": str()}, "content": {"content_type": str()}}:
            # Of the metadata, which each message has, only the names of files are something a person sees.
            about = data.get("metadata")
            attached = isinstance(about, Mapping) and bool(about.get("attachments"))
            return [*_unread(data, _READ_OF_CHATGPT), *(["attachments"] if attached else [])]
        case {"sender": str()} if "text" in data or "content" in data:
            return _unread(data, _READ_OF_CLAUDE)
        case {"from": str()} if "value" in data:
            return _unread(data, _FILED | {"from", "value", "weight"})
        case {"message": {"role": _} as inner} if "role" not in data:
            return _unread(inner, _READ)
    return _unread(data, _READ)


def unread_notes(entries: Iterable[Any]) -> list[str]:
    """Return a sentence for each field that no reader reads in some messages."""
    fields = Counter(field for entry in entries for field in unread_fields(entry))
    return [f'"{field}" was not imported ({n} {"message" if n == 1 else "messages"})' for field, n in fields.items()]


def _unread(fields: Mapping[str, Any], read: Collection[str]) -> list[str]:
    return [str(key) for key, content in fields.items() if content and key not in read]


def langchain_fields(data: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the fields of a LangChain message, including `type`, from any of its forms; None for other messages."""
    match data:
        # Serialised by LangChain's `dumps`: the class is the last part of the id.
        case {"lc": _, "id": [*_, str(name)], "kwargs": dict(fields)}:
            return {**fields, "type": _CLASSES.get(name.removesuffix("Chunk"), fields.get("type") or name)}
        # Written by `messages_to_dict`.
        case {"type": str(kind), "data": dict(fields)}:
            return {**fields, "type": kind}
        # A dumped message. Content entries have a type and a content too, so the type must be a known role.
        case {"type": str(kind), "content": _} if "role" not in data and kind.removesuffix("MessageChunk").lower() in (
            _LANGCHAIN
        ):
            return data
    return None


def _from_langchain(fields: Mapping[str, Any]) -> dict[str, Any]:
    kind = str(fields["type"])
    if kind == "remove":
        raise MessageError("it removes another message, and says nothing.")
    # A ChatMessage of LangChain's has any role, in a field of its own.
    role = str(fields.get("role") or kind) if kind == "chat" else kind.removesuffix("MessageChunk").lower()
    older = fields.get("additional_kwargs")
    older = older if isinstance(older, Mapping) else {}
    # A summary by LangChain's middleware poses as the user, whose words would be learned from.
    summary = older.get("lc_source") == "summarization"
    chat: dict[str, Any] = {"role": "system" if summary else _LANGCHAIN.get(role, role)}
    # Older versions kept the endpoint's own fields here; the newer ones below take precedence.
    chat |= {key: older[key] for key in ("tool_calls", "function_call", "reasoning_content") if older.get(key)}
    chat |= {key: fields[key] for key in ("content", "name", "tool_call_id") if fields.get(key) is not None}
    # Calls that LangChain could not parse are calls too: the model made them.
    listed = [fields.get(name) for name in ("tool_calls", "invalid_tool_calls")]
    calls = [call for item in listed if isinstance(item, list) for call in item]
    return chat | ({"tool_calls": calls} if calls else {})


def _from_chatgpt(role: str, kind: str, content: Mapping[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """Read a message of ChatGPT's export; a message to a recipient other than `all` is a call of that tool."""
    parts: Any = content.get("parts")
    # Code, its output and web pages have one text in place of parts.
    if not isinstance(parts, list):
        parts = [content[key] for key in ("text", "result", "content") if isinstance(content.get(key), str)]
    parts = [item if isinstance(item, str) else _chatgpt_part(item) for item in parts]
    # Reasoning must not be read as words of the answer, from which facts might be learned.
    if kind in ("thoughts", "reasoning_recap"):
        thoughts = content.get("thoughts")
        texts = [
            str(thought.get("content") or "")
            for thought in (thoughts if isinstance(thoughts, list) else ())
            if isinstance(thought, Mapping)
        ]
        parts = [{"type": "thinking", "thinking": "\n".join([*texts, *filter(_is_text, parts)])}]
    # What a user told ChatGPT about themselves: their words, though no message.
    if kind == "user_editable_context":
        parts = [content[key] for key in ("user_profile", "user_instructions") if isinstance(content.get(key), str)]
    # ChatGPT's tools are called by a message to them.
    recipient = data.get("recipient")
    if role == "assistant" and isinstance(recipient, str) and recipient != "all":
        text = "\n".join(filter(_is_text, parts))
        return {"role": role, "tool_calls": [{"id": data.get("id"), "name": recipient, "arguments": text}]}
    author = data["author"]
    return {"role": role, "content": parts, "name": author.get("name")}


def _chatgpt_part(part: Any) -> Any:
    if isinstance(part, Mapping) and "type" not in part:
        pointer = part.get("asset_pointer")
        if isinstance(pointer, str) and "image" in str(part.get("content_type")):
            return {"type": "image_url", "image_url": pointer}
        # ChatGPT names the type of a part `content_type`.
        return {"type": part.get("content_type"), **part}
    return part


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _from_claude(sender: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message of Claude's export, with the texts that were pasted as attachments."""
    # `content` has the entries in order; `text` is all that older exports have.
    content_given = data.get("content") or data.get("text")
    attached = data.get("attachments")
    pasted = [
        item["extracted_content"]
        for item in (attached if isinstance(attached, list) else ())
        if isinstance(item, Mapping) and isinstance(item.get("extracted_content"), str)
    ]
    # LibreChat names the model as the sender.
    by_user = data.get("isCreatedByUser")
    return {
        "role": ("user" if by_user else "assistant") if isinstance(by_user, bool) else sender,
        "content": [*(content_given if isinstance(content_given, list) else [content_given]), *pasted],
    }


def _from_sharegpt(sender: str, value: Any) -> dict[str, Any]:
    """Convert a message of ShareGPT or a similar data set, where tool calls have a sender of their own."""
    if sender not in ("function_call", "tool_call"):
        return {"role": sender, "content": value}
    # A call is written as JSON in text; any other text is kept as the assistant's.
    try:
        called = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        called = None
    if isinstance(called, Mapping | list):
        return {"role": "assistant", "tool_calls": called}
    return {"role": "assistant", "content": value}


def said_at(data: Any) -> float | None:
    """Return the time of an entry in seconds since 1970; None if it has none."""
    # Exports write null where no time is known.
    value = next((data[key] for key in TIMES if data.get(key)), None) if isinstance(data, Mapping) else None
    return seconds_of(value)


# -- what a program passes -------------------------------------------------------------------------

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

"""Chat messages as JSON, read and written: OpenAI's form and, read, similar ones (Anthropic, Mistral, Gemini, Bedrock).

Values that a message cannot hold are stored unchanged in `additional_kwargs`, under `OTHER`. Any object with a role
is read as a message. Errors do not mention files or lines.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memory_core.errors import MessageError
from memory_core.formats.content import (
    UPLOADED,
    Entry,
    ToolResultContent,
    Unread,
    first_text,
    read_call,
    read_content,
    text_of,
)
from memory_core.messages import (
    ChatMessage,
    FilePart,
    ImagePart,
    MessageRole,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)

MESSAGE_FIELDS = frozenset(
    {"role", "content", "parts", "name", "tool_calls", "tool_call_id", "function_call", "refusal", "audio"}
    | {"reasoning_content", "reasoning"}
)
"""The fields that are read; `reasoning_content` is what DeepSeek and vLLM add, `reasoning` what OpenRouter does."""

OTHER = "other_content"
"""Entry of `additional_kwargs`: a list of the JSON values that no part of a message can hold."""

ITEMS = "openai_items"
"""Entry of `additional_kwargs`: the items of the Responses API that a message was made of, see `openai_items`."""

_KEPT = ("tool_call_id", "name")
"""Entries of `additional_kwargs` that OpenAI's format has a field for."""
_ROLES = {
    "human": MessageRole.USER, "ai": MessageRole.ASSISTANT, "gpt": MessageRole.ASSISTANT, "bot": MessageRole.ASSISTANT,
    "chatgpt": MessageRole.ASSISTANT, "claude": MessageRole.ASSISTANT, "agent": MessageRole.ASSISTANT,
    "aimessagechunk": MessageRole.ASSISTANT, "chat": MessageRole.USER, "instructions": MessageRole.SYSTEM,
    "ipython": MessageRole.TOOL, "observation": MessageRole.TOOL, "environment": MessageRole.TOOL,
    "function_response": MessageRole.TOOL, "tool_response": MessageRole.TOOL,
}  # fmt: skip
"""Role by its lower-case name in other libraries and data sets."""


def message_from_openai(data: Mapping[str, Any]) -> ChatMessage:
    """Read a message of OpenAI's chat format. A message without content has no parts.

    Raises:
        MessageError: it is no message, has an unknown role, or holds several messages, such as one of Anthropic's
        with several tool results.
    """
    messages = messages_from_openai(data)
    if len(messages) != 1:
        raise MessageError(f"this message holds {len(messages)} messages: the results of tools stand in its content.")
    return messages[0]


def messages_from_openai(data: Any, *, any_role: bool = False, other_as_text: bool = False) -> list[ChatMessage]:
    """Return the message that a conversation's entry holds, and one more for each tool result in it.

    `any_role`: an unknown role becomes the assistant's, and its name is stored. `other_as_text`: values that a message
    cannot hold become JSON text in it, as in a prompt that a model read; else they are stored under `OTHER`.

    Raises:
        MessageError: it is no message, or its role is missing or unknown; the text names the field.
    """
    if not isinstance(data, Mapping):
        raise MessageError(f"this is {_kind(data)}, not a message.")
    role, kwargs = _role(data, any_role)
    kwargs |= {key: text for key in _KEPT if (text := first_text(data, key))}
    entries = list(_entries(data))
    results = [entry for entry in entries if isinstance(entry, ToolResultContent)]
    # A message of Anthropic's can hold results and new words; here each result is a message.
    rest = [entry for entry in entries if not isinstance(entry, ToolResultContent)]
    if results and role is MessageRole.TOOL:
        role = MessageRole.USER  # other entries beside results are not results
    messages: list[ChatMessage] = []
    if rest or not results:
        # A result without output still says that its call came back.
        if role is MessageRole.TOOL and kwargs and not rest:
            rest = [TextPart(text="")]
        messages = [_message(role, rest, kwargs, other_as_text)]
    answers = [_of_result(result, other_as_text) for result in results]
    # Results follow the assistant's calls, but come before the words of a user.
    return [*messages, *answers] if role is MessageRole.ASSISTANT else [*answers, *messages]


def _message(
    role: MessageRole, entries: Sequence[Entry], kwargs: Mapping[str, Any], other_as_text: bool
) -> ChatMessage:
    parts: list[Part] = []
    other: list[Any] = []
    for entry in entries:
        if isinstance(entry, Unread) and not other_as_text:
            other.append(entry.value)
        elif isinstance(entry, Unread):
            parts.append(TextPart(text=entry.text))
        elif isinstance(entry, ToolResultContent):  # a result nested in a result
            parts.append(TextPart(text=text_of(entry.content)))
        else:
            parts.append(entry)
    return ChatMessage(parts=parts, role=role, additional_kwargs={**kwargs, **({OTHER: other} if other else {})})


def _of_result(result: ToolResultContent, other_as_text: bool) -> ChatMessage:
    named = {"tool_call_id": result.call_id, "name": result.name}
    kwargs = {key: value for key, value in named.items() if value}
    return _message(MessageRole.TOOL, result.content or [TextPart(text="")], kwargs, other_as_text)


def other_kinds(message: ChatMessage) -> list[str]:
    """Return the kinds of the values that a message stores beside its parts."""
    other, items = (message.additional_kwargs.get(name) for name in (OTHER, ITEMS))
    others = list(other) if isinstance(other, list) else []
    others += [item["item"] for item in items if not item["parts"]] if isinstance(items, list) else []
    return [Unread(value).kind for value in others]


def message_to_openai(message: ChatMessage) -> dict[str, Any]:
    """Return a message in OpenAI's chat format, for a file: read back by `message_from_openai`.

    Entries of `additional_kwargs` other than `OTHER` and those in `_KEPT` are left out.
    """
    data: dict[str, Any] = {"role": str(message.role)}
    parts = list(message.parts)
    # Only thinking at the start has a field; elsewhere its place among the parts matters, so it is an entry.
    if parts and isinstance(first := parts[0], ThinkingPart):
        data["reasoning_content"] = first.text
        parts = parts[1:]
    entries = [_entry(part) for part in parts if not isinstance(part, ToolCallPart)]
    entries += message.additional_kwargs.get(OTHER) or ()
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    # A single text is written as plain text, which every reader accepts.
    if len(entries) == len(texts) <= 1:
        data["content"] = texts[0] if texts else None
    else:
        data["content"] = entries
    if message.tool_calls:
        data["tool_calls"] = [
            {"id": call.tool_call_id, "type": "function"}
            | {"function": {"name": call.tool_name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    return data | {key: message.additional_kwargs[key] for key in _KEPT if message.additional_kwargs.get(key)}


def _entry(part: Part) -> dict[str, Any]:
    if isinstance(part, ThinkingPart):
        return {"type": "thinking", "thinking": part.text}
    if isinstance(part, ImagePart):
        return {"type": "image_url", "image_url": {"url": part.url} | ({"detail": part.detail} if part.detail else {})}
    if isinstance(part, FilePart):
        # The form has a field for sound as bytes; any other file goes under `file`.
        head, mark, audio = part.url.partition(";base64,")
        if part.type == "audio" and mark and head.startswith("data:audio/"):
            return {"type": "input_audio", "input_audio": {"data": audio, "format": head.removeprefix("data:audio/")}}
        return {"type": "file", "file": _file(part) | ({"filename": part.title} if part.title else {})}
    return {"type": "text", "text": part.text if isinstance(part, TextPart) else ""}


def _file(part: FilePart) -> dict[str, str]:
    if part.url.startswith(UPLOADED):
        return {"file_id": part.url.removeprefix(UPLOADED)}
    return {"file_data" if part.url.startswith("data:") else "file_url": part.url}


def role_of(name: str) -> MessageRole:
    """Return the role for any library's name of it; an unknown name counts as the assistant's."""
    return _known_role(name) or MessageRole.ASSISTANT


def _known_role(name: str) -> MessageRole | None:
    try:
        return MessageRole(name)
    except ValueError:
        lower = name.lower()
        # `USER` and `Assistant` are the same roles.
        return _ROLES.get(lower) or (MessageRole(lower) if lower in MessageRole.__members__.values() else None)


def _role(data: Mapping[str, Any], any_role: bool) -> tuple[MessageRole, dict[str, Any]]:
    """Return a message's role, and the entry of `additional_kwargs` that keeps the name of an unknown role."""
    if "role" not in data:
        raise MessageError('this message has no "role".')
    value = data["role"]
    if not isinstance(value, str):
        raise MessageError(f"role {_kind(value)} is not known. Use system, user, assistant or tool.")
    if not any_role and _known_role(value) is None:
        raise MessageError(f'role "{value[:40]}" is not known. Use system, user, assistant or tool.')
    return role_and_name(value)


def role_and_name(name: str) -> tuple[MessageRole, dict[str, Any]]:
    """Return the role as `role_of` does, and the `additional_kwargs` that keep the name of an unknown role."""
    return role_of(name), {} if _known_role(name) else {"role": name[:100]}


def _entries(data: Mapping[str, Any]) -> Iterator[Entry]:
    """Yield a message's reasoning, content, refusal and calls, in this order."""
    if thinking := first_text(data, "reasoning_content", "reasoning"):
        yield ThinkingPart(text=thinking)
    content = data.get("content")
    # Gemini writes `parts` for content.
    entries = read_content(data.get("parts") if content is None else content)
    calls = list(_calls(data))
    listed = {(call.tool_call_id, call.tool_name) for call in calls if isinstance(call, ToolCallPart)}
    for entry in entries:  # LangChain and some proxies name a call in both places
        if not (isinstance(entry, ToolCallPart) and (entry.tool_call_id, entry.tool_name) in listed):
            yield entry
    if refusal := first_text(data, "refusal"):
        yield TextPart(text=refusal)
    audio = data.get("audio")
    # A spoken answer has no content but its transcript.
    if not entries and isinstance(audio, Mapping) and (transcript := first_text(audio, "transcript")):
        yield TextPart(text=transcript)
    yield from calls


def _calls(data: Mapping[str, Any]) -> Iterator[Entry]:
    value = data.get("tool_calls")
    for entry in value if isinstance(value, list | tuple) else [value] if value else ():
        yield read_call(entry) or Unread(entry)
    # The form from before `tool_calls`.
    if (legacy := data.get("function_call")) is not None:
        yield read_call(legacy) or Unread({"function_call": legacy})


def _kind(value: Any) -> str:
    """Return the name of a JSON value's type, for a sentence."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "a list" if isinstance(value, list) else "an object"


# -- as the messages of a request ------------------------------------------------------------------

_NAME = re.compile(r"[^A-Za-z0-9_-]")
"""Characters that endpoints refuse in the name of a tool."""


def to_openai(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    """Convert `messages` to the form of chat completions.

    Of `additional_kwargs` only the id of the call that a tool result answers is sent. Thinking is not sent.
    A call without an id gets one; a call whose result is missing gets a result that says so, and a result
    whose call is missing becomes a user message, because endpoints refuse both.
    """
    sent: list[dict[str, Any]] = []
    open_calls: list[str] = []  # ids whose results have not come yet
    for index, message in enumerate(messages):
        if message.role is MessageRole.TOOL:
            text = message.content or ""
            # A result without an id answers the oldest open call.
            answered = message.tool_call_id or (open_calls[0] if open_calls else None)
            if answered in open_calls:
                open_calls.remove(answered)
                sent.append({"role": "tool", "tool_call_id": answered, "content": text})
            else:
                # Results have to follow their calls at once, so all open ones are closed before a user message.
                sent += _missing_results(open_calls)
                sent.append({"role": "user", "content": f"Result of a tool:\n{text}"})
            continue
        # Any other message ends the round of results.
        sent += _missing_results(open_calls)
        entry: dict[str, Any] = {"role": str(message.role), "content": _content(message)}
        if message.role is MessageRole.ASSISTANT and message.tool_calls:
            calls = [
                {
                    # Unique by message and place, as endpoints match results to calls by id.
                    "id": call.tool_call_id or f"call_{index}_{number}",
                    "type": "function",
                    "function": {"name": _NAME.sub("_", call.tool_name)[:64] or "unknown", "arguments": _object(call)},
                }
                for number, call in enumerate(message.tool_calls)
            ]
            entry["tool_calls"] = calls
            # OpenAI's own messages with calls have null in place of an empty text.
            entry["content"] = entry["content"] or None
            open_calls += [str(call["id"]) for call in calls]
        sent.append(entry)
    return sent + _missing_results(open_calls)


def _object(call: ToolCallPart) -> str:
    """Return a call's arguments as the text of a JSON object, as endpoints refuse anything else."""
    return json.dumps({"arguments": call.tool_kwargs}) if isinstance(call.tool_kwargs, str) else call.arguments


def _missing_results(open_calls: list[str]) -> list[dict[str, Any]]:
    results = [{"role": "tool", "tool_call_id": call, "content": "No result was recorded."} for call in open_calls]
    open_calls.clear()
    return results


def _content(message: ChatMessage) -> str | list[dict[str, Any]]:
    """Plain text, or a list of parts where a user message holds an image."""
    parts: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, TextPart):
            parts.append({"type": "text", "text": part.text})
        elif isinstance(part, ImagePart):
            image = {"url": part.url} | ({"detail": part.detail} if part.detail else {})
            parts.append({"type": "image_url", "image_url": image})
        # Not every endpoint reads files, but the model should know that there was one.
        elif isinstance(part, FilePart):
            parts.append({"type": "text", "text": f"[{part.type}: {part.title or 'untitled'}, not shown to the model]"})
    # Endpoints take pictures from the user alone.
    if message.role is MessageRole.USER and any(part["type"] == "image_url" for part in parts):
        return parts
    return "\n".join(part.get("text", "[image, not shown to the model]") for part in parts)

"""Messages of a model's call as spans write them, in any of the conventions' forms. Pure.

What has no place in a message, as a kind of part that came up later, stands in it as its JSON: the model read it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from memory_core.errors import MessageError
from memory_core.messages import (
    ChatMessage,
    FilePart,
    ImagePart,
    MessageRole,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    decode_arguments,
)

EVENTS = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
    "gen_ai.choice": "assistant",
}
"""Roles of the events that held one message each, before version 1.37 of the conventions."""

_ROLES = {"human": "user", "ai": "assistant"}
"""LangChain's names."""

MAX_STEPS = 16
"""Steps in the name of a value that was written out; OpenInference has eight."""

_FILES = {"audio": "audio", "video": "video"}


def decoded(value: Any) -> Any:
    """A structured value, also where it was written as JSON text.

    Raises:
        MessageError: it begins like JSON and is none, as what was cut off at a limit of the exporter.
    """
    if not isinstance(value, str) or value.lstrip()[:1] not in ("[", "{"):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise MessageError("is JSON that was cut off: leave OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT unset") from None


def messages_of(given: Any, role: str) -> list[ChatMessage]:
    """Messages of an attribute; `role` is that of one that names none.

    Raises:
        MessageError: it holds no messages.
    """
    return [message for entry in _each(given, "messages") for message in _messages(entry, role)]


def instructions(given: Any) -> list[ChatMessage]:
    """The system message that instructions are, given beside the messages; none for empty ones.

    Raises:
        MessageError: they are no text and no parts.
    """
    parts = [part for entry in _each(given, "instructions") if (part := _part(entry)) is not None]
    return [ChatMessage(parts=parts, role=MessageRole.SYSTEM)] if parts else []


def _each(given: Any, what: str) -> list[Any]:
    """The entries of an attribute, which may be a single one."""
    entries = decoded(given)
    if isinstance(entries, str | Mapping):
        return [entries]
    if not isinstance(entries, list):
        raise MessageError(f"holds no {what}")
    return entries


def messages_of_events(events: Iterable[tuple[str, Mapping[str, Any]]], *, said: bool) -> list[ChatMessage]:
    """Messages that stand in events of their own: the answer's (`said`) or the prompt's."""
    return [
        message
        for name, attributes in events
        if name in EVENTS and (name == "gen_ai.choice") == said
        for message in _messages(_of_event(attributes), EVENTS[name])
    ]


def _of_event(attributes: Mapping[str, Any]) -> Any:
    """A message of an event, whose body was written as attributes, objects of it as JSON."""
    body = {name: _objects(value) for name, value in attributes.items()}
    inner = body.get("message")
    return inner if isinstance(inner, Mapping) else body if inner is None else {**body, "content": inner}


def _objects(value: Any) -> Any:
    """Objects that were written as JSON; any other text is what somebody said."""
    try:
        found = decoded(value)
    except MessageError:
        return value
    inside = found if isinstance(found, list) else [found]
    return found if inside and all(isinstance(each, Mapping) for each in inside) else value


def _messages(entry: Any, role: str) -> Iterator[ChatMessage]:
    """One message; of results of tools that stand together, one each, as they are told apart by their ids."""
    if isinstance(entry, str):
        entry = {"content": entry}
    if not isinstance(entry, Mapping):
        raise MessageError("holds no messages")
    entry = entry.get("message", entry) if isinstance(entry.get("message"), Mapping) else entry
    role = _ROLES.get(own := str(entry.get("role") or role), own)
    parts: list[Part] = []
    for each in _entries(entry):
        if isinstance(each, Mapping) and (each.get("type") == "tool_call_response" or "toolResult" in each):
            yield _result(each)
            role = "user" if role == "tool" else role  # what else stands with results is none
        elif (part := _part(each)) is not None:
            parts.append(part)
    parts += [_call(call) for call in _listed(entry.get("tool_calls"))]
    if role in ("tool", "function"):
        answers = entry.get("tool_call_id") or entry.get("id")
        kwargs = {"tool_call_id": str(answers)} if answers else None
        yield ChatMessage(parts=parts, role=role, additional_kwargs=kwargs)
    elif parts:
        yield ChatMessage(parts=parts, role=role)


def _entries(entry: Mapping[str, Any]) -> list[Any]:
    """The parts of a message, by whichever name."""
    for name in ("parts", "contents", "content"):
        found = entry.get(name)
        if isinstance(found, list):
            return [each.get("message_content", each) if isinstance(each, Mapping) else each for each in found]
        if found is not None:
            return [found]
    return []


def _result(part: Mapping[str, Any]) -> ChatMessage:
    own = part["toolResult"] if isinstance(part.get("toolResult"), Mapping) else part
    told = next((own[name] for name in ("response", "result", "content") if own.get(name) is not None), "")
    answers = own.get("id") or own.get("toolUseId")
    kwargs = {"tool_call_id": str(answers)} if answers else None
    return ChatMessage(_text(told), role=MessageRole.TOOL, additional_kwargs=kwargs)


def _part(part: Any) -> Part | None:
    """One part; None for an empty text."""
    if isinstance(part, str):
        return TextPart(text=part) if part else None
    match part:
        case {"type": "tool_call"} | {"toolUse": {}}:
            return _call(part.get("toolUse", part))
        case {"type": "reasoning", "content": str(text)} | {"type": "thinking", "thinking": str(text)}:
            return ThinkingPart(text=text)
        case {"type": "text", "content": str(text)} | {"text": str(text)}:
            return TextPart(text=text) if text else None
        case {"type": "image", "image": {"image": {"url": str(url)}}} | {"image_url": {"url": str(url)}}:
            return ImagePart(url=url)
        case {"type": "blob", "content": str(data)}:
            return _file(part, f"data:{part.get('mime_type') or ''};base64,{data}")
        case {"type": "uri", "uri": str(url)} | {"type": "file", "file_id": str(url)}:
            return _file(part, url)
    return TextPart(text=_text(part))


def _file(part: Mapping[str, Any], url: str) -> Part:
    kind = str(part.get("modality") or "")
    return ImagePart(url=url) if kind == "image" else FilePart(type=_FILES.get(kind, "document"), url=url)


def _call(call: Any) -> ToolCallPart:
    own = call.get("tool_call", call) if isinstance(call, Mapping) else {}
    function = own["function"] if isinstance(own.get("function"), Mapping) else own
    arguments = function.get("arguments", function.get("input"))
    given = arguments if isinstance(arguments, str | dict | None) else _text(arguments)
    id = own.get("id") or own.get("toolUseId")
    return ToolCallPart(
        tool_call_id=str(id) if id else None,
        tool_name=str(function.get("name") or "unknown"),
        tool_kwargs=decode_arguments(given),
    )


def _listed(given: Any) -> list[Any]:
    found = decoded(given)
    return found if isinstance(found, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def written_out(values: Mapping[str, Any], prefix: str) -> list[Any] | None:
    """A list that was written out as one attribute a value, `prefix.0.role`; None where there is none."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if name.startswith(prefix) and name.count(".") < MAX_STEPS:
            at, *path = found, *name[len(prefix) :].split(".")
            for step in path[:-1]:
                inner = at.setdefault(step, {})
                at = inner if isinstance(inner, dict) else {}
            at[path[-1]] = value
    return _lists(found) if found and all(key.isdigit() for key in found) else None


def _lists(found: dict[str, Any]) -> Any:
    """Objects whose names are numbers, as lists."""
    inner = {key: _lists(value) if isinstance(value, dict) else value for key, value in found.items()}
    if inner and all(key.isdigit() for key in inner):
        return [inner[key] for key in sorted(inner, key=int)]
    return inner

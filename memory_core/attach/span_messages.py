"""Messages of a model's call as spans write them, in any of the conventions' forms. Pure.

What has no place in a message, as a kind of part that came up later, stands in it as its JSON: the model read it.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from memory_core.errors import MessageError
from memory_core.formats.any_message import read_messages
from memory_core.messages import ChatMessage, MessageRole

EVENTS = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
    "gen_ai.choice": "assistant",
}
"""Roles of the events that held one message each, before version 1.37 of the conventions."""

MAX_STEPS = 16
"""Steps in the name of a value that was written out; OpenInference has eight."""

_CUT_OFF = re.compile(r"""\s*(\[\s*[\[{"]|\{\s*")""")
"""How JSON begins, and hardly ever a text: `[INST]`, `{{name}}` and `[laughs]` are texts."""
_SAYS = ("role", "message", "parts", "contents", "content", "tool_calls")
"""Fields of a message; an object without any of them is what was said."""
_LISTS = ("messages", "message")
"""Names under which an attribute's object holds its messages."""


def decoded(value: Any) -> Any:
    """A structured value, also where it was written as JSON text; a text that is no JSON as it is.

    Raises:
        MessageError: it is JSON that was cut off, as at a limit of the exporter.
    """
    if not isinstance(value, str) or value.lstrip()[:1] not in ("[", "{"):
        return value
    try:
        return json.loads(value)
    except json.JSONDecodeError as error:
        at_end = error.pos >= len(value.rstrip()) - 1 or error.msg.startswith("Unterminated string")
        if not (at_end and _CUT_OFF.match(value)):
            return value
        raise MessageError("is JSON that was cut off: leave OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT unset") from None
    except RecursionError:
        raise MessageError("is nested too deep") from None
    except ValueError:  # a number of more digits than Python reads
        return value


def messages_of(given: Any, role: str) -> list[ChatMessage]:
    """Messages of an attribute; `role` is that of one that names none.

    Raises:
        MessageError: it holds no messages.
    """
    entries = _each(given, "messages")
    if any(isinstance(entry, Mapping) and entry.get("event.name") in EVENTS for entry in entries):
        # Logfire lists the events of the older conventions in one attribute.
        events = [(str(entry.get("event.name")), entry) for entry in entries if isinstance(entry, Mapping)]
        return messages_of_events(events, said=role == MessageRole.ASSISTANT)
    return [message for entry in entries for message in _messages(entry, role)]


def instructions(given: Any) -> list[ChatMessage]:
    """The system message that instructions are, given beside the messages; none for empty ones.

    Raises:
        MessageError: they are no text and no parts.
    """
    return list(_messages({"content": _each(given, "instructions")}, MessageRole.SYSTEM))


def calls_of(given: Any) -> list[ChatMessage]:
    """The answer that calls of tools are, given beside its words; none for no calls."""
    return list(_messages({"tool_calls": given}, MessageRole.ASSISTANT))


def _each(given: Any, what: str) -> list[Any]:
    """The entries of an attribute, which may be a single one."""
    entries = decoded(given)
    if isinstance(entries, Mapping) and "role" not in entries:
        entries = next((entries[name] for name in _LISTS if isinstance(entries.get(name), list)), entries)
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
    if isinstance(entry, Mapping) and not any(name in entry for name in _SAYS):
        entry = json.dumps(entry, ensure_ascii=False)
    if isinstance(entry, str):
        entry = {"content": entry}
    if not isinstance(entry, Mapping):
        raise MessageError("holds no messages")
    inner = entry.get("message")
    entry = inner if isinstance(inner, Mapping) else entry
    named = str(entry.get("role") or role)
    # A message's own id is its call's where it is a tool's result, and nothing that is read elsewhere.
    answers = entry.get("tool_call_id") or (entry.get("id") if named in ("tool", "function") else None)
    chat = {
        "role": named,
        "name": entry.get("name") if named not in ("tool", "function") else None,
        "content": _content(entry),
        "tool_calls": _objects(entry.get("tool_calls")),
        "tool_call_id": answers,
    }
    for message in read_messages(chat, other_as_text=True):
        if message.parts or message.role is MessageRole.TOOL:
            yield message


def _content(entry: Mapping[str, Any]) -> Any:
    """The parts of a message, by whichever name, also where they were written as JSON."""
    return next(
        (_objects(entry[name]) for name in ("parts", "contents", "content") if entry.get(name) is not None), None
    )


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

"""Read the messages of Gemini CLI: who wrote each part, and which subagents its calls started. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from memory_core.coding.plain_reader import PlainReader
from memory_core.coding.transcript import Item, ItemKind, as_text, as_time, objects

_SUMMARY = "<state_snapshot>"
_INJECTED = re.compile(r"\s*<(?:session_context|loaded_context)>|Got it\. Thanks for the additional context!$")
"""Beginnings of texts that the program writes in the place of the user and the model."""


def items_of(reader: PlainReader, message: Mapping[str, Any], line: int, first: int) -> Iterator[Item]:
    """Yield a message's thoughts, its content and its calls, numbered from `first` on.

    What the program wrote has the id of the message in the place of a tool's.
    """
    thoughts = (
        (as_text(one.get("subject")), as_text(one.get("description"))) for _, one in objects(message.get("thoughts"))
    )
    parts: list[Any] = [{"text": "\n".join(filter(None, thought)), "thought": True} for thought in thoughts]
    content = message.get("content")
    parts += [{"text": content}] if isinstance(content, str) else [part for _, part in objects(content)]
    parts += [{"functionCall": one} for _, one in objects(message.get("toolCalls"))]
    speaker: ItemKind = "user" if message.get("type") == "user" else "assistant"
    name = as_text(message.get("id"))
    place = {"line": line, "at": as_time(message.get("timestamp"))}
    for number, one in enumerate(reader.parts(speaker, parts, place), first):
        kind = one.kind
        if kind in ("user", "assistant"):
            kind = "summary" if one.text.startswith(_SUMMARY) else "injected" if _INJECTED.match(one.text) else kind
        yield replace(one, kind=kind, part=number, tool_id=name if kind == "injected" else one.tool_id)


def lanes_of(message: Mapping[str, Any]) -> dict[str, str]:
    """Return the call that started each subagent, by `lane ID`."""
    calls = [one for _, one in objects(message.get("toolCalls"))]
    return {f"lane {agent}": as_text(one.get("id")) for one in calls if (agent := as_text(one.get("agentId")))}

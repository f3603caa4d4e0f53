"""A conversation as the messages of a chat-completions request."""

import json
import re
from collections.abc import Sequence
from typing import Any

from memory_core.messages import ChatMessage, FilePart, ImagePart, MessageRole, TextPart, ToolCallPart

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

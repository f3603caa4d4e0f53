"""Convert messages to items of OpenAI's Responses API, which the OpenAI Agents SDK stores, and back.

An answer (reasoning, text, calls) is several items of the API, and one message. The round trip is lossless: fields
that a message lacks are stored in `additional_kwargs`, without the texts that its parts hold.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from memory_core.errors import MessageError
from memory_core.formats.content import first_text
from memory_core.formats.openai_message import ITEMS, role_of
from memory_core.messages import (
    ChatMessage,
    ImagePart,
    MessageRole,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    decode_arguments,
)

_OUTPUTS = ("function_call_output", "custom_tool_call_output")
_TEXTS = ("input_text", "output_text", "text", "refusal")


def messages_from_items(items: Iterable[Mapping[str, Any]]) -> list[ChatMessage]:
    """Return the messages of a list of items; consecutive items of the assistant become one message.

    Raises:
        MessageError: an entry is no item; the text gives its number.
    """
    messages: list[ChatMessage] = []
    for number, item in enumerate(items, 1):
        if not isinstance(item, Mapping) or not ("type" in item or "role" in item):
            raise MessageError(f'item {number} has neither a "type" nor a "role"')
        message = _message(dict(item))
        # Reasoning, text and calls of one answer are separate items, and one message of the assistant.
        if messages and message.role is messages[-1].role is MessageRole.ASSISTANT:
            message = _joined(messages.pop(), message)
        messages.append(message)
    return messages


def items_from_messages(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    """Return the items of messages: their original ones, or new ones if they have none or were changed since."""
    return [item for message in messages for item in items_of(message)]


def items_of(message: ChatMessage) -> list[dict[str, Any]]:
    stored_items = message.additional_kwargs.get(ITEMS)
    frames = stored_items if isinstance(stored_items, list) else []
    sizes = [len(frame["parts"]) for frame in frames]
    # Parts were added or removed since, so the stored items no longer describe the message.
    if not frames or sum(sizes) != len(message.parts):
        return list(_new_items(message))
    items, start = [], 0
    for frame, size in zip(frames, sizes, strict=True):
        parts = message.parts[start : start + size]
        # A part was exchanged for one of another kind.
        if any(part.type != kind for part, kind in zip(parts, frame["parts"], strict=True)):
            return list(_new_items(message))
        items.append(_filled(frame["item"], parts))
        start += size
    return items


def without_last_item(message: ChatMessage) -> ChatMessage | None:
    """Return the message without the last of its items; None if it has fewer than two."""
    frames = message.additional_kwargs.get(ITEMS) or []
    if len(frames) < 2:
        return None
    size = len(frames[-1]["parts"])
    kwargs = {**message.additional_kwargs, ITEMS: frames[:-1]}
    return ChatMessage(parts=message.parts[: len(message.parts) - size], role=message.role, additional_kwargs=kwargs)


def _message(item: dict[str, Any]) -> ChatMessage:
    role, parts, frame, kwargs = MessageRole.ASSISTANT, list[Part](), dict(item), dict[str, Any]()
    match item:
        case {"type": "function_call", "name": str(name)}:
            text = str(item.get("arguments") or "")
            call = ToolCallPart(
                tool_call_id=first_text(item, "call_id"), tool_name=name, tool_kwargs=decode_arguments(text)
            )
            parts = [call]
            # The text is kept only if `_arguments` would not restore its spaces and order of keys exactly.
            if _arguments(call) == text:
                frame.pop("arguments", None)
        case {"type": "custom_tool_call", "name": str(name), "input": str(text)}:
            parts = [ToolCallPart(tool_call_id=first_text(item, "call_id"), tool_name=name, tool_kwargs=text)]
        case {"type": str(kind)} if kind in _OUTPUTS:
            role = MessageRole.TOOL
            kwargs["tool_call_id"] = first_text(item, "call_id")
            frame["output"], parts = _taken_apart(item.get("output"))
        case {"type": "reasoning"}:
            summary = item.get("summary")
            texts = [
                str(e.get("text", "")) for e in (summary if isinstance(summary, list) else ()) if isinstance(e, dict)
            ]
            parts = [ThinkingPart(text="\n".join(texts))] if any(texts) else []
        case {"role": str(given)} if item.get("type", "message") == "message":
            role = role_of(given)
            frame["content"], parts = _taken_apart(item.get("content"))
    stored_frame = {"item": frame, "parts": [part.type for part in parts]}
    return ChatMessage(parts=parts, role=role, additional_kwargs={**kwargs, ITEMS: [stored_frame]})


def _taken_apart(content: Any) -> tuple[Any, list[Part]]:
    """Split content into a frame without its texts and pictures, and the parts with these."""
    if isinstance(content, str):
        return None, [TextPart(text=content)]
    frame: list[Any] = []
    parts: list[Part] = []
    for entry in content if isinstance(content, list) else ():
        match entry:
            case {"type": kind, "text": str(text)} if kind in _TEXTS:
                parts.append(TextPart(text=text))
                # None marks the place that the part's text fills again, so that no text is stored twice.
                frame.append({**entry, "text": None})
            case {"type": "refusal", "refusal": str(text)}:
                parts.append(TextPart(text=text))
                frame.append({**entry, "refusal": None})
            case {"type": "input_image", "image_url": str(url)}:
                parts.append(ImagePart(url=url))
                frame.append({**entry, "image_url": None})
            case _:
                frame.append(entry)
    return frame, parts


def _filled(frame: Mapping[str, Any], parts: Sequence[Part]) -> dict[str, Any]:
    """Return a stored item with the texts of its parts put back."""
    item = dict(frame)
    if item.get("type") == "function_call":
        if parts and isinstance(call := parts[0], ToolCallPart):
            item.setdefault("arguments", _arguments(call))
    # A reasoning item keeps its texts, as its part joins them into one.
    elif item.get("type") != "reasoning":
        field = "output" if item.get("type") in _OUTPUTS else "content"
        if field in item:
            item[field] = _put_together(item[field], parts)
    return item


def _put_together(frame: Any, parts: Sequence[Part]) -> Any:
    rest = iter([part.url if isinstance(part, ImagePart) else getattr(part, "text", "") for part in parts])
    if frame is None:
        return next(rest, None)
    if not isinstance(frame, list):
        return frame
    return [
        entry
        | {key: next(rest, None) for key in ("text", "refusal", "image_url") if key in entry and entry[key] is None}
        if isinstance(entry, dict)
        else entry
        for entry in frame
    ]


def _new_items(message: ChatMessage) -> Iterator[dict[str, Any]]:
    """Yield new items for a message that has no usable stored ones."""
    if message.role is MessageRole.TOOL:
        output = {"call_id": message.tool_call_id or "", "output": message.content or ""}
        yield {"type": "function_call_output", **output}
        return
    pictures = [part for part in message.parts if isinstance(part, ImagePart)]
    if pictures and message.role is MessageRole.USER:
        content: list[dict[str, Any]] = [
            {"type": "input_text", "text": part.text}
            if isinstance(part, TextPart)
            # The API requires a detail; `auto` is its default.
            else {"type": "input_image", "image_url": part.url, "detail": part.detail or "auto"}
            for part in message.parts
            if isinstance(part, TextPart | ImagePart)
        ]
        yield {"role": "user", "content": content}
    elif message.content:
        yield {"role": str(message.role), "content": message.content}
    for call in message.tool_calls:
        called = {"call_id": call.tool_call_id or "", "name": call.tool_name, "arguments": call.arguments}
        yield {"type": "function_call", **called}


def _joined(first: ChatMessage, second: ChatMessage) -> ChatMessage:
    kwargs = {ITEMS: [*first.additional_kwargs[ITEMS], *second.additional_kwargs[ITEMS]]}
    return ChatMessage(parts=[*first.parts, *second.parts], role=first.role, additional_kwargs=kwargs)


def _arguments(call: ToolCallPart) -> str:
    """Return a call's arguments as JSON text with sorted keys, as the store returns them."""
    if isinstance(call.tool_kwargs, str):
        return call.tool_kwargs
    return json.dumps(call.tool_kwargs, ensure_ascii=False, sort_keys=True)

"""Messages of a prompt as the model read them, from chat completions, the Responses API and Anthropic's messages.

Nothing is refused; values that a message cannot hold become JSON text in it. Unlike those of `openai_items`, these
messages cannot be converted back.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from memory_core.errors import MessageError
from memory_core.formats.content import Unread, first_text
from memory_core.formats.openai_message import messages_from_openai
from memory_core.messages import ChatMessage, MessageRole, ThinkingPart

_FRAME = frozenset({"type", "id", "call_id", "name", "status"})
"""Fields of an item other than its content."""
NOBODYS_WORDS = frozenset({"additional_tools", "configuration_update", "compaction_trigger", "item_reference"})
"""Items of the Responses API that nobody says: definitions of tools, settings, and requests to the endpoint."""
_SPOKEN = frozenset({"message", "reasoning", "compaction"})
_OF_TOOLS = re.compile(r"^(mcp|input)_|_(call|output|response)$")
"""Types of items of tools, and of a user's words, all of whose fields are kept."""
_WORDS = frozenset({"text", "content", "summary", "message", "input", "output", "arguments", "refusal"})
"""Fields with words in an item of an unknown type."""
_SEALABLE = {"thinking": "thinking", "redacted_thinking": "thinking", "compaction": "content"}
"""Field with the words of a block, by the type of the block."""


def read_message(data: Any) -> list[ChatMessage]:
    """Return the messages of an entry. An entry that is no message becomes a user message with the JSON as its text."""
    # An entry with content but no role was not written by the model: it is read as a user's.
    if isinstance(data, Mapping) and "role" not in data and "content" in data:
        data = {"role": "user", **data}
    try:
        return messages_from_openai(data, any_role=True, other_as_text=True)
    except MessageError:
        return [ChatMessage(data if isinstance(data, str) else Unread(data).text)]


def read_blocks(data: Any) -> list[ChatMessage]:
    """Return the messages of one of Anthropic's, in which calls and results of hosted tools are as those of others.

    Marks for caching are dropped, because they move with each call, and so are sealed blocks.
    """
    content = data.get("content") if isinstance(data, Mapping) else None
    if not isinstance(content, list):
        return read_message(data)
    blocks = [_plain_block(block) for block in content if not _is_sealed(block)]
    return read_message({**data, "content": blocks}) if blocks or not content else []


def _plain_block(block: Any) -> Any:
    if not isinstance(block, Mapping):
        return block
    kind = next((name for name in ("tool_use", "tool_result") if str(block.get("type")).endswith(f"_{name}")), None)
    plain = {key: value for key, value in block.items() if key != "cache_control"}
    return {**plain, "type": kind} if kind else plain


def _is_sealed(block: Any) -> bool:
    """Return whether a block has words that only the endpoint can read, or none: reasoning, a failed compaction."""
    words = _SEALABLE.get(str(block.get("type"))) if isinstance(block, Mapping) else None
    return words is not None and not block.get(words)


def read_items(items: Iterable[Any]) -> list[ChatMessage]:
    """Return the messages of a list of Responses API items.

    Left out are items that are nobody's words, and sealed ones: reasoning and compactions without text.
    """
    messages: list[ChatMessage] = []
    for item in items:
        for message in _read_item(item):
            # One answer is several items of the API, and one message.
            if messages and message.role is messages[-1].role is MessageRole.ASSISTANT:
                message = messages[-1].with_parts([*messages.pop().parts, *message.parts])
            messages.append(message)
    return messages


def is_nobodys(item: Any) -> bool:
    """Return whether an item says nothing: it is of `NOBODYS_WORDS`, or of an unknown type and without words."""
    kind = item.get("type") if isinstance(item, Mapping) else None
    if not isinstance(kind, str) or kind in _SPOKEN or _OF_TOOLS.search(kind):
        return False
    return kind in NOBODYS_WORDS or _WORDS.isdisjoint(item)


def _read_item(item: Any) -> list[ChatMessage]:
    if is_nobodys(item) or (isinstance(item, Mapping) and item.get("encrypted_content") and _is_sealed(item)):
        return []
    kind = item.get("type", "message") if isinstance(item, Mapping) else "message"
    if kind == "message" or not isinstance(kind, str):
        return read_message(item)
    if kind == "reasoning":
        thought = read_message({"role": "assistant", "content": [item]})
        # Encrypted reasoning has no words, and is the only item that is left out.
        return [message for message in thought if isinstance(next(iter(message.parts), None), ThinkingPart)]
    answers = first_text(item, "call_id", "approval_request_id", "id")
    if kind.endswith("_output"):
        output = item.get("output")
        # Some results have fields of their own in place of `output`: all but the frame is kept as text.
        rest = {key: value for key, value in item.items() if key not in _FRAME} if output is None else output
        return read_message({"role": "tool", "tool_call_id": answers, "content": rest})
    if kind.endswith("_call"):
        picture = _picture(kind, item)
        # The bytes of the picture must not be counted once more as text of the call.
        remaining = {key: value for key, value in item.items() if key != "result"} if picture else item
        return read_message({"role": "assistant", "content": picture, "tool_calls": [_called(kind, remaining)]})
    from_user = kind.startswith("input_") or kind.endswith("_response")
    return read_message({"role": "user" if from_user else "assistant", "content": [item]})


def _picture(kind: str, item: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the picture of an image generation call as content, so that its bytes do not count as text."""
    if kind != "image_generation_call" or not (data := first_text(item, "result")):
        return []
    return [{"type": "image", "data": data, "mime_type": f"image/{first_text(item, 'output_format') or 'png'}"}]


def _called(kind: str, item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item's tool call; if the tool ran at the endpoint, the arguments include its result."""
    call = {
        "call_id": first_text(item, "call_id", "id"),
        "name": first_text(item, "name") or kind.removesuffix("_call"),
    }
    if kind in ("function_call", "custom_tool_call"):
        return {**call, "arguments": item.get("arguments", item.get("input"))}
    return {**call, "arguments": {key: value for key, value in item.items() if key not in _FRAME}}

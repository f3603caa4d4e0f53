"""Convert a message as LlamaIndex stores it to a `ChatMessage`, and back.

The form is that of `llama_index.core.llms.ChatMessage` as JSON: `role`, `blocks` by `block_type`,
`additional_kwargs`; before version 0.12 a plain `content`. Files that are named only by a path of
the machine that wrote them are not read and not kept.
"""

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any

from memory_core.errors import MessageError
from memory_core.formats.content import ToolResultContent, Unread, read_content, text_of
from memory_core.formats.openai_message import OTHER, other_kinds, role_and_name
from memory_core.messages import (
    ChatMessage,
    FilePart,
    ImagePart,
    MessageRole,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    storable,
)

_FILES = {
    "image": ("image", "image_mimetype", "image/png"),
    "audio": ("audio", "format", "audio/wav"),
    "video": ("video", "video_mimetype", "video/mp4"),
    "document": ("data", "document_mimetype", "application/octet-stream"),
}
"""For each block type: field with the bytes as base64, field with their MIME type, and its default."""


def message_from_llamaindex(data: Any, *, any_role: bool = False) -> tuple[ChatMessage, tuple[str, ...]]:
    """Return a stored message, and a note for each part left out; `any_role` as in `messages_from_openai`.

    Raises:
        MessageError: it is no message; the sentence says why.
    """
    # Replaced before reading, so that the count covers every field of the message.
    data, replaced = storable(data)
    if not isinstance(data, dict):
        raise MessageError("it is not an object")
    role = data.get("role", "user")
    kwargs = data.get("additional_kwargs") or {}
    if not isinstance(kwargs, dict):
        raise MessageError('"additional_kwargs" is not an object')
    notes = [f"{replaced} unstorable characters became \ufffd"] if replaced else []
    parts: list[Part] = []
    other: list[Any] = []
    for number, block in enumerate(_blocks(data), 1):
        for part in _parts(block, number):
            if isinstance(part, str):
                notes.append(part)
            elif isinstance(part, Unread):
                other.append(part.value)
            else:
                parts.append(part)
    if not isinstance(role, str):
        raise MessageError('"role" is not text')
    if other:
        kwargs = {**kwargs, OTHER: other}
    # Without `any_role`, an unknown role is refused by `ChatMessage` below.
    if any_role:
        role, named = role_and_name(role)
        kwargs = {**kwargs, **named}
    return ChatMessage(role=role, parts=parts, additional_kwargs=kwargs), tuple(notes)


def _blocks(data: Mapping[str, Any]) -> list[Any]:
    blocks = data.get("blocks")
    if isinstance(blocks, list):
        return blocks
    if blocks is not None:
        raise MessageError('"blocks" is not a list')
    # Before version 0.12 a message had one text.
    content = data.get("content")
    if content is None:
        return []
    if not isinstance(content, str):
        raise MessageError('"content" is not text')
    return [{"block_type": "text", "text": content}]


def _parts(block: Any, number: int) -> Iterator[Part | Unread | str]:
    """Yield a content block's parts, an `Unread` for content of unknown form, or a note (text) on what is left out."""
    match block:
        case {"block_type": "text", "text": str(text)}:
            yield TextPart(text=text)
        case {"block_type": "image" | "audio" | "video" | "document" as kind}:
            yield file_part(block, kind) or f"part {number} ({kind}) is named only by a path of another machine"
        # Encrypted reasoning has no text and is left out.
        case {"block_type": "thinking"}:
            if isinstance(text := block.get("content"), str) and text:
                yield ThinkingPart(text=text)
        case {"block_type": "tool_call", "tool_name": str(name)}:
            arguments = block.get("tool_kwargs", {})
            if not isinstance(arguments, dict | str):
                arguments = json.dumps(arguments, ensure_ascii=False)
            call_id = block.get("tool_call_id")
            call_id = call_id if call_id is None else str(call_id)
            yield ToolCallPart(tool_call_id=call_id, tool_name=name, tool_kwargs=arguments)
        # An instruction to one endpoint, and no content.
        case {"block_type": "cache"}:
            yield f"part {number} is a mark for prompt caching"
        # Only the content is kept; its wrapper for citations is left out.
        case {"block_type": "citable", "content": list(content)}:
            for inner in content:
                yield from _parts(inner, number)
        case {"block_type": "citation", "cited_content": dict(cited)}:
            yield from _parts(cited, number)
        case _:  # a block type of a later version
            # `read_content` looks for `type`, where LlamaIndex writes `block_type`.
            kind = {"type": block["block_type"]} if isinstance(block, Mapping) and "block_type" in block else {}
            for entry in read_content([{**block, **kind} if isinstance(block, Mapping) else block]):
                if isinstance(entry, ToolResultContent):
                    yield TextPart(text=text_of(entry.content))
                else:
                    yield Unread(block) if isinstance(entry, Unread) else entry


def file_part(block: Mapping[str, Any], kind: str) -> Part | None:
    """Read a file of a kind in `_FILES`; None if it has neither bytes nor an address."""
    field, kind_field, otherwise = _FILES[kind]
    data, given_kind = block.get(field), block.get(kind_field)
    url = block.get("url")
    # Bytes win over the address, as they are the file itself.
    if isinstance(data, str) and data:
        mime = given_kind if isinstance(given_kind, str) and given_kind else otherwise
        url = f"data:{mime if '/' in mime else f'{kind}/{mime}'};base64,{data}"
    if not isinstance(url, str) or not url:
        return None
    title, detail = block.get("title"), block.get("detail")
    if kind == "image":
        return ImagePart(url=url, detail=detail if isinstance(detail, str) else None)
    named = title if isinstance(title, str) else None
    return FilePart.model_validate({"type": kind, "url": url, "title": named})


def message_to_llamaindex(message: ChatMessage) -> dict[str, Any]:
    """Return a message as LlamaIndex's stores keep it."""
    return {
        "role": str(message.role),
        "additional_kwargs": dict(message.additional_kwargs),
        "blocks": [part_to_llamaindex(part) for part in message.parts],
    }


def part_to_llamaindex(part: Part) -> dict[str, Any]:
    """Return a part of a message as a content block of LlamaIndex."""
    if isinstance(part, TextPart):
        return {"block_type": "text", "text": part.text}
    if isinstance(part, ThinkingPart):
        return {"block_type": "thinking", "content": part.text}
    if isinstance(part, ToolCallPart):
        call = {"tool_call_id": part.tool_call_id, "tool_name": part.tool_name, "tool_kwargs": part.tool_kwargs}
        return {"block_type": "tool_call", **call}
    kind = part.type
    field, kind_field, _ = _FILES[kind]
    head, mark, data = part.url.partition(";base64,")
    block: dict[str, Any] = {"block_type": kind}
    # LlamaIndex keeps the bytes of a data URL in a field of their own, and sound by its bare format.
    if mark and head.startswith("data:"):
        mime = head.removeprefix("data:")
        block |= {field: data, kind_field: mime.partition("/")[2] if kind == "audio" else mime}
    else:
        block["url"] = part.url
    if isinstance(part, ImagePart):
        return block | ({"detail": part.detail} if part.detail else {})
    # In LlamaIndex only documents have a title.
    return block | ({"title": part.title} if part.title and kind == "document" else {})


def says_nothing(message: ChatMessage) -> bool:
    """Return whether a message has neither text nor other content; False for a tool result with a call id."""
    if other_kinds(message) or (message.role is MessageRole.TOOL and message.tool_call_id):
        return False
    return not message.tool_calls and all(isinstance(p, TextPart) and not p.text.strip() for p in message.parts)


# -- LlamaIndex's names of our parts ---------------------------------------------------------------

# The same values by LlamaIndex's names, so that code written for it only changes its imports.
TextBlock = TextPart
ImageBlock = ImagePart
ThinkingBlock = ThinkingPart
ToolCallBlock = ToolCallPart


def AudioBlock(audio: bytes | None = None, *, url: str | None = None, format: str | None = None) -> FilePart:
    """Return a sound file, given by its bytes or its URL.

    Raises:
        MessageError: both are given, or neither, or the file is empty.
    """
    return _file("audio", audio, url, {"format": format})


def VideoBlock(video: bytes | None = None, *, url: str | None = None, video_mimetype: str | None = None) -> FilePart:
    """Return a video file, with the rules of `AudioBlock`."""
    return _file("video", video, url, {"video_mimetype": video_mimetype})


def DocumentBlock(
    data: bytes | None = None,
    *,
    url: str | None = None,
    title: str | None = None,
    document_mimetype: str | None = None,
) -> FilePart:
    """Return a document, with the rules of `AudioBlock`."""
    return _file("document", data, url, {"document_mimetype": document_mimetype, "title": title}, field="data")


def _file(kind: str, data: bytes | None, url: str | None, kinds: dict[str, str | None], field: str = "") -> FilePart:
    if (data is None) == (url is None):
        raise MessageError(f"give the {kind} as bytes or by its url")
    held = None if data is None else base64.b64encode(data).decode()
    part = file_part({field or kind: held, "url": url, **kinds}, kind)
    if not isinstance(part, FilePart):
        raise MessageError(f"the {kind} is empty")
    return part

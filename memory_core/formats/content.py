"""The content of a message in every form in use, read into parts.

One reader for OpenAI (chat and Responses), Anthropic, Gemini, Mistral, Bedrock, LangChain, the Vercel AI SDK and
OpenTelemetry. An entry of unknown form becomes `Unread` with its original value; the other entries are read.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory_core.errors import MessageError
from memory_core.messages import (
    FilePart,
    ImagePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    decode_arguments,
    storable,
)

UPLOADED = "openai-file:"
"""Prefix of the URL of a file that a message names only by its id at the endpoint."""

_TEXTS = frozenset({"", "text", "input_text", "output_text", "summary_text", "text_plain", "refusal", "compaction"})
_THOUGHTS = frozenset({"thinking", "reasoning", "reasoning_text", "thought"})
_CALLS = frozenset(
    {"tool_use", "tool_call", "tool_call_chunk", "invalid_tool_call", "function_call", "custom_tool_call", "function"}
    | {"custom"}
)
_RESULTS = frozenset(
    {"tool_result", "tool_call_response", "function_call_output", "custom_tool_call_output", "function_result"}
)
_FILES = {
    "image": "image", "image_url": "image", "input_image": "image",
    "computer_screenshot": "image",
    "audio": "audio", "audio_url": "audio", "input_audio": "audio",
    "video": "video", "video_url": "video", "input_video": "video",
    "file": "document", "input_file": "document", "document": "document", "document_url": "document",
    "media": "document", "blob": "document", "uri": "document", "data": "document",
}  # fmt: skip
"""Kind of file by the type of an entry; a MIME type beside the data takes precedence."""

_WRAPPED = {
    "functionCall": "tool_call", "function_call": "tool_call", "toolUse": "tool_call",
    "functionResponse": "tool_result", "function_response": "tool_result", "toolResult": "tool_result",
    "inlineData": "file", "inline_data": "file", "fileData": "file", "file_data": "file", "image": "image",
    "document": "document", "video": "video", "reasoningContent": "reasoning", "message_content": "text",
    "tool_call": "tool_call", "tool_call_result": "tool_result", "reasoning": "reasoning", "file": "file",
}  # fmt: skip
"""Type of an entry by the field that holds it, for forms without one: Gemini, Bedrock, OpenInference and Haystack."""

_IDS = ("call_id", "tool_call_id", "tool_use_id", "toolCallId", "toolUseId", "id")
_ARGUMENTS = ("arguments", "args", "input", "parameters")
_OUTPUTS = ("content", "output", "result", "response")
_DATA = ("data", "base64", "file_data", "bytes", "content", "base64_image", "base64_data")
_ADDRESSES = ("url", "uri", "fileUri", "file_uri", "file_url", "image_url", "audio_url", "video_url", "document_url")
_MIMES = ("media_type", "mime_type", "mimeType", "mediaType", "format")
_TITLES = ("filename", "title", "name", "document_name", "displayName", "display_name")


@dataclass(frozen=True, slots=True)
class ToolResultContent:
    """The result of a tool, as some forms write it inside a message's content."""

    call_id: str | None
    name: str | None
    content: tuple["Entry", ...]


@dataclass(frozen=True, slots=True)
class Unread:
    """An entry that a `ChatMessage` cannot hold, with its original JSON value."""

    value: Any

    @property
    def kind(self) -> str:
        """The entry's type, or else the names of its fields, in at most 40 characters."""
        named = self.value.get("type") if isinstance(self.value, Mapping) else None
        fields = ", ".join(map(str, self.value)) if isinstance(self.value, Mapping) else type(self.value).__name__
        return str(named or fields)[:40]

    @property
    def text(self) -> str:
        """The entry as JSON text."""
        return json.dumps(self.value, ensure_ascii=False)


Entry = Part | ToolResultContent | Unread


def read_content(content: Any) -> list[Entry]:
    """Return the entries of a message's content, in order; empty texts are left out.

    `content` is text, a list of entries, one entry, or any other JSON value, which is read as its JSON text.

    >>> read_content([{"type": "text", "text": "Look:"}, {"type": "web_search_call", "id": "w"}])
    [TextPart(type='text', text='Look:'), Unread(value={'type': 'web_search_call', 'id': 'w'})]
    """
    if isinstance(content, Mapping) and not ({"type", "text", "content"} | set(_WRAPPED)) & set(content):
        content = json.dumps(content, ensure_ascii=False)  # such as the result of a tool
    return list(_entries(content))


def text_of(entries: Sequence[Entry]) -> str:
    """Return the texts of entries, one per line; an `Unread` entry is given as its JSON text."""
    texts = (entry.text for entry in entries if isinstance(entry, TextPart | Unread))
    return "\n".join(texts)


def read_call(entry: Any) -> ToolCallPart | None:
    """Read a tool call in any known form; return None if it names no tool."""
    if not isinstance(entry, Mapping):
        return None
    # Several forms wrap name and arguments in an object of their own.
    for inner in ("tool_call", "function", "custom", "toolUse"):
        if isinstance(nested := entry.get(inner), Mapping):
            # In OpenAI's form the id is outside the object with name and arguments.
            entry = {**{key: entry[key] for key in _IDS if entry.get(key) is not None}, **nested}
    name = first_text(entry, "name", "toolName", "tool_name")
    if not name:
        return None
    value = next((entry[key] for key in _ARGUMENTS if entry.get(key) is not None), None)
    return ToolCallPart(tool_call_id=first_text(entry, *_IDS), tool_name=name, tool_kwargs=_arguments(value))


def first_text(entry: Mapping[str, Any], *names: str) -> str | None:
    """Return the first named field that is a non-empty text or an integer, as text; None if there is none."""
    for name in names:
        value = entry.get(name)
        if (isinstance(value, str) and value) or (isinstance(value, int) and not isinstance(value, bool)):
            return str(value)
    return None


def _entries(content: Any) -> Iterator[Entry]:
    if isinstance(content, str):
        if content:
            yield TextPart(text=content)
    elif isinstance(content, list | tuple):
        for item in content:
            yield from _entries(item)
    elif isinstance(content, Mapping):
        yield from _entry(content)
    elif content is not None:
        # A number, a truth value or a foreign object still says something: it becomes its JSON text.
        yield TextPart(text=json.dumps(content, ensure_ascii=False, default=str))


def _entry(entry: Mapping[str, Any]) -> Iterator[Entry]:
    """Read an entry by its type, or if it has none, by the field that holds it."""
    if set(entry) == {"json"}:  # a result of Bedrock's
        yield from _entries(json.dumps(entry["json"], ensure_ascii=False))
        return
    # A type that is no text belongs to no known form.
    if not isinstance(value := entry.get("type", ""), str):
        yield Unread(entry)
        return
    # The Vercel AI SDK writes `tool-call` where others write `tool_call`.
    kind, body = value.replace("-", "_"), entry
    if not kind:
        # Gemini and Bedrock name the kind by the field that holds it.
        field = next((name for name in _WRAPPED if isinstance(entry.get(name), Mapping)), None)
        if field == "message_content":
            yield from _entry(entry[field])
            return
        if field is not None:
            kind, body = _WRAPPED[field], entry[field]
    # LangChain wraps entries that it does not know.
    elif kind == "non_standard" and isinstance(entry.get("value"), Mapping):
        kind, body = str(entry["value"].get("type") or ""), entry["value"]
    # Gemini marks thoughts by a flag on a text.
    if kind in _THOUGHTS or (kind in _TEXTS and body.get("thought") is True):
        # None in `parts` means that nothing could be read: the entry is then kept unread.
        parts: Iterator[Entry | None] = iter([_thought(body)])
    elif kind in _CALLS:
        parts = iter([read_call(body)])
    elif kind in _RESULTS:
        parts = iter([_result(body)])
    elif kind in _FILES:
        parts = _file(body, kind)
    elif kind in _TEXTS:
        parts = _text(body)
    elif kind.startswith("tool_") and "toolCallId" in body:  # a call with its result, as the Vercel AI SDK writes it
        result = _result(body) if any(body.get(name) is not None for name in ("output", "result")) else None
        parts = filter(None, [read_call({"name": value.partition("-")[2], **body}), result])
    else:
        parts = _unknown(body)
    yield from (Unread(entry) if part is None else part for part in parts)


def _text(entry: Mapping[str, Any]) -> Iterator[Entry | None]:
    for name in ("text", "refusal", "content", "transcript"):
        value = entry.get(name)
        if isinstance(value, Mapping):  # the Assistants API: {"text": {"value": ...}}
            value = value.get("value", value.get("text"))
        if isinstance(value, str):
            yield from _entries(value)
            return
        if isinstance(value, list):
            yield from _entries(value)
            return
    yield None


def _thought(entry: Mapping[str, Any]) -> ThinkingPart | None:
    """Return reasoning from the first field with text; None if there is none, as in encrypted reasoning."""
    names = ("thinking", "reasoning", "reasoningText", "reasoning_text", "text", "summary", "content")
    for name in (*names, "reasoning_content"):
        # The summary of OpenAI's reasoning is a list of entries, so any field is read like content.
        texts = [part.text for part in _entries(entry.get(name)) if isinstance(part, TextPart | ThinkingPart)]
        if any(texts):
            return ThinkingPart(text="\n".join(texts))
    return None


def _result(entry: Mapping[str, Any]) -> ToolResultContent:
    if isinstance(call := entry.get("origin"), Mapping):  # Haystack's: the call itself
        entry = {**call, **entry}
    value = next((entry[name] for name in _OUTPUTS if entry.get(name) is not None), None)
    if isinstance(value, Mapping) and set(value) <= {"type", "value"} and "value" in value:  # the Vercel AI SDK
        value = value["value"]
    if isinstance(value, Mapping) and set(value) == {"result"}:  # Gemini's
        value = value["result"]
    return ToolResultContent(
        first_text(entry, *_IDS), first_text(entry, "name", "toolName", "tool_name"), tuple(read_content(value))
    )


def _file(entry: Mapping[str, Any], kind: str) -> Iterator[Entry | None]:
    source = entry.get("source")
    if isinstance(source, Mapping) and source.get("type") in ("text", "content"):  # Anthropic's documents of text
        yield from _entries(source.get("data") or source.get("content"))
        return
    location = _located(entry, kind)
    if location is None:
        yield None
        return
    url, mime = location
    family = mime.partition("/")[0]
    # OpenTelemetry names the kind of a file here.
    modality = first_text(entry, "modality") or ""
    # The MIME type knows better than the entry's own type, which may just be "file".
    what = next((option for option in (family, modality) if option in ("image", "audio", "video")), _FILES[kind])
    if what == "image":
        inner = entry.get(kind)
        detail = first_text(inner if isinstance(inner, Mapping) else {}, "detail") or first_text(entry, "detail")
        yield ImagePart(url=url, detail=detail)
    else:
        inner = entry.get("file")
        title = first_text(inner if isinstance(inner, Mapping) else {}, *_TITLES) or first_text(entry, *_TITLES)
        yield FilePart.model_validate({"type": what, "url": url, "title": title})


def _located(entry: Any, kind: str) -> tuple[str, str] | None:
    """Return address and MIME type of a file: a `data:` URL if the entry holds the data; None if it has neither."""
    # A bare text is an address if it has a scheme near its start, else base64 data.
    if isinstance(entry, str):
        return (entry, "") if ":" in entry[:64] else (f"data:;base64,{entry}", "") if entry else None
    if not isinstance(entry, Mapping):
        return None
    mime = first_text(entry, *_MIMES) or ""
    # Bedrock writes "png" for "image/png".
    if mime and "/" not in mime:
        mime = f"{_FILES[kind]}/{mime}"
    for name in _ADDRESSES:
        if isinstance(address := entry.get(name), str) and address:
            return address, mime
    for name in _DATA:
        if isinstance(data := entry.get(name), str) and data:
            return data if data.startswith("data:") else f"data:{mime};base64,{data}", mime or _mime_in(data)
    # The bytes are at the endpoint; the prefix distinguishes the id from addresses that can be fetched.
    if file_id := first_text(entry, "file_id", "fileId"):
        return UPLOADED + file_id, mime
    # Nested objects last, so that a field of the entry itself takes precedence.
    for name in ("source", "bytes", "file", "image", "audio", "video", "document", "inlineData", "fileData", kind):
        location = _located(entry.get(name), kind)
        if location is not None:
            url, source = location
            # The nested object had data without a MIME type, which the outer object gives.
            if mime and url.startswith("data:;"):
                url = f"data:{mime}{url.removeprefix('data:')}"
            return url, source or mime
    return None


def _mime_in(data: str) -> str:
    return data.removeprefix("data:").partition(";")[0] if data.startswith("data:") else ""


def _unknown(entry: Mapping[str, Any]) -> Iterator[Entry]:
    """Yield the text of an entry of an unknown type, and its other fields as `Unread`."""
    text = entry.get("text")
    if not isinstance(text, str) or not text:
        yield Unread(entry)
        return
    yield TextPart(text=text)
    # Its text is read, so that a new type of entry does not silence a message.
    if rest := {key: value for key, value in entry.items() if key not in ("type", "text")}:
        yield Unread({"type": entry.get("type"), **rest})


def _arguments(value: Any) -> dict[str, Any] | str:
    """Decode a call's arguments; return them as text if the decoded value could not be stored."""
    if not isinstance(value, str | Mapping | None):
        return json.dumps(value, ensure_ascii=False, default=str)
    value = dict(value) if isinstance(value, Mapping) else value
    try:
        decoded = decode_arguments(value)
        # An escaped NUL or lone surrogate is harmless in text, but unstorable once decoded.
        _, replaced = storable(decoded)
    except MessageError:
        return str(value)
    return str(value) if replaced else decoded

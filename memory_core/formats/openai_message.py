"""One message of OpenAI's chat format as a `ChatMessage`.

All forms of content, of tool calls and of the older function calls; the newer part types of the
Responses API as well. Errors name the field and know nothing of files or lines.
"""

from collections.abc import Iterator, Mapping
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
    storable,
)

MESSAGE_FIELDS = frozenset(
    {"role", "content", "name", "tool_calls", "tool_call_id", "function_call", "refusal", "reasoning_content"}
)
"""The fields that are read; `reasoning_content` is what DeepSeek and vLLM add."""

_PART_TYPES = frozenset(
    {"text", "input_text", "output_text", "refusal", "thinking"}
    | {"image_url", "input_image", "input_audio", "file", "input_file"}
)
_KEPT = ("tool_call_id", "name")
"""Entries of `additional_kwargs` that the format has a field for."""
_UPLOADED = "openai-file:"
"""Prefix of the address of a file that is named only by its id at the endpoint."""


def message_from_openai(data: Mapping[str, Any]) -> ChatMessage:
    """One message of OpenAI's chat format. A message without content has no parts.

    Raises:
        MessageError: it is no message; the sentence names the field.
    """
    if not isinstance(data, dict):
        raise MessageError(f"this is {_kind(data)}, not a message.")
    role = _role(data)
    kwargs = {key: text for key in _KEPT if (text := _text(data, key))}
    parts = [*_said(data), *_calls(data)]
    if role is MessageRole.TOOL and kwargs and not parts:
        parts = [TextPart(text="")]
    return ChatMessage(parts=parts, role=role, additional_kwargs=kwargs)


def message_to_openai(message: ChatMessage) -> dict[str, Any]:
    """A message in OpenAI's chat format, for a file: read back by `message_from_openai`.

    What that format has no place for is left out: other entries of `additional_kwargs`.
    """
    data: dict[str, Any] = {"role": str(message.role)}
    parts = list(message.parts)
    if parts and isinstance(first := parts[0], ThinkingPart):
        data["reasoning_content"] = first.text
        parts = parts[1:]
    said = [_entry(part) for part in parts if not isinstance(part, ToolCallPart)]
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    if len(said) == len(texts) <= 1:
        data["content"] = texts[0] if texts else None
    else:
        data["content"] = said
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
        head, mark, audio = part.url.partition(";base64,")
        if part.type == "audio" and mark and head.startswith("data:audio/"):
            return {"type": "input_audio", "input_audio": {"data": audio, "format": head.removeprefix("data:audio/")}}
        return {"type": "file", "file": _file(part) | ({"filename": part.title} if part.title else {})}
    return {"type": "text", "text": part.text if isinstance(part, TextPart) else ""}


def _file(part: FilePart) -> dict[str, str]:
    if part.url.startswith(_UPLOADED):
        return {"file_id": part.url.removeprefix(_UPLOADED)}
    return {"file_data" if part.url.startswith("data:") else "file_url": part.url}


def _role(data: Mapping[str, Any]) -> MessageRole:
    if "role" not in data:
        raise MessageError('this message has no "role".')
    given = data["role"]
    try:
        return MessageRole(given if isinstance(given, str) else "")
    except ValueError:
        shown = f'"{given[:40]}"' if isinstance(given, str) else _kind(given)
        raise MessageError(f"role {shown} is not known. Use system, user, assistant or tool.") from None


def _said(data: Mapping[str, Any]) -> Iterator[Part]:
    if thinking := _text(data, "reasoning_content"):
        yield ThinkingPart(text=thinking)
    content = data.get("content")
    if isinstance(content, str):
        content = [content]
    elif not isinstance(content, list | None):
        raise MessageError(f'"content" is {_kind(content)}. It must be text, a list of parts or null.')
    for number, entry in enumerate(content or (), 1):
        part = _part(entry, number)
        if not isinstance(part, TextPart) or part.text:
            yield part
    if refusal := _text(data, "refusal"):
        yield TextPart(text=refusal)


def _part(entry: Any, number: int) -> Part:
    match entry:
        case str(text) | {"type": "text" | "input_text" | "output_text", "text": str(text)}:
            return TextPart(text=text)
        case {"type": "refusal", "refusal": str(text)}:
            return TextPart(text=text)
        case {"type": "thinking", "thinking": str(text)}:
            return ThinkingPart(text=text)
        case {"type": "image_url", "image_url": {"url": str(url)} as image}:
            return ImagePart(url=url, detail=_text(image, "detail"))
        case {"type": "image_url" | "input_image", "image_url": str(url)}:
            return ImagePart(url=url, detail=_text(entry, "detail"))
        case {"type": "input_image", "file_id": str(file_id)}:
            return ImagePart(url=_UPLOADED + file_id, detail=_text(entry, "detail"))
        case {"type": "input_audio", "input_audio": {"data": str(audio), "format": str(kind)}}:
            return FilePart(type="audio", url=f"data:audio/{kind};base64,{audio}")
        case {"type": "file", "file": {} as file} | ({"type": "input_file"} as file) if address := _address(file):
            return FilePart(type="document", url=address, title=_text(file, "filename"))
        case {"type": str(kind)} if kind not in _PART_TYPES:
            raise MessageError(
                f'content part {number} has the type "{kind[:40]}", which is not known. '
                "Use text, image_url, input_audio or file."
            )
        case {"type": str(kind)}:
            raise MessageError(f'content part {number} has the type "{kind}" and not what belongs to it.')
    raise MessageError(f"content part {number} is {_kind(entry)} without a type.")


def _address(file: Mapping[str, Any]) -> str | None:
    if data := _text(file, "file_data"):
        return data if data.startswith("data:") else f"data:;base64,{data}"
    if file_id := _text(file, "file_id"):
        return _UPLOADED + file_id
    return _text(file, "file_url")


def _calls(data: Mapping[str, Any]) -> Iterator[ToolCallPart]:
    entries = data.get("tool_calls") or []
    if not isinstance(entries, list):
        raise MessageError(f'"tool_calls" is {_kind(entries)}. It must be a list.')
    for number, entry in enumerate(entries, 1):
        where = f'entry {number} of "tool_calls"'
        match entry:
            case {"function": dict(function)}:
                yield _call(function, where, call_id=_text(entry, "id"))
            case {"custom": {"name": str(name), "input": str(given)}}:
                yield ToolCallPart(tool_call_id=_text(entry, "id"), tool_name=name, tool_kwargs=given)
            case _:
                raise MessageError(f'{where} has no "function".')
    legacy = data.get("function_call")
    if isinstance(legacy, dict):
        yield _call(legacy, '"function_call"', call_id=None)
    elif legacy is not None:
        raise MessageError(f'"function_call" is {_kind(legacy)}. It must be an object.')


def _call(function: Mapping[str, Any], where: str, *, call_id: str | None) -> ToolCallPart:
    name = _text(function, "name")
    if not name:
        raise MessageError(f'{where} has no function "name".')
    arguments = function.get("arguments")
    if not isinstance(arguments, str | dict | None):
        raise MessageError(f'"arguments" in {where} is {_kind(arguments)}. It must be text or an object.')
    return ToolCallPart(tool_call_id=call_id, tool_name=name, tool_kwargs=_arguments(arguments))


def _arguments(given: str | dict[str, Any] | None) -> dict[str, Any] | str:
    """Decoded where that loses nothing: what could not be stored decoded stays the text it was."""
    try:
        decoded = decode_arguments(given)
        _, replaced = storable(decoded)
    except MessageError:
        return str(given)
    return str(given) if replaced else decoded


def _text(data: Mapping[str, Any], key: str) -> str | None:
    """A field that is text or absent; ids are sometimes written as numbers."""
    value = data.get(key)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise MessageError(f'"{key}" is {_kind(value)}. It must be text.')


def _kind(value: Any) -> str:
    """Name of a JSON value's type, for a sentence."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "a list" if isinstance(value, list) else "an object"

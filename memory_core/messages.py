"""Messages and their parts, as values. Identity, order and token counts belong to the store.

A message is a role and a tuple of parts. Everything here is frozen: a changed message is a new value. Field names
follow LlamaIndex (`content`, `blocks`, `additional_kwargs`), so that code written for it reads the same; a piece of a
message is called a *part*, because a *block* is a piece of long-term memory here.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from datetime import UTC, datetime
from enum import StrEnum
from json.encoder import encode_basestring
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from memory_core.errors import UNSTORABLE, ConfigError, MessageError

MAX_DEPTH = 100
"""Maximum nesting depth of lists and objects: far more than a message needs, far less than Python's stack allows."""


class MessageRole(StrEnum):
    """Role of the speaker. Other names in use are aliases of these four: `DEVELOPER` is `SYSTEM`."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    DEVELOPER = SYSTEM
    FUNCTION = TOOL
    CHATBOT = ASSISTANT
    MODEL = ASSISTANT

    @classmethod
    def _missing_(cls, value: object) -> "MessageRole | None":
        # Aliases by their names in lower case, as libraries write them: "developer", "model".
        return cls.__members__.get(str(value).upper()) if str(value).islower() else None


class MessageStatus(StrEnum):
    """Location of a stored message: in the queue, or flushed out of it."""

    ACTIVE = "active"
    ARCHIVED = "archived"

    @classmethod
    def _missing_(cls, value: object) -> None:
        raise ConfigError(f"status is one of {', '.join(cls)}, not {value!r}")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TextPart(_Part):
    type: Literal["text"] = "text"
    text: str


class ImagePart(_Part):
    """An image, by address or as a `data:` URL. The engine stores it and never fetches it."""

    type: Literal["image"] = "image"
    url: str
    detail: str | None = None


class FilePart(_Part):
    """Audio, video or a document, by address or as a `data:` URL; stored, never fetched."""

    type: Literal["audio", "video", "document"]
    url: str
    title: str | None = None


class ThinkingPart(_Part):
    """A model's own reasoning, as some endpoints return it."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    type: Literal["thinking"] = "thinking"
    text: str = Field(validation_alias="content")
    """`content` in LlamaIndex, which may be read and given."""

    @property
    def content(self) -> str:
        return self.text


class ToolCallPart(_Part):
    """Tool call by the assistant; its result is a `tool` message with the same id."""

    type: Literal["tool_call"] = "tool_call"
    tool_call_id: str | None = None
    tool_name: str
    tool_kwargs: dict[str, Any] | str = Field(default_factory=dict)
    """Arguments, decoded; a string if the model wrote something that is not a JSON object."""

    @property
    def arguments(self) -> str:
        """The arguments as one JSON text."""
        if isinstance(self.tool_kwargs, str):
            return self.tool_kwargs
        return json.dumps(self.tool_kwargs, ensure_ascii=False)


Part = Annotated[TextPart | ImagePart | FilePart | ThinkingPart | ToolCallPart, Field(discriminator="type")]


class ChatMessage(BaseModel):
    """Message of a conversation.

    >>> ChatMessage(role="user", content="Hello").content
    'Hello'
    >>> ChatMessage(role="user", content=[TextPart(text="a"), TextPart(text="b")]).content
    'a\\nb'

    Raises:
        MessageError: the role is unknown, or content or parts are of the wrong kind.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: MessageRole = MessageRole.USER
    parts: tuple[Part, ...] = ()
    additional_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Further fields from the endpoint: `tool_call_id`, `name`, legacy `tool_calls`."""

    def __init__(
        self,
        content: str | Sequence[Any] | None = None,
        *,
        role: str = MessageRole.USER,
        parts: Sequence[Any] | None = None,
        blocks: Sequence[Any] | None = None,
        additional_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        contents = [value for value in (content, parts, blocks) if value is not None]
        # Three names for one thing: LlamaIndex has `content` and `blocks`, and `parts` is ours.
        if len(contents) > 1:
            raise MessageError("give one of content, parts or blocks, not several")
        try:
            known_role = MessageRole(role)
        except ValueError:
            names = ", ".join(MessageRole)
            raise MessageError(f'role "{role}" is not known: use {names}') from None
        value: Any = contents[0] if contents else ()
        if isinstance(value, str):
            value = (TextPart(text=value),)
        try:
            super().__init__(
                role=known_role,
                parts=tuple(value),
                additional_kwargs=dict(additional_kwargs or {}),
            )
        except (ValidationError, TypeError) as error:
            raise MessageError(f"this is not a message: {_first_problem(error)}") from error

    @classmethod
    def from_str(cls, content: str, role: str = MessageRole.USER, **fields: Any) -> "ChatMessage":
        """Create a message of one text, under LlamaIndex's name."""
        return cls(content, role=role, **fields)

    def __str__(self) -> str:
        """Return the role and the text: `user: Hello`; tool calls as in `message_text`."""
        return f"{self.role}: {message_text(self)}"

    @property
    def content(self) -> str | None:
        """The text parts joined by line breaks; None if there is no text part."""
        texts = [part.text for part in self.parts if isinstance(part, TextPart)]
        return "\n".join(texts) if texts else None

    @property
    def blocks(self) -> tuple[Part, ...]:
        """LlamaIndex's name for `parts`."""
        return self.parts

    @property
    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        """Calls made in this message, from its parts or from a legacy `tool_calls` entry."""
        # A message may have both forms, as an adapter's copy may; then the parts count.
        # Text first: Pydantic takes ten times as long to say of another kind that it is no call.
        calls = tuple([part for part in self.parts if type(part) is not TextPart and isinstance(part, ToolCallPart)])
        return calls or _legacy_tool_calls(self.additional_kwargs.get("tool_calls"))

    @property
    def tool_call_id(self) -> str | None:
        """For a tool message, the id of the call that it answers."""
        value = self.additional_kwargs.get("tool_call_id")
        return None if value is None else str(value)

    def with_parts(self, parts: Sequence[Part]) -> "ChatMessage":
        """Return a copy of the message with other parts."""
        return self.model_copy(update={"parts": tuple(parts)})

    def to_json(self) -> str:
        """Return canonical JSON text: equal messages give equal text (see `content_hash`).

        Raises:
            MessageError: arguments or `additional_kwargs` contain something JSON cannot represent or are nested deeper
            than `MAX_DEPTH`, or a text contains an unpaired surrogate.
        """
        # Nearly all messages are texts alone: the same text in a fifth of the time.
        texts = [part.text for part in self.parts if type(part) is TextPart]
        data = None if len(texts) == len(self.parts) and not self.additional_kwargs else self._data()
        try:
            if data is None:
                parts = ",".join([f'{{"text":{encode_basestring(text)},"type":"text"}}' for text in texts])
                text = f'{{"parts":[{parts}],"role":"{self.role}"}}'
            else:
                text = _canonical(data)
            # JSON writes an unpaired surrogate as it is; only encoding shows that no database takes it.
            text.encode()
            return text
        except UnicodeEncodeError as error:
            raise MessageError(
                f"a text holds half a character ({error.object[error.start : error.end]!r}), which cannot be stored: "
                "it was probably cut in the middle of an emoji"
            ) from error
        except (TypeError, ValueError, RecursionError) as error:
            raise MessageError(
                f"additional_kwargs cannot be stored as JSON ({error}): keep to text, numbers, "
                "true/false, lists and dicts"
            ) from error

    def _data(self) -> dict[str, Any]:
        data: dict[str, Any] = {
            "role": str(self.role),
            # Without None: a message that lacks a field added later keeps its hash.
            "parts": [part.model_dump(exclude_none=True) for part in self.parts],
        }
        if self.additional_kwargs:
            data["kwargs"] = self.additional_kwargs
        # Only a client's own fields and a call's arguments nest.
        nests = self.additional_kwargs or any(isinstance(part, ToolCallPart) for part in self.parts)
        if nests and nested_too_deep(
            data, MAX_DEPTH + 3
        ):  # the limit includes the message's own objects around its arguments
            raise MessageError(
                f"lists and objects are nested more than {MAX_DEPTH} deep. Give such arguments as one JSON text."
            )
        return data

    @classmethod
    def from_json(cls, text: str) -> "ChatMessage":
        """Decode a message written by `to_json`."""
        data = json.loads(text)
        role: Any = data["role"]
        parts: Any = tuple([_PARTS[part["type"]](**part) for part in data["parts"]])
        known_role = _ROLES.get(str(role))
        if known_role is not None and "kwargs" not in data:
            # Nothing is left to be checked.
            return cls.model_construct(role=known_role, parts=parts, additional_kwargs={})
        return cls(role=role, parts=parts, additional_kwargs=data.get("kwargs"))


_PARTS: dict[str, type[_Part]] = {
    "text": TextPart,
    "image": ImagePart,
    "audio": FilePart,
    "video": FilePart,
    "document": FilePart,
    "thinking": ThinkingPart,
    "tool_call": ToolCallPart,
}


_ROLES = {str(role): role for role in MessageRole}

_canonical = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode


PARTS_MARK = "\x01"
"""Prefix of static content that is stored as parts; no text of a person starts with it."""


def content_hash(text: str) -> str:
    """Return the address of a text in the content store: the first 32 hex digits of its SHA-256."""
    # `surrogatepass`, as a text is hashed before it is known to be storable.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def independent(message: ChatMessage) -> ChatMessage:
    """Return a copy that shares no mutable state with the message; the message itself if it has none."""
    # All other parts are frozen and hold only texts.
    changeable = any(isinstance(part, ToolCallPart) and isinstance(part.tool_kwargs, dict) for part in message.parts)
    if not changeable and not message.additional_kwargs:
        return message
    parts = tuple(
        part.model_copy(update={"tool_kwargs": deepcopy(part.tool_kwargs)}) if isinstance(part, ToolCallPart) else part
        for part in message.parts
    )
    return message.model_copy(update={"parts": parts, "additional_kwargs": deepcopy(message.additional_kwargs)})


def message_text(message: ChatMessage) -> str:
    """Return the text parts and tool calls of a message as one plain text, for extraction and search."""
    lines = [part.text for part in message.parts if isinstance(part, TextPart)]
    lines += [f"{call.tool_name}({call.arguments})" for call in message.tool_calls]
    return "\n".join(line for line in lines if line)


MEMORY_TOOLS = frozenset(
    {
        "core_memory_append",
        "core_memory_replace",
        "memory_replace",
        "memory_insert",
        "memory_rethink",
        "archival_memory_insert",
        "archival_memory_search",
        "conversation_search",
    }
)
"""Names of the tools with which an agent edits its own memory (see `memory_core.agent.tools`)."""


def recites_memory(message: ChatMessage) -> bool:
    """Return whether a message is the result of a memory tool, whose words must not be learned as new."""
    return message.role is MessageRole.TOOL and message.additional_kwargs.get("name") in MEMORY_TOOLS


def _legacy_tool_calls(value: Any) -> tuple[ToolCallPart, ...]:
    """Return the tool calls of OpenAI's `tool_calls` list, as some adapters leave it in `additional_kwargs`."""
    calls = []
    for item in value if isinstance(value, list) else []:
        function = item.get("function") if isinstance(item, dict) else None
        if not isinstance(function, dict):
            continue
        if name := function.get("name"):
            calls.append(
                ToolCallPart(
                    tool_call_id=item.get("id"),
                    tool_name=str(name),
                    tool_kwargs=decode_arguments(function.get("arguments")),
                )
            )
    return tuple(calls)


def nested_too_deep(value: Any, most: int = MAX_DEPTH) -> bool:
    """Return whether lists and objects are nested more than `most` deep. Not recursive."""
    # Level by level, as a recursive check would itself fail on what it is to refuse.
    level = [value]
    for _ in range(most + 1):
        level = [
            member
            for item in level
            if isinstance(item, Mapping | list | tuple)
            for member in (item.values() if isinstance(item, Mapping) else item)
        ]
        if not level:
            return False
    return True


def unstorable(name: str) -> str | None:
    r"""Return the reason why an id or a name cannot be stored, in words; None if it can.

    >>> unstorable("a\x00b")
    "holds '\\x00', which not every database can store"
    """
    match = UNSTORABLE.search(name)
    return None if match is None else f"holds {match[0]!r}, which not every database can store"


def storable(value: Any) -> tuple[Any, int]:
    """Return the value with every unstorable character replaced by U+FFFD, and the number of replacements.

    >>> storable({"text": "a\\x00b"})
    ({'text': 'a\ufffdb'}, 1)

    Raises:
        MessageError: the value is nested deeper than `MAX_DEPTH`, or contains a number that JSON cannot represent.
    """
    return _storable(value, MAX_DEPTH)


def _storable(value: Any, depth: int) -> tuple[Any, int]:
    if isinstance(value, str):
        return UNSTORABLE.subn("\ufffd", value)
    # Python writes NaN and Infinity into JSON, which other readers refuse.
    if isinstance(value, float) and not math.isfinite(value):
        raise MessageError("a number is NaN, infinite or too long to store.")
    if not isinstance(value, dict | list):
        return value, 0
    if depth == 0:
        raise MessageError(f"lists and objects are nested more than {MAX_DEPTH} deep.")
    if isinstance(value, list):
        elements = [_storable(element, depth - 1) for element in value]
        return [element for element, _ in elements], sum(replaced for _, replaced in elements)
    keys = [_storable(key, depth - 1) for key in value]
    values = [_storable(member, depth - 1) for member in value.values()]
    cleaned = {key: member for (key, _), (member, _) in zip(keys, values, strict=True)}
    return cleaned, sum(replaced for _, replaced in keys + values)


def decode_arguments(arguments: Any) -> dict[str, Any] | str:
    """Return tool arguments as a dict if they are a JSON object, otherwise as the original text.

    Arguments nested deeper than `MAX_DEPTH`, which no message accepts, are returned as text too.
    """
    if isinstance(arguments, dict):
        return json.dumps(arguments, ensure_ascii=False) if nested_too_deep(arguments) else arguments
    try:
        # Models write an empty text if there are no arguments.
        decoded = json.loads(arguments or "{}")
    except (TypeError, ValueError, RecursionError):
        return str(arguments)
    return decoded if isinstance(decoded, dict) and not nested_too_deep(decoded) else str(arguments)


def _first_problem(error: ValidationError | TypeError) -> str:
    if isinstance(error, TypeError):
        return str(error)
    first = error.errors(include_url=False)[0]
    where = ".".join(str(step) for step in first["loc"])
    return f"{where}: {first['msg']}"


# -- times of messages ----------------------------------------------------------------------------


_NUMBER = re.compile(r"\s*[0-9]{9,20}\s*")
"""Time that is written as text, in any unit."""


def seconds_of(value: Any) -> float | None:
    """Return seconds since 1970 from seconds, milli-, micro- or nanoseconds, or ISO 8601 text; else None.

    >>> seconds_of({"$date": "2026-03-01T10:00:00Z"}), seconds_of("1772359200")
    (1772359200.0, 1772359200.0)
    """
    # MongoDB's dumps wrap dates, and the numbers in them.
    while isinstance(value, dict) and len(value) == 1 and next(iter(value)) in ("$date", "$numberLong"):
        (value,) = value.values()
    # Eight digits are a date in ISO 8601.
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = int(value)
    if isinstance(value, str):
        try:
            time = datetime.fromisoformat(value)
        except ValueError:
            return None
        # ISO text without an offset is read as UTC, so that every machine reads the same time.
        value = (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp()
    # A truth value is an integer to Python.
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_LARGEST < value < _LARGEST:
        return None
    return next((value / unit for unit in _UNITS if _EARLIEST <= value / unit < _LATEST), None)


_EARLIEST, _LATEST = 1e8, 1e10
"""Seconds since 1970 in the years 1973 and 2286: a smaller number is no time, a larger one is in a smaller unit."""
_LARGEST = 1e20
"""Above every time in nanoseconds; larger integers cannot be divided."""
_UNITS = (1, 1_000, 1_000_000, 1_000_000_000)


def timed(message: ChatMessage, at: float | None) -> ChatMessage:
    """Return the message with `at` (seconds since 1970) as its `time` in ISO 8601, unless it has a time already."""
    if at is None or message.additional_kwargs.get("time") is not None:
        return message
    written = datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
    return message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, "time": written}})

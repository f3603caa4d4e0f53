"""Conversations in OpenAI's chat format: a list of messages as JSON, or one message a line as JSONL.

`read_conversation` turns a file into `ChatMessage`s, all or nothing. What does not stop the import
is listed with its place: messages without any content (`skipped`), and whatever else a careful
reader should know (`notes`). Storing and counting are not here.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import PureWindowsPath
from typing import Any

from memory_core.attach.mirroring import MirroredBlock
from memory_core.errors import MessageError
from memory_core.formats.openai_message import MESSAGE_FIELDS, message_from_openai
from memory_core.interop.located_json import Located, problem, read_text, read_values
from memory_core.messages import ChatMessage, MessageRole, TextPart, storable
from memory_core.text import shortened

MAX_BYTES = 20 * 1024 * 1024
"""The largest file, 20 MB: also what the app's file picker accepts."""

_MESSAGE_LISTS = ("messages", "traj")
"""Names under which an object holds its messages: OpenAI's own, and the one in tau-bench's published runs."""
_TITLE_CHARACTERS = 100


@dataclass(frozen=True, slots=True)
class Skipped:
    """A message that is not imported."""

    line: int | None
    """Of a file with one message a line."""
    index: int
    """Its place among the messages of the file, from 0."""
    reason: str


@dataclass(frozen=True, slots=True)
class Note:
    """Something about an imported message (see `Skipped`), or about the whole file: `line` and `index` are None."""

    line: int | None
    index: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """Conversation of a file, in its order."""

    messages: tuple[ChatMessage, ...]
    skipped: tuple[Skipped, ...]
    notes: tuple[Note, ...]
    title: str
    archived: frozenset[int] = frozenset()
    """Of the messages, by index, those that had left the queue of the store they come from."""
    blocks: tuple[MirroredBlock, ...] = ()
    token_limit: int | None = None
    """As the store has it; None where it has none."""

    @property
    def stands(self) -> bool:
        """Does it come with a state of memory, and not only with words to play?"""
        return bool(self.archived or self.blocks)

    @property
    def turns(self) -> int:
        """User messages: each begins a turn."""
        return sum(message.role is MessageRole.USER for message in self.messages)

    @property
    def tool_calls(self) -> int:
        return sum(len(message.tool_calls) for message in self.messages)


@dataclass(frozen=True, slots=True)
class Listed:
    """One of the conversations of a file, for choosing among them."""

    title: str
    messages: int
    """How many it holds, before any is skipped."""


def read_conversation(data: bytes | str, *, filename: str, pick: int | None = None) -> Conversation:
    """The conversation in a file, or the one at index `pick` (from 0) of a file with several.

    JSON may be a list of messages, an object with `messages`, or a list of those; JSONL one message
    a line, or one such object a line. Which it is shows in the content; `filename` names the file in
    errors and gives a title where the file has none.

    >>> found = read_conversation('[{"role": "user", "content": "Hello"}]', filename="talk.json")
    >>> found.title, found.turns, found.messages[0].content
    ('talk', 1, 'Hello')

    Raises:
        FormatError: the file is not a conversation; the message names the place. Nothing of it is kept.
    """
    sources = _sources(data, filename)
    if pick is None and len(sources) > 1:
        raise problem(
            filename, f"holds {len(sources)} conversations, and one can be imported at a time. Pick one of them."
        )
    chosen = pick or 0
    if not 0 <= chosen < len(sources):
        raise problem(filename, f"has no conversation {chosen + 1}: it holds {len(sources)}.")
    return _read(sources[chosen], filename)


def list_conversations(data: bytes | str, *, filename: str) -> tuple[Listed, ...]:
    """Every conversation of a file, in the order that `pick` counts.

    Raises:
        FormatError: the file cannot be read at all; single messages are not looked at.
    """
    return tuple(Listed(source.title, len(source.messages)) for source in _sources(data, filename))


@dataclass(frozen=True, slots=True)
class _Source:
    """The messages of one conversation, not read yet."""

    title: str
    messages: list[Located]


def _sources(data: bytes | str, filename: str) -> list[_Source]:
    values = read_values(read_text(data, filename=filename, max_bytes=MAX_BYTES), filename=filename)
    name = one_line(PureWindowsPath(filename).stem) or "Conversation"
    if len(values) == 1 and isinstance(values[0].value, list):
        values = values[0].elements()
    if not values:
        raise problem(filename, "holds no messages.")
    if not _is_conversation(values[0].value):
        only = values[0].value
        if len(values) == 1 and isinstance(only, dict) and "role" not in only:
            raise problem(filename, 'is not a conversation: it has no list named "messages".')
        return [_Source(name, values)]
    several = len(values) > 1
    return [
        _Source(_title(found.value) or (f"{name} {number}" if several else name), _messages_of(found, filename))
        for number, found in enumerate(values, 1)
    ]


def _is_conversation(value: Any) -> bool:
    return isinstance(value, list) or (
        isinstance(value, dict) and "role" not in value and any(key in value for key in _MESSAGE_LISTS)
    )


def _messages_of(found: Located, filename: str) -> list[Located]:
    if not _is_conversation(found.value):
        raise problem(filename, "this is not a conversation, and the file begins with one.", place=found.place)
    if isinstance(found.value, list):
        return found.elements()
    key = next(key for key in _MESSAGE_LISTS if key in found.value)
    messages = found.member(key)
    if messages is None or not isinstance(messages.value, list):
        raise problem(filename, f'"{key}" must be a list of messages.', place=found.place)
    return messages.elements()


def _title(value: Any) -> str | None:
    """The title that an object gives its conversation."""
    given = value.get("title") if isinstance(value, dict) else None
    return one_line(given) if isinstance(given, str) else None


def one_line(text: str) -> str:
    """A title from a file: on one line, not long, and storable."""
    return shortened(" ".join(str(storable(text)[0]).split()), _TITLE_CHARACTERS)


def _read(source: _Source, filename: str) -> Conversation:
    messages: list[ChatMessage] = []
    skipped: list[Skipped] = []
    notes: list[Note] = []
    left_out: Counter[str] = Counter()
    calls: set[str] = set()
    for index, found in enumerate(source.messages):
        line = found.place if isinstance(found.place, int) else None
        try:
            value, replaced = storable(found.value)
            message = message_from_openai(value)
        except MessageError as error:
            raise problem(filename, _sentence(str(error)), place=found.place) from error
        if _says_nothing(message):
            skipped.append(Skipped(line, index, "no text"))
            continue
        left_out.update(key for key, content in value.items() if key not in MESSAGE_FIELDS and content)
        messages.append(message)
        if replaced:
            notes.append(Note(line, index, f"{_characters(replaced)} cannot be stored and became \ufffd"))
        if message.role is MessageRole.TOOL and not calls & _answered(message):
            notes.append(Note(line, index, "this tool result has no call before it"))
        # Results refer to the ids of calls, or to the names of their tools: function calls have no ids.
        calls |= {name for call in message.tool_calls for name in (call.tool_call_id, call.tool_name) if name}
    if not messages:
        raise problem(filename, "holds no messages with text." if skipped else "holds no messages.")
    notes += [
        Note(None, None, f'"{key}" was not imported ({count} {"message" if count == 1 else "messages"})')
        for key, count in left_out.items()
    ]
    return Conversation(tuple(messages), tuple(skipped), tuple(notes), source.title)


def _says_nothing(message: ChatMessage) -> bool:
    """No text, no other part, no call; an empty tool result still says that its call came back."""
    if message.role is MessageRole.TOOL and message.additional_kwargs:
        return False
    return all(isinstance(part, TextPart) and not part.text.strip() for part in message.parts)


def _answered(message: ChatMessage) -> set[str]:
    reference = message.tool_call_id or message.additional_kwargs.get("name")
    return {reference} if reference else set()


def _characters(count: int) -> str:
    return "1 character" if count == 1 else f"{count} characters"


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."

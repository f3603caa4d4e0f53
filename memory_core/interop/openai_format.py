"""Conversations as JSON or JSONL: messages in any common format, and exports of ChatGPT, Claude and ShareGPT.

`read_conversation` parses a file into `ChatMessage`s. Unreadable messages are listed with their place (`skipped`), as
are other caveats (`notes`).
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PureWindowsPath
from typing import Any

from memory_core.attach.mirroring import MirroredBlock
from memory_core.errors import MessageError
from memory_core.formats.any_message import TIMES, as_chat, langchain_fields, read_messages
from memory_core.formats.openai_message import MESSAGE_FIELDS, other_kinds
from memory_core.interop.located_json import Located, problem, read_text, read_values
from memory_core.messages import ChatMessage, MessageRole, TextPart, storable
from memory_core.text import listed, shortened

_MESSAGE_LISTS = ("messages", "traj", "chat_messages", "conversations", "conversation", "items")
"""Keys under which an object holds its messages: of OpenAI, tau-bench, Claude, ShareGPT and similar formats."""
_STATES = ("values", "channel_values", "state")
"""Keys of the state object with the messages in LangGraph's API."""
_TITLES = ("title", "name")
_MAX_BRANCHES = 1_000
"""Maximum branches listed for one exported conversation."""
_TITLE_CHARACTERS = 100


@dataclass(frozen=True, slots=True)
class Skipped:
    """A message that is not imported."""

    line: int | None
    """Line number in a file with one message per line, from 1; None in other files."""
    index: int
    """Index among the file's messages, from 0."""
    reason: str


@dataclass(frozen=True, slots=True)
class Note:
    """A caveat about an imported message (see `Skipped`), or, without line and index, about the file."""

    line: int | None
    index: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """A file's conversation, in order."""

    messages: tuple[ChatMessage, ...]
    skipped: tuple[Skipped, ...]
    notes: tuple[Note, ...]
    title: str
    archived: frozenset[int] = frozenset()
    """Indexes of messages that had left the queue of the source store."""
    blocks: tuple[MirroredBlock, ...] = ()
    token_limit: int | None = None
    """Token limit of the source store, if any."""

    @property
    def has_memory_state(self) -> bool:
        """Return whether the conversation has memory state, not only messages to replay."""
        return bool(self.archived or self.blocks)

    @property
    def turns(self) -> int:
        """Return the number of user messages, each of which begins a turn."""
        return sum(message.role is MessageRole.USER for message in self.messages)

    @property
    def tool_calls(self) -> int:
        return sum(len(message.tool_calls) for message in self.messages)


@dataclass(frozen=True, slots=True)
class Listed:
    """A conversation in a file's table of contents."""

    title: str
    messages: int
    """Number of messages, including those that will be skipped."""


def read_conversation(data: bytes | str, *, filename: str, pick: int | None = None) -> Conversation:
    """Parse the conversation in a file, or the one at index `pick` (from 0) of several.

    JSON may be a list of messages, an object with `messages`, or a list of those; JSONL has one message or such object
    per line. In ChatGPT's exports, the last viewed path comes first, then every other branch. The format is detected by
    content; `filename` is used in errors and as a fallback title.

    >>> found = read_conversation('[{"role": "user", "content": "Hello"}]', filename="talk.json")
    >>> found.title, found.turns, found.messages[0].content
    ('talk', 1, 'Hello')

    Raises:
        FormatError: The file is not a conversation; the message names the place.
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
    """List a file's conversations in the order of `pick`.

    Raises:
        FormatError: The file cannot be read; single messages are not checked.
    """
    return tuple(Listed(source.title, len(source.messages)) for source in _sources(data, filename))


@dataclass(frozen=True, slots=True)
class _Source:
    """Unparsed messages of one conversation."""

    title: str
    messages: list[Located]


def _sources(data: bytes | str, filename: str) -> list[_Source]:
    values = read_values(read_text(data, filename=filename), filename=filename)
    name = one_line(PureWindowsPath(filename).stem) or "Conversation"
    if len(values) == 1 and isinstance(values[0].value, list):
        values = values[0].elements()
    if not values:
        raise problem(filename, "holds no messages.")
    # The first value decides: a file of single messages is one conversation, otherwise each value is one.
    if not _is_conversation(values[0].value):
        only = values[0].value
        if (
            len(values) == 1
            and isinstance(only, dict)
            and not langchain_fields(only)
            and not {"role", "from"} & set(only)
        ):
            other = _other_kind(only) or 'it has no list named "messages".'
            raise problem(filename, f"is not a conversation: {other}")
        return [_Source(name, values)]
    several = len(values) > 1
    return [
        # The first branch is what the user saw last, and has the plain title.
        _Source(title + (f" (branch {branch})" if branch else ""), messages)
        for number, located in enumerate(values, 1)
        for title in [_title(located.value) or (f"{name} {number}" if several else name)]
        for branch, messages in enumerate(_conversations_of(located, filename))
    ]


_OTHER_KINDS = (
    ({"resourceSpans"}, "these are spans of OpenTelemetry. Send them to the app's receiver."),
    ({"nodes", "edges"}, "this is a graph. Import it on the page Graph."),
    ({"nodes", "links"}, "this is a graph. Import it on the page Graph."),
    ({"entities", "relations"}, "this is a graph. Open it with memory-inspector open."),
    ({"type", "entityType"}, "this is a memory file of MCP's server. Open it with memory-inspector open."),
    ({"type", "relationType"}, "this is a memory file of MCP's server. Open it with memory-inspector open."),
    ({"results"}, "this is an answer with results. Import memories on the page Facts."),
    ({"memory"}, "these are memories. Import them on the page Facts."),
    ({"fact"}, "these are facts. Import them on the page Facts."),
    ({"cells", "nbformat"}, "this is a notebook."),
    ({"custom_id"}, "these are requests or answers of a batch. Import the messages of one of them."),
)
"""Fields that identify other kinds of files, with advice for each."""


def _other_kind(value: Any) -> str | None:
    """Return a hint for a file of a known format that is no conversation, or None."""
    fields = set(value) if isinstance(value, dict) else set()
    return next((sentence for wanted, sentence in _OTHER_KINDS if wanted <= fields), None)


def _is_conversation(value: Any) -> bool:
    """Return whether a value holds messages, and is not a message itself."""
    if not isinstance(value, dict):
        return isinstance(value, list)
    return "role" not in value and (
        any(key in value for key in _MESSAGE_LISTS)
        or any(isinstance(value.get(key), dict) and _is_conversation(value[key]) for key in _STATES)
        or _is_tree(value)
    )


def _is_tree(value: dict[str, Any]) -> bool:
    """Return whether a value is a conversation of ChatGPT's export."""
    nodes = value.get("mapping")
    return isinstance(nodes, dict) and bool(nodes) and all(isinstance(node, dict) for node in nodes.values())


def _conversations_of(located: Located, filename: str) -> Iterator[list[Located]]:
    """Yield the messages of a conversation, or those of each branch."""
    if not _is_conversation(located.value):
        raise problem(filename, "this is not a conversation, and the file begins with one.", place=located.place)
    if isinstance(located.value, list):
        yield located.elements()
        return
    if _is_tree(located.value):
        yield from _paths(located)
        return
    key = next((key for key in _MESSAGE_LISTS if key in located.value), None)
    if key is None:
        state = next(key for key in _STATES if isinstance(located.value.get(key), dict))
        if (inner := located.member(state)) is not None:
            yield from _conversations_of(inner, filename)
        return
    messages = located.member(key)
    if messages is None or not isinstance(messages.value, list):
        raise problem(filename, f'"{key}" must be a list of messages.', place=located.place)
    yield messages.elements()


def _paths(located: Located) -> Iterator[list[Located]]:
    """Yield the paths from root to leaf of a message tree: the last viewed first, then newest first."""
    tree = located.member("mapping")
    assert tree is not None
    nodes: dict[str, Any] = tree.value
    # Nodes without children are the ends of branches.
    parents = {parent for node in nodes.values() if isinstance(parent := node.get("parent"), str)}
    current = located.value.get("current_node")
    opened = [current] if isinstance(current, str) and current in nodes else []
    ends = [id for id in reversed(nodes) if id not in parents and id != current]
    ordered = [*opened, *ends] or list(nodes)[-1:]  # a cyclic tree has no leaves
    paths = [_path(tree, end) for end in ordered[:_MAX_BRANCHES]]
    # If no branch has visible messages, one empty list still lists the conversation.
    yield from [path for path in paths if path] or paths[:1]


def _path(tree: Located, end: str) -> list[Located]:
    """Return the messages from a tree's root to a node."""
    ids: list[str] = []
    step: Any = end
    # Ends at a parent that is missing, or that was visited before, as the file may be damaged.
    while isinstance(step, str) and step in tree.value and step not in ids:
        ids.append(step)
        step = tree.value[step].get("parent")
    members = (tree.member(id) for id in reversed(ids))
    messages = [node.member("message") for node in members if node is not None]
    return [message for message in messages if message is not None and _was_said(message.value)]


def _was_said(message: Any) -> bool:
    """Return whether a tree node holds a message that was visible to people."""
    about = message.get("metadata") if isinstance(message, dict) else None
    hidden = isinstance(about, dict) and about.get("is_visually_hidden_from_conversation") is True
    return message is not None and not hidden


def _title(value: Any) -> str | None:
    """Return the title that an object gives its conversation; None without one."""
    title = next((value[key] for key in _TITLES if value.get(key)), None) if isinstance(value, dict) else None
    return one_line(title) if isinstance(title, str) else None


def one_line(text: str) -> str:
    """Normalise a title from a file: one line, bounded length, storable."""
    return shortened(" ".join(str(storable(text)[0]).split()), _TITLE_CHARACTERS)


def _read(source: _Source, filename: str) -> Conversation:
    messages: list[ChatMessage] = []
    skipped: list[Skipped] = []
    notes: list[Note] = []
    left_out: Counter[str] = Counter()
    calls: set[str] = set()
    refused: tuple[Located, MessageError] | None = None
    for index, located in enumerate(source.messages):
        line = located.place if isinstance(located.place, int) else None
        try:
            value, replaced = storable(located.value)
            read = [message for message in read_messages(value) if not _says_nothing(message)]
        except MessageError as error:
            # The first reason becomes the error if nothing can be imported; otherwise each is listed.
            refused = refused or (located, error)
            skipped.append(Skipped(line, index, str(error).removesuffix(".")))
            continue
        if not read:
            skipped.append(Skipped(line, index, "no text"))
            continue
        messages += read
        chat = as_chat(value)
        # Fields that nothing reads are counted by name, so that the user learns of them once.
        left_out.update(key for key, content in chat.items() if key not in _READ and content)
        if replaced:
            notes.append(Note(line, index, f"{_characters(replaced)} cannot be stored and became \ufffd"))
        for message in read:
            notes += [Note(line, index, note) for note in _notes(message, calls)]
            # Results refer to call ids, or to tool names where calls have no id.
            calls |= {name for call in message.tool_calls for name in (call.tool_call_id, call.tool_name) if name}
    if not messages and refused is not None:
        first, why = refused
        if other := _other_kind(first.value):
            raise problem(filename, f"is not a conversation: {other}")
        raise problem(filename, _sentence(str(why)), place=first.place) from why
    if not messages:
        raise problem(filename, "holds no messages with text." if skipped else "holds no messages.")
    notes += [
        Note(None, None, f'"{key}" was not imported ({count} {"message" if count == 1 else "messages"})')
        for key, count in left_out.items()
    ]
    return Conversation(tuple(messages), tuple(skipped), tuple(notes), source.title)


_READ = MESSAGE_FIELDS | set(TIMES) | {"blocks", "text", "additional_kwargs"}


def _notes(message: ChatMessage, calls: set[str]) -> Iterator[str]:
    """Yield caveats about a message; `calls`: ids and names of earlier calls."""
    if message.role is MessageRole.TOOL and not calls & _answered(message):
        yield "this tool result has no call before it"
    yield from other_notes(message)


def other_notes(message: ChatMessage) -> Iterator[str]:
    """Yield caveats about content of a message that cannot be shown, and about its unknown role."""
    if kinds := other_kinds(message):
        yield f"{listed(list(dict.fromkeys(kinds)))} cannot be shown and is kept with the message"
    # Readers map a role they do not know to the assistant, and keep its name here.
    if message.role is MessageRole.ASSISTANT and (role := message.additional_kwargs.get("role")):
        yield f'the role "{role}" is not known, and became assistant'


def _says_nothing(message: ChatMessage) -> bool:
    """Return whether a message is empty; an empty tool result is not, as it shows that the call returned."""
    if other_kinds(message) or (message.role is MessageRole.TOOL and message.additional_kwargs):
        return False
    return all(isinstance(part, TextPart) and not part.text.strip() for part in message.parts)


def _answered(message: ChatMessage) -> set[str]:
    reference = message.tool_call_id or message.additional_kwargs.get("name")
    return {reference} if reference else set()


def _characters(count: int) -> str:
    return "1 character" if count == 1 else f"{count} characters"


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."

"""Conversations as JSON or JSONL: messages in any common format, and exports of ChatGPT, Claude and ShareGPT.

`read_conversation` parses a file into `ChatMessage`s. Unreadable messages are listed with their place (`skipped`), as
are other caveats (`notes`).
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import PureWindowsPath
from typing import Any

from memory_core.errors import FormatError, MessageError, problem
from memory_core.formats.any_message import langchain_fields, read_messages, unread_notes
from memory_core.formats.framework_messages import without_repeated_instructions
from memory_core.formats.openai_message import other_kinds
from memory_core.messages import ChatMessage, MessageRole, TextPart, storable
from memory_core.text import listed, shortened
from memory_inspector.files.located_json import Located, read_text, read_values
from memory_inspector.files.mirroring import MirroredBlock

_MESSAGE_LISTS = ("messages", "traj", "chat_messages", "conversations", "conversation", "items", "contents")
"""Keys under which an object holds its messages: of OpenAI, tau-bench, Claude, ShareGPT and similar formats."""
_LINKS = (("uuid", "parent_message_uuid"), ("messageId", "parentMessageId"))
"""Fields of a message's own id and of that before it, in Claude's export and in LibreChat's."""
_SYSTEM = ("system", "instructions", "promptPrefix")
"""Keys of a system prompt beside the messages, the last in LibreChat's `options`."""
_FILED = frozenset(
    {"id", "_id", "uuid", "title", "name", "model", "object", "created_at", "updated_at", "createdAt", "updatedAt"}
    | {"create_time", "update_time", "current_node", "conversation_id", "conversationId", "endpoint", "exportAt"}
    | {"branches", "recursive", "options", "account", "user", "is_starred", "is_archived", "is_temporary", "version"}
    | {"default_model_slug", "gizmo_id", "gizmo_type", "conversation_template_id", "async_status", "voice", "owner"}
    | {"conversation_origin", "memory_scope", "sugar_item_id", "schemaVersion", "max_tokens", "temperature", "stream"}
    | {"moderation_results", "safe_urls", "blocked_urls", "plugin_ids", "disabled_tool_ids", "context_scopes"}
)
"""Keys beside the messages under which a conversation is filed, or that set up its model: nobody's words."""
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
    problem: str = ""
    """Reason that it cannot be read; empty if it can."""


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
    readable = [number for number, source in enumerate(sources) if source.problem is None]
    if pick is None and len(readable) == 1:
        pick = readable[0]
    if pick is None and len(sources) > 1:
        raise problem(
            filename, f"holds {len(sources)} conversations, and one can be imported at a time. Pick one of them."
        )
    chosen = pick or 0
    if not 0 <= chosen < len(sources):
        raise problem(filename, f"has no conversation {chosen + 1}: it holds {len(sources)}.")
    if (refused := sources[chosen].problem) is not None:
        raise refused
    unread = [f"conversation {n + 1} is left out: {s.problem}" for n, s in enumerate(sources) if s.problem is not None]
    return _read(sources[chosen], filename, unread)


def list_conversations(data: bytes | str, *, filename: str) -> tuple[Listed, ...]:
    """List a file's conversations in the order of `pick`.

    Raises:
        FormatError: The file cannot be read; single messages are not checked.
    """
    return tuple(map(_listed, _sources(data, filename)))


@dataclass(frozen=True, slots=True)
class _Source:
    """Unparsed messages of one conversation."""

    title: str
    messages: list[Located]
    problem: FormatError | None = None
    """Reason that it cannot be read."""
    beside: tuple[str, ...] = ()
    """Notes on what stands beside its messages."""
    kind: str | None = None
    """Sentence on what it is if it is of another kind, see `other_kind`."""


def _sources(data: bytes | str, filename: str) -> list[_Source]:
    values = read_values(read_text(data, filename=filename), filename=filename)
    name = one_line(PureWindowsPath(filename).stem) or "Conversation"
    if len(values) == 1 and isinstance(values[0].value, list):
        values = values[0].elements()
    if not values:
        raise problem(filename, "holds no messages.")
    # The first that is known decides: a file of single messages is one conversation, otherwise each value is one.
    decisive = (located.value for located in values if is_conversation(located.value) or _is_message(located.value))
    if not is_conversation(next(decisive, None)):
        only = values[0].value
        if (
            len(values) == 1
            and isinstance(only, dict)
            and not langchain_fields(only)
            and not {"role", "from"} & set(only)
        ):
            other = other_kind(only) or 'it has no list named "messages".'
            raise problem(filename, f"is not a conversation: {other}")
        kind = next(filter(None, map(other_kind, (located.value for located in values[:3]))), None)
        # The messages of such a session can be read, but its compactions and calls are shown by the command alone.
        return [_Source(name, values, None, (kind,) if kind == CODING_SESSION else (), kind)]
    sources = [
        source
        for number, located in enumerate(values, 1)
        for source in _sources_at(located, f"{name} {number}" if len(values) > 1 else name, filename)
    ]
    if all(source.problem is not None for source in sources):
        raise sources[0].problem or problem(filename, "holds no messages.")
    return sources


def _sources_at(located: Located, name: str, filename: str) -> list[_Source]:
    """Return the branches of one conversation, or the reason that it cannot be read, which costs itself alone."""
    if isinstance(located.value, FormatError):
        return [_Source(name, [], located.value)]
    title = _title(located.value) or name
    of_kind = other_kind(located.value)
    try:
        before, beside = _beside(located)
        branches = list(_conversations_of(located, filename))
    except FormatError as error:
        of_other = None if of_kind is None else problem(filename, f"is not a conversation: {of_kind}")
        return [_Source(title, [], of_other or error)]
    # The first branch is what the user saw last, and has the plain title.
    titles = [title, *(f"{title} (branch {branch})" for branch in range(1, len(branches)))]
    pairs = zip(titles, branches, strict=False)
    return [_Source(branch, [*before, *messages], None, beside, of_kind) for branch, messages in pairs]


def listed_at(located: Located, name: str, *, filename: str) -> tuple[Listed, ...]:
    """List the branches of one conversation of a file, which is called `name` if it has no title."""
    return tuple(map(_listed, _sources_at(located, name, filename)))


def conversation_at(located: Located, name: str, *, filename: str, branch: int) -> Conversation:
    """Parse a branch of one conversation of a file.

    Raises:
        FormatError: It cannot be read.
    """
    source = _sources_at(located, name, filename)[branch]
    if source.problem is not None:
        raise source.problem
    return _read(source, filename, [])


def _listed(source: _Source) -> Listed:
    return Listed(source.title, len(source.messages), "" if source.problem is None else str(source.problem))


def _is_message(value: Any) -> bool:
    """Return whether a value looks like a message."""
    return isinstance(value, dict) and not {"role", "from", "sender", "author", "type", "message"}.isdisjoint(value)


def _beside(located: Located) -> tuple[list[Located], tuple[str, ...]]:
    """Return the system prompt that stands beside a conversation's messages, and what to say of all else there."""
    value = located.value
    if not isinstance(value, dict):
        return [], ()
    # LibreChat has the system prompt among its options.
    options = located.member("options") if isinstance(value.get("options"), dict) else None
    prompts = [
        replace(prompt, value={"role": "system", "content": prompt.value})
        for around in filter(None, (located, options))
        for key in _SYSTEM
        if (prompt := around.member(key)) is not None and prompt.value
    ]
    read = {*_FILED, *_MESSAGE_LISTS, *_STATES, "mapping", "input", *(_SYSTEM if prompts else ())}
    notes = [f'"{prompt.place}" became the first message' for prompt in prompts[:1]]
    notes += [
        f'"{one_line(key)}" beside the messages was not imported' for key in value if value[key] and key not in read
    ]
    return prompts[:1], tuple(notes)


def is_conversation(value: Any) -> bool:
    """Return whether a value holds messages, and is not a message itself."""
    if not isinstance(value, dict):
        return isinstance(value, list)
    return "role" not in value and (
        any(key in value for key in _MESSAGE_LISTS)
        or isinstance(value.get("input"), list)  # a request of the Responses API
        or any(isinstance(value.get(key), dict) and is_conversation(value[key]) for key in _STATES)
        or _is_tree(value)
    )


def _is_tree(value: dict[str, Any]) -> bool:
    """Return whether a value is a conversation of ChatGPT's export."""
    nodes = value.get("mapping")
    return isinstance(nodes, dict) and bool(nodes) and all(isinstance(node, dict) for node in nodes.values())


def _conversations_of(located: Located, filename: str) -> Iterator[list[Located]]:
    """Yield the messages of a conversation, or those of each branch."""
    if not is_conversation(located.value):
        raise problem(filename, "this is not a conversation.", place=located.place)
    if isinstance(located.value, list):
        yield located.elements()
        return
    if _is_tree(located.value):
        yield from _paths(located)
        return
    key = next((key for key in (*_MESSAGE_LISTS, "input") if key in located.value), None)
    if key is None:
        state = next(key for key in _STATES if isinstance(located.value.get(key), dict))
        if (inner := located.member(state)) is not None:
            yield from _conversations_of(inner, filename)
        return
    messages = located.member(key)
    if messages is None or not isinstance(messages.value, list):
        raise problem(filename, f'"{key}" must be a list of messages.', place=located.place)
    yield from _branches(messages.elements())


def _branches(messages: list[Located]) -> Iterator[list[Located]]:
    """Yield a list of messages, or its branches, the latest first: replies are nested in them, or name the former."""
    values = [located.value for located in messages if isinstance(located.value, dict)]
    if any(map(_replies, values)):
        yield from islice(_nested(messages), _MAX_BRANCHES)
        return
    id_field, link = next((fields for fields in _LINKS if any(fields[1] in value for value in values)), _LINKS[0])
    by_id = {id: message for message, value in zip(messages, values, strict=False) if _is_id(id := value.get(id_field))}
    parents = Counter(parent for value in values if _is_id(parent := value.get(link)) and parent in by_id)
    # Where no message has two that follow it, the order of the file is the conversation's.
    if len(by_id) < len(messages) or max(parents.values(), default=0) < 2:
        yield messages
        return
    for end in islice((id for id in reversed(by_id) if id not in parents), _MAX_BRANCHES):
        way: dict[str, Located] = {}
        step: Any = end
        while _is_id(step) and step in by_id and step not in way:  # a damaged file may have a circle
            way[step] = by_id[step]
            step = by_id[step].value.get(link)
        yield list(way.values())[::-1]


def _is_id(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _replies(message: Any) -> bool:
    nested = message.get("children")
    return isinstance(nested, list) and any(isinstance(located, dict) for located in nested)


def _nested(messages: list[Located]) -> Iterator[list[Located]]:
    """Yield the ways through messages that hold their replies, the latest first."""
    waiting: list[tuple[list[Located], Located]] = [([], located) for located in messages]
    while waiting:
        way, message = waiting.pop()  # the last of a list of replies, as it was written last
        way = [*way, message]
        replies = message.member("children") if isinstance(message.value, dict) and _replies(message.value) else None
        if replies is None:
            yield way
        else:
            waiting += [(way, located) for located in replies.elements()]


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


def _read(source: _Source, filename: str, unread: list[str]) -> Conversation:
    messages: list[ChatMessage] = []
    skipped: list[Skipped] = []
    notes: list[Note] = []
    values: list[Any] = []
    calls: set[str] = set()
    instructions: Any = None
    refused: tuple[Located, MessageError] | None = None
    for index, located in enumerate(source.messages):
        line = located.place if isinstance(located.place, int) else None
        if isinstance(located.value, FormatError):
            skipped.append(Skipped(line, index, "not valid JSON"))
            continue
        try:
            value, replaced = storable(located.value)
            value, instructions = without_repeated_instructions(value, instructions)
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
        values.append(value)
        if replaced:
            notes.append(Note(line, index, f"{_characters(replaced)} cannot be stored and became \ufffd"))
        for message in read:
            notes += [Note(line, index, note) for note in _notes(message, calls)]
            # Results refer to call ids, or to tool names where calls have no id.
            calls |= {name for call in message.tool_calls for name in (call.tool_call_id, call.tool_name) if name}
    if not messages and refused is not None:
        first, why = refused
        if other := source.kind or other_kind(first.value):
            raise problem(filename, f"is not a conversation: {other}")
        raise problem(filename, _sentence(str(why)), place=first.place) from why
    if not messages:
        raise problem(filename, "holds no messages with text." if skipped else "holds no messages.")
    notes += [Note(None, None, text) for text in (*unread_notes(values), *source.beside, *unread)]
    return Conversation(tuple(messages), tuple(skipped), tuple(notes), source.title)


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


# -- name files that hold no conversation that is read here, so that nobody looks for a fault in them


_NOT_READ = (
    ({"chat_metadata"}, "a chat of SillyTavern"),
    ({"mes", "is_user"}, "a chat of SillyTavern"),
    ({"internal", "visible"}, "a chat of text-generation-webui"),
    ({"chat", "title"}, "an export of Open WebUI"),
    ({"guild", "channel"}, "an export of Discord"),
    ({"type", "user", "ts"}, "an export of Slack"),
    ({"from_id"}, "an export of Telegram"),
    ({"fragments"}, "an export of DeepSeek"),
    ({"conversation", "responses"}, "an export of Grok"),
    ({"versions", "currentlySelected"}, "a chat of LM Studio"),
    ({"chunkedPrompt"}, "a prompt of AI Studio"),
    ({"requests", "responderUsername"}, "a chat of VS Code"),
    ({"eval", "samples"}, "a log of Inspect"),
    ({"observations"}, "a trace of Langfuse"),
    ({"inputs", "outputs"}, "a run of LangSmith"),
    ({"sender_id", "events"}, "a tracker of Rasa"),
    ({"Role", "Items"}, "a history of Semantic Kernel"),
    ({"object", "choices"}, "a chat completion"),
    ({"preferred_output"}, "a file for preference tuning"),
    ({"history", "folders"}, "an export of chatbot-ui"),
)
"""Fields of a file's object or first entry that identify a tool of which files are not read, and what the file is."""
CODING_SESSION = "this is a session of a coding agent. Open it with memory-inspector code."
_READ_ELSEWHERE = (
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
    ({"sessionId", "uuid"}, CODING_SESSION),
    ({"payload", "timestamp"}, CODING_SESSION),
)
"""Fields that identify other files, with the page or command that takes them."""
_SENTENCES = (*((fields, f"this is {kind}, which is not read here.") for fields, kind in _NOT_READ), *_READ_ELSEWHERE)


def other_kind(value: Any) -> str | None:
    """Return what a value is that is no conversation, as the end of a sentence; None if it is of no known kind.

    >>> other_kind({"nodes": [], "edges": []})
    'this is a graph. Import it on the page Graph.'
    """
    fields = set(value) if isinstance(value, dict) else set()
    return next((sentence for wanted, sentence in _SENTENCES if wanted <= fields), None)

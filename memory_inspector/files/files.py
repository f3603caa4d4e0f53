"""Open any supported file, detected by content rather than name.

Exports above the size of a file that is parsed whole, a JSON list or JSONL, are read one conversation at a time.
Listing reads the file once in windows of some megabytes and keeps where each conversation lies; a conversation is
parsed again when it is chosen. Memory holds a window and what its largest conversation becomes.
"""

import codecs
import io
import json
import mmap
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PureWindowsPath
from tempfile import TemporaryFile
from typing import Any, Literal

from memory_core.bundles.archive import UNREADABLE, check_entries, members_named, members_of
from memory_core.bundles.bundle import Bundle, read_bundle
from memory_core.errors import FormatError, problem
from memory_core.formats.openai_message import message_to_openai
from memory_core.limits import MAX_FILE_BYTES, MAX_VALUES, Budget, check_size
from memory_core.memory import Memory
from memory_inspector.files.configuration import (
    Configuration,
    StoredBlock,
    is_configuration,
    read_configuration,
    write_configuration,
    write_python,
)
from memory_inspector.files.llamaindex_python import write_llamaindex_python
from memory_inspector.files.located_json import DECODER, Located, read_text, read_values
from memory_inspector.files.notes import is_notes_archive, read_archive, read_folder
from memory_inspector.files.openai_format import (
    Conversation,
    Listed,
    conversation_at,
    is_conversation,
    list_conversations,
    listed_at,
    one_line,
    read_conversation,
)
from memory_inspector.files.stored import StoredConversation, read_stored
from memory_inspector.files.stores.agent_stores import conversations_of, sessions_of_strands
from memory_inspector.files.stores.framework_states import conversations_in
from memory_inspector.files.stores.langgraph_checkpoints import threads_of
from memory_inspector.files.stores.letta import is_agent_file, read_agent_file
from memory_inspector.files.stores.llamaindex_stores import is_chat_store, read_chat_store, read_table, write_chat_store
from memory_inspector.files.stores.sqlite_file import SQLITE_MAGIC, StoreConnection

MAX_EXPORT_BYTES = 500 * 1024 * 1024
"""Maximum bytes of an export, which is what the app's picker takes."""
_WINDOW = 2 * 1024 * 1024
_BETWEEN = re.compile(rb"[ \t\r\n,]*")
_MARKS = re.compile(rb'"(?:[^"\\]++|\\.?)*+"?|[\[\]{}]', re.DOTALL)
"""A whole text, also one that is cut off, or a bracket; possessive, so that no byte is looked at twice."""

Step = Callable[[float], None]
"""Called with the share that is read, from 0 to 1; may raise to stop."""
_Data = bytes | mmap.mmap


@dataclass(frozen=True, slots=True)
class _ExportPiece:
    """The place of a conversation in its data."""

    data: _Data
    start: int
    end: int
    number: int
    """Its number in the file, from 0."""
    problem: FormatError | None = None


@dataclass(frozen=True, slots=True)
class LargeExport:
    """The conversations of an export, and where each lies."""

    filename: str
    listed: tuple[Listed, ...]
    _branches: tuple[tuple[_ExportPiece, int], ...] = field(repr=False)
    """Piece and number of the branch of each listed conversation."""

    def conversation(self, pick: int) -> Conversation:
        """Parse the conversation at index `pick`, from 0.

        Raises:
            FormatError: It cannot be read.
        """
        piece, branch = self._branches[pick]
        if piece.problem is not None:
            raise piece.problem
        value = DECODER.decode(piece.data[piece.start : piece.end].decode("utf-8", "replace"))
        located = _located(value, piece.number)
        return conversation_at(located, self.listed[pick].title, filename=self.filename, branch=branch)


def read_large(data: bytes, *, filename: str, step: Step | None = None) -> LargeExport:
    """List the conversations of an export as JSON or JSONL.

    Raises:
        FormatError: It is no list of conversations, or larger than `MAX_EXPORT_BYTES`.
    """
    check_size(len(data), MAX_EXPORT_BYTES)
    return _list([data], filename, step)


def read_large_archive(
    data: bytes, name: re.Pattern[str], *, filename: str, step: Step | None = None
) -> LargeExport | None:
    """List the conversations in the members of such names; None if they are not large, or the archive is damaged.

    Raises:
        FormatError: A member holds no list of conversations, or they unpack to more than `MAX_EXPORT_BYTES`.
    """
    check_entries(data, filename)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = members_of(archive, name)
            if sum(member.file_size for member in members) <= MAX_FILE_BYTES:
                return None
            budget = Budget(filename, bytes=MAX_EXPORT_BYTES)
            parts = [part for member in members if (part := _unpacked(archive, member, budget))]
    except UNREADABLE as error:
        if isinstance(error, FormatError):
            raise
        return None
    return _list(parts, "conversations.json", step)


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo, budget: Budget) -> mmap.mmap | None:
    """Unpack a member to a file without a name, which lasts as long as what is returned; None if it is empty."""
    with TemporaryFile() as file, archive.open(member) as packed:
        file.writelines(budget.pieces(packed))
        file.flush()
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if file.tell() else None


def _list(parts: Sequence[_Data], filename: str, step: Step | None) -> LargeExport:
    listed: list[Listed] = []
    branches: list[tuple[_ExportPiece, int]] = []
    name = one_line(PureWindowsPath(filename).stem) or "Conversation"
    whole, before, number = sum(map(len, parts)), 0, 0
    for data in parts:
        for start, end, value in _values(data, filename):
            # A list of messages is one conversation, and a conversation has the size of a file.
            if number == 0 and not is_conversation(value) and not isinstance(value, FormatError):
                check_size(whole, MAX_FILE_BYTES)
            branches_here = listed_at(_located(value, number), f"{name} {number + 1}", filename=filename)
            reason = value if isinstance(value, FormatError) else None
            piece = _ExportPiece(data, start, end, number, reason)
            listed += branches_here
            branches += [(piece, branch) for branch in range(len(branches_here))]
            number += 1
            if step is not None:
                step((before + end) / whole)
        before += len(data)
    if all(entry.problem for entry in listed):
        raise problem(filename, "holds no conversations that can be read.")
    return LargeExport(filename, tuple(listed), tuple(branches))


def _located(value: Any, number: int) -> Located:
    return Located(value, 1, f"[{number}]")


def _values(data: _Data, filename: str) -> Iterator[tuple[int, int, Any]]:
    """Yield start, end and value of each element of a list, or line of JSONL; of a broken one, the reason as value."""
    position = _after_space(data, len(codecs.BOM_UTF8) if data[:3] == codecs.BOM_UTF8 else 0)
    is_list = data[position : position + 1] == b"["
    if not is_list and data[position : position + 1] != b"{":
        check_size(len(data), MAX_FILE_BYTES)
        raise problem(filename, "is not a conversation: it starts with neither [ nor {.")
    position = _after_space(data, position + is_list)
    first, text, inside, size, seen = position, "", 0, _WINDOW, 0
    while position < len(data):
        if is_list and data[position : position + 1] == b"]":
            rest = _after_space(data, position + 1)
            if rest >= len(data):
                return
            if data[rest : rest + 1] != b"[":
                yield rest, len(data), problem(filename, "this is behind the list.", place=f"byte {rest + 1:,}")
                return
            # Two exports in a row are two lists.
            position, text, inside = _after_space(data, rest + 1), "", 0
            continue
        # 1. A new window where the former is used up; bytes that are no UTF-8 pass through it and keep their length.
        if inside >= len(text):
            text, _ = codecs.utf_8_decode(data[position : position + size], "surrogateescape", False)
            inside, seen = 0, position + size
        # 2. The next value; if the window ends in it, the next window begins at it, and is larger if this one did.
        try:
            if size > _WINDOW:  # a smaller one has no more values than its bytes
                Budget(filename, items=2 * MAX_VALUES).take_json(text)
            value, end = DECODER.raw_decode(text, inside)
            used = len(text[inside:end].encode("utf-8", "surrogateescape"))
            size = _WINDOW
        except (json.JSONDecodeError, RecursionError) as error:
            # A line of JSONL that ends within the window is broken, and not cut off.
            line_end = -1 if is_list else data.find(b"\n", position, seen)
            is_cut = isinstance(error, json.JSONDecodeError) and seen < len(data) and line_end < 0
            if is_cut and (inside or size < MAX_FILE_BYTES):
                size, text = size if inside else size * 2, ""
                continue
            # One object is a single conversation, and a conversation has the size of a file.
            beyond = _after_space(data, line_end + 1)
            if not is_list and position == first and (line_end < 0 or data[beyond : beyond + 1] != b"{"):
                check_size(len(data), MAX_FILE_BYTES)
            used = _end_of_broken(data, position, is_list) - position
            value, end = problem(filename, _reason(error, used), place=f"byte {position + 1:,}"), len(text)
            size = _WINDOW
        yield position, position + used, value
        # 3. Past it and what separates it from the next.
        following = _after_space(data, position + used)
        inside = end + (following - position - used)
        position = following


def _reason(error: Exception, size: int) -> str:
    if size > MAX_FILE_BYTES:
        return f"this conversation is larger than {MAX_FILE_BYTES >> 20} MB."
    return "this is nested too deeply to be read." if isinstance(error, RecursionError) else "this is not valid JSON."


def _after_space(data: _Data, position: int) -> int:
    match = _BETWEEN.match(data, position)
    return position if match is None else match.end()


def _end_of_broken(data: _Data, position: int, is_list: bool) -> int:
    """Return where a value ends that cannot be parsed: its line, or its last bracket; else the end of the data."""
    if not is_list:
        end = data.find(b"\n", position)
        return len(data) if end < 0 else end
    depth = 0
    for mark in _MARKS.finditer(data, position):
        depth += {b"{": 1, b"[": 1, b"}": -1, b"]": -1}.get(mark[0], 0)
        if depth <= 0:
            return mark.end() if mark.end() > position else position + 1
    return len(data)


Kind = Literal["openai", "chat_store", "chat_table", "agent_store", "agent_file", "notes", "bundle", "configuration"]

_LABELS: dict[Kind, str] = {
    "openai": "Conversation",
    "chat_store": "LlamaIndex chat store",
    "chat_table": "LlamaIndex message table",
    "agent_store": "Conversations of an agent framework",
    "agent_file": "Letta agent file",
    "notes": "Folder of notes",
    "bundle": "Memory Inspector bundle",
    "configuration": "Memory Inspector configuration",
}
_EXPORTED = re.compile(r"(?:.*/)?conversations(?:-\d+)?\.json")
"""Files with the conversations in ChatGPT's and Claude's export archives; ChatGPT splits long ones."""
_ZIP_MAGICS = (b"PK\x03\x04", b"PK\x05\x06")


@dataclass(frozen=True, slots=True)
class Preview:
    """Content of a file, before anything is stored."""

    name: str
    """File name without path."""
    kind: Kind
    conversations: tuple[Listed, ...] = ()
    """Conversations to choose from; none in a bundle or a configuration."""
    bundle: Bundle | None = None
    configuration: Configuration | None = None
    _text: str = ""
    _stored: tuple[StoredConversation, ...] = ()
    _large: LargeExport | None = None

    @property
    def label(self) -> str:
        """Return the kind of file in words."""
        return _LABELS[self.kind]

    def conversation(self, pick: int = 0) -> Conversation:
        """Parse the conversation at index `pick`, from 0.

        Raises:
            FormatError: The conversation does not exist, or cannot be read.
        """
        if not 0 <= pick < len(self.conversations):
            raise problem(self.name, f"has no conversation {pick + 1}: it holds {len(self.conversations)}.")
        if self._large is not None:
            return self._large.conversation(pick)
        if self.kind == "openai":
            return read_conversation(self._text, filename=self.name, pick=pick)
        return read_stored(self._stored[pick], filename=self.name)


def read_file(name: str, data: bytes, *, step: Step | None = None) -> Preview:
    """Read a file of any kind: messages, a chat store, a bundle or a configuration.

    `step` is called with the share of a large export that is read.

    Raises:
        FormatError: It is none of these, damaged or too large; the message says which.
    """
    # Splits at both kinds of slashes, whichever system the browser ran on.
    name = PureWindowsPath(name).name or "The file"
    archive = data.startswith(_ZIP_MAGICS)
    if archive and (large := read_large_archive(data, _EXPORTED, filename=name, step=step)) is not None:
        return Preview(name, "openai", large.listed, _large=large)
    if archive and (exported := members_named(data, _EXPORTED, filename=name)):
        return read_file("conversations.json", _one_list(exported))
    # A damaged archive ends here too, as the reader of bundles reports best what is missing.
    if archive and not is_notes_archive(data):
        return Preview(name, "bundle", bundle=read_bundle(data, name))
    if not archive and len(data) > MAX_FILE_BYTES and not data.startswith(SQLITE_MAGIC):
        large = read_large(data, filename=name, step=step)
        return Preview(name, "openai", large.listed, _large=large)
    # Only now: a bundle has a limit of its own and may be much larger than other files.
    check_size(len(data))
    if archive:
        return _notes(name, read_archive(data, filename=name))
    if data.startswith(SQLITE_MAGIC):
        return _tables(data, name)
    text = _unwrapped(read_text(data, filename=name), name)
    # Kinds that are one JSON value are recognised by its fields. Everything else counts as messages, whose reader gives
    # advice on files of other kinds.
    values = read_values(text, filename=name)
    if len(values) == 1:
        value = values[0].value
        if is_configuration(value):
            return Preview(name, "configuration", configuration=read_configuration(text, name))
        if is_chat_store(value):
            stored = read_chat_store(value, filename=name)
            return Preview(name, "chat_store", tuple(conversation.listed for conversation in stored), _stored=stored)
        if is_agent_file(value):
            stored = read_agent_file(value, filename=name)
            return Preview(name, "agent_file", tuple(conversation.listed for conversation in stored), _stored=stored)
        if stored := conversations_in(value):
            return Preview(name, "agent_store", tuple(conversation.listed for conversation in stored), _stored=stored)
    return Preview(name, "openai", list_conversations(text, filename=name), _text=text)


def read_path(path: Path) -> Preview:
    """Read a file, a folder of notes or one of sessions in place; neither it nor its siblings are changed.

    Raises:
        FormatError: It is missing, unreadable, or of no kind that `read_file` knows.
    """
    check_files(path)
    try:
        if path.is_dir() and (stored := sessions_of_strands(path)):
            return Preview(path.name, "agent_store", tuple(session.listed for session in stored), _stored=stored)
        if path.is_dir():
            return _notes(path.name, read_folder(path))
        with path.open("rb") as file:
            # One more byte than is allowed, so that a file that is too large is refused without reading all of it.
            data = file.read(MAX_FILE_BYTES + 1)
        # By path rather than by content: newest rows may still be in the write-ahead log beside the file.
        if data.startswith(SQLITE_MAGIC):
            return _tables(path, path.name)
    except OSError as error:
        raise problem(path.name, f"cannot be read: {error.strerror or type(error).__name__}.") from error
    return read_file(path.name, data)


def check_files(path: Path) -> None:
    """Raise `FormatError` if a file or one of its logs is a pipe or device, whose reading might never end."""
    for candidate in (path, Path(f"{path}-wal"), Path(f"{path}-journal")):
        if candidate.exists() and not (candidate.is_file() or candidate.is_dir()):
            raise problem(candidate.name, "is no file, but a pipe or a device.")


def _tables(data: bytes | Path, name: str) -> Preview:
    stored = read_table(data, filename=name, others=lambda table: _of_frameworks(table, name))
    kind: Kind = "agent_store" if any(conversation.converted for conversation in stored) else "chat_table"
    return Preview(name, kind, tuple(conversation.listed for conversation in stored), _stored=stored)


def _notes(name: str, stored: StoredConversation) -> Preview:
    return Preview(name, "notes", (stored.listed,), _stored=(stored,))


def _of_frameworks(connection: StoreConnection, name: str) -> list[StoredConversation]:
    return [*conversations_of(connection), *threads_of(connection, name)]


def _one_list(parts: Sequence[bytes]) -> bytes:
    """Return the lists in the parts of an export as one list."""
    if len(parts) == 1:
        return parts[0]
    inside = (
        part.removeprefix(b"\xef\xbb\xbf").strip().removeprefix(b"[").removesuffix(b"]").strip() for part in parts
    )
    return b"[%s]" % b",\n".join(filter(None, inside))


def _unwrapped(text: str, name: str) -> str:
    """Unwrap JSON inside a JSON string, as older versions of LlamaIndex and Letta save it."""
    if not text.lstrip().startswith('"{'):
        return text
    try:
        inner = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise problem(name, "holds JSON inside a JSON text that is damaged or ends too early.") from error
    return inner if isinstance(inner, str) else text


# -- export a session's messages and configuration for other programs; `bundle` exports whole sessions


def export_messages(memory: Memory) -> str:
    """Return all messages in order, including archived ones, as JSONL in OpenAI's format."""
    return "".join(json.dumps(message_to_openai(message), ensure_ascii=False) + "\n" for message in memory.get_all())


def export_chat_store(memory: Memory) -> str:
    """Return all messages in order as LlamaIndex's `SimpleChatStore`, keyed by session id."""
    return write_chat_store({memory.session_id: memory.get_all()})


def export_configuration(memory: Memory) -> str:
    """Return settings and blocks as JSON; see `configuration.read_configuration`."""
    return write_configuration(memory.session.config, stored_blocks(memory))


def export_python(memory: Memory) -> str:
    """Return settings and blocks as Python source."""
    return write_python(memory.session.config, stored_blocks(memory), user_id=memory.session.user_id)


def export_llamaindex_python(memory: Memory) -> str:
    """Return settings and blocks as Python source for LlamaIndex."""
    return write_llamaindex_python(memory.session.config, stored_blocks(memory))


def stored_blocks(memory: Memory) -> list[StoredBlock]:
    """Return the session's blocks with their fixed texts, without anything they learned."""
    return [StoredBlock.of(attached.record, attached.state) for attached in memory.blocks]

"""Open any supported file, detected by content rather than name."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import Literal

from memory_core.bundles.archive import members_named
from memory_core.bundles.bundle import Bundle, read_bundle
from memory_core.errors import problem
from memory_core.formats.openai_message import message_to_openai
from memory_core.limits import MAX_FILE_BYTES, check_size
from memory_core.memory import Memory
from memory_inspector.files.configuration import (
    Configuration,
    StoredBlock,
    is_configuration,
    read_configuration,
    write_configuration,
    write_python,
)
from memory_inspector.files.large_exports import LargeExport, Step, read_large, read_large_archive
from memory_inspector.files.llamaindex_python import write_llamaindex_python
from memory_inspector.files.located_json import read_text, read_values
from memory_inspector.files.notes import is_notes_archive, read_archive, read_folder
from memory_inspector.files.openai_format import Conversation, Listed, list_conversations, read_conversation
from memory_inspector.files.stored import StoredConversation, read_stored
from memory_inspector.files.stores.agent_stores import conversations_of, sessions_of_strands
from memory_inspector.files.stores.framework_states import conversations_in
from memory_inspector.files.stores.langgraph_checkpoints import threads_of
from memory_inspector.files.stores.letta import is_agent_file, read_agent_file
from memory_inspector.files.stores.llamaindex_stores import is_chat_store, read_chat_store, read_table, write_chat_store
from memory_inspector.files.stores.sqlite_file import SQLITE_MAGIC, StoreConnection

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

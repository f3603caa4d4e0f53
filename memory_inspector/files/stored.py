"""A stored conversation before import, with the reasons for skipped messages; and its import with its memory.

Queue and archive are taken over without a replay; memory blocks become static blocks with all their versions.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from memory_core.blocks import StaticMemoryBlock
from memory_core.blocks.base import RESERVED_NAMES
from memory_core.config import MemoryConfig
from memory_core.curation.settings import add_block
from memory_core.engine.queue import fill
from memory_core.engine.reconcile import create_or_join
from memory_core.engine.session import Session
from memory_core.errors import MessageError, problem
from memory_core.events import SessionImported
from memory_core.formats.llamaindex_message import message_from_llamaindex, says_nothing
from memory_core.memory import Memory
from memory_core.messages import ChatMessage, storable, timed
from memory_core.recipes import RECIPES
from memory_core.services import Services
from memory_core.store.database import Database
from memory_inspector.files.mirroring import MirroredBlock, mirror
from memory_inspector.files.openai_format import Conversation, Listed, Note, Skipped, one_line, other_notes


@dataclass(frozen=True, slots=True)
class StoredConversation:
    """A conversation, oldest message first. Messages are parsed JSON of LlamaIndex; unreadable ones are errors."""

    key: str
    messages: tuple[Any, ...]
    archived: frozenset[int] = frozenset()
    """Indexes of messages that had left the queue."""
    times: tuple[float | None, ...] = ()
    """Time of each message in seconds since 1970; empty if unknown."""
    blocks: tuple[MirroredBlock, ...] = ()
    notes: tuple[str, ...] = ()
    """Caveats about the whole conversation."""
    token_limit: int | None = None

    @property
    def converted(self) -> bool:
        """Return whether the conversation comes from a framework other than LlamaIndex."""
        return any(isinstance(message, ChatMessage | MessageError) for message in self.messages)

    @property
    def listed(self) -> Listed:
        return Listed(one_line(self.key) or "Conversation", len(self.messages))


def read_stored(conversation: StoredConversation, *, filename: str) -> Conversation:
    """Parse a conversation's messages, listing skipped ones with reasons.

    Raises:
        FormatError: No message and no block can be imported.
    """
    messages: list[ChatMessage] = []
    archived: set[int] = set()
    skipped: list[Skipped] = []
    notes: list[Note] = []
    for index, value in enumerate(conversation.messages):
        try:
            if isinstance(value, MessageError):
                # A reader could not convert it, and gives its reason in the place of the message.
                raise value
            read = isinstance(value, ChatMessage)
            message, left_out = (value, ()) if read else message_from_llamaindex(value, any_role=True)
        except MessageError as error:
            skipped.append(Skipped(None, index, str(error).removesuffix(".")))
            continue
        notes += [Note(None, index, note) for note in (*left_out, *other_notes(message))]
        if says_nothing(message):
            skipped.append(Skipped(None, index, "no text"))
            continue
        if index in conversation.archived:
            # Indexes of the result count imported messages only, unlike those of the store.
            archived.add(len(messages))
        messages.append(timed(message, conversation.times[index] if conversation.times else None))
    if not messages and not conversation.blocks:
        reason = f": {skipped[0].reason}" if skipped else ""
        raise problem(filename, f"holds no messages that can be imported{reason}.")
    notes += [Note(None, None, note) for note in conversation.notes]
    return Conversation(
        tuple(messages),
        tuple(skipped),
        tuple(notes),
        conversation.listed.title,
        frozenset(archived),
        conversation.blocks,
        conversation.token_limit,
    )


class BlockNames:
    """Generates valid, unique block names, avoiding those of a store."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def free(self, wanted: Any) -> str:
        """Return a free name similar to the wanted one."""
        text = str(storable(wanted)[0]) if isinstance(wanted, str) else ""
        # Names become tags in the prompt, so a block's name may hold neither angle bracket; look-alikes keep it
        # readable.
        name = " ".join(text.replace("<", "‹").replace(">", "›").split()) or "Block"
        number = 1
        candidate = name = f"{name} block" if name in RESERVED_NAMES else name
        while candidate in self._taken:
            number += 1
            candidate = f"{name} {number}"
        self._taken.add(candidate)
        return candidate


def counted(names: Sequence[str], shown: int = 5) -> str:
    """Join names, abbreviating long lists: `a, b and 3 more`."""
    more = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {more} more" if more > 0 else "")


def import_with_state(
    conversation: Conversation, database: Database, *, services: Services, source: str, learn: bool = True
) -> Memory:
    """Create a session in the state of a conversation's store.

    Learning blocks come from its recipe (see `recipe_for`) and start empty; with `learn` the archive is queued for
    them, like any flushed messages. `source`: description of the origin.

    Raises:
        MessageError: A message cannot be stored.
        ConfigError: A block cannot be made.
        StoreError: The database cannot be reached.
    """
    session = Session(database, uuid.uuid4().hex[:12], services=services)
    made = RECIPES[recipe_for(conversation)].made()
    begun = SessionImported(source=source, messages=len(conversation.messages), skipped=len(conversation.skipped))
    config = {**made.settings, "token_limit": token_limit(conversation)}
    # 1. An empty session with the recipe's settings, and the limit under which the store worked.
    create_or_join(session, title=conversation.title, user_id=None, config=config, blocks=[], begun=begun)
    # 2. The store's queue, archive and texts. Mirroring delivers nothing to blocks.
    mirror(session, conversation.messages, archived=conversation.archived, blocks=conversation.blocks)
    # 3. The recipe's learning blocks only: fixed texts come from the store.
    with session.changing() as w:
        for block in made.blocks:
            if not isinstance(block, StaticMemoryBlock):
                add_block(session, w, block, "user")
        if learn:
            for attached in session.blocks:
                fill(session, w, attached)
    return Memory(session)


def recipe_for(conversation: Conversation) -> str:
    """Return the key of the closest recipe: `self_editing` if the store has memory blocks, otherwise `blocks`."""
    return "self_editing" if conversation.blocks else "blocks"


def token_limit(conversation: Conversation) -> int:
    """Return the store's token limit, or the default."""
    return conversation.token_limit or MemoryConfig().token_limit

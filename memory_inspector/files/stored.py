"""A stored conversation before import, with the reasons for skipped messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from memory_core.blocks.base import RESERVED_NAMES
from memory_core.errors import MessageError, problem
from memory_core.formats.llamaindex_message import message_from_llamaindex, says_nothing
from memory_core.messages import ChatMessage, storable, timed
from memory_inspector.files.mirroring import MirroredBlock
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

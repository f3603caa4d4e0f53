"""A conversation of a store, before it is imported: what of it can be, and what is left out and why."""

from dataclasses import dataclass
from typing import Any

from memory_core.errors import MessageError
from memory_core.formats.llamaindex_message import message_from_llamaindex, says_nothing
from memory_core.interop.located_json import problem
from memory_core.interop.openai_format import Conversation, Listed, Note, Skipped, one_line
from memory_core.messages import ChatMessage


@dataclass(frozen=True, slots=True)
class StoredConversation:
    """One conversation of a store, oldest message first: as LlamaIndex's JSON, or read already, or why it is none."""

    key: str
    messages: tuple[Any, ...]
    archived: int = 0
    """Of them, how many had left the queue there."""

    @property
    def converted(self) -> bool:
        """Is it another framework's than LlamaIndex's?"""
        return any(isinstance(message, ChatMessage | MessageError) for message in self.messages)

    @property
    def listed(self) -> Listed:
        return Listed(one_line(self.key) or "Conversation", len(self.messages))


def read_stored(conversation: StoredConversation, *, filename: str) -> Conversation:
    """The messages of one conversation, with what is left out and why.

    Raises:
        FormatError: not one of them can be imported.
    """
    messages: list[ChatMessage] = []
    skipped: list[Skipped] = []
    notes: list[Note] = []
    for index, value in enumerate(conversation.messages):
        try:
            if isinstance(value, MessageError):
                raise value
            message, left_out = (value, ()) if isinstance(value, ChatMessage) else message_from_llamaindex(value)
        except MessageError as error:
            skipped.append(Skipped(None, index, str(error).removesuffix(".")))
            continue
        notes += [Note(None, index, note) for note in left_out]
        if says_nothing(message):
            skipped.append(Skipped(None, index, "no text"))
        else:
            messages.append(message)
    if not messages:
        reason = f": {skipped[0].reason}" if skipped else ""
        raise problem(filename, f"holds no messages that can be imported{reason}.")
    if conversation.archived:
        were = "1 message was" if conversation.archived == 1 else f"{conversation.archived:,} messages were"
        notes.append(Note(None, None, f"{were} archived there; here all are played in order"))
    return Conversation(tuple(messages), tuple(skipped), tuple(notes), conversation.listed.title)

"""A recorded conversation that can be played into a session.

The recording is stored with the session's texts. Progress is derived from the session itself: messages put from it
carry ids made from the recording and their index in it, so no step can be played twice.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from sqlalchemy import select

from memory_core.engine.session import Session
from memory_core.messages import ChatMessage, MessageRole
from memory_core.store.tables import message_table
from memory_core.store.writing import read_existing, read_texts, recorded_ids


@dataclass(frozen=True, slots=True)
class Recording:
    """The recorded messages, and the number of them already put into the session."""

    key: str
    messages: tuple[ChatMessage, ...]
    played: int

    @property
    def next_turn(self) -> tuple[ChatMessage, ...]:
        """Messages that the next step puts: all before the second user message that is still to come.

        If a turn was begun, only the rest of that turn: everything before the next user message.
        """
        places = range(self.played, len(self.messages))
        users = (place for place in places if self.messages[place].role is MessageRole.USER)
        # In the middle of a turn the step ends at the next user message. Otherwise that one begins it, and the second
        # ends it.
        begun = 0 < self.played < len(self.messages) and self.messages[self.played].role is not MessageRole.USER
        end = next(islice(users, 0 if begun else 1, None), len(self.messages))
        return self.messages[self.played : end]

    def message_id(self, index: int) -> str:
        """Return the id under which the message at `index` is put."""
        return f"{recorded_ids(self.key)}{index}"


def encode(messages: Sequence[ChatMessage]) -> str:
    """Return the messages as one text for the content store."""
    return json.dumps([message.to_json() for message in messages], ensure_ascii=False)


def recording_of(session: Session, *, upto: int | None = None) -> Recording | None:
    """Return the session's recording, if any, with its progress up to a sequence number (None: up to now).

    Raises:
        NotFoundError: the session was deleted.
    """
    with session.database.read() as connection:
        state = read_existing(connection, session.id)
        text = read_texts(connection, state.scope, [state.recording]).get(state.recording) if state.recording else None
        if state.recording is None or text is None:
            return None
        # Progress is stored nowhere: it is the number of the recording's messages that the session has, known by their
        # ids.
        m = message_table.c
        # By the highest index, not by count: messages that were played may have been removed since.
        ids = select(m.id).where(m.session_id == state.id, m.id.like(f"{recorded_ids(state.recording)}%"))
        if upto is not None:
            ids = ids.where(m.seq <= upto)
        played = max((int(id.rpartition("-")[2]) + 1 for id in connection.execute(ids).scalars()), default=0)
        return Recording(state.recording, _decoded(text), played)


@lru_cache(maxsize=4)
def _decoded(text: str) -> tuple[ChatMessage, ...]:
    """Return the messages of a recording; cached, because every redraw of its session needs them."""
    return tuple(ChatMessage.from_json(item) for item in json.loads(text))

"""A recorded conversation that is played into a session.

It is kept with the session's words. How far it has been played shows in the session itself: the
messages put from it carry ids made from the recording and their place in it, so that no step can
be played twice.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from sqlalchemy import Connection, func, select

from memory_core.engine.session import Session
from memory_core.messages import ChatMessage, MessageRole
from memory_core.store.tables import message_table
from memory_core.store.writing import SessionState, contents, read_existing


@dataclass(frozen=True, slots=True)
class Recording:
    """The recorded messages, and how many of them the session has."""

    key: str
    messages: tuple[ChatMessage, ...]
    played: int

    @property
    def next_turn(self) -> tuple[ChatMessage, ...]:
        """What the next step puts: up to the next user message, and all that follows until the one after."""
        places = range(self.played, len(self.messages))
        users = (place for place in places if self.messages[place].role is MessageRole.USER)
        end = next(islice(users, 1, None), len(self.messages))
        return self.messages[self.played : end]

    def message_id(self, index: int) -> str:
        """The id under which the message at `index` is put."""
        return f"{self.key[:16]}-{index}"


def encode(messages: Sequence[ChatMessage]) -> str:
    """Messages as one text for the content store."""
    return json.dumps([message.to_json() for message in messages], ensure_ascii=False)


def recording_of(session: Session, *, upto: int | None = None) -> Recording | None:
    """The session's recording, if it has one, as played up to a sequence number or up to now.

    Raises:
        NotFoundError: the session was deleted.
    """
    with session.database.read() as connection:
        return _read(connection, read_existing(connection, session.id), upto)


def _read(connection: Connection, session: SessionState, upto: int | None) -> Recording | None:
    if session.recording is None:
        return None
    text = contents(connection, session.scope, [session.recording]).get(session.recording)
    if text is None:
        return None
    m = message_table.c
    ids = select(func.count()).where(m.session_id == session.id, m.id.like(f"{session.recording[:16]}-%"))
    if upto is not None:
        ids = ids.where(m.seq <= upto)
    return Recording(session.recording, _decoded(text), int(connection.execute(ids).scalar_one()))


@lru_cache(maxsize=4)
def _decoded(text: str) -> tuple[ChatMessage, ...]:
    """The messages of a recording, which every drawing of its session asks for."""
    return tuple(ChatMessage.from_json(item) for item in json.loads(text))

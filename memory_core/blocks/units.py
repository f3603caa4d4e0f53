"""Units of a vector block, the messages stored together, and their metadata: words, speakers, time."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeVar

from sqlalchemy import Connection

from memory_core.events import as_json, expand
from memory_core.messages import MessageRole, recites_memory
from memory_core.planning.former_values import FormerMark, Source
from memory_core.planning.rendering import unit_words
from memory_core.planning.retrieval_plan import informativeness
from memory_core.planning.speakers import date_line, parse_message, speaker_of
from memory_core.store.message_rows import (
    DatedMessage,
    HeardMessage,
    MessageCache,
    StoredMessage,
    read_dated,
    read_messages,
)
from memory_core.store.vector_rows import Node
from memory_core.text import stems

Heard = TypeVar("Heard", StoredMessage, DatedMessage)

Unit = Literal["message", "turn", "batch"]
"""A single message; a user message with the replies to it; everything flushed together."""


class UnitMetadata(NamedTuple):
    stems: str
    """Stems of the unit's words (see `search_words`), in order, with spaces between."""
    informativeness: float
    """Informativeness of the unit's text, 0 to 1; see `planning.boosts.informativeness`."""
    speakers: frozenset[str]
    """Folded names of the speakers, or roles where there is no name."""
    names: frozenset[str]
    """Folded names among the speakers."""
    person: bool
    """True if a user speaks, or an assistant with a name."""
    when: str | None
    """Time given with the first message of the unit that has one, as written."""
    time: float | None
    """`when` in seconds since 1970; None if the unit has no time, or the time cannot be read."""
    stored: float
    """Time at which the unit's first message was stored, in seconds since 1970."""
    day: str
    """Date line above the unit in a prompt; empty if the unit has no time."""

    def to_json(self) -> str:
        """Serialise as JSON for storing."""
        names = sorted(self.names)
        # Names are speakers too: written apart, each is stored once.
        others = sorted(self.speakers - self.names)
        fields = (names, others, self.person, self.when, self.time, self.stored, self.day, self.informativeness)
        return as_json((HEARD_VERSION, self.stems, *fields))


HEARD_VERSION = 1
"""Version of the parsing rules: metadata stored under another version is ignored."""


def kept_heard(texts: Sequence[str | None]) -> list[UnitMetadata | None]:
    """Parse stored metadata of units; None for a unit without metadata, or with metadata of another version."""
    result: list[UnitMetadata | None] = []
    # Units of the same speakers share one set.
    shared: Callable[[tuple[str, ...]], frozenset[str]] = cache(frozenset)
    for values in json.loads(f"[{','.join(text or 'null' for text in texts)}]"):  # one text for all is faster
        if values is None or values[0] != HEARD_VERSION:
            result.append(None)
            continue
        _, stems, names, others, person, when, time, stored, day, informativeness = values
        speakers, named = shared((*names, *others)), shared(tuple(names))
        result.append(UnitMetadata(stems, informativeness, speakers, named, person, when, time, stored, day))
    return result


def units_of(messages: Sequence[StoredMessage], unit: Unit) -> list[list[StoredMessage]]:
    """Group messages into units.

    System messages are instructions, not memories, and are left out. Messages without a user message before them in the
    batch (the rest of a split turn, for example) form a unit of their own.
    """
    heard = [
        message
        for message in messages
        if message.message.role is not MessageRole.SYSTEM and not recites_memory(message.message)
    ]
    if unit == "batch":
        return [heard] if heard else []
    units: list[list[StoredMessage]] = []
    for message in heard:
        if unit == "message" or not units or message.message.role is MessageRole.USER:
            units.append([])
        units[-1].append(message)
    return units


def searchable(messages: Sequence[StoredMessage], unit: Unit) -> list[list[StoredMessage]]:
    """Return the units that have words; only these are stored."""
    return [several for several in units_of(messages, unit) if search_words(several)]


def messages_of(
    connection: Connection, session_id: str, cache: MessageCache, nodes: Iterable[Node]
) -> dict[int, list[DatedMessage]]:
    """Return the messages of stored units by unit id, read together; units whose messages are gone are missing.

    `session_id` is the session of units that name none.
    """
    return _by_unit(session_id, nodes, lambda session, seqs: read_dated(connection, session, cache, seqs))


def stored_messages_of(
    connection: Connection, session_id: str, cache: MessageCache, nodes: Iterable[Node]
) -> dict[int, list[StoredMessage]]:
    """Return the messages of stored units like `messages_of`, with all that is stored of them."""
    return _by_unit(session_id, nodes, lambda session, seqs: read_messages(connection, session, cache, seqs=seqs))


def _by_unit(
    session_id: str, nodes: Iterable[Node], read: Callable[[str, Sequence[int]], list[Heard]]
) -> dict[int, list[Heard]]:
    of: defaultdict[str, dict[int, list[int]]] = defaultdict(dict)
    for node in nodes:
        of[node.session_id or session_id][node.number] = expand(node.seqs)
    turns: dict[int, list[Heard]] = {}
    for session, spans in of.items():
        # One query for each session, however many units.
        seqs = sorted({seq for several in spans.values() for seq in several})
        by_seq = {message.seq: message for message in read(session, seqs)}
        turns |= {number: [by_seq[seq] for seq in several if seq in by_seq] for number, several in spans.items()}
    return {number: unit for number, unit in turns.items() if unit}


def mark_texts(unit: Sequence[HeardMessage], marks: Mapping[Source, FormerMark]) -> list[str]:
    """Return the mark beside each message of a unit as text; empty for most."""
    sources = [(message.session_id, message.seq) for message in unit]
    return [marks[source].text() if source in marks else "" for source in sources]


def words_of(unit: Sequence[HeardMessage], marks: Mapping[Source, FormerMark] = MappingProxyType({})) -> str:
    """Return the text of a unit for display and counting, with its marks of former values."""
    return unit_words([message.message for message in unit], mark_texts(unit, marks))


def search_words(unit: Sequence[HeardMessage]) -> str:
    """Return the text of a unit for embedding and search, without a speaker and time that precede the words."""
    return "\n".join(words for message in unit if (words := parse_message(message.message).words))


def node_words(connection: Connection, session_id: str, cache: MessageCache, nodes: Sequence[Node]) -> list[str]:
    """Return the texts to embed for stored units."""
    units = messages_of(connection, session_id, cache, nodes)
    return [search_words(units.get(node.number, ())) for node in nodes]


def parse_unit(unit: Sequence[HeardMessage]) -> UnitMetadata:
    """Parse the metadata of a unit of at least one message."""
    parsed = [(parse_message(message.message), message.message.role) for message in unit]
    dated = next((one for one, _ in parsed if one.when), None)
    # The same words as `search_words` gives, from messages that are parsed already.
    words = "\n".join(one.words for one, _ in parsed if one.words)
    stemmed = stems(words)
    return UnitMetadata(
        stems=" ".join(stemmed),
        informativeness=informativeness(words, stemmed),
        speakers=frozenset(speaker_of(one, role) for one, role in parsed),
        names=frozenset(one.speaker.lower() for one, _ in parsed if one.speaker),
        person=any(role is MessageRole.USER or one.speaker is not None for one, role in parsed),
        when=dated.when if dated else None,
        time=dated.time if dated else None,
        stored=unit[0].at,
        day=date_line(dated) if dated else "",
    )

"""Units of a vector block, the messages stored together, and their metadata: words, speakers, time."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection

from memory_core.events import expand
from memory_core.messages import MessageRole, message_text, recites_memory
from memory_core.planning.boosts import informativeness
from memory_core.planning.speech import date_line, parse_message, speaker_of
from memory_core.store.messages import MessageCache, StoredMessage, read_messages
from memory_core.store.vectors import Node
from memory_core.text import stems

Unit = Literal["message", "turn", "batch"]
"""A message by itself; a user message with the replies to it; everything that left the queue together."""


@dataclass(frozen=True, slots=True)
class UnitMetadata:
    """A unit as it was said."""

    stems: tuple[str, ...]
    """Of its words (see `search_words`), in order."""
    informativeness: float
    """How much it tells by itself, 0 to 1; see `planning.boosts.informativeness`."""
    speakers: frozenset[str]
    """Folded names, or roles where there is no name."""
    names: frozenset[str]
    """Those of `speakers` that are names."""
    person: bool
    """Does a user speak, or an assistant with a name?"""
    when: str | None
    """The time that came with its first message that has one, as written."""
    time: float | None
    """The same in seconds since 1970."""
    stored: float
    """When its first message was stored, in seconds since 1970."""
    day: str
    """The date line above it in a prompt; empty where no time came with it."""

    def to_json(self) -> str:
        """As it is kept."""
        names = sorted(self.names)
        others = sorted(self.speakers - self.names)
        fields = (names, others, self.person, self.when, self.time, self.stored, self.day, self.informativeness)
        return json.dumps((HEARD_VERSION, " ".join(self.stems), *fields), ensure_ascii=False, separators=(",", ":"))


HEARD_VERSION = 1
"""Of the rules by which a unit is heard: what was kept under others is not used."""


def kept_heard(texts: Sequence[str | None]) -> list[UnitMetadata | None]:
    """Units as they were kept; None for those that were not, or by other rules."""
    found: list[UnitMetadata | None] = []
    for values in json.loads(f"[{','.join(text or 'null' for text in texts)}]"):  # one text for all is faster
        if values is None or values[0] != HEARD_VERSION:
            found.append(None)
            continue
        _, stemmed, names, others, person, when, time, stored, day, informativeness = values
        speakers = frozenset((*names, *others))
        stems = tuple(stemmed.split(" ")) if stemmed else ()
        found.append(UnitMetadata(stems, informativeness, speakers, frozenset(names), person, when, time, stored, day))
    return found


def units_of(messages: Sequence[StoredMessage], unit: Unit) -> list[list[StoredMessage]]:
    """Messages grouped into what is stored together. System messages are instructions, not memories.

    What follows no user message of the batch (the rest of a thinned turn, say) is a turn of its own.
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
    """The units of some messages that have words, which alone are stored."""
    return [several for several in units_of(messages, unit) if search_words(several)]


def messages_of(
    connection: Connection, session_id: str, cache: MessageCache, nodes: Iterable[Node]
) -> dict[int, list[StoredMessage]]:
    """The messages of stored units by number, one read for all; units whose messages are gone are missing."""
    spans = {node.number: expand(node.seqs) for node in nodes}
    seqs = sorted({seq for several in spans.values() for seq in several})
    by_seq = {message.seq: message for message in read_messages(connection, session_id, cache, seqs=seqs)}
    units = {number: [by_seq[seq] for seq in several if seq in by_seq] for number, several in spans.items()}
    return {number: unit for number, unit in units.items() if unit}


def words_of(unit: Sequence[StoredMessage]) -> str:
    """The text of a unit, as it is shown and counted."""
    return "\n".join(text for message in unit if (text := message_text(message.message)))


def search_words(unit: Sequence[StoredMessage]) -> str:
    """The text of a unit, as it is embedded and searched: without speaker and time where they stand before it."""
    return "\n".join(words for message in unit if (words := parse_message(message.message).words))


def node_words(connection: Connection, session_id: str, cache: MessageCache, nodes: Sequence[Node]) -> list[str]:
    """What is embedded of each stored unit."""
    units = messages_of(connection, session_id, cache, nodes)
    return [search_words(units.get(node.number, ())) for node in nodes]


def parse_unit(unit: Sequence[StoredMessage]) -> UnitMetadata:
    """What a unit of at least one message says of itself."""
    each = [(parse_message(message.message), message.message.role) for message in unit]
    dated = next((one for one, _ in each if one.when), None)
    words = "\n".join(one.words for one, _ in each if one.words)
    stemmed = tuple(stems(words))
    return UnitMetadata(
        stems=stemmed,
        informativeness=informativeness(words, stemmed),
        speakers=frozenset(speaker_of(one, role) for one, role in each),
        names=frozenset(one.speaker.lower() for one, _ in each if one.speaker),
        person=any(role is MessageRole.USER or one.speaker is not None for one, role in each),
        when=dated.when if dated else None,
        time=dated.time if dated else None,
        stored=unit[0].at,
        day=date_line(dated) if dated else "",
    )

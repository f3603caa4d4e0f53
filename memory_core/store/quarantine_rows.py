"""Quarantine in the database: read from the logs of a session and of its user's other sessions."""

from collections.abc import Mapping, Sequence
from itertools import accumulate

from sqlalchemy import Connection, bindparam, select

from memory_core.events import Actor, EventRecord, QuarantineChanged, ranges
from memory_core.messages import content_hash, message_text
from memory_core.planning.context_plan import QUEUE
from memory_core.planning.impact import TELLING, Target
from memory_core.planning.phrase_matching import Phrase
from memory_core.planning.quarantine import Quarantine, QuarantinedSet, quarantine_of, sets_in_force
from memory_core.planning.running_summary import sentences
from memory_core.store.database import chunks
from memory_core.store.log_rows import RECORD_COLUMNS, as_records
from memory_core.store.message_rows import MessageCache, read_messages
from memory_core.store.tables import content_table, event_table, fact_table, session_table
from memory_core.store.writing import Writing

_e, _s = event_table.c, session_table.c
# Built once, as every prompt reads them. Two statements, not one with OR, for which SQLite would read the whole log.
_CHANGES = select(*RECORD_COLUMNS).where(_e.kind == QuarantineChanged.kind).order_by(_e.id)
_OF_SESSION = _CHANGES.where(_e.session_id == bindparam("session"))
_OF_USER = _CHANGES.where(_e.session_id.in_(select(_s.id).where(_s.user_id == bindparam("user"))))

_NOTHING: Mapping[int, Sequence[str]] = {}


def read_sets(connection: Connection, session_id: str) -> list[QuarantinedSet]:
    """Return the sets of a session's items that are in quarantine, oldest first."""
    return sets_in_force(_changes(connection, session_id))


def read_all_sets(connection: Connection, session_id: str, user_id: str | None) -> list[QuarantinedSet]:
    """Return the sets of a session and of its user's other sessions, oldest first."""
    return sets_in_force(_changes(connection, session_id, user_id))


def read_states(connection: Connection, session_id: str) -> list[Quarantine]:
    """Return the session's quarantine after each change, oldest first."""
    changes = [[record] for record in _changes(connection, session_id)]
    return [quarantine_of(sets_in_force(records)) for records in accumulate(changes)]


def add_set(w: Writing, planned: QuarantinedSet, *, actor: Actor) -> QuarantinedSet:
    """Put the items of a set into quarantine, and return it with its number and time."""
    w.save()
    before = [record.event for record in _changes(w.connection, w.session.id)]
    # An event of a newer version may be unknown.
    numbers = [event.number for event in before if isinstance(event, QuarantineChanged)]
    event = QuarantineChanged(
        number=max(numbers, default=0) + 1,
        messages=ranges(planned.seqs),
        facts=planned.facts,
        relations=planned.relations,
        sentences=planned.sentences,
        phrase="\n".join(planned.phrases),
        whole_words=planned.whole_words,
        spared=planned.spared,
    )
    w.record(event, actor=actor)
    w.session.quarantined = True
    w.save()
    return read_sets(w.connection, w.session.id)[-1]


def end_set(w: Writing, number: int, *, actor: Actor) -> None:
    """Release the items of a set."""
    w.record(QuarantineChanged(number=number, released=True), actor=actor)


def read_targets(
    connection: Connection, session_id: str, cache: MessageCache, sets: Sequence[QuarantinedSet], *, parts: bool = False
) -> list[Target]:
    """Return the words of sets of a session: phrases, texts of messages and of facts; messages too short are left out.

    `parts`: also each sentence of the messages that no message out of quarantine has.
    """
    seqs = {seq for one in sets for seq in one.seqs}
    texts = [message_text(m.message).strip() for m in read_messages(connection, session_id, cache, seqs=sorted(seqs))]
    words = [text for text in texts if len(text) >= TELLING]
    if parts and texts:
        stored = read_messages(connection, session_id, cache)
        others = [message_text(message.message) for message in stored if message.seq not in seqs]
        split = dict.fromkeys(part for text in texts for part in sentences(text) if len(part) >= TELLING)
        words += [part for part in split if not any(map(Phrase.of(part).verbatim_in, others))]
    fact, content = fact_table.c, content_table.c
    of_fact = (fact.content == content.hash) & (fact.scope == content.scope)
    facts: list[str] = []
    for chunk in chunks(sorted({id for one in sets for id in one.facts})):
        facts += connection.execute(select(content.data).join(fact_table, of_fact).where(fact.id.in_(chunk))).scalars()
    targets = [Target(one.phrases, whole_words=one.whole_words) for one in sets]
    targets += [Target(tuple(dict.fromkeys(words)), whole_words=True), Target(tuple(dict.fromkeys(facts)))]
    return [target for target in targets if target.phrases]


def _withholds(w: Writing) -> bool:
    """Tell whether a session ever had something in quarantine; nearly none has, and its log is then not read."""
    if w.session.quarantined is None:
        w.session.quarantined = bool(_changes(w.connection, w.session.id))
    return w.session.quarantined


def join_sets(
    w: Writing,
    cache: MessageCache,
    *,
    messages: Mapping[int, Sequence[str]] = _NOTHING,
    facts: Mapping[int, Sequence[str]] = _NOTHING,
    relations: Mapping[int, Sequence[str]] = _NOTHING,
    text: str = "",
) -> None:
    """Add to the session's sets what was just stored and says the same: items by id with their texts, and sentences."""
    if not _withholds(w):
        return
    for one in quarantine_of(read_sets(w.connection, w.session.id)).sets_without(QUEUE, w.session.id):
        targets = read_targets(w.connection, w.session.id, cache, [one])
        event = QuarantineChanged(
            number=one.number,
            messages=ranges(_saying(messages, targets)),
            facts=tuple(_saying(facts, targets)),
            relations=tuple(_saying(relations, targets)),
            sentences=tuple(content_hash(part) for part in sentences(text) if any(t.said_in(part) for t in targets)),
            joined=True,
        )
        if event.messages or event.facts or event.relations or event.sentences:
            w.record(event)


def _saying(items: Mapping[int, Sequence[str]], targets: Sequence[Target]) -> list[int]:
    return [id for id, texts in items.items() if any(target.said_in(text) for target in targets for text in texts)]


def _changes(connection: Connection, session_id: str, user_id: str | None = None) -> list[EventRecord]:
    if user_id is None:
        return as_records(connection.execute(_OF_SESSION, {"session": session_id}).all())
    return as_records(connection.execute(_OF_USER, {"user": user_id}).all())

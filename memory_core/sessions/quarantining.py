"""Put the rows of an impact into quarantine, and release them again."""

from collections.abc import Sequence
from typing import TypedDict

from sqlalchemy import Connection

from memory_core.blocks import WITH_TEXT
from memory_core.blocks.static import texts_in_content
from memory_core.engine.delivery import scope_key
from memory_core.engine.session import Session
from memory_core.errors import NotFoundError
from memory_core.events import Actor
from memory_core.messages import content_hash, message_text
from memory_core.planning.impact import Affected, Impact, Kind
from memory_core.planning.quarantine import Quarantine, QuarantinedSet, quarantine_of
from memory_core.planning.running_summary import sentences
from memory_core.sessions.erase_phrase import stale_sentences
from memory_core.store.block_rows import read_blocks
from memory_core.store.fact_rows import read_facts
from memory_core.store.graph_rows import read_graph
from memory_core.store.message_rows import read_messages
from memory_core.store.quarantine_rows import add_set, end_set, read_all_sets, read_sets
from memory_core.store.writing import read_texts, session_scope


class _Items(TypedDict):
    """Items of a set: messages by sequence number, facts and relations by id, sentences by hash."""

    seqs: Sequence[int]
    facts: Sequence[int]
    relations: Sequence[int]
    sentences: Sequence[str]


def quarantine(session: Session, impact: Impact, actor: Actor = "user") -> QuarantinedSet | None:
    """Keep the rows of an impact out of all prompts; return the new set, None if no prompt could hold any."""
    with session.writing() as w:
        items = _items(session, w.connection, impact)
        return add_set(w, **items, actor=actor) if any(items.values()) else None


def session_with(session: Session, impact: Impact) -> Session:
    """Return a copy of the session with the rows of an impact in quarantine. Read-only."""
    with session.database.read() as connection:
        items = _items(session, connection, impact)
        now = session.quarantine(connection)
    return session.with_quarantine(
        Quarantine(
            now.messages | {(session.id, seq) for seq in items["seqs"]},
            now.facts.union(items["facts"]),
            now.relations.union(items["relations"]),
            now.sentences.union(items["sentences"]),
        )
    )


def session_without(session: Session, number: int) -> Session:
    """Return a copy of the session in which this set is released. Read-only."""
    with session.database.read() as connection:
        sets = read_all_sets(connection, session.id, session.user_id)
    return session.with_quarantine(quarantine_of([one for one in sets if one.key != (session.id, number)]))


def quarantine_again(session: Session, released: QuarantinedSet, actor: Actor = "user") -> QuarantinedSet:
    """Put the items of a released set into quarantine again, as another set."""
    with session.writing() as w:
        return add_set(
            w,
            seqs=released.seqs,
            facts=released.facts,
            relations=released.relations,
            sentences=released.sentences,
            actor=actor,
        )


def release(session: Session, number: int, actor: Actor = "user") -> QuarantinedSet:
    """Let prompts hold the items of a set again, and return the set.

    Raises:
        NotFoundError: no set of this number is in quarantine.
    """
    with session.writing() as w:
        sets = {one.number: one for one in read_sets(w.connection, session.id)}
        if number not in sets:
            raise NotFoundError(f"No set {number} is in quarantine in this session.")
        end_set(w, number, actor=actor)
        return sets[number]


def sets_of(session: Session) -> list[QuarantinedSet]:
    """Return the sets of this session that are in quarantine, oldest first."""
    with session.database.read() as connection:
        return read_sets(connection, session.id)


def rows_of(session: Session, withheld: QuarantinedSet) -> list[Affected]:
    """Return the items of a set with their texts; items that were erased since are missing."""
    session.open()
    rows: list[Affected] = []
    with session.database.read() as connection:
        for message in read_messages(connection, session.id, session.services.messages, seqs=withheld.seqs):
            rows.append(Affected("message", message.seq, message_text(message.message), "chosen", message.turn))
        for attached in session.blocks:
            if attached.kind == "facts":
                facts = read_facts(connection, scope_key(session, attached), attached.name, states=None)
                rows += [Affected("fact", f.id, f.text, "chosen", f.turn) for f in facts if f.id in withheld.facts]
            elif attached.kind == "graph":
                graph = read_graph(connection, session_scope(session.id), attached.name)
                relations = (graph.relations[id] for id in withheld.relations if id in graph.relations)
                rows += [Affected("relation", r.id, graph.sentence(r), "chosen", r.turn) for r in relations]
            elif attached.kind in WITH_TEXT:
                kind: Kind = "summary" if attached.kind == "summary" else "text"
                only = Quarantine(sentences=frozenset(withheld.sentences))
                texts = texts_in_content(attached.state or attached.initial or "")
                rows += [
                    Affected(kind, attached.name, words, "chosen") for text in texts for words in only.held_back(text)
                ]
    return rows


def _items(session: Session, connection: Connection, impact: Impact) -> _Items:
    sentences = [content_hash(sentence) for sentence in _sentences(session, connection, impact)]
    ids = impact.ids
    return _Items(seqs=ids("message"), facts=ids("fact"), relations=ids("relation"), sentences=sentences)


def _sentences(session: Session, connection: Connection, impact: Impact) -> list[str]:
    """Return the sentences of texts and summaries that say the phrase, or that only the listed messages say."""
    stale = stale_sentences(session, connection, impact)
    withheld: list[str] = []
    for record in read_blocks(connection, session.id):
        if record.text is None or record.name not in (*impact.names("summary"), *impact.names("text")):
            continue
        stored = read_texts(connection, session_scope(session.id), [record.text]).get(record.text, "")
        for text in texts_in_content(stored):
            parts = sentences(text)
            said_in = impact.target.said_in
            held = [s for s in parts if said_in(s) or (record.type == "summary" and stale(s))]
            # A phrase that begins in one sentence and ends in the next is in none of them.
            whole = said_in(text) and not any(map(said_in, parts))
            withheld += parts if whole else held
    return list(dict.fromkeys(withheld))

"""Put the rows of an impact into quarantine, and release them again."""

from collections.abc import Collection
from dataclasses import replace

from sqlalchemy import Connection

from memory_core.blocks import WITH_TEXT
from memory_core.blocks.static import texts_in_content
from memory_core.engine.delivery import scope_key
from memory_core.engine.session import Session
from memory_core.messages import content_hash, message_text
from memory_core.planning.impact import Affected, Impact, Kind, texts_in
from memory_core.planning.quarantine import PROMPT_KINDS, Quarantine, QuarantinedSet, quarantine_of
from memory_core.planning.running_summary import sentences
from memory_core.sessions.forgetting import Forgettable, impact_of, stale_sentences
from memory_core.sessions.recorded_conversation import recording_of
from memory_core.store.block_rows import read_blocks
from memory_core.store.fact_rows import read_facts
from memory_core.store.graph_rows import read_graph
from memory_core.store.message_rows import read_messages
from memory_core.store.quarantine_rows import read_all_sets, read_targets
from memory_core.store.writing import read_texts, session_scope


def impact_on_prompts(session: Session, what: Forgettable, keep: Collection[Affected]) -> Impact:
    """Return what prompts may hold of something, now or when a recording is played on, without the rows in `keep`.

    Raises: as `impact_of`.
    """
    impact = impact_of(session, what, [row for row in keep if row.kind not in ("fields", "recording")])
    recording = recording_of(session)
    said_in = impact.target.said_in
    coming = recording.messages[recording.played :] if recording is not None else ()
    ahead = sum(any(map(said_in, texts_in(message.to_json()))) for message in coming)
    words = "1 message that is still to be played" if ahead == 1 else f"{ahead:,} messages that are still to be played"
    rows = [replace(row, words=words) if row.kind == "recording" else row for row in impact.rows]
    shown = (row for row in rows if row.kind in PROMPT_KINDS and (row.kind != "recording" or ahead))
    return replace(impact, rows=tuple(shown)).sparing(keep)


def session_with(session: Session, impact: Impact) -> Session:
    """Return a copy of the session with the rows of an impact in quarantine. Read-only."""
    with session.database.read() as connection:
        planned = planned_set(session, connection, impact)
        sets = session.quarantine(connection).sets
    return session.with_quarantine(quarantine_of([*sets, *([planned] if planned is not None else [])]))


def session_without(session: Session, number: int) -> Session:
    """Return a copy of the session in which this set is released. Read-only."""
    with session.database.read() as connection:
        sets = read_all_sets(connection, session.id, session.user_id)
    return session.with_quarantine(quarantine_of([one for one in sets if one.key != (session.id, number)]))


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
            elif attached.kind == "custom" and attached.name not in withheld.spared:
                targets = read_targets(connection, session.id, session.services.messages, [withheld], parts=True)
                if any(target.said_in(text) for target in targets for text in texts_in(attached.state or "")):
                    rows.append(Affected("fields", attached.name, f"what {attached.name} says of it", "chosen"))
    return rows


def planned_set(session: Session, connection: Connection, impact: Impact) -> QuarantinedSet | None:
    """Return the set of an impact's rows, not stored yet; None if no prompt could hold any."""
    target, ids = impact.target, impact.ids
    # The words of a chosen message or fact are stored with it. A phrase is stored nowhere else.
    phrases = () if target.seqs or target.facts else target.phrases
    seqs, facts, relations = (tuple(ids(kind)) for kind in ("message", "fact", "relation"))
    hashes = tuple(content_hash(sentence) for sentence in _sentences(session, connection, impact))
    if not (seqs or facts or relations or hashes or impact.names("fields") or impact.names("recording")):
        return None
    words = phrases, bool(phrases) and target.whole_words, impact.spared
    return QuarantinedSet(session.id, 0, 0, 0.0, seqs, facts, relations, hashes, *words)


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

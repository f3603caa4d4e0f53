"""Find what says a phrase in a session's rows, and erase it in one transaction."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, select, update

from memory_core.events import SessionReset, expand, ranges, spread
from memory_core.messages import message_text
from memory_core.planning.fact_merging import Fact
from memory_core.planning.impact import Affected, Impact, Kind, Why, says, without_phrase, without_sentences
from memory_core.store.block_rows import BlockRecord, read_blocks, update_block, write_text
from memory_core.store.database import chunks
from memory_core.store.erasing.fact_erasing import ERASED, erase_facts
from memory_core.store.erasing.session_erasing import clear_failed_texts, remove_empty_deliveries, remove_messages
from memory_core.store.fact_rows import drop_sources, read_by_ids
from memory_core.store.graph_rows import erase_graph, forget_sources
from memory_core.store.log_rows import read_events
from memory_core.store.message_rows import MessageCache, read_messages
from memory_core.store.tables import (
    block_revision_table,
    content_table,
    entity_table,
    event_table,
    fact_revision_table,
    fact_source_table,
    fact_table,
    message_table,
    relation_source_table,
    relation_table,
    session_table,
    vector_table,
)
from memory_core.store.text_erasing import erase_unneeded
from memory_core.store.vector_rows import remove_nodes
from memory_core.store.writing import Writing, read_existing, read_texts, session_scope, user_scope

_e, _r, _m, _c = entity_table.c, relation_table.c, message_table.c, content_table.c
WORDS_SHOWN = 300


@dataclass(frozen=True)
class _Place:
    """A session's rows, and the hashes of its texts that say the phrase."""

    connection: Connection
    session_id: str
    scopes: tuple[str, ...]
    phrase: str
    saying: frozenset[str]


def read_impact(
    connection: Connection, session_id: str, user_id: str | None, cache: MessageCache, phrase: str
) -> Impact:
    """Return everything in a session, and among its user's facts, that says a phrase or was learned from it alone."""
    scopes = (session_scope(session_id), *([user_scope(user_id)] if user_id is not None else []))
    # Messages are stored as JSON, where other letters than ASCII may be escaped.
    written = {phrase, json.dumps(phrase)[1:-1]}
    texts = connection.execute(select(_c.hash, _c.data).where(_c.scope.in_(scopes)))
    saying = frozenset(row.hash for row in texts if any(says(row.data, form) for form in written))
    place = _Place(connection, session_id, scopes, phrase, saying)
    messages = connection.execute(select(_m.seq, _m.content).where(_m.session_id == session_id).order_by(_m.seq))
    seqs = [row.seq for row in messages if row.content in saying]
    rows = [
        *_messages(place, seqs, cache),
        *_facts(place, seqs),
        *_graph(place, seqs),
        *_blocks(place, seqs),
        *_of_the_session(place),
        *_elsewhere(place, written),
    ]
    facts = {row.id for row in rows if row.kind == "fact"}
    return Impact(phrase, tuple(rows), _units(place, seqs), _prompts(place, set(seqs), facts))


def _messages(place: _Place, seqs: Sequence[int], cache: MessageCache) -> Iterator[Affected]:
    for message in read_messages(place.connection, place.session_id, cache, seqs=seqs) if seqs else ():
        words = message_text(message.message) or "(no text)"
        yield Affected("message", message.seq, words[:WORDS_SHOWN], "says it", message.turn)


def _facts(place: _Place, seqs: Sequence[int]) -> Iterator[Affected]:
    past, source = fact_revision_table.c, fact_source_table.c
    of_scope = select(fact_table.c.id).where(fact_table.c.scope.in_(place.scopes))
    rows = place.connection.execute(select(past.fact_id, past.content, past.metadata).where(past.fact_id.in_(of_scope)))
    saying = {id for id, *hashes in rows if place.saying.intersection(hashes)}
    keys = select(fact_table.c.id, fact_table.c.key).where(fact_table.c.scope.in_(place.scopes))
    saying |= {id for id, key in place.connection.execute(keys) if key in place.saying}
    gone = {(place.session_id, seq) for seq in seqs}
    sources: dict[int, set[tuple[str, int]]] = {}
    for id, session, seq in place.connection.execute(
        select(source.fact_id, source.session_id, source.seq).where(source.fact_id.in_(of_scope))
    ):
        sources.setdefault(id, set()).add((session, seq))
    alone = {id for id, places in sources.items() if places <= gone}
    for fact in read_by_ids(place.connection, sorted(saying | alone)):
        if fact.id in saying:
            why: Why = "says it" if says(fact.text, place.phrase) else "said it before"
            yield Affected("fact", fact.id, fact.text, why, fact.turn)
        elif fact.origin != "written":
            yield Affected("fact", fact.id, fact.text, "learned from it alone", fact.turn)


def _graph(place: _Place, seqs: Sequence[int]) -> Iterator[Affected]:
    scope = place.scopes[0]
    entities = place.connection.execute(select(_e.id, _e.name, _e.aliases, _e.turn).where(_e.scope == scope)).all()
    named = {row.id for row in entities if place.saying.intersection((row.name, *json.loads(row.aliases)))}
    relations = place.connection.execute(
        select(_r.id, _r.subject, _r.predicate, _r.object, _r.origin, _r.turn).where(_r.scope == scope)
    ).all()
    words = read_texts(place.connection, scope, {row.name for row in entities} | {row.predicate for row in relations})
    names = {row.id: words.get(row.name, "") for row in entities}
    source = relation_source_table.c
    sources: dict[int, set[tuple[str, int]]] = {}
    for id, session, seq in place.connection.execute(
        select(source.relation_id, source.session_id, source.seq).where(
            source.relation_id.in_(select(_r.id).where(_r.scope == scope))
        )
    ):
        sources.setdefault(id, set()).add((session, seq))
    gone = {(place.session_id, seq) for seq in seqs}
    for row in relations:
        text = f"{names.get(row.subject, '')} {words.get(row.predicate, '')} {names.get(row.object, '')}"
        if row.predicate in place.saying or {row.subject, row.object} & named:
            yield Affected("relation", row.id, text, "says it", row.turn)
        elif row.origin != "written" and (of := sources.get(row.id)) and of <= gone:
            yield Affected("relation", row.id, text, "learned from it alone", row.turn)
    for entity in entities:
        if entity.id in named:
            yield Affected("entity", entity.id, names[entity.id], "says it", entity.turn)


def _blocks(place: _Place, seqs: Sequence[int]) -> Iterator[Affected]:
    """Texts and summaries that say it now or did before, summaries that read one of the messages, and custom fields."""
    revision = block_revision_table.c
    past = place.connection.execute(
        select(revision.block, revision.content).where(revision.session_id == place.session_id)
    ).all()
    saying = {block for block, content in past if content in place.saying}
    for record in read_blocks(place.connection, place.session_id):
        now = read_texts(place.connection, place.scopes[0], [record.text]) if record.text else {}
        text = now.get(record.text or "", "")
        kind: Kind = "summary" if record.type == "summary" else "text"
        if record.text in place.saying or says(text, place.phrase):
            yield Affected(kind, record.name, text[:WORDS_SHOWN], "says it")
        elif record.name in saying or says(record.constructor, place.phrase) or says(_settings(record), place.phrase):
            yield Affected(kind, record.name, text[:WORDS_SHOWN], "said it before")
        elif record.type == "summary" and text and _read_by(place.connection, place.session_id, record) & set(seqs):
            yield Affected("summary", record.name, text[:WORDS_SHOWN], "learned from it alone")
        if record.state in place.saying:
            yield Affected("fields", record.name, "fields of a custom block", "says it")


def _settings(record: BlockRecord) -> str:
    return json.dumps(record.settings, ensure_ascii=False)


def _read_by(connection: Connection, session_id: str, record: BlockRecord) -> set[int]:
    """Return the messages that a summary read."""
    logged = read_events(connection, session_id, kinds=("summary_rewritten",), block=record.name)
    events: list[Any] = [one.event for one in logged]
    return {seq for event in events for seq in expand(event.seqs)}


def _of_the_session(place: _Place) -> Iterator[Affected]:
    session = read_existing(place.connection, place.session_id)
    if session.recording in place.saying:
        yield Affected("recording", place.session_id, "the recording, which can then not be played", "says it")
    if session.probes and says(session.probes, place.phrase):
        yield Affected("probes", place.session_id, "probes of this session", "says it")
    if says(session.title, place.phrase):
        yield Affected("title", place.session_id, session.title, "says it")


def _elsewhere(place: _Place, written: set[str]) -> Iterator[Affected]:
    others = select(_c.scope, _c.data).where(_c.scope.not_in(place.scopes), _c.scope.like("session:%"))
    counts: dict[str, int] = {}
    for scope, data in place.connection.execute(others):
        if any(says(data, form) for form in written):
            counts[scope] = counts.get(scope, 0) + 1
    for scope, number in sorted(counts.items()):
        id = scope.partition(":")[2]
        title = place.connection.execute(select(session_table.c.title).where(session_table.c.id == id)).scalar()
        many = "1 text" if number == 1 else f"{number:,} texts"
        yield Affected("session", id, f"{title or id}: {many}", "in another session")


def _units(place: _Place, seqs: Sequence[int]) -> int:
    gone = set(seqs)
    held = place.connection.execute(select(vector_table.c.seqs).where(vector_table.c.session_id == place.session_id))
    return sum(not gone.isdisjoint(expand(json.loads(spans))) for spans in held.scalars())


def _prompts(place: _Place, seqs: set[int], facts: set[int | str]) -> int:
    """Return the number of recorded prompts with one of the messages in the queue, or one of the facts in a block."""
    wanted = {f"f{id}" for id in facts}
    total = 0
    for record in read_events(place.connection, place.session_id, kinds=("context_built",)):
        event: Any = record.event
        queued = {seq for spans in (event.queue, event.pinned) for seq in expand(spans)}
        refs = {ref for part in event.parts for ref in spread(part["refs"])}
        total += not seqs.isdisjoint(queued) or not wanted.isdisjoint(refs)
    return total


# -- erasing ---------------------------------------------------------------------------------------


def forget_phrase(w: Writing, impact: Impact, stale: Callable[[str], bool]) -> None:
    """Erase what an impact lists, with every text that nothing else needs; the rows of another session stay.

    Facts and relations that were learned from the messages alone go where they are listed; others keep their sources.
    `stale` tells of a sentence of a summary whether only the erased messages say it: it goes as well.
    """
    seqs = impact.ids("message")
    # Units first: they name messages that are gone afterwards.
    vectors = remove_nodes(w, seqs=seqs) if seqs else 0
    drop_sources(w, seqs)
    facts: list[Fact] = read_by_ids(w.connection, impact.ids("fact"))
    erase_facts(w, facts, actor="user")
    if seqs:
        forget_sources(w, seqs, with_unsourced=False)
    _erase_graph(w, impact)
    for record in read_blocks(w.connection, w.session.id):
        if record.name in (*impact.names("summary"), *impact.names("text")):
            _shorten(w, record, impact.phrase, stale if record.type == "summary" else None)
        if record.name in impact.names("fields"):
            update_block(w, record.name, state=None)
    if seqs:
        clear_failed_texts(w)
        remove_messages(w, seqs, counts_anew=False)
        remove_empty_deliveries(w)
    if impact.names("recording"):
        w.session.recording = None
    if impact.names("probes"):
        w.session.probes = None
    if impact.names("title"):
        w.session.title = ""
    w.save()
    _clear_events(w, impact.phrase)
    _clear_reasons(w, impact.phrase)
    for scope in {w.session.scope, *(fact.scope for fact in facts)}:
        erase_unneeded(w, scope)
    counts = {"messages": len(seqs), "facts": len(facts), "vectors": vectors}
    w.record(SessionReset(status=None, **counts, seqs=ranges(seqs)), actor="user")


def _erase_graph(w: Writing, impact: Impact) -> None:
    """Erase relations and entities that are still there: some went with their messages."""
    relations = impact.ids("relation")
    entities = impact.ids("entity")
    present = w.connection.execute(select(_r.id, _r.block).where(_r.id.in_(relations))).all() if relations else []
    named = w.connection.execute(select(_e.id, _e.block).where(_e.id.in_(entities))).all() if entities else []
    touching = {id for id, _ in named}
    others = (
        w.connection.execute(select(_r.id, _r.block).where(_r.subject.in_(touching) | _r.object.in_(touching))).all()
        if touching
        else []
    )
    erase_graph(
        w, [(id, block) for id, block in named], list({(id, block) for id, block in (*present, *others)}), actor="user"
    )


def _shorten(w: Writing, record: BlockRecord, phrase: str, stale: Callable[[str], bool] | None) -> None:
    """Take the sentences that say a phrase, or are stale, out of a text, and delete its versions that had them.

    The constructor's values and the settings lose them too: a stored text wins over a constructor that still says it,
    until the program gives another one.
    """
    text = read_texts(w.connection, w.session.scope, [record.text]).get(record.text, "") if record.text else ""
    revision = block_revision_table.c
    of_block = (revision.session_id == w.session.id) & (revision.block == record.name)
    past = w.connection.execute(select(revision.revision, revision.content).where(of_block)).all()
    words = read_texts(w.connection, w.session.scope, [content for _, content in past])
    shorter = without_phrase(text, phrase)
    if stale is not None:
        shorter = without_sentences(shorter, stale)
    # An earlier version of a summary may have the same sentences in other words.
    saying = [n for n, content in past if says(words.get(content, ""), phrase) or (stale and content != record.text)]
    for chunk in chunks(saying):
        w.connection.execute(delete(block_revision_table).where(of_block, revision.revision.in_(chunk)))
    values: dict[str, Any] = {}
    if says(record.constructor, phrase):
        values["constructor"] = json.dumps(_shortened(json.loads(record.constructor), phrase), sort_keys=True)
    if says(_settings(record), phrase):
        values["settings"] = _shortened(record.settings, phrase)
    if values:
        # A constructor that still says it would bring the text back when the program starts.
        update_block(w, record.name, **values)
    if shorter != text:
        write_text(w, record, shorter, actor="user")
        w.session.revision += 1  # so that open sessions load the text again


def _clear_reasons(w: Writing, phrase: str) -> None:
    """Clear the reasons of changes to the session's facts that say a phrase."""
    past = fact_revision_table.c
    of_session = select(fact_table.c.id).where(fact_table.c.scope == w.session.scope)
    reasons = select(past.fact_id, past.version, past.reason).where(past.fact_id.in_(of_session))
    for id, version, reason in w.connection.execute(reasons).all():
        if reason is not None and says(reason, phrase):
            where = (past.fact_id == id) & (past.version == version)
            w.connection.execute(update(fact_revision_table).where(where).values(reason=ERASED))


def _clear_events(w: Writing, phrase: str) -> None:
    """Replace the texts of this session's events that say a phrase: reasons and titles that a person typed, notes."""
    event = event_table.c
    for position, text in w.connection.execute(select(event.id, event.data).where(event.session_id == w.session.id)):
        if says(text, phrase) or says(text, json.dumps(phrase)[1:-1]):
            blank = json.dumps(_blanked(json.loads(text), phrase), ensure_ascii=False, separators=(",", ":"))
            w.connection.execute(update(event_table).where(event.id == position).values(data=blank))


def _shortened(value: object, phrase: str) -> object:
    """Return JSON values with the sentences that say a phrase taken out of their texts."""
    if isinstance(value, str):
        return without_phrase(value, phrase)
    if isinstance(value, list):
        return [_shortened(item, phrase) for item in value]
    if isinstance(value, dict):
        return {key: _shortened(item, phrase) for key, item in value.items()}
    return value


def _blanked(value: object, phrase: str) -> object:
    if isinstance(value, str):
        return ERASED if says(value, phrase) else value
    if isinstance(value, list):
        return [_blanked(item, phrase) for item in value]
    if isinstance(value, dict):
        return {key: item if key == "block" else _blanked(item, phrase) for key, item in value.items()}
    return value

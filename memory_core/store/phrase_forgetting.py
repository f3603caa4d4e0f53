"""Find a session's rows that say a phrase, or belong to a chosen message or fact, and erase them in one transaction."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, Table, delete, select, update

from memory_core.events import KINDS, SessionReset, expand, ranges, spread
from memory_core.messages import message_text
from memory_core.planning.fact_merging import Fact
from memory_core.planning.impact import (
    ERASED,
    TELLING,
    Affected,
    Impact,
    Kind,
    Match,
    Target,
    Why,
    json_in,
    texts_in,
    without_sentences,
)
from memory_core.store.block_rows import BlockRecord, read_blocks, update_block, write_text
from memory_core.store.database import chunks
from memory_core.store.erasing import clear_failed_texts, erase_facts, remove_empty_deliveries, remove_messages
from memory_core.store.fact_rows import drop_sources, read_by_ids
from memory_core.store.graph_rows import drop_relation_sources, erase_graph, lonely_entities
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
    """A session, and the hashes of its texts that contain the text to be forgotten, each with how it says it."""

    connection: Connection
    session_id: str
    scopes: tuple[str, ...]
    target: Target
    saying: Mapping[str, Match | None]


def read_impact(
    connection: Connection,
    session_id: str,
    user_id: str | None,
    cache: MessageCache,
    target: Target,
    *,
    heard: Collection[tuple[str, int]] = (),
    names_others: bool = True,
) -> Impact:
    """Return everything in a session and its user's facts that contains the target or was learned from it alone.

    `heard`: messages of other sessions that are erased too; `names_others`: list other sessions that say it. The impact
    has no counts of stored turns and prompts yet: see `counted`.
    """
    scopes = (session_scope(session_id), *([user_scope(user_id)] if user_id is not None else []))
    # Every text is searched once; rows are then compared by hash. Also the user's, as their facts are erased too.
    texts = connection.execute(select(_c.hash, _c.data).where(_c.scope.in_(scopes)))
    stating = _stating(connection, target)
    matches = {row.hash: _match_in(row.data, target) for row in texts}
    saying = {key: match for key, match in matches.items() if match or key in stating}
    place = _Place(connection, session_id, scopes, target, saying)
    messages = connection.execute(select(_m.seq, _m.content).where(_m.session_id == session_id).order_by(_m.seq))
    going = {row.seq: saying.get(row.content) for row in messages if row.content in saying or row.seq in target.seqs}
    seqs = list(going)
    rows = [
        *_messages(place, going, cache),
        *_facts(place, {(session_id, seq) for seq in seqs}.union(heard)),
        *_graph(place, seqs),
        *_blocks(place, seqs),
        *_of_the_session(place),
        *(_elsewhere(place) if names_others else ()),
    ]
    return Impact(target, tuple(rows))


def _stating(connection: Connection, target: Target) -> set[str]:
    """Return the hashes of the messages that a chosen fact was learned from, without short ones such as "Yes."."""
    # Said twice in one delivery, a fact has only the first of two equal messages as its source.
    source = fact_source_table.c
    of_message = (source.session_id == _m.session_id) & (source.seq == _m.seq)
    query = select(_c.hash, _c.data).join(message_table, _m.content == _c.hash).join(fact_source_table, of_message)
    rows = connection.execute(query.where(source.fact_id.in_(target.facts))) if target.facts else ()
    return {row.hash for row in rows if any(len(text) >= TELLING for text in texts_in(row.data))}


def counted(connection: Connection, session_id: str, impact: Impact) -> Impact:
    """Return an impact with its counts, without entities that a remaining relation needs."""
    relations = set(impact.ids("relation"))
    entities = impact.ids("entity")
    needed = _needed(connection, entities, relations)
    impact = replace(impact, rows=tuple(row for row in impact.rows if row.kind != "entity" or row.id not in needed))
    seqs = set(impact.ids("message"))
    stored = connection.execute(select(vector_table.c.seqs).where(vector_table.c.session_id == session_id)).scalars()
    units = sum(not seqs.isdisjoint(expand(json.loads(spans))) for spans in stored)
    return replace(impact, stored_units=units, prompts=_prompts(connection, session_id, seqs, impact.ids("fact")))


def _needed(connection: Connection, entities: Sequence[int], relations: Collection[int]) -> set[int]:
    """Return the ids of both entities of all relations, except `relations`, that name one of `entities`."""
    needed: set[int] = set()
    for chunk in chunks(entities):
        ends = select(_r.id, _r.subject, _r.object).where(_r.subject.in_(chunk) | _r.object.in_(chunk))
        for id, subject, object in connection.execute(ends):
            needed |= set() if id in relations else {subject, object}
    return needed


def _match_in(data: str, target: Target) -> Match | None:
    """Return how a stored text, or the texts in its JSON together, say the target; None if they do not."""
    return target.match_in("\n".join(texts_in(data)))


def _messages(place: _Place, seqs: Mapping[int, Match | None], cache: MessageCache) -> Iterator[Affected]:
    for message in read_messages(place.connection, place.session_id, cache, seqs=list(seqs)) if seqs else ():
        words = message_text(message.message) or "(no text)"
        why: Why = "says it"
        if message.seq in place.target.seqs:
            why = "states it" if place.target.facts else "chosen"
        match = seqs[message.seq]
        yield Affected("message", message.seq, words[:WORDS_SHOWN], why, message.turn, match=match)


def _facts(place: _Place, gone: Collection[tuple[str, int]]) -> Iterator[Affected]:
    past, source = fact_revision_table.c, fact_source_table.c
    of_scope = select(fact_table.c.id).where(fact_table.c.scope.in_(place.scopes))
    # Any version counts: undo would bring back the text of a former one.
    rows = place.connection.execute(select(past.fact_id, past.content, past.metadata).where(past.fact_id.in_(of_scope)))
    saying = {id for id, *hashes in rows if not place.saying.keys().isdisjoint(hashes)}
    keys = select(fact_table.c.id, fact_table.c.key).where(fact_table.c.scope.in_(place.scopes))
    saying |= {id for id, key in place.connection.execute(keys) if key in place.saying}
    sources: dict[int, set[tuple[str, int]]] = {}
    for id, session, seq in place.connection.execute(
        select(source.fact_id, source.session_id, source.seq).where(source.fact_id.in_(of_scope))
    ):
        sources.setdefault(id, set()).add((session, seq))
    saying |= set(place.target.facts)
    # All sources of these are erased. Facts without any source are not in `sources` and stay.
    alone = {id for id, places in sources.items() if places.issubset(gone)}
    for fact in read_by_ids(place.connection, sorted(saying | alone)):
        if fact.id in saying:
            match = place.target.match_in(fact.text)
            why: Why = "says it" if match else "said it before"
            why = "chosen" if fact.id in place.target.facts else why
            yield Affected("fact", fact.id, fact.text, why, fact.turn, match=match)
        # A fact that a person wrote was not learned from the messages.
        elif fact.origin != "written":
            yield Affected("fact", fact.id, fact.text, "learned from it alone", fact.turn)


def _graph(place: _Place, seqs: Sequence[int]) -> Iterator[Affected]:
    # Graphs belong to sessions only.
    scope = place.scopes[0]
    entities = place.connection.execute(select(_e.id, _e.name, _e.aliases, _e.turn).where(_e.scope == scope)).all()
    named = {row.id for row in entities if not place.saying.keys().isdisjoint((row.name, *json.loads(row.aliases)))}
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
    going: set[int] = set()
    for row in relations:
        text = f"{names.get(row.subject, '')} {words.get(row.predicate, '')} {names.get(row.object, '')}"
        match = place.target.match_in(text)
        if match or row.predicate in place.saying or {row.subject, row.object} & named:
            why: Why = "says it"
        elif row.origin != "written" and (of := sources.get(row.id)) and of <= gone:
            why = "learned from it alone"
        else:
            continue
        going.add(row.id)
        yield Affected("relation", row.id, text, why, row.turn, match=match)
    # Found entities that no other relation names are erased with the relations.
    lonely = {id for id, _ in lonely_entities(place.connection, scope, going)}
    # Entities that had no relation before are left alone.
    lonely -= {id for id, _ in lonely_entities(place.connection, scope, ())}
    for entity in entities:
        if entity.id in named:
            match = place.target.match_in(names[entity.id])
            yield Affected("entity", entity.id, names[entity.id], "says it", entity.turn, match=match)
        elif entity.id in lonely:
            yield Affected("entity", entity.id, names[entity.id], "learned from it alone", entity.turn)


def _blocks(place: _Place, seqs: Sequence[int]) -> Iterator[Affected]:
    """Yield blocks: texts that say or said the target, summaries that read a message of `seqs`, and custom fields."""
    revision = block_revision_table.c
    past = place.connection.execute(
        select(revision.block, revision.content).where(revision.session_id == place.session_id)
    ).all()
    saying = {block for block, content in past if content in place.saying}
    for record in read_blocks(place.connection, place.session_id):
        now = read_texts(place.connection, place.scopes[0], [record.text]) if record.text else {}
        text = now.get(record.text or "", "")
        kind: Kind = "summary" if record.type == "summary" else "text"
        if match := place.saying.get(record.text or "") or place.target.match_in(text):
            yield Affected(kind, record.name, text[:WORDS_SHOWN], "says it", match=match)
        elif record.name in saying or _shorter(record, place.target):
            yield Affected(kind, record.name, text[:WORDS_SHOWN], "said it before")
        elif record.type == "summary" and text and _read_by(place.connection, place.session_id, record) & set(seqs):
            yield Affected("summary", record.name, text[:WORDS_SHOWN], "learned from it alone")
        # Fields of a custom block have an unknown form: they are erased as a whole.
        if record.state in place.saying:
            yield Affected("fields", record.name, "fields of a custom block", "says it")


def _read_by(connection: Connection, session_id: str, record: BlockRecord) -> set[int]:
    """Return the messages that a summary read."""
    logged = read_events(connection, session_id, kinds=("summary_rewritten",), block=record.name)
    events: list[Any] = [one.event for one in logged]
    return {seq for event in events for seq in expand(event.seqs)}


def _of_the_session(place: _Place) -> Iterator[Affected]:
    session = read_existing(place.connection, place.session_id)
    if session.recording in place.saying:
        yield Affected("recording", place.session_id, "the recording, which can then not be played", "says it")
    for probe in _probes(session.probes):
        if place.target.said_in(probe.get("phrase", "")):
            yield Affected("probe", place.session_id, probe["phrase"], "says it")
    for kind, words in _watched(session.watched):
        if kind == "words" and place.target.said_in(words):
            yield Affected("watched", place.session_id, words, "says it")
    if place.target.said_in(session.title):
        yield Affected("title", place.session_id, session.title, "says it")


def _probes(stored: str | None) -> list[dict[str, Any]]:
    probes: list[dict[str, Any]] = json.loads(stored or "[]")
    return probes


def _watched(stored: str | None) -> list[tuple[str, str]]:
    """Return the watched items, each with its kind: `words` or `ref`."""
    return [(kind, text) for kind, text in json.loads(stored or "[]")]


def _elsewhere(place: _Place) -> Iterator[Affected]:
    # Counted and named, but not erased: only this session and its user's facts are.
    others = select(_c.scope, _c.data).where(_c.scope.not_in(place.scopes), _c.scope.like("session:%"))
    counts: dict[str, int] = {}
    for scope, data in place.connection.execute(others):
        if _match_in(data, place.target):
            counts[scope] = counts.get(scope, 0) + 1
    for scope, number in sorted(counts.items()):
        id = scope.partition(":")[2]
        title = place.connection.execute(select(session_table.c.title).where(session_table.c.id == id)).scalar()
        many = "1 text" if number == 1 else f"{number:,} texts"
        yield Affected("session", id, f"{title or id}: {many}", "in another session")


def _prompts(connection: Connection, session_id: str, seqs: set[int], facts: Sequence[int]) -> int:
    """Return the number of recorded prompts with one of the messages in the queue, or one of the facts in a block."""
    wanted = {f"f{id}" for id in facts}
    total = 0
    for record in read_events(connection, session_id, kinds=("context_built",)):
        event: Any = record.event
        queued = {seq for spans in (event.queue, event.pinned) for seq in expand(spans)}
        refs = {ref for part in event.parts for ref in spread(part["refs"])}
        total += not seqs.isdisjoint(queued) or not wanted.isdisjoint(refs)
    return total


# -- erasing ---------------------------------------------------------------------------------------


def forget_phrase(w: Writing, impact: Impact, stale: Callable[[str], bool]) -> None:
    """Erase the rows of an impact, with every text that nothing else needs; rows of other sessions stay.

    Facts and relations learned from the messages alone are erased if the impact lists them; others lose these sources.
    `stale` returns True for a summary's sentence that only the erased messages say; the sentence is erased, too.
    """
    seqs = impact.ids("message")
    # Stored turns first: they name messages that no longer exist afterwards.
    vectors = remove_nodes(w, seqs=seqs) if seqs else 0
    drop_sources(w, seqs)
    facts: list[Fact] = read_by_ids(w.connection, impact.ids("fact"))
    erase_facts(w, facts, actor="user")
    drop_relation_sources(w, seqs)
    _erase_graph(w, impact)
    # Texts lose only these sentences: the rest of a text says other things.
    for record in read_blocks(w.connection, w.session.id):
        if record.name in (*impact.names("summary"), *impact.names("text")):
            _shorten(w, record, impact.target, stale if record.type == "summary" else None)
        if record.name in impact.names("fields"):
            update_block(w, record.name, state=None)
    if seqs:
        clear_failed_texts(w)
        # Turns are counted on, as readers of the log begin anew only after everything was removed.
        remove_messages(w, seqs, counts_anew=False)
        remove_empty_deliveries(w)
    if impact.names("recording"):
        w.session.recording = None
    _drop_probes_and_watched(w, impact)
    if impact.names("title"):
        w.session.title = ""
    # So that events of this transaction are searched as well.
    w.save()
    _clear_events(w, impact.target)
    _clear_reasons(w, impact.target)
    # Texts that no row needs any more are erased from the content store.
    for scope in {w.session.scope, *(fact.scope for fact in facts)}:
        erase_unneeded(w, scope)
    counts = {"messages": len(seqs), "facts": len(facts), "vectors": vectors}
    # After the clearing, as this event holds numbers only.
    w.record(SessionReset(status=None, **counts, seqs=ranges(seqs)), actor="user")


def _erase_graph(w: Writing, impact: Impact) -> None:
    """Erase the relations and entities of an impact, except entities that another relation names."""
    relations = impact.ids("relation")
    entities = set(impact.ids("entity"))
    # The impact may be older than the rows: another relation may name one by now.
    entities -= _needed(w.connection, sorted(entities), set(relations))
    erase_graph(
        w, _with_blocks(w, entity_table, sorted(entities)), _with_blocks(w, relation_table, relations), actor="user"
    )


def _with_blocks(w: Writing, table: Table, ids: Sequence[int]) -> list[tuple[int, str]]:
    """Return the rows that still exist, by id, each with its block."""
    rows: list[tuple[int, str]] = []
    for chunk in chunks(ids):
        present = select(table.c.id, table.c.block).where(table.c.id.in_(chunk))
        rows += [(id, block) for id, block in w.connection.execute(present)]
    return rows


def _drop_probes_and_watched(w: Writing, impact: Impact) -> None:
    gone = {kind: {row.words for row in impact.rows if row.kind == kind} for kind in ("probe", "watched")}
    if gone["probe"]:
        probes = [probe for probe in _probes(w.session.probes) if probe.get("phrase") not in gone["probe"]]
        # In the form in which probes are written by `memory_inspector.lab.probes`.
        w.session.probes = json.dumps(probes, ensure_ascii=False, indent=2) if probes else None
    if gone["watched"]:
        watched = [[kind, text] for kind, text in _watched(w.session.watched) if text not in gone["watched"]]
        w.session.watched = json.dumps(watched, ensure_ascii=False) if watched else None


def _shorten(w: Writing, record: BlockRecord, target: Target, stale: Callable[[str], bool] | None) -> None:
    """Remove the sentences that say a phrase, or are stale, from a text, and delete its versions that had them.

    The constructor's values and the settings lose them too. A program that still passes the old text brings it back.
    """
    text = read_texts(w.connection, w.session.scope, [record.text]).get(record.text, "") if record.text else ""
    revision = block_revision_table.c
    of_block = (revision.session_id == w.session.id) & (revision.block == record.name)
    past = w.connection.execute(select(revision.revision, revision.content).where(of_block)).all()
    words = read_texts(w.connection, w.session.scope, [content for _, content in past])
    shorter = target.removed_from(text)
    if stale is not None:
        shorter = without_sentences(shorter, stale)
    # An earlier version of a summary may have the same sentences in other words; the present one has what is removed.
    replaced = stale is not None and shorter != text
    saying = [
        number
        for number, content in past
        if target.said_in(words.get(content, "")) or (replaced if content == record.text else stale)
    ]
    for chunk in chunks(saying):
        w.connection.execute(delete(block_revision_table).where(of_block, revision.revision.in_(chunk)))
    # The row repeats the text among its constructor's values, and a setting such as the description may say it too.
    if shorter_values := _shorter(record, target):
        update_block(w, record.name, **shorter_values)
    if shorter != text:
        write_text(w, record, shorter, actor="user")
        w.session.revision += 1  # so that open sessions load the text again


def _shorter(record: BlockRecord, target: Target) -> dict[str, Any]:
    """Return a block's changed columns (`constructor`, `settings`), without the sentences that say a phrase."""
    constructor = json.loads(record.constructor or "{}")
    changed: dict[str, Any] = {}
    if constructor:  # empty for a block that was added in the app
        settings = _shorter_settings(constructor["settings"], target)
        passed = {"settings": settings, "state": _shortened(constructor["state"], target)}
        changed = {"constructor": json.dumps(passed, sort_keys=True)} if passed != constructor else {}
    shorter = _shorter_settings(record.settings, target)
    return changed | ({"settings": shorter} if shorter != record.settings else {})


def _shorter_settings(settings: dict[str, Any], target: Target) -> dict[str, Any]:
    """Return settings without the sentences that say a phrase; single words stay, as they may be a choice or a name."""
    return {
        name: _shortened(value, target)
        if isinstance(value, str) and name != "name" and (name == "description" or " " in value)
        else value
        for name, value in settings.items()
    }


def _clear_reasons(w: Writing, target: Target) -> None:
    """Clear reasons that contain a phrase, as given by a person or an agent for changes to the session's facts."""
    past = fact_revision_table.c
    of_session = select(fact_table.c.id).where(fact_table.c.scope == w.session.scope)
    # The engine's reasons are codes, not sentences.
    reasons = select(past.fact_id, past.version, past.reason).where(past.fact_id.in_(of_session))
    for id, version, reason in w.connection.execute(reasons.where(past.actor != "engine")).all():
        if reason is not None and target.said_in(reason):
            where = (past.fact_id == id) & (past.version == version)
            w.connection.execute(update(fact_revision_table).where(where).values(reason=ERASED))


def _clear_events(w: Writing, target: Target) -> None:
    """Remove a phrase from the free text of this session's events."""
    event = event_table.c
    kinds = {kind: cls.free_text for kind, cls in KINDS.items() if cls.free_text}
    where = (event.session_id == w.session.id) & event.kind.in_(kinds)
    rows = w.connection.execute(select(event.id, event.kind, event.actor, event.data).where(where)).all()
    for position, kind, actor, text in rows:
        data = json.loads(text)
        # The engine's reasons are codes.
        values = {name: data[name] for name in kinds[kind] if data.get(name) and (name, actor) != ("reason", "engine")}
        new = data | {
            name: _shorter_settings(value, target) if isinstance(value, dict) else ERASED
            for name, value in values.items()
            if isinstance(value, dict) or target.said_in(value)
        }
        if new != data:
            blank = json.dumps(new, ensure_ascii=False, separators=(",", ":"))
            w.connection.execute(update(event_table).where(event.id == position).values(data=blank))


def _shortened(text: str, target: Target) -> str:
    """Return a text without the sentences that say a phrase; in JSON, they are removed from its texts."""
    values = json_in(text)
    if values is None:
        return target.removed_from(text)
    return json.dumps(_each_shortened(values, target), ensure_ascii=False, sort_keys=True)


def _each_shortened(value: object, target: Target) -> object:
    if isinstance(value, str):
        return target.removed_from(value)
    if isinstance(value, list):
        return [_each_shortened(item, target) for item in value]
    if isinstance(value, dict):
        return {key: _each_shortened(item, target) for key, item in value.items()}
    return value

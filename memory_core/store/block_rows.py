"""A session's blocks in the database: settings, texts of static blocks and summaries, and custom state.

A summary's text is versioned like a static block's; the log records its coverage.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, delete, func, insert, or_, select, update

from memory_core.errors import ConflictError
from memory_core.events import (
    FORMER_SETTINGS,
    Actor,
    BlockAdded,
    BlockEdited,
    SummaryRewritten,
    current_settings,
    expand,
    ranges,
)
from memory_core.planning.running_summary import losses
from memory_core.store.delivery_rows import read_deliveries
from memory_core.store.graph_rows import count_graph
from memory_core.store.log_rows import read_events
from memory_core.store.tables import block_revision_table, block_table, entity_table, fact_table, relation_table
from memory_core.store.vector_rows import turns_revision
from memory_core.store.writing import Writing, read_texts, session_scope

_b = block_table.c


@dataclass(frozen=True, slots=True)
class BlockRecord:
    """A block's stored row."""

    name: str
    position: int
    type: str
    settings: dict[str, Any]
    constructor: str
    """Values that a program last passed to the constructor, as canonical JSON: a stored edit wins until they change."""
    state: str | None
    revision: int
    text: str | None


@dataclass(frozen=True, slots=True)
class TextRevision:
    """Version of the text of a static block or a summary."""

    revision: int
    text: str
    actor: str
    turn: int
    at: float
    note: str | None = None
    """Author and reason of a version written outside of this memory (see `TextOrigin`); else None."""
    person: str | None = None
    """Person on record for this version (`access.Person.label`); None without a sign-in."""


@dataclass(frozen=True, slots=True)
class TextOrigin:
    """Origin of a text's version that was written outside of this memory, such as in an imported file."""

    at: float | None = None
    """Time of writing, in seconds since 1970; None if unknown."""
    note: str | None = None
    """Author, and reason."""


@dataclass(frozen=True, slots=True)
class Holding:
    """Counts of a block's stored contents."""

    turns: int = 0
    """Number of stored turns."""
    facts: Mapping[str, int] = field(default_factory=dict)
    """Number of facts by state; for a block of user scope, of all the user's facts in it."""
    newest: str | None = None
    """Text of the newest active fact, or of the newest active relation."""
    texts: int = 0
    """Number of versions of the block's text."""
    entities: Mapping[str, int] = field(default_factory=dict)
    """Number of a graph's entities by state."""
    relations: Mapping[str, int] = field(default_factory=dict)
    """Number of a graph's relations by state."""
    waiting: int = 0
    """Number of deliveries that are pending or parked."""
    flushes: int = 0
    """Number of pending or parked deliveries that a flush caused."""


def read_blocks(connection: Connection, session_id: str) -> list[BlockRecord]:
    """Return the session's blocks in their order."""
    columns = (_b.name, _b.position, _b.type, _b.settings, _b.constructor, _b.state, _b.revision, _b.text)
    rows = connection.execute(select(*columns).where(_b.session_id == session_id).order_by(_b.position, _b.name)).all()
    return [
        BlockRecord(row[0], row[1], row[2], current_settings(json.loads(row[3])), _constructor(row[4]), *row[5:])
        for row in rows
    ]


def _constructor(stored: str) -> str:
    """Decode stored constructor values, with settings under their present names."""
    # Nearly all have no former name and are not parsed, as blocks are read with every change.
    if not any(name in stored for name in FORMER_SETTINGS):
        return stored
    values = json.loads(stored)
    return json.dumps(values | {"settings": current_settings(values["settings"])}, sort_keys=True)


def read_static_texts(connection: Connection, session_id: str) -> list[str]:
    """Return the current texts of a session's static blocks, equal texts once."""
    query = select(_b.text).where(_b.session_id == session_id, _b.type == "static", _b.text.is_not(None))
    return list(read_texts(connection, session_scope(session_id), connection.execute(query).scalars()).values())


def add_block(
    w: Writing, *, name: str, position: int, type: str, settings: Mapping[str, Any], constructor: str
) -> None:
    """Insert a block's row.

    Revisions continue after those of a removed block of the same name, so that an editor opened on the removed block
    cannot overwrite the new one.
    """
    values = {
        "session_id": w.session.id,
        "name": name,
        "position": position,
        "type": type,
        "settings": json.dumps(settings),
        "constructor": constructor,
        "revision": _last_revision(w, name),
    }
    w.connection.execute(insert(block_table).values(values))


def update_block(w: Writing, name: str, **values: Any) -> None:
    """Change columns of a block's row."""
    if "settings" in values:
        values["settings"] = json.dumps(values["settings"])
    where = (_b.session_id == w.session.id) & (_b.name == name)
    w.connection.execute(update(block_table).where(where).values(values))


def remove_block(w: Writing, name: str) -> None:
    """Delete a block's row and its texts' history."""
    for table, column in ((block_table, "name"), (block_revision_table, "block")):
        where = (table.c.session_id == w.session.id) & (table.c[column] == name)
        w.connection.execute(delete(table).where(where))


def write_text(
    w: Writing,
    block: BlockRecord,
    text: str,
    *,
    actor: Actor,
    ignored: str | None = None,
    restored: int | None = None,
    written: TextOrigin | None = None,
) -> int:
    """Store a new text for a static block or a summary; return the revision, which is unchanged for an equal text."""
    content = w.store_text(text)
    # No version and no event: an editor that is saved unchanged leaves no trace.
    if content == block.text:
        return block.revision
    revision = block.revision + 1
    update_block(w, block.name, text=content, revision=revision)
    values = {
        "session_id": w.session.id,
        "block": block.name,
        "revision": revision,
        "content": content,
        "actor": actor,
        "turn": w.session.turns,
        "at": w.now if written is None or written.at is None else written.at,
    }
    w.connection.execute(insert(block_revision_table).values(values))
    edited = BlockEdited(
        block.name,
        revision,
        block.text,
        content,
        ignored=ignored,
        restored=restored,
        written_at=written.at if written is not None else None,
        note=w.store_text(written.note) if written is not None and written.note else None,
    )
    w.record(edited, actor=actor)
    return revision


def read_revisions(connection: Connection, session_id: str, block: str) -> list[TextRevision]:
    """Return all versions of a static block's or a summary's text, oldest first."""
    table = block_revision_table
    where = (table.c.session_id == session_id) & (table.c.block == block)
    rows = connection.execute(select(table).where(where).order_by(table.c.revision)).all()
    # Notes and people are in the log alone.
    notes, people = {}, {}
    for record in read_events(connection, session_id, kinds=(BlockEdited.kind,), block=block):
        if isinstance(record.event, BlockEdited) and record.event.after is not None:
            notes[record.event.revision] = record.event.note
            people[record.event.revision] = record.person
    keys = [*(row.content for row in rows), *filter(None, notes.values())]
    words = read_texts(connection, session_scope(session_id), keys)
    return [
        TextRevision(
            r.revision,
            words.get(r.content, ""),
            r.actor,
            r.turn,
            r.at,
            words.get(notes.get(r.revision) or ""),
            people.get(r.revision),
        )
        for r in rows
    ]


def read_revision(connection: Connection, session_id: str, block: str, revision: int) -> str | None:
    """Return the text of a block at a revision; None if there was no such revision, or its text was erased."""
    table = block_revision_table.c
    where = (table.session_id == session_id) & (table.block == block) & (table.revision == revision)
    key = connection.execute(select(table.content).where(where)).scalar()
    return read_texts(connection, session_scope(session_id), [key]).get(key) if key else None


def read_holding(connection: Connection, session_id: str, scope: str, block: str, kind: str) -> Holding:
    """Count a block's stored contents. `scope` is the scope of its facts."""
    due = [d for d in read_deliveries(connection, session_id, states=("pending", "parked")) if d.block == block]
    revision = block_revision_table.c
    of_block = (revision.session_id == session_id) & (revision.block == block)
    texts = connection.execute(select(func.count()).select_from(block_revision_table).where(of_block)).scalar_one()
    holding = Holding(texts=texts, waiting=len(due), flushes=sum(delivery.trigger == "flush" for delivery in due))
    if kind == "vector":
        return replace(holding, turns=turns_revision(connection, (session_id,), block, ()).count)
    if kind == "graph":
        entities, relations = count_graph(connection, scope, block)
        newest = _newest_relation(connection, scope, block)
        return replace(holding, entities=entities, relations=relations, newest=newest)
    if kind == "facts":
        fact = fact_table.c
        facts_of_block = (fact.scope == scope) & (fact.block == block)
        counts = connection.execute(select(fact.state, func.count()).where(facts_of_block).group_by(fact.state)).all()
        last = select(fact.content).where(facts_of_block, fact.state == "active").order_by(fact.id.desc()).limit(1)
        key = connection.execute(last).scalar()
        newest = read_texts(connection, scope, [key]).get(key) if key else None
        return replace(holding, facts={str(state): int(number) for state, number in counts}, newest=newest)
    return holding


def _newest_relation(connection: Connection, scope: str, block: str) -> str | None:
    """Return the newest active relation as `Ana → lives in → Lisbon`; None if there is none or its text was erased."""
    e, r = entity_table.c, relation_table.c
    of_block = (r.scope == scope) & (r.block == block) & (r.state == "active")
    last = select(r.subject, r.predicate, r.object).where(of_block).order_by(r.id.desc()).limit(1)
    row = connection.execute(last).one_or_none()
    if row is None:
        return None
    ends = connection.execute(select(e.id, e.name).where(e.id.in_((row.subject, row.object)))).all()
    # The database may return them in any order.
    names = {end.id: end.name for end in ends}
    keys = (names.get(row.subject), row.predicate, names.get(row.object))
    words = read_texts(connection, scope, [key for key in keys if key])
    texts = [words.get(key or "") for key in keys]
    return " → ".join(word for word in texts if word) if all(texts) else None


def uses_graph(connection: Connection, session_id: str) -> bool:
    """Return whether the session has a graph block, or relations left by a removed one."""
    block = select(_b.name).where(_b.session_id == session_id, _b.type == "graph").limit(1).exists()
    r = relation_table.c
    relation = select(r.id).where(r.scope == session_scope(session_id)).limit(1).exists()
    return bool(connection.execute(select(or_(block, relation))).scalar())


def read_state(connection: Connection, session_id: str, block: str) -> str | None:
    """Return a custom block's fields as stored by the last delivery, in any process; None if none are stored."""
    query = select(_b.state).where(_b.session_id == session_id, _b.name == block)
    key = connection.execute(query).scalar()
    return read_texts(connection, session_scope(session_id), [key]).get(key) if key else None


def _last_revision(w: Writing, name: str) -> int:
    """Return the highest revision ever used by a block of this name in the session; 0 if none was."""
    # From the log: the revisions of a removed block are deleted with it.
    edits = read_events(w.connection, w.session.id, kinds=(BlockEdited.kind,), block=name, limit=1, newest_first=True)
    return edits[0].event.revision if edits and isinstance(edits[0].event, BlockEdited) else 0


# -- running summaries ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoredSummary:
    """A summary as stored at one moment."""

    record: BlockRecord
    text: str
    covers: int
    """Number of the last message that the summary covers; 0 if it covers none."""
    turn_covered: int
    rewritten: int
    """Log position of the last rewriting; 0 if there was none."""

    @property
    def stamp(self) -> tuple[int, int]:
        """Value that changes with the text, and with the messages that the summary covers."""
        return self.record.revision, self.rewritten


def read_summary(connection: Connection, session_id: str, block: str) -> StoredSummary | None:
    """Return a block's summary; None if the session no longer has the block."""
    record = next(
        (stored_block for stored_block in read_blocks(connection, session_id) if stored_block.name == block), None
    )
    if record is None:
        return None
    text = read_texts(connection, session_scope(session_id), [record.text]).get(record.text, "") if record.text else ""
    kinds = (BlockAdded.kind, SummaryRewritten.kind)  # a removed block of the same name covered other messages
    records = read_events(connection, session_id, kinds=kinds, block=block, limit=1, newest_first=True)
    event = records[0].event if records else None
    # The block was added after the last rewriting, or never rewritten: it covers nothing.
    if not isinstance(event, SummaryRewritten):
        return StoredSummary(record, text, 0, 0, 0)
    return StoredSummary(record, text, event.covers, event.turn_covered, records[0].position)


def write_summary(
    w: Writing,
    before: StoredSummary,
    text: str,
    *,
    summariser: str,
    covers: int,
    turn_covered: int,
    seqs: Sequence[int],
    max_tokens: int,
    count: Callable[[str], int],
    shortened: int,
    broken: int,
    actor: Actor = "engine",
) -> None:
    """Store a new text and the messages it covers. The text's author is the engine; `actor` asked for the rewriting.

    Raises:
        ConflictError: somebody changed the summary since it was read.
    """
    now = read_summary(w.connection, w.session.id, before.record.name)
    if now is None or now.stamp != before.stamp:
        raise ConflictError(f'"{before.record.name}" was changed while it was being rewritten. Nothing was saved.')
    # An unchanged text makes no version, but the messages that it covers now are recorded.
    revision = now.record.revision
    if text != now.text:
        revision = write_text(w, now.record, text, actor="engine")
        w.session.revision += 1  # so that open sessions load the text again
    w.record(
        SummaryRewritten(
            block=now.record.name,
            revision=revision,
            summariser=summariser,
            covers=covers,
            turn_covered=turn_covered,
            seqs=ranges(seqs),
            tokens_before=count(now.text),
            tokens=count(text),
            max_tokens=max_tokens,
            lost=len(losses(now.text, text)),
            shortened=shortened,
            broken=broken,
        ),
        actor=actor,
    )


def empty_summaries(w: Writing, gone: Collection[int]) -> None:
    """Clear the summaries that cover any of these messages, and delete all their versions.

    A summary mixes all its sources: nothing can be removed from it alone.
    """
    wanted = set(gone)
    for record in read_blocks(w.connection, w.session.id):
        if record.type != "summary" or not wanted:
            continue
        # Each rewriting reads only new messages: all since the block was added or last emptied are in the text.
        read: set[int] = set()
        last = None
        for logged in read_events(
            w.connection, w.session.id, kinds=(BlockAdded.kind, SummaryRewritten.kind), block=record.name
        ):
            last = logged.event if isinstance(logged.event, SummaryRewritten) else None
            read = read | set(expand(last.seqs)) if last is not None and last.covers else set()
        if last is None or not read & wanted:
            continue
        text = read_texts(w.connection, w.session.scope, [record.text]).get(record.text, "") if record.text else ""
        revisions = block_revision_table.c
        where = (revisions.session_id == w.session.id) & (revisions.block == record.name)
        # Former versions contain the text as well.
        w.connection.execute(delete(block_revision_table).where(where))
        revision = write_text(w, record, "", actor="engine")
        w.session.revision += 1
        w.record(
            SummaryRewritten(
                block=record.name,
                revision=revision,
                summariser=last.summariser,
                covers=0,
                turn_covered=0,
                seqs=(),
                tokens_before=last.tokens,
                tokens=0,
                max_tokens=last.max_tokens,
                lost=len(losses(text, "")),
            )
        )

"""Rows of a session at a position of its log, from which another session can be created.

Existing rows are reused; later changes to them are undone from the log. Erased rows are left out and counted.
"""

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, TypeVar

from memory_core.engine.session import Session
from memory_core.errors import NotFoundError
from memory_core.events import (
    BlockEdited,
    EntityErased,
    Event,
    EventRecord,
    FactErased,
    RelationErased,
    SessionBranched,
)
from memory_core.history.block_slice import INITIAL, PastBlock, edits_text, is_rewriting
from memory_core.history.by_turn import history_of
from memory_core.history.learned_slices import adds_fact
from memory_core.history.rows_at import RowsAt
from memory_core.messages import content_hash
from memory_core.process import collector_paused
from memory_core.store.copying.copies import (
    BlockCopy,
    EntityCopy,
    FactCopy,
    RelationCopy,
    Rows,
    TextCopy,
    event_copy,
    hashes_of,
    streamed,
    with_words,
)
from memory_core.store.copying.references import hashes_in
from memory_core.store.copying.session_copying import read_rows, store_session
from memory_core.store.log_rows import read_events
from memory_core.store.vector_rows import read_all_heard
from memory_core.store.writing import PieceWriter, Step, read_existing

Past = TypeVar("Past")


@dataclass(frozen=True, slots=True)
class AsOf:
    """A session at one position of its log."""

    rows: Rows
    missing: int
    """Number of messages, facts, entities, relations, stored turns and texts erased since."""


def branch_session(session: Session, turn: int, *, title: str | None = None, step: Step | None = None) -> Session:
    """Create a session in the state that another one had at the end of a turn. See `Memory.branch`."""
    pieces = PieceWriter(session.database, step)
    with collector_paused():
        then, heard = _held_at(session, pieces, turn)
    now = session.clock()
    branched = event_copy(SessionBranched(source=session.id, turn=turn, missing=then.missing), turn, now, "user")
    # The event is the last of the branch's own log, so that the past above it is the copied one.
    made = replace(
        then.rows,
        session=then.rows.session.model_copy(update={"created_at": now}),
        events=streamed(then.rows.events).followed_by([branched]),
    )
    branch = str(uuid.uuid4())
    store_session(
        pieces,
        made,
        branch,
        title=title or f"{then.rows.session.title or 'Session'}, from turn {turn}",
        user_id=then.rows.session.user_id,
        now=now,
        # The user is the same: their facts are shared and not copied.
        shared={fact.id for fact in made.facts if fact.owner == "user"},
        heard=lambda _: heard,
    )
    return session.sibling(branch)


def _held_at(session: Session, pieces: PieceWriter, turn: int) -> tuple[AsOf, Mapping[int, str]]:
    """Return a session's rows at the end of a turn, and the metadata of its stored turns."""
    # Held in memory, so that the transaction ends before the slow part; of the other turns nothing is held.
    with session.database.read() as connection:
        rows = read_rows(connection, read_existing(connection, session.id))
        records = read_events(connection, session.id)
        pieces.count(0)
        then = rows_at(rows, records, _end_of(records, turn))
        return replace(then, rows=then.rows.held()), read_all_heard(connection, session.id)


def rows_at(rows: Rows, records: Sequence[EventRecord], position: int) -> AsOf:
    """Return a session's rows after the event at a position; `rows` and `records` are the complete current ones.

    User-scoped facts are shared and keep their present state.
    """
    # Nothing was recorded since: the rows are unchanged.
    if not records or position >= records[-1].position:
        return AsOf(rows, 0)
    # Rows of events are in the order of the log, so the first `count` rows are those up to the position.
    count = sum(record.position <= position for record in records)
    log = records[:count]
    past = RowsAt(log)
    # Erased texts are in no row: a past row is kept only if its texts are still stored.
    texts = {word.hash: word.data for word in streamed(rows.words).rows if word.owner == "session"}
    messages = past.message_rows(rows.messages, texts)
    # Facts added later do not belong to that moment, although their rows exist.
    later = {record.event.fact for record in records[count:] if adds_fact(record.event)}
    facts = past.fact_rows(fact for fact in rows.facts if fact.id not in later)
    entities, relations = past.graph_rows((e.id for e in rows.entities), (r.id for r in rows.relations), texts)
    nodes = frozenset(past.nodes)
    vectors = streamed(rows.vectors).only(lambda vectors: (vector for vector in vectors if vector.id in nodes))
    blocks, lost = _blocks_at(rows, log, past, texts)
    # The copied log still adds items whose rows are gone. Tombstones after it record that, as for any erased item.
    erased: list[Event] = [
        *(FactErased(n, fact.added.block) for n, fact in _gone(past.facts, facts)),
        *(RelationErased(n, relation.block) for n, relation in _gone(past.graph.relations, relations)),
        *(EntityErased(n, entity.block) for n, entity in _gone(past.graph.entities, entities)),
    ]
    session = past.session_row(rows.session)
    # Read to their end: a cursor of the server that is left before it stays open.
    until = streamed(rows.events).only(lambda events: (row for place, row in enumerate(events) if place < count))
    events = until.followed_by(event_copy(event, session.turns, log[-1].at, "engine") for event in erased)
    copied = replace(
        rows,
        session=session,
        blocks=blocks,
        messages=messages,
        facts=facts,
        entities=entities,
        relations=relations,
        vectors=vectors,
        deliveries=past.delivery_rows({message.seq for message in messages}),
        events=events,
    )
    missing = len(past.messages) - len(messages) + len(erased) + len(nodes) - sum(1 for _ in vectors.rows) + lost
    # Of the tombstones, none names a text.
    named = _needed(copied).union(chain.from_iterable(hashes_in(row.data) for row in until.rows))
    return AsOf(with_words(copied, texts.keys() & named), missing)


def _end_of(records: Sequence[EventRecord], turn: int) -> int:
    """Return the position of a turn's last event since the last renumbering; turn 0 is before the first message."""
    history = history_of(records)
    if turn in history.turns:
        return history.position_at(turn)
    if turn != 0:
        raise NotFoundError(f"This session has no turn {turn}. Its latest is {history.latest_turn}.")
    if not history.turns:
        return history.position
    # Turn 0: everything before the first message, such as the creation and its blocks.
    return history.upto(history.turns[min(history.turns)].first_position - 1)[-1].position


def _gone(then: Mapping[int, Past], rows: Iterable[FactCopy | EntityCopy | RelationCopy]) -> list[tuple[int, Past]]:
    """Return the items that existed then and have no row in `rows`, with their numbers, in order."""
    here = {row.id for row in rows}
    return sorted((pair for pair in then.items() if pair[0] not in here), key=lambda pair: pair[0])


def _needed(rows: Rows) -> set[str]:
    """Return the hashes of the session's texts that these rows refer to, but for its events."""
    result = {message.content for message in rows.messages}
    result |= {key for block in rows.blocks for key in (block.state, block.text) if key}
    result |= {text.content for block in rows.blocks for text in block.texts}
    result |= {key for fact in rows.facts if fact.owner == "session" for key in hashes_of(fact)}
    result |= {key for entity in rows.entities for key in (entity.name, *entity.aliases)}
    result |= {relation.predicate for relation in rows.relations}
    if rows.session.recording:
        result.add(rows.session.recording)
    return result


# -- blocks -----------------------------------------------------------------------------------------


def _blocks_at(
    rows: Rows, log: Sequence[EventRecord], past: RowsAt, words: Mapping[str, str]
) -> tuple[tuple[BlockCopy, ...], int]:
    """Return the blocks at that position, and the number of their texts and states that were erased since."""
    today = {block.name: block for block in rows.blocks}
    texts: dict[str, dict[int, TextCopy]] = {}
    constructors: dict[str, dict[str, Any]] = {}
    for record in log:
        event = record.event
        # A block of the same name may have been there before; its texts are not this one's.
        if event.operation in ("create_store", "delete_store") and event.about is not None:
            texts.pop(event.about, None)
            constructors.pop(event.about, None)
        # Added by a constructor: only such a block has constructor's values (see `engine.reconcile`).
        if event.operation == "create_store" and event.about is not None and record.actor == "engine":
            constructors[event.about] = {"settings": dict(event.changed_settings), "state": ""}
        elif event.about is not None and event.about in constructors and record.actor == "engine":
            constructors[event.about]["settings"] |= event.changed_settings
        if edits_text(event):
            _apply_text(texts.setdefault(event.block, {}), record, event)
            if record.actor == "engine" and event.block in constructors:
                constructors[event.block]["state"] = event.after
        elif is_rewriting(event) and not event.covers:  # emptied: its former texts are deleted with it
            had_texts = texts.get(event.block, {})
            texts[event.block] = {n: text for n, text in had_texts.items() if n == event.revision}
    copies = []
    lost = 0
    for position, block in enumerate(past.blocks):
        had = sorted(texts.get(block.name, {}).items())
        kept_copies = tuple(text for _, text in had if text.content in words)
        constructor = _constructor_at(block, constructors.get(block.name), today.get(block.name), words)
        state = _state_at(block, past.states.get(block.name), constructor)
        gone = {key for key in (block.text, state) if key is not None and key not in words}
        lost += len(had) - len(kept_copies) + len(gone & {state})
        copies.append(
            BlockCopy(
                name=block.name,
                position=position,
                type=block.type,
                settings=dict(block.settings),
                constructor=constructor,
                state=None if state in gone else state,
                revision=block.revision,
                text=None if block.text in gone else block.text,
                texts=kept_copies,
            )
        )
    return tuple(copies), lost


def _apply_text(had: dict[int, TextCopy], record: EventRecord, event: BlockEdited) -> None:
    at = record.at if event.written_at is None else event.written_at
    had[event.revision] = TextCopy(
        revision=event.revision, content=str(event.after), actor=record.actor, turn=record.turn, at=at
    )


def _constructor_at(
    block: PastBlock, constructor: Mapping[str, Any] | None, today: BlockCopy | None, words: Mapping[str, str]
) -> str:
    """Return the constructor's values at that position; a custom block's fields are only known from its current row."""
    if constructor is None:
        return ""
    if block.kind == "custom":
        return today.constructor if today is not None and today.type == block.type else ""
    state = words.get(constructor["state"], "") if block.kind == "static" else ""
    return json.dumps({"settings": constructor["settings"], "state": state}, sort_keys=True)


def _state_at(block: PastBlock, state: str | None, constructor: str) -> str | None:
    """Return the hash of a custom block's fields; None if unknown, in which case the block starts empty."""
    if block.kind != "custom" or state != INITIAL:
        return state if block.kind == "custom" else None
    return content_hash(json.loads(constructor)["state"]) if constructor else None

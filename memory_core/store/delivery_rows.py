"""Deliveries in the database: messages due to each block, and what models answered for them.

Model outputs are kept by a hash of the input, so that a play in the Lab need not pay for them again. They are derived
from a session's messages and its user's facts, and only cached: any erasure deletes all of them.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import ColumnElement, Connection, bindparam, delete, func, insert, select, update

from memory_core.events import DeliveryQueued, DeliverySkipped, Ranges
from memory_core.messages import MessageStatus
from memory_core.store.database import chunks
from memory_core.store.message_rows import MessageCache, StoredMessage, read_messages
from memory_core.store.tables import delivery_table, message_table, model_output_table, session_table
from memory_core.store.writing import Writing

LONGEST_BACKOFF_SECONDS = 300.0
"""Maximum seconds between attempts. If the next one is further off, the clock was set back: the delivery is due now."""

_d = delivery_table.c
# Built once, as every put runs it.
_PENDING = select(delivery_table).where(_d.session_id == bindparam("session"), _d.state == "pending").order_by(_d.id)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A span of messages due to one block. See `DeliveryRow` for the fields."""

    id: int
    session_id: str
    block: str
    trigger: str
    flush: int | None
    first_seq: int
    last_seq: int
    messages: int
    tokens: int
    turn: int
    state: str
    attempts: int
    next_attempt_at: float
    error: str | None
    created_at: float
    done_at: float | None


def queue_delivery(
    w: Writing, block: str, *, trigger: str, seqs: Ranges, messages: int, tokens: int, flush: int | None = None
) -> int:
    """Record that messages are due to a block; return the delivery's id."""
    values = {
        "session_id": w.session.id,
        "block": block,
        "trigger": trigger,
        "flush": flush,
        "first_seq": seqs[0][0],
        "last_seq": seqs[-1][1],
        "messages": messages,
        "tokens": tokens,
        "turn": w.session.turns,
        "state": "pending",
        "attempts": 0,
        # In the past for any clock: due at once.
        "next_attempt_at": 0.0,
        "created_at": w.now,
    }
    id = w.connection.execute(insert(delivery_table).values(values).returning(_d.id)).scalar_one()
    w.due = True
    w.record(DeliveryQueued(delivery=id, block=block, trigger=trigger, seqs=seqs, tokens=tokens))
    return int(id)


def read_deliveries(
    connection: Connection, session_id: str, *, states: Sequence[str] | None = None, last: int | None = None
) -> list[Delivery]:
    """Return a session's deliveries in order; `last`: only that many, the newest."""
    query = select(delivery_table).where(_d.session_id == session_id).order_by(_d.id.desc() if last else _d.id)
    if states is not None:
        query = query.where(_d.state.in_(list(states)))
    deliveries = [Delivery(**row._mapping) for row in connection.execute(query.limit(last) if last else query)]
    return deliveries[::-1] if last else deliveries


def pending_by_block(connection: Connection, session_id: str) -> dict[str, list[Delivery]]:
    """Return pending deliveries by block, in order."""
    waiting: dict[str, list[Delivery]] = {}
    for row in connection.execute(_PENDING, {"session": session_id}):
        waiting.setdefault(row.block, []).append(Delivery(**row._mapping))
    return waiting


def pending(connection: Connection, session_id: str, block: str) -> list[Delivery]:
    """Return pending deliveries of one block, in order."""
    return pending_by_block(connection, session_id).get(block, [])


def waiting_sessions(connection: Connection, *, before: float, user_id: str | None = None) -> list[str]:
    """Return the ids of the sessions, of one user or of all, with a delivery due before a time (seconds since 1970)."""
    # A pause longer than the longest means that the clock was set back: due as well.
    due = (_d.next_attempt_at <= before) | (_d.next_attempt_at > before + LONGEST_BACKOFF_SECONDS)
    query = select(_d.session_id).where(_d.state == "pending", due).distinct()
    if user_id is not None:
        users = select(session_table.c.id).where(session_table.c.user_id == user_id)
        query = query.where(_d.session_id.in_(users))
    return list(connection.execute(query).scalars())


def delivered_messages(connection: Connection, delivery: Delivery, cache: MessageCache) -> list[StoredMessage]:
    """Return the messages of a delivery, in order."""
    if delivery.flush is not None:
        return read_messages(connection, delivery.session_id, cache, flush=delivery.flush)
    # Without a flush its messages are consecutive. Pinned ones among them are instructions, which no block learns from.
    first, last = delivery.first_seq - 1, delivery.last_seq
    messages = read_messages(connection, delivery.session_id, cache, after=first, upto=last)
    return [message for message in messages if not message.pinned]


def covers() -> ColumnElement[bool]:
    """Return the SQL condition that a message belongs to a delivery, if both are of the same session."""
    m = message_table.c
    in_flush = _d.flush.is_not(None) & (_d.flush == m.flush)
    in_span = _d.flush.is_(None) & m.seq.between(_d.first_seq, _d.last_seq) & m.pinned.is_(False)
    return in_flush | in_span


def given_seqs(connection: Connection, session_id: str, block: str) -> set[int]:
    """Return the numbers of the messages delivered or due to a block."""
    return _covered(connection, session_id, block, _d.state != "skipped")


def last_turn_heard(connection: Connection, session_id: str, block: str) -> int:
    """Return the number of the last message delivered or due to a block by completed turns; 0 for none."""
    wanted = (_d.session_id == session_id) & (_d.block == block) & (_d.trigger == "turn") & (_d.state != "skipped")
    return int(connection.execute(select(func.coalesce(func.max(_d.last_seq), 0)).where(wanted)).scalar_one())


def undelivered_seqs(connection: Connection, session_id: str, block: str) -> set[int]:
    """Return the numbers of the messages that wait for a block, or whose delivery was skipped."""
    return _covered(connection, session_id, block, _d.state.in_(("pending", "parked", "skipped")))


def _covered(connection: Connection, session_id: str, block: str, in_state: ColumnElement[bool]) -> set[int]:
    """Return the numbers of the messages of a block's deliveries in the given states."""
    m, of_block = message_table.c, (_d.session_id == session_id) & (_d.block == block)
    query = select(m.seq).where(m.session_id == session_id, of_block, in_state, covers()).distinct()
    return set(connection.execute(query).scalars())


def skip_deliveries(w: Writing, block: str) -> None:
    """Skip the deliveries waiting for a removed block, and record it."""
    where = (_d.session_id == w.session.id) & (_d.block == block) & _d.state.in_(("pending", "parked"))
    ids = tuple(w.connection.execute(select(_d.id).where(where).order_by(_d.id)).scalars())
    if ids:
        w.connection.execute(update(delivery_table).where(where).values(state="skipped", done_at=w.now))
        w.record(DeliverySkipped(deliveries=ids, block=block))


def forget_deliveries(w: Writing, block: str) -> None:
    """Delete a removed block's deliveries, so that a new block of that name can receive everything again."""
    skip_deliveries(w, block)
    w.connection.execute(delete(delivery_table).where(_d.session_id == w.session.id, _d.block == block))


def still_there(connection: Connection, session_id: str, seqs: Sequence[int]) -> bool:
    """Return whether the session still has all of these messages."""
    m = message_table.c
    count = 0
    for chunk in chunks(seqs):
        query = select(func.count()).where(m.session_id == session_id, m.seq.in_(chunk))
        count += connection.execute(query).scalar_one()
    return count == len(seqs)


def set_state(
    w: Writing,
    ids: Sequence[int],
    state: str,
    *,
    attempts: int | None = None,
    error: str | None = None,
    next_attempt_at: float = 0.0,
) -> int:
    """Change the state of deliveries that are not finished; return their number."""
    # Error and pause are cleared unless given, as a delivery that is due again or finished has neither.
    values: dict[str, object] = {"state": state, "error": error, "next_attempt_at": next_attempt_at}
    if state in ("done", "skipped"):
        values["done_at"] = w.now
    if attempts is not None:
        values["attempts"] = attempts
    # Finished ones are left alone. The caller sees from the number that some were finished meanwhile.
    where = _d.id.in_(list(ids)) & _d.state.in_(("pending", "parked"))
    return w.connection.execute(update(delivery_table).where(where).values(values)).rowcount


def unfinished(connection: Connection, ids: Sequence[int]) -> tuple[int, ...]:
    """Return the ids of these deliveries that are not finished, in order."""
    query = select(_d.id).where(_d.id.in_(list(ids)), _d.state.in_(("pending", "parked"))).order_by(_d.id)
    return tuple(connection.execute(query).scalars())


def not_done_before(connection: Connection, session_id: str, block: str, id: int) -> tuple[int, ...]:
    """Return the ids of the deliveries to a block that wait or are parked, and are older than one of them."""
    wanted = (_d.session_id == session_id) & (_d.block == block) & (_d.id < id)
    query = select(_d.id).where(wanted, _d.state.in_(("pending", "parked"))).order_by(_d.id)
    return tuple(connection.execute(query).scalars())


def in_transit(connection: Connection, session_id: str) -> tuple[int, int]:
    """Count flushed messages not yet delivered to every block; return messages and tokens."""
    m = message_table.c
    # Only flushed messages: those due by turns are still in the queue and counted there.
    flushes = select(_d.flush).where(_d.session_id == session_id, _d.state.in_(("pending", "parked")))
    query = select(func.count(), func.coalesce(func.sum(m.tokens), 0)).where(
        m.session_id == session_id, m.status == str(MessageStatus.ARCHIVED), m.flush.in_(flushes)
    )
    messages, tokens = connection.execute(query).one()
    return int(messages), int(tokens)


MAX_KEPT = 2_000
"""Maximum outputs kept for one session, the latest: some years of conversation, or a hundred plays."""

MAX_CHARACTERS = 100_000
"""Maximum characters of a stored output: a longer one is no fact, summary or relation."""

_o = model_output_table.c


@dataclass(frozen=True, slots=True)
class StoredOutput:
    """A model's answer with the cost of its call; None for values that the endpoint did not report."""

    key: str
    text: str
    readable: bool
    """True if the answer could be read; if not, `text` says why."""
    purpose: str
    model: str
    input_tokens: int | None
    output_tokens: int | None
    seconds: float
    cost: float | None


def read_output(connection: Connection, session_id: str, key: str) -> StoredOutput | None:
    """Return the last answer to an input; None if none was kept."""
    query = select(_o.data).where(_o.session_id == session_id, _o.key == key)
    data = connection.execute(query).scalar()
    return StoredOutput(key, **json.loads(data)) if data is not None else None


def keep_outputs(connection: Connection, session_id: str, outputs: Sequence[StoredOutput], *, now: float) -> None:
    """Store answers; a new answer to an input replaces the earlier one. Delete the oldest answers beyond `MAX_KEPT`."""
    short_outputs = {output.key: output for output in outputs if len(output.text) <= MAX_CHARACTERS}
    if not short_outputs:
        return
    of_session = _o.session_id == session_id
    # Deleted first, as an answer to the same input is replaced by the newer one.
    connection.execute(delete(model_output_table).where(of_session, _o.key.in_(sorted(short_outputs))))
    rows = []
    for key, output in short_outputs.items():
        values = asdict(output)
        del values["key"]
        rows.append({"session_id": session_id, "key": key, "at": now, "data": json.dumps(values)})
    connection.execute(insert(model_output_table), rows)
    # The key orders outputs of one call, which have the same time.
    beyond = select(_o.key).where(of_session).order_by(_o.at.desc(), _o.key).offset(MAX_KEPT)
    for chunk in chunks(list(connection.execute(beyond).scalars())):
        connection.execute(delete(model_output_table).where(of_session, _o.key.in_(chunk)))


def forget_outputs(connection: Connection, scope: str) -> None:
    """Delete the outputs of a session, or of all sessions of a user: a user's facts may be in each of them."""
    kind, _, id = scope.partition(":")
    sessions = select(session_table.c.id).where(session_table.c.user_id == id)
    where = _o.session_id == id if kind == "session" else _o.session_id.in_(sessions)
    connection.execute(delete(model_output_table).where(where))

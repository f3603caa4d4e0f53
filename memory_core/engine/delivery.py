"""Deliveries: pass due messages to each block, with effect exactly once despite failed attempts.

Blocks are served concurrently, each in sequence and under a lease: claim it, work through what is due (slow, nothing
stored), then store the result and acknowledge in one transaction that still holds the lease. A process that dies in
between leaves nothing behind; the next one repeats the work. One that fails holds up no other: it is tried again with
the next, before it, and what it teaches then takes its place in time.
"""

import logging
import math
import time
from collections.abc import Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from memory_core.access import bind_person
from memory_core.blocks.base import CALL_TOKENS, PendingWrite
from memory_core.engine import reconcile
from memory_core.engine.session import Session, SessionBlock
from memory_core.errors import (
    ConflictError,
    MemoryInspectorError,
    ModelKeyError,
    ModelRateLimitError,
    ModelTimeoutError,
    ModelUnreachableError,
    NotFoundError,
    StoreError,
    user_message,
)
from memory_core.events import (
    DeliveryDone,
    DeliveryFailed,
    DeliveryParked,
    DeliveryRetried,
    DeliverySkipped,
    Event,
    ModelCalled,
)
from memory_core.models.protocols import ModelCall
from memory_core.process import per_process
from memory_core.store.block_rows import read_state
from memory_core.store.delivery_rows import (
    LONGEST_BACKOFF_SECONDS,
    Delivery,
    StoredOutput,
    delivered_messages,
    keep_outputs,
    not_done_before,
    pending,
    pending_by_block,
    read_deliveries,
    set_state,
    still_there,
    unfinished,
    waiting_sessions,
)
from memory_core.store.leases import claim, holds, lease_key, new_owner, release, renewed, running_agents
from memory_core.store.writing import session_scope, user_scope

_log = logging.getLogger(__name__)

WORKERS = 256
"""Maximum number of blocks served concurrently. Threads are created on demand. A model that hangs keeps one thread for
each block of its session, and one more for each caller waiting in `Memory.deliver`; a put that finds the lease taken
keeps none."""

TURN_SECONDS = 0.05
"""Polling interval, in seconds, while another worker serves the block."""

LISTENING_SECONDS = 1.0
"""The same where the other worker tells when it has finished."""

MAX_CONFLICTS = 3
"""Consecutive attempts that may end in a conflict (facts changed during extraction) before it counts as a failure."""

MODEL_AWAY = (ModelKeyError, ModelRateLimitError, ModelTimeoutError, ModelUnreachableError)
"""Errors that say more about the model than about the messages."""

MAX_AWAY = 2
"""Failures in a row with such an error after which the other deliveries are not tried."""

DeliveryOutcome = Literal["done", "waiting", "failed", "parked"]


@dataclass(frozen=True, slots=True)
class Served:
    """Outcome of serving one block; `error` is one sentence for people."""

    block: str
    outcome: DeliveryOutcome
    delivered: int = 0
    """Number of deliveries acknowledged."""
    error: str | None = None


class _LeaseLost(MemoryInspectorError):
    """Raised when another process took the lease; the pending write is discarded."""


class _Gone(MemoryInspectorError):
    """Raised when the deliveries were skipped or removed; the pending write is discarded."""


class _CustomBlockError(MemoryInspectorError):
    """Raised in place of a custom block's own store error, which would be taken for one of this database."""


def serve(session: Session, *, timeout: float | None, force: bool = False) -> dict[str, Served]:
    """Serve every block with due deliveries, for at most `timeout` seconds (None: no limit).

    Never raises: the messages are already stored. Work still running at the timeout continues in the background.
    `force` ignores the time of the next attempt.
    """
    try:
        with session.database.read() as connection:
            waiting = pending_by_block(connection, session.id)
    # The messages are stored already, so a put must not fail: each block is reported as not served.
    except StoreError as error:
        return {a.name: Served(a.name, "failed", error=str(error)) for a in session.blocks if a.learns}
    by_name = {attached.name: attached for attached in session.blocks}
    started: dict[str, Future[Served]] = {}
    results = {}
    for name, deliveries in waiting.items():
        # A block that is switched off, or cannot be made here, keeps its deliveries for later or for another process.
        attached = by_name.get(name)
        off = attached is None or attached.block is None or not attached.settings.get("enabled", True)
        # Checked first, as this is the reason to show: another model would learn differently for this block.
        if attached is not None and (model := model_waited_for(session, attached)) is not None:
            results[name] = Served(name, "waiting", error=f"Waits for {model}, which learns for this block.")
        elif attached is None or off or not _due(deliveries, session, force):
            results[name] = Served(name, "waiting", error=deliveries[0].error)
        else:
            executor = session.services.executor or _pool()
            started[name] = executor.submit(bind_person(_serve_block), session, attached, force)
    # `wait` overflows on an infinite timeout; for no limit it takes None.
    wait(started.values(), timeout=None if timeout == math.inf else timeout)
    for name, future in started.items():
        results[name] = future.result() if future.done() else Served(name, "waiting")
    return results


def serve_put(session: Session, wait: bool) -> dict[str, Served]:
    """Serve the deliveries that a put, a flush or a fill made due; without `wait` in the background."""
    if not any(attached.learns for attached in session.blocks):
        return {}
    return serve(session, timeout=session.config.delivery_timeout if wait else 0)


def serve_closed(session: Session) -> None:
    """Serve what is due in the user's other sessions, unless another program works in them; never raises.

    Takes at most `delivery_timeout` seconds; what is still running then continues in the background.
    """
    if session.user_id is None:
        return
    end = time.monotonic() + session.config.delivery_timeout
    try:
        with session.database.read() as connection:
            waiting = waiting_sessions(connection, before=session.clock(), user_id=session.user_id)
            others = set(waiting) - {session.id} - set(running_agents(connection, session.clock()) if waiting else ())
    except StoreError:
        return
    for other in sorted(others):
        with suppress(StoreError, NotFoundError):
            serve(session.sibling(other), timeout=max(0.0, end - time.monotonic()))


def retry(session: Session, ids: Sequence[int] | None = None) -> None:
    """Make the deliveries `ids` due again, with their attempts reset to 0; None: all parked ones."""
    # Named pending ones too: a person may not want to wait for their next attempt.
    for block, chosen in _by_block(session, ids, states=("parked", "pending")).items():
        with session.writing() as w:
            # Some may have been finished since they were read.
            if still := unfinished(w.connection, chosen):
                set_state(w, still, "pending", attempts=0)
                w.record(DeliveryRetried(deliveries=still, block=block), actor="user")


def free(session: Session, names: Collection[str]) -> None:
    """Let any process learn for these blocks, and make their waiting deliveries due."""
    with session.changing() as w:
        reconcile.free_learners(session, w, names)
    with session.database.read() as connection:
        waiting = pending_by_block(connection, session.id)
    retry(session, [delivery.id for name in names for delivery in waiting.get(name, ())])


def skip(session: Session, ids: Sequence[int]) -> None:
    """Skip deliveries: the block never receives their messages, which stay in the archive."""
    for block, chosen in _by_block(session, ids, states=("parked", "pending")).items():
        with session.writing() as w:
            if still := unfinished(w.connection, chosen):
                set_state(w, still, "skipped")
                w.record(DeliverySkipped(deliveries=still, block=block), actor="user")


def backoff_seconds(attempts: int) -> float:
    """Seconds to wait after `attempts` failed attempts: 2, 4, 8, ..., at most `LONGEST_BACKOFF_SECONDS`."""
    return min(2.0**attempts, LONGEST_BACKOFF_SECONDS)


# -- one block -----------------------------------------------------------------------------------


def _serve_block(session: Session, attached: SessionBlock, force: bool) -> Served:
    """Serve one block until each delivery that is due to it was attempted once, or its model is out of reach."""
    name, scope = attached.name, scope_key(session, attached)
    key, owner = lease_key(scope, name), new_owner()
    done = 0
    heard: int | None = None
    try:
        while (waiting := _claimed(session, name, key, owner, force)) is None:
            mine = scope == session_scope(session.id)
            if not force and (mine or (session.whole_id, name) in _waiters()):
                return Served(name, "waiting", done)  # the lease's holder, or a waiting worker, serves these too
            # The holder skips deliveries whose next attempt is later, and other sessions of the user.
            _waiters().add((session.whole_id, name))
            if session.services.sleep is not None:
                session.services.sleep(TURN_SECONDS)
            else:
                session.database.notifications.wait(key, LISTENING_SECONDS, since=heard, polling=TURN_SECONDS)
            heard = session.database.notifications.count(key)
            _waiters().discard((session.whole_id, name))  # before asking again: a worker that comes now waits too
        tried: set[int] = set()
        alone: set[int] = set()
        failed: Served | None = None
        away = 0
        while due := [one for one in _due(waiting, session, force) if one.id not in tried]:
            calls = _one_call(due, session.config.delivery_attempts, alone)
            acknowledged, problem = _attempt(session, attached, calls, key, owner)
            done += acknowledged
            ids = {delivery.id for delivery in calls}
            # One of several may be to blame: each is tried by itself, so that it costs no other.
            if problem is not None and len(calls) > 1 and not isinstance(problem, MODEL_AWAY):
                alone |= ids
            elif problem is not None:
                tried |= ids
                failed = _failed(session, attached, calls, key, owner, problem, force)
                away = away + 1 if isinstance(problem, MODEL_AWAY) else 0
            else:
                away = 0
            if away == MAX_AWAY:  # the others are not tried: they wait for the next attempt with these
                tried |= {delivery.id for delivery in due}
                _put_off(session, due, key, owner)
            waiting = _released(session, name, key, owner, force, tried)
        if failed is not None:
            return replace(failed, delivered=done)
        return Served(name, "waiting", done, waiting[0].error) if waiting else Served(name, "done", done)
    except _LeaseLost:
        return Served(name, "waiting", done)
    except BaseException as error:  # the database or the session is gone, or an unforeseen error
        _release_lease(session, key, owner)
        if not isinstance(error, StoreError | NotFoundError):
            _log.warning("Session %r, block %r: serving it failed with %s.", session.id, name, type(error).__name__)
        return Served(name, "failed", done, user_message(error))


def _claimed(session: Session, block: str, key: str, owner: str, force: bool) -> list[Delivery] | None:
    """Return a block's waiting deliveries, claiming its lease if one is due; None while another holds the lease."""
    with session.database.write() as connection:
        waiting = pending(connection, session.id, block)
        if _due(waiting, session, force) and not claim(session.database, connection, key, owner, session.clock()):
            return None
        return waiting


def _released(
    session: Session, block: str, key: str, owner: str, force: bool, tried: Collection[int]
) -> list[Delivery]:
    """Return the deliveries waiting for a block; the lease is released if all that are due were tried.

    Both happen in one transaction: a process that found the lease taken can rely on its holder to serve its messages.
    """
    with session.database.write() as connection:
        # The lease expired in a long call and was taken by another process, which now serves the rest.
        if not holds(connection, key, owner):
            raise _LeaseLost
        waiting = pending(connection, session.id, block)
        over = all(delivery.id in tried for delivery in _due(waiting, session, force))
        if over:
            release(connection, key, owner)
    if over:
        session.database.notifications.send(key)
    return waiting


def _attempt(
    session: Session, attached: SessionBlock, due: list[Delivery], key: str, owner: str
) -> tuple[int, BaseException | None]:
    """Attempt some deliveries once; return how many were acknowledged, and the error if there was one."""
    for _ in range(MAX_CONFLICTS):
        try:
            _deliver(session, attached, due, key, owner)
            return len(due), None
        # 1. Skipped or removed meanwhile: no failure, and no reason to stop. Deliveries put since then rely on the
        #    holder of this lease.
        except _Gone:
            return 0, None
        # 2. A conflict: what the block compared with was changed, so another try reads it again. It counts as a failure
        #    only if it comes every time.
        except ConflictError as error:
            conflict = error
        # 3. The lease or the database is lost: no failed attempt, as this says nothing about the block.
        except (_LeaseLost, StoreError, NotFoundError):
            raise
        # 4. Anything else is the block's or its model's fault, counts towards parking, and is never raised by `put`.
        #    A block may also end the process or cancel its task, and Ctrl+C reaches no worker thread.
        except BaseException as error:
            return 0, error
    return 0, conflict


def _deliver(session: Session, attached: SessionBlock, due: Sequence[Delivery], key: str, owner: str) -> None:
    """Let the block learn, and acknowledge in the transaction that stores the result."""
    assert attached.block is not None
    started = time.monotonic()
    # 1. Read what is due and end the transaction: a model may take minutes, too long to hold a lock.
    with session.database.read() as connection:
        messages = [
            message
            for delivery in due
            for message in delivered_messages(connection, delivery, session.services.messages)
        ]
        state = read_state(connection, session.id, attached.name) or attached.initial
    batch = session.batch(messages, state, deliveries=[delivery.id for delivery in due])
    # 2. The slow part. It stores nothing: if it fails in any way, the deliveries are still due.
    with renewed(session.database, key, owner, session.clock):
        try:
            # Without messages all of them were erased meanwhile: the delivery still has to be acknowledged.
            learned = attached.block.prepare_write(batch) if messages else PendingWrite()
        except (StoreError, NotFoundError) as error:
            if attached.block.kind_is_built_in:
                raise
            raise _CustomBlockError(user_message(error)) from error  # of a store of its own, not of this database
    calls = call_events(learned.calls, attached.name)
    attempt = due[0].attempts + 1
    try:
        with session.writing() as w:
            # 3. Under the session's lock, check what may have changed meanwhile, the strongest reason to stop first.
            #    Another process has the lease: it learns the same, and storing it here would duplicate it.
            if not holds(w.connection, key, owner):
                raise _LeaseLost
            #    The deliveries were skipped: nothing may be learned from them any more.
            if set_state(w, batch.deliveries, "done", attempts=attempt) != len(due):
                raise _Gone
            #    Messages were erased: what was learned from them would bring their words back.
            read = {message.seq for message in messages} | learned.context
            if not still_there(w.connection, session.id, sorted(read)):
                raise ConflictError("Messages were removed while a block learned from them. It is given the rest.")
            #    Something was put into quarantine, or released: what is learned must not come from what is in it.
            if session.quarantine(w.connection) != batch.quarantine:
                raise ConflictError("The quarantine was changed while a block learned. It learns again.")
            # 4. Record in the order in which it happened: the calls, their results, the acknowledgement. The
            #    models' answers are kept for plays in the Lab, as nothing in them was erased meanwhile.
            w.record(*calls)
            earlier = not_done_before(w.connection, session.id, attached.name, batch.deliveries[0])
            learned.save(w)
            keep_outputs(w.connection, session.id, stored_outputs(learned.calls), now=w.now)
            seconds = round(time.monotonic() - started, 3)
            done = DeliveryDone(batch.deliveries, attached.name, attempt, seconds, earlier)
            w.record(done)
    except (_LeaseLost, _Gone, ConflictError):
        # 5. Discard the result but record its cost, in a new transaction, as the first was rolled back.
        if calls:
            with session.writing() as w:
                w.record(*calls)
        raise
    # 6. Show the result in the live block only now: before the commit it could still be rolled back. The delivery is
    #    done, so a block that refuses its own fields here must not be given it again.
    try:
        learned.committed()
    except Exception as error:
        kind = type(error).__name__
        _log.warning("Session %r, block %r: its object shows old values (%s).", session.id, attached.name, kind)


def _failed(
    session: Session,
    attached: SessionBlock,
    due: Sequence[Delivery],
    key: str,
    owner: str,
    error: BaseException,
    force: bool,
) -> Served:
    """Record that an attempt failed; at the last one the deliveries are parked. One before its time does not count."""
    early = 0.0 if force else _pause(due[0], session.clock())
    attempts = due[0].attempts + (not early)
    ids = tuple(delivery.id for delivery in due)
    problem = user_message(error)
    parked = not early and attempts >= session.config.delivery_attempts
    pause = early or backoff_seconds(attempts)
    events: list[Event] = [
        DeliveryFailed(
            deliveries=ids,
            block=attached.name,
            attempt=attempts,
            error=problem,
            retry_in_seconds=0.0 if parked else pause,
        )
    ]
    if parked:
        events.append(DeliveryParked(deliveries=ids, block=attached.name, attempts=attempts, error=problem))
    with session.writing() as w:
        # Another process has the lease: its attempt is the one that counts.
        if not holds(w.connection, key, owner):
            raise _LeaseLost
        state = "parked" if parked else "pending"
        set_state(w, ids, state, attempts=attempts, error=problem, next_attempt_at=w.now + pause)
        w.record(*events)
    # After the commit, and by the type alone: the text of an exception may quote messages, or a key.
    about = (session.id, attached.name, attempts, type(error).__name__)
    _log.warning("Session %r, block %r: attempt %d to learn failed with %s.", *about)
    if parked:
        _log.warning("Session %r, block %r: parked after attempt %d, which failed with %s.", *about)
    return Served(attached.name, "parked" if parked else "failed", error=problem)


def _one_call(due: Sequence[Delivery], attempts: int, alone: Collection[int]) -> list[Delivery]:
    """Return the first deliveries that may share one call: at least one, then up to `CALL_TOKENS`.

    Those that failed together (`alone`), and the last attempt before parking, are made with one delivery each.
    """
    chosen = [due[0]]
    # With a single attempt allowed every attempt is the last, and deliveries still share calls.
    if due[0].attempts >= attempts - 1 > 0 or due[0].id in alone:
        return chosen
    tokens = due[0].tokens
    # Attempts are counted for the call as a whole, so its deliveries must have failed equally often.
    for delivery in due[1:]:
        tokens += delivery.tokens
        if delivery.attempts != due[0].attempts or tokens > CALL_TOKENS:
            break
        chosen.append(delivery)
    return chosen


def _due(deliveries: Sequence[Delivery], session: Session, force: bool) -> list[Delivery]:
    """Return all deliveries if one is due: those that failed are tried again with it, so that they keep their order."""
    now = session.clock()
    return list(deliveries) if force or any(not _pause(one, now) for one in deliveries) else []


def _pause(delivery: Delivery, now: float) -> float:
    """Return the seconds until a delivery's next attempt; 0 if it is due."""
    pause = delivery.next_attempt_at - now
    # Further off than the longest pause is possible only where the clock was set back: due now.
    return pause if 0 < pause <= LONGEST_BACKOFF_SECONDS else 0.0


def _put_off(session: Session, due: Sequence[Delivery], key: str, owner: str) -> None:
    """Let deliveries that were not tried wait as long as one that failed once; this is no attempt."""
    with session.writing() as w:
        if not holds(w.connection, key, owner):
            raise _LeaseLost
        for one in unfinished(w.connection, [one.id for one in due if not one.attempts]):
            set_state(w, [one], "pending", next_attempt_at=w.now + backoff_seconds(1))


def scope_key(session: Session, attached: SessionBlock) -> str:
    """Return the scope that is served in sequence: the user's, shared by all their sessions, or the session's."""
    if attached.record.settings.get("scope") == "user" and session.user_id:
        return user_scope(session.user_id)
    return session_scope(session.id)


def call_events(calls: Sequence[ModelCall], block: str) -> list[Event]:
    """Return the events for the model calls of a block's learner."""
    return [
        ModelCalled(c.purpose, c.model, c.input_tokens, c.output_tokens, round(c.seconds, 3), c.cost, block)
        for c in calls
    ]


def stored_outputs(calls: Sequence[ModelCall]) -> list[StoredOutput]:
    """Return the answers of model calls in the form in which they are stored, without calls that have no output."""
    return [
        StoredOutput(
            c.output.key, c.output.text, c.output.readable,
            c.purpose, c.model, c.input_tokens, c.output_tokens, round(c.seconds, 3), c.cost,
        )
        for c in calls
        if c.output is not None
    ]  # fmt: skip


def model_waited_for(session: Session, attached: SessionBlock) -> str | None:
    """Return the model that the block waits for; None if it waits for none or its model cannot give a name."""
    try:
        return attached.waits_for(session.services)
    except Exception:
        return None


def _release_lease(session: Session, key: str, owner: str) -> None:
    """Release the lease if it is still held; one that cannot be released expires."""
    with suppress(StoreError), session.database.write() as connection:
        release(connection, key, owner)


def _by_block(session: Session, ids: Sequence[int] | None, *, states: Sequence[str]) -> dict[str, list[int]]:
    with session.database.read() as connection:
        deliveries = read_deliveries(connection, session.id, states=states)
    chosen: dict[str, list[int]] = {}
    for delivery in deliveries:
        if ids is None and delivery.state != "parked":
            continue
        if ids is None or delivery.id in ids:
            chosen.setdefault(delivery.block, []).append(delivery.id)
    return chosen


@per_process
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=WORKERS, thread_name_prefix="memory-delivery")


@per_process
def _waiters() -> set[tuple[tuple[str, str], str]]:
    """Pairs of session and block with a worker that waits for another process's lease, to then serve what is due."""
    return set()

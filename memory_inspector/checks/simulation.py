"""Simulator of a memory's surroundings: clock, ids, failures and crashes follow from a seed.

    with simulate(7, memory_blocks=lambda: [FactExtractionMemoryBlock(name="facts")]) as sim:
        sim.run(agent)  # called with a memory, and again after every crash

The database is SQLite in memory. It outlives the simulated processes: a crash drops everything else. All work is done
in the calling thread, and no time is waited for, so that a life of some turns takes milliseconds.

A session at a position of its log is rebuilt from events and the content store alone: it reproduces what the tables
held then without reading them. Words erased since are left out and reported as missing.
"""

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from random import Random
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from memory_core.blocks.base import BaseMemoryBlock, Batch, PendingWrite
from memory_core.blocks.facts import FactExtractionMemoryBlock
from memory_core.blocks.graph import GraphMemoryBlock
from memory_core.engine.context import Context
from memory_core.engine.session import Session, SessionBlock
from memory_core.errors import ConfigError, EmbedderError, MemoryInspectorError, ModelUnreachableError, StoreError
from memory_core.events import EventRecord, MessageAdded, expand
from memory_core.formats.any_message import GivenMessage
from memory_core.history.context_pieces import PieceReader, Pieces, Words, lay_out
from memory_core.history.contexts import context_of, places_of
from memory_core.history.learned_slices import PastFact
from memory_core.history.message_slice import MessagePlace, State
from memory_core.history.projection import Projection, project
from memory_core.memory import Memory, Receipt
from memory_core.messages import ChatMessage
from memory_core.planning.fact_merging import Fact
from memory_core.planning.graph_rules import Graph
from memory_core.planning.rendering import InsertMethod
from memory_core.services import Services
from memory_core.sessions.overview import list_sessions
from memory_core.store.database import Database
from memory_core.store.leases import LEASE_SECONDS
from memory_core.store.log_rows import read_events
from memory_core.store.tables import content_table
from memory_core.store.writing import read_existing, read_session


@dataclass(frozen=True, slots=True)
class RebuiltMessage:
    """A message with its metadata; `message` is None if its words were erased since."""

    seq: int
    role: str
    pinned: bool
    message: ChatMessage | None


@dataclass(frozen=True, slots=True)
class MessageDelivery:
    """Delivery that included a message."""

    delivery: int
    block: str
    trigger: str
    state: State = "pending"
    attempts: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class RebuiltOutcome:
    seq: int
    place: MessagePlace
    flush: int | None
    """Number of the flush in which the message left the queue; None: it has not."""
    handed: tuple[MessageDelivery, ...]
    facts: tuple[int, ...]
    """Ids of facts learned from the message, in any state; erased ones are omitted."""
    vectors: tuple[int, ...]
    """Numbers of stored turns that contain the message."""
    relations: tuple[int, ...]
    """Ids of relations learned from the message, in any state; erased ones are omitted."""
    in_context: bool
    """True if the message was in the latest context."""


@dataclass(frozen=True, slots=True)
class SessionSnapshot:
    """A session at one position of its log."""

    position: int
    queue: tuple[RebuiltMessage, ...]
    """Oldest first, pinned messages included."""
    archived: tuple[RebuiltMessage, ...]
    facts: tuple[Fact, ...]
    """Facts in every state but erased, oldest first; texts erased since are empty, and scopes unknown."""
    graphs: dict[str, Graph]
    """The graph of each block that has one, by the block's name."""
    context: tuple[ChatMessage, ...] | None
    """The messages of the latest context; None if none was built yet."""
    outcomes: dict[int, RebuiltOutcome]
    """Every message that was added, by sequence number."""
    missing: tuple[str, ...]
    """Hashes of needed words that were erased."""


def rebuild(
    events: Iterable[EventRecord], words: Words, upto: int | None = None, *, session_id: str | None = None
) -> SessionSnapshot:
    """Rebuild the session at position `upto` of its log, inclusive (None: at the end).

    `session_id` defaults to that of the first event. To include user-scoped facts, pass the events of the user's other
    sessions as well.
    """
    log = sorted((record for record in events if upto is None or record.position <= upto), key=lambda r: r.position)
    session = session_id if session_id is not None else log[0].session_id if log else ""
    return Past(project(log, session)).rebuilt(words)


class Past:
    """Reads a session's state from its projection."""

    def __init__(self, past: Projection) -> None:
        self._past, self._session_id = past, past.session_id or ""

    def rebuilt(self, words: Words) -> SessionSnapshot:
        # The latest context is read as of its own position: words may have changed since.
        latest, names = self._past.prompts.latest, [block.name for block in self._past.prompts.blocks]
        reader = PieceReader(Pieces(self._past), latest.position if latest else self._past.position, names, words)
        messages = self._past.messages.by_seq.values()
        queue = tuple(_rebuilt(state.added, reader) for state in messages if state.place == "queued")
        archived = tuple(_rebuilt(state.added, reader) for state in messages if state.place == "archived")
        facts_of_session = {
            id: fact
            for id, fact in self._past.facts.by_id.items()
            # Facts of the user belong here too, if the session ever had a block that shows them.
            if fact.record.session_id == self._session_id or fact.added.block in self._past.blocks.users
        }
        facts = tuple(fact.worded(reader.text) for _, fact in sorted(facts_of_session.items()))
        context = None
        if latest is not None:
            event = context_of(latest)
            context = lay_out(event, reader).messages(InsertMethod(event.insert_method))
        graphs, outcomes = self._past.graph.graphs(self._session_id, reader.text), self._outcomes(facts_of_session)
        position, missing = self._past.position, tuple(reader.missing)
        return SessionSnapshot(position, queue, archived, facts, graphs, context, outcomes, missing)

    def _outcomes(self, facts: dict[int, PastFact]) -> dict[int, RebuiltOutcome]:
        handed: dict[int, list[MessageDelivery]] = {}
        for number, due in self._past.deliveries.by_number.items():
            delivery = MessageDelivery(number, due.queued.block, due.queued.trigger, due.state, due.attempts, due.error)
            for seq in due.seqs:
                handed.setdefault(seq, []).append(delivery)
        learned: dict[int, list[int]] = {}
        for id, fact in facts.items():
            for session_id, seq in fact.sources:
                # A message supports a fact by session and number, as a user's facts come from several sessions.
                if session_id == self._session_id:
                    learned.setdefault(seq, []).append(id)
        related: dict[int, list[int]] = {}
        for relation in self._past.graph.relations.values():
            for _, seq in relation.sources:
                related.setdefault(seq, []).append(relation.id)
        stored: dict[int, list[int]] = {}
        for number, unit in self._past.vectors.units():
            for seq in expand(unit.seqs):
                stored.setdefault(seq, []).append(number)
        # Messages recalled by a block are not counted, only those of the queue and the pinned ones.
        latest = self._past.prompts.latest
        shown = set(places_of(context_of(latest))) if latest is not None else set()
        return {
            seq: RebuiltOutcome(
                seq=seq,
                place=message.place,
                flush=message.flush,
                handed=tuple(handed.get(seq, ())),
                facts=tuple(sorted(learned.get(seq, ()))),
                vectors=tuple(sorted(stored.get(seq, ()))),
                relations=tuple(sorted(related.get(seq, ()))),
                in_context=seq in shown,
            )
            for seq, message in self._past.messages.by_seq.items()
        }


def _rebuilt(added: MessageAdded, reader: PieceReader) -> RebuiltMessage:
    return RebuiltMessage(added.seq, added.role, added.pinned, reader.message(added.seq))


Returned = TypeVar("Returned")

FAULTS = ("statement", "commit", "answer", "crash", "model", "hang", "duplicate", "clock")
"""A SQL statement fails; a commit fails; a commit is stored, and its answer is lost; the process ends, at a statement,
at a commit or while a block learns; a model fails, before or after it worked; a model takes longer than a lease lasts,
while another process may serve its block; a message is put again under its id; the clock is stepped two hours."""

RATES = {"statement": 0.002, "commit": 0.03, "learning": 0.2, "embedding": 0.03, "put": 0.08, "operation": 0.04}
"""Chance of a fault by the point of a program at which it happens."""

MAX_RESTARTS = 1_000
"""Restarts after which an agent is taken for one that never ends."""


class SimulatedCrash(Exception):
    """Raised where the simulated process ends, and by all it tries afterwards: what handles it has no effect."""


@dataclass(slots=True)
class Process:
    """A simulated process: its access to the database, and what it holds in memory."""

    services: Services
    ended: bool = False
    database: Database = field(init=False)

    def check(self) -> None:
        """Raise `SimulatedCrash` if the process has ended: nothing it does later has an effect."""
        if self.ended:
            raise SimulatedCrash

    def fail(self, kind: str, statement: str) -> NoReturn:
        """End the process for a crash; otherwise fail as the database driver does."""
        self.ended = kind == "crash"
        self.check()
        raise OperationalError(statement, {}, sqlite3.OperationalError("disk I/O error"))


@dataclass(slots=True)
class Puts:
    """Puts of one session, by the operation in which they happened."""

    tried: dict[str, int] = field(default_factory=dict)
    """Operation of the first attempt by message id."""
    acknowledged: list[tuple[tuple[int, ...], int, int]] = field(default_factory=list)
    """Sequence numbers of a put, the operation of its first attempt, and that of its acknowledgement."""


class Simulation:
    """A database, a clock and failures that a seed decides; a context manager that checks the memory at its end.

    `story` holds what happened, one line per operation and fault: the same for the same seed and the same agent.
    `chance` is for the agent's own decisions.
    """

    def __init__(
        self,
        seed: int,
        *,
        memory_blocks: Callable[[], Sequence[BaseMemoryBlock[Any]]] | None = None,
        services: Callable[[], Services] | None = None,
        faults: Collection[str] = FAULTS,
        most_faults: int = 20,
        rate: float = 1.0,
        **settings: Any,
    ) -> None:
        if unknown := sorted(set(faults) - set(FAULTS)):
            raise ConfigError(f"there is no fault called {unknown[0]!r}: choose from {', '.join(FAULTS)}")
        self.seed = seed
        self.story: list[str] = []
        self.chance = Random(f"{seed} agent")
        self.puts: dict[str, Puts] = {}
        self._random = Random(f"{seed} faults")
        self._make_blocks, self._make_services = (
            memory_blocks,
            services or (lambda: Services(embedder=SimulatedEmbedder(self))),
        )
        self._faults, self._faults_left, self._rate = tuple(faults), most_faults, rate
        self._settings = settings
        self._time = 1_700_000_000.0
        self._operation = 0
        self._checked_at = -1
        # Holds the one connection of the database in memory, whichever processes come and go.
        self._stored = Database.open()
        self._process: Process | None = None

    def clock(self) -> float:
        """Return the simulated time, in seconds since 1970."""
        return self._time

    def open(self, session_id: str = "s", user_id: str | None = None) -> "SimulatedMemory":
        """Return a session's memory in the present process, made at the first call as `Memory.from_defaults` does."""
        if self._process is None:
            self._process = self._started()
        return self._opened(self._process, session_id, user_id)

    def run(
        self, agent: Callable[["SimulatedMemory"], Returned], session_id: str = "s", user_id: str | None = None
    ) -> Returned:
        """Call `agent` with a memory until it returns, again after each crash and each `StoreError` that it lets pass.

        Raises:
            AssertionError: it never returned.
        """
        for _ in range(MAX_RESTARTS):
            try:
                returned = agent(self.open(session_id, user_id))
                if self._process is not None and not self._process.ended:
                    return returned
            except (SimulatedCrash, StoreError) as error:
                self.note(f"the program ended: {type(error).__name__}")
            self.restart()
        raise AssertionError(f"The agent did not return after {MAX_RESTARTS:,} restarts.")

    def restart(self) -> None:
        """End the present process, and let the next one start some time later."""
        if self._process is not None:
            self._process.ended = True
        self._process = None
        # Longer than a lease, as an ended process cannot be told from this one by its number.
        self._pass(self._random.uniform(2 * LEASE_SECONDS, 90))
        self.note("restart")

    def check(self) -> dict[str, "SimulatedMemory"]:
        """Deliver what is due without faults in a new process, check every session, and return their memories.

        See `check_session`. The simulation has no faults from here on.

        Raises:
            AssertionError: a promise is broken.
        """
        self._faults_left = 0
        self.restart()
        process = self._process = self._started()
        with process.database.read() as connection:
            lost = [id for id in self.puts if read_session(connection, id) is None]
        assert not lost, f"Sessions are lost: {', '.join(lost)}."
        memories = {}
        for status in list_sessions(process.database):
            memory = self._opened(process, status.session_id, status.user_id)
            memory.session.retry()
            memory.deliver()
            self._check_puts(memory, check_session(memory))
            memories[status.session_id] = memory
        self._checked_at = self._operation
        return memories

    def __enter__(self) -> "Simulation":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        try:
            if error is None and self._checked_at != self._operation:
                self.check()
        except Exception as problem:
            error = problem
            raise
        finally:
            if error is not None:
                error.add_note(self._advice())
            self._stored.close()

    def note(self, line: str) -> None:
        """Add a line to the story."""
        self.story.append(f"{self._operation} {line}")

    # -- what happens in a process --------------------------------------------------------------------

    def begin(self, operation: str) -> None:
        """Note an operation of a memory, and let time pass or the clock be stepped."""
        self._operation += 1
        self.note(operation)
        self._pass(self._random.uniform(0.1, 30))
        if self.fault("operation", "clock"):
            self._pass(self._random.choice((-7_200, 7_200)))

    def put(
        self, memory: "SimulatedMemory", ids: Sequence[str] | None, count: int, put: Callable[..., Receipt]
    ) -> Receipt:
        """Put messages under these or new ids, perhaps twice, and note what was acknowledged."""
        ids = ids or [f"{self._random.getrandbits(128):032x}" for _ in range(count)]
        self.begin(f"put {', '.join(ids)}")
        puts = self.puts.setdefault(memory.session_id, Puts())
        first = min((puts.tried.setdefault(id, self._operation) for id in ids), default=self._operation)
        receipt = put(message_ids=ids)
        memory.process.check()
        puts.acknowledged.append((receipt.seqs, first, self._operation))
        if self.fault("put", "duplicate"):
            again = put(message_ids=ids)
            assert again.seqs == receipt.seqs, f"Put again, {receipt.seqs} became {again.seqs}."
        return receipt

    def _opened(self, process: Process, session_id: str, user_id: str | None) -> "SimulatedMemory":
        memory = SimulatedMemory.from_defaults(
            session_id,
            user_id,
            memory_blocks=self._make_blocks and self._make_blocks(),
            database=process.database,
            services=process.services,
            clock=self.clock,
            **self._settings,
        )
        assert isinstance(memory, SimulatedMemory)
        memory.simulation, memory.process = self, process
        return memory

    def _started(self) -> Process:
        """Start a process: an engine of its own on the connection, whose statements and commits may fail."""
        engine = self._stored.engine.execution_options()
        process = Process(self._make_services())

        def statement(_: Any, __: Any, text: str, *___: Any) -> None:
            process.check()
            kind = self.fault("statement", "statement", "crash", about=text.split("(")[0][:40])
            if kind is not None:
                process.fail(kind, text)

        def commit(connection: Any) -> None:
            process.check()
            kind = self.fault("commit", "commit", "answer", "crash")
            if kind == "answer" or (kind == "crash" and self._random.random() < 0.5):
                connection.connection.commit()
            if kind is not None:
                process.fail(kind, "COMMIT")

        # Before the database makes copies of the engine, which take over the listeners that there are.
        event.listen(engine, "before_cursor_execute", statement)
        event.listen(engine, "commit", commit)
        process.database = Database.open(engine=engine)
        process.database.for_agents = True
        process.services.executor, process.services.sleep = _InCallingThread(self, process), self._pass
        return process

    @contextmanager
    def learning(self, process: Process, session: Session, attached: SessionBlock) -> Iterator[None]:
        """Let what the block learns fail, hang or end the process; as an attribute of the one object, while it runs."""
        block = attached.block
        assert block is not None
        prepare = block.prepare_write

        def faulty(batch: Batch) -> PendingWrite:
            kind = self.fault("learning", "model", "hang", "hang", "crash", about=attached.name)
            if kind == "crash":
                process.fail(kind, "")
            late = self._random.random() < 0.5
            if kind == "model" and not late:
                raise ModelUnreachableError("Nothing answers at the model's address.")
            write = prepare(batch)
            if kind == "model":
                raise ModelUnreachableError("The model's answer was lost.")
            if kind == "hang":
                self._pass(self._random.uniform(2 * LEASE_SECONDS, 120))
                if self._random.random() < 0.7:
                    self._serve_elsewhere(session.id)
            return write

        # In the object's own dictionary, which pydantic does not guard.
        vars(block)["prepare_write"] = faulty
        try:
            yield
        finally:
            vars(block).pop("prepare_write", None)

    def _serve_elsewhere(self, session_id: str) -> None:
        """Let another process serve the session, for as long as it lives."""
        self.note("another process")
        try:
            process = self._started()
            self._opened(process, session_id, None).deliver(force=False)
        except (SimulatedCrash, MemoryInspectorError) as error:
            self.note(f"the other process ended: {type(error).__name__}")

    def fault(self, point: str, *kinds: str, about: str = "") -> str | None:
        """Choose whether one of the faults that are wanted happens here, and note it."""
        wanted = [kind for kind in kinds if kind in self._faults]
        if not wanted or not self._faults_left or self._random.random() >= RATES[point] * self._rate:
            return None
        self._faults_left -= 1
        kind = self._random.choice(wanted)
        self.note(f"fault: {kind} ({point} {about})".replace(" )", ")"))
        return kind

    def _pass(self, seconds: float) -> None:
        self._time += seconds

    def _check_puts(self, memory: "SimulatedMemory", snapshot: SessionSnapshot) -> None:
        """Assert that acknowledged messages are stored once, in an order in which their puts can have happened."""
        puts = self.puts.get(memory.session_id, Puts())
        rows = memory.session.messages()
        ids = [row.id for row in rows]
        assert len(set(ids)) == len(ids), "A message is stored twice under one id."
        forgotten = {seq for seq, outcome in snapshot.outcomes.items() if outcome.place in ("replaced", "forgotten")}
        stored = {row.seq for row in rows}
        lost = {seq for seqs, _, _ in puts.acknowledged for seq in seqs} - stored - forgotten
        assert not lost, f"Acknowledged messages are lost: {sorted(lost)}."
        newest = 0
        for seqs, first, done in sorted(puts.acknowledged):
            assert done >= newest, f"Message {seqs} precedes one that was put only after it."
            newest = max(newest, first)

    def _advice(self) -> str:
        head = f"Replay it with simulate({self.seed}, …) and the same arguments. Its story ends:"
        return "\n".join([head, *self.story[-40:]])


def simulate(seed: int, **arguments: Any) -> Simulation:
    """Return a simulation: memories whose clock, ids, failures and crashes follow from the seed.

    `arguments`: see `Simulation`.
    """
    return Simulation(seed, **arguments)


class SimulatedMemory(Memory):
    """A `Memory` in a simulated process: what it acknowledges is noted, and checked when the simulation ends."""

    simulation: Simulation
    process: Process

    def put_messages(
        self, messages: Sequence[GivenMessage], *, message_ids: Sequence[str] | None = None, **options: Any
    ) -> Receipt:
        put = partial(super().put_messages, messages, **options)
        return self.simulation.put(self, message_ids, len(messages), put)

    def build_context(self, *arguments: Any, **options: Any) -> Context:
        self.simulation.begin("build a context")
        context = super().build_context(*arguments, **options)
        self.process.check()
        assert context.plan.total <= context.plan.token_limit + context.plan.over_by, "A context exceeds its limit."
        return context


class SimulatedEmbedder:
    """Embedder whose unit vectors follow from the hash of a text, and that fails as the simulation decides."""

    id, dimensions, offline = "simulated-8", 8, True

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self._simulation.fault("embedding", "model"):
            raise EmbedderError("The embedder does not answer.")
        rows = [np.frombuffer(sha256(text.encode()).digest(), dtype=np.uint8)[:8] for text in texts]
        vectors = np.asarray(rows, dtype=np.float32).reshape(-1, 8) - 127.5
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)


class _InCallingThread(Executor):
    """Executor that does its work at once, in the order in which it comes."""

    def __init__(self, simulation: Simulation, process: Process) -> None:
        self._simulation, self._process = simulation, process

    def submit(self, work: Callable[..., Returned], /, *arguments: Any, **named: Any) -> Future[Returned]:
        result: Future[Returned] = Future()
        try:
            result.set_result(self._run(work, arguments, named))
        except Exception as error:
            result.set_exception(error)
        return result

    def _run(self, work: Callable[..., Returned], arguments: tuple[Any, ...], named: dict[str, Any]) -> Returned:
        # Serving a block is the only work that begins with a session; reading one cannot fail in the model's place.
        if arguments and isinstance(arguments[0], Session):
            with self._simulation.learning(self._process, arguments[0], arguments[1]):
                return work(*arguments, **named)
        return work(*arguments, **named)


# -- invariants of a stored session ----------------------------------------------------------------


REARRANGING = ("block_edited", "block_removed", "recipe_chosen", "session_reset", "session_imported")
"""Kinds of events after which a block may rightly not have learned from everything that left the queue."""


def check_session(memory: Memory) -> SessionSnapshot:
    """Assert that a session is whole, and return it as rebuilt from its log.

    Totals equal the sums over the messages; no message was passed to a block twice, and each that left the queue was or
    is due to every block that learns from flushes; the context is within its limit; the log replays to the tables.
    """
    snapshot = rebuilt(memory)
    _check_totals(memory)
    _check_log(memory, snapshot)
    _check_deliveries(memory, snapshot)
    plan = memory.build_context(record=False).plan
    assert plan.total <= plan.token_limit + plan.over_by, f"The context has {plan.total} of {plan.token_limit} tokens."
    return snapshot


def rebuilt(memory: Memory) -> SessionSnapshot:
    """Return the session as rebuilt from its log and the content store, with the facts of its user's sessions."""
    database, user_id = memory.session.database, memory.session.user_id
    ids = {memory.session_id} | {s.session_id for s in list_sessions(database, user_id=user_id) if user_id is not None}
    with database.read() as connection:
        events = [record for id in sorted(ids) for record in read_events(connection, id)]
        words = {key: data for _, key, data in connection.execute(content_table.select())}
    return rebuild(events, words.get, session_id=memory.session_id)


def _check_totals(memory: Memory) -> None:
    with memory.session.database.read() as connection:
        state = read_existing(connection, memory.session_id)
    rows = memory.session.messages()
    queue = [row for row in rows if row.status == "active" and not row.pinned]
    totals = (state.queue_messages, state.queue_content, state.queue_reference, state.archived_messages)
    counted = (
        len(queue),
        sum(row.tokens.content for row in queue),
        sum(row.tokens.reference for row in queue),
        sum(row.status == "archived" for row in rows),
    )
    assert totals == counted, f"The totals are {totals}, and the messages sum up to {counted}."


def _check_log(memory: Memory, snapshot: SessionSnapshot) -> None:
    for status, logged in (("active", snapshot.queue), ("archived", snapshot.archived)):
        stored = [(row.seq, row.message) for row in memory.session.messages(status)]
        assert stored == [(row.seq, row.message) for row in logged], f"The log has other {status} messages."
    for attached in memory.blocks:
        name = attached.name
        if isinstance(attached.block, FactExtractionMemoryBlock):
            tables, log = (
                sorted((f.id, f.text, f.state, f.pinned, tuple(sorted(f.sources))) for f in facts if f.block == name)
                for facts in (memory.facts.read(name, states=None), snapshot.facts)
            )
            assert tables == log, f"The log has other facts of {name!r} than the tables: {log}, not {tables}."
        if isinstance(attached.block, GraphMemoryBlock):
            graph = memory.blocks.graph(name).graph()
            assert graph == snapshot.graphs.get(name, Graph({}, {})), f"The log has another graph of {name!r}."


def _check_deliveries(memory: Memory, snapshot: SessionSnapshot) -> None:
    states = {delivery.id: delivery.state for delivery in memory.session.deliveries()}
    received: dict[str, set[int]] = {}
    for seq, outcome in snapshot.outcomes.items():
        for handed in outcome.handed:
            state = states.get(handed.delivery, handed.state)
            assert state == handed.state, f"Delivery {handed.delivery} is {state}, and {handed.state} by the log."
            if state != "skipped":
                seqs = received.setdefault(handed.block, set())
                assert seq not in seqs, f"Message {seq} was passed to {handed.block!r} twice."
                seqs.add(seq)
    if memory.events(kinds=REARRANGING, limit=1):
        return
    flushed = {seq for seq, outcome in snapshot.outcomes.items() if outcome.flush and outcome.place == "archived"}
    for attached in memory.blocks:
        if attached.learns and attached.deliver_on == "flush" and attached.name in received:
            first = min(received[attached.name])
            missed = {seq for seq in flushed if seq >= first} - received[attached.name]
            assert not missed, f"Messages {sorted(missed)} left the queue and are not due to {attached.name!r}."

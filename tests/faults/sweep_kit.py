"""Operations of a memory, a database whose nth statement or commit fails, and states of a database to be compared."""

import json
import re
import sqlite3
import threading
import uuid
from collections import Counter as Counts
from concurrent.futures import Executor, Future
from contextlib import contextmanager

import pytest
from engine_fakes import Clock, Counter, HashEmbedder, NoteExtractor, assistant, note, user
from session_script import NoteRelations
from span_kit import PROTOBUF, as_protobuf, chat
from span_kit import memory as memory_span
from sqlalchemy import Engine, delete, event, insert, text
from sqlalchemy.exc import OperationalError
from summary_fakes import Scribe

from memory_core import Memory, Services, StaticMemoryBlock
from memory_core.blocks.facts import FactExtractionMemoryBlock
from memory_core.blocks.graph import GraphMemoryBlock
from memory_core.blocks.summary import SummaryMemoryBlock
from memory_core.blocks.vector import VectorMemoryBlock
from memory_core.bundles.bundle import import_bundle, read_bundle, write_bundle
from memory_core.engine import delivery
from memory_core.engine.session import Session
from memory_core.errors import StoreError
from memory_core.sessions.forgetting import forget_user
from memory_core.sessions.overview import delete_session
from memory_core.store.copying.copies import renumbered
from memory_core.store.erasing import erase_what_was_left
from memory_core.store.tables import TABLES
from memory_core.store.writing import PieceWriter
from memory_inspector.recorder.otlp import read_export
from memory_inspector.recorder.receiving import Receiver

NOT_COMPARED = {"mi_lease", "mi_schema", "mi_collection"}
"""Leases name processes and expire by themselves; a collection counts removals, those of failed work too."""

RECORDING = [user("note 90 of the day is here"), assistant("note 91 it is"), user("note 92 of the day is here")]

SPANS = as_protobuf(
    chat([("user", "I like tea.")], "Noted.", conversation="c1", id=1, began=1),
    memory_span("search_memory", conversation="c2", query="tea", id=2, began=2),
    chat([("user", "What do I like?")], "Tea.", conversation="c2", id=3, began=3),
)
"""Request of an exporter, sent again with the same ids."""


class CallingThread(Executor):
    """Does its work at once, so that statements come in the same order each time."""

    def submit(self, work, /, *arguments, **named):
        result = Future()
        try:
            result.set_result(work(*arguments, **named))
        except BaseException as error:
            result.set_exception(error)
        return result


class Stopped(StoreError):
    """The process ended here, and nothing runs afterwards."""


class Fault:
    """Lets the nth statement or commit of a database fail; counts both while nothing fails.

    `how`: "statement" (before it runs), "commit" (nothing is committed), "answer" (committed, and the answer is lost),
    "death" (committed, and nothing runs afterwards). PostgreSQL's connection is closed, as by a network that fails.
    """

    def __init__(self, database):
        self.statements = self.commits = self.nth = 0
        self.how, self.struck = None, False
        self.thread = None
        """Thread whose statements are counted while a fault is planned; notifications are sent on another."""
        engines = [value for value in vars(database).values() if isinstance(value, Engine)]
        for engine in engines:
            # An engine with options of its own asks only if it has a listener of its own.
            event.listen(engine, "begin", lambda connection: None)
        event.listen(database.engine, "before_cursor_execute", self._execute)
        event.listen(database.engine, "commit", self._commit)

    @contextmanager
    def planned(self, how=None, nth=0):
        self.how, self.nth, self.struck = how, nth, False
        self.statements = self.commits = 0
        self.thread = threading.get_ident()
        try:
            yield
        finally:
            self.thread = None

    def _execute(self, connection, cursor, statement, parameters, context, executemany):
        if self.thread != threading.get_ident():
            return
        if self.struck and self.how == "death":
            raise Stopped
        self.statements += 1
        if self.how == "statement" and self.statements == self.nth:
            self._fail(connection, statement)

    def _commit(self, connection):
        if self.thread != threading.get_ident():
            return
        if self.struck and self.how == "death":
            raise Stopped
        self.commits += 1
        if self.commits == self.nth and self.how in ("commit", "answer", "death"):
            if self.how != "commit":
                connection.connection.commit()
            if self.how == "death":
                self.struck = True
                raise Stopped
            self._fail(connection, "COMMIT")

    def _fail(self, connection, statement):
        self.struck = True
        if connection.dialect.name == "sqlite":
            raise OperationalError(statement, {}, sqlite3.OperationalError("database or disk is full"))
        connection.connection.driver_connection.close()


class World:
    """A database with the sessions "s" and "other" of one user, which are put back before every try."""

    def __init__(self, database):
        self.database = database
        # Leases on sessions take ids of their own, which are not compared.
        database.for_agents = False
        self.clock = Clock()
        self.fault = Fault(database)
        self.numbers = 0
        self.bundle = None
        self._rows = None

    def prepare(self):
        for id in ("s", "other"):
            memory = self.open(id)
            for number in range(8):
                memory.put(note(number), message_id=f"note {number}")
                self.clock.pass_by(1)
        memory = self.open()
        memory.facts.pin(memory.facts.read("facts")[0], block="facts")
        memory.session.attach_recording(RECORDING, source="notes.txt")
        memory.get("What was note 1?")
        memory.session.quarantine("note 0 of")
        # Of an agent that only searched: a session with words, and without blocks and messages.
        search = memory_span("search_memory", conversation="agent", query="cake", id=9)
        self.receiver().store([read_export(as_protobuf(search), PROTOBUF)])
        self.bundle = write_bundle(self.database, "s")
        with self.database.read() as connection:
            self._rows = {table: [row._asdict() for row in connection.execute(table.select())] for table in TABLES}

    def services(self):
        services = Services(embedder=HashEmbedder(), extractor=NoteExtractor())
        services.executor, services.sleep = CallingThread(), self.clock.pass_by
        return services

    def open(self, session_id="s", tokenizer_fn=str.split):
        """Return the session's memory in a new process."""
        return Memory.from_defaults(
            session_id,
            "ana",
            database=self.database,
            clock=self.clock,
            tokenizer_fn=tokenizer_fn,
            token_limit=80,
            token_flush_size=14,
            chat_history_token_ratio=0.4,
            services=self.services(),
            memory_blocks=[
                StaticMemoryBlock(name="core", static_content="Be brief.", priority=1),
                FactExtractionMemoryBlock(name="facts", llm=NoteExtractor(), max_facts=1_000),
                FactExtractionMemoryBlock(name="shared", llm=NoteExtractor(), scope="user", max_facts=1_000),
                VectorMemoryBlock(name="turns", embed_model=HashEmbedder()),
                GraphMemoryBlock(name="graph", llm=NoteRelations()),
                SummaryMemoryBlock(name="summary", max_tokens=300, llm=Scribe()),
                Counter(),
            ],
        )

    def receiver(self):
        return Receiver(
            lambda: self.database,
            lambda id: Session(self.database, id, services=self.services(), clock=self.clock),
        )

    def reader(self, memory):
        """Return the session's memory in a process that only reads."""
        return Memory(memory._session.sibling(memory.session_id))

    def restore(self):
        """Put the rows back as they were prepared, with the ids that the database gives next; return a new process."""
        with self.database.write() as connection:
            for table in TABLES:
                connection.execute(delete(table))
                if self._rows[table]:
                    connection.execute(insert(table), self._rows[table])
        self.clock.now = 2_000_000.0
        self.rewind()
        self.spans = self.receiver()
        return self.open()

    def rewind(self):
        """Let the database and the process give the ids again that a failed try took."""
        self.numbers = 0
        self.database.noted.clear()
        with self.database.write() as connection:
            for table in TABLES:
                (key, *others) = table.primary_key.columns
                if others or key.type.python_type is not int:
                    continue
                newest = connection.execute(text(f"SELECT coalesce(max({key.name}), 0) FROM {table.name}")).scalar()
                if self.database.is_sqlite:
                    values = {"name": table.name, "newest": newest}
                    connection.execute(text("UPDATE sqlite_sequence SET seq = :newest WHERE name = :name"), values)
                else:
                    called = (
                        f"setval(pg_get_serial_sequence('{table.name}', '{key.name}'), {max(newest, 1)}, {newest > 0})"
                    )
                    connection.execute(text(f"SELECT {called}"))

    def next_uuid(self):
        self.numbers += 1
        return uuid.UUID(int=self.numbers)

    def state(self):
        """Return every row of every table, numbers that the database gave counted by block instead.

        Blocks learn in any order, each in its own: events are in the order of their block.
        """
        with self.database.read() as connection:
            rows = {
                table.name: [row._asdict() for row in connection.execute(table.select())]
                for table in TABLES
                if table.name not in NOT_COMPARED
            }
        return comparable(rows)

    def deliver(self):
        """Let a new process, somewhat later, do what is due."""
        self.clock.pass_by(60)
        # Remains of an import or a branch whose connection was cut, which a process erases after an hour.
        erase_what_was_left(PieceWriter(self.database), before=1e12)
        for id in ("s", "other"):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(delivery, "TURN_SECONDS", 1)
                if any(status for status in self.ids() if status == id):
                    self.open(id).deliver()

    def ids(self):
        from memory_core.sessions.overview import list_sessions

        return [status.session_id for status in list_sessions(self.database)]


NUMBERED = {
    "facts": ("mi_fact", {"mi_fact_source": "fact_id", "mi_fact_revision": "fact_id"}),
    "vectors": ("mi_vector", {}),
    "deliveries": ("mi_delivery", {}),
    "entities": ("mi_entity", {"mi_relation": ("subject", "object"), "mi_entity": "merged_into"}),
    "relations": ("mi_relation", {"mi_relation_source": "relation_id", "mi_relation": "ended_by"}),
}
"""Tables whose rows have a number that the database gives, and the columns that name them."""

TIMES = {"at", "created_at", "updated_at", "confirmed_at", "done_at", "next_attempt_at", "seconds", "deleted_at"}


def comparable(rows):
    numbers = {}
    for thing, (table, _) in NUMBERED.items():
        ranks = {}
        for row in sorted(rows[table], key=lambda row: row["id"]):
            owner = (row.get("scope") or row.get("session_id"), row["block"])
            ranks.setdefault(owner, []).append(row["id"])
        numbers[thing] = {
            id: 1_000 * place + rank
            for place, owner in enumerate(sorted(ranks), 1)
            for rank, id in enumerate(ranks[owner])
        }

    def to(thing, number):
        return numbers[thing].get(number, -1)  # erased since

    # An agent's messages get ids at random.
    ids = {row["id"]: f"message {row['seq']}" for row in rows["mi_message"] if row["session_id"] in ("c1", "c2")}
    for row in rows["mi_message"]:
        row["id"] = ids.get(row["id"], row["id"])
    for row in rows["mi_event"]:
        data = renumbered(row["kind"], json.loads(row["data"]), to)
        if data.get("message_id") in ids:
            data["message_id"] = ids[data["message_id"]]
        row["data"] = json.dumps(data)
    places = Counts()
    for row in sorted(rows["mi_event"], key=lambda row: row["id"]):
        key = (row["session_id"], row["block"])
        places[key] += 1
        row["id"] = places[key]
    for thing, (table, columns) in NUMBERED.items():
        for row in rows[table]:
            row["id"] = to(thing, row["id"])
        for name, named in columns.items():
            for column in [named] if isinstance(named, str) else named:
                for row in rows[name]:
                    row[column] = row[column] and to(thing, row[column])
    return {name: sorted(json.dumps(plain(row), sort_keys=True) for row in found) for name, found in rows.items()}


def plain(row):
    """Return a row as values of JSON, without times and what was measured."""
    values = {name: value.hex() if isinstance(value, bytes | memoryview) else value for name, value in row.items()}
    if isinstance(values.get("data"), str):
        values["data"] = re.sub(r'"seconds": ?[\d.e-]+', '"seconds": 0', values["data"])
    return {name: value for name, value in values.items() if name not in TIMES}


def without_prompts(state):
    """Return a state without what prompts recorded: a block that cannot be read is left out of one."""
    events = [row for row in state["mi_event"] if not any(f'"kind": "{kind}"' for kind in PROMPTS)]
    events = [re.sub(r'"id": \d+', "", row) for row in events]
    return {**state, "mi_event": sorted(events), "mi_content": []}


PROMPTS = ("context_built", "block_failed", "retrieved", "facts_read")


def facts(memory, block="facts"):
    return memory.facts.read(block)


def branch(memory, world):
    memory.branch(3)


def import_again(memory, world):
    import_bundle(world.database, read_bundle(world.bundle, "s.zip"))


def receive(memory, world):
    [refused] = world.spans.store([read_export(SPANS, PROTOBUF)])
    assert not refused.reasons, dict(refused.reasons)


def play(memory, world):
    recording = memory.session.recording()
    for offset, message in enumerate(RECORDING[:2]):
        memory.put(message, message_id=recording.message_id(offset))


OPERATIONS = {
    "put": lambda memory, world: memory.put(note(8), message_id="eight"),
    "put several": lambda memory, world: memory.put_messages(
        [note(8), assistant("note 8 it is"), note(9)], message_ids=["1", "2", "3"]
    ),
    "flush": lambda memory, world: memory.flush(),
    "close": lambda memory, world: memory.flush(all=True),
    "deliver": lambda memory, world: (memory.blocks.fill("counter"), memory.deliver()),
    "set": lambda memory, world: memory.set([note(70), note(71)]),
    "reset": lambda memory, world: memory.reset(),
    "reset the archive": lambda memory, world: memory.reset("archived"),
    "get": lambda memory, world: memory.get("What was note 1?"),
    "context without record": lambda memory, world: memory.build_context("note 1?", record=False),
    "read messages": lambda memory, world: memory.get_all(),
    "search": lambda memory, world: memory.facts.search("note 1"),
    "configure": lambda memory, world: memory.configure(token_limit=90),
    "switch recipe": lambda memory, world: memory.session.switch("hybrid"),
    "edit a text": lambda memory, world: memory.blocks.edit("core", "Be long."),
    "configure a block": lambda memory, world: memory.blocks.configure("turns", similarity_top_k=7),
    "order blocks": lambda memory, world: memory.blocks.order([b.name for b in memory.blocks][::-1]),
    "add a block": lambda memory, world: memory.blocks.add(Counter(name="another")),
    "remove a block": lambda memory, world: memory.blocks.remove("turns"),
    "add a fact": lambda memory, world: memory.facts.add("Ana is left-handed", block="facts"),
    "edit a fact": lambda memory, world: memory.facts.edit(facts(memory)[0], "Note 0 was kept", block="facts"),
    "merge facts": lambda memory, world: memory.facts.merge(facts(memory)[:2], "Two notes were kept", block="facts"),
    "pin a fact": lambda memory, world: memory.facts.pin(facts(memory)[-1], block="facts"),
    "retire a fact": lambda memory, world: memory.facts.retire(facts(memory)[-1], block="facts"),
    "undo a change of facts": lambda memory, world: memory.facts.undo(block="facts"),
    "add a relation": lambda memory, world: memory.graph.add("Ana", "owns", "a boat"),
    "rename an entity": lambda memory, world: memory.graph.rename(memory.graph.entity("Note 1"), "First note"),
    "end a relation": lambda memory, world: memory.graph.end(memory.graph.relations(ended=False)[:1]),
    "edit a summary": lambda memory, world: memory.blocks.edit("summary", "Notes were taken."),
    "rewrite a summary": lambda memory, world: memory.blocks.summary("summary").rewrite(),
    "forget a phrase": lambda memory, world: memory.session.forget("note 1 of the day"),
    "quarantine": lambda memory, world: memory.session.quarantine("note 1 of the day"),
    "release": lambda memory, world: memory.session.release(memory.session.quarantined()[0].number),
    "rename": lambda memory, world: memory.session.rename("Notes"),
    "take over": lambda memory, world: memory.session.take_over(),
    "play a recording": play,
    "branch": branch,
    "export": lambda memory, world: write_bundle(world.database, "s"),
    "import": import_again,
    "receive spans": receive,
    "delete": lambda memory, world: delete_session(world.database, "s", clock=world.clock),
    "delete for reuse": lambda memory, world: delete_session(world.database, "s", reusable=True, clock=world.clock),
    "delete an agent": lambda memory, world: delete_session(world.database, "agent", clock=world.clock),
    "forget a user": lambda memory, world: forget_user(world.database, "ana", clock=world.clock),
    "open": lambda memory, world: world.open("new"),
    "another counter": lambda memory, world: world.open(tokenizer_fn=list),
}

REPEATABLE = {"put", "put several", "play a recording", "receive spans"}
"""Operations that store nothing more when they are done again, as their messages and spans have ids."""

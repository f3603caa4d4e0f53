"""Every statement and every commit of every operation fails once: nothing is half stored, and a second try succeeds.

`MEMORY_INSPECTOR_EVERY_STATEMENT=1` lets every statement fail instead of some dozen of each operation, and tries all
operations on PostgreSQL instead of every third: its commits take ten times as long.
"""

import gc
import logging
import os
import uuid
from contextlib import suppress

import pytest
from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool
from sweep_kit import OPERATIONS, REPEATABLE, Stopped, World, without_prompts

from memory_core.errors import StoreError
from memory_core.store.database import Database

EVERY = bool(os.environ.get("MEMORY_INSPECTOR_EVERY_STATEMENT"))
SAMPLE = {"sqlite": 3, "postgresql": 1}
"""Statements of each operation that fail by default; all of an operation with fewer."""

ON_POSTGRESQL = list(OPERATIONS)[:: 1 if EVERY else 3]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def on_sqlite():
    engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    yield from prepared(Database.open(engine=engine))
    engine.dispose()


@pytest.fixture(scope="module")
def on_postgresql(shared_server):
    with Database.open(shared_server.new_database()) as database:
        yield from prepared(database)


def prepared(database):
    with pytest.MonkeyPatch.context() as patch:
        world = World(database)
        patch.setattr(uuid, "uuid4", world.next_uuid)
        logging.disable(logging.CRITICAL)
        world.prepare()
        yield world
        logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", OPERATIONS)
def test_each_statement_of_an_operation_fails_once_on_sqlite(on_sqlite, name):
    sweep(on_sqlite, name, SAMPLE["sqlite"])


@pytest.mark.postgres
# SQLAlchemy does not close the cursors of a connection that was lost; those on the server's side warn of it.
@pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <function ServerCursor:pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.parametrize("name", ON_POSTGRESQL)
def test_each_statement_of_an_operation_fails_once_on_postgresql(on_postgresql, name):
    sweep(on_postgresql, name, SAMPLE["postgresql"])
    gc.collect()


def sweep(world, name, sample):
    operation = OPERATIONS[name]
    operation(world.restore(), world)  # what a process reads only once is read
    memory = world.restore()
    before = world.state()
    with world.fault.planned():
        operation(memory, world)
    statements, commits = world.fault.statements, world.fault.commits
    after = world.state()
    between = [stopped_after(world, operation, nth) for nth in range(1, commits + 1)]
    assert between[-1:] in ([], [after]), differences(between[-1], [after])
    world.deliver()
    states = [before, *between, after]
    # What is due is then done by another process: the state that all ways lead to.
    final = world.state()
    for how, count in (("statement", statements), ("commit", commits), ("answer", commits)):
        # The last one of every step, as the first statements of all operations are alike.
        step = 1 if EVERY else max(1, count // (sample if how == "statement" else 1))
        for nth in range(step, count + 1, step):
            try_once(world, name, how, nth, states, final)


def stopped_after(world, operation, nth):
    """Return the state in which a process leaves the database that ends after a commit; a second one can go on."""
    memory = world.restore()
    with world.fault.planned("death", nth), suppress(Stopped):
        operation(memory, world)
    assert world.fault.struck, f"this try took fewer commits than {nth}"
    return world.state()


def try_once(world, name, how, nth, states, expected):
    operation, memory = OPERATIONS[name], world.restore()
    about = f"{how} {nth} failed"
    with world.fault.planned(how, nth):
        try:
            operation(memory, world)
            raised = None
        except StoreError as error:
            raised = error
    assert world.fault.struck, f"{about}: this try took fewer statements"
    stored = world.state()
    if raised is not None:
        assert "\n" not in str(raised), about
        assert stored in states, f"{about}: {differences(stored, states)}"
    if "s" in world.ids():
        assert seen(memory) == seen(world.reader(memory)), f"{about}: the process does not know what is stored"
    if raised is not None and stored == states[0]:
        again(world, operation, memory)
    world.deliver()
    final = world.state()
    # A part was done, or all of it and the answer was lost.
    if raised is not None and stored != states[0] and (final != expected or name in REPEATABLE):
        again(world, operation, memory)
        world.deliver()
        final = world.state()
    if raised is None:  # it went on without what failed
        final, expected = without_prompts(final), without_prompts(expected)
    assert final == expected, f"{about}, done again: {differences(final, [expected])}"


def again(world, operation, memory):
    world.clock.pass_by(60)
    world.rewind()
    operation(memory, world)


def seen(memory):
    """Return what a process knows of its session."""
    context = memory.build_context("What was note 1?", record=False)
    names = [(block.name, block.settings) for block in memory.blocks]
    return memory.session.config, names, [(m.role, m.content) for m in context.messages], memory.get_all()


def differences(stored, states):
    """Return how a state differs from the nearest of others."""

    def rows(state):
        return {(table, row) for table, found in state.items() for row in found}

    nearest = min(states, key=lambda state: len(rows(stored) ^ rows(state)))
    more, less = sorted(rows(stored) - rows(nearest)), sorted(rows(nearest) - rows(stored))
    return f"{len(more)} rows more, as {more[:6]}; {len(less)} fewer, as {less[:6]}"

"""The demo that ships is what today's engine makes of its script, and it is stored as if it had just been played."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields

import numpy as np
import pytest
from copied_rows import as_tuples

from memory_core import Database, Memory, Services, delete_session, list_sessions
from memory_core.bundles.bundle import read_bundle, restore_bundle, write_bundle
from memory_inspector.demo.conversations import MESSAGES, RECORDED_TURNS
from memory_inspector.server.chat_turns import play
from memory_inspector.server.jobs import Job
from memory_inspector.server.shipped_demo import BUNDLE, DEMO_SESSION, make_bundle

AS_THE_CLOCK_WAS = {"at", "created_at", "updated_at", "confirmed_at", "done_at", "seconds"}
SCORES = 0.02
"""How far a score may differ: the 8-bit model rounds differently on processors of other makes."""


def shipped():
    return read_bundle(BUNDLE.read_bytes(), BUNDLE.name)


def without_times(value):
    if isinstance(value, dict):
        return {name: without_times(each) for name, each in value.items() if name not in AS_THE_CLOCK_WAS}
    return [without_times(each) for each in value] if isinstance(value, list | tuple) else value


def roughly(value):
    """What equals a value whose scores are a little different."""
    if isinstance(value, dict):
        return {name: roughly(each) for name, each in value.items()}
    if isinstance(value, list):
        return [roughly(each) for each in value]
    return pytest.approx(value, abs=SCORES) if isinstance(value, float) else value


def parts(bundle):
    """Every row of a bundle by kind, without its vectors and without what the clock gave it."""
    held = as_tuples(bundle.rows)
    rows = {field.name: getattr(held, field.name) for field in fields(held)}
    lists = {name: value if isinstance(value, tuple) else (value,) for name, value in rows.items()}
    return {
        name: [without_times(row.model_dump(exclude={"embedding"})) for row in found] for name, found in lists.items()
    }


def vectors(bundle):
    return np.array([np.frombuffer(row.embedding, np.float32) for row in bundle.rows.vectors])


def times(value, name=""):
    """Every moment that rows carry, nested ones too."""
    if isinstance(value, dict):
        return [moment for key, each in value.items() for moment in times(each, key)]
    if isinstance(value, list | tuple):
        return [moment for each in value for moment in times(each, name)]
    return [value] if name in AS_THE_CLOCK_WAS - {"seconds"} and value is not None else []


@pytest.fixture(scope="module")
def services():
    """The app's own models, loaded once."""
    return Services()


@pytest.fixture
def database(tmp_path):
    opened = Database.open(f"sqlite:///{tmp_path}/memory.db")
    yield opened
    opened.close()


@pytest.mark.slow
def test_the_shipped_demo_is_what_todays_engine_makes_of_the_script(services):
    today, kept = read_bundle(make_bundle(services), "today"), shipped()
    remedy = "the script or the engine has changed: run `python -m memory_inspector.server.shipped_demo`"
    made, had = parts(today), parts(kept)
    assert made["messages"]
    assert made["events"]
    for name, rows in made.items():
        assert had[name] == roughly(rows), f"{name}: {remedy}"
    assert vectors(kept).shape == vectors(today).shape, remedy
    assert (vectors(kept) * vectors(today)).sum(axis=1) == pytest.approx(1, abs=SCORES), remedy


def test_a_bundle_that_differs_is_noticed():
    made = parts(shipped())
    for name in ("messages", "facts", "events", "words", "blocks"):
        assert without_times(made[name][:-1]) != roughly(made[name])
    row = {**made["messages"][0], "tokens": made["messages"][0]["tokens"] + 1}
    assert [row] != roughly(made["messages"][:1])


@pytest.mark.slow
def test_the_stored_demo_is_the_bundle_and_just_now(database):
    before = time.time()
    assert restore_bundle(database, shipped(), DEMO_SESSION)
    stored = read_bundle(write_bundle(database, DEMO_SESSION), "stored")
    assert parts(stored) == parts(shipped())
    assert (vectors(stored) == vectors(shipped())).all()
    held = as_tuples(stored.rows)
    rows = [row.model_dump() for field in fields(held) for row in _listed(getattr(held, field.name))]
    moments = times(rows)
    assert len(moments) > 100
    assert before - 60 < min(moments) <= max(moments) <= time.time() + 0.1
    (status,) = list_sessions(database)
    assert (status.session_id, status.turns) == (DEMO_SESSION, RECORDED_TURNS)


def _listed(value):
    return value if isinstance(value, tuple) else (value,)


@pytest.mark.slow
def test_the_stored_demo_plays_on_like_one_that_was_played_here(database, services):
    restore_bundle(database, shipped(), DEMO_SESSION)
    here = Database.open()
    assert restore_bundle(here, read_bundle(make_bundle(services), "today"), DEMO_SESSION)
    prompts = []
    for each in (database, here):
        memory = Memory.open(DEMO_SESSION, each, services=services)
        recording = memory.session.recording()
        assert (recording.played, len(recording.messages)) == (2 * RECORDED_TURNS, len(MESSAGES))
        play(Job("on"), memory, turns=None, pace=0)
        assert memory.session.recording().next_turn == ()
        prompts.append([record.event.total for record in memory.events(kinds=("context_built",))])
    here.close()
    assert prompts[0] == prompts[1]
    assert len(prompts[0]) == len(MESSAGES) // 2


def test_a_demo_that_is_there_or_was_deleted_is_left_alone(database):
    restore_bundle(database, shipped(), DEMO_SESSION)
    Memory.open(DEMO_SESSION, database, services=Services()).session.rename("Mine")
    assert not restore_bundle(database, shipped(), DEMO_SESSION)
    assert [status.title for status in list_sessions(database)] == ["Mine"]
    delete_session(database, DEMO_SESSION)
    assert not restore_bundle(database, shipped(), DEMO_SESSION)
    assert list_sessions(database) == []


def test_several_that_store_it_at_once_store_it_once(tmp_path):
    together = threading.Barrier(4)

    def store(_):
        each = Database.open(f"sqlite:///{tmp_path}/memory.db")
        together.wait()
        stored = restore_bundle(each, shipped(), DEMO_SESSION)
        found = [status.turns for status in list_sessions(each)]
        each.close()
        return stored, found

    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(store, range(4)))
    assert sorted(stored for stored, _ in results) == [False, False, False, True]
    assert [found for _, found in results] == [[RECORDED_TURNS]] * 4

"""Messages that are typed while something runs for their session wait for it, in their order, each sent once."""

import threading

import pytest

from memory_core import Settings
from memory_inspector.server.engine import Engine, Waiting


@pytest.fixture
def engine(monkeypatch, tmp_path):
    monkeypatch.setenv("MEMORY_INSPECTOR_HOME", str(tmp_path))
    made = Engine(Settings.of_the_app())
    yield made
    made.close()


def message(name, done, gate=None):
    def work(job):
        if gate is not None:
            assert gate.wait(20)
        done.append(name)

    return Waiting(f"turn-{name}", name, work, False)


def settle(engine, session_id):
    # What waits is asked for first: a message that has left the list has been started by then.
    while (engine.waiting(session_id) or engine.running(session_id)) and (job := engine.job(session_id)):
        assert job.wait(20)


def test_messages_are_sent_in_their_order_when_what_ran_has_ended(engine):
    done, gate = [], threading.Event()
    engine.send("s", message("one", done, gate))
    engine.send("s", message("two", done))
    engine.send("s", message("three", done))
    assert engine.sending("s").text == "one"
    assert [each.text for each in engine.waiting("s")] == ["two", "three"]
    gate.set()
    settle(engine, "s")
    assert done == ["one", "two", "three"]
    assert engine.waiting("s") == ()


def test_one_that_was_taken_back_is_not_sent(engine):
    done, gate = [], threading.Event()
    engine.send("s", message("one", done, gate))
    engine.send("s", message("two", done))
    engine.withdraw("s", "turn-two")
    gate.set()
    settle(engine, "s")
    assert done == ["one"]


def test_a_submit_that_streamlit_runs_twice_is_one_message(engine):
    done, gate = [], threading.Event()
    for _ in range(2):
        engine.send("s", message("one", done, gate))
    for _ in range(2):
        engine.send("s", message("two", done))
    gate.set()
    settle(engine, "s")
    engine.send("s", message("two", done))
    settle(engine, "s")
    assert done == ["one", "two"]


def test_a_message_that_failed_does_not_hold_back_the_next(engine):
    done = []

    def fails(job):
        raise RuntimeError("boom")

    engine.send("s", Waiting("turn-bad", "bad", fails, False))
    engine.send("s", message("two", done))
    settle(engine, "s")
    assert done == ["two"]

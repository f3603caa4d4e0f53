"""Forget a fact that a user's sessions share: with it go the messages of all of these sessions that state it."""

import re
from uuid import uuid4

import pytest
from fakes import FakeEmbedder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_core import (
    ChatMessage,
    Database,
    FactExtractionMemoryBlock,
    GraphMemoryBlock,
    Memory,
    Services,
    SummaryMemoryBlock,
    VectorMemoryBlock,
)
from memory_core.events import Ref
from memory_core.sessions import forgetting
from memory_inspector.verification.fingerprints import wanted
from memory_inspector.verification.receipts import receipt_of
from memory_inspector.wording.trace_text import impact_rows

DENTIST = "My dentist is Doctor Vantongeren."
NAMED = re.compile("vantongeren", re.IGNORECASE)


def session(database, id, *texts, user="ana"):
    memory = Memory.from_defaults(
        id, user, database=database, title=f"About {id}", services=Services(embedder=FakeEmbedder()),
        memory_blocks=[
            FactExtractionMemoryBlock(name="Facts", scope="user"),
            VectorMemoryBlock(name="Earlier"),
            SummaryMemoryBlock(name="Summary"),
            GraphMemoryBlock(name="Graph"),
        ],
    )  # fmt: skip
    for text in texts:
        memory.put(ChatMessage(role="user", content=text))
        memory.put(ChatMessage(role="assistant", content="All right."))
    memory.flush(all=True)
    memory.deliver()
    memory.get("Who is my dentist?")
    return memory


def shared_fact(memory):
    return next(Ref.of("fact", fact.id) for fact in memory.facts.read("Facts") if NAMED.search(fact.text))


def said(memory):
    return [message.message.content for message in memory.session.messages(role="user")]


@pytest.fixture
def database(tmp_path):
    return Database.open(f"sqlite:///{tmp_path / 'memory.db'}")


@pytest.fixture
def three(database):
    """Two sessions of ana and one of ben that say the same."""
    first = session(database, "first", DENTIST, "I like jazz.")
    second = session(database, "second", "I have a cat.", DENTIST)
    return first, second, session(database, "third", DENTIST, user="ben")


@pytest.mark.slow
def test_the_impact_names_the_messages_of_the_users_other_sessions_and_changes_nothing(three):
    first, second, _ = three
    impact = first.session.forget(shared_fact(first), preview=True)
    [other] = impact.others
    assert (other.session, other.title) == ("second", "About second")
    assert [(row.kind, row.id, row.why) for row in other.rows if row.kind == "message"] == [("message", 3, "states it")]
    assert [row.id for row in impact.rows if row.kind == "session"] == ["third"]
    lines = [row for row in impact_rows(impact) if row["What"] == "Message"]
    assert [(row["Include"], row["Session"]) for row in lines] == [(True, "this one"), (True, "About second")]
    assert "in About second" in str(impact)
    assert DENTIST in said(second)


@pytest.mark.slow
def test_what_is_ticked_goes_from_all_sessions_of_the_user_with_what_came_of_it(three, tmp_path, database):
    first, second, third = three
    gone = first.session.forget(shared_fact(first))
    assert (said(first), said(second)) == (["I like jazz."], ["I have a cat."])
    assert not any(NAMED.search(fact.text) for fact in second.facts.read("Facts", states=None))
    assert not NAMED.search(str(second.get("Who is my dentist?")))
    assert DENTIST in said(third)
    assert any(NAMED.search(fact.text) for fact in third.facts.read("Facts"))
    assert gone.others[0].stored_units == 1
    # Ben's words are his; without them no byte is left.
    third.session.forget(shared_fact(third))
    receipt = receipt_of(tmp_path, wanted(["Vantongeren", *gone.target.searched]))
    assert receipt.clean, receipt.page()
    assert first.session.forget("Vantongeren", preview=True).rows == ()


@pytest.mark.slow
def test_what_is_unticked_in_another_session_stays_there(three):
    first, second, _ = three
    impact = first.session.forget(shared_fact(first), preview=True)
    first.session.forget(shared_fact(first), keep=[row for row in impact.erased if row.session])
    assert (said(first), said(second)) == (["I like jazz."], ["I have a cat.", DENTIST])


@pytest.mark.slow
def test_a_failure_in_another_session_erases_nothing(three, monkeypatch):
    first, second, _ = three

    forget_phrase = forgetting.forget_phrase

    def fails(w, *values):
        if w.session.id == "second":
            raise RuntimeError("The power is gone.")
        forget_phrase(w, *values)

    monkeypatch.setattr(forgetting, "forget_phrase", fails)
    with pytest.raises(RuntimeError):
        first.session.forget(shared_fact(first))
    assert DENTIST in said(first)
    assert DENTIST in said(second)
    assert shared_fact(first)


@pytest.mark.slow
def test_a_phrase_a_quarantine_and_a_sessions_own_fact_leave_other_sessions_alone(three, database):
    first, second, _ = three
    assert first.session.forget("Vantongeren", preview=True).others == ()
    assert first.session.quarantine(shared_fact(first), preview=True).others == ()
    own = Memory.from_defaults(
        "own", "ana", database=database, memory_blocks=[FactExtractionMemoryBlock(name="Own", deliver_on="turn")],
        services=Services(embedder=FakeEmbedder()),
    )  # fmt: skip
    own.put_messages([ChatMessage(role="user", content=DENTIST)], end_turn=True)
    [fact] = own.facts.read("Own")
    impact = own.session.forget(Ref.of("fact", fact.id))
    assert impact.others == ()
    assert DENTIST in said(second)


@pytest.mark.slow
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.lists(st.sampled_from([DENTIST, "I like jazz.", "I have a cat.", "We spoke."]), max_size=3), max_size=3)
)
def test_no_session_of_the_user_states_a_forgotten_fact_and_all_else_stays(tmp_path, others):
    folder = tmp_path / uuid4().hex
    folder.mkdir()
    database = Database.open(f"sqlite:///{folder / 'memory.db'}")
    memories = [session(database, "first", DENTIST), *(session(database, f"s{n}", *t) for n, t in enumerate(others))]
    known = {fact.text for fact in memories[0].facts.read("Facts") if not NAMED.search(fact.text)}
    memories[0].session.forget(shared_fact(memories[0]))
    for memory, texts in zip(memories, [[DENTIST], *others], strict=True):
        assert said(memory) == [text for text in texts if text != DENTIST]
    assert {fact.text for fact in memories[0].facts.read("Facts")} == known
    assert receipt_of(folder, wanted(["Vantongeren"])).clean

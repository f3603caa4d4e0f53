"""Failed deliveries cost only themselves: all else is learned, in the order in which it was said."""

import threading

import pytest
from engine_fakes import Clock, NoteExtractor, on_file
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_core import ChatMessage, FactExtractionMemoryBlock, GraphMemoryBlock, Memory, Services
from memory_core.errors import ModelAnswerError, ModelError, ModelUnreachableError
from memory_core.events import DeliveryDone
from memory_core.models.protocols import ExtractedFact, Extraction, FoundRelation, RelationsFound
from memory_core.systems import ConsolidatingMemory, UserMemories
from memory_inspector.checks.simulation import check_session


class Extractor(NoteExtractor):
    """Notes every sentence of a user as a fact, in the slot of its first three words; cannot read some of them."""

    offline = False

    def __init__(self, unreadable=(), away=lambda: False):
        super().__init__()
        self.unreadable, self.away, self.asked = set(unreadable), away, []

    def extract(self, messages, *, known):
        self.asked.append([message.content for message in messages])
        if self.away():
            raise ModelUnreachableError("Nothing answers.")
        if any(message.content in self.unreadable for message in messages):
            raise ModelAnswerError("The answer is unreadable.")
        facts = [
            ExtractedFact(message.content, source=index, slot="user." + " ".join(message.content.split()[:3]))
            for index, message in enumerate(messages)
            if message.role == "user"
        ]
        return Extraction(tuple(facts))


def user_memories(extractor, clock, session="monday", **settings):
    services = Services(extractor=extractor)
    return UserMemories("mara", session, services=services, summaries=False, clock=clock, **settings)


def texts(facts):
    return [fact.text for fact in facts]


runs = st.lists(st.tuples(st.sampled_from(("read", "unreadable", "away")), st.sampled_from((0, 1, 3, 60))), max_size=7)


@pytest.mark.slow
@settings(max_examples=40)
@given(runs)
def test_what_could_be_learned_is_known_at_the_next_run(plan):
    """However runs fail: after a run that the model answers, all of them are known that it can read, in their order."""
    clock, extractor, state = Clock(), Extractor(), {"away": False}
    extractor.away = lambda: state["away"]
    memory = user_memories(extractor, clock)
    readable = []
    for number, (how, pause) in enumerate(plan):
        text = f"Thing number {number} is kept in box {number}."
        state["away"] = how == "away"
        if how == "unreadable":
            extractor.unreadable.add(text)
        else:
            readable.append(text)
        memory.add_run(text, "ok")
        clock.pass_by(pause)
    state["away"] = False
    last = "The garden gate is green."
    memory.add_run(last, "ok")
    states = memory.memory.session.deliveries(states=("parked",))
    parked = {message.content for d in states for message in memory.memory.get_all()[d.first_seq - 1 : d.last_seq]}
    assert texts(memory.get_user_memories()) == [text for text in [*readable, last] if text not in parked]
    # Parked are only those that failed in all of their attempts.
    assert all(d.attempts == 5 for d in states)


def test_a_parked_message_that_is_learned_later_takes_its_place_in_time():
    extractor = Extractor(unreadable=["I live in Bergen."])
    memory = ConsolidatingMemory("mara", services=Services(extractor=extractor), delivery_attempts=1)
    with pytest.raises(ModelError, match="unreadable"):
        memory.add("I live in Bergen.")
    assert [(change.event, change.text) for change in memory.add("I live in Tromso.")] == [("ADD", "I live in Tromso.")]
    [done] = [record.event for record in memory.memory.events() if isinstance(record.event, DeliveryDone)]
    assert done.behind == (1,)
    extractor.unreadable.clear()
    memory.memory.session.retry()
    assert texts(memory.get_all()) == ["I live in Tromso."]
    former = memory.memory.facts.read(memory.block, states=("superseded",))
    assert texts(former) == ["I live in Bergen."]
    decided = [record.event for record in memory.memory.events() if record.kind == "fact_decided"][-1]
    assert (decided.decision, decided.rule) == ("add", "earlier")
    # And the next value is the newest again.
    assert memory.add("I live in Narvik.")[0].event == "UPDATE"


def test_of_two_values_that_stand_side_by_side_the_one_said_first_is_marked_whichever_was_learned_first():
    extractor = Extractor(unreadable=["I live in Bergen."])
    block = FactExtractionMemoryBlock(name="facts", llm=extractor, deliver_on="turn")
    memory = Memory.from_defaults(memory_blocks=[block], delivery_attempts=1)
    for text in ("I live in Bergen.", "I live in Tromso."):
        memory.put_messages([ChatMessage(role="user", content=text)], end_turn=True)
    extractor.unreadable.clear()
    memory.session.retry()
    prompt = memory.build_context("Where?", record=False).messages[0].content
    assert texts(memory.facts.read("facts")) == ["I live in Tromso.", "I live in Bergen."]
    assert "I live in Bergen. <former>said otherwise in turn 2<" in prompt
    check_session(memory)


class Movers:
    """Finds where somebody lives, unless it cannot read it."""

    name, offline = "movers", False

    def __init__(self):
        self.unreadable = {"Ole lives in Bergen"}

    def relations(self, messages, *, known):
        if self.unreadable & {message.content for message in messages}:
            raise ModelAnswerError("The answer is unreadable.")
        told = [(index, message.content.split(" lives in ")) for index, message in enumerate(messages)]
        return RelationsFound(tuple(FoundRelation(who, "lives in", where, source=i) for i, (who, where) in told))


def test_an_older_relation_that_is_learned_later_ends_no_newer_one():
    movers = Movers()
    block = GraphMemoryBlock(name="graph", llm=movers, deliver_on="turn")
    memory = Memory.from_defaults(memory_blocks=[block], delivery_attempts=1)
    for text in ("Ole lives in Bergen", "Ole lives in Tromso"):
        memory.put_messages([ChatMessage(role="user", content=text)], end_turn=True)
    movers.unreadable.clear()
    memory.session.retry()
    graph = memory.graph.graph()
    states = {graph.name(relation.object): relation.state for relation in graph.relations.values()}
    assert states == {"Bergen": "ended", "Tromso": "active"}


def test_the_next_session_of_a_user_learns_what_a_closed_one_left(tmp_path):
    clock, state = Clock(), {"away": True}
    extractor = Extractor(away=lambda: state["away"])
    monday = user_memories(extractor, clock, database_uri=on_file(tmp_path))
    monday.add_run("I keep bees.", "ok")
    monday.memory.close()
    state["away"] = False
    clock.pass_by(60)
    tuesday = user_memories(extractor, clock, "tuesday", database_uri=on_file(tmp_path))
    assert texts(tuesday.get_user_memories()) == ["I keep bees."]


def test_two_that_open_sessions_at_once_learn_what_was_left_once(tmp_path):
    clock, state = Clock(), {"away": True}
    extractor = Extractor(away=lambda: state["away"])
    with user_memories(extractor, clock, database_uri=on_file(tmp_path)).memory as monday:
        monday.put_messages([ChatMessage(role="user", content="I keep bees.")], end_turn=True)
    state["away"] = False
    clock.pass_by(60)
    opened, where = [], on_file(tmp_path)
    threads = [
        threading.Thread(target=lambda d=day: opened.append(user_memories(extractor, clock, d, database_uri=where)))
        for day in ("tuesday", "wednesday")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [texts(memory.get_user_memories()) for memory in opened] == [["I keep bees."]] * 2
    assert extractor.asked.count(["I keep bees."]) == 2  # the failed one, and one more


def test_add_returns_what_came_of_its_own_messages():
    state = {"away": True}
    extractor = Extractor(away=lambda: state["away"])
    memory = ConsolidatingMemory("mara", services=Services(extractor=extractor))
    with pytest.raises(ModelError):
        memory.add("I keep bees.")
    state["away"] = False
    assert [change.text for change in memory.add("My boat is blue.")] == ["My boat is blue."]
    assert texts(memory.get_all()) == ["I keep bees.", "My boat is blue."]


def test_add_does_not_raise_for_a_message_that_was_put_before():
    extractor = Extractor(unreadable=["Gibberish."])
    memory = ConsolidatingMemory("mara", services=Services(extractor=extractor))
    with pytest.raises(ModelError):
        memory.add("Gibberish.")
    assert [change.text for change in memory.add("My boat is blue.")] == ["My boat is blue."]


@pytest.mark.slow
def test_two_hundred_parked_deliveries_hold_up_nothing():
    extractor = Extractor(unreadable=[f"Gibberish {number}" for number in range(200)])
    memory = user_memories(extractor, Clock(), delivery_attempts=1)
    for number in range(200):
        memory.add_run(f"Gibberish {number}", "ok")
    asked = len(extractor.asked)
    memory.add_run("My boat is blue.", "ok")
    assert texts(memory.get_user_memories()) == ["My boat is blue."]
    assert len(extractor.asked) == asked + 1


def test_a_clock_that_went_back_does_not_turn_the_order_of_a_session_round():
    clock, extractor = Clock(), Extractor(unreadable=["I live in Bergen."])
    memory = user_memories(extractor, clock, delivery_attempts=1)
    memory.add_run("I live in Bergen.", "ok")
    clock.pass_by(-3_600)
    memory.add_run("I live in Tromso.", "ok")
    extractor.unreadable.clear()
    memory.memory.session.retry()
    assert texts(memory.get_user_memories()) == ["I live in Tromso."]

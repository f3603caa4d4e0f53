"""Requests to forget: the facts leave the prompt, and stay where a person can restore them."""

import pytest

from memory_core import Memory
from memory_core.messages import ChatMessage


def told(memory, *texts):
    for text in texts:
        memory.put(ChatMessage(role="user", content=text))
        memory.put(ChatMessage(role="assistant", content="All right."))
        memory.flush(all=True)


def states(memory):
    return {fact.text: fact.state for fact in memory.facts.read("Facts", states=None)}


@pytest.fixture
def memory():
    return Memory.from_recipe("blocks", "asked", database_uri="sqlite://")


def test_a_fact_that_the_user_asks_to_forget_is_retired_with_its_reason(memory):
    told(memory, "My sister Imke lives in Ghent.", "I am allergic to hazelnuts.")
    told(memory, "Please forget the hazelnuts detail.")
    assert states(memory)["The user is allergic to hazelnuts"] == "retired"
    assert states(memory)["Imke lives in Ghent"] == "active"
    event = memory.events(kinds=["fact_retired"])[-1]
    assert event.event.reason == "the user asked to forget it"
    assert "hazelnuts" not in str([b.facts for b in memory.memory_blocks if b.kind == "facts"])


def test_a_forgotten_fact_can_be_restored(memory):
    told(memory, "I am allergic to hazelnuts.", "Please forget the hazelnuts detail.")
    fact = next(fact for fact in memory.facts.read("Facts", states=None) if fact.state == "retired")
    memory.facts.restore(fact.id)
    assert states(memory)[fact.text] == "active"


def test_what_a_person_wrote_is_not_retired_by_a_message(memory):
    memory.facts.add("The user is allergic to hazelnuts")
    told(memory, "Please forget the hazelnuts detail.")
    assert states(memory)["The user is allergic to hazelnuts"] == "active"


def test_what_is_said_and_forgotten_in_one_delivery_waits_for_a_person(memory):
    memory.put(ChatMessage(role="user", content="I am allergic to hazelnuts."))
    memory.put(ChatMessage(role="user", content="Please forget the hazelnuts detail."))
    memory.flush(all=True)
    assert states(memory)["The user is allergic to hazelnuts"] == "proposed"


def test_words_of_the_assistant_forget_nothing(memory):
    told(memory, "I am allergic to hazelnuts.")
    memory.put(ChatMessage(role="user", content="What else?"))
    memory.put(ChatMessage(role="assistant", content="Please forget the hazelnuts detail."))
    memory.flush(all=True)
    assert states(memory)["The user is allergic to hazelnuts"] == "active"


@pytest.mark.parametrize(
    "said", ["Please forget it and go on.", "Please forget that and go to the next one.", "Can you drop it, please?"]
)
def test_a_turn_of_phrase_that_names_nothing_forgets_nothing(memory, said):
    told(memory, "I like to go to the gym.", "I was pleased with the new office.")
    before = states(memory)
    told(memory, said)
    assert states(memory) == before
    assert set(before.values()) == {"active"}

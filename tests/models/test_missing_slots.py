"""Facts that were stored without a slot: they are compared as if they had the one that their words have."""

import pytest
from engine_fakes import user
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import update

from memory_core.blocks.facts import FactExtractionMemoryBlock
from memory_core.memory import Memory
from memory_core.models.offline.fact_extraction import slots_of
from memory_core.planning.curation import FactDraft
from memory_core.store.fact_rows import add_fact, read_contradicted
from memory_core.store.tables import fact_table
from memory_core.store.writing import writing


def learned(*texts, on_change="decide", more=()):
    """A memory that learned facts from these texts, after `more` facts, with none of their slots stored."""
    block = FactExtractionMemoryBlock(name="Facts", on_change=on_change, deliver_on="turn", max_facts=1000)
    memory = Memory.from_defaults("s", memory_blocks=[block])
    memory.put(user("Hello"))
    with writing(memory.session.database, "s") as w:
        for text in more:
            add_fact(w, w.session.scope, "Facts", FactDraft(text, origin="extracted"), 8)
    for text in texts:
        memory.put_messages([user(text)], end_turn=True)
    with memory.session.database.write() as connection:
        connection.execute(update(fact_table).values(slot=None))
    return memory


def texts(memory):
    return [fact.text for fact in memory.facts.read("Facts")]


def contradicted(memory):
    """The pairs of facts that are marked as contradicting each other, by their texts."""
    of = {fact.id: fact.text for fact in memory.facts.read("Facts", states=None)}
    with memory.session.database.read() as connection:
        pairs = read_contradicted(connection, "session:s")
    return [(of[new], of[old]) for new, several in pairs.items() for old in several]


@pytest.mark.parametrize(
    ("before", "after", "values"),
    [
        ("I live in Porto.", "I moved to Lisbon.", ["The user moved to Lisbon"]),
        ("My sister lives in Porto.", "My sister lives in Rome.", ["The user's sister lives in Rome"]),
        ("I work as a nurse.", "I work as a teacher.", ["The user works as a teacher"]),
        # The home of another person is no value of the slot.
        (
            "My sister lives in Porto.",
            "I live in Rome.",
            ["The user's sister lives in Porto", "The user lives in Rome"],
        ),
    ],
)
def test_a_value_stored_without_its_slot_is_replaced_like_any_other(before, after, values):
    memory = learned(before)
    memory.put_messages([user(after)], end_turn=True)
    assert texts(memory) == values


@pytest.mark.slow
def test_an_old_value_is_noticed_among_many_other_facts():
    memory = learned("I live in Porto.", more=[f"The user likes dish {number}" for number in range(300)])
    memory.put_messages([user("I live in Lisbon.")], end_turn=True)
    assert [text for text in texts(memory) if "lives" in text] == ["The user lives in Lisbon"]


def test_the_contradiction_with_a_value_stored_without_its_slot_is_marked():
    memory = learned("I live in Porto.", on_change="add")
    memory.put_messages([user("I moved to Lisbon.")], end_turn=True)
    assert contradicted(memory) == [("The user moved to Lisbon", "The user lives in Porto")]


def test_a_fact_by_a_person_is_compared_with_values_stored_without_their_slots():
    memory = learned("I live in Porto.")
    memory.facts.add("The user lives in Lisbon")
    assert contradicted(memory) == [("The user lives in Lisbon", "The user lives in Porto")]


def test_what_a_program_stores_under_a_key_has_no_slot():
    memory = learned("Good morning.")
    memory.facts.desk("Facts").put({"home": FactDraft("The user lives in Porto")})
    memory.put_messages([user("I live in Lisbon.")], end_turn=True)
    assert contradicted(memory) == []


CITIES = st.lists(st.sampled_from(["Lisbon", "Porto", "Berlin"]), min_size=2, max_size=4)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(CITIES)
def test_histories_with_and_without_stored_slots_end_alike(cities):
    *before, last = [f"I live in {city}." for city in cities]
    with_slots = learned(*before, last)
    without = learned(*before)
    without.put_messages([user(last)], end_turn=True)
    assert texts(without) == texts(with_slots) == [f"The user lives in {cities[-1]}"]


def test_slots_are_read_only_if_a_fact_that_was_found_has_one():
    memory = learned("I live in Porto.")
    facts = memory.facts.read("Facts")
    assert list(slots_of(facts, [("The user likes tea", None)]).values()) == [None]
    assert list(slots_of(facts, [("The user lives in Rome", "user.home")]).values()) == ["user.home"]

"""Marital status: one value at a time, whether it is said as a state, an event, or a marriage to somebody."""

import pytest
from engine_fakes import user
from graph_fakes import graph_memory, lines, say

from memory_core.blocks.facts import FactExtractionMemoryBlock
from memory_core.blocks.graph import GraphMemoryBlock
from memory_core.memory import Memory
from memory_core.models.offline.fact_extraction import facts_in, slot_in, slots_of
from memory_core.planning.fact_merging import Fact


def facts_after(*texts):
    block = FactExtractionMemoryBlock(name="Facts", on_change="decide", deliver_on="turn")
    memory = Memory.from_defaults("s", memory_blocks=[block])
    for text in texts:
        memory.put_messages([user(text)], end_turn=True)
    return [fact.text for fact in memory.facts.read("Facts")]


@pytest.mark.parametrize(
    ("texts", "last"),
    [
        (["I am married to Anna.", "I got divorced."], "The user got divorced"),
        (["I am married to Anna.", "I am single now."], "The user is single"),
        (["I am single.", "I'm engaged to Anna.", "I just got married to Anna."], "The user got married to Anna"),
        (["I am divorced.", "My marital status is single."], "The user's marital status is single"),
        (["My sister is married to Tom.", "My sister got divorced."], "The user's sister got divorced"),
    ],
)
def test_the_last_marital_status_replaces_the_former_one(texts, last):
    assert facts_after(*texts) == [last]
    assert slot_in(last).endswith(".marital status")


@pytest.mark.parametrize(
    "texts",
    [
        ("I am married to Anna.", "I am retired."),
        # Of an earlier year, or of somebody else.
        ("I am married to Anna.", "I got divorced in 2015."),
        ("I am married to Anna.", "My sister is single."),
        ("I am married to Anna.", "I was married to Ben."),
        ("I am married to Anna.", "I am engaged in research at Holzmann."),
    ],
)
def test_another_status_replaces_no_marital_one(texts):
    assert len(facts_after(*texts)) == 2


def test_a_status_stored_before_is_compared_by_its_words():
    def known(text):
        times = {"turn": 1, "created_at": 0.0, "confirmed_at": 0.0, "updated_at": 0.0, "version": 1}
        return Fact(1, "s", "b", text, 4, "personal", "user.status", "active", False, "extracted", **times, sources=())

    news = [("The user got divorced", "user.marital status")]
    assert slots_of([known("The user is married")], news) == {1: "user.marital status"}
    assert slots_of([known("The user is retired")], news) == {1: "user.status"}


def test_a_marital_status_ends_a_marriage_and_a_marriage_ends_an_engagement():
    memory = graph_memory("Eva | engaged to | Ben; Eva | status | on leave")
    say(memory, "Ben | married to | Eva")
    assert lines(memory) == ["Eva → status → on leave", "Ben → married to → Eva"]
    say(memory, "Eva | marital status | divorced; Ben | marital status | single")
    assert lines(memory) == [
        "Eva → status → on leave",
        "Eva → marital status → divorced",
        "Ben → marital status → single",
    ]
    say(memory, "Ben | married to | Zoe")
    assert lines(memory)[1:] == ["Eva → marital status → divorced", "Ben → married to → Zoe"]


def test_a_marriage_is_marked_as_former_once_a_fact_says_so():
    blocks = [
        FactExtractionMemoryBlock(name="Facts", on_change="decide", deliver_on="turn"),
        GraphMemoryBlock(name="Graph", deliver_on="turn"),
    ]
    memory = Memory.from_defaults("s", memory_blocks=blocks)
    for words in ("I am married to Anna.", "I got divorced."):
        memory.put_messages([user(words)], end_turn=True)
    shown = memory.get("Am I married?")[0].content
    assert "married to Anna <former>until turn 2; now: The user got divorced</former>" in shown


def test_words_that_only_begin_like_a_status_are_none():
    assert [str(fact.slot) for fact in facts_in("I am single-minded.")] == ["user.status"]

"""What became of every message and of every flush, from the log alone."""

from dataclasses import replace

import pytest
from engine_fakes import HashEmbedder, NoteExtractor

from memory_core import (
    ChatMessage,
    FactExtractionMemoryBlock,
    Memory,
    ModelAnswerError,
    Services,
    StaticMemoryBlock,
    VectorMemoryBlock,
)
from memory_core.blocks.vector import CLASSIC
from memory_core.events import (
    DeliveryQueued,
    EventRecord,
    FactAdded,
    FactErased,
    FactsCondensed,
    FactsCurated,
    FlushPlanned,
    MessageAdded,
    QueueReplaced,
    SessionReset,
    VectorsStored,
    numbers,
)
from memory_core.history.projection import Projection, project
from memory_inspector.checks.simulation import rebuild
from memory_inspector.reading.outcomes import Given, MessageOutcome, flush_outcome, outcomes_of


def records(*events):
    return [EventRecord(place, "s", 1, 0.0, "engine", event) for place, event in enumerate(events, 1)]


def said(seq, tokens=10):
    return MessageAdded(seq, f"id{seq}", "user", tokens, tokens, "o200k", f"h{seq}")


def flushed(first, last, number=1):
    count = last - first + 1
    return FlushPlanned(
        flush=number, trigger="over_budget", rules=("whole_turns",), seqs=((first, last),), messages=count,
        tokens=10 * count, queue_before=100, queue_after=50, history_budget=70.0, flush_size=10, over_by=0,
    )  # fmt: skip


def learned(fact, *seqs, block="Facts"):
    return FactAdded(
        fact=fact, block=block, content=f"f{fact}", tokens=4, category="person", sources=tuple((s, s) for s in seqs)
    )


def talking(blocks, turns=8, **settings):
    """A session with a long conversation in it."""
    services = Services(embedder=HashEmbedder(), extractor=NoteExtractor())
    memory = Memory.from_defaults(
        token_limit=200, chat_history_token_ratio=0.4, token_flush_size=20, memory_blocks=blocks, services=services,
        **settings,
    )  # fmt: skip
    for turn in range(turns):
        memory.put(ChatMessage(role="user", content=f"note: fact number {turn} about the garden and the house"))
        memory.build_context()
        memory.put(ChatMessage(role="assistant", content=f"I will remember number {turn}"))
    return memory


def outcomes_after(events):
    return outcomes_of(project(events))


def kinds(outcomes):
    return [message.kind for message in outcomes.messages]


def test_a_message_is_in_the_queue_until_it_is_flushed():
    outcomes = outcomes_after(records(said(1), said(2), said(3), flushed(1, 2)))
    assert outcomes.messages == (
        MessageOutcome(1, 1, 10, "archived", 1),
        MessageOutcome(2, 1, 10, "archived", 1),
        MessageOutcome(3, 1, 10),
    )
    assert kinds(outcomes) == ["flushed", "flushed", "queue"]


def test_what_was_learned_from_is_told_apart_from_what_was_not():
    outcomes = outcomes_after(records(said(1), said(2), flushed(1, 2), learned(1, 1), learned(2, 1)))
    assert kinds(outcomes) == ["extracted", "flushed"]
    assert outcomes.messages[0].facts == 2


def test_an_erased_fact_counts_no_more():
    outcomes = outcomes_after(records(said(1), flushed(1, 1), learned(1, 1), FactErased(1, "Facts")))
    assert kinds(outcomes) == ["flushed"]


def test_a_fact_that_stands_for_others_has_their_messages():
    condensed = FactsCondensed("Facts", "rules", 2, 1, (), (((1, 2), 3),), (), ())
    outcomes = outcomes_after(records(said(1), said(2), learned(1, 1), learned(2, 2), learned(3), condensed))
    assert [message.facts for message in outcomes.messages] == [2, 2]


def test_support_that_a_person_gives_counts_until_it_is_undone():
    given = FactsCurated("Facts", "merge", "", ((1, 1, 2),), support=((1, "", ((2, 2),)), (1, "other", ((1, 1),))))
    events = [said(1), said(2), learned(1, 1), given]
    assert [message.facts for message in outcomes_after(records(*events)).messages] == [1, 1]
    outcomes = outcomes_after(records(*events, replace(given, undoes=(4, 0))))
    assert [message.facts for message in outcomes.messages] == [1, 0]


def test_replaced_and_forgotten_messages_are_gone():
    past = project(records(said(1), said(2), flushed(1, 1), QueueReplaced(((2, 2),), 10), said(3)))
    assert kinds(outcomes_of(past)) == ["flushed", "gone", "queue"]
    past.apply(EventRecord(9, "s", 1, 0.0, "engine", SessionReset("archived", 1, 0, 0)))
    assert [message.place for message in outcomes_of(past).messages] == ["forgotten", "replaced", "queued"]
    past.apply(EventRecord(10, "s", 1, 0.0, "engine", SessionReset(None, 3, 0, 0)))
    assert outcomes_of(past).counts == {"gone": 3, "flushed": 0, "extracted": 0, "recalled": 0, "queue": 0}


def test_neighbours_with_one_outcome_are_one_run():
    outcomes = outcomes_after(records(said(1), said(2), said(3), said(4), flushed(1, 3), learned(1, 2)))
    assert [
        (run.kind, run.first.seq, run.last.seq, run.messages, run.tokens, run.facts) for run in outcomes.runs()
    ] == [
        ("flushed", 1, 1, 1, 10, 0),
        ("extracted", 2, 2, 1, 10, 1),
        ("flushed", 3, 3, 1, 10, 0),
        ("queue", 4, 4, 1, 10, 0),
    ]


def test_what_is_brought_back_into_a_prompt_is_recalled_as_often_as_it_was():
    memory = talking([VectorMemoryBlock(name="Earlier turns", priority=1, similarity_top_k=2)])
    outcomes = outcomes_after(memory.events())
    recalled = [message for message in outcomes.messages if message.kind == "recalled"]
    shown = {
        seq
        for record in memory.events(kinds=("context_built",))
        for part in record.event.parts
        for number in numbers(part["refs"], "unit")
        for turn in memory.retrieval.stored_turns("Earlier turns", numbers={number})
        for seq in (message.seq for message in turn.messages)
    }
    assert {message.seq for message in recalled} == shown
    assert max(message.recalled for message in recalled) > 1


def test_it_agrees_with_the_whole_rebuilding_of_the_session():
    memory = talking(
        [
            StaticMemoryBlock(name="Rules", static_content="Be brief."),
            FactExtractionMemoryBlock(name="Facts", priority=1),
            VectorMemoryBlock(name="Earlier turns", priority=2, similarity_top_k=2, **CLASSIC),
        ]
    )
    memory.set(memory.get_all("active")[:1])
    memory.put(ChatMessage(role="user", content="note: one more"))
    events = memory.events()
    named = [r.event.content for r in events if isinstance(r.event, MessageAdded | FactAdded)]
    whole = rebuild(events, memory.log.texts(named).get).outcomes
    quick = outcomes_after(events).messages
    assert [(m.seq, m.place, m.flush, m.facts) for m in quick] == [
        (seq, outcome.place, outcome.flush, len(outcome.facts)) for seq, outcome in sorted(whole.items())
    ]
    assert {"queue", "extracted"} <= {m.kind for m in quick}


def test_taking_the_log_bit_by_bit_gives_the_same():
    events = talking([FactExtractionMemoryBlock(name="Facts", priority=1), VectorMemoryBlock(name="Turns")]).events()
    past = Projection()
    for record in events:
        past.apply(record)
        outcomes_of(past)
        assert past.position == record.position
    assert outcomes_of(past) == outcomes_after(events)


# -- one flush -----------------------------------------------------------------------------------


def first_flush(events):
    return next(record.position for record in events if isinstance(record.event, FlushPlanned))


def test_a_flush_is_followed_to_every_block():
    memory = talking(
        [FactExtractionMemoryBlock(name="Facts", priority=1), VectorMemoryBlock(name="Earlier turns", priority=2)]
    )
    events = memory.events()
    outcome = flush_outcome(events, first_flush(events))
    facts, turns = outcome.given
    assert (facts.block, facts.state, facts.attempts, facts.error) == ("Facts", "done", 1, None)
    sources = {fact.id: {seq for _, seq in fact.sources} for fact in memory.facts.read("Facts")}
    left = {seq for first, last in outcome.event.seqs for seq in range(first, last + 1)}
    assert set(facts.learned) == {fact for fact, seqs in sources.items() if seqs & left}
    assert facts.learned
    stored = [
        turn.number for turn in memory.retrieval.stored_turns("Earlier turns") if {m.seq for m in turn.messages} <= left
    ]
    assert list(turns.stored) == stored != []


def test_a_flush_that_no_block_could_take_in_says_so():
    class Fails(NoteExtractor):
        def extract(self, messages, *, known):
            raise ModelAnswerError("The model returned no list.")

    block = FactExtractionMemoryBlock(name="Facts", priority=1, llm=Fails())
    memory = talking([block], turns=5, delivery_attempts=1)
    events = memory.events()
    (given,) = flush_outcome(events, first_flush(events)).given
    assert replace(given, error="") == Given("Facts", "parked", 1, "")
    assert "no list" in given.error
    memory.session.skip([delivery.id for delivery in memory.session.deliveries()])
    assert flush_outcome(memory.events(), first_flush(events)).given[0].state == "skipped"


def test_a_flush_is_followed_only_as_far_as_the_log_is_given():
    queued = DeliveryQueued(1, "Facts", "flush", ((1, 1),), 10)
    log = records(said(1), flushed(1, 1), queued)
    assert flush_outcome(log, 2).given == (Given("Facts"),)
    assert flush_outcome(log[:2], 2).given == ()


def test_only_what_was_handed_out_by_the_flush_and_made_of_its_messages_counts():
    log = records(
        *(said(seq) for seq in (1, 2, 3, 4)),
        flushed(3, 4),
        DeliveryQueued(1, "Earlier turns", "flush", ((3, 4),), 20),
        DeliveryQueued(2, "Diary", "turn", ((3, 4),), 20),
        VectorsStored("Earlier turns", "m", ((7, ((2, 3),), 20), (8, ((3, 4),), 20))),
        learned(1, 3, block="Other facts"),
    )
    assert flush_outcome(log, 5).given == (Given("Earlier turns", stored=(8,)),)


@pytest.mark.parametrize("position", [1, 99])
def test_what_is_no_flush_has_no_outcome(position):
    assert flush_outcome(records(said(1), flushed(1, 1)), position) is None

"""Usage, counted from the log: compared with what contexts and tables say, and with counting by hand."""

import pytest
from engine_fakes import Clock, Counter, HashEmbedder, NoteExtractor, note, open_memory
from hypothesis import given
from hypothesis import strategies as st

from memory_core import FactExtractionMemoryBlock, StaticMemoryBlock, VectorMemoryBlock
from memory_core.events import (
    BlockAdded,
    BlockFailed,
    ContextBuilt,
    DeliveryFailed,
    DeliveryParked,
    DeliveryQueued,
    DeliveryRetried,
    DeliverySkipped,
    EventRecord,
    FactAccepted,
    FactAdded,
    FactRetired,
    VectorsRemoved,
    VectorsStored,
    compact,
)
from memory_core.history.projection import project
from memory_core.history.usage import BlockUse, Use, Write, usage_of


def records(*events, turn=1, actor="engine"):
    return [EventRecord(n, "s", turn, 0.0, actor, event) for n, event in enumerate(events, start=1)]


def usage_after(events):
    return usage_of(project(events))


def built(parts=(), cuts=()):
    """A context with (name, asked, refs) per part and (name, tokens, refs) per cut."""
    return ContextBuilt(
        pinned=(), queue=(), queue_asked=0, queue_tokens=0, pinned_tokens=0,
        parts=tuple({"name": n, "priority": 1, "asked": a, "granted": a, "refs": compact(r)} for n, a, r in parts),
        cuts=tuple({"part": n, "rule": "trimmed", "refs": compact(r), "tokens": t} for n, t, r in cuts),
        asked=0, total=0, token_limit=100, over_by=0, over_because=None, markup_tokens=0, overhead_tokens=0,
        billed=0, insert_method="system", truncation_order="largest_first", accounting="content", section=None,
        input=None,
    )  # fmt: skip


def added(number, block="facts", state="active"):
    return FactAdded(number, block, f"hash{number}", 3, "other", (), state=state)


# -- prompts and cuts -----------------------------------------------------------------------------


def test_prompts_and_cuts_are_counted_per_block_and_per_fact():
    log = records(
        BlockAdded("facts", "facts", {}),
        built([("facts", 9, ["f1", "f2", "f3"])]),
        built([("facts", 9, ["f1", "f3"])], [("facts", 3, ["f2"]), ("facts", 2, ["f9"]), ("queue", 5, ["m1"])]),
        built([("facts", 0, [])]),
    )
    usage = usage_after(log)
    assert usage.blocks == {"facts": BlockUse(prompts=2, cut_in=1, cut_tokens=5, last_cut_turn=1)}
    assert usage.facts == {1: Use(2, 0), 2: Use(1, 1), 3: Use(2, 0), 9: Use(0, 1)}
    assert usage.facts[2].asked == 2
    assert usage.of("nowhere") == BlockUse()


def test_stored_turns_are_counted_as_retrieved_and_granted():
    log = records(built([("turns", 9, ["v4", "v2"])]), built([("turns", 9, ["v4"])], [("turns", 5, ["v2"])]))
    turns = usage_after(log).turns
    assert {number: (use.asked, use.carried) for number, use in turns.items()} == {2: (2, 1), 4: (2, 2)}


@pytest.mark.slow
@given(st.lists(st.tuples(st.sets(st.integers(1, 60)), st.sets(st.integers(1, 60))), max_size=12))
def test_counting_lists_of_refs_is_counting_refs(prompts):
    log = records(*(
        built([("facts", 1, [f"f{n}" for n in sorted(carried)])], [("facts", 1, [f"f{n}" for n in sorted(cut)])])
        for carried, cut in prompts
    ))  # fmt: skip
    found = usage_after(log).facts
    every = {number for carried, cut in prompts for number in carried | cut}
    assert found == {
        number: Use(sum(number in carried for carried, _ in prompts), sum(number in cut for _, cut in prompts))
        for number in sorted(every)
    }


def test_a_block_that_could_not_be_read_says_so_until_it_can():
    log = records(BlockFailed("custom", "RuntimeError: no"), built([("custom", 0, [])]), built([("custom", 2, [])]))
    assert usage_after(log[:2]).of("custom").read_error == "RuntimeError: no"
    assert usage_after(log).of("custom").read_error is None


# -- what was stored ------------------------------------------------------------------------------


def test_the_last_write_is_the_last_thing_stored_and_says_by_whom():
    log = [
        *records(added(1), turn=3),
        EventRecord(9, "s", 5, 0.0, "user", FactRetired(1, "facts", "wrong")),
        EventRecord(10, "s", 6, 0.0, "engine", built([("facts", 0, [])])),
    ]
    assert usage_after(log).of("facts").last_write == Write(5, "user")


def test_a_proposed_fact_is_held_only_once_it_is_accepted():
    log = records(added(1), added(2, state="proposed"))
    assert (usage_after(log).of("facts").facts, usage_after(log).of("facts").newest_fact) == (1, "hash1")
    accepted = usage_after([*log, EventRecord(9, "s", 2, 0.0, "user", FactAccepted(2, "facts"))]).of("facts")
    assert (accepted.facts, accepted.newest_fact) == (2, "hash2")


def test_a_deleted_stored_turn_is_no_longer_held():
    log = records(VectorsStored("turns", "e", ((4, ((1, 2),), 9), (5, ((3, 4),), 9))), VectorsRemoved("turns", (4,)))
    assert [usage_after(log[:n]).of("turns").stored_turns for n in (1, 2)] == [2, 1]


def test_what_waits_is_known_with_the_reason():
    queued = [DeliveryQueued(n, "facts", "flush", ((n, n),), 5) for n in (1, 2)]
    failed = DeliveryFailed((1, 2), "facts", 1, "no network", 5.0)
    parked = DeliveryParked((1, 2), "facts", 5, "no network")
    waiting = usage_after(records(*queued, failed)).of("facts")
    assert (waiting.waiting, waiting.parked, waiting.delivery_error) == ((1, 2), (), "no network")
    assert usage_after(records(*queued, failed, parked)).of("facts").parked == (1, 2)
    assert usage_after(records(*queued, failed, parked, DeliveryRetried((1,), "facts"))).of("facts").parked == (2,)
    done = usage_after(records(*queued, failed, parked, DeliverySkipped((1, 2), "facts"))).of("facts")
    assert (done.waiting, done.parked, done.delivery_error) == ((), (), None)


# -- against the real engine ----------------------------------------------------------------------


def a_memory(**settings):
    blocks = [
        StaticMemoryBlock(name="rules", static_content="be brief"),
        FactExtractionMemoryBlock(name="facts", llm=NoteExtractor(), priority=1),
        VectorMemoryBlock(name="turns", embed_model=HashEmbedder(), priority=2, similarity_top_k=4),
        Counter(priority=3),
    ]
    return open_memory(memory_blocks=blocks, clock=Clock(), **settings)


@pytest.mark.slow
def test_it_agrees_with_the_contexts_and_the_tables():
    memory = a_memory()
    contexts = []
    for number in range(14):
        memory.put(note(number))
        contexts.append(memory.build_context())
    usage = memory.log.usage()
    for name in ("rules", "facts", "turns", "counter"):
        parts = [next(p for p in c.plan.granted if p.name == name) for c in contexts]
        cuts = [[cut for cut in c.plan.cuts if cut.part == name] for c in contexts]
        found = usage.of(name)
        assert found.prompts == sum(part.asked > 0 for part in parts)
        assert found.cut_in == sum(bool(cut) for cut in cuts)
        assert found.cut_tokens == sum(cut.tokens for several in cuts for cut in several)
    assert usage.of("turns").cut_in > 0
    carried = [piece.ref for c in contexts for part in c.plan.granted for piece in part.pieces]
    cut = [ref for c in contexts for each in c.plan.cuts for ref in each.refs]
    for fact in memory.facts.read("facts"):
        use = usage.facts.get(fact.id, Use())
        assert use == Use(carried.count(f"f{fact.id}"), cut.count(f"f{fact.id}"))
    for turn in memory.retrieval.stored_turns("turns"):
        use = usage.turns.get(turn.number, Use())
        assert use == Use(carried.count(f"v{turn.number}"), cut.count(f"v{turn.number}"))
    assert usage.of("facts").facts == len(memory.facts.read("facts"))
    assert memory.log.texts([usage.of("facts").newest_fact]).popitem()[1] == memory.facts.read("facts")[-1].text
    assert usage.of("turns").stored_turns == memory.blocks.holding("turns").turns
    assert usage.of("rules").last_write == Write(0, "engine")
    saved = memory.events(kinds=("block_state_saved",))[-1]
    assert usage.of("counter").last_write == Write(saved.turn, "engine")


def test_remembering_and_counting_anew_say_the_same_at_every_moment():
    memory = a_memory()
    for number in range(10):
        memory.put(note(number))
        memory.build_context()
        assert memory.log.usage() == usage_after(memory.log.history().records)
    memory.blocks.remove("turns")
    memory.reset("archived")
    assert memory.log.usage() == usage_after(memory.log.history().records)
    assert memory.log.usage().of("facts").facts == len(memory.facts.read("facts"))
    memory.reset()
    assert memory.log.usage() == usage_after(memory.log.history().records)
    assert memory.log.usage().of("facts") == BlockUse()
    assert "turns" not in memory.log.usage().blocks


def test_of_a_partial_reset_it_knows_what_is_left():
    memory = a_memory()
    memory.blocks.configure("turns", deliver_on="turn")
    for number in range(8):
        memory.put(note(number))
    memory.reset("active")
    assert memory.log.usage().of("turns").stored_turns == memory.blocks.holding("turns").turns > 0
    memory.reset("archived")
    assert memory.log.usage().of("turns").stored_turns == memory.blocks.holding("turns").turns == 0


def test_the_past_is_counted_up_to_its_position():
    memory = a_memory()
    for number in range(10):
        memory.put(note(number))
        memory.build_context()
    position = memory.log.history().position_at(6)
    assert memory.log.usage(position) == usage_after(memory.log.history().upto(position))
    assert memory.log.usage(position).of("rules").prompts == 6
    assert memory.log.usage().of("rules").prompts == 10


def test_the_past_is_the_same_in_whatever_order_it_is_asked_for():
    memory = a_memory()
    for number in range(10):
        memory.put(note(number))
        memory.build_context()
    history = memory.log.history()
    for turn in (8, 3, 6, 3, 10, 1):
        position = history.position_at(turn)
        assert memory.log.usage(position) == usage_after(history.upto(position))


def test_a_log_that_was_read_anew_is_counted_anew():
    memory = a_memory()
    for number in range(6):
        memory.put(note(number))
        memory.build_context()
    memory.log.usage(memory.log.history().position_at(2))
    memory.reset()
    memory.put(note(7))
    history = memory.log.history()
    assert memory.log.usage() == usage_after(history.records)
    assert memory.log.usage(history.position_at(1) - 1) == usage_after(history.upto(history.position_at(1) - 1))

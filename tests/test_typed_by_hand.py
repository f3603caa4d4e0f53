"""Calls as they are typed in a notebook: one for each change of facts, graph and texts; objects that are printed."""

import pytest

from memory_core import (
    ChatMessage,
    FactExtractionMemoryBlock,
    GraphMemoryBlock,
    Memory,
    NotFoundError,
    StaticMemoryBlock,
)
from memory_core.errors import ConfigError, ConflictError, MessageError


@pytest.fixture
def memory():
    blocks = [
        FactExtractionMemoryBlock(name="About"),
        GraphMemoryBlock(name="Relations"),
        StaticMemoryBlock(name="core", static_content="Be kind"),
    ]
    with Memory.from_defaults("notebook", token_limit=500, memory_blocks=blocks) as memory:
        yield memory


def texts(memory):
    return [fact.text for fact in memory.facts.read("About")]


def test_a_fact_is_added_edited_pinned_and_retired_in_one_call_each_and_each_is_undone(memory):
    memory.facts.add("Ana likes tea", topics=["drinks"])
    (tea,) = memory.facts.read("About")
    assert tea.topics == ("drinks",)
    memory.facts.edit(tea, "Ana likes green tea")
    memory.facts.pin(tea.id)
    (tea,) = memory.facts.read("About")
    assert (tea.text, tea.pinned, tea.origin) == ("Ana likes green tea", True, "written")
    assert str(memory.facts.retire(tea, reason="no")) == "Retired a fact."
    assert texts(memory) == []
    memory.facts.restore(tea.id)
    assert texts(memory) == ["Ana likes green tea"]
    for expected in ([], ["Ana likes green tea"], ["Ana likes green tea"], ["Ana likes tea"], []):
        assert memory.facts.undo() is not None
        assert texts(memory) == expected
    assert memory.facts.undo() is None


def test_facts_are_merged_and_erased(memory):
    for text in ("Ana likes tea", "Ana drinks tea"):
        memory.facts.add(text)
    memory.facts.merge(memory.facts.read("About"), "Ana likes to drink tea")
    (merged,) = memory.facts.read("About")
    assert merged.text == "Ana likes to drink tea"
    memory.facts.erase(merged)
    assert texts(memory) == []
    assert len(memory.facts.read("About", states=None)) == 1


def test_a_preview_stores_nothing_and_shows_the_next_prompt(memory):
    before = memory.session.status().position
    change = memory.facts.add("Ana likes tea", preview=True)
    assert "Ana likes tea" in str(change.prompt.messages)
    assert str(change).startswith("Preview: Added a fact.")
    related = memory.graph.add("Ana", "works at", "Lume", preview=True)
    assert "Be brief" in str(memory.blocks.edit("core", "Be brief", preview=True).messages)
    assert texts(memory) == []
    assert memory.graph.relations() == []
    assert memory.blocks.revisions("core")[-1].text == "Be kind"
    assert memory.session.status().position == before
    assert related.sentence == memory.graph.add("Ana", "works at", "Lume").sentence
    assert memory.graph.undo() is not None
    assert memory.graph.relations() == []


def test_a_change_after_a_preview_is_what_was_foreseen(memory):
    foreseen = memory.facts.add("Ana likes tea", preview=True)
    done = memory.facts.add("Ana likes tea")
    assert (done.sentence, done.prompt) == (foreseen.sentence, None)
    assert memory.build_context(record=False).messages == foreseen.prompt.messages


def test_what_is_not_there_is_named(memory):
    with pytest.raises(NotFoundError, match='There is no fact 7 in "About"'):
        memory.facts.pin(7)
    with pytest.raises(MessageError):
        memory.facts.add("  ")
    with Memory.from_defaults("bare") as bare:
        with pytest.raises(NotFoundError, match="No block of this session holds facts"):
            bare.facts.add("Ana likes tea")
        with pytest.raises(NotFoundError):
            _ = bare.graph


def test_a_contradiction_waits_for_review(memory):
    memory.facts.add("Ana lives in Porto")
    memory.facts.add("Ana lives in Lisbon")
    assert len(memory.facts.review().among) == 2


def test_a_preview_of_a_text_is_refused_for_what_refuses_the_edit(memory):
    memory.blocks.edit("core", "Be brief")
    for preview in (False, True):
        with pytest.raises(ConfigError):
            memory.blocks.edit("About", "words", preview=preview)
        with pytest.raises(ConflictError):
            memory.blocks.edit("core", "Be short", revision=1, preview=preview)
        with pytest.raises(NotFoundError):
            memory.blocks.edit("nowhere", "words", preview=preview)
    foreseen = memory.blocks.edit("core", "Be short", preview=True)
    assert memory.blocks.revisions("core")[-1].text == "Be brief"
    memory.blocks.edit("core", "Be short")
    assert memory.build_context(record=False).messages == foreseen.messages


def test_the_text_of_a_block_goes_back_to_the_one_before(memory):
    memory.blocks.edit("core", "Be brief")
    memory.blocks.undo("core")
    assert [each.text for each in memory.blocks.revisions("core")] == ["Be kind", "Be brief", "Be kind"]
    block = StaticMemoryBlock(name="core", static_content="a")
    with Memory.from_defaults("one", memory_blocks=[block]) as one, pytest.raises(NotFoundError, match="no earlier"):
        one.blocks.undo("core")


def test_objects_print_as_what_they_say(memory):
    memory.put(ChatMessage(role="user", content="I am allergic to nuts"))
    context = memory.build_context("What may I eat?")
    assert str(context) == context.explain()
    assert repr(context).startswith(f"<Context: {context.plan.total:,} of 500 tokens")
    trace = memory.trace("allergic to nuts")
    first, *rest = str(trace).splitlines()
    assert first == trace.sentence
    assert all(any(stage.text in line for line in rest) for track in trace.tracks for stage in track.stages)
    assert len(repr(trace)) < 300
    status = memory.session.status()
    assert repr(memory) == (
        f"<Memory 'notebook': limit 500 tokens, queue: {status.queue_tokens} tokens in 1 message, "
        "blocks: About, Relations, core>"
    )


def test_a_memory_that_was_closed_still_prints(memory):
    memory.close()
    assert repr(memory).startswith("<Memory 'notebook'")

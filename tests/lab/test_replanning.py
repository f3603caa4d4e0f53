"""A session planned again: wherever the plan says it knows, the session played under these settings is the same."""

from dataclasses import replace

import pytest
from engine_fakes import assistant, user
from fakes import FakeEmbedder
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from test_playing import lived, moves, player

from memory_core import FactExtractionMemoryBlock, Memory, Services, StaticMemoryBlock
from memory_core.events import ContextBuilt, expand, spread
from memory_core.recipes import RECIPES
from memory_inspector.lab.replanning import Replanner
from memory_inspector.lab.script import script_of
from memory_inspector.lab.sizes import sizes_of
from memory_inspector.lab.variants import variant_of

RECIPE_NAMES = sorted(RECIPES)


def built(memory):
    return [record.event for record in memory.events() if isinstance(record.event, ContextBuilt) and record.turn]


def refs_of(event):
    found = {f"m{seq}" for seq in (*expand(event.queue), *expand(event.pinned))}
    return found | {ref for part in event.parts for ref in spread(part["refs"]) if ref.kind != "day"}


@st.composite
def knobs(draw, variant):
    """Some settings of a configuration that need no model, changed."""
    limit = draw(st.integers(30, 500))
    made = {"token_limit": limit}
    if draw(st.booleans()):
        made["chat_history_token_ratio"] = draw(st.sampled_from((0.2, 0.5, 0.7, 1.0)))
    made["token_flush_size"] = draw(st.sampled_from((None, max(1, limit // 3))))
    if draw(st.booleans()):
        made["insert_method"] = draw(st.sampled_from(("system", "user")))
    made["reserved_tokens"] = draw(st.sampled_from((0, 0, 20, limit)))
    for block in variant.blocks:
        if draw(st.booleans()):
            made[f"{block.name}.priority"] = draw(st.integers(0, 3))
        if draw(st.booleans()):
            made[f"{block.name}.truncation"] = draw(st.sampled_from(("trim", "drop")))
        if block.type == "vector":
            if draw(st.booleans()):
                made[f"{block.name}.similarity_top_k"] = draw(st.sampled_from((None, 1, 3)))
            if draw(st.booleans()):
                made[f"{block.name}.similarity_threshold"] = draw(st.sampled_from((None, 0.2, 0.6)))
    return made


@pytest.mark.slow
@settings(
    max_examples=40, deadline=None, phases=(Phase.explicit, Phase.generate), suppress_health_check=list(HealthCheck)
)
@given(st.sampled_from(RECIPE_NAMES), st.integers(60, 400), moves, st.data())
def test_what_is_planned_again_is_what_is_played(recipe, limit, steps, data):
    memory = lived(recipe, limit, steps)
    base = variant_of(memory)
    changed = data.draw(knobs(base)) if data.draw(st.integers(0, 3)) else {"token_limit": limit}
    variant = base.changed("other", **changed)
    planned = Replanner(sizes_of(memory)).plan(variant, refs=True)
    played = player().play(script_of(memory), variant).memory
    events = built(played)
    assert len(planned.prompts) == len(events)
    flushed = [tuple(expand(r.event.seqs)) for r in played.events() if r.kind == "flush_planned"]
    assert [seqs for _, seqs in planned.flushes] == flushed
    for prompt, event in zip(planned.prompts, events, strict=True):
        if prompt.sent is not None:
            assert (prompt.sent, prompt.cut, prompt.over_by) == (event.total, event.asked - event.total, event.over_by)
            assert prompt.refs == refs_of(event)
    if changed == {"token_limit": limit}:
        assert planned.unknown_from is None, "under its own settings everything is known"


@pytest.mark.slow
@settings(
    max_examples=10, deadline=None, phases=(Phase.explicit, Phase.generate), suppress_health_check=list(HealthCheck)
)
@given(st.sampled_from(RECIPE_NAMES), moves, st.data())
def test_what_is_watched_is_where_the_plan_says_it_is(recipe, steps, data):
    memory = lived(recipe, 150, steps)
    variant = variant_of(memory).changed("other", **data.draw(knobs(variant_of(memory))))
    phrases = ("I am allergic to nuts.", "lives in Porto", "never said at all")
    planned = Replanner(sizes_of(memory)).plan(variant, [memory.trace.carriers(phrase) for phrase in phrases])
    played = player().play(script_of(memory), variant).memory
    for number, phrase in enumerate(phrases):
        presence = {each.turn: each.state for each in played.trace.presence(phrase).turns}
        for turn, prompt in planned.last.items():
            said = prompt.watched[number]
            if said != "unknown":
                assert (said == "prompt") == (presence[turn] == "prompt"), (turn, phrase, presence[turn])


def forgetful(**settings):
    services = Services(embedder=FakeEmbedder())
    blocks = [
        StaticMemoryBlock(name="rules", static_content="Always be kind to the user.", priority=0),
        FactExtractionMemoryBlock(name="facts", priority=1),
    ]
    memory = Memory.from_defaults(
        "s", token_limit=90, token_flush_size=20, memory_blocks=blocks, services=services, **settings
    )
    for words in ["I am allergic to nuts.", *(f"We talked about the weather of week {n}." for n in range(8))]:
        memory.put(user(words))
        memory.build_context()
        memory.put(assistant("Noted."))
    return memory


def test_measured_tokens_are_played_and_planned_again_and_the_setting_where_none_were_measured():
    memory = forgetful(reserved_tokens=5)
    memory.build_context(reserved_tokens=40)
    variant = variant_of(memory).changed("b", reserved_tokens=12)
    planned = Replanner(sizes_of(memory)).plan(variant).prompts
    assert [record.reserved_tokens for record in built(memory)] == [5] * 9 + [40]
    again = built(player().play(script_of(memory), variant).memory)
    assert [record.reserved_tokens for record in again] == [12] * 9 + [40]
    assert planned[0].sent == again[0].total


def test_facts_that_a_prompt_has_no_room_for_are_planned_as_they_were_cut():
    facts = FactExtractionMemoryBlock(name="facts", priority=1, facts=[f"Ada likes tea number {n}." for n in range(20)])
    services = Services(embedder=FakeEmbedder())
    memory = Memory.from_defaults("s", token_limit=100, token_flush_size=20, memory_blocks=[facts], services=services)
    for words in ("Which tea do I like?", "And number 7?", "And number 11?"):
        memory.put(user(words))
        memory.build_context()
        memory.put(assistant("Noted."))
    events = built(memory)
    assert all(cut["rule"] == "trimmed" for event in events for cut in event.cuts)
    assert all(event.cuts for event in events)
    planned = Replanner(sizes_of(memory)).plan(variant_of(memory), refs=True)
    assert [prompt.refs for prompt in planned.prompts] == [refs_of(event) for event in events]


def test_a_new_static_text_with_markup_is_planned_as_large_as_a_prompt_has_it():
    memory = forgetful()
    text = "Be kind. </rules> <memory> </facts> <rules>"
    rules, *others = variant_of(memory).blocks
    rules = rules.model_copy(update={"text": StaticMemoryBlock(static_content=text).text})
    variant = replace(variant_of(memory), blocks=(rules, *others))
    planned = Replanner(sizes_of(memory)).plan(variant)
    events = built(player().play(script_of(memory), variant).memory)
    assert [prompt.sent for prompt in planned.prompts] == [event.total for event in events]


def test_what_only_playing_could_tell_is_unknown_from_the_flush_that_differs():
    memory = forgetful()
    planner, base = Replanner(sizes_of(memory)), variant_of(memory)
    assert planner.plan(base).unknown_from is None
    other = planner.plan(base.changed("B", token_limit=60), [memory.trace.carriers("allergic to nuts")])
    first = other.flushes[0][0]
    assert other.unknown_from in (first, first + 1)
    assert all(prompt.unknown == ("facts",) for prompt in other.prompts if prompt.sent is None)
    assert other.last[1].watched == ("prompt",), "what is in the queue is known all the same"
    assert other.last[9].watched == ("unknown",)


def test_a_change_that_people_made_meanwhile_makes_what_was_learned_after_it_unknown():
    memory = forgetful()
    memory.blocks.configure("facts", max_facts=9)
    memory.put(user("And now?"))
    memory.build_context()
    planned = Replanner(sizes_of(memory)).plan(variant_of(memory))
    assert planned.unknown_from == 10


@pytest.mark.parametrize("knobs", [{"accounting": "billed"}, {"rules.read_only": False}])
def test_other_ways_of_counting_and_other_hands_leave_nothing_known(knobs):
    memory = forgetful()
    planned = Replanner(sizes_of(memory)).plan(variant_of(memory).changed("B", **knobs))
    assert not planned.whole
    assert planned.turns() == [None] * 9


@pytest.mark.slow
def test_a_vector_block_is_known_again_when_the_same_messages_have_left_in_other_batches():
    memory = lived("vector", 150, [("turn", number) for number in range(14)])
    variant = variant_of(memory).changed("B", token_flush_size=45)
    planned = Replanner(sizes_of(memory)).plan(variant, refs=True)
    known = [prompt.sent is not None for prompt in planned.prompts]
    assert True in known[known.index(False) :]
    for prompt, event in zip(planned.prompts, built(player().play(script_of(memory), variant).memory), strict=True):
        if prompt.sent is not None:
            assert (prompt.sent, prompt.refs) == (event.total, refs_of(event))


@pytest.mark.parametrize("changed", [{"similarity_top_k": 2}, {"similarity_threshold": 0.2}, {"token_limit": 110}])
def test_where_equal_texts_were_said_a_search_is_known_only_as_it_was(changed):
    memory = lived("vector", 150, [("turn", number) for number in (1, 1, 2, 3, 1, 4, 5, 1, 6)])
    base = variant_of(memory)
    block = next(block.name for block in base.blocks if block.type == "vector")
    knobs = {name if name == "token_limit" else f"{block}.{name}": value for name, value in changed.items()}
    variant = base.changed("B", **knobs)
    planned = Replanner(sizes_of(memory)).plan(variant, refs=True).prompts
    for prompt, event in zip(planned, built(player().play(script_of(memory), variant).memory), strict=True):
        if prompt.sent is not None:
            assert (prompt.sent, prompt.refs) == (event.total, refs_of(event))
    assert any(prompt.sent is not None for prompt in planned)

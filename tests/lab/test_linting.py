"""A finding is true, its numbers are its evidence, and the change it offers mends it."""

import re

import pytest
from engine_fakes import assistant, user
from fakes import FakeEmbedder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_core import (
    ChatMessage,
    ConfigError,
    FactExtractionMemoryBlock,
    GraphMemoryBlock,
    Memory,
    Services,
    StaticMemoryBlock,
    SummaryMemoryBlock,
    VectorMemoryBlock,
)
from memory_core.events import FlushPlanned
from memory_core.planning.curation import add
from memory_core.recipes import RECIPES
from memory_inspector.files.configuration import StoredBlock
from memory_inspector.lab.linting import findings
from memory_inspector.lab.playing import Player
from memory_inspector.lab.script import script_from, script_of
from memory_inspector.lab.variants import Variant, variant_of

KINDS = {"facts": FactExtractionMemoryBlock, "vector": VectorMemoryBlock, "summary": SummaryMemoryBlock,
         "graph": GraphMemoryBlock}  # fmt: skip


def variant(*blocks, **values):
    """A configuration of these blocks, in order."""
    return Variant("v", values, tuple(stored(block) for block in blocks))


def stored(block):
    text = block.text if isinstance(block, StaticMemoryBlock) else None
    values = {name: value for name, value in block.settings().items() if name != "name"}
    return StoredBlock(name=block.name, type=block.type, settings=values, text=text)


def text(tokens, name="Rules", **values):
    return StaticMemoryBlock(name=name, static_content="so " * (tokens - 1) + "on", **values)


def facts(name="Facts", **values):
    return FactExtractionMemoryBlock(name=name, **{"priority": 1, **values})


def recall(name="Recall", **values):
    return VectorMemoryBlock(name=name, **{"priority": 2, **values})


def found(rule, *given, **values):
    """The one finding of a rule."""
    (finding,) = [finding for finding in findings(*given, **values) if finding.rule == rule]
    return finding


def rules(*given, **values):
    return [finding.rule for finding in findings(*given, **values)]


def mended(before, finding):
    return before.with_changes("mended", finding.changes)


def talk(turns, words=20):
    return [message for _ in range(turns) for message in (user("so " * words), assistant("so " * words))]


def test_texts_that_are_never_cut_and_do_not_fit_are_an_error():
    odd = variant(text(500), text(400, "Style"), facts(), token_limit=800)
    finding = found("over_limit", odd)
    assert finding.severity == "error"
    assert finding.sentence == (
        "Rules (priority 0) and Style (priority 0) need 900 of 800 tokens and are never cut: every prompt is over the "
        "limit."
    )
    assert finding.evidence == {"needed": 900, "limit": 800, "priority": 0}
    assert [change.words for change in finding.changes] == ["token_limit 800 → 3000"]
    assert "over_limit" not in rules(mended(odd, finding))


def test_opening_system_messages_count_among_what_is_never_cut():
    script = script_from([ChatMessage(role="system", content="so " * 299 + "on"), *talk(1)])
    odd = variant(text(500), token_limit=800)
    assert rules(odd) == []
    assert found("over_limit", odd, script).sentence.startswith(
        "The system messages and Rules (priority 0) need 800 of 800 tokens"
    )


@pytest.mark.parametrize("accounting", ["content", "reference", "billed"])
@pytest.mark.parametrize("insert_method", ["system", "user"])
def test_what_is_certain_is_what_a_prompt_of_nothing_else_has(accounting, insert_method):
    given = {"token_limit": 50, "accounting": accounting, "insert_method": insert_method, "token_flush_size": 5}
    rules = StaticMemoryBlock(name="Rules", static_content="so " * 60 + "</Rules>")
    odd = variant(rules, text(30, "Style", priority=1), **given)
    memory = Memory.from_defaults(memory_blocks=odd.make_blocks(), chat_history=[user("")], **given)
    plan = memory.build_context().plan
    overhead = 4 if accounting == "billed" else 0  # of the one message that was put
    assert found("over_limit", odd).evidence["needed"] == plan.total - overhead


def test_a_text_that_does_not_fit_alone_is_never_granted_anything():
    odd = variant(text(100), text(150, "Style", priority=3), token_limit=200)
    finding = found("too_large", odd)
    assert finding.sentence == (
        "Style can never be granted anything: it is cut whole, and its 150 tokens do not fit into the limit of 200 "
        "beside 100 that are never cut."
    )
    for config, granted in ((odd, 0), (mended(odd, finding), 150)):
        memory = Memory.from_defaults(memory_blocks=config.make_blocks(), **config.settings)
        memory.put(user("x"))
        assert memory.build_context().plan.granted[1].granted == granted


def test_what_is_never_cut_may_leave_less_than_one_fact():
    odd = variant(text(190), facts(), recall(), token_limit=200)
    finding = found("no_room", odd)
    assert finding.severity == "warning"
    assert finding.sentence == (
        "Recall and Facts can hardly be granted anything: 190 of 200 tokens are never cut, and the 10 that are left "
        "are less than one fact (12), without any message."
    )
    assert [change.words for change in finding.changes] == ["token_limit 200 → 700"]
    assert "no_room" not in rules(mended(odd, finding))
    for quiet in (variant(text(180), facts(), token_limit=200), variant(text(190), token_limit=200)):
        assert "no_room" not in rules(quiet)


def test_every_example_of_the_lint_is_found_with_its_numbers_and_what_mends_it():
    """As a person meets them: recipes at small and at large limits, with a conversation."""
    said = script_from(talk(14, words=60))

    def told(recipe, limit, **values):
        memory = Memory.from_recipe(recipe, token_limit=limit, services=Services(embedder=FakeEmbedder()), **values)
        if recipe == "blocks":  # as sessions were made before facts had a share
            without_share(memory)
        return {finding.rule: finding for finding in findings(variant_of(memory), said)}

    small, large = told("blocks", 1_000), told("blocks", 30_000)
    assert small["facts_fill"].evidence["room"] == 300
    assert small["first_flush"].evidence == {"turn": 6}
    assert large["asks_for_all"].evidence == {"budget": 30_000, "limit": 30_000}
    assert large["cache"].evidence["queue"] == 21_000
    assert told("self_editing", 4_000)["tools"].evidence["definitions"] > 500
    for finding in (*small.values(), *large.values()):
        assert finding.changes, finding.rule


def test_reserved_tokens_that_use_up_the_limit_are_found_with_the_limit_that_leaves_room():
    finding = found("over_limit", variant(facts(), token_limit=500, reserved_tokens=500))
    assert finding.sentence.startswith("The agent's system prompt and tools need 500 of 500 tokens and are never cut")
    assert "over_limit" not in rules(mended(variant(facts(), token_limit=500, reserved_tokens=500), finding))
    assert "over_limit" not in rules(variant(facts(), token_limit=500, reserved_tokens=499))
    config = variant_of(Memory.from_recipe("self_editing", token_limit=4000, reserved_tokens=3000))
    assert "tools" not in rules(config)


def test_a_limit_that_the_models_window_holds_down_is_not_raised():
    finding = found("over_limit", variant(text(900), token_limit=800, context_window=1000, reply_reserve=200))
    assert [change.words for change in finding.changes] == ["Rules.enabled True → False"]


def test_what_the_window_leaves_is_said():
    odd = variant(token_limit=1000, context_window=600)
    assert [finding.sentence for finding in findings(odd)] == [
        "The model's window leaves 600 of the token limit of 1,000: contexts are cut to that.",
        "The history budget of 700 is above what the model's window leaves (600): queued turns are left out before "
        "they are flushed.",
    ]
    assert [change.words for finding in findings(odd) for change in finding.changes] == [
        "token_limit 1000 → 600", "chat_history_token_ratio 0.7 → 0.42",
    ]  # fmt: skip


def test_a_flush_size_above_the_history_budget_is_a_warning():
    finding = found("flush_size", variant(token_limit=1000, token_flush_size=750))
    assert finding.sentence == (
        "Flush size 750 is above the history budget of 700: every flush empties the queue down to one turn."
    )
    assert [change.words for change in finding.changes] == ["token_flush_size 750 → none"]


def test_a_queue_that_may_fill_the_limit_is_a_warning_only_where_a_block_can_be_cut():
    whole = {"chat_history_token_ratio": 1.0, "token_limit": 1000}
    assert found("queue_fills", variant(facts(), recall(), **whole)).sentence == (
        "The queue may fill the whole limit of 1,000: then every block with a priority is cut (Recall and Facts)."
    )
    assert "queue_fills" not in rules(variant(text(10), **whole))
    assert "queue_fills" not in rules(variant(facts(), queue_turns=3, **whole))


def without_share(memory):
    memory.blocks.configure("Facts", prompt_share=None)
    return memory


def test_facts_that_take_all_room_at_a_small_limit_are_a_warning():
    assert "facts_fill" not in rules(variant_of(Memory.from_recipe("blocks", token_limit=2000)))
    assert "facts_fill" not in rules(variant_of(Memory.from_recipe("blocks", token_limit=1000)))
    odd = variant_of(without_share(Memory.from_recipe("blocks", token_limit=1000)))
    finding = found("facts_fill", odd)
    assert finding.sentence == (
        "Facts may take 600 tokens (50 × 12); a full queue leaves 300, so Earlier turns may get none."
    )
    assert [change.words for change in finding.changes] == ["Facts.show all → relevant"]


@pytest.mark.slow
def test_facts_that_may_take_all_room_do_so_when_played_and_not_with_the_offered_change():
    names = (
        "Ana", "Rui", "Bo", "Sam", "Ines", "Marta", "Tom", "Eva", "Leo", "Nina", "Paul", "Rita", "Hugo", "Vera", "Ivan",
        "Lena", "Max", "Olga", "Karl", "Dora",
    )  # fmt: skip
    said = [f"My friend {name} lives in {city} and likes {city} tea." for city in ("Porto", "Rome") for name in names]
    told = [each for words in said for each in (user(words), assistant("Good to know, thank you for telling me."))]
    script, services = script_from([*told, user("Where does Rui live?")]), Services(embedder=FakeEmbedder())
    shared = variant_of(memory := Memory.from_recipe("blocks", token_limit=700, services=services))
    odd = variant_of(without_share(memory))
    recalled = []
    for config in (odd, mended(odd, found("facts_fill", odd)), shared):
        last = (played := Player(services).play(script, config)).prompt(played.turns()[-1])
        recalled.append(next(part.granted for part in last.parts if part.name == "Earlier turns"))
    assert recalled[0] == 0
    assert recalled[1] > 0
    assert recalled[2] > 0


def test_facts_are_cut_before_recall_where_the_order_says_so():
    limit = {"token_limit": 1000}
    assert "facts_fill" not in rules(variant(facts(priority=3), recall(priority=2), **limit))
    assert "facts_fill" in rules(
        variant(facts(priority=3), recall(priority=2), truncation_order="smallest_first", **limit)
    )


def test_a_block_that_nothing_reaches_or_that_reaches_nothing_is_a_warning():
    odd = variant(facts(show="none"), recall(accept_short_term_memory=False), facts("Late", deliver_on="session_end"))
    said = {finding.block: finding for finding in findings(odd) if finding.severity == "warning"}
    assert {name: finding.rule for name, finding in said.items()} == {
        "Facts": "hidden", "Recall": "unfed", "Late": "too_late",
    }  # fmt: skip
    for finding in said.values():
        assert finding.rule not in rules(mended(odd, finding))


def test_the_archive_of_an_agent_with_tools_is_hidden_on_purpose():
    assert [finding.severity for finding in findings(variant_of(Memory.from_recipe("self_editing")))] == ["note"] * 3


@pytest.mark.parametrize("recipe", ["blocks", "graph", "summary"])
@pytest.mark.parametrize("ratio", [0.3, 0.7])
def test_the_first_flush_comes_when_it_was_said_to_come(recipe, ratio):
    script = script_from([ChatMessage(role="system", content="Be kind."), *talk(14)])
    services = Services(embedder=FakeEmbedder())
    memory = Memory.from_recipe(recipe, token_limit=600, services=services)
    config = variant_of(memory).changed("v", chat_history_token_ratio=ratio)
    played = Player(services).play(script, config).memory
    finding = found("first_flush", config, script)
    assert finding.evidence["turn"] == played.events(kinds=(FlushPlanned.kind,))[0].turn
    assert f"the first flush in turn {finding.evidence['turn']}." in finding.sentence
    assert {change.after for change in finding.changes} == {"turn"}


def test_a_conversation_without_a_flush_is_said_to_have_none():
    assert found("first_flush", variant(facts(), token_limit=4000), script_from(talk(3))).sentence == (
        "The 3 turns of this conversation never fill the history budget of 2,800: Facts is empty throughout."
    )
    assert "first_flush" not in rules(variant(facts(), token_limit=4000))
    assert "first_flush" not in rules(variant(facts(deliver_on="turn"), token_limit=4000), script_from(talk(3)))


def test_definitions_of_tools_stand_beside_the_limit():
    config = variant_of(Memory.from_recipe("self_editing", token_limit=2000))
    finding = found("tools", config)
    assert (finding.severity, finding.changes) == ("note", ())
    defined = finding.evidence["definitions"]
    assert finding.evidence["read"] == 2000 + defined
    assert "tools" not in rules(config.changed("v", context_window=2500 + defined, reply_reserve=500))
    tight = config.changed("v", context_window=2500, reply_reserve=500)
    finding = found("tools", tight)
    assert finding.severity == "warning"
    assert finding.sentence.endswith(", and its window is 2,500, 500 of it kept for the reply.")
    assert [change.words for change in finding.changes] == [f"token_limit 2000 → {2000 - defined}"]


def test_recall_that_asks_for_a_whole_large_limit_is_noted():
    config = variant(text(100), recall())
    assert found("asks_for_all", config).sentence == (
        "Recall asks for as much as fits, up to 29,900 tokens a turn, because the limit is 30,000 and no number of "
        "results is set."
    )
    assert "asks_for_all" not in rules(config.changed("v", token_limit=8000))
    assert "asks_for_all" not in rules(config.changed("v", **{"Recall.similarity_top_k": 5}))


def test_memory_that_differs_with_each_question_before_the_queue_is_noted():
    finding = found("cache", variant(facts(), recall(), token_limit=2000))
    assert finding.sentence == "Recall changes every turn and comes first, so up to 1,400 tokens can't be cached."
    assert [change.words for change in finding.changes] == ["insert_method system → user"]
    assert "cache" not in rules(variant(facts(), token_limit=2000))
    assert "cache" not in rules(variant(recall(), token_limit=1000))


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("limit", [1000, 4000, 30_000])
def test_no_recipe_is_in_error_at_its_defaults(recipe, limit):
    config = variant_of(Memory.from_recipe(recipe, user_id="u", token_limit=limit))
    assert "error" not in {finding.severity for finding in findings(config, script_from(talk(12)))}


def test_a_tokenizer_of_ones_own_counts():
    odd = variant(StaticMemoryBlock(name="Rules", static_content="aaaa bbbb"), token_limit=8)
    assert "over_limit" not in rules(odd)
    assert found("over_limit", odd, tokenizer_fn=list).evidence["needed"] == 9


blocks = st.one_of(
    st.builds(text, st.sampled_from((1, 40, 400, 3000)), priority=st.integers(0, 3), read_only=st.booleans(),
              enabled=st.booleans()),
    st.builds(facts, priority=st.integers(0, 3), max_facts=st.sampled_from((1, 50, 1000)),
              show=st.sampled_from(("all", "relevant", "none")), top_k=st.sampled_from((1, 10, 500)),
              accept_short_term_memory=st.booleans(), deliver_on=st.sampled_from(("flush", "turn", "session_end"))),
    st.builds(recall, priority=st.integers(0, 3), similarity_top_k=st.sampled_from((None, 2, 50)),
              accept_short_term_memory=st.booleans(), deliver_on=st.sampled_from(("flush", "turn", "session_end"))),
    st.builds(SummaryMemoryBlock, priority=st.integers(0, 3), max_tokens=st.sampled_from((1, 300))),
    st.builds(GraphMemoryBlock, priority=st.integers(0, 3), accept_short_term_memory=st.booleans()),
)  # fmt: skip
configurations = st.fixed_dictionaries(
    {
        "token_limit": st.sampled_from((1, 5, 60, 800, 1000, 4000, 30_000)),
        "chat_history_token_ratio": st.sampled_from((0.001, 0.05, 0.3, 0.7, 0.999, 1.0)),
        "token_flush_size": st.sampled_from((None, 1, 50, 700, 20_000)),
        "insert_method": st.sampled_from(("system", "user")),
        "truncation_order": st.sampled_from(("largest_first", "smallest_first")),
        "accounting": st.sampled_from(("content", "billed", "reference")),
        "context_window": st.sampled_from((None, 3, 500, 1500, 32_000)),
        "reply_reserve": st.sampled_from((0, 2, 400)),
        "reserved_tokens": st.sampled_from((0, 0, 40, 5000)),
        "queue_turns": st.sampled_from((None, 1, 5)),
    }
)


def any_variant(given, made):
    named = [block.on_its_own().model_copy(update={"name": f"B{'abcdef'[n]}"}) for n, block in enumerate(made)]
    config = variant(*named, **given)
    try:
        assert config.config
    except ConfigError:
        return None
    return config


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(configurations, st.lists(blocks, max_size=5), st.integers(0, 12))
def test_every_offered_change_mends_its_finding_and_brings_no_error(given, made, turns):
    config = any_variant(given, made)
    if config is None:
        return
    script = script_from(talk(turns)) if turns else None
    before = findings(config, script)
    errors = {(finding.rule, finding.block) for finding in before if finding.severity == "error"}
    for finding in before:
        said = {number.replace(",", "") for number in re.findall(r"\d[\d,]*(?<!,)", finding.sentence)}
        assert said <= {str(value) for value in finding.evidence.values()}, finding
        if not finding.changes:
            assert finding.rule == "tools" or given["context_window"] is not None, finding
            continue
        after = findings(mended(config, finding), script)
        assert (finding.rule, finding.block) not in {(left.rule, left.block) for left in after}
        assert {(left.rule, left.block) for left in after if left.severity == "error"} <= errors


def test_facts_that_people_wrote_and_that_fill_the_limit_are_found_with_the_limit_that_mends_it():
    memory = Memory.from_defaults("s", memory_blocks=[facts(max_facts=10)], token_limit=4000)
    desk = memory.facts.desk("Facts")
    for number in range(8):
        desk.apply(add(f"Guest {number} comes"))
    found = [each for each in findings(variant_of(memory), script_of(memory)) if each.rule == "facts_limit"]
    assert [(dict(each.evidence), each.block) for each in found] == [({"protected": 8, "max_facts": 10}, "Facts")]
    mended = variant_of(memory).with_changes("mended", found[0].changes)
    assert not [each for each in findings(mended, script_of(memory)) if each.rule == "facts_limit"]


def test_a_limit_that_is_too_small_for_all_is_raised_until_a_text_that_is_cut_whole_fits_too():
    small, whole = text(1).model_copy(update={"priority": 0}), text(400).model_copy(update={"priority": 1})
    config = any_variant(
        {"token_limit": 1, "chat_history_token_ratio": 0.001, "token_flush_size": None}, [small, whole]
    )
    (found,) = [finding for finding in findings(config, None) if finding.rule == "over_limit"]
    assert found.changes
    assert [finding.rule for finding in findings(mended(config, found), None) if finding.severity == "error"] == []

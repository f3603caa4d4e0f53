"""The recipes section and what is decided about facts: rows, sentences and figures. Pure functions, no app."""

import pytest
from engine_fakes import assistant, user
from fakes import FakeEmbedder

from memory_core import FactExtractionMemoryBlock, Memory, Services, VectorMemoryBlock
from memory_core.events import (
    EventRecord,
    FactAdded,
    FactChanged,
    FactDecided,
    FactLabelled,
    FactSuperseded,
    ProposalRefused,
)
from memory_core.planning.curation import FactDraft
from memory_core.planning.fact_merging import FactRevision
from memory_core.recipes import RECIPES
from memory_core.store.block_rows import Holding
from memory_inspector.reading.fact_history import decisions_of, refusals, rows, score_of, steps, summed, why
from memory_inspector.reading.fact_rows import (
    FactFilter,
    ShownFact,
    categories_count,
    matching_rows,
    topics_count,
    view_labels,
)
from memory_inspector.reading.recipe_rows import (
    NO_RECIPE,
    opening,
    plan_for,
    plan_lines,
    rows_in_words,
    running_on,
    stays,
    switched,
    title_of,
)
from memory_inspector.wording.decision_text import RULES, decided_by

MARKUP = "![x](http://evil.test/a.png) **b**"


@pytest.fixture(scope="module")
def services():
    return Services(embedder=FakeEmbedder())


def memory_of(services, *blocks, user_id=None, **config):
    given = {"token_limit": 400, "token_flush_size": 20, "chat_history_token_ratio": 0.2} | config
    return Memory.from_defaults(user_id=user_id, memory_blocks=list(blocks), services=services, **given)


def talked(memory, turns=6):
    for number in range(turns):
        memory.put(user(f"I like colour number {number} and I live in town {number}."))
        memory.put(assistant("Noted, and what else should be known about that?"))
    return memory


# -- sentences and rows ----------------------------------------------------------------------------


def test_the_section_opens_with_what_the_session_runs_on_in_numbers():
    assert opening("Sliding window", 12, 3) == "This session runs on **Sliding window**: 3 blocks, 12 turns so far."
    assert "nothing said yet" in opening(NO_RECIPE, 0, 0)


def test_a_name_of_a_recipe_says_when_it_was_changed_since():
    assert title_of("blocks", changed=True) == "Short-term + blocks, changed since"
    assert title_of(None) == NO_RECIPE
    assert title_of("of_tomorrow") == "of_tomorrow"


def test_every_recipe_has_a_row_and_the_one_in_use_is_marked():
    shown = rows_in_words("window")
    assert [row["Recipe"].removeprefix("✓ ") for row in shown] == [recipe.title for recipe in RECIPES.values()]
    assert [row["Recipe"] for row in shown if row["Recipe"].startswith("✓")] == ["✓ Sliding window"]


# -- the switch ------------------------------------------------------------------------------------


def test_a_switch_says_what_it_keeps_adds_removes_and_changes_before(services):
    memory = talked(
        memory_of(
            services,
            FactExtractionMemoryBlock(name="Facts", priority=1),
            VectorMemoryBlock(name=MARKUP, priority=2),
        )
    )
    archived = memory.session.status().archived_messages
    said = plan_lines(memory.preview.switch("summary"), {})
    assert said[0] == f"**Adds** Summary (filled from {archived} messages)."
    facts = sum(memory.blocks.holding("Facts").facts.values())
    assert said[1].startswith(f"**Removes** Facts (its {facts} facts stay stored) and ")
    assert "![x]" not in said[1]
    assert "**Changes**" in "\n".join(plan_lines(memory.preview.switch("consolidating"), {}))


def test_what_becomes_of_a_removed_block_depends_on_its_kind():
    assert stays("facts", Holding(facts={"active": 1})) == "its 1 fact stays stored"
    assert stays("vector", Holding(turns=3)) == "its 3 stored turns are deleted; the messages stay"
    assert stays("vector", Holding(turns=1), "message") == "its 1 stored message is deleted; the messages stay"
    assert stays("facts", Holding()) == "it holds no facts"
    assert {stays(kind, Holding()) for kind in ("graph", "summary", "custom")} == {
        "its relations stay stored", "its text is deleted; the messages stay", "its contents are deleted",
    }  # fmt: skip


def test_after_a_switch_the_filling_is_told(services):
    memory = talked(memory_of(services, VectorMemoryBlock(name="Turns", priority=2)))
    plan = memory.session.switch("summary")
    filled = plan.added[0].fills
    assert switched(plan) == (
        f"The session now runs on Summary buffer. Summary is being filled from {filled} messages."
    )
    assert running_on(memory) == ("summary", False)
    memory.configure(queue_turns=3)
    assert running_on(memory) == ("summary", True)
    assert switched(memory.preview.switch("window")) == "The session now runs on Sliding window."


def test_a_session_without_a_recipe_is_called_what_it_is_like(services):
    like_vector = memory_of(services, VectorMemoryBlock(name="Mine", priority=1, similarity_top_k=5))
    assert running_on(like_vector)[0] == "vector"
    own = memory_of(services, VectorMemoryBlock(name="A"), VectorMemoryBlock(name="B"))
    assert running_on(own) == (None, False)


def test_a_recipe_that_needs_a_user_says_so_in_place_of_a_plan(services):
    plan, refused = plan_for(memory_of(services), "user_memories")
    assert plan is None
    assert "user" in refused


# -- decisions about facts -------------------------------------------------------------------------

TEXTS = {"light": "The user prefers light mode", "dark": "The user prefers dark mode", "name": "The user is Sam"}


def record(event, *, turn=1, actor="engine", at=100.0):
    record.position += 1
    return EventRecord(record.position, "s", turn, at, actor, event)


record.position = 0


def decided(content, decision, fact=None, candidates=(), rule="new", decider="offline rules", block="Facts"):
    return FactDecided(block, content, decision, fact, candidates, decider, rule, ((1, 1),))


def added(fact, content):
    return FactAdded(fact, "Facts", content, 5, "other", ((1, 1),))


LOG = [
    record(ProposalRefused("Facts", "decision", "a decision would change a pinned fact", 2)),
    record(decided("light", "add")),
    record(added(1, "light")),
    record(decided("name", "add", candidates=((1, 0.2),), decider="gpt-4o-mini", rule="model")),
    record(added(2, "name")),
    record(decided("dark", "update", 1, ((1, 0.82), (2, 0.11)), "preference"), turn=4, at=200.0),
    record(FactChanged(1, "Facts", "light", "dark", 5), turn=4, at=200.0),
    record(FactLabelled(1, "Facts", "preference", ("style",)), turn=5, actor="user"),
    record(FactChanged(1, "Facts", "dark", "name", 5), turn=5, actor="user"),
    record(decided("x", "add", block="Other")),
    record(FactSuperseded(2, "Facts", None), turn=6),
]


def known(hashes):
    return {key: TEXTS[key] for key in hashes if key in TEXTS}


def test_a_decision_is_read_with_what_followed_from_it():
    decisions = decisions_of(LOG, "Facts", known)
    first, second, third = decisions.decided
    assert (first.added, second.added) == (1, 2)
    assert (third.before, third.after) == ("light", "dark")
    assert decisions.of_fact(1) == [first, third]
    assert summed(decisions) == "3 decisions: 2 added, 1 updated."
    assert why(third) == "decided by rules: a changed preference; compared with 2: 0.82, 0.11"
    assert why(second) == "decided by gpt-4o-mini; compared with 1: 0.20"
    assert (score_of(third), score_of(first)) == (0.82, None)


def test_what_was_proposed_and_cannot_be_is_listed():
    said = refusals(decisions_of(LOG, "Facts", known))
    assert said == ["Turn 1: left out 2 decisions, a decision would change a pinned fact"]


def test_words_that_were_erased_since_are_not_invented():
    decisions = decisions_of(LOG, "Facts", lambda hashes: {})
    assert {row["Found"] for row in rows(decisions, decisions.decided)} == {"words erased"}


def test_every_rule_has_words_and_a_new_one_is_shown_as_it_is():
    from memory_core.planning import consolidation

    used = {rule for _, rule in consolidation._RULES.values()} | {"new", "pinned", "repeated", "approval", "model"}
    assert used <= set(RULES)
    assert decided_by(decided("dark", "add", rule="by_the_moon")) == "by rules: by the moon"


def revision(version, text, *, actor="engine", at=100.0, category="other", topics=()):
    return FactRevision(version, text, "active", False, actor, None, 1, at, category, topics)


def test_a_facts_history_says_how_each_version_was_decided():
    decisions = decisions_of(LOG, "Facts", known).of_fact(1)
    told = steps(
        [
            revision(1, TEXTS["light"]),
            revision(2, TEXTS["dark"], at=200.0),
            revision(3, TEXTS["dark"], actor="user", at=300.0, category="preference", topics=("style",)),
        ],
        decisions,
    )
    assert [step.what for step in told] == ["Added", "Updated", "Labelled preference, style"]
    assert told[0].why == "decided by rules: no known fact relates to it; no fact to compare with"
    assert told[1].why == "decided by rules: a changed preference; compared with 2: 0.82, 0.11"
    assert told[2].why == ""


# -- labels ----------------------------------------------------------------------------------------

LABELLED = tuple(
    ShownFact(draft.as_fact(id, scope="session:s", block="Facts", tokens=5, turn=1, at=0))
    for id, draft in enumerate(
        (
            FactDraft("Ana is allergic to nuts", category="health", topics=("Ana", "food")),
            FactDraft("Dinner is on 14 March", category="plan", topics=("food",)),
            FactDraft("Sam lives in Porto", category="plan"),
        ),
        start=1,
    )
)


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        (FactFilter(categories=("plan",)), [2, 3]),
        (FactFilter(topics=("food",)), [1, 2]),
        (FactFilter(topics=("Ana", "food"), categories=("plan",)), [2]),
        (FactFilter(topics=("nothing",)), []),
    ],
)
def test_facts_are_filtered_by_category_and_topic(wanted, ids):
    assert [row.id for row in matching_rows(LABELLED, wanted, now=0)] == ids
    assert wanted.filters == bool(wanted.categories) + bool(wanted.topics)


def test_labels_are_offered_the_most_used_first():
    assert list(topics_count(LABELLED)) == ["food", "Ana"]
    assert categories_count(LABELLED) == {"plan": 2, "health": 1}


def test_decisions_are_a_segment_only_where_there_can_be_some():
    assert "decisions" not in view_labels(LABELLED, 0)
    assert view_labels(LABELLED, 0, 0)["decisions"] == "Decisions 0"

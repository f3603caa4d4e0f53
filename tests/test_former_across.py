"""Former values across facts and relations: what one of them no longer says is marked where the other still does."""

from collections import Counter
from itertools import pairwise

import pytest
from fakes import FakeEmbedder
from hypothesis import given
from hypothesis import strategies as st

from memory_core import (
    ChatMessage,
    FactExtractionMemoryBlock,
    GraphMemoryBlock,
    Memory,
    Services,
    SummaryMemoryBlock,
    VectorMemoryBlock,
)
from memory_core.bundles.bundle import import_bundle, read_bundle, write_bundle
from memory_core.events import Ref
from memory_core.models.offline.fact_extraction import RuleExtractor, facts_in
from memory_core.models.offline.relation_rules import relations_in
from memory_core.models.relating import RuleRelations
from memory_core.planning.former_values import Statement, former_values
from memory_core.planning.graph_rules import slot_of
from memory_core.planning.slots import Slot, of_user
from memory_core.store.database import Database

QUESTION = "Where do I live, Porto or Lisbon?"
TOWNS = ["Porto", "Lisbon", "Faro"]


# -- planning --------------------------------------------------------------------------------------


def learned(steps, kind):
    """Statements about the home of the user as facts or as relations learn it: `steps` are pairs of turn and town."""
    changes = [steps[0], *(after for before, after in pairwise(steps) if before[1] != after[1])] if steps else []
    sources = tuple(("s", turn) for turn, _ in steps)
    if kind == "fact":
        texts = [f"The user lives in {town}" for _, town in changes]
        one = Statement(
            Ref.of("fact", 1), tuple(texts), changes[-1][0] if changes else 0, sources, slot=of_user("home")
        )
        return [one] if texts else []
    return [
        Statement(
            Ref.of("relation", number), (f"The user lives in {town}",),
            turn, tuple(("s", said) for said, value in steps if value == town and said >= turn), slot=of_user("home"),
            ended=number < len(changes), replaced_by=Ref.of("relation", number + 1) if number < len(changes) else None,
        )
        for number, (turn, town) in enumerate(changes, start=1)
    ]  # fmt: skip


@given(st.lists(st.tuples(st.sampled_from(TOWNS), st.sampled_from(["fact", "relation", "both"])), min_size=1))
def test_exactly_the_values_that_the_other_one_replaced_later_are_marked(steps):
    said = {
        kind: [(turn, town) for turn, (town, by) in enumerate(steps, start=1) if by in (kind, "both")]
        for kind in ("fact", "relation")
    }
    values = former_values([*learned(said["fact"], "fact"), *learned(said["relation"], "relation")])
    marked = {value.of.ref.kind for value in values if value.stated_still}
    for kind, other in (("fact", "relation"), ("relation", "fact")):
        if said[kind]:
            turn, town = said[kind][-1]
            before = [value for _, value in said[other][:-1]]
            replaced = said[other] and said[other][-1][0] > turn and said[other][-1][1] != town and town in before
            assert (kind in marked) == bool(replaced)


def test_a_reviewed_statement_and_one_of_another_subject_are_not_marked():
    home = of_user("home")
    fact = Statement(Ref.of("fact", 1), ("The user lives in Porto", "The user lives in Lisbon"), 2, slot=home)
    for other in (
        Statement(Ref.of("relation", 1), ("The user lives in Porto",), 1, slot=home, reviewed=True),
        Statement(Ref.of("relation", 1), ("Ana lives in Porto",), 1, slot=Slot("ana", "home")),
        Statement(Ref.of("relation", 1), ("The user comes from Porto",), 1),
    ):
        assert [value.stated_still for value in former_values([fact, other])] == [False]


@pytest.mark.parametrize(
    "text",
    [
        "I live in Porto.", "Ana works at Acme.", "I work as a nurse.", "My name is Sam", "Ana Lopes lives in Rome.",
        "The deadline of Atlas is 3 May.", "The capital of Atlantis is Foo.",
    ],
)  # fmt: skip
def test_a_fact_and_a_relation_of_one_sentence_are_in_one_slot(text):
    [fact] = facts_in(text)
    [relation] = relations_in(text)
    assert Slot.normal(str(fact.slot)) == slot_of(relation.subject, relation.predicate)


# -- in prompts ------------------------------------------------------------------------------------


class OnlyOf:
    """A learner by rules that reads the messages with one of some words, and misses all others."""

    def __init__(self, rules, *words):
        self._rules, self._words = rules, words
        self.name, self.offline = rules.name, rules.offline

    def _heard(self, messages):
        return [m if any(w in str(m.content) for w in self._words) else ChatMessage(role="user", content="Hm.")
                for m in messages]  # fmt: skip

    def extract(self, messages, *, known):
        return self._rules.extract(self._heard(messages), known=known)

    def condense(self, facts, *, pinned, target):
        return self._rules.condense(facts, pinned=pinned, target=target)

    def relations(self, messages, *, known):
        return self._rules.relations(self._heard(messages), known=known)


def memory_of(*texts, facts=None, relations=None, also=(), database=None, **settings):
    memory = Memory.from_defaults(
        "s", token_limit=2_000, services=Services(embedder=FakeEmbedder()), **settings,
        memory_blocks=[
            FactExtractionMemoryBlock(name="Facts", llm=facts, on_change="decide", deliver_on="turn"),
            GraphMemoryBlock(name="Relations", llm=relations, deliver_on="turn"),
            VectorMemoryBlock(name="Earlier"),
            *also,
        ],
    )  # fmt: skip
    for text in texts:
        memory.put_messages([ChatMessage(role="user", content=text), ChatMessage(role="assistant", content="Noted.")])
    memory.flush(all=True)
    return memory


def lines(memory, question=QUESTION):
    return next(m.content for m in memory.get(question) if "<memory>" in m.content).splitlines()


def line(memory, beginning):
    [one] = [one for one in lines(memory) if one.startswith(beginning)]
    return one


def test_a_fact_is_marked_whose_value_was_replaced_in_the_graph():
    memory = memory_of("I live in Porto.", "I live in Lisbon now.", facts=OnlyOf(RuleExtractor(), "Porto"))
    marked = line(memory, "<fact>The user lives in Porto")
    assert marked.endswith("<former>until turn 2; now: The user lives in Lisbon</former></fact>")
    assert "former" not in line(memory, "<relation>The user lives in Lisbon")


def test_a_relation_is_marked_whose_value_a_fact_replaced():
    memory = memory_of("I live in Porto.", "I live in Lisbon now.", relations=OnlyOf(RuleRelations(), "Porto"))
    marked = line(memory, "<relation>The user lives in Porto")
    assert marked.endswith("<former>until turn 2; now: The user lives in Lisbon</former></relation>")
    assert "former" not in line(memory, "<fact>The user lives in Lisbon")


def test_a_turn_and_a_sentence_that_only_a_fact_learned_from_are_marked_by_the_graph():
    memory = memory_of(
        "I moved to Porto.", "Yes, I live in Porto.", "I live in Lisbon now.",
        facts=OnlyOf(RuleExtractor(), "moved"), relations=OnlyOf(RuleRelations(), "live"),
        also=[SummaryMemoryBlock(name="Summary")],
    )  # fmt: skip
    assert "now: The user lives in Lisbon" in line(memory, "user: I moved to Porto.")
    assert "now: The user lives in Lisbon" in line(memory, "user: Yes, I live in Porto.")
    summary = [one for one in lines(memory) if one.startswith("The user") and "Porto" in one]
    assert summary
    assert all("<former>" in one for one in summary)
    assert "former" not in line(memory, "user: I live in Lisbon now.")


@pytest.mark.slow
def test_what_was_said_again_after_the_change_is_not_marked():
    texts = ("I live in Porto.", "I live in Lisbon now.", "Well, I live in Porto.")
    memory = memory_of(*texts, facts=OnlyOf(RuleExtractor(), "Porto"), relations=OnlyOf(RuleRelations(), "I live"))
    assert "former" not in line(memory, "<fact>The user lives in Porto")
    memory = memory_of(*texts, relations=OnlyOf(RuleRelations(), "Lisbon"))
    assert "now: The user lives in Porto" in line(memory, "<relation>The user lives in Lisbon")


@pytest.mark.slow
def test_marks_take_no_item_out_of_a_prompt(monkeypatch):
    texts = ("I live in Porto.", "I like figs.", "I live in Lisbon now.")
    sent = [one.split(" <former>")[0] for one in lines(memory_of(*texts, facts=OnlyOf(RuleExtractor(), "Porto")))]
    monkeypatch.setattr("memory_core.blocks.former_marks.former_values", lambda statements: [])
    unmarked = lines(memory_of(*texts, facts=OnlyOf(RuleExtractor(), "Porto")))
    assert Counter(sent) == Counter(one.removesuffix("</fact>") if "Porto</fact>" in one else one for one in unmarked)


def test_a_marked_relation_is_the_same_in_the_recorded_prompt_in_a_bundle_and_on_its_trace():
    memory = memory_of("I live in Porto.", "I live in Lisbon now.", relations=OnlyOf(RuleRelations(), "Porto"))
    sent = memory.get(QUESTION)
    record = memory.events(kinds=("context_built",))[-1]
    assert memory.log.prompt(record).messages[0].content == sent[0].content
    bundle = read_bundle(write_bundle(memory.session.database, "s"), "s.zip")
    database = Database.open(None)
    other = Memory.open(import_bundle(database, bundle), database, services=memory.session.services)
    record = other.events(kinds=("context_built",))[-1]
    assert other.log.prompt(record).messages[0].content == sent[0].content
    assert "until turn 2" in str(memory.trace("lives in Porto"))


def test_the_mark_of_what_the_next_flush_replaces_is_foretold():
    memory = memory_of(relations=OnlyOf(RuleRelations(), "Porto"), chat_history_token_ratio=0.02, token_flush_size=20)
    for text in ("I live in Porto.", "I live in Lisbon now."):
        memory.put(ChatMessage(role="user", content=text))
        memory.put(ChatMessage(role="assistant", content="All right."))
    question = ChatMessage(role="user", content="Where do I live now, and where did I live before all that?")
    foretold = memory.preview.next_prompt(message=question)
    memory.put(question)
    memory.deliver()
    assert "<former>" in str(foretold.context.messages)
    assert memory.build_context().messages == foretold.context.messages

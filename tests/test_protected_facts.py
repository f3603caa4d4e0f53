"""What a person wrote, imported, edited, confirmed or pinned: nothing automatic drops or rewords it."""

import threading

import pytest
from engine_fakes import NoteExtractor, assistant, note, on_file, open_memory, user
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_core import FactExtractionMemoryBlock, Memory, MessageError, Services
from memory_core.events import CondensingRefused, FactsCondensed
from memory_core.models.protocols import Condensation, CondensedFact
from memory_core.planning import curation as wish
from memory_core.planning.curation import ChangeSet, FactDraft
from memory_inspector.files.facts_file import plan_import, read_facts_file

LEARNT = ["My name is Chandra", "I live in Porto", "I like jazz", "I have two cats", "I work at Acme", "I hate fish"]
RECIPES = ["blocks", "user_memories", "consolidating", "self_editing"]
"""All recipes with facts."""


def curated(number):
    """Facts as a person keeps them, some of which what is said later contradicts or repeats."""
    places = ["Lisbon", "Oslo", "Rome", "Bern", "Prague"]
    forms = ["The user lives in {}", "The user likes {}", "Rui visited {}", "{} has a bridge", "Ana works in {}"]
    texts = [forms[n % 5].format(f"{places[n // 5 % 5]} {n // 25}") for n in range(number - 2)]
    return ["The user likes jazz", "The user has three cats", *texts]


def talk(memory, turns, *, flush=True):
    for turn in range(turns):
        memory.put(user(f"{LEARNT[turn % len(LEARNT)]}. In week {turn} I saw town {turn}."))
        memory.put(assistant("Noted."))
        if flush:
            memory.flush(all=True)


def facts_block(memory):
    return next(attached.name for attached in memory.blocks if attached.kind == "facts")


@pytest.mark.parametrize(
    "recipe", ["blocks", *(pytest.param(recipe, marks=pytest.mark.slow) for recipe in RECIPES[1:])]
)
@pytest.mark.parametrize(("number", "imported"), [pytest.param(227, True, marks=pytest.mark.slow), (120, False)])
def test_facts_of_a_person_survive_fifty_flushes(recipe, number, imported):
    with_user = {"user_id": "sam"} if recipe == "user_memories" else {}
    memory = Memory.from_recipe(recipe, "s", token_limit=4000, **with_user)
    name = facts_block(memory)
    memory.blocks.configure(name, max_facts=50, accept_short_term_memory=True)
    desk, texts = memory.facts.desk(name), curated(number)
    if imported:
        desk.apply(ChangeSet("import", tuple(FactDraft(text) for text in texts)))
    else:
        for text in texts:
            desk.apply(wish.add(text))
    talk(memory, 50)
    assert set(texts) <= {fact.text for fact in desk.facts(("active",))}


class Ruthless(NoteExtractor):
    """Keeps only what it is told to keep, and says the rest in one new sentence."""

    def condense(self, facts, *, pinned, target):
        kept = [CondensedFact(facts[index], stands_for=(index,)) for index in pinned]
        rest = tuple(index for index in range(len(facts)) if index not in pinned)
        return Condensation((*kept, CondensedFact("all the other notes", stands_for=rest)))


CHANGES = {
    "add": lambda facts, n: wish.add(f"written {n}"),
    "import": lambda facts, n: ChangeSet("import", (FactDraft(f"imported {n}"), FactDraft(f"imported {n} too"))),
    "edit": lambda facts, n: wish.edit(facts[n % len(facts)], f"edited {n}"),
    "pin": lambda facts, n: wish.pin([facts[n % len(facts)]]),
    "confirm": lambda facts, n: wish.accept([facts[n % len(facts)]]),
}


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["note", "note", "note", *CHANGES]), st.integers(0, 99)), max_size=30),
    st.integers(1, 6),
)
def test_whatever_a_person_touched_stays_word_for_word_and_the_rest_is_condensed(steps, max_facts):
    memory = open_memory(memory_blocks=[FactExtractionMemoryBlock(name="facts", llm=Ruthless(), max_facts=max_facts)])
    desk, kept = memory.facts.desk("facts"), {}
    for number, (step, pick) in enumerate(steps):
        if step == "note":
            memory.put(note(number))
            memory.flush(all=True)
        elif step in ("add", "import") or desk.facts(("active",)):
            try:
                done = desk.apply(CHANGES[step](desk.facts(("active",)), pick + 100 * number))
            except MessageError:
                continue  # pinned already
            kept |= {fact.id: fact.text for fact in desk.facts() if fact.id in done.ids("fact")}
    active = {fact.id: fact.text for fact in desk.facts(("active",))}
    assert kept.items() <= active.items()
    for record in memory.events(kinds=["facts_condensed"]):
        event = record.event
        assert isinstance(event, FactsCondensed)
        assert kept.keys().isdisjoint(event.vanished)


def test_facts_of_a_person_that_fill_the_limit_are_left_alone_without_asking_a_model():
    asked = []

    class Asked(NoteExtractor):
        def condense(self, facts, *, pinned, target):
            asked.append(facts)
            return super().condense(facts, pinned=pinned, target=target)

    memory = open_memory(memory_blocks=[FactExtractionMemoryBlock(name="facts", llm=Asked(), max_facts=5)])
    desk = memory.facts.desk("facts")
    desk.apply(ChangeSet("import", tuple(FactDraft(f"written {n}") for n in range(7))))
    effect = desk.limit_effect()
    assert (effect.facts, effect.protected, effect.filled, effect.proposed) == (7, 7, True, 10)
    memory.put(note(1))
    memory.flush(all=True)
    assert len(desk.facts(("active",))) == 8
    assert not asked
    (record,) = memory.events(kinds=["condensing_refused"])
    assert isinstance(record.event, CondensingRefused)
    assert (record.event.facts, record.event.max_facts) == (8, 5)


def test_learned_facts_are_condensed_around_those_of_a_person():
    memory = open_memory(memory_blocks=[FactExtractionMemoryBlock(name="facts", llm=NoteExtractor(), max_facts=6)])
    desk = memory.facts.desk("facts")
    desk.apply(ChangeSet("import", (FactDraft("written 1"), FactDraft("written 2"))))
    for number in range(5):
        memory.put(note(number))
    effect = desk.limit_effect()
    assert not effect.exceeded
    memory.flush(all=True)
    assert [fact.text for fact in desk.facts(("active",))] == [
        "written 1", "written 2", "note 0 was taken", "note 1 was taken",
    ]  # fmt: skip


def test_undoing_a_condensing_brings_back_all_that_it_dropped():
    memory = open_memory(memory_blocks=[FactExtractionMemoryBlock(name="facts", llm=NoteExtractor(), max_facts=3)])
    for number in range(5):
        memory.put(note(number))
    memory.flush(all=True)
    desk = memory.facts.desk("facts")
    (rewrite,) = desk.rewrites()
    assert (rewrite.before, rewrite.after, len(rewrite.vanished)) == (5, 2, 3)
    desk.apply(desk.refuse(rewrite))
    assert len(desk.facts(("active",))) == 5
    memory.put(note(9))
    memory.flush(all=True)  # what a person took back is a person's
    assert {f"note {number} was taken" for number in range(5)} <= {fact.text for fact in desk.facts(("active",))}


def test_what_is_said_later_stands_beside_a_written_fact_and_waits_for_review():
    memory = Memory.from_recipe("consolidating", "s", services=Services())
    name = facts_block(memory)
    desk = memory.facts.desk(name)
    desk.apply(wish.add("The user lives in Lisbon"))
    memory.put(user("I live in Porto now."))
    memory.flush(all=True)
    texts = {fact.text: fact for fact in desk.facts(("active",))}
    assert "The user lives in Lisbon" in texts
    (waiting,) = desk.review().facts
    assert "Porto" in waiting.text
    assert {flag.other for flag in desk.review().flags[waiting.id]} == {texts["The user lives in Lisbon"].id}


# -- importing -------------------------------------------------------------------------------------


def test_contradictions_and_near_duplicates_of_imported_facts_wait_for_review():
    memory = open_memory(memory_blocks=[FactExtractionMemoryBlock(name="facts", max_facts=50)])
    desk = memory.facts.desk("facts")
    desk.apply(wish.add("Ana lives in Bern"))
    texts = [
        "Rui lives in Oslo", "Rui lives in Madrid", "Ana lives in Rome", "The dinner is on 14 March",
        "The dinner is on 14 March upstairs", "Sam pays the bill",
    ]  # fmt: skip
    desk.apply(ChangeSet("import", tuple(FactDraft(text) for text in texts)))
    review = desk.review()
    kinds = {fact.text: {flag.kind for flag in review.flags[fact.id]} for fact in review.facts}
    assert kinds == {
        "Rui lives in Madrid": {"contradiction"},
        "Ana lives in Rome": {"contradiction"},
        "The dinner is on 14 March upstairs": {"near_duplicate"},
    }
    desk.undo()
    assert not desk.review().facts


@pytest.mark.slow
def test_a_file_of_ten_thousand_rows_half_of_them_doubles_in_three_scripts_is_imported():
    forms = ["Person {} lives in town {}", "Лев {} живёт в городе {}", "佐藤{}は町{}に住んでいる"]
    rows = [forms[n % 3].format(n, n) for n in range(5000)]
    data = "text\n" + "\n".join([*rows, *reversed(rows)])
    memory = open_memory(memory_blocks=[FactExtractionMemoryBlock(name="facts", llm=NoteExtractor(), max_facts=50)])
    desk = memory.facts.desk("facts")
    plan = plan_import(read_facts_file(data.encode(), filename="facts.csv"), desk.facts())
    assert (plan.importable, plan.total, len(plan.duplicates)) == (5000, 10_000, 5000)
    assert plan.change is not None
    desk.apply(plan.change)
    assert desk.limit_effect().proposed == 6260
    assert not desk.review().facts
    memory.put(note(1))
    memory.flush(all=True)
    assert len(desk.facts(("active",))) == 5001


# -- at once ---------------------------------------------------------------------------------------


class Paused(NoteExtractor):
    """Waits in its first condensing until it is let go."""

    def __init__(self):
        super().__init__()
        self.begun, self.go_on = threading.Event(), threading.Event()

    def condense(self, facts, *, pinned, target):
        self.begun.set()
        assert self.go_on.wait(20)
        return super().condense(facts, pinned=pinned, target=target)


@pytest.mark.parametrize(
    "change",
    [
        lambda facts: wish.pin(facts[-2:]),
        lambda facts: ChangeSet("import", tuple(FactDraft(f"imported {n}") for n in range(9))),
        lambda facts: wish.accept(facts[-2:]),
    ],
    ids=["pinned", "imported", "confirmed"],
)
def test_what_a_person_does_while_a_flush_condenses_is_respected(tmp_path, change):
    extractor = Paused()
    block = FactExtractionMemoryBlock(name="facts", llm=extractor, max_facts=5)
    memory = open_memory(database_uri=on_file(tmp_path), memory_blocks=[block], token_limit=4000)
    for number in range(4):
        memory.put(note(number))
    memory.flush(all=True)
    for number in range(4, 8):
        memory.put(note(number))
    flushing = threading.Thread(target=lambda: memory.flush(all=True))
    flushing.start()
    assert extractor.begun.wait(20)
    desk = memory.facts.desk("facts")
    done = desk.apply(change(desk.facts(("active",))))
    extractor.go_on.set()
    flushing.join(20)
    memory.session.retry()
    active = {fact.id for fact in desk.facts(("active",))}
    assert set(done.ids("fact")) <= active
    assert not memory.session.deliveries(states=("pending", "parked"))

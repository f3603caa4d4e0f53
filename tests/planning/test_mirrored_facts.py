"""What another memory knows is reached step by step, from whatever a session knew before."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_core import FactExtractionMemoryBlock, Memory, Services
from memory_core.engine.session import Session
from memory_core.planning import curation as plans
from memory_core.planning.curation import FactDraft
from memory_core.planning.fact_merging import Fact
from memory_inspector.files.mirroring import FACTS, MirroredFact, distinct, mirror_facts, plan_facts

KNOWN = {
    "scope": "session:s", "block": "b", "tokens": 1, "category": "other", "slot": None, "pinned": False,
    "origin": "written", "turn": 1, "created_at": 0.0, "confirmed_at": 0.0, "updated_at": 0.0, "version": 1,
    "sources": (),
}  # fmt: skip
STORES = st.lists(
    st.builds(
        MirroredFact,
        st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=4).map(tuple),
        active=st.booleans(),
        topics=st.sampled_from([(), ("x",), ("y",)]),
        id=st.sampled_from(["", "1", "2", "3"]),
    ),
    max_size=5,
)


def applied(known, steps):
    changed = {step.fact.id: step.after for step in steps if not isinstance(step, FactDraft)}
    after = [changed.get(fact.id, fact) for fact in known]
    new = [step for step in steps if isinstance(step, FactDraft)]
    after += [
        Fact(len(known) + n, text=step.text, state=step.state, topics=step.topics, metadata=step.metadata, **KNOWN)
        for n, step in enumerate(new, 1)
    ]
    active = [fact.text for fact in after if fact.state == "active"]
    assert len(set(active)) == len(active)  # no two active facts ever say the same: that would be refused
    return after


def reached(known, store):
    wanted = distinct(store)
    for _ in range(max((len(fact.texts) for fact in wanted), default=0) + 2):
        steps = plan_facts(known, wanted)
        if not steps:
            return known
        known = applied(known, steps)
    raise AssertionError("it never ends")


@given(STORES, STORES)
@settings(max_examples=100, deadline=None)
def test_from_whatever_was_known_the_active_facts_become_those_of_the_store(before, now):
    known = reached(reached([], before), now)
    assert {fact.text for fact in known if fact.state == "active"} == {each.texts[-1] for each in now if each.active}
    assert {each.texts[-1] for each in now} <= {fact.text for fact in known}
    labelled = {each.texts[-1]: each.topics for each in distinct(now) if each.active and each.topics}
    assert labelled.items() <= {fact.text: fact.topics for fact in known if fact.state == "active"}.items()


def test_a_fact_comes_with_every_text_it_had():
    chain = [MirroredFact(("a", "b", "c"))]
    (one,) = applied([], plan_facts([], chain))
    seen = [one.text]
    while steps := plan_facts([one], chain):
        (one,) = applied([one], steps)
        seen.append(one.text)
    assert seen == ["a", "b", "c"]


# -- where a person approves ---------------------------------------------------------------------


SERVICES = Services()


class Mirrored:
    """A session that mirrors a store, in a database of its own."""

    def __init__(self, *, approval):
        block = FactExtractionMemoryBlock(name=FACTS, accept_short_term_memory=False, approval=approval)
        self.memory = Memory.from_defaults("s", memory_blocks=[block], services=SERVICES)
        self.desk = self.memory.facts.desk(FACTS)

    def mirror(self, *facts):
        session = Session(self.memory.session.database, "s", services=SERVICES)
        session.open()
        mirror_facts(session, facts)
        assert not mirror_facts(session, facts), "the second time changes nothing"
        return {fact.text: fact.state for fact in self.desk.facts() if fact.state in ("active", "proposed")}

    def accept(self):
        if waiting := self.desk.facts(("proposed",)):
            self.desk.apply(plans.accept(waiting))


def test_under_approval_a_fact_that_is_back_waits_for_a_person_and_is_then_followed():
    one = Mirrored(approval=False)
    assert one.mirror(MirroredFact(("a",)), MirroredFact(("b",))) == {"a": "active", "b": "active"}
    one.mirror(MirroredFact(("b",)))
    one.memory.blocks.configure(FACTS, approval=True)
    assert one.mirror(MirroredFact(("a",)), MirroredFact(("b",))) == {"a": "proposed", "b": "active"}
    assert one.mirror(MirroredFact(("a", "c")), MirroredFact(("b",))) == {"c": "proposed", "b": "active"}
    one.accept()
    assert one.mirror(MirroredFact(("a", "c"))) == {"c": "active"}


def test_under_approval_the_former_words_stay_until_a_person_has_decided_on_the_new_ones():
    one = Mirrored(approval=False)
    one.mirror(MirroredFact(("a",), id="1"), MirroredFact(("p",)))
    one.memory.blocks.configure(FACTS, approval=True)
    now = MirroredFact(("b",), id="1"), MirroredFact(("p", "q"))
    assert one.mirror(*now) == {"a": "active", "b": "proposed", "p": "active", "q": "proposed"}
    by_text = {fact.text: fact for fact in one.desk.facts()}
    one.desk.apply(plans.supersede(by_text["a"], by_text["b"]))
    one.desk.apply(plans.reject([by_text["q"]]))
    assert one.mirror(*now) == {"b": "active", "p": "active"}
    assert one.mirror() == {}


@pytest.mark.parametrize("approval", [False, True])
def test_what_a_person_rejected_stays_rejected_and_the_rest_is_followed(approval):
    one = Mirrored(approval=approval)
    one.mirror(MirroredFact(("a",)))
    one.desk.apply(plans.reject(one.desk.facts()))
    one.mirror(MirroredFact(("a",)), MirroredFact(("b",)))
    one.accept()
    assert one.mirror(MirroredFact(("a", "c")), MirroredFact(("b",))) == {"b": "active"}
    assert "a" in {fact.text for fact in one.desk.facts(("rejected",))}


def test_a_proposal_that_the_store_lost_waits_no_longer():
    one = Mirrored(approval=True)
    assert one.mirror(MirroredFact(("a",)), MirroredFact(("b",))) == {"a": "proposed", "b": "proposed"}
    assert one.mirror(MirroredFact(("a",), active=False)) == {}


@pytest.mark.slow
@given(STORES, st.lists(STORES, min_size=1, max_size=3), st.booleans())
@settings(max_examples=60, deadline=None)
def test_whatever_a_person_has_accepted_of_a_store_is_what_it_has(before, stores, approval):
    one = Mirrored(approval=approval)
    one.mirror(*before)
    one.memory.blocks.configure(FACTS, approval=True)
    for store in stores:
        texts = {fact.texts[-1] for fact in distinct(store) if fact.active}
        assert texts <= one.mirror(*store).keys()
    one.accept()
    assert one.mirror(*stores[-1]) == dict.fromkeys(texts, "active")

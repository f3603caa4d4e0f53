"""What another memory knows is reached step by step, from whatever a session knew before."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from memory_core.attach.mirrored_facts import MirroredFact, distinct, plan_facts
from memory_core.planning.curation import New
from memory_core.planning.fact_merging import Fact

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
    changed = {step.fact.id: step for step in steps if not isinstance(step, New)}
    after = [
        replace(
            fact,
            text=step.text or fact.text,
            state=step.state or fact.state,
            topics=step.topics or fact.topics,
            metadata=step.metadata or fact.metadata,
        )
        if (step := changed.get(fact.id)) is not None
        else fact
        for fact in known
    ]
    new = [step for step in steps if isinstance(step, New)]
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

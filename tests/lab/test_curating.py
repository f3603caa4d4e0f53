"""What people change among facts is made again at its place: a session played again is the session, curated."""

import pytest
from engine_fakes import assistant, user
from fakes import FakeEmbedder
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from test_playing import SAID, player, prompts

from memory_core import Memory, MemoryInspectorError, Services
from memory_core.planning import curation as plans
from memory_inspector.lab.script import curated_facts, script_of
from memory_inspector.lab.variants import variant_of

CHANGES = {
    "add": lambda facts, pick: plans.add(f"Note {pick}"),
    "edit": lambda facts, pick: plans.edit(facts[pick % len(facts)], f"Reworded {pick}"),
    "merge": lambda facts, pick: plans.merge([facts[pick % len(facts)], facts[0]], f"Both {pick}"),
    "split": lambda facts, pick: plans.split(facts[pick % len(facts)], [f"Part {pick} a", f"Part {pick} b"]),
    "retire": lambda facts, pick: plans.retire([facts[pick % len(facts)]], "Private"),
    "reject": lambda facts, pick: plans.reject(facts[: 1 + pick % 2]),
    "restore": lambda facts, pick: plans.restore([facts[pick % len(facts)]]),
    "accept": lambda facts, pick: plans.accept([facts[pick % len(facts)]]),
    "pin": lambda facts, pick: plans.pin([facts[pick % len(facts)]]),
    "label": lambda facts, pick: plans.label([facts[pick % len(facts)]], topics=[f"topic {pick}"]),
    "supersede": lambda facts, pick: plans.supersede(facts[pick % len(facts)], facts[0]),
}

moves = st.lists(
    st.tuples(st.sampled_from(["turn", "turn", "turn", "flush", "undo", *CHANGES]), st.integers(0, 8)),
    min_size=6,
    max_size=24,
)


def curated(limit, steps):
    memory = Memory.from_recipe("blocks", "s", token_limit=limit, services=Services(embedder=FakeEmbedder()))
    name = next(attached.name for attached in memory.blocks if attached.kind == "facts")
    memory.blocks.configure(name, deliver_on="turn", max_facts=6)
    for move, pick in steps:
        desk = memory.facts.desk(name)
        if move == "turn":
            memory.put(user(SAID[pick % len(SAID)]))
            memory.build_context()
            memory.put(assistant("Noted."))
        elif move == "flush":
            memory.flush()
        else:
            try:
                desk.undo() if move == "undo" else desk.apply(CHANGES[move](desk.facts(), pick))
            except (MemoryInspectorError, IndexError, ZeroDivisionError):
                continue  # nothing there that could be changed so
    return memory, name


@settings(
    max_examples=10, deadline=None, phases=(Phase.explicit, Phase.generate), suppress_health_check=list(HealthCheck)
)
@given(st.integers(90, 400), moves)
@pytest.mark.slow
def test_a_curated_session_played_again_under_its_own_configuration_is_the_session(limit, steps):
    memory, name = curated(limit, steps)
    one = player().play(script_of(memory), variant_of(memory))
    if any(record.kind == "fact_erased" for record in memory.events()):
        return  # by the undo of what added it: without its words it cannot be made again
    assert not [said for said in one.unknown if "again" in said and "facts" in said]
    assert prompts(one.memory) == prompts(memory)
    undone = any(move == "undo" for move, _ in steps)  # which takes support away, and is no part of a prompt
    facts = [
        [
            (fact.text, fact.state, fact.pinned, fact.topics, undone or [seq for _, seq in fact.sources])
            for fact in each.facts.read(name, states=None)
        ]
        for each in (one.memory, memory)
    ]
    assert facts[0] == facts[1]


def test_only_what_a_person_changed_is_a_step_and_it_says_the_words():
    memory, name = curated(400, [("turn", 0), ("turn", 1), ("pin", 0), ("add", 3)])
    made = list(curated_facts(memory, memory.events()).values())
    assert [(each.block, each.action) for each in made] == [(name, "pin"), (name, "add")]
    assert made[1].changes[0].before is None
    assert made[1].changes[0].after.text == "Note 3"
    steps = script_of(memory).steps
    assert [step.does for step in steps][-2:] == ["curate", "curate"]
    assert script_of(memory).by_people == sum(
        r.kind == "block_edited" for r in memory.events() if r.actor == "user" and r.turn
    )

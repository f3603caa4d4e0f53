"""Undo, the same for facts, graphs and texts: what was done to something can be undone while that stands as it left
it, whatever was done to others since."""

import pytest
from graph_fakes import graph_memory
from hypothesis import given, settings
from hypothesis import strategies as st
from test_curation import known

from memory_core.blocks.static import StaticMemoryBlock
from memory_core.errors import ConflictError, NotFoundError
from memory_core.planning import curation as plans

THREE = "Ana | likes | tea; Rui | likes | fado; Eva | likes | rain"


class Things:
    """Three things that can be changed; `change` and `undo` give what undoes them."""

    def records(self):
        return self.memory.events(kinds=[self.kind])

    def stored(self):
        return self.state(), self.memory.session.status().position

    def undo(self, number):
        change = self.desk.undo(number)
        return change.undone_by or change.number


class Facts(Things):
    kind = "facts_curated"

    def __init__(self):
        self.memory, self.desk = known("likes tea", "likes fado", "likes rain")

    def state(self):
        return [(f.text, f.state, f.pinned, f.category, f.sources) for f in self.desk.facts()]

    def done(self, things, said):
        facts = self.desk.facts()
        return self.desk.apply(plans.together("edit", *(plans.edit(facts[i], f"{said} {i}") for i in things)))

    def change(self, thing, said):
        return self.done([thing], said).number


class Graph(Things):
    kind = "graph_curated"

    def __init__(self):
        self.memory = graph_memory(THREE)
        self.desk = self.memory.blocks.graph()

    def state(self):
        graph = self.desk.graph()
        return [
            (graph.describe(r), r.state, r.ended_turn, r.ended_by, r.sources)
            for _, r in sorted(graph.relations.items())
        ]

    def done(self, things, said):
        relations = [relation for _, relation in sorted(self.desk.graph().relations.items())]
        chosen = [relations[i] for i in things]
        if len(chosen) == 1:
            return self.desk.edit(chosen[0], predicate=said)
        active = [relation for relation in chosen if relation.state == "active"]
        return self.desk.end(active) if active else self.desk.reactivate(chosen)

    def change(self, thing, said):
        return self.done([thing], said).number


class Texts(Things):
    kind = "block_edited"

    def __init__(self):
        self.memory, _ = known()
        for name, text in (("0", "likes tea"), ("1", "likes fado"), ("2", "likes rain")):
            self.memory.blocks.add(StaticMemoryBlock(name=name, static_content=text))

    def state(self):
        return [block.state for block in self.memory.blocks if block.kind == "static"]

    def change(self, thing, said):
        before = next(block.record.revision for block in self.memory.blocks if block.name == str(thing))
        return str(thing), before, self.memory.blocks.edit(str(thing), said)

    def undo(self, number):
        name, before, after = number
        return name, after, self.memory.blocks.restore(name, before, revision=after)


every = pytest.mark.parametrize("kind", [Facts, Graph, Texts])


@every
def test_undoing_the_last_change_gives_everything_back(kind):
    things = kind()
    before = things.state()
    things.undo(things.change(0, "adores"))
    assert things.state() == before


@every
def test_an_older_change_is_undone_and_later_ones_of_other_things_stay(kind):
    things, other = kind(), kind()
    first = things.change(0, "adores")
    for each in (things, other):
        each.change(1, "hates")
        each.change(2, "sings")
    things.undo(first)
    assert things.state() == other.state()


@every
def test_what_was_changed_since_is_named_with_who_did_it_and_nothing_is_stored(kind):
    things = kind()
    first = things.change(0, "adores")
    things.change(0, "hates")
    before = things.stored()
    with pytest.raises(ConflictError, match=r"^.+ was changed since by a person( in turn \d)?.*\. Nothing was \w+\.$"):
        things.undo(first)
    assert things.stored() == before


@every
def test_what_lies_below_can_be_undone_once_what_came_after_is(kind):
    things = kind()
    before = things.state()
    first, second = things.change(0, "adores"), things.change(0, "hates")
    things.undo(second)
    if kind is Texts:
        first = (*first[:2], 4)  # a text goes by its newest revision
    things.undo(first)
    assert things.state() == before


@every
def test_an_undo_can_be_undone_and_that_again(kind):
    things = kind()
    before = things.state()
    change = things.change(0, "adores")
    after = things.state()
    for expected in (before, after, before, after):
        change = things.undo(change)
        assert things.state() == expected


@every
def test_the_log_has_every_change_and_every_undo(kind):
    things = kind()
    told = len(things.records())
    things.undo(things.undo(things.change(0, "adores")))
    records = things.records()[told:]
    assert [record.actor for record in records] == ["user"] * 3
    if kind is not Texts:
        assert [(r.event.undoes is not None, r.event.again) for r in records] == [
            (False, False),
            (True, False),
            (True, True),
        ]


ledgers = pytest.mark.parametrize("kind", [Facts, Graph])


@ledgers
def test_a_change_is_undone_once_and_only_if_there_is_one_of_its_number(kind):
    things = kind()
    number = things.change(0, "adores")
    undo = things.undo(number)
    before = things.stored()
    with pytest.raises(ConflictError, match=r"^This was undone already\.$"):
        things.undo(number)
    things.undo(undo)
    with pytest.raises(ConflictError, match=r"^This was undone already\.$"):
        things.undo(undo)
    with pytest.raises(NotFoundError, match="There is no change set 999"):
        things.undo(999)
    assert things.stored()[0] != before[0]


@ledgers
def test_every_change_says_whether_it_can_be_undone_and_what_stands_against_it(kind):
    things = kind()
    things.change(0, "adores")
    things.change(0, "hates")
    last = things.change(1, "sings")
    things.undo(last)
    told = [(change.undone, bool(change.obstacle)) for change in things.desk.changes()]
    assert told == [(True, False), (False, False), (False, True)]


@pytest.mark.slow
@ledgers
@settings(max_examples=25)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("change"), st.sets(st.integers(0, 2), min_size=1).map(sorted)),
            st.tuples(st.just("undo"), st.integers(0, 5)),
        ),
        max_size=9,
    )
)
def test_a_change_can_be_undone_just_when_its_things_stand_as_it_left_them(kind, steps):
    things = kind()
    stands = {}  # by thing: which change set left it so; one that is undone gives back what was before
    done = []  # number, undo, and thing by thing what was before and after
    looked = {}  # how all looked, by how they stood
    for n, (step, what) in enumerate([*steps, *(("undo", which) for which in range(9))]):
        if step == "change":
            change = things.done(what, f"word{n}")
            done.append([change.number, None, {thing: (stands.get(thing), n) for thing, _, _ in change.event.rows}])
            stands |= {thing: after for thing, (_, after) in done[-1][2].items()}
        elif done:
            number, undo, left = entry = done[what % len(done)]
            possible = all(stands.get(thing) == (old if undo else new) for thing, (old, new) in left.items())
            listed = next(change for change in things.desk.changes() if change.number == number)
            assert (listed.undone, not listed.obstacle) == (undo is not None, possible)
            if possible:
                back = things.undo(undo or number)
                entry[1] = None if undo else back
                stands |= {thing: (new if undo else old) for thing, (old, new) in left.items()}
            else:
                with pytest.raises(ConflictError, match="was changed since"):
                    things.undo(undo or number)
        now = frozenset((thing, left) for thing, left in stands.items() if left is not None)
        assert looked.setdefault(now, things.state()) == things.state()

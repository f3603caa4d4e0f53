"""The desk of a graph: looking, paths, and a person's changes with their undo."""

import re

import pytest
from graph_fakes import graph_at, graph_memory, lines, say, seen, shown
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_core.blocks.graph import GraphMemoryBlock
from memory_core.curation.graph_desk import NamedRelation
from memory_core.errors import ConfigError, ConflictError, MessageError, NotFoundError
from memory_core.events import GraphCurated
from memory_core.planning import graph_changes as plans
from memory_core.planning.graph_rules import Graph, Path, PathStep, normal_name, normal_predicate

ALPHA = "Alice | manages | Project Alpha; Project Alpha | deadline | March 2026"


@pytest.fixture
def memory():
    return graph_memory(ALPHA + "; Ana | brother | Rui; Ana | lives in | Lisbon; Rui | lives in | Lisbon")


def told(memory, start, end, **options):
    desk = memory.blocks.graph()
    return [desk.describe(path) for path in desk.paths(start, end, **options)]


def relation(memory, text):
    """The one relation that says it, in whatever state."""
    graph = memory.blocks.graph().graph()
    return next(each for each in graph.relations.values() if graph.describe(each) == text)


# -- looking -------------------------------------------------------------------------------------


def test_relations_by_name_by_predicate_and_all(memory):
    desk = memory.blocks.graph()
    assert [desk.graph().describe(each) for each in desk.relations("alice")] == ["Alice → manages → Project Alpha"]
    assert len(desk.relations("the project alpha")) == 2
    assert len(desk.relations(type="LIVES_IN")) == 2
    assert len(desk.relations("Rui", type="lives in")) == 1
    assert len(desk.relations()) == 5
    with pytest.raises(NotFoundError, match='Nothing in this graph is called "Bob"'):
        desk.relations("Bob")


def test_the_deadline_of_what_alice_manages_is_two_steps_away(memory):
    assert told(memory, "Alice", "March 2026") == ["Alice → manages → Project Alpha → deadline → March 2026"]
    assert told(memory, "march 2026", "alice") == ["March 2026 ← deadline ← Project Alpha ← manages ← Alice"]


def test_paths_are_told_shortest_first_and_end_where_relations_do(memory):
    both = ["Ana → brother → Rui", "Ana → lives in → Lisbon ← lives in ← Rui"]
    assert told(memory, "Ana", "Rui") == both
    assert told(memory, "Ana", "Rui", most=1) == both[:1]
    assert told(memory, "Ana", "Rui", hops=1) == both[:1]
    memory.blocks.graph().end([relation(memory, both[0])])
    assert told(memory, "Ana", "Rui") == both[1:]
    assert told(memory, "Ana", "Alice") == []
    assert told(memory, "Ana", "Ana") == []


def test_a_path_of_impossible_length_is_an_error(memory):
    with pytest.raises(ConfigError, match="hops must be 1 to 6, not 7"):
        memory.blocks.graph().paths("Ana", "Rui", hops=7)
    with pytest.raises(ConfigError, match="most"):
        memory.blocks.graph().paths("Ana", "Rui", most=0)


def walks(relations, start, end, hops):
    """Every way without a repeated entity, by trying them all."""
    found, border = [], [((start,), ())]
    for _ in range(hops):
        longer = []
        for visited, steps in border:
            for each in relations:
                for here, there, forward in ((each.subject, each.object, True), (each.object, each.subject, False)):
                    if here == visited[-1] and there not in visited:
                        longer.append(((*visited, there), (*steps, PathStep(each.id, forward))))
        found += [Path(start, steps) for visited, steps in longer if visited[-1] == end]
        border = [walk for walk in longer if walk[0][-1] != end]
    return found


@settings(max_examples=12)
@given(st.lists(st.tuples(*[st.sampled_from("ABCDEF")] * 2), max_size=12), st.integers(1, 6))
def test_every_way_is_found_cycles_or_not(pairs, hops):
    memory = graph_memory()
    desk = memory.blocks.graph()
    desk.add_many([NamedRelation("A", "p", "F"), *(NamedRelation(one, "p", other) for one, other in pairs)])
    start, end = desk.entity("A").id, desk.entity("F").id
    ways = walks([each for each in desk.relations() if each.state == "active"], start, end, hops)
    paths = desk.paths("A", "F", hops=hops, most=10_000)
    assert len(paths) == len(set(paths)) == len(ways)
    assert set(paths) == set(ways)
    assert [len(path.steps) for path in paths] == sorted(len(path.steps) for path in ways)
    assert [len(p.steps) for p in desk.paths("A", "F", hops=hops, most=2)] == [len(p.steps) for p in paths[:2]]


def test_a_session_without_a_graph_says_so():
    from engine_fakes import blocks, open_memory

    with pytest.raises(NotFoundError, match="no graph block"):
        open_memory(memory_blocks=[]).blocks.graph()
    with pytest.raises(ConfigError, match='"facts" holds no graph'):
        open_memory("other", memory_blocks=[*blocks(), GraphMemoryBlock(name="graph")]).blocks.graph("facts")


# -- changing ------------------------------------------------------------------------------------


def test_a_relation_is_added_in_a_persons_words_and_undone(memory):
    before = seen(memory)
    change = memory.blocks.graph().add("Eva", "sister", "Ana", ("person", "person"))
    assert (change.number, change.action, change.sentence) == (1, "add", "Added Eva → sister → Ana.")
    assert memory.blocks.graph().entity("eva").origin == "written"
    assert memory.blocks.graph().undo().undone
    assert seen(memory) == before
    assert memory.blocks.graph().undo() is None
    with memory.session.database.read() as connection:
        from memory_core.store.tables import content_table

        assert not {"Eva", "sister"} & set(connection.execute(content_table.select()).scalars("data"))


@pytest.mark.parametrize(
    ("wish", "sentence"),
    [
        (("Ana", "knows", "ana"), "A relation needs two different entities."),
        (("Ana", "brother", "Rui"), "This relation is there already."),
        (("", "brother", "Rui"), "An entity needs a name."),
        (("Ana", " ", "Rui"), "Say what joins the two: lives in, manages, deadline."),
        (("x" * 81, "brother", "Rui"), "A name may have 80 characters, not 81."),
        (("Ana", "same as", "Rui"), "Two names of one entity are no relation. Merge the two instead."),
    ],
)
def test_an_impossible_relation_is_refused_and_nothing_changes(memory, wish, sentence):
    before = seen(memory), len(memory.events())
    with pytest.raises(MessageError) as error:
        memory.blocks.graph().add(*wish)
    assert str(error.value) == sentence
    assert (seen(memory), len(memory.events())) == before


def test_a_preview_shows_the_context_as_the_change_will_make_it_and_changes_nothing(memory):
    desk, asked = memory.blocks.graph(), "Where does Ana live?"
    before = seen(memory), memory.session.status().position
    plan = plans.edit(desk.graph(), relation(memory, "Ana → lives in → Lisbon"), None, None, "Porto")
    foretold = desk.preview(plan, asked).messages[0].content
    assert (seen(memory), memory.session.status().position) == before
    desk.edit(relation(memory, "Ana → lives in → Lisbon"), object="Porto")
    assert "Ana lives in Porto" in foretold
    assert memory.build_context(asked, record=False).messages[0].content == foretold


def test_editing_keeps_the_sources_and_points_elsewhere(memory):
    desk = memory.blocks.graph()
    change = desk.edit(relation(memory, "Ana → brother → Rui"), predicate="cousin", object="Eva")
    assert change.action == "edit"
    assert relation(memory, "Ana → cousin → Eva").sources == (("s", 1),)
    with pytest.raises(MessageError, match="already"):
        desk.edit(relation(memory, "Ana → cousin → Eva"), object="eva")
    with pytest.raises(MessageError, match="two different entities"):
        desk.edit(relation(memory, "Ana → cousin → Eva"), object="Ana")


def test_another_home_by_hand_ends_the_former_and_undo_brings_it_back(memory):
    before = seen(memory)
    memory.blocks.graph().add("Ana", "lives in", "Porto")
    assert relation(memory, "Ana → lives in → Lisbon").state == "ended"
    memory.blocks.graph().undo()
    assert seen(memory) == before


def test_ending_holding_and_retiring(memory):
    desk = memory.blocks.graph()
    home = "Ana → lives in → Lisbon"
    desk.end([relation(memory, home)])
    ended = relation(memory, home)
    assert (ended.state, ended.ended_turn, ended.ended_by) == ("ended", 1, None)
    with pytest.raises(MessageError, match="None of these relations holds"):
        desk.end([ended])
    assert desk.reactivate([ended]).sentence == f"Took up again {home}."
    assert relation(memory, home).ended_turn is None
    desk.retire([relation(memory, home), relation(memory, "Rui → lives in → Lisbon")])
    assert lines(memory) == [
        "Alice → manages → Project Alpha",
        "Project Alpha → deadline → March 2026",
        "Ana → brother → Rui",
    ]
    say(memory, "Ana | lives in | Lisbon")
    assert relation(memory, home).state == "retired"


def test_removing_an_entity_removes_its_relations_and_keeps_it_away(memory):
    desk = memory.blocks.graph()
    before = seen(memory)
    assert len(desk.remove([desk.entity("Ana")]).ids("relation")) == 2
    say(memory, "Ana | likes | tea")
    with pytest.raises(NotFoundError):
        desk.entity("Ana")
    desk.undo()
    assert seen(memory) == before
    desk.remove([desk.entity("Ana")])
    desk.add("Ana", "likes", "tea")
    assert desk.entity("Ana").state == "active"


def test_what_was_removed_comes_back_with_a_relation_unless_its_name_is_taken(memory):
    desk = memory.blocks.graph()
    desk.remove([desk.entity("Alice")])
    desk.reactivate([relation(memory, "Alice → manages → Project Alpha")])
    assert desk.entity("Alice").state == "active"
    desk.undo()
    desk.rename(desk.entity("Rui"), "Alice")
    with pytest.raises(MessageError, match='Another entity is called "Alice" by now'):
        desk.reactivate([relation(memory, "Alice → manages → Project Alpha")])


def test_a_renamed_entity_is_still_found_by_its_former_name(memory):
    desk = memory.blocks.graph()
    renamed = desk.rename(desk.entity("Ana"), "Ana Lima", "person")
    assert [renamed.sentence, desk.changes()[0].sentence] == ["Renamed Ana to Ana Lima."] * 2
    assert desk.undo().sentence == "Renamed Ana to Ana Lima."
    desk.rename(desk.entity("Ana"), "Ana Lima", "person")
    assert (desk.entity("ana").name, desk.entity("Ana Lima").type) == ("Ana Lima", "person")
    desk.rename(desk.entity("Ana"), aliases=["Anita"])
    with pytest.raises(NotFoundError):
        desk.entity("Ana")
    with pytest.raises(MessageError, match='"rui" already'):
        desk.rename(desk.entity("Anita"), "rui")
    with pytest.raises(MessageError, match="no kind"):
        desk.rename(desk.entity("Anita"), type="dragon")
    with pytest.raises(MessageError, match="called so already"):
        desk.rename(desk.entity("Anita"), "Ana Lima")


def test_a_merge_points_relations_elsewhere_and_drops_none(memory):
    desk = memory.blocks.graph()
    before = seen(memory)
    count = len(desk.graph().relations)
    change = desk.merge([desk.entity("Rui")], desk.entity("Ana"))
    assert change.sentence == "Merged Rui into Ana."
    graph = desk.graph()
    assert len(graph.relations) == count
    assert desk.entity("rui").name == "Ana"
    assert sorted(
        (r.state, graph.describe(r), r.sources)
        for r in desk.graph().relations.values()
        if r.subject == desk.entity("Ana").id
    ) == [
        ("active", "Ana → lives in → Lisbon", (("s", 1),)),
        ("retired", "Ana → brother → Ana", (("s", 1),)),
        ("retired", "Ana → lives in → Lisbon", (("s", 1),)),
    ]
    with pytest.raises(MessageError, match="at least two"):
        desk.merge([desk.entity("Ana")], desk.entity("Ana"))
    desk.undo()
    assert seen(memory) == before


def test_of_two_that_say_the_same_the_one_that_stays_has_the_sources_of_both():
    memory = graph_memory("Bob | likes | tea")
    say(memory, "Robert | likes | tea")
    before = seen(memory)
    desk = memory.blocks.graph()
    desk.merge([desk.entity("Bob")], desk.entity("Robert"))
    (kept,) = desk.relations("tea")
    assert kept.sources == (("s", 1), ("s", 3))
    desk.undo()
    assert seen(memory) == before


def test_relations_from_elsewhere_come_as_one_change_set(memory):
    desk = memory.blocks.graph()
    before = seen(memory)
    given = [
        NamedRelation("Ana", "brother", "Rui"),
        NamedRelation("Eva", "likes", "tea", "person"),
        NamedRelation("Eva", "likes", "eva"),
    ]
    change = desk.add_many(given, aliases={"Eva": ["Evita", "Rui"], "Nobody": ["N"]})
    assert (change.action, len(change.ids("relation"))) == ("import", 1)
    assert (desk.entity("evita").name, desk.entity("evita").type, desk.entity("Rui").name) == ("Eva", "person", "Rui")
    assert desk.add_many(given) is None
    desk.undo()
    assert seen(memory) == before


# -- undo ----------------------------------------------------------------------------------------


def test_a_change_set_is_undone_by_its_number_and_only_once(memory):
    desk = memory.blocks.graph()
    desk.add("Eva", "sister", "Ana")
    desk.end([relation(memory, "Ana → brother → Rui")])
    assert desk.undo(1).number == 1
    assert [(change.number, change.undone) for change in desk.changes()] == [(2, False), (1, True)]
    with pytest.raises(ConflictError, match="undone already"):
        desk.undo(1)
    with pytest.raises(NotFoundError):
        desk.undo(9)
    numbers = [record.event.number for record in memory.events(kinds=(GraphCurated.kind,))]
    assert numbers == [1, 2, 3]


def test_what_was_changed_since_by_somebody_else_is_not_undone(memory):
    desk = memory.blocks.graph()
    desk.edit(relation(memory, "Ana → lives in → Lisbon"), object="Faro")
    say(memory, "Ana | lives in | Porto")
    before = seen(memory), len(memory.events())
    with pytest.raises(ConflictError, match='"Ana → lives in → Faro" was changed since by the engine'):
        desk.undo()
    assert (seen(memory), len(memory.events())) == before


def test_an_added_entity_that_is_spoken_of_since_stays(memory):
    desk = memory.blocks.graph()
    desk.add("Eva", "sister", "Ana")
    say(memory, "Eva | likes | tea")
    before = seen(memory)
    with pytest.raises(ConflictError, match="learned since about an entity"):
        desk.undo()
    assert seen(memory) == before


def test_an_undo_never_makes_two_of_one(memory):
    desk = memory.blocks.graph()
    desk.end([relation(memory, "Ana → brother → Rui")])
    say(memory, "Ana | brother | Rui")
    with pytest.raises(ConflictError, match='Another relation says "Ana brother Rui" by now'):
        desk.undo()
    desk.rename(desk.entity("Alice"), "Alicia", aliases=[])
    say(memory, "Alice | likes | tea")
    with pytest.raises(ConflictError, match='Another entity is called "Alice" by now'):
        desk.undo()


def test_an_edit_of_what_was_changed_elsewhere_is_refused(memory):
    desk = memory.blocks.graph()
    stale, person = relation(memory, "Ana → brother → Rui"), desk.entity("Ana")
    desk.end([stale])
    desk.rename(person, "Ana Lima")
    before = seen(memory)
    for wish in (
        lambda: desk.edit(stale, predicate="cousin"),
        lambda: desk.end([stale]),
        lambda: desk.reactivate([stale]),
        lambda: desk.retire([stale]),
        lambda: desk.rename(person, "Anna"),
        lambda: desk.merge([person], desk.entity("Rui")),
        lambda: desk.remove([person]),
    ):
        with pytest.raises(ConflictError, match="changed elsewhere"):
            wish()
    assert seen(memory) == before


NAMES = ["Alice", "Bob", "Project Alpha", "Lisbon", "Rui", "Eva"]
edits = st.one_of(
    st.tuples(st.just("add"), st.sampled_from(NAMES), st.sampled_from(["lives in", "likes"]), st.sampled_from(NAMES)),
    st.tuples(st.sampled_from(["end", "reactivate", "retire"]), st.integers(0, 9), st.integers(0, 9)),
    st.tuples(st.just("edit"), st.integers(0, 9), st.sampled_from(["likes", "works at"]), st.sampled_from(NAMES)),
    st.tuples(st.just("rename"), st.integers(0, 9), st.sampled_from([*NAMES, "Zoe"])),
    st.tuples(st.just("merge"), st.integers(0, 9), st.integers(0, 9)),
    st.tuples(st.just("remove"), st.integers(0, 9)),
)


def do(desk, edit):
    """An edit of whatever is there; one that is impossible changes nothing."""
    graph = desk.graph()
    relations = sorted(graph.relations.values(), key=lambda each: each.id)
    entities = sorted((e for e in graph.entities.values() if e.state == "active"), key=lambda each: each.id)

    def pick(things, place):
        return things[place % len(things)]

    name, *given = edit
    if name != "add" and not (relations and entities):
        return
    try:
        if name == "add":
            desk.add(*given)
        elif name in ("end", "reactivate", "retire"):
            getattr(desk, name)([pick(relations, place) for place in given])
        elif name == "edit":
            desk.edit(pick(relations, given[0]), predicate=given[1], object=given[2])
        elif name == "rename":
            desk.rename(pick(entities, given[0]), given[1])
        elif name == "merge":
            desk.merge([pick(entities, given[0])], pick(entities, given[1]))
        else:
            desk.remove([pick(entities, given[0])])
    except MessageError:
        return


@settings(max_examples=12)
@given(st.lists(edits, max_size=8), st.randoms(use_true_random=False))
@pytest.mark.slow
def test_any_edits_and_as_many_undos_give_the_graph_back(several, random):
    memory = graph_memory(
        "Alice | lives in | Lisbon; Bob | lives in | Lisbon; Bob | knows | Alice; Rui | married to | Eva"
    )
    desk = memory.blocks.graph()
    stood = [seen(memory)]
    for edit in several:
        number = len(desk.changes())
        do(desk, edit)
        if len(desk.changes()) > number:
            stood.append(seen(memory))
        elif random.random() < 0.3 and desk.undo() is not None:
            stood.pop()
            assert seen(memory) == stood[-1]
    while desk.undo() is not None:
        stood.pop()
        assert seen(memory) == stood[-1]
    assert len(stood) == 1


sayings = st.tuples(
    st.just("say"),
    st.sampled_from(NAMES),
    st.sampled_from(["lives in", "likes", "same as", "married to"]),
    st.sampled_from(NAMES),
    st.sampled_from(["", " | ended"]),
)
undos = st.one_of(st.tuples(st.just("undo")), st.tuples(st.just("undo"), st.integers(1, 9)))


@settings(max_examples=12)
@given(st.lists(st.one_of(edits, sayings, undos, st.tuples(st.just("forget"))), max_size=12))
@pytest.mark.slow
def test_whatever_is_said_done_undone_and_forgotten_the_graph_is_in_order_and_the_log_tells_it(several):
    memory = graph_memory("Alice | lives in | Lisbon; Bob | knows | Alice")
    for name, *what in several:
        before = seen(memory)
        if name == "say":
            say(memory, " | ".join(what[:3]) + what[3])
        elif name == "forget":
            memory.reset("archived")
        elif name != "undo":
            do(memory.blocks.graph(), (name, *what))
        else:
            try:
                memory.blocks.graph().undo(*what)
            except (ConflictError, NotFoundError):
                assert seen(memory) == before
    check_in_order(memory.blocks.graph().graph())
    hashes = re.findall(r"[0-9a-f]{32}", " ".join(record.event.to_json() for record in memory.events()))
    past = graph_at(memory.events(), None, memory.log.texts(hashes).get)
    assert shown(past.get("graph", Graph())) == seen(memory)


def check_in_order(graph):
    called = [normal_name(entity.name) for entity in graph.entities.values() if entity.state == "active"]
    assert len(called) == len(set(called))
    assert all(called)
    active = [relation for relation in graph.relations.values() if relation.state == "active"]
    assert all(graph.entities[end].state == "active" for each in active for end in (each.subject, each.object))
    keys = [(each.subject, normal_predicate(each.predicate), each.object) for each in active]
    assert len(keys) == len(set(keys))
    assert all(each.subject != each.object for each in active)
    assert all((each.ended_turn is None) == (each.state != "ended") for each in graph.relations.values())

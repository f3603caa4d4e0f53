"""What the Graph page shows and says, from graphs as values."""

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_core.history.usage import BlockUse
from memory_core.planning.graph_rules import Entity, Graph, Path, PathStep, Relation
from memory_core.store.block_rows import Holding
from memory_inspector.figures import graph_figure as figures
from memory_inspector.files.graph_files import file_of, read_graph_file, write_graph
from memory_inspector.palette import PALETTES
from memory_inspector.reading import graph_neighbourhood as neighbourhood
from memory_inspector.reading.graph_neighbourhood import (
    RelationSource,
    entity_label,
    entity_lines,
    how_many,
    number_rows,
    opening,
    relation_words,
    source_line,
    state_line,
    way,
)
from memory_inspector.wording.block_kinds import kinds as block_kinds
from memory_inspector.wording.block_kinds import make, settings_of
from memory_inspector.wording.block_text import Standing, card
from ui.graph.graph_dialogs import planned_import, preview


def entity(id, name, type="person", aliases=(), state="active", merged_into=None):
    return Entity(
        id=id,
        scope="session:s",
        block="Relations",
        name=name,
        aliases=tuple(aliases),
        type=type,
        state=state,
        merged_into=merged_into,
        origin="extracted",
        turn=1,
        created_at=0.0,
        updated_at=0.0,
        version=1,
    )


def relation(id, subject, predicate, object, state="active", turn=3, **values):
    standard = {"ended_turn": None, "ended_by": None, "origin": "extracted", "sources": (("s", turn),)}
    return Relation(
        id=id,
        scope="session:s",
        block="Relations",
        subject=subject,
        predicate=predicate,
        object=object,
        state=state,
        turn=turn,
        created_at=0.0,
        confirmed_at=0.0,
        updated_at=0.0,
        version=1,
        **(standard | values),
    )


def graph(entities, relations):
    return Graph({each.id: each for each in entities}, {each.id: each for each in relations})


ANA, RUI, LISBON, PORTO, NUTS, FISH, BEA, CARLOS = range(1, 9)
FAMILY = graph(
    [
        entity(ANA, "Ana", aliases=["Anita"]),
        entity(RUI, "Rui"),
        entity(LISBON, "Lisbon", "place"),
        entity(PORTO, "Porto", "place"),
        entity(NUTS, "nuts", "thing"),
        entity(FISH, "fish", "thing"),
        entity(BEA, "Bea"),
        entity(CARLOS, "Carlos", "spaceship"),
        entity(20, "Anna", state="merged", merged_into=ANA),
        entity(21, "Gone", state="retired"),
    ],
    [
        relation(1, ANA, "brother", RUI, sources=(("s", 3), ("s", 7))),
        relation(2, ANA, "lives in", LISBON, "ended", 2, ended_turn=9, ended_by=3),
        relation(3, ANA, "lives in", PORTO, turn=9),
        relation(4, ANA, "allergic to", NUTS),
        relation(5, RUI, "allergic to", FISH),
        relation(6, BEA, "married to", CARLOS),
        relation(7, ANA, "knows", BEA, "retired"),
    ],
)


def star(rim):
    """One entity in the middle of so many; the higher its number, the more often one was mentioned."""
    entities = [entity(0, "Hub", "organisation"), *(entity(each, f"Somebody {each}") for each in range(1, rim + 1))]
    relations = [
        relation(each, 0, "knows", each, sources=tuple(("s", seq) for seq in range(1 + each // 50)))
        for each in range(1, rim + 1)
    ]
    return graph(entities, relations)


# -- what is looked at ---------------------------------------------------------------------------


def test_merged_and_removed_ones_are_not_counted():
    assert len(neighbourhood.entities(FAMILY)) == 8
    assert {each.id for each in neighbourhood.relations(FAMILY)} == {1, 2, 3, 4, 5, 6}


def test_the_most_mentioned_entity_comes_first_and_one_said_twice_counts_twice():
    assert neighbourhood.mentions(FAMILY)[RUI] == 3
    assert [each.name for each in neighbourhood.by_mentions(FAMILY)][:2] == ["Ana", "Rui"]


@pytest.mark.parametrize(
    ("asked", "found"),
    [("ana", ANA), ("ANITA", ANA), ("2", RUI), ("20", ANA), ("21", None), ("nobody", None), ("9" * 30, None)],
)
def test_an_address_names_an_entity_by_number_name_or_other_name(asked, found):
    assert neighbourhood.find(FAMILY, asked) == found


def test_an_address_of_an_entity_that_was_merged_twice_leads_to_what_is_left():
    chain = Graph(
        {
            1: entity(1, "A", state="merged", merged_into=2),
            2: entity(2, "B", state="merged", merged_into=3),
            3: entity(3, "C"),
        }
    )
    assert neighbourhood.find(chain, "1") == 3


def test_around_the_focus_is_what_a_step_reaches_ended_relations_among_it():
    shown = neighbourhood.around(FAMILY, ANA)
    assert set(shown.distances) == {ANA, RUI, LISBON, PORTO, NUTS}
    assert [each.id for each in shown.relations] == [3, 1, 4, 2]  # what holds, newest first; then what ended
    assert set(neighbourhood.around(FAMILY, ANA, steps=2).distances) == {ANA, RUI, LISBON, PORTO, NUTS, FISH}


def test_kinds_narrow_what_is_around_the_focus():
    shown = neighbourhood.around(FAMILY, ANA, only=["lives in"])
    assert set(shown.distances) == {ANA, LISBON, PORTO}
    assert neighbourhood.kinds(FAMILY)[:2] == ["allergic to", "lives in"]


def test_of_more_than_forty_the_most_mentioned_are_drawn_and_it_is_said():
    shown = neighbourhood.around(star(212), 0)
    assert (shown.around, shown.reached) == (40, 212)
    assert set(shown.distances) - {0} <= set(range(150, 213)) | {100}
    assert how_many(shown) == "Showing the 40 most mentioned of 212."
    assert len(shown.relations) == 212  # the list has them all
    assert how_many(neighbourhood.around(star(40), 0)) is None


def test_a_path_goes_either_way_over_what_holds_and_is_told_in_words():
    path = neighbourhood.shortest(FAMILY, FISH, PORTO)
    assert path is not None
    assert neighbourhood.stops(FAMILY, path) == (FISH, RUI, ANA, PORTO)
    assert way(FAMILY, path) == "fish ← allergic to ← Rui ← brother ← Ana → lives in → Porto: 3 steps."
    assert neighbourhood.shortest(FAMILY, ANA, LISBON) is None  # ended
    assert neighbourhood.shortest(FAMILY, ANA, BEA) is None  # removed
    assert way(FAMILY, None) == "No path of at most 4 steps."


def test_a_path_is_drawn_whole_with_its_relations_first_in_the_list():
    path = neighbourhood.shortest(FAMILY, ANA, FISH)
    shown = neighbourhood.around(FAMILY, ANA, path=path)
    assert shown.path == (ANA, RUI, FISH)
    assert [each.id for each in shown.relations][:2] == [1, 5]
    assert FISH in shown.distances
    assert shown.lit == {1, 5}


def test_a_path_longer_than_asked_is_none():
    chain = graph([entity(n, f"n{n}") for n in range(7)], [relation(n, n, "next", n + 1) for n in range(6)])
    assert len(neighbourhood.shortest(chain, 0, 4).steps) == 4
    assert neighbourhood.shortest(chain, 0, 5) is None
    assert neighbourhood.shortest(chain, 0, 0) == Path(0, ())


# -- words ---------------------------------------------------------------------------------------


def test_the_page_opens_with_how_large_the_graph_is():
    assert opening(FAMILY) == "8 entities, 6 relations, 1 ended."
    assert opening(star(1)) == "2 entities, 1 relation."
    assert opening(FAMILY, past_turn=8) == "After turn 8: 8 entities, 6 relations, 1 ended."
    assert opening(Graph()) == "0 entities, 0 relations."


def test_a_relation_says_whether_it_holds_and_what_replaced_it():
    assert state_line(FAMILY, FAMILY.relations[1]) == "holds now"
    assert state_line(FAMILY, FAMILY.relations[2]) == "ended in turn 9, replaced by Porto"
    assert state_line(FAMILY, FAMILY.relations[7]) == "removed"
    assert state_line(FAMILY, relation(9, ANA, "at", RUI, "ended", ended_by=5)) == (
        "ended, replaced by Rui → allergic to → fish"
    )


@pytest.mark.parametrize(
    ("values", "heard", "words"),
    [
        ({}, RelationSource(3, "user"), "said in turn 3 by the user"),
        ({"sources": (("s", 3), ("s", 9))}, RelationSource(3, "user"), "said 2 times, first in turn 3 by the user"),
        ({"origin": "written", "sources": ()}, None, "written in turn 3"),
        ({"origin": "written", "sources": (), "turn": 0}, None, "written, not learned"),
        ({"sources": (("other", 3),)}, None, "said in another session"),
        ({"sources": ()}, None, "said in turn 3"),
        ({"sources": (), "turn": 0}, None, "source message deleted"),
    ],
)
def test_a_relation_says_who_said_it_and_when(values, heard, words):
    turn = values.pop("turn", 3)
    assert source_line(relation(1, ANA, "knows", RUI, turn=turn, **values), heard, session_id="s") == words


def test_an_entity_is_known_by_its_names_its_type_and_how_often_it_was_mentioned():
    assert entity_label(FAMILY.entities[ANA]) == "Ana (Anita)"
    assert entity_lines(FAMILY, FAMILY.entities[ANA]) == [
        "Person",
        "also Anita",
        "4 relations, 1 ended",
        "mentioned 5 times",
    ]
    assert entity_lines(FAMILY, FAMILY.entities[CARLOS])[0] == "Other"


def test_an_erased_name_is_a_dash():
    erased = graph([entity(1, ""), entity(2, "Rui")], [relation(1, 1, "knows", 2)])
    assert relation_words(erased, erased.relations[1]) == "– → knows → Rui"


def test_the_figure_has_a_table_with_the_same_relations():
    shown = neighbourhood.around(FAMILY, ANA, path=neighbourhood.shortest(FAMILY, ANA, FISH))
    rows = number_rows(FAMILY, shown)
    assert rows[0] == {
        "From": "Ana",
        "Relation": "brother",
        "To": "Rui",
        "Since turn": 3,
        "State": "holds now",
        "Path": "✓",
    }
    assert len(rows) == len(shown.drawn())


# -- places --------------------------------------------------------------------------------------


def random_graph(size, edges, seed):
    chance = random.Random(seed)
    pairs = [chance.sample(range(size), 2) for _ in range(edges)]
    states = [chance.choice(["active", "ended", "retired"]) for _ in pairs]
    return graph(
        [entity(each, f"e{each}") for each in range(size)],
        [relation(n, a, "knows", b, state) for n, ((a, b), state) in enumerate(zip(pairs, states, strict=True))],
    )


GRAPHS = st.builds(random_graph, st.integers(2, 90), st.integers(0, 160), st.integers(0, 10_000))


@settings(max_examples=60)
@given(GRAPHS, st.sampled_from([1, 2]), st.integers(0, 1_000))
def test_everything_drawn_has_a_place_of_its_own_in_the_box(drawn, steps, pick):
    ids = list(drawn.entities)
    focus, end = ids[0], ids[pick % len(ids)]
    path = neighbourhood.shortest(drawn, focus, end) if end != focus else None
    shown = neighbourhood.around(drawn, focus, steps=steps, path=path)
    said_often = neighbourhood.mentions(drawn)
    places = figures.places(shown, said_often)
    assert set(places) == set(shown.distances)
    assert len({(round(x, 6), round(y, 6)) for x, y in places.values()}) == len(places)
    assert all(-1 <= x <= 1 and -1 <= y <= 1 for x, y in places.values())
    assert places == figures.places(shown, said_often)
    assert len(shown.distances) <= neighbourhood.MOST + 1 + neighbourhood.FARTHEST


@settings(max_examples=60)
@given(GRAPHS, st.integers(0, 1_000))
def test_a_path_is_a_chain_of_what_holds_and_no_longer_than_any_other(drawn, pick):
    ids = list(drawn.entities)
    start, end = ids[0], ids[pick % len(ids)]
    path = neighbourhood.shortest(drawn, start, end)
    distances = neighbourhood._distances(
        [r for r in neighbourhood.relations(drawn) if r.state == "active"], start, neighbourhood.FARTHEST
    )
    assert (path is None) == (end not in distances)
    if path is not None:
        assert len(path.steps) == distances[end]
        assert neighbourhood.stops(drawn, path)[-1] == end
        assert all(drawn.relations[step.relation].state == "active" for step in path.steps)


def test_names_beside_the_outer_ring_stand_in_rows_of_their_own():
    hub = star(40)
    places = figures.places(neighbourhood.around(hub, 0), neighbourhood.mentions(hub))
    for side in (1, -1):
        rows = sorted(y for entity, (x, y) in places.items() if entity and x * side > 0)
        assert min(b - a for a, b in itertools.pairwise(rows)) > 0.09  # 17 pixels


def test_what_lies_beyond_a_hub_leaves_room_for_every_name():
    hub = star(212)
    shown = neighbourhood.around(hub, 7, steps=2)
    assert shown.around == 1 + neighbourhood.ON_A_BRANCH
    assert how_many(shown) == "Showing the 21 nearest and most mentioned of 212."
    rows = sorted(
        y for entity, (x, y) in figures.places(shown, neighbourhood.mentions(hub)).items() if entity not in (0, 7)
    )
    assert min(b - a for a, b in itertools.pairwise(rows)) > 0.09


def test_more_relations_elsewhere_move_nothing():
    before = figures.places(neighbourhood.around(FAMILY, ANA), neighbourhood.mentions(FAMILY))
    more = graph([*FAMILY.entities.values()], [*FAMILY.relations.values(), relation(30, BEA, "likes", CARLOS)])
    assert figures.places(neighbourhood.around(more, ANA), neighbourhood.mentions(more)) == before


# -- the figure ----------------------------------------------------------------------------------


def drawn(shown, mode="light", of=FAMILY, **values):
    return figures.graph_figure(of, shown, mode, **values).to_dict()


def traces(made, name):
    return [trace for trace in made["data"] if trace["name"] == name]


def notes(made):
    return [note["text"] for note in made["layout"]["annotations"]]


def test_every_mark_carries_what_it_stands_for():
    made = drawn(neighbourhood.around(FAMILY, ANA))
    marks = [tuple(each) for trace in made["data"] for each in trace.get("customdata", ())]
    assert {id for what, id in marks if what == figures.ENTITY} == {ANA, RUI, LISBON, PORTO, NUTS}
    assert {id for what, id in marks if what == figures.RELATION} == {1, 2, 3, 4}


def test_an_ended_relation_is_dotted_grey_and_named_so():
    made = drawn(neighbourhood.around(FAMILY, ANA))
    (ended,) = traces(made, "ended")
    assert (ended["line"]["dash"], ended["line"]["color"]) == ("dot", PALETTES["light"].unknown)
    assert "lives in (ended)" in notes(made)


def test_a_path_is_lit_thick_and_numbered_and_the_rest_is_faint():
    shown = neighbourhood.around(FAMILY, ANA, path=neighbourhood.shortest(FAMILY, ANA, FISH))
    made = drawn(shown)
    (path,), (holds,) = traces(made, "path"), traces(made, "holds")
    assert path["line"]["width"] > holds["line"]["width"]
    assert holds["opacity"] < 0.6
    assert {"<b>1  brother</b>", "<b>2  allergic to</b>"} <= set(notes(made))


def test_the_type_of_an_entity_is_its_shape_and_the_legend_names_only_those_there_are():
    shown = neighbourhood.around(FAMILY, ANA)
    assert traces(drawn(shown), "Place")[0]["marker"]["symbol"] == "square"
    said_there = figures.legend(FAMILY, shown, "light")
    assert "place" in said_there
    assert "project" not in said_there
    assert "ended" in said_there


def test_both_appearances_have_the_graphs_own_colour():
    for mode in ("light", "dark"):
        made = drawn(neighbourhood.around(FAMILY, ANA), mode)
        assert traces(made, "Person")[0]["marker"]["color"] == PALETTES[mode].graph


def test_no_more_than_forty_relations_are_labelled_and_no_two_where_they_would_lie_on_each_other():
    hub = star(60)
    twice = graph(
        [*hub.entities.values()],
        [*hub.relations.values(), *(relation(100 + n, 0, "likes", n) for n in range(1, 61))],
    )
    made = drawn(neighbourhood.around(twice, 0), of=twice)
    words = [note for note in notes(made) if note in ("knows", "likes")]
    assert neighbourhood.MOST / 2 < len(words) <= neighbourhood.MOST
    listed = made["layout"]["annotations"]
    at = [(each["x"], each["y"]) for each in listed if each["text"] in ("knows", "likes")]
    assert not any(figures._over(one, other) for one, other in itertools.combinations(at, 2))


def test_relations_between_the_same_two_bow_apart():
    both = graph(
        [entity(1, "Ana"), entity(2, "Rui")],
        [relation(1, 1, "knows", 2), relation(2, 2, "likes", 1), relation(3, 1, "trusts", 2)],
    )
    shown = neighbourhood.around(both, 1)
    edges = figures._edges(shown, figures.places(shown, neighbourhood.mentions(both)))
    assert len({(round(edge.middle[0], 3), round(edge.middle[1], 3)) for edge in edges}) == 3


def test_others_words_are_no_markup_in_the_figure():
    evil = "<b onload=x>$x$"
    hostile = graph([entity(1, evil), entity(2, "Rui")], [relation(1, 1, "<i>knows</i>", 2)])
    made = drawn(neighbourhood.around(hostile, 1), of=hostile)
    texts = [*notes(made), *(text for trace in made["data"] for text in trace.get("text") or ())]
    assert not any("<b onload" in text or "<i>" in text or "$" in text for text in texts)
    assert any("&lt;b onload" in text for text in texts)


def test_an_open_relation_is_marked_with_the_accent():
    made = drawn(neighbourhood.around(FAMILY, ANA), picked=2)
    (picked,) = traces(made, "picked")
    assert picked["line"]["color"] == PALETTES["light"].accent
    assert picked["line"]["dash"] == "dot"  # it ended all the same


def test_an_entity_alone_is_drawn():
    alone = graph([entity(1, "Ana")], [])
    assert notes(drawn(neighbourhood.around(alone, 1), of=alone)) == ["<b>Ana</b>"]


def test_a_figure_is_as_high_as_what_stands_on_it():
    entities = [entity(number, f"E{number}") for number in range(1, 5)]
    line = graph(entities, [relation(number, number, "knows", number + 1) for number in (1, 2, 3)])
    path = neighbourhood.shortest(line, 1, 4)
    low = figures.graph_figure(line, neighbourhood.around(line, 1, path=path), "light").layout
    star = graph(entities, [relation(number, 1, "knows", number) for number in (2, 3, 4)])
    whole = figures.graph_figure(star, neighbourhood.around(star, 1), "light").layout
    assert 120 <= low.height <= 260 < whole.height <= figures.HEIGHT
    for layout_ in (low, whole):  # a pixel is worth the same on both
        bottom, top = layout_.yaxis.range
        assert layout_.height / (top - bottom) == pytest.approx(figures.HEIGHT / (2 * figures.HALF), rel=0.01)


def test_a_step_of_a_path_knows_its_direction():
    assert neighbourhood.shortest(FAMILY, RUI, ANA) == Path(RUI, (PathStep(1, forward=False),))


# -- elsewhere in the app ------------------------------------------------------------------------


def holds(**holding):
    standing = Standing("Relations", "graph", "graph", {"priority": 1})
    return card(standing, None, BlockUse(), Holding(**holding)).holds


def test_the_card_of_a_graph_says_how_large_it_is_and_what_is_new():
    assert holds(
        entities={"active": 12, "merged": 1},
        relations={"active": 13, "ended": 2, "retired": 4},
        newest="Ana → lives in → Porto",
    ) == ("12 entities, 15 relations, 2 ended. Newest: Ana → lives in → Porto")
    assert holds(entities={"active": 2}, relations={"active": 1}) == "2 entities, 1 relation."
    assert holds() == "No relations yet. They are learned when messages leave the queue."


def test_a_graph_block_can_be_added_and_set():
    kind = block_kinds(())["graph"]
    assert (kind.label, kind.learns) == ("Relations", True)
    assert make(kind, "Relations", 1).kind == "graph"
    assert [setting.name for setting in settings_of("graph", has_user=False)] == [
        "hops",
        "most_relations",
        "deliver_on",
    ]


def test_a_file_says_what_of_it_is_new_before_it_is_imported():
    file = file_of(FAMILY, "family.json")
    assert preview(file, planned_import(Graph(), file)) == "family.json: 8 entities, 6 relations."
    assert preview(file, planned_import(FAMILY, file)) == (
        "family.json: 8 entities, 6 relations. 6 relations already exist. There is nothing new in it."
    )


def test_what_is_exported_can_be_imported():
    read = read_graph_file(write_graph(FAMILY, "json").encode(), "family.json")
    assert len(planned_import(Graph(), read).added_relations) == 6

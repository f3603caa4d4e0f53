"""Names that are one, what a text mentions, and what becomes of relations that were found."""

import pytest
from graph_fakes import entity_row, found, graph_of, relation_row
from hypothesis import example, given
from hypothesis import strategies as st

from memory_core.planning.graph_changes import (
    PRONOUN,
    REMOVED,
    TO_ITSELF,
    TOO_LONG,
    WITHOUT_NAMES,
    plan_relations,
    plan_same,
)
from memory_core.planning.graph_rules import (
    Graph,
    Names,
    Path,
    PathStep,
    clean_name,
    clean_predicate,
    neighbourhood,
    normal_name,
    normal_predicate,
)
from memory_core.planning.slots import ATTRIBUTES

ALPHA = "Alice | manages | Project Alpha; Project Alpha | deadline | March 2026"


def told(graph, plan):
    """The graph after a plan, in words: what is new, and what is in another state than before."""
    entities = {
        **graph.entities,
        **{e.id: e for e in plan.added_entities},
        **{e.id: e for _, e in plan.changed_entities},
    }
    after = Graph(entities, {**graph.relations, **{r.id: r for r in plan.added_relations}})
    changed = [(r.state, after.describe(r)) for r in plan.added_relations]
    return changed + [(r.state, after.describe(r)) for _, r in plan.changed_relations]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Project Alpha", "the project alpha"),
        ("Bob", " “Bob”. "),
        ("ANA", "ana"),
        ("O’Brien", "O'Brien"),
        ("I", "The user"),
        ("me", "user"),
    ],
)
def test_two_spellings_of_one_name_are_one(one, other):
    assert normal_name(clean_name(one)) == normal_name(clean_name(other))


@pytest.mark.parametrize(("one", "other"), [("Ana", "Anna"), ("Project Alpha", "Alpha"), ("C", "C++"), ("the", "a")])
def test_names_that_only_resemble_each_other_are_two(one, other):
    assert normal_name(clean_name(one)) != normal_name(clean_name(other))


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("WORKS_FOR", "works at"),
        ("is allergic to", "allergic to"),
        ("has a deadline", "deadline"),
        ("is also known as", "same as"),
        ("CEO of", "CEO of"),
        ("CEO", "CEO"),
        ("is a", "is a"),
        ("  manages. ", "manages"),
        ("likes\x00\ud800", "likes"),
    ],
)
def test_a_predicate_is_kept_in_one_wording(said, kept):
    assert clean_predicate(said) == kept


@given(st.text(max_size=40))
@example("0).")
def test_cleaning_twice_is_cleaning_once(text):
    assert clean_name(clean_name(text)) == clean_name(text)
    assert normal_predicate(clean_predicate(text)) == normal_predicate(text)


def test_a_text_mentions_names_and_aliases_as_whole_words_in_any_case():
    graph = graph_of("Alice | manages | Project Alpha; Ana | likes | tea; Rui | uses | Alpha")
    graph = Graph({**graph.entities, 20: entity_row(20, "Robert Smith", aliases=("Bob",))}, graph.relations)
    names = Names(graph)

    def of(text):
        return [graph.name(id) for id in names.mentioned(text)]

    assert of("when is ALICE's review of project alpha?") == ["Alice", "Project Alpha"]
    assert of("What does bob think of teatime and anaesthesia?") == ["Robert Smith"]
    assert of("Alpha?") == ["Alpha"]


def test_i_and_my_mean_the_user_in_the_users_own_words():
    graph = graph_of("The user | likes | tea")
    assert Names(graph).mentioned("What do I like?") == (1,)
    assert Names(graph).mentioned("I would say so.", first_person=False) == ()
    assert Names(graph).find("me").name == "The user"


def test_the_neighbourhood_grows_by_steps_and_ends_at_ended_relations():
    graph = graph_of("A | p | B; B | p | C; C | p | D; A | p | E | ended")
    assert neighbourhood(graph, [1], 1) == {1: 1}
    assert neighbourhood(graph, [1], 2) == {1: 1, 2: 2}
    assert neighbourhood(graph, [1, 4], 1) == {1: 1, 3: 1}
    assert neighbourhood(graph, [], 4) == {}


def test_a_path_is_told_along_and_against_its_direction():
    graph = graph_of(ALPHA + "; Ana | brother | Rui")
    assert (
        graph.describe_path(Path(1, (PathStep(1, True), PathStep(2, True))))
        == "Alice → manages → Project Alpha → deadline → March 2026"
    )
    assert graph.describe_path(Path(5, (PathStep(3, False),))) == "Rui ← brother ← Ana"


# -- what was found ------------------------------------------------------------------------------


def test_the_same_again_confirms_and_adds_its_sources():
    graph = graph_of(ALPHA)
    plan = plan_relations(graph, found("alice | Manages | the Project Alpha", sources=(("s", 9),)))
    assert (plan.added_relations, plan.added_entities, plan.repeated) == ((), (), 1)
    assert plan.confirmed == ((1, (("s", 9),)),)


def test_the_same_forty_times_is_one_relation():
    plan = plan_relations(Graph(), found("; ".join(["Ana | likes | tea"] * 40), sources=(("s", 1),)))
    assert [relation.predicate for relation in plan.added_relations] == ["likes"]
    assert (len(plan.added_entities), plan.repeated, plan.confirmed) == (2, 39, ())


def test_another_home_ends_the_former():
    graph = graph_of("Ana | lives in | Lisbon; Rui | lives in | Lisbon; Ana | likes | Lisbon")
    plan = plan_relations(graph, found("Ana | resides in | Porto"))
    assert told(graph, plan) == [("active", "Ana → lives in → Porto"), ("ended", "Ana → lives in → Lisbon")]
    assert plan.changed_relations[0][1].ended_by == plan.added_relations[0].id
    assert plan.ended == 1


def test_of_two_homes_found_at_once_the_last_one_holds():
    plan = plan_relations(Graph(), found("Ana | lives in | Lisbon; Ana | lives in | Porto"))
    assert [relation.state for relation in plan.added_relations] == ["ended", "active"]


def test_a_marriage_is_said_in_either_direction_and_ends_by_another_on_either_side():
    graph = graph_of("Ana | married to | Rui")
    assert plan_relations(graph, found("Rui | spouse of | Ana")).confirmed == ((1, ()),)
    assert told(graph, plan_relations(graph, found("Eva | married to | Rui"))) == [
        ("active", "Eva → married to → Rui"),
        ("ended", "Ana → married to → Rui"),
    ]


def test_what_is_said_to_be_over_ends_and_what_was_not_known_is_kept_as_over():
    graph = graph_of("Ana | works at | Acme")
    over = plan_relations(graph, found("Ana | works at | Acme | ended"))
    assert told(graph, over) == [("ended", "Ana → works at → Acme")]
    past = plan_relations(graph, found("Ana | works at | Initech | ended"))
    assert told(graph, past) == [("ended", "Ana → works at → Initech")]


def test_what_had_ended_and_is_said_again_holds_anew_and_its_past_stays():
    graph = graph_of("Ana | lives in | Lisbon | ended")
    plan = plan_relations(graph, found("Ana | lives in | Lisbon"))
    assert told(graph, plan) == [("active", "Ana → lives in → Lisbon")]
    assert plan.changed_relations == ()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Ana | knows | ana", TO_ITSELF),
        ("I | like | me", TO_ITSELF),
        (" | likes | tea", WITHOUT_NAMES),
        ("Ana | ? | tea", WITHOUT_NAMES),
        ("Ana | likes | .", WITHOUT_NAMES),
        (f"Ana | likes | {'very ' * 20}strong tea", TOO_LONG),
        ("She | likes | tea", PRONOUN),
    ],
)
def test_what_cannot_be_a_relation_is_refused_and_the_others_are_not(text, reason):
    plan = plan_relations(Graph(), found(f"{text}; Rui | likes | fish"))
    assert plan.refused == ((reason, 1),)
    assert len(plan.added_relations) == 1
    assert [entity.name for entity in plan.added_entities] == ["Rui", "fish"]


def test_what_a_person_removed_is_not_learned_again():
    graph = graph_of("Ana | likes | tea; Thanks | greets | Bye")
    gone = {id: entity_row(id, graph.name(id), state="retired") for id in (3, 4)}
    retired = {
        id: relation_row(id, r.subject, r.predicate, r.object, state="retired") for id, r in graph.relations.items()
    }
    plan = plan_relations(Graph({**graph.entities, **gone}, retired), found("Ana | likes | tea; Rui | says | thanks"))
    assert plan.refused == ((REMOVED, 2),)
    assert not plan


def test_a_kind_becomes_known_later():
    graph = graph_of("Ana | likes | tea")
    plan = plan_relations(graph, found("Ana | likes | fish", subject_type="person", object_type="nonsense"))
    assert [(before.type, after.type) for before, after in plan.changed_entities] == [("other", "person")]
    assert plan.added_entities[0].type == "other"


# -- who is the same -----------------------------------------------------------------------------


def test_two_that_are_said_to_be_one_are_merged_under_the_fuller_name():
    graph = graph_of("Bob | likes | tea; Robert Smith | likes | tea; Bob | knows | Robert Smith; Bob | manages | Alpha")
    plan = plan_same(graph, found("Bob | is the same as | Robert Smith"))
    after = plan.applied_to(graph)
    assert [(e.name, e.aliases, e.state) for e in after.entities.values() if e.id in (1, 3)] == [
        ("Bob", (), "merged"),
        ("Robert Smith", ("Bob",), "active"),
    ]
    assert sorted((r.state, after.describe(r)) for r in after.relations.values()) == [
        ("active", "Robert Smith → likes → tea"),
        ("active", "Robert Smith → manages → Alpha"),
        ("retired", "Robert Smith → knows → Robert Smith"),
        ("retired", "Robert Smith → likes → tea"),
    ]
    kept = next(r for r in after.relations.values() if r.predicate == "likes" and r.state == "active")
    assert kept.sources == (("s", 1), ("s", 2))
    assert {r.version for r in after.relations.values()} == {2}


def test_another_name_of_a_known_one_is_an_alias_and_found_from_then_on():
    graph = graph_of("Robert Smith | likes | tea")
    plan = plan_relations(graph, found("Robert Smith | also known as | Bob; bob | likes | fish"))
    assert [after.aliases for _, after in plan.changed_entities] == [("Bob",)]
    assert [relation.subject for relation in plan.added_relations] == [1]
    assert not plan_same(graph, found("Robert Smith | also known as | Bob"))


def test_two_unknown_names_of_one_make_one():
    plan = plan_relations(
        Graph(), found("Bob | same as | Robert Smith; Bob | likes | tea; Robert Smith | likes | fish")
    )
    assert (plan.added_entities[0].name, plan.added_entities[0].aliases) == ("Bob", ("Robert Smith",))
    assert {relation.subject for relation in plan.added_relations} == {-1}


# -- promises ------------------------------------------------------------------------------------

names = st.sampled_from(
    ["Ana", "ana", "the Ana", "Rui", "Eva", "I", "user", "it", "", "tea", "x" * 81, "Porto", "\u0000"]
)
predicates = st.sampled_from(["lives in", "LIVES_IN", "likes", "married to", "same as", "", "works at", "manages"])


@st.composite
def batches(draw):
    triples = draw(st.lists(st.tuples(names, predicates, names, st.booleans()), max_size=12))
    return [
        each
        for subject, predicate, object, ended in triples
        for each in found(f"{subject} | {predicate} | {object}" + (" | ended" if ended else ""), sources=(("s", 1),))
    ]


def after_both(graph, batch):
    """The graph that a batch leads to, as the store would number it."""
    graph = plan_same(graph, batch).applied_to(graph)
    plan = plan_relations(graph, batch)
    entities = {new.id: len(graph.entities) + place for place, new in enumerate(plan.added_entities, start=1)}
    relations = {new.id: len(graph.relations) + place for place, new in enumerate(plan.added_relations, start=1)}

    def entity(id):
        return entities.get(id, id)

    new_entities = [*plan.added_entities, *(after for _, after in plan.changed_entities)]
    new_relations = [*plan.added_relations, *(after for _, after in plan.changed_relations)]
    return plan, Graph(
        {
            **graph.entities,
            **{
                entity(e.id): entity_row(
                    entity(e.id), e.name, aliases=e.aliases, state=e.state, merged_into=entity(e.merged_into)
                )
                for e in new_entities
            },
        },
        {
            **graph.relations,
            **{
                relations.get(r.id, r.id): relation_row(
                    relations.get(r.id, r.id), entity(r.subject), r.predicate, entity(r.object), state=r.state
                )
                for r in new_relations
            },
        },
    )


@pytest.mark.slow
@given(st.lists(batches(), max_size=4))
def test_whatever_is_found_the_graph_stays_in_order(several):
    graph = Graph()
    for batch in several:
        before = graph
        plan, graph = after_both(graph, batch)
        assert before.relations.keys() <= graph.relations.keys()  # nothing vanishes
        assert len(batch) >= len(plan.added_relations) + plan.repeated + sum(number for _, number in plan.refused)
        assert not plan_relations(graph, [])
    active = [relation for relation in graph.relations.values() if relation.state == "active"]
    called = [normal_name(e.name) for e in graph.entities.values() if e.state == "active"]
    assert len(called) == len(set(called))
    assert all(graph.entities[end].state == "active" for r in active for end in (r.subject, r.object))
    assert all(relation.subject != relation.object for relation in active)
    assert all(entity.name and len(entity.name) <= 80 for entity in graph.entities.values())
    keys = [(relation.subject, normal_predicate(relation.predicate), relation.object) for relation in active]
    assert len(keys) == len(set(keys))


@pytest.mark.slow
@given(batches())
def test_of_a_single_valued_predicate_one_holds(batch):
    batch = [each for each in batch if clean_predicate(each.predicate) != "same as"]  # a merge may join two that hold
    _, graph = after_both(Graph(), batch)
    held = [
        (relation.subject, ATTRIBUTES[normal_predicate(relation.predicate)])
        for relation in graph.relations.values()
        if relation.state == "active" and normal_predicate(relation.predicate) in ATTRIBUTES
    ]
    assert len(held) == len(set(held))

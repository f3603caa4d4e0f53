"""Graphs of the past, what became of their relations in prompts, and how they travel into branches."""

import pytest
from copied_rows import plain, rows_of
from engine_fakes import note, open_memory
from graph_fakes import graph_at
from session_script import NoteRelations

from memory_core.blocks.graph import GraphMemoryBlock
from memory_core.history.context_pieces import Pieces, RelationWords
from memory_core.history.projection import project
from memory_core.history.usage import Use, usage_of
from memory_core.messages import content_hash
from memory_core.models.protocols import FoundRelation, RelationsFound
from memory_inspector.reading.outcomes import outcomes_of

BRANCHED = ("session_branched",)


def related(turns=12, **options):
    memory = open_memory(memory_blocks=[GraphMemoryBlock(name="graph", llm=NoteRelations(), **options)])
    for number in range(turns):
        memory.put(note(number))
    return memory


def then(memory, position=None):
    return graph_at(memory.events(), position, lambda key: memory.log.texts([key]).get(key)).get("graph")


def position(memory):
    return memory.events()[-1].position


def test_a_graph_can_be_seen_as_it_stood_after_every_change():
    memory = related()
    desk, seen = memory.blocks.graph(), []
    for change in (
        lambda: desk.rename(desk.entity("Note 1"), "The first", aliases=["Number one"]),
        lambda: desk.merge([desk.entity("Note 3")], desk.entity("Note 2")),
        lambda: desk.undo(),
        lambda: desk.end(desk.relations("Note 4", ended=False)[:1]),
        lambda: desk.reactivate([each for each in desk.relations("Note 4") if each.state == "ended"][-1:]),
        lambda: desk.retire(desk.relations("Note 5")[:1]),
        lambda: desk.edit(desk.relations("Note 6")[0], predicate="comes after", object="Note 2"),
        lambda: desk.remove([desk.entity("Note 4")]),
        lambda: memory.put(note(19)),
        lambda: memory.put(note(2)),
        lambda: memory.put(note(20)),
    ):
        change()
        seen.append((position(memory), desk.graph()))
    for place, graph in seen:
        assert then(memory, place) == graph
    assert then(memory) == desk.graph()
    assert then(memory, 1) is None


def test_a_removed_block_keeps_its_graph_and_has_it_again():
    memory = related()
    graph = memory.blocks.graph().graph()
    memory.blocks.remove("graph")
    assert then(memory) == graph
    memory.blocks.add(GraphMemoryBlock(name="graph", llm=NoteRelations()))
    assert memory.blocks.graph().graph() == graph


def test_forgotten_messages_take_their_relations_along():
    memory = related()
    memory.blocks.graph().add("Ana", "wrote", "Note 1")
    before, place = memory.blocks.graph().graph(), position(memory)
    memory.reset("archived")
    assert then(memory) == memory.blocks.graph().graph()
    assert [memory.blocks.graph().graph().describe(each) for each in memory.blocks.graph().relations()] == [
        "Ana → wrote → Note 1"
    ]
    past = then(memory, place)
    assert past.relations.keys() == before.relations.keys()
    assert "Today" not in {entity.name for entity in past.entities.values()}  # its words are gone
    assert {entity.name for entity in past.entities.values()} >= {"", "Ana", "Note 1"}


def test_a_branch_has_the_graph_of_its_turn():
    memory = related()
    desk = memory.blocks.graph()
    desk.rename(desk.entity("Note 1"), "The first")
    rows, graph = rows_of(memory), desk.graph()
    memory.put(note(20))
    desk.merge([desk.entity("Note 3")], desk.entity("Note 2"))
    branch = memory.branch(12)
    assert plain(rows_of(branch), events=BRANCHED) == plain(rows)
    assert branch.events()[-1].event.missing == 0
    again = branch.blocks.graph()
    assert sorted(map(again.graph().describe, again.graph().relations.values())) == sorted(
        map(graph.describe, graph.relations.values())
    )
    again.undo()
    assert again.entity("Note 1").name == "Note 1"


def test_what_was_erased_since_is_missing_in_a_branch_with_what_it_was_part_of():
    memory = related()
    memory.blocks.graph().add("Ana", "wrote", "a book")
    memory.put(note(20))
    memory.blocks.graph().undo()
    branch = memory.branch(12)
    assert branch.events()[-1].event.missing == 3
    kinds = [record.kind for record in branch.events()[-4:]]
    assert kinds == ["relation_erased", "entity_erased", "entity_erased", "session_branched"]
    assert then(branch) == branch.blocks.graph().graph()


def test_a_relation_in_a_prompt_has_the_words_it_had_then():
    memory = related()
    memory.configure(token_limit=80)
    memory.build_context("What about note 3?")
    before = memory.log.prompt(memory.events(kinds=["context_built"])[-1])
    desk = memory.blocks.graph()
    desk.rename(desk.entity("Note 3"), "The third")
    desk.edit(desk.relations("The third", type="follows")[0], predicate="comes after")
    memory.build_context("What about the third?")
    after = memory.log.prompt(memory.events(kinds=["context_built"])[-1])
    assert memory.log.prompt(before.record).messages == before.messages
    said = [{entry.words for part in prompt.parts for entry in part.entries} for prompt in (before, after)]
    assert "Note 3 follows Note 2" in said[0] - said[1]
    assert "The third comes after Note 2" in said[1] - said[0]
    assert after.missing == ()


def test_pieces_know_the_words_of_a_relation_at_any_position():
    memory = related()
    desk = memory.blocks.graph()
    relation = desk.relations("Note 1", type="follows")[0]
    place = position(memory)
    desk.rename(desk.entity("Note 1"), "The first")
    pieces = Pieces(project(memory.events()))
    follows, of = content_hash("follows"), content_hash("Note 0")
    assert pieces.relation(relation.id, place) == RelationWords(content_hash("Note 1"), follows, of)
    assert pieces.relation(relation.id, position(memory)) == RelationWords(content_hash("The first"), follows, of)
    assert pieces.relation(relation.id, 1) is None
    assert pieces.relation(999, place) is None


def test_use_counts_relations_in_prompts_and_those_that_hold():
    memory = related(most_relations=2, priority=1)
    memory.build_context("What about note 3?")
    memory.build_context("What about note 3?")
    memory.configure(token_limit=30)
    memory.build_context("What about note 3?")
    usage = usage_of(project(memory.events()))
    assert sum(use.asked for use in usage.relations.values()) == 6
    assert any(use.cut for use in usage.relations.values())
    desk = memory.blocks.graph()
    of = usage.of("graph")
    assert of.relations == len(desk.relations(ended=False))
    assert of.entities == sum(entity.state == "active" for entity in desk.graph().entities.values())
    desk.end(desk.relations(ended=False)[:1])
    desk.remove([desk.entity("Note 3")])
    of = usage_of(project(memory.events())).of("graph")
    assert of.relations == len(desk.relations(ended=False))
    assert of.entities == sum(entity.state == "active" for entity in desk.graph().entities.values())
    assert of.last_write.actor == "user"
    assert Use(2, 1).asked == 3


def test_a_message_that_a_relation_comes_from_was_not_only_flushed():
    memory = related()
    outcomes = outcomes_of(project(memory.events()))
    archived = [outcome for outcome in outcomes.messages if outcome.place == "archived"]
    assert archived
    assert all(outcome.kind == "extracted" and outcome.relations for outcome in archived)
    assert sum(run.relations for run in outcomes.runs()) == sum(outcome.relations for outcome in outcomes.messages)
    relations = memory.blocks.graph().relations()
    assert sum(outcome.relations for outcome in outcomes.messages) == sum(len(each.sources) for each in relations)
    memory.reset("archived")
    assert not any(outcome.relations for outcome in outcomes_of(project(memory.events())).messages)


def test_a_stranger_event_changes_nothing():
    class Once:
        name, offline = "once", True

        def relations(self, messages, *, known):
            return RelationsFound((FoundRelation("Ana", "lives in", "Porto", source=0),))

    memory = open_memory(memory_blocks=[GraphMemoryBlock(name="graph", llm=Once())])
    for number in range(6):
        memory.put(note(number))
    log = [record for record in memory.events() if record.kind != "relation_added"]
    graph = graph_at(log, None, lambda key: memory.log.texts([key]).get(key))["graph"]
    assert graph.relations == {}
    assert [entity.name for entity in graph.entities.values()] == ["Ana", "Porto"]
    assert graph_at([], None, lambda key: None) == {}


@pytest.mark.slow
@pytest.mark.parametrize("turn", [2, 6, 11])
def test_a_branch_learns_on_from_its_graph(turn):
    memory, short = related(), None
    branch = memory.branch(turn)
    short = related(turn)
    for number in range(20, 26):
        branch.put(note(number))
        short.put(note(number))
    told = [
        sorted((g.describe(r), r.state, r.turn, len(r.sources)) for r in g.relations.values())
        for g in (branch.blocks.graph().graph(), short.blocks.graph().graph())
    ]
    assert told[0] == told[1]

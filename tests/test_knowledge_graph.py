"""The reference memory server's graph over a graph block and a facts block: on record, undone, edited by people."""

import pytest

from memory_core import NotFoundError
from memory_core.planning import curation
from memory_core.systems import KnowledgeGraph
from memory_core.systems.knowledge_graph import GRAPH, OBSERVATIONS


def entity(name, type="person", *observations):
    return {"name": name, "entityType": type, "observations": list(observations)}


def relation(start, type, end):
    return {"from": start, "to": end, "relationType": type}


@pytest.fixture
def graph(tmp_path):
    graph = KnowledgeGraph("kg", database_uri=f"sqlite:///{tmp_path}/memory.db")
    graph.create_entities([entity("Ada", "person", "likes tea", "speaks  French"), entity("Ben")])
    graph.create_relations([relation("Ada", "works_with", "Ben")])
    return graph


def desks(graph):
    return graph.memory.blocks.graph(GRAPH), graph.memory.facts.desk(OBSERVATIONS)


def shown(graph):
    there = graph.read_graph()
    return {e["name"]: e["observations"] for e in there["entities"]}, [tuple(r.values()) for r in there["relations"]]


ALL = ({"Ada": ["likes tea", "speaks  French"], "Ben": []}, [("Ada", "Ben", "works_with")])


def test_every_change_is_the_agents_and_can_be_undone_in_the_app(graph):
    assert {record.actor for record in graph.memory.events() if record.event.family in ("facts", "relations")} == {
        "agent"
    }
    relations, facts = desks(graph)
    graph.delete_entities(["Ada"])
    assert shown(graph) == ({"Ben": []}, [])
    assert relations.changes()[0].sentence == "Removed Ada with 1 relation."
    relations.undo(relations.changes()[0].number)
    facts.undo(facts.changes()[0].number)
    assert shown(graph) == ALL
    graph.delete_relations([relation("Ada", "works_with", "Ben")])
    graph.delete_observations([{"entityName": "Ada", "observations": ["speaks  French"]}])
    assert shown(graph) == ({"Ada": ["likes tea"], "Ben": []}, [])
    relations.undo(relations.changes()[0].number)
    facts.undo(facts.changes()[0].number)
    assert shown(graph) == ALL


def test_what_a_person_changes_in_the_app_is_what_the_agent_reads(graph):
    relations, facts = desks(graph)
    by_text = {fact.text: fact for fact in facts.facts()}
    assert list(by_text) == ["Ada (person)", "Ada: likes tea", "Ada: speaks French", "Ben (person)"]
    facts.apply(curation.edit(by_text["Ada: likes tea"], "Ada: likes coffee"))
    facts.apply(curation.edit(by_text["Ben (person)"], "Ben (robot)"))
    relations.rename(relations.entity("Ada"), "Ada Lovelace")
    [ada] = graph.open_nodes(["Ada Lovelace"])["entities"]
    assert ada == entity("Ada Lovelace", "person", "likes coffee", "speaks  French")
    assert graph.search_nodes("robot") == {
        "entities": [entity("Ben", "robot")],
        "relations": [relation("Ada Lovelace", "works_with", "Ben")],
    }
    graph.add_observations([{"entityName": "Ada Lovelace", "contents": ["likes tea", "likes coffee"]}])
    assert shown(graph)[0]["Ada Lovelace"] == ["likes coffee", "speaks  French", "likes tea"]
    facts.apply(curation.retire([fact for fact in facts.facts() if fact.text == "Ben (robot)"]))
    assert list(shown(graph)[0]) == ["Ada Lovelace"]


def test_an_entity_that_only_a_relation_names_is_none_yet(graph):
    graph.create_relations([relation("Ben", "visited", "Porto")])
    assert "Porto" not in shown(graph)[0]
    with pytest.raises(NotFoundError, match="Entity with name Porto not found"):
        graph.add_observations(
            [{"entityName": "Ben", "contents": ["x"]}, {"entityName": "Porto", "contents": ["rainy"]}]
        )
    assert shown(graph)[0]["Ben"] == []
    assert graph.create_entities([entity("Porto", "city"), entity("Ada", "other")]) == [entity("Porto", "city")]
    assert list(shown(graph)[0]) == ["Ada", "Ben", "Porto"]


def test_what_was_deleted_can_be_made_again(graph):
    graph.delete_entities(["Ada"])
    graph.create_entities([entity("ADA", "person", "likes tea")])
    assert shown(graph) == ({"Ben": [], "ADA": ["likes tea"]}, [])
    _, facts = desks(graph)
    assert [fact.state for fact in facts.facts() if fact.text == "Ada: likes tea"] == ["retired"]


def test_names_that_differ_in_case_are_one_entity(graph):
    assert graph.create_entities([entity("ada"), entity("the Ben")]) == []
    graph.add_observations([{"entityName": "ADA", "contents": ["owns a bike"]}])
    assert shown(graph)[0]["Ada"] == ["likes tea", "speaks  French", "owns a bike"]


def test_it_is_there_again_after_a_restart_and_what_was_read_is_on_record(graph, tmp_path):
    again = KnowledgeGraph("kg", database_uri=f"sqlite:///{tmp_path}/memory.db")
    assert shown(again) == ALL
    again.search_nodes("nothing like it")
    reads = [record.event for record in again.memory.events(kinds=["facts_read"])]
    assert [(read.found, len(read.facts)) for read in reads] == [(4, 4), (0, 0)]
    assert again.memory.log.texts([reads[1].query]) == {reads[1].query: "nothing like it"}


def test_what_was_observed_is_in_the_agents_prompt(graph):
    prompt = graph.memory.build_context("What does Ada like?").messages[0].content
    assert "Ada: likes tea" in prompt
    assert "works_with" in prompt

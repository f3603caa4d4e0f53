"""What Mem0, Agno and MCP's reference memory know, taken into facts and graphs; their files stay as they are."""

import json
import sqlite3
from contextlib import closing

import pytest
from shared_data import shared

from memory_core import FactExtractionMemoryBlock, FormatError, GraphMemoryBlock, Memory
from memory_core.interop.facts_file import plan_import, read_facts_file
from memory_core.interop.graph_files import import_graph, read_graph_file
from memory_core.interop.memory_stores import memories_of

REFERENCE = [
    {"type": "entity", "name": "Ana", "entityType": "person", "observations": ["allergic to nuts", "lives in Faro"]},
    {"type": "entity", "name": "Casa Lume", "entityType": "restaurant", "observations": []},
    {"type": "relation", "from": "Ana", "to": "Casa Lume", "relationType": "works_at"},
]


def lines(*values):
    return "\n".join(map(json.dumps, values)).encode()


def texts(name, data):
    return [(fact.text, fact.state) for fact in read_facts_file(data, filename=name).facts]


@pytest.mark.data
def test_mem0_s_last_words_and_agno_s_memories_become_facts():
    mem0, agno = (shared(f"stores/{name}").read_bytes() for name in ("mem0_history.db", "agno.db"))
    assert texts("history.db", mem0) == [
        ("User prefers light mode", "active"),
        ("I like Python over JavaScript", "active"),
        ("Noted", "active"),
    ]
    [known] = read_facts_file(agno, filename="agno.db").facts
    assert (known.text, known.topics) == ("User's name is Chandra", ("name",))
    assert shared("stores/mem0_history.db").read_bytes() == mem0
    memory = Memory.from_defaults(memory_blocks=[FactExtractionMemoryBlock(name="facts")])
    desk = memory.facts.desk("facts")
    desk.apply(plan_import(read_facts_file(mem0, filename="history.db"), desk.facts()).change)
    assert len(memory.facts.read("facts")) == 3


def test_stores_of_our_own_in_the_forms_of_mem0_and_agno_become_facts(own_files):
    mem0, agno = ((own_files / "stores" / name).read_bytes() for name in ("mem0_history.db", "agno.db"))
    assert texts("history.db", mem0) == [
        ("Lives in Antwerp", "active"),
        ("Drinks green tea", "active"),
        ("Πηγαίνει σε μάθημα ελληνικών", "active"),
    ]
    [known] = read_facts_file(agno, filename="agno.db").facts
    assert (known.text, known.topics) == ("Imke lives in Ghent", ("home",))


def test_what_mem0_deleted_is_put_away_and_users_are_not_mixed(tmp_path):
    path = tmp_path / "x.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE history (memory_id, old_memory, new_memory, event)")
        connection.execute(
            "INSERT INTO history VALUES ('a', NULL, 'likes tea', 'ADD'), ('a', 'likes tea', '', 'DELETE')"
        )
    assert texts("x.db", path.read_bytes()) == [("likes tea", "retired")]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TABLE history")
        connection.execute("CREATE TABLE m (memory_id, memory, topics, user_id)")
        connection.execute("""INSERT INTO m VALUES (1, '"a"', '[]', 'ada'), (2, '"b"', '[]', 'ben')""")
    with pytest.raises(FormatError, match="of 2 users"):
        texts("x.db", path.read_bytes())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TABLE m")
    with pytest.raises(FormatError, match="neither Mem0 nor Agno"):
        texts("x.db", path.read_bytes())


def test_new_metadata_of_a_memory_of_mem0_leaves_the_texts_that_it_had(tmp_path):
    path = tmp_path / "history.db"
    rows = [(None, "likes tea", "ADD"), ("likes tea", "likes green tea", "UPDATE"), *[("likes green tea",) * 2] * 2]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE history (memory_id, old_memory, new_memory, event)")
        for old, new, *event in rows:
            connection.execute("INSERT INTO history VALUES ('a', ?, ?, ?)", (old, new, *(event or ["UPDATE"])))
    assert [fact.texts for fact in memories_of(path)["memories"]] == [("likes tea", "likes green tea")]


def test_the_reference_memory_s_relations_go_into_a_graph_and_its_observations_into_facts():
    data = lines(*REFERENCE)
    assert texts("memory.json", data) == [("Ana: allergic to nuts", "active"), ("Ana: lives in Faro", "active")]
    memory = Memory.from_defaults(memory_blocks=[GraphMemoryBlock(name="graph")])
    desk = memory.blocks.graph("graph")
    file = read_graph_file(data, "memory.jsonl")
    assert [(entity.name, entity.type) for entity in file.entities] == [("Ana", "person"), ("Casa Lume", "other")]
    assert [(r.subject, r.predicate, r.object) for r in file.relations] == [("Ana", "works_at", "Casa Lume")]
    import_graph(desk, file)
    assert {entity.name for entity in desk.graph().entities.values()} == {"Ana", "Casa Lume"}
    wrong = read_facts_file(lines({"type": "entity", "entityType": "x", "observations": ["a", 3]}), filename="m.json")
    assert (len(wrong.facts), len(wrong.problems)) == (0, 2)
    with pytest.raises(FormatError, match="no entity of this file"):
        read_graph_file(lines(REFERENCE[0], REFERENCE[2]), "memory.jsonl")

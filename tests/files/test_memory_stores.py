"""Facts and graphs of other programs and of MCP's reference memory are read; their files stay as they are."""

import itertools
import json
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shared_data import shared

from memory_core import Database, FactExtractionMemoryBlock, FormatError, GraphMemoryBlock, Memory, Services
from memory_inspector.files.facts_file import plan_import, read_facts_file
from memory_inspector.files.graph_files import import_graph, read_graph_file
from memory_inspector.files.in_place import StoreFollower, open_store
from memory_inspector.files.mirroring import FACTS, GONE, GRAPH
from memory_inspector.files.stores import memory_stores
from memory_inspector.files.stores.memory_stores import NAMES, Row, TextProgram, memories_of

REFERENCE = [
    {"type": "entity", "name": "Ana", "entityType": "person", "observations": ["allergic to nuts", "lives in Faro"]},
    {"type": "entity", "name": "Casa Lume", "entityType": "restaurant", "observations": []},
    {"type": "relation", "from": "Ana", "to": "Casa Lume", "relationType": "works_at"},
]


def lines(*values):
    return "\n".join(map(json.dumps, values)).encode()


def texts(name, data):
    return [(fact.text, fact.state) for _, fact in read_facts_file(data, filename=name).facts]


@pytest.mark.data
def test_mem0_s_last_words_and_agno_s_memories_become_facts():
    mem0, agno = (shared(f"stores/{name}").read_bytes() for name in ("mem0_history.db", "agno.db"))
    assert texts("history.db", mem0) == [
        ("User prefers light mode", "active"),
        ("I like Python over JavaScript", "active"),
        ("Noted", "active"),
    ]
    [(_, known)] = read_facts_file(agno, filename="agno.db").facts
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
    [(_, known)] = read_facts_file(agno, filename="agno.db").facts
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
    with pytest.raises(FormatError, match=f"a SQLite database of none of {NAMES}"):
        texts("x.db", path.read_bytes())


def test_new_metadata_of_a_memory_of_mem0_leaves_the_texts_that_it_had(tmp_path):
    path = tmp_path / "history.db"
    rows = [(None, "likes tea", "ADD"), ("likes tea", "likes green tea", "UPDATE"), *[("likes green tea",) * 2] * 2]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE history (memory_id, old_memory, new_memory, event)")
        for old, new, *event in rows:
            connection.execute("INSERT INTO history VALUES ('a', ?, ?, ?)", (old, new, *(event or ["UPDATE"])))
    assert [fact.texts for fact in memories_of(path)["memories"].facts] == [("likes tea", "likes green tea")]


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


ODD = {
    "a relation to no entity": {"type": "relation", "from": "Ana", "to": "Rui", "relationType": "knows"},
    "a marker of the file": {"type": "_aim", "source": "mcp-knowledge-graph"},
    "a relation of an entity to itself": {"type": "relation", "from": "Ana", "to": "Ana", "relationType": "knows"},
    "an entity twice": {"type": "entity", "name": "Ana", "entityType": "person", "observations": ["allergic to nuts"]},
    "a name that differs by a capital": {"type": "entity", "name": "ana", "entityType": "person", "observations": []},
    "a long name": {"type": "entity", "name": "A" * 500, "entityType": "x", "observations": ["is long"]},
    "a long name in a relation": {"type": "relation", "from": "Ana", "to": "B" * 500, "relationType": "knows"},
    "no observations": {"type": "entity", "name": "Faro", "entityType": "place"},
    "observations that are no texts": {"type": "entity", "name": "Faro", "observations": [3, None]},
    "an observation as an object": {"type": "entity", "name": "Faro", "observations": [{"content": "lies south"}]},
    "NUL and half a character": {"type": "entity", "name": "P", "entityType": "x", "observations": ["a\x00b \ud800"]},
    "an observation of two lines": {"type": "entity", "name": "P", "entityType": "x", "observations": ["a\nb"]},
    "another kind of line": {"type": "note", "text": "?"},
    "no object": [1],
}  # fmt: skip


def opened_memory(path):
    """The active facts and the relations of the session that shows a memory file, opened and looked at again."""
    database, services = Database.open(None), Services()
    [session_id] = open_store(path, database, services=services)
    memory = Memory.open(session_id, database, services=services)
    follower = StoreFollower(database, services)
    assert follower.look() == 0, "a second look changes nothing"
    assert follower.problems == {}
    facts = [fact.text for fact in memory.facts.read(FACTS) if fact.state == "active"]
    relations = memory.blocks.graph(GRAPH).relations() if any(b.kind == "graph" for b in memory.blocks) else []
    return facts, [each.predicate for each in relations], follower.notes[session_id]


@pytest.mark.parametrize("row", ODD.values(), ids=ODD)
def test_a_line_that_is_odd_costs_itself_alone_where_a_memory_file_is_opened(row, tmp_path):
    path = tmp_path / "memory.jsonl"
    path.write_bytes(lines(row, *REFERENCE))
    facts, relations, note = opened_memory(path)
    assert {"Ana: allergic to nuts", "Ana: lives in Faro"} <= set(facts)
    assert "works_at" in relations or "works at" in relations
    assert bool(note) == (isinstance(row, list) or row["type"] == "note")
    assert read_facts_file(lines(row, *REFERENCE), filename="m.jsonl").facts
    assert read_graph_file(lines(row, *REFERENCE), "m.jsonl").relations


@pytest.mark.parametrize("form", ["array", "read_graph", "cut off"])
def test_a_memory_file_as_an_array_an_answer_or_half_written_is_opened(form, tmp_path):
    path = tmp_path / "memory.json"
    kinds = {"entities": "entity", "relations": "relation"}
    answer = {
        name: [{key: value for key, value in row.items() if key != "type"} for row in REFERENCE if row["type"] == kind]
        for name, kind in kinds.items()
    }
    whole = {
        "array": json.dumps(REFERENCE).encode(),
        "read_graph": json.dumps(answer).encode(),
        "cut off": lines(*REFERENCE) + b'\n{"type": "entity", "name": "Ru',
    }
    path.write_bytes(whole[form])
    facts, relations, note = opened_memory(path)
    assert facts == ["Ana: allergic to nuts", "Ana: lives in Faro"]
    assert len(relations) == 1
    assert bool(note) == (form == "cut off")


def test_a_line_of_the_table_is_all_that_another_program_s_json_needs(tmp_path, monkeypatch):
    def read(text, filename):
        notes = json.loads(text).get("notes") if text.startswith('{"notes"') else None
        return notes and (Row(n, [note.get("says")], part=note.get("who", "")) for n, note in enumerate(notes, 1))

    monkeypatch.setattr(memory_stores, "TEXTS", (*memory_stores.TEXTS, TextProgram("Notes", "notes.json", read)))
    path = tmp_path / "notes.json"
    path.write_text(json.dumps({"notes": [{"says": "Rows on Mondays"}, {"says": 3}]}))
    facts, relations, note = opened_memory(path)
    assert (facts, relations) == (["Rows on Mondays"], [])
    assert note.endswith("no fact can be read there: 2.")
    file = read_facts_file(path.read_bytes(), filename="notes.json")
    assert [fact.text for _, fact in file.facts] == ["Rows on Mondays"]
    assert [problem.place for problem in file.problems] == [2]
    of_two = json.dumps({"notes": [{"says": "a", "who": "Ana"}, {"says": "b", "who": "Ben"}]})
    with pytest.raises(FormatError, match="of 2 users"):
        read_facts_file(of_two, filename="notes.json")


def test_an_unreadable_line_of_a_memory_file_is_named_where_its_facts_are_imported():
    file = read_facts_file(lines(*REFERENCE) + b'\n{"type": "entity", "na', filename="memory.jsonl")
    assert len(file.facts) == 2
    assert [problem.what for problem in file.problems] == ["no text"]


def test_a_memory_file_whose_only_line_is_a_relation_is_opened(tmp_path):
    path = tmp_path / "memory.jsonl"
    path.write_bytes(lines(REFERENCE[-1]))
    facts, relations, note = opened_memory(path)
    assert (facts, len(relations), note) == ([], 1, "")


TEXTS = st.text(st.sampled_from("aA \n\x00\ud800ßİ"), max_size=4)


@pytest.mark.slow
@given(st.lists(st.tuples(TEXTS, st.lists(TEXTS, max_size=3)), min_size=1, max_size=4), st.lists(TEXTS, max_size=3))
@settings(max_examples=40, deadline=None)
def test_any_memory_file_is_opened_once_and_then_changes_nothing(entities, ends):
    rows = [{"type": "entity", "name": "x", "entityType": "", "observations": []}]
    rows += [{"type": "entity", "name": name, "entityType": "t", "observations": said} for name, said in entities]
    rows += [{"type": "relation", "from": a, "to": b, "relationType": "r"} for a, b in itertools.pairwise(ends)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.jsonl"
        path.write_text("\n".join(map(json.dumps, rows)))
        opened_memory(path)


@pytest.mark.parametrize("pair", [("Plays the oboe", "plays the oboe"), ("Straße", "STRASSE"), ("a  b", "A B")])
def test_memories_that_differ_by_a_capital_are_one_and_the_rest_is_seen(pair, tmp_path):
    path = tmp_path / "history.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE history (id, memory_id, old_memory, new_memory, event)")
        for number, text in enumerate([*pair, "Rehearses"]):
            connection.execute("INSERT INTO history VALUES (?, ?, NULL, ?, 'ADD')", (number, f"m{number}", text))
        connection.execute(
            "INSERT INTO history VALUES (9, 'm2', ?, ?, 'UPDATE')", ("Rehearses on Tuesdays", "rehearses on tuesdays")
        )
        connection.commit()
    facts, _, _ = opened_memory(path)
    assert len(facts) == 2
    assert "rehearses on tuesdays" in facts


def crew(path, *rows):
    """Write a long-term memory as CrewAI does: the time is a text of seconds since 1970."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS long_term_memories (id INTEGER PRIMARY KEY AUTOINCREMENT,"
            " task_description TEXT, metadata TEXT, datetime TEXT, score REAL)"
        )
        for task, about, at in rows:
            about = about if isinstance(about, str | bytes | None) else json.dumps(about)
            connection.execute("INSERT INTO long_term_memories VALUES (NULL, ?, ?, ?, 8.5)", (task, about, at))
    return path


ADVISED = ("Plan a dinner", {"suggestions": ["Ask about nuts.", " ", "Name the wine"], "quality": 8}, "1760000000.25")
UNADVISED = ("Book a table", {"suggestions": [], "quality": 9, "agent": "Host"}, "2025-10-10 09:00")
CREW_FACTS = {
    "Ask about nuts; Name the wine": {"quality": 8, "task": "Plan a dinner", "time": "2025-10-09T08:53:20+00:00"},
    "Book a table": {"quality": 9, "agent": "Host", "task": "Book a table", "time": "2025-10-10 09:00"},
}


def test_what_a_crew_was_advised_is_a_fact_with_the_time_of_its_row(tmp_path):
    data = crew(tmp_path / "long_term_memory_storage.db", ADVISED, UNADVISED).read_bytes()
    memory = Memory.from_defaults(memory_blocks=[FactExtractionMemoryBlock(name="facts")])
    desk = memory.facts.desk("facts")
    desk.apply(plan_import(read_facts_file(data, filename="long_term_memory_storage.db"), desk.facts()).change)
    assert {fact.text: fact.metadata for fact in memory.facts.read("facts")} == CREW_FACTS


def test_a_long_term_memory_of_crewai_is_opened_in_place_and_followed(tmp_path):
    path = crew(tmp_path / "long_term_memory_storage.db", ADVISED)
    database, services = Database.open(None), Services()
    [session_id] = open_store(path, database, services=services)
    follower = StoreFollower(database, services)
    assert follower.look() == 0
    crew(path, UNADVISED)
    assert follower.look() == 1
    memory = Memory.open(session_id, database, services=services)
    assert {fact.text: fact.metadata for fact in memory.facts.read(FACTS)} == CREW_FACTS


def test_a_memory_that_a_store_lost_comes_back_as_the_same_fact_as_the_store_has_it_now(tmp_path):
    path, database, services = tmp_path / "agno.db", Database.open(None), Services()

    def write(*rows):
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("CREATE TABLE IF NOT EXISTS m (memory_id, memory, topics, user_id)")
            connection.execute("DELETE FROM m")
            for id, text, *topics in rows:
                values = (id, json.dumps(text), json.dumps(topics))
                connection.execute("INSERT INTO m VALUES (?, ?, ?, 'ada')", values)

    write(("m1", "Lives in Ghent", "home"), ("m2", "Likes tea", "drinks"), ("m3", "Has a cat"))
    [session_id] = open_store(path, database, services=services)
    follower, memory = StoreFollower(database, services), Memory.open(session_id, database, services=services)
    first = {fact.text: fact.id for fact in memory.facts.read(FACTS)}
    write(("m3", "Has a cat"))
    follower.look()
    # The first with its id and other words, the second with its words and another id.
    write(("m1", "Lives in Porto", "home"), ("m9", "Likes tea", "taste"), ("m3", "Has a cat"))
    assert follower.look() == 1
    facts = {fact.text: fact for fact in memory.facts.read(FACTS, states=None)}
    assert {text: fact.state for text, fact in facts.items()} == dict.fromkeys(
        ("Lives in Porto", "Likes tea", "Has a cat"), "active"
    )
    assert (facts["Lives in Porto"].id, facts["Likes tea"].id) == (first["Lives in Ghent"], first["Likes tea"])
    assert facts["Likes tea"].topics == ("taste",)
    for fact in facts.values():
        versions = memory.facts.history(fact)
        assert [version.reason for version in versions].count(GONE) == (fact.text != "Has a cat")
        assert versions[-1].reason is None, "what is back is not gone"
    write(("m3", "Has a cat"), ("m9", "Likes coffee", "taste"), ("m1", "Lives in Porto", "home"))
    assert follower.look() == 1
    assert {fact.text for fact in memory.facts.read(FACTS, states=None)} == {
        "Lives in Porto", "Likes coffee", "Has a cat",
    }  # fmt: skip
    assert StoreFollower(database, services).look() == 0


BAD_ROWS = {
    "no words": ("", {"suggestions": []}, "1760000000", "no text"),
    "no task": (None, None, "1760000000", "no text"),
    "broken metadata": ("Shop", '{"suggestions": [', "1760000000", "metadata must be a JSON object"),
    "metadata of another kind": ("Shop", "[1]", "1760000000", "metadata must be a JSON object"),
    "metadata that are bytes": ("Shop", b"\xff", "1760000000", "metadata must be a JSON object"),
    "metadata that are deep": ("Shop", "[" * 100_000, "1760000000", "metadata must be a JSON object"),
    "no number": ("Shop", '{"quality": NaN}', "1760000000", "metadata must be a JSON object"),
    "advice that is no text": ("Shop", {"suggestions": [3]}, "1760000000", "text, state and category must be texts"),
    "a time of bytes": ("Shop", {}, b"\x00", "metadata must be a JSON object"),
}


@pytest.mark.parametrize("bad", BAD_ROWS.values(), ids=BAD_ROWS)
def test_a_bad_row_of_crewai_costs_itself_alone_and_is_named(bad, tmp_path):
    *row, reason = bad
    path = crew(tmp_path / "long_term_memory_storage.db", ADVISED, row, UNADVISED)
    file = read_facts_file(path.read_bytes(), filename=path.name)
    assert [fact.text for _, fact in file.facts] == list(CREW_FACTS)
    assert [(problem.place, problem.what) for problem in file.problems] == [(2, reason)]
    facts, _, note = opened_memory(path)
    assert sorted(facts) == sorted(CREW_FACTS)
    assert note == "1 row was left out, as no fact can be read there: 2."


def mcp_memory_service(path, *rows):
    """Write memories as mcp-memory-service does, beside the virtual table of an extension that is not loaded here."""
    with closing(sqlite3.connect(path)) as connection, connection:
        if not connection.execute("SELECT name FROM sqlite_master").fetchall():
            connection.execute(
                "CREATE TABLE memories (id INTEGER PRIMARY KEY AUTOINCREMENT, content_hash TEXT UNIQUE NOT NULL,"
                " content TEXT NOT NULL, tags TEXT, memory_type TEXT, metadata TEXT, created_at REAL, updated_at REAL,"
                " created_at_iso TEXT, updated_at_iso TEXT, deleted_at REAL DEFAULT NULL)"
            )
            connection.execute("PRAGMA writable_schema=ON")
            connection.execute(
                "INSERT INTO sqlite_master VALUES ('table', 'memory_embeddings', 'memory_embeddings', 0,"
                " 'CREATE VIRTUAL TABLE memory_embeddings USING vec0(content_embedding FLOAT[384])')"
            )
        for content, tags, kind, about, at, deleted in rows:
            connection.execute(
                "INSERT INTO memories (content_hash, content, tags, memory_type, metadata, created_at, deleted_at)"
                " VALUES (hex(randomblob(8)), ?, ?, ?, ?, ?, ?)", (content, tags, kind, about, at, deleted),
            )  # fmt: skip
    return path


NOTED = ("Deploys on Fridays", "work, deploy,,Work", "decision", '{"source": "cli"}', 1760000000.25, None)
PLAIN = ("Likes tea", None, None, None, None, None)
FORGOTTEN = ("Likes coffee", "drinks", "note", "{}", 1760000000.0, 1760000100.0)
SERVICE_FACTS = {
    "Deploys on Fridays": (
        ("Work", "deploy"),
        {"source": "cli", "memory_type": "decision", "time": "2025-10-09T08:53:20+00:00"},
    ),
    "Likes tea": ((), {}),
}


def test_memories_of_mcp_memory_service_that_are_not_deleted_become_facts(tmp_path):
    data = mcp_memory_service(tmp_path / "sqlite_vec.db", NOTED, FORGOTTEN, PLAIN).read_bytes()
    memory = Memory.from_defaults(memory_blocks=[FactExtractionMemoryBlock(name="facts")])
    desk = memory.facts.desk("facts")
    desk.apply(plan_import(read_facts_file(data, filename="sqlite_vec.db"), desk.facts()).change)
    assert {fact.text: (fact.topics, fact.metadata) for fact in memory.facts.read("facts")} == SERVICE_FACTS


def test_a_store_of_mcp_memory_service_is_opened_in_place_and_followed(tmp_path):
    path = mcp_memory_service(tmp_path / "sqlite_vec.db", NOTED, FORGOTTEN)
    before = path.read_bytes()
    database, services = Database.open(None), Services()
    [session_id] = open_store(path, database, services=services)
    follower = StoreFollower(database, services)
    assert follower.look() == 0
    assert path.read_bytes() == before
    mcp_memory_service(path, PLAIN)
    assert follower.look() == 1
    memory = Memory.open(session_id, database, services=services)
    assert {fact.text: (fact.topics, fact.metadata) for fact in memory.facts.read(FACTS)} == SERVICE_FACTS
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE memories SET deleted_at = 1760000200.0 WHERE content = 'Likes tea'")
    assert follower.look() == 1
    assert [fact.text for fact in memory.facts.read(FACTS) if fact.state == "active"] == [NOTED[0]]


BAD_MEMORIES = {
    "no words": ((" ", "a", "note", "{}", 1760000000.0, None), "no text"),
    "words of bytes": ((b"\xff", "a", "note", "{}", 1760000000.0, None), "text, state and category must be texts"),
    "broken metadata": (("Shop", "a", "note", '{"a": [', 1760000000.0, None), "metadata must be a JSON object"),
    "metadata of another kind": (("Shop", "a", "note", "[1]", 1760000000.0, None), "metadata must be a JSON object"),
    "a type of bytes": (("Shop", "a", b"\xff", "{}", 1760000000.0, None), "metadata must be a JSON object"),
    "an endless time": (("Shop", "a", "note", "{}", float("inf"), None), "metadata must be a JSON object"),
    "tags of bytes": (("Shop", b"\xff", "note", "{}", 1760000000.0, None), "topics must be texts"),
}


@pytest.mark.parametrize(("bad", "reason"), BAD_MEMORIES.values(), ids=BAD_MEMORIES)
def test_a_bad_row_of_mcp_memory_service_costs_itself_alone_and_is_named(bad, reason, tmp_path):
    path = mcp_memory_service(tmp_path / "sqlite_vec.db", NOTED, bad, PLAIN)
    file = read_facts_file(path.read_bytes(), filename=path.name)
    assert [fact.text for _, fact in file.facts] == list(SERVICE_FACTS)
    assert [(problem.place, problem.what) for problem in file.problems] == [(2, reason)]
    facts, _, note = opened_memory(path)
    assert sorted(facts) == sorted(SERVICE_FACTS)
    assert note == "1 row was left out, as no fact can be read there: 2."


def write_history(path, texts):
    """Write Mem0's history with a memory for each of the texts; `b"..."` is a text in another encoding than UTF-8."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE history (memory_id, old_memory, new_memory, event)")
        for number, text in enumerate(texts):
            connection.execute("INSERT INTO history VALUES (?, NULL, CAST(? AS TEXT), 'ADD')", (number, text))


def test_a_text_in_another_encoding_costs_no_other_row(tmp_path):
    write_history(tmp_path / "history.db", ["likes tea", "lives in Évora".encode("latin-1"), "lives in Faro"])
    assert opened_memory(tmp_path / "history.db")[0] == ["likes tea", "lives in \ufffdvora", "lives in Faro"]


def test_a_store_that_ends_within_a_page_is_refused(tmp_path):
    path = tmp_path / "history.db"
    write_history(path, ["likes tea", "x" * 1_000, "lives in Faro"])
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(FormatError):
        opened_memory(path)

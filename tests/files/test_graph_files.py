"""Graphs as files: written, read back where data is read, imported; and what is no graph is refused in one sentence."""

import json
import re
from contextlib import suppress

import pytest
from engine_fakes import open_memory
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_core.blocks.graph import GraphMemoryBlock
from memory_core.errors import ConfigError, FormatError
from memory_core.limits import MAX_FILE_BYTES
from memory_core.planning.graph_rules import TYPES, Entity, Graph, Relation, clean_name, normal_name
from memory_inspector.files import graph_files
from memory_inspector.files.graph_files import FORMS, file_of, import_graph, read_graph_file, write_graph


def entity(id, name, type="other", aliases=(), state="active"):
    return Entity(id, "session:s", "graph", name, tuple(aliases), type, state, None, "extracted", 1, 0.0, 0.0, 1)


def relation(id, subject, predicate, object, state="active"):
    return Relation(
        id, "session:s", "graph", subject, predicate, object, state, "extracted", 1, None, None, 0.0, 0.0, 0.0, 1, ()
    )


def graph(entities, relations=()):
    return Graph({each.id: each for each in entities}, {each.id: each for each in relations})


ALPHA = graph(
    [entity(1, "Alice", "person", ["Ali"]), entity(2, "Project Alpha", "project"), entity(3, "March 2026", "date")],
    [relation(1, 1, "manages", 2), relation(2, 2, "deadline", 3), relation(3, 1, "works on", 2, "ended")],
)


def back(of=ALPHA):
    return read_graph_file(write_graph(of, "json").encode(), "graph.json")


def content(file):
    return file.entities, file.relations


def refused(text, name="graph.json"):
    with pytest.raises(FormatError) as told:
        read_graph_file(text.encode() if isinstance(text, str) else text, name)
    said = str(told.value)
    assert "\n" not in said
    assert len(said) < 300
    assert said.endswith(" Nothing was imported.")
    return said


# -- there and back ------------------------------------------------------------------------------


def test_a_graph_is_read_as_it_was_written():
    file = back()
    assert file.isolated == 0
    assert content(file) == content(file_of(ALPHA))
    assert [(r.subject, r.predicate, r.object, r.ended) for r in file.relations] == [
        ("Alice", "manages", "Project Alpha", False),
        ("Project Alpha", "deadline", "March 2026", False),
        ("Alice", "works on", "Project Alpha", True),
    ]
    assert file.entities[0].aliases == ("Ali",)


@pytest.mark.parametrize("form", FORMS)
def test_what_was_removed_or_merged_is_not_in_a_file(form):
    some = graph(
        [entity(1, "Ana"), entity(2, "Anna", state="merged"), entity(3, "Rui", state="retired"), entity(4, "Lisbon")],
        [relation(1, 1, "knows", 3), relation(2, 1, "lives in", 4, "retired"), relation(3, 1, "from", 4)],
    )
    text = write_graph(some, form)
    assert "Anna" not in text
    assert "Rui" not in text
    assert "lives in" not in text
    assert [each.predicate for each in file_of(some).relations] == ["from"]


def test_there_is_no_other_form():
    with pytest.raises(ConfigError, match="json or cypher, not 'rdf'"):
        write_graph(ALPHA, "rdf")


names = (
    st.text(min_size=1, max_size=30)
    .map(lambda text: clean_name(clean_name(clean_name(graph_files._plain(text)))))
    .filter(normal_name)
)
awkward = st.sampled_from(
    [
        "O'Neil", 'Say "hi"', r"back\slash", r"\u0027 OR 1", "a`b", "<b>&amp;</b>", "a]]>b", "ßtraße", "北京", "🦜",
        "a\u2028b", "n1", "x' SET a.type = 'y", "'}) DETACH DELETE n //", r"\' + 'u", r"a\Under",
    ]
)  # fmt: skip


@st.composite
def graphs(draw):
    found = draw(st.lists(st.one_of(awkward, names), min_size=2, max_size=8, unique_by=normal_name))
    entities = [
        entity(
            number,
            name,
            draw(st.sampled_from(TYPES)),
            draw(st.lists(st.one_of(awkward, names), max_size=2, unique=True)),
        )
        for number, name in enumerate(found, 1)
    ]
    ends = st.lists(st.integers(1, len(found)), min_size=2, max_size=2, unique=True)
    told = draw(st.lists(st.tuples(ends, st.one_of(awkward, names), st.sampled_from(["active", "ended"])), max_size=8))
    rows = {(tuple(pair), predicate, state): None for pair, predicate, state in told}
    relations = [
        relation(number, pair[0], predicate, pair[1], state) for number, (pair, predicate, state) in enumerate(rows, 1)
    ]
    return graph(entities, relations)


@pytest.mark.slow
@settings(max_examples=150)
@given(some=graphs())
def test_every_graph_is_read_as_it_was_written(some):
    file = back(some)
    assert content(file) == content(file_of(some))
    again = graph(
        [entity(number, each.name, each.type, each.aliases) for number, each in enumerate(file.entities, 1)],
    )
    assert content(back(again))[0] == file.entities


def test_cypher_makes_each_entity_once_and_each_relation_between_two_of_them():
    assert write_graph(ALPHA, "cypher").splitlines() == [
        "// Memory Inspector graph 1",
        "MERGE (a:Entity {name: 'Alice'}) SET a.type = 'person', a.aliases = ['Ali'];",
        "MERGE (a:Entity {name: 'Project Alpha'}) SET a.type = 'project', a.aliases = [];",
        "MERGE (a:Entity {name: 'March 2026'}) SET a.type = 'date', a.aliases = [];",
        *(
            f"MATCH (a:Entity {{name: '{subject}'}}), (b:Entity {{name: '{object}'}}) "
            f"MERGE (a)-[:{type} {{predicate: '{predicate}', state: '{state}'}}]->(b);"
            for subject, object, type, predicate, state in [
                ("Alice", "Project Alpha", "MANAGES", "manages", "active"),
                ("Project Alpha", "March 2026", "DEADLINE", "deadline", "active"),
                ("Alice", "Project Alpha", "WORKS_ON", "works on", "ended"),
            ]
        ),
    ]


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("O'Neil", r"'O\'Neil'"),
        (r"back\slash", r"'back\\slash'"),
        (r"\u0027 OR 1", r"'\\' + 'u0027 OR 1'"),
        ("a\u2028b", r"'a b'"),
        ("a\u200bb", r"'a\u200bb'"),
    ],
)
def test_an_awkward_name_is_one_string_of_cypher(name, written):
    assert f"{{name: {written}}}" in write_graph(graph([entity(1, name)]), "cypher")


@pytest.mark.slow
@settings(max_examples=100)
@given(some=graphs())
def test_words_never_leave_their_string_in_cypher(some):
    for line in write_graph(some, "cypher").split("\n"):
        assert line.isprintable() or any(ord(character) > 0xFFFF for character in line)
        outside = re.sub(r"'(?:[^'\\]|\\.)*'", "", line)
        assert not re.search(r"[\\'\"`/]", outside.removeprefix("//"))
        assert not re.search(r"\bDELETE\b|OR 1|SET a\.type = y", outside)
        assert not re.search(r"(?<!\\)(?:\\\\)+[uU]", line)


# -- files of others -----------------------------------------------------------------------------


def test_json_by_hand_may_name_entities_instead_of_numbering_them():
    text = {
        "entities": [{"name": "Ana", "type": "Person"}, {"name": "Porto"}],
        "relations": [{"subject": "Ana", "predicate": "lives in", "object": "porto"}],
    }
    file = read_graph_file(json.dumps(text).encode(), "mine.json")
    assert [(r.subject, r.object, r.ended) for r in file.relations] == [("Ana", "Porto", False)]
    assert [each.type for each in file.entities] == ["person", "other"]


def test_a_file_needs_no_known_ending():
    assert content(read_graph_file(write_graph(ALPHA, "json").encode(), "graph")) == content(file_of(ALPHA))


def test_cypher_is_a_program_and_is_not_read():
    for name in ("graph.cypher", "graph.cql", "graph"):
        assert "Choose a JSON file" in refused(write_graph(ALPHA, "cypher"), name)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "latin-1"])
@pytest.mark.parametrize("name", ["graph.graphml", "graph.xml", "graph"])
def test_graphml_is_refused_and_json_asked_for(name, encoding):
    text = '<?xml version="1.0"?>\n<graphml><graph><node id="Zoë"/></graph></graphml>'
    assert refused(text.encode(encoding), name) == (
        f'{name} is GraphML or other XML: give the graph as JSON instead, with "entities" and "relations". '
        "Nothing was imported."
    )


# -- hostile files -------------------------------------------------------------------------------


def as_json(**changes):
    value = json.loads(write_graph(ALPHA, "json"))
    return json.dumps({**value, **changes})


def row(member, place, **changes):
    value = json.loads(write_graph(ALPHA, "json"))
    value[member][place] |= changes
    return json.dumps(value, indent=1)


WRONG_JSON = {
    "[]": "does not start with {",
    '"text"': "does not start with {",
    "{}": 'it is not one object with "entities" and "relations"',
    '{"relations": []}': 'it holds no list "entities"',
    '{"entities": {}, "relations": []}': 'it holds no list "entities"',
    '{"entities": [], "relations": []}': "there is no entity in it",
    '{"entities": [3], "relations": []}': "entities[0]: this is no object",
    '{"entities": [': "ends too early",
    '{"entities": []} {"a": 1}': "is not a graph",
    '{"a": ' * 9000: "",
    as_json(version=2): "newer Memory Inspector",
    as_json(version="x"): "its format is another one",
    as_json(format="other"): "its format is another one",
    row("entities", 0, name=""): "entities[0]: an entity has an empty name",
    row("entities", 0, name=7): "an entity has no name",
    row("entities", 0, name=" ' "): "empty name",
    row("entities", 0, name="x" * 81): "81 characters",
    row("entities", 0, id=2): 'the id "#2" is there twice',
    row("entities", 0, id=True): "neither a number nor a text",
    row("entities", 0, id=None): "neither a number nor a text",
    row("entities", 0, aliases="Ali"): "aliases of an entity must be a list",
    row("entities", 0, aliases=[3]): "aliases of an entity must be a list",
    row("relations", 0, subject=9): 'a relation names "#9", which is no entity',
    row("relations", 0, subject={"a": 1}): "neither a number nor a text",
    row("relations", 0, subject=2): "joins something to itself",
    row("relations", 0, predicate=None): "a relation has no predicate",
    row("relations", 0, predicate="..."): "a relation has an empty predicate",
    row("relations", 0, state="maybe"): 'the state of a relation is "maybe", use active or ended',
    row("relations", 0, state=["active"]): "use active or ended",
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "name", "why"),
    [
        *((text, "graph.json", why) for text, why in WRONG_JSON.items()),
        (b"\x89PNG\r\n\x1a\n\x00", "graph.json", "is not a graph: it is a PNG image. Choose a JSON file"),
        (b'{"entities": "\xff"}', "graph.json", "not UTF-8"),
    ],
)
def test_what_is_no_graph_is_refused_in_one_sentence(text, name, why):
    assert why in refused(text, name)


def test_a_large_file_is_refused_before_it_is_read(monkeypatch):
    assert refused(" " * (MAX_FILE_BYTES + 1)).startswith("File is ")
    monkeypatch.setattr(graph_files, "MAX_ROWS", 5)
    assert "more than 5 entities and relations" in refused(write_graph(ALPHA, "json"))


@given(st.binary(max_size=300), st.sampled_from(["a.json", "a.graphml", "a.cypher", "a"]))
def test_no_file_breaks_reading(data, name):
    with suppress(FormatError):
        read_graph_file(data, name)


# -- importing -----------------------------------------------------------------------------------


def memory():
    return open_memory(memory_blocks=[GraphMemoryBlock(name="graph")])


def test_an_imported_graph_is_the_graph_and_one_change_set():
    desk = memory().blocks.graph()
    change = import_graph(desk, back())
    assert (change.action, change.actor) == ("import", "user")
    assert content(file_of(desk.graph())) == content(file_of(ALPHA))
    assert [desk.describe(path) for path in desk.paths("Ali", "March 2026")] == [
        "Alice → manages → Project Alpha → deadline → March 2026"
    ]
    desk.undo()
    assert desk.relations() == []


def test_importing_twice_adds_nothing():
    desk = memory().blocks.graph()
    import_graph(desk, back())
    assert import_graph(desk, back()) is None
    assert len(desk.relations()) == 3


def test_an_entity_without_relations_is_counted():
    lonely = graph([entity(1, "Ana"), entity(2, "Rui"), entity(3, "Tom")], [relation(1, 1, "knows", 2)])
    assert back(lonely).isolated == 1

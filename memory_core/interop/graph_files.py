"""A knowledge graph as a file: JSON, written and read; GraphML and Cypher, written only.

A file holds the entities and relations that hold or held once; what was removed or merged is not in
it, nor which messages said it. JSON is read from other programs too, GraphML is for programs that
draw graphs, and Cypher is a program for a graph database to run. Reading changes nothing.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from xml.sax.saxutils import escape

from memory_core.curation.graph_desk import GraphDesk
from memory_core.errors import ConfigError
from memory_core.events import Actor
from memory_core.history.change_log import AppliedChangeSet
from memory_core.interop.located_json import GRAPH, Located, Place, problem, read_text, read_values
from memory_core.interop.reference_memory import ReferenceMemory, read_reference_memory
from memory_core.limits import check_size
from memory_core.messages import storable
from memory_core.planning.graph_changes import NamedRelation
from memory_core.planning.graph_rules import LONGEST, TYPES, Graph, clean_name, normal_name
from memory_core.text import shortened

Form = Literal["json", "graphml", "cypher"]
FORMS: tuple[Form, ...] = ("json", "graphml", "cypher")

MAX_ROWS = 100_000
"""Entities and relations together that one file may hold."""

_FORMAT = "memory-inspector-graph"
_STATES = ("active", "ended")


@dataclass(frozen=True, slots=True)
class FileEntity:
    name: str
    type: str = "other"
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileRelation:
    """A relation of a file, between entities by their names."""

    subject: str
    predicate: str
    object: str
    state: Literal["active", "ended"] = "active"


@dataclass(frozen=True, slots=True)
class GraphFile:
    """Checked content of a graph file."""

    name: str
    """The file's name."""
    entities: tuple[FileEntity, ...] = field(repr=False)
    relations: tuple[FileRelation, ...] = field(repr=False)

    @property
    def isolated(self) -> int:
        """How many entities have no relation: those are not imported."""
        joined = {normal_name(end) for each in self.relations for end in (each.subject, each.object)}
        return sum(normal_name(entity.name) not in joined for entity in self.entities)


def write_graph(graph: Graph, form: str) -> str:
    """A graph as the text of a file: `json`, `graphml` or `cypher`. The same graph gives the same text.

    Raises:
        ConfigError: there is no such form.
    """
    writers: Mapping[str, Callable[[GraphFile], str]] = {
        "json": _write_json,
        "graphml": _write_graphml,
        "cypher": _write_cypher,
    }
    if form not in writers:
        raise ConfigError(f"a graph is written as {', '.join(FORMS[:-1])} or {FORMS[-1]}, not {form!r}")
    return writers[form](file_of(graph))


def file_of(graph: Graph, name: str = "graph") -> GraphFile:
    """The entities that are active, and the relations between them that hold or held once."""
    there = {id: entity for id, entity in sorted(graph.entities.items()) if entity.state == "active" and entity.name}
    return GraphFile(
        name,
        tuple(
            FileEntity(_plain(entity.name), entity.type, tuple(_plain(alias) for alias in entity.aliases))
            for entity in there.values()
        ),
        tuple(
            FileRelation(
                _plain(there[relation.subject].name),
                _plain(relation.predicate),
                _plain(there[relation.object].name),
                "ended" if relation.state == "ended" else "active",
            )
            for _, relation in sorted(graph.relations.items())
            if relation.state in _STATES and {relation.subject, relation.object} <= there.keys() and relation.predicate
        ),
    )


def read_graph_file(data: bytes, name: str) -> GraphFile:
    """Read and check a graph file. Nothing is stored.

    Raises:
        FormatError: it cannot be read, or not all of it is a graph; one sentence, with the place.
    """
    check_size(len(data))
    if _is_xml(data):
        raise problem(name, 'is GraphML or other XML: give the graph as JSON instead, with "entities" and "relations".')
    return _read_json(read_text(data, filename=name, wanted=GRAPH), name)


def import_graph(desk: GraphDesk, file: GraphFile, *, actor: Actor = "user") -> AppliedChangeSet | None:
    """Add what a file holds to a graph, as one change set that can be undone; None: all of it was there already."""
    aliases = {entity.name: entity.aliases for entity in file.entities if entity.aliases}
    return desk.add_many(named_relations(file), aliases=aliases, actor=actor)


def named_relations(file: GraphFile) -> list[NamedRelation]:
    """The relations of a file between the names of their entities, with their types."""
    types = {normal_name(entity.name): entity.type for entity in file.entities}
    return [
        NamedRelation(
            each.subject,
            each.predicate,
            each.object,
            types.get(normal_name(each.subject), "other"),
            types.get(normal_name(each.object), "other"),
            ended=each.state == "ended",
        )
        for each in file.relations
    ]


def _is_xml(data: bytes) -> bool:
    # Without its mark and its zeros, UTF-16 begins with the same "<" as UTF-8.
    return data[:200].replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n").startswith(b"<")


def _plain(text: str) -> str:
    """Words as every form can hold them: on one line, and nothing that is no character."""
    cleaned: str = storable(" ".join(text.split()))[0]
    return re.sub("[\x00-\x1f\x7f\ufffe\uffff]", "\ufffd", cleaned)


# -- checking ------------------------------------------------------------------------------------


class _Checking:
    """Takes the rows of one file in order, and refuses the file at the first that cannot be."""

    def __init__(self, filename: str) -> None:
        self._filename = filename
        self._names: dict[str, str] = {}
        """Name of each entity by its id in the file."""
        self._entities: dict[str, FileEntity] = {}
        self._joins: list[tuple[Place, str, str, str, str]] = []

    def entity(self, place: Place, id: str, values: Mapping[str, Any]) -> None:
        name = self._name(place, values.get("name"), "an entity")
        if id in self._names:
            self._wrong(place, f"the id {_shown(id)} is there twice")
        type = values.get("type")
        aliases = values.get("aliases") or ()
        if not isinstance(aliases, list | tuple) or not all(isinstance(alias, str) for alias in aliases):
            self._wrong(place, "the aliases of an entity must be a list of texts")
        self._names[id] = name
        others = tuple(dict.fromkeys(self._name(place, alias, "an alias") for alias in aliases))
        word = type.strip().lower() if isinstance(type, str) else "other"
        self._entities.setdefault(normal_name(name), FileEntity(name, word if word in TYPES else "other", others))
        self._count(place)

    def relation(self, place: Place, subject: str, object: str, values: Mapping[str, Any]) -> None:
        predicate = self._name(place, values.get("predicate"), "a relation")
        state = values.get("state") or "active"
        if state not in _STATES:
            self._wrong(place, f"the state of a relation is {_shown(state)}, use active or ended")
        self._joins.append((place, subject, predicate, object, str(state)))
        self._count(place)

    def file(self) -> GraphFile:
        relations: dict[FileRelation, None] = {}
        for place, subject, predicate, object, state in self._joins:
            ends = [self._named(place, end) for end in (subject, object)]
            if normal_name(ends[0]) == normal_name(ends[1]):
                self._wrong(place, "a relation joins something to itself")
            relations[FileRelation(ends[0], predicate, ends[1], "ended" if state == "ended" else "active")] = None
        if not self._entities and not relations:
            raise problem(self._filename, "holds no graph: there is no entity in it.")
        return GraphFile(self._filename, tuple(self._entities.values()), tuple(relations))

    def _named(self, place: Place, end: str) -> str:
        """The entity at an end of a relation, by its id, or by its name."""
        if end in self._names:
            return self._names[end]
        known = self._entities.get(normal_name(clean_name(end)))
        if known is None:
            self._wrong(place, f"a relation names {_shown(end)}, which is no entity of this file")
            raise AssertionError
        return known.name

    def _name(self, place: Place, value: Any, of: str) -> str:
        what = "predicate" if of == "a relation" else "name"
        if not isinstance(value, str):
            self._wrong(place, f"{of} has no {what}")
        text = _plain(value)
        if not normal_name(clean_name(text)):
            self._wrong(place, f"{of} has an empty {what}")
        if len(text) > LONGEST:
            self._wrong(place, f"a {what} has {len(text):,} characters, and the most is {LONGEST}")
        return text

    def _count(self, place: Place) -> None:
        if len(self._names) + len(self._joins) > MAX_ROWS:
            self._wrong(place, f"there are more than {MAX_ROWS:,} entities and relations")

    def _wrong(self, place: Place, what: str) -> None:
        raise problem(self._filename, f"{what}.", place=place)


def _shown(text: Any) -> str:
    return f'"{shortened(" ".join(str(text).split()), 24)}"'


# -- JSON ----------------------------------------------------------------------------------------


def _write_json(file: GraphFile) -> str:
    ids = {entity.name: number for number, entity in enumerate(file.entities, 1)}
    entities = [
        {"id": ids[entity.name], "name": entity.name, "type": entity.type, "aliases": list(entity.aliases)}
        for entity in file.entities
    ]
    relations = [
        {"subject": ids[each.subject], "predicate": each.predicate, "object": ids[each.object], "state": each.state}
        for each in file.relations
    ]
    head = json.dumps({"format": _FORMAT, "version": 1})[:-1]
    lists = (("entities", entities), ("relations", relations))
    rows = ",\n".join(f'"{name}": [{_rows(values)}]' for name, values in lists)
    return f"{head},\n{rows}}}\n"


def _rows(values: Sequence[Mapping[str, object]]) -> str:
    return "\n" * bool(values) + ",\n".join(json.dumps(value, ensure_ascii=False) for value in values)


def _read_json(text: str, name: str) -> GraphFile:
    if (memory := read_reference_memory(text, filename=name)) is not None:
        return graph_of(memory, name)
    if not text.lstrip().startswith("{"):
        raise problem(name, f"is not {GRAPH.format('it does not start with {')}.")
    values = read_values(text, filename=name)
    top = values[0]
    if len(values) != 1 or not isinstance(top.value.get("relations"), list):
        raise problem(name, 'is not a graph: it is not one object with "entities" and "relations".')
    version = top.value.get("version", 1)
    if top.value.get("format", _FORMAT) != _FORMAT or not isinstance(version, int):
        raise problem(name, "is not a graph: its format is another one.")
    if version > 1:
        raise problem(name, "was written by a newer Memory Inspector. Update Memory Inspector.")
    checking = _Checking(name)
    for row in _elements(top, "entities", name):
        id = row.value.get("id", row.value.get("name"))
        checking.entity(row.place, _id(id, row, name), row.value)
    for row in _elements(top, "relations", name):
        ends = [_id(row.value.get(end), row, name) for end in ("subject", "object")]
        checking.relation(row.place, ends[0], ends[1], row.value)
    return checking.file()


def graph_of(memory: ReferenceMemory, name: str) -> GraphFile:
    """The graph of MCP's reference memory server; what it observed of its entities are facts.

    A relation to an entity that is missing makes it; one of an entity to itself, and names that are too long for a
    graph, are left out.
    """
    entities: dict[str, FileEntity] = {}
    for given, kind in memory.entities:
        _add_entity(entities, given, kind)
    relations: dict[FileRelation, None] = {}
    for subject, predicate, object in memory.relations:
        ends = [_add_entity(entities, end) for end in (subject, object)]
        fits = 0 < len(predicate) <= LONGEST and None not in ends and ends[0] != ends[1]
        if fits and len(entities) + len(relations) <= MAX_ROWS:
            relations[FileRelation(str(ends[0]), _plain(predicate), str(ends[1]))] = None
    return GraphFile(name, tuple(entities.values()), tuple(relations))


def _add_entity(entities: dict[str, FileEntity], name: str, kind: str = "other") -> str | None:
    """The entity's name as it is there already, or now is; None for a name that a graph does not hold."""
    text = _plain(name)
    key = normal_name(clean_name(text))
    if not key or len(text) > LONGEST:
        return None
    word = kind.strip().lower()
    return entities.setdefault(key, FileEntity(text, word if word in TYPES else "other")).name


def _elements(top: Located, member: str, name: str) -> Iterable[Located]:
    found = top.member(member)
    if found is None or not isinstance(found.value, list):
        raise problem(name, f'is not a graph: it holds no list "{member}".')
    for row in found.elements():
        if not isinstance(row.value, dict):
            raise problem(name, "this is no object.", place=row.place)
        yield row


def _id(value: Any, row: Located, name: str) -> str:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise problem(name, "an entity is named by neither a number nor a text.", place=row.place)
    return f"#{value}" if isinstance(value, int) else value


# -- GraphML -------------------------------------------------------------------------------------

_GRAPHML = """\
<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="name" for="node" attr.name="name" attr.type="string"/>
<key id="type" for="node" attr.name="type" attr.type="string"/>
<key id="aliases" for="node" attr.name="aliases" attr.type="string"/>
<key id="predicate" for="edge" attr.name="predicate" attr.type="string"/>
<key id="state" for="edge" attr.name="state" attr.type="string"/>
<graph edgedefault="directed">
"""


def _write_graphml(file: GraphFile) -> str:
    ids = {entity.name: f"n{number}" for number, entity in enumerate(file.entities, 1)}
    lines = [_GRAPHML]
    for entity in file.entities:
        aliases = [json.dumps(list(entity.aliases), ensure_ascii=False)] if entity.aliases else []
        given = zip(("name", "type", "aliases"), (entity.name, entity.type, *aliases), strict=False)
        lines.append(f'<node id="{ids[entity.name]}">{_data(given)}</node>\n')
    for each in file.relations:
        ends = f'source="{ids[each.subject]}" target="{ids[each.object]}"'
        lines.append(f"<edge {ends}>{_data((('predicate', each.predicate), ('state', each.state)))}</edge>\n")
    return "".join([*lines, "</graph>\n</graphml>\n"])


def _data(values: Iterable[tuple[str, str]]) -> str:
    return "".join(f'<data key="{key}">{escape(text)}</data>' for key, text in values)


# -- Cypher --------------------------------------------------------------------------------------

_HEAD = "// Memory Inspector graph 1"
_TYPE = r"[A-Z][A-Z0-9_]{0,80}"


def _write_cypher(file: GraphFile) -> str:
    lines = [_HEAD]
    for entity in file.entities:
        aliases = ", ".join(map(_quoted, entity.aliases))
        given = f"SET a.type = '{entity.type}', a.aliases = [{aliases}]"
        lines.append(f"MERGE (a:Entity {{name: {_quoted(entity.name)}}}) {given};")
    for each in file.relations:
        ends = f"(a:Entity {{name: {_quoted(each.subject)}}}), (b:Entity {{name: {_quoted(each.object)}}})"
        values = f"{{predicate: {_quoted(each.predicate)}, state: '{each.state}'}}"
        lines.append(f"MATCH {ends} CREATE (a)-[:{_relationship(each.predicate)} {values}]->(b);")
    return "\n".join([*lines, ""])


def _relationship(predicate: str) -> str:
    """The type of a relationship: plain letters that need no quotes. Its words are in the property `predicate`."""
    word = re.sub(r"[^A-Z0-9]+", "_", predicate.upper()).strip("_")[:60]
    return word if re.fullmatch(_TYPE, word) else "RELATED_TO"


def _quoted(text: str) -> str:
    r"""A text as a string of Cypher, on one line.

    Older databases read `\u0027` as a quote anywhere in a query, so that a backslash of the text
    is never left before a `u`: the string is cut in two there.
    """
    pieces = re.split(r"(?<=\\)(?=[uU])", text)
    return " + ".join("'" + "".join(map(_escaped, piece)) + "'" for piece in pieces)


def _escaped(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if not character.isprintable() and ord(character) <= 0xFFFF:
        return f"\\u{ord(character):04x}"
    return character

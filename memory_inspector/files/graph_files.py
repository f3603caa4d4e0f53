"""Knowledge graph files: JSON (read and written) and Cypher (written only).

A file holds current and ended relations with their entities, but not removed or merged ones, nor sources. JSON of other
programs is accepted too; Cypher is for graph databases.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from memory_core.curation.graph_desk import GraphDesk
from memory_core.errors import ConfigError, Place, problem
from memory_core.events import Actor
from memory_core.history.change_log import AppliedChangeSet
from memory_core.limits import check_size
from memory_core.messages import storable
from memory_core.planning.graph_changes import NamedRelation
from memory_core.planning.graph_rules import LONGEST, TYPES, Graph, clean_name, normal_name
from memory_core.text import shortened
from memory_inspector.files.located_json import GRAPH, Located, read_text, read_values
from memory_inspector.files.reference_memory import ReferenceMemory, read_reference_memory

Form = Literal["json", "cypher"]
FORMS: tuple[Form, ...] = ("json", "cypher")

MAX_ROWS = 100_000
"""Maximum entities and relations of a file together."""

_FORMAT = "memory-inspector-graph"
_STATES = ("active", "ended")


@dataclass(frozen=True, slots=True)
class FileEntity:
    name: str
    type: str = "other"
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GraphFile:
    """Validated content of a graph file."""

    name: str
    """File name."""
    entities: tuple[FileEntity, ...] = field(repr=False)
    relations: tuple[NamedRelation, ...] = field(repr=False)
    """Relations, without the types of their entities."""

    @property
    def isolated(self) -> int:
        """Return the number of entities without relations, which are not imported."""
        joined = {normal_name(end) for relation in self.relations for end in (relation.subject, relation.object)}
        return sum(normal_name(entity.name) not in joined for entity in self.entities)


def write_graph(graph: Graph, form: str) -> str:
    """Serialise a graph to `json` or `cypher`. Equal graphs give equal text.

    Raises:
        ConfigError: The format is unknown.
    """
    writers: Mapping[str, Callable[[GraphFile], str]] = {"json": _write_json, "cypher": _write_cypher}
    if form not in writers:
        raise ConfigError(f"a graph is written as {' or '.join(FORMS)}, not {form!r}")
    return writers[form](file_of(graph))


def file_of(graph: Graph, name: str = "graph") -> GraphFile:
    """Return the active entities, with current and ended relations between them."""
    # Sorted by id, so that equal graphs give equal files.
    active = {id: entity for id, entity in sorted(graph.entities.items()) if entity.state == "active" and entity.name}
    return GraphFile(
        name,
        tuple(
            FileEntity(_plain(entity.name), entity.type, tuple(_plain(alias) for alias in entity.aliases))
            for entity in active.values()
        ),
        tuple(
            NamedRelation(
                _plain(active[relation.subject].name),
                _plain(relation.predicate),
                _plain(active[relation.object].name),
                ended=relation.state == "ended",
            )
            for _, relation in sorted(graph.relations.items())
            if relation.state in _STATES and {relation.subject, relation.object} <= active.keys() and relation.predicate
        ),
    )


def read_graph_file(data: bytes, name: str) -> GraphFile:
    """Parse and validate a graph file. Nothing is stored.

    Raises:
        FormatError: The file is not a valid graph; the message names the place.
    """
    check_size(len(data))
    if _is_xml(data):
        raise problem(name, 'is GraphML or other XML: give the graph as JSON instead, with "entities" and "relations".')
    return _read_json(read_text(data, filename=name, wanted=GRAPH), name)


def import_graph(desk: GraphDesk, file: GraphFile, *, actor: Actor = "user") -> AppliedChangeSet | None:
    """Add a file's contents to a graph as one undoable change set; None if all existed already."""
    aliases = {entity.name: entity.aliases for entity in file.entities if entity.aliases}
    return desk.add_many(named_relations(file), aliases=aliases, actor=actor)


def named_relations(file: GraphFile) -> list[NamedRelation]:
    """Return a file's relations with the names and types of their entities."""
    types = {normal_name(entity.name): entity.type for entity in file.entities}
    return [
        replace(
            relation,
            subject_type=types.get(normal_name(relation.subject), "other"),
            object_type=types.get(normal_name(relation.object), "other"),
        )
        for relation in file.relations
    ]


def _is_xml(data: bytes) -> bool:
    # UTF-16 without byte order mark and zero bytes starts with the same "<" as UTF-8.
    return data[:200].replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n").startswith(b"<")


def _plain(text: str) -> str:
    """Normalise text to one line of characters valid in every format."""
    cleaned: str = storable(" ".join(text.split()))[0]
    return re.sub("[\x00-\x1f\x7f\ufffe\uffff]", "\ufffd", cleaned)


# -- checking ------------------------------------------------------------------------------------


class _Checking:
    """Validates a file's rows in order; the first invalid one rejects the file."""

    def __init__(self, filename: str) -> None:
        self._filename = filename
        self._names: dict[str, str] = {}
        """Entity names by id in the file."""
        self._entities: dict[str, FileEntity] = {}
        self._joins: list[tuple[Place, str, str, str, str]] = []

    def entity(self, place: Place, id: str, values: Mapping[str, Any]) -> None:
        name = self._name(place, values.get("name"), "an entity")
        # Relations name entities by id, so an id that occurs twice is ambiguous; an equal name is the same entity.
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
        relations: dict[NamedRelation, None] = {}
        for place, subject, predicate, object, state in self._joins:
            ends = [self._named(place, end) for end in (subject, object)]
            if normal_name(ends[0]) == normal_name(ends[1]):
                self._wrong(place, "a relation joins something to itself")
            relations[NamedRelation(ends[0], predicate, ends[1], ended=state == "ended")] = None
        if not self._entities and not relations:
            raise problem(self._filename, "holds no graph: there is no entity in it.")
        return GraphFile(self._filename, tuple(self._entities.values()), tuple(relations))

    def _named(self, place: Place, end: str) -> str:
        """Return the entity at one end of a relation, by id or name."""
        # Ids first: a file with ids may use a name that is the id of another entity.
        if end in self._names:
            return self._names[end]
        entity = self._entities.get(normal_name(clean_name(end)))
        if entity is None:
            self._wrong(place, f"a relation names {_shown(end)}, which is no entity of this file")
            raise AssertionError
        return entity.name

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
        {
            "subject": ids[edge.subject],
            "predicate": edge.predicate,
            "object": ids[edge.object],
            "state": _state(edge),
        }
        for edge in file.relations
    ]
    # Without its closing brace: the lists follow with a row per line.
    head = json.dumps({"format": _FORMAT, "version": 1})[:-1]
    lists = (("entities", entities), ("relations", relations))
    rows = ",\n".join(f'"{name}": [{_rows(values)}]' for name, values in lists)
    return f"{head},\n{rows}}}\n"


def _state(relation: NamedRelation) -> str:
    return "ended" if relation.ended else "active"


def _rows(values: Sequence[Mapping[str, object]]) -> str:
    return "\n" * bool(values) + ",\n".join(json.dumps(value, ensure_ascii=False) for value in values)


def _read_json(text: str, name: str) -> GraphFile:
    # First, as the reference server's `read_graph` has the same two lists with other fields.
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
        # A file written by hand may name entities in its relations directly.
        id = row.value.get("id", row.value.get("name"))
        checking.entity(row.place, _id(id, row, name), row.value)
    for row in _elements(top, "relations", name):
        ends = [_id(row.value.get(end), row, name) for end in ("subject", "object")]
        checking.relation(row.place, ends[0], ends[1], row.value)
    return checking.file()


def graph_of(memory: ReferenceMemory, name: str) -> GraphFile:
    """Convert the graph of MCP's reference memory server; its observations are imported as facts instead.

    Missing ends of relations become entities; self-relations and overlong names are dropped.

    Raises:
        FormatError: The graph has more than `MAX_ROWS` entities and relations.
    """
    entities: dict[str, FileEntity] = {}
    for name_there, kind in memory.entities:
        _add_entity(entities, name_there, kind)
    relations: dict[NamedRelation, None] = {}
    for subject, predicate, object in memory.relations:
        ends = [_add_entity(entities, end) for end in (subject, object)]
        # Another program's store is taken as it is: only what does not fit is left out.
        fits = 0 < len(predicate) <= LONGEST and None not in ends and ends[0] != ends[1]
        if fits:
            relations[NamedRelation(str(ends[0]), _plain(predicate), str(ends[1]))] = None
    if len(entities) + len(relations) > MAX_ROWS:
        raise problem(name, f"there are more than {MAX_ROWS:,} entities and relations.")
    return GraphFile(name, tuple(entities.values()), tuple(relations))


def _add_entity(entities: dict[str, FileEntity], name: str, kind: str = "other") -> str | None:
    """Add an entity; return its name as stored, or None if a graph cannot hold it."""
    text = _plain(name)
    key = normal_name(clean_name(text))
    if not key or len(text) > LONGEST:
        return None
    word = kind.strip().lower()
    return entities.setdefault(key, FileEntity(text, word if word in TYPES else "other")).name


def _elements(top: Located, member: str, name: str) -> Iterable[Located]:
    elements = top.member(member)
    if elements is None or not isinstance(elements.value, list):
        raise problem(name, f'is not a graph: it holds no list "{member}".')
    for row in elements.elements():
        if not isinstance(row.value, dict):
            raise problem(name, "this is no object.", place=row.place)
        yield row


def _id(value: Any, row: Located, name: str) -> str:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise problem(name, "an entity is named by neither a number nor a text.", place=row.place)
    # A number and the same digits as text are different ids.
    return f"#{value}" if isinstance(value, int) else value


# -- Cypher --------------------------------------------------------------------------------------

_HEAD = "// Memory Inspector graph 1"
_TYPE = r"[A-Z][A-Z0-9_]{0,80}"


def _write_cypher(file: GraphFile) -> str:
    lines = [_HEAD]
    for entity in file.entities:
        aliases = ", ".join(map(_quoted, entity.aliases))
        assignment = f"SET a.type = '{entity.type}', a.aliases = [{aliases}]"
        lines.append(f"MERGE (a:Entity {{name: {_quoted(entity.name)}}}) {assignment};")
    for relation in file.relations:
        ends = f"(a:Entity {{name: {_quoted(relation.subject)}}}), (b:Entity {{name: {_quoted(relation.object)}}})"
        values = f"{{predicate: {_quoted(relation.predicate)}, state: '{_state(relation)}'}}"
        lines.append(f"MATCH {ends} MERGE (a)-[:{_relationship(relation.predicate)} {values}]->(b);")
    return "\n".join([*lines, ""])


def _relationship(predicate: str) -> str:
    """Return a relationship type of plain letters, which needs no quoting; property `predicate` has the original."""
    word = re.sub(r"[^A-Z0-9]+", "_", predicate.upper()).strip("_")[:60]
    return word if re.fullmatch(_TYPE, word) else "RELATED_TO"


def _quoted(text: str) -> str:
    r"""Quote a text as a Cypher string on one line.

    Older databases decode `\u0027` to a quote anywhere in a query, so no backslash may
    precede a `u`: the string is split in two there.
    """
    pieces = re.split(r"(?<=\\)(?=[uU])", text)
    return " + ".join("'" + "".join(map(_escaped, piece)) + "'" for piece in pieces)


def _escaped(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if not character.isprintable() and ord(character) <= 0xFFFF:
        return f"\\u{ord(character):04x}"
    return character

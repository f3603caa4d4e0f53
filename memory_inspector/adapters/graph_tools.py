"""The nine tools of MCP's reference memory server over a `KnowledgeGraph`: same names, schemas and results."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from memory_core.errors import MessageError, NotFoundError, problem
from memory_core.systems.knowledge_graph import KnowledgeGraph
from memory_inspector.files.located_json import read_text
from memory_inspector.files.reference_memory import read_reference_memory

RESOURCE = "memory://knowledge-graph"
"""URI of the resource that holds the whole graph."""


Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class GraphTool:
    """A tool as the reference server declares it."""

    name: str
    description: str
    arguments: Schema
    """JSON schema by argument; all arguments are required."""
    result: Schema
    """JSON schema by field of the structured result."""
    reads: bool = False
    destroys: bool = False

    @property
    def title(self) -> str:
        return self.name.replace("_", " ").title()

    @property
    def input_schema(self) -> Schema:
        return _draft_07(_object(self.arguments))

    @property
    def output_schema(self) -> Schema:
        return _draft_07(_object(self.result, closed=True))


def _text(description: str | None = None) -> Schema:
    return {"type": "string"} | ({"description": description} if description else {})


def _list(items: Schema, description: str | None = None) -> Schema:
    return {"type": "array", "items": items} | ({"description": description} if description else {})


def _object(properties: Schema, *, closed: bool = False) -> Schema:
    schema: Schema = {"type": "object", "properties": properties}
    schema |= {"required": list(properties)} if properties else {}
    return schema | ({"additionalProperties": False} if closed else {})


def _draft_07(schema: Schema) -> Schema:
    return {"$schema": "http://json-schema.org/draft-07/schema#", **schema}


_ENTITY = {
    "name": _text("The name of the entity"),
    "entityType": _text("The type of the entity"),
    "observations": _list(_text(), "An array of observation contents associated with the entity"),
}
_RELATION = {
    "from": _text("The name of the entity where the relation starts"),
    "to": _text("The name of the entity where the relation ends"),
    "relationType": _text("The type of the relation"),
}
_TO_ADD = {
    "entityName": _text("The name of the entity to add the observations to"),
    "contents": _list(_text(), "An array of observation contents to add"),
}
_ADDED = {"entityName": _text(), "addedObservations": _list(_text())}
_TO_DELETE = {
    "entityName": _text("The name of the entity containing the observations"),
    "observations": _list(_text(), "An array of observations to delete"),
}
_ENTITIES, _RELATIONS = (_list(_object(schema, closed=True)) for schema in (_ENTITY, _RELATION))
_GRAPH = {"entities": _ENTITIES, "relations": _RELATIONS}
_DONE = {"success": {"type": "boolean"}, "message": _text()}

# Word for word as the reference server declares them, so that an agent's instructions still fit.
TOOLS = (
    GraphTool(
        "create_entities",
        "Create multiple new entities in the knowledge graph",
        {"entities": _list(_object(_ENTITY))},
        {"entities": _ENTITIES},
    ),
    GraphTool(
        "create_relations",
        "Create multiple new relations between entities in the knowledge graph. Relations should be in active voice",
        {"relations": _list(_object(_RELATION))},
        {"relations": _RELATIONS},
    ),
    GraphTool(
        "add_observations",
        "Add new observations to existing entities in the knowledge graph",
        {"observations": _list(_object(_TO_ADD))},
        {"results": _list(_object(_ADDED, closed=True))},
    ),
    GraphTool(
        "delete_entities",
        "Delete multiple entities and their associated relations from the knowledge graph",
        {"entityNames": _list(_text(), "An array of entity names to delete")},
        _DONE,
        destroys=True,
    ),
    GraphTool(
        "delete_observations",
        "Delete specific observations from entities in the knowledge graph",
        {"deletions": _list(_object(_TO_DELETE))},
        _DONE,
        destroys=True,
    ),
    GraphTool(
        "delete_relations",
        "Delete multiple relations from the knowledge graph",
        {"relations": _list(_object(_RELATION), "An array of relations to delete")},
        _DONE,
        destroys=True,
    ),
    GraphTool("read_graph", "Read the entire knowledge graph", {}, _GRAPH, reads=True),
    GraphTool(
        "search_nodes",
        "Search for nodes in the knowledge graph based on a query",
        {"query": _text("The search query to match against entity names, types, and observation content")},
        _GRAPH,
        reads=True,
    ),
    GraphTool(
        "open_nodes",
        "Open specific nodes in the knowledge graph by their names",
        {"names": _list(_text(), "An array of entity names to retrieve")},
        _GRAPH,
        reads=True,
    ),
)


MAX_TEXTS = 20_000
"""Maximum names, types and observations per call: one transaction writes them, at about 0.5 ms each."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Result of a tool, as text and as structured values."""

    text: str
    structured: dict[str, Any]


class GraphTools:
    """The tools of MCP's reference memory server over one graph."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self._graph = graph
        self._calls: Mapping[str, Callable[..., Any]] = {tool.name: getattr(graph, tool.name) for tool in TOOLS}

    def call(self, name: str, arguments: Mapping[str, Any]) -> Answer:
        """Call a tool; undeclared arguments are ignored, as in the reference server.

        Raises:
            NotFoundError: Unknown tool or entity.
            MessageError: An argument is missing, has the wrong type, holds more than `MAX_TEXTS` or cannot be
                stored; nothing was changed.
            StoreError: The database cannot be reached.
        """
        tool = next((candidate for candidate in TOOLS if candidate.name == name), None)
        if tool is None:
            raise NotFoundError(f"Tool {name[:40]} not found")
        if wrong := _violation(_object(tool.arguments), dict(arguments), ""):
            raise MessageError(f"Invalid arguments for tool {name}: {wrong}")
        if (texts := _texts(arguments)) > MAX_TEXTS:
            raise MessageError(f"Invalid arguments for tool {name}: {texts:,} texts; a call has at most {MAX_TEXTS:,}")
        return self._answered(tool, arguments)

    def _answered(self, tool: GraphTool, arguments: Mapping[str, Any]) -> Answer:
        name = tool.name
        result = self._calls[name](*(_declared(schema, arguments[field]) for field, schema in tool.arguments.items()))
        if tool.result == _DONE:
            message = f"{name.removeprefix('delete_').capitalize()} deleted successfully"
            return Answer(message, {"success": True, "message": message})
        return Answer(self.text(result), result if tool.reads else {next(iter(tool.result)): result})

    def graph(self) -> str:
        """Return the whole graph as JSON, for the resource."""
        return self.text(self._graph.read_graph())

    def import_jsonl(self, data: bytes, *, filename: str) -> None:
        """Add the entities and relations of a reference server's file that are missing here.

        Raises:
            FormatError: The file is not in that format, or cannot be read.
            MessageError: An entry cannot be stored.
        """
        memory = read_reference_memory(read_text(data, filename=filename), filename=filename)
        if memory is None:
            raise problem(filename, "is no memory of the reference server: its lines are entities and relations.")
        observed: dict[str, list[str]] = {name: [] for name, _ in memory.entities}
        for observation in memory.observations:
            observed[observation.entity].append(observation.text)
        entities = [
            {"name": name, "entityType": kind, "observations": observed[name]} for name, kind in memory.entities
        ]
        relations = [{"from": start, "to": end, "relationType": kind} for start, kind, end in memory.relations]
        create_entities, create_relations, *_ = TOOLS
        # Not through `call`: a file may hold more texts than one call of an agent.
        self._answered(create_entities, {"entities": entities})
        self._answered(create_relations, {"relations": relations})

    @staticmethod
    def text(result: Any) -> str:
        return json.dumps(result, indent=2, ensure_ascii=False)


def _texts(value: Any) -> int:
    """Return the number of texts in a JSON value."""
    if isinstance(value, Mapping | list):
        return sum(map(_texts, value.values() if isinstance(value, Mapping) else value))
    return 1


_KINDS: Mapping[str, Any] = {"string": str, "array": list, "object": dict}


def _violation(schema: Schema, value: Any, place: str) -> str | None:
    """Return a message about the first value that violates its schema, or None."""
    if not isinstance(value, _KINDS[schema["type"]]):
        return f"expected {schema['type']} at {place or 'the arguments'}"
    for name, inner in schema.get("properties", {}).items():
        at = f"{place}.{name}".lstrip(".")
        if name not in value:
            return f"expected {inner['type']} at {at}, and there is none"
        if wrong := _violation(inner, value[name], at):
            return wrong
    for number, item in enumerate(value) if schema["type"] == "array" else ():
        if wrong := _violation(schema["items"], item, f"{place}[{number}]"):
            return wrong
    return None


def _declared(schema: Schema, value: Any) -> Any:
    """Strip the fields that a schema does not declare."""
    if schema["type"] == "array":
        return [_declared(schema["items"], item) for item in value]
    if schema["type"] == "object":
        return {name: _declared(inner, value[name]) for name, inner in schema["properties"].items()}
    return value

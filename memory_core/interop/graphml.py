"""GraphML as nodes and edges with their line numbers.

XML from anywhere: no document type, no entities of its own and nothing outside the file is read, and
nesting is bounded. What other programs call a name or a predicate is understood.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat

from memory_core.errors import FormatError
from memory_core.interop.located_json import problem
from memory_core.limits import Budget

MAX_DEPTH = 32
MAX_CHARACTERS = 20_000
"""Of one value."""

_NAMES = ("name", "label", "title")
_PREDICATES = ("predicate", "label", "relation", "relationship", "type", "name")
_TYPES = ("type", "kind", "category")


@dataclass(slots=True)
class Element:
    """A node, or an edge."""

    line: int
    id: str
    ends: tuple[str, str] | None = None
    """Source and target of an edge; None for a node."""
    values: dict[str, Any] = field(default_factory=dict)
    """Of a node `name`, `type` and `aliases`; of an edge `predicate` and `state`."""


def read_graphml(data: bytes, filename: str) -> list[Element]:
    """The nodes of a file, then its edges.

    Raises:
        FormatError: it is not GraphML, or holds what is not read; one sentence, with the line.
    """
    reading = _Reading(filename)
    parser = reading.parser
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        said = expat.errors.messages.get(error.code, "it is not whole")
        raise problem(filename, f"this is not valid XML ({said}).", place=error.lineno) from error
    except FormatError:
        raise
    except (ValueError, LookupError) as error:
        raise problem(filename, "is not valid XML: its encoding is not known.") from error
    return [*reading.nodes, *reading.edges]


class _Reading:
    """The state of one parse."""

    def __init__(self, filename: str) -> None:
        self._filename, self._budget = filename, Budget(filename)
        self.nodes: list[Element] = []
        self.edges: list[Element] = []
        self._keys: dict[str, str] = {}
        """Name of each key, by its id."""
        self._path: list[str] = []
        self._element: Element | None = None
        self._given: dict[str, str] = {}
        self._key: str | None = None
        self._text: list[str] = []
        self._length = 0
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.EntityDeclHandler = self._doctype
        self.parser.ExternalEntityRefHandler = self._doctype
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters

    def _wrong(self, what: str) -> FormatError:
        return problem(self._filename, what, place=self.parser.CurrentLineNumber)

    def _doctype(self, *_: Any) -> int:
        raise self._wrong("a document type or an entity is declared, and files with one are not read.")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._budget.take(items=1 + len(attributes))
        name = tag.rpartition(":")[2]
        if not self._path and name != "graphml":
            raise self._wrong("this is XML, but not GraphML.")
        if len(self._path) >= MAX_DEPTH:
            raise self._wrong(f"elements are nested more than {MAX_DEPTH} deep.")
        if name == "graph" and "graph" in self._path:
            raise self._wrong("a graph stands inside a graph, which is not read.")
        if name == "hyperedge":
            raise self._wrong("an edge joins more than two nodes, which is not read.")
        self._path.append(name)
        if name == "key" and self._element is None:
            self._keys[attributes.get("id", "")] = attributes.get("attr.name") or attributes.get("id", "")
        elif name in ("node", "edge"):
            self._begin(name, attributes)
        elif name == "data" and self._element is not None and self._path[-2] in ("node", "edge"):
            self._key = attributes.get("key", "")
            self._text, self._length = [], 0

    def _begin(self, name: str, attributes: Mapping[str, str]) -> None:
        if self._element is not None:
            raise self._wrong("a node or an edge stands inside another one, which is not read.")
        wanted = ("id",) if name == "node" else ("source", "target")
        missing = [each for each in wanted if not attributes.get(each)]
        if missing:
            raise self._wrong(f"{'an edge' if name == 'edge' else 'a node'} has no {missing[0]}.")
        line = self.parser.CurrentLineNumber
        if name == "node":
            self._element = Element(line, attributes["id"])
        else:
            ends = (attributes["source"], attributes["target"])
            self._element = Element(line, attributes.get("id", ""), ends)
        self._given = {}

    def _characters(self, text: str) -> None:
        if self._key is None:
            return
        self._length += len(text)
        if self._length > MAX_CHARACTERS:
            raise self._wrong(f"a value has more than {MAX_CHARACTERS:,} characters.")
        self._text.append(text)

    def _end(self, tag: str) -> None:
        name = self._path.pop()
        if name == "data" and self._key is not None:
            self._given[self._keys.get(self._key, self._key).strip().lower()] = "".join(self._text)
            self._key = None
        elif name in ("node", "edge") and self._element is not None:
            element, self._element = self._element, None
            element.values = _node(element.id, self._given) if element.ends is None else _edge(self._given)
            (self.nodes if element.ends is None else self.edges).append(element)


def _node(id: str, given: Mapping[str, str]) -> dict[str, Any]:
    return {
        "name": _first(given, _NAMES) or id,
        "type": _first(given, _TYPES),
        "aliases": _aliases(given.get("aliases", "")),
    }


def _edge(given: Mapping[str, str]) -> dict[str, Any]:
    return {"predicate": _first(given, _PREDICATES) or "related to", "state": given.get("state", "").strip()}


def _first(given: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((given[name] for name in names if given.get(name, "").strip()), None)


def _aliases(text: str) -> list[str]:
    """Other names, written as JSON; a text that is none is one name."""
    if not text.strip():
        return []
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return [text]
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else [text]

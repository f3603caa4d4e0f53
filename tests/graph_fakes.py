"""Fakes for tests of knowledge graphs: relations written out in messages, and graphs made by hand.

"Alice | manages | Project Alpha; Ana | lives in | Lisbon | ended" says two relations, of which one has ended.
"""

from engine_fakes import open_memory

from memory_core.blocks.graph import GraphMemoryBlock
from memory_core.history.learned_slices import PastGraph
from memory_core.history.message_slice import Messages
from memory_core.models.protocols import FoundRelation, ModelCall, RelationsFound
from memory_core.planning.graph_changes import NamedRelation
from memory_core.planning.graph_rules import Entity, Graph, Relation


def graph_at(records, position, words):
    """The graph of each block at a position of a session's log (None: at its end), from its events alone."""
    past, messages = PastGraph(), Messages()
    for record in records:
        if position is None or record.position <= position:
            past.apply(record)
            past.forget(messages.apply(record))
    return past.graphs(records[0].session_id if records else "", words)


def parsed(text, source=None):
    """The relations that a text says."""
    found = []
    for part in text.split(";"):
        words = [word.strip() for word in part.split("|")]
        if len(words) >= 3:
            found.append(FoundRelation(*words[:3], source=source, ended=words[3:] == ["ended"]))
    return found


def found(text, **values):
    """The same as a planner is given them."""
    return [
        NamedRelation(each.subject, each.predicate, each.object, ended=each.ended, **values) for each in parsed(text)
    ]


class WrittenRelations:
    """A `RelationExtractor` that reads what messages spell out."""

    name = "written out"
    offline = True

    def __init__(self, *, refused=()):
        self.refused = tuple(refused)
        self.asked = []
        """Names of known entities at each call."""

    def relations(self, messages, *, known):
        self.asked.append(list(known))
        relations = [each for index, message in enumerate(messages) for each in parsed(message.content or "", index)]
        return RelationsFound(tuple(relations), (ModelCall("relate", self.name, 10, 2, 0.0),), self.refused)


def graph_of(text, **values):
    """A graph of what a text says, its entities numbered in order of mention."""
    names, relations = {}, {}
    for number, each in enumerate(parsed(text), start=1):
        ends = [names.setdefault(name, len(names) + 1) for name in (each.subject, each.object)]
        state = "ended" if each.ended else "active"
        relations[number] = relation_row(number, ends[0], each.predicate, ends[1], state=state, **values)
    return Graph({id: entity_row(id, name) for name, id in names.items()}, relations)


def entity_row(id, name, **values):
    given = {
        "aliases": (),
        "type": "other",
        "state": "active",
        "merged_into": None,
        "origin": "extracted",
        "version": 1,
    }
    times = {"turn": 1, "created_at": 0.0, "updated_at": 0.0}
    return Entity(id=id, scope="session:s", block="graph", name=name, **{**given, **times, **values})


def relation_row(id, subject, predicate, object, **values):
    given = {"state": "active", "origin": "extracted", "ended_turn": None, "ended_by": None, "version": 1}
    times = {"turn": 1, "created_at": 0.0, "confirmed_at": float(id), "updated_at": 0.0, "sources": (("s", id),)}
    ends = {"subject": subject, "predicate": predicate, "object": object}
    return Relation(id=id, scope="session:s", block="graph", **{**ends, **given, **times, **values})


def graph_memory(text="", *, extractor=None, **settings):
    """A memory whose graph block learns each turn; what `text` says it knows already."""
    values = {name: settings.pop(name) for name in ("hops", "most_relations", "priority") if name in settings}
    block = GraphMemoryBlock(name="graph", llm=extractor or WrittenRelations(), deliver_on="turn", **values)
    given = {"token_limit": 4000, "token_flush_size": 400, "memory_blocks": [block]} | settings
    memory = open_memory(**given)
    if text:
        say(memory, text)
    return memory


def say(memory, *texts):
    """A turn for each text, and the relations of all learned."""
    from engine_fakes import assistant, user

    for text in texts:
        memory.put_messages([user(text), assistant("Good.")])
    memory.flush(all=True)


def lines(memory, *, states=("active",)):
    """The relations in these states, in words."""
    graph = memory.blocks.graph().graph()
    return [graph.describe(relation) for relation in graph.relations.values() if relation.state in states]


def seen(memory):
    """Everything a person can see of the graph: names, words and states, by id, and the sources."""
    return shown(memory.blocks.graph().graph())


def shown(graph):
    return (
        {e.id: (e.name, e.aliases, e.type, e.state, e.merged_into) for e in graph.entities.values()},
        {
            r.id: (r.subject, r.predicate, r.object, r.state, r.ended_turn, r.ended_by, r.sources)
            for r in graph.relations.values()
        },
    )

"""Steps of a session's life, each possible at any time: for tests that hold whatever happened."""

from contextlib import suppress

from engine_fakes import Clock, ShakyExtractor, assistant, blocks, note, number_of, open_memory
from hypothesis import strategies as st

from memory_core import StaticMemoryBlock
from memory_core.blocks.graph import GraphMemoryBlock
from memory_core.blocks.summary import SummaryMemoryBlock
from memory_core.errors import ConflictError, MessageError
from memory_core.models.protocols import FoundRelation, RelationsFound
from memory_core.planning import curation

KINDS = (
    "note", "note", "note", "note", "reply", "context", "flush", "limit", "text", "priority", "off", "order",
    "add facts", "edit", "pin", "retire", "restore", "merge", "undo", "close", "reset", "add block", "later",
    "relate", "end relation", "hold relation", "retire relation", "rename entity", "merge entities", "undo in graph",
)  # fmt: skip
ERASING = (
    "forget queue", "forget archive", "replace", "erase fact", "forget turn", "remove block", "undo", "undo all",
)  # fmt: skip

STEPS = st.lists(st.sampled_from(KINDS), min_size=4, max_size=30)
ALL_STEPS = st.lists(st.sampled_from((*KINDS, *ERASING)), min_size=4, max_size=30)


class NoteRelations:
    """ "note 17" follows note 16, is told today (which only one note is at a time) and no longer before note 12."""

    name = "notes"
    offline = True

    def relations(self, messages, *, known):
        found = []
        for index, message in enumerate(messages):
            if message.role == "user" and "note" in message.content:
                number = number_of(message.content)
                found.append(FoundRelation("Today", "status", f"Note {number}", "date", "thing", index))
                if number:
                    one, other = f"Note {number}", f"Note {number - 1}"
                    found.append(FoundRelation(one, "follows", other, "thing", "thing", index))
                if number > 4:
                    found.append(FoundRelation(f"Note {number - 5}", "before", one, source=index, ended=True))
        return RelationsFound(tuple(found))


def with_text(extractor=None):
    """A block of each kind."""
    return [StaticMemoryBlock(name="core", static_content="Be kind."), *blocks(extractor)]


class Script:
    """A memory, and steps applied to it."""

    def __init__(self, **how):
        self.clock = Clock()
        self.fails = False
        extractor = ShakyExtractor(lambda call: self.fails)
        more = [GraphMemoryBlock(name="graph", llm=NoteRelations()), SummaryMemoryBlock(name="summary", max_tokens=30)]
        given = [*with_text(extractor), *more]
        self.memory = open_memory(memory_blocks=given, token_limit=50, clock=self.clock, **how)
        self.number = 0

    def do(self, step):
        memory, self.number = self.memory, self.number + 1
        self.clock.pass_by(self.number % 2)
        if step == "note":
            memory.put(note(self.number))
        elif step == "reply":
            memory.put(assistant(f"noted {self.number}"))
        elif step == "context":
            memory.build_context(f"note {self.number}")
        elif step in ("flush", "close"):
            memory.flush(all=step == "close")
        elif step == "limit":
            memory.configure(token_limit=40 + self.number)
        elif step == "reset":
            memory.reset()
        elif step == "later":
            self.fails = not self.fails
            memory.deliver()
        elif step in ("forget queue", "forget archive", "replace"):
            self._erase(step)
        else:
            self._edit_blocks(step)
            if any(block.name == "facts" for block in memory.blocks):
                self._curate(step)
            if any(block.name == "graph" for block in memory.blocks):
                self._relate(step)

    def _erase(self, step):
        if step == "replace":
            self.memory.set([note(self.number)])
        else:
            self.memory.reset("active" if step == "forget queue" else "archived")

    def _edit_blocks(self, step):
        memory, names = self.memory, [block.name for block in self.memory.blocks]
        if step == "text" and "core" in names:
            memory.blocks.edit("core", f"Text {self.number}.")
        elif step == "priority" and "turns" in names:
            memory.blocks.configure("turns", priority=self.number)
        elif step == "off" and "counter" in names:
            memory.blocks.configure("counter", enabled=self.number % 2 == 0)
        elif step == "order":
            memory.blocks.order(names[::-1])
        elif step == "add block" and len(names) < 8:
            memory.blocks.add(StaticMemoryBlock(name=f"note {self.number}", static_content="More."))
        elif step == "remove block" and names:
            memory.blocks.remove(names[-1])
        elif step == "forget turn" and "turns" in names and (turns := memory.retrieval.stored_turns("turns")):
            memory.retrieval.forget("turns", turns[0].number)

    def _curate(self, step):
        desk = self.memory.facts.desk("facts")
        facts = desk.facts(("active",))
        if step == "add facts":
            desk.apply(curation.add(f"Fact {self.number}", pinned=self.number % 2 == 0))
        elif step == "edit" and facts:
            change = curation.edit(facts[0], f"Edited {self.number}")
            desk.apply(curation.together("edit", change, curation.pin(facts[:1], not facts[0].pinned)))
        elif step == "pin" and facts:
            desk.apply(curation.pin(facts[-1:], not facts[-1].pinned))
        elif step == "retire" and facts:
            desk.apply(curation.retire(facts[:1], "no"))
        elif step == "restore" and (retired := desk.facts(("retired",))):
            desk.apply(curation.restore(retired[:1]))
        elif step == "merge" and len(facts) > 1:
            desk.apply(curation.merge(facts[:2], f"Merged {self.number}"))
        elif step == "undo" and (changes := desk.changes()) and changes[0].action not in ("add", "merge"):
            with suppress(ConflictError):  # what it changed was changed since, and that erased
                desk.undo()
        elif step == "erase fact" and facts:
            desk.erase(facts[:1])

    def _relate(self, step):
        desk = self.memory.blocks.graph("graph")
        graph, relations = desk.graph(), desk.relations(ended=False)
        entities = [entity for entity in graph.entities.values() if entity.state == "active"]
        if step == "relate":
            desk.add(f"Thing {self.number}", "part of", f"Note {self.number // 2}", ("thing", "thing"))
        elif step == "end relation" and relations:
            desk.end(relations[:2])
        elif step == "hold relation" and (over := [r for r in desk.relations() if r.state == "ended"]):
            with suppress(ConflictError, MessageError):  # another one says the same by now
                desk.reactivate(over[-1:])
        elif step == "retire relation" and relations:
            desk.retire(relations[-1:])
        elif step == "rename entity" and entities:
            desk.rename(entities[0], f"Name {self.number}", type="other")
        elif step == "merge entities" and len(entities) > 1:
            desk.merge(entities[-2:], entities[-1])
        elif step == "undo in graph" and (changes := desk.changes()) and changes[0].action not in ("add", "undo"):
            with suppress(ConflictError):
                desk.undo(changes[0].number)
        elif step == "undo all":
            with suppress(ConflictError):
                desk.undo()

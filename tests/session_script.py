"""Steps of a session's life, each possible at any time: for tests that hold whatever happened."""

from engine_fakes import Clock, ShakyExtractor, assistant, blocks, note, open_memory
from hypothesis import strategies as st

from memory_core import StaticMemoryBlock
from memory_core.planning import curation

KINDS = (
    "note", "note", "note", "note", "reply", "context", "flush", "limit", "text", "priority", "off", "order",
    "add facts", "edit", "pin", "retire", "restore", "merge", "undo", "close", "reset", "add block", "later",
)  # fmt: skip
ERASING = ("forget queue", "forget archive", "replace", "erase fact", "forget turn", "remove block", "undo")

STEPS = st.lists(st.sampled_from(KINDS), min_size=4, max_size=30)
ALL_STEPS = st.lists(st.sampled_from((*KINDS, *ERASING)), min_size=4, max_size=30)


def with_text(extractor=None):
    """A block of each kind."""
    return [StaticMemoryBlock(name="core", static_content="Be kind."), *blocks(extractor)]


class Script:
    """A memory, and steps applied to it."""

    def __init__(self):
        self.clock = Clock()
        self.fails = False
        extractor = ShakyExtractor(lambda call: self.fails)
        self.memory = open_memory(memory_blocks=with_text(extractor), token_limit=50, clock=self.clock)
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

    def _erase(self, step):
        if step == "replace":
            self.memory.set([note(self.number)])
        else:
            self.memory.reset("active" if step == "forget queue" else "archived")

    def _edit_blocks(self, step):
        memory, names = self.memory, [block.name for block in self.memory.blocks]
        if step == "text" and "core" in names:
            memory.edit_block("core", f"Text {self.number}.")
        elif step == "priority" and "turns" in names:
            memory.configure_block("turns", priority=self.number)
        elif step == "off" and "counter" in names:
            memory.configure_block("counter", enabled=self.number % 2 == 0)
        elif step == "order":
            memory.order_blocks(names[::-1])
        elif step == "add block" and len(names) < 6:
            memory.add_block(StaticMemoryBlock(name=f"note {self.number}", static_content="More."))
        elif step == "remove block" and names:
            memory.remove_block(names[-1])
        elif step == "forget turn" and "turns" in names and (turns := memory.stored_turns("turns")):
            memory.forget_turn("turns", turns[0].number)

    def _curate(self, step):
        desk = self.memory.curation("facts")
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
            desk.undo()
        elif step == "erase fact" and facts:
            desk.erase(facts[:1])

"""The pieces a recorded context refers to, and the layout of the context rebuilt from them.

A `ContextBuilt` names its pieces: facts, stored turns, static texts, a custom block's content, relations, messages. The
log records, by hash, the words that each piece had when the context was built. Pure: events and the content store go
in; words erased since are left out and reported as missing.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from memory_core.blocks.base import Item, Span, spaced_parts, stored_item
from memory_core.blocks.static import decode
from memory_core.events import (
    ContextBuilt,
    EventRecord,
    MessageAdded,
    Ref,
    expand,
    numbers,
    spread,
)
from memory_core.history.contexts import context_of, places_of
from memory_core.history.learned_slices import FactWords, StoredUnit, state_at
from memory_core.history.message_slice import MessageState
from memory_core.history.projection import Projection
from memory_core.messages import ChatMessage, Part, TextPart
from memory_core.planning.former_values import FormerMark, stored_marks
from memory_core.planning.rendering import (
    SPACED,
    InsertMethod,
    Section,
    day_parts,
    fact_parts,
    insert_memory,
    line_parts,
    marked_text,
    neutralise,
    neutralise_message,
    relation_parts,
    render_memory,
    sentence_parts,
    static_parts,
    turn_parts,
    unit_words,
)

Words = Callable[[str], str | None]
"""The content store: words by hash; None if they were erased."""


@dataclass(frozen=True, slots=True)
class RelationWords:
    """A relation's words at one position of the log, as hashes."""

    subject: str
    predicate: str
    object: str


class Pieces:
    """Hashes of the words of every piece of one session, at any position of its log. Contains no words."""

    def __init__(self, past: Projection) -> None:
        self._messages, self._vectors = past.messages, past.vectors
        self._facts, self._graph = past.facts, past.graph_words

    def message(self, seq: int) -> MessageState | None:
        """Return a message as recorded in the log; None if the log does not contain it."""
        return self._messages.by_seq.get(seq)

    @property
    def messages(self) -> Sequence[MessageState]:
        """All recorded messages, in order."""
        # A copy, as another thread may apply records meanwhile.
        return tuple(self._messages.by_seq.values())

    def messages_with(self, contents: Collection[str]) -> list[MessageState]:
        """Return recorded messages whose words have one of these hashes, in order."""
        return [state for state in self.messages if state.added.content in contents]

    @property
    def fact_words(self) -> Mapping[int, Sequence[tuple[int, FactWords]]]:
        """Words of every fact ever stored, by fact id, each with the log position from which they applied."""
        return self._facts.ever_worded

    @property
    def relations(self) -> Collection[int]:
        """Ids of all relations, erased ones included."""
        return self._graph.ever_related

    def added(self, seq: int) -> MessageAdded | None:
        """Return the event that stored a message; None if the log does not contain it."""
        state = self._messages.by_seq.get(seq)
        return None if state is None else state.added

    def turn_of(self, seq: int) -> int | None:
        """Return the conversation turn a message belongs to; None for an unknown message."""
        state = self._messages.by_seq.get(seq)
        return None if state is None else state.record.turn

    def stands_for(self, seq: int) -> int:
        """Return the number of messages that an agent's compaction replaced by this one; 0 for any other message."""
        flush = self._messages.summaries.get(seq)
        return 0 if flush is None else flush.messages

    def unit(self, number: int) -> StoredUnit | None:
        """Return a stored turn by number, including removed ones; None if unknown."""
        return self._vectors.unit(number)

    def fact(self, id: int, position: int) -> FactWords | None:
        """Return a fact's words at a position."""
        return self._facts.words(id, position)

    def entity(self, id: int, position: int) -> str | None:
        """Return the hash of an entity's name at a position."""
        return self._graph.name(id, position)

    def relation(self, id: int, position: int) -> RelationWords | None:
        """Return a relation's words at a position, with its entities under the names they had then."""
        joined = self._graph.joined(id, position)
        if joined is None:
            return None
        # Names at that position: an entity may have been renamed since the relation was stored.
        subject, predicate, object = joined
        names = [self.entity(entity, position) for entity in (subject, object)]
        return None if names[0] is None or names[1] is None else RelationWords(names[0], predicate, names[1])

    def counter(self, position: int) -> str | None:
        """Return the name of the token counter in use at a position."""
        return state_at(self._messages.counters, position)

    def hashes(self, record: EventRecord, facts: Mapping[int, FactWords] | None = None) -> set[str]:
        """Return the hashes of all words of a context, including its input and its cuts. `facts`: see `PieceReader`."""
        event = context_of(record)
        # 1. Collect pieces of the prompt and those cut from it: a cut is shown with its words too.
        refs = [ref for part in event.parts for ref in spread(part["refs"])]
        refs += [ref for cut in event.cuts for ref in spread(cut["refs"])]
        refs += [mark.now for part in event.parts for mark in stored_marks(part).values() if mark.now is not None]
        seqs = [*expand(event.queue), *expand(event.pinned)]
        hashes = {event.input} if event.input else set()
        # 2. Convert refs to hashes. Refs of texts contain them; facts and relations are looked up at this position;
        #    units name messages, whose hashes are looked up last, all at once.
        for ref in refs:
            if ref.kind in ("text", "content"):
                hashes.add(ref.hash)
            elif ref.kind == "fact":
                words = (facts or {}).get(ref.number) or self.fact(ref.number, record.position)
                hashes |= {words.content} if words else set()
            elif ref.kind == "relation":
                relation = self.relation(ref.number, record.position)
                hashes |= {relation.subject, relation.predicate, relation.object} if relation else set()
            elif ref.kind in ("unit", "day"):
                unit = self.unit(ref.number)
                seqs += expand(unit.seqs) if unit else []
        # 3. The event names turns cut from the queue by their first message only.
        seqs += self.left_out(record)
        return hashes | {added.content for seq in seqs if (added := self.added(seq)) is not None}

    def left_out(self, record: EventRecord) -> list[int]:
        """Return the messages of the queue that were cut from this context: its oldest turns."""
        event = context_of(record)
        heads = [seq for cut in event.cuts for seq in numbers(cut["refs"], "message")]
        if not heads:
            return []
        queue = expand(event.queue)
        # If no queue is left, all of it was cut, up to the newest message.
        before = queue[0] if queue else self._messages.next_seq
        return self._messages.in_queue(record.position, first=min(heads), before=before)


@dataclass(slots=True)
class PieceReader:
    """Reads the pieces of one context from the content store and records the words that are missing."""

    pieces: Pieces
    position: int
    names: Sequence[str]
    """Names of all blocks at the time; text that imitated the blocks' tags was escaped."""
    words: Words
    facts: Mapping[int, FactWords] = field(default_factory=dict)
    """Facts recorded in other sessions' logs, as they were at the time."""
    missing: dict[str, None] = field(default_factory=dict)
    """Hashes of erased words."""
    _decoded: dict[int, ChatMessage | None] = field(default_factory=dict)
    _notes: dict[str, dict[Ref, str]] = field(default_factory=dict)
    """Notes after items, by the name of their part."""

    def text(self, key: str) -> str | None:
        result = self.words(key)
        if result is None:
            self.missing[key] = None
        return result

    def message(self, seq: int) -> ChatMessage | None:
        if seq not in self._decoded:
            added = self.pieces.added(seq)
            text = None if added is None else self.text(added.content)
            self._decoded[seq] = None if text is None else ChatMessage.from_json(text)
        return self._decoded[seq]

    def messages(self, seqs: Iterable[int]) -> list[ChatMessage]:
        """Return the messages whose words are still stored."""
        return [message for seq in seqs if (message := self.message(seq)) is not None]

    def item(self, ref: Ref, part: Mapping[str, Any]) -> Item | None:
        """Return a piece of a block, in the form in which the block supplied it; None if its words were erased.

        `part`: the part of the recorded context that contains the piece.
        """
        # 1. Pieces that name their words by hash need no log.
        if ref.kind == "content":
            stored = self.text(ref.hash)
            return None if stored is None else stored_item(ref, stored, self._safe)
        if ref.kind == "text":
            stored, of_text = self.text(ref.hash), stored_marks(part).get(ref)
            if stored is not None and of_text is not None:
                mark = self._mark(of_text)
                return Item(ref, marked_text(stored, mark), sentence_parts(stored, self._safe, mark))
            return None if stored is None else self._static(ref, decode(stored))
        # 2. Numbered pieces have the words that the log records at that position. A user's fact is looked up in `facts`
        #    first: another session may have changed it, which this session's log does not record.
        number = ref.number
        if ref.kind == "fact":
            fact = self.facts.get(number) or self.pieces.fact(number, self.position)
            text = None if fact is None else self.text(fact.content)
            if fact is None or text is None:
                return None
            mark, note = self._mark(stored_marks(part).get(ref)), self.note(ref, part)
            text, tokens = f"{text}{note}", None if mark or note else fact.tokens
            return Item(ref, marked_text(text, mark), fact_parts(text, self._safe, mark), tokens=tokens)
        if ref.kind == "relation":
            sentence = self._relation_sentence(number)
            mark = self._mark(stored_marks(part).get(ref))
            parts = relation_parts(sentence or "", self._safe, mark)
            return None if sentence is None else Item(ref, marked_text(sentence, mark), parts)
        # 3. Units and date lines consist of messages, and are missing once all of these are erased.
        unit = self.pieces.unit(number)
        heard = self.messages(expand(unit.seqs)) if unit else []
        if unit is None or not heard:
            return None
        if ref.kind == "day":
            return Item(ref, "", day_parts(heard, self._safe), tokens=0)
        layout, marks = str(part.get("layout")), self._marks(unit, heard, part)
        parts_of = line_parts if layout.startswith("lines") else turn_parts
        tokens = None if any(marks) else unit.tokens
        span = self._span(unit) if layout.endswith(SPACED) else None
        return Item(ref, unit_words(heard, marks), parts_of(heard, self._safe, marks), tokens=tokens, span=span)

    def note(self, ref: Ref, part: Mapping[str, Any]) -> str:
        """Return what the prompt said after an item's words; empty for nothing."""
        if "notes" not in part:
            return ""
        # Spread once: a part may hold hundreds of items.
        if (notes := self._notes.get(part["name"])) is None:
            notes = {noted: note for note, refs in part["notes"] for noted in spread(refs)}
            self._notes[part["name"]] = notes
        return notes.get(ref, "")

    def _span(self, unit: StoredUnit) -> Span:
        """Return the first and the last message of a unit that still has its words."""
        seqs = [seq for seq in expand(unit.seqs) if self.message(seq) is not None] or expand(unit.seqs)
        first, last = (("", self.pieces.turn_of(seq) or 0, seq) for seq in (seqs[0], seqs[-1]))
        return first, last

    def _marks(self, unit: StoredUnit, heard: Sequence[ChatMessage], part: Mapping[str, Any]) -> list[str]:
        """Return the text of the mark at each of these messages of a unit; empty for a message without one."""
        marks = stored_marks(part)
        marked = [(seq, marks[ref]) for seq in expand(unit.seqs) if (ref := Ref.of("message", seq)) in marks]
        # By identity: an altered prompt may lack some of the messages.
        texts = {id(self.message(seq)): self._mark(mark) for seq, mark in marked}
        return [texts.get(id(message), "") for message in heard]

    def _mark(self, mark: FormerMark | None) -> str:
        """Return a mark in words; empty for none."""
        if mark is None:
            return ""
        # Not `self.item`: the mark stays as it was even if an altered prompt leaves its fact out.
        present = None if mark.now is None else PieceReader.item(self, mark.now, {})
        return replace(mark, words="" if present is None else present.words).text()

    def _relation_sentence(self, relation: int) -> str | None:
        """Return a relation as a sentence; None if any of its words were erased."""
        words = self.pieces.relation(relation, self.position)
        if words is None:
            return None
        parts = [self.text(key) for key in (words.subject, words.predicate, words.object)]
        # A relation with an erased end states nothing that can be shown.
        return None if None in parts else " ".join(part for part in parts if part is not None)

    def _static(self, ref: Ref, content: str | tuple[Part, ...]) -> Item:
        texts = [content] if isinstance(content, str) else [p.text for p in content if isinstance(p, TextPart)]
        return Item(ref, "\n".join(texts), static_parts(content, self._safe))

    def _safe(self, text: str) -> str:
        return neutralise(text, self.names)


@dataclass(frozen=True, slots=True)
class Layout:
    """A context before the memory section is inserted."""

    said: tuple[ChatMessage, ...]
    """Messages that custom blocks put in front, then the queue with the pinned messages."""
    memory: tuple[Part, ...]
    """The memory section; empty if no block contributed to it."""

    def messages(self, method: InsertMethod) -> tuple[ChatMessage, ...]:
        """Return the messages, with the memory section in the first system message or in the latest user message."""
        return tuple(insert_memory(self.said, self.memory, method))


def lay_out(event: ContextBuilt, reader: PieceReader) -> Layout:
    """Rebuild the layout that `memory_core.engine.context` produced, from the same pieces."""
    sections: list[Section] = []
    in_front: list[ChatMessage] = []
    # 1. Blocks in the order of the event, which is that of the prompt; messages of custom blocks go in front of it.
    for part in event.parts:
        items = [item for ref in spread(part["refs"]) if (item := reader.item(ref, part)) is not None]
        if parts := spaced_parts(items):
            sections.append(Section(part["name"], parts))
        in_front += [message for item in items for message in item.messages]
    # 2. Pinned messages and the queue together. Other programs' prompts were not escaped.
    history = reader.messages(places_of(event))
    if event.known != "built":
        return Layout(tuple(history), ())
    # 3. Escape last, and all words alike: any of them could pose as an element of the section.
    messages = tuple(neutralise_message(message, reader.names) for message in [*in_front, *history])
    return Layout(messages, render_memory(sections))

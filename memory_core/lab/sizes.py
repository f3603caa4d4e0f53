"""All that planning needs of a session, from its log: what an agent did, in sizes, and what blocks asked for then.

Gathered once for a position of the log; `replanning` then plans any number of configurations with it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from memory_core.events import EventRecord, Ref, Retrieved, expand, spread
from memory_core.history.by_turn import flush_of, search_of
from memory_core.history.pieces import Pieces
from memory_core.history.slices.contexts import context_of, is_context
from memory_core.history.slices.fact_slice import FactState
from memory_core.history.slices.projection import Projection
from memory_core.lab.script import Script, script_of
from memory_core.lab.variants import Variant, variant_of
from memory_core.memory import Memory
from memory_core.messages import MessageRole, TextPart, message_text
from memory_core.planning.flush import SizedMessage, Trigger
from memory_core.tokens import TokenCounter, counter_for


@dataclass(frozen=True, slots=True)
class Put:
    """Messages of one put: those that enter the queue, and those that are pinned in front of it."""

    queued: tuple[SizedMessage, ...]
    pinned: tuple[SizedMessage, ...] = ()


@dataclass(frozen=True, slots=True)
class Trimmed:
    """How one block was trimmed in a recorded prompt: with as much over, it would be again."""

    over: int
    """Tokens above the limit when it was decided."""
    granted: int
    """Tokens that were left of it."""
    kept: frozenset[Ref]


@dataclass(frozen=True, slots=True)
class AskedFor:
    """What one block asked for in a recorded prompt. Sizes are tokens of the session's accounting."""

    tokens: int
    """Its markup included, where that counts."""
    refs: frozenset[Ref]
    """Everything it asked for, date lines aside."""
    in_order: tuple[Ref, ...] | None
    """The same in the order of the prompt; None if some of it was cut, which no event gives a place."""
    trimmed: Trimmed | None
    search: Retrieved | None
    late: bool
    """Whether it was still to learn something then, or could not be read."""


@dataclass(frozen=True, slots=True)
class FactThen:
    """A fact as of a prompt, as far as it decides what is cut first."""

    id: int
    text: str
    tokens: int
    pinned: bool
    confirmed_at: float


@dataclass(frozen=True, slots=True)
class Recorded:
    """A prompt as the log has it."""

    position: int
    flushes: int
    """How many flushes there were before it."""
    parts: Mapping[str, AskedFor]
    facts: Mapping[int, FactThen]
    """Every fact there was, by id, with the hash of its words."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A prompt that is asked for."""

    turn: int
    question: str
    """Its input, or the newest words of the user."""
    recorded: Recorded | None
    """None: the session had no prompt there."""


@dataclass(frozen=True, slots=True)
class Flush:
    """A flush that was asked for."""

    trigger: Trigger


@dataclass(frozen=True)
class Sizes:
    """A session's steps and prompts in sizes."""

    base: Variant
    """The configuration under which they were recorded."""
    script: Script
    steps: tuple[Put | Ask | Flush, ...]
    flushes: tuple[tuple[int, ...], ...]
    """Messages that left in each recorded flush."""
    first_edit: int | None
    """Position from which people, or a program, had changed settings or memory; None: nobody did."""
    counter: TokenCounter
    attached: frozenset[int]
    """Messages with more than text."""
    pieces: Pieces | None
    texts: Mapping[str, str]
    """Words of facts, relations and summaries by hash."""

    def fact(self, id: int, recorded: Recorded) -> FactThen | None:
        """A fact as of a prompt, in words; None if these are not known any more."""
        then = recorded.facts.get(id)
        text = self.texts.get(then.text) if then is not None else None
        return replace(then, text=text) if then is not None and text is not None else None

    def relation_tokens(self, id: int, position: int) -> int | None:
        """Tokens of a relation's words at a position; None if they are not known any more."""
        words = self.pieces.relation(id, position) if self.pieces is not None else None
        keys = (words.subject, words.predicate, words.object) if words is not None else ()
        told = [self.texts[key] for key in keys if key in self.texts]
        return self.counter.text(" ".join(told)) if len(told) == 3 else None

    def unit(self, number: int) -> tuple[tuple[int, ...], int] | None:
        """Messages and tokens of a stored unit; None where its size in a prompt is not that of its words."""
        unit = self.pieces.unit(number) if self.pieces is not None else None
        seqs = tuple(expand(unit.seqs)) if unit is not None else ()
        return None if unit is None or not self.attached.isdisjoint(seqs) else (seqs, unit.tokens)

    @property
    def turns(self) -> int:
        return self.script.turns


def sizes_of(memory: Memory, upto: int | None = None) -> Sizes:
    """Read what planning needs of a session, its log up to a position of it, or all."""
    script, history = script_of(memory, upto), memory.log.history()
    records = history.records if upto is None else history.upto(upto)
    pieces = memory.log.pieces() if records else None
    reading = _Reading()
    for record in records:
        reading.take(record)
    base, accounting = variant_of(memory), memory.session.config.accounting
    stored = (each for each in memory.session.messages() if pieces is not None and pieces.message(each.seq))
    steps: list[Put | Ask | Flush] = []
    attached: set[int] = set()
    turn, latest = 0, ""
    for step in script.steps:
        if step.does == "ask":
            recorded = reading.prompts.get(step.positions[0]) if step.positions else None
            steps.append(Ask(turn, latest if step.input is None else step.input, recorded))
        elif step.does == "curate":
            continue  # from the first one on, the plan knows nothing of what was learned
        elif step.does != "put":
            steps.append(Flush("closed" if step.does == "close" else "asked"))
            latest = "" if step.does == "close" else latest  # nobody's words are left in the queue
        else:
            queued: list[SizedMessage] = []
            pinned: list[SizedMessage] = []
            for message in step.messages:
                of_it = next(stored)
                role, size = message.role, of_it.tokens.by(accounting)
                calls = tuple(call.tool_call_id for call in message.tool_calls if call.tool_call_id)
                answers = message.tool_call_id if role is MessageRole.TOOL else None
                (pinned if of_it.pinned else queued).append(SizedMessage(of_it.seq, role, size, calls, answers))
                if any(not isinstance(part, TextPart) for part in message.parts):
                    attached.add(of_it.seq)
                if role is MessageRole.USER:
                    turn, latest = turn + 1, message_text(message)
            steps.append(Put(tuple(queued), tuple(pinned)))
    return Sizes(
        base=base,
        script=script,
        steps=tuple(steps),
        flushes=tuple(reading.flushes),
        first_edit=_first_edit(records),
        counter=base.config.counting(counter_for(memory.session.tokenizer_fn, encoding=base.config.encoding)),
        attached=frozenset(attached),
        pieces=pieces,
        texts=memory.log.texts(_hashes(pieces, reading.prompts.values(), history.kinds(history.position))),
    )


class _Reading:
    """What a pass over the log gathers."""

    def __init__(self) -> None:
        self.prompts: dict[int, Recorded] = {}
        self.flushes: list[tuple[int, ...]] = []
        self._past = Projection()
        self._facts: dict[int, FactThen] = {}
        self._changed: dict[int, FactThen] = {}
        """Facts changed since the last prompt: they are copied once for it, and shared by those that follow."""
        self._searches: dict[str, Retrieved] = {}
        self._failed: set[str] = set()
        self._spread: dict[tuple[str, ...], tuple[Ref, ...]] = {}
        self._sets: dict[tuple[tuple[str, ...], ...], frozenset[Ref]] = {}

    def take(self, record: EventRecord) -> None:
        event = record.event
        self._past.apply(record)
        if (search := search_of(record)) is not None:
            self._searches[search.block] = search
        elif record.kind == "block_failed":
            self._failed.add(getattr(event, "block", ""))
        else:
            if is_context(event):
                self._prompt(record)
            elif record.kind == "flush_planned":
                self.flushes.append(tuple(expand(flush_of(record).seqs)))
            elif (fact := self._past.facts.by_id.get(getattr(event, "fact", None) or 0)) is not None:
                self._changed[fact.added.fact] = _then(fact)
            self._searches.clear()
            self._failed.clear()

    def _prompt(self, record: EventRecord) -> None:
        event = context_of(record)
        if self._changed:
            self._facts, self._changed = {**self._facts, **self._changed}, {}
        late = {*self._failed, *(state.queued.block for state in self._past.deliveries.due.values())}
        parts = {}
        for part in event.parts:
            name = part["name"]
            cuts = [cut for cut in event.cuts if cut["part"] == name]
            groups = (tuple(part["refs"]), *(tuple(cut["refs"]) for cut in cuts))
            trimmed = None
            if len(cuts) == 1 and cuts[0]["rule"] == "trimmed":
                trimmed = Trimmed(int(cuts[0]["over_before"]), int(part["granted"]), self._set(groups[:1]))
            parts[name] = AskedFor(
                tokens=int(part["asked"]),
                refs=self._set(groups),
                in_order=self._refs(groups[0]) if len(groups) == 1 else None,
                trimmed=trimmed,
                search=self._searches.get(name),
                late=name in late,
            )
        self.prompts[record.position] = Recorded(record.position, len(self.flushes), parts, self._facts)

    def _refs(self, compact: tuple[str, ...]) -> tuple[Ref, ...]:
        if compact not in self._spread:
            self._spread[compact] = tuple(ref for ref in spread(compact) if ref.kind != "day")
        return self._spread[compact]

    def _set(self, groups: tuple[tuple[str, ...], ...]) -> frozenset[Ref]:
        """Prompts ask for the same again and again: such a set is kept once."""
        if groups not in self._sets:
            self._sets[groups] = frozenset(ref for group in groups for ref in self._refs(group))
        return self._sets[groups]


def _then(fact: FactState) -> FactThen:
    return FactThen(fact.added.fact, fact.content, fact.tokens, fact.pinned, fact.confirmed_at)


def _first_edit(records: Sequence[EventRecord]) -> int | None:
    """Where settings or memory were first changed by somebody, once there were messages."""
    begun = next((n for n, record in enumerate(records) if record.event.family == "messages"), len(records))
    later = records[begun:]
    by_hand = ("blocks", "facts", "relations", "summaries", "vectors")
    edits = (
        record.position
        for record in later
        if record.event.family == "settings"
        or record.kind == "session_reset"
        or (record.actor == "user" and record.event.family in by_hand)
    )
    return next(edits, None)


def _hashes(pieces: Pieces | None, prompts: Iterable[Recorded], kinds: Mapping[str, str]) -> set[str]:
    """Words by which blocks decide what is cut first."""
    if pieces is None:
        return set()
    found = {words.content for worded in tuple(pieces.fact_words.values()) for _, words in worded}
    for prompt in prompts:
        for name, part in prompt.parts.items():
            if kinds.get(name) == "summary":
                found |= {ref.hash for ref in part.refs if ref.kind == "text"}
            elif kinds.get(name) == "graph":
                told = (pieces.relation(ref.number, prompt.position) for ref in part.refs)
                found |= {key for words in told if words for key in (words.subject, words.predicate, words.object)}
    return found

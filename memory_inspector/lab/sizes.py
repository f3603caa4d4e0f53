"""Read a session's log into the sizes that planning needs: the agent's actions and each block's requests.

Read once per log position; `replanning` plans any number of configurations from it. Flushes are replayed here from the
sizes of messages alone, with their cost: the engine's own planner is called at every put, as if the messages had been
put one by one, in O(messages).
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from memory_core.config import MemoryConfig
from memory_core.events import EventRecord, Ref, Retrieved, expand, spread
from memory_core.history.by_turn import search_of
from memory_core.history.context_pieces import Pieces
from memory_core.history.contexts import context_of, failure_of, is_context
from memory_core.history.message_slice import is_flush
from memory_core.history.projection import Projection
from memory_core.memory import Memory
from memory_core.messages import ChatMessage, MessageRole, TextPart, message_text
from memory_core.planning.fact_merging import Fact
from memory_core.planning.flush import FlushPlan, Queue, SizedMessage, Trigger, plan_flush
from memory_core.planning.quarantine import changes_quarantine
from memory_core.tokens import TokenCounter, counter_for
from memory_inspector.lab.script import Script, script_of
from memory_inspector.lab.variants import Variant, variant_of


@dataclass(frozen=True, slots=True)
class Put:
    """Messages of one put: those for the queue, and pinned system messages."""

    queued: tuple[SizedMessage, ...]
    pinned: tuple[SizedMessage, ...] = ()


@dataclass(frozen=True, slots=True)
class Trimmed:
    """Recorded trim result of one block; the same excess gives the same result."""

    over: int
    """Tokens above the limit when the block was trimmed."""
    granted: int
    """Tokens that remained."""
    remaining: frozenset[Ref]


@dataclass(frozen=True, slots=True)
class AskedFor:
    """Contents one block asked for in a recorded prompt. Sizes are tokens in the session's accounting."""

    tokens: int
    """Tokens with markup, if the accounting counts markup."""
    refs: frozenset[Ref]
    """Refs of everything asked for, except date lines."""
    in_order: tuple[Ref, ...] | None
    """Refs in prompt order; None if some were cut, as no event records their place."""
    trimmed: Trimmed | None
    search: Retrieved | None
    late: bool
    """True if learning was pending, or the block was unreadable."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recorded prompt."""

    position: int
    flushes: int
    """Number of flushes before this prompt."""
    parts: Mapping[str, AskedFor]
    facts: Mapping[int, Fact]
    """All facts by id; `text` is the hash of each fact's text."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A requested prompt."""

    turn: int
    question: str
    """Input of the prompt, or the newest user message."""
    recorded: Recorded | None
    """The recorded prompt; None if the session made none at this step."""
    reserved_tokens: int | None = None
    """See `ScriptStep.reserved_tokens`."""


@dataclass(frozen=True, slots=True)
class Flush:
    """A requested flush."""

    trigger: Trigger


@dataclass(frozen=True)
class Sizes:
    """A session's steps and prompts as sizes."""

    base: Variant
    """Configuration of the recording."""
    script: Script
    steps: tuple[Put | Ask | Flush, ...]
    flushes: tuple[tuple[int, ...], ...]
    """Messages removed by each recorded flush."""
    first_edit: int | None
    """Position of the first change of settings or memory by people or programs; None without any."""
    counter: TokenCounter
    attached: frozenset[int]
    """Messages with non-text parts."""
    pieces: Pieces | None
    texts: Mapping[str, str]
    """Texts of facts, relations and summaries by hash."""

    def fact(self, id: int, recorded: Recorded) -> Fact | None:
        """Return a fact at the time of a prompt, with text; None if it was erased."""
        then = recorded.facts.get(id)
        text = self.texts.get(then.text) if then is not None else None
        return replace(then, text=text) if then is not None and text is not None else None

    def relation_tokens(self, id: int, position: int) -> int | None:
        """Return the tokens of a relation's text at a position; None if it was erased."""
        words = self.pieces.relation(id, position) if self.pieces is not None else None
        keys = (words.subject, words.predicate, words.object) if words is not None else ()
        texts = [self.texts[key] for key in keys if key in self.texts]
        # A relation with an erased word is left out of prompts.
        return self.counter.text(" ".join(texts)) if len(texts) == 3 else None

    def unit(self, number: int) -> tuple[tuple[int, ...], int] | None:
        """Return a stored unit's messages and tokens; None if unknown, or if messages have parts other than text."""
        unit = self.pieces.unit(number) if self.pieces is not None else None
        seqs = tuple(expand(unit.seqs)) if unit is not None else ()
        return None if unit is None or not self.attached.isdisjoint(seqs) else (seqs, unit.tokens)

    @property
    def turns(self) -> int:
        return self.script.turns


def sizes_of(memory: Memory, upto: int | None = None) -> Sizes:
    """Read a session's sizes, optionally up to a log position."""
    script, history = script_of(memory, upto), memory.log.history()
    records = history.records if upto is None else history.upto(upto)
    pieces = memory.log.pieces() if records else None
    reading = _SizeReading()
    for record in records:
        reading.take(record)
    base, accounting = variant_of(memory), memory.session.config.accounting
    # Later messages than `upto` have no step and are left over at the end.
    stored = (message for message in memory.session.messages() if pieces is not None and pieces.message(message.seq))
    steps: list[Put | Ask | Flush] = []
    attached: set[int] = set()
    turn, latest = 0, ""
    for step in script.steps:
        if step.does == "ask":
            # A prompt that was inserted by the script has no event.
            recorded = reading.prompts.get(step.positions[0]) if step.positions else None
            question = latest if step.input is None else step.input
            steps.append(Ask(turn, question, recorded, step.reserved_tokens))
        elif step.does == "curate":
            continue  # after the first edit, the plan knows nothing about learned content
        elif step.does != "put":
            steps.append(Flush("closed" if step.does == "close" else "asked"))
            latest = "" if step.does == "close" else latest  # a close leaves no user message in the queue
        else:
            queued: list[SizedMessage] = []
            pinned: list[SizedMessage] = []
            for message in step.messages:
                of_it = next(stored)
                role, size = message.role, of_it.tokens.by(accounting)
                calls = tuple(call.tool_call_id for call in message.tool_calls if call.tool_call_id)
                answers = message.tool_call_id if role is MessageRole.TOOL else None
                # Pinned messages count against the limit, but never in the queue's budget.
                (pinned if of_it.pinned else queued).append(SizedMessage(of_it.seq, role, size, calls, answers))
                # The size of an image in a prompt is not that of its text.
                if any(not isinstance(part, TextPart) for part in message.parts):
                    attached.add(of_it.seq)
                # A turn begins with a user's message; a prompt without input is for the newest one.
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


class _SizeReading:
    """Collected data of one pass over the log."""

    def __init__(self) -> None:
        self.prompts: dict[int, Recorded] = {}
        self.flushes: list[tuple[int, ...]] = []
        self._past = Projection()
        self._facts: dict[int, Fact] = {}
        self._changed: dict[int, Fact] = {}
        """Facts changed since the last prompt; merged into `_facts` at the next one."""
        self._searches: dict[str, Retrieved] = {}
        self._failed: set[str] = set()
        self._spread: dict[tuple[str, ...], tuple[Ref, ...]] = {}
        self._sets: dict[tuple[tuple[str, ...], ...], frozenset[Ref]] = {}

    def take(self, record: EventRecord) -> None:
        event = record.event
        self._past.apply(record)
        # Searches and failures directly precede the prompt that they belong to.
        if (search := search_of(record)) is not None:
            self._searches[search.block] = search
        elif (failure := failure_of(record)) is not None:
            self._failed.add(failure.block)
        else:
            if is_context(event):
                self._prompt(record)
            elif is_flush(event):
                self.flushes.append(tuple(expand(event.seqs)))
            elif (fact := self._past.facts.by_id.get(getattr(event, "fact", None) or 0)) is not None:
                self._changed[fact.id] = fact
            # After a prompt, or any other event, the searches before it belong to no later prompt.
            self._searches.clear()
            self._failed.clear()

    def _prompt(self, record: EventRecord) -> None:
        event = context_of(record)
        # Copied only when something changed, since most prompts share all facts with the one before.
        if self._changed:
            self._facts, self._changed = {**self._facts, **self._changed}, {}
        # A delivery that is due at the prompt has not taught its block yet.
        late = {*self._failed, *(state.queued.block for state in self._past.deliveries.due.values())}
        parts = {}
        for part in event.parts:
            name = part["name"]
            cuts = [cut for cut in event.cuts if cut["part"] == name]
            # A block's own pieces and those cut from it: all that it asked for.
            groups = (tuple(part["refs"]), *(tuple(cut["refs"]) for cut in cuts))
            trimmed = None
            # A block cut twice, or by its own code, cannot be repeated from its excess alone.
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
        """Intern a ref set, as prompts repeat them."""
        if groups not in self._sets:
            self._sets[groups] = frozenset(ref for group in groups for ref in self._refs(group))
        return self._sets[groups]


def _first_edit(records: Sequence[EventRecord]) -> int | None:
    """Return the position of the first change of settings or memory after the first message."""
    # Settings before the first message are the configuration itself, not a change of it.
    begun = next((n for n, record in enumerate(records) if record.event.family == "messages"), len(records))
    later = records[begun:]
    by_hand = ("blocks", "facts", "relations", "summaries", "vectors")
    # Resets and settings count whoever changed them; memory only if a person did, as other changes are repeated.
    edits = (
        record.position
        for record in later
        if record.event.family == "settings"
        or record.event.forgets
        or changes_quarantine(record.event)
        or (record.actor == "user" and record.event.family in by_hand)
    )
    return next(edits, None)


def _hashes(pieces: Pieces | None, prompts: Iterable[Recorded], kinds: Mapping[str, str]) -> set[str]:
    """Return the hashes of texts that determine trim order."""
    if pieces is None:
        return set()
    hashes = {words.content for worded in tuple(pieces.fact_words.values()) for _, words in worded}
    for prompt in prompts:
        for name, part in prompt.parts.items():
            if kinds.get(name) == "summary":
                hashes |= {ref.hash for ref in part.refs if ref.kind == "text"}
            elif kinds.get(name) == "graph":
                items = (pieces.relation(ref.number, prompt.position) for ref in part.refs)
                hashes |= {key for words in items if words for key in (words.subject, words.predicate, words.object)}
    return hashes


@dataclass(frozen=True, slots=True)
class ReplayedFlush:
    """A flush that would have happened."""

    seq: int
    """Sequence number of the message whose put exceeded the queue's budget."""
    queue_before: int
    """Tokens in the queue before the flush."""
    plan: FlushPlan


def queued_sizes(messages: Sequence[ChatMessage], sizes: Sequence[int]) -> list[SizedMessage]:
    """Return the messages that enter the queue; system messages before the first user message are pinned instead.

    `sizes` are tokens, one per message. Sequence numbers count all messages from 1.
    """
    roles = [message.role for message in messages]
    opening = roles.index(MessageRole.USER) if MessageRole.USER in roles else len(roles)
    return [
        SizedMessage(
            seq,
            message.role,
            tokens,
            tuple(call.tool_call_id for call in message.tool_calls if call.tool_call_id),
            message.tool_call_id if message.role is MessageRole.TOOL else None,
        )
        for seq, (message, tokens) in enumerate(zip(messages, sizes, strict=True), start=1)
        if message.role is not MessageRole.SYSTEM or seq > opening
    ]


def replay_flushes(sizes: Sequence[SizedMessage], config: MemoryConfig) -> list[ReplayedFlush]:
    """Return the flushes that `config` would have caused, in order.

    `sizes` are all messages that were ever in the queue, archived ones included, in order, with tokens of the
    accounting that `config` names; pinned system messages are not among them.
    >>> turns = [SizedMessage(seq, MessageRole.USER, tokens=20) for seq in (1, 2, 3)]
    >>> config = MemoryConfig(token_limit=50, chat_history_token_ratio=0.8, token_flush_size=10)
    >>> [(flush.seq, [message.seq for message in flush.plan.leave]) for flush in replay_flushes(turns, config)]
    [(3, [1])]
    """
    queue: deque[SizedMessage] = deque()
    tokens, turns, newest_turn = 0, 0, None
    flushes = []
    history_budget, flush_size = config.history_budget, config.flush_size
    for message in sizes:
        queue.append(message)
        tokens += message.tokens
        if message.role is MessageRole.USER:
            # Never reset: a flush over budget leaves the newest user message in the queue.
            newest_turn = message.seq
            turns += 1
        plan = plan_flush(
            Queue(tokens, len(queue), newest_turn),
            queue,
            history_budget=history_budget,
            token_flush_size=flush_size,
            split_long_turns=config.split_long_turns,
            turns_over=max(0, turns - config.queue_turns) if config.queue_turns is not None else 0,
        )
        if plan:
            flushes.append(ReplayedFlush(message.seq, tokens, plan))
            remove_leaving(queue, plan.leave)
            tokens = plan.tokens_left
            turns -= sum(leaving.role is MessageRole.USER for leaving in plan.leave)
    return flushes


def remove_leaving(queue: deque[SizedMessage], leave: Sequence[SizedMessage]) -> None:
    """Remove the messages in `leave` from the front of the queue; the user message of a split turn stays there."""
    stay = []
    for leaving in leave:
        while (first := queue.popleft()) is not leaving:
            stay.append(first)
    queue.extendleft(reversed(stay))


# -- cost of a play -------------------------------------------------------------------------------

PROMPT_TOKENS = 400
"""Approximate tokens that an extraction call has besides the messages: instructions and the answer's schema."""

FACT_TOKENS = 12
"""Approximate size, in tokens, of a known fact; every call lists all known facts."""


@dataclass(frozen=True, slots=True)
class PlayCost:
    """Estimated calls and tokens. Recorded replies are reused, so only learning calls the model."""

    flushes: int
    calls: int
    input_tokens: int


def play_cost(
    messages: Sequence[ChatMessage], sizes: Sequence[int], config: MemoryConfig, *, learners: int = 1
) -> PlayCost:
    """Count flushes and learning calls when playing `messages` of these sizes (tokens) one by one.

    `learners` is the number of blocks that call a model for every flush. One new fact per turn is assumed.
    """
    flushes = replay_flushes(queued_sizes(messages, sizes), config)
    facts = tokens = 0
    # Every call reads the messages of its flush and lists the facts that are known by then.
    for flush in flushes:
        tokens += flush.plan.tokens + PROMPT_TOKENS + facts * FACT_TOKENS
        facts += sum(message.role is MessageRole.USER for message in flush.plan.leave)
    return PlayCost(len(flushes), len(flushes) * learners, tokens * learners)

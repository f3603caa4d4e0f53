"""Plan a whole session under other settings with the engine's own planners, from sizes in its log. Pure.

No store is read, no model called and nothing replayed. Block contents are as recorded while the blocks would have
learned the same: after the first differing flush, blocks that learn from flushes are unknown, as is all that depends on
them. Unknown values are reported as such, never guessed.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import Any, Literal

from memory_core.blocks.base import frame_tokens, item_tokens
from memory_core.blocks.facts import cut_order as facts_cut_order
from memory_core.blocks.static import decode, static_content
from memory_core.config import MemoryConfig
from memory_core.engine.context import outer_frame, share_tokens
from memory_core.events import Ref
from memory_core.messages import MessageRole
from memory_core.planning.context_plan import Part, Piece, Truncation, TruncationOrder, plan_context
from memory_core.planning.fact_merging import Fact
from memory_core.planning.flush import Queue, SizedMessage, Trigger, plan_flush
from memory_core.planning.rendering import neutralise
from memory_core.planning.retrieval_plan import budget_for
from memory_core.planning.running_summary import cut_order as summary_cut_order
from memory_inspector.files.configuration import StoredBlock
from memory_inspector.lab.comparing import PlayedTurn
from memory_inspector.lab.sizes import Ask, AskedFor, Flush, Put, Recorded, Sizes, remove_leaving
from memory_inspector.lab.variants import Variant, agents_may_edit, block_values

PlannedState = Literal["prompt", "out", "before", "unknown"]
"""State of a watched item in one prompt; `before`: not yet mentioned."""

_COUNTING = (
    "accounting", "encoding", "image_token_size_estimate", "audio_token_size_estimate", "video_token_size_estimate",
    "document_token_size_estimate", "learning_context",
)  # fmt: skip
"""Settings that change how everything is counted, or what is learned; the log has only sizes under the old ones."""

_FREE = {"priority", "truncation", "text", "prompt_share"}
"""Block settings that affect neither learning nor retrieval; static texts are recounted."""

_SEARCHED = {"similarity_top_k", "similarity_threshold"}
"""Vector block settings that recorded candidates can be re-evaluated for."""

_NOTHING: frozenset[Ref] = frozenset()
_CLOSE = 0.0001
"""Rounding tolerance: scores are recorded with four digits, so closer ones are undecidable."""


@dataclass(frozen=True, slots=True)
class PlannedPrompt:
    """A planned prompt. Sizes are in tokens; None if only a replay can determine them."""

    turn: int
    sent: int | None
    cut: int | None
    over_by: int | None
    watched: tuple[PlannedState, ...]
    """State of each watched item, in the order in which `Replanner.plan` got them."""
    granted: tuple[int | None, ...]
    """Granted tokens of each requested block."""
    unknown: tuple[str, ...]
    """Blocks whose contents or cuts cannot be determined."""
    refs: frozenset[Ref] | None = None
    """Refs of all contents except date lines; None if unknown or not requested."""


@dataclass(frozen=True, slots=True)
class Replanned:
    """A replanned session."""

    prompts: tuple[PlannedPrompt, ...]
    """Every prompt, oldest first."""
    flushes: tuple[tuple[int, tuple[int, ...]], ...]
    """Turn and messages of each flush."""
    whole: bool = True
    """False if even the flushes are unknown, as messages would differ or be counted differently."""

    @property
    def last(self) -> dict[int, PlannedPrompt]:
        """Return the last prompt of each turn, by turn."""
        return {prompt.turn: prompt for prompt in self.prompts}

    @property
    def unknown_from(self) -> int | None:
        """Return the first turn with unknown values; None if all are known."""
        return next((turn for turn, prompt in self.last.items() if prompt.unknown), None)

    def turns(self) -> list[PlayedTurn | None]:
        """Return each turn like a replayed one, but with 0 calls; None for a turn whose prompt is unknown."""
        flushed: dict[int, int] = {}
        for turn, seqs in self.flushes:
            flushed[turn] = flushed.get(turn, 0) + len(seqs)
        return [
            None if prompt.sent is None else PlayedTurn(turn, prompt.sent, prompt.cut or 0, flushed.get(turn, 0), 0)
            for turn, prompt in self.last.items()
        ]


class Replanner:
    """Planner of one session under any number of configurations."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self._base = {block.name: block for block in sizes.base.blocks}
        self._frames: dict[str, int] = {}
        self._values = {block.name: block_values(block) for block in sizes.base.blocks}
        self._edited = {block.name for block in sizes.base.blocks if agents_may_edit(block)}
        self._orders: dict[tuple[int, str], _Pieces | None] = {}
        self._listed: dict[frozenset[Ref], tuple[Mapping[int, Fact], Sequence[Fact], tuple[Piece, ...]]] = {}
        """Cached facts by ref set, from the last prompts that used the set."""
        recorded = sizes.pieces.messages if sizes.pieces is not None else ()
        times = Counter(state.added.content for state in recorded)
        self._repeated = frozenset(state.added.seq for state in recorded if times[state.added.content] > 1)
        """Messages that say the same as another one."""
        self.left = tuple(chain.from_iterable(sizes.flushes))
        """Messages in the order in which they left the recorded queue."""
        self.left_after = tuple(accumulate(map(len, sizes.flushes), initial=0))
        """Cumulative number of messages flushed, by number of flushes."""

    def plan(
        self,
        variant: Variant,
        watched: Sequence[frozenset[Ref]] = (),
        *,
        blocks: Sequence[str] = (),
        refs: bool = False,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Replanned:
        """Plan the session under a configuration.

        `watched` are the carriers of each watched item (`Memory.trace.carriers`); `blocks` select granted tokens,
        `refs` the refs of each prompt's contents. Ends early once `cancelled`.

        Raises:
            ConfigError: The configuration is invalid.
        """
        config, base = variant.config, self.sizes.base.config
        # If tokens are counted differently, the recorded sizes cannot be used.
        counted = all(getattr(config, name) == getattr(base, name) for name in _COUNTING)
        # With or without an agent that edits, the messages themselves would differ: calls and their results.
        edits = {block.name for block in variant.blocks if agents_may_edit(block)}
        if not counted or bool(edits) != bool(self._edited):
            states: list[PlannedState] = ["unknown" for _ in watched]
            prompts = [
                PlannedPrompt(step.turn, None, None, None, tuple(states), (None,) * len(blocks), ("",))
                for step in self.sizes.steps
                if isinstance(step, Ask)
            ]
            return Replanned(tuple(prompts), (), whole=False)
        # One pass over the session in the order of its log, with a queue of the plan's own.
        names = [block.name for block in variant.blocks]
        run = _Run(self, config, [self._block(block, names) for block in variant.blocks], watched, blocks, refs)
        for step in self.sizes.steps:
            if isinstance(step, Put):
                run.put(step)
            elif isinstance(step, Flush):
                run.flush(step.trigger)
            else:
                run.ask(step)
                if cancelled():
                    break
        return Replanned(tuple(run.prompts), tuple(run.flushes))

    def _block(self, block: StoredBlock, names: Sequence[str]) -> "_Block":
        """Return the properties of a block that are constant in a plan; `names` are those of all its blocks."""
        values, former = block_values(block), self._values.get(block.name)
        old = self._base.get(block.name)
        # A new block, or one of another type under an old name, has no recorded contents.
        same_kind = old is not None and old.type == block.type and former is not None
        changed = {k for k in values if former is None or former.get(k) != values[k]} - _FREE
        # A vector block may have other gates, since the log also lists candidates that the recorded gates stopped.
        searched = changed <= _SEARCHED if block.type == "vector" else not changed
        text = None
        if block.type == "static" and not (same_kind and block.name in self._edited and old and old.text == block.text):
            # What an agent edits changes from prompt to prompt, so it is read from the record instead.
            text = self._static(block, names)
        return _Block(
            name=block.name,
            kind=block.type,
            priority=int(values.get("priority", 0)),
            whole=values.get("truncation", "trim") == "drop",
            enabled=bool(values.get("enabled", True)),
            text=text,
            by_flush=values.get("deliver_on", "flush") == "flush",
            learns=bool(values.get("accept_short_term_memory", True)),
            same=same_kind and searched and (block.type != "static" or not changed),
            values=values,
            frame=self.frame(block.name),
        )

    def _static(self, block: StoredBlock, names: Sequence[str]) -> tuple[Ref, int]:
        """Return a static text's ref and tokens, equal in every prompt."""
        stored = block.text or ""
        # Escaped as in a prompt, since escaping adds tokens.
        (item,) = static_content(decode(stored), stored, lambda text: neutralise(text, names)).items
        return item.ref, item_tokens(item, self.sizes.counter, self.sizes.base.config.accounting)

    def frame(self, name: str) -> int:
        # Within one recording, the markup's size depends on the name alone.
        if name not in self._frames:
            self._frames[name] = frame_tokens(name, self.sizes.counter, self.sizes.base.config.accounting)
        return self._frames[name]

    def recorded_pieces(self, ask: Ask, block: "_Block", part: AskedFor) -> "_Pieces | None":
        """Return the pieces of a block in a recorded prompt with their trim order; None if unknown."""
        assert ask.recorded is not None
        key = ask.recorded.position, block.name
        if key not in self._orders:
            pieces = self._pieces(ask, block, part, ask.recorded)
            whole = pieces is not None and sum(piece.tokens for piece in pieces.pieces) == part.tokens - block.frame
            # Pieces whose sizes do not add up to the recorded size are not those of the prompt.
            self._orders[key] = pieces if whole else None
        return self._orders[key]

    def _pieces(self, ask: Ask, block: "_Block", part: AskedFor, recorded: Recorded) -> "_Pieces | None":
        sizes = self.sizes
        if block.kind == "facts" and block.values.get("show_dates"):
            return None  # the log has the facts' sizes without their dates
        if block.kind == "facts" and block.values.get("show", "all") == "all":
            facts, pieces = self._facts(part.refs, recorded)
            return _Pieces(pieces, facts_cut_order(facts, ask.question)) if len(facts) == len(part.refs) else None
        if block.kind == "vector" and part.search is not None:
            # Candidates are listed best first, and the worst is cut first.
            best = [number for number, _, _, _, outcome in part.search.candidates if outcome == "granted"]
            return self._units(best) if len(best) == len(part.refs) else None
        if part.in_order is None:
            return None
        if block.kind == "graph":
            tokens = [sizes.relation_tokens(ref.number, recorded.position) for ref in part.in_order]
            pieces = tuple(Piece(ref, size or 0) for ref, size in zip(part.in_order, tokens, strict=True))
            return _Pieces(pieces, tuple(reversed(range(len(pieces)))))
        if block.kind == "summary":
            texts = [sizes.texts.get(ref.hash, "") for ref in part.in_order]
            pieces = tuple(Piece(r, sizes.counter.text(t)) for r, t in zip(part.in_order, texts, strict=True))
            return _Pieces(pieces, summary_cut_order(texts, ask.question))
        return None

    def _facts(self, refs: frozenset[Ref], recorded: Recorded) -> tuple[Sequence[Fact], tuple[Piece, ...]]:
        """Return the listed facts with known text, oldest first, and their pieces; cached for prompts that share the
        list."""
        cached, of = self._listed.get(refs), recorded.facts
        if cached is None or cached[0] is not of:
            facts = [self.sizes.fact(ref.number, recorded) for ref in refs if ref.kind == "fact"]
            present = sorted((fact for fact in facts if fact is not None), key=lambda fact: fact.id)
            cached = of, present, tuple(Piece(Ref.of("fact", fact.id), fact.tokens) for fact in present)
            self._listed[refs] = cached
        return cached[1:]

    def _units(self, best_first: Sequence[int]) -> "_Pieces | None":
        units = [(number, self.sizes.unit(number)) for number in best_first]
        # One unit of unknown size makes the whole block unknown.
        if any(unit is None for _, unit in units):
            return None
        pieces = tuple(Piece(Ref.of("unit", number), unit[1]) for number, unit in units if unit is not None)
        return _Pieces(pieces, tuple(reversed(range(len(pieces)))))

    def units_found(
        self, block: "_Block", part: AskedFor, budget: int | None, queued: frozenset[int] | set[int]
    ) -> "_Content | None":
        """Return a recorded search's results under other limits, from its candidates; None if they are unknown."""
        search = part.search
        # A search that lacked a signal, such as its embedder's, may find other units another time.
        if search is None or search.degraded is not None:
            return _Content(part.tokens, part.refs) if search is None else None
        top_k, threshold = block.values.get("similarity_top_k"), block.values.get("similarity_threshold")
        # With the same gates the recorded result holds, unless the token budget left something out.
        same_gates = top_k == search.top_k and threshold == search.threshold
        fits = budget is not None and budget >= part.tokens - block.frame and not search.gates.get("no_room")
        if same_gates and (top_k is not None or budget == search.token_budget or fits):
            return _Content(part.tokens, part.refs, part)
        # Only content sizes are stored for units; a postprocessor's result is known only for its recorded input.
        if self.sizes.base.config.accounting != "content" or search.postprocessors:
            return None
        if block.values.get("scope") == "user":  # results from the user's other sessions are not in this log
            return None
        # Only the best candidates are listed: below them nothing is known.
        everything = sum(search.gates.values()) == len(search.candidates)
        if not everything and not self._proposes_the_same(block, search.top_k, top_k):
            return None
        # Which of several equal texts is found depends on the queue and the question; facts tell what says a former
        # value.
        if search.gates.get("repeated") or block.values.get("former_values") == "leave_out":
            return None
        granted: list[int] = []
        room, ended = budget or 0, everything
        for number, _, _, score, _ in search.candidates:
            unit = self.sizes.unit(number)
            # A score this close to the threshold may be on either side, as recorded scores are rounded.
            if unit is None or (threshold is not None and abs(score - threshold) < _CLOSE):
                return None
            if not self._repeated.isdisjoint(unit[0]):
                return None
            if threshold is not None and score < threshold:
                ended = True
                break
            # A unit whose messages are all in the queue is not recalled.
            if all(seq in queued for seq in unit[0]):
                continue
            if top_k is None:
                if unit[1] <= room:
                    granted.append(number)
                    room -= unit[1]
            else:
                granted.append(number)
                if len(granted) == top_k:
                    ended = True
                    break
        pieces = self._units(granted)
        # The list ended before the search would have: the next candidate might have been granted.
        if not ended or pieces is None:
            return None
        tokens = sum(piece.tokens for piece in pieces.pieces)
        return _Content(tokens, frozenset(piece.ref for piece in pieces.pieces), None, pieces)

    def _proposes_the_same(self, block: "_Block", before: int | None, after: int | None) -> bool:
        """Return whether every search would propose the same units; a larger result limit also widens the search."""
        if before is None or after is None:
            return False
        lends = block.values.get("neighbour_weight", 0) > 0 or block.values.get("episode_weight", 0) > 0
        # Four times the result limit is proposed, and never less than 50, so up to 12 the limit makes no difference.
        return lends or (before <= 12 and after <= 12)


@dataclass(frozen=True, slots=True)
class _Block:
    name: str
    kind: str
    priority: int
    whole: bool
    """True if the block is cut only as a whole."""
    enabled: bool
    text: tuple[Ref, int] | None
    """Ref and tokens of a static block, unless its agent edits it."""
    by_flush: bool
    learns: bool
    same: bool
    """True if the block would learn and retrieve as recorded, given the same messages."""
    values: Mapping[str, Any]
    frame: int

    @property
    def fills(self) -> bool:
        return self.kind == "vector" and self.values.get("similarity_top_k") is None


@dataclass(frozen=True, slots=True)
class _Pieces:
    pieces: tuple[Piece, ...]
    cut_order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Content:
    """Contents that a block asks for."""

    tokens: int
    refs: frozenset[Ref]
    recorded: AskedFor | None = None
    """Recorded contents to take pieces from if some must be cut; None if there are none."""
    pieces: _Pieces | None = None


_EMPTY = _Content(0, _NOTHING)


class _Run:
    """A plan in progress."""

    def __init__(
        self,
        planner: Replanner,
        config: MemoryConfig,
        blocks: Sequence[_Block],
        watched: Sequence[frozenset[Ref]],
        asked_about: Sequence[str],
        refs: bool,
    ) -> None:
        self._planner, self._config, self._sizes = planner, config, planner.sizes
        self._limit, self._budget, self._flush_size = config.limit, config.history_budget, config.flush_size
        self._blocks = [block for block in blocks if block.enabled]
        # Blocks that ask for as much as fits come last, as their budget is what the others leave.
        self._plain = [block for block in self._blocks if not block.fills]
        self._filling = _cut_last([block for block in self._blocks if block.fills], config.truncation_order)
        self._watched = [({ref.number for ref in carriers if ref.kind == "message"}, carriers) for carriers in watched]
        self._asked_about, self._refs = asked_about, refs
        self._queue: deque[SizedMessage] = deque()
        self._queued: set[int] = set()
        self._tokens = self._turns = 0
        self._newest: int | None = None
        self._pinned_seqs: set[int] = set()
        self._pinned = 0
        self._reserved, self._room = config.reserved_tokens, config.room
        """Tokens that memory does not write in the prompt being planned, and those that queue and blocks may use."""
        self._turn = 0
        self._last = 0
        """Number of the last stored message."""
        self._as_recorded = True
        """True if all flushes so far removed the recorded messages."""
        self._alone = sum(block.kind == "vector" for block in blocks) == 1
        """True if there is a single vector block; several interleave their unit numbers, flush by flush."""
        self._left = 0
        """Number of messages that have left the queue."""
        self._in_order = True
        """True if messages left in the recorded order, even if by other flushes."""
        self.prompts: list[PlannedPrompt] = []
        self.flushes: list[tuple[int, tuple[int, ...]]] = []

    # -- the queue -------------------------------------------------------------------------------

    def put(self, step: Put) -> None:
        for message in step.pinned:
            self._pinned += message.tokens
            self._pinned_seqs.add(message.seq)
            self._last = message.seq
        for message in step.queued:
            self._queue.append(message)
            self._queued.add(message.seq)
            self._tokens += message.tokens
            self._last = message.seq
            if message.role is MessageRole.USER:
                self._newest = message.seq
                self._turns += 1
                self._turn += 1
        # As in a put: the token budget or the number of turns, whichever is passed first.
        window = self._config.queue_turns
        if self._tokens > self._budget or (window is not None and self._turns > window):
            self.flush("over_budget")

    def flush(self, trigger: Trigger) -> None:
        window = self._config.queue_turns
        plan = plan_flush(
            Queue(self._tokens, len(self._queue), self._newest),
            self._queue,
            history_budget=self._budget,
            token_flush_size=self._flush_size,
            split_long_turns=self._config.split_long_turns,
            turns_over=max(0, self._turns - window) if window is not None else 0,
            trigger=trigger,
        )
        if not plan:
            return
        remove_leaving(self._queue, plan.leave)
        self._tokens = plan.tokens_left
        seqs = tuple(message.seq for message in plan.leave)
        self._queued.difference_update(seqs)
        self._turns -= sum(message.role is MessageRole.USER for message in plan.leave)
        # A close empties the queue, its newest user message included.
        if self._newest not in self._queued:
            self._newest = None
        recorded = self._sizes.flushes
        # After one flush that differs, nothing learned later is as recorded.
        number = len(self.flushes)
        self._as_recorded = self._as_recorded and number < len(recorded) and recorded[number] == seqs
        # Beyond the recorded messages there is nothing to compare with.
        expected = self._planner.left[self._left : self._left + len(seqs)]
        self._in_order = self._in_order and expected == seqs[: len(expected)]
        self._left += len(seqs)
        self.flushes.append((self._turn, seqs))

    # -- prompts ---------------------------------------------------------------------------------

    def ask(self, ask: Ask) -> None:
        # Measured in the call itself, whatever the settings say.
        self._reserved = self._config.reserved_tokens if ask.reserved_tokens is None else ask.reserved_tokens
        self._room = max(0, self._limit - self._reserved)
        contents = {block.name: self._content(block, ask) for block in self._plain}
        taken = self._pinned + self._tokens
        frame = self._frame()
        self._fill(contents, ask, taken + frame)
        unknown = [name for name, content in contents.items() if content is None]
        # Unknown blocks are missing from this sum, so it is compared with the limit only if there are none.
        asked = sum(content.tokens for content in contents.values() if content is not None)
        # The markup around all blocks is present if any block is.
        frame = frame if any(content is not None and content.refs for content in contents.values()) else 0
        total = self._reserved + taken + frame + asked
        if total <= self._limit and not unknown:
            self._note(ask, total, 0, 0, self._queued, contents, {})
        else:
            self._cut(ask, contents, frame, unknown)

    def _content(self, block: _Block, ask: Ask) -> _Content | None:
        """Return a block's contents; None if unknown."""
        if block.text is not None:
            ref, tokens = block.text
            return _Content(tokens + block.frame, frozenset((ref,)))
        part = self._as_it_was(block, ask)
        if part is not None:
            return (
                self._planner.units_found(block, part, None, self._queued | self._pinned_seqs)
                if block.kind == "vector"
                else _Content(part.tokens, part.refs, part)
            )
        # A block without messages so far is empty, unless it is a user's, which other sessions may have taught.
        nothing_yet = block.kind != "static" and (not block.learns or (block.by_flush and not self.flushes))
        return _EMPTY if nothing_yet and block.values.get("scope") != "user" else None

    def _as_it_was(self, block: _Block, ask: Ask) -> AskedFor | None:
        """Return a block's recorded contents in this prompt; None unless the plan would have the same."""
        recorded, edited = ask.recorded, self._sizes.first_edit
        # After a change by people, contents may differ from the record for reasons that a plan does not repeat.
        if recorded is None or not block.same or (edited is not None and recorded.position > edited):
            return None
        alike = self._as_recorded and recorded.flushes == len(self.flushes)
        # Searches skip what is in the queue; graphs look at entities mentioned there.
        if (
            not alike
            and (block.by_flush or block.kind in ("vector", "graph"))
            and not self._same_units(block, recorded)
        ):
            return None
        part = recorded.parts.get(block.name)
        return part if part is not None and not part.late else None

    def _same_units(self, block: _Block, recorded: Recorded) -> bool:
        """Return whether a vector block holds the recorded units; with units of one message, flushes may differ."""
        single = block.kind == "vector" and block.by_flush and self._alone and block.values.get("unit") == "message"
        return single and self._in_order and self._left == self._planner.left_after[recorded.flushes]

    def _fill(self, contents: dict[str, _Content | None], ask: Ask, taken: int) -> None:
        """Fill the blocks that ask for as much as fits, each with what the earlier ones leave."""
        # At most their share, as the engine budgets: what a block asks for above it is cut first.
        shares = {block.name: share for block in self._plain if (share := share_tokens(block.values, self._room))}
        for block in self._filling:
            part = self._as_it_was(block, ask)
            before = list(contents.values())
            if part is None:
                contents[block.name] = self._content(block, ask)
            # The budget depends on every block before this one.
            elif any(content is None for content in before):
                contents[block.name] = None
            else:
                sizes = {name: content.tokens for name, content in contents.items() if content is not None}
                asked = sum(min(size, shares.get(name, size)) for name, size in sizes.items())
                others = taken + asked + block.frame
                budget = budget_for(self._room, others)
                seqs = self._queued | self._pinned_seqs
                contents[block.name] = self._planner.units_found(block, part, budget, seqs)

    def _frame(self) -> int:
        if self._config.accounting != "billed":
            return 0
        roles = {message.role for message in self._queue} | ({MessageRole.SYSTEM} if self._pinned_seqs else set())
        return outer_frame(self._config, self._sizes.counter, roles)

    def _cut(self, ask: Ask, contents: Mapping[str, _Content | None], frame: int, unknown: list[str]) -> None:
        guessed: list[str] = []
        pairs = [(block, content) for block in self._blocks if (content := contents[block.name]) is not None]
        # A block that is never cut displaces messages; if its size is unknown, so is the queue's cut.
        unsure = any(not block.priority and contents[block.name] is None for block in self._blocks)
        never_cut = sum(content.tokens for block, content in pairs if not block.priority)
        if unknown and self._pinned + self._tokens + frame + never_cut <= self._room:  # the queue is not cut
            names = [*unknown, *(block.name for block, _ in pairs if block.priority)]
            self._note(ask, None, None, None, set() if unsure else self._queued, contents, {}, names)
            return
        parts = [self._part(block, content, ask) for block, content in pairs]
        queue = tuple(self._queue)

        trimmed: dict[str, frozenset[Ref]] = {}

        def as_it_was_trimmed(part: Part, over: int) -> Part | None:
            """Return the part as it was trimmed at the same excess; None otherwise, as the log has no trim order."""
            content = contents[part.name]
            then = content.recorded.trimmed if content is not None and content.recorded is not None else None
            if then is not None and then.over == over and then.remaining:
                trimmed[part.name] = then.remaining
                # A single piece represents everything that remained; `trimmed` has all refs.
                remainder = Piece(next(iter(then.remaining)), then.granted - part.frame)
                return replace(part, pieces=(remainder,))
            if over < part.tokens and (then is None or then.over != over):  # otherwise all of it goes, in any order
                guessed.append(part.name)
            return None

        unordered = {
            part.name: as_it_was_trimmed
            for (block, content), part in zip(pairs, parts, strict=True)
            if not part.cut_order and part.priority and not block.whole and content.refs and block.kind != "static"
        }
        # Blocks are cut before the queue, so the queue's cut depends only on blocks that are never cut.
        never = [part for part in parts if not part.priority]
        plan = plan_context(
            never if unknown else parts,
            queue,
            token_limit=self._limit,
            pinned_tokens=self._pinned,
            reserved_tokens=self._reserved,
            frame=frame if not unknown or any(part.pieces for part in never) else 0,
            truncation_order=self._config.truncation_order,
            when_over=self._config.when_over,
            truncators={} if unknown else unordered,
        )
        remaining = {message.seq for message in plan.queue} if len(plan.queue) < len(queue) else self._queued
        if unsure:
            remaining = set()
        granted = {part.name: frozenset(piece.ref for piece in part.pieces) for part in plan.granted}
        granted |= {name: refs for name, refs in trimmed.items() if granted[name]}
        tokens = {part.name: part.granted for part in plan.granted}
        names = [*unknown, *guessed]
        if names:
            # Blocks that were not planned are unknown, too: their cuts depend on those that could not be determined.
            names += [block.name for block, _ in pairs if block.name not in granted]
            granted = {name: refs for name, refs in granted.items() if name not in guessed}
            self._note(ask, None, None, None, remaining, contents, granted, names, tokens)
        else:
            self._note(ask, plan.total, plan.asked - plan.total, plan.over_by, remaining, contents, granted, (), tokens)

    def _part(self, block: _Block, content: _Content, ask: Ask) -> Part:
        pieces: _Pieces | None = content.pieces
        if pieces is None and content.recorded is not None and block.priority and not block.whole:
            pieces = self._planner.recorded_pieces(ask, block, content.recorded)
        if pieces is None:  # one piece is enough: uncut or cut as a whole
            one = Piece(next(iter(content.refs), Ref("s")), content.tokens - block.frame)
            pieces = _Pieces((one,) if content.refs else (), ())
        # A static text is one piece, so even "trim" cuts it whole.
        order = () if block.whole or block.text is not None else pieces.cut_order
        truncation: Truncation = "drop" if block.whole else "trim"
        share = share_tokens(block.values, self._room)
        return Part(block.name, block.priority, pieces.pieces, order, truncation, block.frame, share)

    def _note(
        self,
        ask: Ask,
        sent: int | None,
        cut: int | None,
        over_by: int | None,
        queued: set[int],
        contents: Mapping[str, _Content | None],
        granted: Mapping[str, frozenset[Ref]],
        unknown: Sequence[str] = (),
        tokens: Mapping[str, int] | None = None,
    ) -> None:
        """Append a planned prompt. `granted` has the pieces of blocks that were planned; all others are uncut."""
        here: list[frozenset[Ref]] = []
        for name, content in contents.items():
            if content is None or name in unknown:
                continue
            whole = not granted or name not in granted or self._whole(content, granted[name], tokens, name)
            here.append(content.refs if whole else granted[name])
        states: list[PlannedState] = []
        for seqs, carriers in self._watched:
            inside = not seqs.isdisjoint(queued) or not seqs.isdisjoint(self._pinned_seqs)
            if inside or any(not carriers.isdisjoint(refs) for refs in here):
                states.append("prompt")
            elif seqs and min(seqs) > self._last:
                states.append("before")
            else:
                states.append("unknown" if unknown and (seqs or carriers) else "out")
        refs = None
        if self._refs and not unknown:
            messages = (Ref.of("message", seq) for seq in (*queued, *self._pinned_seqs))
            refs = frozenset().union(messages, *here)
        about = tuple(self._granted_tokens(name, contents, unknown, tokens) for name in self._asked_about)
        self.prompts.append(PlannedPrompt(ask.turn, sent, cut, over_by, tuple(states), about, tuple(unknown), refs))

    @staticmethod
    def _whole(content: _Content, granted: frozenset[Ref], tokens: Mapping[str, int] | None, name: str) -> bool:
        """Return whether a block was granted whole; by tokens, as a part planned as one piece has only one ref."""
        return bool(granted) and tokens is not None and tokens.get(name) == content.tokens

    @staticmethod
    def _granted_tokens(
        name: str, contents: Mapping[str, _Content | None], unknown: Sequence[str], tokens: Mapping[str, int] | None
    ) -> int | None:
        if name in unknown or (name in contents and contents[name] is None):
            return None
        content = contents.get(name)
        return (tokens or {}).get(name, content.tokens if content is not None else 0)


def _cut_last(blocks: Sequence[_Block], order: TruncationOrder) -> list[_Block]:
    """Order blocks as the engine fills them: never-cut ones first, then the last to be cut."""
    sign = 1 if order == "largest_first" else -1
    return sorted(blocks, key=lambda block: (block.priority > 0, sign * block.priority))

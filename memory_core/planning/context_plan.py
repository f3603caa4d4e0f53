"""Decide what goes into one context, and what is cut, until it fits the token limit.

Pure arithmetic on blocks that were read and sizes that were counted. As in LlamaIndex there are two passes: first each
block gives up pieces, in priority order, then whole blocks are dropped. Before these passes, blocks with a share of the
prompt give up pieces above that share. A remaining excess is recorded with its size and reason. All sizes are tokens in
the session's accounting.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from memory_core.events import Ref
from memory_core.formats.notebooks import repr_html
from memory_core.messages import ChatMessage, MessageRole
from memory_core.planning.flush import SizedMessage
from memory_core.text import listed

TruncationOrder = Literal["largest_first", "smallest_first"]
WhenOver = Literal["shrink_queue", "return", "raise"]
Truncation = Literal["trim", "drop"]
CutRule = Literal["over_share", "trimmed", "dropped", "own_truncation", "oldest_turns"]
Spoken = TypeVar("Spoken", SizedMessage, ChatMessage)
RESERVED_LABEL = "System prompt and tools"
RESERVED_WORDS = "the agent's system prompt and tools"
"""Names of the part of a prompt that memory does not write (`reserved_tokens`): in a table, and in a sentence."""
QUEUE = "queue"
"""The name under which cuts of the queue are recorded; no block may have it."""


@dataclass(frozen=True, slots=True)
class CutOrder:
    """The order in which blocks are cut when a context is too large."""

    groups: tuple[tuple[str, ...], ...]
    """Names of blocks, first to be cut first. A group has one priority; within it the earlier block is cut first."""
    never: tuple[str, ...]
    """Names of blocks with priority 0, which are never cut."""


def cut_order(priorities: Mapping[str, int], truncation_order: TruncationOrder) -> CutOrder:
    """Return the cut order for these priorities; `priorities` is in the order of the blocks.

    >>> cut_order({"a": 0, "b": 1, "c": 2}, "largest_first")
    CutOrder(groups=(('c',), ('b',)), never=('a',))
    """
    numbers = sorted({number for number in priorities.values() if number}, reverse=truncation_order == "largest_first")
    return CutOrder(
        groups=tuple(tuple(name for name in priorities if priorities[name] == number) for number in numbers),
        never=tuple(name for name in priorities if not priorities[name]),
    )


@dataclass(frozen=True, slots=True)
class Piece:
    """The smallest unit of a block that is cut, always whole: a fact, a retrieved turn, a static text."""

    ref: Ref
    tokens: int
    heading: bool = False
    """True for a line above other pieces: in the cut order it follows the last of them, and is cut with it."""


@dataclass(frozen=True, slots=True)
class Part:
    """Content that one block asks to put into the context."""

    name: str
    priority: int
    pieces: tuple[Piece, ...]
    """Pieces in reading order."""
    cut_order: tuple[int, ...] = ()
    """Indexes of `pieces` in the order in which they are cut; empty: the block is cut as a whole."""
    truncation: Truncation = "trim"
    frame: int = 0
    """Tokens of the block's own markup, where the accounting counts it."""
    share: int | None = None
    """Share of the prompt in tokens: what the part asks for above it is cut first. None: only priority counts."""

    @property
    def tokens(self) -> int:
        return sum(piece.tokens for piece in self.pieces) + (self.frame if self.pieces else 0)


Truncator = Callable[[Part, int], Part | None]
"""A block's own truncation: from a part and the tokens to remove, return the remaining part; None: nothing remains."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Decision to leave something out of this context; stored data does not change."""

    part: str
    rule: CutRule
    refs: tuple[Ref, ...]
    """Pieces left out; for the queue, the first message of each turn left out."""
    tokens: int
    """Tokens that the cut freed."""
    over_before: int
    """Tokens above the limit just before this cut."""


@dataclass(frozen=True, slots=True)
class Granted:
    """Outcome for one part: tokens asked for and granted, and the pieces kept."""

    name: str
    priority: int
    asked: int
    granted: int
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class ContextPlan:
    """Contents of a context. `granted` is in the order of the blocks, `cuts` in the order they were made."""

    granted: tuple[Granted, ...]
    queue: tuple[SizedMessage, ...]
    pinned_tokens: int
    queue_asked: int
    """Tokens of the whole queue, pinned messages excluded."""
    queue_granted: int
    cuts: tuple[Cut, ...]
    asked: int
    """Tokens if nothing were cut."""
    total: int
    token_limit: int
    over_by: int
    """Tokens that still exceed the limit once only uncuttable parts are left (see `when_over`)."""
    over_because: str | None
    """Name of the uncuttable content that alone exceeds the limit; None when nothing does."""
    reserved_tokens: int = 0
    """Tokens that memory does not write: the agent's own system prompt and its definitions of tools; never cut."""

    _repr_html_ = repr_html

    @property
    def free(self) -> int:
        return max(0, self.token_limit - self.total)


def plan_context(
    parts: Sequence[Part],
    queue: Sequence[SizedMessage],
    *,
    token_limit: int,
    pinned_tokens: int = 0,
    reserved_tokens: int = 0,
    frame: int = 0,
    truncation_order: TruncationOrder = "largest_first",
    when_over: WhenOver = "shrink_queue",
    truncators: Mapping[str, Truncator] | None = None,
) -> ContextPlan:
    """Plan a context within `token_limit` tokens: grant what fits, and cut the rest.

    Priority 0 is never cut. Of the rest the largest number is cut first (`truncation_order`), ties in the order of
    `parts`; a part gives up its pieces in its own `cut_order` until enough tokens are free, or is dropped whole. If
    uncuttable parts and the queue exceed the limit, `"shrink_queue"` leaves out the oldest whole turns of the queue;
    the newest turn stays.

    `reserved_tokens` are sent beside queue and parts, and count against the limit like `pinned_tokens`. `frame` is the
    markup around all parts, counted once when any part is granted.

    >>> facts = Part("facts", 1, (Piece("f1", 30), Piece("f2", 20)), cut_order=(0, 1))
    >>> plan = plan_context([facts], [SizedMessage(1, MessageRole.USER, 60)], token_limit=100)
    >>> (plan.total, [(cut.part, cut.refs, cut.tokens) for cut in plan.cuts])
    (80, [('facts', ('f1',), 30)])
    """
    current = {part.name: part for part in parts}
    sizes = {part.name: part.tokens for part in parts}
    queue_asked = sum([message.tokens for message in queue])

    def total(queue_tokens: int) -> int:
        outer = frame if any(part.pieces for part in current.values()) else 0
        return reserved_tokens + pinned_tokens + queue_tokens + sum(sizes.values()) + outer

    asked = total(queue_asked)
    cuts: list[Cut] = []

    def cut(name: str, after: Part, rule: CutRule) -> None:
        before, over = current[name], total(queue_asked) - token_limit
        current[name], sizes[name] = after, after.tokens
        remaining = {piece.ref for piece in after.pieces}
        refs = tuple(piece.ref for piece in before.pieces if piece.ref not in remaining)
        freed = over - (total(queue_asked) - token_limit)
        if refs or freed:
            cuts.append(Cut(name, rule, refs, freed, over))

    in_order = cut_first(parts, truncation_order)
    # 1. Pieces above a part's share are cut first, whatever its priority: the other blocks were read with that room.
    for part in in_order:
        over = min(total(queue_asked) - token_limit, part.tokens - part.share) if part.share is not None else 0
        if over > 0 and part.cut_order and part.truncation == "trim":
            cut(part.name, _trimmed(part, over), "over_share")
    # 2. Blocks are cut before the queue: their contents stay stored and may be found again at the next question, while
    #    the queue is the conversation itself. By priority, each only as far as the prompt is still over the limit.
    for name in (part.name for part in in_order):
        part = current[name]
        over = total(queue_asked) - token_limit  # counted again: with its last piece a part's markup goes too
        if over <= 0 or not part.pieces:
            continue
        truncator = (truncators or {}).get(part.name)
        if truncator is not None:  # before the setting: only the block knows what its content can spare
            cut(part.name, truncator(part, over) or replace(part, pieces=()), "own_truncation")
        elif part.truncation == "drop" or not part.cut_order:
            cut(part.name, replace(part, pieces=()), "dropped")
        else:
            cut(part.name, _trimmed(part, over), "trimmed")
    # 3. A block's own truncation may have freed less than it was asked for. Such a block is dropped whole, after every
    #    block had its chance to be shortened, and before any turn of the queue.
    for part in in_order:
        if total(queue_asked) > token_limit and current[part.name].pieces:
            cut(part.name, replace(part, pieces=()), "dropped")

    # 4. Only uncuttable parts are left beside the queue, so the queue's oldest turns have to go.
    #    In whole turns, as an answer without its question misleads; the newest stays, as it is what is asked.
    kept_messages = tuple(queue)
    if when_over == "shrink_queue" and (over := total(queue_asked) - token_limit) > 0:
        gone, kept_messages = _without_oldest_turns(kept_messages, over)
        if gone:
            heads = tuple(Ref.of("message", turn[0].seq) for turn in gone)
            freed = sum(message.tokens for turn in gone for message in turn)
            cuts.append(Cut(QUEUE, "oldest_turns", heads, freed, over))
    cut_queue = len(kept_messages) < len(queue)
    queue_granted = sum([message.tokens for message in kept_messages]) if cut_queue else queue_asked

    # 5. A remaining excess is not cut but reported, with its cause: the caller sends it or raises (`when_over`).
    sent = total(queue_granted)
    over_by = max(0, sent - token_limit)
    return ContextPlan(
        granted=tuple(
            Granted(part.name, part.priority, part.tokens, sizes[part.name], current[part.name].pieces)
            for part in parts
        ),
        queue=kept_messages,
        pinned_tokens=pinned_tokens,
        queue_asked=queue_asked,
        queue_granted=queue_granted,
        cuts=tuple(cuts),
        asked=asked,
        total=sent,
        token_limit=token_limit,
        over_by=over_by,
        over_because=_never_cut(current.values(), reserved_tokens, pinned_tokens, kept_messages) if over_by else None,
        reserved_tokens=reserved_tokens,
    )


def cut_first(parts: Sequence[Part], truncation_order: TruncationOrder) -> list[Part]:
    """Return the parts that may be cut, first to be cut first; parts with priority 0 are left out."""
    sign = -1 if truncation_order == "largest_first" else 1
    return sorted((part for part in parts if part.priority > 0), key=lambda part: sign * part.priority)


def _trimmed(part: Part, over: int) -> Part:
    """Return the part without the first pieces of its cut order, as many as free `over` tokens."""
    gone: set[int] = set()
    freed = 0
    for index in part.cut_order:
        piece = part.pieces[index]
        if freed >= over and not piece.heading:
            break
        gone.add(index)
        freed += piece.tokens
    remaining = [index for index in range(len(part.pieces)) if index not in gone]
    places = {index: place for place, index in enumerate(remaining)}
    order = tuple(places[index] for index in part.cut_order if index in places)
    return replace(part, pieces=tuple(part.pieces[index] for index in remaining), cut_order=order)


def _without_oldest_turns(
    queue: tuple[SizedMessage, ...], over: int
) -> tuple[list[tuple[SizedMessage, ...]], tuple[SizedMessage, ...]]:
    turns = turns_of(queue)
    gone: list[tuple[SizedMessage, ...]] = []
    freed = 0
    while len(turns) > 1 and freed < over:
        turn = turns.pop(0)
        gone.append(turn)
        freed += sum(message.tokens for message in turn)
    return gone, tuple(message for turn in turns for message in turn)


def turns_of(messages: Sequence[Spoken]) -> list[tuple[Spoken, ...]]:
    """Return the messages as turns: each starts at a user message; messages before the first form one too."""
    turns: list[list[Spoken]] = []
    for message in messages:
        if not turns or message.role is MessageRole.USER:
            turns.append([])
        turns[-1].append(message)
    return [tuple(turn) for turn in turns]


def _never_cut(parts: Iterable[Part], reserved: int, pinned_tokens: int, queue: Sequence[SizedMessage]) -> str:
    names = [RESERVED_WORDS] if reserved else []
    names += [part.name for part in parts if part.pieces]
    if pinned_tokens:
        names.append("pinned system messages")
    if queue:
        names.append("the queue" if len(turns_of(queue)) > 1 else "the newest turn")
    return listed(names)

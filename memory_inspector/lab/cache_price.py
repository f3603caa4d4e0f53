"""Price of a memory in a prompt cache: tokens that a change in a block makes the endpoint read again.

A prompt cache reuses the common beginning of consecutive prompts. Prompts are compared as lists of pieces (messages,
facts, stored turns, texts) in the order in which they are rendered; markup is not counted. Pure over recorded prompts.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from memory_core.history.prompt import PART_NAMES, PINNED, Prompt, PromptPart
from memory_core.memory import Memory
from memory_core.planning.context_plan import QUEUE
from memory_core.planning.rendering import InsertMethod

MIN_SAVING = 0.05
"""Minimum share of the uncached tokens that a proposed change saves."""


class _Piece(NamedTuple):
    key: Hashable
    tokens: int
    part: str


@dataclass(frozen=True, slots=True)
class Move:
    """A change of the layout that leaves more of the prompt unchanged."""

    block: str | None
    """Block to move behind all others; None to insert the memory section in the latest user message."""
    saving: float
    """Share of the uncached tokens saved, 0 to 1."""

    @property
    def words(self) -> str:
        """Plain-text sentence; may contain a block's name."""
        place = "the memory section into the latest user message" if self.block is None else f"{self.block} last"
        return f"Move {place}: {self.saving:.0%} fewer uncached tokens."


@dataclass(frozen=True, slots=True)
class CachePrice:
    """Uncached tokens of a session's prompts after the first."""

    prompts: int
    tokens: int
    """Tokens of these prompts."""
    uncached: int
    """Tokens behind the beginning that each shares with the prompt before."""
    by_part: dict[str, int]
    """Tokens that were in the prompt before and are read again, by the first part that changed; messages that left the
    queue count for `queue`."""
    sent: dict[str, int]
    """Tokens of each part in all prompts, the first included."""
    move: Move | None
    """Change of the layout that saves most; None if none saves `MIN_SAVING`."""


def cache_price(memory: Memory, *, upto: int | None = None) -> CachePrice:
    """Measure the last prompt of each turn, up to a turn; reads all of these prompts."""
    turns = sorted(memory.log.history().turns.items())
    built = [turn.built for number, turn in turns if turn.built is not None and (upto is None or number <= upto)]
    prompts = [memory.log.prompt(record) for record in built]
    order = [block.name for block in memory.blocks]
    method = memory.session.config.insert_method
    uncached, by_part = _uncached(prompts, order, method)
    moved = {name: [*(other for other in order if other != name), name] for name in order[:-1] if by_part[name]}
    layouts: list[tuple[str | None, list[str], InsertMethod]] = [(name, moved[name], method) for name in moved]
    if method is InsertMethod.SYSTEM:
        layouts.append((None, order, InsertMethod.USER))
    moves = [
        Move(block, 1 - _uncached(prompts, other_order, other_method)[0] / uncached)
        for block, other_order, other_method in layouts
        if uncached
    ]
    best = max(moves, key=lambda move: move.saving, default=None)
    sent = Counter[str]()
    for part in (part for prompt in prompts for part in prompt.parts):
        sent[part.name] += part.granted
    return CachePrice(
        prompts=max(0, len(prompts) - 1),
        tokens=sum(_size(_pieces(prompt, order, method)) for prompt in prompts[1:]),
        uncached=uncached,
        by_part=dict(by_part),
        sent=dict(sent),
        move=best if best is not None and best.saving >= MIN_SAVING else None,
    )


def _uncached(prompts: Sequence[Prompt], order: Sequence[str], method: InsertMethod) -> tuple[int, Counter[str]]:
    """Return the uncached tokens of all prompts but the first, and those read again by the part that changed."""
    total, by_part = 0, Counter[str]()
    for before, after in pairwise([_pieces(prompt, order, method) for prompt in prompts]):
        same = next((i for i, (old, new) in enumerate(zip(before, after, strict=False)) if old.key != new.key), None)
        start = min(len(before), len(after)) if same is None else same
        rest = after[start:]
        total += _size(rest)
        had = {piece.key for piece in before}
        again = sum(piece.tokens for piece in rest if piece.key in had)
        if again:
            # What stood there either left the prompt, or something new was inserted in front of it.
            gone = start < len(before) and before[start].key not in {piece.key for piece in after}
            by_part[before[start].part if gone else rest[0].part] += again
    return total, by_part


def _pieces(prompt: Prompt, order: Sequence[str], method: InsertMethod) -> list[_Piece]:
    """Return a prompt's pieces in rendering order: system messages, memory section and queue."""
    parts = {part.name: part for part in prompt.parts if part.kind not in PART_NAMES}
    section = [piece for name in order if name in parts for piece in _of_part(parts[name])]
    pinned = [piece for part in prompt.parts if part.kind == PINNED for piece in _of_part(part)]
    queue = [piece for part in prompt.parts if part.kind == QUEUE for piece in _of_part(part)]
    if method is InsertMethod.SYSTEM:
        # In front of the first system message, or a system message of its own.
        return [*section, *pinned, *queue]
    users = [place for part in prompt.parts if part.kind == QUEUE for place in _user_places(part)]
    place = users[-1] if users else len(queue)
    return [*pinned, *queue[:place], *section, *queue[place:]]


def _of_part(part: PromptPart) -> list[_Piece]:
    return [_Piece((entry.ref, entry.words), entry.tokens or 0, part.name) for entry in part.included]


def _user_places(part: PromptPart) -> Iterable[int]:
    return (place for place, entry in enumerate(part.included) if entry.role == "user")


def _size(pieces: Iterable[_Piece]) -> int:
    return sum(piece.tokens for piece in pieces)

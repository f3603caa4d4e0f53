"""The point in time of a trace: one prompt, the searches it was built from, and the blocks of that time. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from memory_core.events import ContextBuilt, EventRecord, Ref, expand, spread
from memory_core.history.block_slice import PastBlock
from memory_core.history.by_turn import History, search_of
from memory_core.history.contexts import context_of
from memory_core.planning.quarantine import QuarantinedSet


@dataclass(frozen=True, slots=True)
class Cutting:
    """The cut that removed a ref from the prompt."""

    part: str
    rule: str
    priority: int
    over_before: int
    """Tokens above the limit before this cut."""
    later: bool = False
    """True if another part was cut first."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A prompt, or the end of a turn without one."""

    turn: int
    """Turn that was asked for; the prompt may be of an earlier one."""
    position: int
    record: EventRecord | None
    """Record of the prompt."""
    blocks: Mapping[str, PastBlock]
    retrieved: Mapping[str, EventRecord]
    """Event of each block's search for the prompt, by block."""
    failed: Mapping[str, EventRecord]
    """Event of each block that could not be read for the prompt, by block."""
    held: Mapping[Ref, str]
    """Name of the part that contains each ref of the prompt."""
    cut: Mapping[Ref, Cutting]
    queue: frozenset[int]
    """Sequence numbers of the queue's messages in the prompt, including pinned ones."""
    queue_over: int = 0
    """Tokens above the limit when the queue's oldest turns were dropped; 0 if none were."""
    quarantine: tuple[QuarantinedSet, ...] = ()
    """Sets of items that were in quarantine at `position`."""

    @property
    def built(self) -> ContextBuilt | None:
        return context_of(self.record) if self.record is not None else None

    @property
    def observed(self) -> bool:
        """Return whether an attached agent built the prompt, so it was only observed or reported."""
        return self.built is not None and self.built.known != "built"

    @property
    def seen_by(self) -> Literal["observed", "reported"]:
        """Return how an attached agent's prompt is known: observed in its call, or reported by spans."""
        return "reported" if self.built is not None and self.built.known == "reported" else "observed"

    @property
    def candidates(self) -> dict[Ref, str]:
        """Return the block of each unit in the recorded searches, best first."""
        searches = [search for record in self.retrieved.values() if (search := search_of(record)) is not None]
        return {Ref.of("unit", number): search.block for search in searches for number, *_ in search.candidates}

    @property
    def prompt(self) -> str:
        """Describe the prompt for the middle of a sentence."""
        return f"the prompt of turn {self.record.turn:,}" if self.record is not None else "a prompt"


def moment_at(history: History, turn: int, upto: int) -> Moment:
    """Return the moment of the last prompt up to a turn and a log position."""
    record = _prompt_at(history, turn, upto)
    # Without a prompt, the view is the end of the turn, or the end of what may be read if that is earlier.
    position = record.position if record is not None else min(upto, history.position_at(turn) or upto)
    blocks = {block.name: block for block in history.blocks_at(position)}
    quarantine = tuple(history.quarantine_at(position))
    if record is None:
        return Moment(turn, position, None, blocks, {}, {}, {}, {}, frozenset(), quarantine=quarantine)
    built = context_of(record)
    retrieved, failed = history.recorded_with(record)
    priorities = {str(part["name"]): int(part["priority"]) for part in built.parts}
    cut = {
        ref: Cutting(
            cut["part"],
            cut["rule"],
            priorities[cut["part"]],
            int(cut["over_before"]),
            cut["part"] != built.cuts[0]["part"],
        )
        for cut in built.cuts
        # The queue is not among the parts: its cut is kept as a number below.
        if cut["part"] in priorities
        for ref in spread(cut["refs"])
    }
    queue_over = max((int(cut["over_before"]) for cut in built.cuts if cut["part"] not in priorities), default=0)
    held = {ref: str(part["name"]) for part in built.parts for ref in spread(part["refs"])}
    queue = frozenset([*expand(built.queue), *expand(built.pinned)])
    return Moment(turn, position, record, blocks, retrieved, failed, held, cut, queue, queue_over, quarantine)


def _prompt_at(history: History, turn: int, upto: int) -> EventRecord | None:
    # A turn without a prompt is judged by the last prompt before it.
    for number in sorted((n for n in history.turns if n <= turn), reverse=True):
        built = [record for record in history.turns[number].contexts if record.position <= upto]
        if built:
            return built[-1]
    return None

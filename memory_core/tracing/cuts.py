"""Find a recorded cut in the log: its prompt, its rule with the numbers, and its items. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memory_core.errors import NotFoundError
from memory_core.events import EventRecord, Ref, spread
from memory_core.history.by_turn import History
from memory_core.history.context_pieces import Pieces
from memory_core.history.slices.contexts import context_of, is_context
from memory_core.planning.context_plan import QUEUE
from memory_core.text import count
from memory_core.tracing.rule_words import CUTS
from memory_core.tracing.stages import cut_text, stage
from memory_core.tracing.trace_time import Cutting
from memory_core.tracing.values import CutEntry, CutTrace, Stage


@dataclass(frozen=True, slots=True)
class FoundCut:
    """A cut of a recorded prompt."""

    record: EventRecord
    """Log record of the prompt."""
    part: str
    rule: str
    tokens: int
    refs: tuple[Ref, ...]
    """Refs that were cut; for the queue, one per message."""
    stage: Stage

    def trace(self, entries: tuple[CutEntry, ...], prompt: str, *, its_own: bool) -> CutTrace:
        """Return the cut with its entries; `prompt` names the viewed prompt; `its_own`: True if that prompt was cut."""
        more = len(self.refs) - len(entries)
        return CutTrace(self.part, self.rule, self.tokens, self.stage, entries, prompt, its_own, more)


def find_cut(history: History, pieces: Pieces, ref: Ref) -> FoundCut:
    """Find the cut that a ref names.

    Raises:
        NotFoundError: The log lacks the prompt, or the prompt lacks the cut.
    """
    position, number = ref.cut
    record = next((entry for entry in history.after(position - 1)[:1] if entry.position == position), None)
    cuts = context_of(record).cuts if record is not None and is_context(record.event) else ()
    if record is None or not 1 <= number <= len(cuts):
        raise NotFoundError(f"There is no cut {number} of a prompt at position {position} of this session's log.")
    cut: Mapping[str, Any] = cuts[number - 1]
    refs = [ref for ref in spread(cut["refs"]) if ref.kind != "day"]  # a date line carries no information by itself
    if cut["part"] == QUEUE:  # turns of the queue are named by their first message
        refs = [Ref.of("message", seq) for seq in pieces.left_out(record)]
    return FoundCut(record, cut["part"], cut["rule"], int(cut["tokens"]), tuple(refs), _decided(record, cut))


def _decided(record: EventRecord, cut: Mapping[str, Any]) -> Stage:
    over = int(cut["over_before"])
    if cut["part"] == QUEUE:
        text = CUTS["oldest_turns"].sentence.format(turn=record.turn, over=count(over))
        return stage("prompt", "lost", text, record, rule=cut["rule"], over_before=over, tokens=int(cut["tokens"]))
    priority = next((int(part["priority"]) for part in context_of(record).parts if part["name"] == cut["part"]), 0)
    later = cut["part"] != context_of(record).cuts[0]["part"]
    text = cut_text(record.turn, Cutting(cut["part"], cut["rule"], priority, over, later))
    return stage("prompt", "lost", text, record, rule=cut["rule"], priority=priority, over_before=over,
                 tokens=int(cut["tokens"]))  # fmt: skip

"""What is watched, turn by turn: in the prompt, in memory only, or lost. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from memory_core.events import Ref
from memory_core.tracing.values import STAGES, Trace

MAX_TURNS = 200
"""Turns that are told of at most, the newest: as many as a screen has room for, and a trace is made of each."""

PresenceState = Literal["prompt", "memory", "lost", "out", "before", "none"]
"""`prompt`: in the turn's prompt. `memory`: not in it, but kept, or still to be learned. `lost`: no carrier is kept.
`out`: not in it, and only an attached agent knows whether it keeps it. `before`: nobody had said it yet. `none`: the
turn has no prompt."""

_KEPT = STAGES.index("found")
_LATER = frozenset({"said_later", "learned_later", "added_later"})


@dataclass(frozen=True, slots=True)
class TurnPresence:
    """What became of it in one turn."""

    turn: int
    state: PresenceState
    sentence: str = ""
    """That of the trace to the turn's prompt; plain text."""


@dataclass(frozen=True, slots=True)
class Presence:
    """One watched thing over the turns."""

    target: str | Ref
    words: str
    """The phrase, or the words of what was picked."""
    turns: tuple[TurnPresence, ...]
    """Oldest first; only the last turns of a long session."""
    position: int
    """Log position up to which it tells."""

    def at(self, turn: int) -> TurnPresence | None:
        return next((each for each in self.turns if each.turn == turn), None)

    def last_in(self, turn: int) -> TurnPresence | None:
        """The last turn up to this one whose prompt had it."""
        return next((each for each in reversed(self.turns) if each.turn <= turn and each.state == "prompt"), None)

    def dropped(self) -> Iterator[TurnPresence]:
        """Each turn whose prompt lacks what the prompt before it had."""
        was_in = False
        for each in self.turns:
            if each.state == "none":
                continue
            if was_in and each.state != "prompt":
                yield each
            was_in = each.state == "prompt"

    def dropped_after(self, turn: int) -> TurnPresence | None:
        """The turn in which it dropped out of the prompt after this one; None if it did not."""
        return next((each for each in self.dropped() if each.turn > turn), None)


def presence_in(trace: Trace, turn: int) -> TurnPresence:
    """A turn's presence, by the trace to its prompt."""
    if trace.prompt_turn != turn:
        return TurnPresence(turn, "none")
    if trace.reached:
        return TurnPresence(turn, "prompt", trace.sentence)
    decided = [stage for track in trace.tracks if (stage := track.decisive) is not None]
    if all(stage.rule in _LATER for stage in decided) and not any(track.decisive is None for track in trace.tracks):
        return TurnPresence(turn, "before", trace.sentence)
    if any(stage.rule == "not_sent" for stage in decided):
        return TurnPresence(turn, "out", trace.sentence)
    kept = any(stage.verdict == "waiting" or STAGES.index(stage.name) >= _KEPT for stage in decided)
    return TurnPresence(turn, "memory" if kept else "lost", trace.sentence)

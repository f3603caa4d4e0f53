"""Watched items of a session: phrases and refs whose presence in each prompt is shown by turn."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from memory_core.engine.session import Session
from memory_core.errors import MessageError
from memory_core.events import Ref
from memory_core.store.writing import read_session
from memory_core.tracing.values import STAGES, Trace

MAX_WATCHED = 6
"""Maximum watched items; each has its own strip on the screen."""

MAX_CHARACTERS = 300
"""Maximum characters of a watched phrase."""


def watched(session: Session) -> tuple[str | Ref, ...]:
    """Return a session's watched items, oldest first; empty for one without messages."""
    with session.database.read() as connection:
        state = read_session(connection, session.id)
    return _decoded(state.watched) if state is not None else ()


def watch(session: Session, target: str | Ref) -> None:
    """Watch one more item.

    Raises:
        MessageError: The target is a cut, the phrase is empty or too long, or the limit is reached.
    """
    if isinstance(target, Ref) and target.kind == "cut":
        raise MessageError("A cut belongs to one prompt. Watch what was cut instead.")
    # Normalised to single spaces, so that one phrase is not watched twice.
    wanted = target if isinstance(target, Ref) else " ".join(target.split())
    if not wanted or len(wanted) > MAX_CHARACTERS:
        raise MessageError(f"A watched phrase has 1 to {MAX_CHARACTERS} characters; this one has {len(wanted)}.")
    with session.writing() as w:
        before = _decoded(w.session.watched)
        if wanted in before:
            return
        if len(before) >= MAX_WATCHED:
            raise MessageError(f"{MAX_WATCHED} items are watched already. Stop watching one of them first.")
        w.session.watched = _encoded([*before, wanted])


def unwatch(session: Session, target: str | Ref) -> None:
    """Stop watching an item; no error if it was not watched."""
    unwanted = target if isinstance(target, Ref) else " ".join(target.split())
    with session.writing() as w:
        w.session.watched = _encoded(other for other in _decoded(w.session.watched) if other != unwanted)


def _encoded(targets: Iterable[str | Ref]) -> str | None:
    pairs = [["ref" if isinstance(target, Ref) else "words", str(target)] for target in targets]
    return json.dumps(pairs, ensure_ascii=False) if pairs else None


def _decoded(stored: str | None) -> tuple[str | Ref, ...]:
    return tuple(Ref(text) if kind == "ref" else text for kind, text in json.loads(stored or "[]"))


# -- presence of a watched item by turn ------------------------------------------------------------


MAX_TURNS = 200
"""Maximum turns shown, the newest; each needs a trace."""

PresenceState = Literal["prompt", "memory", "lost", "out", "before", "none"]
"""`prompt`: in the turn's prompt. `memory`: only stored, or still to be learned. `lost`: no carrier is stored.
`out`: not in the prompt; only an attached agent knows if it is stored. `before`: not mentioned yet. `none`: the turn
has no prompt."""

# Items lost in the search or a later stage are still stored.
_KEPT = STAGES.index("found")
# Rules of items that were added only after the prompt was built.
_LATER = frozenset({"said_later", "learned_later", "added_later"})


@dataclass(frozen=True, slots=True)
class TurnPresence:
    """Presence in one turn."""

    turn: int
    state: PresenceState
    sentence: str = ""
    """Conclusion of the trace to the turn's prompt, as a sentence; plain text."""


@dataclass(frozen=True, slots=True)
class Presence:
    """Presence of one watched item over the turns."""

    target: str | Ref
    words: str
    """The phrase, or the text of the watched ref."""
    turns: tuple[TurnPresence, ...]
    """Presence in each turn, oldest first; only the last turns of a long session."""
    position: int
    """Log position of the view."""

    def at(self, turn: int) -> TurnPresence | None:
        return next((cell for cell in self.turns if cell.turn == turn), None)

    def last_in(self, turn: int) -> TurnPresence | None:
        """Return the last turn up to this one whose prompt had the item; None without one."""
        return next((cell for cell in reversed(self.turns) if cell.turn <= turn and cell.state == "prompt"), None)

    @property
    def in_last(self) -> bool:
        """True if the last turn's prompt had the item."""
        return bool(self.turns) and self.turns[-1].state == "prompt"

    def dropped(self) -> Iterator[TurnPresence]:
        """Yield each turn whose prompt lacks the item while the prompt before it had it."""
        was_in = False
        for cell in self.turns:
            # A turn without a prompt can lose nothing.
            if cell.state == "none":
                continue
            if was_in and cell.state != "prompt":
                yield cell
            was_in = cell.state == "prompt"

    def dropped_after(self, turn: int) -> TurnPresence | None:
        """Return the first turn after this one whose prompt lost the item; None if none did."""
        return next((cell for cell in self.dropped() if cell.turn > turn), None)


def presence_in(trace: Trace, turn: int) -> TurnPresence:
    """Compute a turn's presence from the trace to its prompt."""
    if trace.prompt_turn != turn:
        return TurnPresence(turn, "none")
    if trace.reached:
        return TurnPresence(turn, "prompt", trace.sentence)
    decided = [stage for track in trace.tracks if (stage := track.decisive) is not None]
    # True without any track, too: nobody had mentioned it.
    if all(stage.rule in _LATER for stage in decided) and not any(track.decisive is None for track in trace.tracks):
        return TurnPresence(turn, "before", trace.sentence)
    if any(stage.rule == "not_sent" for stage in decided):
        return TurnPresence(turn, "out", trace.sentence)
    stored = any(stage.verdict == "waiting" or STAGES.index(stage.name) >= _KEPT for stage in decided)
    return TurnPresence(turn, "memory" if stored else "lost", trace.sentence)

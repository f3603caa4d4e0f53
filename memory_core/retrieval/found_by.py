"""Questions that found a stored turn: the recorded searches that had it among their candidates. Pure.

An event lists only the best candidates. For a search that requested more, the recorded prompt shows the rest of what
was requested.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from memory_core.events import ContextBuilt, EventRecord, Retrieved, numbers
from memory_core.history.by_turn import search_of
from memory_core.history.slices.contexts import is_context
from memory_core.retrieval.ranked import CandidateOutcome


@dataclass(frozen=True, slots=True)
class FoundBy:
    """Recorded search that had a stored turn among its candidates."""

    turn: int
    """Conversation turn in which the question was asked."""
    place: int
    """Index of the search in `Memory.retrieval.recorded(turn, block)`, from 0."""
    query: str
    """Hash of the question; `Memory.log.texts` returns its words."""
    outcome: CandidateOutcome
    rank: int | None
    """Rank by score, 1 is best; None if the turn was not among the recorded candidates."""
    score: float | None


def found_by(records: Sequence[EventRecord], block: str, number: int) -> tuple[FoundBy, ...]:
    """Return a block's searches in these records that had a stored turn among their candidates, newest first."""
    questions: list[FoundBy] = []
    built: tuple[int, ContextBuilt] | None = None
    searches = Counter(r.turn for r in records if (search := search_of(r)) is not None and search.block == block)
    # Backwards, so that the prompt a search was made for is met before the search.
    for record in reversed(records):
        event = record.event
        if is_context(event):
            built = record.turn, event
        elif (search := search_of(record)) is not None and search.block == block:
            # Counted down from all searches of the turn: what is left is the index of this one.
            searches[record.turn] -= 1
            prompt = built[1] if built is not None and built[0] == record.turn else None
            found_here = _found_by(record.turn, searches[record.turn], search, prompt, number)
            questions += [found_here] if found_here is not None else []
    return tuple(questions)


def _found_by(turn: int, place: int, event: Retrieved, prompt: ContextBuilt | None, number: int) -> FoundBy | None:
    for rank, (candidate, _, _, score, ended) in enumerate(event.candidates, start=1):
        if candidate == number:
            outcome: CandidateOutcome = next(item for item in get_args(CandidateOutcome) if item == ended)
            if outcome == "granted":
                outcome = _in_prompt(prompt, event.block, number) or "no_prompt"
            return FoundBy(turn, place, event.query, outcome, rank, score)
    # An event lists only the best candidates; the prompt has the rest of what was asked for.
    listed = sum(candidate[4] == "granted" for candidate in event.candidates)
    if event.gates.get("granted", 0) > listed:
        unlisted = _in_prompt(prompt, event.block, number)
        return FoundBy(turn, place, event.query, unlisted, None, None) if unlisted is not None else None
    return None


def _in_prompt(prompt: ContextBuilt | None, block: str, number: int) -> CandidateOutcome | None:
    """Return whether a requested stored turn was granted or cut in a prompt; None if the prompt does not list it."""
    if prompt is None:
        return None
    if any(cut["part"] == block and number in numbers(cut["refs"], "unit") for cut in prompt.cuts):
        return "cut"
    granted = any(part["name"] == block and number in numbers(part["refs"], "unit") for part in prompt.parts)
    return "granted" if granted else None

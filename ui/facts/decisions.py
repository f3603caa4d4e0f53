"""What was decided of every found fact beside its nearest known ones, read from the log. Pure; no Streamlit.

A decision stands in the log before the change that follows from it, in one transaction.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from memory_core.events import (
    Event,
    EventRecord,
    FactAdded,
    FactChanged,
    FactDecided,
    ProposalRefused,
)
from ui.deciding import DECISIONS, decided_by, scores
from ui.text import count, tokens


@dataclass(frozen=True, slots=True)
class Decided:
    """One decision with what followed from it. Words are hashes in the content store."""

    position: int
    turn: int
    at: float
    event: FactDecided
    added: int | None = None
    """The fact that was added."""
    before: str | None = None
    """What the known fact said before it was updated."""
    after: str | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """Proposals that could not be, and were left out."""

    turn: int
    what: str
    reason: str
    number: int


@dataclass(frozen=True, slots=True)
class Decisions:
    """Those of one block."""

    decided: tuple[Decided, ...] = ()
    """Oldest first."""
    refused: tuple[Refused, ...] = ()
    words: Mapping[str, str] = field(default_factory=dict)
    """By hash; what was erased since is missing."""

    def of_fact(self, fact: int) -> list[Decided]:
        """The decisions that made a fact what it is, oldest first."""
        return [each for each in self.decided if fact in (each.event.fact, each.added)]

    def describe(self, key: str | None) -> str:
        return self.words.get(key or "", "words erased")


def decisions_of(
    records: Iterable[EventRecord], block: str, words: Callable[[Iterable[str]], Mapping[str, str]]
) -> Decisions:
    """Every decision about a block's facts, with the words that it names. `words` finds texts by their hashes."""
    decided: list[Decided] = []
    refused: list[Refused] = []
    following = False
    for record in records:
        event = record.event
        if event.about != block or record.actor != "engine":
            following = False
        elif isinstance(event, ProposalRefused):
            refused.append(Refused(record.turn, event.what, event.reason, event.number))
        elif isinstance(event, FactDecided):
            decided.append(Decided(record.position, record.turn, record.at, event))
            following = True
        elif following:
            decided[-1] = _followed(decided[-1], event)
    hashes = {key for each in decided for key in (each.event.content, each.before, each.after) if key}
    return Decisions(tuple(decided), tuple(refused), words(hashes) if hashes else {})


def _followed(decision: Decided, event: Event) -> Decided:
    """The decision with what came of it."""
    if isinstance(event, FactAdded):
        return replace(decision, added=event.fact)
    if isinstance(event, FactChanged) and event.fact == decision.event.fact:
        return replace(decision, before=event.before, after=event.after)
    return decision


def summed(decisions: Decisions) -> str:
    """`14 decisions: 8 added, 3 updated, 1 deleted, 2 nothing new.`"""
    if not decisions.decided:
        return "No decisions yet."
    sizes: Counter[str] = Counter(each.event.decision for each in decisions.decided)
    parts = [f"{tokens(sizes[key])} {label.lower()}" for key, label in DECISIONS.items() if sizes[key]]
    return f"{count(len(decisions.decided), 'decision')}: {', '.join(parts)}."


def rows(decisions: Decisions, shown: Sequence[Decided]) -> list[dict[str, Any]]:
    """One row a decision: what was found, what was decided, how near the known fact was."""
    return [
        {
            "Turn": each.turn,
            "Decision": [DECISIONS[each.event.decision]],
            "Found": decisions.describe(each.event.content),
            "Score": score_of(each),
        }
        for each in shown
    ]


def score_of(decision: Decided) -> float | None:
    """How near the known fact was that a decision is about; of what was added, the nearest one."""
    event = decision.event
    if event.fact is not None:
        return dict(event.candidates).get(event.fact)
    return event.candidates[0][1] if event.candidates else None


def why(decision: Decided) -> str:
    """`decided by rules: same slot; compared with 3: 0.82, 0.41, 0.40`"""
    return f"decided {decided_by(decision.event)}; {scores(decision.event)}"


def refusals(decisions: Decisions) -> list[str]:
    """What was proposed and left out, with the reason, a line each, newest first. Plain text."""
    return [
        f"Turn {tokens(each.turn)}: left out {count(each.number, each.what or 'proposal')}, {each.reason}"
        for each in reversed(decisions.refused)
    ]

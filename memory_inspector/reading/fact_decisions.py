"""Decisions on newly found facts, after comparing them with the nearest existing ones; read from the log. Pure.

The log has each decision right before the change that it led to, stored in the same transaction. No Streamlit.
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
from memory_inspector.wording.decision_text import DECISIONS, decided_by, scores
from memory_inspector.wording.formatting import count, tokens


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision with its effect. Texts are hashes in the content store."""

    position: int
    turn: int
    at: float
    event: FactDecided
    added: int | None = None
    """Id of the added fact."""
    before: str | None = None
    """Hash of the known fact's text before the update."""
    after: str | None = None


@dataclass(frozen=True, slots=True)
class RefusedProposals:
    """Proposals that were refused, and so not stored."""

    turn: int
    what: str
    reason: str
    number: int


@dataclass(frozen=True, slots=True)
class BlockDecisions:
    """Decisions and refusals of one block."""

    decided: tuple[Decided, ...] = ()
    """Decisions, oldest first."""
    refused: tuple[RefusedProposals, ...] = ()
    words: Mapping[str, str] = field(default_factory=dict)
    """Texts by hash; erased ones are missing."""

    def of_fact(self, fact: int) -> list[Decided]:
        """Decisions that added or changed a fact, oldest first."""
        return [decision for decision in self.decided if fact in (decision.event.fact, decision.added)]

    def describe(self, key: str | None) -> str:
        return self.words.get(key or "", "words erased")


def decisions_of(
    records: Iterable[EventRecord], block: str, words: Callable[[Iterable[str]], Mapping[str, str]]
) -> BlockDecisions:
    """Collect all decisions on a block's facts, with the texts they refer to. `words` finds texts by their hashes."""
    decided: list[Decided] = []
    refused: list[RefusedProposals] = []
    following = False
    for record in records:
        event = record.event
        # A change by someone else, or of another block, follows from no decision: the chain ends here.
        if event.about != block or record.actor != "engine":
            following = False
        elif isinstance(event, ProposalRefused):
            refused.append(RefusedProposals(record.turn, event.what, event.reason, event.number))
        elif isinstance(event, FactDecided):
            decided.append(Decided(record.position, record.turn, record.at, event))
            following = True
        # Any later events of the engine on this block belong to the last decision.
        elif following:
            decided[-1] = _followed(decided[-1], event)
    # All texts in one query, whatever the number of decisions.
    hashes = {key for decision in decided for key in (decision.event.content, decision.before, decision.after) if key}
    return BlockDecisions(tuple(decided), tuple(refused), words(hashes) if hashes else {})


def _followed(decision: Decided, event: Event) -> Decided:
    """The decision with the effect of the event that follows it."""
    if isinstance(event, FactAdded):
        return replace(decision, added=event.fact)
    if isinstance(event, FactChanged) and event.fact == decision.event.fact:
        return replace(decision, before=event.before, after=event.after)
    return decision


def summed(decisions: BlockDecisions) -> str:
    """Count the decisions: `14 decisions: 8 added, 3 updated, 1 deleted, 2 nothing new.`"""
    if not decisions.decided:
        return "No decisions yet."
    sizes: Counter[str] = Counter(decision.event.decision for decision in decisions.decided)
    parts = [f"{tokens(sizes[key])} {label.lower()}" for key, label in DECISIONS.items() if sizes[key]]
    return f"{count(len(decisions.decided), 'decision')}: {', '.join(parts)}."


def rows(decisions: BlockDecisions, shown: Sequence[Decided]) -> list[dict[str, Any]]:
    """Return a table row for each decision: the found fact, the decision, and the similarity to the existing fact."""
    return [
        {
            "Turn": decision.turn,
            "Decision": [DECISIONS[decision.event.decision]],
            "Found": decisions.describe(decision.event.content),
            "Score": score_of(decision),
        }
        for decision in shown
    ]


def score_of(decision: Decided) -> float | None:
    """Similarity, 0 to 1, to the existing fact that was decided on, otherwise to the nearest one; None if unknown."""
    event = decision.event
    if event.fact is not None:
        # An update or deletion names the fact it changes, which need not be the nearest candidate.
        return dict(event.candidates).get(event.fact)
    return event.candidates[0][1] if event.candidates else None


def why(decision: Decided) -> str:
    """Explain a decision: `decided by rules: it says the opposite; compared with 3: 0.82, 0.41, 0.40`"""
    return f"decided {decided_by(decision.event)}; {scores(decision.event)}"


def refusals(decisions: BlockDecisions) -> list[str]:
    """Refused proposals with the reason, a line each, newest first. Plain text."""
    return [
        f"Turn {tokens(refusal.turn)}: left out {count(refusal.number, refusal.what or 'proposal')}, {refusal.reason}"
        for refusal in reversed(decisions.refused)
    ]

"""The history of a fact in words: decisions on what was found, then each change with its author and texts. Pure.

The log has each decision right before the change that it led to, stored in the same transaction. No Streamlit.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from memory_core import FactRevision
from memory_core.events import (
    Event,
    EventRecord,
    FactAdded,
    FactChanged,
    FactDecided,
    ModelCalled,
    ProposalRefused,
    expand,
)
from memory_core.history.change_log import maker
from memory_core.history.fact_evidence import MadeBy
from memory_inspector.reading.fact_rows import STATES
from memory_inspector.wording.decision_text import DECISIONS, decided_by, scores
from memory_inspector.wording.event_sentences import MARKS
from memory_inspector.wording.formatting import count, tokens
from memory_inspector.wording.marked_text import MarkedPiece, diff_pieces


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


# -- the history of a fact -------------------------------------------------------------------------

SAME_MOMENT = 0.001
"""Maximum difference in seconds between the times of two records of one transaction."""


@dataclass(frozen=True, slots=True)
class Step:
    """A version of a fact."""

    what: str
    """Title, such as `Edited` or `Retired: outdated`."""
    who: str
    at: float
    pieces: tuple[MarkedPiece, ...] = ()
    """Text with changes marked; empty if it is unchanged."""
    why: str = ""
    """The decision that led to this version, as plain text; empty if there is none."""


def steps(revisions: Sequence[FactRevision], decisions: Sequence[Decided] = ()) -> list[Step]:
    """Versions of a fact, oldest first; `decisions`: the decisions about this fact."""
    steps: list[Step] = []
    # Copied, because every decision is used up by the version it led to.
    due = list(decisions)
    before: FactRevision | None = None
    for revision in revisions:
        pieces: tuple[MarkedPiece, ...] = ()
        if before is None:
            pieces = (MarkedPiece(revision.text),)
        elif before.text != revision.text:
            pieces = tuple(diff_pieces(before.text, revision.text))
        who = f"{maker(revision.actor, revision.person)}, turn {tokens(revision.turn)}"
        decided = next((decision for decision in due if _led_to(decision, before, revision)), None)
        if decided is not None:
            # Each decision led to one version.
            due.remove(decided)
        steps.append(Step(_done(before, revision), who, revision.at, pieces, why(decided) if decided else ""))
        before = revision
    return steps


def who_wrote(made: MadeBy | None) -> list[str]:
    """Sentences on the origin of a fact: its event and the model calls. Not escaped: they contain names of models."""
    if made is None:
        return ["Created in another session, or before this log begins."]
    if made.condensed is not None:
        event = made.condensed
        first = f"Written in turn {tokens(made.turn)}, when {event.before} facts were condensed to {event.after}."
    elif made.extracted is not None:
        read = count(len(expand(made.extracted.seqs)), "message")
        number = count(made.extracted.found, "fact")
        first = f"Learned in turn {tokens(made.turn)} by {made.extracted.extractor}: {number} found in {read}."
    else:
        return [f"Written by {maker(made.actor, made.person)} in turn {tokens(made.turn)}."]
    return [first, *(_call(call) for call in made.calls)] if made.calls else [first, "No model was called."]


def _call(call: ModelCalled) -> str:
    parts = [f"{call.model} was called"]
    if call.input_tokens is not None:
        parts.append(f"{tokens(call.input_tokens)} tokens in")
    if call.output_tokens is not None:
        parts.append(f"{tokens(call.output_tokens)} out")
    parts.append(f"{call.seconds:.1f} s")
    return ", ".join(parts) + "."


def _led_to(decision: Decided, before: FactRevision | None, now: FactRevision) -> bool:
    """Tell whether the decision led to this version. Both are written in one transaction."""
    # No id joins the two: versions are rows, decisions events.
    if now.actor != "engine" or abs(decision.at - now.at) > SAME_MOMENT:
        return False
    # A version that changes only labels or pins does not come from a decision.
    changed = before is None or before.text != now.text or before.state != now.state
    return changed and decision.event.decision != "none"


def _done(before: FactRevision | None, now: FactRevision) -> str:
    why = f": {now.reason}" if now.reason else ""
    if before is None:
        return "Proposed" if now.state == "proposed" else "Added"
    done: list[str] = []
    if before.text != now.text:
        done.append("Updated" if now.actor == "engine" else "Edited")
    if before.state != now.state:
        # A change from proposed to active is an acceptance; from any other state to active, it is a restoration.
        back = now.state == "active" and before.state != "proposed"
        done.append("Restored" if back else "Accepted" if now.state == "active" else STATES[now.state])
    # A version without a stored category could not change it.
    if now.category is not None and before.category is not None:
        labels = (now.category, *now.topics)
        if labels != (before.category, *before.topics):
            done.append(f"Labelled {', '.join(labels)}")
    for name, (mark, removed, _) in MARKS.items():
        if getattr(before, name) != getattr(now, name):
            done.append(mark if getattr(now, name) else removed)
    if before.metadata != now.metadata:
        done.append("Changed its metadata")
    # Nothing shown here changed: usually a person reviewed the fact and kept it.
    label = ", ".join([*done[:1], *(word.lower() for word in done[1:])]) or "Reviewed"
    return label + why

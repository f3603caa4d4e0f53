"""The history of a fact in words: each change with its author and the texts. Pure; no Streamlit."""

from collections.abc import Sequence
from dataclasses import dataclass

from memory_core import FactRevision
from memory_core.events import ModelCalled, expand
from memory_core.history.change_log import maker
from memory_core.history.fact_evidence import MadeBy
from memory_inspector.reading.fact_decisions import Decided, why
from memory_inspector.reading.fact_rows import STATES
from memory_inspector.wording.formatting import count, tokens
from memory_inspector.wording.marked_text import MarkedPiece, diff_pieces

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
    if before.pinned != now.pinned:
        done.append("Pinned" if now.pinned else "Unpinned")
    if before.metadata != now.metadata:
        done.append("Changed its metadata")
    # Nothing shown here changed: usually a person reviewed the fact and kept it.
    label = ", ".join([*done[:1], *(word.lower() for word in done[1:])]) or "Reviewed"
    return label + why

"""Texts about a running summary. Pure; no Streamlit.

Everything returned is markdown in which quoted words are escaped, unless its docstring says that it is plain text.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memory_core.blocks.base import CALL_TOKENS
from memory_core.curation.summary_desk import SummaryRevision, recorded_revisions
from memory_core.events import EventRecord, Ref
from memory_core.history.change_log import maker
from memory_core.messages import content_hash
from memory_core.planning.running_summary import sentences
from memory_core.text import capitalised
from memory_inspector.wording.formatting import count, plain, short, tokens

NAMED = 12
"""Maximum number of lost names, numbers and dates listed in one line; beyond it they are counted."""

NAMED_CHARACTERS = 40


@dataclass(frozen=True, slots=True)
class Freshness:
    """Distance between a summary and the end of the conversation, in turns."""

    covers: int | None
    """The last turn that the summary covers; None if it covers none."""
    latest: int


def freshness_then(records: Iterable[EventRecord], block: str, latest: int) -> Freshness:
    """Return the freshness of a summary after these records, the whole log or its beginning."""
    revisions = recorded_revisions(records, block)
    return Freshness(revisions[-1].covers_turn if revisions else None, latest)


def freshness_line(fresh: Freshness) -> str:
    """Freshness in words: `Covers up to turn 31, 4 turns behind`."""
    if fresh.covers is None:
        return "Covers no turn yet"
    behind = fresh.latest - fresh.covers
    how_far = f"{count(behind, 'turn')} behind" if behind > 0 else "up to date"
    return f"Covers up to turn {tokens(fresh.covers)}, {how_far}"


def sentence_refs(text: str) -> frozenset[str]:
    """The refs by which prompts name a summary's sentences."""
    return frozenset(Ref.of("text", content_hash(sentence)) for sentence in sentences(text))


def as_lines(text: str) -> str:
    """A summary with one sentence per line, for comparing versions. Plain text."""
    return "\n".join(sentences(text))


def by_whom(revision: SummaryRevision) -> str:
    """Author of a version. Plain text."""
    if revision.actor != "engine":
        return f"by {maker(revision.actor, revision.person)}"
    return f"by {short(revision.summariser)}" if revision.summariser else "by the engine"


def origin_line(revision: SummaryRevision) -> str:
    """Origin of a version, and what it covers."""
    parts = []
    if revision.restored is not None:
        parts.append(f"restores version {tokens(revision.restored)}")
    # A restored version was asked for as well; what it restores says more.
    elif revision.asked_by == "user":
        parts.append("rewritten on demand")
    if revision.messages:
        parts.append(f"read {count(revision.messages, 'message')}")
    if revision.covers_turn is not None:
        parts.append(f"covers up to turn {tokens(revision.covers_turn)}")
    if revision.shortened:
        parts.append(f"{count(revision.shortened, 'token')} of sentences left out to stay within its limit")
    line = ", ".join(parts)
    return f":gray[{plain(capitalised(line))}.]" if line else ""


def lost_line(lost: Sequence[str]) -> str:
    """The names, numbers and dates that a version lost, by name."""
    if not lost:
        return ":gray[No name, number or date of the version before is missing.]"
    named = ", ".join(f"~~{plain(short(name, NAMED_CHARACTERS))}~~" for name in lost[:NAMED])
    more = f" and {tokens(len(lost) - NAMED)} more" if len(lost) > NAMED else ""
    return f":red[:material/remove_circle: Lost: {named}{more}]"


def cost_line(messages: int, size: int, model: str | None) -> str:
    """Messages a rewrite would read, and model calls it would make; `model` is None if rules write."""
    what = f"{count(messages, 'message')}, {count(size, 'token')}" if messages else f"its own {count(size, 'token')}"
    if model is None:
        return f"It reads {what}, by rules on this machine: no model is called."
    # A learner reads at most `CALL_TOKENS` tokens in one call; without messages, one call rewrites the text.
    calls = max(1, -(-size // CALL_TOKENS)) if messages else 1
    times = "once" if calls == 1 else f"about {tokens(calls)} times"
    return f"It reads {what}, and calls {plain(short(model, NAMED_CHARACTERS))} {times}."

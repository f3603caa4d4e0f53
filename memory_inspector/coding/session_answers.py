"""Answers about a coding agent's session as plain values, for JSON and sentences. Quotes are masked and shortened."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from memory_core.errors import FormatError, MessageError
from memory_core.tracing.replacements import mask_keys
from memory_core.tracing.values import Verdict
from memory_inspector.coding.coding_session import Branch, Call, CodingSession, Window
from memory_inspector.coding.listing import SessionOverview
from memory_inspector.coding.statement_fates import (
    Occurrence,
    PhraseTrail,
    follow_phrase,
    has_summary,
    lost_statements,
    nearest_said,
)
from memory_inspector.coding.transcript import Boundary, TranscriptItem, quotable

MAX_LOSSES = 50
"""Number of lost statements that are named."""


@dataclass(frozen=True, slots=True)
class PhraseStage:
    """A stage of a phrase's way through a session; all are observed, as no program records what it left out."""

    name: str
    """`said`, `sent`, `compaction`, `again`, `subagents`, `other_branches` or `last_call`."""
    verdict: Verdict
    values: Mapping[str, Any]


def phrase_stages(trail: PhraseTrail) -> Iterator[PhraseStage]:
    """Yield the stages of a phrase in their order, window by window."""
    nowhere: Verdict = "unknown" if trail.deletes and not trail.other_branches else "lost"
    yield PhraseStage("said", "passed" if trail.occurrences else nowhere, _seen(trail.occurrences))
    fates = {compaction.window.number: compaction for compaction in trail.fates}
    calls = [call for call, _ in trail.in_prompt]
    for number in sorted({call.window.number for call in calls} | fates.keys()):
        if compaction := fates.get(number):
            about = _compaction(compaction.window, calls)
            held = compaction.fate in ("kept", "reworded")
            # A summary that cannot be read proves no loss.
            verdict: Verdict = "passed" if held else "lost" if about["readable"] else "unknown"
            near = {
                "nearest": quotable(compaction.quote),
                "shared": compaction.shared,
                "stems": len(trail.wanted.stems),
            }
            yield PhraseStage("compaction", verdict, {**about, "fate": compaction.fate, **near})
            if compaction.again:
                yield PhraseStage("again", "passed", _seen(compaction.again))
        # Within a window a prompt loses only results of tools that are cleared.
        runs = groupby((one for one in trail.in_prompt if one[0].window.number == number), lambda one: one[1])
        if sent := [[call.number for call, _ in run] for has, run in runs if has]:
            yield PhraseStage("sent", "passed", {"calls": [(run[0], run[-1]) for run in sent]})
    elsewhere: Mapping[str, tuple[Verdict, Sequence[tuple[object, Occurrence]]]] = {
        "subagents": ("passed", [(occurrence.item.lane, occurrence) for occurrence in trail.subagents]),
        "other_branches": ("not_reached", trail.other_branches),
    }
    for name, (verdict, seen) in elsewhere.items():
        if seen:
            names = list(dict.fromkeys(str(place) for place, _ in seen))
            yield PhraseStage(name, verdict, {"names": names, **_seen([occurrence for _, occurrence in seen])})
    # What was said after the last call is in the next prompt.
    waits = not calls or bool(trail.occurrences and trail.occurrences[-1].call is None)
    # It may stand in what the program sends and does not write down.
    verdict = "passed" if trail.reached else "waiting" if waits else "lost"
    verdict, lacks = ("unknown", {"lacks": trail.unseen}) if calls and trail.is_unknown else (verdict, {})
    yield PhraseStage("last_call", verdict, {"call": calls[-1].number if calls else None, **lacks})


@dataclass(frozen=True, slots=True)
class FollowedPhrase:
    """A phrase that was followed through the latest branch of a session."""

    overview: SessionOverview
    trail: PhraseTrail
    nearest: tuple[TranscriptItem, str, int] | None
    """If the branch lacks it: the item and sentence that share most stems with it, and their number."""
    gaps: Sequence[str] = ()
    """Sentences on what the session has or goes on from, and that could not be read."""

    def values(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "phrase": quotable(self.trail.wanted.text),
            "session": session_values(self.overview),
            "known": "observed",  # in the sense of a trace: no program reports what it left out
            "in_last_prompt": self.trail.reached,
            "stages": [
                {"stage": stage.name, "verdict": stage.verdict, **stage.values} for stage in phrase_stages(self.trail)
            ],
            "gaps": list(self.gaps),
            "nearest": self.nearest and {**_item(self.nearest[0]), "sentence": quotable(self.nearest[1])},
        }


def follow_in(overview: SessionOverview, phrase: str) -> FollowedPhrase:
    """Follow a phrase through a session of a listing.

    Raises:
        MessageError: the phrase is empty.
        FormatError: the session's file may not be read, or nothing was said in it.
    """
    if not phrase.strip():
        raise MessageError("Type what the agent should have known.")
    session, branch = _opened(overview)
    if session.main.records and not branch.steps:
        raise FormatError(f"{overview.path.name} has nothing that was said: {session.main.records:,} records left out.")
    trail = follow_phrase(session, phrase, branch)
    nearest = None if trail.occurrences else nearest_said(session, trail.wanted, branch)
    return FollowedPhrase(overview, trail, nearest, [*session.gaps, *_unread(session)])


def lost_values(overview: SessionOverview) -> dict[str, Any]:
    """Return the compactions of a session, and the user's statements that are gone since, rules first.

    Raises:
        FormatError: the session's file may not be read.
    """
    session, branch = _opened(overview)
    losses = lost_statements(session, branch)
    named = [
        {"text": quotable(one.text), "rule": one.is_rule, "line": one.item.line, "compaction": window.number}
        for one, window in losses[:MAX_LOSSES]
    ]
    compactions = [_compaction(window, branch.calls) for window in branch.compactions]
    about = {"session": session_values(overview), "known": "observed", "compactions": compactions}
    return {**about, "lost": named, "more": len(losses) - len(named)}


def session_values(overview: SessionOverview) -> dict[str, Any]:
    """Return what a list of sessions shows of one."""
    numbers = {"tokens": overview.tokens, "calls": overview.calls, "compactions": overview.compactions}
    names = {"id": overview.name, "program": overview.program, "project": overview.project}
    return {**names, "title": quotable(overview.title), **numbers, "cost_usd": overview.cost}


def _unread(session: CodingSession) -> Iterator[str]:
    """Yield a sentence on lines that cannot be read: what was said there is in no verdict."""
    if bad := session.main.bad_lines:
        others = f", and {len(bad) - 1:,} more cannot be read" if len(bad) > 1 else ""
        yield f"Line {bad[0].line:,} of its files {bad[0].problem}{others}: what they held is missing here."


def _opened(overview: SessionOverview) -> tuple[CodingSession, Branch]:
    session = CodingSession(overview.path, overview.reader)
    session.follow()
    branches = session.main.branches
    return session, branches[0] if branches else Branch(1, (), (Window(0),))


def _compaction(window: Window, calls: Iterable[Call]) -> dict[str, Any]:
    """Return what is known of a compaction; Codex does not say its tokens, which are those of the call before it."""
    boundary = (window.boundary and window.boundary.boundary) or Boundary()
    before = [call.usage.prompt for call in calls if call.window.number < window.number]
    tokens = boundary.tokens_before or (before[-1] if before else None)
    about = {"number": window.number, "trigger": boundary.trigger, "tokens_before": tokens}
    return {**about, "readable": has_summary(window)}


def _seen(occurrences: Sequence[Occurrence]) -> dict[str, Any]:
    """Return the first item that has a phrase, and the number of others; nothing without any."""
    others = len({(one.item.lane, one.item.file, one.item.line, one.item.part) for one in occurrences}) - 1
    return {**_item(occurrences[0].item), "call": occurrences[0].call, "others": others} if occurrences else {}


def _item(item: TranscriptItem) -> dict[str, Any]:
    # What a subagent takes for its user's words is the task that the agent gave it.
    by = "task" if item.lane and item.kind == "user" else item.kind
    values = {"by": by, "tool": item.tool, "file": mask_keys(item.path), "line": item.line}
    return {key: value for key, value in values.items() if value}

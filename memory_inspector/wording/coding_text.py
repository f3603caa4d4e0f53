"""A phrase's way through a coding agent's session, and a list of sessions, in words. Pure; plain text."""

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise, takewhile
from typing import Any

from memory_core.text import capitalised, listed, printable
from memory_core.tracing.values import MARKS
from memory_inspector.coding.listing import SessionOverview
from memory_inspector.coding.session_answers import FollowedPhrase, PhraseStage, phrase_stages
from memory_inspector.coding.statement_fates import PhraseTrail, UserStatement, has_summary
from memory_inspector.coding.transcript import quotable
from memory_inspector.wording.formatting import count, tokens

OBSERVED = "Observed: texts were compared. No program records what its summary left out."

DELETED = "Not in the file of this session, from which the program deleted what was taken back."

SOURCES = {
    "user": "said by the user",
    "task": "in its task",
    "assistant": "said by the assistant",
    "thinking": "thought by the assistant",
    "tool_call": "written into a call of {tool}",
    "tool_result": "read by {tool}",
    "summary": "in a summary",
    "injected": "added by the program",
}
"""Origin of an item by its kind; `task` is what a subagent was told to do."""

COST = "As the session's file has it, else estimated from list prices; none for models whose price is not known"

TRIGGERS = {"auto": "automatic", "manual": "asked for"}


def followed_text(followed: FollowedPhrase) -> str:
    """Return a followed phrase for a terminal: conclusion, session, a line for each stage, kind of evidence."""
    one, trail, nearest = followed.overview, followed.trail, followed.nearest
    stages = [(MARKS[stage.verdict], stage_name(stage), stage_text(stage)) for stage in phrase_stages(trail)]
    width = max(len(name) for _, name, _ in stages)
    counts = f"{count(one.calls, 'call')}, {count(one.compactions, 'compaction')}"
    place = f"{one.program}, {printable(one.project)}, {quote(one.title)}: {counts}."
    lines = [conclusion(trail), f"{quote(trail.wanted.text)} in {place}", ""]
    lines += [f"  {mark} {name:<{width}}  {text}" for mark, name, text in stages]
    if nearest is not None:
        share = f"{nearest[2]} of {len(trail.wanted.stems)} words"
        lines += ["", f"Nearest sentence, {share}, line {nearest[0].line:,}: {quote(nearest[1])}"]
    return "\n".join([*lines, "", *map(printable, followed.gaps), OBSERVED])


def conclusion(trail: PhraseTrail) -> str:
    """Return in one sentence whether the last prompt has a phrase, or what lost it."""
    if trail.is_unknown:
        return f"Not in the file of this session, which lacks {trail.unseen}."
    if not trail.occurrences and trail.other_branches:
        return "Not in the last prompt: taken back, or said in another branch."
    if not trail.occurrences:
        return DELETED if trail.deletes else "Never said in this branch."
    if trail.reached:
        return "In the last prompt."
    if trail.occurrences[-1].call is None:
        return "Not in the last prompt, but said after it."
    # The first of the compactions since which it is gone; if there is none, a result of a tool was cleared.
    gone = list(takewhile(lambda compaction: compaction.fate in ("gone", "subagent"), reversed(trail.fates)))
    if not gone:
        what = "result" if trail.occurrences[-1].item.kind == "tool_result" else "text"
        return f"Not in the last prompt: the {what} with it was cleared."
    how = "lost" if has_summary(gone[-1].window) else "perhaps lost"
    return f"Not in the last prompt: {how} at compaction {gone[-1].window.number}."


def kept_words(statements: Sequence[UserStatement]) -> str:
    """Return what a compaction did to the user's sentences, the verdict first."""
    total = len(statements)
    lost = [one for one in statements if one.fate in ("gone", "subagent")]
    back = sum(one.fate in ("said_again", "read_again") for one in statements)
    if not total:
        return "You said no sentence of at least three words before it."
    whole = {1: "your only sentence", 2: "both of your sentences"}.get(total, f"all {total:,} of your sentences")
    if lost:
        some = f"{len(lost):,} of your {total:,} sentences"
        verdict = f"Lost: {some if len(lost) < total else whole}"
        if rules := sum(one.is_rule for one in lost):
            verdict += ", a rule" if len(lost) == 1 else f", {rules:,} of them {'a rule' if rules == 1 else 'rules'}"
        verdict += "."
    else:
        verdict = f"Kept: {f'{total - back:,} of your {total:,} sentences' if back else whole}."
    return f"{verdict} {back:,} {'was' if back == 1 else 'were'} left out and came back later." if back else verdict


def stage_name(stage: PhraseStage) -> str:
    """Return a stage's name: `Compaction 2`, `Last call`."""
    number = f" {stage.values['number']}" if stage.name == "compaction" else ""
    return stage.name.replace("_", " ").capitalize() + number


def stage_text(stage: PhraseStage) -> str:
    """Return what happened at a stage as a sentence."""
    values = stage.values
    match stage.name:
        case "sent":
            ranges = (f"calls {a:,} to {b:,}" if a < b else f"call {a:,}" for a, b in values["calls"])
            text = f"With {listed(ranges)}"
        case "compaction":
            text = _compaction(values)
        case "last_call" if values["call"] is None:
            text = "None was made yet"
        case "last_call" if "lacks" in values:
            text = f"The file lacks {values['lacks']}, so call {values['call']:,} may have been sent it"
        case "last_call":
            text = f"Call {values['call']:,} was {'' if stage.verdict == 'passed' else 'not '}sent it"
        case "said" if stage.verdict == "unknown":
            text = "By nobody, as far as the file still has it"
        case _ if not values:
            text = "By nobody in this branch"
        case _:
            names = f"{listed(map(printable, values['names']))}: " if "names" in values else ""
            text = names + _seen(values)
            text = text.removeprefix("said ") if stage.name == "said" else text
    return f"{capitalised(text)}{'' if text.endswith('”') else '.'}"


def sessions_table(sessions: Sequence[SessionOverview], now: float) -> str:
    """Return sessions as a table for a terminal; the first column names a session to other commands."""
    ids = _beginnings({one.name for one in sessions})
    rows = [("id", "", "program", "project", "title", "tokens", "compactions", "cost")]
    for one in sessions:
        title = printable(quotable(one.problem or one.title))[:60]
        cost = ("unknown" if one.tokens else "") if one.cost is None else f"${one.cost:,.2f}"
        live = "live" if one.is_live(now) else ""
        names = printable(ids[one.name]), live, one.program, printable(one.project)[:24], title
        rows.append((*names, tokens(one.tokens), tokens(one.compactions), cost))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    aligned = "<<<<<>>>"  # texts to the left, numbers to the right
    lines = (zip(row, aligned, widths, strict=True) for row in rows)
    return "\n".join("  ".join(f"{cell:{side}{width}}" for cell, side, width in line).rstrip() for line in lines)


def _beginnings(names: Collection[str]) -> dict[str, str]:
    """Return the beginning of each name that no other has, of at least 8 characters: some begin with their time."""
    ordered = ["", *sorted(names), ""]
    pairs = (zip(*two, strict=False) for two in pairwise(ordered))
    shared = [len(list(takewhile(lambda both: both[0] == both[1], pair))) for pair in pairs]
    lengths = [max(8, 1 + max(pair)) for pair in pairwise(shared)]
    return {name: name[:length] for name, length in zip(ordered[1:-1], lengths, strict=True)}


def quote(text: str) -> str:
    """Quote a text on one line, shortened, without keys and without characters that act on a terminal."""
    return f"“{printable(quotable(text))}”"


def _seen(values: Mapping[str, Any]) -> str:
    source = SOURCES[values["by"]].format(tool=printable(values.get("tool", "a tool")))
    file = f" from {printable(values['file'])}" if "file" in values and values["by"] != "tool_call" else ""
    call = f", first sent with call {values['call']:,}" if values["call"] is not None else ""
    others = f", and {count(values['others'], 'time')} more" if values["others"] else ""
    return f"{source}{file}, line {values['line']:,}{call}{others}"


def _compaction(values: Mapping[str, Any]) -> str:
    trigger = printable(TRIGGERS.get(values["trigger"], values["trigger"]))
    before = f"{tokens(values['tokens_before'])} tokens before" if values["tokens_before"] else ""
    near = f": {quote(values['nearest'])}" if values["nearest"] else ""
    if values["fate"] in ("kept", "reworded"):
        fate = values["fate"] + (near if values["fate"] == "reworded" else "")
    elif values["readable"]:
        fate = f"gone; nearest, {values['shared']} of {values['stems']} words{near}" if near else "gone"
    else:
        fate = "its summary cannot be read"
    return f"{', '.join(filter(None, [trigger, before])) or 'compacted'}: {fate}"

"""Probe results for a pull request: a comment in Markdown, and one HTML file with the page of each failure.

Conversations are untrusted: in the comment quoted words are escaped, in the file each page is a document of its own.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from memory_core.history.contexts import context_of
from memory_core.memory import Memory
from memory_core.tracing.exported_page import page_sources, templates
from memory_core.tracing.replacements import mask_keys
from memory_inspector.lab.checking import Checked
from memory_inspector.lab.failure_patterns import Failure
from memory_inspector.lab.probes import EvidenceInPrompt, InPrompt, missing_messages
from memory_inspector.wording.formatting import plain

MAX_CHARACTERS = 60_000
"""Maximum characters of a comment; GitHub accepts 65,536."""


MARKER = "<!-- memory-inspector -->"
"""First line of a comment, by which the GitHub action finds the comment to replace."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Numbers of one probe run, for comparison with another run."""

    held: int
    probes: int
    prompt_tokens: float | None
    """Mean tokens of the prompts; None without a prompt."""
    evidence: tuple[int, int]
    """Number of prompts that had the required evidence, and number of prompts that were required to have it."""


@dataclass(frozen=True, slots=True)
class FileReport:
    """Results of one probe file."""

    name: str
    checked: Checked
    failures: tuple[tuple[Failure, str], ...]
    """Failed probes, each with its cause as plain text; the cause is empty if unknown."""
    before: Totals | None = None
    """Totals under the configuration to compare with."""


def totals(checked: Checked) -> Totals:
    """Measure one probe run."""
    memory = checked.memory
    built = [turn.built for turn in memory.log.history().turns.values() if turn.built is not None]
    sizes = [context_of(record).total for record in built]
    counts = [_evidence(memory, verdict.probe) for verdict in checked.verdicts]
    return Totals(
        held=sum(verdict.held for verdict in checked.verdicts),
        probes=len(checked.verdicts),
        prompt_tokens=mean(sizes) if sizes else None,
        evidence=(sum(count for count, _ in counts), sum(of for _, of in counts)),
    )


def _evidence(memory: Memory, probe: object) -> tuple[int, int]:
    """Return the number of prompts that have the evidence a probe requires, and the number that should have it."""
    if isinstance(probe, EvidenceInPrompt):
        return int(not missing_messages(memory, probe)), 1
    if not isinstance(probe, InPrompt):
        return 0, 0
    last = probe.to_turn or max(memory.log.history().turns, default=0)
    cells = [cell for cell in memory.trace.presence(probe.phrase).turns if probe.from_turn <= cell.turn <= last]
    return sum(cell.state == "prompt" for cell in cells), sum(cell.state != "none" for cell in cells)


def markdown_comment(reports: Sequence[FileReport], *, page_url: str | None = None) -> str:
    """Return the comment on a pull request. `page_url`: address of the HTML file, or of the run that holds it."""
    failed = sum(len(report.failures) for report in reports)
    probes = sum(len(report.checked.verdicts) for report in reports)
    outcome = f"{failed} of {probes} probes fail{'s' * (failed == 1)}" if failed else f"all {probes} probes hold"
    lines = [MARKER, f"### Memory: {outcome}"]
    for report in reports:
        lines += ["", *_file_lines(report)]
    if failed and page_url:
        lines += ["", f"[Prompts and traces of the failures]({page_url})"]
    text = "\n".join(lines) + "\n"
    if len(text) > MAX_CHARACTERS:
        text = text[:MAX_CHARACTERS].rsplit("\n", 1)[0] + "\n\nThe rest is in the report.\n"
    return text


def _file_lines(report: FileReport) -> list[str]:
    checked, now = report.checked, totals(report.checked)
    lines = [f"**{_literal(report.name)}**, {_literal(checked.variant.name)}, {checked.turns:,} turns", ""]
    lines += ["| | probe | first bad turn | cause |", "|---|---|--:|---|"]
    causes = {failure.verdict.probe: cause for failure, cause in report.failures}
    for verdict in checked.verdicts:
        turn = "" if verdict.turn is None else f"{verdict.turn:,}"
        mark = "✅" if verdict.held else "❌"
        lines.append(
            f"| {mark} | {_literal(str(verdict.probe))} | {turn} | {_literal(causes.get(verdict.probe, ''))} |"
        )
    for failure, _ in report.failures:
        lines += ["", f"> {_literal(str(failure.verdict.probe))}  ", f"> {_literal(failure.verdict.why)}"]
        if failure.remedy:
            lines.append(f">  \n> {_literal(failure.remedy)}")
    before = report.before
    columns = [_sizes(now)] if before is None else [_sizes(before), _sizes(now)]
    lines += ["", f"| {'| before ' * (before is not None)}| now |", f"|---|{'--:|' * len(columns)}"]
    for number, name in enumerate(("probes that hold", "tokens of a prompt, mean", "prompts with their evidence")):
        lines.append(f"| {name} | {' | '.join(column[number] for column in columns)} |")
    return [*lines, *(f"- {_literal(sentence)}" for sentence in checked.unknown)]


def _literal(text: str) -> str:
    """Return Markdown that shows a text literally on GitHub, where `@name`, `#1`, `GH-1` and hashes of commits would
    notify and link."""
    linked = r"[@#](?=\w)|\bGH(?=\\?-\d)"
    shielded = re.sub(linked, "\\g<0>\N{WORD JOINER}", plain(text), flags=re.IGNORECASE)
    # Six digits are no hash yet.
    hashes = re.compile(r"\b[0-9a-f]{7,40}\b", re.IGNORECASE)
    return hashes.sub(lambda match: re.sub(".{6}", "\\g<0>\N{WORD JOINER}", match[0]), shielded)


def _sizes(run: Totals) -> tuple[str, str, str]:
    """Return a run's numbers as texts, in the order of the table's rows."""
    tokens = "" if run.prompt_tokens is None else f"{run.prompt_tokens:,.0f}"
    return f"{run.held} of {run.probes}", tokens, f"{run.evidence[0]:,} of {run.evidence[1]:,}"


def html_report(failures: Sequence[Sequence[str]]) -> str:
    """Return one HTML file with the page of each failure. A failure: test or file, explanation, and page as HTML."""
    # The page is masked already.
    shown = [(mask_keys(name), mask_keys(explanation).splitlines(), page) for name, explanation, page in failures]
    return (
        templates("memory_inspector.wording").get_template("check_report.html").render(failures=shown, **page_sources())
    )

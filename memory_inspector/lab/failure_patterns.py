"""Compare the probes that fail with those that hold: block, speaker, age, length, session, recipe.

Each property of a case is compared with all other cases by Fisher's exact test, and the strongest are listed first. The
list shows where to look; it proves no cause.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import comb

from memory_core.errors import MemoryInspectorError
from memory_core.events import Ref
from memory_core.memory import Memory
from memory_core.messages import message_text
from memory_core.text import printable
from memory_core.tracing.values import Trace
from memory_inspector.lab.probes import BlockTokens, EvidenceInPrompt, FactCites, Probe, Verdict

AGES, LENGTHS = (0, 5, 20, 100), (0, 20, 60, 200)
"""Lower bounds, exclusive, of the ranges of an age in turns and of a length in tokens; the last range is open."""

MIN_CASES = 3
"""Minimum cases that share a property, for it to be listed."""


@dataclass(frozen=True, slots=True)
class Case:
    """A probe with its outcome and its properties."""

    failed: bool
    properties: Mapping[str, str]
    """Value by property: `probe`, `block`, `speaker`, `age`, `length`, `session`, `recipe`; without unknown ones."""
    rule: str | None = None
    """Rule that lost what a failed probe asks for; None if it holds, or nothing was traced."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """Failures among the cases with one property, and among all others."""

    name: str
    value: str
    failed: int
    cases: int
    others_failed: int
    others: int
    p: float
    """p-value of Fisher's exact test, two-sided, times the number of properties compared; at most 1."""

    @property
    def difference(self) -> float:
        """Failure rate of these cases minus that of the others, -1 to 1."""
        return self.failed / self.cases - self.others_failed / self.others


@dataclass(frozen=True, slots=True)
class Patterns:
    """Comparison of failed and held probes."""

    cases: int
    failed: int
    patterns: tuple[Pattern, ...]
    """Most telling first."""
    rules: tuple[tuple[str, int], ...]
    """Rules by which failed probes lost what they ask for, with their number; most frequent first."""

    def table(self) -> str:
        """Format as text for a terminal."""
        lines = [f"{self.failed:,} of {self.cases:,} probes fail."]
        if self.patterns:
            names = [printable(f"{pattern.name}: {pattern.value}") for pattern in self.patterns]
            width = max(map(len, names))
            lines.append(f"{'':<{width}}     fails  of others       p")
            for name, pattern in zip(names, self.patterns, strict=True):
                rates = (
                    f"{pattern.failed:>4} of {pattern.cases:<4}",
                    f"{pattern.others_failed:>4} of {pattern.others:<4}",
                )
                lines.append(f"{name:<{width}}  {'  '.join(rates)}  {pattern.p:.3f}")
        if self.rules:
            lines.append("Lost by: " + ", ".join(f"{printable(rule)} ({number})" for rule, number in self.rules))
        return "\n".join(lines)


def compare(cases: Sequence[Case]) -> Patterns:
    """Compare failed with held cases; 500 cases take some milliseconds."""
    failed = sum(case.failed for case in cases)
    shared = Counter(item for case in cases for item in case.properties.items())
    lost = Counter(item for case in cases if case.failed for item in case.properties.items())
    # A property that all cases share distinguishes nothing.
    compared = [(item, count) for item, count in shared.items() if MIN_CASES <= count < len(cases)]
    tests = [(fisher(lost[item], count, failed, len(cases)), item, count) for item, count in compared]
    # Sorted before the correction, after which many are 1. Bonferroni's: of many properties, some differ by chance.
    patterns = [
        Pattern(*item, lost[item], count, failed - lost[item], len(cases) - count, min(1.0, p * len(compared)))
        for p, item, count in sorted(tests)
    ]
    rules = Counter(case.rule for case in cases if case.failed and case.rule)
    return Patterns(len(cases), failed, tuple(patterns), tuple(rules.most_common()))


def cases_of(memory: Memory, verdicts: Iterable[Verdict], *, session: str = "") -> list[Case]:
    """Return a session's probes as cases, with one trace for each. `session`: name to tell several sessions apart."""
    cases = []
    for verdict in verdicts:
        trace = _trace(memory, verdict.probe)
        more = {"probe": str(verdict.probe.expect)}
        if isinstance(verdict.probe, BlockTokens):
            more["block"] = verdict.probe.block
        cases.append(case_of(memory, trace, failed=not verdict.held, session=session, more=more))
    return cases


def case_of(
    memory: Memory, trace: Trace | None, *, failed: bool, session: str = "", more: Mapping[str, str] | None = None
) -> Case:
    """Return an outcome with the properties of a trace, and `more`."""
    properties = {"recipe": memory.session.config.recipe or "custom", **_properties(trace, memory), **(more or {})}
    if session:
        properties["session"] = session
    return Case(failed, properties, _rule(trace) if failed else None)


def fisher(hits: int, drawn: int, marked: int, total: int) -> float:
    """Return the two-sided p-value of `hits` marked among `drawn`, of `marked` among `total`.

    >>> round(fisher(3, 4, 3, 8), 4)
    0.1429
    """
    low, high = max(0, drawn + marked - total), min(drawn, marked)
    weights = [comb(marked, k) * comb(total - marked, drawn - k) for k in range(low, high + 1)]
    return sum(weight for weight in weights if weight <= weights[hits - low]) / comb(total, drawn)


def _trace(memory: Memory, probe: Probe) -> Trace | None:
    """Trace what a probe asks for to the last prompt that it is about; None if there is nothing to trace."""
    turns = [number for number, turn in memory.log.history().turns.items() if turn.built is not None]
    match probe:
        case BlockTokens():
            return None
        case EvidenceInPrompt(turn=turn, messages=messages):
            target: str | Ref = Ref.of("message", messages[0])
        case FactCites(message=message):
            turn, target = max(turns, default=0), Ref.of("message", message)
        case asked:
            # The same turn for those that fail and those that hold, or their ages could not be compared.
            turn, target = min(asked.to_turn or max(turns, default=0), max(turns, default=0)), asked.phrase
    try:
        return memory.trace(target, turn=turn)
    except MemoryInspectorError:  # no such message or turn in this conversation
        return None


def _properties(trace: Trace | None, memory: Memory) -> dict[str, str]:
    properties: dict[str, str] = {}
    if trace is None:
        return properties
    if trace.tracks:
        properties["block"] = trace.tracks[0].carrier.block or "queue"
    if trace.said:
        first = min(trace.said, key=lambda message: message.seq)
        texts = [
            message_text(stored.message) for stored in memory.session.messages(after=first.seq - 1, upto=first.seq)
        ]
        properties["speaker"] = first.role
        properties["age"] = f"{_range(trace.turn - first.turn, AGES)} turns"
        properties["length"] = f"{_range(memory.session.count_tokens(' '.join(texts)), LENGTHS)} tokens"
    return properties


def _rule(trace: Trace | None) -> str | None:
    if trace is not None and not trace.tracks:
        return "never_said"
    stage = trace.decisive if trace is not None else None
    return (stage.rule or stage.name) if stage is not None else None


def _range(number: int, bounds: Iterable[int]) -> str:
    """Name the range that a number is in.

    >>> [_range(n, (0, 5, 20)) for n in (0, 5, 6, 21)]
    ['up to 5', 'up to 5', '6 to 20', 'over 20']
    """
    edges = list(bounds)
    for low, high in pairwise(edges):
        if number <= high:
            return f"up to {high}" if low == 0 else f"{low + 1} to {high}"
    return f"over {edges[-1]}"

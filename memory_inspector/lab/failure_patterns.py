"""Compare the probes that fail with those that hold: block, speaker, age, length, session, recipe.

Each property of a case is compared with all other cases by Fisher's exact test, and the strongest are listed first. The
list shows where to look; it proves no cause.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from math import comb

from memory_core.errors import ConfigError, MemoryInspectorError
from memory_core.events import Ref
from memory_core.memory import Memory
from memory_core.messages import message_text
from memory_core.services import Services
from memory_core.text import printable
from memory_core.tracing.exported_page import Page
from memory_core.tracing.fixes import Fix
from memory_core.tracing.values import Trace
from memory_inspector.lab.bisecting import first_bad_turn, responsible_changes, smallest_limit
from memory_inspector.lab.checking import Checked, check_variant
from memory_inspector.lab.playing import Player
from memory_inspector.lab.probes import (
    BlockTokens,
    EvidenceInPrompt,
    FactCites,
    InPrompt,
    NeverInPrompt,
    Probe,
    Verdict,
    missing_messages,
)
from memory_inspector.lab.script import Script, script_of
from memory_inspector.lab.variants import Variant, VariantChange, block_values, variant_of

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
            lines.append(printable(self.lost_by))
        return "\n".join(lines)

    @property
    def lost_by(self) -> str:
        """`Lost by: below threshold (3), dropped (1)`."""
        return "Lost by: " + ", ".join(f"{rule.replace('_', ' ')} ({number:,})" for rule, number in self.rules)


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


# -- explain failed probes ------------------------------------------------------------------------


TURNS_AROUND = 5
"""Number of turns that a failure's page shows before and after the failure."""

MAX_REPLAYED_TURNS = 200
"""Maximum turns of a conversation that is replayed to find a change that mends a failure."""

LIMIT_FACTORS = (2, 4, 8)
"""Multiples of the token limit to try."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed probe with its explanation. All texts are plain; they may quote the conversation."""

    verdict: Verdict
    remedy: str
    """Sentence that names the smallest change known to mend it; empty if none is known."""

    def __str__(self) -> str:
        return "\n".join(map(printable, filter(None, (_statement(self.verdict), self.verdict.why, self.remedy))))


def _statement(verdict: Verdict) -> str:
    """Return what is wrong, as a sentence."""
    at = f" of turn {verdict.turn}" if verdict.turn is not None else ""
    match verdict.probe:
        case InPrompt(phrase=phrase):
            return f"“{phrase}” is not in the prompt{at}."
        case NeverInPrompt(phrase=phrase):
            return f"“{phrase}” is in the prompt{at}."
        case BlockTokens(block=block, at_least=least):
            return f"{block} has fewer than {least:,} tokens in the prompt{at}."
        case EvidenceInPrompt():
            return f"Some of messages {', '.join(map(str, verdict.probe.messages))} are not in the prompt{at}."
        case FactCites(message=message):
            return f"No fact cites message {message}."


def explain_failure(memory: Memory, verdict: Verdict, *, player: Player | None = None) -> Failure:
    """Explain a failed verdict on a session; changes nothing.

    The remedy is a change of settings under which the probe holds when the conversation is replayed by `player`
    (default: one with the local models). If none is found, it is a change that brings what is missing into the next
    prompt.
    """
    target, fixes = _target(memory, verdict), tuple[Fix, ...]()
    if target is not None and not isinstance(verdict.probe, NeverInPrompt):
        # Not found if it was erased or is of another session: the verdict's own sentence says so.
        with suppress(MemoryInspectorError):
            fixes = memory.trace.fixes(memory.trace(target, turn=verdict.turn)).offered
    mending = next(_mending_changes(memory, verdict.probe, fixes, player), None)
    if mending is not None:
        return Failure(verdict, f"Smallest change that mends it: {'; '.join(change.words for change in mending)}.")
    return Failure(verdict, f"It is in the next prompt after this change: {fixes[0].label}." if fixes else "")


def _mending_changes(
    memory: Memory, probe: Probe, fixes: Sequence[Fix], player: Player | None
) -> Iterator[tuple[VariantChange, ...]]:
    """Yield changes under which a probe holds in a replay: settings of these fixes, a block enabled, a larger limit."""
    script, variant = script_of(memory), variant_of(memory)
    if script.turns > MAX_REPLAYED_TURNS or isinstance(probe, NeverInPrompt):
        return
    player = player or Player(Services())
    blocks = {block.name: block_values(block) for block in variant.blocks}

    def holds(changes: Sequence[VariantChange]) -> bool:
        try:
            checked = check_variant(player, script, variant.with_changes(variant.name, changes), [probe])
        except ConfigError:  # a change may be invalid beside the other settings
            return False
        checked.memory.session.database.close()
        return checked.passed

    # A fix of facts or texts is no change of settings, and a limit is searched for below.
    candidates = [
        tuple(
            VariantChange(f"{fix.block}.{name}", blocks[fix.block].get(name), value)
            for name, value in fix.settings.items()
        )
        for fix in fixes
        if fix.block in blocks and fix.settings
    ]
    candidates += [
        (VariantChange(f"{name}.enabled", False, True),) for name, values in blocks.items() if not values["enabled"]
    ]
    yield from filter(holds, candidates)
    limit = variant.config.token_limit
    for factor in LIMIT_FACTORS:
        larger = variant.changed(variant.name, token_limit=limit * factor)
        if (enough := smallest_limit(player, script, larger, [probe])) is not None:
            yield (VariantChange("token_limit", limit, enough),)
            return


def failure_page(memory: Memory, verdict: Verdict) -> Page:
    """Return a page of the turns around a failure, with a trace of what is missing in each.

    Raises:
        NotFoundError: Nothing was said in the session.
    """
    turns = sorted(memory.log.history().turns)
    turn = verdict.turn if verdict.turn is not None else turns[-1] if turns else 0
    shown = [number for number in turns if abs(number - turn) <= TURNS_AROUND]
    return memory.trace.page(_target(memory, verdict), turns=shown, start=turn)


def cause(player: Player, script: Script, before: Variant | None, checked: Checked, probe: Probe) -> str:
    """Return what bisection names as the cause of a failure, as plain text; empty if it finds none.

    With `before`, an earlier configuration under which the probe holds, the cause is the settings that changed
    since; otherwise it is the first bad turn, with the event that decided.
    """
    if before is not None:
        # No setting changed the outcome if it failed under the earlier configuration too.
        with suppress(ConfigError):
            minimal = responsible_changes(player, script, before, checked.variant, probe)
            return "; ".join(change.words for change in minimal.changes)
    try:
        bad = first_bad_turn(checked.memory, probe)
    except ConfigError:  # it never held, or is about a single turn
        return ""
    event = f": {bad.event.kind.replace('_', ' ')} in turn {bad.event.turn}" if bad.event is not None else ""
    return f"turn {bad.turn}{event}"


def _target(memory: Memory, verdict: Verdict) -> str | Ref | None:
    """Return what a failure's trace follows; None if the probe is not about missing information."""
    match verdict.probe:
        case InPrompt(phrase=phrase):
            return phrase
        case EvidenceInPrompt() as probe:
            missing = missing_messages(memory, probe)
            return Ref.of("message", missing[0]) if missing else None
        case FactCites(message=message):
            return Ref.of("message", message)
        case BlockTokens():
            return None
        case NeverInPrompt(phrase=phrase):
            return phrase

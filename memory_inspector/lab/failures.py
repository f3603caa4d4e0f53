"""Explain failed probes: the rule that decided, the smallest change that would mend it, and what broke it."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from memory_core.errors import ConfigError, MemoryInspectorError
from memory_core.events import Ref
from memory_core.memory import Memory
from memory_core.services import Services
from memory_core.text import printable
from memory_core.tracing.fixes import Fix
from memory_core.tracing.showing.page import Page
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

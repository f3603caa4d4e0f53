"""Bisection: the first bad turn, the setting responsible, the smallest limit, each in logarithmically many steps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from memory_core.errors import ConfigError
from memory_core.events import EventRecord
from memory_core.history.contexts import is_context
from memory_core.memory import Memory
from memory_inspector.lab.playing import Player
from memory_inspector.lab.probes import EvidenceInPrompt, FactCites, Probe, Verdict, evaluate, failure_in
from memory_inspector.lab.script import Script
from memory_inspector.lab.variants import Variant, VariantChange, differences


@dataclass(frozen=True, slots=True)
class BadTurn:
    """The turn where a probe begins to fail."""

    probe: Probe
    turn: int
    why: str
    """Sentence that names the rule by which the probe fails, with its numbers."""
    event: EventRecord | None
    """The deciding event; None if it is not recorded."""
    looks: int
    """Number of prompts examined."""


@dataclass(frozen=True, slots=True)
class BadChange:
    """The configuration change that makes a probe fail."""

    changes: tuple[VariantChange, ...]
    """Minimal set of changes that fail together; nearly always one."""
    verdict: Verdict
    """The probe's verdict if only these changes are made."""
    plays: int
    """Number of times the conversation was replayed."""


def first_bad_turn(memory: Memory, probe: Probe, *, good: int | None = None, bad: int | None = None) -> BadTurn:
    """Return the turn from which a probe fails, between a good and a bad turn.

    `good` defaults to the probe's first turn, `bad` to the last. If the verdict flips several times, any flip to
    failing may be returned, as with every bisection.

    Raises:
        ConfigError: The probe fails in the good turn, holds in the bad one, or covers a single turn.
    """
    # Such probes concern one turn, or the end: they have no first bad turn.
    if isinstance(probe, EvidenceInPrompt | FactCites):
        raise ConfigError("only what is to hold from a turn on can be bisected over the turns")
    turns = [number for number, turn in sorted(memory.log.history().turns.items()) if turn.built is not None]
    turns = [turn for turn in turns if (good or probe.from_turn) <= turn <= (bad or turn)]
    if len(turns) < 2:
        raise ConfigError("there are not two prompts between these turns")
    looks = 0

    def holds(place: int) -> bool:
        nonlocal looks
        looks += 1
        return failure_in(memory, probe, turns[place]) is None

    # Both ends are checked first: halving keeps a good and a bad end, and would return nonsense without them.
    if not holds(0):
        raise ConfigError(f"{probe} does not hold in turn {turns[0]} yet: begin at a turn in which it does")
    if holds(len(turns) - 1):
        raise ConfigError(f"{probe} holds in turn {turns[-1]}, too: there is nothing to find")
    low, high = 0, len(turns) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    turn = turns[high]
    return BadTurn(probe, turn, failure_in(memory, probe, turn) or "", _decided(memory, probe, turns[low], turn), looks)


def _decided(memory: Memory, probe: Probe, good: int, turn: int) -> EventRecord | None:
    """Return the event that made the probe fail; instead of a prompt, a person's last change since the good turn."""
    history, phrase = memory.log.history(), getattr(probe, "phrase", None)
    # The decision may precede the turn by far: the event that removed the phrase, not the prompt that lacks it.
    stage = memory.trace(phrase, turn=turn).decisive if phrase is not None else None
    decision = history.upto(stage.position)[-1] if stage is not None and stage.position is not None else None
    if decision is not None and not is_context(decision.event):
        return decision
    # A prompt only applies settings and contents; what a person changed since the good turn explains it better.
    before, built = history.turns[good].built, history.turns[turn].built
    if before is None or built is None:
        return decision
    since = [record for record in history.after(before.position) if record.position < built.position]
    changed = [record for record in since if record.actor == "user"]
    return next((record for record in reversed(changed) if record.event.family not in ("messages", "calls")), decision)


def responsible_changes(
    player: Player,
    script: Script,
    good: Variant,
    bad: Variant,
    probe: Probe,
    *,
    progress: Callable[[int], object] = lambda plays: None,
) -> BadChange:
    """Return a minimal set of changes from `good` to `bad` that, applied to `good`, makes a probe fail.

    `progress` receives the number of replays so far.

    Raises:
        ConfigError: The probe fails under the good configuration, or holds under the bad one.
    """
    plays = 0
    failing: dict[tuple[VariantChange, ...], Verdict] = {}

    def fails(changes: Sequence[VariantChange]) -> bool:
        nonlocal plays
        # Minimisation asks about some sets again. Only failing ones are kept, as they are what is returned.
        if tuple(changes) in failing:
            return True
        try:
            variant = good.with_changes(good.name, changes)
        except ConfigError:  # a subset of the changes may be invalid; it then does not count as failing
            return False
        plays += 1
        played = player.play(script, variant)
        assert played is not None  # never None: it cannot be cancelled
        (verdict,) = evaluate(played.memory, [probe])
        played.close()
        progress(plays)
        if not verdict.held:
            failing[tuple(changes)] = verdict
        return not verdict.held

    changes = differences(good, bad)
    if fails(()):
        raise ConfigError(f"{probe} does not hold under {good.name} either: there is nothing to bisect")
    if not fails(changes):
        raise ConfigError(f"{probe} holds under {bad.name}, too: there is nothing to bisect")
    least = _least(list(changes), fails)
    return BadChange(tuple(least), failing[tuple(least)], plays)


def smallest_limit(
    player: Player,
    script: Script,
    variant: Variant,
    probes: Sequence[Probe],
    *,
    progress: Callable[[str], object] = lambda line: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> int | None:
    """Return the smallest token limit at which all probes hold, by bisection below the variant's own limit.

    It is assumed that probes that hold at a limit hold at larger ones, too. A flush size above a limit is lowered to
    the limit. None if the probes fail at the variant's own limit, or once `cancelled`.
    """

    def holds(limit: int) -> bool:
        progress(f"A limit of {limit:,} tokens")
        knobs = {"token_limit": limit}
        # A flush size above the limit is invalid.
        if (variant.config.token_flush_size or 0) > limit:
            knobs["token_flush_size"] = limit
        played = player.play(script, variant.changed(variant.name, **knobs), cancelled=cancelled)
        if played is None:
            return False
        verdicts = evaluate(played.memory, probes)
        played.close()
        return all(verdict.held for verdict in verdicts)

    # Fails at `low`, holds at `high`: 0 is no valid limit, so it counts as failing without a replay.
    low, high = 0, variant.config.token_limit
    if not holds(high):
        return None
    while high - low > 1 and not cancelled():
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return None if cancelled() else high


def _least(changes: list[VariantChange], fails: Callable[[Sequence[VariantChange]], bool]) -> list[VariantChange]:
    """Minimise the failing set of changes by delta debugging (Zeller's ddmin); log₂ steps if a single change is
    responsible."""
    pieces = 2
    while len(changes) > 1:
        # Rounded up, so that there are never more parts than pieces.
        size = -(-len(changes) // pieces)
        parts = [changes[start : start + size] for start in range(0, len(changes), size)]
        # Smaller parts first: a single part that fails shrinks the set most.
        part = next((part for part in parts if fails(part)), None)
        if part is not None:
            changes, pieces = part, 2
            continue
        # With two parts, the rest of one is the other, which was just tried.
        rest = [[change for change in changes if change not in part] for part in parts] if pieces > 2 else []
        subset = next((subset for subset in rest if fails(subset)), None)
        if subset is not None:
            changes, pieces = subset, pieces - 1
        # Each change was tried alone and left out alone: the set cannot lose any single one.
        elif pieces >= len(changes):
            break
        else:
            pieces = min(len(changes), pieces * 2)
    return changes

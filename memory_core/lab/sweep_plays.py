"""Cells of a sweep played by the engine, one after another: what a plan could not know, a play tells."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from memory_core.errors import ConfigError
from memory_core.lab.comparing import outcome_of, stable_share
from memory_core.lab.playing import Player
from memory_core.lab.probes import Probe, evaluate
from memory_core.lab.script import Script
from memory_core.lab.sweeping import Cell, Measure, Range
from memory_core.lab.variants import Variant
from memory_core.memory import Memory


def play_cells(
    player: Player,
    script: Script,
    variant: Variant,
    cells: Iterable[Cell],
    *,
    phrases: Sequence[str] = (),
    probes: Sequence[Probe] = (),
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[Cell]:
    """Each cell as a play of it came out; ends early once `cancelled`.

    `variant` is the configuration that was swept, `phrases` are what is watched. Only one played memory is held at a
    time. A cell that turns out to be impossible says so.
    """
    for cell in cells:
        try:
            played = player.play(script, variant.with_changes(variant.name, cell.changes), cancelled=cancelled)
        except ConfigError as error:
            yield Cell(cell.x, cell.y, cell.changes, {}, str(error))
            continue
        if played is None:
            return
        try:
            measures = _measured(played.memory, phrases, probes)
        finally:
            played.close()
        yield Cell(cell.x, cell.y, cell.changes, measures, played=True)


def _measured(memory: Memory, phrases: Sequence[str], probes: Sequence[Probe]) -> dict[Measure, Range | None]:
    outcome, last = outcome_of(memory), memory.log.history().latest_turn
    found: dict[Measure, float | None] = {
        "watched": sum(memory.trace(phrase, turn=last).reached for phrase in phrases) if phrases else None,
        "probes": sum(verdict.held for verdict in evaluate(memory, probes)) if probes else None,
        "sent": outcome.average,
        "cut": sum(turn.cut for turn in outcome.turns),
        "flushes": outcome.flushes,
        "calls": outcome.calls,
        "stable": stable_share(memory),
    }
    return {measure: None if value is None else Range(value, value) for measure, value in found.items()}

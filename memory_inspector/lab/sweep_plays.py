"""Replay cells of a sweep with the engine, to determine what planning could not."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from memory_core.errors import ConfigError
from memory_core.history.cost import PROMPT_TOKENS
from memory_core.memory import Memory
from memory_inspector.lab.comparing import outcome_of, stable_share
from memory_inspector.lab.playing import Player
from memory_inspector.lab.probes import EvidenceInPrompt, Probe, evaluate
from memory_inspector.lab.questions import Question, evidence_found
from memory_inspector.lab.script import Script
from memory_inspector.lab.sweeping import Cell, Measure, Range
from memory_inspector.lab.variants import Variant


def play_cells(
    player: Player,
    script: Script,
    variant: Variant,
    cells: Iterable[Cell],
    *,
    phrases: Sequence[str] = (),
    probes: Sequence[Probe] = (),
    questions: Sequence[Question] = (),
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[Cell]:
    """Yield each cell with replayed measures; ends early once `cancelled`.

    `variant` is the swept configuration, `phrases` are the watched items. One replayed memory is held at a time.
    Invalid cells get a `problem`.
    """
    for cell in cells:
        try:
            played = player.play(script, variant.with_changes(variant.name, cell.changes), cancelled=cancelled)
        except ConfigError as error:
            # One invalid pair of values must not end the sweep of the others.
            yield Cell(cell.x, cell.y, cell.changes, {}, str(error))
            continue
        if played is None:
            return
        try:
            measures = _measured(played.memory, phrases, probes, questions)
        # Closed before the next one is played, as an in-memory database lives until then.
        finally:
            played.close()
        yield Cell(cell.x, cell.y, cell.changes, measures, played=True)


def _measured(
    memory: Memory, phrases: Sequence[str], probes: Sequence[Probe], questions: Sequence[Question]
) -> dict[Measure, Range | None]:
    outcome, last, verdicts = outcome_of(memory), memory.log.history().latest_turn, evaluate(memory, probes)
    values: dict[Measure, float | None] = {
        "watched": sum(memory.trace(phrase, turn=last).reached for phrase in phrases) if phrases else None,
        "probes": sum(verdict.held for verdict in verdicts) if probes else None,
        "sent": outcome.average,
        "cut": sum(turn.cut for turn in outcome.turns),
        "flushes": outcome.flushes,
        "calls": outcome.calls,
        # As instructions accompany every learning call, they are added to what it reads.
        "read": sum(turn.sent for turn in outcome.turns) + outcome.call_tokens + outcome.calls * PROMPT_TOKENS,
        "stable": stable_share(memory),
        "recall": _recall(memory, probes, questions),  # last, as its questions add prompts to the log
    }
    return {measure: None if value is None else Range(value, value) for measure, value in values.items()}


def _recall(memory: Memory, probes: Sequence[Probe], questions: Sequence[Question]) -> float | None:
    evidence = [(seq, probe.turn) for probe in probes if isinstance(probe, EvidenceInPrompt) for seq in probe.messages]
    total = len(evidence) + len(questions)
    if not total:
        return None
    # One probe for each message: recall counts single messages, while a probe holds only with all of its messages.
    asked = [EvidenceInPrompt(turn=turn, messages=(seq,)) for seq, turn in evidence]
    holding = sum(verdict.held for verdict in evaluate(memory, asked))
    return (holding + evidence_found(memory, questions)) / total

"""Sweep two settings over a conversation: plan each pair of values and find the Pareto front. Pure.

Nothing is replayed: measures that a plan cannot determine are ranges (`play_cells` replays them).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from memory_core.errors import ConfigError
from memory_core.events import EventRecord, Ref
from memory_core.history.contexts import is_call
from memory_core.memory import Memory
from memory_inspector.lab.comparing import average, outcome_of, stable_share
from memory_inspector.lab.playing import Player
from memory_inspector.lab.probes import (
    BlockTokens,
    EvidenceInPrompt,
    InPrompt,
    NeverInPrompt,
    Probe,
    Question,
    evaluate,
    evidence_found,
)
from memory_inspector.lab.replanning import PlannedState, Replanned, Replanner
from memory_inspector.lab.script import Script
from memory_inspector.lab.sizes import PROMPT_TOKENS
from memory_inspector.lab.variants import Variant, VariantChange, agents_may_edit

MAX_CELLS = 2_500
"""Maximum cells in a sweep."""

Measure = Literal["watched", "probes", "recall", "sent", "cut", "flushes", "calls", "read", "cost", "stable"]
"""Measures, in this order: watched items in the last prompt; passing probes; share (0 to 1) of evidence in prompts;
average prompt tokens; tokens cut; flushes; learning calls; tokens read by models, prompts and learning; cost of these
in US dollars (`Sweep.priced`); share (0 to 1) of billed tokens in a prefix shared with the previous prompt."""

BETTER_HIGH: frozenset[Measure] = frozenset({"watched", "probes", "recall", "stable"})
"""Measures where larger is better."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A setting and its values."""

    setting: str
    """Name of the setting, as in `VariantChange.setting`."""
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Range:
    """Bounds of a measure's value; equal if the value is known."""

    low: float
    high: float

    @property
    def exact(self) -> bool:
        return self.low == self.high


@dataclass(frozen=True, slots=True)
class Cell:
    """Configuration of a sweep; `x` and `y` are the indexes of its values on the axes."""

    x: int
    y: int
    changes: tuple[VariantChange, ...]
    """Changes to the swept configuration."""
    measures: dict[Measure, Range | None]
    """Bounds by measure; None if no bounds are known."""
    problem: str | None = None
    """Reason why the configuration is invalid; None if it is valid."""
    played: bool = False
    """True if the configuration was replayed, so that all measures are final."""

    def value(self, measure: Measure) -> Range | None:
        """Return a measure's exact value; None if it is unknown or a range."""
        bounds = self.measures.get(measure)
        return bounds if bounds is not None and bounds.exact else None


@dataclass(frozen=True, slots=True)
class Sweep:
    """All pairs of two settings' values."""

    x: Axis
    y: Axis
    cells: tuple[Cell, ...]

    def unknown(self, measure: Measure) -> tuple[Cell, ...]:
        """Return the cells that need a replay for this measure."""
        return tuple(c for c in self.cells if c.problem is None and not c.played and c.value(measure) is None)

    def with_cell(self, cell: Cell) -> "Sweep":
        """Return a copy with one cell replaced."""
        return replace(self, cells=tuple(cell if (c.x, c.y) == (cell.x, cell.y) else c for c in self.cells))

    def nearest_first(self, cells: Iterable[Cell], x: float, y: float) -> list[Cell]:
        """Return cells by distance, in steps, from a pair of values."""
        column = min(range(len(self.x.values)), key=lambda n: abs(self.x.values[n] - x))
        row = min(range(len(self.y.values)), key=lambda n: abs(self.y.values[n] - y))
        return sorted(cells, key=lambda cell: abs(cell.x - column) + abs(cell.y - row))

    def priced(self, dollars: float) -> "Sweep":
        """Return a copy with costs, given US dollars per million input tokens."""

        def cost(bounds: Range | None) -> Range | None:
            return bounds and Range(bounds.low * dollars / 1_000_000, bounds.high * dollars / 1_000_000)

        cells = (replace(c, measures={**c.measures, "cost": cost(c.measures.get("read"))}) for c in self.cells)
        return replace(self, cells=tuple(cells))

    def front(self, measure: Measure) -> tuple[Cell, ...]:
        """Return the Pareto front of prompt tokens and a measure, fewest tokens first; its last cell is the best.

        Empty for `sent` itself: a prompt is no better for being short. Cells with unknown values are ignored.
        """
        if measure == "sent":
            return ()
        rated = [(cell, sent.low, good) for cell in self.cells if (sent := cell.value("sent")) is not None
                 and (good := _goodness(cell, measure)) is not None]  # fmt: skip
        front: list[Cell] = []
        best = float("-inf")
        # Sorted by fewest tokens, then best value, so that a cell is on the front only if it beats all cheaper ones.
        for cell, _, good in sorted(rated, key=lambda pair: (pair[1], -pair[2], pair[0].y, pair[0].x)):
            if good > best:
                front.append(cell)
                best = good
        return tuple(front)


def values_around(value: float, step: float, least: float, most: float, count: int = 4) -> tuple[float, ...]:
    """Return `count` values a `step` apart, fewer within narrow bounds: `value`, one below it, the rest above.

    >>> values_around(1200, 600, 50, 100_000), values_around(0.9, 0.15, 0.05, 1.0), values_around(0, 1, 0, 5)
    ((600, 1200, 1800, 2400), (0.45, 0.6, 0.75, 0.9), (0, 1, 2, 3))
    """
    # The small addition keeps steps that fit exactly from being lost to rounding of binary fractions.
    below, above = (int(room / step + 1e-9) for room in (value - least, most - value))
    # One value below if there is room; more only where too few fit above.
    first = min(below, max(1, count - 1 - above))
    last = min(above, count - 1 - first)
    return tuple(round(value + n * step, 3) for n in range(-first, last + 1))


def check_size(axes: Iterable[Axis]) -> int:
    """Return the number of configurations of a sweep.

    Raises:
        ConfigError: There are none, or too many, or both axes are one setting.
    """
    x, y = axes
    cells = len(x.values) * len(y.values)
    if x.setting == y.setting:
        raise ConfigError("Choose two different settings to sweep.")
    if not cells:
        raise ConfigError("A setting needs at least one value to sweep.")
    if cells > MAX_CELLS:
        raise ConfigError(f"{cells:,} configurations are too many to sweep; {MAX_CELLS:,} are the most.")
    return cells


def sweep(
    planner: Replanner,
    variant: Variant,
    x: Axis,
    y: Axis,
    *,
    watched: Sequence[frozenset[Ref]] = (),
    probes: Sequence[tuple[Probe, tuple[frozenset[Ref], ...]]] = (),
    questions: int = 0,
    progress: Callable[[int, int], object] = lambda done, of: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Sweep | None:
    """Plan every pair of values; None once `cancelled`.

    `watched` has the carriers of each item (`Memory.trace.carriers`), `probes` those of a probe's phrase or messages.
    `questions` is the number of recall questions, which need a replay (`probes.Question`).

    Raises:
        ConfigError: See `check_size`.
    """
    total = check_size((x, y))
    # One list of carriers, so that each prompt is compared once: the watched items first, then those of each probe.
    followed = [*watched, *(carriers for _, of_probe in probes for carriers in of_probe)]
    blocks = tuple(dict.fromkeys(probe.block for probe, _ in probes if isinstance(probe, BlockTokens)))
    free = _calls_no_model(variant)
    cells: list[Cell] = []
    for row, lower in enumerate(y.values):
        for column, upper in enumerate(x.values):
            if cancelled():
                return None
            pair = VariantChange(x.setting, None, upper), VariantChange(y.setting, None, lower)
            changes = (*pair, *_lowered(variant, pair))
            try:
                plan = planner.plan(variant.with_changes(variant.name, changes), followed, blocks=blocks)
            except ConfigError as error:
                # An invalid pair of values stays in the grid, with its reason.
                cells.append(Cell(column, row, changes, {}, str(error)))
            else:
                measures = _measured(plan, len(watched), probes, blocks, free, questions)
                cells.append(Cell(column, row, changes, measures))
            progress(len(cells), total)
    return Sweep(x, y, tuple(cells))


def _lowered(variant: Variant, changes: Sequence[VariantChange]) -> tuple[VariantChange, ...]:
    """Return a change that lowers the flush size to a smaller token limit; none if the flush size is swept itself."""
    values = {change.setting: change.after for change in changes}
    limit, size = values.get("token_limit"), variant.config.token_flush_size
    if limit is None or size is None or size <= limit or "token_flush_size" in values:
        return ()
    return (VariantChange("token_flush_size", size, limit),)


def _calls_no_model(variant: Variant) -> bool:
    """Return whether nothing calls a model: no block learns with one or is edited by an agent."""
    edited = any(agents_may_edit(block) for block in variant.blocks)
    return not edited and not any(block.kind_model_calls for block in variant.make_blocks())


def _measured(
    plan: Replanned,
    watched: int,
    probes: Sequence[tuple[Probe, tuple[frozenset[Ref], ...]]],
    blocks: Sequence[str],
    free: bool,
    questions: int,
) -> dict[Measure, Range | None]:
    turns = plan.turns()
    complete = [turn for turn in turns if turn is not None]
    whole = len(complete) == len(turns)
    last = plan.prompts[-1].watched[:watched] if plan.prompts else ()
    placed = list(_placed(probes, watched))
    held = [_held(plan, probe, at, blocks) for probe, at in placed]
    cut, read = sum(turn.cut for turn in complete), sum(turn.sent for turn in complete)
    flushes = float(len(plan.flushes))
    return {
        "watched": Range(last.count("prompt"), last.count("prompt") + last.count("unknown")) if watched else None,
        "probes": Range(held.count(True), held.count(True) + held.count(None)) if probes else None,
        "recall": _recall(plan, placed, questions),
        "sent": Range(average(complete), average(complete)) if whole else None,
        "cut": Range(cut, cut) if whole else None,
        "flushes": Range(flushes, flushes) if plan.whole else None,
        # The number of calls depends on what blocks learn, so it is known only where nothing calls a model.
        "calls": Range(0, 0) if free else None,
        "read": Range(read, read) if whole and free else None,
        "stable": None,  # depends on the exact text
    }


def _recall(plan: Replanned, placed: Sequence[tuple[Probe, tuple[int, ...]]], questions: int) -> Range | None:
    """Return bounds of the share (0 to 1) of evidence in prompts; questions count as unknown; None without evidence."""
    states: list[PlannedState] = []
    for probe, places in placed:
        if isinstance(probe, EvidenceInPrompt):
            prompt = plan.last.get(probe.turn)
            # A turn without a prompt holds no evidence.
            states += [prompt.watched[place] if prompt is not None else "out" for place in places]
    total, sure = len(states) + questions, states.count("prompt")
    # Each unknown state and each question may count or not: they bound the share from both sides.
    return Range(sure / total, (sure + states.count("unknown") + questions) / total) if total else None


def _placed(
    probes: Sequence[tuple[Probe, tuple[frozenset[Ref], ...]]], start: int
) -> Iterable[tuple[Probe, tuple[int, ...]]]:
    """Pair each probe with the indexes of its carriers among a plan's watched items."""
    for probe, carriers in probes:
        yield probe, tuple(range(start, start + len(carriers)))
        start += len(carriers)


def _held(plan: Replanned, probe: Probe, places: Sequence[int], blocks: Sequence[str]) -> bool | None:
    """Return whether a probe holds; None if only a replay can tell."""
    prompts = plan.last
    if isinstance(probe, EvidenceInPrompt):
        prompt = prompts.get(probe.turn)
        states: list[PlannedState] = [prompt.watched[place] for place in places] if prompt is not None else ["out"]
        return _all("prompt", states)
    if isinstance(probe, InPrompt | NeverInPrompt | BlockTokens):
        upto = getattr(probe, "to_turn", None)
        asked = [p for turn, p in prompts.items() if probe.from_turn <= turn and (upto is None or turn <= upto)]
        if not asked:
            # As in a replay, a probe without any prompt fails.
            return False
        if isinstance(probe, BlockTokens):
            granted = [prompt.granted[blocks.index(probe.block)] for prompt in asked]
            # One prompt below is enough to fail, whatever the unknown ones have.
            if any(tokens is not None and tokens < probe.at_least for tokens in granted):
                return False
            return None if None in granted else True
        states = [prompt.watched[places[0]] for prompt in asked]
        if isinstance(probe, InPrompt):
            return _all("prompt", states)
        # A carrier may reword the phrase, so "not in the prompt" is certain only without any carrier.
        return True if all(state in ("out", "before") for state in states) else None
    # The other probes concern what is learned, which no plan knows.
    return None


def _all(wanted: PlannedState, states: Sequence[PlannedState]) -> bool | None:
    # One certain failure decides; unknown states matter only if all others hold.
    if any(state not in (wanted, "unknown") for state in states):
        return False
    return None if "unknown" in states else True


def _goodness(cell: Cell, measure: Measure) -> float | None:
    value = cell.value(measure)
    if value is None:
        return None
    return value.low if measure in BETTER_HIGH else -value.low


# -- replay cells of a sweep with the engine, to determine what planning could not ----------------


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
            measures = _measured_in_play(played.memory, phrases, probes, questions)
        # Closed before the next one is played, as an in-memory database lives until then.
        finally:
            played.close()
        yield Cell(cell.x, cell.y, cell.changes, measures, played=True)


def _measured_in_play(
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
        "recall": _recall_in_play(memory, probes, questions),  # last, as its questions add prompts to the log
    }
    return {measure: None if value is None else Range(value, value) for measure, value in values.items()}


def _recall_in_play(memory: Memory, probes: Sequence[Probe], questions: Sequence[Question]) -> float | None:
    evidence = [(seq, probe.turn) for probe in probes if isinstance(probe, EvidenceInPrompt) for seq in probe.messages]
    total = len(evidence) + len(questions)
    if not total:
        return None
    # One probe for each message: recall counts single messages, while a probe holds only with all of its messages.
    asked = [EvidenceInPrompt(turn=turn, messages=(seq,)) for seq, turn in evidence]
    holding = sum(verdict.held for verdict in evaluate(memory, asked))
    return (holding + evidence_found(memory, questions)) / total


def known_price(records: Iterable[EventRecord]) -> float | None:
    """Estimate US dollars per million input tokens of the model that was called last, from its recorded calls.

    None unless at least two of its calls, of different sizes, have a recorded cost: input and output tokens have
    different prices.
    """
    called = [record.event for record in records if is_call(record.event)]
    charged = [call for call in called if None not in (call.cost, call.input_tokens, call.output_tokens)]
    same = [call for call in charged if call.model == charged[-1].model]
    if len(same) < 2:
        return None
    import numpy as np  # here: most sessions have no such call

    # Two unknowns, the prices of a token read and of one written; rank 2 says that the sizes determine both.
    sizes = np.array([(call.input_tokens, call.output_tokens) for call in same], dtype=float)
    (read, _), _, rank, _ = np.linalg.lstsq(sizes, np.array([call.cost for call in same], dtype=float), rcond=None)
    return round(float(read) * 1_000_000, 6) if rank == 2 else None

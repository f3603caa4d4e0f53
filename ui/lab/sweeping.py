"""A sweep on the page: two settings with their values, a heat map of the results, a click that tries a cell.

It opens as 4 × 4 around the session's values, which are always in it. Every cell is planned at once; cells that a plan
cannot compute are played, nearest to these values first, for at most a minute unasked. Each is drawn once it is known;
the best is named once all are.
"""

import json
import math
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import streamlit as st

from memory_core import Memory, MemoryInspectorError
from memory_core.config import MAX_TOKENS
from memory_core.errors import ConfigError
from memory_core.events import Ref
from memory_inspector.figures.lab_figures import OWN_MARK, front_figure, sweep_figure, value_words
from memory_inspector.lab.probes import EvidenceInPrompt, InPrompt, NeverInPrompt, Probe, Question, read_questions
from memory_inspector.lab.script import script_of
from memory_inspector.lab.sweeping import (
    Axis,
    Cell,
    Measure,
    Sweep,
    check_size,
    known_price,
    play_cells,
    sweep,
    values_around,
)
from memory_inspector.lab.variants import Variant, VariantChange, block_values
from memory_inspector.reading.lru_cache import LruCache
from memory_inspector.server.jobs import Job
from memory_inspector.wording.formatting import count, plain, tokens
from memory_inspector.wording.settings import value_words as setting_words
from ui.lab import planned, playing, tried_variants
from ui.lab.playing import StoppedError
from ui.lab.tried_variants import LEAST_LIMIT, Desk, Tried, effective_limit, named, value_named
from ui.parts.components import chart, conclusion, open_view
from ui.tab import state
from ui.tab.drawing import mode
from ui.tab.services import engine
from ui.tab.view import View

MAX_KEPT = 4
"""Maximum number of cached sweeps of one session; the latest used stay."""

FILLED_SECONDS = 1.0
"""Interval, in seconds, at which a map is drawn again while its cells are played."""

MOST_RESULTS = 10
"""Number of results around which a sweep's values lie if the block requests as many as fit."""

PLAYED_UNASKED_SECONDS = 60.0
"""Seconds for which unknown cells are played without a request; the last play is finished."""

CANCEL = "lab__sweep_cancel"
MAP, FRONT = "Map", "Front"

_MEASURES: dict[Measure, str] = {
    "watched": "Watched items in the last prompt",
    "probes": "Tests that hold",
    "recall": "Evidence found in the prompts of questions",
    "sent": "Tokens a turn",
    "cut": "Tokens cut",
    "flushes": "Flushes",
    "calls": "Calls to learn",
    "read": "Tokens that models read",
    "cost": "Cost of what models read",
    "stable": "Stable beginning of a prompt",
}
_TYPED = state.ByPlace[str]("lab_questions", "")
"""Text of the field for questions, as typed, by session."""
_ASKED = state.ByPlace[str]("lab_sweep", "")
"""Key of the last requested sweep, by session."""
_CHOSEN = state.ByPlace[Any]("lab_sweep_form", None)
"""Values of the form by session and field: the form is drawn only while its view is shown."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A requested sweep, with the configuration, phrases and probes at that time."""

    memory: Memory
    position: int
    """Position of the log at which the sweep was made."""
    variant: Variant
    x: Axis
    y: Axis
    phrases: list[str]
    probes: tuple[Probe, ...]
    questions: tuple[Question, ...]

    @property
    def key(self) -> str:
        lists = [self.phrases, [str(probe) for probe in self.probes], repr(self.questions)]
        tried = playing.key_of(self.position, self.variant)
        of = [self.memory.session_id, tried, repr((self.x, self.y)), *lists]
        return f"lab-sweep/{json.dumps(of)}"


@dataclass(frozen=True, slots=True)
class _Swept:
    """A sweep with the cells computed so far."""

    sweep: Sweep
    asked: _Asked
    present: tuple[float, float]
    """Values of both settings before any change, around which the sweep lies."""
    play_seconds: float | None = None
    """Mean seconds of a play, without the first, which prepares the others."""
    unasked: frozenset[Measure] = frozenset()
    """Measures whose unknown cells were played without a request."""

    def measured(self, measure: Measure) -> Measure:
        """Return `measure` if the sweep has it, otherwise `sent`."""
        asked = self.asked
        return measure if measure in _measures(asked.phrases, asked.probes, asked.questions) else "sent"

    @property
    def base(self) -> Cell:
        """The cell of the session's own values."""
        return self.sweep.nearest_first(self.sweep.cells, *self.present)[0]


def _measures(phrases: Sequence[str], probes: Sequence[Probe], questions: Sequence[Question]) -> list[Measure]:
    """Return the measures that can be chosen, given what is watched."""
    # Recall needs something that names its evidence.
    asked = bool(questions) or any(isinstance(probe, EvidenceInPrompt) for probe in probes)
    available = {"watched": bool(phrases), "probes": bool(probes), "recall": asked}
    return [measure for measure in _MEASURES if available.get(measure, True)]


class _Kept:
    """Cached sweeps of one session, and the latest job of each."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.sweeps = LruCache[_Swept](MAX_KEPT)
        self.jobs = LruCache[Job](MAX_KEPT)
        """Latest job of each sweep, running or done, by key."""

    def begin(self, key: str, work: Callable[[Job], object]) -> None:
        """Start `work` for a sweep in the background, unless a job of the sweep is running."""
        with self.lock:
            job = self.jobs.get(key)
            # Checked and begun under one lock, so that two tabs do not play the same cells twice.
            if job is None or job.done:
                self.jobs.put(key, engine().read(f"lab-sweep/{uuid.uuid4()}", work))

    def change(self, key: str, changed: Callable[[_Swept], _Swept]) -> None:
        with self.lock:
            # Dropped meanwhile: there is nothing to change.
            swept = self.sweeps.get(key)
            if swept is not None:
                self.sweeps.put(key, changed(swept))


def draw(
    view: View, position: int, tried: Tried, variant: Variant, phrases: list[str], probes: tuple[Probe, ...]
) -> None:
    """Draw the form and the last requested sweep, of the conversation up to a log position.

    Opening the view requests the first sweep, a button requests others.
    """
    memory = view.memory
    if variant.struck:
        st.markdown(":small[:gray[A sweep cannot leave out events: put the struck events back first.]]")
        return
    # 1. The form. Its values lie around the settings before any change, and stay when a cell is tried.
    own_values = _values(memory, tried_variants.variant(memory, replace(tried, knobs=())))
    offered = _offered(own_values)
    with st.expander("Settings and values", key="lab__sweep_form", icon=":material/tune:"):
        first_column, second_column = st.columns(2)
        with first_column:
            x = _draw_axis(memory.session_id, "x", offered, own_values, "token_limit")
        with second_column:
            y = _draw_axis(memory.session_id, "y", offered, own_values, "chat_history_token_ratio")
        questions = draw_questions(memory.session_id)
    try:
        # 2. What is swept; too many cells are refused before anything is planned.
        check_size((x, y))
    except ConfigError as error:
        st.error(plain(str(error)))
        return
    # Trying a cell changes both settings; taken out here, so that the sweep and its map stay the same.
    swept = (VariantChange(axis.setting, None, own_values[axis.setting]) for axis in (x, y))
    variant = variant.with_changes(variant.name, swept)
    # 3. Opening the view sweeps once; other values wait for the button, as a person still types them.
    asked = _Asked(memory, position, variant, x, y, phrases, probes, questions)
    ask = partial(_ask, asked, (own_values[x.setting], own_values[y.setting]))
    cache, key, before = _cache(memory), asked.key, _ASKED.at(memory.session_id)
    job, missing = cache.jobs.get(key), cache.sweeps.get(key) is None
    if not before or (key == before and missing and job is None):  # the latter was dropped since
        ask()
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
        # 4. The measure is only how the result is looked at: choosing another plans nothing.
        measures = _measures(phrases, probes, questions)
        measure: Measure = _draw_choice(memory.session_id, "Measure", "measure", measures, _MEASURES.__getitem__)
        price = _draw_price(memory) if measure == "cost" else None
        if before and (key != before or (missing and job is not None and job.done)):
            st.button(
                f"Sweep {tokens(len(x.values))} × {tokens(len(y.values))}",
                key="lab__sweep_go",
                icon=":material/grid_on:",
                type="primary",
                on_click=ask,
            )
    if measure == "cost" and price is None:
        st.markdown(":small[:gray[Enter a price to see the cost of what the model reads.]]")
    else:
        _draw_asked(view, tried, measure, price)


def _draw_choice(
    session_id: str, label: str, field: str, options: Sequence[Any], words: Callable[[Any], str], first: Any = None
) -> Any:
    """Draw a choice that is kept while other views are shown; `first`: initial option, None for the first listed."""
    key, place = f"lab__sweep_{field}", (session_id, field)
    chosen = _CHOSEN.at(place)
    # Widgets that are not drawn lose their state, so it is put back each time.
    st.session_state[key] = chosen if chosen in options else first or options[0]
    return st.selectbox(
        label, options, key=key, format_func=words, on_change=lambda: _CHOSEN.put(place, st.session_state[key])
    )


def draw_questions(session_id: str) -> tuple[Question, ...]:
    """Draw the fields for questions with evidence, kept in this tab, and return the questions for the measure `recall`.

    If a line cannot be read, an error is drawn and nothing is returned.
    """
    key = f"lab__sweep_questions_{session_id}"
    with st.popover("Questions", icon=":material/quiz:", key="lab__sweep_quiz"):
        st.text_area(
            "One per line: question → words of evidence",
            value=_TYPED.at(session_id),
            key=key,
            placeholder="Where does Ana live? → lives in Porto",
            help="Each question is asked after the whole conversation, and is answered if its evidence is in the "
            "prompt. Tests of the kind “What a message says is in one turn's prompt” count as questions, too.",
            on_change=lambda: _TYPED.put(session_id, st.session_state[key]),
        )
        upload = st.file_uploader("Or a file with such lines", type=["txt", "tsv", "md"], key="lab__sweep_file")
        text = _TYPED.at(session_id)
        if upload is not None:
            # Bytes that are no UTF-8 become marks, and the line is still a question.
            text = f"{text}\n{upload.getvalue().decode('utf-8', errors='replace')}"
        try:
            questions = read_questions(text)
        except MemoryInspectorError as error:
            st.error(plain(str(error)))
            return ()
        if questions:
            st.markdown(f":small[{count(len(questions), 'line')}.]")
    return questions


def _draw_price(memory: Memory) -> float | None:
    """Draw the field for the price, in dollars per million tokens read, and return it; None if the field is empty."""
    price: float | None = st.number_input(
        "$ per million tokens read",
        value=known_price(memory.log.history().records),
        min_value=0.0,
        step=0.05,
        format="%.3f",
        key="lab__sweep_price",
        placeholder="Price",
        help="For the tokens of prompts and of what learning reads, instructions included; answers are not counted",
        width=180,
    )
    return price


def _values(memory: Memory, variant: Variant) -> dict[str, float]:
    """Return the present value of each setting that can be swept."""
    config = variant.config
    present: dict[str, float] = {
        "token_limit": effective_limit(memory, config.token_limit),
        "chat_history_token_ratio": config.chat_history_token_ratio,
        "token_flush_size": config.flush_size,
    }
    for block in variant.blocks:
        values = block_values(block)
        present[f"{block.name}.priority"] = values.get("priority", 0)
        if block.type == "vector":
            present[f"{block.name}.similarity_top_k"] = values.get("similarity_top_k") or MOST_RESULTS
    return present


def _offered(own_values: dict[str, float]) -> dict[str, tuple[float, ...]]:
    """Return each setting that can be swept, with its initial values around the session's own."""
    bounds = {"token_limit": (LEAST_LIMIT, MAX_TOKENS), "token_flush_size": (1, own_values["token_limit"])}

    def around(setting: str, value: float) -> tuple[float, ...]:
        # Half of the present value a step, so that a few cells reach from far below to far above it.
        step = max(1, value // 2)
        if setting == "chat_history_token_ratio":
            step, least, most = 0.15, 0.05, 1.0
        elif setting.endswith(".priority"):
            step, least, most = 1, 0, 5
        else:
            least, most = bounds.get(setting, (1, 4 * MOST_RESULTS))
        # The own value is always among them, even where it lies outside the usual bounds.
        return values_around(value, step, min(least, value), max(most, value))

    return {setting: around(setting, value) for setting, value in own_values.items()}


def _draw_axis(
    session_id: str, key: str, offered: dict[str, tuple[float, ...]], own_values: dict[str, float], first: str
) -> Axis:
    """Draw one axis, a setting with its values, and return it.

    The values begin around the present one and stay while cells are tried; `own_values`: values before any change.
    """
    label = "Across" if key == "x" else "Down"
    setting: str = _draw_choice(session_id, label, key, list(offered), lambda name: named(*_place(name)), first)
    number: Any = float if setting == "chat_history_token_ratio" else int
    step, values = 0.05 if number is float else 1, offered[setting]
    # The own value is part of the place: once it is changed, the form begins around the new one.
    place = (session_id, key, setting, own_values[setting])
    begin = _CHOSEN.at(place) or (values[0], values[-1], len(values))
    _CHOSEN.put(place, begin)
    names = [f"lab__sweep_{part}_{key}_{setting}" for part in ("from", "to", "n")]

    def keep() -> None:
        _CHOSEN.put(place, tuple(st.session_state[name] for name in names))

    # Before the widgets are made: afterwards their state cannot be set.
    for name, value in zip(names, begin, strict=True):
        st.session_state[name] = int(value) if name == names[2] else number(value)
    with st.container(horizontal=True, gap="small"):
        low = st.number_input("From", step=step, min_value=number(0), key=names[0], on_change=keep)
        high = st.number_input("To", step=step, min_value=number(0), key=names[1], on_change=keep)
        count = st.number_input("Steps", step=1, min_value=1, max_value=1_000, key=names[2], on_change=keep)
    spread = [low + (high - low) * n / max(1, count - 1) for n in range(count)]
    rounded = [round(value, 3) for value in spread] if number is float else [round(value) for value in spread]
    # Rounding can make two values equal: each is one row or column. The own value is what the others are compared with.
    return Axis(setting, tuple(sorted({*rounded, own_values[setting]})))


def _place(setting: str) -> tuple[str, str]:
    place, _, name = setting.rpartition(".")
    return place, name


# -- sweeping ----------------------------------------------------------------------------------------


def _ask(asked: _Asked, present: tuple[float, float]) -> None:
    """Plan every pair of values in the background; a sweep planned before is only shown again."""
    memory, key, cache = asked.memory, asked.key, _cache(asked.memory)
    _ASKED.put(memory.session_id, key)
    if cache.sweeps.get(key) is not None:
        return

    def work(job: Job) -> None:
        job.add_progress("Reading the sizes in the log")
        planner = planned.planner_of(memory, asked.position)
        watched = planned.carriers_of(memory, asked.phrases)

        def progress(done: int, of: int) -> None:
            if done == of or done % max(1, of // 100) == 0:  # at most one line a percent: all lines are kept
                job.add_progress(f"Configuration {tokens(done)} of {tokens(of)}")

        result = sweep(
            planner, asked.variant, asked.x, asked.y,
            watched=watched, probes=_with_carriers(memory, asked.probes), questions=len(asked.questions),
            progress=progress, cancelled=job.cancel.is_set,
        )  # fmt: skip
        if result is None:
            raise StoppedError("Cancelled: nothing was kept.")
        cache.sweeps.put(key, _Swept(result, asked, present))

    cache.begin(key, work)


def _play(memory: Memory, key: str, measure: Measure, seconds: float = math.inf) -> None:
    """Play the cells whose measure is unknown, in the background; each result is stored at once.

    After `seconds` no further play begins; the first play, which prepares the others, is not counted.
    """
    cache = _cache(memory)
    swept = cache.sweeps.get(key)
    if swept is None:
        return
    asked, cells = swept.asked, swept.sweep.nearest_first(_unknown(swept.sweep, measure), *swept.present)

    def work(job: Job) -> None:
        begun, first = time.monotonic(), 0.0
        job.add_progress(f"Playing {count(len(cells), 'cell')}")
        played = play_cells(
            playing.player_of(memory), script_of(memory, asked.position), asked.variant, cells,
            phrases=asked.phrases, probes=asked.probes, questions=asked.questions, cancelled=job.cancel.is_set,
        )  # fmt: skip
        # Cells come one by one, so that each is on the map when it is done, and stopping loses none.
        for done, cell in enumerate(played, 1):
            passed = time.monotonic() - begun
            # The first play loads models and embeds texts, and says little about the others.
            first = first or passed
            seconds_a_run = (passed - first) / (done - 1) if done > 1 else passed
            cache.change(key, partial(_filled, cell=cell, play_seconds=seconds_a_run))
            job.add_progress(
                f"Played {tokens(done)} of {tokens(len(cells))}, {_about(seconds_a_run * (len(cells) - done))} left"
            )
            if passed - first >= seconds:
                break

    cache.begin(key, work)


def _filled(swept: _Swept, *, cell: Cell, play_seconds: float) -> _Swept:
    return replace(swept, sweep=swept.sweep.with_cell(cell), play_seconds=play_seconds)


def _unknown(sweep_result: Sweep, measure: Measure) -> tuple[Cell, ...]:
    """Return the cells whose measure needs a play; for `cost`, those whose tokens read are unknown."""
    return sweep_result.unknown("read" if measure == "cost" else measure)


def _about(duration: float) -> str:
    """Return a rough duration in words: `about 12 s`, `about 3 minutes`."""
    return f"about {count(round(duration / 60), 'minute')}" if duration >= 90 else f"about {max(1, round(duration))} s"


def _with_carriers(memory: Memory, probes: Sequence[Probe]) -> list[tuple[Probe, tuple[frozenset[Ref], ...]]]:
    rows = []
    for probe in probes:
        targets: list[str | Ref] = []
        if isinstance(probe, InPrompt | NeverInPrompt):
            targets = [probe.phrase]
        elif isinstance(probe, EvidenceInPrompt):
            targets = [Ref.of("message", seq) for seq in probe.messages]
        rows.append((probe, tuple(_carriers(memory, target) for target in targets)))
    return rows


def _carriers(memory: Memory, target: str | Ref) -> frozenset[Ref]:
    try:
        return memory.trace.carriers(target)
    except MemoryInspectorError:
        return frozenset()


def _draw_asked(view: View, tried: Tried, measure: Measure, price: float | None) -> None:
    memory = view.memory
    key, cache = _ASKED.at(memory.session_id), _cache(memory)
    swept, job = cache.sweeps.get(key), cache.jobs.get(key)
    if swept is None:
        if job is not None and not job.done:
            playing.follow_jobs([job], CANCEL)
        elif job is not None and job.error is not None:
            st.warning(plain(job.error))
        return
    # The shown sweep may be older than the form, and lack what is watched since.
    measure = swept.measured(measure)
    # Once for each measure: what a person cancelled must not begin again by itself.
    if (job is None or job.done) and measure not in swept.unasked and _unknown(swept.sweep, measure):
        cache.change(key, lambda swept: replace(swept, unasked=swept.unasked | {measure}))
        _play(memory, key, measure, PLAYED_UNASKED_SECONDS)
        job = cache.jobs.get(key)
    # Only a map that is being filled redraws itself.
    running = job is not None and not job.done
    draw = st.fragment(_draw_found, run_every=FILLED_SECONDS if running else None)
    draw(view, key, running, tried_variants.desk(memory.session_id), tried, measure, price)


def _draw_found(
    view: View, key: str, running: bool, now: Desk, tried: Tried, measure: Measure, price: float | None
) -> None:
    """Draw a sweep, with its progress while cells are played, otherwise with a button that plays the unknown ones."""
    memory = view.memory
    cache = _cache(memory)
    swept, job = cache.sweeps.get(key), cache.jobs.get(key)
    if swept is None or running is (job is None or job.done) or tried_variants.desk(memory.session_id) != now:
        st.rerun()  # the rest of the page depends on it
    # Prices are applied when the map is drawn: another price needs no new sweep.
    result = swept.sweep if price is None else swept.sweep.priced(price)
    if running and job is not None:
        playing.draw_progress([job], CANCEL)
    elif unknown := result.unknown(measure):
        if job is not None and job.error is not None:
            st.warning(plain(job.error))
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.button(
                f"Play the {tokens(len(unknown))} unknown cells" if len(unknown) > 1 else "Play the unknown cell",
                key="lab__sweep_play",
                icon=":material/science:",
                on_click=_play,
                args=(memory, key, measure),
            )
            if swept.play_seconds is not None:
                about = f"{_about(swept.play_seconds * len(unknown))}, no model call"
                st.markdown(f":small[:gray[{about}]]", width="stretch")
    _draw_map(memory, tried, replace(swept, sweep=result), measure)


def _draw_map(memory: Memory, tried: Tried, swept: _Swept, measured: Measure) -> None:
    result, base = swept.sweep, swept.base
    # Before all are known, another cell may still be better.
    front = () if result.unknown(measured) else result.front(measured)
    conclusion(_verdict(swept, front, measured))
    axes = ([_value(result.x, v) for v in result.x.values], [_value(result.y, v) for v in result.y.values])
    across, down = (named(*_place(axis.setting)) for axis in (result.x, result.y))
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        title, shown = st.container(width="stretch"), MAP
        # A front is a measure against tokens; tokens against themselves are a straight line.
        if measured != "sent":
            shown = st.segmented_control(
                "Shown as", [MAP, FRONT], default=MAP, required=True, key="lab__sweep_as", label_visibility="collapsed"
            )
    clicked = f"Click a result to try it as {plain(tried.name)}."
    # Points are selected by number: another figure must not inherit the selection.
    key = f"lab__sweep_{shown.lower()}_{measured}"
    legend = [f"Your setting: {OWN_MARK}."]
    if shown == FRONT:
        legend += ["On the line: best for its tokens."] if front else []
        figure = front_figure(result, measured, axes, front, base, mode())
    else:
        legend += ["Outlined: best for its tokens."] if front else []
        legend += ["Hatched: not played yet."] if result.unknown(measured) else []
        figure = sweep_figure(result, measured, axes, (across, down), front, base, mode())
    title.markdown(f"**{_MEASURES[measured]}** :small[:gray[{' '.join(legend)} {clicked}]]")
    take = partial(_take, memory.session_id, tried.name, result, key)
    chart(figure, key, f"{_MEASURES[measured]} for each pair of values", take)


def _verdict(swept: _Swept, front: Sequence[Cell], measured: Measure) -> str:
    """Return in words the cell that is best by a measure, with as few tokens as possible, beside the session's own."""
    result, asked, base, cells = swept.sweep, swept.asked, swept.base, len(swept.sweep.cells)
    if unknown := len(result.unknown(measured)):
        return f"{tokens(cells - unknown)} of {count(cells, 'combination')} known. The best is named once all are."
    if measured == "sent":
        how = "Choose another measure" if asked.phrases or asked.probes else "Test a phrase"
        return f"Fewer tokens are no gain by themselves. {how}, and the best for it is named."
    if not front:
        return "None of these combinations is possible."
    best = front[-1]

    numbers = {"watched": (len(asked.phrases), "watched item"), "probes": (len(asked.probes), "test")}
    unit = f" of {count(*numbers[measured])}" if measured in numbers else f" ({_MEASURES[measured].lower()})"
    value, sent, yours, before = (value_words(cell, of) for cell in (best, base) for of in (measured, "sent"))
    if (value, sent) == (yours, before):
        return f"Your setting is the best: {value}{unit}, {sent} tokens a turn."
    pairs = ((result.x, best.x), (result.y, best.y))
    setting = ", ".join(value_named(axis.setting, axis.values[at]) for axis, at in pairs)
    return f"Best: {setting}: {value}{unit} with {sent} tokens a turn. Yours: {yours} with {before}."


def _value(axis: Axis, value: Any) -> str:
    return setting_words(_place(axis.setting)[1], value)


def _take(session_id: str, name: str, result: Sweep, key: str) -> None:
    """Try the cell that was clicked."""
    selection: Any = st.session_state.get(key)
    points = list(selection["selection"]["points"]) if selection else []
    at = points[0].get("customdata") if points else None
    # A point without data is no cell.
    cell = next((cell for cell in result.cells if at and (cell.x, cell.y) == (int(at[0]), int(at[1]))), None)
    if cell is not None:
        tried_variants.mend(session_id, name, cell.changes)
        # A click is a request to play that configuration, however long the conversation is.
        tried_variants.ask(session_id)
        open_view(tried_variants.VIEW, "compare")


def _cache(memory: Memory) -> _Kept:
    return engine().services.cached(("lab-sweeps", memory.session.database.id, memory.session_id), _Kept)

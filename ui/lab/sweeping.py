"""A sweep on the page: two settings with their values, a heat map of what they come to, a click that tries a cell."""

import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import Any, get_args

import streamlit as st

from memory_core import Memory, MemoryInspectorError
from memory_core.errors import ConfigError
from memory_core.events import Ref
from memory_core.lab.probes import EvidenceInPrompt, InPrompt, NeverInPrompt, Probe
from memory_core.lab.sweeping import Axis, Cell, Measure, Sweep, check_size, sweep
from memory_core.lab.variants import Variant
from ui import state
from ui.charts import CONFIG
from ui.event_sentences.settings import value_words as setting_words
from ui.jobs import Job
from ui.lab import desk, planned
from ui.lab.desk import Tried
from ui.lab.knobs import named
from ui.lab.playing import LOOK_SECONDS, StoppedError
from ui.lab.sweep_figure import sweep_figure, value_words
from ui.services import engine
from ui.text import plain, tokens
from ui.theme import mode
from ui.view import View

MAX_KEPT = 4
"""Sweeps that are kept for one session, the latest used."""

MOST_LISTED = 8
"""Cells of the front that are listed."""

_MEASURES: dict[Measure, str] = {
    "watched": "Watched things in the last prompt",
    "probes": "Probes that hold",
    "sent": "Tokens a turn",
    "cut": "Tokens cut",
    "flushes": "Flushes",
}
_ASKED = state.ByPlace[str]("lab_sweep", "")
"""Key of the sweep that was asked for last, by session."""


class _Kept:
    """The sweeps of one session."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.sweeps: OrderedDict[str, Sweep] = OrderedDict()

    def put(self, key: str, found: Sweep) -> None:
        with self.lock:
            self.sweeps[key] = found
            while len(self.sweeps) > MAX_KEPT:
                self.sweeps.popitem(last=False)


def draw(view: View, tried: Tried, variant: Variant, phrases: list[str], probes: tuple[Probe, ...]) -> None:
    """Draw the form, and the last sweep that was asked for."""
    memory = view.memory
    box = st.expander(f"Sweep two settings of {plain(tried.name)}", key="lab__sweep", on_change="rerun")
    if not box.open:
        return
    with box:
        if variant.struck:
            st.markdown(":small[:gray[A sweep is planned, not played: take back what is struck first.]]")
            return
        offered = _offered(variant)
        left, right = st.columns(2)
        with left:
            x = _draw_axis("x", offered, "token_limit")
        with right:
            y = _draw_axis("y", offered, "chat_history_token_ratio")
        measures = [m for m in get_args(Measure) if (m != "watched" or phrases) and (m != "probes" or probes)]
        measure: Measure = st.selectbox(
            "Measure", measures, key="lab__sweep_measure", format_func=_MEASURES.__getitem__
        )
        problem = _problem(x, y)
        if problem is not None:
            st.error(plain(problem))
            return
        cells = tokens(len(x.values) * len(y.values))
        st.button(
            f"Plan {cells} configurations",
            key="lab__sweep_go",
            icon=":material/grid_on:",
            on_click=_ask,
            args=(memory, view.history.position, variant, x, y, phrases, probes),
        )
        _draw_asked(memory, tried, measure)


def _offered(variant: Variant) -> dict[str, tuple[float, float, int]]:
    """Settings that can be swept, each with the values from and to which, and in how many steps."""
    limit = variant.config.token_limit
    found: dict[str, tuple[float, float, int]] = {
        "token_limit": (max(50, limit // 4), limit * 2, 10),
        "chat_history_token_ratio": (0.1, 1.0, 10),
        "token_flush_size": (1, max(2, limit // 2), 10),
    }
    for block in variant.blocks:
        found[f"{block.name}.priority"] = (0, 5, 6)
        if block.type == "vector":
            found[f"{block.name}.similarity_top_k"] = (1, 10, 10)
    return found


def _draw_axis(key: str, offered: dict[str, tuple[float, float, int]], first: str) -> Axis:
    names = list(offered)
    setting: str = st.selectbox(
        "Across" if key == "x" else "Down",
        names,
        index=names.index(first),
        key=f"lab__sweep_{key}",
        format_func=lambda name: named(*_place(name)),
    )
    low, high, steps = offered[setting]
    number: Any = float if setting == "chat_history_token_ratio" else int
    step = number(0.05) if number is float else 1
    own = f"{key}_{setting}"
    with st.container(horizontal=True, gap="small"):
        begin = st.number_input("From", value=number(low), step=step, min_value=number(0), key=f"lab__sweep_from_{own}")
        end = st.number_input("To", value=number(high), step=step, min_value=number(0), key=f"lab__sweep_to_{own}")
        count = st.number_input("Steps", value=steps, step=1, min_value=1, max_value=1_000, key=f"lab__sweep_n_{own}")
    values = [begin + (end - begin) * n / max(1, count - 1) for n in range(count)]
    rounded = [round(value, 3) for value in values] if number is float else [round(value) for value in values]
    return Axis(setting, tuple(dict.fromkeys(rounded)))


def _place(setting: str) -> tuple[str, str]:
    place, _, name = setting.rpartition(".")
    return place, name


def _problem(x: Axis, y: Axis) -> str | None:
    try:
        check_size((x, y))
    except ConfigError as error:
        return str(error)
    return None


# -- sweeping ----------------------------------------------------------------------------------------


def _ask(
    memory: Memory, position: int, variant: Variant, x: Axis, y: Axis, phrases: list[str], probes: tuple[Probe, ...]
) -> None:
    """Plan every pair in the background."""
    asked = [memory.session_id, position, repr(variant), repr((x, y)), phrases, [str(probe) for probe in probes]]
    key = f"lab-sweep/{json.dumps(asked)}"
    _ASKED.put(memory.session_id, key)

    def work(job: Job) -> None:
        job.add_progress("Reading the sizes in the log")
        planner = planned.planner_of(memory, position)
        watched = planned.carriers_of(memory, phrases)

        def progress(done: int, of: int) -> None:
            if done == of or done % max(1, of // 100) == 0:  # at most one line a percent: all lines are kept
                job.add_progress(f"Configuration {tokens(done)} of {tokens(of)}")

        found = sweep(
            planner, variant, x, y,
            watched=watched, probes=_with_carriers(memory, probes),
            progress=progress, cancelled=job.cancel.is_set,
        )  # fmt: skip
        if found is None:
            raise StoppedError("Cancelled: nothing was kept.")
        _kept(memory).put(key, found)

    engine().read(key, work)


def _with_carriers(memory: Memory, probes: Sequence[Probe]) -> list[tuple[Probe, tuple[frozenset[Ref], ...]]]:
    found = []
    for probe in probes:
        targets: list[str | Ref] = []
        if isinstance(probe, InPrompt | NeverInPrompt):
            targets = [probe.phrase]
        elif isinstance(probe, EvidenceInPrompt):
            targets = [Ref.of("message", seq) for seq in probe.messages]
        found.append((probe, tuple(_carriers(memory, target) for target in targets)))
    return found


def _carriers(memory: Memory, target: str | Ref) -> frozenset[Ref]:
    try:
        return memory.trace.carriers(target)
    except MemoryInspectorError:
        return frozenset()


def _draw_asked(memory: Memory, tried: Tried, measure: Measure) -> None:
    key = _ASKED.at(memory.session_id)
    job = engine().reading(key) if key else None
    found = _kept(memory).sweeps.get(key)
    if found is not None:
        _draw_map(memory, tried, found, measure)
    elif job is not None:
        _follow(job)


@st.fragment(run_every=LOOK_SECONDS)
def _follow(job: Job) -> None:
    if job.done:
        if job.error is None:
            st.rerun()
        st.warning(plain(job.error or ""))
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f":shimmer[{plain(job.progress[-1]) if job.progress else 'Planning'}]", width="content")
        st.button("Cancel", key="lab__sweep_cancel", on_click=job.cancel.set)


def _draw_map(memory: Memory, tried: Tried, found: Sweep, measure: Measure) -> None:
    measured = measure if any(cell.measures.get(measure) is not None for cell in found.cells) else "sent"
    front = found.front(measured)
    axes = ([_value(found.x, v) for v in found.x.values], [_value(found.y, v) for v in found.y.values])
    across, down = (named(*_place(axis.setting)) for axis in (found.x, found.y))
    st.markdown(
        f"**{_MEASURES[measured]}**  \n:small[:gray[Across: {plain(across)}. Down: {plain(down)}. A click tries a cell "
        f"as {plain(tried.name)}. Outlined: nothing does better with fewer tokens. Hatched: unknown until played.]]"
    )
    key = f"lab__sweep_map_{measured}"
    st.plotly_chart(
        sweep_figure(found, measured, axes, front, mode()),
        key=key,
        alt=f"{_MEASURES[measured]} for each pair of values",
        config=CONFIG,
        theme=None,
        on_select=partial(_take, memory.session_id, tried.name, found, key),
        selection_mode="points",
    )
    rows = [_row(cell, measured, axes, (across, down)) for cell in front[:MOST_LISTED]]
    if rows and measured != "sent":
        st.markdown(":small[Worth having: each does better than all that send fewer tokens.]")
        st.dataframe(rows, hide_index=True, key="lab__sweep_front", alt="The outlined cells, fewest tokens first")


def _row(cell: Cell, measure: Measure, axes: tuple[list[str], list[str]], names: tuple[str, str]) -> dict[str, str]:
    return {
        names[0]: axes[0][cell.x],
        names[1]: axes[1][cell.y],
        "Tokens a turn": value_words(cell, "sent"),
        _MEASURES[measure]: value_words(cell, measure),
    }


def _value(axis: Axis, value: Any) -> str:
    return setting_words(_place(axis.setting)[1], value)


def _take(session_id: str, name: str, found: Sweep, key: str) -> None:
    """Try the cell that was clicked."""
    selection: Any = st.session_state.get(key)
    points = list(selection["selection"]["points"]) if selection else []
    at = points[0].get("customdata") if points else None
    cell = next((cell for cell in found.cells if at and (cell.x, cell.y) == (int(at[0]), int(at[1]))), None)
    if cell is not None:
        desk.mend(session_id, name, cell.changes)
        desk.ask(session_id)


def _kept(memory: Memory) -> _Kept:
    return engine().services.cached(("lab-sweeps", memory.session.database.id, memory.session_id), _Kept)

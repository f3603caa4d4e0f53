"""The estimate of a configuration, drawn until its play ends; turns that only the play can compute are hatched."""

import json
import threading
import time
from functools import partial
from typing import Any

import streamlit as st

from memory_core import Memory, MemoryInspectorError
from memory_core.events import Ref
from memory_inspector.lab.comparing import average
from memory_inspector.lab.replanning import PlannedPrompt, Replanned, Replanner
from memory_inspector.lab.sizes import sizes_of
from memory_inspector.lab.variants import Variant
from memory_inspector.reading.lru_cache import LruCache
from memory_inspector.server.jobs import Job
from memory_inspector.wording.formatting import plain, short, tokens
from ui.lab import playing
from ui.parts import watching
from ui.tab.services import engine
from ui.tab.view import View

MAX_CELLS = 200
"""Maximum number of turns in a strip, which are the newest ones; the strip of a play has the same maximum."""

MAX_KEPT = 8
"""Maximum number of cached plans of one session; the latest used stay."""

AT_ONCE_SECONDS = 0.1
"""Seconds that a drawing waits for plans; those of a long session come after the rest of the page."""

PLANNED_SECONDS = 2.0
"""Interval, in seconds, between checks of a plan: after each, Streamlit collects garbage over all of its data."""


class _KeptPlans:
    """The data that planning needs of a session, read once per log position."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        """Held while the planner is made, which can take a second."""
        self.position = -1
        self.planner: Replanner | None = None
        self.carriers: dict[str, frozenset[Ref]] = {}
        self.plans = LruCache[Replanned](MAX_KEPT)


def planner_of(memory: Memory, position: int) -> Replanner:
    """Return the planner of a session at a log position; made in 1 s for 10,000 messages, then cached."""
    cache = _cache(memory)
    with cache.lock:
        if cache.planner is None or cache.position != position:
            # All three belong to one position: carriers grow with the log, too.
            cache.planner, cache.position, cache.carriers = Replanner(sizes_of(memory, position)), position, {}
        return cache.planner


def carriers_of(memory: Memory, phrases: list[str]) -> list[frozenset[Ref]]:
    """Return the carriers of each watched phrase; an empty set for a phrase that cannot be followed."""
    cache = _cache(memory)
    for phrase in phrases:
        if phrase not in cache.carriers:
            try:
                cache.carriers[phrase] = memory.trace.carriers(phrase)
            # An empty phrase, or an erased item: it is in no prompt, and must not stop the planning.
            except MemoryInspectorError:
                cache.carriers[phrase] = frozenset()
    return [cache.carriers.get(phrase, frozenset()) for phrase in phrases]


def draw(
    view: View, position: int, variants: dict[str, Variant], phrases: list[str], *, at_once: bool, plays: bool
) -> None:
    """Draw the plans of configurations up to a log position: their numbers, and a strip for each watched phrase.

    Plans of a long session take seconds and are drawn after the page, unless `at_once`. `plays`: plays run as well."""
    memory, cache = view.memory, _cache(view.memory)
    # The watched phrases are part of the key, since a plan says of each prompt whether it holds them.
    keys = {name: json.dumps([playing.key_of(position, variant), phrases]) for name, variant in variants.items()}

    def work(_: object = None) -> None:
        for name, variant in variants.items():
            if cache.plans.get(keys[name]) is None:
                planner = planner_of(memory, position)
                plan = planner.plan(variant, carriers_of(memory, phrases), cancelled=_steps_aside)
                cache.plans.put(keys[name], plan)

    with st.container(border=True, key="lab__planned"):
        st.markdown("**Estimate** :small[:gray[from logged sizes]]")
        if at_once:
            work()
        else:
            # A job that succeeded is not run again under its id: once plans were dropped, the count makes it a new id.
            job = engine().read(
                f"lab-plan/{json.dumps([memory.session_id, cache.plans.dropped, *keys.values()])}", work
            )
            job.wait(AT_ONCE_SECONDS)
            if job.error is not None:
                st.warning(plain(job.error))
        # All or none: one line alone would be compared with nothing.
        plans = {name: plan for name, key in keys.items() if (plan := cache.plans.get(key)) is not None}
        if len(plans) == len(variants):
            _draw_plans(view, plans, phrases, plays=plays)
        elif not at_once and job.error is None:
            _follow(job)


def _steps_aside() -> bool:
    """Let threads that draw run first, between two prompts; return False, as planning is not cancelled."""
    time.sleep(0.0001)
    return False


@st.fragment(run_every=PLANNED_SECONDS)
def _follow(job: Job) -> None:
    if job.done:
        st.rerun()
    st.markdown(":shimmer[Planning from the sizes in the log]")


def _draw_plans(view: View, plans: dict[str, Replanned], phrases: list[str], *, plays: bool) -> None:
    _draw_numbers(plans, len(phrases))
    for number, phrase in enumerate(phrases):
        st.markdown(f":small[“{plain(short(phrase, 100))}”]")
        for name, plan in plans.items():
            cells = [(turn, prompt.watched[number]) for turn, prompt in plan.last.items()][-MAX_CELLS:]
            if cells:
                watching.draw_cells(f"lab-planned-{number}-{name}", name, cells, view)
    _draw_unknown(plans, plays=plays)


def _draw_numbers(plans: dict[str, Replanned], watched: int) -> None:
    # One scale for all lines.
    sizes = [turn.sent for plan in plans.values() for turn in plan.turns() if turn is not None]
    whole = partial(st.column_config.NumberColumn, format="localized")
    st.dataframe(
        [_row(name, plan, watched) for name, plan in plans.items()],
        hide_index=True,
        key="lab__planned_numbers",
        placeholder="–",
        column_config={
            "": st.column_config.TextColumn(width=32),
            "Tokens by turn": st.column_config.LineChartColumn(width=120, y_min=0, y_max=max(sizes, default=1)),
            "Tokens a turn": whole(width=98, help="Tokens of a prompt, on average over the turns that are known"),
            "Cut": whole(width=52, help="Tokens that did not fit, over the turns that are known"),
            "Flushes": whole(width=58),
            "Watched": st.column_config.TextColumn(width=92, help="Watched items in the last prompt"),
            "Known": st.column_config.TextColumn(
                width=92, help="Turns whose prompts can be computed from the log, without playing the conversation"
            ),
        },
        alt="One row for each configuration, as it is planned: tokens, cuts, flushes, what is watched, known turns",
    )


def _row(name: str, plan: Replanned, watched: int) -> dict[str, Any]:
    turns = plan.turns()
    # Unknown turns are left out of sums and averages; the last column says how many are known.
    planned_turns = [turn for turn in turns if turn is not None]
    last = list(plan.last.values())[-1:]
    return {
        "": name,
        "Tokens by turn": [turn.sent for turn in planned_turns],
        "Tokens a turn": average(planned_turns) if planned_turns else None,
        "Cut": sum(turn.cut for turn in planned_turns) if planned_turns else None,
        "Flushes": len(plan.flushes) if plan.whole else None,
        **({"Watched": kept_words(last[0], watched)} if watched and last else {}),
        "Known": f"{tokens(len(planned_turns))} of {tokens(len(turns))}",
    }


def kept_words(prompt: PlannedPrompt, watched: int) -> str:
    """Return how many watched phrases are in a prompt: `3 of 4`, or `1 to 4 of 4` if that is unknown for three."""
    inside, unsure = prompt.watched.count("prompt"), prompt.watched.count("unknown")
    return f"{inside} to {inside + unsure} of {watched}" if unsure else f"{inside} of {watched}"


def _draw_unknown(plans: dict[str, Replanned], *, plays: bool) -> None:
    """Say which turns cannot be estimated; the reason is a tooltip."""
    for name, plan in plans.items():
        first = plan.unknown_from
        if first is None:
            continue
        if not plan.whole:
            why = "it counts tokens differently, or its agent writes to memory, which the log cannot predict"
        else:
            blocks = sorted({block for prompt in plan.prompts for block in prompt.unknown})
            why = f"what {', '.join(blocks)} would hold, or lose first, must be learned or searched again"
        unknown = sum(turn is None for turn in plan.turns())
        turns = f"turn {tokens(first)}" if unknown == 1 else f"{tokens(unknown)} turns, from turn {tokens(first)} on,"
        st.markdown(
            f":small[:gray[:material/texture: {plain(name)}: {turns} can't be estimated"
            f"{'; running the replay…' if plays else '.'}]]",
            help=plain(f"Hatched: {why}."),
        )


def _cache(memory: Memory) -> _KeptPlans:
    return engine().services.cached(("lab-sizes", memory.session.database.id, memory.session_id), _KeptPlans)

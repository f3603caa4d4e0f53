"""Still true?: facts that nobody has confirmed for long, one at a time, with the keys T, X, A and S."""

import time
from functools import partial

import streamlit as st

from memory_core.planning import curation as plans
from memory_core.planning.fact_merging import Fact
from memory_inspector.reading.fact_rows import CHECK_AFTER, CHECK_FIRST, ShownFact, to_check, unconfirmed, used
from memory_inspector.wording.formatting import plain, short, tokens
from ui.facts import fact_changes, fact_tab
from ui.facts.fact_snapshot import FactSnapshot, sources_of
from ui.parts.components import empty
from ui.parts.sources import draw_source

LONGEST = 300
_AGE = "check_after"
"""Name under which the tab remembers the chosen age."""


def chosen_age(place: fact_tab.ListPosition) -> str:
    """Minimum age of the listed facts, as a key of `CHECK_AFTER`."""
    return str(fact_tab.remembered(place, _AGE) or CHECK_FIRST)


def draw_check(desk: FactSnapshot) -> None:
    """Draw the choice of an age, and the first fact not confirmed for that long."""
    key = fact_tab.key(desk.place, "check_after")
    st.segmented_control(
        "Not confirmed for",
        list(CHECK_AFTER),
        default=chosen_age(desk.place),
        required=True,
        key=key,
        on_change=lambda: fact_tab.keep(desk.place, _AGE, st.session_state[key]),
    )
    rows = to_check(desk.rows, now=time.time(), older=CHECK_AFTER[chosen_age(desk.place)])
    # Skips are shared with Review: a fact put off there is put off here too.
    skipped = {fact: place for place, fact in enumerate(fact_tab.at(desk.place).skipped, start=1)}
    # The sort is stable: what was not skipped keeps its order by age and use.
    rows.sort(key=lambda row: skipped.get(row.id, 0))
    if not rows:
        empty(
            "Nothing to check.",
            "Facts not confirmed for this long are listed here.",
            icon="done_all",
        )
        return
    _card(desk, rows[0], len(rows))


def _card(desk: FactSnapshot, row: ShownFact, listed: int) -> None:
    fact = desk.facts[row.id]
    with st.container(border=True, gap="small", key="facts__check"):
        with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
            st.markdown(f":small[:gray[1 of {tokens(listed)}]]", width="content")
            st.markdown(f":small[:gray[{unconfirmed(row, time.time())}]]", width="content")
        st.markdown(f"**{plain(short(fact.text, LONGEST))}**")
        for source in sources_of(desk, fact.id)[:1]:
            draw_source(source, elsewhere=source.session_id != desk.memory.session_id)
        st.markdown(f":small[:gray[{used(row.carried, row.cut)}]]")
        if row.asks:
            st.markdown(":small[:blue[:material/help:] The agent will ask about it.]")
        _answers(desk, fact, asks=row.asks)
        fact_changes.draw_effect(desk, lambda: plans.retire([fact]), before="Retiring it: ")


def _answers(desk: FactSnapshot, fact: Fact, *, asks: bool) -> None:
    with st.container(horizontal=True, gap="small"):
        st.button(
            "Still true",
            key="facts__confirm",
            type="primary",
            shortcut="Alt+T",
            on_click=partial(fact_changes.make, desk, partial(plans.confirm, [fact]), quiet=True),
        )
        st.button(
            "Retire",
            key="facts__retire_old",
            shortcut="Alt+X",
            on_click=partial(fact_changes.make, desk, partial(plans.retire, [fact], "outdated"), quiet=True),
        )
        why_not = "A program keeps it." if fact.key is not None else "The agent will ask already." if asks else None
        st.button(
            "Ask",
            key="facts__ask",
            shortcut="Alt+A",
            disabled=why_not is not None,
            on_click=_ask,
            args=(desk, fact),
            help=why_not or "The prompt tells the agent to ask the user whether it is still true.",
        )
        st.button("Skip", key="facts__skip_old", shortcut="Alt+S", on_click=fact_tab.skip, args=(desk.place, fact.id))


def _ask(desk: FactSnapshot, fact: Fact) -> None:
    if fact_changes.apply(desk, lambda: plans.ask([fact])):
        fact_tab.skip(desk.place, fact.id)

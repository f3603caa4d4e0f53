"""The Decisions view: the decision on each found fact, the existing facts it was compared with, and the reason."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import streamlit as st

from memory_inspector.reading.fact_history import BlockDecisions, Decided, refusals, rows, summed, why
from memory_inspector.wording.decision_text import DECISIONS
from memory_inspector.wording.formatting import plain, short, tokens
from memory_inspector.wording.marked_text import diff_pieces, markdown
from ui.facts import fact_tab
from ui.facts.fact_list import BESIDE_PIXELS, CHIP_COLOURS, MIN_PIXELS
from ui.facts.fact_snapshot import FactSnapshot
from ui.parts.components import empty, filled_rows, more_line
from ui.parts.listing import pick_row
from ui.tab import appearance

MOST = 200
"""Maximum number of decisions listed, the newest."""

REFUSALS = 5

FOUND_PIXELS = 260

COLOURS = {"Added": "green", "Updated": "blue", "Deleted": "orange", "Nothing new": "gray"}

_PICKED = "decision"


def draw_decisions(desk: FactSnapshot) -> None:
    """Draw the decisions of the block, newest first, with the details of the selected one."""
    decisions = desk.decisions
    if not decisions.decided:
        empty(
            "No decisions yet.",
            "Each found fact is compared with similar known facts. The decisions are listed here.",
            icon="balance",
        )
        _refused(decisions)
        return
    table, detail = st.columns([0.6, 0.4], gap="medium")
    shown = list(reversed(decisions.decided))[:MOST]
    facts = {row.id: row.fact.text for row in desk.rows}
    with table:
        st.markdown(f":small[:gray[{summed(decisions)}]]")
        picked = _list(desk, decisions, shown)
        _refused(decisions)
    with detail:
        _detail(decisions, picked, facts)


def _list(desk: FactSnapshot, decisions: BlockDecisions, shown: Sequence[Decided]) -> Decided:
    """Draw the table; return the selected decision, by default the newest."""
    # Remembered by log position, which stays the same when newer decisions move the rows down.
    before = fact_tab.remembered(desk.place, _PICKED)
    picked = next((decision for decision in shown if decision.position == before), shown[0])
    fact_tab.keep(desk.place, _PICKED, picked.position)
    pick_row(
        rows(decisions, shown),
        [decision.position for decision in shown],
        fact_tab.key(desk.place, "decisions"),
        partial(fact_tab.keep, desk.place, _PICKED),
        picked=picked.position,
        slot=filled_rows("facts__decided", len(shown), minus=BESIDE_PIXELS, least=MIN_PIXELS),
        height="stretch",
        column_config={
            "Turn": st.column_config.NumberColumn(width=48, format="localized", pinned=True),
            "Found": st.column_config.TextColumn(width=FOUND_PIXELS),
            "Decision": st.column_config.MultiselectColumn(
                options=list(COLOURS),
                color=[CHIP_COLOURS[appearance.mode()][decision] for decision in COLOURS.values()],
                width=108,
                pinned=True,
            ),
            "Score": st.column_config.NumberColumn(
                format="%.2f", width=60, help="Similarity, 0 to 1, of the found fact to the known fact decided on"
            ),
        },
        placeholder="–",
        alt=f"{tokens(len(shown))} decisions about found facts",
    )
    return picked


def _detail(decisions: BlockDecisions, picked: Decided, facts: dict[int, str]) -> None:
    event = picked.event
    label = DECISIONS[event.decision]
    when = f"turn {tokens(picked.turn)}" if picked.turn else "before the first turn"
    with st.container(border=True, gap="xsmall", key="facts__decision"):
        st.markdown(f"**{plain(short(decisions.describe(event.content), 160))}**")
        with st.container(horizontal=True, gap="xsmall", vertical_alignment="center"):
            st.badge(plain(label), color=_BADGES[event.decision], icon=f":material/{_ICONS[event.decision]}:")
            st.markdown(f":small[:gray[{when}]]", width="content")
        # 1. The words of an updated fact before and after; of a deleted one, what it said.
        if picked.before is not None:
            change = markdown(diff_pieces(decisions.describe(picked.before), decisions.describe(picked.after)))
            st.markdown(f":small[{change}]")
        elif event.decision == "delete" and event.fact is not None:
            st.markdown(f":small[:orange[~~{plain(facts.get(event.fact, 'words erased'))}~~]]")
        st.markdown(f":small[:gray[{plain(why(picked))}]]")
        # 2. The facts it was compared with; the one that was decided about is bold.
        if event.candidates:
            st.markdown(":small[**Compared with**]")
            near = [
                {"score": f"{score:.2f}", "fact": _candidate(fact, facts, bold=fact == event.fact)}
                for fact, score in event.candidates
            ]
            st.table(near, border=False, hide_header=True, hide_index=True)


_ICONS = {"add": "add", "update": "edit", "delete": "history", "none": "check"}

_BADGES: dict[str, Any] = {"add": "green", "update": "blue", "delete": "orange", "none": "gray"}


def _candidate(fact: int, facts: dict[int, str], *, bold: bool) -> str:
    label = plain(short(facts.get(fact, "words erased"), 120))
    return f"**{label}**" if bold else label


def _refused(decisions: BlockDecisions) -> None:
    """Draw the refused proposals."""
    lines = refusals(decisions)
    if not lines:
        return
    st.markdown(":small[**Left out**]")
    for line in lines[:REFUSALS]:
        st.markdown(f":small[:orange[:material/block:] {plain(line)}]")
    more_line(len(lines) - REFUSALS)

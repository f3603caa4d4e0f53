"""Decisions that the block made itself, for the views Decisions and Rewrites."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import streamlit as st

from memory_core.history.fact_evidence import Merged, Rewrite, RewrittenLine
from memory_core.planning import curation as plans
from memory_core.planning.fact_merging import Fact
from memory_inspector.reading.fact_history import BlockDecisions, Decided, refusals, rows, summed, why
from memory_inspector.wording.decision_text import DECISIONS
from memory_inspector.wording.formatting import plain, short, tokens
from memory_inspector.wording.marked_text import diff_pieces, markdown
from ui.facts import fact_tab
from ui.facts.fact_list import BESIDE_PIXELS, CHIP_COLOURS, MIN_PIXELS
from ui.facts.fact_tab import FactSnapshot
from ui.parts.components import empty, filled_rows, more_line
from ui.parts.listing import pick_row
from ui.tab import drawing

# -- the decision on each found fact, the existing facts it was compared with, and the reason -----


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
                color=[CHIP_COLOURS[drawing.mode()][decision] for decision in COLOURS.values()],
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


# -- results of condensing the list, with undo ----------------------------------------------------


SHOWN_REWRITES = 10
"""Maximum number of rewrites drawn."""

LINES = 30
"""Maximum number of facts of one kind drawn for one rewrite."""

LONGEST = 160


def headline(rewrite: Rewrite) -> str:
    """Return the title of a condensing: `31 facts became 24 in turn 28`"""
    return f"{tokens(rewrite.before)} facts became {tokens(rewrite.after)} in turn {tokens(rewrite.turn)}"


def sums(rewrite: Rewrite) -> str:
    """Return the totals of a condensing: `kept 20 · merged 9 → 4 · dropped 2 · unsupported 0`"""
    into = len(rewrite.merged)
    merged = sum(len(merge.sources) for merge in rewrite.merged)
    unsupported = sum(line.unsupported for line in _written(rewrite))
    parts = [f"kept {tokens(len(rewrite.kept))}", f"merged {tokens(merged)} → {tokens(into)}"]
    parts.append(f"dropped {tokens(len(rewrite.vanished))}")
    parts += [f"new {tokens(len(rewrite.new))}"] if rewrite.new else []
    parts.append(f"unsupported {tokens(unsupported)}")
    return " · ".join(parts)


def lost(rewrite: Rewrite) -> list[Fact]:
    """Facts that a condensing dropped, as far as they can be restored."""
    # An erased fact is None here; one that a person restored or retired since is not superseded any more.
    return [line.fact for line in rewrite.vanished if line.fact is not None and line.replaced]


def draw_rewrites(desk: FactSnapshot) -> None:
    """Draw the newest condensings, each with the facts it dropped, merged and wrote."""
    if not desk.rewrites:
        block = next((a for a in desk.memory.blocks if a.name == desk.block), None)
        # 50 is the default of `max_facts`, for a block that was removed.
        most = block.record.settings.get("max_facts", 50) if block is not None else 50
        empty(
            "No rewrites yet.",
            f"Above {tokens(int(most))} active facts the list is condensed. Facts kept, merged or lost appear here.",
            icon="compress",
        )
        return
    st.markdown(":small[:gray[Each time the list was condensed: what was kept, merged and dropped.]]")
    for rewrite in desk.rewrites[:SHOWN_REWRITES]:
        with st.container(border=True, gap="small", key=f"facts__rewrite_{rewrite.position}"):
            _draw_rewrite(desk, rewrite)


def _draw_rewrite(desk: FactSnapshot, rewrite: Rewrite) -> None:
    st.markdown(f"**{headline(rewrite)}**  \n:small[{sums(rewrite)}]")
    if rewrite.refused:
        st.markdown(":small[:gray[Refused: the earlier list applies again.]]")
    gone = lost(rewrite)
    with st.container(horizontal=True, gap="small"):
        if gone and not rewrite.refused:
            st.button(
                "Restore it, pinned" if len(gone) == 1 else f"Restore all {tokens(len(gone))}, pinned",
                key=f"facts__restore_all_{rewrite.position}",
                icon=":material/keep:",
                on_click=fact_tab.make,
                args=(desk, partial(plans.restore_vanished, gone, True)),
            )
        if not rewrite.refused:
            st.button(
                "Refuse the rewrite",
                key=f"facts__refuse_{rewrite.position}",
                icon=":material/undo:",
                help="Restores the longer list; later changes stay.",
                on_click=fact_tab.refuse,
                args=(desk, rewrite),
            )
    before, after = st.columns(2, gap="medium")
    with before, st.container(gap="xxsmall"):
        for line in rewrite.vanished[:LINES]:
            _vanished(desk, rewrite, line)
        if not rewrite.vanished:
            st.markdown(":small[:gray[Nothing was dropped.]]")
        more_line(len(rewrite.vanished) - LINES)
    with after, st.container(gap="xsmall"):
        for merge in rewrite.merged[:LINES]:
            _merged(merge)
        for line in rewrite.new[:LINES]:
            st.markdown(f":small[:blue[**+**] {_words(line)}{_doubt(line)}]")
        more_line(max(0, len(rewrite.merged) - LINES) + max(0, len(rewrite.new) - LINES))


def _vanished(desk: FactSnapshot, rewrite: Rewrite, line: RewrittenLine) -> None:
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        # A restored fact is not lost any more, and "words erased" is no text that could be struck out.
        struck = _words(line) if line.restored or not line.text else f":red[~~{_words(line)}~~]"
        st.markdown(f":small[:red[:material/content_cut:] {struck}]", width="content")
        if line.restored:
            st.markdown(":small[:gray[Restored]]", width="content")
        elif line.fact is not None and line.replaced and not rewrite.refused:
            st.button(
                "Restore",
                key=f"facts__restore_{rewrite.position}_{line.id}",
                type="tertiary",
                on_click=fact_tab.make,
                args=(desk, partial(plans.restore_vanished, [line.fact], False)),
            )


def _merged(merge: Merged) -> None:
    # One of the merged facts may have been kept as the result; it is not listed as gone.
    sources = "  \n".join(f":gray[−] {_words(line)}" for line in merge.sources if line.id != merge.into.id)
    st.markdown(f":small[{sources}  \n:blue[**→**] {_words(merge.into)}{_doubt(merge.into)}]")


def _doubt(line: RewrittenLine) -> str:
    return " :orange[:material/warning: unsupported]" if line.unsupported else ""


def _words(line: RewrittenLine) -> str:
    return plain(short(line.text, LONGEST)) if line.text else ":gray[words erased]"


def _written(rewrite: Rewrite) -> list[RewrittenLine]:
    """Facts whose text the rewrite wrote itself."""
    return [*(merge.into for merge in rewrite.merged), *rewrite.new]

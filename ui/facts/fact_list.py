"""The left side of Facts: search, filter, and the list with its ticks."""

import time
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import streamlit as st

from memory_core.events import Ref
from memory_core.tracing.effects import Effect, Effects
from memory_inspector.reading.fact_rows import (
    AGES,
    CHIPS,
    SORTS,
    SOURCES,
    STATES,
    FactFilter,
    Picked,
    ShownFact,
    View,
    categories_count,
    chips,
    in_view,
    matching_rows,
    nothing_found,
    picked_now,
    sorted_rows,
    states_count,
    still_there,
    topics_count,
)
from memory_inspector.wording.event_sentences import MARKS
from memory_inspector.wording.formatting import plain, short, tokens
from ui.facts import fact_tab
from ui.parts.components import filled_rows
from ui.parts.struck import brief, greyed
from ui.tab import drawing

BESIDE_PIXELS, MIN_PIXELS = 380, 300
"""Height in pixels used above and below the list; minimum height of the list."""

STATE_PIXELS, CHIP_PIXELS, REASON_PIXELS = 150, 104, 174
"""Widths in pixels of the state column: for two chips in a row, for one, and for reasons why rows are grey."""

FACT_PIXELS = 264
"""Minimum width in pixels of the column Fact; the table scrolls to columns that do not fit beside it."""

MAX_LABELS = 16
"""Maximum number of categories or topics in the filter."""


def draw_search(place: fact_tab.ListPosition, rows: Sequence[ShownFact], view: View, *, elsewhere: bool) -> None:
    """Draw the search field and the filter. `elsewhere`: some facts come from other sessions."""
    wanted = fact_tab.at(place).wanted
    key = fact_tab.key(place, "search")
    st.text_input(
        "Search facts",
        value=wanted.words,
        key=key,
        placeholder="Search facts",
        icon=":material/search:",
        label_visibility="collapsed",
        width="stretch",
        on_change=_search,
        args=(place, key),
    )
    says = "Filter" if not wanted.filters else f"Filter: {tokens(wanted.filters)}"
    opened = st.popover(says, icon=":material/filter_list:", key="facts__filter", on_change="rerun")
    if opened.open:
        with opened:
            _filter(place, rows, view, wanted, elsewhere=elsewhere)


def draw_list(
    place: fact_tab.ListPosition, rows: Sequence[ShownFact], view: View, effects: Effects, *, several: bool
) -> list[ShownFact]:
    """Draw the list of a view, keep the selection by id, and return the rows drawn.

    Facts without effect on the prompt shown are grey, with the reason in the state column. `several` allows ticking.
    """
    wanted = fact_tab.at(place).wanted
    # 1. What is listed, and which selection of before still fits it. Ticks outlive a search that hides their rows.
    listed = in_view(rows, view)
    shown = sorted_rows(matching_rows(listed, wanted, now=time.time()), fact_tab.at(place).order)
    ids = tuple(row.id for row in shown)
    picked = still_there(fact_tab.at(place).picked, {row.id for row in listed})
    # The open fact was filtered out or deleted: the panel shows the first one instead of nothing.
    if picked.open not in ids and ids:
        picked = Picked(ids[0], picked.ticked)
    fact_tab.change(place, picked=picked)
    if not shown:
        with st.container(border=True, horizontal_alignment="center", gap="xsmall"):
            st.space("small")
            st.markdown(f":gray[{plain(nothing_found(rows, wanted, view, now=time.time()))}]", text_alignment="center")
            st.button("Clear", key="facts__clear", type="tertiary", on_click=_clear, args=(place,))
            st.space("small")
        return shown
    order = fact_tab.at(place).order
    # 2. A line above the table, only where a filter or another order explains what is listed.
    match = f"{tokens(len(shown))} of {tokens(len(listed))} match" if wanted.words.strip() or wanted.filters else ""
    if about := " · ".join(filter(None, [match, SORTS[order] if order != "newest" else ""])):
        st.markdown(f":small[:gray[{about}]]")
    # 3. The state column says why a grey row is in no prompt; columns in which all rows agree are left out.
    found_effects = [effects.of(Ref.of("fact", row.id)) for row in shown]
    states = [_states(row, effect) for row, effect in zip(shown, found_effects, strict=True)]
    columns = {"State": any(states), "Category": len({row.fact.category for row in shown}) > 1}
    gone = [place for place, effect in enumerate(found_effects) if effect is not None and not effect.shown]
    reasons = dict.fromkeys(states[place][0] for place in gone)
    # Selections are indexes into the list as drawn: another list needs another widget, with the selection passed in.
    key = fact_tab.key(place, f"list_{zlib.crc32(repr((view, ids, several)).encode())}")
    colours = CHIP_COLOURS[drawing.mode()]
    drawn: Any = filled_rows("facts__rows", len(shown), minus=BESIDE_PIXELS, least=MIN_PIXELS).dataframe(
        greyed([_row(row, state, columns) for row, state in zip(shown, states, strict=True)], gone, "Fact"),
        key=key,
        hide_index=True,
        height="stretch",
        column_config={
            "Fact": st.column_config.TextColumn(
                "Fact",
                width=FACT_PIXELS,
                help="Click the words to open a fact" + ", tick it to change several" * several,
            ),
            "State": st.column_config.MultiselectColumn(
                "State",
                help=f"Grey facts are not in the prompt of turn {tokens(effects.turn or 0)}" if gone else None,
                options=[*CHIPS, *reasons],
                color=[colours[name] for name in [*CHIPS.values(), *("gray" for _ in reasons)]],
                width=_state_pixels(states, bool(gone)),
                pinned=True,  # first, so that neither a long fact nor a phone pushes it out of sight
            ),
            "Turn": st.column_config.NumberColumn(width=50, format="localized", help="Turn in which it was learned"),
            "Tokens": st.column_config.NumberColumn(width=60, format="localized"),
            "Prompts": st.column_config.NumberColumn(width=64, format="localized", help="Prompts that contained it"),
            "Category": st.column_config.TextColumn(width=84),
        },
        placeholder="–",
        on_select="rerun",
        selection_mode=["multi-row", "single-cell"] if several else ["single-cell"],
        selection_default=_selection(picked if several else Picked(picked.open), ids),
        alt=f"{tokens(len(shown))} facts with their states",
    )
    # 4. Kept by id, because the next drawing may list other rows.
    fact_tab.change(place, picked=_clicked(place, key, ids, picked, drawn["selection"]))
    return shown


def _row(row: ShownFact, state: list[str], columns: dict[str, bool]) -> dict[str, Any]:
    """Return a row of the table; a column that is False in `columns` is left out."""
    values = {
        "State": state,
        "Fact": row.fact.text,
        "Turn": row.fact.turn or None,  # before the first turn
        "Tokens": row.fact.tokens,
        "Prompts": row.carried,
        "Category": row.fact.category,  # last, as the numbers must be in sight beside the state
    }
    return {name: value for name, value in values.items() if columns.get(name, True)}


def _states(row: ShownFact, effect: Effect | None) -> list[str]:
    """Return the chips of a row: why it is not in the prompt shown, and its state unless the reason names it."""
    labels = chips(row)
    # Without a prompt no effect is known, and only the present labels are shown.
    if effect is None or effect.shown:
        return labels
    # Superseded, merged, retired: a decision about the fact itself, not about this prompt.
    put_aside = effect.stage.name == "kept"
    if put_aside and row.fact.state == "active":  # restored since
        labels = [STATES["active"], *labels]
    elif put_aside:
        # "Superseded in turn 31" says it already: the bare state beside it would only repeat it.
        labels = [label for label in labels if label not in STATES.values()]
    if effect.stage.rule == "quarantined":  # the chip says it as well
        labels = [label for label in labels if label != "Quarantined"]
    return [brief(effect.stage), *labels]


def _state_pixels(states: Sequence[Sequence[str]], reasons: bool) -> int:
    if reasons:
        return REASON_PIXELS
    return STATE_PIXELS if any(len(label) > 1 for label in states) else CHIP_PIXELS


def _clicked(place: fact_tab.ListPosition, key: str, ids: Sequence[int], picked: Picked, selection: Any) -> Picked:
    """Selection after this drawing: it changes only with a new click."""
    selected = (key, tuple(selection["rows"]), tuple(cell[0] for cell in selection["cells"]))
    before = fact_tab.remembered(place, "clicked")
    fact_tab.keep(place, "clicked", selected)
    # The first drawing of a table reports the selection that was passed in: nobody clicked.
    if before is None or before[0] != key or before == selected:
        return picked
    return picked_now(picked, ids, selected[1], selected[2][0] if selected[2] else None)


def _selection(picked: Picked, ids: Sequence[int]) -> Any:
    # A ticked fact that the search hides has no row to select; it stays ticked in the tab's state.
    rows = [ids.index(id) for id in picked.ticked if id in ids]
    cells = [(ids.index(picked.open), "Fact")] if picked.open in ids else []
    return {"selection": {"rows": rows, "columns": [], "cells": cells}}


def _filter(
    place: fact_tab.ListPosition, rows: Sequence[ShownFact], view: View, wanted: FactFilter, *, elsewhere: bool
) -> None:
    sizes = states_count(in_view(rows, view))
    names = {**STATES, **{name: label for name, (label, _, _) in MARKS.items()}}

    def key(name: str) -> str:
        return fact_tab.key(place, f"filter_{name}")

    def changed() -> None:
        # All fields are read together. One that is not drawn, such as Learned in, counts as its default.
        got = st.session_state
        fact_tab.change(
            place,
            order=got.get(key("sort")) or "newest",
            wanted=replace(
                fact_tab.at(place).wanted,
                states=tuple(got.get(key("states")) or ()),
                sources=tuple(got.get(key("sources")) or ()),
                age=got.get(key("age")) or "Any age",
                where=got.get(key("where")) or "any",
                suspicious=bool(got.get(key("suspicious"))),
                categories=tuple(got.get(key("categories")) or ()),
                topics=tuple(got.get(key("topics")) or ()),
            ),
        )

    st.selectbox(
        "Sort",
        list(SORTS),
        index=list(SORTS).index(fact_tab.at(place).order),
        key=key("sort"),
        format_func=lambda order: SORTS[order],
        on_change=changed,
    )
    # A chosen state stays on offer when its last fact leaves it, or nobody could take the choice back.
    offered = [state for state in names if sizes[state] or state in wanted.states]
    st.pills(
        "State",
        offered,
        selection_mode="multi",
        default=[state for state in wanted.states if state in offered],
        key=key("states"),
        format_func=lambda state: f"{names[state]} {tokens(sizes[state])}",
        on_change=changed,
    )
    st.pills(
        "Source",
        [source for source in SOURCES if any(row.source == source for row in rows)],
        selection_mode="multi",
        default=[source for source in wanted.sources if any(row.source == source for row in rows)],
        key=key("sources"),
        format_func=lambda source: SOURCES[source],
        on_change=changed,
    )
    _labels("Category", categories_count(in_view(rows, view)), wanted.categories, key("categories"), changed)
    _labels("Topic", topics_count(in_view(rows, view)), wanted.topics, key("topics"), changed)
    if elsewhere:
        st.segmented_control(
            "Learned in",
            ["any", "here", "elsewhere"],
            default=wanted.where,
            required=True,
            key=key("where"),
            format_func={"any": "Any session", "here": "This session", "elsewhere": "Other sessions"}.__getitem__,
            on_change=changed,
        )
    st.segmented_control("Age", list(AGES), default=wanted.age, required=True, key=key("age"), on_change=changed)
    st.toggle("Suspicious only", value=wanted.suspicious, key=key("suspicious"), on_change=changed)
    if wanted.filters:
        st.button("Clear filters", key="facts__clear_filters", type="tertiary", on_click=_clear, args=(place,))


def _labels(title: str, sizes: Counter[str], wanted: Sequence[str], key: str, changed: Callable[[], None]) -> None:
    """Draw a choice of labels, the most frequent first; nothing if there are fewer than two."""
    # Chosen labels first and always: one that is no longer frequent must still be there to be cleared.
    offered = list(dict.fromkeys((*wanted, *list(sizes)[:MAX_LABELS])))
    # A single label filters nothing.
    if len(offered) < 2 and not wanted:
        return
    st.pills(
        title,
        offered,
        selection_mode="multi",
        default=list(wanted),
        key=key,
        format_func=lambda label: f"{plain(short(label))} {tokens(sizes[label])}",
        on_change=changed,
    )


def _search(place: fact_tab.ListPosition, key: str) -> None:
    fact_tab.change(place, wanted=replace(fact_tab.at(place).wanted, words=st.session_state[key]))


def _clear(place: fact_tab.ListPosition) -> None:
    fact_tab.change(place, wanted=FactFilter())
    # The fields hold the old values under their keys: new keys start them from the empty filter.
    fact_tab.redraw(place)


CHIP_COLOURS = {
    "light": {"blue": "#DCE6FD", "green": "#D5F2E3", "violet": "#E9E2FC", "orange": "#FCE6CC", "gray": "#E6E8EC"},
    "dark": {"blue": "#1E3A70", "green": "#12482F", "violet": "#3B2A6B", "orange": "#5C3A0E", "gray": "#343A46"},
}
"""Background colours of the chips; the table chooses black or white text by itself."""

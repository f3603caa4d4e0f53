"""The recipes section of the Blocks page: choose a memory system by what switching to it would change."""

from collections import Counter
from typing import Any

import streamlit as st

from memory_core import ConfigError
from memory_core.events import RecipeChosen
from memory_core.recipes import RECIPES, Recipe
from memory_core.sessions.switch_recipe import SwitchPlan
from memory_inspector.reading.recipe_rows import (
    opening,
    plan_for,
    plan_lines,
    rows_in_words,
    running_on,
    switched,
    title_of,
)
from memory_inspector.wording.block_kinds import kind_of, units
from memory_inspector.wording.formatting import count, plain, short
from ui.lab import tried_variants
from ui.parts import toasts
from ui.parts.components import (
    closing_buttons,
    dialog,
    drawer_actions,
    error_noticed,
    heading,
    unseen_heading,
)
from ui.tab import nav, state
from ui.tab.model import chosen_model, services_for
from ui.tab.people import allowed
from ui.tab.services import engine
from ui.tab.view import View

ROW_PIXELS = 61
"""Height of a row for three lines of text: the table wraps text from this height on."""


def draw(view: View) -> None:
    """Draw the session's recipe, the ten recipes, and the selected one."""
    memory, session_id = view.memory, view.memory.session_id
    # 1. The past is read from the log.
    config = view.history.config_at(view.position) if view.past else memory.session.config
    blocks = view.history.blocks_at(view.position) if view.past else memory.blocks
    current, changed = (config.recipe, False) if view.past else running_on(memory)
    unseen_heading("Recipes")
    st.markdown(opening(title_of(current, changed=changed), view.shown_turn, len(blocks)))
    # 2. A link selects before the table is drawn, and the table's own selection is written back after it.
    take_link(session_id)
    chosen = _table(session_id, current)
    link.put(chosen)
    if chosen is not None:
        _detail(view, RECIPES[chosen], current=current)
    else:
        st.markdown(":small[:gray[Click a recipe to see what switching to it would change, or to try it in the Lab.]]")


def _table(session_id: str, current: str | None) -> str | None:
    """Draw one row per recipe; return the key of the selected one."""
    keys = list(RECIPES)
    # From the state: a click has changed it in its callback, before this drawing.
    chosen = picked(session_id)
    key = f"recipes__rows_{generation()}"
    st.dataframe(
        rows_in_words(current),
        key=key,
        hide_index=True,
        height="content",
        row_height=ROW_PIXELS,
        column_config=_COLUMNS,
        on_select=lambda: _pick_row(session_id, key, keys),
        selection_mode="single-cell",
        selection_default={"selection": {"cells": [(keys.index(chosen), "Recipe")] if chosen else []}},
        alt="The ten recipes, with what each is good and weak at",
    )
    return chosen


def _pick_row(session_id: str, table: str, keys: list[str]) -> None:
    cells = st.session_state[table]["selection"]["cells"]
    # Rows are in the order of `RECIPES`, so that the row number leads to the key.
    pick(session_id, keys[cells[0][0]] if cells else None)


_COLUMNS = {
    "Recipe": st.column_config.TextColumn(width=150, help="✓ marks the recipe in use"),
    "In one line": st.column_config.TextColumn(width=230),
    "Good at": st.column_config.TextColumn(width=210),
    "Weak at": st.column_config.TextColumn(width=240),
}


# -- the picked one --------------------------------------------------------------------------------


def _detail(view: View, recipe: Recipe, *, current: str | None) -> None:
    with st.container(border=True, gap="small", key="recipes__detail"):
        list_column, detail_column = st.columns([0.42, 0.58], gap="medium")
        with list_column:
            heading(plain(recipe.title), f"\n:small[{plain(recipe.when)}]")
            st.markdown(
                f":small[:material/add_circle: {plain(recipe.strengths)}  \n"
                f":material/do_not_disturb_on: {plain(recipe.limits)}]"
            )
        with detail_column:
            if view.read_only:
                st.markdown(f":small[:gray[{plain(view.read_only.sentence)}]]")
            else:
                parameters = _parameters(view, recipe)
                # Planned by the engine that would switch, so that the sentences say what the button does.
                plan, refused = plan_for(view.memory, recipe.key, **parameters)
                _switch(view, recipe, plan, refused, parameters, current=current)


def _parameters(view: View, recipe: Recipe) -> dict[str, Any]:
    """Parameters chosen for the recipe, if it offers a choice that changes what is kept."""
    if "overflow" not in recipe.parameters:
        return {}
    config = view.memory.session.config
    # Parameters are those of the recipe in use; another recipe begins with its defaults.
    stored = config.recipe_parameters if config.recipe == recipe.key else {}
    chosen = st.segmented_control(
        "Turns that leave the queue are kept",
        list(_OVERFLOW),
        default={**recipe.parameters, **stored}["overflow"],
        format_func=lambda value: _OVERFLOW[value],
        required=True,
        key=f"recipes__overflow_{recipe.key}",
    )
    return {"overflow": str(chosen)}


_OVERFLOW = {"verbatim": "Word for word", "summarised": "As one summary"}


def _switch(
    view: View,
    recipe: Recipe,
    plan: SwitchPlan | None,
    refused: str | None,
    parameters: dict[str, Any],
    *,
    current: str | None,
) -> None:
    """Show the effects of a switch above the button that performs it."""
    if plan is None:
        st.warning(plain(refused or ""), icon=":material/person_off:")
        return
    # An empty plan of the recipe in use: nothing was changed since it was chosen.
    if recipe.key == current and not plan:
        st.markdown(":material/check: **In use.** The session matches this recipe.")
        _filling(view)
        return
    lines = plan_lines(plan, units(view.memory)) or ["Settings and blocks already match: only the name changes."]
    st.markdown("  \n".join(lines))
    calls = _learning_calls(plan)
    if calls:
        st.markdown(f":small[:orange[:material/smart_toy:] {calls}]")
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        if st.button(
            f"Switch to {plain(recipe.title)}" if recipe.key != current else f"Go back to {plain(recipe.title)}",
            key="recipes__switch",
            type="primary",
            icon=":material/swap_horiz:",
            **allowed(RecipeChosen, disabled=view.running is not None),
        ):
            switch_dialog(view.memory.session_id, recipe.key, parameters)
        if st.button(
            "Try it in the Lab",
            key="recipes__try",
            type="tertiary",
            icon=nav.icon("lab"),
            disabled=not view.status.turns,
            help="This conversation with it, beside the session as it is. Nothing is stored."
            if view.status.turns
            else "Nothing was said yet.",
        ):
            tried_variants.begin_with(view.memory.session_id, recipe.key)
            nav.go("lab", view="compare")


@dialog("Switch recipe", "swap_horiz", side=True)
def switch_dialog(session_id: str, key: str, parameters: dict[str, Any]) -> None:
    """Show what is removed and kept once more before the session is switched."""
    # Opened and planned again: the dialog may be drawn long after the page.
    memory = engine().open(session_id)
    plan, refused = plan_for(memory, key, **parameters)
    if plan is None:
        st.warning(plain(refused or ""), icon=":material/person_off:")
        return
    title = RECIPES[key].title
    st.markdown(f"Switch to **{plain(title)}**?")
    for line in plan_lines(plan, units(memory)) or ["Settings and blocks already match: only the name changes."]:
        st.markdown(line)
    calls = _learning_calls(plan)
    if calls:
        st.markdown(f":small[:orange[:material/smart_toy:] {calls}]")
    if plan:
        st.markdown(f":small[{_NO_WAY_BACK}]")
    closing_buttons(
        f"Switch to {title}",
        _do,
        (session_id, key, parameters),
        row=drawer_actions("switch"),
        keys=("recipes__switch_do", "recipes__switch_cancel"),
    )


_NO_WAY_BACK = (
    "This cannot be undone: switching back fills new blocks from the messages and restores nothing that was deleted."
)


def _filling(view: View) -> None:
    """Show deliveries still due to blocks that a switch added; the page is redrawn as they proceed."""
    # Parked deliveries are left out: they wait for a person, and fill nothing meanwhile.
    due = Counter(delivery.block for delivery in view.memory.session.deliveries(states=("pending",)))
    for name, deliveries in due.items():
        to_go = f"{count(deliveries, 'delivery')} to go"
        st.markdown(f":small[:orange[:material/hourglass_top: {plain(short(name))} is being filled: {to_go}.]]")


def _learning_calls(plan: SwitchPlan) -> str:
    """Announcement of the model calls needed to fill blocks; empty without a model."""
    # Blocks that copy or embed what they get ask no chat model.
    fills = [block.fills for block in plan.added if block.fills and kind_of(block.kind).asks_model]
    try:
        chosen = chosen_model()
    except ConfigError:
        return ""
    if not fills or chosen.offline:
        return ""
    return f"Filling asks {plain(short(chosen.model.name, 40))} to read {count(sum(fills), 'message')}."


@error_noticed
def _do(session_id: str, key: str, parameters: dict[str, Any]) -> None:
    chosen = chosen_model()
    # Without waiting: filling the new blocks can take a model minutes, and goes on in the background.
    plan = engine().open(session_id, services_for(chosen)).session.switch(key, wait=False, **parameters)
    toasts.done(switched(plan))


# -- the recipe selected in this tab, by a click or by a URL --------------------------------------


link = state.PageLink("recipes_written", "recipe")
"""URL parameter with the key of the picked recipe."""

_PICKED: state.ByPlace[str | None] = state.ByPlace("recipes_picked", None)
_DRAWN = "recipes_generation"


def picked(session_id: str) -> str | None:
    """Key of the selected recipe."""
    return _PICKED.at(session_id)


def pick(session_id: str, key: str | None) -> None:
    _PICKED.put(session_id, key)


def generation() -> int:
    """Counter that increases when the table must be redrawn with a selection made by a link."""
    return int(st.session_state.get(_DRAWN, 0))


def take_link(session_id: str) -> None:
    """Select the recipe that the URL requests, unless this page wrote it there itself."""
    (asked,) = link.take()
    # A selection that is passed in counts for a new table only, so that the table gets another key.
    if asked in RECIPES:
        pick(session_id, asked)
        st.session_state[_DRAWN] = generation() + 1

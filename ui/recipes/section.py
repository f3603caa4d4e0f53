"""The recipes section of the Blocks page: choose a memory system by its effect on this conversation."""

from collections import Counter
from typing import Any

import streamlit as st

from memory_core import ConfigError, Context
from memory_core.events import RecipeChosen
from memory_core.recipes import RECIPES, Recipe
from memory_core.sessions.switch_recipe import SwitchPlan
from memory_inspector.figures.recipe_figure import bars_figure, lines_figure
from memory_inspector.palette import block_colour
from memory_inspector.reading.recipe_rows import (
    PartShown,
    Tried,
    freshness,
    highest,
    number_rows,
    opening,
    parts_of,
    plan_for,
    plan_lines,
    prompt_sentence,
    running_on,
    sent_by_turn,
    switched,
    title_of,
    word_rows,
)
from memory_inspector.server.jobs import Job
from memory_inspector.wording.block_kinds import kind_of
from memory_inspector.wording.formatting import count, plain, short, tokens
from memory_inspector.wording.unit_names import units
from ui.parts import toasts
from ui.parts.components import (
    chart,
    closing_button,
    drawer_actions,
    error_inside,
    error_noticed,
    heading,
    numbers_table,
    unseen_heading,
)
from ui.recipes import recipe_trials
from ui.recipes.picked import generation, pick, picked, take_link, write_link
from ui.tab.appearance import mode
from ui.tab.model import chosen_model, services_for
from ui.tab.people import allowed
from ui.tab.services import engine
from ui.tab.view import View

WORD_ROW_PIXELS = 61
"""Row height for three lines of text: the table wraps text from this height on."""

ENTRIES = 30
"""Maximum number of items drawn per part."""

ENTRY_CHARACTERS = 600


def draw(view: View) -> None:
    """Draw the session's recipe, the ten recipes, and the selected one."""
    memory, session_id = view.memory, view.memory.session_id
    # 1. The past is read from the log, and without trials: those are of the conversation as it is now.
    config = view.history.config_at(view.position) if view.past else memory.session.config
    blocks = view.history.blocks_at(view.position) if view.past else memory.blocks
    tried = None if view.past else recipe_trials.result(memory)
    current, changed = (config.recipe, False) if view.past else running_on(memory)
    unseen_heading("Recipes")
    st.markdown(opening(title_of(current, changed=changed), view.shown_turn, len(blocks), tried))
    # 2. A link selects before the table is drawn, and the table's own selection is written back after it.
    take_link(session_id)
    job = None if view.past else recipe_trials.running(memory)
    in_words = _head(view, tried, job)
    chosen = _table(session_id, tried, current, in_words=in_words)
    write_link(chosen)
    if chosen is not None:
        _detail(view, RECIPES[chosen], tried, current=current)
    else:
        st.markdown(":small[:gray[Click a recipe to see what switching to it would keep, add and remove.]]")


def _head(view: View, tried: Tried | None, job: Job | None) -> bool:
    """Draw the view switch, the trial button and its progress; return whether the table shows words."""
    shown = "In words"
    with st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="center", key="recipes__head"
    ):
        if tried is not None:
            shown = str(
                st.segmented_control(
                    "Show",
                    ["On this conversation", "In words"],
                    default="On this conversation",
                    required=True,
                    key="recipes__show",
                    label_visibility="collapsed",
                    width="content",
                )
            )
        elif job is None and not view.past:
            st.markdown(":small[:gray[Trials use rules: no model is called, and nothing changes.]]", width="stretch")
        # The conversation went on, or the trial was cancelled: its numbers are not of what is shown.
        stale = tried is not None and (tried.position != view.status.position or tried.stopped)
        if job is not None:
            recipe_trials.follow(view.memory.session_id)
            st.button("Cancel", key="recipes__cancel", on_click=job.cancel.set)
        elif not view.past and (tried is None or stale):
            st.button(
                "Try them on this conversation" if tried is None else "Try again",
                key="recipes__try",
                icon=":material/science:",
                type="primary" if tried is None else "secondary",
                disabled=not view.status.turns,
                help=None if view.status.turns else "Nothing was said yet.",
                on_click=recipe_trials.begin,
                args=(view.memory.session_id,),
            )
    if tried is not None and shown != "In words":
        stopped = " Cancelled: the rest was not tried." if tried.stopped else ""
        st.markdown(f":small[:gray[{freshness(tried, view.status.turns)}{stopped}]]")
    return tried is None or shown == "In words"


def _table(session_id: str, tried: Tried | None, current: str | None, *, in_words: bool) -> str | None:
    """Draw one row per recipe; return the key of the selected one."""
    keys = list(RECIPES)
    # From the state: a click has changed it in its callback, before this drawing.
    chosen = picked(session_id)
    key = f"recipes__rows_{'words' if in_words else 'numbers'}_{generation()}"
    rows: list[dict[str, Any]]
    if in_words or tried is None:
        rows, columns, height = list(word_rows(current)), _WORD_COLUMNS, WORD_ROW_PIXELS
    else:
        rows, columns, height = number_rows(tried, current), _number_columns(highest(tried)), None
    st.dataframe(
        rows,
        key=key,
        hide_index=True,
        height="content",
        row_height=height,
        column_config=columns,
        placeholder="–",
        on_select=lambda: _pick_row(session_id, key, keys),
        selection_mode="single-cell",
        selection_default={"selection": {"cells": [(keys.index(chosen), "Recipe")] if chosen else []}},
        alt="The ten recipes, with what each is good and weak at, or what each made of this conversation",
    )
    return chosen


def _pick_row(session_id: str, table: str, keys: list[str]) -> None:
    cells = st.session_state[table]["selection"]["cells"]
    # Rows are in the order of `RECIPES`, so that the row number leads to the key.
    pick(session_id, keys[cells[0][0]] if cells else None)


_MARKED = "✓ marks the recipe in use"

_WORD_COLUMNS = {
    "Recipe": st.column_config.TextColumn(width=150, help=_MARKED),
    "In one line": st.column_config.TextColumn(width=230),
    "Good at": st.column_config.TextColumn(width=210),
    "Weak at": st.column_config.TextColumn(width=240),
}


def _number_columns(scale: int) -> dict[str, Any]:
    whole = st.column_config.NumberColumn
    return {
        "Recipe": st.column_config.TextColumn(width=215, help=_MARKED),
        # The columns would look alike if each line had a scale of its own.
        "Tokens by turn": st.column_config.LineChartColumn(
            width=180, y_min=0, y_max=scale, help="The prompt of each turn; one scale for all recipes"
        ),
        "Tokens per turn": whole(format="localized", width=110, help="Tokens of a prompt, on average"),
        "Last prompt": whole(format="localized", width=90, help="Tokens of the last turn's prompt"),
        "Flushes": whole(format="localized", width=70, help="Turns in which the oldest messages left the queue"),
        "Cut": whole(format="localized", width=70, help="Tokens that did not fit, over all turns"),
        "Calls to learn": whole(
            format="localized", width=90, help="Calls a model would need for learning; rules need none"
        ),
    }


# -- the picked one --------------------------------------------------------------------------------


def _detail(view: View, recipe: Recipe, tried: Tried | None, *, current: str | None) -> None:
    refused = None
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
    trial = tried.of(recipe.key) if tried is not None else None
    if tried is not None and trial is not None and trial.prompt is not None:
        if trial.error:
            st.warning(plain(trial.error))
        _numbers(view, recipe, tried)
        # Two prompts can be compared only if both know the same messages.
        if tried.position == view.status.position:
            _prompts(recipe, tried.now, trial.prompt)
        elif not view.past:
            st.markdown(":small[:gray[The session changed since. Try again to compare the next prompts.]]")
    elif tried is not None and refused is None:
        # A recipe that `plan_for` refuses now has said why already, beside its title.
        why = tried.refused(recipe.key) or "Not tried: the trial was cancelled earlier."
        st.markdown(f":small[:gray[{plain(why)}]]")


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
    if st.button(
        f"Switch to {plain(recipe.title)}" if recipe.key != current else f"Go back to {plain(recipe.title)}",
        key="recipes__switch",
        type="primary",
        icon=":material/swap_horiz:",
        **allowed(RecipeChosen, disabled=view.running is not None),
    ):
        switch_dialog(view.memory.session_id, recipe.key, parameters)


@st.dialog("Switch recipe", width=440, position="right", icon=":material/swap_horiz:", on_dismiss="rerun")
@error_inside
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
    with drawer_actions("switch"):
        closing_button(
            f"Switch to {title}", _do, (session_id, key, parameters), kind="primary", key="recipes__switch_do"
        )
        closing_button("Cancel", key="recipes__switch_cancel")


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


def _numbers(view: View, recipe: Recipe, tried: Tried) -> None:
    """Draw tokens by turn: of the recipe, of the session itself, and behind them of the other recipes."""
    trial = tried.of(recipe.key)
    if trial is None or not trial.turns:
        return
    # A long session is tried on its last turns only.
    first = tried.first_turn
    # Trials count their turns from 1, the session from `first` on.
    really = {turn - first + 1: sent for turn, sent in sent_by_turn(view.history).items() if turn >= first}
    heading("Tokens by turn", level=3)
    chart(
        lines_figure(
            [turn.sent for turn in trial.turns],
            recipe.title,
            really,
            [[turn.sent for turn in other.turns] for other in tried.trials if other.recipe != recipe.key],
            mode(),
            limit=trial.prompt.plan.token_limit if trial.prompt is not None else view.status.token_limit,
            first=first,
        ),
        "recipes__lines",
        f"Tokens of each turn's prompt with {recipe.title}, beside what was really sent",
    )
    numbers_table(
        lambda: [
            {
                "Turn": first + turn.turn - 1,
                recipe.title: turn.sent,
                "This session": really.get(turn.turn),
                "Cut": turn.cut,
                "Flushed": turn.flushed,
                "Calls to learn": turn.calls,
            }
            for turn in trial.turns
        ],
        "recipes__lines_numbers",
    )


def _prompts(recipe: Recipe, now: Context, then: Context) -> None:
    """Draw the next prompt part by part beside the present one."""
    st.markdown(prompt_sentence(recipe.title, now, then))
    before, after = parts_of(now), parts_of(then)
    chart(
        bars_figure(before, after, recipe.title, mode(), limits=(now.plan.token_limit, then.plan.token_limit)),
        "recipes__bars",
        f"The next prompt now and with {recipe.title}, part by part",
    )
    first_column, second_column = st.columns(2, gap="medium")
    with first_column:
        _parts("Now", now, before, "now")
    with second_column:
        _parts(recipe.title, then, after, "then")


def _parts(title: str, context: Context, parts: tuple[PartShown, ...], mark: str) -> None:
    """Draw a prompt's parts, each in an expander."""
    with st.container(gap="xsmall"):
        heading(plain(title), f" :small[:gray[{tokens(context.plan.total)} tokens]]", level=3)
        for number, part in enumerate(parts):
            square = f':color[■]{{foreground="{block_colour(part.kind, mode())}"}}'
            headed = f"{square} {plain(short(part.name))} :small[:gray[{part.size}]]"
            opened = st.expander(headed, key=f"recipes__{mark}_{number}", on_change="rerun")
            if opened.open:
                with opened:
                    _entries(part)


def _entries(part: PartShown) -> None:
    if not part.entries:
        st.markdown(":small[:gray[Nothing in it for this prompt.]]")
    for words in part.entries[:ENTRIES]:
        st.markdown(f":small[{plain(short(words, ENTRY_CHARACTERS))}]")
    if len(part.entries) > ENTRIES:
        st.markdown(f":small[:gray[and {tokens(len(part.entries) - ENTRIES)} more]]")

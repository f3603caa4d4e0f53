"""Drawers for one block's settings: on or off, how it is cut, what it is given, and those of its kind."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from memory_core import ConflictError, MemoryInspectorError
from ui import state
from ui.blocks.drafts import Draft, draft, forget, keep_draft, kept, leave
from ui.blocks.effects import draw_effect
from ui.blocks.kinds import Field, fields_of
from ui.components import closing_button, error_inside
from ui.services import engine
from ui.text import plain

MOST_CHARACTERS = 1_000
"""Of a setting in words."""


@dataclass(frozen=True, slots=True)
class Change:
    """One setting that is changed by one click in a block's menu."""

    says: str
    """In the menu."""
    setting: str
    value: Any
    means: str
    """What it will do, in one sentence."""


TURN_OFF = Change("Turn off", "enabled", False, "It receives nothing and is in no prompt. What it holds stays.")
TURN_ON = Change(
    "Turn on", "enabled", True, "It stands in the prompt again, and receives what leaves the queue from now on."
)
DROP = Change(
    "Cut it whole", "truncation", "drop", "When the prompt is too large, all of it is left out at once (`drop`)."
)
TRIM = Change(
    "Cut it piece by piece",
    "truncation",
    "trim",
    "When the prompt is too large, only as much of it as is needed is left out (`trim`).",
)
STOP = Change(
    "Stop giving it messages",
    "accept_short_term_memory",
    False,
    "Messages that leave the queue are not given to it any more: it learns nothing new.",
)
GIVE = Change(
    "Give it messages again",
    "accept_short_term_memory",
    True,
    "Messages that leave the queue from now on are given to it.",
)


def changes_for(kind: str, settings: Mapping[str, Any]) -> tuple[Change, ...]:
    """What can be changed by one click, given how the block is set."""
    found = [TURN_OFF if settings.get("enabled", True) else TURN_ON]
    if kind != "static":
        found.append(TRIM if settings.get("truncation") == "drop" else DROP)
        found.append(STOP if settings.get("accept_short_term_memory", True) else GIVE)
    return tuple(found)


@st.dialog("Change block", width=440, position="right", icon=":material/tune:", on_dismiss="rerun")
@error_inside
def change_dialog(session_id: str, name: str, change: Change) -> None:
    """One change with what it will do to the next prompt, before it is made."""
    memory = engine().open(session_id)
    before = memory.block_settings(name).get(change.setting)
    st.markdown(f"**{plain(name)}**: {plain(change.says.lower())}?")
    st.markdown(change.means)
    if before == change.value:
        st.info("It is so already: it was changed elsewhere.")
        return
    possible = draw_effect(memory, blocks={name: {change.setting: change.value}})
    with st.container(horizontal=True):
        closing_button(
            change.says,
            _make,
            (session_id, name, change, before),
            kind="primary",
            disabled=not possible,
            key="blocks__change_save",
        )
        closing_button("Leave it", _nothing, key="blocks__change_leave")


def _make(session_id: str, name: str, change: Change, before: Any) -> None:
    try:
        memory = engine().open(session_id)
        memory.configure_blocks({name: {change.setting: change.value}}, opened={name: {change.setting: before}})
    except MemoryInspectorError as error:
        state.say("error", str(error))


def _nothing() -> None:
    """For a button that only closes its drawer."""


# -- settings of a kind ----------------------------------------------------------------------------


@st.dialog("Block settings", width=440, position="right", icon=":material/tune:", on_dismiss=leave)
@error_inside
def settings_of_dialog(session_id: str, name: str) -> None:
    """The settings of a block's kind, with what they would do to the next prompt."""
    memory = engine().open(session_id)
    attached = next((each for each in memory.blocks if each.name == name), None)
    if attached is None:
        st.warning("This block was removed elsewhere.")
        return
    stored = memory.block_settings(name)
    fields = [f for f in fields_of(attached.kind, has_user=memory.user_id is not None) if f.setting in stored]
    theirs = {field.setting: stored[field.setting] for field in fields}
    key = f"settings_{session_id}_{name}"
    widgets = {field.setting: f"blocks__{key}_{field.setting}" for field in fields}
    opened = draft(key, next(iter(widgets.values())), Draft(values=theirs))
    st.markdown(f"**{plain(name)}** :gray[{attached.kind}]")
    place = st.container()
    chosen: dict[str, Any] = {}
    folds: dict[str, DeltaGenerator] = {}
    for field in fields:
        if field.group and field.group not in folds:
            folds[field.group] = st.expander(field.group)
        if field.when is None or chosen.get(field.when[0]) == field.when[1]:
            with folds[field.group] if field.group else nullcontext():
                chosen[field.setting] = _drawn(field, opened.values[field.setting], widgets[field.setting])
    changed = {setting: value for setting, value in chosen.items() if value != opened.values[setting]}
    possible = bool(changed) and draw_effect(memory, blocks={name: changed})
    if "scope" in changed:
        st.markdown(":small[Facts stay whose they are: the block reads the other list from then on.]")
    with st.container(horizontal=True):
        st.button(
            "Apply from the next turn",
            key=f"blocks__{key}_save",
            type="primary",
            disabled=not possible,
            on_click=_save,
            args=(session_id, name, key, changed),
        )
        closing_button("Discard", forget, (key, *widgets.values()), key=f"blocks__{key}_discard")
    opened = kept(key)
    if opened.saved:
        forget(key)
        st.rerun()
    if opened.problem is not None:
        place.error(plain(opened.problem))
    if opened.conflict:
        with place:
            _conflict(key, theirs, tuple(widgets.values()))


def _drawn(field: Field, value: Any, key: str) -> Any:
    """The widget of one setting, and what is chosen in it."""
    if field.sort == "toggle":
        return st.toggle(field.title, value=bool(value), key=key, help=field.help)
    if field.sort == "text":
        text = st.text_area(
            field.title, value=value or "", max_chars=MOST_CHARACTERS, height=100, key=key, help=field.help
        )
        return str(text).strip() or None
    if field.sort == "labels":
        return st.multiselect(
            field.title,
            list(dict.fromkeys((*value, *field.offered))),
            default=list(value),
            key=key,
            accept_new_options=True,
            placeholder="the extractor's own",
            help=field.help,
        )
    if field.choices is not None:
        choices = field.choices
        return st.selectbox(
            field.title,
            list(choices),
            index=list(choices).index(value),
            key=key,
            format_func=lambda choice: choices[choice],
            help=field.help,
        )
    number = None if value is None else float(value) if field.sort == "share" else int(value)
    if field.optional:  # only a field that begins empty can be emptied
        st.session_state.setdefault(key, number)
        number = None
    if field.sort == "share":
        share = st.number_input(
            field.title,
            min_value=0.0,
            max_value=None if field.most is None else float(field.most),
            value=number,
            step=0.01,
            key=key,
            placeholder=field.without,
            help=field.help,
        )
        return None if share is None else round(float(share), 4)
    whole = st.number_input(
        field.title,
        min_value=int(field.least),
        value=number,
        step=1,
        key=key,
        placeholder=field.without,
        help=field.help,
    )
    return None if whole is None else int(whole)


def _save(session_id: str, name: str, key: str, changed: Mapping[str, Any]) -> None:
    opened = kept(key)
    before = {setting: opened.values[setting] for setting in changed}
    try:
        engine().open(session_id).configure_blocks({name: changed}, opened={name: before})
    except ConflictError:
        keep_draft(key, Draft(values=opened.values, conflict=True))
    except MemoryInspectorError as error:
        keep_draft(key, Draft(values=opened.values, problem=str(error)))
    else:
        keep_draft(key, Draft(values=opened.values, saved=True))


def _conflict(key: str, theirs: Mapping[str, Any], widgets: tuple[str, ...]) -> None:
    st.warning("Changed in another tab since you opened it. Nothing was saved.", icon=":material/warning:")
    with st.container(horizontal=True):
        st.button("Show theirs", key=f"blocks__{key}_theirs", on_click=forget, args=(key, *widgets))
        st.button("Keep editing", key=f"blocks__{key}_keep", on_click=keep_draft, args=(key, Draft(values=theirs)))

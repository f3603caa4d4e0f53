"""Dialogs for one block's settings: common ones (on or off, cutting, messages) and those of its kind."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from memory_core.blocks import BUILT_IN
from memory_inspector.wording.block_kinds import Field, fields_of, kind_of
from memory_inspector.wording.event_sentences import setting_words
from memory_inspector.wording.event_sentences.line import listed
from memory_inspector.wording.formatting import plain, short
from ui.parts import toasts
from ui.parts.components import closing_button, error_inside, error_noticed, limits
from ui.parts.drafts import leave
from ui.parts.drawer import NOTHING, Done, Drawer
from ui.parts.effect import draw_effect
from ui.tab.services import engine

MAX_CHARACTERS = 1_000
"""Maximum characters of a text setting."""


@dataclass(frozen=True, slots=True)
class Change:
    """A setting that a menu entry changes with one click."""

    says: str
    """Label in the menu."""
    setting: str
    value: Any
    means: str
    """Effect of the change, in one sentence."""
    done: str
    """Message after the change, following the block's name."""


TURN_OFF = Change(
    "Turn off", "enabled", False, "It receives nothing and is in no prompt. Its contents are kept.", "turned off"
)
TURN_ON = Change(
    "Turn on",
    "enabled",
    True,
    "It is in the prompt again, and receives messages flushed from now on.",
    "turned on",
)
DROP = Change(
    "Cut it whole",
    "truncation",
    "drop",
    "When the prompt is too large, all of it is left out at once (`drop`).",
    "cut whole from the next prompt on",
)
TRIM = Change(
    "Cut it piece by piece",
    "truncation",
    "trim",
    "When the prompt is too large, only as much of it as is needed is left out (`trim`).",
    "cut piece by piece from the next prompt on",
)
STOP = Change(
    "Stop giving it messages",
    "accept_short_term_memory",
    False,
    "It receives no more flushed messages, and learns nothing new.",
    "gets no more messages",
)
GIVE = Change(
    "Give it messages again",
    "accept_short_term_memory",
    True,
    "It receives messages flushed from now on.",
    "gets messages again",
)


def changes_for(kind: str, settings: Mapping[str, Any]) -> tuple[Change, ...]:
    """Menu changes, made with one click, that apply to a block with these settings."""
    actions = [TURN_OFF if settings.get("enabled", True) else TURN_ON]
    if kind_of(kind).learns:
        actions.append(TRIM if settings.get("truncation") == "drop" else DROP)
        actions.append(STOP if settings.get("accept_short_term_memory", True) else GIVE)
    return tuple(actions)


@st.dialog("Change block", width=440, position="right", icon=":material/tune:", on_dismiss="rerun")
@error_inside
def change_dialog(session_id: str, name: str, change: Change) -> None:
    """Confirm a change, with a preview of the next prompt."""
    memory = engine().open(session_id)
    # The value when the dialog opened: if another tab changes it meanwhile, saving is refused.
    before = memory.blocks.settings(name).get(change.setting)
    st.markdown(f"**{plain(name)}**: {plain(change.says.lower())}?")
    st.markdown(change.means)
    if before == change.value:
        st.info("Nothing to change: it was changed elsewhere.")
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
        closing_button("Cancel", key="blocks__change_leave")


@error_noticed
def _make(session_id: str, name: str, change: Change, before: Any) -> None:
    memory = engine().open(session_id)
    memory.blocks.configure_all({name: {change.setting: change.value}}, opened={name: {change.setting: before}})
    after = {change.setting: change.value}
    toasts.done(
        f"{short(name)}: {change.done}.",
        undo=partial(_take_back, session_id, name, {change.setting: before}, after),
    )


def _take_back(session_id: str, name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    engine().open(session_id).blocks.configure_all({name: before}, opened={name: after})


# -- settings of a kind ----------------------------------------------------------------------------


@st.dialog("Block settings", width=440, position="right", icon=":material/tune:", on_dismiss=leave)
@error_inside
def settings_of_dialog(session_id: str, name: str) -> None:
    """Edit the settings of a block's kind, with a preview of the next prompt."""
    memory = engine().open(session_id)
    attached = next((block for block in memory.blocks if block.name == name), None)
    if attached is None:
        st.warning("This block was removed elsewhere.")
        return
    st.markdown(f"**{plain(name)}** :gray[{plain(kind_of(attached.kind).label)}]")
    stored = memory.blocks.settings(name)
    # A setting that this block does not store, such as one of a newer kind, is not offered.
    fields = [f for f in fields_of(attached.kind, has_user=memory.session.user_id is not None) if f.setting in stored]
    theirs = {field.setting: stored[field.setting] for field in fields}
    by_name = {field.setting: field for field in fields}
    drawer = Drawer(
        "blocks__settings_",
        ("block_settings", session_id, name),
        theirs,
        shown=lambda setting, value: _shown(by_name[setting], value),
        meant=lambda setting, value: _meant(by_name[setting], value),
    )
    folds: dict[str, DeltaGenerator] = {}
    for field in fields:
        if field.group and field.group not in folds:
            folds[field.group] = st.expander(field.group)
        # Only fields drawn before are known here, so a field must follow the one it depends on.
        if field.when is None or drawer.chosen().get(field.when[0]) == field.when[1]:
            with folds[field.group] if field.group else nullcontext():
                _draw(attached.kind, field, drawer)
    changed = drawer.changes()
    possible = bool(changed) and draw_effect(memory, blocks={name: changed})
    if "scope" in changed and attached.kind == "facts":
        st.markdown(":small[Existing facts keep their scope; the block then reads those of the new scope.]")
    drawer.end(partial(_apply, session_id, name, drawer), changed=bool(changed), ready=possible)


def _shown(field: Field, value: Any) -> Any:
    """Convert a setting to the value of its widget."""
    if field.sort == "text":
        return value or ""
    if field.sort == "labels":
        return list(value)
    # Value, step and bounds of a number field must have one type.
    if field.sort in ("share", "whole") and field.choices is None and value is not None:
        return float(value) if field.sort == "share" else int(value)
    return bool(value) if field.sort == "toggle" else value


def _meant(field: Field, value: Any) -> Any:
    """Convert a widget's value to the stored setting."""
    if field.sort == "text":
        return str(value).strip() or None
    # Steps of 0.01 add up to numbers such as 0.30000000000000004.
    return round(value, 4) if field.sort == "share" and field.choices is None and value is not None else value


def _draw(kind: str, field: Field, drawer: Drawer) -> None:
    """Draw the widget of one setting."""
    needed = field.sort in ("share", "whole") and field.choices is None and not field.optional
    key, keep = drawer.field(field.setting, needed=needed), drawer.keep
    empty = drawer.stays(field.setting) if needed else field.without
    if field.sort == "toggle":
        st.toggle(field.title, key=key, help=field.help, on_change=keep)
    elif field.sort == "text":
        st.text_area(field.title, max_chars=MAX_CHARACTERS, height=100, key=key, help=field.help, on_change=keep)
    elif field.sort == "labels":
        st.multiselect(
            field.title,
            # Every chosen label must be among the options, whether it is suggested or was typed.
            list(dict.fromkeys((*drawer.opened[field.setting], *st.session_state[key], *field.offered))),
            key=key,
            accept_new_options=True,
            placeholder=field.without,
            help=field.help,
            on_change=keep,
        )
    elif field.choices is not None:
        choices = field.choices
        st.selectbox(
            field.title,
            list(choices),
            key=key,
            format_func=lambda choice: choices[choice],
            help=field.help,
            on_change=keep,
        )
    else:
        number, step = (float, 0.01) if field.sort == "share" else (int, 1)
        st.number_input(
            field.title,
            **limits(BUILT_IN[kind], field.setting, number),
            value=None,  # only a field that begins empty can be emptied
            step=step,
            key=key,
            placeholder=empty,
            help=field.help,
            on_change=keep,
        )


def _apply(session_id: str, name: str, drawer: Drawer) -> Done:
    changed = drawer.changes()
    if not changed:
        return NOTHING
    # The former values serve twice: to detect a change made elsewhere, and to undo this one.
    before = {setting: drawer.opened[setting] for setting in changed}
    engine().open(session_id).blocks.configure_all({name: changed}, opened={name: before})
    changes_listed = listed(
        [setting_words(setting, changed[setting], before[setting], begun=True) for setting in changed]
    )
    return f"{short(name)}: {changes_listed}.", partial(_take_back, session_id, name, before, changed)

"""Dialogs for one block's settings: common ones (on or off, cutting, messages) and those of its kind."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from memory_core.blocks import BUILT_IN
from memory_core.text import listed
from memory_inspector.wording.block_kinds import kind_of, settings_of
from memory_inspector.wording.formatting import plain, short
from memory_inspector.wording.settings import Setting, setting_words
from ui.parts import toasts
from ui.parts.components import closing_buttons, dialog, error_noticed
from ui.parts.effect import draw_effect
from ui.parts.fields import NOTHING, Done, Drawer, change_settings, draw_setting, leave
from ui.tab.services import engine


@dataclass(frozen=True, slots=True)
class MenuChange:
    """A setting that a menu entry changes with one click."""

    says: str
    """Label in the menu."""
    setting: str
    value: Any
    means: str
    """Effect of the change, in one sentence."""
    done: str
    """Message after the change, following the block's name."""


TURN_OFF = MenuChange(
    "Turn off", "enabled", False, "It receives nothing and is in no prompt. Its contents are kept.", "turned off"
)
TURN_ON = MenuChange(
    "Turn on",
    "enabled",
    True,
    "It is in the prompt again, and receives messages flushed from now on.",
    "turned on",
)
DROP = MenuChange(
    "Cut it whole",
    "truncation",
    "drop",
    "When the prompt is too large, all of it is left out at once (`drop`).",
    "cut whole from the next prompt on",
)
TRIM = MenuChange(
    "Cut it piece by piece",
    "truncation",
    "trim",
    "When the prompt is too large, only as much of it as is needed is left out (`trim`).",
    "cut piece by piece from the next prompt on",
)
STOP = MenuChange(
    "Stop giving it messages",
    "accept_short_term_memory",
    False,
    "It receives no more flushed messages, and learns nothing new.",
    "gets no more messages",
)
GIVE = MenuChange(
    "Give it messages again",
    "accept_short_term_memory",
    True,
    "It receives messages flushed from now on.",
    "gets messages again",
)


def changes_for(kind: str, settings: Mapping[str, Any]) -> tuple[MenuChange, ...]:
    """Menu changes, made with one click, that apply to a block with these settings."""
    actions = [TURN_OFF if settings.get("enabled", True) else TURN_ON]
    if kind_of(kind).learns:
        actions.append(TRIM if settings.get("truncation") == "drop" else DROP)
        actions.append(STOP if settings.get("accept_short_term_memory", True) else GIVE)
    return tuple(actions)


@dialog("Change block", "tune", side=True)
def change_dialog(session_id: str, name: str, change: MenuChange) -> None:
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
    closing_buttons(
        change.says,
        _make,
        (session_id, name, change, before),
        disabled=not possible,
        keys=("blocks__change_save", "blocks__change_leave"),
    )


@error_noticed
def _make(session_id: str, name: str, change: MenuChange, before: Any) -> None:
    undo = change_settings(session_id, name, {change.setting: before}, {change.setting: change.value})
    toasts.done(f"{short(name)}: {change.done}.", undo=undo)


# -- settings of a kind ----------------------------------------------------------------------------


@dialog("Block settings", "tune", side=True, on_dismiss=leave)
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
    offered = settings_of(attached.kind, has_user=memory.session.user_id is not None)
    by_name = {setting.name: setting for setting in offered if setting.name in stored}
    drawer = Drawer(
        "blocks__settings_",
        ("block_settings", session_id, name),
        {name: stored[name] for name in by_name},
        shown=lambda name, value: by_name[name].in_field(value),
        meant=lambda name, value: by_name[name].from_field(value),
    )
    folds: dict[str, DeltaGenerator] = {}
    for setting in by_name.values():
        if setting.group and setting.group not in folds:
            folds[setting.group] = st.expander(setting.group)
        # Only fields drawn before are known here, so a field must follow the one it depends on.
        if setting.when is None or drawer.chosen().get(setting.when[0]) == setting.when[1]:
            with folds[setting.group] if setting.group else nullcontext():
                _draw(attached.kind, setting, drawer)
    changed = drawer.changes()
    possible = bool(changed) and draw_effect(memory, blocks={name: changed})
    if "scope" in changed and attached.kind == "facts":
        st.markdown(":small[Existing facts keep their scope; the block then reads those of the new scope.]")
    drawer.end(partial(_apply, session_id, name, drawer), changed=bool(changed), ready=possible)


def _draw(kind: str, setting: Setting, drawer: Drawer) -> None:
    needed = setting.is_number and not setting.optional
    key = drawer.field(setting.name, needed=needed)
    if setting.sort == "labels":
        # A label that was typed, and is not chosen any more, can be chosen again.
        setting = replace(setting, offered=(*drawer.opened[setting.name], *setting.offered))
    empty = drawer.stays(setting.name) if needed else None
    draw_setting(setting, BUILT_IN[kind], key, on_change=drawer.keep, empty=empty)


def _apply(session_id: str, name: str, drawer: Drawer) -> Done:
    changed = drawer.changes()
    if not changed:
        return NOTHING
    # The former values serve twice: to detect a change made elsewhere, and to undo this one.
    before = {setting: drawer.opened[setting] for setting in changed}
    undo = change_settings(session_id, name, before, changed)
    changes_listed = listed([setting_words(setting, changed[setting], before[setting]) for setting in changed])
    return f"{short(name)}: {changes_listed}.", undo

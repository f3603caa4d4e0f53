"""Dialogs for settings of blocks: common ones of a block, those of its kind, and the order of all by numbers."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from memory_core import BaseMemoryBlock, ConflictError, Memory
from memory_core.blocks import BUILT_IN
from memory_core.planning.context_plan import cut_order
from memory_core.text import listed
from memory_inspector.wording.block_kinds import kind_of, settings_of
from memory_inspector.wording.block_text import labelled, strip
from memory_inspector.wording.formatting import plain, short, tokens
from memory_inspector.wording.settings import Setting, setting_words
from memory_inspector.wording.terms import HELP
from ui.parts import toasts
from ui.parts.components import closing_buttons, dialog, error_noticed, limits
from ui.parts.effect import draw_effect
from ui.parts.fields import NOTHING, Done, Drawer, change_settings, draw_setting, leave
from ui.tab.drawing import mode
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


# -- the order of the blocks: their priorities and their places in the prompt ---------------------


_COLUMNS = (0.4, 0.3, 0.3)


@dialog("Change order", "format_list_numbered", side=True, on_dismiss=leave)
def order_dialog(session_id: str) -> None:
    """Set the priority of each block and its place in the prompt. Rows are not reordered while editing."""
    memory = engine().open(session_id)
    theirs = _priorities(memory)
    if not theirs:
        st.markdown("This session has no blocks.")
        return
    stored = {_PRIORITY + name: number for name, number in theirs.items()}
    stored |= {_PLACE + name: at for at, name in enumerate(theirs, start=1)}
    drawer = Drawer("blocks__order_", ("order", session_id), stored)
    # Rows keep the order in which the drawer was opened; blocks removed since are left out.
    names = [name for name in _by_name(_PRIORITY, drawer.opened) if name in theirs]
    kinds = {attached.name: attached.kind for attached in memory.blocks}
    _draw_rows(drawer, names, kinds, memory.session.config.truncation_order)
    planned = _by_name(_PRIORITY, drawer.chosen())
    changed, reordered = _wished(drawer, names)
    order = reordered or names
    cuts = cut_order({name: planned[name] for name in order}, memory.session.config.truncation_order)
    st.markdown(f":small[{strip(cuts, planned, kinds, mode())}]")
    # Fewer different numbers than blocks: some are equal, and then the place in the prompt decides.
    if len(set(planned.values()) - {0}) < sum(1 for number in planned.values() if number):
        st.markdown(":small[:gray[Of blocks with the same number, the first in the prompt is cut first.]]")
    if reordered:
        in_prompt = ", ".join(plain(short(block)) for block in order)
        st.markdown(f":small[In the prompt: {in_prompt}.]")
    # Only priorities have an effect to preview and to refuse; another order is always possible.
    possible = not changed or draw_effect(memory, blocks={name: {"priority": n} for name, n in changed.items()})
    dirty = bool(changed or reordered)
    drawer.end(partial(_apply_order, session_id, drawer, names), changed=dirty, ready=dirty and possible)


_PRIORITY, _PLACE = "priority_", "place_"
"""Prefixes of the names of a block's two fields, before the block's name."""


def _by_name(sort: str, fields: Mapping[str, int]) -> dict[str, int]:
    """Return the values of the fields whose names begin with `sort`, by block."""
    return {field.removeprefix(sort): int(number) for field, number in fields.items() if field.startswith(sort)}


def _wished(drawer: Drawer, names: list[str]) -> tuple[dict[str, int], tuple[str, ...] | None]:
    """Changed priorities by block, and the new order in the prompt if it changed."""
    was, chosen = drawer.opened, drawer.chosen()
    opened = _by_name(_PRIORITY, was)
    changed = {name: number for name, number in _by_name(_PRIORITY, chosen).items() if opened[name] != number}
    order = _ordered(names, _by_name(_PLACE, was), _by_name(_PLACE, chosen))
    return changed, tuple(order) if order != names else None


def _draw_rows(drawer: Drawer, names: list[str], kinds: Mapping[str, str], truncation_order: str) -> None:
    largest = truncation_order == "largest_first"
    heads = st.columns(_COLUMNS, vertical_alignment="bottom")
    heads[0].markdown(":small[Block]")
    heads[1].markdown(":small[Priority]", help=HELP["priority" if largest else "priority_smallest"])
    heads[2].markdown(":small[Place in the prompt]")
    for name in names:
        row = st.columns(_COLUMNS, vertical_alignment="center")
        shown = labelled(name, kinds.get(name, "custom"), mode())
        row[0].markdown(shown)
        row[1].number_input(
            f"Priority of {plain(name)}",
            **limits(BaseMemoryBlock, "priority"),
            step=1,
            value=None,
            key=drawer.field(_PRIORITY + name, needed=True),
            placeholder=drawer.stays(_PRIORITY + name),
            label_visibility="collapsed",
            on_change=drawer.keep,
        )
        place = drawer.field(_PLACE + name, needed=True)
        row[2].number_input(
            f"Place of {plain(name)} in the prompt",
            min_value=1,
            max_value=max(len(names), drawer.chosen()[_PLACE + name]),  # a draft may hold a larger place
            step=1,
            value=None,
            placeholder=drawer.stays(_PLACE + name),
            key=place,
            label_visibility="collapsed",
            on_change=drawer.keep,
        )


def _ordered(names: list[str], at: Mapping[str, int], priorities: Mapping[str, int]) -> list[str]:
    """Return the block names in their new order; a block moved up goes before the one at its new place."""

    def rank(name: str) -> tuple[float, int]:
        moved = priorities[name] - at[name]
        # Half a place before or after the block whose place it takes; blocks that were not moved keep their place.
        return priorities[name] - (0.5 if moved < 0 else 0) + (0.5 if moved > 0 else 0), at[name]

    return sorted(names, key=rank)


def _priorities(memory: Memory) -> dict[str, int]:
    """Priorities by block, in prompt order."""
    return {attached.name: attached.priority for attached in memory.blocks}


def _apply_order(session_id: str, drawer: Drawer, names: list[str]) -> Done:
    opened, (changed, order) = _by_name(_PRIORITY, drawer.opened), _wished(drawer, names)
    if not changed and order is None:
        return NOTHING
    _configure(session_id, changed, order, opened=opened)
    before = {name: opened[name] for name in changed}
    parts = [f"priority of {short(name)} {tokens(before[name])} → {tokens(changed[name])}" for name in changed]
    parts += ["a new order in the prompt"] if order is not None else []
    # `opened` lists the blocks in the order that the prompt had when the dialog opened.
    back = partial(_take_back, session_id, before, {**opened, **changed}, None if order is None else tuple(opened))
    return f"From the next turn: {listed(parts)}.", back


def _take_back(
    session_id: str, before: Mapping[str, int], after: Mapping[str, Any], order: tuple[str, ...] | None
) -> None:
    # If a block was added or removed since, the former order does not fit the present blocks.
    if set(after) != set(_priorities(engine().open(session_id))):
        raise ConflictError("The blocks were changed since.")
    _configure(session_id, before, order, opened=after)


def _configure(
    session_id: str, changed: Mapping[str, int], order: tuple[str, ...] | None, *, opened: Mapping[str, Any]
) -> None:
    engine().open(session_id).blocks.configure_all(
        {name: {"priority": number} for name, number in changed.items()},
        order=order,
        opened={name: {"priority": number} for name, number in opened.items()},
    )

"""The widget of a setting, the same wherever it can be changed, and the change of settings with its undo."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import streamlit as st
from pydantic import BaseModel
from streamlit.delta_generator import DeltaGenerator

from memory_inspector.wording.settings import Setting
from ui.parts.components import limits
from ui.tab.services import engine

MAX_CHARACTERS = 1_000
"""Maximum characters of a text setting."""


def draw_setting(
    setting: Setting,
    model: type[BaseModel],
    key: str,
    *,
    on_change: Callable[..., object],
    args: tuple[object, ...] = (),
    empty: str | None = None,
    where: DeltaGenerator | None = None,
    **more: Any,
) -> Any:
    """Draw the widget of a setting with the bounds that `model` declares; its value is in the session state.

    `empty`: placeholder of a number field that is empty; the meaning of None by default. `more` replaces arguments of
    the widget, such as `help`, `step` or `max_value`.
    """
    place = where if where is not None else st
    usual: dict[str, Any] = {"key": key, "help": setting.help, "on_change": on_change, "args": args}
    if setting.sort == "toggle":
        return place.toggle(setting.title, **usual | more)
    if setting.sort == "text":
        return place.text_area(setting.title, max_chars=MAX_CHARACTERS, height=100, **usual | more)
    if setting.sort == "labels":
        return place.multiselect(
            setting.title,
            # Every chosen label must be among the options, whether it is suggested or was typed.
            list(dict.fromkeys((*st.session_state[key], *setting.offered))),
            accept_new_options=True,
            placeholder=setting.without,
            **usual | more,
        )
    if setting.choices is not None:
        choices = setting.choices
        return place.selectbox(
            setting.title, list(choices), format_func=lambda value: choices.get(value, value), **usual | more
        )
    number: type[int] | type[float] = float if setting.sort == "share" else int
    # Streamlit wants value, bounds and step of one number type.
    bounds = {"min_value": 1, "max_value": 100} if setting.sort == "percent" else limits(model, setting.name, number)
    return place.number_input(
        setting.title,
        **usual
        | bounds
        | {
            "value": None,  # only a field that begins empty can be emptied
            "step": 0.01 if number is float else setting.step,
            "placeholder": empty if empty is not None else setting.without if setting.optional else None,
        }
        | more,
    )


def change_settings(
    session_id: str, block: str | None, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Callable[[], object]:
    """Change settings of a block, or of the session (None), and return the function that changes them back.

    Raises:
        ConflictError: they are not as `before` any more: a later change by somebody else is not undone either.
        MemoryInspectorError: a value is impossible, or the block was removed; nothing was changed.
    """
    memory = engine().open(session_id)
    if block is None:
        memory.configure(opened=before, **after)
    else:
        memory.blocks.configure(block, opened=before, **after)
    return partial(change_settings, session_id, block, after, before)

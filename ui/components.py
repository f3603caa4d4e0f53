"""Small pieces of screen that several places use."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, ParamSpec

import streamlit as st

from memory_core import MemoryInspectorError
from ui import state
from ui.text import plain

Given = ParamSpec("Given")


def closing_button(
    says: str,
    on_click: Callable[..., None],
    args: tuple[Any, ...] = (),
    *,
    kind: Literal["primary", "secondary"] = "secondary",
    disabled: bool = False,
    key: str | None = None,
    width: Literal["content", "stretch"] = "content",
) -> None:
    """A button that does one thing and closes the dialog it stands in.

    The write is the callback, which runs once per click; only then is the page drawn anew.
    """
    if st.button(plain(says), type=kind, on_click=on_click, args=args, disabled=disabled, key=key, width=width):
        st.rerun()


def empty(title: str, text: str, *, icon: str | None = None) -> None:
    """What stands where there is nothing yet: one bold line, and one that says what will be here."""
    with st.container(border=True, horizontal_alignment="center", gap="xsmall"):
        st.space("small")
        if icon:
            st.markdown(f"## :gray[:material/{icon}:]", text_alignment="center")
        st.markdown(f"**{plain(title)}**", text_alignment="center")
        st.markdown(f":gray[{plain(text)}]", text_alignment="center")
        st.space("small")


def numbers_table(rows: Callable[[], Sequence[Mapping[str, Any]]], key: str) -> None:
    """A figure's numbers as a table, made only when it is opened."""
    opened = st.expander("Numbers as a table", key=key, on_change="rerun", type="compact")
    if opened.open:
        table = list(rows())
        numbers = {name for row in table for name, value in row.items() if isinstance(value, int)}
        opened.dataframe(
            table,
            hide_index=True,
            key=f"{key}_rows",
            placeholder="–",
            column_config={name: st.column_config.NumberColumn(format="localized") for name in numbers},
        )


def error_inside(draw: Callable[Given, None]) -> Callable[Given, None]:
    """A dialog's body that says what is wrong in one sentence, where it would end in an exception.

    A dialog is drawn again by itself, outside the page that opened it: the session may be gone by then.
    """

    @functools.wraps(draw)
    def guarded(*args: Given.args, **kwargs: Given.kwargs) -> None:
        state.open_dialog()
        try:
            draw(*args, **kwargs)
        except MemoryInspectorError as error:
            st.error(plain(str(error)))

    return guarded

"""Small pieces of screen that several places use."""

import functools
from collections.abc import Callable
from typing import Any, Literal, ParamSpec

import streamlit as st

from memory_core import MemoryInspectorError
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


def error_inside(draw: Callable[Given, None]) -> Callable[Given, None]:
    """A dialog's body that says what is wrong in one sentence, where it would end in an exception.

    A dialog is drawn again by itself, outside the page that opened it: the session may be gone by then.
    """

    @functools.wraps(draw)
    def guarded(*args: Given.args, **kwargs: Given.kwargs) -> None:
        try:
            draw(*args, **kwargs)
        except MemoryInspectorError as error:
            st.error(plain(str(error)))

    return guarded

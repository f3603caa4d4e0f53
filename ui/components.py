"""Small pieces of screen that several places use."""

from collections.abc import Callable
from typing import Any, Literal

import streamlit as st


def closing_button(
    label: str,
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
    if st.button(label, type=kind, on_click=on_click, args=args, disabled=disabled, key=key, width=width):
        st.rerun()

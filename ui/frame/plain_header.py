"""The header of a page that shows no session of the database: its title, a notice, a toast. Loads no engine."""

import streamlit as st

from memory_inspector.wording.formatting import plain
from ui.parts import toasts
from ui.tab import state


def draw_plain_header(title: str) -> None:
    """Draw the title of a page, and what is to be said above it."""
    with st.container(horizontal=True, vertical_alignment="center", key="frame__header"):
        st.title(title, width="content")
    draw_notice()
    draw_toast()


def draw_notice() -> None:
    """Draw the message that is to be shown once, in a container that is always there: what follows keeps its place."""
    with st.container():
        if notice := state.take_notice():
            {"error": st.error, "warning": st.warning, "info": st.info}[notice.kind](plain(notice.text))


def draw_toast() -> None:
    """Draw the newest toast, in a container that is always there."""
    with st.container(key="toasts"):
        toasts.draw()

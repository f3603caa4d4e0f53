"""The appearance, light or dark, of the browser that a page is drawn for."""

import streamlit as st

from memory_inspector.palette import Mode


def mode() -> Mode:
    """Return the appearance of this browser; light until it is known."""
    return "dark" if st.context.theme.type == "dark" else "light"

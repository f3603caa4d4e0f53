"""Appearance, light or dark, and time zone of the browser that a page is drawn for."""

from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo

import streamlit as st

from memory_inspector.palette import Mode


def mode() -> Mode:
    """Return the appearance of this browser; light until it is known."""
    return "dark" if st.context.theme.type == "dark" else "light"


def zone() -> tzinfo:
    """Return the time zone of this browser; UTC until it is known."""
    name = st.context.timezone
    return ZoneInfo(name) if name else UTC

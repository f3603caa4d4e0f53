"""The engine that all pages of one server process share.

The folder is `MEMORY_INSPECTOR_HOME`, or `.memory-inspector` in the user's home.
"""

import streamlit as st

from memory_core import Settings
from memory_inspector.server.engine import Engine


@st.cache_resource(show_spinner=False, on_release=Engine.close)
def engine() -> Engine:
    """The single engine of this server. Raises `StoreError` if the database cannot be reached."""
    return Engine(Settings.of_the_app())

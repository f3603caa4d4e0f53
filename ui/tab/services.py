"""The engines that all pages of one server process share: one for each tenant.

The folder is `MEMORY_INSPECTOR_HOME`, or `.memory-inspector` in the user's home.
"""

import streamlit as st

from memory_core import Settings
from memory_core.access import acting_person
from memory_inspector.server.engine import Engine
from ui.tab import people  # noqa: F401  (looks up who visits, for every change and every engine)


def engine() -> Engine:
    """The engine of the visitor's tenant.

    Raises:
        AccessError: people have to sign in, and this visitor is not signed in.
        StoreError: the database cannot be reached.
    """
    person = acting_person()
    return engine_of(person.tenant if person is not None else "")


@st.cache_resource(show_spinner=False, on_release=Engine.close)
def engine_of(tenant: str) -> Engine:
    """The single engine of a tenant in this server. Raises `StoreError` if the database cannot be reached."""
    return Engine(Settings.of_the_app(), tenant)

"""The engines that all pages of one server process share: one for each tenant.

The folder is `MEMORY_INSPECTOR_HOME`, or `.memory-inspector` in the user's home.
"""

import threading
from contextvars import ContextVar

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from memory_core import Settings
from memory_core.access import acting_person
from memory_inspector.server.engine import Engine
from ui.tab import people  # noqa: F401  (looks up who visits, for every change and every engine)

_found: ContextVar[tuple[object, str, Engine] | None] = ContextVar("engine", default=None)
"""The tab's script thread, the tenant, and its engine: a page asks for it some twenty times."""


def engine() -> Engine:
    """The engine of the visitor's tenant.

    Raises:
        AccessError: people have to sign in, and this visitor is not signed in.
        StoreError: the database cannot be reached.
    """
    person = acting_person()
    context, before = get_script_run_ctx(suppress_warning=True), _found.get()
    tenant = person.tenant if person is not None else ""
    # The tenant is compared too: one thread may act for another person than the visitor.
    if context is None or before is None or before[0] is not context or before[1] != tenant:
        before = context, tenant, engine_of(tenant)
        _found.set(before)
    return before[2]


def _is_current(engine: Engine) -> bool:
    """Return whether the engine still shows its database; if another file lies in its place now, it is closed."""
    file = engine.database.file
    # A deleted tenant begins again with an agent's token, or in another process: not with a page that is still open.
    if file is None or engine.database.in_place or not file.exists():
        return True
    # In a thread: it waits for jobs, which may ask for the engine themselves.
    threading.Thread(target=engine.close, name="close-engine", daemon=True).start()
    return False


@st.cache_resource(show_spinner=False, on_release=Engine.close, validate=_is_current)
def engine_of(tenant: str) -> Engine:
    """The single engine of a tenant in this server. Raises `StoreError` if the database cannot be reached."""
    return Engine(Settings.of_the_app(), tenant)

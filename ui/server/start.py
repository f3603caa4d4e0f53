"""The start of the server: what this app needs nothing of is left out, what takes seconds is loaded ahead,
and the recording proxy and the span receiver are told the app's sessions and the host names that the operator allows.

No import of the engine or of a page at the top, so that the server answers before any of them is loaded.
"""

import gc
import logging
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING

from streamlit import delta_generator
from streamlit.auth_util import get_secrets_auth_section
from streamlit.components.v2.component_manager import BidiComponentManager
from streamlit.config import get_option
from streamlit.runtime.pages_manager import PagesManager
from streamlit.web.server.starlette.starlette_websocket import is_host_allowed

from memory_inspector.reading import coding_homes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory_core import Database
    from memory_core.engine.session import Session
    from memory_inspector.recorder.receiving import Receiver
    from memory_inspector.server.engine import Engine


def host_allowed(host: str) -> bool:
    """Tell whether the operator allows this host name, by the setting that also applies to the pages' WebSocket."""
    # Streamlit takes an empty list for every host; here it means that no other name is allowed.
    return bool(get_option("server.allowedHosts")) and is_host_allowed(host)


def session_of(session_id: str, tenant: str) -> "Session":
    """Return a session of a tenant by its id; it need not exist yet."""
    from memory_core.engine.session import Session

    engine = _engine_for_agents(tenant)
    return Session(engine.database, session_id, services=engine.services)


def open_receiver(tenant: str) -> "Receiver":
    """Return a receiver of spans that stores into a tenant's database."""
    from memory_inspector.recorder.receiving import Receiver

    return Receiver(lambda: _engine_for_agents(tenant).database, partial(session_of, tenant=tenant))


def _engine_for_agents(tenant: str) -> "Engine":
    """Return a tenant's engine; a tenant that was deleted begins again, as its present tokens were made since."""
    from memory_core import Database
    from ui.tab.services import engine_of

    engine = engine_of(tenant)
    if tenant and not engine.database.in_place:
        Database.open(engine.settings.database, tenant=tenant).close()
        engine = engine_of(tenant)
    return engine


class AgentTokens:
    """The tokens in the app's database; see `memory_inspector.recorder.attaching.Tokens`."""

    def required(self) -> bool:
        return bool(get_secrets_auth_section())

    def tenant_of(self, token: str) -> str:
        from memory_inspector.upkeep.agents import tenant_of
        from ui.tab.services import engine_of

        return tenant_of(engine_of("").database, token)


def tenant_databases() -> "Iterator[Database]":
    """Open the app's database for each tenant, one after the other."""
    from memory_core import Database
    from ui.tab.services import engine_of

    root = engine_of("")
    for tenant in root.database.tenants():
        yield Database.open(root.settings.database, tenant=tenant)


# -- what is left out of Streamlit ----------------------------------------------------------------


def leave_out() -> None:
    """Disable steps of Streamlit's start, and of its first page; must be called before the server is created.

    There is no public switch for them; a test fails if Streamlit renames any of the attributes set here.
    """
    # Otherwise the first browser shows the files of `pages/` in Streamlit's own menu, in a width of its own, until
    # app.py has declared the pages.
    PagesManager.uses_pages_directory = False
    # Otherwise every installed package is searched for components, 0.3 s with 150 packages. This app draws only with
    # its own.
    BidiComponentManager.discover_and_register_components = _nothing_installed  # type: ignore[method-assign]
    # Otherwise the first element makes Streamlit check whether this is a Python prompt, by the source files of all
    # loaded modules: 0.1 s.
    delta_generator._use_warning_has_been_displayed = True


def _nothing_installed(self: BidiComponentManager, *, start_file_watching: bool = True) -> None:
    pass


# -- what is loaded ahead, in the order of need: the first page, and only then the models ---------


FIRST_PAGE_SECONDS = 10.0
"""Maximum seconds that the models wait for a first page; nobody may be coming."""

PAINT_SECONDS = 1.0
"""Seconds left to the browser after the first page was sent, before loading the models occupies the processor."""

SWITCH_SECONDS = 0.0005
"""Thread switch interval, in seconds, while importing, in place of Python's 5 ms: the browser requests some hundred
small files meanwhile."""

_log = logging.getLogger(__name__)
_page_is_out = threading.Event()
_is_warm = threading.Event()


def page_is_out() -> None:
    """Signal that the first page no longer waits for anything. Called by app.py at the end of every run."""
    _page_is_out.set()
    # Before that, modules still come with the models, and `keep_loaded` takes them all.
    if _is_warm.is_set():
        from memory_core.process import keep_imported

        keep_imported()


def warm_up() -> None:
    """Load what the first page draws with, store the demo; once that page is out, load the models and the index.

    Run it in a thread of its own when the server starts. Errors only go to the log here; the page reports them to
    users.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.disable()  # a quarter of the time of many imports would be spent on fruitless garbage collection
    try:
        _load_first_page()
    finally:
        gc.enable()
    gc.freeze()  # `keep_loaded` once the page is out: collecting garbage first would delay it by 0.2 s
    # The pause is only for a page that somebody is looking at.
    if _page_is_out.wait(FIRST_PAGE_SECONDS):
        threading.Event().wait(PAINT_SECONDS)
    sys.setswitchinterval(before)
    if coding_homes.offered():
        _load_coding_views()
    _load_models()
    from memory_core.process import keep_loaded

    keep_loaded()
    _is_warm.set()


def _load_first_page() -> None:
    from memory_core import MemoryInspectorError

    if coding_homes.offered():
        _read_first_session()
    from memory_inspector.server.shipped_demo import ensure_demo
    from ui.chat import chat_page  # noqa: F401
    from ui.frame import header, sidebar  # noqa: F401  (all that a page imports)
    from ui.tab.services import engine

    try:
        ensure_demo(engine())
    except MemoryInspectorError as error:
        _log.warning("could not prepare for the first visitor: %s", error)


def _read_first_session() -> None:
    """Read the coding agent's session that the command named, which takes a second if it is large."""
    from memory_core import MemoryInspectorError
    from memory_inspector.server.coding_sessions import coding_sessions

    try:
        if (id := coding_sessions().first()) is not None:
            coding_sessions().open(id)
    except MemoryInspectorError as error:
        _log.warning("could not read the first session: %s", error)


def _load_coding_views() -> None:
    """Load what the other views of a coding agent's session draw with, which is needed sooner than the models."""
    from memory_core.tokens import default_counter
    from ui.coding import source_views  # noqa: F401

    default_counter().text("Hello")


def _load_models() -> None:
    from memory_core import MemoryInspectorError
    from ui.tab.services import engine

    try:
        services, database = engine().services, engine().database
        # One word is embedded, because some embedders load their model only with the first text.
        services.embedder.embed(["Hello"])
        services.index_of(database).check()
    except MemoryInspectorError as error:
        _log.warning("could not load what the first question will need: %s", error)

"""The app's part of recording proxy and span receiver: its sessions, and the host names that the operator allows.

The engine is imported with the first request.
"""

from typing import TYPE_CHECKING

from streamlit.config import get_option
from streamlit.web.server.starlette.starlette_websocket import is_host_allowed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory_core import Database
    from memory_core.attach.receiving import Receiver
    from memory_core.engine.session import Session


def host_allowed(host: str) -> bool:
    """Tell whether the operator allows this host name, by the setting that also applies to the pages' WebSocket."""
    # Streamlit takes an empty list for every host; here it means that no other name is allowed.
    return bool(get_option("server.allowedHosts")) and is_host_allowed(host)


def session_of(session_id: str) -> "Session":
    """Return a session of the app's database by its id; it need not exist yet."""
    from memory_core.engine.session import Session
    from ui.tab.services import engine

    return Session(engine().database, session_id, services=engine().services)


def open_receiver() -> "Receiver":
    """Return a receiver of spans that stores into the app's database."""
    from memory_core.attach.receiving import Receiver
    from ui.tab.services import engine

    return Receiver(lambda: engine().database, session_of)


def tenant_databases() -> "Iterator[Database]":
    """Open the app's database for each tenant, one after the other."""
    from memory_core import Database
    from ui.tab.services import engine

    for tenant in engine().database.tenants():
        yield Database.open(engine().settings.database, tenant=tenant)

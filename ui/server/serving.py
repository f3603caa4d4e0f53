"""The app's part of recording proxy and span receiver: its sessions, and the host names that the operator allows.

The engine is imported with the first request.
"""

from functools import partial
from typing import TYPE_CHECKING

from streamlit.auth_util import get_secrets_auth_section
from streamlit.config import get_option
from streamlit.web.server.starlette.starlette_websocket import is_host_allowed

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

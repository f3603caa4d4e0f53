"""Search a Chroma server: names, ids, documents and metadata of every collection.

It has its own client, and shares no code with the modules that erase.
"""

import json
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from memory_inspector.verification.fingerprints import Wanted, count
from memory_inspector.verification.searching import Searched, search_values

_AT_ONCE, _SECONDS = 1_000, 30

TENANT = "list of collections, tenant "
"""Beginning of the part that stands for a tenant, before its name."""


def search_chroma(url: str, wanted: Wanted, *, tenants: Collection[str] = ()) -> list[Searched]:
    """Search the server at `http://host:port`. What cannot be read is reported with the reason, never a password.

    A server does not list its tenants. Searched are its default one, that of the client's credentials, and those named
    in `tenants` or in the URL: `http://host:port?tenant=one&tenant=other`.
    """
    searched, name = list[Searched](), "Chroma"
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 8000)
        name = f"Chroma at {parts.hostname}:{port}"
        with _connected(parts, port) as client:
            for tenant in dict.fromkeys([client.tenant, *parse_qs(parts.query).get("tenant", ()), *tenants]):
                searched += _tenant(name, client, tenant, wanted)
    # Of any kind, as its client raises what it likes. The text of an error may hold the address, and so a password.
    except Exception as error:
        missing = isinstance(error, ImportError)
        problem = "needs memory-inspector[chroma]" if missing else f"cannot be read: {type(error).__name__}"
        searched.append(Searched(name, "contents", 0, 0, problem))
    return searched


@contextmanager
def _connected(server: SplitResult, port: int) -> Iterator[Any]:
    """Open a client in the tenant of its credentials; without any, in the default one."""
    import chromadb
    import httpx

    # First by a request that ends: Chroma's client connects without a limit of time.
    httpx.get(f"{server.scheme}://{server.hostname}:{port}/api/v2/heartbeat", timeout=_SECONDS).raise_for_status()
    settings = chromadb.config.Settings(anonymized_telemetry=False)
    host, ssl = server.hostname or "", server.scheme == "https"
    client = chromadb.HttpClient(host=host, port=port, ssl=ssl, settings=settings)
    sessions = client._server._session, client._admin_client._server._session
    # Its own `close` leaves the connections open.
    with closing(sessions[0]), closing(sessions[1]):
        sessions[0].timeout = sessions[1].timeout = _SECONDS
        yield client


def _tenant(server: str, client: Any, tenant: str, wanted: Wanted) -> Iterator[Searched]:
    """Search the collections of all databases of a tenant."""
    name = "(a tenant with the words in its name)" if sum(count([tenant.encode()], wanted)) else tenant
    problem = None
    try:
        # The databases of a tenant that does not exist are an empty list, as if there were nothing in it.
        client._admin_client.get_tenant(tenant)
        for database in client._admin_client.list_databases(tenant=tenant):
            client.set_tenant(tenant, database["name"])
            for offset in range(0, client.count_collections(), _AT_ONCE):
                for collection in client.list_collections(limit=_AT_ONCE, offset=offset):
                    yield from _collection(server, f"{tenant}/{database['name']}/{collection.name}", collection, wanted)
    except Exception as error:
        problem = f"cannot be read: {type(error).__name__}"
    # So that a tenant without collections stands on the receipt, too.
    yield Searched(server, f"{TENANT}{name}", 0, int(name != tenant), problem)


def _collection(server: str, part: str, collection: Any, wanted: Wanted) -> Iterator[Searched]:
    if in_name := sum(count([part.encode()], wanted)):
        part = "(a collection with the words in its name)"
        yield Searched(server, part, 0, in_name)
    for field in ("metadata", "ids", "documents", "metadatas", "uris"):
        try:
            yield search_values(server, f"{part}.{field}", _values(collection, field), wanted)
        except Exception as error:
            yield Searched(server, f"{part}.{field}", 0, 0, f"cannot be read: {type(error).__name__}")


def _values(collection: Any, field: str) -> Iterator[bytes]:
    """Yield the values of a field of all items, or the metadata of the collection itself."""
    if field == "metadata":
        yield json.dumps(collection.metadata).encode()
        return
    for offset in range(0, collection.count(), _AT_ONCE):
        include = [field] if field != "ids" else []
        for value in collection.get(limit=_AT_ONCE, offset=offset, include=include)[field] or ():
            yield value.encode() if isinstance(value, str) else json.dumps(value).encode()

"""Search a Chroma server: names, ids, documents and metadata of every collection.

It has its own client, and shares no code with the modules that erase.
"""

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import SplitResult, urlsplit

from memory_core.verification.fingerprints import Wanted, count
from memory_core.verification.searching import Searched, search_values

_AT_ONCE, _SECONDS = 1_000, 30


def search_chroma(url: str, wanted: Wanted) -> list[Searched]:
    """Search the server at `http://host:port`. What cannot be read is reported with the reason, never a password."""
    searched, name = list[Searched](), "Chroma"
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 8000)
        name = f"Chroma at {parts.hostname}:{port}"
        for database, collection in _collections(parts, port):
            searched += _collection(name, database, collection, wanted)
        # So that a server without collections stands on the receipt, too.
        searched.append(Searched(name, "list of collections", 0, 0))
    # Of any kind, as its client raises what it likes. The text of an error may hold the address, and so a password.
    except Exception as error:
        missing = isinstance(error, ImportError)
        problem = "needs memory-inspector[chroma]" if missing else f"cannot be read: {type(error).__name__}"
        searched.append(Searched(name, "contents", 0, 0, problem))
    return searched


def _collections(server: SplitResult, port: int) -> Iterator[tuple[str, Any]]:
    """Yield the collections of all databases, each with the name of its database."""
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
        for database in client._admin_client.list_databases():
            client.set_database(database["name"])
            for offset in range(0, client.count_collections(), _AT_ONCE):
                for collection in client.list_collections(limit=_AT_ONCE, offset=offset):
                    yield database["name"], collection


def _collection(server: str, database: str, collection: Any, wanted: Wanted) -> Iterator[Searched]:
    part = f"{database}/{collection.name}"
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

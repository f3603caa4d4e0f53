"""Search the app's folder and servers for forgotten words, by the verifier that shares no code with erasing."""

from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path

from memory_core import Database
from memory_core.access import acting_person
from memory_core.config import Settings
from memory_inspector.verification.fingerprints import wanted
from memory_inspector.verification.receipts import ForgetReceipt, search, search_chroma, search_server


def receipt_for(database: Database, phrases: Collection[str]) -> ForgetReceipt:
    """Return the receipt of a search for phrases in the app's folder, and in a database and an index outside of it.

    Raises:
        ConfigError: there is no phrase, or one is too short or too long to be searched for, such as a message of
            under 4 characters.
        StoreError: the PostgreSQL database cannot be reached.
    """
    texts = wanted(phrases)
    app, file = Settings.of_the_app(), database.file
    # For one of several people without the folder, which may hold other tenants' files.
    alone = acting_person() is None
    places = [app.home] if alone and app.home is not None and app.home.is_dir() else []
    # A database inside of the folder is searched with it already.
    if file is not None and file.is_file() and not any(place in file.resolve().parents for place in _resolved(places)):
        places.append(file)
    parts = [part for place in places for part in search(place, texts)]
    if not database.is_sqlite:
        # Row-level security shows a connection the rows of one tenant.
        only = {"options": f"-cmemory.tenant={database.tenant}"} if database.tenant else {}
        url = database.engine.url.update_query_dict(only)
        parts += search_server(url.render_as_string(hide_password=False), texts)
    if app.chroma_url is not None:
        parts += search_chroma(app.chroma_url, texts, tenants=app.chroma_tenants)
    return ForgetReceipt(datetime.now(UTC).isoformat(timespec="seconds"), texts, tuple(parts))


def _resolved(places: list[Path]) -> list[Path]:
    return [place.resolve() for place in places]

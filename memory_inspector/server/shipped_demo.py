"""The demo session: stored once from the shipped bundle, which `demo_bundle` creates in the real engine."""

import threading
from pathlib import Path

from memory_core import Database, delete_session, list_sessions
from memory_core.access import acting_as
from memory_inspector.server.engine import Engine

DEMO_SESSION = "demo"
BUNDLE = Path(__file__).parents[1] / "demo" / "demo.zip"

GUIDE_CLOSED, GUIDE_CUT, GUIDE_FORGOTTEN = "guide-seen", "guide-cut", "guide-forgotten"
"""Names of empty marker files in the app's folder: the guide was closed, or one of its steps was done."""

_making = threading.Lock()


def ensure_demo(shared: Engine) -> None:
    """Store the demo if it is missing: takes some 30 ms, once.

    A demo that was deleted on purpose, by another program say, is not stored again.

    Raises:
        StoreError: the database cannot be reached.
    """
    # Two tabs of a first start would both find it missing.
    with _making:
        if not has_demo(shared.database):
            with acting_as(None):  # the server's own work: a viewer may come first
                _store(shared.database)


def reset_demo(shared: Engine) -> None:
    """Delete the demo with all changes to it, and store the shipped one under the same id; its guide begins again.

    Raises:
        NotFoundError: the demo was deleted meanwhile.
        StoreError: the database cannot be reached.
    """
    with _making:
        # Restoring refuses an id that was ever used, so the tombstone must give this one up.
        index = shared.services.index_of(shared.database)
        delete_session(shared.database, DEMO_SESSION, reusable=True, index=index)
        _store(shared.database)
        for name in (GUIDE_CLOSED, GUIDE_CUT, GUIDE_FORGOTTEN):
            guide_marker(shared, name).unlink(missing_ok=True)


def guide_marker(shared: Engine, name: str) -> Path:
    """The marker file of this name."""
    home = shared.settings.home
    assert home is not None  # `Settings.of_the_app` always sets one
    return home / name


def has_demo(database: Database) -> bool:
    """Tell whether the demo exists."""
    return any(status.session_id == DEMO_SESSION for status in list_sessions(database))


def _store(database: Database) -> None:
    from memory_core.bundles.bundle import read_bundle, restore_bundle

    restore_bundle(database, read_bundle(BUNDLE.read_bytes(), BUNDLE.name), DEMO_SESSION)

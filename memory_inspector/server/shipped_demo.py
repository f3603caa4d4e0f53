"""The demo session: stored once from the shipped bundle, which this module creates in the real engine.

    python -m memory_inspector.server.shipped_demo

rewrites `memory_inspector/demo/demo.zip`. That is needed when the script or the engine's behaviour has changed; a test
compares the file with a new one. With the bundle, a first start needs neither the embedding model nor a replay.
"""

import threading
from pathlib import Path

from memory_core import (
    Database,
    FactExtractionMemoryBlock,
    Memory,
    Services,
    StaticMemoryBlock,
    VectorMemoryBlock,
    delete_session,
    list_sessions,
)
from memory_core.access import acting_as
from memory_core.blocks.vector import CLASSIC
from memory_core.bundles.bundle import write_bundle
from memory_inspector.demo.conversations import INSTRUCTIONS, MESSAGES, RECORDED_TURNS, TITLE
from memory_inspector.server.chat_turns import play
from memory_inspector.server.engine import Engine
from memory_inspector.server.jobs import Job

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


# -- the creation of the bundle -------------------------------------------------------------------


DEMO_USER = "sam"
# Above the score of turn 4 for `FORGOTTEN_QUESTION`, which the demo shows as missed.
RECALL_THRESHOLD = 0.31


def demo_memory(database: Database, services: Services) -> Memory:
    """The demo session with its configuration, blocks and recording; created if it is missing, with nothing played."""
    blocks = [
        StaticMemoryBlock(name="Instructions", static_content=INSTRUCTIONS, priority=0),
        FactExtractionMemoryBlock(name="Facts", priority=1, prompt_share=0.3),
        VectorMemoryBlock(
            name="Earlier turns",
            priority=2,
            similarity_top_k=5,
            similarity_threshold=RECALL_THRESHOLD,
            retrieval_context_window=1,
            **CLASSIC,  # ranked by its own words alone, so that what the script misses, and why, is visible at once
        ),
    ]
    memory = Memory.from_defaults(
        DEMO_SESSION,
        DEMO_USER,
        token_limit=1200,
        chat_history_token_ratio=0.6,
        token_flush_size=120,
        memory_blocks=blocks,
        database=database,
        title=TITLE,
        services=services,
    )
    if memory.session.recording() is None:
        memory.session.attach_recording(MESSAGES, source="demo")
    return memory


def make_bundle(services: Services) -> bytes:
    """The demo as it is when the app first opens, made with these services in a database of its own."""
    database = Database.open()
    try:
        # Without pauses, and up to the turn on which the app opens.
        play(Job("demo"), demo_memory(database, services), turns=RECORDED_TURNS, pace=0)
        return write_bundle(database, DEMO_SESSION)
    finally:
        database.close()


if __name__ == "__main__":
    BUNDLE.write_bytes(make_bundle(Services()))
    print(f"{BUNDLE}: {BUNDLE.stat().st_size:,} bytes")

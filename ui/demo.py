"""The demo session: made once, in the real engine, from the words in `demo_script`."""

import threading

from memory_core import (
    FactExtractionMemoryBlock,
    Memory,
    NotFoundError,
    Services,
    StaticMemoryBlock,
    VectorMemoryBlock,
    sessions,
)
from memory_core.blocks.vector import CLASSIC
from memory_core.store.database import Database
from ui.demo_script import INSTRUCTIONS, MESSAGES, RECORDED_TURNS, TITLE
from ui.jobs import Job
from ui.services import Engine
from ui.turns import play

DEMO_SESSION = "demo"
DEMO_USER = "sam"
RECALL_THRESHOLD = 0.31

PREPARING = "preparing"
"""The job that plays the demo to where the app opens; a reset's id begins with the other word."""
RESETTING = "reset"

_making = threading.Lock()


def ensure_demo(shared: Engine) -> None:
    """Make the demo if it is missing; the job `PREPARING` then plays it to its beginning.

    Once it was deleted on purpose, by another program say, it is not made again.

    Raises:
        StoreError: the database cannot be reached.
    """
    with _making:
        if not has_demo(shared.database) and shared.job(DEMO_SESSION) is None:
            try:
                demo_memory(shared.database, shared.services)  # quick: it can be selected from the first drawing on
            except NotFoundError:
                return
            shared.start(DEMO_SESSION, PREPARING, lambda job: prepare_demo(job, shared.database, shared.services))


def being_made(shared: Engine) -> Job | None:
    """The job that makes the demo or makes it anew, while it runs."""
    running = shared.running(DEMO_SESSION)
    return running if running is not None and running.id.startswith((PREPARING, RESETTING)) else None


def demo_memory(database: Database, services: Services) -> Memory:
    """The demo session with its configuration, blocks and recording, nothing played yet."""
    from memory_core.session import Session

    session = Session(database, DEMO_SESSION, services=services)
    blocks = [
        StaticMemoryBlock(name="Instructions", static_content=INSTRUCTIONS, priority=0),
        FactExtractionMemoryBlock(name="Facts", priority=1),
        VectorMemoryBlock(
            name="Earlier turns",
            priority=2,
            similarity_top_k=5,
            similarity_threshold=RECALL_THRESHOLD,
            retrieval_context_window=1,
            **CLASSIC,  # ranked by its own words alone: what the script misses, and why, shows at once
        ),
    ]
    config = {"token_limit": 1200, "chat_history_token_ratio": 0.6, "token_flush_size": 120}
    session.create_or_join(title=TITLE, user_id=DEMO_USER, config=config, blocks=blocks)
    memory = Memory(session)
    if memory.recording() is None:
        memory.attach_recording(MESSAGES, source="demo")
    return memory


def prepare_demo(job: Job, database: Database, services: Services) -> None:
    """Make the demo and play it to where the app opens; what was played already is not played again."""
    memory = demo_memory(database, services)
    recording = memory.recording()
    assert recording is not None
    turns = sum(message.role == "user" for message in recording.messages[: recording.played])
    if turns < RECORDED_TURNS:
        play(job, memory, turns=RECORDED_TURNS - turns, pace=0)


def reset_demo(job: Job, database: Database, services: Services) -> None:
    """Play the demo anew from its beginning."""
    memory = demo_memory(database, services)
    memory.reset()
    prepare_demo(job, database, services)


def has_demo(database: Database) -> bool:
    """Is the demo there and played to its beginning?"""
    return any(status.session_id == DEMO_SESSION and status.turns >= RECORDED_TURNS for status in sessions(database))

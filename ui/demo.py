"""The demo session: made once, in the real engine, from the words in `demo_script`."""

from memory_core import (
    FactExtractionMemoryBlock,
    Memory,
    Services,
    StaticMemoryBlock,
    VectorMemoryBlock,
    sessions,
)
from memory_core.store.database import Database
from ui.demo_script import INSTRUCTIONS, MESSAGES, RECORDED_TURNS, TITLE
from ui.jobs import Job
from ui.turns import play

DEMO_SESSION = "demo"
DEMO_USER = "sam"
RECALL_THRESHOLD = 0.31


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

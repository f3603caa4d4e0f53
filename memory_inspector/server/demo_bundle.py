"""Create the demo: play the messages of `demo/conversations.py` through the real engine and write the shipped bundle.

python -m memory_inspector.server.demo_bundle

rewrites `memory_inspector/demo/demo.zip`. That is needed when the script or the engine's behaviour has changed; a test
compares the file with a new one. With the bundle, a first start needs neither the embedding model nor a replay.
"""

from memory_core import (
    Database,
    FactExtractionMemoryBlock,
    Memory,
    Services,
    StaticMemoryBlock,
    VectorMemoryBlock,
)
from memory_core.blocks.vector import CLASSIC
from memory_core.bundles.bundle import write_bundle
from memory_inspector.demo.conversations import INSTRUCTIONS, MESSAGES, RECORDED_TURNS, TITLE
from memory_inspector.server.chat_turns import play
from memory_inspector.server.jobs import Job
from memory_inspector.server.shipped_demo import BUNDLE, DEMO_SESSION

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

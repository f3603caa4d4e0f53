"""New sessions of the app: which blocks and settings they start with."""

import uuid
from collections.abc import Sequence
from typing import Literal

from memory_core import (
    ChatMessage,
    FactExtractionMemoryBlock,
    Memory,
    StaticMemoryBlock,
    VectorMemoryBlock,
)
from memory_core.session import Session
from ui.services import Engine

INSTRUCTIONS = "You are a helpful assistant. Use what you remember, and say when you do not know something."

TOKEN_LIMIT = 4_000
"""Small enough to see flushes within a short conversation; LlamaIndex's default of 30,000 shows none."""

TRIP = (
    ChatMessage(role="user", content="Hi, I am Mira and I live in Ghent. Help me plan a week in Lisbon in May."),
    ChatMessage(role="assistant", content="Gladly, Mira. What do you enjoy most when you travel?"),
    ChatMessage(role="user", content="I like small museums and the sea. I am vegetarian. Keep it under 900 euros."),
    ChatMessage(
        role="assistant", content="Small museums, the sea, vegetarian food, and at most 900 euros. When in May?"
    ),
)
"""A short start for the empty chat's suggestion; our own writing."""


def new_memory(
    engine: Engine,
    *,
    title: str,
    token_limit: int = TOKEN_LIMIT,
    user_id: str | None = None,
    facts_of: Literal["session", "user"] = "session",
) -> Memory:
    """A new session with instructions, facts and earlier turns; `facts_of` says whose the facts are."""
    session = Session(engine.database, uuid.uuid4().hex[:12], services=engine.services)
    blocks = [
        StaticMemoryBlock(name="Instructions", static_content=INSTRUCTIONS, priority=0),
        FactExtractionMemoryBlock(name="Facts", priority=1, scope=facts_of),
        VectorMemoryBlock(name="Earlier turns", priority=2, similarity_top_k=5, retrieval_context_window=3),
    ]
    session.create_or_join(title=title, user_id=user_id, config={"token_limit": token_limit}, blocks=blocks)
    return Memory(session)


def recorded_session(engine: Engine, messages: Sequence[ChatMessage], *, title: str, skipped: int = 0) -> Memory:
    """A new session with a recording to be played into it."""
    memory = new_memory(engine, title=title)
    memory.attach_recording(messages, source=title, skipped=skipped)
    return memory

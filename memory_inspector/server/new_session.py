"""Defaults of the app's new sessions: their blocks and settings."""

import uuid
from collections.abc import Sequence
from typing import Any, Literal

from memory_core import ChatMessage, ConfigError, FactExtractionMemoryBlock, Memory, MemoryConfig, VectorMemoryBlock
from memory_core.recipes import RECIPES, RecipeSpec
from memory_inspector.server.engine import Engine

INSTRUCTIONS = "You are a helpful assistant. Use what you remember, and say when you do not know something."

RECIPE = "blocks"
"""Default recipe of a session."""

ASKS_WITH = 3
"""Number of latest messages from which a search of earlier turns takes its query."""

TOKEN_LIMIT = 4_000
"""Default token limit: small enough for flushes within a short conversation, unlike LlamaIndex's 30,000."""

TRIP = (
    ChatMessage(role="user", content="Hi, I am Mira and I live in Ghent. Help me plan a week in Lisbon in May."),
    ChatMessage(role="assistant", content="Gladly, Mira. What do you enjoy most when you travel?"),
    ChatMessage(role="user", content="I like small museums and the sea. I am vegetarian. Keep it under 900 euros."),
    ChatMessage(
        role="assistant", content="Small museums, the sea, vegetarian food, and at most 900 euros. When in May?"
    ),
)
"""A short conversation that the empty chat suggests, written for this app."""


def new_memory(
    engine: Engine,
    *,
    title: str,
    token_limit: int = TOKEN_LIMIT,
    user_id: str | None = None,
    facts_of: Literal["session", "user"] = "session",
    recipe: str = RECIPE,
) -> Memory:
    """Create a session from a recipe; `facts_of` is the owner of its facts.

    Raises:
        ConfigError: the recipe belongs to a user, and none is given.
    """
    chosen = RECIPES[recipe]
    if chosen.of_user and user_id is None:
        raise ConfigError(f'"{chosen.title}" belongs to a user: say whose conversation it is.')
    # Not every recipe has a block for instructions.
    made = chosen.made(**({"instructions": INSTRUCTIONS} if "instructions" in chosen.parameters else {}))
    for block in made.blocks:
        if isinstance(block, FactExtractionMemoryBlock) and facts_of == "user":
            block.scope = "user"
        elif isinstance(block, VectorMemoryBlock):
            block.retrieval_context_window = ASKS_WITH
    return Memory.from_defaults(
        uuid.uuid4().hex[:12],
        user_id,
        memory_blocks=made.blocks,
        database=engine.database,
        title=title,
        services=engine.services,
        **_settings(made, token_limit),
    )


def _settings(made: RecipeSpec, token_limit: int) -> dict[str, Any]:
    return {**made.settings, "token_limit": token_limit}


def new_config() -> MemoryConfig:
    """Configuration of a new session unless another recipe or limit is chosen."""
    return MemoryConfig(**_settings(RECIPES[RECIPE].made(), TOKEN_LIMIT))


def recorded_session(engine: Engine, messages: Sequence[ChatMessage], *, title: str, skipped: int = 0) -> Memory:
    """Create a session with a recording to be played into it."""
    memory = new_memory(engine, title=title)
    memory.session.attach_recording(messages, source=title, skipped=skipped)
    return memory

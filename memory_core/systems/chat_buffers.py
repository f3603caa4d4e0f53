"""LlamaIndex's older chat memories under their names: `ChatMemoryBuffer` and `ChatSummaryMemoryBuffer`.

    memory = ChatMemoryBuffer.from_defaults(token_limit=2000)
    memory.put(ChatMessage(role="user", content="Hello"))
    memory.get()

Both are recipes, `buffer` and `summary`. What differs from LlamaIndex: the token limit covers the summary too, and the
newest turn is thinned and reported where it alone exceeds the limit.
"""

from collections.abc import Sequence
from typing import Any, Self

from memory_core.errors import ConfigError
from memory_core.formats.given_message import GivenMessage
from memory_core.memory import Memory
from memory_core.models.protocols import ChatModel
from memory_core.systems.named import NamedMemory
from memory_core.tokens import Tokenizer

TOKEN_LIMIT = 3000
"""LlamaIndex's default, in tokens."""


class ChatMemoryBuffer(NamedMemory):
    """Memory of the newest messages that fit under the token limit; the oldest leave first."""

    @classmethod
    def from_defaults(
        cls,
        chat_history: Sequence[GivenMessage] | None = None,
        *,
        chat_store: None = None,
        chat_store_key: str | None = None,
        token_limit: int | None = None,
        tokenizer_fn: Tokenizer | None = None,
        **settings: Any,
    ) -> Self:
        """Create the memory, or open session `chat_store_key`. `settings` are for `Memory.from_recipe`.

        Raises:
            ConfigError: a setting is impossible, or a chat store is given.
        """
        return cls(_made("buffer", chat_history, chat_store, chat_store_key, token_limit, tokenizer_fn, settings))


class ChatSummaryMemoryBuffer(NamedMemory):
    """Memory of the newest messages in full and a running summary of earlier ones, together under the token limit."""

    @classmethod
    def from_defaults(
        cls,
        chat_history: Sequence[GivenMessage] | None = None,
        llm: ChatModel | None = None,
        *,
        chat_store: None = None,
        chat_store_key: str | None = None,
        token_limit: int | None = None,
        tokenizer_fn: Tokenizer | None = None,
        summarize_prompt: None = None,
        **settings: Any,
    ) -> Self:
        """Create the memory, or open session `chat_store_key`. `llm` writes the summary; without it, rules do.

        Raises:
            ConfigError: a setting is impossible, or a chat store or a prompt is given.
        """
        if summarize_prompt is not None:
            raise ConfigError("summarize_prompt: the engine's own is used, whose answer it can check")
        # A model among the caller's own settings takes precedence.
        settings = {"chat": llm, **settings}
        return cls(_made("summary", chat_history, chat_store, chat_store_key, token_limit, tokenizer_fn, settings))


def _made(
    recipe: str,
    chat_history: Sequence[GivenMessage] | None,
    chat_store: object,
    chat_store_key: str | None,
    token_limit: int | None,
    tokenizer_fn: Tokenizer | None,
    settings: dict[str, Any],
) -> Memory:
    # LlamaIndex's stores hold messages alone, and the engine needs its events beside them.
    if chat_store is not None:
        raise ConfigError(
            "chat_store: messages are kept in a database of their own: give database_uri, and import the store on the "
            "page Sessions"
        )
    return Memory.from_recipe(
        recipe,
        chat_store_key,
        chat_history=chat_history,
        token_limit=TOKEN_LIMIT if token_limit is None else token_limit,
        tokenizer_fn=tokenizer_fn,
        **settings,
    )

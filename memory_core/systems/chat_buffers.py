"""LlamaIndex's older chat memories under their names: `ChatMemoryBuffer` and `ChatSummaryMemoryBuffer`.

    memory = ChatMemoryBuffer.from_defaults(token_limit=2000)
    memory.put(ChatMessage(role="user", content="Hello"))
    memory.get()

Both are recipes, `buffer` and `summary`. What differs from LlamaIndex: the token limit covers the summary too, and the
newest turn is thinned and reported where it alone exceeds the limit. A buffer is saved as LlamaIndex saves one, its
messages in a `SimpleChatStore`; what is read back is a session of its own.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Self

from memory_core.errors import ConfigError
from memory_core.formats.any_message import GivenMessage
from memory_core.formats.llamaindex_message import message_to_llamaindex
from memory_core.memory import Memory
from memory_core.messages import ChatMessage
from memory_core.models.protocols import ChatModel
from memory_core.systems.named import NamedMemory
from memory_core.tokens import Tokenizer

TOKEN_LIMIT = 3000
"""LlamaIndex's default, in tokens."""


WINDOW_SHARE = 0.75
"""Share of a model's window that is the token limit where `llm` names the window, as in LlamaIndex."""


class _ChatBuffer(NamedMemory):
    count_initial_tokens = True
    """True if the tokens beside the memory, such as those of a system prompt, are taken off the limit."""

    def get(self, input: str | None = None, initial_token_count: int = 0) -> list[ChatMessage]:
        """Return the messages for the model, within the limit less `initial_token_count`.

        Raises:
            ConfigError: `initial_token_count` alone is above the limit.
        """
        beside = initial_token_count if self.count_initial_tokens else 0
        if beside > self.token_limit:
            raise ConfigError(f"initial_token_count of {beside:,} is above the token limit of {self.token_limit:,}")
        return self.memory.get(input, initial_token_count=beside)

    def get_token_count(self) -> int:
        """Return the tokens of the messages in full."""
        return self.memory.session.status().queue_tokens

    def to_dict(self) -> dict[str, Any]:
        """Return settings and messages as LlamaIndex saves them; models are not saved."""
        store = {self.session_id: [message_to_llamaindex(message) for message in self.get_all()]}
        saved: dict[str, Any] = {"token_limit": self.token_limit, "chat_store_key": self.session_id}
        saved["count_initial_tokens"] = self.count_initial_tokens
        return {**saved, "chat_store": {"store": store, "class_name": "SimpleChatStore"}}

    def to_string(self) -> str:
        return json.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], **settings: Any) -> Self:
        """Make a buffer from what `to_dict` of this class, or of LlamaIndex's, gave; `settings` go before it.

        Raises:
            ConfigError: the messages are in another store than LlamaIndex's simple one.
        """
        store, key = data.get("chat_store", {}), data.get("chat_store_key", "chat_history")
        if "store" not in store and "chat_history" not in data:
            raise ConfigError("from_dict reads messages of a SimpleChatStore, and there is none")
        messages = data["chat_history"] if "chat_history" in data else store["store"].get(key, [])
        limit = {"token_limit": data["token_limit"]} if "token_limit" in data else {}
        made = cls(chat_history=messages, **{**limit, **settings})
        made.count_initial_tokens = data.get("count_initial_tokens", made.count_initial_tokens)
        return made

    @classmethod
    def from_string(cls, json_str: str, **settings: Any) -> Self:
        return cls.from_dict(json.loads(json_str), **settings)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_dict, (self.to_dict(),)


class ChatMemoryBuffer(_ChatBuffer):
    """Memory of the newest messages that fit under the token limit; the oldest leave first."""

    @classmethod
    def from_defaults(
        cls,
        chat_history: Sequence[GivenMessage] | None = None,
        llm: Any = None,
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
        limit = _limit(token_limit, llm)
        return cls(_made("buffer", chat_history, chat_store, chat_store_key, limit, tokenizer_fn, settings))


class ChatSummaryMemoryBuffer(_ChatBuffer):
    """Memory of the newest messages in full and a running summary of earlier ones, together under the token limit."""

    @classmethod
    def from_defaults(
        cls,
        chat_history: Sequence[GivenMessage] | None = None,
        llm: ChatModel | None = None,
        chat_store: None = None,
        chat_store_key: str | None = None,
        token_limit: int | None = None,
        tokenizer_fn: Tokenizer | None = None,
        summarize_prompt: None = None,
        count_initial_tokens: bool = False,
        **settings: Any,
    ) -> Self:
        """Create the memory, or open session `chat_store_key`. `llm` writes the summary; without it, rules do.

        Raises:
            ConfigError: a setting is impossible, or a chat store or a prompt is given.
        """
        if summarize_prompt is not None:
            raise ConfigError("summarize_prompt: the engine's own is used, whose answer it can check")
        # A model among the caller's own settings takes precedence.
        settings, limit = {"chat": llm, **settings}, _limit(token_limit, llm)
        made = cls(_made("summary", chat_history, chat_store, chat_store_key, limit, tokenizer_fn, settings))
        made.count_initial_tokens = count_initial_tokens
        return made


def _limit(token_limit: int | None, llm: Any) -> int:
    """Return the limit that was given, else a share of the window of LlamaIndex's model, else LlamaIndex's default."""
    window = getattr(getattr(llm, "metadata", None), "context_window", None)
    fitting = int(window * WINDOW_SHARE) if isinstance(window, int) else TOKEN_LIMIT
    return fitting if token_limit is None else token_limit


def _made(
    recipe: str,
    chat_history: Sequence[GivenMessage] | None,
    chat_store: object,
    chat_store_key: str | None,
    token_limit: int,
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
        token_limit=token_limit,
        tokenizer_fn=tokenizer_fn,
        **settings,
    )

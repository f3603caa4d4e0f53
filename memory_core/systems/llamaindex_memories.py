"""LlamaIndex's older memories under their names: `ChatMemoryBuffer`, `ChatSummaryMemoryBuffer` and `VectorMemory`.

    memory = ChatMemoryBuffer.from_defaults(token_limit=2000)
    memory.put(ChatMessage(role="user", content="Hello"))
    memory.get()

The first two are recipes, `buffer` and `summary`. What differs from LlamaIndex: the token limit covers the summary
too, and the newest turn is thinned and reported where it alone exceeds the limit. A buffer is saved as LlamaIndex saves
one, its messages in a `SimpleChatStore`; what is read back is a session of its own.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Self

from memory_core.blocks.vector import CLASSIC, VectorMemoryBlock
from memory_core.errors import ConfigError
from memory_core.formats.any_message import GivenMessage
from memory_core.formats.llamaindex_message import message_to_llamaindex
from memory_core.memory import Memory
from memory_core.messages import ChatMessage, MessageRole, independent
from memory_core.models.protocols import ChatModel, Embedder
from memory_core.services import Services
from memory_core.systems.named import NamedMemory
from memory_core.tokens import Tokenizer
from memory_core.vectors.vector_index import VectorIndex

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


# -- vector memory --------------------------------------------------------------------------------


TOP_K = 2
"""Default number of turns that a question recalls, as in LlamaIndex."""

BLOCK = "Earlier turns"


class VectorMemory(NamedMemory):
    """Conversation whose turns are found by meaning and by keywords.

    A user message and the replies to it are one turn, stored and found together. System messages are instructions and
    belong to no turn: they come first in every result. A user message begins a turn.

        memory = VectorMemory.from_defaults(top_k=2)
        memory.put(ChatMessage(role="user", content="My passport is in the blue drawer."))
        memory.put(ChatMessage(role="assistant", content="Noted: the blue drawer."))
        memory.get("Where is my passport?")  # both messages

    The queue holds the newest turn; earlier turns have vectors. A turn is embedded when the next one begins. Before
    that it is embedded only for a search, and again only if it has grown.

    LlamaIndex's object of that name differs: a system message is stored like any other and may not be found; turns
    are returned best first instead of in order of time; `get_all` raises; every reply embeds its whole turn again;
    and after `reset` the last turn returns with the next reply.
    """

    @classmethod
    def from_defaults(
        cls,
        vector_store: VectorIndex | None = None,
        embed_model: Embedder | None = None,
        *,
        top_k: int | None = None,
        retriever_kwargs: Mapping[str, Any] | None = None,
        similarity_threshold: float | None = None,
        session_id: str | None = None,
        user_id: str | None = None,
        database_uri: str | None = None,
        services: Services | None = None,
        **settings: Any,
    ) -> "VectorMemory":
        """Create a vector memory, or open it if the session exists in the database.

        At most `top_k` turns are recalled (None: 2), as with LlamaIndex's `retriever_kwargs={"similarity_top_k": 2}`.
        `similarity_threshold` is the least score, 0 to 1. Without `vector_store` and `embed_model` those of `services`
        are used; without a database the memory is kept in this process. `settings` are those of `MemoryConfig`.

        Raises:
            ConfigError: a setting is impossible.
            StoreError: the database cannot be reached.
        """
        unknown = sorted(set(retriever_kwargs or {}) - {"similarity_top_k"})
        if unknown:
            raise ConfigError(f"retriever_kwargs may hold similarity_top_k alone, not {unknown[0]!r}")
        theirs = (retriever_kwargs or {}).get("similarity_top_k")
        if top_k is not None and theirs is not None and top_k != theirs:
            raise ConfigError(f"give top_k or similarity_top_k, not both: {top_k} and {theirs}")
        block = VectorMemoryBlock(
            name=BLOCK,
            priority=1,
            vector_store=vector_store,
            embed_model=embed_model,
            similarity_top_k=next((value for value in (top_k, theirs) if value is not None), TOP_K),
            similarity_threshold=similarity_threshold,
            retrieval_context_window=1,
            **CLASSIC,
        )
        memory = Memory.from_defaults(
            session_id,
            user_id,
            memory_blocks=[block],
            database_uri=database_uri,
            services=services,
            **{"recipe": "vector", **settings, "queue_turns": 1, "split_long_turns": False},
        )
        return cls(memory)

    def get(self, input: str | None = None) -> list[ChatMessage]:
        """Return the system messages, each once, then the turns that fit `input` best, whole and in order of time.

        Without words to search for, only the system messages. Changes nothing and records nothing.
        """
        # System messages are instructions, which no search returns.
        system = self.memory.session.messages(role=MessageRole.SYSTEM)
        once = {stored.message.to_json(): stored.message for stored in system}
        turns = self.memory.retrieval.recall(input or "")
        messages = {stored.seq: stored.message for turn in turns for stored in turn.messages}
        return [independent(message) for message in (*once.values(), *(messages[seq] for seq in sorted(messages)))]

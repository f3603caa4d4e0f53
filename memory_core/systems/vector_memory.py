"""`VectorMemory`, named as in LlamaIndex: a memory whose earlier messages are found again by a question.

    memory = VectorMemory.from_defaults(top_k=2)
    memory.put(ChatMessage(role="user", content="My passport is in the blue drawer."))
    memory.put(ChatMessage(role="assistant", content="Noted: the blue drawer."))
    memory.get("Where is my passport?")  # both messages

The queue holds the newest turn; earlier turns have vectors. A turn is embedded when the next one begins. Before that
it is embedded only for a search, and again only if it has grown.
"""

from collections.abc import Mapping
from typing import Any

from memory_core.blocks.vector import CLASSIC, VectorMemoryBlock
from memory_core.errors import ConfigError
from memory_core.memory import Memory
from memory_core.messages import ChatMessage, MessageRole, independent
from memory_core.models.protocols import Embedder
from memory_core.services import Services
from memory_core.systems.named import NamedMemory
from memory_core.vectors.vector_index import VectorIndex

TOP_K = 2
"""Default number of turns that a question recalls, as in LlamaIndex."""

BLOCK = "Earlier turns"


class VectorMemory(NamedMemory):
    """Conversation whose turns are found by meaning and by keywords.

    A user message and the replies to it are one turn, stored and found together. System messages are instructions and
    belong to no turn: they come first in every result. A user message begins a turn.

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

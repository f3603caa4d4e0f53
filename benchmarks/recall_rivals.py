"""What this engine's default is measured against (`recall.py --compare`, `--ablations`).

Rivals are the recipes that need no model, each at its own settings, and LlamaIndex's `Memory` with its
`VectorMemoryBlock` at its defaults. They get the limit before the conversation, so that what leaves
their queue, and when, is as it would be in use. Ablations change one setting of the default.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from recall_data import Conversation
from recall_measure import Filled, Result, measure_row, rendered

from memory_core import Memory
from memory_core.models.embedding import MiniLMEmbedder
from memory_core.models.protocols import Embedder
from memory_core.recipes import RECIPES
from memory_core.services import Services

RECIPE_ROWS = tuple(key for key in RECIPES if key != "self_editing")
"""The self-editing agent needs a model that calls tools."""

REFERENCES = {"llama-index-core": 1, "llama-index-core, half the limit": 2}
"""By what its limit is divided: at its defaults it never cuts what its vector block brings back, so that its prompts
are larger than the limit. Half of it is what somebody sets whose prompts must fit."""

AT_ONCE = 4
"""Messages put together: a queue is looked at after each put, so few are nearer to a chat than bulk is."""

ABLATIONS: dict[str, dict[str, Any]] = {
    **{
        f"without {signal}": {f"{signal}_weight": 0.0}
        for signal in ("vector", "keyword", "neighbour", "episode", "speaker", "date", "informativeness", "length")
    },
    'layout="messages"': {"layout": "messages"},
    "top_k=5 fixed": {"similarity_top_k": 5},
}
"""One changed setting each, on the same stored vectors."""

ANEW: dict[str, dict[str, Any]] = {'unit="turn"': {"unit": "turn"}}
"""What decides how a conversation is stored."""


class Remembering:
    """An embedder that embeds no text twice: the same messages go into many engines here, and none is timed."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._vectors: dict[str, NDArray[np.float32]] = {}

    @property
    def id(self) -> str:
        return self._embedder.id

    @property
    def dimensions(self) -> int:
        return self._embedder.dimensions

    @property
    def offline(self) -> bool:
        return True

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if new:
            self._vectors.update(zip(new, self._embedder.embed(new), strict=True))
        return np.stack([self._vectors[text] for text in texts])


class RecipeRow:
    """One recipe at its own settings."""

    def __init__(self, key: str, conversation: Conversation, services: Services, *, inline: bool) -> None:
        self._key, self._name, self._services = key, conversation.name, services
        self._messages = [line.message(inline=inline) for line in conversation.lines]
        self._memory: Memory | None = None

    def limit(self, budget: int) -> None:
        self.close()
        memory = Memory.from_recipe(
            self._key,
            f"{self._name}/{self._key}/{budget}",
            "reader",
            database_uri="sqlite://",
            token_limit=budget,
            accounting="billed",
            services=self._services,
        )
        for place in range(0, len(self._messages), AT_ONCE):
            memory.put_messages(self._messages[place : place + AT_ONCE])
        memory.deliver()
        self._memory = memory

    def ask(self, question: str) -> str:
        assert self._memory is not None
        return rendered(self._memory.build_context(question, record=False))

    def close(self) -> None:
        if self._memory is not None:
            self._memory.session.database.close()


class ReferenceRow:
    """LlamaIndex's `Memory` with a `VectorMemoryBlock` at its defaults.

    Speaker and date stand in the text, and every word is embedded, not the first 256 tokens: both are for it.
    """

    def __init__(self, conversation: Conversation, embedder: Embedder, runner: asyncio.Runner, divide: int) -> None:
        from llama_index.core.llms import ChatMessage

        self._divide = divide
        self._name, self._embedder, self._runner = conversation.name, embedder, runner
        lines = [line.message(inline=True) for line in conversation.lines]
        self._messages = [ChatMessage(role=str(line.role), content=line.content) for line in lines]
        self._memory: Any = None

    def limit(self, budget: int) -> None:
        from llama_index.core.memory import Memory as ReferenceMemory
        from llama_index.core.memory import VectorMemoryBlock

        self.close()
        block = VectorMemoryBlock(vector_store=_reference_store(), embed_model=_reference_embedder(self._embedder))
        self._memory = ReferenceMemory.from_defaults(
            f"{self._name}/{budget}", token_limit=budget // self._divide, memory_blocks=[block]
        )
        self._runner.run(self._fill())

    async def _fill(self) -> None:
        for place in range(0, len(self._messages), AT_ONCE):
            await self._memory.aput_messages(self._messages[place : place + AT_ONCE])

    def ask(self, question: str) -> str:
        messages = self._runner.run(self._memory.aget(input=question))
        return "\n".join(message.content or "" for message in messages)

    def close(self) -> None:
        engine = self._memory.sql_store._async_engine if self._memory is not None else None
        if engine is not None:
            self._runner.run(engine.dispose())


def _reference_embedder(embedder: Embedder) -> Any:
    """Our embedder as one of LlamaIndex's."""
    from llama_index.core.base.embeddings.base import BaseEmbedding

    class Wrapped(BaseEmbedding):
        def _get_text_embedding(self, text: str) -> list[float]:
            vector: list[float] = embedder.embed([text])[0].tolist()
            return vector

        def _get_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

    return Wrapped(model_name=embedder.id)


def _reference_store() -> Any:
    """LlamaIndex's in-memory store; its own keeps no texts, and the block wants a store that does."""
    from llama_index.core.vector_stores.simple import SimpleVectorStore

    class Keeping(SimpleVectorStore):
        stores_text: bool = True
        nodes: dict[str, Any] = {}  # noqa: RUF012 - a field: pydantic copies it for every instance

        def add(self, nodes: Sequence[Any], **options: Any) -> list[str]:
            self.nodes.update({node.node_id: node for node in nodes})
            return list(super().add(nodes, **options))

        def query(self, query: Any, **options: Any) -> Any:
            result = super().query(query, **options)
            result.nodes = [self.nodes[id] for id in result.ids or []]
            return result

    return Keeping()


# -- rows ----------------------------------------------------------------------------------------


def rivals(
    conversation: Conversation,
    budgets: Sequence[int],
    done: Mapping[str, Mapping[str, Any]],
    *,
    inline: bool = False,
    embedder: Embedder | None = None,
    rows: Sequence[str] = (*RECIPE_ROWS, *REFERENCES),
) -> Iterator[tuple[str, Result]]:
    """Each rival that is not `done` (results by row and conversation) with its scores."""
    remembering = Remembering(embedder or MiniLMEmbedder())
    services = Services(embedder=remembering)
    with asyncio.Runner() as runner:
        for row in rows:
            if conversation.name in done.get(row, {}):
                continue
            memory: RecipeRow | ReferenceRow = (
                ReferenceRow(conversation, remembering, runner, REFERENCES[row])
                if row in REFERENCES
                else RecipeRow(row, conversation, services, inline=inline)
            )
            yield row, measure_row(row, conversation, budgets, memory)
            memory.close()


class _Changed:
    """A filled engine under changed settings of its block."""

    def __init__(self, filled: Filled, settings: Mapping[str, Any]) -> None:
        before = filled.memory.blocks.settings(filled.block)
        self._before = {name: before[name] for name in settings}
        self._filled = filled
        filled.memory.blocks.configure(filled.block, **settings)

    def limit(self, budget: int) -> None:
        self._filled.limit(budget)

    def ask(self, question: str) -> str:
        return self._filled.ask(question)

    def undo(self) -> None:
        self._filled.memory.blocks.configure(self._filled.block, **self._before)


def ablations(
    conversation: Conversation,
    budgets: Sequence[int],
    folder: Path,
    done: Mapping[str, Mapping[str, Any]],
    *,
    inline: bool = False,
    embedder: Embedder | None = None,
    rows: Mapping[str, Mapping[str, Any]] | None = None,
) -> Iterator[tuple[str, Result]]:
    """Each ablation that is not `done` with its scores."""
    remembering = Remembering(embedder or MiniLMEmbedder())
    wanted = {**ABLATIONS, **ANEW} if rows is None else rows
    left = [row for row in wanted if conversation.name not in done.get(row, {})]
    stored = [row for row in left if row not in ANEW]
    if stored:
        filled = Filled(conversation, folder, inline=inline, embedder=lambda: remembering)
        for row in stored:
            changed = _Changed(filled, wanted[row])
            yield row, measure_row(row, conversation, budgets, changed)
            changed.undo()
        filled.close()
    for row in (row for row in left if row in ANEW):
        filled = Filled(conversation, folder, inline=inline, embedder=lambda: remembering, settings=wanted[row])
        yield row, measure_row(row, conversation, budgets, filled)
        filled.close()

"""The two engines behind one set of verbs, for the side-by-side benchmarks, and the words they are given.

Both write a SQLite file and count with the same tokenizer. The reference is asynchronous: its calls run
in one event loop, a whole batch at a time, so that starting the loop is not charged to each call.
"""

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llama_index.core.llms import ChatMessage as ReferenceMessage
from llama_index.core.memory import Memory as ReferenceMemory
from llama_index.core.memory import StaticMemoryBlock as ReferenceStaticBlock
from llama_index.core.storage.chat_store.base_db import MessageStatus as ReferenceStatus

from memory_core.blocks import StaticMemoryBlock
from memory_core.memory import Memory
from memory_core.messages import ChatMessage

NEVER_FLUSHES = 10**9
"""A token limit that no benchmark reaches."""

_WORDS = (
    "the and with from about when where after before could would should people house garden kitchen water "
    "train station morning evening winter summer music paper letter friend family doctor school market "
    "weather dinner coffee window mountain river city travel work project meeting report number question "
    "answer money ticket hotel bicycle camera language history country village island beach forest road"
)
"""One token each in cl100k_base, with the space before them."""


def sentences(count: int, *, words: int = 30, seed: int = 0) -> list[str]:
    """Texts of about as many tokens as words, no two alike, the same in every run."""
    chance, vocabulary = random.Random(seed), _WORDS.split()
    return [" ".join(chance.choices(vocabulary, k=words)) for _ in range(count)]


class Ours:
    """This engine on a SQLite file, without blocks but the static one asked for."""

    def __init__(self, folder: Path, session: str, *, static: str | None = None, **config: Any) -> None:
        self.file = folder / "ours.db"
        self._static = static
        self.memory = self._open(session, config)

    def _open(self, session: str, config: dict[str, Any]) -> Memory:
        blocks = [StaticMemoryBlock(name="about", static_content=self._static)] if self._static else None
        return Memory.from_defaults(session, database_uri=f"sqlite:///{self.file}", memory_blocks=blocks, **config)

    def fill(self, texts: Sequence[str]) -> None:
        """Put all messages in one transaction."""
        self.memory.put_messages([ChatMessage(role=role, content=text) for role, text in _turns(texts)])

    def put(self, texts: Sequence[str]) -> None:
        """Put messages one by one."""
        for role, text in _turns(texts):
            self.memory.put(ChatMessage(role=role, content=text))

    def get(self, times: int) -> None:
        """Build a context, and record it, that many times."""
        for _ in range(times):
            self.memory.build_context()

    def reopen(self) -> None:
        """A new object on the same session, with nothing in its caches."""
        self.memory = self._open(self.memory.session_id, {})

    def archive(self, texts: Sequence[str]) -> None:
        """Put messages and move them all out of the queue."""
        self.fill(texts)
        self.memory.flush(all=True)

    def active(self) -> int:
        return self.memory.session.status().queue_messages

    def close(self) -> None:
        self.memory.session.database.close()


class Reference:
    """LlamaIndex's `Memory` on a SQLite file, used in the same way."""

    def __init__(
        self, folder: Path, session: str, *, runner: asyncio.Runner, static: str | None = None, **config: Any
    ) -> None:
        self.file = folder / "reference.db"
        self._run = runner.get_loop().run_until_complete
        self._session = session
        self._config = config
        self._static = static
        self.reopen()

    def reopen(self) -> None:
        blocks = [ReferenceStaticBlock(name="about", static_content=self._static)] if self._static else []
        self.memory = ReferenceMemory.from_defaults(
            self._session, async_database_uri=f"sqlite+aiosqlite:///{self.file}", memory_blocks=blocks, **self._config
        )

    def fill(self, texts: Sequence[str]) -> None:
        self._run(self.memory.aput_messages(_reference_messages(texts)))

    def put(self, texts: Sequence[str]) -> None:
        async def one_by_one() -> None:
            for message in _reference_messages(texts):
                await self.memory.aput(message)

        self._run(one_by_one())

    def get(self, times: int) -> None:
        async def one_by_one() -> None:
            for _ in range(times):
                await self.memory.aget()

        self._run(one_by_one())

    def archive(self, texts: Sequence[str]) -> None:
        messages = _reference_messages(texts)
        self._run(self.memory.sql_store.add_messages(self._session, messages, status=ReferenceStatus.ARCHIVED))

    def active(self) -> int:
        return len(self._run(self.memory.aget_all(status=ReferenceStatus.ACTIVE)))

    def close(self) -> None:
        engine = self.memory.sql_store._async_engine
        if engine is not None:
            self._run(engine.dispose())


def _turns(texts: Sequence[str]) -> list[tuple[str, str]]:
    return [("user" if index % 2 == 0 else "assistant", text) for index, text in enumerate(texts)]


def _reference_messages(texts: Sequence[str]) -> list[ReferenceMessage]:
    return [ReferenceMessage(role=role, content=text) for role, text in _turns(texts)]

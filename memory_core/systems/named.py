"""Base of LlamaIndex's chat memories: its `BaseMemory` over a `Memory`, synchronous and asynchronous."""

import asyncio
from collections.abc import Sequence

from memory_core.formats.given_message import GivenMessage
from memory_core.memory import Memory, Receipt
from memory_core.messages import ChatMessage


class NamedMemory:
    """A memory under another library's name."""

    def __init__(self, memory: Memory) -> None:
        """Wrap a suitable memory; `from_defaults` creates one and wraps it."""
        self.memory = memory
        """The `Memory` behind this object, with its events and settings."""

    @property
    def session_id(self) -> str:
        return self.memory.session_id

    def get(self, input: str | None = None) -> list[ChatMessage]:
        """Return the messages for the model."""
        return self.memory.get(input)

    def put(self, message: GivenMessage) -> Receipt:
        """Append one message.

        Raises:
            MessageError: this is not a message, or it cannot be stored.
            StoreError: the database cannot be reached.
        """
        return self.memory.put(message)

    def put_messages(self, messages: Sequence[GivenMessage]) -> Receipt:
        """Append messages in one transaction. See `put`."""
        return self.memory.put_messages(messages)

    def get_all(self) -> list[ChatMessage]:
        """Return the whole conversation in order."""
        return self.memory.get_all()

    def set(self, messages: Sequence[GivenMessage]) -> Receipt:
        """Replace all messages; if one cannot be stored, nothing is changed.

        Raises:
            MessageError: one of them is not a message, or cannot be stored.
            StoreError: the database cannot be reached.
            VectorIndexError: as for `reset`; the messages are set.
        """
        # LlamaIndex's `set` replaces the whole memory, so messages archived before must not stay.
        return self.memory.set(messages, archive=True)

    def reset(self) -> None:
        """Erase everything: messages with their texts, vectors in the database and in the index.

        Raises:
            VectorIndexError: everything was erased, except copies of vectors in an index that cannot be reached.
        """
        self.memory.reset()

    # -- the same for async code ------------------------------------------------------------------

    async def aput(self, message: GivenMessage) -> Receipt:
        return await asyncio.to_thread(self.put, message)

    async def aput_messages(self, messages: Sequence[GivenMessage]) -> Receipt:
        return await asyncio.to_thread(self.put_messages, messages)

    async def aget(self, input: str | None = None) -> list[ChatMessage]:
        return await asyncio.to_thread(self.get, input)

    async def aget_all(self) -> list[ChatMessage]:
        return await asyncio.to_thread(self.get_all)

    async def aset(self, messages: Sequence[GivenMessage]) -> Receipt:
        return await asyncio.to_thread(self.set, messages)

    async def areset(self) -> None:
        await asyncio.to_thread(self.reset)

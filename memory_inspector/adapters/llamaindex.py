"""`Memory` as the memory of LlamaIndex's agents and chat engines: `agent.run("Hello", memory=InspectedMemory(memory))`.

During a tool loop, later calls get the recorded prompt plus the loop's own messages, which LlamaIndex stores when the
loop ends.
"""

import asyncio
import logging
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from pydantic import PrivateAttr

from memory_core.config import Settings
from memory_core.engine.context import Context
from memory_core.errors import ConfigError
from memory_core.formats.llamaindex_message import message_from_llamaindex, message_to_llamaindex
from memory_core.memory import Memory
from memory_core.messages import ChatMessage as OurMessage
from memory_core.messages import MessageRole
from memory_core.services import Services
from memory_core.store.database import Database
from memory_inspector.adapters import framework
from memory_inspector.adapters.prompts import keep, reading
from memory_inspector.files.located_json import storable_value


class PromptDetector:
    """Detects which contexts of one memory are prompts. Frameworks also read memory to inspect it, or after storing the
    answer; recording those would show prompts that no model received."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._recorded: Hashable = None

    def context(self, input: str | None = None, **arguments: Any) -> Context:
        """Return the context; record it only the first time for a message that awaits an answer, or for an `input`."""
        newest = self._memory.session.messages("active", last=1)
        answered = not newest or newest[0].message.role not in (MessageRole.USER, MessageRole.TOOL)
        # A stored message without an answer is the question itself; `input` can only repeat it.
        key = (newest[0].seq if newest else 0, input if answered else None)
        record = key != self._recorded and not (answered and not input)
        if record:
            self._recorded = key
        return self._memory.build_context(input or None, record=record, **arguments)


with framework("LlamaIndex", "llamaindex"):
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.memory import BaseMemory

_log = logging.getLogger(__name__)


class InspectedMemory(BaseMemory):
    """LlamaIndex's memory interface over a `Memory`, available as `.memory`.

    A serialised workflow context holds only session id and database URL; restoring it reopens the session.
    """

    session_id: str = ""
    database: str | None = None
    """Database URL without a password; None: taken from `MEMORY_INSPECTOR_DATABASE_URL`."""

    _memory: Memory = PrivateAttr()
    _asking: PromptDetector = PrivateAttr()

    def __init__(self, memory: Memory | None = None, **stored: Any) -> None:
        """Wrap a memory. LlamaIndex passes `stored` to restore a serialised context.

        Raises:
            ConfigError: The session was kept in no database, but in the memory of another process.
            NotFoundError: The session is not in the database.
        """
        if memory is None:
            super().__init__(**stored)
            memory = _opened(self.session_id, self.database)
        else:
            engine = memory.session.database.engine
            # A serialised context may be stored anywhere, so it never holds a password.
            url = None if engine.url.password else engine.url.render_as_string()
            super().__init__(session_id=memory.session_id, database=url)
        self._memory = memory
        self._asking = PromptDetector(memory)

    @property
    def memory(self) -> Memory:
        return self._memory

    @property
    def tokenizer_fn(self) -> Callable[[str], Sequence[Any]]:
        """Tokenizer with which a chat engine measures its system prompt; `get` takes the size off the limit."""
        return lambda text: range(self._memory.session.count_tokens(text))

    @classmethod
    def class_name(cls) -> str:
        return "InspectedMemory"

    @classmethod
    def from_defaults(cls, **given: Any) -> "InspectedMemory":
        """Wrap `Memory.from_defaults(**given)`; LlamaIndex's own messages and models are accepted."""
        return cls(Memory.from_defaults(**given))

    def get(self, input: str | None = None, **arguments: Any) -> list[ChatMessage]:
        """Return the messages for the model: memory section and queue."""
        return [_theirs(message) for message in self._asking.context(input, **arguments).messages]

    def get_all(self, status: str | None = None) -> list[ChatMessage]:
        """Return every message of the session, or those in the queue (`active`) or the archive (`archived`) only."""
        return [_theirs(message) for message in self._memory.get_all(status)]

    async def aget_all(self, status: str | None = None) -> list[ChatMessage]:
        return await asyncio.to_thread(self.get_all, status)

    def put(self, message: ChatMessage) -> None:
        self.put_messages([message])

    def put_messages(self, messages: Sequence[ChatMessage]) -> None:
        ours: list[OurMessage] = []
        for message in messages:
            with reading(self._memory, asks=message.role == "user"):
                ours.append(_ours(message))
        keep(self._memory, ours)

    def set(self, messages: Sequence[ChatMessage]) -> None:
        """Replace the queue; the beginning that it shares with `messages` is kept as stored."""
        self._memory.set([_ours(message) for message in messages])

    def reset(self, status: str | None = None) -> None:
        self._memory.reset(status)

    async def areset(self, status: str | None = None) -> None:
        await asyncio.to_thread(self.reset, status)


def _opened(session_id: str, database: str | None) -> Memory:
    settings = Settings.from_environment()
    url = database or settings.database
    if url is None or url.endswith(("://", ":memory:")):
        raise ConfigError(
            f'The session "{session_id}" was kept in no database. Give its memory a database_uri to restore it.'
        )
    return Memory.open(session_id, Database.open(url), services=Services(index=settings.index))


def _ours(message: ChatMessage) -> OurMessage:
    ours, notes = message_from_llamaindex(storable_value(message.model_dump(mode="json", fallback=str)))
    for note in notes:
        _log.warning("A message of LlamaIndex was kept without a part of it: %s.", note)
    return ours


def _theirs(message: OurMessage) -> ChatMessage:
    return ChatMessage.model_validate(message_to_llamaindex(message))

"""`UserMemories` as the memory manager of Agno's agents.

    manager = InspectedMemoryManager(database_uri="sqlite:///agent.db")
    agent = Agent(model=manager.recorded(OpenAIChat(id="gpt-5")), memory_manager=manager, ...)

Agno writes its own system prompt with the user's memories and keeps its own conversation. Each user message becomes a
run of the user's session here, and every memory cites the messages it came from. Prompts of a `recorded` model are
stored too, in one session per Agno session.
"""

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NoReturn, TypeVar, cast
from urllib.parse import unquote

from memory_core.errors import ConfigError, NotFoundError
from memory_core.formats.any_message import read_messages
from memory_core.messages import ChatMessage, MessageRole
from memory_core.models.protocols import ChatModel
from memory_core.planning.fact_merging import Fact, same_words
from memory_core.sessions.overview import list_sessions
from memory_core.systems.user_memories import UserMemories
from memory_inspector.adapters import framework
from memory_inspector.adapters.prompts import record_prompt, session_name
from memory_inspector.files.located_json import storable_value
from memory_inspector.recorder.wire import Exchange

with framework("Agno", "agno"):
    from agno.db.schemas.memory import UserMemory
    from agno.media import Audio, File, Image, Video
    from agno.memory import MemoryManager
    from agno.models.base import Model
    from agno.models.message import Message
    from agno.models.response import ModelResponse
    from agno.utils.openai import images_to_message

M = TypeVar("M", bound=Model)


class InspectedMemoryManager(MemoryManager):
    """Agno's memory manager, with one `UserMemories` per user. Facts are learned by `chat` if given, else by rules."""

    def __init__(self, *, database_uri: str | None = None, chat: ChatModel | None = None, **settings: Any) -> None:
        super().__init__()
        self._made = {"database_uri": database_uri, "chat": chat, "summaries": False, **settings}
        self._users: dict[str, UserMemories] = {}

    def of(self, user_id: str | None) -> UserMemories:
        """Return the memories of a user; without an id, those of Agno's `default` user."""
        user = user_id or "default"
        if user not in self._users:
            self._users[user] = UserMemories(user, session_name("agno", user), **self._made)
        return self._users[user]

    def recorded(self, model: M) -> M:
        """Make the model record the prompt and the answer of each call within a run; return the same object.

        An answer with tool calls is recorded with the next prompt, which contains it.
        """
        # The class is replaced, not the object: Agno copies models, and a copy keeps its class.
        if not getattr(model, "records_calls", False):  # two agents may share one model
            model.__class__ = cast(type[M], _recorded(type(model), self._record))
        return model

    def _record(self, run: Any, exchange: Callable[[], Exchange]) -> None:
        if run is not None and run.session_id:
            record_prompt(lambda: self.of(run.user_id).memory, run.session_id, exchange)

    def read_from_db(self, user_id: str | None = None) -> dict[str, list[UserMemory]]:
        """Return the memories of a user, or of all users, by user."""
        read = {user: self.get_user_memories(user) for user in ([user_id] if user_id else self._every_user())}
        return {user: memories for user, memories in read.items() if memories}

    async def aread_from_db(self, user_id: str | None = None) -> dict[str, list[UserMemory]]:
        return await asyncio.to_thread(self.read_from_db, user_id)

    def _every_user(self) -> list[str]:
        """Return the users whose memories this object or its database holds."""
        names = [status.session_id.split(":") for status in list_sessions(self.of(None).memory.session.database)]
        # Longer names are those of recorded conversations.
        stored = {unquote(name[1]) for name in names if len(name) == 2 and name[0] == "agno"}
        return sorted(stored | self._users.keys())

    def get_user_memories(self, user_id: str | None = None) -> list[UserMemory]:
        return [_theirs(fact, user_id) for fact in self.of(user_id).get_user_memories()]

    async def aget_user_memories(self, user_id: str | None = None) -> list[UserMemory]:
        return await asyncio.to_thread(self.get_user_memories, user_id)

    def get_user_memory(self, memory_id: str, user_id: str | None = None) -> UserMemory | None:
        fact = self.of(user_id).get_user_memory(memory_id)
        return None if fact is None else _theirs(fact, user_id)

    def create_user_memories(
        self,
        message: str | None = None,
        messages: Sequence[Message] | None = None,
        agent_id: str | None = None,
        team_id: str | None = None,
        user_id: str | None = None,
        run_metrics: Any = None,
    ) -> str:
        """Learn from a user's messages; return one line for each change of the memories."""
        # Answers are passed as context only: memories are learned from user messages alone.
        learned_from = [ChatMessage(storable_value(message))] if message else []
        learned_from += [
            read
            for sent in messages or ()
            if sent.role in ("user", "assistant", "model")
            for read in _read({"role": sent.role, "content": sent.content})
        ]
        if not any(entry.role is MessageRole.USER for entry in learned_from):
            return "Nothing to remember: the user said nothing."
        acts = self.of(user_id).create_user_memories(learned_from)
        return "\n".join(f"{act.act}: {act.text}" for act in acts) or "Nothing to remember."

    async def acreate_user_memories(self, *given: Any, **named: Any) -> str:
        return await asyncio.to_thread(self.create_user_memories, *given, **named)

    def update_memory_task(self, task: str, user_id: str | None = None) -> str:
        """Learn the task as if the user had said it. Implements Agno's tool `update_user_memory`."""
        return self.create_user_memories(task, user_id=user_id)

    async def aupdate_memory_task(self, task: str, user_id: str | None = None) -> str:
        return await asyncio.to_thread(self.update_memory_task, task, user_id)

    def search_user_memories(
        self,
        query: str | None = None,
        limit: int | None = None,
        retrieval_method: str | None = None,
        user_id: str | None = None,
    ) -> list[UserMemory]:
        """Search memories. Agno's `agentic` method maps to semantic search; no model is called."""
        results = self.of(user_id).search_user_memories(query, limit, cast(Any, retrieval_method))
        return [_theirs(fact, user_id) for fact in results]

    def add_user_memory(self, memory: UserMemory, user_id: str | None = None) -> str:
        """Add a memory, or replace the one with its id; return the id, which the object gets, too.

        Words that are known already stay the memory that they are.
        """
        user = user_id or memory.user_id
        memories, words = self.of(user), same_words(memory.memory)
        if memory.memory_id and memories.get_user_memory(memory.memory_id):
            return self.replace_user_memory(memory.memory_id, memory, user)
        stored = next((fact for fact in memories.get_user_memories() if same_words(fact.text) == words), None)
        fact = stored or memories.add_user_memory(memory, actor="agent")
        memory.memory_id, memory.user_id = _id(fact), user or "default"
        return _id(fact)

    def replace_user_memory(self, memory_id: str, memory: UserMemory, user_id: str | None = None) -> str:
        """Replace a memory; an id that there is not becomes that of a new one."""
        user = user_id or memory.user_id
        memory.memory_id, memory.user_id = memory_id, user or "default"
        if self.of(user).get_user_memory(memory_id) is None:
            return self.add_user_memory(memory, user)
        return _id(self.of(user).replace_user_memory(memory_id, memory, actor="agent"))

    def delete_user_memory(self, memory_id: str, user_id: str | None = None) -> None:
        """Retire a memory; the app can restore it. An id that there is not deletes nothing."""
        with suppress(NotFoundError):
            self.of(user_id).delete_user_memory(memory_id, actor="agent")

    def clear(self) -> None:
        """Retire the memories of all users; the app can restore them."""
        for user in self._every_user():
            self.clear_user_memories(user)

    def clear_user_memories(self, user_id: str | None = None) -> None:
        self.of(user_id).clear_user_memories(actor="agent")

    async def aclear_user_memories(self, user_id: str | None = None) -> None:
        await asyncio.to_thread(self.clear_user_memories, user_id)

    def optimize_memories(self, *_: Any, **__: Any) -> NoReturn:
        """Raise a `ConfigError`: the block of memories condenses itself."""
        raise ConfigError("optimize_memories is not needed: memories are condensed above the block's max_facts")

    async def aoptimize_memories(self, *_: Any, **__: Any) -> NoReturn:
        self.optimize_memories()


Record = Callable[[Any, Callable[[], Exchange]], None]
"""Callback that records a model call, given its run and a function that reads the call."""


def _recorded(model: type[Model], record: Record) -> type[Model]:
    """Return a subclass of `model` that records calls. Not an instance attribute, because Agno copies model objects."""

    class RecordedModel(model):  # type: ignore[misc, valid-type]
        records_calls = True

        def invoke(self, *args: Any, **kwargs: Any) -> ModelResponse:
            with _RunCall(self, kwargs, record) as call:
                call.add(response := super().invoke(*args, **kwargs))
            call.end()
            return response

        async def ainvoke(self, *args: Any, **kwargs: Any) -> ModelResponse:
            with _RunCall(self, kwargs, record) as call:
                call.add(response := await super().ainvoke(*args, **kwargs))
            await asyncio.to_thread(call.end)
            return response

        def invoke_stream(self, *args: Any, **kwargs: Any) -> Iterator[ModelResponse]:
            with _RunCall(self, kwargs, record) as call:
                for response in super().invoke_stream(*args, **kwargs):
                    call.add(response)
                    yield response
            call.end()

        async def ainvoke_stream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ModelResponse]:
            with _RunCall(self, kwargs, record) as call:
                async for response in super().ainvoke_stream(*args, **kwargs):
                    call.add(response)
                    yield response
            await asyncio.to_thread(call.end)

    RecordedModel.__name__, RecordedModel.__qualname__ = model.__name__, model.__qualname__
    return RecordedModel


class _RunCall:
    """A model call in progress: its prompt and the answer so far. An error or cancellation ends it."""

    def __init__(self, model: Model, arguments: dict[str, Any], record: Record) -> None:
        self._model, self._run, self._record = str(model.id), arguments.get("run_response"), record
        self._sent = list(arguments.get("messages") or ())  # Agno adds the answer to its list
        self._compressed = bool(arguments.get("compress_tool_results"))
        self._began = time.perf_counter()
        self._said: list[Any] = []
        self._calls_tools = False
        self._usage: Any = None

    def add(self, response: ModelResponse) -> None:
        for entry in filter(None, (response.content, getattr(response.audio, "transcript", None))):
            # Consecutive pieces of streamed text are joined; an image may come between them.
            if isinstance(entry, str) and self._said and isinstance(self._said[-1], str):
                self._said[-1] += entry
            else:
                self._said.append(entry)
        self._said += [file for files in (response.images, response.videos, response.files) for file in files or ()]
        self._calls_tools |= bool(response.tool_calls)
        self._usage = response.response_usage or self._usage

    def __enter__(self) -> "_RunCall":
        return self

    def __exit__(self, _kind: Any, error: BaseException | None, _trace: Any) -> None:
        if error is not None:
            self.end(error)

    def end(self, error: BaseException | None = None) -> None:
        seconds = time.perf_counter() - self._began
        self._record(self._run, lambda: self._exchange(seconds, error))

    def _exchange(self, seconds: float, error: BaseException | None) -> Exchange:
        # An answer with tool calls is part of the next prompt; an interrupted answer is not recorded.
        answers = self._said and not self._calls_tools and error is None
        return Exchange(
            purpose="reply",
            model=self._model,
            messages=tuple(ours for message in self._sent for ours in _sent(message, self._compressed)),
            answer=_read({"role": "assistant", "content": [*map(_entry, self._said)]})[0] if answers else None,
            input_tokens=getattr(self._usage, "input_tokens", None),
            output_tokens=getattr(self._usage, "output_tokens", None),
            seconds=seconds,
            error=None if error is None else _why(error),
        )


def _why(error: BaseException) -> str:
    """Return the reason an answer is incomplete; an error's own text is omitted, as it may quote the conversation."""
    return "stopped" if isinstance(error, GeneratorExit | asyncio.CancelledError) else type(error).__name__


def _sent(message: Message, compressed: bool) -> list[ChatMessage]:
    """Convert a message as sent to the model; each tool result becomes a separate message."""
    content = message.get_content(use_compressed_content=compressed)
    files = [file for files in (message.audio, message.videos, message.files) for file in map(_entry, files or ())]
    files += images_to_message(images=message.images or ())
    if files:
        content = [*(content if isinstance(content, list) else [content]), *files]
    named = {"name": message.name, "tool_call_id": message.tool_call_id, "tool_calls": message.tool_calls or None}
    fields = {"role": message.role, "content": content, **named}
    return _read({name: value for name, value in fields.items() if value is not None})


def _entry(content: Any) -> Any:
    """Convert a file to a dict with its data or URL and Agno's metadata; return any other content unchanged."""
    if not isinstance(content, Audio | File | Image | Video):
        return content
    data = base64.b64encode(content.content).decode() if isinstance(content.content, bytes) else content.content
    entry = {**content.model_dump(exclude={"content"}), "data": data, "type": type(content).__name__.lower()}
    return {name: value for name, value in entry.items() if value is not None}


def _read(entry: dict[str, Any]) -> list[ChatMessage]:
    return read_messages(storable_value(entry))


def _theirs(fact: Fact, user_id: str | None) -> UserMemory:
    return UserMemory(
        memory=fact.text,
        memory_id=_id(fact),
        topics=list(fact.topics),
        user_id=user_id or "default",
        created_at=int(fact.created_at),
        updated_at=int(fact.updated_at),
    )


def _id(fact: Fact) -> str:
    """Return the id that the program gave a memory, else its number."""
    return fact.key or str(fact.id)

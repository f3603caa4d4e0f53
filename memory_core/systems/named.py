"""Shared parts of the systems that have another library's names: LlamaIndex's `BaseMemory`, and arguments by name."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from inspect import Parameter, signature
from typing import Any, TypeVar

from memory_core.errors import ConfigError
from memory_core.formats.any_message import GivenMessage
from memory_core.memory import Memory, Receipt
from memory_core.messages import ChatMessage
from memory_core.planning.fact_merging import Fact
from memory_core.tokens import Tokenizer

R = TypeVar("R")


def accepts(instead: Mapping[str, str] | None = None, **names: str) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Let a method take arguments under another library's names, such as `memory_id="id"`.

    `user_id` may be given as well, and must be the memory's own. Anything else is refused in a sentence, which
    `instead` ends; None is not given, nor is False for what `instead` names.

    Raises:
        ConfigError: from the method: it is another user's memory, or an argument means nothing there.
    """

    def takes(method: Callable[..., R]) -> Callable[..., R]:
        parameters, hints = signature(method).parameters, instead or {}
        most = sum(one.kind is Parameter.POSITIONAL_OR_KEYWORD for one in parameters.values())

        @wraps(method)
        def call(self: Any, *given: Any, **named: Any) -> R:
            if len(given) == most:  # Agno's methods end with the user's id, and `most` counts `self`
                named["user_id"] = given[-1]
            check_user(self.memory, named.pop("user_id", None))
            taken: dict[str, Any] = {}
            for name, value in named.items():
                ours = names.get(name, name)
                if value is None:
                    continue
                if ours in taken:
                    raise ConfigError(f"{method.__name__} takes {ours} or {name}, not both")
                if ours in parameters:
                    taken[ours] = value
                elif value is not False or name not in hints:
                    raise ConfigError(f"{method.__name__} does not take {name!r}{hints.get(name, '')}")
            return method(self, *given[: most - 1], **taken)

        return call

    return takes


def check_user(memory: Memory, user_id: object) -> None:
    """Check that a user named in a call (None: none is) is the one whose memory this is; numbers count as text.

    Raises:
        ConfigError: it is another user, or the memory has none.
    """
    owner = memory.session.user_id
    if user_id is not None and str(user_id).strip() != owner:
        whose = f"is the memory of the user {owner!r}" if owner else "is a session's memory, without a user"
        raise ConfigError(f"user_id {str(user_id)!r}: this {whose}. Make one object for each user, with user_id.")


def with_id(facts: Iterable[Fact], id: int | str) -> Fact | None:
    """Return the fact that a program gave this id, else the one whose number it is; None if there is none."""
    fitting = [fact for fact in facts if id in (fact.key, fact.id, str(fact.id))]
    return next((fact for fact in fitting if fact.key == id), fitting[0] if fitting else None)


class NamedMemory:
    """A memory under another library's name."""

    def __init__(self, memory: Memory | None = None, **settings: Any) -> None:
        """Wrap a suitable memory; without one, make it from the settings, as `from_defaults` does."""
        made: Any = type(self)
        self.memory: Memory = made.from_defaults(**settings).memory if memory is None else memory
        """The `Memory` behind this object, with its events and settings."""

    @property
    def session_id(self) -> str:
        return self.memory.session_id

    @property
    def token_limit(self) -> int:
        return self.memory.token_limit

    @property
    def tokenizer_fn(self) -> Tokenizer:
        return self.memory.tokenizer_fn

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

    async def aget(self, input: str | None = None, **named: Any) -> list[ChatMessage]:
        return await asyncio.to_thread(self.get, input, **named)

    async def aget_all(self) -> list[ChatMessage]:
        return await asyncio.to_thread(self.get_all)

    async def aset(self, messages: Sequence[GivenMessage]) -> Receipt:
        return await asyncio.to_thread(self.set, messages)

    async def areset(self) -> None:
        await asyncio.to_thread(self.reset)

"""Shared storage code of the adapters: prompts that frameworks build themselves, and messages they pass on.

Storage failures after the model has answered become warnings, so they never end an agent's run.
"""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

from memory_core.engine.session import Session
from memory_core.errors import MemoryInspectorError, NotFoundError
from memory_core.memory import Memory
from memory_core.messages import ChatMessage, MessageRole
from memory_core.services import Services
from memory_core.store.database import Database
from memory_inspector.recorder.recording import CachedPast, attach, recording
from memory_inspector.recorder.wire import Exchange

_log = logging.getLogger(__name__)


def session_name(*parts: str) -> str:
    """Join ids to the name of a session. A colon within an id is quoted: no other ids give the same name.

    >>> session_name("adk", "app:other", "user"), session_name("adk", "app", "other:user")
    ('adk:app%3Aother:user', 'adk:app:other%3Auser')
    """
    return ":".join(part.replace("%", "%25").replace(":", "%3A") for part in parts)


def record_prompt(learns: Callable[[], Memory], conversation: str, exchange: Callable[[], Exchange]) -> None:
    """Record a model call in the session `<session of the memory>:<conversation>`; `learns` opens the memory."""
    # Both callables run inside the guard: opening the memory and reading the prompt may fail as well.
    with harmless(conversation):
        memory, made = learns(), exchange()
        database, services = memory.session.database, memory.session.services
        name = f"{memory.session_id}:{conversation}"
        _conversation(database, services, name).record(made)


def keep(memory: Memory, messages: Sequence[ChatMessage], **options: Any) -> None:
    """Store messages; if they include an answer or a tool result, failures become warnings.

    `options` are those of `Memory.put_messages`.
    """
    answered = any(message.role in (MessageRole.ASSISTANT, MessageRole.TOOL) for message in messages)
    with harmless(memory.session_id, "Messages were not kept") if answered else nullcontext():
        memory.put_messages(messages, **options)


def tokens_beside(memory: Memory, sent: Callable[[], Iterable[Any]]) -> int | None:
    """Return the tokens of what an agent sends beside its memory: texts, and definitions of tools as JSON.

    None if they cannot be counted; failures become warnings.
    """
    with harmless(memory.session_id, "System prompt and tools were not counted"):
        texts = (s if isinstance(s, str) else json.dumps(s, ensure_ascii=False, default=str) for s in sent())
        return sum(map(memory.session.count_tokens, texts))
    return None


def reading(memory: Memory, *, asks: bool) -> AbstractContextManager[None]:
    """Guard the conversion of a framework's message; failures become warnings unless the message `asks` the model."""
    return nullcontext() if asks else harmless(memory.session_id, "A message was not kept")


class _PromptConversation:
    """Session that records one conversation, with the cached past of the session."""

    def __init__(self, session: Session) -> None:
        self._session, self._past = session, CachedPast()
        self._attached = False

    def record(self, exchange: Exchange) -> None:
        if self._attached:
            with suppress(NotFoundError):  # the session was deleted; it is created anew below
                return self._record(exchange)
        attach(self._session, source="adapter")
        self._attached = True
        self._record(exchange)

    def _record(self, exchange: Exchange) -> None:
        with recording(self._session, self._past) as to:
            to.exchange(exchange)


def _conversation(database: Database, services: Services, name: str) -> _PromptConversation:
    key = ("conversation", database.id, name)
    return services.cached(key, lambda: _PromptConversation(Session(database, name, services=services)))


@contextmanager
def harmless(conversation: str, failed: str = "A call of the model was not recorded") -> Iterator[None]:
    """Turn any failure inside into a warning without the call's text: recording must never stop the agent."""
    try:
        yield
    except MemoryInspectorError as error:
        _log.warning("%r: %s: %s", conversation, failed, error)
    except Exception as error:  # an unforeseen error's text may quote the conversation
        _log.warning("%r: %s: %s", conversation, failed, type(error).__name__)

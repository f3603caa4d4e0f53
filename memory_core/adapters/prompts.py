"""Prompts that a framework makes by itself, on record as those of an attached agent: one session a conversation."""

import logging
from collections.abc import Callable

from memory_core.attach.recording import attach, record_exchange
from memory_core.attach.wire import Exchange
from memory_core.engine.session import Session
from memory_core.errors import MemoryInspectorError
from memory_core.memory import Memory

_log = logging.getLogger(__name__)


def record_prompt(learns: Callable[[], Memory], conversation: str, exchange: Callable[[], Exchange]) -> None:
    """Record a call of the model in the session of a conversation, beside the memory that learns from it.

    The agent goes on whatever happens: what fails here is a warning, which holds no words of the call.
    """
    try:
        memory, made = learns(), exchange()
        name = f"{memory.session_id}:{conversation}"
        session = Session(memory.session.database, name, services=memory.session.services)
        attach(session, source="adapter")
        record_exchange(session, made)
    except MemoryInspectorError as error:
        _log.warning("A call of the model in %r was not recorded: %s", conversation, error)
    except Exception as error:  # the words of an unforeseen error may be the conversation's
        _log.warning("A call of the model in %r was not recorded: %s", conversation, type(error).__name__)

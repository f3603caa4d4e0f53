"""Recorded contexts: the events of all prompts that were built."""

from typing import TypeGuard

from memory_core.events import ContextBuilt, Event, EventRecord


def is_context(event: Event) -> TypeGuard[ContextBuilt]:
    return isinstance(event, ContextBuilt)


def context_of(record: EventRecord) -> ContextBuilt:
    """The context that a record contains.

    Raises:
        TypeError: the record is of another event.
    """
    if isinstance(record.event, ContextBuilt):
        return record.event
    raise TypeError(f"position {record.position} of the log is no context but {record.kind}")

"""Recorded contexts: the events of all prompts that were built."""

from typing import TypeGuard

from memory_core.events import ContextBuilt, Event, EventRecord, expand


def is_context(event: Event) -> TypeGuard[ContextBuilt]:
    return isinstance(event, ContextBuilt)


def places_of(event: ContextBuilt) -> list[int]:
    """Return the sequence numbers of a context's messages, in the order of the context.

    It is the order of the conversation or, in another program's prompt, that program's order.
    """
    seqs = [*expand(event.pinned), *expand(event.queue)]
    return sorted(seqs) if event.known == "built" else seqs


def context_of(record: EventRecord) -> ContextBuilt:
    """Return the context that a record contains.

    Raises:
        TypeError: the record is of another event.
    """
    if isinstance(record.event, ContextBuilt):
        return record.event
    raise TypeError(f"position {record.position} of the log is no context but {record.kind}")

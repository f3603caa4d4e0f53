"""Recorded contexts: the events of all prompts that were built."""

from typing import TypeGuard

from memory_core.events import ContextBuilt, Event, EventRecord, expand


def is_context(event: Event) -> TypeGuard[ContextBuilt]:
    return isinstance(event, ContextBuilt)


def places_of(event: ContextBuilt) -> list[int]:
    """Sequence numbers of the messages of a context, as they stood in it.

    What was said is in the order in which it was said; another program's prompt is in its own.
    """
    seqs = [*expand(event.pinned), *expand(event.queue)]
    return sorted(seqs) if event.known == "built" else seqs


def context_of(record: EventRecord) -> ContextBuilt:
    """The context that a record contains.

    Raises:
        TypeError: the record is of another event.
    """
    if isinstance(record.event, ContextBuilt):
        return record.event
    raise TypeError(f"position {record.position} of the log is no context but {record.kind}")

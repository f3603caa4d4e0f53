"""Durations of what this process does, for monitoring; nothing is measured until somebody observes."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal, get_args

Operation = Literal["put", "context", "record"]
"""Messages put, until they are committed and without learning; a prompt built and recorded; calls or spans stored."""

OPERATIONS: tuple[Operation, ...] = get_args(Operation)

Observer = Callable[[Operation, str, float], object]
"""Function that receives an operation, its tenant and its duration in seconds, in the thread that did it."""

_observers: list[Observer] = []


def observe(observer: Observer) -> None:
    """Call `observer` for every operation of this process from now on."""
    _observers.append(observer)


def measured(operation: Operation, tenant: str) -> AbstractContextManager[None]:
    """Measure what runs inside, if anybody observes; what raises is not counted."""
    return _measured(operation, tenant) if _observers else nullcontext()


@contextmanager
def _measured(operation: Operation, tenant: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    seconds = time.perf_counter() - began
    for observer in _observers:
        observer(operation, tenant, seconds)

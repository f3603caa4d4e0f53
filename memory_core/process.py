"""Per-process state: what a fork must not inherit, the garbage collector, and durations for monitoring.

A forked process must not inherit threads that do not exist in it, locks that nobody will release, or connections that
two processes would read from.

A server that loads the application before it forks (gunicorn's `preload_app`) creates such processes. State that
is registered here is recreated in the child on first use; the parent's object remains. A child may use the local
embedding model that its parent had loaded, but onnxruntime ends such a process with an error when it unloads the
model at exit: load it after the fork, and make no put or get before.
"""

import gc
import os
import shutil
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from threading import Lock
from typing import Literal, TypeVar, get_args

Made = TypeVar("Made")

_SCRATCH = "memory-inspector-"

_renewals: list[Callable[[], Callable[[], object] | None]] = []
"""References to callables to run in a child process; None if the owner is gone."""


def per_process(make: Callable[[], Made]) -> Callable[[], Made]:
    """Wrap a function without arguments so that it is called once in each process."""
    made = cache(make)
    # Forgets the parent's object; the child makes its own at the next call.
    _renewals.append(lambda: made.cache_clear)
    return made


def once(make: Callable[[], Made]) -> Callable[[], Made]:
    """Wrap a slow function without arguments so that it is called once, whichever threads ask; forks share the result.

    A function that raised is called again.
    """
    made, lock = cache(make), Lock()

    def call_once() -> Made:
        with lock:
            return made()

    return call_once


def renewed(method: Callable[[], object]) -> None:
    """Call a bound method in each forked process, for as long as its object exists."""
    _renewals.append(weakref.WeakMethod(method, _renewals.remove))


def is_running(pid: int) -> bool:
    """Return whether a process of this machine runs; True if that cannot be determined."""
    if os.name != "posix":  # elsewhere the signal below would end it
        return True
    try:
        # Signal 0 checks for the process and sends nothing.
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # It runs, as another user's process.
    except PermissionError:
        return True
    return True


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a private temporary folder; if this process is killed, the next one removes it."""
    _remove_abandoned()
    with TemporaryDirectory(prefix=f"{_SCRATCH}{os.getpid()}-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@cache
def _remove_abandoned() -> None:
    for folder in Path(gettempdir()).glob(f"{_SCRATCH}*-*"):
        pid = folder.name.removeprefix(_SCRATCH).partition("-")[0]
        if pid.isdigit() and not is_running(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)  # those of other users cannot be removed


def _renew() -> None:
    # A copy, as a dead owner removes itself from the list.
    for renewal in list(_renewals):
        call = renewal()
        if call is not None:
            call()


if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=_renew)


# -- reading much at once -------------------------------------------------------------------------


class _Collector:
    def __init__(self) -> None:
        self.lock = Lock()
        self.inside = 0
        self.was_on = False
        self.modules = 0
        """Number of imported modules whose objects were excluded last."""


_collector = per_process(_Collector)


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause collection of cyclic garbage until the last thread leaves the context; a collector that was off stays off.

    Otherwise the collector scans all objects repeatedly although none of the new ones can be garbage yet: that takes
    half the time of opening a session of 100,000 messages.
    """
    collector = _collector()
    with collector.lock:
        if collector.inside == 0:
            collector.was_on = gc.isenabled()
            gc.disable()
        collector.inside += 1
    try:
        yield
    finally:
        with collector.lock:
            collector.inside -= 1
            if collector.inside == 0 and collector.was_on:
                gc.enable()


def keep_loaded() -> None:
    """Exclude all currently loaded objects from garbage collection.

    Streamlit runs a full collection after every run of a script or a fragment. Over the modules that the app loads it
    takes some 0.15 s, a hundred times the cost of checking for another process's changes.
    """
    # Objects frozen before may be garbage by now: these are collected once, then all the rest is left alone.
    gc.unfreeze()
    _keep()


def keep_imported() -> None:
    """Do the same, once for each time that modules were imported since: a page loads what only it draws with."""
    if len(sys.modules) > _collector().modules:
        _keep()


def _keep() -> None:
    _collector().modules = len(sys.modules)
    gc.collect()
    gc.freeze()


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

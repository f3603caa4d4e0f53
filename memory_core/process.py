"""State that belongs to one process: what a fork must not inherit, and the garbage collector.

A forked process must not take over threads that are not there, locks that nobody will release, connections that two
would read from.

A server that loads the application before it forks (gunicorn's `preload_app`) makes such processes. What is registered
here is made anew in the child when it is first needed; the parent's goes on as it is. A child may use the local
embedding model that its parent had loaded, but onnxruntime ends such a process with an error when it takes the model
down at exit: load it after the fork, by putting or asking nothing before.
"""

import gc
import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import TypeVar

Made = TypeVar("Made")

_renewals: list[Callable[[], Callable[[], object] | None]] = []
"""Each gives what is to be called in a child, or None where its owner is gone."""


def per_process(make: Callable[[], Made]) -> Callable[[], Made]:
    """A function without arguments that is called once in each process."""
    made = cache(make)
    _renewals.append(lambda: made.cache_clear)
    return made


def renewed(method: Callable[[], object]) -> None:
    """Have a bound method called in each forked process, for as long as its object is there."""
    _renewals.append(weakref.WeakMethod(method, _renewals.remove))


def _renew() -> None:
    for renewal in list(_renewals):
        call = renewal()
        if call is not None:
            call()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_renew)


# -- reading much at once -------------------------------------------------------------------------


class _Pause:
    def __init__(self) -> None:
        self.lock = Lock()
        self.inside = 0
        self.was_on = False


_pause = per_process(_Pause)


@contextmanager
def collector_paused() -> Iterator[None]:
    """Collect no cyclic garbage until the last thread is out of here; a collector that was off before stays off.

    The collector looks through all objects again and again while nothing of what is made can be garbage yet: half the
    time of opening a session of 100,000 messages.
    """
    pause = _pause()
    with pause.lock:
        if pause.inside == 0:
            pause.was_on = gc.isenabled()
            gc.disable()
        pause.inside += 1
    try:
        yield
    finally:
        with pause.lock:
            pause.inside -= 1
            if pause.inside == 0 and pause.was_on:
                gc.enable()


def keep_loaded() -> None:
    """Leave what is loaded by now out of the garbage collector's rounds.

    Streamlit makes a full round after every run of a script or a fragment. Over the modules that the app loads it
    takes some 0.15 s, a hundred times what looking for news in another process costs.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()

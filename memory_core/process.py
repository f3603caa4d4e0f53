"""What a forked process must not take over from its parent: threads that are not there, locks that nobody will release,
connections that two would read from.

A server that loads the application before it forks (gunicorn's `preload_app`) makes such processes. What is registered
here is made anew in the child when it is first needed; the parent's goes on as it is. A child may use the local
embedding model that its parent had loaded, but onnxruntime ends such a process with an error when it takes the model
down at exit: load it after the fork, by putting or asking nothing before.
"""

import os
import weakref
from collections.abc import Callable
from functools import cache
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

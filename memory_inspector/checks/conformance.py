"""Runner of conformance checks: tries every promise of a part, and gathers the broken ones in a readable value."""

import logging
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from memory_core.errors import ConfigError, user_message
from memory_core.process import scratch_folder

PAGE = "See docs/reference/testing.md."
ODD = ("", " \n\t ", "word " * 9_000, "Γειά σου 我住在法鲁 أنا في فارو 👩‍👩‍👧 e\u0301", "\x1b[31m\r\x00\u202e\u2028")
"""Empty, huge and foreign texts, and one of control characters."""


@dataclass(frozen=True, slots=True)
class Conformance:
    """Result of checking one part against its promises."""

    subject: str
    passed: tuple[str, ...]
    failures: tuple[tuple[str, str], ...]
    """Broken promises, each with what happened instead."""

    def __str__(self) -> str:
        failed = f", {len(self.failures)} failed" if self.failures else ""
        lines = (f"- {promise} {happened} {PAGE}" for promise, happened in self.failures)
        return "\n".join([f"{self.subject}: {len(self.passed)} passed{failed}", *lines])


def check_promises(subject: str, kit: type[Any], *arguments: Any) -> Conformance:
    """Try each promise in a temporary folder and print the result. A promise is a public method with its docstring.

    Raises:
        AssertionError: a promise is broken; it holds the result.
    """
    __tracebackhide__ = True
    if not __debug__:
        raise ConfigError("promises are checked by assert statements: run Python without -O")
    passed, failures = list[str](), list[tuple[str, str]]()
    # The faults that a check plants are no news to a program without logging.
    for package in ("memory_core", "memory_inspector"):
        logging.getLogger(package).addHandler(logging.NullHandler())
    for promise in [method for name, method in vars(kit).items() if callable(method) and not name.startswith("_")]:
        try:
            with scratch_folder() as folder, ExitStack() as opened:
                promise(kit(folder, opened, *arguments))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a foreign object may raise anything, SystemExit included
            text = isinstance(error, AssertionError) and str(error)
            text = text or f"It raised {user_message(error).rstrip('.')}."
            failures.append((promise.__doc__, " ".join(text.split())))
        else:
            passed.append(promise.__doc__)
    print(result := Conformance(subject, tuple(passed), tuple(failures)))
    if failures:
        raise AssertionError(result)
    return result


def name_of(make: Callable[..., Any]) -> str:
    """Return the class name of what a factory makes; the factory's own name if it fails or needs arguments."""
    try:
        made = make()
        getattr(made, "close", lambda: None)()
    except Exception:  # each promise reports it
        return getattr(make, "__qualname__", type(make).__name__)
    return type(made).__name__

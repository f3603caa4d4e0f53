"""Times of messages, in any unit or as text, stored as metadata of the message."""

import re
from datetime import UTC, datetime
from typing import Any

from memory_core.messages import ChatMessage

_NUMBER = re.compile(r"\s*[0-9]{9,20}\s*")
"""Time that is written as text, in any unit."""


def seconds_of(value: Any) -> float | None:
    """Return seconds since 1970 from seconds, milli-, micro- or nanoseconds, or ISO 8601 text; else None.

    >>> seconds_of({"$date": "2026-03-01T10:00:00Z"}), seconds_of("1772359200")
    (1772359200.0, 1772359200.0)
    """
    # MongoDB's dumps wrap dates, and the numbers in them.
    while isinstance(value, dict) and len(value) == 1 and next(iter(value)) in ("$date", "$numberLong"):
        (value,) = value.values()
    # Eight digits are a date in ISO 8601.
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = int(value)
    if isinstance(value, str):
        try:
            time = datetime.fromisoformat(value)
        except ValueError:
            return None
        # ISO text without an offset is read as UTC, so that every machine reads the same time.
        value = (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp()
    # A truth value is an integer to Python.
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_LARGEST < value < _LARGEST:
        return None
    return next((value / unit for unit in _UNITS if _EARLIEST <= value / unit < _LATEST), None)


_EARLIEST, _LATEST = 1e8, 1e10
"""Seconds since 1970 in the years 1973 and 2286: a smaller number is no time, a larger one is in a smaller unit."""
_LARGEST = 1e20
"""Above every time in nanoseconds; larger integers cannot be divided."""
_UNITS = (1, 1_000, 1_000_000, 1_000_000_000)


def timed(message: ChatMessage, at: float | None) -> ChatMessage:
    """Return the message with `at` (seconds since 1970) as its `time` in ISO 8601, unless it has a time already."""
    if at is None or message.additional_kwargs.get("time") is not None:
        return message
    written = datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
    return message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, "time": written}})

"""Times of messages, in any unit or as text, stored as metadata of the message."""

from datetime import UTC, datetime
from typing import Any

from memory_core.messages import ChatMessage


def seconds_of(given: Any) -> float | None:
    """Return seconds since 1970 from a number of seconds, milli-, micro- or nanoseconds, or from ISO 8601 text."""
    if isinstance(given, str):
        try:
            found = datetime.fromisoformat(given)
        except ValueError:
            return None
        given = (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
    if isinstance(given, bool) or not isinstance(given, int | float):
        return None
    return next((given / unit for unit in _UNITS if _EARLIEST <= given / unit < _LATEST), None)


_EARLIEST, _LATEST = 1e8, 1e10
"""Seconds since 1970 in the years 1973 and 2286: less is no time, more is counted in a smaller unit."""
_UNITS = (1, 1_000, 1_000_000, 1_000_000_000)


def timed(message: ChatMessage, at: float | None) -> ChatMessage:
    """Return the message with its time as metadata, by which a question about a date finds it; its own time stays."""
    if at is None or message.additional_kwargs.get("time") is not None:
        return message
    written = datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
    return message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, "time": written}})

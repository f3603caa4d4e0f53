"""Text typed in a drawer and not saved yet: kept in the server's process, so that Esc, a click outside and a reload of
the page do not lose it. No Streamlit; never a place for secrets."""

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

MAX_DRAFTS = 200
"""Maximum number of drafts; the least recently typed are dropped first."""

Place = tuple[str, ...]
"""Key of what is edited, for example `("text", session id, block)`."""


@dataclass(frozen=True, slots=True)
class Unsaved:
    """A draft, and the values it started from."""

    value: Any
    """A text, or settings by name."""
    began: Any
    """The revision, or the settings, that the draft started from."""
    at: float
    """Time of the last keystroke, in seconds since 1970."""


class UnsavedDrafts:
    """The drafts of one process, by place. Thread-safe."""

    def __init__(self) -> None:
        self._drafts: OrderedDict[Place, Unsaved] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, place: Place, value: Any, began: Any) -> None:
        with self._lock:
            self._drafts[place] = Unsaved(value, began, time.time())
            self._drafts.move_to_end(place)
            while len(self._drafts) > MAX_DRAFTS:
                self._drafts.popitem(last=False)

    def at(self, place: Place) -> Unsaved | None:
        """The draft of this place; None if there is none."""
        with self._lock:
            return self._drafts.get(place)

    def forget(self, place: Place) -> None:
        with self._lock:
            self._drafts.pop(place, None)

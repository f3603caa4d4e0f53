"""What was typed in a drawer and not saved yet: kept by the server's process, so that Esc, a click outside and a
reload of the page do not lose it. No Streamlit; never a place for secrets.
"""

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

MAX_DRAFTS = 200
"""More are not kept: the least recently typed go first."""

Place = tuple[str, ...]
"""What is edited: `("text", session id, block)`, say."""


@dataclass(frozen=True, slots=True)
class Unsaved:
    """A draft, and what it started from."""

    value: Any
    """A text, or settings by name."""
    began: Any
    """The revision, or the settings, that the draft is a change of."""
    at: float
    """Seconds since 1970: when it was last typed in."""


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
        """The draft of this place, if there is one."""
        with self._lock:
            return self._drafts.get(place)

    def forget(self, place: Place) -> None:
        with self._lock:
            self._drafts.pop(place, None)

"""Thread-safe LRU cache for expensive results."""

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

T = TypeVar("T")


class LruCache(Generic[T]):
    """Cache of at most `most` values by key; the least recently used is dropped first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._values: OrderedDict[str, T] = OrderedDict()
        self.dropped = 0
        """Number of evicted values."""

    def get(self, key: str) -> T | None:
        with self._lock:
            if key in self._values:
                # The order of the dictionary is the order of use.
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: str, value: T) -> None:
        with self._lock:
            self._values[key] = value
            while len(self._values) > self._most:
                self._values.popitem(last=False)
                self.dropped += 1

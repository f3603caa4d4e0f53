"""Limits on input from outside: bytes, items and seconds, counted in one budget for each input.

Every reader that unpacks or parses foreign bytes takes from a budget before the work is done: a few kilobytes may
unpack to gigabytes, and a few megabytes of JSON may become gigabytes of objects.
"""

import math
import re
import time
from collections.abc import Iterator
from io import BufferedIOBase
from itertools import islice
from pathlib import PureWindowsPath
from typing import IO, Any

from memory_core.errors import FormatError, LimitError

MAX_FILE_BYTES = 20 * 1024 * 1024
"""Maximum bytes of a file that is read whole, 20 MB; also the limit of the app's file pickers."""
BYTES_PER_VALUE = 20
"""Minimum bytes of a JSON text for each value in it; a text with more values is denser than any conversation."""
MAX_VALUES = MAX_FILE_BYTES // BYTES_PER_VALUE
"""Maximum JSON values, or rows, of one file: a million take up to half a gigabyte of memory, and some seconds."""

_BYTES_PER_MB = 1024 * 1024
"""Bytes of a megabyte, as Streamlit's `file_uploader` counts."""
_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
_MARK = rf'(?:[^",[{{]++|{_STRING})*+(?:([,[{{])|\Z)'
"""Matches up to the next `,`, `[` or `{` outside of strings, or the end; possessive, so no text is scanned twice."""
_TEXT, _BYTES = re.compile(_MARK, re.DOTALL), re.compile(_MARK.encode(), re.DOTALL)


class Budget:
    """Bytes, items and seconds that reading one input may take; the seconds run from its creation."""

    def __init__(self, name: str, *, bytes: float = math.inf, items: int = MAX_VALUES, seconds: float = math.inf):
        # Windows' rules split at both kinds of slash, so no folder of any system is shown.
        self._name = PureWindowsPath(name).name or "The file"
        self._bytes, self._items, self._seconds = bytes, items, seconds
        self._bytes_left, self._items_left, self._ends = bytes, items, time.monotonic() + seconds

    @property
    def out_of_time(self) -> bool:
        return time.monotonic() > self._ends

    def take(self, *, bytes: int = 0, items: int = 0) -> None:
        """Take from the budget before reading; raise `LimitError` if not enough is left."""
        # Checked before anything is taken: what is refused was neither unpacked nor parsed.
        if bytes > self._bytes_left:
            over = f"unpacks to more than {self._bytes // _BYTES_PER_MB:,.0f} MB"
        elif items > self._items_left:
            over = f"holds more than {self._items:,} items"
        elif self.out_of_time:
            over = f"takes more than {self._seconds:,} seconds to read"
        else:
            self._bytes_left -= bytes
            self._items_left -= items
            return
        raise LimitError(f"{self._name} {over}, which is the most. Nothing was imported.")

    def take_json(self, text: str | bytes) -> None:
        """Take the number of values in a JSON text, not parsed yet; raise `LimitError` if not enough is left."""
        self.take(items=values_in(text, self._items_left))

    def pieces(self, file: IO[bytes] | BufferedIOBase) -> Iterator[bytes]:
        """Read a file that unpacks as it is read; raise `LimitError` if it has more bytes than are left."""
        while piece := file.read(_BYTES_PER_MB):
            self.take(bytes=len(piece))
            yield piece


def values_in(text: str | bytes, most: int = MAX_VALUES) -> int:
    """Count the marks `,`, `[` and `{` of a JSON text, about one for each value, up to one above `most`.

    If marks are few for the size of the text, those inside strings are counted as well, which is faster.

    >>> values_in('{"a": [1, 2], "b": ", [ {"}')
    4
    """
    # 1. Count all marks, which is fast. Where they are few for the size of the text, those in strings do not matter.
    marks = sum(map(text.count, ",[{")) if isinstance(text, str) else sum(map(text.count, (b",", b"[", b"{")))
    if marks <= most and marks * BYTES_PER_VALUE <= len(text):
        return marks
    # 2. Dense, so look which of them are outside of strings, and stop at the first too many.
    matches: Iterator[re.Match[Any]] = _TEXT.finditer(text) if isinstance(text, str) else _BYTES.finditer(text)
    return sum(match.lastindex is not None for match in islice(matches, most + 1))


def check_size(size: int, max_bytes: int = MAX_FILE_BYTES) -> None:
    """Raise `FormatError`, with both sizes, if a file of `size` bytes is too large."""
    if size > max_bytes:  # a tenth is rounded up, so that a file just above the limit does not read as equal to it
        size_words, most = (f"{math.ceil(bytes_ * 10 / _BYTES_PER_MB) / 10:g} MB" for bytes_ in (size, max_bytes))
        raise FormatError(f"File is {size_words}. The most is {most}. Nothing was imported.")

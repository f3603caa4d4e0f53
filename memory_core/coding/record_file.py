"""Follow a file of JSON Lines that another program writes: new lines only, and any line again on demand.

The file is opened for reading only. A last line that is not complete yet waits for its rest. A file that became
shorter, or was replaced by another, is read from its beginning again.
"""

import json
import os
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from memory_core.errors import FormatError
from memory_core.text import whole_characters

MAX_LINE_BYTES = 64 * 1024 * 1024
"""Bytes of a line that is read; longer ones are counted, and skipped."""

READ_BYTES = 4 * 1024 * 1024
"""Bytes read from the file at once."""


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that could not be read."""

    line: int
    problem: str
    """The reason, for the middle of a sentence: `is not valid JSON`."""


class RecordFile:
    """A followed file. Not thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._restart()

    def _restart(self) -> None:
        self._offsets = array("q")  # of each complete line
        self._end = 0  # of the last complete line
        self._beginning = b""
        self._file = (0, 0)

    @property
    def size(self) -> int:
        """Bytes read so far."""
        return self._end

    def starts_again(self) -> bool:
        """Return whether the file became shorter or was replaced since it was read; what was read then counts no more.

        Raises:
            FormatError: the file is gone, or may not be read.
        """
        try:
            now = self.path.stat()
            with self.path.open("rb") as file:
                beginning = file.read(len(self._beginning))
        except OSError as error:
            raise _unreadable(self.path, error) from error
        # A program that replaces a file may give the new one the same name and more bytes.
        same = now.st_size >= self._end and beginning == self._beginning
        if same and self._file in ((0, 0), (now.st_dev, now.st_ino)):
            self._file = now.st_dev, now.st_ino
            return False
        self._restart()
        self._file = now.st_dev, now.st_ino
        return True

    def new_records(
        self, wanted: Callable[[bytes], bool] | None = None
    ) -> Iterator[tuple[int, Mapping[str, Any] | BadLine]]:
        """Yield each line that was completed since the last call: its number, from 1, and its object or its problem.

        Empty lines, and those that `wanted` refuses, have a number and are passed over.

        Raises:
            FormatError: the file is gone, or may not be read.
        """
        try:
            with self.path.open("rb") as file:
                file.seek(self._end)
                yield from self._lines(file, wanted or bytes.strip)
        except OSError as error:
            raise _unreadable(self.path, error) from error

    def _lines(self, file: Any, wanted: Callable[[bytes], object]) -> Iterator[tuple[int, Mapping[str, Any] | BadLine]]:
        rest, skipped = b"", 0
        while data := file.read(READ_BYTES):
            lines = (rest + data).split(b"\n")
            rest = lines.pop()  # complete once a line break follows
            for number, line in enumerate(lines):
                self._offsets.append(self._end)
                # The first of these lines may be the end of one that was too long to hold.
                self._end += len(line) + 1 + (skipped if number == 0 else 0)
                too_long, skipped = bool(skipped), 0
                if too_long:
                    yield len(self._offsets), BadLine(len(self._offsets), f"is longer than {MAX_LINE_BYTES:,} bytes")
                elif wanted(line):
                    yield len(self._offsets), _parsed(line, len(self._offsets))
            if len(rest) > MAX_LINE_BYTES or skipped:
                skipped, rest = skipped + len(rest), b""
        if len(self._beginning) < 256 and self._end:
            file.seek(0)
            self._beginning = file.read(min(256, self._end))

    def record(self, line: int) -> Mapping[str, Any]:
        """Read one line again; an empty object if it cannot be read any more."""
        if not 1 <= line <= len(self._offsets):
            return {}
        end = self._offsets[line] if line < len(self._offsets) else self._end
        try:
            with self.path.open("rb") as file:
                file.seek(self._offsets[line - 1])
                data = file.read(min(end - self._offsets[line - 1], MAX_LINE_BYTES))
        except OSError:  # said when the file is next followed
            return {}
        parsed = _parsed(data, line)
        return {} if isinstance(parsed, BadLine) else parsed


def _parsed(line: bytes, number: int) -> Mapping[str, Any] | BadLine:
    try:
        value = from_json(line, allow_inf_nan=True)
    except ValueError:
        try:
            # A program that cuts a text in the middle of an emoji writes half of it, which no UTF-8 can hold.
            value = json.loads(whole_characters(json.dumps(json.loads(line.decode()), ensure_ascii=False)))
        except (ValueError, RecursionError):
            return BadLine(number, "is not valid JSON")
    return value if isinstance(value, dict) else BadLine(number, "is not a JSON object")


def _unreadable(path: Path, error: OSError) -> FormatError:
    return FormatError(f"{path.name} cannot be read: {os.strerror(error.errno) if error.errno else error}.")

"""Follow a file of JSON Lines that another program writes: new lines only, and any line again on demand.

The file is opened for reading only. A last line that is not complete yet waits for its rest. A file that became
shorter, or was replaced by another, is read from its beginning again. A file that was compressed by zstd (`.zst`) is
unpacked as it is read; all its offsets are those of the unpacked bytes.
"""

import json
import math
import os
import stat
import time
from array import array
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pydantic_core import from_json

from memory_core.errors import FormatError
from memory_core.text import whole_characters

MAX_LINE_BYTES = 64 * 1024 * 1024
"""Bytes of a line that is read; longer ones are counted, and skipped."""

READ_BYTES = 4 * 1024 * 1024
"""Bytes read from the file at once."""

FIRST_BYTES = 64 * 1024
"""Bytes read at once where only the first line is wanted."""

MAX_WINDOW_BYTES = 128 * 1024 * 1024
"""Memory that unpacking a compressed file may take."""

MAX_UNPACKED_BYTES = 1024 * 1024 * 1024
"""Bytes that are unpacked of a compressed file."""

MAX_LINES = 4_000_000
"""Lines that are read of a file; the longest sessions have some 100,000."""

_LINES_AT_ONCE = 4_096
"""Lines after which the clock is looked at."""

_AT_ONCE: int = getattr(os, "O_NONBLOCK", 0)  # Windows has none, and no pipes among its files


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that could not be read."""

    line: int
    problem: str
    """The reason, for the middle of a sentence: `is not valid JSON`."""


class RecordSource(Protocol):
    """The records of a session, numbered from 1, as its program goes on writing them. Not thread-safe.

    Every method may raise FormatError: what was followed is gone, or may not be read.
    """

    at_end: bool
    """True if the last call read all that was there."""

    @property
    def size(self) -> int:
        """Bytes read so far."""
        ...

    def starts_again(self) -> bool:
        """Return whether what was read before counts no more, as it was replaced."""
        ...

    def new_records(
        self, wanted: Callable[[bytes], bool] | None = None, until: float = math.inf
    ) -> Iterator[tuple[int, Mapping[str, Any] | BadLine]]:
        """Yield what was written since the last call; with `wanted`, what a list of sessions needs is enough."""
        ...

    def record(self, line: int) -> Mapping[str, Any]:
        """Read one record again; an empty object if it cannot be read any more."""
        ...


SourceOpener = Callable[[Path], RecordSource]
"""Opens the source at a path."""


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
        self._packed = 0  # bytes of a compressed file
        self._ended = False  # nothing more is read of it
        self.at_end = False
        """True if the last call read all that was there."""

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """Open the file for reading its bytes, unpacked if they are compressed."""
        try:
            # Without waiting for a writer, as opening a pipe would.
            with open(self.path, "rb", opener=lambda path, flags: os.open(path, flags | _AT_ONCE)) as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise FormatError(f"{self.path.name} cannot be read: it is no file, but a pipe or a device.")
                if self.path.suffix == ".zst":
                    with _unpacked(self.path, file) as unpacked:
                        yield unpacked
                else:
                    yield file
        except OSError as error:
            raise FormatError(
                f"{self.path.name} cannot be read: {os.strerror(error.errno) if error.errno else error}."
            ) from error

    @property
    def size(self) -> int:
        """Bytes read so far."""
        return self._end

    def starts_again(self) -> bool:
        """Return whether the file became shorter or was replaced since it was read; what was read then counts no more.

        Raises:
            FormatError: the file is gone, or may not be read.
        """
        with self.opened() as file:
            now = self.path.stat()
            beginning = file.read(len(self._beginning))
        # A program that replaces a file may give the new one the same name and more bytes.
        long_enough = now.st_size == self._packed if self._packed else now.st_size >= self._end
        same = long_enough and beginning == self._beginning
        again = not same or self._file not in ((0, 0), (now.st_dev, now.st_ino))
        if again:
            self._restart()
        self._file = now.st_dev, now.st_ino
        self._packed = now.st_size if self.path.suffix == ".zst" else 0
        return again

    def new_records(
        self, wanted: Callable[[bytes], bool] | None = None, until: float = math.inf
    ) -> Iterator[tuple[int, Mapping[str, Any] | BadLine]]:
        """Yield each line that was completed since the last call: its number, from 1, and its object or its problem.

        Empty lines, and those that `wanted` refuses, have a number and are passed over. What is not read by the time
        `until` of the monotonic clock is read by the next call.

        Raises:
            FormatError: the file is gone, or may not be read.
        """
        # A compressed file does not grow: unpacking it again would only show its end again.
        if self._ended:
            return
        self.at_end = False
        with self.opened() as file:
            file.seek(self._end)
            yield from self._lines(file, wanted or bytes.strip, until)
        if len(self._beginning) < 256 and self._end:
            with self.opened() as file:
                self._beginning = file.read(min(256, self._end))

    def _lines(
        self, file: Any, wanted: Callable[[bytes], object], until: float
    ) -> Iterator[tuple[int, Mapping[str, Any] | BadLine]]:
        packed, rest, skipped = self.path.suffix == ".zst", b"", 0
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
                if not len(self._offsets) % _LINES_AT_ONCE and time.monotonic() > until:
                    return
                if len(self._offsets) == MAX_LINES:
                    yield self._cut_off(f"is not read: the file has more than {MAX_LINES:,} lines")
                    return
            if len(rest) > MAX_LINE_BYTES or skipped:
                skipped, rest = skipped + len(rest), b""
            if packed and self._end + skipped + len(rest) > MAX_UNPACKED_BYTES:
                yield self._cut_off(f"is not read: the file unpacks to more than {MAX_UNPACKED_BYTES:,} bytes")
                return
        self.at_end, self._ended = True, packed
        if packed and (rest or skipped or not self._offsets):
            last = _parsed(rest, len(self._offsets) + 1)
            if isinstance(last, BadLine):
                yield self._cut_off("is not whole: the file was cut short")
            else:
                self._offsets.append(self._end)
                self._end += len(rest)
                yield len(self._offsets), last

    def _cut_off(self, problem: str) -> tuple[int, BadLine]:
        """Read nothing more of the file, and return the line at which it ends with the reason."""
        self._ended = self.at_end = True
        number = len(self._offsets) + 1
        return number, BadLine(number, problem)

    def first(self) -> Mapping[str, Any]:
        """Read the first line alone; an empty object if it is not there yet, or is no object.

        Raises:
            FormatError: the file is gone, or may not be read.
        """
        data = b""
        with self.opened() as file:
            while b"\n" not in data and len(data) < MAX_LINE_BYTES and (more := file.read(FIRST_BYTES)):
                data += more
        parsed = _parsed(data.partition(b"\n")[0], 1)
        return {} if isinstance(parsed, BadLine) else parsed

    def record(self, line: int) -> Mapping[str, Any]:
        """Read one line again; an empty object if it cannot be read any more."""
        if not 1 <= line <= len(self._offsets):
            return {}
        end = self._offsets[line] if line < len(self._offsets) else self._end
        try:
            with self.opened() as file:
                file.seek(self._offsets[line - 1])
                data = file.read(min(end - self._offsets[line - 1], MAX_LINE_BYTES))
        except FormatError:  # said when the file is next followed
            return {}
        parsed = _parsed(data, line)
        return {} if isinstance(parsed, BadLine) else parsed


def whole_object(path: Path) -> Mapping[str, Any] | BadLine:
    """Read a file that is one JSON object.

    Raises:
        FormatError: the file is gone, or may not be read.
    """
    with RecordFile(path).opened() as file:
        return _parsed(file.read(MAX_LINE_BYTES), 1)


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


@contextmanager
def _unpacked(path: Path, file: Any) -> Iterator[Any]:
    try:
        import zstandard
    except ImportError:
        raise FormatError(f"{path.name} is compressed, which is read with the package zstandard.") from None
    unpacker = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
    try:
        with unpacker.stream_reader(file, read_across_frames=True) as unpacked:
            yield unpacked
    except zstandard.ZstdError as error:
        raise FormatError(f"{path.name} cannot be read: it is not compressed by zstd, or damaged.") from error

"""JSON and JSONL files as values that know their line.

Reading bytes as text, finding where a value begins, and saying in one sentence why a file cannot be
read. What the values mean is not here; see `openai_format.py`. Lines and columns count from 1.
"""

import codecs
import json
import math
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PureWindowsPath
from typing import Any

from memory_core.errors import FormatError

_BYTES_PER_MB = 1024 * 1024
"""As Streamlit's `file_uploader` counts megabytes."""
_MAX_DIGITS = sys.int_info.str_digits_check_threshold
"""Digits of a whole number that Python reads and writes under every setting (640)."""
_BINARY_KINDS = {
    b"PK\x03\x04": "a zip archive",
    b"\x1f\x8b": "a gzip archive",
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"%PDF": "a PDF document",
    b"SQLite format 3": "a SQLite database",
}
_MARKED_ENCODINGS = {  # UTF-32 first: its little-endian mark begins with the one of UTF-16
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
    codecs.BOM_UTF8: "utf-8-sig",
}
_SPACE = re.compile(r"[ \t\n\r]*")
_BETWEEN = re.compile(r"[ \t\n\r,:]*")
"""Separators between two values inside a list or object that is known to be valid."""


def problem(filename: str, what: str, *, line: int | None = None, column: int | None = None) -> FormatError:
    """The error of one file: its name, the place, what is wrong, and that nothing was imported.

    >>> str(problem("a/b.json", "this is a number, not a message.", line=3))
    'b.json, line 3: this is a number, not a message. Nothing was imported.'
    """
    name = PureWindowsPath(filename).name or "The file"
    if line is None:
        return FormatError(f"{name} {what} Nothing was imported.")
    place = f"line {line}" if column is None else f"line {line}, column {column}"
    return FormatError(f"{name}, {place}: {what} Nothing was imported.")


CONVERSATION = "a conversation: {}. Choose a JSON or JSONL file"
GRAPH = "a graph: {}. Choose a JSON or GraphML file"
"""Sentence about a file of the wrong kind: what it should be, what it is, and what to choose instead."""


def read_text(data: bytes | str, *, filename: str, max_bytes: int, wanted: str = CONVERSATION) -> str:
    """The text of a file: UTF-8, or the encoding that its byte order mark names. `wanted`: what it should be.

    Raises:
        FormatError: larger than `max_bytes`, binary, empty, or not in its encoding.
    """
    check_size(len(data) if isinstance(data, bytes) else len(data.encode("utf-8", "surrogatepass")), max_bytes)
    text = data.removeprefix("\ufeff") if isinstance(data, str) else _decoded(data, filename, wanted)
    if not text.strip():
        raise problem(filename, "is empty.")
    return text


def check_size(size: int, max_bytes: int) -> None:
    """Raise `FormatError`, with both sizes, if a file of `size` bytes is too large."""
    if size > max_bytes:
        raise FormatError(
            f"File is {_megabytes(size)} MB. The most is {_megabytes(max_bytes)} MB. Nothing was imported."
        )


def _megabytes(size: int) -> str:
    """Rounded up to a tenth, so that a file just above the limit does not read as equal to it."""
    return f"{math.ceil(size * 10 / _BYTES_PER_MB) / 10:g}"


def _decoded(data: bytes, filename: str, wanted: str) -> str:
    encoding = next((name for mark, name in _MARKED_ENCODINGS.items() if data.startswith(mark)), "utf-8")
    if encoding == "utf-8" and (kind := _binary_kind(data)):
        raise problem(filename, f"is not {wanted.format(f'it is {kind}')}.")
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        if not encoding.startswith("utf-8"):
            raise problem(filename, f"is not valid {encoding.upper()} text. Save it as UTF-8.") from error
        before = error.object[: error.start]
        byte = len(before) - before.rfind(b"\n")
        raise problem(
            filename,
            f"byte {byte} of this line is not UTF-8 text. Save the file as UTF-8.",
            line=before.count(b"\n") + 1,
        ) from error


def _binary_kind(data: bytes) -> str | None:
    named = next((kind for signature, kind in _BINARY_KINDS.items() if data.startswith(signature)), None)
    return named or ("binary data" if b"\x00" in data else None)


@dataclass(frozen=True, slots=True)
class _Document:
    """A text and the name of the file it comes from."""

    text: str
    filename: str

    def after(self, pattern: re.Pattern[str], position: int) -> int:
        match = pattern.match(self.text, position)
        return position if match is None else match.end()

    def decode(self, position: int) -> tuple[Any, int]:
        """The value that begins at `position`, and where it ends."""
        try:
            return _DECODER.raw_decode(self.text, position)
        except RecursionError as error:
            raise problem(self.filename, "is nested too deeply to be read.") from error


@dataclass(frozen=True, slots=True)
class Located:
    """A JSON value, and the line on which it begins."""

    value: Any
    line: int
    _document: _Document = field(repr=False)
    _start: int = field(repr=False)

    def elements(self) -> "Iterator[Located]":
        """The elements of a list, in order."""
        document, line, counted = self._document, self.line, self._start
        position = self._start + 1
        while document.text[position := document.after(_BETWEEN, position)] != "]":
            line += document.text.count("\n", counted, position)
            counted = position
            value, end = document.decode(position)
            yield Located(value, line, document, position)
            position = end

    def member(self, key: str) -> "Located | None":
        """Value of an object under `key`: the last one where the key occurs twice, as JSON readers do."""
        document, found = self._document, None
        position = self._start + 1
        while document.text[position := document.after(_BETWEEN, position)] != "}":
            name, end = document.decode(position)
            start = document.after(_BETWEEN, end)
            value, position = document.decode(start)
            if name == key:
                line = self.line + document.text.count("\n", self._start, start)
                found = Located(value, line, document, start)
        return found


def read_values(text: str, *, filename: str) -> list[Located]:
    """Every JSON value of a text: the one of a JSON file, or one a line of a JSONL file.

    Raises:
        FormatError: it starts with neither a list nor an object, is not valid JSON, or is nested too deeply.
    """
    document = _Document(text, filename)
    position = document.after(_SPACE, 0)
    if not text.startswith(("[", "{"), position):
        raise problem(filename, "is not a conversation: it starts with neither [ nor {.")
    values: list[Located] = []
    line, counted = 1, 0
    while position < len(text):
        line += text.count("\n", counted, position)
        counted = position
        try:
            value, end = document.decode(position)
        except json.JSONDecodeError as error:
            by_line = bool(values) or _is_one_value_a_line(text, filename)
            raise _syntax_problem(document, position, line, error, by_line=by_line) from error
        values.append(Located(value, line, document, position))
        position = document.after(_SPACE, end)
    return values


def _is_one_value_a_line(text: str, filename: str) -> bool:
    """Is a text that cannot be read JSONL? By its name, or because its last line is a value by itself."""
    last_line = text.rstrip().rpartition("\n")[2]
    return filename.lower().endswith((".jsonl", ".ndjson")) or (
        last_line.startswith("{") and last_line != text.strip() and _is_json(last_line)
    )


def _is_json(text: str) -> bool:
    try:
        _DECODER.decode(text)
    except (ValueError, RecursionError):
        return False
    return True


def _syntax_problem(
    document: _Document, start: int, line: int, error: json.JSONDecodeError, *, by_line: bool
) -> FormatError:
    """The error of the value that begins at `start`; with `by_line` it is looked for in that line alone."""
    before = 0
    if by_line:
        line_start = document.text.rfind("\n", 0, start) + 1
        line_text = document.text[line_start:].partition("\n")[0]
        before = line - 1
        try:
            _Document(line_text, document.filename).decode(start - line_start)
        except json.JSONDecodeError as of_line:
            error = of_line
    what = f"this is not valid JSON ({error.msg[0].lower()}{error.msg[1:]})."
    if error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated string"):
        what = "the JSON ends too early here."
    return problem(document.filename, what, line=before + error.lineno, column=error.colno)


def _whole_number(digits: str) -> int | float:
    """A number too long for Python is read as infinite, and refused only where it would be stored."""
    return int(digits) if len(digits) <= _MAX_DIGITS else math.inf


_DECODER = json.JSONDecoder(parse_int=_whole_number)

"""Parse JSON and JSONL into values with their location, those that cannot be stored replaced by text.

Also decodes bytes. Semantics are up to the callers, such as `openai_format.py`. Lines and columns count from 1.
"""

import codecs
import json
import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from memory_core.errors import UNSTORABLE, FormatError, Place, problem
from memory_core.limits import MAX_VALUES, Budget, check_size
from memory_core.messages import MAX_DEPTH

_MAX_DIGITS = sys.int_info.str_digits_check_threshold
"""Maximum digits of an integer that Python parses under every setting (640)."""
_BINARY_KINDS = {
    b"PK\x03\x04": "a zip archive",
    b"\x1f\x8b": "a gzip archive",
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"%PDF": "a PDF document",
    b"SQLite format 3": "a SQLite database",
}
_MARKED_ENCODINGS = {  # UTF-32 first: its little-endian mark starts with UTF-16's
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
    codecs.BOM_UTF8: "utf-8-sig",
}
_SPACE = re.compile(r"[ \t\n\r]*")


def left_out(places: Sequence[Place], noun: str, what: str) -> str:
    """Build the sentence on places of a file that could not be read, each a line or row; empty if there are none.

    >>> left_out([2, 7], "row", "fact")
    '2 rows were left out, as no fact can be read there: 2, 7.'
    """
    first = ", ".join(map(str, places[:5])) + (f" and {len(places) - 5:,} more" if len(places) > 5 else "")
    were = " was" if len(places) == 1 else "s were"
    return f"{len(places):,} {noun}{were} left out, as no {what} can be read there: {first}." if places else ""


CONVERSATION = "a conversation: {}. Choose a JSON or JSONL file"
GRAPH = "a graph: {}. Choose a JSON file"
"""Ends of error messages: the expected content, the problem in place of `{}`, and advice."""


def read_text(data: bytes | str, *, filename: str, wanted: str = CONVERSATION) -> str:
    """Decode a file as UTF-8, or by its byte order mark. `wanted`: end of the error for a binary file.

    Raises:
        FormatError: The file is too large, binary, empty, or not in its encoding.
    """
    # A text from a form may hold half a surrogate pair, which plain UTF-8 would refuse to encode.
    check_size(len(data) if isinstance(data, bytes) else len(data.encode("utf-8", "surrogatepass")))
    text = data.removeprefix("\ufeff") if isinstance(data, str) else _decoded(data, filename, wanted)
    if not text.strip():
        raise problem(filename, "is empty.")
    return text


def _decoded(data: bytes, filename: str, wanted: str) -> str:
    encoding = next((name for mark, name in _MARKED_ENCODINGS.items() if data.startswith(mark)), "utf-8")
    # Only without a byte order mark: UTF-16 text is full of zero bytes.
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
            place=before.count(b"\n") + 1,
        ) from error


def _binary_kind(data: bytes) -> str | None:
    named = next((kind for signature, kind in _BINARY_KINDS.items() if data.startswith(signature)), None)
    return named or ("binary data" if b"\x00" in data else None)


@dataclass(frozen=True, slots=True)
class Located:
    """A JSON value with its location."""

    value: Any
    _line: int
    """Line on which the outermost value around this one begins."""
    _path: str = ""
    """Path within the outermost value."""
    _alone: bool = True
    """True if the outermost value is the file's only one."""

    @property
    def place(self) -> Place:
        """Return the value's place in the file: its line, or a JSON path with indexes from 0."""
        if not self._path:
            return self._line
        return self._path if self._alone else f"line {self._line}, {self._path}"

    def elements(self) -> "list[Located]":
        return [replace(self, value=element, _path=f"{self._path}[{n}]") for n, element in enumerate(self.value)]

    def member(self, key: str) -> "Located | None":
        """Return an object's member under `key`; None if it has none."""
        path = f"{self._path}.{key}" if self._path else key
        return replace(self, value=self.value[key], _path=path) if key in self.value else None


def read_values(text: str, *, filename: str) -> list[Located]:
    """Parse the one value of a JSON file, or a value per line of a JSONL file.

    A line of JSONL that is not valid becomes the `FormatError` that says why, if any other line is valid.

    Raises:
        FormatError: It starts with neither a list nor an object, is not valid JSON, is nested too deeply, or holds too
            many values.
    """
    position = _after_space(text, 0)
    if not text.startswith(("[", "{", "null"), position):
        raise problem(filename, "is not a conversation: it starts with neither [ nor {.")
    # Counted before parsing: a few megabytes of empty objects become gigabytes of Python objects.
    Budget(filename).take_json(text)
    values: list[tuple[Any, int]] = []
    line, counted = 1, 0
    by_line = is_jsonl = False
    while position < len(text):
        # Counts each line end once, however many values the file has.
        line += text.count("\n", counted, position)
        counted = position
        if is_jsonl:  # by its own line, as an error counts all lines before it
            line_end = text.find("\n", position)
            piece = text[position : len(text) if line_end < 0 else line_end]
            try:
                value, end = _decode(piece, 0, filename)
            except json.JSONDecodeError as error:
                what = f"this is not valid JSON ({error.msg[0].lower()}{error.msg[1:]})."
                value, end = problem(filename, what, place=line, column=error.colno), len(piece)
            values.append((value, line))
            position = _after_space(text, position + end)
            continue
        try:
            value, end = _decode(text, position, filename)
        except json.JSONDecodeError as error:
            by_line = by_line or bool(values) or _is_one_value_a_line(text, filename)
            value = _syntax_problem(text, filename, position, line, error, by_line=by_line)
            start, end = text.rfind("\n", 0, position) + 1, text.find("\n", position)
            end = len(text) if end < 0 else end
            # What begins in the middle of a line, or is no line of JSONL, is a fault of the whole file.
            is_line = by_line and not text[start:position].strip()
            if not is_line or not (is_jsonl or _is_between_lines(text, start, end)):
                raise value from error
            is_jsonl = True
        values.append((value, line))
        position = _after_space(text, end)
    return [Located(value, line, _alone=len(values) == 1) for value, line in values]


def _after_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return position if match is None else match.end()


def _decode(text: str, position: int, filename: str) -> tuple[Any, int]:
    """Decode the value at `position`; return it with its end."""
    try:
        return DECODER.raw_decode(text, position)
    except RecursionError as error:
        raise problem(filename, "is nested too deeply to be read.") from error


def _is_one_value_a_line(text: str, filename: str) -> bool:
    """Return whether invalid text is meant as JSONL, by its name or because its last line parses."""
    last_line = text.rstrip().rpartition("\n")[2]
    return filename.lower().endswith((".jsonl", ".ndjson")) or (
        last_line.startswith("{") and last_line != text.strip() and _is_json(last_line)
    )


def _is_between_lines(text: str, start: int, end: int) -> bool:
    """Return whether the lines around a broken one are JSONL: one that is valid beside it, and none of other forms."""
    before, after = start, _after_space(text, end)
    while before and text[before - 1] in " \t\r\n":
        before -= 1
    former = text[text.rfind("\n", 0, before) + 1 : before]
    after_end = text.find("\n", after)
    latter = text[after : len(text) if after_end < 0 else after_end]
    is_other = bool(latter) and not latter.startswith(("{", "["))
    return not is_other and any(line.startswith("{") and _is_json(line) for line in (former, latter))


def _is_json(text: str) -> bool:
    try:
        DECODER.decode(text)
    except (ValueError, RecursionError):
        return False
    return True


def _syntax_problem(
    text: str, filename: str, start: int, line: int, error: json.JSONDecodeError, *, by_line: bool
) -> FormatError:
    """Build the error for the value at `start`; with `by_line`, limited to its line."""
    before = 0
    # The decoder reads on beyond the broken line and may fail far below; the line alone gives the place to look at.
    if by_line:
        line_start = text.rfind("\n", 0, start) + 1
        line_end = text.find("\n", line_start)
        line_text = text[line_start : len(text) if line_end < 0 else line_end]
        before = line - 1
        try:
            _decode(line_text, start - line_start, filename)
        except json.JSONDecodeError as of_line:
            error = of_line
    what = f"this is not valid JSON ({error.msg[0].lower()}{error.msg[1:]})."
    if error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated string"):
        what = "the JSON ends too early here."
    return problem(filename, what, place=before + error.lineno, column=error.colno)


def _whole_number(digits: str) -> int | float:
    """Parse an integer; overlong ones become infinite and are refused only when stored."""
    return int(digits) if len(digits) <= _MAX_DIGITS else math.inf


DECODER = json.JSONDecoder(parse_int=_whole_number)
"""Decodes as `json` does, but for integers that Python refuses to parse."""


_DEPTH = MAX_DEPTH - 10
"""Maximum nesting of a value; the remaining levels are for the message around it."""


def read_json(data: bytes, most: int = MAX_VALUES) -> Any:
    """Parse a JSON text; None if it is invalid or has more than `most` values. Undecodable bytes become U+FFFD."""
    try:
        # Counted before parsing, as each parsed value takes far more memory than its text.
        if len(data) > most:  # a shorter text holds fewer
            Budget("request", items=most).take_json(data)
        return json.loads(data.decode("utf-8-sig", "replace"))
    except (ValueError, RecursionError):
        return None


def storable_value(value: Any, depth: int = _DEPTH) -> Any:
    r"""Return a storable JSON value: values nested too deeply and infinite numbers become their JSON text.

    Objects without a JSON form become their text.

    Surrogate pairs are joined; a lone surrogate becomes U+FFFD.

    >>> storable_value(["\ud83d" + "\ude00", "\ud83d", float("inf")])
    ['😀', '�', 'Infinity']
    """
    if isinstance(value, str):
        return _whole_characters(value)
    # JSON has no infinity, and a database refuses it.
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(value)
    if not isinstance(value, dict | list | tuple):
        return value if value is None or isinstance(value, int | float) else _whole_characters(str(value))
    # Deeper values would make the message around them unstorable.
    if depth == 0:
        try:
            return _whole_characters(json.dumps(value, ensure_ascii=False, default=str, skipkeys=True))
        except (RecursionError, ValueError):  # an object that holds itself
            return "(nested too deep to be kept)"
    if not isinstance(value, dict):
        return [storable_value(item, depth - 1) for item in value]
    return {_whole_characters(str(key)): storable_value(inner, depth - 1) for key, inner in value.items()}


def _whole_characters(text: str) -> str:
    if UNSTORABLE.search(text) is None:
        return text
    # Decoding UTF-16 joins a surrogate pair to one character.
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return UNSTORABLE.sub("\ufffd", text)

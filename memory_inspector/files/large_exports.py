"""Exports above the size of a file that is parsed whole, read one conversation at a time: a JSON list, or JSONL.

Listing reads the file once in windows of some megabytes and keeps where each conversation lies; a conversation is
parsed again when it is chosen. Memory holds a window and what its largest conversation becomes.
"""

import codecs
import io
import json
import mmap
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PureWindowsPath
from tempfile import TemporaryFile
from typing import Any

from memory_core.bundles.archive import UNREADABLE, check_entries, members_of
from memory_core.errors import FormatError, problem
from memory_core.limits import MAX_FILE_BYTES, MAX_VALUES, Budget, check_size
from memory_inspector.files.located_json import DECODER, Located
from memory_inspector.files.openai_format import (
    Conversation,
    Listed,
    conversation_at,
    is_conversation,
    listed_at,
    one_line,
)

MAX_EXPORT_BYTES = 500 * 1024 * 1024
"""Maximum bytes of an export, which is what the app's picker takes."""
_WINDOW = 2 * 1024 * 1024
_BETWEEN = re.compile(rb"[ \t\r\n,]*")
_MARKS = re.compile(rb'"(?:[^"\\]++|\\.?)*+"?|[\[\]{}]', re.DOTALL)
"""A whole text, also one that is cut off, or a bracket; possessive, so that no byte is looked at twice."""

Step = Callable[[float], None]
"""Called with the share that is read, from 0 to 1; may raise to stop."""
_Data = bytes | mmap.mmap


@dataclass(frozen=True, slots=True)
class _ExportPiece:
    """The place of a conversation in its data."""

    data: _Data
    start: int
    end: int
    number: int
    """Its number in the file, from 0."""
    problem: FormatError | None = None


@dataclass(frozen=True, slots=True)
class LargeExport:
    """The conversations of an export, and where each lies."""

    filename: str
    listed: tuple[Listed, ...]
    _branches: tuple[tuple[_ExportPiece, int], ...] = field(repr=False)
    """Piece and number of the branch of each listed conversation."""

    def conversation(self, pick: int) -> Conversation:
        """Parse the conversation at index `pick`, from 0.

        Raises:
            FormatError: It cannot be read.
        """
        piece, branch = self._branches[pick]
        if piece.problem is not None:
            raise piece.problem
        value = DECODER.decode(piece.data[piece.start : piece.end].decode("utf-8", "replace"))
        located = _located(value, piece.number)
        return conversation_at(located, self.listed[pick].title, filename=self.filename, branch=branch)


def read_large(data: bytes, *, filename: str, step: Step | None = None) -> LargeExport:
    """List the conversations of an export as JSON or JSONL.

    Raises:
        FormatError: It is no list of conversations, or larger than `MAX_EXPORT_BYTES`.
    """
    check_size(len(data), MAX_EXPORT_BYTES)
    return _list([data], filename, step)


def read_large_archive(
    data: bytes, name: re.Pattern[str], *, filename: str, step: Step | None = None
) -> LargeExport | None:
    """List the conversations in the members of such names; None if they are not large, or the archive is damaged.

    Raises:
        FormatError: A member holds no list of conversations, or they unpack to more than `MAX_EXPORT_BYTES`.
    """
    check_entries(data, filename)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = members_of(archive, name)
            if sum(member.file_size for member in members) <= MAX_FILE_BYTES:
                return None
            budget = Budget(filename, bytes=MAX_EXPORT_BYTES)
            parts = [part for member in members if (part := _unpacked(archive, member, budget))]
    except UNREADABLE as error:
        if isinstance(error, FormatError):
            raise
        return None
    return _list(parts, "conversations.json", step)


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo, budget: Budget) -> mmap.mmap | None:
    """Unpack a member to a file without a name, which lasts as long as what is returned; None if it is empty."""
    with TemporaryFile() as file, archive.open(member) as packed:
        file.writelines(budget.pieces(packed))
        file.flush()
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if file.tell() else None


def _list(parts: Sequence[_Data], filename: str, step: Step | None) -> LargeExport:
    listed: list[Listed] = []
    branches: list[tuple[_ExportPiece, int]] = []
    name = one_line(PureWindowsPath(filename).stem) or "Conversation"
    whole, before, number = sum(map(len, parts)), 0, 0
    for data in parts:
        for start, end, value in _values(data, filename):
            # A list of messages is one conversation, and a conversation has the size of a file.
            if number == 0 and not is_conversation(value) and not isinstance(value, FormatError):
                check_size(whole, MAX_FILE_BYTES)
            branches_here = listed_at(_located(value, number), f"{name} {number + 1}", filename=filename)
            reason = value if isinstance(value, FormatError) else None
            piece = _ExportPiece(data, start, end, number, reason)
            listed += branches_here
            branches += [(piece, branch) for branch in range(len(branches_here))]
            number += 1
            if step is not None:
                step((before + end) / whole)
        before += len(data)
    if all(entry.problem for entry in listed):
        raise problem(filename, "holds no conversations that can be read.")
    return LargeExport(filename, tuple(listed), tuple(branches))


def _located(value: Any, number: int) -> Located:
    return Located(value, 1, f"[{number}]")


def _values(data: _Data, filename: str) -> Iterator[tuple[int, int, Any]]:
    """Yield start, end and value of each element of a list, or line of JSONL; of a broken one, the reason as value."""
    position = _after_space(data, len(codecs.BOM_UTF8) if data[:3] == codecs.BOM_UTF8 else 0)
    is_list = data[position : position + 1] == b"["
    if not is_list and data[position : position + 1] != b"{":
        check_size(len(data), MAX_FILE_BYTES)
        raise problem(filename, "is not a conversation: it starts with neither [ nor {.")
    position = _after_space(data, position + is_list)
    first, text, inside, size, seen = position, "", 0, _WINDOW, 0
    while position < len(data):
        if is_list and data[position : position + 1] == b"]":
            rest = _after_space(data, position + 1)
            if rest >= len(data):
                return
            if data[rest : rest + 1] != b"[":
                yield rest, len(data), problem(filename, "this is behind the list.", place=f"byte {rest + 1:,}")
                return
            # Two exports in a row are two lists.
            position, text, inside = _after_space(data, rest + 1), "", 0
            continue
        # 1. A new window where the former is used up; bytes that are no UTF-8 pass through it and keep their length.
        if inside >= len(text):
            text, _ = codecs.utf_8_decode(data[position : position + size], "surrogateescape", False)
            inside, seen = 0, position + size
        # 2. The next value; if the window ends in it, the next window begins at it, and is larger if this one did.
        try:
            if size > _WINDOW:  # a smaller one has no more values than its bytes
                Budget(filename, items=2 * MAX_VALUES).take_json(text)
            value, end = DECODER.raw_decode(text, inside)
            used = len(text[inside:end].encode("utf-8", "surrogateescape"))
            size = _WINDOW
        except (json.JSONDecodeError, RecursionError) as error:
            # A line of JSONL that ends within the window is broken, and not cut off.
            line_end = -1 if is_list else data.find(b"\n", position, seen)
            is_cut = isinstance(error, json.JSONDecodeError) and seen < len(data) and line_end < 0
            if is_cut and (inside or size < MAX_FILE_BYTES):
                size, text = size if inside else size * 2, ""
                continue
            # One object is a single conversation, and a conversation has the size of a file.
            beyond = _after_space(data, line_end + 1)
            if not is_list and position == first and (line_end < 0 or data[beyond : beyond + 1] != b"{"):
                check_size(len(data), MAX_FILE_BYTES)
            used = _end_of_broken(data, position, is_list) - position
            value, end = problem(filename, _reason(error, used), place=f"byte {position + 1:,}"), len(text)
            size = _WINDOW
        yield position, position + used, value
        # 3. Past it and what separates it from the next.
        following = _after_space(data, position + used)
        inside = end + (following - position - used)
        position = following


def _reason(error: Exception, size: int) -> str:
    if size > MAX_FILE_BYTES:
        return f"this conversation is larger than {MAX_FILE_BYTES >> 20} MB."
    return "this is nested too deeply to be read." if isinstance(error, RecursionError) else "this is not valid JSON."


def _after_space(data: _Data, position: int) -> int:
    match = _BETWEEN.match(data, position)
    return position if match is None else match.end()


def _end_of_broken(data: _Data, position: int, is_list: bool) -> int:
    """Return where a value ends that cannot be parsed: its line, or its last bracket; else the end of the data."""
    if not is_list:
        end = data.find(b"\n", position)
        return len(data) if end < 0 else end
    depth = 0
    for mark in _MARKS.finditer(data, position):
        depth += {b"{": 1, b"[": 1, b"}": -1, b"]": -1}.get(mark[0], 0)
        if depth <= 0:
            return mark.end() if mark.end() > position else position + 1
    return len(data)

"""Sizes of objects in git's pack files, read before unpacking, as a few bytes may unpack to gigabytes.

Format: gitformat-pack(5). An object's header holds its size; a delta's header holds the delta's size, and the delta
itself starts with the sizes of its base and its result.
"""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

_OFFSET_DELTA, _REFERENCE_DELTA = 6, 7
_ID_BYTES = 20
_HEAD_BYTES = 1024
"""Bytes read per object: header, base and enough compressed data for a delta's first bytes."""
MAX_CHAIN = 5_000
"""Maximum length of a delta chain; git's default is 50, or 250 in aggressive mode."""


class PackSizes:
    """The pack files of a repository."""

    def __init__(self, packs: list[tuple[Any, BinaryIO]]) -> None:
        self._packs = packs

    def largest(self, id: bytes) -> int:
        """Return the largest size in bytes met while unpacking an object, its delta bases included.

        0 for an object outside the packs.
        """
        largest, chain = 0, 0
        place = self._find(id)
        while place is not None:
            file, at = place
            size, place = self._object(file, at)
            largest, chain = max(largest, size), chain + 1
            if chain > MAX_CHAIN:
                raise ValueError("the deltas of an object have no end")
        return largest

    def _find(self, id: bytes) -> tuple[BinaryIO, int] | None:
        for index, file in self._packs:
            try:
                return file, int(index.object_offset(id))
            except KeyError:
                continue
        return None

    def _object(self, file: BinaryIO, at: int) -> tuple[int, tuple[BinaryIO, int] | None]:
        """Return an object's size and, for a delta, the location of its base."""
        file.seek(at)
        head = file.read(_HEAD_BYTES)
        # Bit 7 says that another byte of the size follows, bits 4 to 6 hold the kind, the others the lowest bits of the
        # size.
        kind, size, used = head[0] >> 4 & 7, head[0] & 15, 1
        shift = 4
        while head[used - 1] & 128:
            size |= (head[used] & 127) << shift
            used, shift = used + 1, shift + 7
        if kind == _OFFSET_DELTA:
            back = head[used] & 127
            while head[used] & 128:
                used += 1
                # Each further byte adds one, so that no distance has two encodings.
                back = (back + 1 << 7) | (head[used] & 127)
            if back <= 0:
                raise ValueError("a delta is based on itself")
            return max(size, *_delta_sizes(head[used + 1 :])), (file, at - back)
        if kind == _REFERENCE_DELTA:
            base, used = head[used : used + _ID_BYTES], used + _ID_BYTES
            # A base outside the packs ends the chain here; its size is checked when it is unpacked.
            return max(size, *_delta_sizes(head[used:])), self._find(base)
        return size, None


def _delta_sizes(compressed: bytes) -> tuple[int, int]:
    """Return the sizes of a delta's base and result."""
    # 24 bytes hold two sizes of up to 64 bits in groups of 7 bits; nothing more is unpacked.
    head = zlib.decompressobj().decompress(compressed, 24)
    sizes, at = [], 0
    for _ in range(2):
        size = shift = 0
        while True:
            byte = head[at]
            size |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if byte < 128:
                break
        sizes.append(size)
    return sizes[0], sizes[1]


@contextmanager
def pack_sizes(objects: Path) -> Iterator[PackSizes]:
    """Open the packs of a repository's `objects` folder."""
    from dulwich.object_format import DEFAULT_OBJECT_FORMAT
    from dulwich.pack import load_pack_index

    packs: list[tuple[Any, BinaryIO]] = []
    try:
        for path in sorted((objects / "pack").glob("*.idx")):
            if path.with_suffix(".pack").is_file():
                packs.append((load_pack_index(path, DEFAULT_OBJECT_FORMAT), path.with_suffix(".pack").open("rb")))
        yield PackSizes(packs)
    finally:
        for index, file in packs:
            index.close()
            file.close()

"""Zip archives with known members, read as untrusted input.

Members are looked up by exact name and processed line by line; nothing is extracted to disk, so hostile paths are
harmless.
"""

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import IO

from memory_core.errors import FormatError, problem
from memory_core.limits import MAX_FILE_BYTES, Budget, check_size
from memory_core.text import listed

MAX_UNPACKED_BYTES = 8 * 1024 * 1024 * 1024
"""Maximum unpacked bytes of an archive's members together. A session of 100,000 messages has 0.4 GB."""
MAX_TIMES = 200
"""Maximum compression ratio of an archive larger than `SMALL_BYTES`; a session's ratio is about 14."""
SMALL_BYTES = 200 * 1024 * 1024
MAX_LINE_BYTES = 256 * 1024 * 1024
MAX_LINES = 20_000_000
"""Maximum rows of all kinds in a bundle; a session of 100,000 messages has half a million."""
MAX_FILES = 50_000
"""Maximum files of any kind in an archive."""
MAX_MEMBERS = 64
MAX_PARTS = 1_000
"""Maximum members that are read as parts of one export."""

_DATE = (1980, 1, 1, 0, 0, 0)
"""Timestamp of every member: the earliest in zip, so that equal content gives equal bytes."""
_BUFFER_BYTES = 64 * 1024
_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_SIZES_FOLLOW = 0x8
_IN_EXTRA = 0xFFFFFFFF
_ENCRYPTED = 0x1
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError)


class Packing:
    """An archive being written, member by member, into a file or into memory (None)."""

    def __init__(self, file: IO[bytes] | None = None) -> None:
        self._packed = io.BytesIO()
        self._archive = zipfile.ZipFile(file or self._packed, "w")

    def add(self, name: str, lines: Iterable[bytes]) -> tuple[str, int]:
        """Write a member; return its SHA-256 and number of lines."""
        info = zipfile.ZipInfo(name, _DATE)
        info.compress_type = zipfile.ZIP_DEFLATED
        digest, number = sha256(), 0
        # The size is unknown until the lines are written, so the header reserves space for more than 4 GB.
        with self._archive.open(info, "w", force_zip64=True) as member:
            for line in lines:
                member.write(line)
                digest.update(line)
                # An item may hold several lines: the manifest is added as one.
                number += line.count(b"\n")
        return digest.hexdigest(), number

    def close(self) -> None:
        """Write the list of members, without which an archive cannot be read."""
        self._archive.close()

    def packed(self) -> bytes:
        """Return the whole archive, packed in memory."""
        self.close()
        return self._packed.getvalue()


class Unpacking:
    """An archive being read, member by member; see `unpacking`."""

    def __init__(
        self,
        archive: zipfile.ZipFile,
        infos: Mapping[str, zipfile.ZipInfo],
        labels: Mapping[str, str],
        filename: str,
        budget: Budget,
    ) -> None:
        self._archive, self._infos, self._labels, self._filename = archive, infos, labels, filename
        self._budget = budget
        self.by_line = True
        """True if the next member is needed line by line, not only for its digest."""
        self.digests: dict[str, str] = {}
        """SHA-256 by name, of the members that were read to the end."""

    def __contains__(self, name: str) -> bool:
        return name in self._infos

    def lines(self, name: str) -> Iterator[bytes]:
        """Yield the lines of a member, with line ends.

        Raises:
            FormatError: The member cannot be unpacked, or is too large.
        """
        info = self._infos[name]
        # Encryption and rare methods are refused here, as the errors of `zipfile` would read like damage.
        if info.flag_bits & _ENCRYPTED:
            raise problem(self._filename, "is protected by a password. Save it without one.")
        if info.compress_type not in _METHODS:
            raise problem(
                self._filename, "is packed in a way that is not supported. Pack it as an ordinary zip archive."
            )
        digest = sha256()
        try:
            # Buffered, as the archive's own reader takes several calls for each line.
            with io.BufferedReader(self._archive.open(info), _BUFFER_BYTES) as member:  # type: ignore[type-var]
                # A limit per read keeps a member without line ends from filling memory. One more byte shows
                # that a line is longer.
                while line := member.readline(MAX_LINE_BYTES + 1) if self.by_line else member.read(_BUFFER_BYTES):
                    # Pieces of a member that is only hashed are no rows: only their bytes count.
                    self._budget.take(bytes=len(line), items=self.by_line)
                    if len(line) > MAX_LINE_BYTES:
                        raise problem(self._filename, f"unpacks to more than {MAX_LINE_BYTES >> 20} MB in one line.")
                    digest.update(line)
                    yield line
        except UNREADABLE as error:
            # `FormatError` is a `ValueError`: an error raised by this loop itself passes unchanged.
            if isinstance(error, FormatError):
                raise
            raise problem(self._filename, f"is damaged: {self._labels[name]} cannot be unpacked.") from error
        # Reached only when the member was read to its end: a digest of a part proves nothing.
        self.digests[name] = digest.hexdigest()


@contextmanager
def unpacking(
    data: bytes, labels: Mapping[str, str], *, filename: str, optional: Collection[str] = ()
) -> Iterator[Unpacking]:
    """Open an archive with the members in `labels` (descriptions by name); `optional` ones may be missing.

    Raises:
        FormatError: The archive is truncated, damaged, too large, or lacks these members.
    """
    first = next(iter(labels))
    check_entries(data, filename)
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError, struct.error) as error:
        # A download that broke off lacks the directory at the end; name what is missing rather than call it damaged.
        complete = _complete_members(data)
        if complete.isdisjoint(labels):
            raise problem(filename, "is not a conversation: it is a damaged zip archive.") from error
        missing = [label for name, label in labels.items() if name not in complete and name not in optional]
        what = f"{listed(missing)} {_are(missing)} missing." if missing else "its end is missing."
        raise problem(filename, f"is cut off: {what}") from error
    # An archive that unpacks to less than `SMALL_BYTES` is harmless at any ratio.
    most = min(MAX_UNPACKED_BYTES, max(SMALL_BYTES, MAX_TIMES * len(data)))
    with archive:
        infos = archive.infolist()
        if len(infos) > MAX_MEMBERS:
            raise problem(filename, f"holds {len(infos):,} files. A bundle has {len(labels)}.")
        # Other members are ignored: nothing looks them up by name.
        chosen = [info for info in infos if info.filename in labels]
        names = [info.filename for info in chosen]
        if first not in names:
            raise problem(filename, "is not a conversation: it is a zip archive, but not a bundle of Memory Inspector.")
        # The mapping of members by name would silently keep one of the two.
        if len(set(names)) != len(names):
            raise problem(filename, "is damaged: it holds the same file twice.")
        check_complete([name for name in labels if name in names or name in optional], labels, filename=filename)
        # Declared sizes refuse most bombs before anything is unpacked; a second budget counts what really comes out.
        Budget(filename, bytes=most).take(bytes=sum(info.file_size for info in chosen))  # sizes as declared
        budget = Budget(filename, bytes=most, items=MAX_LINES)
        yield Unpacking(archive, {info.filename: info for info in chosen}, labels, filename, budget)


def members_named(data: bytes, name: re.Pattern[str], *, filename: str) -> list[bytes]:
    """Read the whole members of an archive with such names, in the order of these; none if it is damaged.

    Raises:
        FormatError: It is too large.
    """
    check_entries(data, filename)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = members_of(archive, name)
            check_size(sum(member.file_size for member in members))
            # The declared size may be false, so one byte above the limit is read for the caller's check to notice.
            return [archive.open(member).read(MAX_FILE_BYTES + 1) for member in members]
    except UNREADABLE as error:
        if isinstance(error, FormatError):
            raise
        return []


def members_of(archive: zipfile.ZipFile, name: re.Pattern[str]) -> list[zipfile.ZipInfo]:
    """Return the members of an archive with such names, in the order of these; two of one name are both read."""
    members = [member for member in archive.infolist() if name.fullmatch(member.filename)]
    return sorted(members, key=lambda member: member.filename)[:MAX_PARTS]


def check_entries(data: bytes, filename: str) -> None:
    """Raise `LimitError` if an archive has too many files, before reading its directory."""
    # Counts the signature of directory entries. Compressed data may contain it by chance, which only counts too many.
    Budget(filename, items=MAX_FILES).take(items=data.count(b"PK\x01\x02"))


def check_complete(names: Collection[str], labels: Mapping[str, str], *, filename: str) -> None:
    """Raise `FormatError` unless all members in `labels` are among `names`."""
    missing = [label for name, label in labels.items() if name not in names]
    if missing:
        raise problem(filename, f"is not complete: {listed(missing)} {_are(missing)} missing.")


def _complete_members(data: bytes) -> set[str]:
    """Return the names of the intact members, read from the front, as a truncated archive has lost its directory."""
    names: set[str] = set()
    position = 0
    while len(data) >= position + _LOCAL_HEADER.size:
        header = _LOCAL_HEADER.unpack_from(data, position)
        signature, flags, packed, name_length, extra_length = header[0], header[2], header[7], header[9], header[10]
        # With sizes behind the data, the end of a member cannot be found without unpacking it.
        if signature != b"PK\x03\x04" or flags & _SIZES_FOLLOW:
            break
        start = position + _LOCAL_HEADER.size
        name = data[start : start + name_length].decode("utf-8", "replace")
        if packed == _IN_EXTRA:
            packed = _large_size(data[start + name_length : start + name_length + extra_length])
        position = start + name_length + extra_length + packed
        # The last member is cut off inside its data.
        if position > len(data):
            break
        names.add(name)
    return names


def _large_size(extra: bytes) -> int:
    """Return the packed size of a member from its zip64 extra field."""
    tag, length = struct.unpack_from("<2H", extra.ljust(4, b"\0"))
    # Tag 1 with 16 bytes holds both sizes, the unpacked one first. Without it the size stays unknown and the scan ends.
    return int(struct.unpack_from("<Q", extra, 12)[0]) if (tag, length) == (1, 16) and len(extra) >= 20 else _IN_EXTRA


def _are(labels: Sequence[str]) -> str:
    return "is" if len(labels) == 1 and labels[0] == "the session" else "are"

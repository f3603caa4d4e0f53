"""Zip archives whose members are known beforehand, read without trusting anything they say of themselves.

Members are found by their exact names and held in memory; nothing is unpacked to a folder, so what
paths an archive names does not matter.
"""

import io
import struct
import zipfile
import zlib
from collections.abc import Collection, Mapping, Sequence

from memory_core.interop.located_json import problem

MAX_UNPACKED_BYTES = 200 * 1024 * 1024
"""The most that the members of one archive may hold together."""
MAX_MEMBERS = 64

_DATE = (1980, 1, 1, 0, 0, 0)
"""Of every member: the earliest a zip can say, so that equal content gives equal bytes."""
_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_SIZES_FOLLOW = 0x8
_ENCRYPTED = 0x1
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def write_members(members: Mapping[str, bytes]) -> bytes:
    """An archive of these members, in this order."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name, _DATE)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return packed.getvalue()


def read_members(
    data: bytes, labels: Mapping[str, str], *, filename: str, optional: Collection[str] = ()
) -> dict[str, bytes]:
    """The members that `labels` names (with what each holds, in words); the first of them tells what the archive is.

    Those that are `optional` may be missing.

    Raises:
        FormatError: it is cut off or damaged, too large, or not an archive with these members.
    """
    first = next(iter(labels))
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError, struct.error) as error:
        complete = _complete_members(data)
        if first not in complete:
            raise problem(filename, "is not a conversation: it is a damaged zip archive.") from error
        missing = [label for name, label in labels.items() if name not in complete and name not in optional]
        what = f"{_listed(missing)} {_are(missing)} missing." if missing else "its end is missing."
        raise problem(filename, f"is cut off: {what}") from error
    with archive:
        infos = archive.infolist()
        if len(infos) > MAX_MEMBERS:
            raise problem(filename, f"holds {len(infos):,} files. A bundle has {len(labels)}.")
        chosen = [info for info in infos if info.filename in labels]
        names = [info.filename for info in chosen]
        if first not in names:
            raise problem(filename, "is not a conversation: it is a zip archive, but not a bundle of Memory Inspector.")
        if len(set(names)) != len(names):
            raise problem(filename, "is damaged: it holds the same file twice.")
        check_complete([name for name in labels if name in names or name in optional], labels, filename=filename)
        if sum(info.file_size for info in chosen) > MAX_UNPACKED_BYTES:
            raise _too_large(filename)
        return _unpacked(archive, chosen, labels, filename)


def check_complete(names: Collection[str], labels: Mapping[str, str], *, filename: str) -> None:
    """Raise `FormatError` unless every member that `labels` names is among `names`."""
    missing = [label for name, label in labels.items() if name not in names]
    if missing:
        raise problem(filename, f"is not complete: {_listed(missing)} {_are(missing)} missing.")


def _unpacked(
    archive: zipfile.ZipFile, infos: Sequence[zipfile.ZipInfo], labels: Mapping[str, str], filename: str
) -> dict[str, bytes]:
    members: dict[str, bytes] = {}
    left = MAX_UNPACKED_BYTES
    for info in infos:
        if info.flag_bits & _ENCRYPTED:
            raise problem(filename, "is protected by a password. Save it without one.")
        if info.compress_type not in _METHODS:
            raise problem(filename, "is packed in a way that is not supported. Pack it as an ordinary zip archive.")
        try:
            with archive.open(info) as member:
                read = member.read(left + 1)  # whatever size it claims
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError) as error:
            raise problem(filename, f"is damaged: {labels[info.filename]} cannot be unpacked.") from error
        left -= len(read)
        if left < 0:
            raise _too_large(filename)
        members[info.filename] = read
    return members


def _too_large(filename: str) -> Exception:
    most = MAX_UNPACKED_BYTES // (1024 * 1024)
    return problem(filename, f"unpacks to more than {most} MB, which is the most.")


def _complete_members(data: bytes) -> set[str]:
    """Names of the members that are there whole, found from the front: a cut archive has lost its directory."""
    found: set[str] = set()
    position = 0
    while len(data) >= position + _LOCAL_HEADER.size:
        header = _LOCAL_HEADER.unpack_from(data, position)
        signature, flags, packed, name_length, extra_length = header[0], header[2], header[7], header[9], header[10]
        if signature != b"PK\x03\x04" or flags & _SIZES_FOLLOW:
            break
        start = position + _LOCAL_HEADER.size
        name = data[start : start + name_length].decode("utf-8", "replace")
        position = start + name_length + extra_length + packed
        if position > len(data):
            break
        found.add(name)
    return found


def _listed(labels: Sequence[str]) -> str:
    return labels[0] if len(labels) == 1 else f"{', '.join(labels[:-1])} and {labels[-1]}"


def _are(labels: Sequence[str]) -> str:
    return "is" if len(labels) == 1 and labels[0] == "the session" else "are"

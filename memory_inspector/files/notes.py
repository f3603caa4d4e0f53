"""A folder of notes (CLAUDE.md, an agent's memory folder) as static blocks: one per file, with a version per commit.

The folder is read in place, or from a zip archive that is never extracted to its own paths. Nothing is executed,
modified, or followed outside.
"""

import io
import os
import re
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path, PurePosixPath

from memory_core.bundles.archive import MAX_FILES, check_entries
from memory_core.config import DEFAULT_TOKEN_LIMIT
from memory_core.errors import FormatError, problem
from memory_core.limits import Budget
from memory_core.messages import storable
from memory_core.process import scratch_folder
from memory_core.store.block_rows import TextOrigin
from memory_core.text import shortened
from memory_inspector.files.git_history import MAX_OBJECT_BYTES, FileHistory, Repository, read_history, repository_in
from memory_inspector.files.mirroring import MirroredBlock, TextVersion
from memory_inspector.files.stored import BlockNames, StoredConversation

ENDINGS = frozenset({".md", ".markdown", ".mdx", ".mdc", ".txt", ".rst", ".org", ".xml"})
"""Extensions of the files that count as notes, as a repository holds many other files."""
MAX_NOTES = 300
MAX_NOTE_BYTES = 256 * 1024
"""Maximum bytes of a note: some 60,000 tokens, more than fits a prompt."""
MAX_GIT_BYTES = 200 * 1024 * 1024
"""Maximum unpacked bytes of a repository in a zip archive."""
CHARACTERS_PER_TOKEN = 3
"""Characters per token for estimates; deliberately low, as prose has more."""

_SKIPPED_FOLDERS = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__", "__MACOSX"})
_GIT_FILES = re.compile(
    r"HEAD|packed-refs|refs/heads/[\w./-]{1,200}"
    r"|objects/[0-9a-f]{2}/[0-9a-f]{38}|objects/pack/pack-[0-9a-f]{40}\.(?:pack|idx)"
)
"""Repository files read from an archive: no configuration, no hooks, no paths that lead outside."""
_DRIVE = re.compile(r"[A-Za-z]:")


@dataclass(frozen=True, slots=True)
class _NoteFile:
    """A candidate file."""

    path: str
    """Path within the folder, with slashes."""
    size: int
    at: float | None
    """Modification time in seconds since 1970."""
    read: Callable[[], bytes]


class _LeftOut(Counter[str]):
    """Skipped files by reason."""

    def notes(self) -> list[str]:
        return [f"{'1 file is' if n == 1 else f'{n:,} files are'} left out: {why}" for why, n in self.items()]


def read_folder(folder: Path) -> StoredConversation:
    """Read a folder's notes, with history from its git repository or an enclosing one.

    Raises:
        FormatError: The folder has no notes, or cannot be read.
    """
    folder = folder.resolve()
    left_out = _LeftOut()
    root, git = repository_above(folder)
    inside = "" if folder == root else folder.relative_to(root).as_posix()
    try:
        return _notes(folder.name, [*_files_of(folder, left_out)], left_out, git=git, inside=inside)
    except OSError as error:
        raise problem(folder.name, f"cannot be read: {error.strerror or type(error).__name__}.") from error


def folder_fingerprint(folder: Path) -> object:
    """Return a value that differs whenever notes or their history may have changed: sizes and times.

    Raises:
        FormatError: The folder holds too many files.
        OSError: The folder cannot be read.
    """
    files = [(file.path, file.size, file.at) for file in _files_of(folder, _LeftOut())]
    _, git = repository_above(folder)
    # Every commit appends to the log of HEAD, and a switch of branches rewrites HEAD.
    read = [git.worktree / "HEAD", git.common / "packed-refs", git.worktree / "logs/HEAD"] if git is not None else []
    return files, [entry.stat().st_mtime_ns for entry in read if entry.exists()]


def repository_above(folder: Path) -> tuple[Path, Repository | None]:
    """Return the top folder of the git repository that a folder is in, with the repository; else the folder itself."""
    parents = ((parent, repository_in(parent)) for parent in (folder, *folder.parents))
    return next(((parent, git) for parent, git in parents if git is not None), (folder, None))


_UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError)
"""Exceptions that `zipfile` raises on unreadable archives, besides `ValueError` and `OSError`."""


def is_notes_archive(data: bytes) -> bool:
    """Return whether the data is a zip archive of notes, and not a session's bundle."""
    try:
        check_entries(data, "")
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
    except (*_UNREADABLE, ValueError, OSError):
        return False
    return "manifest.json" not in names and any(PurePosixPath(name).suffix.lower() in ENDINGS for name in names)


def read_archive(data: bytes, *, filename: str) -> StoredConversation:
    """Read the notes of a zipped folder, with its git history if included.

    Raises:
        FormatError: The archive has no notes, is damaged or too large.
    """
    left_out = _LeftOut()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, scratch_folder() as scratch:
        members = _members(archive.infolist(), left_out, filename)
        try:
            git = _unpacked_git(archive, members, scratch, filename)
            files = [
                _NoteFile(path, info.file_size, _changed(info), partial(archive.read, info))
                for path, info in members.items()
                if not _SKIPPED_FOLDERS.intersection(PurePosixPath(path).parts[:-1])
            ]
            return _notes(PurePosixPath(filename).stem, files, left_out, git=git, inside="")
        except (*_UNREADABLE, ValueError, OSError) as error:
            if isinstance(error, FormatError):
                raise
            raise problem(filename, "is damaged or protected: a file in it cannot be unpacked.") from error


# -- selecting files -------------------------------------------------------------------------------


def _files_of(folder: Path, left_out: _LeftOut) -> Iterator[_NoteFile]:
    budget = Budget(folder.name, items=MAX_FILES)
    for where, folders, names in os.walk(folder, onerror=_raise):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED_FOLDERS)
        for name in sorted(names):
            budget.take(items=1)
            path = Path(where) / name
            # Not `stat`: a link may lead out of the folder.
            about = path.lstat()
            if not stat.S_ISREG(about.st_mode):
                left_out["a link, or no ordinary file"] += 1
                continue
            yield _NoteFile(path.relative_to(folder).as_posix(), about.st_size, about.st_mtime, path.read_bytes)


def _raise(error: OSError) -> None:
    raise error


def _members(infos: Sequence[zipfile.ZipInfo], left_out: _LeftOut, filename: str) -> dict[str, zipfile.ZipInfo]:
    """Return an archive's regular files by path, without a common top folder.

    Raises:
        FormatError: Two files share a path, or one path lies inside another.
    """
    by_path: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        name = info.filename.replace("\\", "/")
        path = PurePosixPath(name)
        # The upper 16 bits hold the kind of a file, if the archive was packed on Unix.
        mode = info.external_attr >> 16
        if info.is_dir():
            continue
        if path.is_absolute() or ".." in path.parts or _DRIVE.match(name):
            left_out["its path leads out of the folder"] += 1
        elif stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            left_out["a link, or no ordinary file"] += 1
        elif path.as_posix() in by_path:
            raise problem(filename, f"holds {shortened(path.as_posix(), 80)} twice. Pack the folder again.")
        else:
            by_path[path.as_posix()] = info
    ordered = sorted(path.replace("/", "\0") for path in by_path)  # sorts a folder's contents right after it
    for outer, inner in pairwise(ordered):
        if inner.startswith(f"{outer}\0"):
            shown = shortened(outer.replace("\0", "/"), 80)
            raise problem(filename, f"holds {shown} as a file and as a folder. Pack the folder again.")
    tops = {PurePosixPath(path).parts[0] for path in by_path if not path.startswith("__MACOSX/")}
    # Most programs pack the folder itself; its name is no part of the notes' paths.
    top = f"{next(iter(tops))}/" if len(tops) == 1 else ""
    if top and all("/" in path for path in by_path) and top != ".git/":
        return {path.removeprefix(top): info for path, info in by_path.items() if path.startswith(top)}
    return by_path


def _changed(info: zipfile.ZipInfo) -> float | None:
    try:
        # Zip has no time zones, and 1980 is what programs write that store no time.
        return datetime(*info.date_time, tzinfo=UTC).timestamp() if info.date_time[0] > 1980 else None
    except ValueError:
        return None


def _unpacked_git(
    archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], scratch: Path, filename: str
) -> Repository | None:
    """Extract the needed parts of the archive's repository to a folder; None without one."""
    git = scratch / ".git"
    budget = Budget(filename, bytes=MAX_GIT_BYTES)
    for path, info in members.items():
        inside = path.removeprefix(".git/")
        if inside == path or not _GIT_FILES.fullmatch(inside):
            continue
        if not inside.startswith("objects/pack/") and info.file_size > MAX_OBJECT_BYTES:  # larger objects are not read
            raise problem(filename, f"has {path}, which is larger than {MAX_OBJECT_BYTES >> 20} MB.")
        # Stays below the scratch folder: paths that lead upwards were left out by `_members`.
        target = git / inside
        target.parent.mkdir(parents=True, exist_ok=True)
        with archive.open(info) as member, target.open("wb") as file:
            file.writelines(budget.pieces(member))
    return repository_in(scratch)


# -- converting to blocks --------------------------------------------------------------------------


def _notes(
    name: str, files: Sequence[_NoteFile], left_out: _LeftOut, *, git: Repository | None, inside: str
) -> StoredConversation:
    texts: dict[str, tuple[str, float | None]] = {}
    for file in files:
        if PurePosixPath(file.path).suffix.lower() not in ENDINGS:
            left_out["by its ending no note"] += 1
        elif len(texts) >= MAX_NOTES:
            left_out[f"above the first {MAX_NOTES} notes"] += 1
        elif file.size > MAX_NOTE_BYTES:
            left_out[f"larger than {MAX_NOTE_BYTES // 1024} KB"] += 1
        elif (text := note_text(file.read())) is None:
            left_out["not UTF-8 text, or larger than it says"] += 1
        else:
            texts[file.path] = text, file.at
    if not texts:
        raise problem(name, f"holds no notes: files that end in {', '.join(sorted(ENDINGS))}.")
    prefix = f"{inside}/" if inside else ""
    wanted = [f"{prefix}{path}" for path in texts]
    # Each note's versions come from commits, so that its past can be opened like that of any block.
    history = read_history(git, wanted, note_text) if git is not None else FileHistory({}, ("it has no git history",))
    names = BlockNames()
    blocks = tuple(
        MirroredBlock(names.free(path), (*note_versions(history.versions.get(f"{prefix}{path}", []), text, at),))
        for path, (text, at) in texts.items()
    )
    tokens = sum(len(text) for text, _ in texts.values()) // CHARACTERS_PER_TOKEN
    return StoredConversation(
        name, (), blocks=blocks, notes=(*history.notes, *left_out.notes()), token_limit=_room_for(tokens)
    )


def note_versions(had: Sequence[TextVersion], text: str, at: float | None) -> Iterator[TextVersion]:
    """Yield the committed versions, then the file's current text if it differs."""
    yield from had
    if not had or had[-1].text != text:
        yield TextVersion(text, TextOrigin(at, "not committed" if had else None))


def note_text(data: bytes) -> str | None:
    """Return the text of a note; None if it is larger than a note may be, or not UTF-8."""
    if len(data) > MAX_NOTE_BYTES or b"\x00" in data:
        return None
    try:
        return str(storable(data.decode("utf-8-sig"))[0])
    except UnicodeDecodeError:
        return None


def _room_for(tokens: int) -> int | None:
    """Return a token limit that leaves room beside notes of this size; None if the default limit does."""
    # Half of the prompt for the notes, the other half for the conversation.
    return tokens * 2 if tokens * 2 > DEFAULT_TOKEN_LIMIT else None

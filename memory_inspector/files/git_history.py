"""Versions of files in a git repository along first parents, each with time, author and message.

Only objects and refs are read, by a library. Git is never run, and hooks and configuration are never read.
"""

import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from memory_core.errors import LimitError
from memory_core.limits import Budget
from memory_core.store.block_rows import TextOrigin
from memory_inspector.files.mirroring import TextVersion
from memory_inspector.files.openai_format import one_line

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


MAX_COMMITS = 50_000
"""Maximum commits read, newest first."""
MAX_OBJECT_BYTES = 16 * 1024 * 1024
"""Maximum unpacked bytes of an object; larger ones are skipped."""
MAX_KEPT_BYTES = 256 * 1024 * 1024
"""Maximum bytes of all versions of a repository's files; older ones are dropped."""
MAX_UNPACKED_BYTES = 4 * 1024 * 1024 * 1024
"""Maximum bytes unpacked in total; then reading stops."""
MAX_SECONDS = 60
"""Maximum seconds of reading a history; then reading stops."""
MAX_VERSIONS = 500
"""Maximum versions of a file; the newest are kept."""

Tree = Mapping[str, Any]
"""Nested names: None for a file, a mapping for a folder."""

TextOf = Callable[[bytes], str | None]
"""Decoder of a file's bytes; None if they are not text."""


@dataclass(frozen=True, slots=True)
class Repository:
    """Folders of a git repository: one `.git` folder, or those of a linked worktree (`git worktree add`)."""

    worktree: Path
    """Folder with HEAD and its log."""
    common: Path
    """Folder with refs and objects."""


@dataclass(frozen=True, slots=True)
class FileHistory:
    """Versions of files by path, oldest first."""

    versions: Mapping[str, list[TextVersion]]
    notes: tuple[str, ...] = ()
    """Sentences on missing history."""


def repository_in(folder: Path) -> Repository | None:
    """Return the git repository whose top folder this is; None if the folder is not the top of a repository."""
    git = folder / ".git"
    try:
        if git.is_dir():
            return Repository(git, git)
        link = git.read_text(encoding="utf-8", errors="replace") if git.is_file() else ""
        worktree = folder / link.removeprefix("gitdir:").strip()
        back, common = worktree / "gitdir", worktree / "commondir"
        # Regular files only: reading a pipe might never end.
        if not link.startswith("gitdir:") or not back.is_file() or not common.is_file():
            return None
        # Git also stores a link back: without it, any folder could claim another repository's history.
        if (worktree / back.read_text(encoding="utf-8").strip()).resolve() != git.resolve():
            return None
        return Repository(worktree, worktree / common.read_text(encoding="utf-8").strip())
    except (OSError, ValueError):
        return None


def read_history(git: Repository, wanted: Collection[str], text_of: TextOf) -> FileHistory:
    """Return the versions of the files at these paths.

    An unreadable repository gives an empty history with a note.
    """
    try:
        from dulwich.object_store import DiskObjectStore
        from dulwich.refs import DiskRefsContainer
    except ImportError:
        return FileHistory(
            {}, ("its git history is not read: that needs dulwich (pip install 'memory-inspector[stores]')",)
        )
    # The library opens any of these files, so all are checked first.
    objects, refs = git.common / "objects", git.common / "refs"
    read = [git.worktree / "HEAD", git.common / "packed-refs", *refs.rglob("*"), *objects.rglob("*")]
    read += (git.worktree / "refs").rglob("*")
    if any(path.exists() and not (path.is_file() or path.is_dir()) for path in read):  # reading a pipe might never end
        return FileHistory({}, ("its git history cannot be read: a file of it is a pipe or a device",))
    try:
        store = DiskObjectStore(objects, loose_object_size_limit=MAX_OBJECT_BYTES)
        try:
            with pack_sizes(objects) as sizes:
                bounded = _BoundedStore(store, sizes)
                head = DiskRefsContainer(git.common, git.worktree)[b"HEAD"]
                history = _versions(bounded, head, _nested(wanted), text_of)
            notes = bounded.notes
        finally:
            store.close()
    except KeyError:
        return FileHistory({}, ("its git repository has no commits",))
    except Exception as error:  # the library may raise anything on hostile input
        return FileHistory({}, (f"its git history cannot be read ({type(error).__name__})",))
    for path, versions in history.items():
        if len(versions) > MAX_VERSIONS:
            notes.append(f"of {path} the newest {MAX_VERSIONS} of {len(versions):,} versions are imported")
            del versions[:-MAX_VERSIONS]
    return FileHistory(history, tuple(notes))


class _BoundedStore:
    """A repository's objects, read within this module's limits; records what was skipped."""

    def __init__(self, store: Any, sizes: PackSizes) -> None:
        self._store, self._sizes = store, sizes
        self._unpacked = Budget("history", bytes=MAX_UNPACKED_BYTES, seconds=MAX_SECONDS)
        self._kept, self._full, self._too_large = Budget("history", bytes=MAX_KEPT_BYTES), False, 0
        self.ends: list[str] = []

    @property
    def notes(self) -> list[str]:
        sentences = list(self.ends)
        if self._too_large:
            several = "versions are" if self._too_large > 1 else "version is"
            sentences.append(f"{self._too_large:,} {several} too large to be read")
        if self._full:
            sentences.append(f"older versions are left out: all are more than {MAX_KEPT_BYTES / 1024**2:,.0f} MB")
        return sentences

    def __contains__(self, id: bytes) -> bool:
        return id in self._store

    def __getitem__(self, id: bytes) -> Any:
        # Checked before unpacking, as a few bytes may unpack to gigabytes.
        size = self._sizes.largest(id)
        Budget("object", bytes=MAX_OBJECT_BYTES).take(bytes=size)
        self._unpacked.take(bytes=size)
        data = self._store[id]
        # The size of an object outside the packs is known only now; its own limit is set in the object store.
        self._unpacked.take(bytes=max(0, data.raw_length() - size))
        return data

    def text(self, id: bytes, text_of: TextOf) -> str | None:
        """Return a blob's text; None if it is not text, or exceeds a limit."""
        # From then on everything older is left out, or a file's history would have gaps.
        if self._full:
            return None
        try:
            data = self[id].data
        except LimitError:
            self._too_large += 1
            return None
        try:
            self._kept.take(bytes=len(data))
        except LimitError:
            self._full = True
            return None
        return text_of(data)


def _versions(store: _BoundedStore, newest: bytes, wanted: Tree, text_of: TextOf) -> dict[str, list[TextVersion]]:
    by_path: dict[str, list[TextVersion]] = {}
    for path, blob, commit in _changes(store, newest, wanted):
        if (text := store.text(blob, text_of)) is not None:
            by_path.setdefault(path, []).append(TextVersion(text, _written(commit)))
    return {path: versions[::-1] for path, versions in by_path.items()}


def _changes(store: _BoundedStore, newest: bytes, wanted: Tree) -> Iterator[tuple[str, bytes, Any]]:
    """Yield path, blob id and commit of each version, newest first."""
    later: Any = None
    after: dict[str, bytes] = {}
    for commit, now in _first_parents(store, newest, wanted):
        # The older commit has other bytes or no such file, so the one after it wrote this version.
        yield from ((path, blob, later) for path, blob in after.items() if now.get(path) != blob)
        later, after = commit, now
    # Files in the oldest commit that was read count as written by it.
    yield from ((path, blob, later) for path, blob in after.items())


def _first_parents(store: _BoundedStore, newest: bytes, wanted: Tree) -> Iterator[tuple[Any, dict[str, bytes]]]:
    """Yield each commit with its files along first parents, newest first; an early stop adds its reason to
    `store.ends`."""
    cache: dict[tuple[bytes, str], dict[str, bytes]] = {}
    read, parents, commits = 0, [newest], Budget("history", items=MAX_COMMITS)
    while parents:
        # A missing first commit is no shallow copy, but raises `KeyError` below: the branch has no commits.
        if read and parents[0] not in store:
            store.ends.append("its git history begins late: it is a shallow copy")
            return
        try:
            commits.take(items=1)
            commit = store[parents[0]]
            files = _files(store, commit.tree, wanted, "", cache)
        except LimitError:
            store.ends.append(f"the newest {read:,} commits are read")
            return
        read += 1
        yield commit, files
        # Only the first is followed: what a merge brought in counts as a change by the merge.
        parents = commit.parents


def _files(
    store: _BoundedStore, tree: bytes, wanted: Tree, prefix: str, cache: dict[tuple[bytes, str], dict[str, bytes]]
) -> dict[str, bytes]:
    """Return the wanted files' blob ids by path; `cache` holds folders."""
    # Cached by place as well: equal folders at two places may have different wanted files.
    if (tree, prefix) in cache:
        return cache[tree, prefix]
    ids: dict[str, bytes] = {}
    for entry in store[tree].items():
        name = entry.path.decode("utf-8", "replace")
        if name not in wanted:
            continue
        inside = wanted[name]
        if inside is not None and entry.mode == 0o040000:
            ids |= _files(store, entry.sha, inside, f"{prefix}{name}/", cache)
        # Regular files only, with any permissions: the text of a link is a path.
        elif inside is None and entry.mode & 0o170000 == 0o100000:
            ids[f"{prefix}{name}"] = entry.sha
    if prefix:  # not the root tree, which differs in nearly every commit
        cache[tree, prefix] = ids
    return ids


def _nested(paths: Collection[str]) -> Tree:
    tree: dict[str, Any] = {}
    for path in paths:
        *folders, name = path.split("/")
        inside = tree
        for folder in folders:
            inside = inside.setdefault(folder, {})
        inside[name] = None
    return tree


def _written(commit: Any) -> TextOrigin:
    """Return a commit's time, author (without mail address) and message."""
    author = commit.author.decode("utf-8", "replace").partition("<")[0]
    reason = next(iter(commit.message.decode("utf-8", "replace").strip().splitlines()), "")
    label = f"{one_line(author) or 'somebody'}, {commit.id[:7].decode()}: {one_line(reason) or 'no message'}"
    return TextOrigin(float(commit.commit_time), label)

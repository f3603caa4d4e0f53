"""What a git repository says of some files: each version with its time, its author and why, along the first parents.

Only objects and names of branches are read, by a library. Git itself is never run, and neither hooks nor the
repository's configuration are looked at.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memory_core.attach.mirroring import TextVersion
from memory_core.errors import LimitError
from memory_core.interop.git_packs import PackSizes, pack_sizes
from memory_core.interop.openai_format import one_line
from memory_core.limits import Budget
from memory_core.store.block_rows import Written

MAX_COMMITS = 50_000
"""Maximum number of commits read, from the newest back."""
MAX_OBJECT_BYTES = 16 * 1024 * 1024
"""Maximum bytes of one object, unpacked; a larger one is not read."""
MAX_KEPT_BYTES = 256 * 1024 * 1024
"""Maximum bytes of all versions of a repository's files; older ones are left out."""
MAX_UNPACKED_BYTES = 4 * 1024 * 1024 * 1024
"""Maximum bytes unpacked in all. Commits before are not read."""
MAX_SECONDS = 60
"""Maximum seconds that reading a history takes. Commits before are not read."""
MAX_VERSIONS = 500
"""Maximum number of versions of one file: the newest."""

Tree = Mapping[str, Any]
"""Names of files and folders: None for a file, the names inside it for a folder."""

TextOf = Callable[[bytes], str | None]
"""The text of a file's bytes; None where they are none."""


@dataclass(frozen=True, slots=True)
class FileHistory:
    """The versions of files by their paths, oldest first."""

    versions: Mapping[str, list[TextVersion]]
    notes: tuple[str, ...] = ()
    """What of the history is not here."""


def read_history(git: Path, wanted: Collection[str], text_of: TextOf) -> FileHistory:
    """The versions of the files at these paths, in a repository whose `.git` folder this is.

    A repository that cannot be read has no history, and a note that says why.
    """
    try:
        from dulwich.object_store import DiskObjectStore
        from dulwich.refs import DiskRefsContainer
    except ImportError:
        return FileHistory(
            {}, ("its git history is not read: that needs dulwich (pip install 'memory-inspector[stores]')",)
        )
    read = [git / "HEAD", git / "packed-refs", *(git / "refs").rglob("*"), *(git / "objects").rglob("*")]
    if any(each.exists() and not (each.is_file() or each.is_dir()) for each in read):  # reading a pipe has no end
        return FileHistory({}, ("its git history cannot be read: a file of it is a pipe or a device",))
    try:
        store = DiskObjectStore(git / "objects", loose_object_size_limit=MAX_OBJECT_BYTES)
        try:
            with pack_sizes(git / "objects") as sizes:
                bounded = _BoundedStore(store, sizes)
                found = _versions(bounded, DiskRefsContainer(git)[b"HEAD"], _nested(wanted), text_of)
            notes = bounded.notes
        finally:
            store.close()
    except KeyError:
        return FileHistory({}, ("its git repository has no commits",))
    except Exception as error:  # of bytes that anybody may have made, a library may raise anything
        return FileHistory({}, (f"its git history cannot be read ({type(error).__name__})",))
    for path, versions in found.items():
        if len(versions) > MAX_VERSIONS:
            notes.append(f"of {path} the newest {MAX_VERSIONS} of {len(versions):,} versions are imported")
            del versions[:-MAX_VERSIONS]
    return FileHistory(found, tuple(notes))


class _BoundedStore:
    """The objects of a repository, within the limits above, and what of them is left out."""

    def __init__(self, store: Any, sizes: PackSizes) -> None:
        self._store, self._sizes = store, sizes
        self._unpacked = Budget("history", bytes=MAX_UNPACKED_BYTES, seconds=MAX_SECONDS)
        self._kept, self._full, self._too_large = Budget("history", bytes=MAX_KEPT_BYTES), False, 0
        self.ends: list[str] = []

    @property
    def notes(self) -> list[str]:
        found = list(self.ends)
        if self._too_large:
            several = "versions are" if self._too_large > 1 else "version is"
            found.append(f"{self._too_large:,} {several} too large to be read")
        if self._full:
            found.append(f"older versions are left out: all are more than {MAX_KEPT_BYTES / 1024**2:,.0f} MB")
        return found

    def __contains__(self, id: bytes) -> bool:
        return id in self._store

    def __getitem__(self, id: bytes) -> Any:
        size = self._sizes.largest(id)
        Budget("object", bytes=MAX_OBJECT_BYTES).take(bytes=size)
        self._unpacked.take(bytes=size)
        found = self._store[id]
        self._unpacked.take(bytes=max(0, found.raw_length() - size))
        return found

    def text(self, id: bytes, text_of: TextOf) -> str | None:
        """Return the text of a file's content; None if it is none, or beyond a limit."""
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
    found: dict[str, list[TextVersion]] = {}
    for path, blob, commit in _changes(store, newest, wanted):
        if (text := store.text(blob, text_of)) is not None:
            found.setdefault(path, []).append(TextVersion(text, _written(commit)))
    return {path: versions[::-1] for path, versions in found.items()}


def _changes(store: _BoundedStore, newest: bytes, wanted: Tree) -> Iterator[tuple[str, bytes, Any]]:
    """Yield path, id of the content and commit of each version, newest first."""
    later: Any = None
    after: dict[str, bytes] = {}
    for commit, now in _first_parents(store, newest, wanted):
        yield from ((path, blob, later) for path, blob in after.items() if now.get(path) != blob)
        later, after = commit, now
    yield from ((path, blob, later) for path, blob in after.items())


def _first_parents(store: _BoundedStore, newest: bytes, wanted: Tree) -> Iterator[tuple[Any, dict[str, bytes]]]:
    """Yield each commit and its files along first parents, newest first; `store.ends` says why they end early."""
    known: dict[tuple[bytes, str], dict[str, bytes]] = {}
    read, parents, commits = 0, [newest], Budget("history", items=MAX_COMMITS)
    while parents:
        if read and parents[0] not in store:
            store.ends.append("its git history begins late: it is a shallow copy")
            return
        try:
            commits.take(items=1)
            commit = store[parents[0]]
            files = _files(store, commit.tree, wanted, "", known)
        except LimitError:
            store.ends.append(f"the newest {read:,} commits are read")
            return
        read += 1
        yield commit, files
        parents = commit.parents


def _files(
    store: _BoundedStore, tree: bytes, wanted: Tree, prefix: str, known: dict[tuple[bytes, str], dict[str, bytes]]
) -> dict[str, bytes]:
    """Return ids of the wanted files' contents by path, in a tree; `known` remembers those of folders seen before."""
    if (tree, prefix) in known:
        return known[tree, prefix]
    found: dict[str, bytes] = {}
    for entry in store[tree].items():
        name = entry.path.decode("utf-8", "replace")
        if name not in wanted:
            continue
        inside = wanted[name]
        if inside is not None and entry.mode == 0o040000:
            found |= _files(store, entry.sha, inside, f"{prefix}{name}/", known)
        elif inside is None and entry.mode & 0o170000 == 0o100000:
            found[f"{prefix}{name}"] = entry.sha
    if prefix:  # the whole tree is another one in nearly every commit
        known[tree, prefix] = found
    return found


def _nested(paths: Collection[str]) -> Tree:
    found: dict[str, Any] = {}
    for path in paths:
        *folders, name = path.split("/")
        inside = found
        for folder in folders:
            inside = inside.setdefault(folder, {})
        inside[name] = None
    return found


def _written(commit: Any) -> Written:
    """Time, author and reason of a commit; the author without the mail address."""
    author = commit.author.decode("utf-8", "replace").partition("<")[0]
    reason = next(iter(commit.message.decode("utf-8", "replace").strip().splitlines()), "")
    said = f"{one_line(author) or 'somebody'}, {commit.id[:7].decode()}: {one_line(reason) or 'no message'}"
    return Written(float(commit.commit_time), said)

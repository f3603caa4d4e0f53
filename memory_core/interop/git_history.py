"""What a git repository says of some files: each version with its time, its author and why, along the first parents.

Only objects and names of branches are read, by a library. Git itself is never run, and neither hooks nor the
repository's configuration are looked at.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memory_core.attach.mirroring import TextVersion
from memory_core.interop.git_packs import PackSizes, pack_sizes
from memory_core.interop.openai_format import one_line
from memory_core.store.blocks import Written

MAX_COMMITS = 50_000
"""Commits that are looked at, from the newest back."""
MAX_OBJECT_BYTES = 16 * 1024 * 1024
"""Of one object, unpacked; a larger one is not read."""
MAX_BYTES = 256 * 1024 * 1024
"""Of all objects of a repository, unpacked; beyond it no more versions are read."""
MAX_VERSIONS = 500
"""Of one file; of more, the newest."""

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
    try:
        store = DiskObjectStore(git / "objects", loose_object_size_limit=MAX_OBJECT_BYTES)
        try:
            with pack_sizes(git / "objects") as sizes:
                bounded = _Bounded(store, sizes)
                commits, notes = _first_parents(bounded, DiskRefsContainer(git)[b"HEAD"])
                found = _versions(bounded, commits, _nested(wanted), text_of)
            notes += bounded.notes
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


class _TooLargeError(Exception):
    """An object that is larger than is read, or one more than is read of a repository."""


class _Bounded:
    """A store of objects that unpacks none above `MAX_OBJECT_BYTES`, and at most `MAX_BYTES` in all."""

    def __init__(self, store: Any, sizes: PackSizes) -> None:
        self._store, self._sizes = store, sizes
        self._left = MAX_BYTES
        self.too_large = 0

    @property
    def notes(self) -> list[str]:
        several = "versions are" if self.too_large > 1 else "version is"
        return [f"{self.too_large:,} {several} too large to be read"] if self.too_large else []

    def __contains__(self, id: bytes) -> bool:
        return id in self._store

    def __getitem__(self, id: bytes) -> Any:
        size = self._sizes.largest(id)
        if size > MAX_OBJECT_BYTES:
            raise _TooLargeError
        found = self._store[id]
        self._left -= max(size, found.raw_length())
        if self._left < 0:
            raise _TooLargeError
        return found

    def text(self, id: bytes, text_of: TextOf) -> str | None:
        """Return the text of a file's content; None if it is none, or too large."""
        try:
            return text_of(self[id].data)
        except _TooLargeError:
            self.too_large += 1
            return None


def _first_parents(store: _Bounded, newest: bytes) -> tuple[list[Any], list[str]]:
    """The commits from the oldest to the newest along first parents, and what is missing of them."""
    found: list[Any] = [store[newest]]
    notes: list[str] = []
    while parents := found[-1].parents:
        if len(found) >= MAX_COMMITS:
            notes.append(f"the newest {MAX_COMMITS:,} commits are read")
            break
        if parents[0] not in store:
            notes.append("its git history begins late: it is a shallow copy")
            break
        found.append(store[parents[0]])
    return found[::-1], notes


def _versions(store: _Bounded, commits: list[Any], wanted: Tree, text_of: TextOf) -> dict[str, list[TextVersion]]:
    found: dict[str, list[TextVersion]] = {}
    known: dict[tuple[bytes, str], dict[str, bytes]] = {}
    before: dict[str, bytes] = {}
    for commit in commits:
        now = _files(store, commit.tree, wanted, "", known)
        for path, blob in now.items():
            if before.get(path) != blob and (text := store.text(blob, text_of)) is not None:
                found.setdefault(path, []).append(TextVersion(text, _written(commit)))
        before = now
    return found


def _files(
    store: Any, tree: bytes, wanted: Tree, prefix: str, known: dict[tuple[bytes, str], dict[str, bytes]]
) -> dict[str, bytes]:
    """Ids of the wanted files' contents by path, in a tree; `known` remembers those of trees seen before."""
    if (tree, prefix) not in known:
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
        known[tree, prefix] = found
    return known[tree, prefix]


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

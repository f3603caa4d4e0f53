"""Tell which files of Codex make one thread: its segments, what it inherits, and its subagents.

Read from files that Codex 0.171.0 wrote, 2026-11-29. A file begins with a `session_meta`. A fork names the record of
its origin before which it goes on, and copies nothing; a rewind goes on in a second file of the same thread, named
`rollout-<time>-<thread>_<segment>`; a subagent is a thread that names its parent. Archived and compressed files count.
"""

import os
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from memory_core.errors import FormatError
from memory_inspector.coding.record_file import RecordFile
from memory_inspector.coding.transcript import as_count, as_mapping, as_text

_NAME = re.compile(r"(rollout-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-([^_]+)(?:_(.+))?|.+?)\.jsonl(?:\.zst)?")

_ROLLOUT = re.compile(r"rollout-.*\.jsonl")
_FOLDERS = "sessions", "archived_sessions"

SETTLED_NS = 2_000_000_000
"""Nanoseconds after its last change for which a folder is listed anew."""


@dataclass(frozen=True, slots=True)
class Head:
    """The name and the first record of a file: its place among the others."""

    path: Path
    thread: str
    """Id of its thread; of a file with another name than Codex gives, its path."""
    id: str
    """Id of its segment; the first segment has that of the thread."""
    described: str = ""
    """Id of the thread as its first record has it."""
    base: str = ""
    """Id of the file that it goes on from; empty if it begins by itself."""
    until: int = 0
    """Number of the first record of that file that it does not inherit."""
    parent: str = ""
    """Thread that started it, of a subagent."""


def head_of(path: Path) -> Head:
    """Return the place of a file, by its name alone where its first record cannot be read."""
    try:
        return _read_head(path)
    except FormatError:
        return _head(path, {})


@lru_cache(100_000)  # a first record does not change
def _read_head(path: Path) -> Head:
    first = RecordFile(path).first()
    if not first:
        raise FormatError("The first record is not written yet.")
    return _head(path, as_mapping(first.get("payload")) if first.get("type") == "session_meta" else {})


def _head(path: Path, meta: object) -> Head:
    about = as_mapping(meta)
    name = _NAME.fullmatch(path.name)
    thread = (name and name[2]) or str(path.with_name(name[1] if name else path.name))
    spawned = as_mapping(as_mapping(as_mapping(about.get("source")).get("subagent")).get("thread_spawn"))
    # Older forks, and subagents that are given what was said so far, have a copy instead.
    base = as_mapping(about.get("history_base"))
    id, until = as_text(base.get("thread_id")), as_count(base.get("end_ordinal_exclusive"))
    if not id:
        id, until = as_text(about.get("forked_from_id")), as_count(about.get("forked_from_ordinal_exclusive"))
    return Head(
        path,
        thread,
        (name and name[3]) or thread,
        as_text(about.get("id")),
        id if until else "",
        until,
        as_text(about.get("parent_thread_id")) or as_text(spawned.get("parent_thread_id")),
    )


@dataclass(frozen=True, slots=True)
class ThreadFile:
    """A file that a lane is read from, or its beginning."""

    path: Path
    after: int | None = None
    """Place of the part that it goes on from; None for one that begins by itself."""
    until: int = 0
    """Number of the first record of that part that it does not go on from."""
    inherited: bool = False
    """True if only the records that another part goes on from are read."""


class Rollouts:
    """Files of Codex, by the ids of their threads and segments."""

    def __init__(self, heads: Iterable[Head]) -> None:
        self.by_id: dict[str, Head] = {}
        threads: dict[str, list[Head]] = {}
        # While a file is compressed or archived there are two of it.
        for head in sorted(heads, key=lambda head: (head.path.suffix, "archived_sessions" in head.path.parts)):
            if self.by_id.setdefault(head.id, head) is head:
                threads.setdefault(head.thread, []).append(head)
        self._threads = {thread: sorted(heads, key=lambda head: head.path.name) for thread, heads in threads.items()}
        for head in list(self.by_id.values()):
            if head.described:
                self.by_id.setdefault(head.described, head)

    def segments(self, head: Head) -> list[Head]:
        """Return the files of a file's thread, the earliest first."""
        return self._threads.get(head.thread, [head])

    def session(self, head: Head) -> Head:
        """Return the first file of the session that a file belongs to; that of a subagent is its parent's."""
        # A subagent may have started others.
        way = [self.segments(head)[0]]
        while parent := self.by_id.get(way[-1].parent):
            above = self.segments(parent)[0]
            if above in way:  # two files may name each other
                return way[0]
            way.append(above)
        return way[-1]

    def subagents(self, head: Head) -> list[Head]:
        """Return the first file of each subagent of a file's session, however deep."""
        first = self.segments(head)[0]
        threads = (heads[0] for heads in self._threads.values())
        return [one for one in threads if one.thread != head.thread and self.session(one) is first]

    def parts(self, head: Head) -> tuple[tuple[ThreadFile, ...], list[str]]:
        """Return the files to read for a file's thread, each after what it goes on from, and ids that are missing."""
        places: dict[str, int] = {}
        parts: list[ThreadFile] = []
        missing: list[str] = []
        for segment in self.segments(head):
            way = [segment]
            # Two files may name each other.
            while way[-1].id not in places and (base := self.by_id.get(way[-1].base)) and base not in way:
                way.append(base)
            for one in reversed(way):
                if one.id in places:
                    continue
                if one.base and one.base not in self.by_id:
                    missing.append(one.base)
                base = self.by_id.get(one.base)
                after = places.get(base.id) if base else None
                places[one.id] = len(parts)
                parts.append(ThreadFile(one.path, after, one.until, one.thread != head.thread))
        return tuple(parts), missing


def rollouts_near(path: Path) -> Rollouts:
    """Return the files in the home of a file, archived ones included, and the file itself."""
    # Codex has a folder for each day, `<year>/<month>/<day>`, and archives without them.
    above = path.absolute().parents
    dated = len(above) > 3 and all(folder.name.isdigit() for folder in above[:3])
    root = above[3] if dated else above[0]
    roots = [root.with_name(name) for name in _FOLDERS] if root.name in _FOLDERS else [root]
    folders = [str(folder) for folder in roots]
    below = folders
    for _ in ("year", "month", "day"):
        below = [os.path.join(folder, name) for folder in below for name in _names_in(folder) if name.isdigit()]
        folders += below
    names = (os.path.join(folder, name) for folder in folders for name in _names_in(folder) if _ROLLOUT.match(name))
    return Rollouts(head_of(file) for file in dict.fromkeys([path, *map(Path, names)]))


def _names_in(folder: str) -> tuple[str, ...]:
    """Return the names in a folder; none if it is none, or may not be read."""
    try:
        changed = os.stat(folder).st_mtime_ns
        # A folder that was changed just now may change once more within the same tick of the clock.
        settled = time.time_ns() - changed > SETTLED_NS
        return _settled_names(folder, changed) if settled else tuple(os.listdir(folder))
    except OSError:
        return ()


@lru_cache(4_096)
def _settled_names(folder: str, changed: int) -> tuple[str, ...]:
    return tuple(os.listdir(folder))

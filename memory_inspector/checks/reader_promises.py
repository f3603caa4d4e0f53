"""Promises of a reader of other programs' stores, tried on stores that are written, damaged and linked for it."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from memory_core.errors import FormatError
from memory_inspector.checks.conformance import Conformance, check_promises, name_of
from memory_inspector.files.stores.sqlite_file import MAX_STORE_BYTES


class StoreItem(NamedTuple):
    """A memory or a message of a store; author and time (seconds since 1970) are None where the store has none."""

    text: str
    author: str | None = None
    time: float | None = None


Read = Callable[[Path], tuple[Sequence[StoreItem], Sequence[str]]]
"""Reader of a store: its items in order, and a sentence for each row that could not be read."""
Write = Callable[[Path, Sequence[StoreItem | None]], None]
"""Writer of a store as its program does; None stands for a row that cannot be read."""


def check_store_reader(
    read: Read, write: Write, *, filename: str = "store.db", fields: Sequence[str] = StoreItem._fields
) -> Conformance:
    """Check a reader of another program's store against its promises, and print the result.

    `fields` are those of `StoreItem` that the store has.

    Raises:
        AssertionError: a promise is broken; it holds the result.
    """
    __tracebackhide__ = True
    return check_promises(name_of(read), ReaderPromises, read, write, filename, fields)


@dataclass
class ReaderPromises:
    """Promises of a reader of another program's store."""

    folder: Path
    opened: ExitStack
    read: Read
    write: Write
    filename: str
    fields: Sequence[str]

    def __post_init__(self) -> None:
        self.path = self.folder / self.filename
        texts = [*(f"Item {number}" for number in range(40)), "<b>&quot;</b> {} %s", "Γειά σου 我住在法鲁", "x" * 1_500]
        items = [StoreItem(text, ("user", "assistant")[n % 2], 1.7e9 + 60 * n) for n, text in enumerate(texts)]
        self.items = [StoreItem(**{name: getattr(item, name) for name in self.fields}) for item in items]

    def reads_items_once_in_order(self) -> None:
        """Every item is read once and in order, with its author and time, and reading it again gives the same."""
        self.write(self.path, self.items)
        for _ in range(2):
            items, problems = self.read(self.path)
            assert not problems, f"It reports {problems[:3]}."
            strange = [pair for pair in zip(items, self.items, strict=False) if pair[0] != pair[1]]
            assert not strange, f"It read (item, expected) {strange[0]!r:.200}."
            assert len(items) == len(self.items), f"It read {len(items)} items of {len(self.items)}."

    def names_unreadable_rows(self) -> None:
        """A row that cannot be read costs itself alone, and is named."""
        for place in (0, 7, len(self.items)):
            path = self.folder / f"{place} {self.filename}"
            self.write(path, [*self.items[:place], None, *self.items[place:]])
            items, problems = self.read(path)
            assert [*items] == self.items, f"Of {len(self.items)} others it read {len(items)}."
            assert problems, f"It does not name the row at place {place}."

    def refuses_damaged_files(self) -> None:
        """A file that is cut off, overwritten, nested, huge or of another kind is a `FormatError`, or read in part."""
        self.write(self.path, self.items)
        whole, noise = self.path.read_bytes(), bytes(range(256)) * 64
        cut = [whole[: len(whole) * part // 8] for part in range(8)] + [whole[:100] + noise]
        for data in (*cut, noise, b'[{"text": "caf\xe9"}]', b"[" * 100_000, b'{"a":' * 100_000, b"text", b"[]", b"{}"):
            self.path.write_bytes(data)
            self._assert_refused(self.path, f"{len(data)} bytes {data[:20]!r}...")
        with self.path.open("wb") as file:
            file.write(whole)
            file.truncate(MAX_STORE_BYTES + 1)
        self._assert_refused(self.path, "a huge file")

    def refuses_what_is_no_file(self) -> None:
        """A path without a file, a folder, and links that lead nowhere are a `FormatError`."""
        paths = [self.folder / name / self.filename for name in ("missing", "folder", "dangling", "loop")]
        for path in paths:
            path.parent.mkdir()
        paths[1].mkdir()
        with suppress(OSError):  # where links need a privilege, nothing is there
            paths[2].symlink_to("nothing")
            paths[3].symlink_to(paths[3].name)
        for path in paths:
            self._assert_refused(path, f"a {path.parent.name} path")

    def changes_nothing(self) -> None:
        """The store stays as it was to the byte, with its times, and nothing is written beside it, whole or damaged."""
        for size in (None, 2_000, 0):
            path = self.folder / f"{size} {self.filename}"
            self.write(path, self.items)
            path.write_bytes(path.read_bytes()[:size])
            before = self._files()
            with suppress(FormatError):
                self.read(path)
            assert self._files() == before, f"Of {size or 'all'} bytes, the store or its folder was changed by reading."

    def _files(self) -> dict[str, tuple[int, bytes]]:
        """Return time of change and content of every file."""
        return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in self.folder.iterdir()}

    def _assert_refused(self, path: Path, kind: str) -> None:
        """Assert that reading raises `FormatError`, or returns items of the store and names what it left out."""
        with suppress(FormatError):
            items, problems = self.read(path)
            whole = [*items] == self.items[: len(items)] or problems
            read = bool(items and whole) and set(items) <= set(self.items)
            assert read, f"From {kind} it read {[*items][:3]!r:.200}."

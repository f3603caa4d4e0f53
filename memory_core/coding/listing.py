"""The sessions of coding agents on this machine, newest first, with what each took.

Files are found by name and looked through once; later only what was added is read. A folder that may not be read costs
its own sessions alone, and is named.
"""

import fnmatch
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from memory_core.coding.claude_code import ClaudeCodeReader
from memory_core.coding.codex import CodexReader
from memory_core.coding.prices import cost_of
from memory_core.coding.record_file import BadLine, RecordFile
from memory_core.coding.transcript import RecordReader, Usage
from memory_core.errors import FormatError

LIVE_SECONDS = 120
"""Seconds since a file was last written to, within which its session counts as live."""

TITLE_CHARACTERS = 120


@dataclass(frozen=True, slots=True)
class Home:
    """A folder in which a program stores its sessions."""

    reader: type[RecordReader]
    folder: Path
    names: str
    """Names of sessions' files, as a pattern."""
    depth: int | None = None
    """Folders between this one and a session's file; None for any number."""


def homes(claude: Path | None = None, codex: Path | None = None) -> list[Home]:
    """Return the folders of the programs on this machine, or others that are given."""
    config = Path(os.environ.get("CLAUDE_CONFIG_DIR") or "~/.claude").expanduser()
    codex_home = Path(os.environ.get("CODEX_HOME") or "~/.codex").expanduser()
    return [
        Home(ClaudeCodeReader, claude or config / "projects", "*.jsonl", 1),
        Home(CodexReader, codex or codex_home / "sessions", "rollout-*.jsonl"),
    ]


@dataclass(slots=True)
class Overview:
    """Tokens, calls and compactions of a session, read from its file without holding its texts."""

    path: Path
    reader: type[RecordReader]
    id: str
    """Its program, folder and name; the same on every run."""
    changed: float
    """Time of the last write, in seconds since 1970."""
    size: int
    """Bytes."""
    title: str = ""
    """Its own, else the beginning of what the user said first."""
    folder: str = ""
    """Folder that the agent worked in; empty while unknown."""
    usage: dict[str, Usage] = field(default_factory=dict)
    """Tokens of all calls by model, without those of subagents in files of their own."""
    calls: int = 0
    compactions: int = 0
    problem: str = ""
    """Sentence that says why it cannot be read."""
    _file: RecordFile | None = None
    _records: RecordReader | None = None
    _answers: dict[str, tuple[str, Usage]] = field(default_factory=dict)
    _own_title: bool = False

    @property
    def program(self) -> str:
        return self.reader.program

    @property
    def project(self) -> str:
        """Name of the folder that the agent worked in, or of the folder of the file while that is unknown."""
        return Path(self.folder).name or self.path.parent.name

    @property
    def read(self) -> bool:
        """Return whether all that was written is counted."""
        return bool(self.problem) or (self._file is not None and self._file.size >= self.size)

    @property
    def tokens(self) -> int:
        return sum(used.prompt + used.output for used in self.usage.values())

    @property
    def cost(self) -> float | None:
        """US dollars, estimated; None if unknown."""
        return cost_of(self.usage)

    def is_live(self, now: float) -> bool:
        return now - self.changed < LIVE_SECONDS

    def follow(self) -> None:
        """Count what was written since the last call; a file that cannot be read gets its `problem`."""
        file = self._file or RecordFile(self.path)
        try:
            if file.starts_again() or self._file is None:
                self._file, self._records, self._answers = file, self.reader(), {}
                self.title, self.compactions, self._own_title = "", 0, False
            for number, line in file.new_records(self.reader.counts):
                if not isinstance(line, BadLine):
                    self._count(line, number)
            self.problem = ""
        except FormatError as error:
            self.problem = str(error)
        self.calls = len(self._answers)
        self.usage = {}
        for model, used in self._answers.values():
            self.usage[model] = self.usage.get(model, Usage()) + used

    def _count(self, line: Mapping[str, object], number: int) -> None:
        assert self._records is not None
        for record in self._records.read(line, number):
            self.folder = self.folder or record.about.get("folder", "")
            if title := record.about.get("title"):
                self.title, self._own_title = title[:TITLE_CHARACTERS], True
            prompt = next((item for item in record.items if item.kind == "user"), None)
            if prompt is not None and not self.title:
                self.title = " ".join(prompt.text[: 4 * TITLE_CHARACTERS].split())[:TITLE_CHARACTERS]
            if record.usage is not None:
                key = record.answer or f"line {number}"
                before = self._answers.get(key, ("", Usage()))[1]
                # Pieces of a streamed answer repeat its tokens.
                self._answers[key] = record.model, before.latest(record.usage)
            self.compactions += record.boundary is not None and not record.boundary.clears


class Listing:
    """All sessions of some homes. Not thread-safe."""

    def __init__(self, homes: Sequence[Home]) -> None:
        self.homes = homes
        self.problems: list[str] = []
        """Sentences on folders that may not be read."""
        self._overviews: dict[Path, Overview] = {}

    def look(self, seconds: float = 1.0) -> list[Overview]:
        """Return the sessions, newest first, after reading what is new for at most some seconds.

        Sessions that were not reached have their name, size and time, and are read by later calls.
        """
        self.problems = []
        present = {}
        for home in self.homes:
            for path, size, changed in self._files(home):
                overview = self._overviews.get(path)
                if overview is None:
                    id = "/".join([home.reader.program, *path.relative_to(home.folder).with_suffix("").parts])
                    overview = Overview(path, home.reader, id, changed, size)
                overview.changed, overview.size = changed, size
                present[path] = overview
        self._overviews = dict(sorted(present.items(), key=lambda found: -found[1].changed))
        until = time.monotonic() + seconds
        # The newest come first: they are what a person looks for.
        for overview in self._overviews.values():
            if not overview.read:
                overview.follow()
                if time.monotonic() > until:
                    break
        return list(self._overviews.values())

    def of(self, id: str) -> Overview | None:
        """Return the session with an id, by comparing ids only: none of them is used as a path."""
        return next((overview for overview in self._overviews.values() if overview.id == id), None)

    def _files(self, home: Home) -> Iterator[tuple[Path, int, float]]:
        def denied(error: OSError) -> None:
            if not isinstance(error, FileNotFoundError):
                name = Path(error.filename or home.folder).name
                self.problems.append(f"{name} cannot be read: {os.strerror(error.errno or 0)}.")

        for folder, _, names in os.walk(home.folder, onerror=denied):
            depth = len(Path(folder).relative_to(home.folder).parts)
            for name in fnmatch.filter(names, home.names):
                if name.startswith("agent-") or home.depth not in (None, depth):  # subagents belong to their session
                    continue
                path = Path(folder, name)
                try:
                    status = path.stat()
                except OSError as error:
                    denied(error)
                    continue
                yield path, status.st_size, status.st_mtime

"""The sessions of coding agents on this machine, newest first, with what each took.

Files are found by name and looked through once; later only what was added is read. A folder that may not be read costs
its own sessions alone, and is named. The segments and subagents of a thread of Codex are one session.
"""

import fnmatch
import glob
import math
import os
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from memory_core.errors import FormatError, NotFoundError
from memory_inspector.coding.claude_code import ClaudeCodeReader
from memory_inspector.coding.cline import MESSAGES, ClineReader
from memory_inspector.coding.codex import CodexReader, Head, Rollouts, head_of
from memory_inspector.coding.copilot_cli import CopilotReader
from memory_inspector.coding.gemini_cli import GeminiReader
from memory_inspector.coding.opencode import OpenCodeReader
from memory_inspector.coding.pi import PiReader
from memory_inspector.coding.prices import all_spent
from memory_inspector.coding.qwen_code import QwenReader
from memory_inspector.coding.record_file import BadLine, RecordFile, RecordSource
from memory_inspector.coding.transcript import CallUsage, RecordReader, Spent, as_count, as_text, lane_of, quotable
from memory_inspector.files.stores.sqlite_file import SQLITE_MAGIC

LIVE_SECONDS = 120
"""Seconds since a file was last written to, within which its session counts as live."""

TITLE_CHARACTERS = 120

_LINE = re.compile(r" ?line \d+")
"""Key of an answer without an id: it is known by its line alone."""


@dataclass(frozen=True, slots=True)
class Home:
    """A folder in which a program stores its sessions."""

    reader: type[RecordReader]
    folder: Path
    names: tuple[str, ...]
    """Names of sessions' files, as patterns."""
    depth: int | None = None
    """Folders between this one and a session's file; None for any number."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program, and where it stores its sessions."""

    reader: type[RecordReader]
    variable: str
    """Environment variable with its folder, if it is elsewhere."""
    folder: str
    """Its usual folder."""
    sessions: str
    """Folder in it with the sessions."""
    names: tuple[str, ...]
    depth: int | None = None


_ROLLOUTS = "rollout-*.jsonl", "rollout-*.jsonl.zst"  # Codex compresses them after some days

PROGRAMS: Mapping[str, Program] = {
    "claude": Program(ClaudeCodeReader, "CLAUDE_CONFIG_DIR", "~/.claude", "projects", ("*.jsonl",), 1),
    "codex": Program(CodexReader, "CODEX_HOME", "~/.codex", "sessions", _ROLLOUTS),
    "pi": Program(PiReader, "PI_CODING_AGENT_DIR", "~/.pi/agent", "sessions", ("*.jsonl",), 1),
    "gemini": Program(GeminiReader, "", "~/.gemini", "tmp", ("session-*.jsonl",), 2),
    "opencode": Program(OpenCodeReader, "XDG_DATA_HOME", "~/.local/share", "opencode", ("opencode*.db",), 0),
    "copilot": Program(CopilotReader, "COPILOT_HOME", "~/.copilot", "session-state", ("events.jsonl",), 1),
    "cline": Program(ClineReader, "CLINE_DIR", "~/.cline", "data/sessions", (f"*{MESSAGES}",), 1),
    "qwen": Program(QwenReader, "QWEN_HOME", "~/.qwen", "projects", ("*.jsonl",), 2),
}
"""The programs whose sessions are read, by the name that an option gives them."""

PROGRAM_NAMES = " and ".join(", ".join(one.reader.program for one in PROGRAMS.values()).rsplit(", ", 1))


def homes(claude: Path | None = None, codex: Path | None = None, **others: Path) -> list[Home]:
    """Return the folders of the programs on this machine, or others that are given by a program's name."""
    chosen = {"claude": claude, "codex": codex, **others}
    places = []
    for name, one in PROGRAMS.items():
        usual = Path(os.environ.get(one.variable) or one.folder).expanduser()
        places.append(Home(one.reader, chosen.get(name) or usual / one.sessions, one.names, one.depth))
        if name == "codex" and codex is None:
            places.append(Home(one.reader, usual / "archived_sessions", one.names))
    return places


_UNREAD = (
    ("Continue", "/.continue/", b'"workspaceDirectory"', "its compactions are not in its files"),
    (
        "aider",
        ".aider.chat.history",
        b"# aider chat started at",
        "its history has no calls of tools, and tokens as text",
    ),
    ("Kilo", "/kilo.db", b"", "no version of it could be run to see what it writes"),
    ("Kimi", "/.kimi", b"", "its last version writes no sessions"),
    ("Vibe", "/.vibe/", b"", "its sessions are folders of snapshots and journals"),
)
"""Programs that are not read, parts of their paths and beginnings, and what is missing."""


def home_of_file(path: Path) -> Home:
    """Return a home that holds one session's file alone, or a database; the program is told by its first 50 records.

    Raises:
        FormatError: the file cannot be read, or is not a session of these programs.
    """
    # A session of OpenCode has its name below its database.
    file = path.parent if path.parent.is_file() else path
    with RecordFile(file).opened() as opened:
        beginning = opened.read(4_096)
    for program, place, mark, missing in _UNREAD:
        # Lines of a session that is read may quote the mark of another program.
        marked = mark in beginning if mark and file.suffix != ".jsonl" else False
        if marked or place in file.absolute().as_posix():
            raise FormatError(f"{file.name} is of {program}, whose sessions are not read: {missing}.")
    only = file.absolute().parent, (glob.escape(file.name),), 0
    if beginning.startswith(SQLITE_MAGIC):
        list(OpenCodeReader.sessions(file))  # tells if it is another program's
        return Home(OpenCodeReader, *only)
    source = ClineReader.source(file) if file.suffix == ".json" else RecordFile(file)
    source.starts_again()
    records = [record for _, record in islice(source.new_records(), 50) if isinstance(record, dict)]
    readers = [one.reader for one in PROGRAMS.values()]
    # Other programs have records of the names of Claude Code's, so theirs are looked for first.
    for reader in [*readers[2:], *readers[:2]]:
        if any(map(reader.knows, records)):
            return Home(reader, *only)
    raise FormatError(f"{file.name} is not a session of {PROGRAM_NAMES.replace(' and ', ' or ')}.")


def stem_of(path: Path) -> str:
    """Return the name of a session's file without its endings, the same before and after it is compressed."""
    name = path.name.removesuffix(".zst").removesuffix(".jsonl").removesuffix(MESSAGES)
    return path.parent.name if name == "events" else name  # Copilot names the folder


def is_there(path: Path) -> bool:
    """Return whether the file of a session exists, or the database above it."""
    return path.exists() or path.parent.is_file()


@dataclass(slots=True)
class SessionOverview:
    """Tokens, calls and compactions of a session, read from its file without holding its texts."""

    path: Path
    reader: type[RecordReader]
    id: str
    """Its program, folder and name; the same on every run."""
    changed: float
    """Time of the last write, also of a subagent's, in seconds since 1970."""
    size: int
    """Bytes, with those of subagents' files."""
    title: str = ""
    """Its own, else the beginning of what the user said first; without keys."""
    folder: str = ""
    """Folder that the agent worked in; empty while unknown."""
    usage: dict[str, CallUsage] = field(default_factory=dict)
    """Tokens of all calls by model, without those that a fork inherited or copied; of Claude Code's subagents where
    the program counted them."""
    cost: float | None = None
    """US dollars, as its program counted or estimated; None if unknown."""
    calls: int = 0
    """With those that a fork inherited by reference, without those that it copied, and without subagents'."""
    compactions: int = 0
    problem: str = ""
    """Sentence that says why it cannot be read."""
    _file: RecordSource | None = None
    _records: RecordReader | None = None
    began: float = math.inf
    """Time of its first record, which a fork writes before the records that it copies."""
    head: Head | None = None
    """Place of a file of Codex among the others."""
    segments: list["SessionOverview"] = field(default_factory=list)
    """Later files of the same thread, each counted by itself."""
    subagents: list["SessionOverview"] = field(default_factory=list)
    inherited: list[tuple["SessionOverview", int]] = field(default_factory=list)
    """Files that a fork goes on from, each with the number of the first record that it does not inherit."""
    named: str = ""
    """Title in the program's own list."""
    _session: str = ""
    """Id that its records name; those that a fork copies name the fork's."""
    _beside: dict[Path, "SessionOverview"] = field(default_factory=dict)
    """Files of subagents, which the program keeps beside the session."""
    _named: dict[str, None] = field(default_factory=dict)
    """Ids of the subagents that its records name."""
    copied: int = 0
    """Tokens of answers that stand in another session as well, and count there."""
    _answers: dict[str, tuple[str, CallUsage, float, int]] = field(default_factory=dict)
    """Model, tokens, time, and number of the record, by answer."""
    _compacted: list[int] = field(default_factory=list)
    """Numbers of the compactions' records."""
    _spent: list[tuple[int, float, Spent]] = field(default_factory=list)
    """Each of the program's counts, with the number of answers before it, and the time of the last record."""
    _last_at: float = 0
    _seen: tuple[int, float] = (-1, 0)
    """Bytes and time of the last write, when it was read last."""

    @property
    def program(self) -> str:
        return self.reader.program

    @property
    def project(self) -> str:
        """Name of the folder that the agent worked in, or of the folder of the file while that is unknown."""
        return Path(self.folder).name or self.path.parent.name

    @property
    def name(self) -> str:
        """Id that the program gave it."""
        return Path(self.head.thread).name if self.head else stem_of(self.path)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its files, its segments' and subagents' after its own."""
        names = *((self.head.id,) if self.head else ()), stem_of(self.path)
        return *names, *(name for one in (*self.segments, *self.subagents) for name in one.names)

    @property
    def read(self) -> bool:
        """Return whether all that was written is counted."""
        return self._seen == (self.size, self.changed)

    @property
    def tokens(self) -> int:
        return sum(used.tokens for used in self.usage.values())

    def is_live(self, now: float) -> bool:
        return now - self.changed < LIVE_SECONDS

    def notice(self, size: int, changed: float) -> None:
        """Take the size and the last write of its file, with those of its subagents' files."""
        # Files that its records name are known once these were read; those in its own folder may be newer than it.
        paths = {*self._beside, *self.reader.subagents(self.path, ()).values()} - {self.path}
        for path in paths:
            with suppress(OSError):  # gone, or rows of a database, which counts them itself
                status = path.stat()
                size, changed = size + status.st_size, max(changed, status.st_mtime)
        self.size, self.changed = size, changed

    def follow(self, until: float = math.inf) -> None:
        """Count what was written since the last call; a file that cannot be read gets its `problem`.

        What is not read by the time `until` of the monotonic clock is read by the next call.
        """
        self._seen = self.size, self.changed
        self._read_file(until)
        for one in (*self.segments, *self.subagents, *(other for other, _ in self.inherited)):
            if not one.read or one.problem:
                one.follow(until)
            if not one.read:
                self._seen = -1, 0
        for path in self.reader.subagents(self.path, list(self._named)).values():
            # Some programs keep them in the session's own file.
            if path != self.path:
                one = self._beside.setdefault(path, SessionOverview(path, self.reader, "", 0, 0))
                one._seen = one.size, one.changed
                one._read_file(until)
                if not one.read:
                    self._seen = -1, 0
        self.title = self.named or self.title
        self._add_up({})

    def _read_file(self, until: float) -> None:
        file = self._file or self.reader.source(self.path)
        try:
            if file.starts_again() or self._file is None:
                self._file, self._records, self._answers, self._spent = file, self.reader(), {}, []
                self.title, self.folder, self._compacted = "", "", []
                self._named, self._beside = {}, {}
            for number, line in file.new_records(self.reader.is_for_list, until):
                if not isinstance(line, BadLine):
                    self._count(line, number)
            if not file.at_end:
                self._seen = -1, 0
            self.problem = ""
        except FormatError as error:
            self.problem = str(error)

    def leave_out_copies(self, first: dict[str, "SessionOverview"]) -> None:
        """Count only answers that no session had `first`, by id, and add them: a fork begins with copied records."""
        if self._session:
            # A line's number says nothing of another file.
            ids = [id for one in (self, *self._beside.values()) for id in one._answers if not _LINE.fullmatch(id)]
            copied = {id: first[id] for id in ids if id in first and first[id]._session != self._session}
            if copied or self.copied:
                self._add_up({})
                whole = self.tokens
                self._add_up(copied)
                self.copied = whole - self.tokens
            first.update((id, self) for id in ids if id not in first)

    def _add_up(self, copied: Mapping[str, "SessionOverview"]) -> None:
        number, at, spent = self._spent[-1] if self._spent else (0, 0, None)
        from_main = [id for id in copied if id in self._answers]
        if from_main and spent is not None:
            spent = spent.since(copied[from_main[-1]]._spent_with(from_main[-1]))
        before: dict[str, CallUsage] = {}
        after: dict[str, CallUsage] = {}
        answers = [(id, answer, place < number) for place, (id, answer) in enumerate(self._answers.items())]
        answers += [(id, one, one[2] <= at) for file in self._beside.values() for id, one in file._answers.items()]
        for id, (model, used, *_), counted in answers:
            if id not in copied:
                totals = before if counted else after
                totals[model] = totals.get(model, CallUsage()) + used
        for one in (*self.segments, *self.subagents):
            for model, used in one.usage.items():
                after[model] = after.get(model, CallUsage()) + used
        self.usage, self.cost = all_spent(spent, before, after)
        self.calls, self.compactions = -len(from_main), 0
        for file, end in [(self, math.inf), *((one, math.inf) for one in self.segments), *self.inherited]:
            self.calls += sum(number < end for *_, number in file._answers.values())
            self.compactions += sum(number < end for number in file._compacted)

    def _spent_with(self, id: str) -> Spent | None:
        """Return the program's first count that includes an answer."""
        number = list(self._answers).index(id)
        return next((spent for answers, _, spent in self._spent if answers > number), None)

    def _count(self, line: Mapping[str, object], number: int) -> None:
        assert self._records is not None
        self._session = self._session or as_text(line.get("sessionId"))
        place = as_count(line.get("ordinal")) or number - 1
        for record in self._records.read(line, number):
            self.began = record.at or math.inf if self.began == math.inf else self.began
            if record.spent is not None:
                self._spent.append((len(self._answers), self._last_at, record.spent))
            self._named |= {lane: None for key in record.about if (lane := lane_of(key))}
            if record.aside:
                continue
            self._last_at = record.at or self._last_at
            self.folder = self.folder or record.about.get("folder", "")
            if title := record.about.get("title"):
                self.title = quotable(title, TITLE_CHARACTERS)
            prompt = next((item for item in record.items if item.kind == "user"), None)
            if prompt is not None and not self.title:
                self.title = quotable(prompt.text, TITLE_CHARACTERS)
            # An answer without an id counts once for each of its lines.
            if record.usage is not None:
                key = record.answer or record.id or f"line {number}"
                _, before, at, _ = self._answers.get(key, ("", CallUsage(), record.at or 0, 0))
                # Pieces of a streamed answer repeat its tokens.
                self._answers[key] = record.model, before.latest(record.usage), at, place
            if record.boundary is not None and not record.boundary.clears:
                self._compacted.append(place)


class Listing:
    """All sessions of some homes. Not thread-safe."""

    def __init__(self, homes: Sequence[Home]) -> None:
        self.homes = homes
        self.problems: list[str] = []
        """Sentences on folders that may not be read."""
        self._files_seen: dict[Path, SessionOverview] = {}
        self._overviews: list[SessionOverview] = []

    def look(self, seconds: float = 1.0) -> list[SessionOverview]:
        """Return the sessions, newest first, after reading what is new for at most some seconds.

        Sessions that were not reached have their name, size and time, and are read by later calls.
        """
        self.problems = []
        present: dict[Path, SessionOverview] = {}
        for home in self.homes:
            titles = _thread_titles(home) if home.reader is CodexReader else {}
            for path, size, changed in self._files(home):
                overview = self._files_seen.get(path) or present.get(path)
                if overview is None:
                    named = path.with_name(stem_of(path)).relative_to(home.folder)
                    id = "/".join([home.reader.program, *named.parts])
                    overview = SessionOverview(path, home.reader, id, changed, size)
                overview.notice(size, changed)
                if home.reader is CodexReader:
                    overview.head = head_of(path)
                    overview.named = quotable(titles.get(overview.head.thread, ""), TITLE_CHARACTERS)
                present[path] = overview
        self._files_seen = present
        self._overviews = sorted(_sessions(present.values()), key=lambda one: -one.changed)
        until = time.monotonic() + seconds
        # The newest come first: they are what a person looks for.
        unread = [one for one in self._overviews if not one.read or one.problem]
        for overview in unread:
            overview.follow(until)
            if time.monotonic() > until:
                break
        self._overviews = [one for one in self._overviews if not self._is_stub(one)]
        if unread:
            self._leave_out_copies()
        return list(self._overviews)

    def _is_stub(self, one: SessionOverview) -> bool:
        """Return whether a file has no word, and the id of another: Gemini CLI leaves one at each resume."""
        if one.reader is not GeminiReader or one.title or one.calls or one.problem or not one.read:
            return False
        same = one.path.parent.glob(f"session-*{glob.escape(one.name[-9:])}{one.path.suffix}")
        others = (self._files_seen[path] for path in same if path in self._files_seen)
        return any(other.size > one.size for other in others)

    def _leave_out_copies(self) -> None:
        first: dict[str, SessionOverview] = {}
        for overview in sorted(self._overviews, key=lambda one: (one.began, one.changed)):
            overview.leave_out_copies(first)

    def of(self, id: str) -> SessionOverview | None:
        """Return the session with an id, by comparing ids only: none of them is used as a path."""
        return next((overview for overview in self._overviews if overview.id == id), None)

    def find(self, name: str = "latest") -> SessionOverview:
        """Return the latest session, or the one whose id or name begins with a text; the text is not used as a path.

        A name of a segment or of a subagent finds its session, if none has that name itself.

        Raises:
            NotFoundError: there is none, or there are several.
        """
        sessions = self.look(0)
        # A whole id counts before the beginnings of others.
        matching = [one for one in sessions if name in (one.id, "latest")][:1] or [
            one for one in sessions if any(text.startswith(name) for text in (one.id, stem_of(one.path), one.name))
        ]
        matching = matching or [one for one in sessions if any(text.startswith(name) for text in one.names)]
        if len(matching) != 1:
            places = " or ".join(str(home.folder) for home in self.homes)
            problem = f"{len(matching)} sessions have a name that" if matching else "No session has a name that"
            none = f"There is no session of a coding agent in {places}."
            raise NotFoundError(f"{problem} begins with “{name[:60]}”." if sessions else none)
        if not matching[0].read:
            self.follow(matching[0])
        return matching[0]

    def follow(self, overview: SessionOverview) -> None:
        """Count a session to its present end."""
        overview.follow()
        self._leave_out_copies()

    def _files(self, home: Home) -> Iterator[tuple[Path, int, float]]:
        def denied(error: OSError) -> None:
            if not isinstance(error, FileNotFoundError):
                name = Path(error.filename or home.folder).name
                self.problems.append(f"{name} cannot be read: {os.strerror(error.errno or 0)}.")

        for folder, folders, names in os.walk(home.folder, onerror=denied):
            depth = len(Path(folder).relative_to(home.folder).parts)
            if depth == home.depth:
                folders.clear()  # may hold all files that an agent ever changed
            for name in (name for pattern in home.names for name in fnmatch.filter(names, pattern)):
                # Subagents belong to their session, unless one was given by hand.
                whole = not name.startswith(("agent-", "agent_")) or home.names == (glob.escape(name),)
                if not whole or home.depth not in (None, depth):
                    continue
                path = Path(folder, name)
                try:
                    yield from home.reader.sessions(path)
                except OSError as error:
                    denied(error)
                except FormatError as error:
                    self.problems.append(str(error))


def _sessions(files: Collection[SessionOverview]) -> list[SessionOverview]:
    """Return the first file of each session, with its segments and subagents."""
    of_codex = {one.path: one for one in files if one.head is not None}
    rollouts = Rollouts(one.head for one in of_codex.values() if one.head is not None)
    sessions = {id(one): one for one in files if one.head is None}
    heads = {head.path: head for head in rollouts.by_id.values()}
    for path in heads:
        of_codex[path].segments, of_codex[path].subagents = [], []
    for path, head in sorted(heads.items(), key=lambda entry: entry[0].name):
        one, first = of_codex[path], rollouts.session(head)
        session = of_codex[first.path]
        if one is session:
            parts, _ = rollouts.parts(head)
            after = [(parts[part.after], part.until) for part in parts if part.after is not None]
            # The last entry of a file counts: that with its largest number.
            foreign = sorted((until, part.path) for part, until in after if part.inherited)
            one.inherited = [
                (of_codex[path], until) for path, until in {path: until for until, path in foreign}.items()
            ]
            sessions[id(one)] = one
            continue
        (session.segments if first.thread == head.thread else session.subagents).append(one)
        session.size += one.size
        session.changed = max(session.changed, one.changed)
    return list(sessions.values())


def _thread_titles(home: Home) -> dict[str, str]:
    """Return the titles in Codex' own list of threads, which stands beside the folder of its sessions."""
    try:
        lines = [line for _, line in RecordFile(home.folder.parent / "session_index.jsonl").new_records()]
    except FormatError:  # older versions have none
        return {}
    return {
        as_text(line.get("id")): as_text(line.get("thread_name")) for line in lines if not isinstance(line, BadLine)
    }

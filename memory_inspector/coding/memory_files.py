"""Memory files of a coding agent's project: how they were loaded, what a session contradicted, what to add to them.

Files are looked for where the programs load them from (of six only in the project), and opened for reading only:
nothing is ever written to a user's folder. If a session's file does not show that one was loaded, its place is all that
says so.
"""

import os
import re
import stat
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise, takewhile
from pathlib import Path
from typing import Literal, get_args

from memory_core.planning.phrase_matching import Phrase
from memory_core.planning.running_summary import sentences
from memory_core.text import agreement_key, stems, words
from memory_inspector.coding.codex import CodexReader
from memory_inspector.coding.coding_session import Branch, Call, CodingSession
from memory_inspector.coding.context_parts import Count
from memory_inspector.coding.listing import homes
from memory_inspector.coding.prices import cost_of
from memory_inspector.coding.transcript import MEMORY_ATTACHMENTS, CallUsage, TranscriptItem, as_text
from memory_inspector.files.git_history import Repository, read_history
from memory_inspector.files.mirroring import TextVersion
from memory_inspector.files.notes import MAX_NOTE_BYTES, MAX_NOTES, note_text, note_versions, repository_above

CLAUDE_NAMES = ("CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md")
CODEX_NAMES = ("AGENTS.md", "AGENTS.override.md")  # the second is loaded in place of the first
NAMES = {
    "Codex": CODEX_NAMES,
    "Gemini CLI": ("GEMINI.md",),
    "Qwen Code": ("QWEN.md",),
    **dict.fromkeys(("pi", "OpenCode", "Copilot CLI", "Cline"), ("AGENTS.md",)),
}
"""Files that programs other than Claude Code load from the project, by the program."""
INDEX_LINES = 200
"""Lines that are loaded of `MEMORY.md`, which Claude Code writes itself."""
MAX_IMPORTS = 5
"""Depth to which Claude Code follows imports (`@docs/style.md`)."""
MIN_REPORTED = 20
"""Characters of a file's text that identify it in a session."""

_FENCED = re.compile(r"^```.*?(?:^```|\Z)", re.DOTALL | re.MULTILINE)
_IMPORT = re.compile(r"(?:^|\s)@(~?[\w./-]{1,400})")
# The beginning of a rule that is loaded with some files only.
_NAMES_PATHS = re.compile(r"---\n(?:(?!---).*\n)*?paths:")

Owner = Literal["project", "folder above", "user", "program"]
"""`folder above`: above the git repository, so other projects have it; `program`: written by the program."""
When = Literal["start", "reading"]
"""`start`: at the start and after each compaction; `reading`: with files in its folder, or with those it names."""


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """A file with instructions that a program loads by itself."""

    path: Path
    name: str
    """Path from the project's top; the whole path of files outside of it."""
    owner: Owner
    when: When
    text: str = ""
    """Present text; empty if it has a problem."""
    tokens: int = 0
    """Tokens of what is loaded."""
    versions: tuple[TextVersion, ...] = ()
    """Committed versions, oldest first, and the present text if it differs."""
    at_start: TextVersion | None = None
    """Version that was valid when the session began, by the times of commits; None if unknown."""
    items: tuple[TranscriptItem, ...] = ()
    """Items of the session that name the file, or have its text."""
    note: str = ""
    """Reason why its git history is missing or incomplete, for the middle of a sentence."""
    problem: str = ""
    """Sentence that says why it cannot be read."""

    @property
    def loaded(self) -> Literal["reported", "observed"]:
        """Return `reported` if the session's file shows that it was loaded, `observed` if only its place says so."""
        return "reported" if self.items else "observed"


def memory_files(session: CodingSession, count: Count) -> list[MemoryFile]:
    """Return the memory files that exist now: those of the project first, from the session's folder upwards.

    A large git history takes up to a minute, so keep the result.
    """
    # The first records have the folder that the session began in; Claude Code follows its shell into others.
    begun = (as_text(session.main.file.record(line).get("cwd")) for line in range(1, 21))
    named = Path(next(filter(None, begun), session.main.about.get("folder", "")))
    folder = named if named.is_absolute() and "\0" not in str(named) else None
    project = repository_above(folder)[0] if folder else session.path.parent
    files: dict[Path, MemoryFile] = {}
    for path, owner, when in _places(session, folder, project):
        within = project if owner == "project" else path.parent
        _look(path, owner, when, within, project, files, 0 if session.program in NAMES else MAX_IMPORTS)
    _add_history(files)
    injected = [(item, session.main.whole(item)) for item in session.items(session.main, "injected")]
    for real, file in files.items():
        begin = session.main.first_at or 0
        valid = (one for one in file.versions[::-1] if one.written and (one.written.at or begin + 1) <= begin)
        at_start = next(valid, None)
        texts = [one.text.strip() for one in {*file.versions[-1:], at_start} if one]
        items = tuple(
            item
            for item, text in injected
            if (item.tool in MEMORY_ATTACHMENTS and os.path.normpath(item.path) in (str(file.path), str(real)))
            or any(len(part) >= MIN_REPORTED and part in text for part in texts)
        )
        lines = file.text.splitlines(keepends=True)
        tokens = count("".join(lines[:INDEX_LINES] if file.owner == "program" else lines)) if lines else 0
        files[real] = replace(file, tokens=tokens, at_start=at_start, items=items)
    return sorted(files.values(), key=lambda file: get_args(Owner).index(file.owner))


def _places(session: CodingSession, folder: Path | None, project: Path) -> Iterator[tuple[Path, Owner, When]]:
    """Yield the paths that the program loads, if they exist. Of two that are one file, the first counts."""
    claude, codex, *_ = (home.folder.parent for home in homes())
    above = [folder, *folder.parents][:-1] if folder else []
    if names := NAMES.get(session.program, ())[::-1]:
        if session.program == CodexReader.program:
            yield from ((codex / name, "user", "start") for name in names)
        inside = (place for place in above if place.is_relative_to(project))
        yield from ((place / name, "project", "start") for place in inside for name in names)
        return
    yield from ((path, "user", "start") for path in (claude / "CLAUDE.md", *_rules(claude)))
    yield session.path.parent / "memory" / "MEMORY.md", "program", "start"
    for place in above:
        owner: Owner = "project" if place.is_relative_to(project) else "folder above"
        paths = [*(place / name for name in CLAUDE_NAMES), *_rules(place / ".claude")]
        yield from ((path, owner, "start") for path in paths)
    if folder is None:
        return
    worked_on = {item.path for item in session.items(session.main, "tool_call") if item.path}
    parents = {place for path in worked_on for place in Path(os.path.normpath(folder / path)).parents}
    for place in sorted(islice((place for place in parents if folder in place.parents), MAX_NOTES)):
        yield from ((place / name, "project", "reading") for name in CLAUDE_NAMES)
    for item in session.items(session.main, "injected"):
        path = Path(os.path.normpath(folder / item.path))
        if item.tool in MEMORY_ATTACHMENTS and path.suffix == ".md" and path.is_relative_to(project):
            yield path, "project", "reading"


def _rules(claude: Path) -> list[Path]:
    rules = (Path(where, name) for where, _, names in os.walk(claude / "rules") for name in names)
    return sorted(islice((path for path in rules if path.suffix == ".md"), MAX_NOTES))


def _look(
    path: Path, owner: Owner, when: When, within: Path, project: Path, files: dict[Path, MemoryFile], imports: int
) -> None:
    """Add the file at a path by its path without links, which may not lead out of a folder; and what it imports."""
    instead = path.name == CODEX_NAMES[0] and path.with_name(CODEX_NAMES[1])
    if len(files) >= MAX_NOTES or any(file.path == instead for file in files.values()):
        return
    try:
        real = path.resolve(strict=True)
        about = real.stat()
        inside = real.is_relative_to(within.resolve())
    except (OSError, ValueError, RuntimeError):  # there is none, or none that can be seen; a circle of links
        return
    text, problem = _text_of(real, about) if inside else (None, "is a link that leads out of its folder")
    if real in files or stat.S_ISDIR(about.st_mode) or not (text is None or text.strip()):
        return
    name = path.relative_to(project).as_posix() if path.is_relative_to(project) else str(path)
    if text is None:
        files[real] = MemoryFile(path, name, owner, when, problem=f"{name} {problem}.")
        return
    when = "reading" if _NAMES_PATHS.match(text) else when
    files[real] = MemoryFile(path, name, owner, when, text, versions=(*note_versions([], text, about.st_mtime),))
    for target in islice(_IMPORT.finditer(_FENCED.sub("", text)), MAX_NOTES if imports else 0):
        imported = Path(os.path.normpath(path.parent / os.path.expanduser(target[1].rstrip("."))))
        _look(imported, owner, when, within, project, files, imports - 1)


def _text_of(path: Path, about: os.stat_result) -> tuple[str | None, str]:
    """Return a file's text, or the reason why it has none."""
    if not stat.S_ISREG(about.st_mode):  # reading a pipe might never end
        return None, "is no ordinary file"
    try:
        with path.open("rb") as file:
            text = note_text(file.read(MAX_NOTE_BYTES + 1))
    except OSError as error:
        return None, f"cannot be read: {os.strerror(error.errno or 0)}"
    return text, f"is not UTF-8 text, or larger than {MAX_NOTE_BYTES // 1024} KB"


def _add_history(files: dict[Path, MemoryFile]) -> None:
    """Put the committed versions of files before the present ones."""
    by_top: dict[Path, tuple[Repository, dict[str, Path]]] = {}
    for path in (path for path, file in files.items() if file.versions):
        top, git = repository_above(path.parent)
        if git is not None:
            by_top.setdefault(top, (git, {}))[1][path.relative_to(top).as_posix()] = path
    for git, paths in by_top.values():
        history = read_history(git, paths, note_text)
        for name, path in paths.items():
            committed, (present,) = history.versions.get(name, []), files[path].versions
            changed = present.written.at if present.written else None
            versions = tuple(note_versions(committed, present.text, changed))
            files[path] = replace(files[path], versions=versions, note="; ".join(history.notes))


# -- what a session contradicted -------------------------------------------------------------------

MIN_SHARE = 0.6
"""Share of the shorter sentence's words that another has if both are about the same."""
MAX_WORDS = 60
"""Words of a sentence that is compared; longer ones are logs and tables."""
MAX_SENTENCES = 1_000
"""Sentences of a memory file that are compared, and of the user, newest first."""

# Words that say how strict a rule is, but not what it is about.
_LIGHT = frozenset(
    stems(
        "use always please must need want let make sure instead prefer keep most least below above may maximum limit "
        "only ever more anymore longer now just remember not no never"
    )
)
# Words before what is counted through: step 2 does not contradict step 3.
_NUMBERED = frozenset(
    stems("phase step stage task issue section part chapter ticket bug line figure table example option")
)
# What follows is forbidden, up to the end of the clause; "did not" tells what happened, and forbids nothing.
_NEGATION = re.compile(
    r"\b(?:never|(?:do|must|should|shall|may|can)(?: not|n['’]?t)|cannot|avoid|instead of|rather than|no longer)\b"
    r"|^\s*(?:no|not(?! only))\b",
    re.IGNORECASE,
)
# Sentences with such a beginning tell what is so, unless they have a word that asks for something.
_TELLS = re.compile(
    r"(?:i|i['’]m|it|its|he|she|they|we|you|the|this|that|these|those|there|here|an?|my|our|your|is|are|was)\b"
    r"(?!.*\b(?:must|should|shall|may|never|always|use|do not|don['’]?t|please|want|need|no longer|instead|avoid)\b)",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"[,;:.!?](?=\s|$)|[()—–]|\s-\s|\bbut\b")
_SOMETIMES = re.compile(r"\?\s*$|\b(?:if|when|whenever|unless|until|except|once|without)\b", re.IGNORECASE)
_WRAPPED = re.compile(r"(?<=[^\s.!?:])[ \t]*\n[ \t]*(?=[a-z(])")
_MARKER = re.compile(r"^[ \t]*(?:(?:[-*+>]|#+|\d+[.)])[ \t]+)+", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A sentence of a memory file, and one of the user's that contradicts it by its words."""

    file: MemoryFile
    sentence: str
    item: TranscriptItem
    """The user's message."""
    statement: str


def contradictions(files: Sequence[MemoryFile], session: CodingSession) -> list[Contradiction]:
    """Return the sentences of memory files that something the user said contradicts.

    Both are about the same, and a number of the same thing differs, or one asks for all that the other forbids.
    English alone is understood; of questions and conditions, only numbers are compared.
    """
    spoken: dict[str, tuple[_Rule, TranscriptItem]] = {}
    items = [item for step in session.main.steps.values() if not step.side for item in step.items]
    for item in reversed(items):
        if item.kind == "user" and len(spoken) < MAX_SENTENCES:
            rules = _rules_in(_MARKER.sub("", item.text)).items()
            spoken.update((text, (rule, item)) for text, rule in rules if not _TELLS.match(text))
    return [
        Contradiction(file, text, item, statement)
        for file in files
        for text, rule in _rules_in(_plain(file.text)).items()
        for statement, (other, item) in spoken.items()
        if rule.contradicts(other)
    ]


def _plain(text: str) -> str:
    """Return the text of a file without code and marks of lists and headings, each sentence in one line."""
    return _MARKER.sub("", _WRAPPED.sub(" ", _FENCED.sub("", text)))


def _rules_in(text: str) -> dict[str, "_Rule"]:
    short = (one for one in dict.fromkeys(sentences(text)) if one.count(" ") < MAX_WORDS)
    return {one: _Rule(one) for one in islice(short, MAX_SENTENCES)}


class _Rule:
    """A sentence by its stems: what it asks for and forbids, and its numbers by the words beside them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.asked: set[str] = set()
        self.forbidden: set[str] = set()
        self.numbers: dict[str, set[str]] = defaultdict(set)
        for clause in _CLAUSE.split(self.text):
            asked, *forbidden = _NEGATION.split(clause, maxsplit=1)
            self.asked.update(stems(asked))
            self.forbidden.update(*map(stems, forbidden))
            for one, other in pairwise(words(clause)):
                for stem in set(stems(one)) - _NUMBERED - _LIGHT:
                    self.numbers[stem].update(number for number, _ in agreement_key(other)[0])
                for stem in set(stems(other)) - _LIGHT:
                    self.numbers[stem].update(number for number, _ in agreement_key(one)[0])
        self.content = {stem for stem in self.asked | self.forbidden if not any(map(str.isdigit, stem))}
        self.about = self.content - _LIGHT

    def contradicts(self, other: "_Rule") -> bool:
        shared = self.about & other.about
        if not shared or len(shared) < MIN_SHARE * min(len(self.about), len(other.about)):
            return False
        if len(self.content & other.content) < 2:
            return False
        # Where each has a word that the other lacks, their numbers may be of two things.
        nested = self.about <= other.about or other.about <= self.about
        numbers = [(self.numbers[stem], other.numbers[stem]) for stem in shared] if nested else []
        differ = any(mine and theirs and mine.isdisjoint(theirs) for mine, theirs in numbers)
        return differ or self._forbids(other) or other._forbids(self)

    def _forbids(self, other: "_Rule") -> bool:
        forbidden = self.forbidden - _LIGHT
        sometimes = _SOMETIMES.search(self.text) or _SOMETIMES.search(other.text)
        return bool(forbidden) and not sometimes and forbidden <= other.asked - other.forbidden


# -- what to add -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A line that keeps a statement in every prompt, for copying: nothing writes it."""

    line: str
    name: str
    """Name of the project's memory file to add it to, or of the one to create."""
    tokens: int
    """Tokens in every call."""
    calls: int
    """Calls of this session since the statement was said."""
    dollars: float | None
    """Cost of the line in these calls, read from the cache; None if a price is unknown, or there are no calls."""
    already: tuple[MemoryFile, str, TextVersion] | None
    """File that says it already, its sentence, and the first version since which it does."""


def suggestion(
    statement: str, files: Sequence[MemoryFile], session: CodingSession, branch: Branch, count: Count
) -> Suggestion:
    """Return the line to add for a statement: its own words, and what they cost in the calls since it was said.

    The file of a project that has none is the program's usual one.
    """
    wanted = Phrase.of(statement)
    line = f"- {re.sub('^[-*+] ', '', wanted.text)}"
    tokens, calls = count(f"{line}\n"), _calls_since(wanted, session, branch)
    read = {model: CallUsage(cache_read=n * tokens) for model, n in Counter(call.step.model for call in calls).items()}
    names = NAMES.get(session.program, CLAUDE_NAMES[:2])
    fitting = (file for file in files if file.owner == "project" and file.when == "start" and not file.problem)
    name = next((file.name for file in fitting if file.name.endswith(names)), names[0])
    already = next(filter(None, (_already(wanted, file) for file in files)), None)
    return Suggestion(line, name, tokens, len(calls), cost_of(read), already)


def _calls_since(wanted: Phrase, session: CodingSession, branch: Branch) -> list[Call]:
    """Return the calls after the user first said it; if only others did, after them."""
    places = [(window, place) for window in branch.windows for place in range(len(window.items))]
    places.sort(key=lambda at: at[0].items[at[1]].kind != "user")
    for window, place in places:
        if wanted.verbatim_in(session.main.whole(window.items[place])):
            later = (call for other in branch.windows[window.number :] for call in other.calls)
            return [call for call in later if call.window is not window or call.sent > place]
    return []


def _already(wanted: Phrase, file: MemoryFile) -> tuple[MemoryFile, str, TextVersion] | None:
    quote = _quote(wanted, file.text)
    # Most versions have the same sentence, which is found faster than its stems.
    saying = takewhile(
        lambda version: quote in sentences(_plain(version.text)) or _quote(wanted, version.text), file.versions[::-1]
    )
    return (file, quote, list(saying)[-1]) if quote else None


def _quote(wanted: Phrase, text: str) -> str:
    """Return the sentence of a text that has the words, or all stems, without contradicting them; else nothing."""
    plain, rule = _plain(text), _Rule(wanted.text)
    exact = (one for one in sentences(plain) if wanted.verbatim_in(one)) if wanted.verbatim_in(plain) else ()
    agreeing = (one for one in exact if not rule.contradicts(_Rule(one)))
    quote = next(agreeing, "") or (wanted.reworded_in(plain) if len(wanted.stems) > 1 else "")
    return "" if rule.contradicts(_Rule(quote)) else quote

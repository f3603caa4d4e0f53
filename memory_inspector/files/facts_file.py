"""Import and export facts as CSV or JSON.

A file holds text, state, pinned, category and topics of each fact, and a program's key and metadata. Turns, date and
tokens are informative and ignored on import, as they mean nothing in another session. Lines count from 1.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PureWindowsPath
from typing import Any

from memory_core.errors import FormatError, MessageError, Place, place_words, problem
from memory_core.limits import Budget
from memory_core.messages import storable
from memory_core.planning.curation import ChangeSet, FactDraft, each_topic
from memory_core.planning.fact_merging import STATES, Fact, metadata_text, same_words
from memory_core.text import shortened
from memory_inspector.files.located_json import Located, read_text, read_values
from memory_inspector.files.stores.memory_stores import facts_in, facts_of
from memory_inspector.files.stores.sqlite_file import SQLITE_MAGIC

MAX_FACTS = 10_000
"""Maximum facts in a file: more than a model should be given, few enough for one transaction."""
MAX_CHARACTERS = 2_000
"""Maximum characters of a fact; a longer text is a document."""

COLUMNS = ("text", "state", "pinned", "category", "topics", "turns", "created", "tokens")
PROGRAMS_COLUMNS = ("key", "metadata")
"""Columns written only if a fact has them; the metadata cell holds JSON."""

TOPICS_APART = "; "
"""Separator of topics in a cell."""
MAX_TOPICS = 20
"""Maximum topics of a fact; further ones are dropped."""

_UNSEEN = r"\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
_STARTS_FORMULA = rf"(?:[\s{_UNSEEN}]*[=+\-@＝＋－＠]|[\t\r\n])"
"""Start of a formula; spreadsheets skip leading white space and unseen signs, and some accept full-width signs."""
_FORMULA = re.compile(f"'*{_STARTS_FORMULA}")
"""Matches cells that a spreadsheet would run as a formula, escaped or not; an apostrophe in front makes them text."""
_SHIELDED = re.compile(f"'+{_STARTS_FORMULA}")
_TEXTS = ("text", "memory", "fact")
"""Keys under which a fact's text stands: ours, that of Mem0 and Agno, and Zep's."""
_LISTS = ("facts", "results", "memories")
"""Keys under which an object holds its facts: ours, and those of Mem0's answers."""
_SEPARATOR = re.compile(r"\s*sep=([,;\t|])[ ]*\r?\n", re.IGNORECASE)
"""First line with which a CSV tells a spreadsheet program its separator."""
_TRUE, _FALSE = ("true", "yes", "1", "x"), ("false", "no", "0", "")


@dataclass(frozen=True, slots=True)
class Problem:
    """A fact of a file that cannot be imported."""

    place: Place
    what: str
    """Reason, to follow "line 4:", without a full stop."""


@dataclass(frozen=True, slots=True)
class FactsFile:
    """Validated content of a facts file."""

    filename: str
    facts: tuple[tuple[Place, FactDraft], ...]
    """Each fact with its place in the file."""
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A fact of a file that exists already, by text or key."""

    place: Place
    text: str
    fact: Fact | None
    """The existing fact, in any state; None if the file holds the same fact twice."""
    of_place: Place | None
    """First place of the same fact in the file; None if `fact` is given."""


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """Effect of importing a file."""

    change: ChangeSet | None
    """Change set to apply; None if there is nothing to import."""
    importable: int
    total: int
    duplicates: tuple[Duplicate, ...]
    problems: tuple[Problem, ...]
    sentence: str


# -- export --------------------------------------------------------------------------------------


def facts_to_csv(facts: Sequence[Fact], turns: Mapping[tuple[str, int], int]) -> str:
    """Return facts as CSV. `turns`: turn of each source message that still exists, by session and sequence number.

    An apostrophe is prefixed to texts that a spreadsheet would run as formulas. A byte order mark comes first, without
    which Excel takes UTF-8 for the code page of its system.
    """
    out = io.StringIO()
    out.write("\ufeff")
    writer = csv.writer(out)
    # Most facts have neither, and empty columns confuse.
    columns = (*COLUMNS, *(name for name in PROGRAMS_COLUMNS if any(getattr(fact, name) for fact in facts)))
    writer.writerow(columns)
    for fact in facts:
        row = _row(fact, turns)
        turns_of, topics = " ".join(map(str, row["turns"])), TOPICS_APART.join(fact.topics)
        cells = {**row, "pinned": "yes" if fact.pinned else "no", "topics": topics, "turns": turns_of}
        cells |= {"key": fact.key or "", "metadata": metadata_text(fact.metadata) if fact.metadata else ""}
        writer.writerow([_harmless(str(cells[column])) for column in columns])
    return out.getvalue()


def facts_to_json(facts: Sequence[Fact], turns: Mapping[tuple[str, int], int]) -> str:
    """Return facts as a JSON object with a list under `facts`."""
    return json.dumps({"facts": [_row(fact, turns) for fact in facts]}, ensure_ascii=False, indent=2) + "\n"


def _row(fact: Fact, turns: Mapping[tuple[str, int], int]) -> dict[str, Any]:
    return {
        "text": fact.text,
        "state": fact.state,
        "pinned": fact.pinned,
        "category": fact.category,
        "topics": list(fact.topics),
        "turns": sorted({turns[source] for source in fact.sources if source in turns}),
        "created": datetime.fromtimestamp(fact.created_at, UTC).isoformat(timespec="seconds"),
        "tokens": fact.tokens,
        **({"key": fact.key} if fact.key is not None else {}),
        **({"metadata": fact.metadata} if fact.metadata else {}),
    }


def _harmless(cell: str) -> str:
    return f"'{cell}" if _FORMULA.match(cell) else cell


# -- import --------------------------------------------------------------------------------------


def read_facts_file(data: bytes | str, *, filename: str) -> FactsFile:
    """Parse facts from CSV or JSON, detected by content.

    CSV needs a column `text`; JSON is a list of facts, or an object with `facts`, and a fact is a text or an object
    with `text`. Memories as Mem0, Agno and Zep give them are facts, too, and stores of `PROGRAMS` are accepted. Invalid
    facts are listed as problems.

    Raises:
        FormatError: The file as a whole is not a list of facts.
    """
    # Spreadsheets are zip archives, and would be read as one unreadable line.
    if isinstance(data, bytes) and data.startswith(b"PK\x03\x04"):
        raise problem(filename, "is not a list of facts: it is a zip archive or a spreadsheet. Save it as CSV.")
    rows = _rows_of(data, filename)
    facts: list[tuple[Place, FactDraft]] = []
    problems: list[Problem] = []
    for place, row in rows:
        if len(facts) + len(problems) == MAX_FACTS:
            raise problem(filename, f"holds more than {MAX_FACTS:,} facts, the most that can be imported at once.")
        read = row if isinstance(row, Problem) else _fact(place, row)
        if isinstance(read, Problem):
            problems.append(read)
        else:
            facts.append((place, read))
    if not facts and not problems:
        raise problem(filename, "holds no facts.")
    return FactsFile(PureWindowsPath(filename).name, tuple(facts), tuple(problems))


def _rows_of(data: bytes | str, filename: str) -> Iterable[tuple[Place, Any]]:
    if isinstance(data, bytes) and data.startswith(SQLITE_MAGIC):
        return facts_of(data, filename=filename)
    text = read_text(data, filename=filename)
    is_json = text.lstrip().startswith(("[", "{"))
    # Otherwise broken JSON would be read as CSV, with an error about its heading.
    if not is_json and filename.lower().endswith(".json"):
        raise problem(filename, "is not a list of facts: it starts with neither [ nor {.")
    return _json_rows(text, filename) if is_json else _csv_rows(text, filename)


def _json_rows(text: str, filename: str) -> Iterable[tuple[Place, Any]]:
    # First, as each line of a store would otherwise count as a fact without a text.
    if (facts := facts_in(text, filename=filename)) is not None:
        return facts
    values = read_values(text, filename=filename)
    if len(values) > 1:  # one fact per line
        return [(value.place, value.value) for value in values]
    rows: Located | None = values[0]
    # An object with a text is a single fact, any other one a file that holds a list.
    if isinstance(values[0].value, dict) and not any(key in values[0].value for key in _TEXTS):
        rows = values[0].member(next((key for key in _LISTS if key in values[0].value), _LISTS[0]))
        if rows is None or not isinstance(rows.value, list):
            raise problem(filename, 'is not a list of facts: the object has no list called "facts".')
    assert rows is not None
    if isinstance(rows.value, dict):
        return [(rows.place, rows.value)]
    return ((element.place, element.value) for element in rows.elements())


def _csv_rows(text: str, filename: str) -> Iterable[tuple[int, dict[str, str] | Problem]]:
    stated = _SEPARATOR.match(text)
    first = text[stated.end() if stated else 0 :].lstrip().partition("\n")[0]
    # Spreadsheet programs use the separator of their locale.
    delimiter = stated[1] if stated else max(",;\t", key=first.count)
    budget = Budget(filename)

    def lines() -> Iterator[str]:
        for line in io.StringIO(text):
            # Counted while the reader asks for lines: empty lines and cells cost time too.
            budget.take(items=1 + line.count(delimiter))
            yield line

    reader = csv.reader(lines(), delimiter=delimiter, strict=True)
    line, header = 1, None
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise problem(filename, f"this is not valid CSV ({error}).", place=line) from error
        if row is None:
            break
        if any(cell.strip() for cell in row) and not (stated and line == 1):
            if header is None:
                header = _header(row, filename)
            # An unquoted separator in a text: its cells cannot be assigned to columns.
            elif len(row) > len(header):
                yield line, Problem(line, f"{len(row)} columns, the heading has {len(header)}")
            else:
                yield line, {name: _plain(cell) for name, cell in zip(header, row, strict=False)}
        # A quoted cell may span lines, so a row is named by the line on which it begins.
        line = reader.line_num + 1


def _header(row: Sequence[str], filename: str) -> list[str]:
    names = [cell.strip().lower() for cell in row]
    if "text" not in names:
        raise problem(filename, 'is not a list of facts: no column of its first line is called "text".')
    return names


def _plain(cell: str) -> str:
    return cell[1:] if _SHIELDED.match(cell) else cell


def _fact(place: Place, row: Any) -> FactDraft | Problem:
    if isinstance(row, str):
        row = {"text": row}
    if isinstance(row, FormatError):
        return Problem(place, "not valid JSON")
    if not isinstance(row, dict):
        return Problem(place, "this is neither a text nor an object with a text")
    # Cells that a CSV row lacks are empty strings, which mean the default like a missing field of JSON.
    text = next((row[key] for key in _TEXTS if row.get(key)), "")
    state, category = row.get("state") or "active", row.get("category") or "other"
    if not all(isinstance(value, str) for value in (text, state, category)):
        return Problem(place, "text, state and category must be texts")
    text = " ".join(storable(text)[0].split())
    state, pinned = state.strip().lower(), str(row.get("pinned") or "").strip().lower()
    if not text:
        return Problem(place, "no text")
    if len(text) > MAX_CHARACTERS:
        return Problem(place, f"{len(text):,} characters, and a fact has at most {MAX_CHARACTERS:,}")
    if state not in STATES:
        return Problem(
            place, f'state "{shortened(state, 24)}" is not known, use {", ".join(STATES[:-1])} or {STATES[-1]}'
        )
    if pinned not in (*_TRUE, *_FALSE):
        return Problem(place, f'pinned is "{shortened(pinned, 24)}", use yes or no')
    topics = _topics(row.get("topics") or ())
    if topics is None:
        return Problem(place, "topics must be texts")
    key, metadata = row.get("key") or None, _metadata(row.get("metadata") or {})
    # A changed key would no longer be the one by which its program finds the fact.
    if not isinstance(key, str | None) or (key and storable(key)[0] != key):
        return Problem(place, "key must be a text")
    if metadata is None:
        return Problem(place, "metadata must be a JSON object")
    category = " ".join(storable(category)[0].split()) or "other"
    return FactDraft(
        text, state=state, pinned=pinned in _TRUE, category=category, topics=topics, key=key, metadata=metadata
    )


def _metadata(value: Any) -> Mapping[str, Any] | None:
    """Return a fact's metadata from an object or a cell; None if invalid."""
    try:
        read = json.loads(value) if isinstance(value, str) else value
        metadata_text(read)
    except (ValueError, RecursionError, MessageError):
        return None
    return dict(read)


def _topics(value: Any) -> tuple[str, ...] | None:
    """Return a fact's topics from a list or a cell; None if invalid."""
    listed = value.split(TOPICS_APART.strip()) if isinstance(value, str) else value
    if not isinstance(listed, list | tuple) or not all(isinstance(topic, str) for topic in listed):
        return None
    return each_topic([storable(topic)[0] for topic in listed])[:MAX_TOPICS]


def plan_import(file: FactsFile, existing: Sequence[Fact]) -> ImportPlan:
    """Plan the import of a file. Facts that `existing` contains, in any state, are skipped."""
    by_words = {_same(fact.text, fact.key): fact for fact in existing}
    places: dict[tuple[str, str], Place] = {}
    new: list[FactDraft] = []
    duplicates: list[Duplicate] = []
    for place, fact in file.facts:
        key = _same(fact.text, fact.key)
        # Twice in the file, or existing in any state: an import does not bring back a rejected fact.
        if key in by_words or key in places:
            duplicates.append(Duplicate(place, fact.text, by_words.get(key), places.get(key)))
            continue
        places[key] = place
        new.append(fact)
    total = len(file.facts) + len(file.problems)
    return ImportPlan(
        change=ChangeSet("import", tuple(new)) if new else None,
        importable=len(new),
        total=total,
        duplicates=tuple(duplicates),
        problems=file.problems,
        sentence=_sentence(file, len(new), total, duplicates),
    )


def _same(text: str, key: str | None) -> tuple[str, str]:
    """Return the identity of a fact: a program's key, or else its text."""
    return ("words", same_words(text)) if key is None else ("key", key)


def _sentence(file: FactsFile, importable: int, total: int, duplicates: Sequence[Duplicate]) -> str:
    clauses = []
    if file.problems:
        first, more = file.problems[0], len(file.problems) - 1
        clauses.append(f"{file.filename}, {place_words(first.place)}: {first.what}.")
        if more:
            clauses.append(f"{more:,} more {'line has' if more == 1 else 'lines have'} a problem.")
    repeats = [one.of_place for one in duplicates if one.of_place is not None]
    if existing := len(duplicates) - len(repeats):
        clauses.append(f"{existing:,} {'is' if existing == 1 else 'are'} there already.")
    if len(repeats) == 1:
        clauses.append(f"1 repeats {place_words(repeats[0])} of the file.")
    elif repeats:
        clauses.append(f"{len(repeats):,} repeat others of the file.")
    if importable == total:
        clauses.append(f"{total:,} facts can be imported." if total > 1 else "1 fact can be imported.")
    else:
        clauses.append(f"{importable:,} of {total:,} can be imported.")
    return " ".join(clauses)

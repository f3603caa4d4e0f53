"""Evidence recall: does the prompt that memory builds hold the words that answer the question?

    python benchmarks/recall.py FILE [FILE ...] [--audit FILE] [--json FILE]
    python benchmarks/recall.py --paraphrases

Files are LoCoMo's (a list of conversations with `qa`) or BEAM's (one conversation with
`probing_questions`). Each conversation is replayed through the public API into a fresh engine, the
recipe "vector" at its defaults, and every question is asked by `build_context` under each token limit.
What counts is the whole rendered prompt, markup included; over the limit by one token scores nothing.
No model, no network, and no look at a question before it is asked.

ER-4 is the mean over the four limits. Category 5 of LoCoMo (questions about what was never said that
way) stands apart, as a guard. What `--json` holds already is not measured again.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from recall_data import (
    BEAM,
    LOCOMO,
    PARAPHRASES,
    Conversation,
    DataError,
    read_audit,
    read_conversations,
    read_paraphrases,
)
from recall_measure import IN_OTHER_WORDS, Result, digest_of_a_second_run, measure, measure_long, ranks
from recall_report import print_ablations, print_conditions, print_long, print_ranks, print_rows, print_suite

from memory_core.models.protocols import Embedder

BUDGETS = (1_000, 2_000, 4_000, 8_000)
DEFAULT, STATIC = "default", "static embedder"


class Book:
    """All results, by row and conversation, kept in a file as they come."""

    def __init__(self, file: Path | None, options: dict[str, Any]) -> None:
        """Go on from the file, if there is one.

        Raises:
            DataError: the file is not one of these, was measured with other options, or cannot be written.
        """
        self._file = file
        self._data: dict[str, Any] = {"options": options, "rows": {}, "again": {}, "ranks": {}}
        if file is None:
            return
        if not file.exists():
            self.save()
            return
        try:
            kept = json.loads(file.read_text(encoding="utf-8"))
            self._data = {part: kept[part] for part in self._data}
            before = {name: self._data["options"][name] for name in options}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{file} holds no results of this benchmark: name another file.") from error
        if before != options:
            raise DataError(f"{file} was measured with other options ({_told(before)}): name another file.")

    @property
    def rows(self) -> dict[str, dict[str, Any]]:
        """Results as JSON, by row and conversation."""
        found: dict[str, dict[str, Any]] = self._data["rows"]
        return found

    def keep(self, row: str, result: Result) -> None:
        self.rows.setdefault(row, {})[result.name] = asdict(result)
        self.save()

    def results(self, row: str, conversations: Iterable[Conversation]) -> list[Result]:
        return [Result.stored(self.rows[row][conversation.name]) for conversation in conversations]

    def once(self, what: str, key: str, make: Callable[[], Any]) -> Any:
        """What is kept under a key, made if there is nothing."""
        if key not in self._data[what]:
            self._data[what][key] = make()
            self.save()
        return self._data[what][key]

    def save(self) -> None:
        if self._file is None:
            return
        new = self._file.with_name(f"{self._file.name}.new")
        try:
            new.write_text(json.dumps(self._data), encoding="utf-8")
            new.replace(self._file)  # a run that is stopped here leaves the file whole
        except OSError as error:
            raise DataError(f"{self._file} cannot be written: {error.strerror}.") from error


def _told(options: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in options.items())


LONG_BUDGET = 4_000
"""Token limit among many messages."""


def static_embedder() -> Embedder:
    from memory_core.models.static_embedding import WordLlamaEmbedder

    return WordLlamaEmbedder()


def run(options: argparse.Namespace, folder: Path) -> None:
    """Measure what is asked for, and print it."""
    audit = read_audit(options.audit) if options.audit else {}
    conversations = [each.sampled(options.sample) for each in read_conversations(options.files, audit)]
    talks = read_paraphrases(options.paraphrases) if options.paraphrases else []
    given = {"budgets": list(options.budgets), "inline": options.inline, "sample": options.sample}
    book = Book(options.json, {**given, "audit": bool(audit)})

    kinds: list[tuple[str, Callable[[], Embedder] | None]] = [(DEFAULT, None)]
    if options.static:
        kinds.append((STATIC, static_embedder))
    for row, embedder in kinds if conversations else ():
        for each in conversations:
            if each.name not in book.rows.get(row, {}):
                result = measure(each, options.budgets, folder, inline=options.inline, embedder=embedder)
                book.keep(row, result)
    _measure_rows(options, conversations, book, folder)

    found = {
        row: [
            rank
            for talk in talks
            for rank in book.once(
                "ranks",
                f"{talk.name}, {row}",
                lambda talk=talk, settings=settings: ranks(talk, folder, inline=options.inline, settings=settings),
            )
        ]
        for row, settings in IN_OTHER_WORDS.items()
    }
    again = {
        row: _same_again(row, embedder, conversations, options, book, folder)
        for row, embedder in (kinds if conversations else ())
    }
    print("\r" + " " * 76, end="\r", file=sys.stderr)
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")

    for suite in (LOCOMO, BEAM):
        several = [each for each in conversations if each.suite == suite]
        if not several:
            continue
        for row, _ in kinds:
            results = book.results(row, several)
            name = suite if row == DEFAULT else f"{suite}, {row}"
            print_suite(suite, results, options.budgets, with_audit=bool(audit), title=name)
            print_conditions(results, options.budgets, identical=again[row], static=row == STATIC)
        if options.compare:
            shown = [DEFAULT, *([STATIC] if options.static else []), *rival_rows()]
            print_rows(suite, {row: book.results(row, several) for row in shown}, options.budgets)
        if options.ablations:
            rows = {row: book.results(row, several) for row in ablation_rows()}
            print_ablations(suite, book.results(DEFAULT, several), rows, options.budgets)
    if talks:
        print_ranks(found)
    if options.long and conversations:
        print_long(measure_long(conversations, options.long, folder, static_embedder, LONG_BUDGET))


def _measure_rows(options: argparse.Namespace, conversations: Sequence[Conversation], book: Book, folder: Path) -> None:
    """Rivals and ablations, as far as the book has not got them."""
    if not (options.compare or options.ablations):
        return
    import recall_rivals

    for each in conversations:
        if options.compare:
            for row, result in recall_rivals.rivals(each, options.budgets, book.rows, inline=options.inline):
                book.keep(row, result)
        if options.ablations:
            for row, result in recall_rivals.ablations(each, options.budgets, folder, book.rows, inline=options.inline):
                book.keep(row, result)


def rival_rows() -> list[str]:
    import recall_rivals

    return [*recall_rivals.RECIPE_ROWS, *recall_rivals.REFERENCES]


def ablation_rows() -> list[str]:
    import recall_rivals

    return [*recall_rivals.ABLATIONS, *recall_rivals.ANEW]


def _same_again(
    row: str,
    embedder: Callable[[], Embedder] | None,
    conversations: Sequence[Conversation],
    options: argparse.Namespace,
    book: Book,
    folder: Path,
) -> bool:
    """Does the shortest conversation, put into another fresh engine, give the same prompts?"""
    shortest = min(conversations, key=lambda each: len(each.lines))
    budget = options.budgets[len(options.budgets) // 2]
    digest = book.once(
        "again",
        f"{row}/{shortest.name}",
        lambda: digest_of_a_second_run(shortest, budget, folder, inline=options.inline, embedder=embedder),
    )
    return bool(digest == book.rows[row][shortest.name]["digests"][str(budget)])


def budgets(text: str) -> tuple[int, ...]:
    """`1000,2000` as numbers."""
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or min(found) < 1 or len(set(found)) != len(found):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of token limits such as 1000,2000")
    return found


def count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of questions from 1")
    return int(text)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("files", nargs="*", type=Path, metavar="FILE", help="LoCoMo and BEAM files")
    made.add_argument(
        "--paraphrases",
        nargs="?",
        type=Path,
        const=PARAPHRASES,
        metavar="FILE",
        help="our own set as well (or another of its shape): R@1, R@5 and MRR of memory.search; write it after FILE",
    )
    made.add_argument(
        "--audit", type=Path, metavar="FILE", help="corrections of LoCoMo's evidence: both golds are told"
    )
    made.add_argument(
        "--budgets", type=budgets, default=BUDGETS, metavar="A,B", help="token limits: 1000,2000,4000,8000"
    )
    made.add_argument("--inline", action="store_true", help="speaker and date inside the text instead of as metadata")
    made.add_argument(
        "--sample", type=count, metavar="N", help="ask N questions of each conversation, evenly spread (default: all)"
    )
    made.add_argument(
        "--compare", action="store_true", help="a row for each recipe without a model, and for llama-index-core"
    )
    made.add_argument("--ablations", action="store_true", help="a row for each signal switched off")
    made.add_argument("--static", action="store_true", help="the same with the static embedder")
    made.add_argument("--long", type=int, metavar="N", help="how long a prompt takes among N stored messages (static)")
    made.add_argument("--json", type=Path, metavar="FILE", help="keep all numbers there; a stopped run goes on from it")
    return made


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    missing = "There is nothing to measure: name LoCoMo or BEAM files, or give --paraphrases."
    in_a_folder(run, options, None if options.files or options.paraphrases else missing)


def in_a_folder(
    work: Callable[[argparse.Namespace, Path], None], options: argparse.Namespace, problem: str | None
) -> None:
    """Run a benchmark with a temporary folder; a problem of its options or its data ends it with status 2."""
    try:
        if problem is not None:
            raise DataError(problem)
        with tempfile.TemporaryDirectory() as folder:
            work(options, Path(folder))
    except DataError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from error


if __name__ == "__main__":
    main()

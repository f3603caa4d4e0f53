"""Command lines of `memory-inspector check`, `bisect` and `value`, for terminals and CI servers.

Exit status: 0 all probes held, or the cause was found; 1 a probe failed; 2 usage error.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from memory_core.errors import FormatError
from memory_core.models.protocols import ChatModel
from memory_core.services import Services
from memory_core.text import printable
from memory_inspector.commands.command_line import run
from memory_inspector.lab.bisecting import first_bad_turn, responsible_changes
from memory_inspector.lab.checking import (
    Checked,
    PreparedCheck,
    check_variant,
    junit,
    prepare,
    read_opened,
    read_probes_file,
    read_recorded,
    read_variant,
)
from memory_inspector.lab.failure_patterns import cases_of, cause, compare, explain_failure, failure_page
from memory_inspector.lab.playing import Player
from memory_inspector.lab.probes import Probe, find_probe_files, is_probe_file, read_questions
from memory_inspector.lab.value import value_of
from memory_inspector.lab.variants import Variant
from memory_inspector.wording.check_report import FileReport, html_report, markdown_comment, totals

_FILES = "a session's bundle, or messages in any format that can be imported"

MAX_CAUSES = 5
"""Maximum number of failed probes per file whose cause is searched for; each search replays the conversation."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `check`, `bisect` or `value`; return the exit status."""
    parser = argparse.ArgumentParser(prog="memory-inspector")
    add_commands(parser.add_subparsers(required=True, metavar="command"))
    return run(parser, arguments)


def _check(options: argparse.Namespace) -> int:
    root = Path(options.conversation)
    paths = find_probe_files(root)
    services = Services()
    player = Player(services)
    runs: list[tuple[Path, PreparedCheck, Checked]] = []
    for path in paths:
        prepared = prepare(path, options.config, options.probes or (), services=services)
        checked = check_variant(player, prepared.script, prepared.variant, prepared.probes)
        runs.append((path, prepared, checked))
        print(checked.table())
    if options.patterns:
        cases = [
            case for path, _, checked in runs for case in cases_of(checked.memory, checked.verdicts, session=path.name)
        ]
        print(compare(cases).table())
    # After the tables, so that the outcome is seen even if a file cannot be written.
    if options.junit is not None:
        _write(options.junit, junit([checked for _, _, checked in runs]))
    if options.markdown is not None or options.html is not None:
        names = [path.relative_to(root) if root.is_dir() else Path(path.name) for path in paths]
        before = [_before(options.before, name, services) for name in names]
        reports = [_report(player, run, earlier) for run, earlier in zip(runs, before, strict=True)]
        if options.markdown is not None:
            _write(options.markdown, markdown_comment(reports, page_url=options.page_url))
        if options.html is not None:
            _write(options.html, _html(reports))
    return 0 if all(checked.passed for _, _, checked in runs) else 1


def _before(place: str | None, name: Path, services: Services) -> Variant | None:
    """Read the configuration to compare with: a file, or a folder's probe file of this name; None if missing."""
    if place is None:
        return None
    other = Path(place)
    if other.is_dir():
        # A probe file that is new has nothing to be compared with.
        return prepare(other / name, services=services).variant if (other / name).is_file() else None
    if is_probe_file(other):
        return prepare(other, services=services).variant
    return read_variant(other)


def _report(player: Player, run: tuple[Path, PreparedCheck, Checked], before: Variant | None) -> FileReport:
    path, prepared, checked = run
    earlier = None
    if before is not None:
        earlier = check_variant(player, prepared.script, before, prepared.probes)
    failures = [
        (
            explain_failure(checked.memory, verdict, player=player),
            cause(player, prepared.script, before, checked, verdict.probe) if number < MAX_CAUSES else "",
        )
        for number, verdict in enumerate(verdict for verdict in checked.verdicts if not verdict.held)
    ]
    return FileReport(path.name, checked, tuple(failures), totals(earlier) if earlier is not None else None)


def _html(reports: Sequence[FileReport]) -> str:
    return html_report(
        [
            (report.name, str(failure), failure_page(report.checked.memory, failure.verdict).to_html())
            for report in reports
            for failure, _ in report.failures
        ]
    )


def _bisect(options: argparse.Namespace) -> int:
    if (options.good is None) != (options.bad is None):
        raise FormatError("Give both --good and --bad, or neither to bisect over the turns of a session.")
    probe = _one(options)
    if options.good is None:
        result = first_bad_turn(read_opened(options.conversation), probe, good=options.held, bad=options.failed)
        print(f"Turn {result.turn}: {printable(result.why)}")
        if result.event is not None:
            kind, actor = result.event.kind.replace("_", " "), printable(result.event.actor)
            print(f"Event {result.event.position}, {kind}, by {actor}.")
        print(f"{result.looks} prompts examined.")
        return 0
    services = Services()
    recorded = read_recorded(options.conversation, services)
    good, bad = read_variant(options.good), read_variant(options.bad)
    cause = responsible_changes(Player(services), recorded.script, good, bad, probe)
    for change in cause.changes:
        print(printable(change.words))
    print(printable(cause.verdict.why))
    print(f"Played {cause.plays} times.")
    return 0


def _one(options: argparse.Namespace) -> Probe:
    probes, number = read_probes_file(options.probes), int(options.number)
    if not 1 <= number <= len(probes):
        raise FormatError(f"{Path(options.probes).name} has {len(probes)} probes: there is no number {number}.")
    return probes[number - 1]


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise FormatError(f"{Path(path).name} cannot be written: {error.strerror or error}.") from error


def add_commands(commands: Any) -> None:
    """Add the commands to the subparsers of a parser."""
    checking = commands.add_parser("check", help="play a conversation under a configuration and check probes")
    checking.add_argument("conversation", help=f"a probe file or a folder of them; or {_FILES}")
    checking.add_argument("--config", help="a configuration (default: the session's own)")
    checking.add_argument("--probes", help="a file of probes (default: the session's own)")
    checking.add_argument(
        "--before", help="compare with this: a folder of probe files, a probe file or a configuration"
    )
    checking.add_argument("--patterns", action="store_true", help="also print what distinguishes the probes that fail")
    checking.add_argument("--junit", help="also write the outcome as JUnit XML into this file")
    checking.add_argument("--markdown", help="also write the outcome as a comment for a pull request")
    checking.add_argument("--html", help="also write one HTML file with the prompts and traces of each failure")
    checking.add_argument("--page-url", metavar="URL", help="address of the HTML file, for a link in the comment")
    checking.set_defaults(run=_check)
    bisecting = commands.add_parser("bisect", help="find the turn, or the setting, that makes a probe fail")
    bisecting.add_argument("conversation", help=_FILES)
    bisecting.add_argument("--probes", required=True, help="a file of probes")
    bisecting.add_argument("--number", type=int, default=1, help="number of the probe in the file, from 1")
    bisecting.add_argument("--good", help="a configuration under which the probe holds")
    bisecting.add_argument("--bad", help="a configuration under which the probe fails")
    bisecting.add_argument("--held", type=int, metavar="TURN", help="a turn in which the probe held")
    bisecting.add_argument("--failed", type=int, metavar="TURN", help="a turn in which the probe failed")
    bisecting.set_defaults(run=_bisect)
    _add_value_command(commands)


if __name__ == "__main__":
    sys.exit(main())


# -- the value of a memory -------------------------------------------------------------------------


def _add_value_command(commands: Any) -> None:
    valuing = commands.add_parser("value", help="compare a memory with no memory, and with each of its blocks alone")
    valuing.add_argument("conversation", help="a session's bundle, or messages in any format that can be imported")
    valuing.add_argument("--config", help="a configuration; the session's own without it")
    valuing.add_argument(
        "--questions", metavar="FILE", help="a text file with a line for each question: question -> words of evidence"
    )
    valuing.add_argument("--endpoint", metavar="URL", help="let a model answer, at this OpenAI-compatible address")
    valuing.add_argument("--model", metavar="NAME", help="the model at that address")
    valuing.add_argument("--json", metavar="FILE", help="also write every score and answer into this file")
    valuing.set_defaults(run=_value)


def _value(options: argparse.Namespace) -> int:
    if (options.endpoint is None) != (options.model is None):
        raise FormatError("Give both --endpoint and --model, or neither to score prompts without a model.")
    questions = read_questions(_text(options.questions)) if options.questions else ()
    services = Services()
    recorded = read_recorded(options.conversation, services)
    variant = read_variant(options.config) if options.config else recorded.variant
    if variant is None:
        raise FormatError(f"{Path(options.conversation).name} holds only messages: name a configuration with --config.")
    result = value_of(
        Player(services),
        recorded.script,
        variant,
        questions,
        model=_model(options),
        progress=lambda line: print(printable(line), file=sys.stderr),
    )
    assert result is not None  # never None: it cannot be cancelled
    print(result.table())
    if options.json is not None:
        try:
            Path(options.json).write_text(json.dumps(asdict(result), ensure_ascii=False, indent=2), encoding="utf-8")
        except OSError as error:
            raise FormatError(f"{options.json} cannot be written: {error.strerror or error}.") from error
    return 0


def _model(options: argparse.Namespace) -> ChatModel | None:
    if options.endpoint is None:
        return None
    from memory_core.models.openai_client import OpenAIChat  # loads the client, which takes a second

    return OpenAIChat(options.model, options.endpoint)


def _text(name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise FormatError(f"{name} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise FormatError(f"{name} is not a text in UTF-8.") from error

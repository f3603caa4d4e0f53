"""Command line of `memory-inspector check` and `memory-inspector bisect`, for terminals and CI servers.

Exit status: 0 all probes held, or the cause was found; 1 a probe failed; 2 usage error.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from memory_core.errors import FormatError, MemoryInspectorError
from memory_core.lab.bisecting import first_bad_turn, responsible_changes
from memory_core.lab.checking import check, read_opened, read_probes_file, read_recorded, read_variant
from memory_core.lab.playing import Player
from memory_core.lab.probes import Probe
from memory_core.services import Services

_FILES = "a session's bundle, or messages in any format that can be imported"


def main(arguments: Sequence[str] | None = None, *, parser: argparse.ArgumentParser | None = None) -> int:
    """Run the command; return its exit status. `parser` may hold other commands as well."""
    if parser is None:
        parser = argparse.ArgumentParser(prog="memory-inspector")
        add_commands(parser, required=True)
    options = parser.parse_args(arguments)
    try:
        return int(options.run(options))
    # Errors of the user's files and settings are usage errors; anything else keeps its traceback.
    except MemoryInspectorError as error:
        print(f"memory-inspector: {error}", file=sys.stderr)
        return 2


def _check(options: argparse.Namespace) -> int:
    checked = check(options.conversation, options.config, options.probes or ())
    print(checked.table())
    # After the table, so that the outcome is seen even if the file cannot be written.
    if options.junit is not None:
        _write(options.junit, checked.junit())
    return 0 if checked.passed else 1


def _bisect(options: argparse.Namespace) -> int:
    if (options.good is None) != (options.bad is None):
        raise FormatError("Give both --good and --bad, or neither to bisect over the turns of a session.")
    probe = _one(options)
    if options.good is None:
        result = first_bad_turn(read_opened(options.conversation), probe, good=options.held, bad=options.failed)
        print(f"Turn {result.turn}: {result.why}")
        if result.event is not None:
            print(f"Event {result.event.position}, {result.event.kind.replace('_', ' ')}, by {result.event.actor}.")
        print(f"{result.looks} prompts looked at.")
        return 0
    services = Services()
    recorded = read_recorded(options.conversation, services)
    good, bad = read_variant(options.good), read_variant(options.bad)
    cause = responsible_changes(Player(services), recorded.script, good, bad, probe)
    for change in cause.changes:
        print(change.words)
    print(cause.verdict.why)
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


def add_commands(parser: argparse.ArgumentParser, *, required: bool) -> Any:
    """Add these commands to a parser; return its subparsers action. Callers that make them optional set `run`."""
    commands = parser.add_subparsers(required=required, metavar="command")
    checking = commands.add_parser("check", help="play a conversation under a configuration and check probes")
    checking.add_argument("conversation", help=_FILES)
    checking.add_argument("--config", help="a configuration; the session's own without it")
    checking.add_argument("--probes", help="a file of probes; the session's own without it")
    checking.add_argument("--junit", help="also write the outcome as JUnit XML into this file")
    checking.set_defaults(run=_check)
    bisecting = commands.add_parser("bisect", help="find the turn, or the setting, that makes a probe fail")
    bisecting.add_argument("conversation", help=_FILES)
    bisecting.add_argument("--probes", required=True, help="a file of probes")
    bisecting.add_argument("--number", type=int, default=1, help="which of its probes, from 1")
    bisecting.add_argument("--good", help="a configuration under which it holds")
    bisecting.add_argument("--bad", help="a configuration under which it fails")
    bisecting.add_argument("--held", type=int, metavar="TURN", help="a turn in which it held")
    bisecting.add_argument("--failed", type=int, metavar="TURN", help="a turn in which it failed")
    bisecting.set_defaults(run=_bisect)
    return commands


if __name__ == "__main__":
    sys.exit(main())

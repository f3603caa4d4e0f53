"""Command lines of `memory-inspector code` and `why`: sessions of coding agents on this machine, which are only read.

Exit status of `why`: 0 the last prompt has the phrase; 1 it has not; 2 usage error.
"""

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_inspector.reading.coding_homes import FILE, OFFERED, home_variable

if TYPE_CHECKING:
    from memory_inspector.coding.listing import Listing, SessionOverview

SESSION = "latest, a file (.jsonl, .json, .db), or the beginning of a session's id"


def add_commands(commands: Any, *, start: Callable[[argparse.Namespace], int]) -> None:
    """Add the commands to the subparsers of a parser; `start` starts the app."""
    folders = argparse.ArgumentParser(add_help=False)
    one: dict[str, Any] = {"action": "append", "dest": "homes", "default": []}
    programs = "claude, codex, pi, gemini, opencode, copilot, cline or qwen"
    folders.add_argument("--home", metavar="PROGRAM=DIR", help=f"folder of the sessions of {programs}", **one)
    for name in ("claude", "codex"):
        folders.add_argument(f"--{name}", metavar="DIR", type=f"{name}={{}}".format, help=f"--home {name}=DIR", **one)
    showing = commands.add_parser("code", parents=[folders], help="show sessions of coding agents, read only")
    showing.add_argument("session", nargs="?", help=f"the session to open: {SESSION}")
    showing.add_argument("--list", action="store_true", help="print the sessions, newest first, and stop")
    showing.set_defaults(run=lambda options: _code(options, start))
    asking = commands.add_parser("why", parents=[folders], help="tell where a coding agent's session lost a phrase")
    asking.add_argument("phrase", help="words that the agent should have known")
    asking.add_argument("--session", default="latest", help=f"{SESSION} (latest)")
    asking.add_argument("--json", action="store_true", help="print values instead of sentences")
    asking.set_defaults(run=_why)


def _code(options: argparse.Namespace, start: Callable[[argparse.Namespace], int]) -> int:
    if options.list:
        from memory_core.text import printable
        from memory_inspector.wording.coding_text import sessions_table

        listing = _listing(options)
        listing.find()  # if there is none, its error names the folders
        print(sessions_table(listing.look(math.inf), time.time()))
        print(*map(printable, listing.problems), sep="\n", end="\n" * bool(listing.problems), file=sys.stderr)
        return 0
    # Passed in the environment, as Streamlit runs the app's script without these arguments.
    variables = {OFFERED: "1", **{home_variable(name): str(folder) for name, folder in _homes(options).items()}}
    # The file of the session, as visitors of the app name none.
    variables |= {FILE: str(_file(options))} if options.session else {}
    os.environ.update(variables)
    print(f"The app starts at http://127.0.0.1:{options.port}/code")
    return start(options)


def _why(options: argparse.Namespace) -> int:
    from memory_inspector.coding.session_answers import follow_in
    from memory_inspector.wording.coding_text import followed_text

    followed = follow_in(_session(options), options.phrase)
    # Without the sign of a CI server's commands, which JSON can write in another way.
    values = json.dumps(followed.values(), ensure_ascii=False, indent=2).replace("##", "#\\u0023")
    print(values if options.json else followed_text(followed))
    return 0 if followed.trail.reached else 1


def _file(options: argparse.Namespace) -> Path:
    named = Path(options.session)
    # A file with typed records is shown as it is: to look closer reads all of it, which the app does later.
    if named.suffix == ".jsonl" and os.access(named, os.R_OK) and named.is_file():
        with named.open("rb") as file:
            if b'"type"' in file.read(4_096):
                return named.absolute()
    return _session(options).path.absolute()


def _session(options: argparse.Namespace) -> "SessionOverview":
    from memory_inspector.coding.listing import Listing, home_of_file

    named = Path(options.session)
    # A session of OpenCode has its name below its database.
    if named.suffix in (".jsonl", ".zst", ".json", ".db") or named.parent.is_file():
        listing = Listing([home_of_file(named)])
        return next((one for one in listing.look(0) if one.path == named.absolute()), None) or listing.find()
    return _listing(options).find(options.session)


def _listing(options: argparse.Namespace) -> "Listing":
    from memory_inspector.coding.listing import Listing, homes

    return Listing(homes(**_homes(options)))


def _homes(options: argparse.Namespace) -> dict[str, Path]:
    """Return the folders that were given, by the program's name; absolute, as the app may run in another folder."""
    if not options.homes:
        return {}
    from memory_core.errors import ConfigError
    from memory_inspector.coding.listing import PROGRAMS

    folders = {program: folder for program, _, folder in (text.partition("=") for text in options.homes)}
    for program, folder in folders.items():
        if program not in PROGRAMS:
            raise ConfigError(f"--home takes one of {', '.join(PROGRAMS)} before its “=”, not {program[:60]!r}.")
        if not Path(folder).is_dir():
            raise ConfigError(f"There is no folder {folder}.")
    return {program: Path(folder).absolute() for program, folder in folders.items()}

"""The sessions of coding agents that a command named to the app, in environment variables: no visitor names a path."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memory_inspector.coding.listing import Listing, SessionOverview

OFFERED = "MEMORY_INSPECTOR_CODE"
"""Set where the app shows sessions of coding agents, which are private to this machine."""

FILE = f"{OFFERED}_FILE"
"""File of the session that is shown first."""


def home_variable(program: str) -> str:
    """Return the variable with the folder of a program's sessions, by its name in `PROGRAMS`."""
    return f"{OFFERED}_{program.upper()}"


def offered() -> bool:
    """Return whether this server shows sessions of coding agents."""
    return bool(os.environ.get(OFFERED))


def listing_of_environment() -> "Listing":
    """Return the sessions of the named folders, else of the usual ones, and that of the named file.

    Raises:
        FormatError: the file cannot be read, or is not a session.
    """
    # Here, as every page asks for `offered`.
    from memory_inspector.coding.listing import PROGRAMS, Listing, home_of_file, homes

    folders = {name: Path(place) for name in PROGRAMS if (place := os.environ.get(home_variable(name)))}
    file = os.environ.get(FILE)
    return Listing([*homes(**folders), *([home_of_file(Path(file))] if file else [])])


def first_session(listing: "Listing") -> "SessionOverview | None":
    """Return the session of the named file; None if none was named."""
    # Compared as text: the command has resolved the path already.
    file = os.environ.get(FILE)
    sessions = listing.look(0)
    files = ((part, one) for one in sessions for part in (one, *one.segments, *one.subagents))
    return next((one for part, one in files if str(part.path) == file), None)

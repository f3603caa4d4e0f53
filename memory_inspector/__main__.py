"""`memory-inspector` starts the app on the demo, `memory-inspector --database agent.db` on an agent's database.

`memory-inspector check` and `bisect` run probes in a terminal (see `memory_core.lab.command`), `memory-inspector mcp`
answers a coding agent's questions, `memory-inspector open notes/` shows a store of another program where it lies.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from socket import socket

from memory_core.adapters.inspecting import InspectingTools
from memory_core.config import Settings
from memory_core.errors import ConfigError
from memory_core.lab import command
from memory_core.services import Services
from memory_core.store.database import Database, parse_url

HERE = Path(__file__).resolve().parent
FOLDER = HERE if (HERE / "serve.py").exists() else HERE.parent
"""Where the app lies."""

_DATABASE = "an agent's database: an URL, or a file of SQLite"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="memory-inspector", description="See, debug and curate what an LLM agent remembers."
    )
    parser.add_argument("--database", metavar="URL", help=_DATABASE)
    parser.add_argument("--upstream", metavar="URL", help="where calls below /record/ go, /v1 included (OpenAI's)")
    parser.add_argument("--port", type=int, default=8501, help="of the app, on this machine only (8501)")
    parser.add_argument("--no-browser", action="store_true", help="open no browser")
    parser.set_defaults(run=_app)
    commands = command.add_commands(parser, required=False)
    serving = commands.add_parser("mcp", help="an MCP server with which a coding agent asks about a memory")
    serving.add_argument("--database", metavar="URL", required=True, help=_DATABASE)
    serving.set_defaults(run=_mcp)
    opening = commands.add_parser("open", help="show a store of another program where it lies, read only")
    opening.add_argument("store", help="its file, or a folder of notes: never changed, and followed while the app runs")
    opening.add_argument("--only", metavar="NAME", help="one of its conversations")
    opening.set_defaults(run=_open)
    return command.main(arguments, parser=parser)


def _app(given: argparse.Namespace) -> int:
    if find_spec("streamlit") is None:
        raise ConfigError("The app is not installed. Run: pip install 'memory-inspector[app]'")
    if given.database is not None:
        os.environ["MEMORY_INSPECTOR_DATABASE_URL"] = database_url(given.database)
    if given.upstream is not None:
        os.environ["MEMORY_INSPECTOR_UPSTREAM"] = upstream_url(given.upstream)
    from streamlit.web import cli

    headless = str(given.no_browser).lower()
    options = ["--server.port", str(given.port), "--server.headless", headless]
    sys.argv = ["streamlit", "run", str(FOLDER / "serve.py"), *options]
    return int(cli.main() or 0)


def _open(given: argparse.Namespace) -> int:
    from memory_core.interop.in_place import open_store

    if given.database is not None:
        os.environ["MEMORY_INSPECTOR_DATABASE_URL"] = database_url(given.database)
    database = Database.open(Settings.of_the_app().database)
    opened = open_store(Path(given.store), database, services=Services(), only=given.only)
    database.close()
    print(f"Opened read only: {len(opened)} {'session' if len(opened) == 1 else 'sessions'}.")
    with socket() as port:
        port.settimeout(1)
        running = port.connect_ex(("127.0.0.1", given.port)) == 0
    address = f"http://127.0.0.1:{given.port}/?session={opened[0]}"
    if running:
        print(f"Port {given.port} is in use. If that is the app on the same database: {address}")
        return 0
    print(f"The app starts at {address}")
    return _app(given)


def _mcp(given: argparse.Namespace) -> int:
    database = Database.open(database_url(given.database))
    from memory_core.adapters.mcp_server import serve

    serve(InspectingTools(database, Services()))
    return 0


def database_url(given: str) -> str:
    """The URL of a database that is there already: the app looks at an agent's, and makes none.

    Raises:
        ConfigError: it is no URL, of another kind of database, or a file that is not there.
    """
    url = parse_url(given) if "://" in given else parse_url("sqlite://").set(database=str(Path(given).resolve()))
    file = Path(str(url.database))
    if url.drivername.startswith("sqlite") and not file.is_file():
        raise ConfigError(f"There is no database {file.name}: give the file that the agent writes to.")
    return url.render_as_string(hide_password=False)


def upstream_url(given: str) -> str:
    """The address of an endpoint.

    Raises:
        ConfigError: it is none.
    """
    if not given.startswith(("http://", "https://")):
        raise ConfigError(f"--upstream is no address: give it with http:// or https://, not {given}.")
    return given


if __name__ == "__main__":
    sys.exit(main())

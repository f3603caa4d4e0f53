"""`memory-inspector` starts the app on the demo, `memory-inspector --database agent.db` on an agent's database.

`memory-inspector check` and `bisect` run probes in a terminal (see `memory_inspector.commands`), `memory-inspector mcp`
answers a coding agent's questions, `memory-inspector mcp-memory` serves as its memory, and `memory-inspector open
notes/` shows another program's store in place. `memory-inspector code` shows sessions of coding agents, and
`memory-inspector why` follows a phrase through one. `memory-inspector verify` searches for forgotten words,
`memory-inspector value` compares a memory with none, and `upgrade`, `tenants`, `maintain`, `backup` and `restore` look
after a database. `memory-inspector token` makes tokens for agents on other machines.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from socket import socket

from memory_inspector.commands.command_line import DATABASE, run

HERE = Path(__file__).resolve().parent
# An installed package contains the app's files; in the repository they are one folder above.
FOLDER = HERE if (HERE / "serve.py").exists() else HERE.parent
"""Folder that contains the app's `serve.py`."""


COMMANDS = {
    "probe_commands": ("check", "bisect", "value"),
    "database_commands": ("upgrade", "tenants", "token", "maintain", "backup", "restore"),
    "code_command": ("code", "why"),
}
"""Commands by module of `memory_inspector.commands`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(
        prog="memory-inspector", description="See, debug and curate what an LLM agent remembers."
    )
    parser.add_argument("--database", metavar="URL", help=DATABASE)
    parser.add_argument(
        "--upstream", metavar="URL", help="endpoint of calls below /record/, /v1 included (their company's)"
    )
    parser.add_argument("--port", type=int, default=8501, help="port of the app, on this machine only (8501)")
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser")
    parser.set_defaults(run=_app)
    commands = parser.add_subparsers(metavar="command")
    # Most modules load the engine, which takes a second: with a command that is named, only its own is loaded, and
    # none to start the app, which answers before the engine is loaded.
    named = [module for module, names in COMMANDS.items() if not {*names}.isdisjoint(arguments)]
    for module in named or (COMMANDS if arguments else ()):
        options = {"start": _app} if module == "code_command" else {}
        import_module(f"memory_inspector.commands.{module}").add_commands(commands, **options)
    serving = commands.add_parser("mcp", help="an MCP server with which a coding agent asks about a memory")
    serving.add_argument("--database", metavar="URL", help=f"{DATABASE}; without it, coding agents' sessions alone")
    serving.set_defaults(run=_mcp)
    keeping = commands.add_parser("mcp-memory", help="an MCP server with the tools of the reference memory server")
    keeping.add_argument("--database", metavar="URL", required=True, help="a URL or an SQLite file; created if missing")
    keeping.add_argument("--session", default="knowledge-graph", help="session that holds the graph (knowledge-graph)")
    keeping.add_argument(
        "--bring", metavar="FILE", help="a file of the reference server; its entries are added if missing"
    )
    keeping.set_defaults(run=_mcp_memory)
    opening = commands.add_parser("open", help="show another program's store in place, read only")
    opening.add_argument("store", help="file or folder of the store: never changed, and followed while the app runs")
    opening.add_argument("--only", metavar="NAME", help="show only this conversation")
    opening.set_defaults(run=_open)
    verifying = commands.add_parser("verify", help="search a data folder or database for words that were forgotten")
    verifying.add_argument("receipt", nargs="?", help="a receipt of an earlier search, to repeat it")
    verifying.add_argument(
        "--words", metavar="FILE", help="a file with the texts to find, one per line; - for standard input"
    )
    verifying.add_argument(
        "--place",
        metavar="PATH",
        help="a folder, a database file, or a PostgreSQL or Chroma URL (the app's folder)",
    )
    verifying.add_argument("--out", metavar="FILE", help="file for the new receipt")
    verifying.set_defaults(run=_verify)
    teaching = commands.add_parser("skill", help="print the skill file that tells a coding agent how to ask a memory")
    teaching.set_defaults(run=_skill)
    return run(parser, arguments)


def _skill(arguments: argparse.Namespace) -> int:
    print((HERE / "skill" / "SKILL.md").read_text(encoding="utf-8"), end="")
    return 0


def _app(arguments: argparse.Namespace) -> int:
    if find_spec("streamlit") is None:
        from memory_core.errors import ConfigError

        raise ConfigError("The app is not installed. Run: pip install 'memory-inspector[app]'")
    if arguments.database is not None:
        from memory_inspector.commands.database_commands import database_url

        os.environ["MEMORY_INSPECTOR_DATABASE_URL"] = database_url(arguments.database)
    if arguments.upstream is not None:
        # Passed in the environment, as Streamlit runs the app's script without these arguments.
        os.environ["MEMORY_INSPECTOR_UPSTREAM"] = upstream_url(arguments.upstream)
    from streamlit.web import cli

    headless = str(arguments.no_browser).lower()
    options = ["--server.port", str(arguments.port), "--server.headless", headless]
    sys.argv = ["streamlit", "run", str(FOLDER / "serve.py"), *options]
    return int(cli.main() or 0)


def _open(arguments: argparse.Namespace) -> int:
    from memory_core import Database, Services, Settings
    from memory_core.text import printable
    from memory_inspector.commands.database_commands import database_url
    from memory_inspector.files.in_place import open_store

    if arguments.database is not None:
        os.environ["MEMORY_INSPECTOR_DATABASE_URL"] = database_url(arguments.database)
    database = Database.open(Settings.of_the_app().database)
    opened = open_store(Path(arguments.store), database, services=Services(), only=arguments.only)
    database.close()
    print(f"Opened read only: {len(opened)} {'session' if len(opened) == 1 else 'sessions'}.")
    # If the app itself listens there, it shows the session and no second one is started.
    with socket() as port:
        port.settimeout(1)
        running = port.connect_ex(("127.0.0.1", arguments.port)) == 0
    address = f"http://127.0.0.1:{arguments.port}/?session={printable(opened[0])}"
    if running:
        print(f"Port {arguments.port} is in use. If that is the app on the same database: {address}")
        return 0
    print(f"The app starts at {address}")
    return _app(arguments)


def _mcp(arguments: argparse.Namespace) -> int:
    from memory_core import Database, Services
    from memory_inspector.adapters.mcp_server import InspectingTools
    from memory_inspector.coding.mcp_tools import CodingTools
    from memory_inspector.commands.database_commands import database_url
    from memory_inspector.reading.coding_homes import listing_of_environment
    from memory_inspector.reading_tools import ReadingTools

    tools: list[ReadingTools] = [CodingTools(listing_of_environment())]
    if arguments.database is not None:
        tools.insert(0, InspectingTools(Database.open(database_url(arguments.database)), Services()))
    from memory_inspector.adapters.mcp_server import inspecting_server, serve

    serve(inspecting_server(*tools))
    return 0


def _mcp_memory(arguments: argparse.Namespace) -> int:
    from memory_core.systems.knowledge_graph import KnowledgeGraph
    from memory_inspector.adapters.graph_tools import GraphTools
    from memory_inspector.adapters.mcp_server import graph_server, serve
    from memory_inspector.commands.database_commands import created_url

    tools = GraphTools(KnowledgeGraph(arguments.session, database_uri=created_url(arguments.database)))
    if arguments.bring is not None:
        tools.import_jsonl(_content(arguments.bring), filename=Path(arguments.bring).name)
    serve(graph_server(tools))
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    """Search for forgotten words; return 1 if any were found, or something could not be searched."""
    from memory_core import Settings
    from memory_core.errors import ConfigError
    from memory_core.text import printable
    from memory_inspector.verification.fingerprints import wanted
    from memory_inspector.verification.receipts import read_receipt, receipt_of

    if (arguments.receipt is None) == (arguments.words is None):
        raise ConfigError("Give a receipt, or the words: --words FILE, or --words - to type them.")
    if arguments.receipt is not None:
        text = _content(arguments.receipt).decode("utf-8", "replace")
        texts = read_receipt(text, Path(arguments.receipt).name).wanted
    else:
        # Read as bytes, so that words typed in another encoding do not end the search with an error.
        data = sys.stdin.buffer.read() if arguments.words == "-" else _content(arguments.words)
        texts = wanted(line for line in data.decode("utf-8", "replace").splitlines() if line.strip())
    made = receipt_of(arguments.place or str(Settings.of_the_app().home), texts)
    if arguments.out is not None:
        try:
            Path(arguments.out).write_text(made.to_json(), encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"{Path(arguments.out).name} cannot be written: {error.strerror or error}.") from error
    # A file's name may have what acts on a terminal, or a line break.
    print("\n".join("  " * line.startswith("  ") + printable(line) for line in made.page().splitlines()))
    return 0 if made.clean else 1


def _content(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        from memory_core.errors import FormatError

        raise FormatError(f"{Path(file).name} cannot be read: {error.strerror or error}.") from error


def upstream_url(text: str) -> str:
    """Return the address of an endpoint, unchanged.

    Raises:
        ConfigError: it does not start with http:// or https://.
    """
    if not text.startswith(("http://", "https://")):
        from memory_core.errors import ConfigError

        raise ConfigError(f"--upstream must be a URL with http:// or https://, not {text}.")
    return text


if __name__ == "__main__":
    sys.exit(main())

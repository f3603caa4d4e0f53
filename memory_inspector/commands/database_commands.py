"""Command lines of `memory-inspector upgrade`, `tenants` and `token`: a database's schema, tenants and tokens."""

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import URL

from memory_core import Database, Services, Settings
from memory_core.errors import ConfigError
from memory_core.sessions.agent_tokens import new_token, revoke, seconds_of, tokens_of
from memory_core.sessions.overview import delete_tenant
from memory_core.sessions.upkeep import schema_of
from memory_core.store.database import parse_url
from memory_core.text import printable
from memory_inspector.commands.command_line import DATABASE


def add_commands(commands: Any) -> None:
    """Add the commands to the subparsers of a parser."""
    upgrading = commands.add_parser("upgrade", help="bring a database's tables up to this version")
    upgrading.add_argument("--database", metavar="URL", required=True, help=DATABASE)
    upgrading.add_argument("--dry-run", action="store_true", help="list what would be done, and change nothing")
    upgrading.add_argument(
        "--grant", metavar="ROLE", help="then let this PostgreSQL role, which owns no table, read and write the rows"
    )
    upgrading.set_defaults(run=_upgrade)
    listing = commands.add_parser("tenants", help="list the tenants of a database, or delete one")
    listing.add_argument("--database", metavar="URL", required=True, help=DATABASE)
    listing.add_argument("--delete", metavar="NAME", help="delete this tenant with everything in it; there is no undo")
    listing.set_defaults(run=_tenants)
    _add_token_commands(commands)


def _upgrade(arguments: argparse.Namespace) -> int:
    url = database_url(arguments.database)
    schema = schema_of(url)
    if schema is None:
        raise ConfigError("This database holds no tables of Memory Inspector: they are created when it is first used.")
    if arguments.dry_run:
        for number, description in schema.pending:
            print(f"{number}: {description}")
        print(f"Schema version {schema.version}; this program has {schema.newest}. Nothing was changed.")
        return 0
    with Database.open(url) as database:
        print(f"Schema version {schema.version} → {schema.newest}." if schema.pending else "Nothing to upgrade.")
        if arguments.grant is not None:
            database.grant(arguments.grant)
            print(f"{arguments.grant} may read and write the rows.")
    return 0


def _tenants(arguments: argparse.Namespace) -> int:
    url = database_url(arguments.database)
    with Database.open(url) as database:
        names = database.tenants()
    if arguments.delete is None:
        print("\n".join(name or "(default)" for name in names))
        return 0
    if arguments.delete not in names:
        raise ConfigError(f"There is no tenant {arguments.delete!r}; there are: {', '.join(filter(None, names))}.")
    services = Services(index=Settings.from_environment().index)
    with services, Database.open(url, tenant=arguments.delete) as database:
        print(f"Deleted {arguments.delete} with {delete_tenant(database, services.index_of(database))} sessions.")
    return 0


def database_url(text: str) -> str:
    """Return the URL of an existing database; the app opens an agent's database and never creates one.

    Raises:
        ConfigError: the URL is invalid or of an unsupported database, or its file does not exist.
    """
    url = _url(text)
    file = Path(str(url.database))
    # SQLite would create the file, and the app would show an empty database instead of a typing error.
    if url.drivername.startswith("sqlite") and not file.is_file():
        raise ConfigError(f"There is no database {file.name}: give the file that the agent writes to.")
    return url.render_as_string(hide_password=False)


def created_url(text: str) -> str:
    """Return the URL of a database that need not exist.

    Raises:
        ConfigError: the URL is invalid, or of a kind of database that is not supported.
    """
    return _url(text).render_as_string(hide_password=False)


def _url(text: str) -> URL:
    # Set as a field of the URL, as a file's path may contain characters that are special in a URL.
    return parse_url(text) if "://" in text else parse_url("sqlite://").set(database=str(Path(text).resolve()))


# -- tokens of agents on other machines ------------------------------------------------------------


def _add_token_commands(commands: Any) -> None:
    parser = commands.add_parser("token", help="make, list and revoke the tokens of agents on other machines")
    parser.set_defaults(run=_token)
    actions = parser.add_subparsers(required=True, metavar="action", dest="action")
    making = actions.add_parser("new", help="make a token and print it, once")
    making.add_argument("--name", required=True, help="the agent that gets it")
    making.add_argument("--tenant", default="", help="tenant that it writes into (the default one)")
    making.add_argument("--expires", default="90d", metavar="TIME", help="90d, 12h, 30m or never (90d)")
    actions.add_parser("list", help="list names, tenants and ends; the tokens themselves are not stored")
    revoking = actions.add_parser("revoke", help="refuse a token from its next request on")
    revoking.add_argument("--name", required=True)


def _token(options: argparse.Namespace) -> int:
    url = database_url(options.database) if options.database is not None else Settings.of_the_app().database
    with Database.open(url) as database:
        if options.action == "new":
            seconds = seconds_of(options.expires)
            print(new_token(database, options.name, tenant=options.tenant, seconds=seconds))
        elif options.action == "revoke":
            revoke(database, options.name)
            print(f"Revoked {options.name}.")
        else:
            for token in tokens_of(database):
                until = "never expires" if token.expires_at is None else f"until {_time(token.expires_at)}"
                until = until if token.revoked_at is None else f"revoked {_time(token.revoked_at)}"
                print(f"{printable(token.name)}\t{token.tenant or '(default tenant)'}\t{until}")
    return 0


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"

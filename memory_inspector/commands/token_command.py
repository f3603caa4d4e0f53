"""Command line of `memory-inspector token`: tokens with which agents elsewhere are recorded."""

import argparse
from datetime import UTC, datetime
from typing import Any

from memory_core import Database
from memory_core.config import Settings
from memory_core.sessions.agent_tokens import new_token, revoke, seconds_of, tokens_of
from memory_core.text import printable
from memory_inspector.commands.database_commands import database_url


def add_commands(commands: Any) -> None:
    """Add the command to the subparsers of a parser."""
    parser = commands.add_parser("token", help="make, list and revoke the tokens of agents on other machines")
    parser.set_defaults(run=_run)
    actions = parser.add_subparsers(required=True, metavar="action", dest="action")
    making = actions.add_parser("new", help="make a token and print it, once")
    making.add_argument("--name", required=True, help="the agent that gets it")
    making.add_argument("--tenant", default="", help="tenant that it writes into (the default one)")
    making.add_argument("--expires", default="90d", metavar="TIME", help="90d, 12h, 30m or never (90d)")
    actions.add_parser("list", help="list names, tenants and ends; the tokens themselves are not stored")
    revoking = actions.add_parser("revoke", help="refuse a token from its next request on")
    revoking.add_argument("--name", required=True)


def _run(options: argparse.Namespace) -> int:
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

"""Command lines that look after a database: its schema, its tenants, agents' tokens, upkeep, backups.

Exit status of upkeep: 0 done; 1 damage remains, or a session could not leave; 2 usage error.
"""

import argparse
import re
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import URL

from memory_core import Database, Services, Settings
from memory_core.bundles.backup import restore_backup, write_backup
from memory_core.errors import ConfigError
from memory_core.sessions.overview import delete_tenant
from memory_core.store.database import parse_url
from memory_core.text import printable
from memory_core.vectors.vector_index import VectorIndex
from memory_inspector.commands.command_line import DATABASE
from memory_inspector.upkeep.agents import new_token, revoke, seconds_of, tokens_of
from memory_inspector.upkeep.damage import find_damage, repair_damage
from memory_inspector.upkeep.health import size_of
from memory_inspector.upkeep.maintenance import maintaining, schema_of
from memory_inspector.upkeep.retention import (
    RetentionPlan,
    SessionSize,
    archive_session,
    delete_old_sessions,
    plan_retention,
)
from memory_inspector.wording.formatting import count, session_name, size


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
    _add_upkeep_commands(commands)


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


# -- upkeep ----------------------------------------------------------------------------------------

_AGE = re.compile(r"(\d+)d")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMGT]?B)", re.IGNORECASE)
_UNITS = {"B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}
MAX_LISTED = 20
"""Maximum number of sessions listed by name."""


def _add_upkeep_commands(commands: Any) -> None:
    database = argparse.ArgumentParser(add_help=False)
    database.add_argument("--database", metavar="URL", help="a URL or an SQLite file (the app's)")
    tenant = argparse.ArgumentParser(add_help=False)
    tenant.add_argument("--tenant", metavar="NAME", default="", help="this tenant (the default one)")
    maintaining = commands.add_parser(
        "maintain", parents=[database, tenant], help="check, shrink and tidy up a database"
    )
    maintaining.add_argument("--older-than", metavar="DAYS", help="delete sessions not used for so long: 180d")
    maintaining.add_argument("--max-size", metavar="SIZE", help="delete the oldest sessions until this is left: 5GB")
    maintaining.add_argument("--archive", metavar="DIR", help="first store each of them as a bundle in this folder")
    maintaining.add_argument("--yes", action="store_true", help="delete; without it, only list what would leave")
    maintaining.add_argument("--dry-run", action="store_true", help="only list what would leave, even with --yes")
    maintaining.add_argument("--verify", action="store_true", help="look for damage")
    maintaining.add_argument("--repair", action="store_true", help="look for damage, and mend it where nothing is lost")
    maintaining.add_argument("--vacuum", action="store_true", help="return the space of deleted rows")
    maintaining.set_defaults(run=_maintain)
    saving = commands.add_parser(
        "backup", parents=[database, tenant], help="copy a database into one file while others write"
    )
    saving.add_argument("file", help="new file: .zip, or for SQLite any other name for a copy of the database itself")
    saving.set_defaults(run=_backup)
    restoring = commands.add_parser("restore", parents=[tenant], help="store a backup in an empty database")
    restoring.add_argument("file", help="a file of `backup`")
    restoring.add_argument("--to", metavar="URL", required=True, help="a URL or an SQLite file; created if missing")
    restoring.set_defaults(run=_restore)


@contextmanager
def _opened(options: argparse.Namespace) -> Any:
    """Open the database and the index beside it: the app's, or the one that the environment names."""
    settings = Settings.of_the_app() if options.database is None else Settings.from_environment()
    url = database_url(options.database or str(settings.database))
    with closing(Database.open(url, tenant=options.tenant)) as database, Services(index=settings.index) as services:
        database.for_agents = False  # its changes are a person's
        yield database, services


def _maintain(options: argparse.Namespace) -> int:
    retains = options.older_than is not None or options.max_size is not None
    if not (retains or options.verify or options.repair or options.vacuum):
        raise ConfigError("Say what to do: --older-than, --max-size, --verify, --repair or --vacuum.")
    if not retains and (options.yes or options.dry_run or options.archive is not None):
        raise ConfigError("--archive, --yes and --dry-run belong to --older-than or --max-size.")
    now = time.time()
    before = None if options.older_than is None else now - _days(options.older_than) * 86_400
    most = None if options.max_size is None else _bytes(options.max_size)
    deletes = options.yes and not options.dry_run
    clean = True
    with ExitStack() as closing_all:
        database, services = closing_all.enter_context(_opened(options))
        if deletes or options.repair or options.vacuum:
            closing_all.enter_context(maintaining(database))
        index = services.index_of(database)
        if retains:
            plan = plan_retention(database, now=now, used_before=before, max_bytes=most)
            print("\n".join(_preview(plan, now)))
            if deletes:
                clean = _delete(database, index, plan, options.archive)
            elif plan.leaving:
                print("Nothing was deleted: repeat the command with --yes.")
        if options.verify or options.repair:
            clean = _verify(database, index, repair=options.repair) and clean
        if options.vacuum:
            before_bytes, _ = size_of(database)
            database.compact()
            after_bytes, _ = size_of(database)
            print(f"Vacuum: {size(before_bytes)} before, {size(after_bytes)} after.")
    return 0 if clean else 1


# -- retention -----------------------------------------------------------------------------------


def _preview(plan: RetentionPlan, now: float) -> Iterable[str]:
    leaving = plan.leaving
    of_them = [
        count(sum(session.messages for session in leaving), "message"),
        count(sum(session.events for session in leaving), "event"),
        count(sum(session.vectors for session in leaving), "vector"),
        f"{size(plan.freed_bytes)} of {size(plan.total_bytes)}",
    ]
    yield f"Leaves: {count(len(leaving), 'session')} with {', '.join(of_them)}."
    yield from _list(leaving, now, lambda session: f"{session.messages:,} messages, {size(session.bytes)}")
    if summaries := sum(session.summaries for session in leaving):
        yield f"With them leave {count(summaries, 'running summary')}, and facts and relations of these sessions alone."
    if plan.shared_facts:
        facts = count(plan.shared_facts, "fact")
        yield f"Stays: {facts} of users learned there; {plan.unsourced_facts:,} lose their only source."
    yield f"Stays: {count(plan.pinned_facts, 'pinned fact')}."
    if plan.staying:
        yield f"Stays for a reason: {count(len(plan.staying), 'session')} that would leave."
        yield from _list(plan.staying, now, lambda session: "; ".join(session.reasons))


def _list(sessions: Sequence[SessionSize], now: float, describe: Callable[[SessionSize], str]) -> Iterable[str]:
    for session in sessions[:MAX_LISTED]:
        days = int((now - session.used_at) / 86_400)
        name = printable(session_name(session.title, session.session_id))
        yield f"  {name}, not used for {count(days, 'day')}: {describe(session)}"
    if len(sessions) > MAX_LISTED:
        yield f"  and {len(sessions) - MAX_LISTED:,} more"


def _delete(database: Database, index: VectorIndex, plan: RetentionPlan, folder: str | None) -> bool:
    archive = None if folder is None else partial(archive_session, database, folder=Path(folder))
    deleted = list[SessionSize]()
    refused = delete_old_sessions(
        database, index, plan, archive=archive, progress=lambda session, file: deleted.append(session)
    )
    print(f"Deleted: {count(len(deleted), 'session')}." + (f" Archived in {folder}." if folder and deleted else ""))
    if others := len(plan.leaving) - len(deleted) - len(refused):
        print(f"  {count(others, 'session')} left meanwhile: deleted by others.")
    for session_id, reason in refused.items():
        print(f"  {printable(session_id)} stays: {printable(str(reason))}")
    return not refused


# -- verify --------------------------------------------------------------------------------------


def _verify(database: Database, index: VectorIndex, *, repair: bool) -> bool:
    findings = remaining = find_damage(database, index)
    if repair and findings:
        repair_damage(database, index)
        remaining = find_damage(database, index)
    after = {finding.what for finding in remaining}
    for finding in findings:
        outcome = finding.advice or ("left over, freed by --repair" if finding.harmless else "mended by --repair")
        print(f"{finding.number:>9,}  {finding.what}: {outcome if finding.what in after else 'mended'}")
    # A repair may bring up more: a text is in use until the rows that name it are gone.
    for finding in remaining:
        if finding.what not in {earlier.what for earlier in findings}:
            print(f"{finding.number:>9,}  {finding.what}: repeat --repair")
    damage = sum(not finding.harmless for finding in remaining)
    print(f"{count(damage, 'kind')} of damage." if damage else "No damage.")
    return not damage


# -- backup --------------------------------------------------------------------------------------


def _backup(options: argparse.Namespace) -> int:
    path = Path(options.file)
    with _opened(options) as (database, _):
        rows = write_backup(database, path)
    print(f"{path.name}: {count(sum(rows.values()), 'row')} in {size(path.stat().st_size)}.")
    return 0


def _restore(options: argparse.Namespace) -> int:
    rows = restore_backup(Path(options.file), created_url(options.to), tenant=options.tenant)
    sessions = count(rows.get("mi_session", 0), "session")
    print(f"Restored and compared: {count(sum(rows.values()), 'row')}, {sessions} with deleted ones.")
    return 0


# -- numbers -------------------------------------------------------------------------------------


def _days(text: str) -> int:
    matched = _AGE.fullmatch(text)
    if matched is None:
        raise ConfigError(f"--older-than is a number of days such as 180d, not {text}.")
    return int(matched[1])


def _bytes(text: str) -> int:
    matched = _SIZE.fullmatch(text)
    if matched is None:
        raise ConfigError(f"--max-size is a size such as 500MB or 5GB, not {text}.")
    return int(float(matched[1]) * _UNITS[matched[2].upper()])

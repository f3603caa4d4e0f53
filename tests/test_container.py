"""What the Dockerfile and compose.yaml promise, held without an engine for containers."""

import json
import os
import re
import socket
import subprocess
import sys
import time
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

from memory_core import Memory
from memory_core.vectors.pgvector import PgvectorIndex

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LINES = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", "").splitlines()
STEPS = [line.split(maxsplit=1) for line in LINES if line and not line.startswith("#")]
IGNORED = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()


def step(name):
    [given] = [rest for command, rest in STEPS if command == name]
    return given


def ignored(path):
    """Whether an engine leaves a file of the repository out."""
    places = [path, *(parent.as_posix() for parent in Path(path).parents)]
    return any(fnmatch(place, pattern.removeprefix("**/")) for place in places for pattern in IGNORED)


def test_what_is_installed_from_is_copied_and_not_ignored():
    assert step("COPY") == ". ."
    build = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = [*build["packages"], *build["force-include"], PROJECT["project"]["readme"], "pyproject.toml"]
    for name in [*needed, *re.findall(r"-c (\S+)", step("RUN"))]:
        assert (ROOT / name).exists(), name
        assert not ignored(name), name
    assert ignored("tests/test_container.py")
    assert ignored(".streamlit/secrets.toml")


def test_what_is_installed_and_started_is_the_wheel_s():
    [extras] = re.findall(r"'\.\[([\w,]+)\]'", step("RUN"))
    assert set(extras.split(",")) <= set(PROJECT["project"]["optional-dependencies"])
    [command] = json.loads(step("ENTRYPOINT"))
    assert command in PROJECT["project"]["scripts"]
    assert json.loads(step("CMD")) == ["--no-browser"]


def test_the_user_is_made_and_is_not_root():
    assert f"useradd --create-home --uid 1000 {step('USER')}" in step("RUN")


@pytest.mark.slow
def test_the_health_check_succeeds_once_the_app_answers(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    python, *check = json.loads(step("HEALTHCHECK").partition("CMD ")[2])
    own = f":{step('EXPOSE')}/"
    assert (python, own in check[1]) == ("python", True)
    check = [sys.executable, *check[:-1], check[-1].replace(own, f":{port}/")]
    app = [sys.executable, "-m", "memory_inspector", *json.loads(step("CMD")), "--port", str(port)]
    given = {**os.environ, "MEMORY_INSPECTOR_HOME": str(tmp_path), "STREAMLIT_SERVER_ALLOWED_HOSTS": "other.example"}
    assert subprocess.run(check, capture_output=True, timeout=60).returncode == 1
    with subprocess.Popen(app, cwd=ROOT, env=given, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            until = time.monotonic() + 60
            while subprocess.run(check, capture_output=True, timeout=60).returncode:
                assert time.monotonic() < until
                assert server.poll() is None
        finally:
            server.terminate()


def test_the_port_that_is_told_is_the_command_s_own():
    said = (ROOT / "memory_inspector" / "__main__.py").read_text(encoding="utf-8")
    assert f'"--port", type=int, default={step("EXPOSE")}' in said
    assert f':{step("EXPOSE")}"]' in (ROOT / "compose.yaml").read_text(encoding="utf-8")


@pytest.mark.postgres
def test_the_first_start_makes_a_database_for_an_ordinary_role(own_server):
    """The script of compose.yaml, run as PostgreSQL's image runs it."""
    server = own_server()
    script = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["configs"]["first_start"]["content"]
    place = {"PGHOST": "127.0.0.1", "PGPORT": str(server.port), "POSTGRES_PASSWORD": "it's secret"}
    path = f"{server.programs}{os.pathsep}{os.environ['PATH']}"
    made = subprocess.run(
        ["sh", "-e"],
        input=script.replace("$$", "$"),
        env={**os.environ, **place, "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert made.returncode == 0, made.stderr
    url = f"postgresql://inspector@127.0.0.1:{server.port}/inspector"
    with Memory.from_defaults("s", database_uri=url, tenant="acme").session.database as database:
        assert PgvectorIndex(database)._ready()
        with database.read() as connection:
            assert not connection.exec_driver_sql("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").scalar()

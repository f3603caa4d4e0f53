"""Tests that peers ship with their packages, run as they are on our class in place of theirs.

A source distribution is fetched into the environment's folder; nothing of it is copied here. As a plugin of pytest
this module puts our class in place before the tests are loaded: `SUBSTITUTE` names the suite.
"""

import os
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SUBSTITUTE = "PEER_SUITE"
NEEDED = ("pytest", "pytest-asyncio", "pytest-mock")


@dataclass(frozen=True)
class Suite:
    package: str
    """Package whose source distribution has the tests."""
    tests: tuple[str, ...]
    """Files of it that test what we have, too."""
    name: str
    """Class of theirs that is replaced, and of ours."""


SUITES = (
    Suite("langgraph-checkpoint", ("tests/test_store.py",), "InMemoryStore → InspectedStore"),
    Suite(
        "openai-agents",
        ("tests/memory/test_session.py", "tests/memory/test_session_limit.py"),
        "SQLiteSession → InspectedSession",
    ),
)
NOT_APPLICABLE = (
    "langchain's own tests, langchain-tests and langgraph-checkpoint-conformance are of agents, models, tools, vector "
    "stores, caches and checkpointers, none of which is offered here."
)


def fetched(package: str, version: str, python: Path, folder: Path) -> Path:
    """Download and unpack the source distribution of a package; its folder.

    Raises:
        subprocess.CalledProcessError: pip cannot fetch it.
    """
    with tempfile.TemporaryDirectory() as downloads:
        options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-binary", ":all:", "--dest", downloads]
        subprocess.run([str(python), "-m", "pip", "download", *options, f"{package}=={version}"], check=True)
        [archive] = Path(downloads).glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
            return folder / packed.getnames()[0].split("/")[0]


def counted(suite: Suite, root: Path, python: Path, *, ours: bool) -> tuple[int, int]:
    """Run a suite; the numbers of passed and of all other tests that ran."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENAI_API_KEY": "x"}
    environment |= {SUBSTITUTE: suite.package if ours else ""}
    environment["PYTHONPATH"] += os.pathsep + str(Path(__file__).parent)
    options = ["-q", "--tb=no", "-p", "peer_suites", "-p", "no:cacheprovider", "-W", "ignore", "-o", "addopts="]
    command = [str(python), "-m", "pytest", *options, *suite.tests]
    run = subprocess.run(command, cwd=root, env=environment, text=True, capture_output=True, timeout=600)
    last = run.stdout.strip().splitlines()[-1] if run.stdout.strip() else run.stderr
    numbers = {outcome: int(number) for number, outcome in re.findall(r"(\d+) (passed|failed|errors?)", last)}
    if not numbers:
        raise RuntimeError(f"{suite.package}: no test ran: {last}")
    passed = numbers.pop("passed", 0)
    return passed, sum(numbers.values())


def table(rows: Sequence[tuple[Suite, str, tuple[int, int], tuple[int, int]]], brought: Mapping[str, int]) -> str:
    """Return counts as markdown: of each suite, and of the files of tests that the packages bring."""
    lines = ["| suite of | tests | on their class | on ours |", "|---|---|---|---|"]
    for suite, version, theirs, ours in rows:
        counts = (f"{passed} passed, {failed} failed" for passed, failed in (theirs, ours))
        lines.append(f"| {suite.package} {version} | {suite.name} | {' | '.join(counts)} |")
    files = ", ".join(f"{package} {number}" for package, number in brought.items())
    if files:
        lines += ["", f"Files of tests in the source distributions of the systems: {files}."]
    return "\n".join([*lines, "", NOT_APPLICABLE])


# -- as a plugin -------------------------------------------------------------------------------------


def _langgraph_checkpoint() -> None:
    import langgraph.store.memory

    from memory_inspector.adapters.langgraph import InspectedStore

    class Store(InspectedStore):
        def __init__(self, *, index: Any = None) -> None:
            super().__init__(fields=tuple((index or {}).get("fields") or ["$"]))

    langgraph.store.memory.InMemoryStore = Store


def _openai_agents() -> None:
    import agents

    from memory_core import Memory
    from memory_inspector.adapters.openai_agents import InspectedSession

    class Session(InspectedSession):
        def __init__(self, session_id: str, db_path: Any = ":memory:", *_: Any, session_settings: Any = None) -> None:
            uri = None if str(db_path) == ":memory:" else f"sqlite:///{db_path}"
            super().__init__(Memory.from_defaults(session_id, database_uri=uri, token_limit=100_000), session_settings)

        def close(self) -> None:
            self.memory.close()

    agents.SQLiteSession = Session


def pytest_configure() -> None:
    """Put our class in place of theirs."""
    replacing = (_langgraph_checkpoint, _openai_agents)
    if package := os.environ.get(SUBSTITUTE):
        replacing[[suite.package for suite in SUITES].index(package)]()

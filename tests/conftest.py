"""Being here puts this folder on the path, so that tests of every folder find `shared_data` and `engine_fakes`."""

import clean_environment  # noqa: F401, I001 - before anything that could read the user's settings

import gc
import hashlib
import os
import time
from collections import Counter

import own_data
import pytest
from hypothesis import settings
from postgres_kit import own_server, server, shared_server, url  # noqa: F401 - fixtures for tests of every folder
from shared_data import missing_agents, missing_data, shared

EXAMPLES = int(os.environ.get("MEMORY_INSPECTOR_EXAMPLES", "100"))
"""Random inputs of each property that names no number of its own."""
# Without a deadline: no test may fail because the machine was busy.
settings.register_profile("suite", settings.default, deadline=None, max_examples=EXAMPLES)
settings.load_profile("suite")

gc.set_threshold(200_000, 50, 1_000)
"""Objects made between two collections, and how many of the younger come before an older: by default a seventh of the
suite's time goes into looking for cycles among the half million objects of its packages."""


UNTIL = float(os.environ.get("MEMORY_INSPECTOR_UNTIL", "inf"))
"""Time, in seconds since the epoch, after which no test is begun."""
NO_TIME = "no time was left for them; make test-all runs them"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Begin no test after the time is over, before any of its fixtures."""
    if time.time() > UNTIL:
        pytest.skip(NO_TIME)


@pytest.fixture(autouse=True)
def quiet(request, tmp_path_factory):
    """A test marked `quiet` has the machine to itself: the suite's other processes wait at their next test.

    It watches what stands on a screen in tenths of a second, which another browser beside it would change. Who waits
    for the machine holds the door, so that nobody who comes later goes first.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ or os.name == "nt":
        yield
        return
    import fcntl  # not on Windows

    folder = tmp_path_factory.getbasetemp().parent
    alone = request.node.get_closest_marker("quiet") is not None
    with open(folder / "machine.lock", "w") as machine:
        with open(folder / "door.lock", "w") as door:
            fcntl.flock(door, fcntl.LOCK_EX)
            fcntl.flock(machine, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


def pytest_make_parametrize_id(val):
    """Name binary values by their length: gzip writes the time, and each process must collect the same names."""
    if isinstance(val, bytes) and not (val.isascii() and val.decode().isprintable()):
        return f"{len(val)} bytes"
    return None


def pytest_collection_modifyitems(config, items):
    reason = missing_data()
    # Where the real conversations are, slow tests leave out the doubles that we wrote for where they are not.
    if not reason:
        names = {item.nodeid for item in items}
        doubles = [
            item
            for item in items
            if "[own" in item.nodeid and item.nodeid.replace("[own", "[real", 1) in names
            if item.get_closest_marker("slow") or item.get_closest_marker("browser")
        ]
        config.hook.pytest_deselected(items=doubles)
        items[:] = [item for item in items if item not in doubles]
    # Where there is no time for all, each commit begins with other files.
    if order := os.environ.get("MEMORY_INSPECTOR_ORDER"):
        items.sort(key=lambda item: hashlib.sha256(f"{order} {item.path.name}".encode()).digest())
    for item in items:
        if reason and item.get_closest_marker("data"):
            item.add_marker(pytest.mark.skip(reason=reason))


def skipped(config):
    """How many tests were skipped for each reason."""
    reports = config.pluginmanager.get_plugin("terminalreporter").stats.get("skipped", ())
    return Counter(report.longrepr[2].removeprefix("Skipped: ") for report in reports)


def pytest_terminal_summary(terminalreporter, config):
    """Name in one line each what was skipped and why, and what was not asked for."""
    for reason, count in sorted(skipped(config).items()):
        terminalreporter.write_line(f"Skipped {count}: {reason}")
    if config.option.markexpr:
        terminalreporter.write_line(
            f"Ran only tests that are {config.option.markexpr}; make test-all runs all of them."
        )


def pytest_sessionfinish(session):
    """Fail where CI skips anything that could be installed there."""
    if os.environ.get("CI") and "PYTEST_XDIST_WORKER" not in os.environ:
        expected = {missing_data(), missing_agents(), NO_TIME, "wordllama has no wheel for this Python"}
        if set(skipped(session.config)) - expected:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def own_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own_data")
    own_data.write(folder)
    return folder


@pytest.fixture(scope="module", params=["own", pytest.param("real", marks=pytest.mark.data)])
def data_file(request, own_files):
    """The path of a data file by its name, for a promise that holds for our conversations and for the real ones."""
    return shared if request.param == "real" else own_files.joinpath

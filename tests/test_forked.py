"""A server that opens memories before it forks: parent and child both go on, and share nothing but the database."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from engine_fakes import on_file

from memory_core import Database, Memory, Services

FOLDER = Path(__file__).resolve().parent


def forked(url, *blocks):
    """A program that works, forks, and works on in both processes."""
    path = os.pathsep.join([str(FOLDER), str(FOLDER.parent)])
    command = [sys.executable, str(FOLDER / "forked_process.py"), url, *blocks]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, timeout=200)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("blocks", [("Heard", "Facts"), ("Heard", "Facts", "Turns")], ids=["rules", "vectors"])
def test_parent_and_child_go_on_after_a_fork(tmp_path, blocks):
    done = forked(on_file(tmp_path), *blocks)
    assert done.returncode == 0, done.stderr
    memory = Memory.open("s", Database.open(on_file(tmp_path)), services=Services())
    assert len(memory.get_all()) == 30
    assert memory.session.status().in_transit_messages == 0
    assert {(delivery.block, delivery.state) for delivery in memory.session.deliveries()} == {
        (name, "done") for name in blocks
    }

"""The benchmark of hostile requests, small: the server's memory is bounded while they come in at once."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))

import hostile_requests

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells a process's peak of memory"),
]


def test_eight_hostile_requests_at_once_leave_the_server_below_a_gigabyte(capsys):
    """One of each kind; seconds are no part of it, as the machine may be busy."""
    told = hostile_requests.measured(8, 100, with_browser=False)
    assert told["still running"] == 1.0
    assert 0 < told["memory at most, MB"] < 1000
    answered = capsys.readouterr().out.splitlines()
    assert sum(line.endswith(": 200") for line in answered) >= 3, answered

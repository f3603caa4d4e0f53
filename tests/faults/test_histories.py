"""Four processes put into one session on PostgreSQL, while processes, the server or connections die.

`MEMORY_INSPECTOR_PUTS=200` lets each process put more messages.
"""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from engine_fakes import blocks, check_whole, open_memory
from history_kit import CuttingProxy, check_history

PUTS = int(os.environ.get("MEMORY_INSPECTOR_PUTS", "10"))
WORKERS = 4

pytestmark = [pytest.mark.slow, pytest.mark.postgres]


class Workers:
    """Processes that put; what they did is kept in files, which outlive them."""

    def __init__(self, url, folder):
        self.url, self.folder = url, folder
        self.processes = {}
        for number in range(WORKERS):
            self.start(number)

    def start(self, number):
        command = [sys.executable, str(Path(__file__).with_name("history_kit.py")), self.url, str(number), str(PUTS)]
        tests = str(Path(__file__).parent.parent)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([tests, str(Path(tests).parent)])}
        with open(self.folder / f"{number}.{time.monotonic_ns()}", "w") as told:
            self.processes[number] = subprocess.Popen(command, stdout=told, stderr=subprocess.PIPE, env=environment)

    def wait_for(self, puts):
        """Wait until so many puts are acknowledged."""
        deadline = time.monotonic() + 60
        while sum(record["op"] == "put" for record in self.records()) < puts:
            assert time.monotonic() < deadline, "the processes do not put"
            time.sleep(0.05)

    def records(self):
        lines = [line for file in self.folder.iterdir() for line in file.read_text().splitlines(keepends=True)]
        return [json.loads(line) for line in lines if line.endswith("\n")]  # a killed process leaves half a line

    def join(self):
        for process in self.processes.values():
            errors = process.communicate(timeout=120)[1].decode().splitlines()
            # A block that could not learn while the server was away is a warning, and is tried again.
            assert [line for line in errors if not line.startswith("Session 's', block ")] == []
            assert process.returncode == 0


def check(workers, url):
    workers.join()
    memory = open_memory(database_uri=url, memory_blocks=blocks())
    numbers = [worker * 1_000 + number for worker in range(WORKERS) for number in range(PUTS)]
    memory.deliver()
    memory.session.retry()
    check_whole(memory, numbers)
    check_history(workers.records(), [row.id for row in memory.session.messages()])
    memory.session.database.close()


def test_processes_that_are_killed_lose_and_double_nothing(url, tmp_path):
    workers, chance = Workers(url, tmp_path), random.Random(2)
    for death in range(3):
        workers.wait_for(8 + 12 * death)
        number = chance.randrange(WORKERS)
        workers.processes[number].kill()
        workers.processes[number].communicate()
        workers.start(number)
    check(workers, url)


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_server_that_stops_under_load_loses_and_doubles_nothing(own_server, tmp_path, mode):
    server = own_server()
    url = server.new_database()
    workers = Workers(url, tmp_path)
    for restart in range(2):
        workers.wait_for(8 + 16 * restart)
        server.restart(mode)
    check(workers, url)


def test_connections_that_are_cut_lose_and_double_nothing(shared_server, tmp_path):
    url = shared_server.new_database()
    open_memory(database_uri=url, memory_blocks=blocks()).session.database.close()
    with CuttingProxy(shared_server.port) as proxy:
        workers = Workers(url.replace(f":{shared_server.port}/", f":{proxy.port}/"), tmp_path)
        workers.join()
        assert proxy.cuts
    check(workers, url)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda records, final: final.remove("2"), "lost"),
        (lambda records, final: final.append("1"), "twice"),
        (lambda records, final: final.append("9"), "nobody put"),
        (lambda records, final: final.reverse(), "not where"),
        (lambda records, final: records.append({"op": "read", "ids": ["1"], "began": 9.0, "ended": 9.1}), "not see"),
        (lambda records, final: records.append({"op": "read", "ids": ["2"], "began": 0.0, "ended": 0.1}), "beginning"),
    ],
)
def test_the_checker_finds_a_planted_fault(change, sentence):
    records, final = [], ["1", "2"]
    for number in (1, 2):
        records.append({"op": "try", "number": number, "began": float(number)})
        records.append({"op": "put", "number": number, "seq": number, "began": float(number), "ended": number + 0.5})
    check_history(records, final)
    change(records, final)
    with pytest.raises(AssertionError, match=sentence):
        check_history(records, final)

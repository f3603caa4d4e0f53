"""The kill test: what was acknowledged is there, what was flushed was learned once, however often the process dies."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from engine_fakes import blocks, fact_numbers, number_of, on_file, open_memory

from memory_core.events import DeliveryDone, FactsExtracted, VectorsStored, expand
from memory_core.store.block_rows import read_state
from memory_core.store.leases import claim, new_owner
from memory_core.store.tables import lease_table, session_table

ROUNDS = int(os.environ.get("MEMORY_INSPECTOR_KILL_ROUNDS", "20"))
DEATHS = 3
"""Times a process is killed over the same database in a round."""


class Victims:
    """A process that makes processes to be killed."""

    def __init__(self):
        script = Path(__file__).with_name("killed_process.py")
        self._server = subprocess.Popen(
            [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def close(self):
        self._server.stdin.close()
        self._server.stdout.close()
        self._server.wait(20)

    def put_and_die(self, database_uri, first, chance):
        """Start one, kill it at a random moment; the numbers of the messages it acknowledged."""
        print(database_uri, first, chance.randrange(2**31), file=self._server.stdin, flush=True)
        acknowledged = []
        pid = self._read("p")
        while_learning, pause = chance.random() < 0.5, chance.random()
        if while_learning:  # right after a block began to learn for the nth time
            for _ in range(chance.randrange(1, 8)):
                self._read("x", acknowledged)
            time.sleep(pause * 0.004)
        else:
            self._read("a", acknowledged)
            time.sleep(pause * 0.05)
        os.kill(pid, signal.SIGKILL)
        assert self._read("d", acknowledged) == signal.SIGKILL, "it died of something else"
        return acknowledged

    def _read(self, wanted, acknowledged=None):
        """The number of the next line that begins with a letter; acknowledgements on the way are kept."""
        while True:
            letter, number = self._server.stdout.readline().split()
            if letter == "a":
                acknowledged.append(int(number))
            if letter == wanted:
                return int(number)
            assert letter != "d", "it died too early"


@pytest.fixture(scope="module")
def victims():
    made = Victims()
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_nothing_acknowledged_is_lost_and_nothing_learned_twice(victims, tmp_path, seed):
    chance = random.Random(seed)
    uri = on_file(tmp_path)
    acknowledged = []
    for _ in range(DEATHS):
        first = acknowledged[-1] + 1 if acknowledged else 0
        acknowledged += victims.put_and_die(uri, first, chance)

    memory = open_memory(database_uri=uri, memory_blocks=blocks())
    memory.deliver()

    # Every acknowledged message once and in order; a put that died on its way may have got through as well.
    stored = [number_of(message.message.content) for message in memory.session.messages()]
    assert stored == list(range(len(stored)))
    assert acknowledged == list(range(len(acknowledged)))
    assert len(acknowledged) <= len(stored) <= len(acknowledged) + 1
    assert [message.seq for message in memory.session.messages()] == list(range(1, len(stored) + 1))

    # What was flushed was learned once, by every kind of block.
    archived = [number_of(message.content) for message in memory.get_all("archived")]
    assert archived == stored[: len(archived)]
    assert fact_numbers(memory) == archived
    assert [
        [number_of(m.message.content) for m in turn.messages] for turn in memory.retrieval.stored_turns("turns")
    ] == [[number] for number in archived]
    with memory.session.database.read() as connection:
        assert json.loads(read_state(connection, "s", "counter")) == {"count": len(archived), "heard": archived}
    assert {delivery.state for delivery in memory.session.deliveries()} <= {"done"}
    assert memory.session.status().in_transit_messages == 0

    # So says the log.
    learned = {FactsExtracted: [], VectorsStored: []}
    delivered = []
    for record in memory.events():
        if isinstance(record.event, DeliveryDone):
            delivered += record.event.deliveries
        if isinstance(record.event, FactsExtracted):
            learned[FactsExtracted] += expand(record.event.seqs)
        if isinstance(record.event, VectorsStored):
            learned[VectorsStored] += [seq for _, seqs, _ in record.event.nodes for seq in expand(seqs)]
    assert sorted(delivered) == [delivery.id for delivery in memory.session.deliveries()]
    flushed = [number + 1 for number in archived]
    assert learned == {FactsExtracted: flushed, VectorsStored: flushed}

    # Nothing is held by the dead, and the file is whole.
    with memory.session.database.read() as connection:
        left = connection.execute(lease_table.select()).all()
        state = connection.execute(session_table.select()).one()
        assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
    with memory.session.database.write() as connection:
        assert all(claim(memory.session.database, connection, lease.key, new_owner(), 0.0) for lease in left)
    assert (state.queue_messages, state.archived_messages) == (len(stored) - len(archived), len(archived))
    assert state.queue_content == 7 * state.queue_messages

"""Histories of several processes that put into one session, and the check that no put was lost or doubled.

Run as a program, it puts and reads until all its messages are acknowledged, and writes what it did to standard output,
one JSON object a line. Times are those of the machine's monotonic clock, which all processes share.
"""

import json
import random
import socket
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field

MOST_TRIES = 200


def put_and_read(url, worker, messages):
    from engine_fakes import blocks, note, open_memory

    from memory_core.errors import StoreError

    chance, memory = random.Random(worker), None

    def until_answered(what):
        """Call until the database answers, as an agent does that may not lose a message."""
        nonlocal memory
        for _ in range(MOST_TRIES):
            try:
                memory = memory or open_memory(database_uri=url, memory_blocks=blocks())
                return what(memory)
            except StoreError:
                time.sleep(0.02 + chance.random() * 0.1)
        raise SystemExit("the database did not answer")

    for number in range(worker * 1_000, worker * 1_000 + messages):
        began = time.monotonic()
        tell(op="try", number=number, began=began)
        receipt = until_answered(
            lambda m, number=number: m.put(note(number), message_id=str(number), wait=chance.random() < 0.3)
        )
        tell(op="put", number=number, seq=receipt.seqs[0], began=began, ended=time.monotonic())
        if chance.random() < 0.3:
            began = time.monotonic()
            rows = until_answered(lambda m: m.session.messages())
            tell(op="read", ids=[row.id for row in rows], began=began, ended=time.monotonic())


def tell(**record):
    print(json.dumps(record), flush=True)


def check_history(records, final):
    """Assert that `final`, the ids in order, is a history of appends in which all that was observed can have happened.

    Every acknowledged put is there once, at its place; what was acknowledged before another put began precedes it; a
    read saw a beginning of it, with everything that was acknowledged before the read began.
    """
    place = {id: number for number, id in enumerate(final, 1)}
    assert len(place) == len(final), "a message was appended twice"
    tried, puts, reads = {}, [], []
    for record in records:
        if record["op"] == "try":
            tried[record["number"]] = min(record["began"], tried.get(record["number"], record["began"]))
        else:
            (puts if record["op"] == "put" else reads).append(record)
    assert {int(id) for id in final} <= set(tried), "a message was appended that nobody put"
    lost = [put["number"] for put in puts if str(put["number"]) not in place]
    assert not lost, f"acknowledged messages are lost: {lost}"
    moved = [put["number"] for put in puts if place[str(put["number"])] != put["seq"]]
    assert not moved, f"messages are not where they were acknowledged: {moved}"
    for put in puts:
        earlier = [n for n, began in tried.items() if began > put["ended"] and place.get(str(n), 1e9) < put["seq"]]
        assert not earlier, f"{earlier} were put after {put['number']} was acknowledged, and precede it"
    for read in reads:
        assert read["ids"] == final[: len(read["ids"])], "a read saw what was not a beginning of the session"
        unseen = [put["number"] for put in puts if put["ended"] < read["began"] and put["seq"] > len(read["ids"])]
        assert not unseen, f"a read did not see what was acknowledged before: {unseen}"


@dataclass
class CuttingProxy:
    """A TCP proxy on loopback that cuts all its connections from time to time, in the middle of whatever they carry."""

    target: int
    pause: float = 0.25
    connections: list = field(default_factory=list)
    cuts: int = 0

    def __enter__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._ended = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()
        threading.Thread(target=self._cut, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._listener.close()
        self._close()

    def _accept(self):
        while not self._ended.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                client.close()
                continue
            self.connections += [client, server]
            for one, other in ((client, server), (server, client)):
                threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    def _carry(self, one, other):
        with suppress(OSError):
            while data := one.recv(65_536):
                other.sendall(data)
        cut(one, other)

    def _cut(self):
        chance = random.Random(1)
        while not self._ended.wait(self.pause * (0.5 + chance.random())):
            self.cuts += bool(self.connections)
            self._close()

    def _close(self):
        open_ones, self.connections = self.connections, []
        cut(*open_ones)


def cut(*ends):
    for end in ends:
        # Without it the other side would not hear of it while a thread still reads from this socket.
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()


if __name__ == "__main__":
    put_and_read(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

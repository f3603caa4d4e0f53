"""What a session of 100,000 messages costs: each step in a process of its own, as after a restart.

    python benchmarks/large.py [--messages N] [--keep FOLDER] [--only STEP ...] [--base CHECKOUT]

Facts by the offline rules, stored turns, a summary, and a context every fiftieth turn. Vectors come from words hashed
into 384 numbers (see `growth.py`): what is measured is the engine, not the embedding. `waits` is the longest that
somebody else, who asks every 20 ms, waits for the right to write while the step runs. `processor` is that of
the step's first run. `--base` does the same with another checkout, step by step in turn: its session is filled by its
own code, in the folder `base`, and by the same Python; `ratio` is of both builds' processor time, then of their peaks.
"""

import argparse
import json
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from growth import SESSION, HashedWords, packed, turns

from memory_core.blocks import FactExtractionMemoryBlock, StaticMemoryBlock, SummaryMemoryBlock, VectorMemoryBlock

try:
    from memory_core.bundles.bundle import import_bundle, read_bundle, write_bundle
except ImportError:  # in a checkout of an earlier build
    from memory_core.interop.bundle import import_bundle, read_bundle, write_bundle
from memory_core.memory import Memory
from memory_core.messages import ChatMessage
from memory_core.services import Services
from memory_core.sessions.overview import delete_session, list_sessions
from memory_core.store.database import Database

BATCH = 200
"""Messages put at once while the session is filled."""

ROOT = Path(__file__).resolve().parents[1]
FILL = "import large, pathlib, sys; large.fill(pathlib.Path(sys.argv[1]), int(sys.argv[2]))"

QUESTION = "Where does my sister live, and what am I allergic to?"


def opened(file: Path) -> Memory:
    blocks = [
        StaticMemoryBlock(name="about", static_content="The user is called Ada and prefers short answers."),
        FactExtractionMemoryBlock(name="facts", priority=1),
        SummaryMemoryBlock(name="summary", priority=2),
        VectorMemoryBlock(name="turns", priority=3),
    ]
    services = Services(embedder=HashedWords())
    return Memory.from_defaults(
        SESSION, database_uri=f"sqlite:///{file}", memory_blocks=blocks, services=services, token_limit=4_000
    )


def fill(file: Path, messages: int) -> None:
    memory = opened(file)
    batch: list[ChatMessage] = []
    started = time.monotonic()
    for number, (said, answer) in enumerate(turns(messages // 2), 1):
        batch += [ChatMessage(role="user", content=said), ChatMessage(role="assistant", content=answer)]
        if len(batch) == BATCH or number == messages // 2:
            memory.put_messages(batch)
            memory.build_context()
            batch = []
    failed = [served for served in memory.deliver().values() if served.outcome != "done"]
    if failed:
        raise SystemExit(f"not everything was delivered: {failed}")
    seconds = time.monotonic() - started
    print(f"{messages:,} messages filled in {seconds:,.0f} s ({messages / seconds:,.0f} a second)", flush=True)


def reopened(file: Path) -> Memory:
    return Memory.open(SESSION, Database.open(f"sqlite:///{file}"), services=Services(embedder=HashedWords()))


def steps(file: Path) -> dict[str, Callable[[Memory], object]]:
    """By name; each is given the session, opened."""
    bundle = file.with_suffix(".zip")

    def write(memory: Memory) -> object:
        return bundle.write_bytes(write_bundle(memory.session.database, SESSION))

    def take_in(memory: Memory) -> object:
        return import_bundle(memory.session.database, read_bundle(bundle.read_bytes(), bundle.name))

    def erase_copies(memory: Memory) -> object:
        copies = [each.session_id for each in list_sessions(memory.session.database) if each.session_id != SESSION]
        for id in copies:
            delete_session(memory.session.database, id)
        return copies

    return {
        "put": lambda memory: memory.put(ChatMessage(role="user", content=QUESTION)),
        "context": lambda memory: memory.build_context(),
        "search": lambda memory: memory.retrieval.search(QUESTION, block="turns"),
        "all stored turns": lambda memory: memory.retrieval.stored_turns("turns"),
        "history": lambda memory: memory.log.history().turns,
        "trace": lambda memory: memory.trace("allergic to peanuts"),
        "branch": lambda memory: memory.branch(memory.session.status().turns // 2),
        "write a bundle": write,
        "import it": take_in,
        "delete the copies": erase_copies,
    }


class Waits:
    """Asks for the right to write, over and over, and remembers the longest wait. Seconds."""

    def __init__(self, file: Path) -> None:
        self.longest = 0.0
        self._file, self._done = file, threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self) -> "Waits":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _ask(self) -> None:
        connection = sqlite3.connect(self._file, timeout=600, isolation_level=None)
        while not self._done.wait(0.02):
            began = time.monotonic()
            connection.execute("BEGIN IMMEDIATE")
            self.longest = max(self.longest, time.monotonic() - began)
            connection.execute("ROLLBACK")
        connection.close()


def measure(file: Path, name: str) -> None:
    """One step in this process, once as after a restart and once again; one line of JSON."""
    memory = reopened(file)
    seconds, processor = [], []
    with Waits(file) as waits:
        for _ in range(2 if name in ("put", "context", "search", "all stored turns", "history", "trace") else 1):
            began, before = time.monotonic(), time.process_time()
            steps(file)[name](memory)
            seconds.append(round(time.monotonic() - began, 3))
            processor.append(time.process_time() - before)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    row = {"seconds": seconds, "waits": round(waits.longest, 3), "peak": peak, "processor": processor[0]}
    print(json.dumps(row))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=100_000, metavar="N")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="use the session in it; make it where there is none"
    )
    parser.add_argument("--only", nargs="+", metavar="STEP")
    parser.add_argument("--base", type=Path, help="a checkout of the build to compare with")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        return measure(options.keep / "large.db", options.step)
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.keep or Path(temporary)).resolve()
        builds = {folder: ROOT} | ({folder / "base": options.base.resolve()} if options.base else {})
        for place, checkout in builds.items():
            place.mkdir(parents=True, exist_ok=True)
            if not (place / "large.db").exists():
                _, seconds = ran(checkout, "-c", FILL, str(place / "large.db"), str(options.messages))
                rate = options.messages / seconds
                print(f"{checkout}: filled in {seconds:,.0f} s of processor, {rate:,.0f} messages a second")
            print(f"{checkout}: {packed(place / 'large.db') / 1e6:,.0f} MB", flush=True)
        head = "".join(f"{name:>14}" for name in ("first, s", "again, s", "waits, s", "peak, MB", "processor, s"))
        print(f"\n{'':<20}{head * len(builds)}{'ratio' if options.base else '':>8}")
        for name in options.only or steps(folder):
            line, rows = "", []
            for place, checkout in builds.items():
                printed, _ = ran(checkout, __file__, "--keep", str(place), "--step", name)
                row = json.loads(printed.splitlines()[-1])
                first, *again = row["seconds"]
                line += f"{first:>14,.2f}{again[0] if again else 0:>14,.2f}{row['waits']:>14,.2f}{row['peak']:>14,}"
                line += f"{row['processor']:>14,.1f}"
                rows.append(row)
            for what in ("processor", "peak") if options.base else ():
                line += f"{rows[0][what] / rows[1][what]:8.2f}"
            print(f"{name:<20}{line}", flush=True)
    return None


def ran(checkout: Path, *arguments: str) -> tuple[str, float]:
    """Run Python on a checkout in a process of its own; return what it printed, and its processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "PYTHONPATH": f"{checkout}{os.pathsep}{checkout / 'benchmarks'}"}
    command = [sys.executable, *arguments]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, cwd=checkout, env=environment).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return printed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()

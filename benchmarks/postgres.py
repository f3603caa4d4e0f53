"""How many messages a second are put on PostgreSQL, this engine and LlamaIndex's `Memory` side by side.

    python benchmarks/postgres.py [--seconds N] [--url URL] [--base CHECKOUT] [--json FILE]

Messages of 30 tokens are put one by one into queues that are never flushed: on one session, on 16 sessions of one
process (threads here, tasks of one event loop there), and on four processes with four sessions each. A put counts once
it is committed to the disk. Round trips are counted apart, by a proxy, and include those of the news that a process
sends at most four times a second. The server is one of this machine, with the clients on the same processors, unless
`--url` names an empty database elsewhere. `--base`: a checkout of another build, measured as well. Nothing is asserted.
"""

import argparse
import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from engines import NEVER_FLUSHES, sentences
from llama_index.core.llms import ChatMessage as ReferenceMessage
from llama_index.core.memory import Memory as ReferenceMemory

from memory_core.memory import Memory
from memory_core.messages import ChatMessage
from memory_core.store.database import parse_url

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))

from postgres_kit import PostgresServer, find_programs
from postgres_proxy import Proxy

WARM_UP = 12
"""Puts into each session before those that are timed: statements are prepared after some."""

ENGINES = {"ours": "this engine", "reference": "llama-index-core"}
OTHER = "the other build"


@dataclass(frozen=True)
class Row:
    """Puts on so many sessions of so many processes."""

    engine: str
    processes: int
    sessions: int
    """Sessions of each process."""
    puts_a_second: float
    median: float
    """Milliseconds of a put, as `p95`."""
    p95: float
    cpu: float
    """Processor milliseconds of the clients for one put, without those of the server."""
    load: float
    """Load of the machine before, as the average of a minute."""


def put_with_ours(url: str, sessions: int, started: Callable[[], float]) -> list[float]:
    """Put on sessions of this process, a thread each, until the time that `started` returns; return the durations."""
    memories = [
        Memory.from_defaults(f"ours {os.getpid()} {n}", database_uri=url, token_limit=NEVER_FLUSHES)
        for n in range(sessions)
    ]
    texts, durations = sentences(500), []

    def put(memory: Memory, number: int) -> None:
        memory.put(ChatMessage(role="assistant" if number % 2 else "user", content=texts[number % len(texts)]))

    def work(memory: Memory) -> None:
        number = WARM_UP
        while (before := time.perf_counter()) < until:
            put(memory, number)
            durations.append(time.perf_counter() - before)
            number += 1

    for memory in memories:
        for number in range(WARM_UP):
            put(memory, number)
    until = started()
    threads = [threading.Thread(target=work, args=(memory,)) for memory in memories]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return durations


def put_with_reference(url: str, sessions: int, started: Callable[[], float]) -> list[float]:
    """Do the same with LlamaIndex's `Memory`, a task for each session."""
    url = parse_url(url).set(drivername="postgresql+asyncpg").render_as_string(hide_password=False)
    texts, durations = sentences(500), []

    async def put(memory: ReferenceMemory, number: int) -> None:
        role = "assistant" if number % 2 else "user"
        await memory.aput(ReferenceMessage(role=role, content=texts[number % len(texts)]))

    async def work(memory: ReferenceMemory, until: float) -> None:
        number = WARM_UP
        while (before := time.perf_counter()) < until:
            await put(memory, number)
            durations.append(time.perf_counter() - before)
            number += 1

    async def main() -> None:
        memories = [
            ReferenceMemory.from_defaults(
                f"reference {os.getpid()} {n}", async_database_uri=url, token_limit=NEVER_FLUSHES
            )
            for n in range(sessions)
        ]
        for memory in memories:
            for number in range(WARM_UP):
                await put(memory, number)
        until = started()
        await asyncio.gather(*(work(memory, until) for memory in memories))

    asyncio.run(main())
    return durations


PUTTING = {"ours": put_with_ours, "reference": put_with_reference}


def work(engine: str, url: str, sessions: int, seconds: float) -> None:
    """Work as one of the processes: say when it is ready, wait for a line, put, and print the durations."""
    cpu = 0.0

    def started() -> float:
        nonlocal cpu
        print("ready", flush=True)
        sys.stdin.readline()
        cpu = time.process_time()
        return time.perf_counter() + seconds

    durations = PUTTING[engine](url, sessions, started)
    print(json.dumps({"durations": durations, "cpu": time.process_time() - cpu}))


def measure(name: str, url: str, processes: int, sessions: int, seconds: float, base: Path | None) -> Row:
    load = os.getloadavg()[0]
    root = base if name == OTHER else Path(__file__).resolve().parent.parent
    engine = "reference" if name == ENGINES["reference"] else "ours"
    command = [sys.executable, root / "benchmarks/postgres.py", "--work", engine, url, str(sessions), str(seconds)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    workers = [subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(root)}, **pipes) for _ in range(processes)]
    for worker in workers:
        assert worker.stdout.readline() == "ready\n", f"{name} did not start"
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()
    results = [json.loads(worker.communicate()[0]) for worker in workers]
    durations = sorted(duration * 1e3 for result in results for duration in result["durations"])
    return Row(
        name,
        processes,
        sessions,
        puts_a_second=len(durations) / seconds,
        median=statistics.median(durations),
        p95=durations[int(len(durations) * 0.95)],
        cpu=sum(result["cpu"] for result in results) / len(durations) * 1e3,
        load=load,
    )


def round_trips(engine: str, url: str) -> float:
    """Count the round trips of a put, on one session."""
    proxy, puts = Proxy(url), 0
    before = 0

    def started() -> float:
        nonlocal before
        before = proxy.requests
        return time.perf_counter() + 0.5

    puts = len(PUTTING[engine](proxy.url, 1, started))
    counted = (proxy.requests - before) / puts
    proxy.close()
    return counted


def main() -> None:
    if sys.argv[1:2] == ["--work"]:
        return work(sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5]))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=8, help="seconds of each measurement")
    parser.add_argument("--url", help="an empty database to measure with")
    parser.add_argument("--base", type=Path, help="a checkout of the build to compare with")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there as well")
    options = parser.parse_args()
    with ExitStack() as stack:
        url = options.url
        if url is None:
            server = PostgresServer(find_programs(), fsync="on")  # off in tests, as no disk matters there
            stack.callback(server.close)
            url = server.new_database()
        machine = f"Python {platform.python_version()}, {os.cpu_count()} cores"
        trips = {ENGINES[engine]: round_trips(engine, url) for engine in ENGINES}
        print(f"{machine}. Round trips of a put: {', '.join(f'{name} {n:.1f}' for name, n in trips.items())}.")
        print(f"{'':<20}{'processes':>10}{'sessions':>10}{'puts/s':>10}{'median ms':>11}{'p95 ms':>9}", end="")
        print(f"{'client CPU ms':>15}{'load before':>13}")
        rows = []
        for processes, sessions in ((1, 1), (1, 16), (4, 4)):
            for name in (*ENGINES.values(), *([OTHER] if options.base else [])):
                row = measure(name, url, processes, sessions, options.seconds, options.base)
                print(f"{row.engine:<20}{processes:>10}{sessions:>10}{row.puts_a_second:>10.0f}", end="")
                print(f"{row.median:>11.1f}{row.p95:>9.1f}{row.cpu:>15.2f}{row.load:>13.1f}", flush=True)
                rows.append(row)
    if options.json:
        report = {"machine": machine, "round_trips": trips, "rows": [asdict(row) for row in rows]}
        options.json.write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()

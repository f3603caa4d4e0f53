"""What a put, a context and a what-if cost, this engine and LlamaIndex's `Memory` side by side.

    python benchmarks/speed.py [--quick] [--base CHECKOUT] [--json FILE]

Both run in this process, in turn, on the same conversations, each on a SQLite file of its own. CPU time is
that of the whole process, database threads included: it is the number to compare, since wall time depends
on what else the machine does. Each number is the median of several batches. `--base`: puts are measured against
another build as well, each build in a process of its own, in turn, beside a bare commit. Nothing is asserted.
"""

import argparse
import asyncio
import gc
import json
import os
import platform
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from engines import NEVER_FLUSHES, Ours, Reference, sentences

from memory_core.config import MemoryConfig
from memory_core.store.message_rows import sizes_between

WARM_UP = 3
"""Puts before those that are timed: the other side has just run."""

STATIC = "The user is called Ada, lives in Vienna, works as a translator and prefers short answers."


@dataclass(frozen=True)
class Cost:
    """Milliseconds per call."""

    cpu: float
    wall: float


@dataclass(frozen=True)
class Row:
    what: str
    ours: Cost | None
    reference: Cost | None
    ratio: float | None
    """How many times more CPU the reference takes; None without a reference."""
    goal: str
    met: bool | None
    """None where the row is for information."""


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    windows: dict[int, tuple[int, int]]
    """Active messages: (sessions, puts timed in each)."""
    archived: int
    stream: int
    """Messages put one by one through default limits."""
    batches: int


FULL = Plan({10: (9, 10), 100: (5, 12), 1_000: (3, 12), 3_000: (3, 10)}, archived=100_000, stream=2_000, batches=9)
QUICK = Plan({10: (5, 10), 100: (3, 10), 1_000: (1, 12), 3_000: (1, 10)}, archived=10_000, stream=300, batches=5)


class Bench:
    """The plan, where the files go, and the event loop of the reference."""

    def __init__(self, plan: Plan, folder: Path, runner: asyncio.Runner) -> None:
        self.plan = plan
        self._folder = folder
        self._runner = runner

    def ours(self, session: str, **options: object) -> Ours:
        return Ours(self._folder, session, **options)

    def reference(self, session: str, **options: object) -> Reference:
        return Reference(self._folder, session, runner=self._runner, **options)

    def put(self) -> Iterator[Row]:
        """One put in a queue of so many messages; nothing is flushed."""
        rows = []
        for window, (sessions, puts) in self.plan.windows.items():
            ours, reference = [], []
            for number in range(sessions):
                texts = sentences(window + WARM_UP + puts, seed=window + number)
                a = self.ours(f"put {window} {number}", token_limit=NEVER_FLUSHES)
                b = self.reference(f"put {window} {number}", token_limit=NEVER_FLUSHES)
                for side, costs in ((a, ours), (b, reference)):
                    side.fill(texts[:window])
                    costs += measured_puts(side, texts[window:])
                    side.close()
            times = 100 if window == 3_000 else 5
            row = compared(f"put, {window:,} active messages", ours, reference, f"≤ 1 ms, ≥ {times} ×")
            yield replace(row, met=row.ours.cpu <= 1 and row.ratio is not None and row.ratio >= times)
            rows.append((row.ours.cpu, median(reference).cpu))
        growth, theirs = rows[-1][0] / rows[0][0], rows[-1][1] / rows[0][1]
        what = f"  3,000 against 10: {growth:.2f} × (reference: {theirs:.0f} ×)"
        yield Row(what, None, None, None, "≤ 1.2 ×", growth <= 1.2)

    def put_of_builds(self, base: Path) -> Iterator[Row]:
        """Measure a put of this build and of another (as the reference), each in its process, and a bare commit."""
        bare = median(bare_commits(self._folder / "bare.db", 500))
        yield Row("bare commit of three statements", bare, None, None, "", None)
        for window in (10, 1_000, 3_000):
            costs: dict[Path, list[Cost]] = {}
            with ExitStack() as stack:
                workers = {}
                for root in (Path(__file__).resolve().parent.parent, base):
                    folder = stack.enter_context(tempfile.TemporaryDirectory())
                    workers[root] = subprocess.Popen(
                        [sys.executable, __file__, "--work", folder, str(window)],
                        env=os.environ | {"PYTHONPATH": str(root)},
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        text=True,
                    )
                    stack.callback(workers[root].communicate)
                for _ in range(self.plan.batches * 2):
                    for root, worker in workers.items():
                        worker.stdin.write("go\n")
                        worker.stdin.flush()
                        costs.setdefault(root, []).append(Cost(*json.loads(worker.stdout.readline())))
            ours, other = costs.values()
            row = compared(f"put, {window:,} active messages, and the other build", ours, other, "≥ 2.5 ×, 8 bare")
            met = row.ratio is not None and row.ratio >= 2.5 and row.ours.cpu <= 8 * bare.cpu
            yield replace(row, met=met)

    def put_with_archive(self) -> Iterator[Row]:
        """One put in a queue of 100 messages, with and without a long archive."""
        archived, window, puts = self.plan.archived, 100, 5
        costs: dict[str, list[Cost]] = {}
        sides = {
            "ours without": self.ours("archive none", token_limit=NEVER_FLUSHES),
            "ours": self.ours("archive", token_limit=NEVER_FLUSHES),
            "reference": self.reference("archive", token_limit=NEVER_FLUSHES),
        }
        for name, side in sides.items():
            if name != "ours without":
                for start in range(0, archived, 5_000):
                    side.archive(sentences(min(5_000, archived - start), seed=start))
            side.fill(sentences(window, seed=-1))
        for batch in range(self.plan.batches):
            new = sentences(WARM_UP + puts, seed=-3 - batch)
            for name, side in sides.items():
                costs.setdefault(name, []).extend(measured_puts(side, new))
        for side in sides.values():
            side.close()
        yield compared(f"put, {archived:,} archived messages", costs["ours"], costs["reference"])
        without, ours = median(costs["ours without"]), median(costs["ours"])
        growth = ours.cpu / without.cpu
        what = f"  against none archived ({without.cpu:.2f} ms): {growth:.2f} ×"
        yield Row(what, None, None, None, "≤ 1.2 ×", growth <= 1.2)

    def stream(self) -> Iterator[Row]:
        """Messages one by one through default limits, in turns of 100."""
        a, b = self.ours("stream"), self.reference("stream")
        texts = sentences(self.plan.stream, seed=7)
        ours, reference = [], []
        for start in range(0, len(texts), 100):
            first, part = texts[start : start + WARM_UP], texts[start + WARM_UP : start + 100]
            for side, costs in ((a, ours), (b, reference)):
                side.put(first)
                costs.append(measure(lambda side=side, part=part: side.put(part), len(part)))
        left = f"{a.active()} and {b.active()}"
        a.close()
        b.close()
        what = f"{len(texts):,} messages one by one, default limits (left in the queues: {left})"
        mine, theirs = mean(ours), mean(reference)
        ratio = theirs.cpu / mine.cpu
        full = len(texts) == FULL.stream
        yield Row(what, mine, theirs, ratio, "≥ 50 ×" if full else "≥ 50 × of 2,000", ratio >= 50 if full else None)

    def contexts(self) -> Iterator[Row]:
        """A context with one static block; first from empty caches, then as in a running chat."""
        texts = sentences(1_000, seed=8)
        a = self.ours("contexts", static=STATIC, token_limit=NEVER_FLUSHES)
        b = self.reference("contexts", static=STATIC, token_limit=NEVER_FLUSHES)
        cold: tuple[list[Cost], list[Cost]] = ([], [])
        warm: tuple[list[Cost], list[Cost]] = ([], [])
        for side in (a, b):
            side.fill(texts)
            side.get(1)
        for _ in range(self.plan.batches):
            for side, cold_costs, warm_costs in zip((a, b), cold, warm, strict=True):
                side.reopen()
                cold_costs.append(measure(lambda side=side: side.get(1), 1))
                warm_costs.append(measure(lambda side=side: side.get(4), 4))
        a.close()
        b.close()
        what = "build_context, recorded, 1,000 active, one static block"
        row = compared(what, *warm, "≥ 10 ×")
        yield replace(row, met=row.ratio is not None and row.ratio >= 10)
        yield compared("  the first one after opening the session", *cold)

    def what_if(self) -> Iterator[Row]:
        """Plan a session's flushes again under other limits, from its sizes alone."""
        from memory_inspector.lab.sizes import replay_flushes  # not where a former build puts

        a = self.ours("what if")
        for start in range(0, 10_000, 1_000):
            a.fill(sentences(1_000, seed=start))
        with a.memory.session.database.read() as connection:
            sizes = sizes_between(connection, "what if", after=0)
        limits = [4_000 + 1_000 * batch for batch in range(self.plan.batches)]
        flushes = len(replay_flushes(sizes, MemoryConfig(token_limit=limits[0])))
        costs = [
            measure(lambda limit=limit: replay_flushes(sizes, MemoryConfig(token_limit=limit)), 1) for limit in limits
        ]
        cost = median(costs)
        what = f"what-if: plan 10,000 messages again ({flushes} flushes)"
        yield Row(what, cost, None, None, "< 100 ms", cost.cpu < 100)

        def read() -> None:
            with a.memory.session.database.read() as connection:
                sizes_between(connection, "what if", after=0)

        yield Row("  reading their sizes", median([measure(read, 1) for _ in limits]), None, None, "", None)
        a.close()


def measured_puts(side: Ours | Reference, texts: list[str]) -> list[Cost]:
    """The cost of each put, after a few that bring this side back into the processor's caches."""
    side.put(texts[:WARM_UP])
    gc.collect()
    return [measure(lambda text=text: side.put([text])) for text in texts[WARM_UP:]]


def measure(action: Callable[[], object], calls: int = 1) -> Cost:
    """The cost per call of an action that makes so many."""
    gc.freeze()  # what both sides hold is not scanned meanwhile: each pays for its own garbage alone
    wall, cpu = time.perf_counter(), time.process_time()
    action()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    gc.unfreeze()
    return Cost(cpu / calls * 1e3, wall / calls * 1e3)


def median(costs: list[Cost]) -> Cost:
    return Cost(statistics.median(c.cpu for c in costs), statistics.median(c.wall for c in costs))


def mean(costs: list[Cost]) -> Cost:
    return Cost(statistics.fmean(c.cpu for c in costs), statistics.fmean(c.wall for c in costs))


def work(folder: str, window: int) -> None:
    """Work as one of the builds: at each line put some messages, and print what one took."""
    side = Ours(Path(folder), "builds", token_limit=NEVER_FLUSHES)
    side.fill(sentences(window))
    for number, _ in enumerate(sys.stdin, 1):
        cost = median(measured_puts(side, sentences(WARM_UP + 50, seed=number)))
        print(json.dumps([cost.cpu, cost.wall]), flush=True)
    side.close()


def bare_commits(file: Path, times: int) -> list[Cost]:
    """Store a text, a row and a number in one transaction each time, with the settings of our databases."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "secure_delete=ON"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("CREATE TABLE texts (hash TEXT PRIMARY KEY, data TEXT)")
        connection.execute(
            "CREATE TABLE messages (session TEXT, seq INTEGER, content TEXT, PRIMARY KEY (session, seq))"
        )
        connection.execute("CREATE TABLE sessions (id TEXT PRIMARY KEY, next_seq INTEGER)")
        connection.execute("INSERT INTO sessions VALUES ('s', 0)")

        def commit(number: int) -> None:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO texts VALUES (?, ?)", (f"{number:032}", "word " * 30))
            connection.execute("INSERT INTO messages VALUES ('s', ?, ?)", (number, f"{number:032}"))
            connection.execute("UPDATE sessions SET next_seq = ? WHERE id = 's'", (number,))
            connection.execute("COMMIT")

        return [measure(lambda number=number: commit(number), 1) for number in range(times)]


def compared(what: str, ours: list[Cost], reference: list[Cost], goal: str = "") -> Row:
    mine, theirs = median(ours), median(reference)
    return Row(what, mine, theirs, theirs.cpu / mine.cpu, goal, None)


def printed(row: Row) -> str:
    ours = f"{row.ours.cpu:9.2f}{row.ours.wall:9.2f}" if row.ours else ""
    reference = f"{row.reference.cpu:11.2f}{row.reference.wall:9.2f}" if row.reference else ""
    ratio = f"{row.ratio:8.1f} ×" if row.ratio else ""
    verdict = "" if row.met is None else "pass" if row.met else "miss"
    return f"{row.what:<76}{ours:18}{reference:20}{ratio:10}  {row.goal:<17}{verdict}".rstrip()


def main() -> None:
    if sys.argv[1:2] == ["--work"]:
        return work(sys.argv[2], int(sys.argv[3]))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, a shorter archive and stream")
    parser.add_argument("--base", type=Path, help="a checkout of the build to compare with")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there as well")
    options = parser.parse_args()
    machine = f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    print(f"Milliseconds per call: CPU of the whole process, and wall. {machine}.")
    print(f"{'':<76}{'ours':>9}{'wall':>9}{'reference':>11}{'wall':>9}{'ratio':>8}    goal")
    rows = []
    gc.collect()
    gc.freeze()  # what importing LlamaIndex left in memory is not to be searched for garbage in anybody's puts
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        bench = Bench(QUICK if options.quick else FULL, Path(folder), runner)
        builds = [partial(bench.put_of_builds, options.base.resolve())] if options.base else []
        for part in (*builds, bench.put, bench.put_with_archive, bench.stream, bench.contexts, bench.what_if):
            for row in part():
                print(printed(row), flush=True)
                rows.append(row)
    if options.json:
        options.json.write_text(json.dumps({"machine": machine, "rows": [asdict(row) for row in rows]}, indent=2))


if __name__ == "__main__":
    main()

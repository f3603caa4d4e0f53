"""Measure what grows with messages, sessions and tenants, how steeply, and where that leads at ten million messages.

    python benchmarks/slopes.py [--sizes N ...]

Each size has a database of its own, each measurement a process of its own: the session is opened there for the first
time. Times are of the processor, the least of three processes. `1,000 more` is the slope of the line through the sizes
(least squares), `at ten million` what that line reaches there: one session of ten million messages, or ten thousand
sessions of a thousand. Vectors come from words hashed into 384 numbers (see `growth.py`).
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from growth import SESSION, HashedWords, packed, turns
from large import QUESTION

from memory_core.blocks import VectorMemoryBlock
from memory_core.memory import Memory
from memory_core.messages import ChatMessage
from memory_core.services import Services
from memory_core.sessions.overview import list_sessions

BATCH = 500
FAR = 10_000_000
"""Messages of the last column."""
OF_A_SESSION = 1_000
"""Messages of each session where sessions are counted."""
ROUNDS = 3
FLAT = 1.1
"""Largest share that the value of the largest size may have of that of the smallest where nothing grows."""

Measured = dict[str, float]


def messages(count: int) -> list[ChatMessage]:
    roles = ("user", "assistant")
    said = [(role, text) for turn in turns(-(-count // 2)) for role, text in zip(roles, turn, strict=True)]
    return [ChatMessage(role=role, content=text) for role, text in said[:count]]


def opened(file: Path, session: str, tenant: str = "") -> Memory:
    return Memory.from_defaults(
        session,
        database_uri=f"sqlite:///{file}",
        tenant=tenant,
        memory_blocks=[VectorMemoryBlock(name="turns")],
        services=Services(embedder=HashedWords()),
        token_limit=4_000,
    )


def one_session(file: Path, count: int) -> None:
    memory, rest = opened(file, SESSION), messages(count)
    for start in range(0, count, BATCH):
        memory.put_messages(rest[start : start + BATCH])
    memory.deliver()
    memory.session.database.close()


def many_sessions(file: Path, count: int) -> None:
    few = messages(4)
    for number in range(count):
        memory = opened(file, f"{SESSION}-{number}")
        memory.put_messages(few)
        memory.session.database.close()


def many_tenants(file: Path, count: int) -> None:
    for number in range(count):
        memory = opened(file, SESSION, tenant=f"tenant-{number}")
        memory.put_messages(messages(4))
        memory.session.database.close()


FILLED: dict[str, tuple[Callable[[Path, int], None], int, tuple[str, ...]]] = {
    "messages": (one_session, 1, ("put", "first context", "next context", "history")),
    "sessions": (many_sessions, OF_A_SESSION, ("put", "list")),
    "tenants": (many_tenants, 0, ("put", "list")),
}
"""By what grows: how a database is filled, messages that one more stands for, what is measured."""


def measure(file: Path, grows: str, what: str) -> Measured:
    """Return processor seconds of one operation, and the highest memory of this process in MB."""
    tenant, session = {"messages": ("", SESSION), "sessions": ("", f"{SESSION}-0"), "tenants": ("tenant-0", SESSION)}[
        grows
    ]
    memory = opened(file, session, tenant)
    act: Callable[[], object] = {
        "put": lambda: memory.put(ChatMessage(role="user", content=QUESTION)),
        "first context": memory.build_context,
        "next context": memory.build_context,
        "history": lambda: memory.log.history().turns,
        "list": lambda: list_sessions(memory.session.database),
    }[what]
    if what in ("put", "next context"):
        act()  # the first one also loads modules
    started = time.process_time()
    act()
    seconds = time.process_time() - started
    memory.session.database.close()
    # Of this program alone: `ru_maxrss` would be at least that of the process that filled the database.
    peak = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    return {what: seconds, f"{what}, peak": int(peak[1]) / 1024 if peak else 0.0}


def in_a_process(file: Path, grows: str, what: str) -> Measured:
    command = [sys.executable, __file__, "--measure", str(file), grows, what]
    taken = [json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(ROUNDS)]
    return {name: min(each[name] for each in taken) for name in taken[0]}


def size_up(grows: str, sizes: Sequence[int]) -> None:
    fill, stands_for, operations = FILLED[grows]
    rows: list[Measured] = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "memory.db"
            fill(file, size)
            measured = {"file": packed(file) / 1e6}
            for what in operations:
                measured |= in_a_process(file, grows, what)
        rows.append(measured)
    print(f"\n{grows:<26}{_columns(sizes, ',')}{'1,000 more':>14}{'at ten million':>18}")
    for name in rows[0]:
        unit, factor = ("MB", 1) if name == "file" or name.endswith("peak") else ("ms", 1_000)
        values = [row[name] * factor for row in rows]
        slope, start = np.polyfit(sizes, values, 1)
        grew = values == sorted(values) and values[-1] > FLAT * values[0]
        far = (f"{start + slope * FAR / stands_for:,.0f}" if grew else "flat") if stands_for else ""
        print(f"{name + ', ' + unit:<26}{_columns(values, ',.1f')}{slope * 1_000:>14,.2f}{far:>18}", flush=True)


def _columns(values: Sequence[float], form: str) -> str:
    return "".join(f"{value:>12{form}}" for value in values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[5_000, 10_000, 20_000], metavar="N", help="messages")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        file, grows, what = options.measure
        print(json.dumps(measure(Path(file), grows, what)))
        return
    size_up("messages", options.sizes)
    size_up("sessions", [size // 10 for size in options.sizes])
    size_up("tenants", [size // 100 for size in options.sizes])


if __name__ == "__main__":
    main()

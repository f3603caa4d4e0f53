"""What it takes to follow a piece of information through a long session: the first trace of a process, and later ones.

    python benchmarks/trace.py [--messages N ...] [--keep FOLDER]

The session is that of `large.py`. `first` reads the log and the words; what follows is measured when they are there.
"""

import argparse
import tempfile
import time
from pathlib import Path

from large import fill, reopened

from memory_core.events import Ref
from memory_core.memory import Memory
from memory_core.messages import message_text

GOALS = {10_000: 0.2, 100_000: 1.0}
"""Seconds of a trace once the history was read, by messages."""

TIMES = 5
"""The middle one counts."""


def targets(memory: Memory) -> dict[str, str | Ref]:
    """What is followed, by what it is called in the table."""
    history = memory.log.history()
    fact = next(record.event for record in history.records if record.kind == "fact_added")
    middle = message_text(memory.session.messages(last=3)[0].message)
    return {
        "a word of nearly all": "the",
        "said often": "allergic to peanuts",
        "said once": middle,
        "never said": "quetzal zeppelin",
        "a fact by its number": Ref.of("fact", getattr(fact, "fact", 1)),
    }


def seconds(memory: Memory, target: str | Ref) -> float:
    began = time.perf_counter()
    memory.trace(target)
    return time.perf_counter() - began


def measure(file: Path, messages: int) -> None:
    memory = reopened(file)
    first = seconds(memory, "allergic to peanuts")
    goal = GOALS.get(messages, 1.0)
    print(f"\n{messages:,} messages: first {first:.2f} s; then, goal < {goal * 1000:,.0f} ms")
    for name, target in targets(memory).items():
        middle = sorted(seconds(memory, target) for _ in range(TIMES))[TIMES // 2]
        print(f"  {name:<24}{middle * 1000:8,.0f} ms  {'pass' if middle < goal else 'miss'}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, nargs="+", default=[10_000, 100_000], metavar="N")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="use the session in it (`large.py --keep`)")
    options = parser.parse_args()
    for messages in options.messages:
        with tempfile.TemporaryDirectory() as temporary:
            file = (options.keep or Path(temporary)) / "large.db"
            if not file.exists():
                fill(file, messages)
            measure(file, messages)


if __name__ == "__main__":
    main()

"""How fast long messages are taken in, and that nothing is lost when the process is killed in between.

    python benchmarks/intake.py BEAM.json... [--messages N]

A process with the local embedding model and the default limits puts the messages one by one (BEAM has some 500 tokens
each) and is killed half way; a second one goes on. What is counted is until the last put returns; then until every
vector is there. At the end each message is in the queue or stored with a vector, once.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from recall_data import read_conversations

from memory_core import ChatMessage, FactExtractionMemoryBlock, Memory, VectorMemoryBlock, list_sessions
from memory_core.store.database import Database

SESSION = "long messages"


def opened(file: Path) -> Memory:
    blocks = [FactExtractionMemoryBlock(name="facts", priority=1), VectorMemoryBlock(name="turns", priority=2)]
    return Memory.from_defaults(SESSION, database_uri=f"sqlite:///{file}", memory_blocks=blocks)


def messages_of(files: list[Path], most: int) -> list[ChatMessage]:
    lines = [line for conversation in read_conversations(files) for line in conversation.lines]
    return [line.message(inline=True) for line in lines][:most]


def put_all(file: Path, messages: list[ChatMessage]) -> None:
    memory = opened(file)
    memory.get("warm up")
    print("ready", flush=True)
    for number, message in enumerate(messages):
        memory.put(message, message_id=str(number))
    print("put", flush=True)
    memory.deliver()
    print("embedded", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, nargs="+", metavar="BEAM.json")
    parser.add_argument("--messages", type=int, default=1_000, metavar="N")
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    messages = messages_of(options.data, options.messages)
    if options.into:
        return put_all(options.into, messages)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "intake.db"
        command = [
            sys.executable,
            __file__,
            *map(str, options.data),
            "--messages",
            str(len(messages)),
            "--into",
            str(file),
        ]

        def begin() -> "subprocess.Popen[str]":
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            return process

        process = begin()
        database = Database.open(f"sqlite:///{file}")
        while (
            list_sessions(database)[0].queue_messages + list_sessions(database)[0].archived_messages
            < len(messages) // 2
        ):
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        killed = Memory.open(SESSION, database, services=opened(file).session.services)
        had = len(killed.session.messages())
        without = killed.retrieval.under_other_embedders("turns")
        process, began = begin(), time.monotonic()
        assert process.stdout is not None
        process.stdout.readline()
        taken = time.monotonic() - began
        process.stdout.readline()
        embedded = time.monotonic() - began
        process.wait()
        memory = Memory.open(SESSION, database, services=killed.session.services)
        words = sum(stored.tokens.content for stored in memory.session.messages()) / len(messages)
        stored = [
            seq for turn in memory.retrieval.stored_turns("turns") for seq in (message.seq for message in turn.messages)
        ]
        queue = [row.seq for row in memory.session.messages("active")]
        left = len(messages) - had
        print(f"{len(messages):,} messages of {words:,.0f} tokens")
        print(f"killed after {had:,}, of which {without:,} had no vector")
        print(f"{left / taken:,.0f} messages a second put, {left / embedded:,.1f} with their vectors")
        whole = sorted([*stored, *queue]) == list(range(1, len(messages) + 1))
        bare = memory.retrieval.under_other_embedders("turns")
        print(f"each message once, in the queue or stored: {whole}; without a vector: {bare}")
        print(json.dumps({"put_per_second": round(left / taken, 1), "nothing_lost": whole and not bare}))
    return None


if __name__ == "__main__":
    main()

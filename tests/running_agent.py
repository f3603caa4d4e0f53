"""An agent in a process of its own: it says what it is told to, and answers with the prompt that its model would get.

Run as a program: a database, a session and JSON of what its constructor is given; then one message a line. For each it
prints its prompt, a line of JSON, and puts the answer "Noted.".
"""

import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from engine_fakes import HashEmbedder, NoteExtractor

from memory_core import Memory, Services
from memory_core.blocks.facts import FactExtractionMemoryBlock
from memory_core.blocks.static import StaticMemoryBlock


def blocks(rules):
    return [
        StaticMemoryBlock(name="rules", static_content=rules, priority=0),
        FactExtractionMemoryBlock(name="facts", llm=NoteExtractor(), deliver_on="turn"),
    ]


def made(database_uri, session_id, *, rules, token_limit):
    """The agent's memory, as its program makes it at every start."""
    return Memory.from_defaults(
        session_id,
        database_uri=database_uri,
        memory_blocks=blocks(rules),
        token_limit=token_limit,
        services=Services(embedder=HashEmbedder()),
    )


def work(database_uri, session_id, given):
    memory = made(database_uri, session_id, **given)
    for line in sys.stdin:
        memory.put({"role": "user", "content": line.strip()})
        context = memory.build_context()
        memory.put_messages([{"role": "assistant", "content": "Noted."}], end_turn=True)
        print(json.dumps({"prompt": "\n".join(m.content for m in context.messages), "limit": context.plan.token_limit}))
        sys.stdout.flush()


class RunningAgent:
    def __init__(self, process):
        self.process = process
        self.pid = process.pid

    def say(self, words):
        """Say something; return the prompt that was sent for it, and its limit."""
        self.process.stdin.write(f"{words}\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        return answer["prompt"], answer["limit"]

    def kill(self):
        self.process.kill()
        self.process.wait(20)


@contextmanager
def running_agent(database_uri, session_id, *, rules="Be brief.", token_limit=4_000):
    """The agent at work, killed at the end if it was not before."""
    given = json.dumps({"rules": rules, "token_limit": token_limit})
    command = [sys.executable, __file__, database_uri, session_id, given]
    folder = Path(__file__).parent
    with subprocess.Popen(
        command, cwd=folder.parent, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        agent = RunningAgent(process)
        try:
            yield agent
        finally:
            agent.kill()


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))

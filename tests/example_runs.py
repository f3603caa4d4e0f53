"""The programs of examples/, run as a user runs them: each a process in an empty folder, with a scripted endpoint."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from models.scripted_server import ScriptedServer, Step, chunk, completion, streamed

from memory_core import Database, Memory, Services
from memory_core.systems import KnowledgeGraph

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
ALLERGY = "allergic to nuts"


class Run(NamedTuple):
    folder: Path
    printed: str
    prompts: list
    """The messages of each request to the endpoint, as JSON text."""

    def memory(self, session_id):
        """A session of the database that the program left behind."""
        return Memory.open(session_id, Database.open(f"sqlite:///{self.folder}/agent.db"), services=Services())

    def shows(self, session_id, phrase=ALLERGY):
        """Assert that the phrase reached the last prompt of a session, and that the program printed its trace."""
        trace = self.memory(session_id).trace(phrase)
        assert trace.reached, trace.sentence
        assert trace.sentence in self.printed


def run(program, folder, *script, **environment):
    """Run a program to its end; return what it printed and sent."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("MEMORY_INSPECTOR_", "OTEL_"))
    }
    with ScriptedServer(*script) as server:
        variables = {
            "PYTHONPATH": str(ROOT),
            "OPENAI_BASE_URL": server.url,
            "OPENAI_API_KEY": "none",
            "OPENAI_MODEL": "m",
            **environment,
        }
        done = subprocess.run(
            [sys.executable, EXAMPLES / program],
            cwd=folder,
            env=inherited | variables,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=180,
        )
        assert done.returncode == 0, done.stderr
        assert not re.search("not (kept|recorded|flushed)", done.stderr), "a warning of an adapter"
        assert "memory-inspector --database agent.db" in done.stdout
        assert all(body["model"] == "m" for body in server.bodies)
        return Run(folder, done.stdout, [json.dumps(body["messages"]) for body in server.bodies])


def say(text, body):
    """An answer in the form that a request asks for."""
    return streamed(text) if body.get("stream") else completion(text)


def call(body, name, **arguments):
    """A call of a tool in the form that a request asks for."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    called = {"id": f"c{len(body['messages'])}", "type": "function", "function": function}
    if body.get("stream"):
        return Step(stream=[chunk(tool_calls=[{"index": 0, **called}]), chunk(finish="tool_calls"), "[DONE]"])
    return completion(None, finish="tool_calls", tool_calls=[called])


def cook(body):
    """A model that looks at the market when it is asked to, and else answers in a sentence."""
    last = json.dumps(body["messages"][-1])
    if "Look at the market" in last and body.get("tools"):
        return call(body, "market", day="Friday")
    return say(f"Message {len(body['messages'])} is answered by fish, rice and forty minutes of work.", body)


# -- the examples, each with what must hold after it ran ---------------------------------------------------------------


def dinner(program, session_id, folder):
    """The last prompt holds the allergy as a fact, what was said of it has left the queue, and a second run goes on."""
    first, second = run(program, folder, cook), run(program, folder, cook)
    assert f"The user is {ALLERGY}" in first.prompts[-1]
    assert "Hello! I am Ana" not in first.prompts[-1].partition("</memory>")[2]
    assert f"The user is {ALLERGY}" in second.prompts[0]
    second.shows(session_id)
    asked = second.printed.count("> ")
    assert second.memory(session_id).session.status().turns == 2 * asked
    return second


def plain_loop(folder):
    dinner("plain_loop.py", "plain-loop", folder)


def memory_tools(folder):
    streams = {"stream": True, "messages": []}
    steps = [
        call(streams, "core_memory_append", label="Human", content="Ana lives in Faro."),
        say("Noted.", streams),
        call(streams, "core_memory_replace", label="Human", old_content="Faro", new_content="Porto"),
        say("Noted.", streams),
        say("In Porto.", streams),
    ]
    ran = run("memory_tools.py", folder, *steps)
    assert "Ana lives in Porto." in ran.prompts[-1]
    revisions = ran.memory("memory-tools").blocks.revisions("Human")
    assert [(revision.actor, revision.text) for revision in revisions] == [
        ("engine", ""), ("agent", "Ana lives in Faro."), ("agent", "Ana lives in Porto."),
    ]  # fmt: skip
    assert "turn 2: core_memory_replace of Human, done" in ran.printed
    ran.shows("memory-tools", "Porto")


def mcp_client(folder):
    once = {"messages": []}
    ana = {"name": "Ana", "entityType": "person", "observations": [f"is {ALLERGY}"]}
    steps = [
        call(once, "create_entities", entities=[ana]),
        say("Noted.", once),
        call(once, "search_nodes", query="Ana"),
        say("Only without nuts.", once),
    ]
    ran = run("mcp_client.py", folder, *steps)
    assert ALLERGY not in ran.prompts[2], "the second question comes without what was said before it"
    assert ALLERGY in ran.prompts[3], "and what the tool finds"
    graph = KnowledgeGraph("knowledge-graph", database_uri=f"sqlite:///{folder}/agent.db")
    assert graph.search_nodes("nuts") == {"entities": [ana], "relations": []}
    assert f"Ana: is {ALLERGY}" in ran.printed.partition("Facts")[2]


def opentelemetry_spans(folder):
    ran = run("opentelemetry_spans.py", folder, cook)
    learned = [f"create_memory session:opentelemetry/facts f{number}" for number in (1, 2, 3)]
    lines = ran.printed.splitlines()
    assert [line for line in lines if line in learned] == learned
    assert "search_memory session:opentelemetry/turns" in lines
    assert [line for line in lines if line.startswith("turn ")] == [f"turn {number}" for number in (1, 2, 3, 4)]
    ran.shows("opentelemetry")


def reminders_plugin(folder):
    ran = run("reminders_plugin/agent.py", folder, cook)
    assert "- buy two lemons\\n- call Rui about the wine" in ran.prompts[-1]
    assert "In the prompt of turn 4, in the content of reminders" in ran.printed


def llamaindex_agent(folder):
    dinner("llamaindex_agent.py", "llamaindex", folder)


def openai_agents_session(folder):
    ran = dinner("openai_agents_session.py", "openai-agents", folder)
    assert "earlier_turns" in ran.prompts[-1]


def langchain_agent(folder):
    ran = dinner("langchain_agent.py", "langchain", folder)
    built = ran.memory("langchain").events(kinds=["context_built"])
    assert str([record.event.total for record in built]) in ran.printed


def pydantic_ai_agent(folder):
    dinner("pydantic_ai_agent.py", "pydantic-ai", folder)


def langgraph_store(folder):
    def answers(body):
        text = json.dumps(body["messages"])
        note = f"The user is {ALLERGY}." if ALLERGY in text else "NONE"
        return say(note if "or answer NONE" in text else "Enjoy it.", body)

    ran = run("langgraph_store.py", folder, answers)
    assert f"The user is {ALLERGY}." in ran.prompts[3], "the second thread is answered with the note of the first"
    assert [fact.text for fact in ran.memory("langgraph").facts.read("items")] == [f"The user is {ALLERGY}."]
    assert "1 found for: Can I try the pesto that Rui brings?" in ran.printed


def agno_agent(folder):
    ran = run("agno_agent.py", folder, cook)
    assert f"The user is {ALLERGY}" in ran.prompts[2]
    assert f"'The user is {ALLERGY}'" in ran.printed
    ran.shows("agno:ana:tuesday")


def google_adk_agent(folder):
    ran = run("google_adk_agent.py", folder, cook)
    assert f"The user is {ALLERGY}" in ran.prompts[2]
    assert f"'The user is {ALLERGY}'" in ran.printed
    ran.shows("adk:dinner:ana:tuesday")


CHECKS = (plain_loop, memory_tools, mcp_client, opentelemetry_spans, reminders_plugin)
"""Examples that need no framework, or one of the extra `dev`."""

FRAMEWORK_CHECKS = (
    llamaindex_agent, openai_agents_session, langchain_agent, langgraph_store, pydantic_ai_agent, agno_agent,
    google_adk_agent,
)  # fmt: skip
"""Examples that `make adapters` runs."""

"""Mem0 attached as its users would: its calls through the recording proxy, its history opened where it lies."""

import json
import os
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": mkdtemp(prefix="mem0-")}  # read as it is imported

import mem0
import pytest
from models.scripted_server import ScriptedServer, completion, embeddings
from openai import OpenAI
from proxy_kit import Attached

from adapters.frameworks import hashed
from memory_core import Database, FactExtractionMemoryBlock, Memory, Services
from memory_inspector.files.facts_file import plan_import, read_facts_file
from memory_inspector.files.in_place import StoreFollower, open_store
from memory_inspector.files.mirroring import FACTS
from memory_inspector.recorder.recording_proxy import UPSTREAM

pytestmark = pytest.mark.filterwarnings("ignore")  # Mem0's own, and Qdrant's
SAID = "I am allergic to nuts, and I live in Porto."
LEARNED = ["Ada is allergic to nuts", "Ada lives in Porto"]
EXTRACTS, EMBEDS, ANSWERS = "gpt-5-mini", "text-embedding-3-small", "m"
"""The models that are asked: Mem0's own two, by its defaults, and the agent's."""


def answered(body):
    """What the endpoint answers to Mem0's embedder, to its extraction and to the agent."""
    if body["model"] == EMBEDS:
        return embeddings(*map(hashed, body["input"]))
    if body["model"] == ANSWERS:
        return completion("Noted.")
    told = json.dumps(body["messages"][1]).rpartition("New Messages")[2]
    return completion(json.dumps({"memory": [{"text": text} for text in LEARNED if text.split()[-1] in told]}))


@contextmanager
def attachment(uri):
    """The proxy in front of the endpoint, as the environment names it to an agent."""
    with (
        Attached(Database.open(uri)) as running,
        ScriptedServer(answered) as server,
        pytest.MonkeyPatch.context() as patch,
        TemporaryDirectory() as folder,
    ):
        patch.setenv(UPSTREAM, server.url)
        patch.setenv("OPENAI_API_KEY", "x")
        patch.setenv("OPENAI_BASE_URL", running.url("ada"))
        running.endpoint, running.folder = server, Path(folder)
        yield running


@pytest.fixture
def attached(tmp_path):
    with attachment(f"sqlite:///{tmp_path}/app.db") as running:
        yield running


def remembering(attached):
    """Mem0 in the folder, its own calls attached under a name of their own."""
    own = {"openai_base_url": attached.url("ada-mem0")}
    store = {"path": str(attached.folder / "qdrant"), "on_disk": True, "embedding_model_dims": 64}
    return mem0.Memory.from_config(
        {
            "llm": {"provider": "openai", "config": own},
            "embedder": {"provider": "openai", "config": own},
            "vector_store": {"provider": "qdrant", "config": store},
            "history_db_path": str(attached.folder / "history.db"),
        }
    )


def turn(memory, question, **search):
    """One turn of an agent with Mem0, as its documentation has it."""
    found = memory.search(question, filters={"user_id": "ada"}, **search)["results"]
    known = "\n".join(f"- {each['memory']}" for each in found)
    asked = [{"role": "system", "content": f"You help.\n{known}"}, {"role": "user", "content": question}]
    with OpenAI() as client:
        reply = client.chat.completions.create(model=ANSWERS, messages=asked).choices[0].message.content
    memory.add([asked[1], {"role": "assistant", "content": reply}], user_id="ada")
    return [each["id"] for each in found]


def test_its_calls_are_a_session_beside_the_agent_s_and_every_prompt_is_what_the_model_saw(attached):
    memory = remembering(attached)
    turn(memory, SAID)
    allergy, home = turn(memory, "What is Ada allergic to, and where?")
    memory.update(allergy, "Ada is allergic to nuts and milk")
    memory.delete(home)
    memory.close()
    bodies = attached.endpoint.bodies
    asked = {
        model: [[(m["role"], m["content"]) for m in body["messages"]] for body in bodies if body["model"] == model]
        for model in (ANSWERS, EXTRACTS)
    }
    assert attached.prompts("ada") == asked[ANSWERS]
    assert attached.prompts("ada-mem0") == asked[EXTRACTS]
    assert len(asked[ANSWERS]) == len(asked[EXTRACTS]) == 2
    agent = attached.memory("ada")
    assert [m.content for m in agent.get_all() if m.role != "system"] == [
        SAID,
        "Noted.",
        asked[ANSWERS][1][1][1],
        "Noted.",
    ]
    assert agent.session.status().turns == 2
    calls = [(call.model, call.purpose, call.error) for call in attached.calls("ada-mem0")]
    assert calls == [
        (body["model"], "embed" if body["model"] == EMBEDS else "reply", None)
        for body in bodies
        if body["model"] != ANSWERS
    ]
    assert "- Ada is allergic to nuts" in asked[ANSWERS][1][0][1]
    trace = agent.trace("allergic to nuts")
    assert (trace.reached, trace.prompt_turn) == (True, 2)


def test_its_history_is_opened_where_it_lies_with_every_version_and_not_changed_by_a_byte(attached):
    memory = remembering(attached)
    turn(memory, SAID)
    allergy, home = turn(memory, "What is Ada allergic to, and where?")
    memory.update(allergy, "Ada is allergic to nuts and milk")
    memory.update(allergy, metadata={"sure": True})
    memory.delete(home)
    path = attached.folder / "history.db"
    before, beside = path.read_bytes(), sorted(each.name for each in attached.folder.iterdir())
    database, services = Database.open(), Services()
    [session_id] = open_store(path, database, services=services)
    shown = Memory.open(session_id, database, services=services)

    def versions():
        facts = shown.facts.read(FACTS, states=None)
        return {tuple(each.text for each in shown.facts.history(fact)): fact.state for fact in facts}

    told = [entry["new_memory"] for entry in memory.history(allergy)]
    assert told == [LEARNED[0], *["Ada is allergic to nuts and milk"] * 2]
    known = {(LEARNED[0], "Ada is allergic to nuts and milk"): "active", (LEARNED[1],): "retired"}
    assert versions() == known
    desk = Memory.from_defaults(memory_blocks=[FactExtractionMemoryBlock(name="facts")]).facts.desk("facts")
    desk.apply(plan_import(read_facts_file(before, filename=path.name), desk.facts()).change)
    assert {fact.text: fact.state for fact in desk.facts()} == {texts[-1]: state for texts, state in known.items()}
    assert (path.read_bytes(), sorted(each.name for each in attached.folder.iterdir())) == (before, beside)

    memory.add([{"role": "user", "content": "She walks."}], user_id="ada", infer=False)  # while it is shown
    memory.close()
    assert StoreFollower(database, services).look() == 1
    assert versions() == known | {("She walks.",): "active"}

"""A coding agent asks why its memory did not hold something; asking changes nothing."""

import pytest

from memory_core import (
    ChatMessage,
    Database,
    FactExtractionMemoryBlock,
    Memory,
    MessageError,
    NotFoundError,
    Services,
    StaticMemoryBlock,
)
from memory_core.systems import KnowledgeGraph
from memory_inspector.adapters.mcp_server import SPECS, InspectingTools


@pytest.fixture
def database(tmp_path):
    database = Database.open(f"sqlite:///{tmp_path}/agent.db")
    blocks = [
        StaticMemoryBlock(name="core", static_content="You help."),
        FactExtractionMemoryBlock(name="facts", priority=1),
    ]
    memory = Memory.from_defaults("agent", database=database, token_limit=60, token_flush_size=20, memory_blocks=blocks)
    for words in ("I live in Faro.", "The password of the printer is on the yellow note under the desk.", "And now?"):
        memory.put_messages([ChatMessage(words), ChatMessage("Noted, thank you very much.", role="assistant")])
    memory.put(ChatMessage("Where is the password?"))
    memory.build_context()
    return database


@pytest.mark.slow
def test_why_trace_prompt_and_facts_are_answered_and_nothing_is_written(database):
    tools = InspectingTools(database, Services())
    memory = Memory.open("agent", database, services=Services())
    before = memory.events()
    trace = memory.trace("yellow note")
    assert not trace.reached
    assert tools.call("list_sessions", {}).startswith("agent: ")
    assert tools.call("why", {"phrase": "yellow note"}) == f"{trace.origin} {trace.sentence}"
    told = tools.call("trace", {"phrase": "yellow note", "session": "agent"})
    assert all(stage.text in told for track in trace.tracks for stage in track.stages)
    [built] = memory.events(kinds=["context_built"])
    prompt = tools.call("prompt_at", {})
    assert all(str(message) in prompt for message in memory.log.prompt(built).messages)
    assert "The user lives in Faro" in tools.call("search_facts", {"query": "Where do I live?"})
    assert memory.events() == before


@pytest.mark.parametrize("phrase", ["likes green tea", "never said by anybody"])
def test_a_trace_in_a_session_without_prompts_names_no_turn_of_one(phrase):
    graph = KnowledgeGraph("kg")
    graph.create_entities([{"name": "Ana", "entityType": "person", "observations": ["likes green tea"]}])
    trace = graph.memory.trace(phrase)
    answer = InspectingTools(graph.memory.session.database, Services()).call("trace", {"phrase": phrase})
    assert answer.splitlines()[0] == trace.origin or answer == trace.sentence
    assert answer.endswith(trace.sentence)


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("delete_everything", {}, NotFoundError),
        ("why", {}, MessageError),
        ("why", {"phrase": "x", "block": "y"}, MessageError),
        ("why", {"phrase": 3}, MessageError),
        ("why", {"phrase": ""}, MessageError),
        ("why", {"phrase": "x", "turn": True}, MessageError),
        ("prompt_at", {"turn": 99}, NotFoundError),
        ("trace", {"phrase": "x", "session": "nobody"}, NotFoundError),
    ],
)
def test_a_wrong_question_is_refused_in_a_sentence(database, name, arguments, error):
    with pytest.raises(error):
        InspectingTools(database, Services()).call(name, arguments)


def test_every_tool_reads_and_an_empty_database_is_said_to_be_empty(tmp_path):
    tools = InspectingTools(Database.open(f"sqlite:///{tmp_path}/empty.db"), Services())
    assert {spec.name for spec in SPECS} == {"list_sessions", "why", "trace", "prompt_at", "search_facts"}
    assert tools.call("list_sessions", {}) == ""
    with pytest.raises(NotFoundError, match="no session"):
        tools.call("why", {"phrase": "x"})

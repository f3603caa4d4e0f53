"""The tools of MCP's reference memory server: as it announces them, and as it answered (recorded from it)."""

import json
from pathlib import Path

import pytest

from memory_core import MemoryInspectorError
from memory_core.systems import KnowledgeGraph
from memory_inspector.adapters.graph_tools import MAX_TEXTS, TOOLS, GraphTools

RECORDED = json.loads((Path(__file__).parent / "reference_memory_server.json").read_text(encoding="utf-8"))


@pytest.fixture
def tools(tmp_path):
    return GraphTools(KnowledgeGraph(database_uri=f"sqlite:///{tmp_path}/memory.db"))


def test_the_tools_are_announced_as_the_reference_does():
    for tool, theirs in zip(TOOLS, RECORDED["tools"], strict=True):
        assert (tool.name, tool.title, tool.description) == (theirs["name"], theirs["title"], theirs["description"])
        assert tool.input_schema == theirs["inputSchema"]
        assert tool.output_schema == theirs["outputSchema"]
        assert theirs["annotations"] == {
            "readOnlyHint": tool.reads,
            "destructiveHint": tool.destroys,
            "idempotentHint": tool.reads or tool.destroys,
            "openWorldHint": False,
        }


@pytest.mark.slow
def test_every_call_is_answered_as_the_reference_answered_it(tools):
    for number, call in enumerate(RECORDED["calls"]):
        if "error" not in call:
            answer = tools.call(call["tool"], call["arguments"])
            assert answer.structured == call["result"], number
            given = call["result"].get(next(iter(call["result"])))
            shown = call["result"] if "relations" in call["result"] and "entities" in call["result"] else given
            assert answer.text == call.get("text", json.dumps(shown, indent=2, ensure_ascii=False)), number
            continue
        with pytest.raises(MemoryInspectorError) as refused:
            tools.call(call["tool"], call["arguments"])
        assert str(refused.value).partition(": ")[0] in call["error"], number


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("create_entities", {"entities": [{"name": "Ada", "entityType": "p", "observations": []},
                                          {"name": "!!", "entityType": "p", "observations": []}]}),
        ("create_entities", {"entities": [{"name": "a" * 81, "entityType": "p", "observations": []}]}),
        ("create_relations", {"relations": [{"from": "Ada", "to": "The Ada", "relationType": "is"}]}),
        ("create_relations", {"relations": [{"from": "Ada", "to": "Ben", "relationType": "k\x00"}]}),
        ("create_entities", {"entities": [{"name": "Ada", "entityType": "p", "observations": [1]}]}),
        ("create_entities", {"entities": {"name": "Ada"}}),
        ("search_nodes", {"query": None}),
        ("create_entities", {"entities": [{"name": f"a{n}", "entityType": "p", "observations": []}
                                          for n in range(MAX_TEXTS // 2 + 1)]}),
    ],
)  # fmt: skip
def test_what_cannot_be_kept_is_refused_in_a_sentence_and_nothing_is_kept(tools, tool, arguments):
    with pytest.raises(MemoryInspectorError):
        tools.call(tool, arguments)
    assert tools.call("read_graph", {}).structured == {"entities": [], "relations": []}


LINES = [
    {"type": "entity", "name": "Ada", "entityType": "person", "observations": ["likes tea"]},
    {"type": "relation", "from": "Ada", "to": "Ben", "relationType": "knows"},
]


def test_a_file_of_the_reference_server_is_brought_along_once(tools):
    data = "\n".join(json.dumps(line) for line in LINES).encode()
    for _ in range(2):
        tools.import_jsonl(data, filename="memory.jsonl")
    assert tools.call("read_graph", {}).structured == {
        "entities": [{"name": "Ada", "entityType": "person", "observations": ["likes tea"]}],
        "relations": [{"from": "Ada", "to": "Ben", "relationType": "knows"}],
    }


@pytest.mark.parametrize("data", [b"", b"hello", b'{"facts": []}', b'{"type": "entity"}'])
def test_another_file_is_refused_in_a_sentence(tools, data):
    with pytest.raises(MemoryInspectorError):
        tools.import_jsonl(data, filename="memory.jsonl")
    assert tools.call("read_graph", {}).structured == {"entities": [], "relations": []}

"""`make real`, as far as it can be tried without the real systems: its scripted model, its rule, and what it writes."""

import json
import re
import sys
import urllib.request
from dataclasses import replace
from pathlib import Path
from urllib.error import HTTPError

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks" / "real"))

import comparison
import ours
import peer_suites
import run
from comparison import (
    BEGIN,
    END,
    EXPLANATIONS,
    Compared,
    Difference,
    differences,
    explanation,
    last_versions,
    rewritten,
)
from conversations import CONVERSATIONS, STORY
from scripted_model import Refusal, ScriptedModel, embedded, serving

ROOT = Path(__file__).resolve().parent.parent
BY_NAME = {conversation.name: conversation for conversation in CONVERSATIONS}
HALF = STORY.index(" In 2021")
PAGE = f"# Title\n\nBefore.\n\n{BEGIN}\n\nold\n\n{END}\n\nAfter.\n"


def learns(conversation):
    """A model of a conversation in which nothing fails any more."""
    model = ScriptedModel(conversation)
    model.failed = {statement.words for statement in conversation.statements}
    return model


def asked(*texts, role="user", **request):
    return {"messages": [{"role": role, "content": text} for text in texts], **request}


def schema(name):
    return {"response_format": {"type": "json_schema", "json_schema": {"name": name}}}


def tools(name):
    return {"tools": [{"type": "function", "function": {"name": name}}]}


def calls(message):
    functions = [call["function"] for call in message.get("tool_calls") or ()]
    return [(function["name"], json.loads(function["arguments"])) for function in functions]


def test_there_are_twelve_conversations_and_each_statement_is_said_in_its_own():
    assert len(BY_NAME) == 12
    for conversation in CONVERSATIONS:
        said = " ".join(message["content"] for message in conversation.messages if message["role"] == "user")
        assert all(statement.words in said for statement in conversation.statements)


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=BY_NAME)
def test_every_form_gives_what_the_one_script_says(conversation):
    model, whole = learns(conversation), [message for message in conversation.messages if message["content"]]
    text = "\n".join(f"{message['role']}: {message['content']}" for message in whole)
    numbered = "\n".join(
        f"[{number}] {message['role']}: {message['content']}" for number, message in enumerate(whole, 1)
    )
    facts = [statement.fact for statement in conversation.statements]
    ours = json.loads(model.answer(asked("Note facts.", numbered, **schema("Facts")))["content"])["facts"]
    prompt = f"## Last k Messages\n\n## New Messages\n{text}\n## Observation Date\ntoday"
    mem0 = json.loads(model.answer(asked(prompt))["content"])["memory"]
    agno = calls(model.answer(asked("Manage.", text, **tools("add_memory"))))
    llamaindex = model.answer(asked(text, "<existing_facts></existing_facts>"))["content"]
    assert [fact["text"] for fact in ours] == [memory["text"] for memory in mem0] == facts
    assert [arguments["memory"] for _, arguments in agno] == re.findall("<fact>(.*?)</fact>", llamaindex) == facts
    assert all(whole[fact["message"] - 1]["role"] == "user" for fact in ours)


def test_what_is_not_understood_or_not_new_is_not_learned():
    model = learns(BY_NAME["an answer to a question"])
    shown = "[1] user: No, never.\n[2] assistant (context): Do you eat fish?"
    assert json.loads(model.answer(asked(shown, **schema("Facts")))["content"])["facts"]
    assert not json.loads(model.answer(asked("[1] user: No, never.", **schema("Facts")))["content"])["facts"]
    context = "[1] user: Well.\n[2] user (context): No, never.\n[3] assistant (context): Do you eat fish?"
    assert not json.loads(model.answer(asked(context, **schema("Facts")))["content"])["facts"]


def test_a_known_fact_is_replaced_where_the_form_can_say_so():
    model = learns(BY_NAME["a changed preference"])
    known = "<known>\n1. The user prefers tea\n</known>\n<found>\n1. The user prefers coffee (known: 1)\n</found>"
    [decision] = json.loads(model.answer(asked(known, **schema("DecidedFacts")))["content"])["decisions"]
    assert (decision["act"], decision["known"]) == ("update", 1)
    manager = "ID: m1\nMemory: The user prefers tea\n"
    [(name, arguments)] = calls(model.answer(asked(manager, "I prefer coffee now.", **tools("add_memory"))))
    assert (name, arguments["memory_id"]) == ("update_memory", "m1")
    named = [name for name, _ in calls(model.answer(asked("I prefer coffee now.", **tools("create_entities"))))]
    assert named == ["create_entities", "delete_observations", "add_observations"]
    for form in ("add_memory", "create_entities"):
        assert not calls(model.answer(asked("done", role="tool", **tools(form))))


def test_summaries_hold_the_facts_of_the_former_one_and_of_the_new_messages():
    model = learns(BY_NAME["a changed preference"])
    former = "The user prefers tea.\n user: I prefer coffee now."
    both = "The user prefers tea. The user prefers coffee."
    assert model.answer(asked(f'"Transcript so far: {former}'))["content"] == both
    assert json.loads(model.answer(asked(former, **schema("Summary")))["content"])["summary"] == both


def test_the_agents_own_model_says_what_the_conversation_says_next():
    conversation = BY_NAME["a tool call in a turn"]
    question, call, result, reply = conversation.turns[0]
    model = ScriptedModel(conversation)
    assert model.answer({"messages": [question]}) == call
    assert model.answer({"messages": [question, call, result]}) == reply


def test_over_loopback_the_planned_request_fails_once_for_each_run():
    number = [*BY_NAME].index("a failed model call")
    asks = asked("[1] user: My train leaves at seven.", **schema("Facts"))
    with serving() as url:

        def post(run, path, body):
            request = urllib.request.Request(f"{url}/{number}/{run}/v1/{path}", json.dumps(body).encode())
            with urllib.request.urlopen(request) as response:
                return json.load(response)

        for name in ("real", "ours"):
            with pytest.raises(HTTPError) as refused:
                post(name, "chat/completions", asks)
            assert refused.value.headers["x-should-retry"] == "false"
            refused.value.close()
            assert "train" in post(name, "chat/completions", asks)["choices"][0]["message"]["content"]
        vectors = post("ours", "embeddings", {"input": ["tea", "Tea!"]})["data"]
    assert [entry["embedding"] for entry in vectors] == [embedded("tea")] * 2
    with pytest.raises(Refusal):
        ScriptedModel(CONVERSATIONS[number]).answer(asks)


def test_our_side_learns_from_a_turn_with_a_tool_call():
    conversation = BY_NAME["a tool call in a turn"]
    with serving() as url:
        for name in ("mem0", "agno"):
            known = ours.RUNS[name](conversation, f"{url}/{[*BY_NAME].index(conversation.name)}/{name}/v1")
            assert known == {"memories": sorted(statement.fact for statement in conversation.statements)}


# -- the rule ----------------------------------------------------------------------------------------

TRAIN, TEA, FISH = "The user's train leaves at seven", "The user likes tea", "The user never eats fish"
NEWEST = ["user: I drink no tea any more, I prefer coffee now.", "assistant: Changed."]
CASES = [
    ("mem0", "a duplicate in other case", "memories", [TEA, TEA.upper()], [TEA]),
    ("mem0", "a failed model call", "memories", [], [TRAIN]),
    ("mem0", "a long fact", "memories", [STORY], [STORY[:HALF], STORY[HALF + 1 :]]),
    ("agno", "a fact stated twice", "memories", [TEA, TEA], [TEA]),
    ("agno", "a failed model call", "memories", [], [TRAIN]),
    ("agno", "a long fact", "memories", [STORY], [STORY[:HALF], STORY[HALF + 1 :]]),
    ("agno", "an answer to a question", "memories", [], [FISH]),
    ("llamaindex", "a long fact", "facts", [STORY], [STORY[:HALF], STORY[HALF + 1 :]]),
    ("llamaindex", "a failed model call", "facts", [], [TRAIN]),
    ("llamaindex", "a changed preference", "buffer", NEWEST[1:], NEWEST),
    ("llamaindex", "a changed preference", "after the summary", [], NEWEST),
    ("llamaindex", "a changed preference", "summary", ["Tea. The user prefers coffee."], ["Tea."]),
    ("mcp", "a duplicate in other case", "entities", ["tea: ", "TEA: hot"], ["tea: hot"]),
]


@pytest.mark.parametrize(
    ("case", "expected"), list(zip(CASES, EXPLANATIONS, strict=True)), ids=lambda value: str(value)[:40]
)
def test_each_explanation_is_for_its_difference_alone(case, expected):
    system, name, part, theirs, here = case
    difference = Difference(system, BY_NAME[name], part, theirs, here)
    assert explanation(difference) is expected
    assert explanation(replace(difference, ours=[*here, "Something else"])) is None
    assert explanation(replace(difference, theirs=[*theirs, "Something else"])) is None
    assert (
        explanation(replace(difference, system="another")) is explanation(replace(difference, part="another")) is None
    )


@pytest.mark.parametrize("one", EXPLANATIONS, ids=lambda one: one.row[:40])
def test_each_explanation_names_a_row_that_stands_in_its_page(one):
    assert f"\n| {one.row} | " in (ROOT / one.page).read_text(encoding="utf-8")


def test_other_pages_of_explanations_are_linked_from_the_page_of_the_systems():
    page = (ROOT / comparison.SYSTEMS).read_text(encoding="utf-8")
    assert all(Path(one.page).name in page for one in EXPLANATIONS if one.page != comparison.SYSTEMS)


def known(**changes):
    return {name: changes.get(name, {"memories": []}) for name in BY_NAME}


def test_only_what_differs_is_a_difference():
    assert differences("mem0", known(), known()) == []
    theirs = known(she={"memories": ["a", "b"]})
    [found] = differences("mem0", theirs, known(she={"memories": ["b", "c"]}))
    assert found.line() == 'memories, there alone: "a"; here alone: "c"'
    [order] = differences("mem0", theirs, known(she={"memories": ["b", "a"]}))
    assert order.line() == "memories: another order"


# -- what is written ---------------------------------------------------------------------------------


def result(*found):
    return Compared("mem0", {"mem0ai": "2.2.1", "other": "1.0"}, found)


def test_the_section_is_rewritten_and_the_rest_of_the_page_stays():
    note = peer_suites.table([(peer_suites.SUITES[0], "4.3.2", (2, 0), (1, 1))], {"mem0ai": 0})
    section = comparison.table([result()], [note], "2026-11-29")
    written = rewritten(PAGE, section)
    assert written.startswith("# Title\n\nBefore.\n\n")
    assert written.endswith("\n\nAfter.\n")
    assert "old" not in written
    assert "| mem0 | mem0ai 2.2.1, other 1.0 | 12 | 0 |" in written
    assert rewritten(written, section) == written
    assert last_versions(written) == {"mem0ai": "2.2.1", "other": "1.0", "langgraph-checkpoint": "4.3.2"}
    with pytest.raises(ValueError, match="no section"):
        rewritten("# Title\n", section)


@pytest.mark.parametrize(("texts", "code"), [([TRAIN], 0), (["Something else"], 1)])
def test_the_command_ends_with_an_error_where_no_row_explains_a_difference(tmp_path, monkeypatch, capsys, texts, code):
    difference = Difference("mem0", BY_NAME["a failed model call"], "memories", [], texts)
    monkeypatch.setattr(run, "compared_by_pip", lambda *_: result(difference))
    monkeypatch.setattr(run, "compared_by_npm", lambda *_: None)
    monkeypatch.setattr(run, "PAGE", tmp_path / "page.md")
    run.PAGE.write_text(PAGE)
    monkeypatch.setattr(sys, "argv", ["run.py", "--write", "--environments", str(tmp_path), "mem0", "mcp"])
    assert run.main() == code
    out, err = capsys.readouterr()
    assert ("unexplained" in out, "Unexplained" in err) == (code == 1,) * 2
    assert "there is no npm" in run.PAGE.read_text()
    assert texts[0] in run.PAGE.read_text()


def test_the_table_in_the_documents_is_explained_and_of_the_conversations_that_stand_here():
    page = (ROOT / comparison.SYSTEMS).read_text(encoding="utf-8")
    section = page.partition(BEGIN)[2].partition(END)[0]
    rows = [re.split(r" \| ", line.strip("| ")) for line in section.splitlines() if line.count(" | ") == 3]
    found = [row for row in rows if row[1] in BY_NAME]
    assert found
    assert {row[3] for row in found} <= {one.row for one in EXPLANATIONS}

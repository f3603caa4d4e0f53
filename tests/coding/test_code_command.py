"""`memory-inspector code`, `why` and `mcp` over sessions of coding agents that a test wrote."""

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import mcp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core import MessageError, NotFoundError
from memory_inspector import __main__ as program
from memory_inspector.adapters.mcp_server import inspecting_server
from memory_inspector.coding.listing import Listing, home_of_file, homes
from memory_inspector.coding.mcp_tools import CodingTools
from memory_inspector.reading.coding_homes import first_session, listing_of_environment
from memory_inspector.wording.coding_text import _beginnings

ROOT = Path(__file__).resolve().parents[2]
RULE = "Never touch the lockfile."
KEY = "sk-proj-abc123def456ghi789jkl"


class Script:
    """A session of Claude Code that is written line by line."""

    def __init__(self, folder):
        self.folder, self.lines, self.calls = folder, [], 0

    def record(self, **fields):
        parent = f"r{len(self.lines)}" if self.lines else None
        ids = {"uuid": f"r{len(self.lines) + 1}", "parentUuid": parent, "timestamp": "2026-02-11T21:59:13Z"}
        self.lines.append({"type": "user", "cwd": str(self.folder), **ids, **fields})

    def user(self, text, **fields):
        self.record(message={"role": "user", "content": text}, **fields)

    def answer(self, *parts, prompt=1000):
        self.calls += 1
        usage = {"input_tokens": prompt, "output_tokens": 10}
        message = {"id": f"m{self.calls}", "role": "assistant", "model": "claude-opus-4-6", "usage": usage}
        self.record(
            type="assistant", message={**message, "content": list(parts) or [{"type": "text", "text": "Done."}]}
        )

    def compact(self, summary):
        about = {"trigger": "auto", "preTokens": 167_731}
        self.record(type="system", subtype="compact_boundary", compactMetadata=about)
        if summary is not None:
            self.user(summary, isCompactSummary=True)

    def read(self, path, text):
        self.answer({"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": path}})
        self.user([{"type": "tool_result", "tool_use_id": "t1", "content": text}])

    def write(self, home, name):
        path = home / "-shop" / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in self.lines))
        return path


def script(tmp_path):
    """Two calls with a rule, then a compaction that loses it."""
    session = Script(tmp_path / "shop")
    session.user(f"Fix the build. {RULE} The {KEY} is mine. Use tabs everywhere.")
    session.answer()
    session.answer()
    session.compact("The build was fixed. The lockfile was regenerated. Tabs are used everywhere.")
    return session


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder of projects, and none of the machine's own."""
    for name in [name for name in os.environ if name.startswith("MEMORY_INSPECTOR_CODE")]:
        monkeypatch.delenv(name)
    (tmp_path / "codex").mkdir()
    (tmp_path / "projects").mkdir()
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    return tmp_path / "projects"


def asked(capsys, *arguments):
    """Run the command; return its exit status, and what it printed."""
    status = program.main(arguments)
    printed = capsys.readouterr()
    return status, printed.out + printed.err


def stages(printed):
    """The sign and name of each stage of a printed trail."""
    return re.findall(r"^  ([+x….?-]) (\w+(?: \w+)?)  ", printed, re.MULTILINE)


def test_a_lost_rule_is_told_stage_by_stage_and_the_manual_shows_it(home, tmp_path, capsys):
    session = script(tmp_path)
    session.answer()
    session.lines.append({"type": "ai-title", "title": "Fix the build"})
    session.write(home, "aaaa1111")
    status, printed = asked(capsys, "why", "never touch the lockfile")
    assert status == 1
    assert stages(printed) == [("+", "Said"), ("+", "Sent"), ("x", "Compaction 1"), ("x", "Last call")]
    assert "“The lockfile was regenerated.”" in printed
    page = (ROOT / "docs/how-to/coding-agents.md").read_text(encoding="utf-8")
    [shown] = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    assert shown == printed


def test_what_is_reworded_or_read_again_is_in_the_last_prompt(home, tmp_path, capsys):
    session = script(tmp_path)
    session.read("CLAUDE.md", RULE)
    session.answer()
    session.write(home, "aaaa1111")
    status, printed = asked(capsys, "why", "use tabs everywhere")
    assert (status, stages(printed)[2]) == (0, ("+", "Compaction 1"))
    assert "Tabs are used everywhere." in printed
    status, printed = asked(capsys, "why", RULE)
    assert status == 0
    assert stages(printed)[2:4] == [("x", "Compaction 1"), ("+", "Again")]
    assert "by Read from CLAUDE.md, line 7, first sent with call 4" in printed


@pytest.mark.parametrize("summary", [None, "(encrypted: it cannot be read)"])
def test_a_summary_that_cannot_be_read_is_no_proof_of_a_loss(summary, home, tmp_path, capsys):
    session = Script(tmp_path / "shop")
    session.user(RULE)
    session.answer()
    session.compact(summary)
    session.answer()
    session.write(home, "aaaa1111")
    status, printed = asked(capsys, "why", RULE)
    assert (status, stages(printed)[2]) == (1, ("?", "Compaction 1"))
    assert "perhaps lost at compaction 1" in printed
    assert json.loads(CodingTools(Listing(homes())).call("lost_at_compaction", {}))["lost"] == []


def test_the_compaction_since_which_it_is_gone_is_named_and_what_is_said_after_the_last_call(home, tmp_path, capsys):
    session = script(tmp_path)
    session.answer()
    session.compact("The build was fixed.")
    session.answer()
    session.write(home, "aaaa1111")
    assert "lost at compaction 1." in asked(capsys, "why", RULE)[1]
    assert "lost at compaction 2." in asked(capsys, "why", "Use tabs everywhere")[1]
    session.user(RULE)
    session.write(home, "aaaa1111")
    status, printed = asked(capsys, "why", RULE)
    assert (status, stages(printed)[-1]) == (1, ("…", "Last call"))


def test_a_session_without_a_call_has_nothing_in_a_prompt_yet(home, tmp_path, capsys):
    session = Script(tmp_path)
    session.user(RULE)
    session.write(home, "aaaa1111")
    status, printed = asked(capsys, "why", RULE)
    assert (status, stages(printed)) == (1, [("+", "Said"), ("…", "Last call")])
    (home / "-shop" / "aaaa1111.jsonl").write_text("")
    assert asked(capsys, "why", RULE)[0] == 1


def test_a_phrase_that_nobody_said_has_the_nearest_sentence(home, tmp_path, capsys):
    script(tmp_path).write(home, "aaaa1111")
    status, printed = asked(capsys, "why", "never delete the lockfile")
    assert (status, stages(printed)[0]) == (1, ("x", "Said"))
    assert f"line 1: “{RULE}”" in printed
    assert "[key]" in asked(capsys, "why", f"the {KEY} is")[1]
    assert KEY not in asked(capsys, "why", f"the {KEY} is")[1]


def test_words_of_a_subagent_and_of_another_branch_are_told_apart(home, tmp_path, capsys):
    session = script(tmp_path)
    session.lines.append({**session.lines[-1], "uuid": "other", "parentUuid": "r1", "isCompactSummary": False})
    session.lines[-1]["message"] = {"role": "user", "content": "Rename the shop to kiosk."}
    session.answer()
    session.lines[-1]["parentUuid"] = "r5"
    path = session.write(home, "aaaa1111")
    task = Script(tmp_path)
    task.user("Rename the shop to kiosk in all tests.")
    for name in ("bee", "acompact-1"):
        task.write(path.with_suffix(""), name)
        folder = path.with_suffix("") / "subagents"
        folder.mkdir(exist_ok=True)
        (path.with_suffix("") / "-shop" / f"{name}.jsonl").rename(folder / f"agent-{name}.jsonl")
    status, printed = asked(capsys, "why", "rename the shop to kiosk")
    assert status == 1
    assert [name for _, name in stages(printed)] == ["Said", "Subagents", "Other branches", "Last call"]
    assert "Bee: in its task, line 1." in printed


def test_values_are_printed_as_json(home, tmp_path, capsys):
    script(tmp_path).write(home, "aaaa1111")
    status, printed = asked(capsys, "why", RULE, "--json")
    values = json.loads(printed)
    assert (status, values["in_last_prompt"]) == (0, True)  # no call was made since the compaction
    assert [stage["stage"] for stage in values["stages"]] == ["said", "sent", "compaction", "last_call"]
    assert values["stages"][2]["fate"] == "gone"
    assert values["session"]["project"] == "shop"


def test_a_session_is_named_by_a_file_or_the_beginning_of_its_id(home, tmp_path, capsys):
    script(tmp_path).write(home, "aaaa1111")
    elsewhere = script(tmp_path).write(tmp_path / "copies", "bbbb[1]")
    for name in ("aaaa", "latest", "Claude Code/-shop/aaaa1111", str(elsewhere)):
        assert asked(capsys, "why", RULE, "--session", name)[0] == 0
    script(tmp_path).write(home, "aaaa2222")
    for name, problem in (("aaaa", "2 sessions"), ("cccc", "No session"), (str(tmp_path / "no.jsonl"), "no.jsonl")):
        status, printed = asked(capsys, "why", RULE, "--session", name)
        assert (status, problem in printed) == (2, True)
    (tmp_path / "other.jsonl").write_text('{"role": "user", "content": "Hello"}\n')
    assert asked(capsys, "why", RULE, "--session", str(tmp_path / "other.jsonl"))[0] == 2
    assert asked(capsys, "why", " ")[0] == 2


def test_the_list_is_a_table_newest_first_without_signs_that_act_on_a_terminal(home, tmp_path, capsys):
    assert asked(capsys, "code", "--list")[0] == 2
    os.utime(script(tmp_path).write(home, "aaaa1111"), (1, 1))
    session = Script(tmp_path / "shop")
    session.user(f"Clear \x1b[2J\u202ethe screen with {KEY}")
    session.answer(prompt=1_000_000)
    session.write(home, "bbbb2222")
    status, printed = asked(capsys, "code", "--list")
    head, newest, oldest = printed.splitlines()
    assert status == 0
    assert re.split(r"\s{2,}", newest) == [
        "bbbb2222", "live", "Claude Code", "shop", "Clear [2J the screen with [key]", "1,000,010", "0", "$5.00",
    ]  # fmt: skip
    assert oldest.split()[0] == "aaaa1111"
    assert "live" not in oldest
    assert {"program", "project", "title", "tokens", "compactions", "cost"} <= set(head.split())
    assert asked(capsys, "code", "--list", "--claude", str(tmp_path / "nothing"))[0] == 2


@pytest.mark.slow
@given(st.sets(st.text("ab-", min_size=9, max_size=36), max_size=20))
def test_what_the_list_calls_a_session_is_the_beginning_of_no_other(names):
    beginnings = _beginnings(names)
    assert beginnings.keys() == names
    for name, beginning in beginnings.items():
        assert name.startswith(beginning)
        assert beginning == name or not any(other.startswith(beginning) for other in names - {name})


def test_a_reader_that_goes_away_gets_no_traceback(home, tmp_path):
    script(tmp_path).write(home, "aaaa1111")
    command = [sys.executable, "-m", "memory_inspector", "code", "--list", "--claude", str(home)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as listing:
        listing.stdout.close()
        complaint = listing.stderr.read()
    assert (listing.returncode, complaint) == (141, b"")


@pytest.fixture
def started(monkeypatch):
    """The environments in which the app was started."""
    environments = []
    # A copy of the environment, which the command changes.
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(program, "_app", lambda options: environments.append(dict(os.environ)) or 0)
    return environments


def test_the_app_is_told_what_to_show_by_its_environment(home, tmp_path, started, capsys):
    kept = script(tmp_path).write(tmp_path / "kept", "bbbb2222")
    script(tmp_path).write(home, "aaaa1111")
    status, printed = asked(capsys, "--port", "8600", "code")
    assert (status, "http://127.0.0.1:8600/code" in printed) == (0, True)
    assert started[0]["MEMORY_INSPECTOR_CODE"] == "1"
    listing = listing_of_environment()
    assert [one.name for one in listing.look()] == ["aaaa1111"]
    assert first_session(listing) is None
    asked(capsys, "code", "latest", "--claude", str(tmp_path / "kept"))
    assert started[1]["MEMORY_INSPECTOR_CODE_FILE"] == str(kept)
    listing = listing_of_environment()
    assert [one.name for one in listing.look()] == ["bbbb2222"]
    assert first_session(listing).path == kept


def test_a_file_given_by_hand_is_one_more_session_of_the_list(home, tmp_path, started, capsys):
    script(tmp_path).write(home, "aaaa1111")
    subagent = script(tmp_path).write(tmp_path / "copies", "agent-1")
    asked(capsys, "code", str(subagent))
    listing = listing_of_environment()
    assert {one.name for one in listing.look()} == {"aaaa1111", "agent-1"}
    assert listing.of(first_session(listing).id).path == subagent


def test_a_file_of_codex_is_told_from_one_of_claude_code(tmp_path):
    path = tmp_path / "rollout-2026-02-11T10-00-00-0199aaaa-0000-7000-8000-000000000000.jsonl"
    message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": RULE}]}
    path.write_text(json.dumps({"type": "response_item", "payload": message}) + "\n")
    listing = Listing([home_of_file(path)])
    found = listing.find("0199aaaa")
    assert (found.program, found.name) == ("Codex", path.stem[-36:])


def test_an_agent_is_told_which_rules_each_compaction_lost(home, tmp_path):
    session = script(tmp_path)
    session.answer()
    session.user("Write a changelog.")
    session.compact("The build was fixed.")
    session.user(RULE + " Really.")
    session.answer()
    session.user("Ship it now, please.")
    session.compact(f"Ship it now, please. {RULE}")
    session.answer()
    session.write(home, "aaaa1111")
    tools = CodingTools(Listing(homes()))
    lost = json.loads(tools.call("lost_at_compaction", {"session": "aaaa"}))
    told = [(one["text"], one["rule"], one["compaction"]) for one in lost["lost"]]
    # The rule came back, and the tabs were in the first summary and not in the second.
    assert ("Use tabs everywhere.", False, 2) in told
    assert ("Write a changelog.", False, 2) in told
    assert RULE not in [text for text, _, _ in told]
    assert KEY not in json.dumps(lost)
    assert [one["number"] for one in lost["compactions"]] == [1, 2, 3]


def test_lost_rules_come_first(home, tmp_path):
    session = script(tmp_path)
    session.write(home, "aaaa1111")
    lost = json.loads(CodingTools(Listing(homes())).call("lost_at_compaction", {}))["lost"]
    assert [one["rule"] for one in lost] == sorted((one["rule"] for one in lost), reverse=True)
    assert (lost[0]["text"], lost[0]["line"]) == (RULE, 1)


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("why", {"phrase": "x"}, NotFoundError),
        ("why_in_coding_session", {}, MessageError),
        ("why_in_coding_session", {"phrase": ""}, MessageError),
        ("why_in_coding_session", {"phrase": "x", "session": "../../etc/passwd"}, NotFoundError),
    ],
)
def test_a_wrong_question_of_an_agent_is_refused_in_a_sentence(name, arguments, error, home, tmp_path):
    script(tmp_path).write(home, "aaaa1111")
    tools = CodingTools(Listing(homes()))
    with pytest.raises(error):
        tools.call(name, arguments)


@pytest.mark.slow
def test_a_client_asks_about_its_own_session_without_a_database(home, tmp_path):
    script(tmp_path).write(home, "aaaa1111")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    server = mcp.StdioServerParameters(
        command=sys.executable, args=["-m", "memory_inspector", "mcp"], cwd=ROOT, env=environment
    )

    async def answers():
        async with mcp.Client(server) as client:
            tools = (await client.list_tools()).tools
            return tools, await client.call_tool("why_in_coding_session", {"phrase": RULE})

    tools, answer = asyncio.run(answers())
    assert {tool.name for tool in tools} == {
        "list_coding_sessions", "why_in_coding_session", "lost_at_compaction",
    }  # fmt: skip
    assert all(tool.annotations.read_only_hint for tool in tools)
    assert json.loads(answer.content[0].text)["session"]["id"] == "aaaa1111"


def test_a_server_over_two_sets_of_tools_asks_the_one_that_has_the_tool(home, tmp_path):
    script(tmp_path).write(home, "aaaa1111")
    one, other = CodingTools(Listing(homes())), CodingTools(Listing(homes()))
    one.specs, other.specs = CodingTools.specs[:1], CodingTools.specs[1:]

    async def answers():
        async with mcp.Client(inspecting_server(one, other)) as client:
            listed = await client.call_tool("list_coding_sessions", {})
            return listed, await client.call_tool("lost_at_compaction", {}), await client.call_tool("nothing", {})

    listed, lost, wrong = asyncio.run(answers())
    assert (listed.is_error, lost.is_error, wrong.is_error) == (False, False, True)
    assert [one["id"] for one in json.loads(listed.content[0].text)] == ["aaaa1111"]


def test_nothing_is_written(home, tmp_path, capsys):
    path = script(tmp_path).write(home, "aaaa1111")
    before = [(found, found.stat().st_mtime_ns) for found in sorted(tmp_path.rglob("*"))]
    content = path.read_bytes()
    asked(capsys, "why", RULE)
    asked(capsys, "code", "--list")
    CodingTools(Listing(homes())).call("lost_at_compaction", {})
    assert [(found, found.stat().st_mtime_ns) for found in sorted(tmp_path.rglob("*"))] == before
    assert path.read_bytes() == content

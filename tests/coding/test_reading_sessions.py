"""Records of a coding agent's session: each is accounted for, whatever it holds and however it is written."""

import json
import os
from dataclasses import asdict

import pytest
from coding_kit import ClaudeCode, Codex, call, kinds, message, rollout, texts, thinking, work
from hypothesis import given, settings
from hypothesis import strategies as st
from shared_data import shared

from memory_core.errors import FormatError
from memory_inspector.coding.claude_code import ClaudeCodeReader
from memory_inspector.coding.codex import CodexReader
from memory_inspector.coding.coding_session import CodingSession, Lane
from memory_inspector.coding.record_file import BadLine, RecordFile
from memory_inspector.coding.transcript import ENCRYPTED, MAX_CHARACTERS, CallUsage

READERS = ClaudeCodeReader, CodexReader
REAL = (
    "4d5611e5-241a-462a-8d15-5122611a9569",
    "8463c716-a2ea-4c14-9efa-87158ebd9f20",
    "short",
    "subagent",
    "tool_heavy",
)
"""The real sessions, of which the first two are whole."""


def real(name) -> CodingSession:
    session = CodingSession(shared(f"claude-code/{name}.jsonl"), ClaudeCodeReader)
    session.follow()
    return session


def lane(tmp_path, data: bytes, reader=ClaudeCodeReader) -> Lane:
    path = tmp_path / "session.jsonl"
    path.write_bytes(data)
    result = Lane(path, reader)
    result.follow()
    return result


def contents(lane):
    """All that was read."""
    counts = lane.shown, dict(lane.left_out), lane.bad_lines, lane.orphans, lane.first_at, lane.last_at, lane.about
    windows = [[(w.items, w.cleared, [c.sent for c in w.calls]) for w in b.windows] for b in lane.branches]
    return counts, {id: asdict(step) for id, step in lane.steps.items()}, windows


def items(lane):
    return [item for step in lane.steps.values() for item in step.items]


def lines_of(data: bytes) -> int:
    return sum(bool(line.strip()) for line in data.split(b"\n"))


# -- every record is accounted for ---------------------------------------------------------------------


@pytest.mark.parametrize("lines", [work(), rollout()], ids=["Claude Code", "Codex"])
def test_every_line_is_shown_or_left_out_for_a_reason_or_bad(lines, tmp_path):
    data = lines.data + b'\n\n{"type": broken\n[1]\n{"type":"user"}\n'
    read = lane(tmp_path, data, lines.reader)
    assert read.shown + read.left_out.total() + len(read.bad_lines) == lines_of(data) == read.records
    assert all(read.left_out)


@pytest.mark.data
@pytest.mark.parametrize("name", REAL)
def test_every_line_of_the_real_sessions_is_accounted_for(name):
    session = real(name)
    for each in session.all_lanes:
        assert each.records == lines_of(each.file.path.read_bytes())
        assert not each.bad_lines
        assert not [reason for reason in each.left_out if "unknown" in reason]
    assert not session.main.orphans  # a subagent that wrote a summary follows records of the session itself


@pytest.mark.parametrize(
    ("reader", "record", "reason"),
    [
        (ClaudeCodeReader, {"type": "hologram", "uuid": "u", "version": "9.0"}, "unknown type 'hologram'"),
        (ClaudeCodeReader, {}, "unknown type ''"),
        (ClaudeCodeReader, {"type": "atis-latch", "atis": ""}, "setting of the program"),
        (ClaudeCodeReader, {"type": "cost-state", "totalCostUSD": 1}, "tokens and cost so far"),
        (ClaudeCodeReader, {"type": "api-request", "id": "r", "tail": []}, "list of the messages of a call"),
        (ClaudeCodeReader, {"type": "progress", "data": {"type": "warp"}}, "unknown progress 'warp'"),
        (CodexReader, {"type": "hologram", "payload": {}}, "unknown type 'hologram'"),
        (CodexReader, {"type": "response_item", "payload": {"type": "warp"}}, "unknown item 'warp'"),
        (CodexReader, {"type": "event_msg", "payload": {"type": "warp"}}, "unknown event 'warp'"),
    ],
)
def test_records_of_unknown_types_are_counted_and_named(reader, record, reason, tmp_path):
    read = lane(tmp_path, json.dumps(record).encode() + b"\n", reader)
    assert dict(read.left_out) == {reason: 1}


def test_a_later_version_s_records_are_read_as_far_as_they_are_known(tmp_path):
    lines = ClaudeCode()
    lines.user("Build it.", version="9.0.0", aura={"colour": "blue"})
    lines.answer({"type": "hologram", "beam": 1}, "Built.", prompt=5_000)
    read = lines.session(tmp_path / "s.jsonl").main
    assert kinds(items(read)) == ["user", "injected", "assistant"]
    assert "hologram" in items(read)[1].text


# -- no record and no byte makes it fail ----------------------------------------------------------------

NAMES = [
    *("type", "subtype", "uuid", "parentUuid", "timestamp", "message", "content", "role", "id", "model", "usage"),
    *("payload", "input_tokens", "text", "name", "input", "arguments", "call_id", "output", "replacement_history"),
    *("compactMetadata", "preservedSegment", "headUuid", "attachment", "data", "agentId", "toolUseResult", "info"),
    *("last_token_usage", "total_token_usage", "num_turns", "summary", "tool_use_id", "logicalParentUuid", "git"),
    *("compactedToolIds", "microcompactMetadata", "thinking", "encrypted_content", "preservedMessages", "uuids"),
]
VALUES = [
    *("user", "assistant", "system", "attachment", "progress", "summary", "text", "tool_use", "tool_result", "image"),
    *("compact_boundary", "microcompact_boundary", "session_meta", "turn_context", "response_item", "event_msg"),
    *("compacted", "message", "reasoning", "function_call", "function_call_output", "token_count", "compaction"),
    *("thread_rolled_back", "2026-02-12T16:00:00Z", '{"output":', '{"output":' + "[" * 5_000, "u1", "queued_command"),
]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(VALUES)
KEYS = st.sampled_from(NAMES) | st.text(max_size=4)
OBJECTS = st.dictionaries(
    KEYS,
    st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
        max_leaves=12,
    ),
    max_size=8,
)


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(OBJECTS, max_size=6))
def test_no_object_makes_a_reader_fail(records):
    for reader in (ClaudeCodeReader(), CodexReader()):
        for line, record in enumerate(records, 1):
            reader.is_for_list(json.dumps(record).encode())
            (read,) = reader.read(record, line)
            assert read.items or read.usage or read.boundary or read.left_out


@pytest.mark.slow
@settings(max_examples=25)
@given(st.lists(OBJECTS.map(lambda record: json.dumps(record).encode()) | st.binary(max_size=40), max_size=8))
def test_no_bytes_make_a_session_fail(tmp_path_factory, parts):
    data = b"\n".join(parts) + b"\n"
    for reader in READERS:
        read = lane(tmp_path_factory.mktemp("bytes"), data, reader)
        assert read.records == lines_of(data)
        for branch in read.branches:
            assert branch.windows


@given(st.binary(max_size=200))
def test_no_bytes_make_a_record_file_fail(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("bytes") / "file"
    path.write_bytes(data)
    file = RecordFile(path)
    read = list(file.new_records())
    complete = data.rpartition(b"\n")[0].split(b"\n") if b"\n" in data else []
    assert [number for number, _ in read] == [n for n, line in enumerate(complete, 1) if line.strip()]
    assert list(file.new_records()) == []
    assert all(isinstance(value, BadLine) or file.record(number) == value for number, value in read)


def test_half_a_character_does_not_cost_its_record(tmp_path):
    read = lane(tmp_path, b'{"type":"user","uuid":"u","message":{"role":"user","content":"cut \\ud83d"}}\n')
    assert texts(items(read)) == ["cut \ufffd"]


def test_a_line_that_is_too_long_to_hold_costs_that_one_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("memory_inspector.coding.record_file.MAX_LINE_BYTES", 2_000)
    monkeypatch.setattr("memory_inspector.coding.record_file.READ_BYTES", 700)
    lines = ClaudeCode()
    lines.user("One.")
    lines.user("x" * 9_000)
    lines.user("Three.")
    read = lines.session(tmp_path / "s.jsonl").main
    assert texts(items(read)) == ["One.", "Three."]
    assert [bad.line for bad in read.bad_lines] == [2]
    assert read.file.record(3)["uuid"] == "u3"


def test_a_long_text_is_held_in_part_and_read_whole_on_demand(tmp_path):
    lines = ClaudeCode()
    lines.answer(call("t1"), prompt=1_000)
    lines.result("t1", "word " * MAX_CHARACTERS)
    read = lines.session(tmp_path / "s.jsonl").main
    result = items(read)[-1]
    assert (len(result.text), result.characters) == (MAX_CHARACTERS, 5 * MAX_CHARACTERS)
    assert read.whole(result) == "word " * MAX_CHARACTERS


# -- following ------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(st.sampled_from([work(), rollout()]), st.data())
def test_following_in_pieces_gives_the_session_that_is_read_at_once(tmp_path_factory, lines, data):
    written = lines.data
    cuts = data.draw(st.lists(st.integers(0, len(written)), max_size=12))
    folder = tmp_path_factory.mktemp("pieces")
    read = lane(folder, b"", lines.reader)
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(written)], strict=True):
        with read.file.path.open("ab") as file:
            file.write(written[start:end])
        read.follow()
    (folder / "whole").mkdir()
    assert contents(read) == contents(lane(folder / "whole", written, lines.reader))


def test_half_a_line_waits_for_its_rest(tmp_path):
    lines = ClaudeCode()
    lines.user("One.")
    lines.user("Two.")
    data = lines.data
    read = lane(tmp_path, data[:-20])
    assert (read.records, texts(items(read))) == (1, ["One."])
    with read.file.path.open("ab") as file:
        file.write(data[-20:])
    assert read.follow() == 1
    assert texts(items(read)) == ["One.", "Two."]


@pytest.mark.parametrize("text", ["A.", "A longer text than before, so that the file grows."])
def test_a_file_that_shrinks_or_is_replaced_is_read_again(text, tmp_path):
    lines, other = ClaudeCode(), ClaudeCode()
    lines.user("Old words.")
    other.user(text)
    read = lane(tmp_path, lines.data)
    replacement = other.write(tmp_path / "new")
    os.replace(replacement, read.file.path)
    read.follow()
    assert (texts(items(read)), read.records) == ([text], 1)


def test_a_file_that_is_written_again_from_its_beginning_is_read_again(tmp_path):
    lines, other = ClaudeCode(), ClaudeCode()
    lines.user("Old words.")
    other.user("New words.")
    other.user("More of them.")
    read = lane(tmp_path, lines.data)
    read.file.path.write_bytes(other.data)
    read.follow()
    assert texts(items(read)) == ["New words.", "More of them."]


def test_a_record_that_is_written_twice_counts_once(tmp_path):
    lines = ClaudeCode()
    lines.user("Build it.")
    lines.answer("Built.", prompt=2_000)
    read = lane(tmp_path, lines.data * 2)
    assert texts(items(read)) == ["Build it.", "Built."]
    assert (read.left_out["repeated record"], len(read.branches)) == (2, 1)


# -- files that cannot be read --------------------------------------------------------------------------


def test_a_file_without_permission_is_one_sentence(forbidden, tmp_path):
    path = work().write(tmp_path / "s.jsonl")
    forbidden.add("s.jsonl")
    with pytest.raises(FormatError, match=r"^s\.jsonl cannot be read: Permission denied\.$"):
        CodingSession(path, ClaudeCodeReader).follow()


def test_a_file_that_is_gone_is_one_sentence(tmp_path):
    with pytest.raises(FormatError, match=r"^s\.jsonl cannot be read: No such file or directory\.$"):
        CodingSession(tmp_path / "s.jsonl", ClaudeCodeReader).follow()


def test_a_subagent_s_file_that_cannot_be_read_costs_that_one_alone(forbidden, tmp_path):
    path = work().write(tmp_path / "s.jsonl")
    for name in ("a1", "a2"):
        subagent = ClaudeCode(side=True)
        subagent.user("Look for piers.")
        subagent.subagent(path, name)
    forbidden.add("agent-a1.jsonl")
    session = CodingSession(path, ClaudeCodeReader)
    session.follow()
    assert (list(session.lanes), list(session.problems)) == (["a2"], ["a1"])
    assert session.problems["a1"].startswith("agent-a1.jsonl cannot be read")
    forbidden.clear()
    session.follow()
    assert (set(session.lanes), session.problems) == ({"a1", "a2"}, {})


# -- subagents ------------------------------------------------------------------------------------------


def test_a_subagent_knows_the_call_that_started_it_and_what_it_gave_back(tmp_path):
    path = work().write(tmp_path / "s.jsonl")
    subagent = ClaudeCode(side=True)
    subagent.user("Look for other piers")
    subagent.answer("Two piers.", prompt=7_000)
    subagent.subagent(path, "a1")
    session = CodingSession(path, ClaudeCodeReader)
    session.follow()
    (only,) = session.lanes.values()
    assert (session.started_by(only).tool_id, session.given_back(only).text) == ("t3", "Two piers.")
    assert len(only.branches[0].calls) == 1


def test_subagents_of_earlier_versions_stand_beside_the_session(tmp_path):
    path = work().write(tmp_path / "s.jsonl")
    for name in ("a1", "other"):  # the second belongs to another session of that folder
        subagent = ClaudeCode(side=True)
        subagent.user("Look for piers.")
        subagent.write(tmp_path / f"agent-{name}.jsonl")
    session = CodingSession(path, ClaudeCodeReader)
    session.follow()
    assert list(session.lanes) == ["a1"]


def test_a_subagent_without_its_parent_is_shown_without_a_call(tmp_path):
    lines = ClaudeCode()
    lines.user("Hello.")
    path = lines.write(tmp_path / "s.jsonl")
    subagent = ClaudeCode(side=True)
    subagent.last = "lost"
    subagent.user("Look for piers.")
    subagent.subagent(path, "a9")
    session = CodingSession(path, ClaudeCodeReader)
    session.follow()
    (only,) = session.lanes.values()
    assert (session.started_by(only), session.given_back(only)) == (None, None)
    assert (texts(items(only)), only.orphans) == (["Look for piers."], 1)


def test_what_all_calls_took_is_summed_by_model(tmp_path):
    path = work().write(tmp_path / "s.jsonl")
    subagent = ClaudeCode(side=True)
    subagent.user("Look for piers.")
    subagent.answer("Two.", prompt=7_000, output=5, model="claude-haiku-4-5")
    subagent.subagent(path, "a1")
    session = CodingSession(path, ClaudeCodeReader)
    session.follow()
    usage = session.usage()
    assert set(usage) == {"claude-opus-4-6", "claude-haiku-4-5"}
    assert (usage["claude-haiku-4-5"].prompt, usage["claude-haiku-4-5"].output) == (7_000, 5)
    assert usage["claude-opus-4-6"].prompt == sum(call.usage.prompt for call in all_calls(session.main))


def all_calls(lane):
    return {call.step.id: call for branch in lane.branches for call in branch.calls}.values()


def test_a_fork_has_the_subagent_that_lies_beside_its_origin(tmp_path):
    origin = work().write(tmp_path / "origin.jsonl")
    subagent = ClaudeCode(side=True).user("Look for piers.").answer("Two.", prompt=7_000)
    subagent.subagent(origin, "a1")
    session = work().session(tmp_path / "fork.jsonl")
    assert list(session.lanes) == ["a1"]


# -- Claude Code ----------------------------------------------------------------------------------------


def test_pieces_of_a_streamed_answer_are_one_call_with_the_last_count(tmp_path):
    lines = ClaudeCode()
    lines.user("Go.")
    lines.answer(thinking("Hm."), "Yes.", call("t1"), prompt=4_000, output=90)
    (only,) = lines.session(tmp_path / "s.jsonl").main.branches[0].calls
    assert (kinds(only.step.items), only.usage.prompt, only.usage.output) == (
        ["thinking", "assistant", "tool_call"],
        4_000,
        90,
    )


@pytest.mark.parametrize(
    ("text", "more", "kind"),
    [
        ("Build it.", {}, "user"),
        ("<system-reminder>Be brief.</system-reminder>", {}, "injected"),
        ("<command-name>/clear</command-name>", {}, "injected"),
        ("[Request interrupted by user]", {}, "injected"),
        ("Instructions of a skill.", {"isMeta": True}, "injected"),
        ("What was done.", {"isCompactSummary": True}, "summary"),
    ],
)
def test_what_the_program_writes_in_the_user_s_place_is_not_the_user_s(text, more, kind, tmp_path):
    lines = ClaudeCode()
    lines.user(text, **more)
    assert kinds(items(lines.session(tmp_path / "s.jsonl").main)) == [kind]


@pytest.mark.parametrize(
    ("type", "fields", "kind", "text"),
    [
        ("queued_command", {"prompt": "In blue, please.", "commandMode": "prompt"}, "user", "In blue, please."),
        ("queued_command", {"prompt": [{"type": "text", "text": "In blue."}]}, "user", "In blue."),
        ("queued_command", {"prompt": "<task-notification>t</task-notification>"}, "injected", None),
        ("hook_additional_context", {"content": ["One.", "Two."]}, "injected", "One.\nTwo."),
        ("file", {"filename": "a.py", "content": {"type": "text", "file": {"content": "x = 1"}}}, "injected", "x = 1"),
        ("nested_memory", {"path": "CLAUDE.md", "content": {"content": "Use tabs."}}, "injected", "Use tabs."),
        ("edited_text_file", {"filename": "a.py", "snippet": "1 x = 2"}, "injected", "1 x = 2"),
        ("todo_reminder", {"content": [{"content": "Paint", "status": "pending"}]}, "injected", "Paint"),
        ("instructions", {"files": [{"path": "CLAUDE.md", "content": "Use tabs."}]}, "injected", "Use tabs."),
        ("prompt_snapshot", {"systemPrompt": ["One.", "Two."]}, "injected", "One.\n\nTwo."),
        ("invoked_skills", {"skills": [{"name": "s", "content": "How to sail."}]}, "injected", "How to sail."),
    ],
)
def test_an_attachment_s_text_is_read_wherever_it_stands(type, fields, kind, text, tmp_path):
    lines = ClaudeCode()
    lines.attachment(type, **fields)
    (only,) = items(lines.session(tmp_path / "s.jsonl").main)
    assert only.kind == kind
    assert text is None or only.text == text


def test_a_result_has_the_tool_and_the_file_of_its_call(tmp_path):
    lines = ClaudeCode()
    lines.answer(call("t1", "Edit", file_path="/boats/quay.py"))
    lines.result("t1", [{"type": "text", "text": "Edited."}, {"type": "image", "source": {}}])
    result = items(lines.session(tmp_path / "s.jsonl").main)[-1]
    assert (result.tool, result.path, result.images) == ("Edit", "/boats/quay.py", 1)
    assert result.text.startswith("Edited.")


def test_an_error_in_the_assistant_s_place_is_no_call(tmp_path):
    lines = ClaudeCode()
    lines.user("Go.")
    lines.answer("API Error: 529", prompt=5_000, isApiErrorMessage=True)
    lines.answer("No response requested.", prompt=5_000, model="<synthetic>")
    main = lines.session(tmp_path / "s.jsonl").main
    assert main.branches[0].calls == []


# -- Codex ----------------------------------------------------------------------------------------------


def test_a_rollout_s_answers_end_with_their_count_of_tokens(tmp_path):
    lines = Codex()
    lines.user("Build it.")
    lines.reasoning("I look around.")
    lines.call("c1", cmd="ls")
    lines.output("c1", "quay.py")
    lines.tokens(9_000, cached=6_000, output=40)
    lines.answer("Built.")
    lines.tokens(9_500)
    calls = lines.session(tmp_path / "r.jsonl").main.branches[0].calls
    assert [kinds(call.step.items) for call in calls] == [["thinking", "tool_call", "tool_result"], ["assistant"]]
    assert (calls[0].usage, calls[0].step.model) == (CallUsage(3_000, 6_000, 0, 40), "gpt-5.2-codex")
    assert kinds(calls[1].prompt) == ["injected", "user", "thinking", "tool_call", "tool_result"]


def test_repeated_and_estimated_counts_are_no_calls(tmp_path):
    lines = Codex()
    lines.user("Build it.")
    lines.answer("Built.")
    lines.tokens(9_000)
    lines.tokens(9_000, again=True)
    lines.tokens(0)
    lines.line("token_usage_record", {"usage": {"input_tokens": 9_000}})
    main = lines.session(tmp_path / "r.jsonl").main
    assert [call.usage.prompt for call in main.branches[0].calls] == [9_000]
    assert main.left_out["repeated count of tokens"] == 3


def test_a_stopped_answer_does_not_run_into_the_next(tmp_path):
    lines = Codex()
    lines.user("Build it.")
    lines.reasoning("I begin.")
    lines.event("turn_aborted", reason="interrupted")
    lines.turn()
    lines.user("Stop, paint it.")
    lines.answer("Painted.")
    lines.tokens(9_000)
    (only,) = lines.session(tmp_path / "r.jsonl").main.branches[0].calls
    assert kinds(only.step.items) == ["assistant"]
    assert texts(only.prompt)[1:] == ["Build it.", "I begin.", "Stop, paint it."]


@pytest.mark.parametrize(
    ("payload", "kind", "text"),
    [
        (message("user", "Build it."), "user", "Build it."),
        (message("user", "<environment_context><cwd>/</cwd></environment_context>"), "injected", None),
        (message("user", "# AGENTS.md instructions for /boats\n\nUse tabs."), "injected", None),
        (message("developer", "Ask first."), "injected", "Ask first."),
        (message("assistant", "Built.", "output_text"), "assistant", "Built."),
        ({"type": "agent_message", "author": "a", "content": [{"type": "text", "text": "Hi."}]}, "injected", "Hi."),
        ({"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}, "thinking", "Hm."),
        ({"type": "reasoning", "summary": [], "encrypted_content": "gAA"}, "thinking", ENCRYPTED),
        ({"type": "function_call", "name": "f", "arguments": '{"a":1}', "call_id": "c"}, "tool_call", '{"a":1}'),
        ({"type": "custom_tool_call", "name": "apply_patch", "input": "+1", "call_id": "c"}, "tool_call", "+1"),
        ({"type": "local_shell_call", "action": {"command": ["ls"]}}, "tool_call", '{"command": ["ls"]}'),
        ({"type": "web_search_call", "action": {"query": "piers"}}, "tool_call", '{"query": "piers"}'),
        ({"type": "image_generation_call", "revised_prompt": "A pier", "result": "iVBO"}, "tool_call", "A pier"),
        ({"type": "tool_search_call", "arguments": {"query": "q"}}, "tool_call", '{"query": "q"}'),
        ({"type": "function_call_output", "output": "quay.py"}, "tool_result", "quay.py"),
        ({"type": "function_call_output", "output": '{"output":"quay.py"}'}, "tool_result", "quay.py"),
        ({"type": "function_call_output", "output": {"content": "No.", "success": False}}, "tool_result", "No."),
        ({"type": "custom_tool_call_output", "output": [{"type": "input_text", "text": "x"}]}, "tool_result", "x"),
        ({"type": "tool_search_output", "tools": [{"name": "sail"}]}, "tool_result", '[{"name": "sail"}]'),
    ],
)
def test_items_of_a_rollout_are_read_by_their_kind(payload, kind, text, tmp_path):
    data = json.dumps({"type": "response_item", "payload": payload}).encode() + b"\n"
    (only,) = items(lane(tmp_path, data, CodexReader))
    assert only.kind == kind
    assert text is None or only.text == text


def test_a_message_of_another_agent_is_put_before_the_model(tmp_path):
    lines = Codex()
    lines.line("inter_agent_communication", {"author": "/root", "content": "Look for piers.", "trigger_turn": True})
    assert items(lines.session(tmp_path / "r.jsonl").main)[-1].text == "Look for piers."


def test_a_fork_s_file_is_described_once(tmp_path):
    lines = Codex()
    lines.line("session_meta", {"id": "origin", "cwd": "/elsewhere", "base_instructions": {"text": "You are Codex."}})
    lines.event("thread_name_updated", thread_name="Harbour")
    main = lines.session(tmp_path / "r.jsonl").main
    assert texts(items(main)) == ["You are Codex."]
    assert (main.about["folder"], main.about["title"], main.about["version"]) == (
        "/srv/ana/boats",
        "Harbour",
        "0.98.0",
    )

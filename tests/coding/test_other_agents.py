"""Sessions of pi, Gemini CLI, OpenCode, Copilot CLI, Cline and Qwen Code."""

import contextlib
import json
import os
import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core.errors import FormatError
from memory_inspector.__main__ import main
from memory_inspector.coding.cline import ClineReader
from memory_inspector.coding.coding_session import CodingSession
from memory_inspector.coding.context_parts import PartSizes, parts_over_calls
from memory_inspector.coding.copilot_cli import CopilotReader
from memory_inspector.coding.gemini_cli import GeminiReader
from memory_inspector.coding.listing import PROGRAMS, Listing, home_of_file, homes
from memory_inspector.coding.memory_files import memory_files, suggestion
from memory_inspector.coding.opencode import OpenCodeReader
from memory_inspector.coding.pi import PiReader
from memory_inspector.coding.qwen_code import QwenReader
from memory_inspector.coding.session_answers import follow_in, lost_values
from memory_inspector.coding.transcript import MAX_CHARACTERS, as_milliseconds
from memory_inspector.wording.coding_text import DELETED, conclusion
from tests.coding_kit import kinds
from tests.other_agents_kit import (
    AFTER,
    AGENTS,
    RULE,
    SUMMARY,
    TASK,
    cline_files,
    copilot_records,
    gemini,
    gemini_records,
    lines,
    opencode,
    opencode_messages,
    pi,
    pi_records,
    qwen_records,
    write_messages,
)

KEEPS_ALL = "copilot"
"""The program that lists all that the user said after a compaction."""

each = pytest.mark.parametrize("name", AGENTS)


def listing(name, folder):
    none = dict.fromkeys(PROGRAMS, folder / "none")
    return Listing(homes(**{**none, name: folder}))


def session(name, path) -> CodingSession:
    opened = CodingSession(path, PROGRAMS[name].reader)
    opened.follow()
    return opened


def fate(answer):
    return next((stage["fate"] for stage in answer["stages"] if stage["stage"] == "compaction"), "")


@each
def test_a_phrase_is_followed_through_its_compaction(tmp_path, name):
    path = AGENTS[name](tmp_path)
    overview = Listing([home_of_file(path)]).find()
    rule, task, after = (follow_in(overview, phrase).values() for phrase in (RULE, TASK, AFTER))
    assert fate(rule) == ("kept" if name == KEEPS_ALL else "gone")
    assert rule["in_last_prompt"] == (name == KEEPS_ALL)
    assert [stage["by"] for stage in rule["stages"] if stage["stage"] == "said"] == ["user"]
    assert fate(task) == "kept"
    assert task["in_last_prompt"]
    assert after["in_last_prompt"]
    assert rule["session"]["program"] == PROGRAMS[name].reader.program
    lost = [one["text"] for one in lost_values(overview)["lost"]]
    assert lost == ([] if name == KEEPS_ALL else [RULE])


@each
def test_what_only_the_system_prompt_may_have_is_not_denied_where_the_file_lacks_it(tmp_path, name, capsys):
    path = AGENTS[name](tmp_path)
    overview = Listing([home_of_file(path)]).find()
    last = follow_in(overview, "never use tabs in the yard").values()["stages"][-1]
    assert last["verdict"] == ("lost" if name == "copilot" else "unknown")
    assert main(["why", "never use tabs in the yard", "--session", str(path)]) == 1
    said = "Never said in this branch." if name == "copilot" else "Not in the file of this session, which lacks "
    assert capsys.readouterr().out.startswith(said)


@each
def test_what_a_compaction_keeps_is_in_the_next_prompt_and_what_it_drops_is_not(tmp_path, name):
    branch = session(name, AGENTS[name](tmp_path)).main.branches[0]
    first, second = branch.windows
    texts = " ".join(item.text for item in branch.calls[-1].prompt)
    assert len(first.calls) == 3
    assert len(second.calls) == 1
    assert "The tide turns at noon." in texts
    assert SUMMARY in texts
    assert "I read it." not in texts
    assert [item.kind for item in second.items].count("summary") == 1
    assert (second.boundary.boundary.trigger, second.boundary.boundary.tokens_before) == {
        "pi": ("", 1_100),
        "gemini": ("", None),
        "opencode": ("auto", None),
        "copilot": ("manual", 1_100),
        "cline": ("", 1_100),
        "qwen": ("manual", 1_100),
    }[name]


@each
def test_calls_and_results_of_tools_are_paired_and_stand_before_the_next_call(tmp_path, name):
    branch = session(name, AGENTS[name](tmp_path)).main.branches[0]
    call, result = (next(i for i in branch.windows[0].items if i.kind == kind) for kind in ("tool_call", "tool_result"))
    assert (call.tool_id, call.tool) == (result.tool_id, result.tool) == ("t1", call.tool)
    assert result in branch.calls[1].prompt
    assert result not in branch.calls[0].prompt
    assert name in ("copilot", "qwen") or (call.path, result.path) == ("pier.py", "pier.py") or name == "gemini"


@each
def test_tokens_and_cost_are_those_of_the_file(tmp_path, name):
    opened = session(name, AGENTS[name](tmp_path))
    prompts = [call.usage.prompt for call in opened.main.branches[0].calls]
    assert prompts == [1_000] * 4
    assert {call.usage.cache_read for call in opened.main.branches[0].calls} == {300}
    assert {call.usage.output for call in opened.main.branches[0].calls} == {20}
    AGENTS[name](tmp_path / "listed")
    (overview,) = listing(name, tmp_path / "listed").look(60)
    # The compaction's own call, where the file has it, and a subagent's in the session's own file.
    assert overview.calls == {"opencode": 5, "copilot": 6}.get(name, 4)
    assert overview.compactions == 1
    assert overview.folder == "/srv/boats"
    assert overview.cost == {"pi": 2.0, "opencode": 2.5}.get(name)


def _three_answers(id, copied=()):
    """Return a session of Qwen Code that may begin with another's records."""
    head = {"sessionId": id, "cwd": "/srv/boats", "timestamp": "2026-11-29T10:00:00Z"}
    user = {"type": "user", "provenance": "real_user", "message": {"parts": [{"text": "Paint it."}]}}
    answer = {"type": "assistant", "message": {"parts": [{"text": "Done."}]}, "usageMetadata": {"promptTokenCount": 90}}
    own = [{**one, "uuid": f"{id}-{n}-{one['type']}"} for n in range(3) for one in (user, answer)]
    return [{**one, **head} for one in (*copied, *own)]


def test_sessions_whose_answers_stand_in_the_same_lines_are_counted_each(tmp_path):
    folder = tmp_path / "project" / "chats"
    folder.mkdir(parents=True)
    one, other = _three_answers("one"), _three_answers("other")
    for id, records in {"one": one, "other": other, "fork": _three_answers("fork", copied=one)}.items():
        (folder / f"{id}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    counted = {one.name: (one.tokens, one.calls) for one in listing("qwen", tmp_path).look(60)}
    assert (counted["other"], sum(tokens for tokens, _ in counted.values())) == ((270, 3), 810)
    for id in ("one", "other"):
        (tmp_path / id).mkdir()
        answer = {"role": "assistant", "content": "Done.", "metrics": {"inputTokens": 90}}
        session = {"agent": "a", "sessionId": id, "messages": [{"role": "user", "content": "Paint it."}, answer]}
        (tmp_path / id / f"{id}.messages.json").write_text(json.dumps(session))
    assert [(one.tokens, one.calls) for one in listing("cline", tmp_path).look(60)] == [(90, 1)] * 2


@pytest.mark.parametrize("tokens", [10**15, 10**400])
def test_a_count_that_no_call_can_have_costs_no_list(tmp_path, tokens):
    path = pi(tmp_path)
    path.write_text(path.read_text().replace('"input": 700', f'"input": {tokens}', 1).replace('"total": 0.5', '"x": 0'))
    (overview,) = listing("pi", tmp_path).look(60)
    assert (overview.tokens, overview.cost) == (320 + 3 * 1_020, None)


@pytest.mark.parametrize(("written", "seconds"), [(9 * 10**14, None), (253_402_300_800_000, None), (1_500, 1.5)])
def test_milliseconds_after_the_year_9999_are_no_time(written, seconds):
    assert as_milliseconds(written) == seconds


@each
def test_subagents_are_lanes_and_no_sessions_of_the_list(tmp_path, name):
    opened = session(name, AGENTS[name](tmp_path))
    if name == "pi":
        assert not opened.lanes
        return
    (lane,) = opened.lanes.values()
    said = [item.text for item in opened.items(lane, "user")]
    assert said == ["Look for ropes."]
    assert "Look for ropes." not in [item.text for item in opened.items(opened.main, "user")]
    assert opened.problems == {}
    if name != "cline":
        assert opened.started_by(lane).tool_id == "t1"
    assert len(listing(name, tmp_path).look(60)) == 1


def test_a_subagent_of_opencode_that_works_while_its_session_waits_is_counted(tmp_path):
    path, sessions = opencode(tmp_path), listing("opencode", tmp_path)
    (waiting,) = sessions.look(60)
    before, changed = waiting.tokens, waiting.changed
    used = {"tokens": {"input": 90, "output": 7}, "modelID": "o-1", "finish": "stop"}
    with contextlib.closing(sqlite3.connect(path.parent)) as connection, connection:
        said = [({"role": "assistant", **used}, [{"type": "text", "text": f"Rope {n}."}]) for n in range(2)]
        write_messages(connection, "ses_sub", [({"role": "user"}, []), *said])
        connection.execute("UPDATE session SET time_updated = time_updated + 20000 WHERE id = 'ses_sub'")
    (one,) = sessions.look(60)
    assert one.tokens - before == 2 * 97
    assert one.changed > changed


@each
def test_the_parts_of_every_prompt_add_up(tmp_path, name):
    branch = session(name, AGENTS[name](tmp_path)).main.branches[0]
    for one in parts_over_calls(branch, PartSizes(branch, len)):
        assert sum(one.parts.values()) == one.call.usage.prompt


@each
def test_a_long_text_is_read_whole_when_it_is_needed(tmp_path, name):
    long = "x" * (MAX_CHARACTERS + 10) + " the last word is buoy."
    opened = session(name, AGENTS[name](tmp_path, rule=long))
    item = next(item for item in opened.items(opened.main, "user") if item.cut)
    assert len(item.text) == MAX_CHARACTERS
    assert "the last word is buoy." in opened.main.whole(item)
    overview = Listing([home_of_file(opened.path)]).find()
    assert follow_in(overview, "the last word is buoy").trail.occurrences


@each
def test_a_session_of_which_nothing_was_read_gets_no_verdict(tmp_path, name, capsys):
    path = AGENTS[name](tmp_path)
    if name == "opencode":
        with contextlib.closing(sqlite3.connect(path.parent)) as connection, connection:
            connection.execute("DELETE FROM message")
    elif name == "cline":
        path.write_text(json.dumps({"agent": "lead", "sessionId": "x", "messages": []}))
        path.with_name("0123.compaction.json").unlink()
    else:
        path.write_text(path.read_text().splitlines()[0] + "\n")
        if name in ("qwen", "gemini"):
            return  # their first line is a message, or has none to tell the program by
    with pytest.raises(FormatError, match="has nothing that was said"):
        follow_in(Listing([home_of_file(path)]).find(), "anything")
    assert main(["why", "anything", "--session", str(path)]) == 2
    assert path.name in capsys.readouterr().err


@each
def test_a_file_that_is_cut_in_the_middle_costs_what_is_cut(tmp_path, name):
    path = AGENTS[name](tmp_path)
    file = path.parent if name == "opencode" else path
    whole = file.read_bytes()
    for end in range(0, len(whole), 1 + len(whole) // 17):
        file.write_bytes(whole[:end])
        opened = CodingSession(path, PROGRAMS[name].reader)
        with contextlib.suppress(FormatError):  # of the whole file, as a database that lacks pages
            opened.follow()
        assert len(opened.main.branches) <= 2


def test_records_of_unknown_types_are_counted_and_named(tmp_path):
    for reader, record, reason in (
        (PiReader, {"type": "hologram", "id": "a", "parentId": None}, "unknown type 'hologram'"),
        (GeminiReader, {"type": "hologram", "id": "a"}, "unknown type 'hologram'"),
        (CopilotReader, {"type": "session.hologram", "id": "a", "data": {}}, "unknown type 'session.hologram'"),
        (QwenReader, {"type": "system", "subtype": "hologram", "uuid": "a"}, "unknown type 'hologram'"),
    ):
        (read,) = reader().read(record, 1)
        assert read.left_out == reason
    unknown = {"role": "user", "content": [{"type": "hologram"}]}
    for reader, record in (
        (ClineReader, unknown),
        (OpenCodeReader, {"id": "m", "info": {"role": "user"}, "parts": [{"type": "hologram"}]}),
    ):
        (read,) = reader().read(record, 1)
        assert [item.text for item in read.items] == ["(part of an unknown type: hologram)"]


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.just(10**400)
OBJECTS = st.dictionaries(st.sampled_from(["id", "type", "text", "output", "x"]), LEAVES, max_size=3)
JSON = LEAVES | OBJECTS | st.lists(LEAVES | OBJECTS, max_size=3)


def _cline_records():
    own, about, compaction = cline_files()
    return [{**own, "about": about}, *own["messages"], {"compaction": compaction}]


def _opencode_records():
    messages = [{"id": f"m{n}", "info": i, "parts": p} for n, (i, p) in enumerate(opencode_messages())]
    return [{"session": {"title": "x"}}, *messages, {"cleared": ["t1"]}]


RECORDS = {
    PiReader: pi_records(),
    GeminiReader: gemini_records(),
    QwenReader: qwen_records(),
    CopilotReader: copilot_records(),
    ClineReader: _cline_records(),
    OpenCodeReader: _opencode_records(),
}


def _places(field, way=()):
    yield way
    pairs = field.items() if isinstance(field, dict) else enumerate(field) if isinstance(field, list) else ()
    for key, inner in pairs:
        yield from _places(inner, (*way, key))


def _put(field, way, new):
    if not way:
        return new
    key, *rest = way
    changed = dict(field) if isinstance(field, dict) else list(field)
    changed[key] = _put(field[key], rest, new)
    return changed


@given(st.data())
def test_no_value_of_any_field_makes_a_reader_raise(data):
    reader = data.draw(st.sampled_from(list(RECORDS)))
    records = RECORDS[reader]
    number = data.draw(st.integers(0, len(records) - 1))
    way = data.draw(st.sampled_from([way for way in _places(records[number]) if way]))
    changed = _put(records[number], way, data.draw(JSON))
    reading = reader()
    for line, record in enumerate([*records[:number], changed, *records[number + 1 :]], 1):
        for read in reading.read(record, line):
            assert read.left_out or read.items or read.usage or read.boundary
            assert all(len(item.text) == item.characters for item in read.items)
    assert reader.knows(changed) in (True, False)


def test_gemini_s_repeated_history_is_no_compaction_and_repeats_nothing(tmp_path):
    opened = session("gemini", AGENTS["gemini"](tmp_path))
    texts = [item.text for step in opened.main.steps.values() for item in step.items if item.kind != "summary"]
    assert texts.count(f"{RULE} {TASK}") == 1
    assert texts.count("I look.") == 1
    assert opened.main.left_out["repeated history"] == 2
    assert len(opened.main.branches) == 1


def test_a_history_of_gemini_that_ends_earlier_begins_a_branch(tmp_path):
    records = gemini_records()[:8]
    context, first = records[1]["$set"]["messages"][0], records[2]
    records += [{"$set": {"messages": [context, first]}}, {**first, "id": "n", "content": [{"text": "Paint it red."}]}]
    path = AGENTS["gemini"](tmp_path)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    latest, other = session("gemini", path).main.branches
    said = [[item.text for step in one.steps for item in step.items] for one in (latest, other)]
    assert "Paint it red." in said[0]
    assert "I read it." not in said[0]
    assert "I read it." in said[1]


def followed(path, phrase):
    """The conclusion on a phrase in a session, and the verdict on each of its stages."""
    one = follow_in(Listing([home_of_file(path)]).find(), phrase)
    return conclusion(one.trail), {stage["stage"]: stage["verdict"] for stage in one.values()["stages"]}


TAKEN_BACK = "Not in the last prompt: taken back, or said in another branch."


def _rewound_gemini(context="<session_context>Tie knots twice.</session_context>"):
    """A session of Gemini CLI whose second message was taken back, and the context with it, as 0.61.0 does."""
    said = lambda id, kind, words: {"id": id, "type": kind, "content": [{"text": words}]}  # noqa: E731
    answer = lambda id: {**said(id, "gemini", "Aye."), "tokens": {"input": 90, "output": 2}}  # noqa: E731
    first, second = said("a", "user", "Paint the pier."), said("c", "user", "Sink the ferry.")
    begun = [{"sessionId": "x", "projectHash": "h"}, {"$set": {"messages": [said("ctx", "user", context)]}}]
    rewind = [{"$rewindTo": "c"}, {"$set": {"messages": [first, said("b", "gemini", "Aye.")]}}]
    later = [said("e", "user", "Ring the bell."), answer("f")]
    whole = {"$set": {"messages": [said("ctx", "user", context), first, answer("b"), *later]}}
    resumed = [{"sessionId": "x", "projectHash": "h"}, whole, said("g", "user", "Oil it."), answer("h")]
    return [*begun, first, answer("b"), second, answer("d"), *rewind], later, resumed


def test_a_file_that_a_resume_of_gemini_left_empty_is_no_session(tmp_path):
    path, head = gemini(tmp_path), gemini_records()[:2]
    stub = lines(path.with_name("session-2026-11-29T12-00-01234567.jsonl"), head)
    other = lines(path.with_name("session-2026-11-29T12-00-76543210.jsonl"), head)
    assert {one.path for one in listing("gemini", tmp_path).look(60)} == {path, other}
    for written in (path, *path.parent.glob("*/*.jsonl")):
        os.utime(written, (1, 1))
    os.utime(other, (2, 2))
    assert listing("gemini", tmp_path).find().path == other
    other.unlink()
    assert listing("gemini", tmp_path).find().path == path
    assert Listing([home_of_file(stub)]).find().path == stub
    lines(stub, [*head, gemini_records()[2]])
    assert len(listing("gemini", tmp_path).look(60)) == 2


def test_what_gemini_rewound_is_taken_back_at_once_and_its_context_is_out_until_it_is_resumed(tmp_path):
    rewound, later, resumed = _rewound_gemini()
    path = lines(tmp_path / "session-rewound.jsonl", rewound)
    at_once = {"said": "lost", "other_branches": "not_reached", "last_call": "lost"}
    assert followed(path, "Sink the ferry.") == (TAKEN_BACK, at_once)
    assert followed(path, "Paint the pier.")[0] == "In the last prompt."
    lines(path, [*rewound, *later])
    assert followed(path, "Sink the ferry.") == (TAKEN_BACK, at_once)
    assert len(session("gemini", path).main.branches) == 2
    assert followed(path, "Tie knots twice.")[0] == "Not in the last prompt: the text with it was cleared."
    lines(path, [*rewound, *later, *resumed])
    assert followed(path, "Tie knots twice.")[0] == "In the last prompt."
    calls = session("gemini", path).main.branches[0].calls
    assert [any("knots" in item.text for item in call.prompt) for call in calls] == [True, False, True]


def test_a_rewind_of_gemini_to_the_first_message_takes_back_all_that_was_said(tmp_path):
    path = lines(tmp_path / "session-first.jsonl", [*_rewound_gemini()[0][:6], {"$rewindTo": "a"}])
    assert followed(path, "Paint the pier.")[0] == TAKEN_BACK
    assert followed(path, "Tie knots twice.")[1]["last_call"] == "waiting"


def test_what_copilot_adds_to_a_message_is_the_program_s_and_not_kept_by_a_compaction(tmp_path):
    opened = session("copilot", AGENTS["copilot"](tmp_path))
    added = [item for item in opened.items(opened.main, "injected") if item.text == "<now>noon</now>"]
    assert len(added) == 1
    first, second = opened.main.branches[0].windows
    assert "<now>noon</now>" in [item.text for item in first.items]
    assert "<now>noon</now>" not in [item.text for item in second.items]
    assert "You are a harbour master." in [item.text for item in second.items]


def test_what_pi_left_for_an_earlier_entry_is_not_in_the_prompt_nor_denied(tmp_path):
    records = pi_records()
    again = [{**records[-2], "id": "i", "parentId": "k"}, {**records[-1], "id": "j", "parentId": "i"}]
    again[0]["message"] = {"role": "user", "content": [{"type": "text", "text": "Ring the bell."}]}
    path = lines(tmp_path / "--srv--" / "x.jsonl", [*records, *again])
    left = {"said": "lost", "other_branches": "not_reached", "last_call": "lost"}
    assert followed(path, AFTER) == (TAKEN_BACK, left)
    assert followed(path, "Ring the bell.")[0] == "In the last prompt."


def test_copilot_deletes_what_it_takes_back_so_nothing_is_denied(tmp_path):
    path = lines(tmp_path / "0123" / "events.jsonl", copilot_records())
    assert followed(path, "Sink the ferry.")[0] == "Never said in this branch."
    rewind = {"type": "session.info", "id": "r", "parentId": "x", "data": {"infoType": "rewind", "message": "Back."}}
    lines(path, [*copilot_records()[:-3], rewind])
    verdicts = {"said": "unknown", "last_call": "lost"}
    assert followed(path, "Sink the ferry.") == (DELETED, verdicts)
    assert followed(path, TASK)[0] == "In the last prompt."


def test_a_compaction_of_pi_keeps_from_the_entry_that_it_names(tmp_path):
    opened = session("pi", AGENTS["pi"](tmp_path))
    kept = opened.main.branches[0].windows[1].items[:2]
    assert next(item.text for item in kept if item.kind != "summary") == "The tide turns at noon."


def test_an_opencode_database_is_read_while_it_is_written_to(tmp_path):
    path = AGENTS["opencode"](tmp_path)
    look = listing("opencode", tmp_path)
    opened = session("opencode", path)
    assert opened.follow() == 0
    writer = sqlite3.connect(path.parent)
    try:
        more = [*opencode_messages(), ({"role": "user"}, [{"type": "text", "text": "The buoy is red."}])]
        write_messages(writer, "ses_0123", more)
        assert look.look(60)[0].calls == 5
        assert opened.follow() == 0  # nothing is committed yet
        writer.execute("UPDATE session SET time_updated = time_updated + 1")
        writer.commit()
        assert opened.follow() > 0
        assert "The buoy is red." in [item.text for item in opened.items(opened.main, "user")]
        assert look.look(60)[0].changed > 0
    finally:
        writer.close()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["opencode.db"]


def _log(connection, *events):
    connection.execute("CREATE TABLE event (id text, aggregate_id text, seq integer, type text, data text)")
    for number, (kind, data) in enumerate(events):
        row = (f"evt_{number}", "ses_0123", number, f"message.{kind}.1", json.dumps(data))
        connection.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?)", row)


def test_what_opencode_reverted_is_taken_back_while_it_waits_to_be_deleted(tmp_path):
    path = opencode(tmp_path)
    with contextlib.closing(sqlite3.connect(path.parent)) as connection, connection:
        connection.execute("ALTER TABLE session ADD revert text")
        connection.execute("UPDATE session SET revert = ?", (json.dumps({"messageID": "msg_8"}),))
    verdicts = {"said": "lost", "other_branches": "not_reached", "last_call": "lost"}
    assert followed(path, AFTER) == (TAKEN_BACK, verdicts)
    (branch, left) = session("opencode", path).main.branches
    assert (len(branch.calls), len(left.calls)) == (3, 4)


def test_what_opencode_deleted_after_a_revert_is_read_from_its_log(tmp_path):
    path = opencode(tmp_path)
    begun = lambda id, role, **more: ("updated", {"info": {"id": id, "role": role, **more}})  # noqa: E731
    part = lambda of, words: {"id": f"prt_{of}", "messageID": of, "type": "text", "text": words}  # noqa: E731
    said = lambda of, words: ("part.updated", {"part": part(of, words)})  # noqa: E731
    used = {"tokens": {"input": 90, "output": 2}, "finish": "stop"}
    sunk = [
        begun("msg_x", "user"),
        said("msg_x", "Sink"),
        said("msg_x", "Sink the ferry."),
        begun("msg_y", "assistant"),
    ]
    sunk += [said("msg_y", "Aye."), begun("msg_y", "assistant", **used)]
    burnt = [begun("msg_z", "user"), said("msg_z", "Burn the nets.")]
    gone = [[("removed", {"messageID": id}) for id in ids] for ids in (("msg_x", "msg_y"), ("msg_z",))]
    earlier = [begun(f"msg_{number}", "user") for number in range(8)]
    with contextlib.closing(sqlite3.connect(path.parent)) as connection, connection:
        _log(
            connection, *earlier, *sunk, *gone[0], *burnt, *gone[1], begun("msg_8", "user"), begun("msg_9", "assistant")
        )
    assert followed(path, "Sink the ferry.")[0] == followed(path, "Burn the nets.")[0] == TAKEN_BACK
    assert followed(path, AFTER)[0] == "In the last prompt."
    branches = session("opencode", path).main.branches
    assert [len(branch.calls) for branch in branches] == [4, 3, 4]
    assert not any("ferry" in item.text for item in branches[1].calls[-1].prompt)


def test_results_that_opencode_took_out_of_the_prompt_are_cleared_from_then_on(tmp_path):
    messages = opencode_messages()[:5]
    messages[1][1][1]["state"]["time"] = {"start": 1, "end": 2, "compacted": 1_795_000_002_500}
    path = AGENTS["opencode"](tmp_path)
    with contextlib.closing(sqlite3.connect(path.parent)) as connection, connection:
        connection.execute("DELETE FROM message WHERE session_id = 'ses_0123'")
        write_messages(connection, "ses_0123", messages)
    connection.close()
    calls = session("opencode", path).main.branches[0].calls
    assert ["tool_result" in kinds(call.prompt) for call in calls] == [False, True, False]


def test_a_database_without_the_session_says_so(tmp_path):
    path = AGENTS["opencode"](tmp_path)
    with pytest.raises(FormatError, match=r"opencode\.db has no session ses_gone\."):
        session("opencode", path.with_name("ses_gone"))


def test_another_database_is_no_store_of_opencode(tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "notes.db")) as connection, connection:
        connection.execute("CREATE TABLE notes (id)")
    connection.close()
    with pytest.raises(FormatError, match=r"notes\.db is not a database of OpenCode"):
        home_of_file(tmp_path / "notes.db")


@pytest.mark.parametrize(
    ("name", "text", "program"),
    [
        (".continue/sessions/x.json", "{}", "Continue"),
        ("x.json", '{"sessionId": "x", "workspaceDirectory": "/srv", "history": []}', "Continue"),
        (".aider.chat.history.md", "# aider chat started at 2026-11-29", "aider"),
        ("kilo.db", "SQLite format 3\0", "Kilo"),
        (".kimi/sessions/a/context.jsonl", "{}\n", "Kimi"),
        (".vibe/logs/session/unified/a/journal/1.jsonl", "{}\n", "Vibe"),
    ],
)
def test_programs_that_are_not_read_are_named_with_what_is_missing(tmp_path, name, text, program, capsys):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    with pytest.raises(FormatError, match=f"is of {program}, whose sessions are not read: .{{20,}}"):
        home_of_file(path)


def test_a_json_file_of_no_program_is_named(tmp_path, capsys):
    path = tmp_path / "notes.json"
    path.write_text('{"notes": []}')
    assert main(["why", "anything", "--session", str(path)]) == 2
    assert "notes.json is not a session of Claude Code, Codex, pi" in capsys.readouterr().err


def test_open_points_from_opencode_s_database_to_the_command_for_sessions(tmp_path, capsys):
    path = AGENTS["opencode"](tmp_path)
    assert main(["open", str(path.parent)]) == 2
    assert "memory-inspector code" in capsys.readouterr().err
    assert main(["why", AFTER, "--session", str(path.parent)]) == 0


def test_homes_of_programs_are_named_by_one_option(tmp_path, capsys):
    AGENTS["qwen"](tmp_path / "q")
    AGENTS["pi"](tmp_path / "p")
    (tmp_path / "none").mkdir()
    none = [part for name in PROGRAMS for part in ("--home", f"{name}={tmp_path / 'none'}")]
    assert main(["code", "--list", *none, "--home", f"qwen={tmp_path / 'q'}", "--home", f"pi={tmp_path / 'p'}"]) == 0
    printed = capsys.readouterr().out
    assert "Qwen Code" in printed
    assert "pi " in printed
    assert main(["code", "--list", "--home", f"vim={tmp_path}"]) == 2
    assert "claude, codex, pi, gemini, opencode, copilot, cline, qwen" in capsys.readouterr().err


def test_memory_files_of_a_program_are_looked_for_by_its_own_names(tmp_path):
    project = tmp_path / "boats"
    project.mkdir()
    for file in ("GEMINI.md", "AGENTS.md", "CLAUDE.md"):
        (project / file).write_text("Never use tabs in the yard.")
    path = AGENTS["gemini"](tmp_path / "home")
    path.write_text(path.read_text().replace("/srv/boats", str(project)))
    opened = session("gemini", path)
    assert [one.name for one in memory_files(opened, len) if one.owner == "project"][-1].endswith("GEMINI.md")
    assert suggestion(RULE, [], opened, opened.main.branches[0], len).name == "GEMINI.md"

"""Branches and windows of a coding agent's session: what each call was sent, after rewinds and compactions."""

import pytest
from coding_kit import ClaudeCode, Codex, call, kinds, message, rollout, texts, work
from hypothesis import given, settings
from hypothesis import strategies as st
from shared_data import shared

from memory_inspector.coding.claude_code import ClaudeCodeReader
from memory_inspector.coding.codex import CodexReader
from memory_inspector.coding.coding_session import CodingSession, Lane
from memory_inspector.coding.transcript import ENCRYPTED


@pytest.fixture
def main(tmp_path):
    """Read lines, and return the session's own lane."""
    return lambda lines: lines.session(tmp_path / "session.jsonl").main


def said(branch):
    return [texts(window.items) for window in branch.windows]


# -- branches -------------------------------------------------------------------------------------------


def test_a_session_without_a_rewind_is_one_branch(main):
    lines = ClaudeCode()
    lines.user("Build it.")
    lines.answer("Built.", prompt=2_000)
    (only,) = main(lines).branches
    assert (said(only), only.compactions) == ([["Build it.", "Built."]], [])


def test_a_rewind_begins_a_branch_and_the_one_written_last_comes_first(main):
    lines = ClaudeCode()
    first = lines.user("Build it.").last
    lines.answer("Built.", prompt=2_000)
    end = lines.user("In red.").last
    lines.last = first
    lines.answer("Built in wood.", prompt=2_100)
    lines.user("Fine.")
    lines.last = end
    lines.answer("Painted red.", prompt=2_500)
    latest, other = main(lines).branches
    assert (latest.number, said(latest)) == (1, [["Build it.", "Built.", "In red.", "Painted red."]])
    assert (other.number, said(other)) == (2, [["Build it.", "Built in wood.", "Fine."]])


def test_an_edited_first_prompt_is_a_branch_of_its_own(main):
    lines = ClaudeCode()
    lines.user("Build it.")
    lines.last = None
    lines.user("Build it well.")
    assert [said(branch) for branch in main(lines).branches] == [[["Build it well."]], [["Build it."]]]


def test_records_that_are_left_out_do_not_cut_a_branch(main):
    lines = ClaudeCode()
    lines.user("Build it.")
    lines.progress()
    lines.progress("bash_progress")
    lines.answer("Built.", prompt=2_000)
    (only,) = main(lines).branches
    assert said(only) == [["Build it.", "Built."]]


def test_a_record_whose_parent_is_not_in_the_file_follows_the_line_before(main):
    lines = ClaudeCode()
    lines.user("Build it.")
    lines.last = "lost"
    lines.answer("Built.", prompt=2_000)
    lane = main(lines)
    assert (len(lane.branches), lane.orphans) == (1, 1)


def test_results_of_tools_that_ran_at_once_belong_to_their_answer(main):
    lines = ClaudeCode()
    lines.user("Look.")
    lines.answer(call("t1"), call("t2"), call("t3"), prompt=2_000)
    for tool_id in ("t2", "t3", "t1"):
        lines.result(tool_id, f"result of {tool_id}")
    lines.answer("Seen.", prompt=3_000)
    (only,) = main(lines).branches
    assert kinds(only.calls[1].prompt) == ["user", *["tool_call"] * 3, *["tool_result"] * 3]


def test_what_the_program_adds_to_a_result_is_no_branch(main):
    lines = ClaudeCode()
    lines.user("Look.")
    lines.answer(call("t1"), call("t2"), prompt=2_000)
    lines.result("t1", "one")
    lines.attachment("hook_additional_context", content=["A hook saw it."])
    lines.user("Instructions of a skill.", isMeta=True)
    lines.result("t2", "two")
    lines.answer("Seen.", prompt=3_000)
    (only,) = main(lines).branches
    assert texts(only.calls[1].prompt)[3:] == ["one", "A hook saw it.", "Instructions of a skill.", "two"]


def test_what_the_program_adds_after_a_whole_answer_is_a_step_of_its_own(main):
    lines = ClaudeCode()
    lines.user("Look.")
    answer = lines.answer("Seen.", prompt=2_000).last
    lines.user("<command-name>/model</command-name>")
    lines.last = answer
    lines.user("Go on.")
    latest, other = main(lines).branches
    assert (texts(latest.windows[0].items)[-1], kinds(other.windows[0].items)[-1]) == ("Go on.", "injected")


def test_a_subagent_in_the_session_s_own_file_is_a_branch_after_all_others(main):
    lines = ClaudeCode()
    lines.user("Look.")
    last = lines.answer(call("t1", "Task"), prompt=2_000).last
    lines.record("user", parent=None, isSidechain=True, message={"role": "user", "content": "Look for piers."})
    lines.answer("Two.", prompt=900, isSidechain=True)
    lines.last = last
    lines.result("t1", "Two.")
    own, side = main(lines).branches
    assert (said(own)[0][0], said(side)[0]) == ("Look.", ["Look for piers.", "Two."])
    assert len(own.calls) == 1


@settings(max_examples=30)
@given(st.lists(st.integers(0, 10), min_size=1, max_size=12))
def test_every_message_stands_in_a_branch_and_no_branch_ends_inside_another(tmp_path_factory, parents):
    lines = ClaudeCode()
    ids = [lines.user("m0.").last]
    for number, parent in enumerate(parents, 1):
        lines.last = ids[parent % len(ids)]
        ids.append(lines.user(f"m{number}.").last)
    branches = lines.session(tmp_path_factory.mktemp("tree") / "s.jsonl").main.branches
    ways = [[step.id for step in branch.steps] for branch in branches]
    assert {id for way in ways for id in way} == set(ids)
    assert not any(way == other[: len(way)] for way in ways for other in ways if way is not other)
    assert ways[0][-1] == ids[-1]


# -- windows --------------------------------------------------------------------------------------------


def test_after_a_compaction_calls_are_sent_the_summary_and_what_follows(main):
    lines = ClaudeCode()
    lines.user("Build it.")
    lines.answer("Built.", prompt=2_000)
    lines.compact("It was built.", trigger="manual", tokens=150_000)
    lines.user("Paint it.")
    lines.answer("Painted.", prompt=1_500)
    (branch,) = main(lines).branches
    (window,) = branch.compactions
    assert (window.boundary.boundary.trigger, window.boundary.boundary.tokens_before) == ("manual", 150_000)
    assert texts(branch.calls[1].prompt) == ["It was built.", "Paint it."]
    assert [call.number for call in branch.calls] == [1, 2]


def test_a_branch_goes_through_its_compactions_to_the_first_record(main):
    lines = ClaudeCode()
    lines.user("One.")
    lines.compact("First.")
    lines.user("Two.")
    lines.compact("Second.")
    lines.user("Three.")
    (branch,) = main(lines).branches
    assert said(branch) == [["One."], ["First.", "Two."], ["Second.", "Three."]]


def test_two_boundaries_in_a_row_are_two_compactions(main):
    lines = ClaudeCode()
    lines.user("One.")
    lines.compact(None)
    lines.compact("Second.")
    (branch,) = main(lines).branches
    assert said(branch) == [["One."], [], ["Second."]]


def test_a_boundary_without_a_summary_begins_a_window_without_one(main):
    lines = ClaudeCode()
    lines.user("One.")
    lines.compact(None)
    lines.user("Two.")
    (branch,) = main(lines).branches
    assert (said(branch), branch.windows[1].of("summary")) == ([["One."], ["Two."]], [])


def test_a_fork_at_a_boundary_has_the_compaction_in_one_branch_only(main):
    lines = ClaudeCode()
    lines.user("One.")
    before = lines.answer("Done.", prompt=2_000).last
    lines.compact("First.")
    lines.user("Two.")
    lines.last = before
    lines.user("Instead of compacting.")
    latest, other = main(lines).branches
    assert said(latest) == [["One.", "Done.", "Instead of compacting."]]
    assert said(other) == [["One.", "Done."], ["First.", "Two."]]


def test_a_boundary_whose_earlier_record_is_lost_continues_the_line_before(main):
    lines = ClaudeCode()
    lines.user("One.")
    lines.compact("First.", before="lost")
    (branch,) = main(lines).branches
    assert said(branch) == [["One."], ["First."]]


def test_a_file_that_begins_with_a_boundary_has_an_empty_window_before_it(main):
    lines = ClaudeCode()
    lines.compact("First.", before="in another file")
    lines.user("Two.")
    (branch,) = main(lines).branches
    assert said(branch) == [[], ["First.", "Two."]]


@pytest.mark.parametrize("ids", ["segment", "messages"])
def test_what_a_compaction_preserves_stays_in_the_prompt(ids, main):
    lines = ClaudeCode()
    lines.user("One.")
    first = lines.user("Two.").last
    lines.answer(call("t1"), prompt=2_000)
    result = lines.result("t1", "seen").last
    uuids = [line["uuid"] for line in lines.lines[1:]]
    about = {
        "segment": {"preservedSegment": {"headUuid": first, "anchorUuid": "x", "tailUuid": result}},
        "messages": {"preservedMessages": {"anchorUuid": "x", "uuids": uuids}},
    }[ids]
    lines.compact("First.", **about)
    lines.user("Three.")
    (branch,) = main(lines).branches
    window = branch.windows[1]
    assert kinds(window.items) == ["summary", "user", "tool_call", "tool_result", "user"]
    assert (sum(item.carried for item in window.items), texts(window.of("user"))) == (3, ["Three."])


def five_turns(lines):
    """Write turns with a call each; return the ids of their prompts and answers."""
    return [[lines.user(f"Say {n}.").last, lines.answer(f"Said {n}.", prompt=2_000).last] for n in range(1, 6)]


def test_a_summary_up_to_a_prompt_keeps_what_is_after_it_and_its_calls(main):
    lines = ClaudeCode()
    turns = five_turns(lines)
    kept = [id for turn in turns[2:] for id in turn]
    lines.compact(None, before=turns[1][1], messagesSummarized=4, preservedMessages={"anchorUuid": "x", "uuids": kept})
    lines.user("Summary.", isCompactSummary=True).user("Go on.").answer("Done.", prompt=2_000)
    (branch,) = main(lines).branches
    assert [call.number for call in branch.calls] == [1, 2, 3, 4, 5, 6]
    said_after = [text for n in (3, 4, 5) for text in (f"Say {n}.", f"Said {n}.")]
    assert texts(branch.calls[-1].prompt) == ["Summary.", *said_after, "Go on."]


def test_a_summary_from_a_prompt_on_keeps_what_is_before_it_and_goes_through_its_end(main):
    lines = ClaudeCode()
    turns = five_turns(lines)
    kept = [id for turn in turns[:2] for id in turn]
    boundary = f"u{len(lines.lines) + 1}"
    about = {"messagesSummarized": 6, "preservedMessages": {"anchorUuid": boundary, "uuids": kept}}
    lines.compact("Summary.", before=kept[-1], **about)
    lines.user("Go on.").answer("Done.", prompt=2_000)
    (branch,) = main(lines).branches
    assert len(branch.calls) == 6
    assert texts(branch.calls[-1].prompt) == ["Say 1.", "Said 1.", "Say 2.", "Said 2.", "Summary.", "Go on."]


def test_what_a_compaction_preserves_may_stand_on_another_branch_or_after_it(main):
    lines = ClaudeCode()
    first = lines.user("One.").last
    lines.answer("Done.", prompt=2_000)
    lines.last = first
    elsewhere = lines.user("On another branch.").last
    lines.last = first
    before = lines.answer("Done again.", prompt=2_100).last
    later = f"u{len(lines.lines) + 3}"
    lines.compact(None, before=before, preservedMessages={"anchorUuid": "x", "uuids": [elsewhere, later]})
    lines.user("Summary.", isCompactSummary=True).user("Written again.").user("Go on.")
    branch = main(lines).branches[0]
    assert said(branch)[-1] == ["Summary.", "On another branch.", "Written again.", "Go on."]


def test_cleared_results_are_in_no_prompt_after_it_and_all_else_stays(main):
    lines = ClaudeCode()
    lines.user("Look.")
    lines.answer(call("t1"), call("t2"), prompt=2_000)
    lines.result("t1", "one")
    lines.result("t2", "two")
    lines.answer(call("t3"), prompt=8_000)
    lines.result("t3", "three")
    lines.clear("t1", "t2")
    lines.answer("Seen.", prompt=4_000)  # follows the clearing at once
    lines.clear("t1", "t3")  # the first is cleared already
    lines.user("Go on.")
    lines.answer("Done.", prompt=3_000)
    (branch,) = main(lines).branches
    results = [[i.text for i in call.prompt if i.kind == "tool_result"] for call in branch.calls]
    assert results == [[], ["one", "two"], ["three"], []]
    assert len(branch.windows) == 1
    assert kinds(branch.calls[2].prompt).count("tool_call") == 3


def test_a_clearing_of_attachments_alone_is_no_compaction(main):
    lines = ClaudeCode()
    lines.user("One.")
    lines.clear()
    lines.user("Two.")
    assert said(main(lines).branches[0]) == [["One.", "Two."]]


def test_a_call_s_prompt_counts_as_sent_by_each_call_after_it(main):
    for branch in main(work()).branches:
        for window in branch.windows:
            for place, item in enumerate(window.items):
                sent = [call for call in window.calls if item in call.prompt]
                assert len(sent) == window.calls_with(place)
                assert not sent or sent[0] is window.calls[window.calls_before(place)]


@pytest.mark.data
@pytest.mark.parametrize("name", ["4d5611e5-241a-462a-8d15-5122611a9569", "8463c716-a2ea-4c14-9efa-87158ebd9f20"])
def test_the_real_sessions_are_one_branch_with_one_automatic_compaction(name):
    session = CodingSession(shared(f"claude-code/{name}.jsonl"), ClaudeCodeReader)
    session.follow()
    (branch,) = session.main.branches
    (window,) = branch.compactions
    assert window.boundary.boundary.trigger == "auto"
    assert kinds(window.items)[0] == "summary"
    assert abs(window.boundary.boundary.tokens_before - branch.windows[0].calls[-1].usage.prompt) < 10_000
    assert {call.step.id for call in branch.calls} == {s.id for s in session.main.steps.values() if s.usage}


# -- Codex ----------------------------------------------------------------------------------------------


def test_a_replaced_history_stays_in_the_prompt_with_the_summary(main):
    summary = "Another language model started to solve this problem: it was built."
    lines = Codex()
    lines.user("Build it.")
    lines.answer("Built.")
    lines.tokens(9_000)
    lines.compacted(summary, [message("user", "Build it."), message("user", summary)])
    lines.user("Paint it.")
    lines.answer("Painted.")
    lines.tokens(4_000)
    (branch,) = main(lines).branches
    window = branch.windows[1]
    assert list(zip(kinds(window.items), texts(window.items), strict=True)) == [
        ("injected", "You are Codex."),  # which is sent with every call
        ("user", "Build it."),
        ("summary", summary),
        ("user", "Paint it."),
        ("assistant", "Painted."),
    ]
    assert (sum(item.carried for item in window.items), branch.calls[1].sent) == (2, 4)


def test_a_compaction_without_a_history_keeps_what_the_user_said_last(main):
    lines = Codex()
    lines.user("word " * 20_000)  # alone more than is kept
    lines.user("Build it.")
    lines.answer("Built.")
    lines.tokens(9_000)
    lines.compacted("It was built.")
    lines.user("Paint it.")
    lines.compacted("It was built and painted.")
    windows = main(lines).branches[0].windows
    base = "You are Codex."
    assert texts(windows[1].items) == [base, "Build it.", "It was built.", "Paint it."]
    assert texts(windows[2].items) == [base, "Build it.", "Paint it.", "It was built and painted."]


def test_an_encrypted_summary_is_one_that_cannot_be_read(main):
    lines = Codex()
    lines.user("Build it.")
    lines.compacted("", [message("user", "Build it."), {"type": "compaction", "encrypted_content": "gAA"}])
    (window,) = main(lines).branches[0].compactions
    assert texts(window.of("summary")) == [ENCRYPTED]


def test_a_turn_that_is_taken_back_is_a_branch(main):
    lines = Codex()
    for text in ("One.", "Two.", "Three."):
        lines.user(text)
        lines.answer(f"{text} Done.")
        lines.tokens(9_000)
    lines.event("thread_rolled_back", num_turns=2)
    lines.user("Instead.")
    latest, other = main(lines).branches
    assert said(latest)[0][1:] == ["One.", "One. Done.", "Instead."]
    assert said(other)[0][-1] == "Three. Done."


@pytest.mark.parametrize("turns", [1, 2, 9])
def test_nothing_is_taken_back_beyond_a_compaction(turns, main):
    lines = Codex()
    lines.user("One.")
    lines.compacted(
        "Summary.", [message("user", "One."), message("user", "Another language model started to solve this problem")]
    )
    lines.user("Two.")
    lines.event("thread_rolled_back", num_turns=turns)
    lines.user("Instead.")
    latest = main(lines).branches[0]
    assert (len(latest.windows), said(latest)[1][-1], "Two." in said(latest)[1]) == (2, "Instead.", False)


def test_a_compaction_is_placed_without_going_back_to_the_first_record(tmp_path, monkeypatch):
    looks = []
    back_from = Lane._back_from
    monkeypatch.setattr(
        Lane, "_back_from", lambda lane, end: (looks.append(step) or step for step in back_from(lane, end))
    )
    path = tmp_path / "rollout-d.jsonl"
    path.write_bytes(rollout().data * 50)
    records = CodingSession(path, CodexReader).follow()
    assert 0 < len(looks) < records

"""Many sessions together: what a project took on which day, and which of the user's sentences compactions lose."""

import os
import time
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from coding_kit import ClaudeCode, call
from hypothesis import given
from hypothesis import strategies as st

from memory_inspector.coding.claude_code import ClaudeCodeReader
from memory_inspector.coding.coding_session import CodingSession
from memory_inspector.coding.listing import Home, Listing, SessionOverview
from memory_inspector.coding.project import by_project_and_day, lost_instructions
from memory_inspector.coding.transcript import CallUsage

RULE = "Never touch the schema of the shop."
TASK = "Then mend the page of orders."
COUNTS = {"prompt": 100, "output": 5, "cached": False}
"""Tokens of an answer."""


@pytest.fixture
def in_tokyo(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield ZoneInfo("Asia/Tokyo")
    monkeypatch.undo()
    time.tzset()


def listed(folder):
    return Listing([Home(ClaudeCodeReader, folder, ("*.jsonl",), 1)]).look(seconds=10)


def written(folder, name, *, works_in="/srv/shop", at=None):
    lines = ClaudeCode(folder=works_in).user(f"{RULE} {TASK}").answer(**COUNTS)
    path = lines.write(folder / "p" / f"{name}.jsonl")
    if at is not None:
        os.utime(path, (at, at))
    return path


# -- by project and day ----------------------------------------------------------------------------


def test_a_session_counts_on_the_local_day_of_its_last_write(tmp_path, in_tokyo):
    evening = datetime(2026, 2, 27, 23, 30, tzinfo=in_tokyo).timestamp()
    written(tmp_path, "a", at=evening)
    written(tmp_path, "b", at=evening - 3600)
    written(tmp_path, "c", at=evening + 3600)
    rows = by_project_and_day(listed(tmp_path))
    assert [(row.day, row.sessions) for row in rows] == [("2026-02-28", 1), ("2026-02-27", 2)]


def test_tokens_cost_and_compactions_add_up_in_each_project(tmp_path, in_tokyo):
    paths = [written(tmp_path, name, works_in=f"/srv/{name}/shop", at=0) for name in ("a", "b")]
    lines = ClaudeCode(folder="/srv/a/shop").user(RULE).answer(**COUNTS | {"prompt": 1_000})
    lines.compact("Shop.").answer(**COUNTS).write(paths[0])
    os.utime(paths[0], (0, 0))
    first, second = by_project_and_day(listed(tmp_path))
    assert [(row.folder, row.project, row.tokens) for row in (first, second)] == [
        ("/srv/a/shop", "shop", 1110),
        ("/srv/b/shop", "shop", 105),
    ]
    assert (first.sessions, first.compactions, second.compactions) == (1, 1, 0)
    assert first.dollars == pytest.approx((1100 * 5 + 10 * 25) / 1e6)


def test_what_is_unknown_is_counted_and_adds_nothing(tmp_path, in_tokyo):
    for name, model in (("a", "claude-opus-4-6"), ("b", "none-1")):
        lines = ClaudeCode(folder="/srv/shop").user(RULE).answer(model=model, **COUNTS)
        lines.write(tmp_path / "p" / f"{name}.jsonl")
    overviews = listed(tmp_path)
    gone = SessionOverview(
        tmp_path / "p" / "gone.jsonl", ClaudeCodeReader, "x", overviews[0].changed, 10, folder="/srv/shop"
    )
    gone.follow()
    unread = SessionOverview(
        tmp_path / "p" / "a.jsonl", ClaudeCodeReader, "y", overviews[0].changed, 10, folder="/srv/shop"
    )
    (row,) = by_project_and_day([*overviews, gone, unread])
    assert (row.sessions, row.tokens, row.without_price) == (4, 210, 1)
    assert row.dollars == pytest.approx((100 * 5 + 5 * 25) / 1e6)


def test_a_session_without_a_folder_counts_for_the_folder_of_its_file(tmp_path):
    written(tmp_path, "a", works_in="")
    (row,) = by_project_and_day(listed(tmp_path))
    assert (row.folder, row.project) == (str(tmp_path / "p"), "p")


@given(
    st.lists(
        st.tuples(st.sampled_from(["", "/a/shop", "/b/shop"]), st.integers(0, 10**6), st.integers(0, 9), st.booleans())
    )
)
@pytest.mark.slow
def test_no_session_is_lost_or_counted_twice(tmp_path_factory, sessions):
    path = tmp_path_factory.getbasetemp() / "x.jsonl"
    overviews = []
    for folder, tokens, compactions, priced in sessions:
        usage = {"claude-opus-4-6" if priced else "none-1": CallUsage(input=tokens)}
        overviews.append(
            SessionOverview(path, ClaudeCodeReader, "x", tokens, 0, folder=folder, usage=usage, compactions=compactions)
        )
    rows = by_project_and_day(overviews)
    assert sum(row.sessions for row in rows) == len(sessions)
    assert sum(row.tokens for row in rows) == sum(overview.tokens for overview in overviews)
    assert sum(row.compactions for row in rows) == sum(overview.compactions for overview in overviews)
    assert sum(row.dollars for row in rows) == pytest.approx(sum(overview.cost or 0 for overview in overviews))
    assert len({(row.folder, row.day) for row in rows}) == len(rows)


# -- lost instructions -----------------------------------------------------------------------------


def opened(path):
    return CodingSession(path, ClaudeCodeReader)


def test_each_sentence_has_its_fates_over_all_compactions_of_all_sessions(tmp_path):
    first = ClaudeCode().user(f"{RULE} {TASK}").answer()
    first.compact(f"The user said: {RULE}").answer().answer().user(f"{RULE} {TASK}").answer()
    first.compact("We talked.").answer().answer().answer().user(RULE.upper()).answer()
    second = ClaudeCode().user(RULE).answer()
    second.compact("Hello there.").answer(call("t1", file_path="notes.md")).result("t1", RULE).answer()
    third = ClaudeCode().user(RULE).answer()
    third.compact("The schema of the shop must never be touched.").answer()
    rows, notes = lost_instructions(
        [opened(lines.write(tmp_path / f"{n}.jsonl")) for n, lines in enumerate((first, second, third))]
    )
    by_text = {row.text: row for row in rows}
    rule, task = by_text[RULE], by_text[TASK]
    assert rule.fates == {"kept": 1, "said_again": 1, "read_again": 1, "reworded": 1}
    assert (rule.lost, rule.is_rule, rule.fates.total()) == (2, True, 4)
    assert sorted(rule.calls_until_back) == [1, 3]
    assert rule.median_until_back == 2
    assert task.fates == {"said_again": 1, "gone": 1}
    assert (task.lost, task.is_rule, task.median_until_back) == (2, False, 2)
    assert notes == []


def test_what_is_lost_most_often_comes_first_and_of_equals_what_the_user_had_to_repeat(tmp_path):
    lines = ClaudeCode()
    lines.user("Never use mocks in tests. Always sign your commits. Mend the page of orders.").answer()
    lines.compact("Never use mocks in tests.").user("Mend the page of orders!").answer()
    rows, _ = lost_instructions([opened(lines.write(tmp_path / "a.jsonl"))])
    assert [row.text for row in rows] == [
        "Mend the page of orders.",
        "Always sign your commits.",
        "Never use mocks in tests.",
    ]
    # It was in the first prompt after the compaction.
    assert rows[0].median_until_back == 0
    assert rows[1].median_until_back is None


def test_a_compaction_before_a_fork_counts_once(tmp_path):
    lines = ClaudeCode().user(RULE).answer().compact("We talked.").answer()
    fork = lines.last
    lines.user("Go on with orders.").answer()
    lines.last = fork
    followed = lines.user("Go on with customers.").answer().session(tmp_path / "a.jsonl")
    assert len(followed.main.branches) == 2
    (rule,), _ = lost_instructions([followed])
    assert rule.fates == {"gone": 1}


def test_older_sessions_are_left_out_unread_and_said(tmp_path):
    sessions = [opened(written(tmp_path, name)) for name in "abc"]
    sessions += [opened(tmp_path / "gone.jsonl")]
    assert lost_instructions(iter(sessions), most=1)[1] == ["3 older sessions are left out."]
    assert lost_instructions(sessions, most=3)[1] == ["1 older session is left out."]
    assert [session.main.records for session in sessions] == [2, 2, 2, 0]


def test_a_session_that_cannot_be_read_costs_no_other(tmp_path):
    lines = ClaudeCode().user(RULE).answer().compact("Hello there.").answer()
    good, rubbish = lines.write(tmp_path / "a.jsonl"), tmp_path / "b.jsonl"
    rubbish.write_bytes(b"\x00\xff\nnot json\n[]\n")
    rows, notes = lost_instructions([opened(tmp_path / "gone.jsonl"), opened(rubbish), opened(good)])
    assert [row.text for row in rows] == [RULE]
    (note,) = notes
    assert note.startswith("gone.jsonl cannot be read")


def test_no_session_has_no_rows():
    assert lost_instructions([]) == ([], [])
    assert by_project_and_day([]) == []


@given(st.permutations(range(3)))
def test_the_order_of_sessions_changes_no_number(tmp_path_factory, order):
    folder = tmp_path_factory.mktemp("ordered")
    summaries = ("We talked.", f"The user said: {RULE}", "Then mend the page of orders.")
    sessions = []
    for number, summary in enumerate(summaries):
        lines = ClaudeCode().user(f"{RULE} {TASK}").answer().compact(summary).answer()
        sessions.append(lines.write(folder / f"{number}.jsonl"))
    rows, _ = lost_instructions([opened(sessions[number]) for number in order])
    assert {row.text: (row.lost, row.fates.total()) for row in rows} == {RULE: (2, 3), TASK: (2, 3)}

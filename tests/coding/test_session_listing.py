"""The list of sessions: newest first, each with what it took, and nothing that an id may open as a path."""

import errno
import os
from datetime import timedelta

import pytest
import zstandard
from coding_kit import MODEL, START, ClaudeCode, Codex, rollout, work
from shared_data import shared

from memory_inspector.coding import record_file
from memory_inspector.coding.claude_code import ClaudeCodeReader
from memory_inspector.coding.codex import CodexReader
from memory_inspector.coding.coding_session import CodingSession
from memory_inspector.coding.listing import LIVE_SECONDS, Listing, home_of_file, homes
from memory_inspector.coding.prices import cost_of
from memory_inspector.coding.transcript import CallUsage
from memory_inspector.server.coding_sessions import CodingSessions

NOW = 1_770_000_000


@pytest.fixture
def folders(tmp_path):
    """The folders of both programs: Claude Code's and Codex's."""
    for name in ("claude", "codex"):
        (tmp_path / name).mkdir()
    return tmp_path / "claude", tmp_path / "codex"


def listing_of(folders):
    return Listing(homes(*folders))


def write(lines, path, age=0):
    lines.write(path)
    os.utime(path, (NOW - age, NOW - age))
    return path


def prompt(text):
    lines = ClaudeCode()
    lines.user(text)
    return lines


# -- which sessions there are ---------------------------------------------------------------------------


def test_sessions_of_both_programs_are_listed_newest_first(folders):
    claude, codex = folders
    write(work(), claude / "-srv-ana-boats" / "old.jsonl", age=500)
    write(rollout(), codex / "2026" / "02" / "12" / "rollout-2026-02-12T16-00-00-c.jsonl", age=100)
    write(prompt("Hello."), claude / "-srv-ana-quays" / "new.jsonl", age=10)
    sessions = listing_of(folders).look()
    assert [(one.program, one.path.stem[:7]) for one in sessions] == [
        ("Claude Code", "new"),
        ("Codex", "rollout"),
        ("Claude Code", "old"),
    ]
    assert [one.is_live(NOW) for one in sessions] == [True, True, False]
    assert [one.is_live(NOW + LIVE_SECONDS) for one in sessions] == [False, False, False]


def counts(overview):
    return overview.id, overview.title, overview.usage, overview.calls, overview.compactions, overview.problem


def items_of(overview):
    session = CodingSession(overview.path, overview.reader)
    session.follow()
    assert session.follow() == 0
    return [session.main.whole(item) for step in session.main.steps.values() for item in step.items]


def test_a_rollout_is_the_same_session_after_codex_compressed_it(folders):
    lines = rollout()
    lines.user("A long line. " * 5_000)
    path = write(lines, folders[1] / "2026" / "02" / "12" / "rollout-2026-02-12T16-00-00-c.jsonl")
    (before,) = listing_of(folders).look()
    texts = items_of(before)
    path.with_name(f"{path.name}.zst").write_bytes(zstandard.compress(path.read_bytes()))
    path.unlink()
    (after,) = listing_of(folders).look()
    assert counts(after) == counts(before)
    assert items_of(after) == texts
    assert home_of_file(after.path).reader is CodexReader


def test_a_compressed_file_that_was_replaced_is_read_again_once(folders):
    path = folders[1] / "rollout-c.jsonl.zst"
    path.write_bytes(zstandard.compress(rollout().data))
    session = CodingSession(path, CodexReader)
    assert session.follow() > 0
    path.write_bytes(zstandard.compress(rollout().user("One more.").data))
    assert session.follow() > 0
    assert session.follow() == 0


def test_an_open_session_is_found_in_its_new_place(folders):
    path = write(rollout(), folders[1] / "rollout-c.jsonl")
    sessions = CodingSessions(listing_of(folders))
    (overview,), _ = sessions.look()
    assert sessions.open(overview.id).overview.path == path
    packed = path.with_name(f"{path.name}.zst")
    packed.write_bytes(zstandard.compress(path.read_bytes()))
    path.unlink()
    assert sessions.open(overview.id).overview.path == packed
    packed.unlink()
    assert sessions.open(overview.id) is None


def test_a_file_that_only_has_the_name_of_a_compressed_one_costs_itself_alone(folders):
    write(work(), folders[0] / "-boats" / "s.jsonl")
    (folders[1] / "rollout-c.jsonl.zst").write_bytes(b"no zstd")
    damaged, whole = sorted(listing_of(folders).look(), key=lambda one: one.program, reverse=True)
    assert (damaged.calls, whole.problem) == (0, "")
    assert whole.calls > 0
    assert "rollout-c.jsonl.zst" in damaged.problem


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes among its files")
def test_a_pipe_among_the_files_costs_itself_alone(folders):
    path = write(work(), folders[0] / "-boats" / "s.jsonl")
    os.mkfifo(folders[0] / "-boats" / "pipe.jsonl")
    (path.with_suffix("") / "subagents").mkdir(parents=True)
    os.mkfifo(path.with_suffix("") / "subagents" / "agent-a.jsonl")
    sessions = {one.path.stem: one for one in listing_of(folders).look()}
    assert sessions["pipe"].problem == "pipe.jsonl cannot be read: it is no file, but a pipe or a device."
    assert (sessions["s"].calls > 0, sessions["s"].problem) == (True, "")
    session = CodingSession(path, ClaudeCodeReader)
    assert session.follow() > 0
    assert list(session.problems.values()) == ["agent-a.jsonl cannot be read: it is no file, but a pipe or a device."]


def test_a_list_whose_time_is_over_goes_on_with_the_next_look(folders, monkeypatch):
    monkeypatch.setattr(record_file, "_LINES_AT_ONCE", 2)
    write(work(), folders[0] / "-boats" / "s.jsonl")
    (at_once,) = listing_of(folders).look()
    listing = listing_of(folders)
    (overview,) = listing.look(0)
    looks = 1
    while not overview.read:
        (overview,) = listing.look(0)
        looks += 1
    assert looks > 2
    assert counts(overview) == counts(at_once)


@pytest.mark.parametrize(
    ("limit", "least", "sentence"),
    [
        ("MAX_LINES", 3, "the file has more than 3 lines"),
        ("MAX_UNPACKED_BYTES", 900, "the file unpacks to more than 900 b"),
    ],
)
def test_a_file_that_unpacks_to_too_much_is_read_up_to_the_limit_and_it_is_said(
    folders, monkeypatch, limit, least, sentence
):
    monkeypatch.setattr(record_file, limit, least)
    monkeypatch.setattr(record_file, "READ_BYTES", 500)
    path = folders[1] / "rollout-c.jsonl.zst"
    path.write_bytes(zstandard.compress(rollout().data * 3))
    session = CodingSession(path, CodexReader)
    assert session.follow() > 1
    assert [line.problem for line in session.main.bad_lines if sentence in line.problem]
    assert session.follow() == 0
    (overview,) = listing_of(folders).look()
    assert overview.read


@pytest.mark.parametrize("part", [0.3, 0.98])
def test_a_compressed_file_that_was_cut_short_says_so(folders, part):
    data = zstandard.compress(b"".join(rollout().data for _ in range(200)))
    path = folders[1] / "rollout-c.jsonl.zst"
    path.write_bytes(data[: int(len(data) * part)])
    session = CodingSession(path, CodexReader)
    session.follow()
    assert session.main.bad_lines[-1].problem == "is not whole: the file was cut short"


def test_a_compressed_file_may_end_without_a_line_break(folders):
    path = folders[1] / "rollout-c.jsonl.zst"
    lines = rollout().data
    path.write_bytes(zstandard.compress(lines.rstrip(b"\n")))
    session = CodingSession(path, CodexReader)
    assert session.follow() == lines.count(b"\n")
    assert not session.main.bad_lines


def test_a_folder_on_a_share_that_is_gone_is_named(folders, monkeypatch):
    write(work(), folders[0] / "-boats" / "s.jsonl")
    listing, scandir = listing_of(folders), os.scandir
    listing.look()

    def gone(path):
        if os.fspath(path).startswith(str(folders[0])):
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN), os.fspath(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", gone)
    assert listing.look() == []
    assert listing.problems == [f"claude cannot be read: {os.strerror(errno.ENOTCONN)}."]


def test_archived_sessions_of_codex_are_listed(folders, monkeypatch):
    monkeypatch.setenv("CODEX_HOME", str(folders[1]))
    path = write(rollout(), folders[1] / "archived_sessions" / "rollout-c.jsonl")
    assert [one.path for one in Listing(homes(folders[0])).look()] == [path]
    assert Listing(homes(folders[0], folders[1] / "sessions")).look() == []


def test_what_is_no_session_is_not_listed(folders):
    claude, codex = folders
    path = write(work(), claude / "-boats" / "s.jsonl")
    subagent = ClaudeCode(side=True)
    subagent.user("Look.")
    subagent.subagent(path, "a1")
    for other in ("-boats/agent-a2.jsonl", "-boats/notes.txt", "history.jsonl", "-boats/deep/er.jsonl"):
        write(prompt("No."), claude / other)
    write(prompt("No."), codex / "history.jsonl")
    assert [one.path for one in listing_of(folders).look()] == [path]


def test_a_session_is_named_by_its_title_or_by_what_the_user_said_first(folders):
    claude, codex = folders
    titled, said, parts = work(), ClaudeCode(), ClaudeCode()
    said.user("<command-name>/clear</command-name>")
    said.user("Build the\n  harbour page. " + "x" * 500)
    parts.user([{"type": "text", "text": "With an image."}, {"type": "image", "source": {}}])
    named = Codex()
    named.user("<environment_context>x</environment_context>")
    named.user("Paint it.")
    write(titled, claude / "-b" / "1.jsonl", age=1)
    write(said, claude / "-b" / "2.jsonl", age=2)
    write(parts, claude / "-b" / "3.jsonl", age=3)
    write(named, codex / "rollout-4.jsonl", age=4)
    named.event("thread_name_updated", thread_name="Harbour")
    write(named, codex / "rollout-5.jsonl", age=5)
    titles = [one.title for one in listing_of(folders).look()]
    assert titles[0] == "Harbour"
    assert titles[1].startswith("Build the harbour page. xxx")
    assert len(titles[1]) == 120
    assert titles[2:] == ["With an image.", "Paint it.", "Harbour"]


def test_a_session_s_folder_is_the_one_that_the_agent_worked_in(folders):
    claude, _ = folders
    write(work(), claude / "-srv-ana-boats" / "1.jsonl")
    bare = claude / "-srv-ana-quays" / "2.jsonl"
    bare.parent.mkdir()
    bare.write_bytes(b'{"type":"summary","summary":"Quays"}\n')
    os.utime(bare, (NOW - 9, NOW - 9))
    boats, quays = listing_of(folders).look()
    assert (boats.folder, boats.project) == ("/srv/ana/boats", "boats")
    assert (quays.folder, quays.project) == ("", "-srv-ana-quays")


# -- subagents at work ------------------------------------------------------------------------------------


def test_a_subagent_that_works_while_its_session_waits_is_counted(folders):
    path = write(work(), folders[0] / "-boats" / "s.jsonl", age=500)
    listing = listing_of(folders)
    (waiting,) = listing.look()
    before, size = waiting.tokens, waiting.size
    assert (waiting.read, waiting.is_live(NOW)) == (True, False)
    at_work = ClaudeCode(side=True).user("Look for piers.").answer("Two.", prompt=7_000, output=5)
    os.utime(at_work.subagent(path, "a1"), (NOW - 60, NOW - 60))
    (one,) = listing.look()
    assert one.tokens - before == 7_005
    assert (one.read, one.is_live(NOW), one.size > size) == (True, True, True)
    os.utime(at_work.answer("Three.", prompt=8_000, output=7).subagent(path, "a1"), (NOW, NOW))
    (one,) = listing.look()
    assert one.tokens - before == 15_012
    assert one.changed == NOW
    assert [each.tokens for each in listing.look()] == [one.tokens]


# -- ids are no paths -----------------------------------------------------------------------------------


def test_a_session_is_found_by_the_id_that_the_list_gives_it(folders):
    path = write(work(), folders[0] / "-boats" / "s.jsonl")
    listing = listing_of(folders)
    (only,) = listing.look()
    assert (only.id, listing.of(only.id)) == ("Claude Code/-boats/s", only)
    assert only.path == path


@pytest.mark.parametrize(
    "id",
    [
        "Claude Code/../../etc",
        "Claude Code/../../etc/passwd",
        "Claude Code/-boats/../../outside",
        "Claude Code/-boats/./s",
        "/etc/passwd",
        "Claude Code/-boats/s.jsonl",
        "",
    ],
)
def test_an_id_that_the_list_does_not_have_finds_nothing(id, folders):
    write(work(), folders[0] / "-boats" / "s.jsonl")
    write(work(), folders[0].parent / "outside.jsonl")
    listing = listing_of(folders)
    listing.look()
    assert listing.of(id) is None


# -- what may not be read -------------------------------------------------------------------------------


def test_a_folder_that_may_not_be_read_is_named_and_costs_its_own_sessions_alone(folders, monkeypatch):
    claude, _ = folders
    path = write(work(), claude / "-boats" / "s.jsonl")
    write(work(), claude / "-secret" / "t.jsonl")
    scan = os.scandir

    def refuse(folder):
        if str(folder).endswith("-secret"):
            raise PermissionError(13, "Permission denied", str(folder))
        return scan(folder)

    monkeypatch.setattr(os, "scandir", refuse)
    listing = listing_of(folders)
    assert [one.path for one in listing.look()] == [path]
    assert listing.problems == ["-secret cannot be read: Permission denied."]


def test_a_program_that_is_not_installed_is_no_problem(tmp_path):
    listing = Listing(homes(tmp_path / "no", tmp_path / "such"))
    assert (listing.look(), listing.problems) == ([], [])


def test_a_file_that_cannot_be_read_has_a_problem_until_it_can(folders, forbidden):
    write(prompt("Good."), folders[0] / "-boats" / "good.jsonl", age=1)
    write(prompt("Bad."), folders[0] / "-boats" / "bad.jsonl", age=2)
    forbidden.add("bad.jsonl")
    listing = listing_of(folders)
    good, bad = listing.look()
    assert (good.title, good.problem) == ("Good.", "")
    assert (bad.title, bad.problem, bad.read) == ("", "bad.jsonl cannot be read: Permission denied.", True)
    forbidden.clear()
    listing.look()
    assert (bad.title, bad.problem) == ("Bad.", "")


# -- counts ---------------------------------------------------------------------------------------------


def assert_counts_are_those_of_the_whole_reading(overview, session):
    answers = [step for step in session.main.steps.values() if step.usage is not None]
    assert overview.calls == len(answers)
    usage = {}
    for step in (step for lane in session.all_lanes for step in lane.steps.values() if step.usage is not None):
        usage[step.model] = usage.get(step.model, CallUsage()) + step.usage
    assert overview.usage == usage
    boundaries = [step.boundary for step in session.main.steps.values() if step.boundary is not None]
    assert overview.compactions == sum(not boundary.clears for boundary in boundaries)
    assert overview.tokens == sum(used.prompt + used.output for used in usage.values())


@pytest.mark.parametrize("lines", [work(), rollout()], ids=["Claude Code", "Codex"])
def test_counts_are_those_of_the_whole_reading(lines, folders):
    claude, codex = folders
    path = claude / "-b" / "s.jsonl" if isinstance(lines, ClaudeCode) else codex / "rollout-s.jsonl"
    session = lines.session(path)
    (overview,) = listing_of(folders).look()
    assert overview.calls
    assert overview.compactions
    assert_counts_are_those_of_the_whole_reading(overview, session)


@pytest.mark.data
@pytest.mark.parametrize(
    "name",
    [
        "4d5611e5-241a-462a-8d15-5122611a9569",
        "8463c716-a2ea-4c14-9efa-87158ebd9f20",
        "short",
        "subagent",
        "tool_heavy",
    ],
)
def test_counts_of_the_real_sessions_are_those_of_the_whole_reading(name):
    home = shared("claude-code")
    (overview,) = [one for one in Listing(homes(home.parent, home / "none")).look(60) if one.path.stem == name]
    session = CodingSession(home / f"{name}.jsonl", ClaudeCodeReader)
    session.follow()
    assert_counts_are_those_of_the_whole_reading(overview, session)


def test_a_cost_is_estimated_where_all_prices_are_known(folders):
    lines = ClaudeCode()
    lines.answer("Built.", prompt=1_003, output=1_000)
    write(lines, folders[0] / "-b" / "1.jsonl", age=1)
    lines.answer("Built.", prompt=1_000, model="unknown-model")
    write(lines, folders[0] / "-b" / "2.jsonl", age=2)
    priced, unpriced = listing_of(folders).look()
    # 3 tokens of input, 501 read from the cache, 499 written to it, 1,000 of output.
    assert priced.cost == pytest.approx((3 * 5 + 501 * 0.5 + 499 * 6.25 + 1_000 * 25) / 1e6)
    assert unpriced.cost is None


def test_what_a_cache_keeps_for_an_hour_costs_twice_the_price_of_input(folders):
    lines = ClaudeCode()
    lines.answer("Built.", prompt=1_003, output=0)
    lines.lines[-1]["message"]["usage"]["cache_creation"] = {"ephemeral_1h_input_tokens": 400}
    write(lines, folders[0] / "-b" / "1.jsonl", age=1)
    (priced,) = listing_of(folders).look()
    assert priced.cost == pytest.approx((3 * 5 + 501 * 0.5 + 99 * 6.25 + 400 * 10) / 1e6)


def test_the_cost_in_the_file_counts_and_a_price_list_fills_what_came_after(folders):
    lines = ClaudeCode().answer("Built.", prompt=1_000, model="model-of-tomorrow")
    lines.spent(0.5, **{"model-of-tomorrow": (1_200, 30)})
    write(lines, folders[0] / "-b" / "1.jsonl", age=2)
    lines.answer("Painted.", prompt=1_003, output=1_000, model="claude-opus-4-8", cached=False)
    session = CodingSession(write(lines, folders[0] / "-b" / "2.jsonl", age=1), ClaudeCodeReader)
    session.follow()
    later, counted = listing_of(folders).look()
    assert (counted.cost, counted.tokens) == (0.5, 1_230)
    assert later.cost == pytest.approx(0.5 + (1_003 * 5 + 1_000 * 25) / 1e6)
    assert session.usage_and_cost() == (later.usage, later.cost)


@pytest.mark.parametrize("model", ["claude-opus-4-9", "claude-opus-4-80", "claude-opus-7", "gpt-5.2-codex"])
def test_a_model_has_not_the_price_of_one_whose_name_it_continues(model):
    assert cost_of({model: CallUsage(1_000)}) is None
    assert cost_of({"claude-opus-4-20250514": CallUsage(1_000)}) == pytest.approx(0.015)


def fork(folders):
    """Write a session, and a fork that copies its records under its own id and goes on."""
    origin = ClaudeCode().user("Build it.", sessionId="origin")
    origin.answer("Built.", prompt=1_000, sessionId="origin", model="model-of-tomorrow")
    copied = [{**line, "sessionId": "fork"} for line in origin.lines]
    origin.spent(0.5, **{"model-of-tomorrow": (1_000, 10)})
    forked = ClaudeCode(START + timedelta(hours=1)).queue("Paint it.")
    forked.lines += copied
    forked.user("Paint it.", sessionId="fork").answer("Painted.", prompt=1_100, sessionId="fork", id="msg_fork")
    forked.spent(0.75, **{"model-of-tomorrow": (1_000, 10), MODEL: (1_100, 10)})
    write(origin, folders[0] / "-b" / "origin.jsonl", age=1)
    return write(forked, folders[0] / "-b" / "fork.jsonl", age=2)


def test_a_fork_s_copies_count_once_with_the_origin(folders):
    fork(folders)
    origin, forked = listing_of(folders).look()
    assert (origin.calls, origin.tokens, origin.cost) == (1, 1_010, 0.5)
    assert (forked.calls, forked.tokens, forked.cost) == (1, 1_110, pytest.approx(0.25))


def test_a_fork_whose_origin_is_gone_counts_all(folders):
    path = fork(folders)
    path.with_name("origin.jsonl").unlink()
    (forked,) = listing_of(folders).look()
    assert (forked.calls, forked.tokens, forked.cost) == (2, 2_120, 0.75)


# -- following ------------------------------------------------------------------------------------------


def test_a_growing_file_is_followed(folders):
    lines = work()
    data = lines.data
    path = folders[0] / "-b" / "s.jsonl"
    path.parent.mkdir()
    path.write_bytes(data[: len(data) // 2])
    listing = listing_of(folders)
    (overview,) = listing.look()
    half = overview.calls
    with path.open("ab") as file:
        file.write(data[len(data) // 2 :])
    (again,) = listing.look()
    assert again is overview
    assert 0 < half < overview.calls
    assert_counts_are_those_of_the_whole_reading(overview, lines.session(path))


def test_half_a_line_at_the_end_of_a_file_is_not_waited_for(folders):
    path = folders[0] / "-b" / "s.jsonl"
    path.parent.mkdir()
    path.write_bytes(work().data + b'{"type":"assis')
    (overview,) = listing_of(folders).look()
    assert overview.read


def test_sessions_that_were_not_reached_are_read_by_later_looks(folders):
    for number in range(3):
        write(prompt(f"Prompt {number}."), folders[0] / "-b" / f"{number}.jsonl", age=number)
    listing = listing_of(folders)
    titles = [[one.title for one in listing.look(-1)] for _ in range(3)]
    assert titles == [
        ["Prompt 0.", "", ""],
        ["Prompt 0.", "Prompt 1.", ""],
        ["Prompt 0.", "Prompt 1.", "Prompt 2."],
    ]


def test_a_file_that_shrinks_is_counted_again(folders):
    path = write(work(), folders[0] / "-b" / "s.jsonl", age=9)
    listing = listing_of(folders)
    (overview,) = listing.look()
    assert (overview.title, overview.calls > 3) == ("Harbour", True)
    write(prompt("Another one."), path)
    listing.look()
    assert (overview.title, overview.calls, overview.compactions, overview.usage) == ("Another one.", 0, 0, {})


def test_a_file_that_is_gone_leaves_the_list(folders):
    path = write(work(), folders[0] / "-b" / "s.jsonl")
    listing = listing_of(folders)
    (overview,) = listing.look()
    path.unlink()
    assert listing.look() == []
    assert listing.of(overview.id) is None

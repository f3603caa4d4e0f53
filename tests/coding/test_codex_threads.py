"""Threads of Codex in several files: forks by reference, rewinds and subagents, in the form that 0.171.0 writes."""

import json
import os
from pathlib import Path

import pytest
import zstandard
from coding_kit import Codex, message, texts
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_inspector.coding import codex
from memory_inspector.coding.codex import CodexReader, Rollouts, _head, rollouts_near
from memory_inspector.coding.coding_session import CodingSession
from memory_inspector.coding.listing import Listing, home_of_file, homes
from memory_inspector.coding.session_answers import follow_in

A, B, C = (f"01a22825-000{n}-7000-8000-00000000000{n}" for n in (1, 2, 3))
LOCK = "Please never touch the lockfile."


class Rollout(Codex):
    """A file of Codex 0.171.0: records are numbered, and each call has a record of its tokens."""

    def __init__(self, id, first=0, base=None, text="You are Codex.", **meta):
        self.first, self.lines = first, []
        super().__init__()
        self.id, self.lines = id, []
        if base is not None:
            meta["history_base"] = {"thread_id": base, "end_ordinal_exclusive": first, "end_byte_offset": 9}
        about = {"id": id, "session_id": id, "cwd": self.folder, "cli_version": "0.171.0", **meta}
        self.line("session_meta", {**about, "base_instructions": {"text": text}})
        self.turn("gpt-5")

    def add(self, record, *, timed=True):
        return super().add({"ordinal": self.first + len(self.lines), **record}, timed=timed)

    @property
    def end(self) -> int:
        return self.first + len(self.lines)

    def used(self, prompt):
        usage = {"input_tokens": prompt, "cached_input_tokens": 0, "output_tokens": 10}
        return self.line("token_usage_record", {"response_id": f"r{len(self.lines)}", "usage": usage})

    def said(self, user, answer, prompt):
        self.user(user).answer(answer).used(prompt)
        return self.tokens(prompt)

    def put(self, home, at="10-00-01", segment="", folder="sessions/2026/11/28") -> Path:
        name = f"rollout-2026-11-28T{at}-{self.id}{'_' + segment if segment else ''}.jsonl"
        return self.write(home / folder / name)


def session_of(path) -> CodingSession:
    session = CodingSession(path, CodexReader)
    session.follow()
    return session


def prompts(branch):
    return [texts(call.prompt)[1:] for call in branch.calls]


@pytest.fixture
def listing(tmp_path, monkeypatch):
    monkeypatch.setenv("CODEX_HOME", str(tmp_path))
    return Listing(homes(tmp_path / "none"))


def origin(home, **where) -> Rollout:
    lines = Rollout(A).said(LOCK, "Understood.", 1_000)
    lines.put(home, **where)
    return lines


def fork(home, first, base=A, **meta) -> Path:
    meta = {"forked_from_id": A, "forked_from_ordinal_exclusive": first, **meta}
    return Rollout(B, first, base, **meta).said("Another way.", "Fine.", 1_100).put(home, "10-00-02")


# -- forks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", [A, None], ids=["history_base", "ordinal"])
@pytest.mark.parametrize("folder", ["sessions/2026/11/28", "archived_sessions"])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "compressed"])
def test_a_fork_begins_with_what_it_inherited(base, folder, packed, tmp_path, listing):
    lines = Rollout(A).said(LOCK, "Understood.", 1_000)
    first = lines.end
    lines.said("What the origin said later.", "Yes.", 1_200)
    path = lines.put(tmp_path, folder=folder)
    if packed:
        path.with_name(f"{path.name}.zst").write_bytes(zstandard.compress(path.read_bytes()))
        path.unlink()
    session = session_of(fork(tmp_path, first, base))
    (branch,) = session.main.branches
    assert prompts(branch) == [[LOCK], [LOCK, "Understood.", "Another way."]]
    assert sum(used.prompt for used in session.usage().values()) == 1_100
    assert {one.name: (one.calls, one.tokens) for one in listing.look(60)} == {A: (2, 2_220), B: (2, 1_110)}
    values = follow_in(listing.find(B), "never touch the lockfile").values()
    assert (values["in_last_prompt"], values["gaps"]) == (True, [])


def test_an_origin_that_is_gone_costs_what_it_held_and_is_said(tmp_path, listing):
    fork(tmp_path, 9)
    values = follow_in(listing.find(B), "Another way").values()
    assert values["in_last_prompt"]
    assert values["gaps"] == [f"What it began with is in session {A}, which is not on this machine."]


def test_an_origin_that_cannot_be_read_costs_what_it_held_and_is_said(tmp_path):
    folder = tmp_path / "archived_sessions"
    folder.mkdir()
    (folder / f"rollout-2026-11-28T10-00-01-{A}.jsonl.zst").write_bytes(b"no zstd")
    session = session_of(fork(tmp_path, 9))
    assert prompts(session.main.branches[0]) == [["Another way."]]
    assert len(session.gaps) == 1
    assert "damaged" in session.gaps[0]


def test_two_forks_of_each_other_are_read_once_each(tmp_path, listing):
    for id, other, at in ((A, B, "10-00-01"), (B, A, "10-00-02")):
        Rollout(id, 9, other).said(f"Words of {id[:13]}.", "Fine.", 1_000).put(tmp_path, at)
    assert len(listing.look(60)) == 2
    assert [len(session_of(one.path).main.branches) for one in listing.look(60)] == [1, 1]


def test_an_origin_that_is_cut_in_a_record_gives_what_is_whole(tmp_path):
    lines = origin(tmp_path)
    path = lines.put(tmp_path)
    path.write_bytes(lines.data[:-30])
    session = session_of(fork(tmp_path, lines.end))
    assert prompts(session.main.branches[0])[-1] == [LOCK, "Understood.", "Another way."]


def test_an_answer_says_which_lines_it_lacks(tmp_path):
    first = origin(tmp_path)
    path = fork(tmp_path, first.end)
    (packed,) = tmp_path.glob("sessions/**/*00001.jsonl")
    packed.with_name(packed.name + ".zst").write_bytes(zstandard.compress(packed.read_bytes())[:-30])
    packed.unlink()
    answer = follow_in(Listing([home_of_file(path)]).find(), "never touch the lockfile").values()
    assert not answer["in_last_prompt"]
    problem = "is not whole: the file was cut short: what they held is missing here."
    assert answer["gaps"] == [f"Line 1 of its files {problem}"]


def test_a_fork_inherits_compactions(tmp_path, listing):
    lines = Rollout(A).said(LOCK, "Understood.", 1_000)
    lines.used(900).line("compacted", {"message": "", "replacement_history": [message("user", LOCK)]}).put(tmp_path)
    path = fork(tmp_path, lines.end)
    (branch,) = session_of(path).main.branches
    assert (len(branch.compactions), prompts(branch)[-1]) == (1, [LOCK, "Another way."])
    assert [(one.calls, one.compactions) for one in listing.look(60) if one.name == B] == [(3, 1)]


# -- rewinds --------------------------------------------------------------------------------------------


def rewound(home) -> Rollout:
    lines = origin(home)
    at = lines.end
    lines.said("Take this back.", "Two.", 1_200).put(home)
    return Rollout(A, at, A)


def test_a_rewind_is_another_branch_of_one_session(tmp_path, listing):
    rewound(tmp_path).said("A new way.", "Three.", 1_150).put(tmp_path, "10-00-05", C)
    (one,) = listing.look(60)
    assert (one.name, one.title, one.calls, one.tokens) == (A, LOCK, 3, 3_380)
    now, before = session_of(one.path).main.branches
    assert prompts(now)[-1] == [LOCK, "Understood.", "A new way."]
    assert prompts(before)[-1] == [LOCK, "Understood.", "Take this back."]
    values = follow_in(listing.find(C), "Take this back").values()
    assert not values["in_last_prompt"]
    assert [stage["stage"] for stage in values["stages"]] == ["said", "other_branches", "last_call"]


def test_a_rewind_without_a_word_since_is_the_latest_branch(tmp_path):
    path = rewound(tmp_path).put(tmp_path, "10-00-05", C)
    now, _ = session_of(path).main.branches
    assert prompts(now) == [[LOCK]]


def test_a_rewind_while_the_session_is_open_is_followed(tmp_path):
    second = rewound(tmp_path)
    session = session_of(next(tmp_path.rglob("rollout-*")))
    assert len(session.main.branches) == 1
    second.said("A new way.", "Three.", 1_150).put(tmp_path, "10-00-05", C)
    assert session.follow() > 0
    assert len(session.main.branches) == 2
    assert session.follow() == 0


def test_whole_texts_come_from_the_file_that_has_them(tmp_path):
    long = "Every word of it counts. " * 2_000
    path = rewound(tmp_path).said(long, "Three.", 9_000).put(tmp_path, "10-00-05", C)
    main = session_of(path).main
    assert long in [main.whole(item) for item in main.branches[0].windows[0].items]


def test_a_thread_of_200_segments_is_one_session(tmp_path, listing):
    lines, base = origin(tmp_path), A
    for number in range(200):
        end, segment = lines.end, f"s{number:03}"
        lines = Rollout(A, end, base).said(f"Prompt {number}.", "Yes.", 1_000)
        lines.put(tmp_path, f"11-{number // 60:02}-{number % 60:02}", segment)
        base = segment
    (one,) = listing.look(60)
    (branch,) = session_of(one.path).main.branches
    assert (one.calls, len(branch.calls), len(prompts(branch)[-1])) == (201, 201, 401)


# -- subagents ------------------------------------------------------------------------------------------


def test_a_subagent_is_a_lane_of_its_parent(tmp_path, listing):
    parent = Rollout(A).user("Look around.").call("c1", "spawn_agent", message="Look for the zebra.").used(2_000)
    parent.output("c1", json.dumps({"agent_id": B, "nickname": "Gauss"}))
    note = {"agent_path": B, "status": {"completed": "Found."}}
    parent.user(f"<subagent_notification>\n{json.dumps(note)}\n</subagent_notification>").put(tmp_path)
    spawned = {"source": {"subagent": {"thread_spawn": {"parent_thread_id": A, "depth": 1}}}, "session_id": A}
    Rollout(B, **spawned, parent_thread_id=A).said("Look for the zebra.", "Found.", 700).put(tmp_path, "10-00-02")
    (one,) = listing.look(60)
    assert (one.name, one.calls, one.tokens) == (A, 1, 2_720)
    assert listing.find(B) is one
    session = session_of(one.path)
    (lane,) = session.lanes.values()
    assert lane.name == B
    assert "zebra" in session.started_by(lane).text
    assert "Found." in session.given_back(lane).text
    assert [step.items[0].text for step in session.main.steps.values() if step.items[0].kind == "user"] == [
        "Look around."
    ]


def test_a_subagent_whose_parent_is_gone_is_listed_itself(tmp_path, listing):
    Rollout(B, parent_thread_id=A).said("Look.", "Found.", 700).put(tmp_path)
    assert [one.name for one in listing.look(60)] == [B]


# -- tokens, titles, instructions -----------------------------------------------------------------------


def test_a_compaction_s_own_call_counts_and_no_call_counts_twice(tmp_path):
    lines = Rollout(A).said("Begin.", "Yes.", 1_000).tokens(1_000, again=True)
    lines.used(1_900).line("compacted", {"message": "", "replacement_history": [message("user", "Begin.")]})
    path = lines.said("Go on.", "Fine.", 1_500).put(tmp_path)
    assert [call.usage.prompt for call in session_of(path).main.branches[0].calls] == [1_000, 1_900, 1_500]


def test_base_instructions_that_are_an_item_too_are_sent_once(tmp_path):
    lines = Rollout(A).developer("You are Codex.").said("Begin.", "Yes.", 1_000)
    history = [message("developer", "You are Codex."), message("user", "Begin.")]
    path = (
        lines.line("compacted", {"message": "", "replacement_history": history}).said("On.", "Yes.", 900).put(tmp_path)
    )
    first, last = session_of(path).main.branches[0].calls
    assert texts(first.prompt) == ["You are Codex.", "Begin."]
    assert texts(last.prompt) == ["You are Codex.", "Begin.", "On."]


def test_a_title_is_that_of_the_program_s_list(tmp_path, listing):
    origin(tmp_path)
    index = [{"id": A, "thread_name": "Old"}, {"id": A, "thread_name": "Lockfile"}, "x", {"id": 3}]
    (tmp_path / "session_index.jsonl").write_text("".join(json.dumps(line) + "\n" for line in index))
    assert [one.title for one in listing.look(60)] == ["Lockfile"]


# -- whatever a first record holds ----------------------------------------------------------------------

IDS = st.sampled_from([A, B, C, "", None, 3])
METAS = st.fixed_dictionaries(
    {},
    optional={
        "id": IDS,
        "parent_thread_id": IDS,
        "forked_from_id": IDS,
        "forked_from_ordinal_exclusive": st.integers(-1, 9) | st.none(),
        "history_base": st.none()
        | st.fixed_dictionaries({"thread_id": IDS, "end_ordinal_exclusive": st.integers(0, 9)}),
        "source": st.none() | st.just({"subagent": "review"}),
    },
)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(METAS, min_size=3, max_size=3))
def test_each_file_is_of_one_session_and_read_once_for_it(metas):
    names = [
        f"rollout-2026-11-28T10-00-01-{A}",
        f"rollout-2026-11-28T10-00-02-{B}",
        f"rollout-2026-11-28T10-00-03-{A}_{C}",
    ]
    heads = [_head(Path(f"{name}.jsonl"), meta) for name, meta in zip(names, metas, strict=True)]
    rollouts = Rollouts(heads)
    for head in heads:
        parts, _ = rollouts.parts(head)
        assert len({part.path for part in parts}) == len(parts)
        assert {one.path for one in rollouts.segments(head)} <= {part.path for part in parts}
        assert all(part.after is None or part.after < place for place, part in enumerate(parts))
        assert rollouts.session(rollouts.session(head)) is rollouts.session(head)


def test_of_a_home_that_nobody_changed_no_folder_is_listed_again_and_a_new_file_is_seen(tmp_path, monkeypatch):
    day = tmp_path / "sessions" / "2026" / "02" / "12"
    day.mkdir(parents=True)
    first, second = (day / f"rollout-2026-02-12T10-00-0{n}-{n}.jsonl" for n in (1, 2))
    first.touch()
    for folder in (day, *day.parents[:3]):
        os.utime(folder, (1_770_000_000, 1_770_000_000))
    assert set(rollouts_near(first).by_id) == {"1"}
    listed = []
    with monkeypatch.context() as patch:
        patch.setattr(codex.os, "listdir", lambda folder: listed.append(folder))
        assert set(rollouts_near(first).by_id) == {"1"}
    assert listed == []
    second.touch()
    assert set(rollouts_near(first).by_id) == {"1", "2"}

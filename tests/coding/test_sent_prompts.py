"""Prompts that a session's file has as they were sent: read, not put together, and named by who wrote them."""

import json

import pytest
from coding_kit import ClaudeCode, call, kinds, texts
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_inspector.coding.coding_session import StoredPrompts
from memory_inspector.coding.context_parts import UNSEEN, PartSizes, part_of, parts_over_calls
from memory_inspector.coding.statement_fates import follow_phrase

RULES = "<system-reminder>\nContents of /boats/CLAUDE.md:\n\nIndent with tabs.\n</system-reminder>"
PLACE = "You work in /boats."
DATE = "Today is Friday."


def message(role, *sent):
    return {"role": role, "content": [{"type": "text", "text": one} if isinstance(one, str) else one for one in sent]}


def result(tool_id, text):
    return {"type": "tool_result", "tool_use_id": tool_id, "content": text}


def words(text):
    return len(text.split())


def session() -> ClaudeCode:
    """A session with its requests, in the form of Claude Code 2.1.332: two calls, and a third after a compaction."""
    lines = ClaudeCode().user("Paint the mast.")
    lines.rendered("environment", f"<system-reminder>\n{PLACE}\n</system-reminder>", role="system")
    files = [{"path": "/boats/CLAUDE.md", "content": "Indent with tabs."}]
    lines.rendered("instructions", RULES, files=files)
    lines.rendered("date", f"<system-reminder>\n{DATE}\n</system-reminder>", role="system")
    first = [message("user", RULES, "Paint the mast."), message("system", f"{PLACE}\n\n{DATE}")]
    id = lines.request(*first)
    lines.answer("I look.", call("t1", file_path="/boats/mast.py"), prompt=9_000, requestRef=id)
    lines.result("t1", "mast = 1")
    later = [*first, message("assistant", "I look.", call("t1", file_path="/boats/mast.py"))]
    later.append(message("user", result("t1", "mast = 1")))
    id = lines.request(*later, base=id)
    lines.answer("Painted.", prompt=9_100, requestRef=id)
    lines.compact("The mast was to be painted.")
    lines.rendered("instructions", RULES, files=files)
    lines.user("Now the deck.")
    id = lines.request(message("user", RULES, "The mast was to be painted."), message("user", "Now the deck."))
    return lines.answer("Done.", prompt=8_000, requestRef=id)


def branch_of(lines, tmp_path):
    return lines.session(tmp_path / "s.jsonl").main.branches[0]


def described(lines):
    """The same session as a version without requests writes it."""
    lines.lines = [line for line in lines.lines if not line["type"].startswith("api-request")]
    return lines


def test_a_prompt_is_read_in_the_order_in_which_it_was_sent(tmp_path):
    first, second, _ = branch_of(session(), tmp_path).calls
    sent = ["You are a harbour master.", "Read\nUse Read well.\n{}", RULES, "Paint the mast.", PLACE, DATE]
    assert texts(first.prompt) == sent
    assert texts(second.prompt)[len(sent) :] == ["I look.", '{"file_path": "/boats/mast.py"}', "mast = 1"]
    assert [first.exact, second.exact] == [True, True]


def test_after_a_compaction_the_prompt_has_the_summary_and_what_is_sent_again(tmp_path):
    last = branch_of(session(), tmp_path).calls[-1]
    assert texts(last.prompt)[2:] == [RULES, "The mast was to be painted.", "Now the deck."]
    assert kinds(last.prompt)[2:] == ["injected", "summary", "user"]


def test_put_together_or_read_a_prompt_has_the_same_messages(tmp_path):
    read, composed = branch_of(session(), tmp_path), branch_of(described(session()), tmp_path)
    assert [call.exact for call in composed.calls] == [False] * 3
    for one, other in zip(read.calls, composed.calls, strict=True):
        assert sorted(texts(one.prompt)[2:]) == sorted(texts(other.prompt))


def test_the_parts_of_a_read_prompt_are_all_of_it(tmp_path):
    branch = branch_of(session(), tmp_path)
    for each in parts_over_calls(branch, PartSizes(branch, words)):
        assert UNSEEN not in each.parts
        assert sum(each.parts.values()) == each.call.usage.prompt
        assert {"System prompt", "Tools", "Memory files", "User"} <= each.parts.keys()


def test_a_text_that_joins_several_is_taken_apart_by_who_wrote_them(tmp_path):
    first = branch_of(session(), tmp_path).calls[0]
    assert [(item.tool, item.path) for item in first.prompt[2:]] == [
        ("instructions", "/boats/CLAUDE.md"),
        ("", ""),
        ("environment", ""),
        ("date", ""),
    ]


def test_words_that_the_program_adds_around_a_message_stand_beside_it(tmp_path):
    lines = ClaudeCode().user("Paint.")
    lines.attachment("queued_command", prompt="In blue.", commandMode="prompt")
    sent = "The user sent a message: In blue. Address it."
    id = lines.request(message("user", "Paint."), message("system", sent))
    lines.answer("Yes.", requestRef=id)
    prompt = branch_of(lines, tmp_path).calls[0].prompt[2:]
    assert list(zip(kinds(prompt), texts(prompt), strict=True)) == [
        ("user", "Paint."),
        ("injected", "The user sent a message:"),
        ("user", "In blue."),
        ("injected", "Address it."),
    ]


def test_a_memory_file_of_several_is_named_by_the_words_that_it_has(tmp_path):
    files = [{"path": f"/{name}/CLAUDE.md", "content": f"Rule of the {name}."} for name in ("quay", "pier")]
    sent = "Rules:\nContents of /quay:\nRule of the quay.\nContents of /pier:\nRule of the pier.\nEnd."
    lines = ClaudeCode().user("Go.").rendered("instructions", sent, files=files)
    id = lines.request(message("user", sent, "Go."))
    read = lines.answer("Done.", requestRef=id).session(tmp_path / "s.jsonl")
    for name in ("quay", "pier"):
        (found,) = follow_phrase(read, f"Rule of the {name}.").occurrences
        assert (found.item.path, part_of(found.item), found.call) == (f"/{name}/CLAUDE.md", "Memory files", 1)
    assert "".join(texts(read.main.branches[0].calls[0].prompt[2:4])) == sent


@pytest.mark.parametrize("phrase", ["You are a harbour master.", "Use Read well."])
def test_system_prompt_and_tools_can_be_followed_and_stay_through_compactions(phrase, tmp_path):
    trail = follow_phrase(session().session(tmp_path / "s.jsonl"), phrase)
    assert [has for _, has in trail.in_prompt] == [True] * 3
    assert [compaction.fate for compaction in trail.fates] == ["kept"]


def test_what_a_later_request_leaves_out_is_not_sent_with_it(tmp_path):
    lines = ClaudeCode().user("Look.")
    first = message("user", "Look.")
    asked = message("assistant", call("t1"))
    id = lines.request(first)
    lines.answer(call("t1"), requestRef=id).result("t1", "a long text")
    id = lines.request(first, asked, message("user", result("t1", "a long text")), base=id)
    lines.answer("Seen.", requestRef=id).user("Go on.")
    short = message("user", result("t1", "(cleared)"))
    id = lines.request(first, asked, short, message("assistant", "Seen."), message("user", "Go on."), base=id)
    lines.answer("Done.", requestRef=id)
    branch = branch_of(lines, tmp_path)
    results = [[item.text for item in call.prompt if item.kind == "tool_result"] for call in branch.calls]
    assert results == [[], ["a long text"], ["(cleared)"]]
    (window,) = branch.windows
    for place in range(len(window.items)):
        assert window.calls_with(place) == sum(call.sends(place) for call in window.calls)


def test_what_was_never_sent_is_in_no_prompt(tmp_path):
    lines = ClaudeCode().user("Look.").user("<command-name>/model</command-name>")
    id = lines.request(message("user", "Look."))
    (only,) = branch_of(lines.answer("Seen.", requestRef=id), tmp_path).calls
    assert texts(only.prompt)[2:] == ["Look."]


@pytest.mark.parametrize("gone", ["api-request-blob", "api-request-shape", "api-request"])
def test_what_is_missing_of_a_request_costs_that_alone(gone, tmp_path):
    lines = session()
    place = next(n for n, line in enumerate(lines.lines) if line["type"] == gone)
    del lines.lines[place]
    branch = branch_of(lines, tmp_path)
    for one, composed in zip(branch.calls, branch_of(described(session()), tmp_path).calls, strict=True):
        assert set(texts(composed.prompt)) <= set(texts(one.prompt))
    assert not branch.calls[0].exact
    # It may have had any words.
    for damaged, written in ((True, lines), (False, session())):
        trail = follow_phrase(written.session(tmp_path / "s.jsonl"), "moor at the northern pier")
        assert (trail.is_unknown, trail.occurrences) == (damaged, ())
    for each in parts_over_calls(branch, PartSizes(branch, words)):
        assert sum(each.parts.values()) == each.call.usage.prompt


def test_a_missing_message_costs_no_time_in_the_requests_that_keep_it(tmp_path, monkeypatch):
    lines, sent, id = ClaudeCode(), [], None
    for turn in range(9):
        lines.user(f"Look {turn}.")
        sent.append(message("user", f"<now>{turn}</now>", f"Look {turn}."))
        id = lines.request(*sent, base=id)
        lines.answer(f"Seen {turn}.", requestRef=id)
        sent.append(message("assistant", f"Seen {turn}."))
    lines.lines = [line for line in lines.lines if "<now>1<" not in str(line)]
    whole, hashes = [], StoredPrompts.hashes
    monkeypatch.setattr(StoredPrompts, "hashes", lambda *about: whole.append(about) or hashes(*about))
    calls = branch_of(lines, tmp_path).calls
    assert [call.exact for call in calls] == [True] + [False] * 8
    assert texts(calls[-1].prompt)[-3:] == ["Seen 7.", "<now>8</now>", "Look 8."]
    assert len(texts(calls[-1].prompt)) == len(set(texts(calls[-1].prompt)))
    assert len(whole) == 1


def test_requests_that_are_based_on_each_other_end(tmp_path):
    lines = ClaudeCode().user("Look.")
    for id, base in (("a", "b"), ("b", "a")):
        lines.add({"type": "api-request", "id": id, "shapeHash": "s", "base": base, "keep": 1, "tail": ["h"]})
    (only,) = branch_of(lines.answer("Seen.", requestRef="a"), tmp_path).calls
    assert (texts(only.prompt), only.exact) == (["Look."], False)


ANY = st.recursive(
    st.none() | st.integers(-2, 4) | st.floats() | st.sampled_from(["h", "r", "user", "text", "Look.", "\ud800"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "text", "content", "role", "name", "path"]), inner, max_size=3)
    ),
    max_leaves=8,
)
FIELDS = {
    "api-request": ("id", "shapeHash", "base", "keep", "tail"),
    "api-request-blob": ("hash", "message"),
    "api-request-shape": ("shapeHash", "shape"),
    "cost-state": ("totalCostUSD", "modelUsage", "hasUnknownModelCost"),
    "attachment": ("attachment", "rendered", "renderedRole"),
}


@settings(max_examples=40)
@given(st.lists(st.sampled_from(sorted(FIELDS)).flatmap(
    lambda type: st.fixed_dictionaries({"type": st.just(type)}, optional=dict.fromkeys(FIELDS[type], ANY))
), max_size=6))  # fmt: skip
def test_no_field_of_a_request_makes_a_session_fail(tmp_path_factory, records):
    lines = ClaudeCode().user("Look.")
    for record in records:
        lines.add(json.loads(json.dumps(record)))
    read = lines.answer("Seen.", requestRef="r").session(tmp_path_factory.mktemp("requests") / "s.jsonl")
    branch = read.main.branches[0]
    assert "Look." in texts(branch.windows[0].items)
    for each in parts_over_calls(branch, PartSizes(branch, words)):
        assert sum(each.parts.values()) == each.call.usage.prompt
    read.usage_and_cost()

"""Exports above the size of a file are read one conversation at a time, and give what they give when read whole."""

import json
import zipfile
from io import BytesIO
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core import FormatError
from memory_inspector.files import files
from memory_inspector.files.files import read_file

words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40).filter(str.strip)
talks = st.builds(
    lambda title, said: {"title": title, "messages": [{"role": "user", "content": text} for text in said]},
    words,
    st.lists(words, min_size=1, max_size=4),
)


def small(most, window):
    """The limits of a file and of a window, small enough that a short text is above them."""
    return patch.multiple(files, MAX_FILE_BYTES=most, _WINDOW=window)


def read(data, name="conversations.json", most=200, window=16, step=None):
    with small(most, window):
        preview = read_file(name, data, step=step)
    return preview, [(listed.title, listed.messages, bool(listed.problem)) for listed in preview.conversations]


def zipped(**members):
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in members.items():
            archive.writestr(name.replace("__", "-") + ".json", text)
    return file.getvalue()


@given(st.lists(talks, min_size=1, max_size=5), st.integers(1, 90), st.booleans(), st.sampled_from([None, 1]))
def test_any_export_reads_the_same_in_pieces_of_any_size(found, window, by_line, indent):
    if by_line:
        text = "\n".join(json.dumps(talk, ensure_ascii=indent is None) for talk in found)
    else:
        text = json.dumps(found, ensure_ascii=indent is None, indent=indent)
    whole = read_file("conversations.json", text.encode())
    most = len(text.encode())  # of a conversation, which no other limits
    preview, listed = read(text.encode() + b" " * 2, window=window, most=most)
    assert [title for title, _, _ in listed] == [entry.title for entry in whole.conversations]
    for pick in range(len(listed)):
        assert preview.conversation(pick).messages == whole.conversation(pick).messages


TALK = {"title": "Bread", "messages": [{"role": "user", "content": "How long does it rise? " * 3}]}
TREE = {
    "title": "Soup",
    "current_node": "c",
    "mapping": {
        "a": {"message": {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["Leek?"]}}},
        **{
            name: {
                "parent": "a",
                "message": {"author": {"role": "assistant"}, "content": {"content_type": "text", "parts": [said]}},
            }
            for name, said in (("b", "No."), ("c", "Yes."))
        },
    },
}


def test_branches_are_listed_and_read():
    preview, listed = read(json.dumps([TREE, TALK]).encode(), most=600)
    assert listed == [("Soup", 2, False), ("Soup (branch 1)", 2, False), ("Bread", 1, False)]
    assert [preview.conversation(pick).messages[-1].content for pick in (0, 1)] == ["Yes.", "No."]


def test_a_broken_conversation_costs_itself():
    text = json.dumps([TALK, TALK, TALK]).encode().replace(b'"user"', b"user", 1)
    preview, listed = read(text)
    assert [problem for _, _, problem in listed] == [True, False, False]
    with pytest.raises(FormatError, match=r"byte 2: this is not valid JSON\."):
        preview.conversation(0)
    assert preview.conversation(2).messages


def test_a_conversation_above_the_size_of_a_file_costs_itself():
    large = {"title": "Long", "messages": [{"role": "user", "content": "x" * 3_000}]}
    preview, listed = read(json.dumps([TALK, large, TALK]).encode(), most=1_000, window=200)
    assert [problem for _, _, problem in listed] == [False, True, False]
    with pytest.raises(FormatError, match="this conversation is larger than"):
        preview.conversation(1)


def test_what_is_cut_off_ends_the_list_with_its_reason():
    text = json.dumps([TALK, TALK]).encode()[:-40]
    _, listed = read(text)
    assert [problem for _, _, problem in listed] == [False, True]


def test_a_broken_line_costs_itself():
    line = json.dumps(TALK).encode()
    for place in range(3):
        lines = [line] * 3
        lines[place] = line[:-9]
        _, listed = read(b"\n".join(lines))
        assert [problem for _, _, problem in listed] == [number == place for number in range(3)]


def test_the_parts_of_an_archive_are_one_export():
    part = json.dumps([TALK] * 3)
    preview, listed = read(zipped(conversations__000=part, conversations__001=part, user="{}"), "export.zip")
    assert len(listed) == 6
    assert preview.conversation(5).messages == read_file("t.json", json.dumps(TALK).encode()).conversation().messages


@pytest.mark.parametrize(
    "text",
    [
        "[" + json.dumps(TALK["messages"][0]) + "]" + " " * 200,
        "hello" * 50,
        "[]" + " " * 200,
    ],
)
def test_what_is_no_list_of_conversations_is_refused_by_its_size(text):
    with pytest.raises(FormatError, match=r"The most is|holds no conversations"):
        read(text.encode())


def test_reading_tells_how_far_it_is_and_can_be_stopped():
    shares = []
    read(json.dumps([TALK] * 5).encode(), step=shares.append)
    assert shares == sorted(shares)
    assert 0.9 < shares[-1] <= 1

    def stop(share):
        raise FormatError("stopped")

    with pytest.raises(FormatError, match="stopped"):
        read(json.dumps([TALK] * 5).encode(), step=stop)


@pytest.mark.slow
def test_a_real_size_needs_little_memory(tmp_path):
    import tracemalloc

    line = json.dumps({"title": "Talk", "messages": [{"role": "user", "content": "word " * 4_000}]})
    data = f"[{','.join([line] * 1_100)}]".encode()
    assert len(data) > files.MAX_FILE_BYTES
    tracemalloc.start()
    try:
        preview = read_file("conversations.json", data)
        assert len(preview.conversation(1_099).messages) == 1
        assert tracemalloc.get_traced_memory()[1] < 60 * 1024 * 1024
    finally:
        tracemalloc.stop()


def test_two_lists_in_a_row_are_read_and_what_is_behind_a_list_is_named():
    one = json.dumps([TALK])
    _, listed = read(f"{one}\n{one}".encode())
    assert [problem for _, _, problem in listed] == [False, False]
    _, listed = read(f"{one} and more{' ' * 90}".encode())
    assert [problem for _, _, problem in listed] == [False, True]


def test_two_members_of_one_name_are_both_read():
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("conversations.json", json.dumps([{**TALK, "title": "A"}] * 2))
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("conversations.json", json.dumps([{**TALK, "title": "B"}] * 2))
    _, listed = read(file.getvalue(), "export.zip")
    assert sorted(title for title, _, _ in listed) == ["A", "A", "B", "B"]


def test_many_broken_lines_cost_themselves():
    line = json.dumps(TALK).encode()
    _, listed = read(b"\n".join([line, *[line[:-9]] * 5, line] * 20))
    assert [problem for _, _, problem in listed] == [False, *[True] * 5, False] * 20

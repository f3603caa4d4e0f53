"""What an agent does to the text of a block: nothing else in it changes, and what cannot be changes nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core import ConfigError
from memory_core.planning.core_memory import END, append, check, insert, replace, rethink, short

words = st.text(alphabet="abc \n", max_size=30)


def done(function, *arguments, **named):
    """The result, or None where it was refused."""
    try:
        return function("Human", *arguments, **named)
    except ConfigError as error:
        return None if "Nothing was changed." in str(error) else error


@given(words, words)
def test_appending_keeps_the_text_and_adds_every_new_line_once(text, content):
    after = done(append, text, content)
    known = {line.strip() for line in text.splitlines()}
    new = {line.strip() for line in content.splitlines() if line.strip()} - known
    assert (after is None) == (not new)
    if after is not None:
        assert after.startswith(text)
        added = [line.strip() for line in after[len(text) :].splitlines() if line.strip()]
        assert sorted(added) == sorted(set(added)) == sorted(new)
        assert done(append, after, content) is None


@given(words, words, words)
def test_replacing_changes_one_place_and_nothing_around_it(text, old, new):
    after = done(replace, text, old, new)
    places = [start for start in range(len(text)) if old and text.startswith(old, start)]
    assert (after is not None) == (len(places) == 1 and old != new)
    if after is not None and new:
        assert after == text[: places[0]] + new + text[places[0] + len(old) :]


def test_a_line_that_becomes_empty_is_taken_out():
    text = "a\nb\nc"
    assert [replace("Human", text, line, "") for line in "abc"] == ["b\nc", "a\nc", "a\nb"]
    assert replace("Human", "ab\nc", "b", "") == "a\nc"


@given(words, words, st.integers(-3, 8))
def test_inserting_puts_lines_between_the_others(text, new, line):
    lines = text.split("\n") if text else []
    after = done(insert, text, new, line)
    possible = bool(new.strip()) and (line == END or 0 <= line <= len(lines))
    assert (after is not None) == possible
    if after is not None:
        place = len(lines) if line == END else line
        result = after.split("\n")
        assert result[:place] == lines[:place]
        assert result[len(result) - len(lines) + place :] == lines[place:]


@given(words, words)
def test_rethinking_takes_the_new_text_unless_it_is_the_same(text, new):
    after = done(rethink, text, new)
    assert after == (None if new.strip() == text.strip() else new.strip())


@given(words, words, st.integers(1, 30))
def test_within_its_limit_or_shorter_than_before_and_never_emptied(before, after, limit):
    allowed = (len(after) <= limit or len(after) < len(before)) and bool(after.strip() or not before.strip())
    if allowed:
        check("Human", before, after, read_only=False, limit=limit)
        return
    with pytest.raises(ConfigError, match="Nothing was changed"):
        check("Human", before, after, read_only=False, limit=limit)


def test_what_is_read_only_is_said_first():
    with pytest.raises(ConfigError, match=r"^Human is read only\. Nothing was changed\.$"):
        check("Human", "a", "b" * 99, read_only=True, limit=1)
    check("Human", "a", "b" * 10_000, read_only=False, limit=None)


def test_a_text_is_shown_on_one_line():
    assert short("a\n b") == "a b"
    assert short("a" * 99, 10) == "a" * 9 + "…"


def test_of_equal_lines_the_first_keeps_its_place():
    assert append("Human", "", "a\nb\na") == "a\nb"

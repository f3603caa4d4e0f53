"""Names, numbers and times as they are written on screen."""

import string
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_inspector.wording.formatting import ago, count, plain, short, tokens

NOW = datetime(2026, 5, 13, 14, 30, tzinfo=UTC)
JOINER = "\N{WORD JOINER}"


def test_every_punctuation_mark_is_escaped():
    assert plain(string.punctuation).replace(JOINER, "") == "".join(f"\\{mark}" for mark in string.punctuation)


def test_an_image_in_a_name_stays_text():
    assert plain("![](http://evil/?d=1)") == rf"\!\[\]\(http\:{JOINER}\/\/evil\/\?d\=1\)"


def test_line_breaks_and_indents_cannot_make_blocks():
    assert plain("    code\n\n# head\n\tx\r\n1. y") == r"code \# head x 1\. y"


def test_control_characters_are_left_out():
    assert plain("a\x00b\x1b[31mc") == r"ab\[31mc"


@pytest.mark.parametrize(
    ("typed", "kept_apart"),
    [
        ("a -> b", rf"a \-{JOINER}\> b"),
        ("a -- b", rf"a \-{JOINER}\- b"),
        ("a <-> b", rf"a \<{JOINER}\-{JOINER}\> b"),
        ("a >= b", rf"a \>{JOINER}\= b"),
        ("www.x.org", rf"w{JOINER}ww\.x\.org"),
        ("me@x.org", rf"me{JOINER}\@x\.org"),
        (":streamlit:", rf"\:{JOINER}streamlit\:"),
    ],
)
def test_what_streamlit_would_replace_in_plain_text_is_kept_apart(typed, kept_apart):
    assert plain(typed) == kept_apart


@given(st.text())
def test_the_words_themselves_are_unchanged(text):
    shown = plain(text).replace(JOINER, "")
    unescaped = "".join(
        c for at, c in enumerate(shown) if not (c == "\\" and (at == 0 or _backslashes_before(shown, at) % 2 == 0))
    )
    visible = "".join(c for c in " ".join(text.split()) if c.isprintable() or not _is_control(c)).replace(JOINER, "")
    assert unescaped == visible


def _backslashes_before(text, at):
    return at - len(text[:at].rstrip("\\"))


def _is_control(character):
    return ord(character) < 32 or 127 <= ord(character) < 160


def test_numbers_have_separators():
    assert [tokens(0), tokens(1178), tokens(1_000_000)] == ["0", "1,178", "1,000,000"]


def test_nouns_follow_their_number():
    assert [
        count(1, "message"),
        count(4, "message"),
        count(0, "delivery"),
        count(1_178, "reply"),
        count(2, "turn"),
        count(2, "flush"),
        count(2, "day"),
    ] == ["1 message", "4 messages", "0 deliveries", "1,178 replies", "2 turns", "2 flushes", "2 days"]


def test_long_names_are_cut_at_24_characters_with_an_ellipsis():
    assert short("x" * 24) == "x" * 24
    assert short("Everything said about the dinner") == "Everything said about t…"
    assert short("Everything said about a dinner", 23) == "Everything said about…"


@pytest.mark.parametrize(
    ("passed", "words"),
    [
        (timedelta(seconds=-30), "just now"),
        (timedelta(seconds=59), "just now"),
        (timedelta(minutes=1), "1 min ago"),
        (timedelta(minutes=59, seconds=59), "59 min ago"),
        (timedelta(hours=1), "1 h ago"),
        (timedelta(hours=23, minutes=59), "23 h ago"),
        (timedelta(days=1), "12 May, 14:30"),
        (timedelta(days=1, minutes=25), "12 May, 14:05"),
        (timedelta(days=365), "13 May 2025, 14:30"),
        (timedelta(minutes=-5), "13 May, 14:35"),
    ],
)
def test_times_are_relative_up_to_a_day(passed, words):
    assert ago(NOW - passed, NOW) == words
    assert ago((NOW - passed).timestamp(), NOW.timestamp()) == words


def test_written_out_times_are_in_the_readers_zone():
    assert ago(NOW - timedelta(days=2), NOW, timezone(timedelta(hours=10))) == "12 May, 00:30"


def test_a_time_without_a_zone_is_refused():
    with pytest.raises(ValueError, match="time zone"):
        ago(datetime(2026, 5, 12), NOW)

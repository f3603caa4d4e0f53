"""Who said a message, when and in which words; and what a question says of whom and of when. Pure."""

from datetime import UTC, datetime

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from memory_core.messages import ChatMessage, message_text
from memory_core.planning.speakers import (
    LONGEST_NAME,
    Day,
    ParsedMessage,
    agreement,
    date_line,
    parse_message,
    parse_question,
    read_time,
    speaker_of,
)


def said(text, role="user", **given):
    return parse_message(ChatMessage(role=role, content=text, additional_kwargs=given))


def on(year, month, day, hour=0, minute=0):
    return datetime(year, month, day, hour, minute, tzinfo=UTC).timestamp()


# -- speaker and time of a message -----------------------------------------------------------------------


def test_name_and_time_come_with_a_message():
    one = said("I went swimming.", name="Ana Lopes", time="1:56 pm on 8 May, 2023")
    assert one == ParsedMessage("Ana Lopes", "1:56 pm on 8 May, 2023", on(2023, 5, 8, 13, 56), "I went swimming.")


def test_a_message_without_either_has_its_words_alone():
    assert said("I went swimming.") == ParsedMessage(None, None, None, "I went swimming.")


@pytest.mark.parametrize(
    ("text", "who", "day", "words"),
    [
        ("[8 May 2023] Ana: Hello", "Ana", on(2023, 5, 8), "Hello"),
        ("[1:56 pm on 8 May, 2023] Ana: Hello", "Ana", on(2023, 5, 8, 13, 56), "Hello"),
        ("[2023-05-08 14:05:11] Ana Lopes: Hello", "Ana Lopes", on(2023, 5, 8, 14, 5) + 11, "Hello"),
        ("[2023-05-08 10:00 EDT] Ana: Hello", "Ana", on(2023, 5, 8, 10), "Hello"),
        ("[2023-05-08T10:00:00+02:00] Ana: Hello", "Ana", on(2023, 5, 8, 10), "Hello"),
        ("[8 May 2023] Hello: all of you are here", "Hello", on(2023, 5, 8), "all of you are here"),
        ("[8 May 2023] Hello to all", None, on(2023, 5, 8), "Hello to all"),
        ("25/12/2023, 14:05 - Ana: Hello", "Ana", on(2023, 12, 25, 14, 5), "Hello"),
        ("12/25/23, 2:05 PM - Ana: Hello\nand more", "Ana", on(2023, 12, 25, 14, 5), "Hello\nand more"),
        ("[8 May 2023] 安娜: 你好", "安娜", on(2023, 5, 8), "你好"),
    ],
)
def test_an_exported_line_says_speaker_and_time_before_its_words(text, who, day, words):
    one = said(text)
    assert (one.speaker, one.time, one.words) == (who, day, words)


def test_a_whatsapp_line_is_of_its_year_whichever_of_day_and_month_comes_first():
    one = said("08/05/2023, 14:05 - Ana: Hello")
    assert (one.speaker, one.when, one.words) == ("Ana", "08/05/2023, 14:05", "Hello")
    assert datetime.fromtimestamp(one.time, UTC).year == 2023


@pytest.mark.parametrize(
    "text",
    [
        "[1] see: the book",
        "[the docs](https://example.com/1) say: no",
        "[2023-05-08](https://example.com) is the report",
        "[3 of 5] Note: go on",
        "[2024] Note: a year",
        "[May 2023] Note: a month",
        "[12:30] Ana: a time of no day",
        "[TODO 12] fix: the door",
        "[v1.2.3] fix: the door",
        "[10.0.0.1] host: down",
        "[99 May 2023] Ana: no such day",
        "[8 May\n2023] Ana: broken",
        "[8 May 2023 Ana: never closed",
        "[8 May 2023]",
        "[8 May 2023] ",
        "Ana: Hello",
        "Look: [8 May 2023] Ana: Hello",
        "08/05/2023 - Ana: no time",
        "1/2 - Ana: half",
        "",
    ],
)
def test_what_only_looks_like_an_exported_line_is_words(text):
    assert said(text) == ParsedMessage(None, None, None, text)


def test_metadata_goes_before_what_stands_in_the_text_and_the_text_is_words_all_the_same():
    one = said("[8 May 2023] Ana: Hello", name="Bob", time="9 May 2023")
    assert one == ParsedMessage("Bob", "9 May 2023", on(2023, 5, 9), "Hello")


@pytest.mark.parametrize(
    "name", ["user", "Assistant", "SYSTEM", "tool", "", "  ", "x" * (LONGEST_NAME + 1), 5, None, ["Ana"], True]
)
def test_a_role_and_what_is_no_name_name_nobody(name):
    assert said("Hello", name=name).speaker is None


def test_a_role_before_the_words_names_nobody_either():
    assert said("[8 May 2023] user: Hello") == ParsedMessage(None, "8 May 2023", on(2023, 5, 8), "Hello")


@pytest.mark.parametrize("name", ["assistant: I promise. Bob", "Ana: yes", ":"])
def test_a_name_cannot_begin_a_line_of_somebody_else(name):
    assert said("Hello", name=name).speaker is None


def test_a_name_of_several_lines_becomes_one():
    assert said("Hello", name=" Ana\n\u2028 Lopes\t").speaker == "Ana Lopes"


def test_the_name_of_a_tool_is_no_speaker():
    assert said("It rains.", role="tool", name="weather").speaker is None
    assert said("Be kind.", role="system", name="Ana").speaker is None


@pytest.mark.parametrize(
    ("time", "seconds"),
    [
        (on(2023, 5, 8), on(2023, 5, 8)),
        (int(on(2023, 5, 8)), on(2023, 5, 8)),
        (str(int(on(2023, 5, 8))), on(2023, 5, 8)),
        (5, None),
        (float("nan"), None),
        (float("inf"), None),
        ("some day", None),
        ("12:30", None),
        ("May 2023", None),
    ],
)
def test_a_time_is_text_or_seconds(time, seconds):
    assert said("Hello", time=time).time == seconds


@pytest.mark.parametrize("time", [True, False, None, "", " ", "x" * 41, ["8 May 2023"], {}])
def test_what_is_no_time_was_not_told(time):
    one = said("Hello", time=time)
    assert (one.when, one.time) == (None, None)


def test_who_is_not_named_counts_as_the_role():
    anonymous = ChatMessage(role="assistant", content="Hello")
    assert speaker_of(parse_message(anonymous), anonymous.role) == "assistant"
    assert speaker_of(said("Hello", name="ANA Lopes"), anonymous.role) == "ana lopes"


def test_a_date_line_is_the_day_or_what_was_written():
    assert date_line(said("x", time="2023-05-08T23:59:00")) == "8 May 2023"
    assert date_line(said("x", time="some\n day")) == "some day"
    assert date_line(said("x")) == ""


bits = st.sampled_from(
    ["[", "]", "[8 May 2023] ", "08/05/2023, 14:05 - ", "Ana: ", "1", "May", " ", "\n", "\ud800", "²", "٣", ":", "("]
)
texts = st.one_of(st.lists(bits, max_size=8).map("".join), st.text(st.characters(), max_size=60))


@given(texts, st.sampled_from(["user", "assistant", "tool", "system"]))
def test_no_word_is_lost_before_the_words(text, role):
    message = ChatMessage(role=role, content=text)
    one = parse_message(message)
    whole = message_text(message)
    assert whole.endswith(one.words)
    before = whole.removesuffix(one.words) if one.words else ""
    assert bool(one.when) == bool(before)
    assert not before or one.when in before


@given(texts, texts)
def test_metadata_of_any_text_is_read_without_complaint(name, time):
    one = said("Hello", name=name, time=time)
    assert one.speaker is None or (0 < len(one.speaker) <= LONGEST_NAME and one.speaker.splitlines() == [one.speaker])
    assert len(date_line(one).splitlines()) <= 1


times = st.lists(
    st.sampled_from(
        [*"0123456789:/.-,T+Z '", "am", "PM", "May", "EDT", "UTC", "of", "st", "2023", "31", "٣", "e", "\x00", "\ud800"]
    ),
    max_size=12,
).map("".join)


@settings(max_examples=300)
@given(st.one_of(times, st.text(st.characters(), max_size=40)))
def test_any_text_is_a_time_or_none(written):
    seconds = read_time(written)
    assert seconds is None or len(date_line(ParsedMessage(None, written, seconds, "x")).split()) == 3


@given(st.datetimes(datetime(1975, 1, 1), datetime(2100, 1, 1)))
def test_a_time_as_computers_write_it_is_read_as_it_is(moment):
    assert read_time(moment.isoformat()) == pytest.approx(moment.replace(tzinfo=UTC).timestamp())


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, "[1" * 50_000, "[" + "1" * 100_000, "[" + "1 " * 50_000, "1/" * 50_000, "[1] " + "A" * 100_000],
)
def test_a_huge_text_of_brackets_and_numbers_is_words_at_once(text):
    # Were a position tried for each pair of characters, each of these would take minutes.
    assert said(text).words == text


# -- what a question says -----------------------------------------------------------------------------------


def test_a_question_that_names_a_speaker_is_about_them_and_their_name_is_no_word_of_it():
    one = parse_question("What does Ana's sister like?", {"ana", "bob"})
    assert (one.speaker, one.words) == ("ana", "What does sister like?")


def test_the_first_of_several_names_is_enough():
    assert parse_question("Where does Ana live?", {"ana lopes", "bob"}).speaker == "ana lopes"
    assert parse_question("Where does ANA LOPES live?", {"ana lopes", "bob"}).words == "Where does live?"


def test_a_question_that_names_two_is_about_neither():
    one = parse_question("Did Ana or Bob cook the soup?", {"ana", "bob"})
    assert (one.speaker, one.words) == (None, "Did or cook the soup?")


def test_a_name_inside_a_word_names_nobody():
    one = parse_question("Is a banana an anagram?", {"ana"})
    assert (one.speaker, one.words) == (None, "Is a banana an anagram?")


def test_the_apostrophe_of_print_is_one_too():
    assert parse_question("What is Ana’s work?", {"ana"}).words == "What is work?"


@pytest.mark.parametrize("question", ["Where do I live?", "What is my name?", "What did we say?", "Tell me of it"])
def test_who_speaks_of_themselves_asks_about_the_user(question):
    one = parse_question(question, set())
    assert (one.speaker, one.words) == ("user", question)


def test_who_is_named_goes_before_who_asks():
    assert parse_question("What did I tell Ana?", {"ana"}).speaker == "ana"


def test_without_known_speakers_a_question_stays_as_it_is():
    one = parse_question("What does  Ana like?", set())
    assert (one.speaker, one.words) == (None, "What does  Ana like?")


@pytest.mark.parametrize("question", ["Ana?", "Ana", "Ana's"])
def test_a_question_of_a_name_alone_keeps_it(question):
    one = parse_question(question, {"ana"})
    assert (one.speaker, one.words) == ("ana", question)


def test_names_are_found_in_other_languages():
    assert parse_question("Was hat Jürgen gekocht?", {"jürgen"}).speaker == "jürgen"
    assert parse_question("¿Dónde vive Ana?", {"ana"}).words == "¿Dónde vive ?"
    assert parse_question("你好吗", {"ana"}).words == "你好吗"


def test_an_empty_question_asks_nothing():
    assert parse_question("", {"ana"}) == parse_question("", set())
    assert (
        parse_question("", {"ana"}).words,
        parse_question("", {"ana"}).speaker,
        parse_question("", {"ana"}).days,
    ) == ("", None, ())


def test_a_name_of_special_characters_is_looked_for_as_it_is():
    assert parse_question("Is C++ (old) here?", {"c++ (old)"}).speaker == "c++ (old)"
    assert parse_question("What does .* say?", {"ana"}).speaker is None


@given(st.text(st.characters(), max_size=60), st.sets(st.text(max_size=12).filter(str.strip), max_size=3))
def test_any_question_can_be_asked_of_any_speakers(question, names):
    folded = {" ".join(name.split()).casefold() for name in names}
    one = parse_question(question, folded)
    assert one.speaker in {*folded, "user", None}
    assert bool(one.words) == bool(question)


@pytest.mark.parametrize(
    ("question", "days"),
    [
        ("What did she do on 2023-05-08?", [Day(5, 8, 2023)]),
        ("What happened in 2023-05?", [Day(5, None, 2023)]),
        ("What did she do on 8 May 2023?", [Day(5, 8, 2023)]),
        ("What did she do on May 8th, 2023?", [Day(5, 8, 2023)]),
        ("What did she do on the 8th of May?", [Day(5, 8, None)]),
        ("Where was she in June?", [Day(6, None, None)]),
        ("Where was she in March 2024?", [Day(3, None, 2024)]),
        ("Where was she on Sept. 3?", [Day(9, 3, None)]),
        ("Between June and July 2022?", [Day(6, None, None), Day(7, None, 2022)]),
        ("May I come in?", []),
        ("March on!", []),
        ("They may march to the marine", []),
        ("On 2023-13-01, what?", []),
        ("In 2023?", []),
        ("", []),
    ],
)
def test_the_dates_of_a_question_are_read(question, days):
    assert sorted(parse_question(question, ()).days, key=str) == sorted(days, key=str)


@pytest.mark.parametrize(
    ("day", "then", "value"),
    [
        (Day(5, 8, 2023), (2023, 5, 8), 1.0),
        (Day(5, None, 2023), (2023, 5, 30), 1.0),
        (Day(5, None, None), (2021, 5, 30), 1.0),
        (Day(5, 8, 2023), (2023, 5, 9), 0.5),
        (Day(5, 8, 2023), (2023, 6, 1), 0.3),
        (Day(12, None, None), (2024, 1, 2), 0.3),
        (Day(5, 8, 2023), (2023, 7, 8), 0.0),
        (Day(5, 8, 2023), (2023, 4, 30), 0.0),
        (Day(5, 8, 2022), (2023, 5, 8), 0.0),
    ],
)
def test_a_time_agrees_with_its_day_most_then_with_its_month_then_with_the_month_before(day, then, value):
    assert agreement([day], on(*then)) == value


def test_the_date_that_agrees_best_counts():
    assert agreement([Day(1, None, None), Day(5, 8, 2023)], on(2023, 5, 8)) == 1.0


def test_without_a_date_or_a_time_nothing_agrees():
    assert agreement([], on(2023, 5, 8)) == 0.0
    assert agreement([Day(5, 8, 2023)], None) == 0.0


@given(
    st.lists(st.builds(Day, st.integers(1, 12), st.none() | st.integers(0, 99), st.none() | st.integers(1900, 2099))),
    st.floats(-1e9, 1e10),
)
def test_agreement_is_from_nothing_to_whole(days, time):
    assume(days)
    assert 0 <= agreement(days, time) <= 1

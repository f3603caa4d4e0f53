"""No learned fact has a date that means another day tomorrow: it is absolute, by its message's time, or not learned."""

import calendar
import re
from datetime import UTC, datetime, timedelta

import pytest
from dateutil.relativedelta import MO, relativedelta
from hypothesis import given
from hypothesis import strategies as st

from memory_core import ChatMessage, FactExtractionMemoryBlock, Memory
from memory_core.models.extraction import ModelExtractor
from memory_core.models.offline.fact_extraction import RuleExtractor
from memory_core.models.offline.relative_dates import relative_words, resolved
from memory_core.models.protocols import ModelCall, NothingFound
from memory_core.models.relating import RuleRelations
from memory_core.services import Services
from memory_core.store.database import Database
from memory_inspector.files.openai_format import read_conversation
from memory_inspector.files.stored import import_with_state

THURSDAY = "2026-03-12T10:00:00+00:00"
MOMENTS = st.datetimes(datetime(1974, 1, 10), datetime(2200, 1, 1), timezones=st.just(UTC))
DAYS = list(calendar.day_name)


def user(text, time=THURSDAY):
    return ChatMessage(role="user", content=text, additional_kwargs={} if time is None else {"time": time})


def learned(text, time=THURSDAY):
    return [fact.text for fact in RuleExtractor().extract([user(text, time)], known=()).facts]


def day(moment):
    return f"{moment.day} {calendar.month_name[moment.month]} {moment.year}"


def month(moment):
    return f"{calendar.month_name[moment.month]} {moment.year}"


def monday(moment):
    return moment + relativedelta(weekday=MO(-1))


FORMS = {
    "today": lambda now: f"on {day(now)}",
    "tomorrow": lambda now: f"on {day(now + relativedelta(days=1))}",
    "the day after tomorrow": lambda now: f"on {day(now + relativedelta(days=2))}",
    "tomorrow morning": lambda now: f"on the morning of {day(now + relativedelta(days=1))}",
    "tonight": lambda now: f"on the evening of {day(now)}",
    "in two weeks": lambda now: f"on {day(now + relativedelta(weeks=2))}",
    "in 10 days": lambda now: f"on {day(now + relativedelta(days=10))}",
    "in a month": lambda now: f"in {month(now + relativedelta(months=1))}",
    "in three years": lambda now: f"in {(now + relativedelta(years=3)).year}",
    "this week": lambda now: f"in the week of {day(monday(now))}",
    "next week": lambda now: f"in the week of {day(monday(now) + relativedelta(weeks=1))}",
    "this weekend": lambda now: f"on the weekend of {day(monday(now) + relativedelta(days=5))}",
    "this month": lambda now: f"in {month(now)}",
    "next month": lambda now: f"in {month(now + relativedelta(months=1))}",
    "next year": lambda now: f"in {now.year + 1}",
}


@given(MOMENTS, st.sampled_from(sorted(FORMS)))
def test_a_day_to_come_is_the_one_that_the_calendar_gives(now, form):
    expected = f"The user has an exam {FORMS[form](now)}"
    assert resolved(f"The user has an exam {form}", now.timestamp()) == expected
    assert learned(f"I have an exam {form}.", now.isoformat()) == [expected]


@given(MOMENTS, st.sampled_from(["yesterday", "last week", "last month", "last year", "four days ago", "a week ago"]))
def test_a_day_that_is_past_is_the_one_that_the_calendar_gives(now, form):
    dates = {
        "yesterday": f"on {day(now - relativedelta(days=1))}",
        "last week": f"in the week of {day(monday(now) - relativedelta(weeks=1))}",
        "last month": f"in {month(now - relativedelta(months=1))}",
        "last year": f"in {now.year - 1}",
        "four days ago": f"on {day(now - relativedelta(days=4))}",
        "a week ago": f"on {day(now - relativedelta(weeks=1))}",
    }
    assert learned(f"I moved to Porto {form}.", now.isoformat()) == [f"The user moved to Porto {dates[form]}"]


@given(MOMENTS, st.sampled_from(DAYS), st.sampled_from(["on", "this", "next", "last"]))
def test_a_weekday_is_right_or_not_learned(now, name, which):
    past = which == "last"
    text = f"The user went to Rome last {name}" if past else f"The user's exam is {which} {name}"
    line = resolved(text, now.timestamp())
    if line in (None, "The user went to Rome"):
        return
    found = datetime.strptime(re.search(r"\d+ \w+ \d{4}$", line)[0], "%d %B %Y").date()
    assert calendar.day_name[found.weekday()] == name
    ahead = (found - now.date()).days
    assert -7 <= ahead < 0 if past else 0 <= ahead <= 7
    # Those who count to the next week and those who take the first such day agree.
    if which == "next":
        assert found >= monday(now).date() + timedelta(days=7)


@given(MOMENTS, st.sampled_from(sorted(FORMS)), st.sampled_from(["My flight is", "Ana arrives", "I am leaving Rome"]))
def test_no_relative_date_is_left_in_what_is_learned(now, form, opening):
    for time in (now.isoformat(), None):
        assert not [fact for fact in learned(f"{opening} {form}.", time) if relative_words(fact)]


@pytest.mark.parametrize(
    ("time", "said", "fact"),
    [
        ("2026-01-31", "I'm getting married next month.", "The user is getting married in February 2026"),
        ("2028-02-28", "My flight is tomorrow.", "The user's flight is on 29 February 2028"),
        ("2026-12-31", "My flight is tomorrow.", "The user's flight is on 1 January 2027"),
        ("2026-03-12", "My flight is next Tuesday.", "The user's flight is on 17 March 2026"),
        ("2026-03-12T23:30:00-05:00", "My flight is tomorrow.", "The user's flight is on 13 March 2026"),
        ("2026-03-12", "My birthday is 29 February.", "The user's birthday is 29 February"),
        ("2026-03-12", "I met Ana in Graz on Tuesday.", "The user met Ana in Graz on 10 March 2026"),
        ("2026-03-12", "The wedding is this Saturday in Graz.", "The wedding is on 14 March 2026 in Graz"),
        ("2026-03-12", "I finished my PhD in Graz about two years ago.", "The user finished the user's PhD in Graz"),
    ],
)
def test_ends_of_months_and_years_leap_days_and_offsets_are_read_right(time, said, fact):
    assert learned(said, time) == [fact]


@pytest.mark.parametrize(
    "text",
    [
        "The user plays tennis every Tuesday", "The user works Monday to Friday", "The user teaches Sunday school",
        "The user reads The Sunday Times", "The user may move to Rome", "The user sat on a bench",
        "The user is second in line next to Ana", "The user likes to march in parades", "The user has a friend now",
        "The user's favourite song is Yesterday", "The user ran a marathon in 3 hours", "The shop is closed on Monday",
        "The user's last name is Day", 'The user read "Tomorrow"', "The user has lived in Porto for 3 years",
        "The user's birthday is 29 February", "The party is on Friday, 13 March 2026",
    ],
)  # fmt: skip
def test_what_comes_back_is_a_name_or_has_its_date_stays(text):
    assert resolved(text, 1_773_300_000) == text
    assert resolved(text, None) == text


@pytest.mark.parametrize(
    "said",
    [
        "I'm moving to Berlin soon.", "I'm moving to Berlin in a few days.", "My exam is on Thursday.",
        "My flight is at 8 pm the following day.",
        "My exam is next Friday.", "My flight is a week from Friday.", "I'm moving to Berlin next summer.",
    ],
)  # fmt: skip
def test_a_day_that_cannot_be_told_is_not_learned_and_the_reason_says_so(said):
    extraction = RuleExtractor().extract([user(said)], known=())
    assert (extraction.facts, extraction.nothing) == ((), {0: NothingFound("undated")})


def test_a_message_without_a_time_teaches_nothing_that_needs_one():
    assert learned("My flight is tomorrow.", time=None) == []
    assert learned("I moved to Porto yesterday.", time=None) == ["The user moved to Porto"]


@pytest.mark.parametrize("time", [-1e300, 1e300, float("inf"), 253_402_300_799, 0.0])
def test_a_time_beyond_the_calendar_resolves_nothing_and_does_not_fail(time):
    assert resolved("The user's flight is in 999 years", time) in (None, "The user's flight is in 2969")


class Dictating:
    """Chat model that answers every extraction with the same facts."""

    name, offline = "dictating", False

    def __init__(self, *facts):
        self.facts, self.asked = facts, []

    def ask(self, messages, answer, *, purpose):
        self.asked.append(messages)
        facts = [{"text": text, "message": number} for text, number in self.facts]
        return answer.model_validate({"facts": facts}), ModelCall(purpose, self.name, 1, 1, 0.1)

    def stream(self, messages, tools=()):
        raise AssertionError("it answers in the asked form")


def test_a_model_gets_each_messages_day_and_what_it_says_of_tomorrow_is_dated():
    chat = Dictating(("The user's flight is tomorrow", 1), ("The user's flight is tomorrow", 2))
    messages = [user("My flight is tomorrow."), user("Again tomorrow.", "2026-03-20")]
    facts = ModelExtractor(chat).extract(messages, known=()).facts
    assert [(fact.text, fact.doubtful) for fact in facts] == [
        ("The user's flight is on 13 March 2026", False),
        ("The user's flight is on 21 March 2026", False),
    ]
    assert "[1] user (Thursday, 12 March 2026): My flight is tomorrow." in chat.asked[0][1].content


def test_what_a_model_says_of_an_unclear_day_waits_for_a_person_with_the_reason():
    chat = Dictating(("The user moves to Berlin soon", 1))
    with Memory.from_defaults(
        database_uri="sqlite://", memory_blocks=[FactExtractionMemoryBlock(name="Facts", llm=chat)]
    ) as memory:
        memory.put(user("I am moving to Berlin soon."))
        memory.flush(all=True)
        review = memory.facts.review("Facts")
        assert [(fact.text, fact.state) for fact in review.facts] == [("The user moves to Berlin soon", "proposed")]
        [[flag]] = review.flags.values()
        assert (flag.kind, flag.sentence) == ("doubtful", 'Does not say which day "soon" is.')


def test_a_date_that_tomorrow_became_is_no_reason_to_review_a_fact():
    with Memory.from_recipe("blocks", database_uri="sqlite://") as memory:
        memory.put(user("My flight is tomorrow."))
        memory.flush(all=True)
        assert [fact.text for fact in memory.facts.read("Facts")] == ["The user's flight is on 13 March 2026"]
        assert memory.facts.review("Facts").flags == {}


def test_a_message_put_now_is_dated_by_the_time_at_which_it_was_put():
    with Memory.from_recipe("blocks", database_uri="sqlite://") as memory:
        memory.put(user("My flight is tomorrow.", time=None))
        memory.flush(all=True)
        [fact] = memory.facts.read("Facts")
        assert fact.text == f"The user's flight is on {day(datetime.fromtimestamp(fact.created_at + 86_400, UTC))}"


def test_a_message_of_a_file_without_times_has_none():
    talk = '[{"role": "user", "content": "My flight is tomorrow. I live in Porto."}]'
    conversation = read_conversation(talk, filename="talk.json")
    memory = import_with_state(conversation, Database.open(None), services=Services(), source="talk.json")
    memory.flush(all=True)
    assert [fact.text for fact in memory.facts.read("Facts", states=None)] == ["The user lives in Porto"]


def test_a_relation_to_a_day_has_its_date():
    messages = [
        user("The deadline of Project Alpha is next Monday."),
        user("The deadline of Project Beta is Thursday."),
    ]
    found = RuleRelations().relations(messages, known=())
    assert [(one.subject, one.object) for one in found.relations] == [("Project Alpha", "16 March 2026")]
    assert found.nothing == {1: NothingFound("undated")}

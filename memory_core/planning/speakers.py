"""Speaker, time and text of a message, and the speaker and dates that a question is about. Pure.

Speaker and time are taken from the message's own metadata (`name`, `time`), else from how exported chats begin a line,
`[8 May 2023] Ana: ...` or `08/05/2023, 14:05 - Ana: ...`.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any

from memory_core.messages import ChatMessage, MessageRole, message_text
from memory_core.text import MONTHS, STOP_WORDS

LONGEST_NAME = 40
"""Maximum characters of a speaker's name."""

_LONGEST_TIME = 40
_NAME = r"[^\W\d_][\w .'’-]{0,39}?"
_NUMBERS = r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}"
_EXPORTED = (
    # Not the text of a Markdown link, which its address follows in parentheses.
    re.compile(
        rf"\[(?P<when>(?=[^\]]{{0,{_LONGEST_TIME}}}\d)[^\]\[\n]{{1,{_LONGEST_TIME}}})\](?!\()\s*(?:(?P<who>{_NAME}):\s+)?"
    ),
    re.compile(rf"(?P<when>{_NUMBERS},? \d{{1,2}}:\d\d(?:\s?[AaPp][Mm])?) - (?P<who>{_NAME}):\s+"),
)
_DATED = re.compile(r"\d{4}|[^\W\d_]{3}|:")  # a year, a month's name or a time of day: `1/2/3` may be anything
_DOTTED = re.compile(r"\d{1,2}\.\d{1,2}\.\d{2,4}")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?")
_BEGINS = tuple("[0123456789")
_OLDEST = 1e8  # seconds: 1973; smaller numbers are no times
_DEFAULTS = (datetime(1970, 1, 1), datetime(1972, 2, 2))
_MONTH = "|".join((*MONTHS, *(month[:3] for month in MONTHS if month != "May"), "Sept"))
_ASKED_DATE = re.compile(
    rf"(?:\b(?P<before>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?)?\b(?P<month>{_MONTH})\b\.?"
    r"(?:\s+(?P<after>\d{1,2})(?:st|nd|rd|th)?(?!\d))?(?:,?\s+(?:of\s+)?(?P<year>(?:19|20)\d\d))?"
)
_ISO_DATE = re.compile(r"\b(?P<year>(?:19|20)\d\d)-(?P<month>\d\d)(?:-(?P<day>\d\d))?\b")
_FIRST_PERSON = re.compile(r"\b(?:I|i|my|My|me|mine|myself|we|We|our|Our|us)\b")


@dataclass(frozen=True, slots=True)
class ParsedMessage:
    """A message taken apart: speaker, time and text."""

    speaker: str | None
    """Name of the speaker; None if only the role is known."""
    when: str | None
    """Time as written; None if there is none, or if it is unreadable and has a colon."""
    time: float | None
    """Time in seconds since 1970, read as UTC; None if it could not be read."""
    words: str
    """Full text, without a leading speaker and time."""


@dataclass(frozen=True, slots=True)
class Day:
    """A date that a question names."""

    month: int
    day: int | None
    year: int | None


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """Speaker and dates that a question names."""

    words: str
    """The question, without the names of the speakers it is about."""
    speaker: str | None
    """The only speaker that the question names, or role `user` for "I" and "my"; lower case, as from `speaker_of`."""
    days: tuple[Day, ...]


def parse_message(message: ChatMessage) -> ParsedMessage:
    """Return the speaker, time and text of a message."""
    text = message_text(message)
    fields = message.additional_kwargs
    speaker = _name(fields.get("name")) if message.role in (MessageRole.USER, MessageRole.ASSISTANT) else None
    when = _written(fields.get("time"))
    if when is not None and ":" in when and read_time(when) is None:
        when = None
    words = text
    spoken = message.role in (MessageRole.USER, MessageRole.ASSISTANT)  # a tool's output is no chat
    for form in _EXPORTED if spoken and text.startswith(_BEGINS) else ():
        match = form.match(text)
        if (
            match
            and _DATED.search(match["when"])
            and read_time(match["when"]) is not None
            and text[match.end() :].strip()
        ):
            speaker, when, words = speaker or _name(match["who"]), when or match["when"], text[match.end() :]
            break
    return ParsedMessage(speaker, when, None if when is None else read_time(when), words)


def speaker_of(message: ParsedMessage, role: MessageRole) -> str:
    """Return the speaker of a message: the name in lower case, or the role if there is no name."""
    return message.speaker.lower() if message.speaker else str(role)


def parse_question(question: str, speakers: Collection[str]) -> ParsedQuestion:
    """Find the speaker and dates that a question names. `speakers` are the known names, in lower case.

    A name counts by its first word too, `Ana` for `Ana Lopes`. A question that names two speakers is about neither.
    """
    named = {name: position for name in sorted(speakers) if (position := _mentions(name, question))}
    whole = {name for name, position in named.items() if name in position}
    if whole:  # "Ana Lopes" is meant, not every other Ana; nor "Ana", where both are known
        longest = {name for name in whole if not any(name != other and name in other for other in whole)}
        named = {name: position for name, position in named.items() if name in longest}
    words = question
    for places in named.values():
        for form in places:
            words = re.sub(rf"(?<!\w){re.escape(form)}(?:['’]s)?(?!\w)", " ", words, flags=re.IGNORECASE)
    words = " ".join(words.split()) if named else question
    speaker = next(iter(named)) if len(named) == 1 else None
    if not named and _FIRST_PERSON.search(question):
        speaker = str(MessageRole.USER)
    return ParsedQuestion(words if any(map(str.isalnum, words)) else question, speaker, _days(words))


def date_line(message: ParsedMessage) -> str:
    """Format the day of a message for a prompt: `8 May 2023`; as written if it is no date."""
    if message.time is None:
        return " ".join((message.when or "").split())
    day = datetime.fromtimestamp(message.time, UTC)
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"


def agreement(days: Collection[Day], time: float | None) -> float:
    """Return the score of a time against the dates that a question names, 0 to 1.

    1 on the day, or in the month if no day is named; 0.5 elsewhere in the month, and a little in the month after, as
    people talk about past events.
    """
    if time is None or not days:
        return 0.0
    then = datetime.fromtimestamp(time, UTC)
    return max(_agreement(day, then) for day in days)


def _agreement(day: Day, then: datetime) -> float:
    if day.month == then.month:
        return 0.0 if day.year not in (None, then.year) else 1.0 if day.day in (None, then.day) else 0.5
    after = then.month == day.month % 12 + 1 and day.year in (None, then.year - (day.month == 12))
    return 0.3 if after else 0.0


@lru_cache(maxsize=4_096)
def read_time(written: str) -> float | None:
    """Parse a date or time as people write it, or a Unix timestamp; return seconds since 1970, read as UTC.

    None unless day, month and year are all given.
    """
    if _NUMBER.fullmatch(written):
        seconds = float(written)
        seconds = seconds / 1_000 if seconds > 1_000 * _OLDEST else seconds  # JavaScript counts milliseconds
        return seconds if _OLDEST < seconds < 100 * _OLDEST else None
    from dateutil import parser

    try:
        # Missing fields come from the default: only fields on which two parses agree were written.
        dotted = _DOTTED.search(written) is not None  # so written where the day comes first
        read = partial(parser.parse, written, dayfirst=dotted, ignoretz=True)
        first, again = (read(default=default) for default in _DEFAULTS)
        return first.replace(tzinfo=UTC).timestamp() if first.date() == again.date() else None
    except (ValueError, OverflowError):
        return None


def _days(question: str) -> tuple[Day, ...]:
    dates = [
        Day(int(m["month"]), int(m["day"]) if m["day"] else None, int(m["year"])) for m in _ISO_DATE.finditer(question)
    ]
    for match in _ASKED_DATE.finditer(question):
        month = next(i for i, name in enumerate(MONTHS, start=1) if name[:3] == match["month"][:3])
        day = match["before"] or match["after"]
        if match["month"] in ("May", "March") and not (day or match["year"]) and match.start() == 0:
            continue  # "May I ..." and "March on!" are no dates
        dates.append(Day(month, int(day) if day else None, int(match["year"]) if match["year"] else None))
    return tuple(day for day in dates if 1 <= day.month <= 12)


def _mentions(name: str, question: str) -> list[str]:
    """Return the forms of a name that a question holds, longest first."""
    first = name.split()[0]
    forms = [name, *([first] if first != name and len(first) > 2 else [])]
    return [
        form
        for form in forms
        if form not in STOP_WORDS and re.search(rf"(?<!\w){re.escape(form)}(?:['’]s)?(?!\w)", question, re.IGNORECASE)
    ]


def _name(value: Any) -> str | None:
    """Return a speaker's name on one line; None for a role, for a text that is too long, and for one with a colon."""
    name = " ".join(value.split()) if isinstance(value, str) else ""
    if not name or len(name) > LONGEST_NAME or ":" in name or name.lower() in set(MessageRole):
        return None
    return name


def _written(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    written = " ".join(str(value).split())
    return written if 0 < len(written) <= _LONGEST_TIME else None

"""Dates that are relative to the day on which they are said: "tomorrow", "next Tuesday", "two weeks ago". Pure.

They are written as absolute dates, by the time of their message. Weeks begin on Monday, and days are days in UTC, as
wherever the engine shows a date. Nothing is guessed: words that can mean two days, such as "next Friday" on a
Wednesday, or none, such as "soon", are not resolved. The parsers of dates that were tried (dateparser, parsedatetime,
recurrent) read "sat", "may" and "every Tuesday" as days, and the day after tomorrow as tomorrow.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

from memory_core.messages import ChatMessage
from memory_core.models.offline.grammar import BASE, MONTH, PAST, TASTES, WEEKDAY, pattern, word_set
from memory_core.models.protocols import ExtractedFact
from memory_core.planning.speakers import date_line, parse_message
from memory_core.text import MONTHS, capitalised

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_N = rf"(?:an?|{'|'.join(_NUMBERS)}|\d{{1,3}})"
_UNIT = r"(?:minute|hour|day|week|fortnight|month|year)"
_SOME = r"(?:(?:a )?(?:few|couple(?: of)?)|several|some|many)"
_ABOUT = r"(?:about|around|almost|nearly|over|more than|less than|at least|roughly|half|under|up to) "
_LOOSE = rf"(?:(?:{_ABOUT})?(?:{_SOME}|{_N}(?: or | to |-){_N}|{_N} and a half)|{_ABOUT}{_N}) {_UNIT}s?"
_OCCASION = (
    "semester|term|season|(?:school|academic) year|holidays?|Christmas|Easter|Thanksgiving|New Year(?:'s)?|decade|"
    "spring|summer|autumn|fall|winter"
)
_PART = r"(?:morning|afternoon|evening|night)\b"
_SHORT = r"(?-i:(?:Mon|Tues?|Wed|Thu(?:rs)?|Fri|Sat|Sun)\b)"
_GIVEN = rf"(?:the )?(?:\d{{1,2}}(?:st|nd|rd|th)? (?:of )?{MONTH}\b|{MONTH} \d|\d{{4}}-\d\d|\d{{1,2}}/\d)"
_RELATIVE = pattern(
    # Titles, days that come back, and days that another date or word fixes.
    rf"(?P<other>\"[^\"]*\"|“[^”]*”|\b(?:every|each|most|some|all|any|one|a|that|good|black|easter|palm|ash|cyber) "
    rf"{WEEKDAY}\b|\b{WEEKDAY}s?(?: to | through | till |-|–){WEEKDAY}\b|\b{WEEKDAY},? {_GIVEN}|"
    r"\b(?:last|next) (?:week|month|year|day|\w+day) of\b|\bthe (?:last|next) day\b|\bas soon\b|\bsoon as\b)"
    # Words for no exact day.
    rf"|\b(?P<vague>(?:very |pretty )?soon|the other day|in the (?:near|coming) \w+|"
    rf"(?:the )?(?:next|coming|upcoming|last|past) (?:{_SOME}|{_N}) {_UNIT}s?|the (?:next|coming|last|past) {_UNIT}s?|"
    rf"the (?:next|following|previous) (?:{_UNIT}s?|{_PART})|"
    rf"(?:(?:this )?past|(?:end|beginning|start|middle|rest) of the) (?:week|month|year)|in {_LOOSE}(?:['’]? time)?|"
    rf"(?:{_LOOSE}|{_N} {_UNIT}s? and {_N} {_UNIT}s?) (?:ago|from now)|{_N} {_UNIT}s? (?:from|after|before) "
    rf"(?:tomorrow|yesterday|(?:(?:next|last|this) )?{WEEKDAY})|the \w+ (?:after next|before last)|{WEEKDAY} week|"
    rf"(?:next|last|this coming|this past) (?:{_OCCASION})|this (?:winter|season|semester|term|Christmas|Easter))\b"
    r"|\b(?:(?P<before>on|in|at|by|until|till|since|from|before|after|for|of|to|through|during|around|starting|between|"
    r"as of) )?(?:"
    r"(?P<named>(?:the )?day after tomorrow|(?:the )?day before yesterday|(?<!better )tomorrow|yesterday|today|tonight|"
    rf"this(?= {_PART})|last(?= night\b))"
    r"|(?P<which>this coming|this past|this|next|last|coming|upcoming) "
    rf"(?P<what>week|weekend|month|quarter|year|spring|summer|autumn|fall|{WEEKDAY}|{_SHORT}|(?-i:{MONTH}))"
    rf"|in (?P<n>{_N}) (?P<unit>{_UNIT})s?(?:['’]? time)?"
    rf"|(?P<n_ago>{_N}) (?P<unit_ago>{_UNIT})s? (?P<ago>ago|from (?:now|today))"
    rf"|(?P<weekday>(?<=[a-z] ){WEEKDAY}|(?:^|(?<=on )|(?<=by )|(?<=is ))(?:{_SHORT}|{WEEKDAY}))"
    rf"(?=(?: {_PART})?(?:$|['’]s|[.,;:!?)]| (?:\d|(?:at|in|and|but|or|with|for|to|from|by|on|because|when|where|until|"
    r"before|after|so|as|around|about|he|she|they|the)\b)))"
    rf")\b(?: (?P<part>{_PART}))?(?P<whose>['’]s\b)?(?P<given>,? (?={_GIVEN}))?",
    re.IGNORECASE,
)
_ABSOLUTE = pattern(rf"(?:the \w+ of )?(?:\d{{1,2}} )?{MONTH} \d{{4}}|\bQ\d \d{{4}}|\b(?:in|the) \d{{4}}\b")
_HANGING = pattern(r"(?: (?:for|over|in|during|since|from|until|of))?[ ,]*$")
_HABIT = pattern(r"\b(?:always|usually|often|never|normally|regularly|sometimes|weekly|closed|every|each)\b", re.I)
_ARRANGED = pattern(
    r"\b(?:decided|planned|agreed|wanted|hoped|needed|intended|booked|scheduled|reserved|arranged|promised|supposed|"
    r"appointment|reservation|tickets?|had to)\b"
)
"""Words after which a past sentence may name a day to come: "booked a table on Friday"."""
_AHEAD = word_set(
    """
    is are am will shall plans wants hopes intends needs arrives leaves starts begins ends departs lands returns flies
    comes moves travels takes closes opens expires
    """
)
Dated = tuple[str, str]
"""Preposition and absolute date: `("on", "13 March 2026")`."""


def resolved(text: str, at: float | None) -> str | None:
    """Return a text with its relative dates made absolute; None if one of them cannot be told exactly.

    `at`: time of the message in seconds since 1970; None if unknown. What is past stays true without its date, so that
    an unclear one is left out.

    >>> resolved("The user's flight is tomorrow at 9:15", 1_773_300_000)
    "The user's flight is on 13 March 2026 at 9:15"
    >>> resolved("The user's flight is soon", 1_773_300_000) is None
    True
    """
    open_words: list[re.Match[str]] = []
    result = _replaced(text, at, open_words.append)
    if not open_words:
        return result
    for match in reversed(open_words):
        plain = not match["whose"] and (match["before"] or "on").lower() in ("on", "in", "at")
        if not plain or _tense(text, match) != "past":
            return None
        text = f"{_HANGING.sub('', text[: match.start()])}{text[match.end() :]}".strip()
    return resolved(capitalised(text), at)


def time_of(messages: Sequence[ChatMessage], source: int | None) -> float | None:
    """Return the time of the message at `source`; None if unknown, also if `source` is None and the days differ."""
    if source is not None:
        return parse_message(messages[source]).time if 0 <= source < len(messages) else None
    read = [parse_message(message) for message in messages]
    return read[0].time if read and len(set(map(date_line, read))) == 1 else None


def dated(fact: ExtractedFact, messages: Sequence[ChatMessage]) -> ExtractedFact:
    """Return a model's fact with absolute dates; it waits for a person if one of its dates cannot be told."""
    text = resolved(fact.text, time_of(messages, fact.source))
    return replace(fact, doubtful=True) if text is None else replace(fact, text=text)


def without_dates(text: str) -> str:
    """Return a text without the dates that `resolved` writes, which no message has in these words."""
    return _ABSOLUTE.sub("", text)


def relative_words(text: str) -> str:
    """Return the first relative date of a text, as it is written; empty without one."""
    matches: list[re.Match[str]] = []
    _replaced(text, None, matches.append)
    return matches[0][0] if matches else ""


def _replaced(text: str, at: float | None, unresolved: Callable[[re.Match[str]], object]) -> str:
    """Return a text with the dates that can be told; the others stay, and are passed to `unresolved`."""

    def absolute(match: re.Match[str]) -> str:
        words, tense = match[0], _tense(text, match)
        # A capital inside a sentence begins a title; "in two days", of what is past, is how long it took.
        title = text[: match.start()].rstrip()[-1:] not in ".!?" and words[0].isupper() and not match["weekday"]
        short = match["unit"] in ("minute", "hour") and tense not in ("ahead", "has")
        lasted = match["n"] and (short or tense == "past")
        returns = match["weekday"] and (_HABIT.search(text) or tense == "taste")
        if match["other"] or title or lasted or returns:
            return words
        before = (match["before"] or "").lower()
        try:
            dated = None if at is None or match["vague"] else _date_of(match, datetime.fromtimestamp(at, UTC), tense)
        except (ValueError, OverflowError, OSError):  # beyond the calendar
            dated = None
        if match["given"]:
            return words if match["weekday"] else f"{before or 'on'} "
        if dated is None or (match["n"] and tense == "") or (match["whose"] and dated[1].startswith("the ")):
            unresolved(match)
            return words
        if match["whose"]:
            line = f"{before} the {dated[1]}".lstrip()
        else:
            line = f"{dated[0] if before in ('', 'on', 'in', 'at') else before} {dated[1]}"
        return line if match.start() else f"{line[0].upper()}{line[1:]}"

    return _RELATIVE.sub(absolute, text)


def _date_of(match: re.Match[str], now: datetime, tense: str) -> Dated | None:
    today, part = now.date(), (match["part"] or "").lower()
    if named := (match["named"] or "").lower().removeprefix("the "):
        days = {"day after tomorrow": 2, "tomorrow": 1, "yesterday": -1, "last": -1, "day before yesterday": -2}
        return _day(today + timedelta(days.get(named, 0)), "evening" if named == "tonight" else part)
    if unit := (match["unit"] or match["unit_ago"] or "").lower():
        n = (match["n"] or match["n_ago"]).lower()
        number = int(n) if n.isdigit() else _NUMBERS.index(n) + 1 if n in _NUMBERS else 1
        number = -number if (match["ago"] or "").lower() == "ago" else number
        if unit in ("month", "year"):
            return _period(unit, today, number)
        length = {"minute": 1, "hour": 60, "day": 1_440, "week": 10_080, "fortnight": 20_160}[unit]
        return _day((now + timedelta(minutes=number * length)).date())
    what, which = (match["what"] or match["weekday"]).lower(), (match["which"] or "").lower()
    if what[:3] in _DAYS and what != "month":
        weekday = _weekday(today, _DAYS.index(what[:3]), which, tense)
        return None if weekday is None else _day(weekday, part)
    step = {"this": 0, "next": 1, "last": -1}.get(which)
    if what == "weekend":
        return _weekend(today, which, tense)
    # "The coming month" may be the next one, or the next thirty days.
    if step is None:
        return None
    if what in ("week", "month", "quarter", "year"):
        return _period(what, today, step)
    if what in ("spring", "summer", "autumn", "fall"):
        return ("in", f"{what} {today.year}")
    month = next(index for index, name in enumerate(MONTHS, 1) if name[:3].lower() == what[:3])
    # "Next March" is this year's to some and next year's to others, until March has come.
    if step * (today.month - month) < 0:
        return None
    return ("in", f"{MONTHS[month - 1]} {today.year + step}")


def _day(day: date, part: str = "") -> Dated:
    return ("on", f"{f'the {part} of ' if part else ''}{day.day} {MONTHS[day.month - 1]} {day.year}")


def _period(unit: str, today: date, step: int) -> Dated:
    """Return the week, month, quarter or year that is `step` of them after the present one."""
    if unit == "week":
        return ("in", f"the week of {_day(today + timedelta(7 * step - today.weekday()))[1]}")
    if unit == "quarter":
        quarters = today.year * 4 + (today.month - 1) // 3 + step
        return ("in", f"Q{quarters % 4 + 1} {quarters // 4}")
    months = today.year * 12 + today.month - 1 + step * (12 if unit == "year" else 1)
    year = date(months // 12, 1, 1).year  # raises for a year beyond the calendar
    return ("in", str(year) if unit == "year" else f"{MONTHS[months % 12]} {year}")


def _weekend(today: date, which: str, tense: str) -> Dated | None:
    saturday, at_weekend = today + timedelta(5 - today.weekday()), today.weekday() >= 5
    # In the week, "next weekend" may be either, and one that is told as past is not the coming one.
    if (which == "next" or (which == "this" and tense == "past")) and not at_weekend:
        return None
    if which not in ("this", "next", "last") and at_weekend:
        return None
    saturday += timedelta({"next": 7, "last": -7, "this past": -7}.get(which, 0))
    return ("on", f"the weekend of {_day(saturday)[1]}")


def _weekday(today: date, wanted: int, which: str, tense: str) -> date | None:
    """Return the day that a weekday (0 to 6, from Monday) means; None where it may be another one."""
    after, before = (wanted - today.weekday()) % 7 or 7, (today.weekday() - wanted) % 7 or 7
    if which in ("next", "last"):
        days = after if which == "next" else -before
        # It must also be the day of the next or last week, whether weeks begin on Monday or on Sunday.
        starts = (today.weekday(), (today.weekday() + 1) % 7)
        in_other_week = [days >= 7 - start if which == "next" else days < -start for start in starts]
        return today + timedelta(days) if all(in_other_week) else None
    if which == "this":
        return today + timedelta(wanted - today.weekday()) if wanted >= today.weekday() else None
    if which:
        return today + timedelta(-before if which == "this past" else after)
    # On a Friday, "on Friday" is today or in a week.
    if wanted == today.weekday() or tense not in ("past", "ahead"):
        return None
    return today + timedelta(after if tense == "ahead" else -before)


def _tense(text: str, match: re.Match[str]) -> str:
    """Return `past`, `ahead`, `has`, `taste`, or an empty text (a habit, or unclear) for the verb beside a date."""
    before = text[: match.start()]
    words = re.findall(r"[\w'’]+", before if " " in before.strip() else text[match.end() :])
    for word, following in pairwise([*words, ""]):
        done = following in PAST or following.endswith("ed") or following == "been"
        if word in ("was", "were", "had", "did", *PAST) or (word.islower() and re.fullmatch(r"\w{2,}[^e\W]ed", word)):
            arranged = (match["weekday"] or match["n"]) and (
                _ARRANGED.search(before) or (match["before"] or "on").lower() in ("for", "to", "by", "until")
            )
            return "" if arranged else "past"
        if word == "has":
            return "past" if done else "ahead" if following in ("a", "an", "to", "the") else "has"
        if word in _AHEAD:
            return "ahead"
        if word in BASE:
            return "taste" if BASE[word] in TASTES else ""
    return ""

"""Speaker, time, own words and pasted text of a message, and the speaker and dates that a question is about. Pure.

Speaker and time are taken from the message's own metadata (`name`, `time`), else from how exported chats begin a line,
`[8 May 2023] Ana: ...` or `08/05/2023, 14:05 - Ana: ...`.

A document that a user pasted, or gave to work on, may contain "remember that ...", and who says "translate this" or
"pretend that I am a doctor" states nothing. Such text is told from their own words by form alone: tags, triple quotes,
the text of a request such as "Summarise this article:", the headers of a mail, a transcript. Facts from text that seems
pasted wait for a person: a wrong guess costs a review, loses nothing.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any

from memory_core.messages import ChatMessage, MessageRole, message_text
from memory_core.planning.fact_merging import relevance
from memory_core.text import MONTHS, STOP_WORDS, stems

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


SPOKEN_SHARE = 0.5
"""Minimum share (0 to 1) of a statement's stems in the speakers' own words for it to count as said by them."""

MAX_TAGS = 50
"""Maximum number of opening tags of a message that are paired, as a page of HTML may have thousands."""

_TAG = re.compile(r"<([A-Za-z][\w-]{0,40})(?:\s[^<>]{0,300})?>")
# Quotes that are never closed count up to the end of the message.
_QUOTED = re.compile(r"\"{3}.*?(?:\"{3}|\Z)|'{3}.*?(?:'{3}|\Z)", re.DOTALL)
_DOCUMENT = (
    r"(?:(?<![^\W\d_])(?:articles?|e-?mails?|mails?|texts?|documents?|docs?|pages?|reviews?|messages?|letters?|posts?|logs?|chats?|"
    r"transcripts?|conversations?|reports?|papers?|story|stories|essays?|contracts?|outputs?|results?|responses?|"
    r"threads?|paragraphs?|excerpts?|comments?|tickets?|passages?|following|below|artículo|correo|texto|documento|"
    r"artikel|nachricht|dokument|bericht)(?![^\W\d_])|文章|邮件|文本|文档|文書|メール|記事)"
)
_HANDLE = (
    r"(?:(?<![^\W\d_])(?:summari[sz]e|translate|proofread|rewrite|paraphrase|answer|reply|respond|review|edit|correct|explain|"
    r"analy[sz]e|classify|extract|shorten|improve|read|check|look at|here (?:is|are)|here's|this is|resume|traduce|lee|"
    r"fasse?|übersetze?|lies|korrigiere?)(?![^\W\d_])|总结|翻译|阅读|要約|翻訳)"
)
# The colon tells a request from talk: "I read an article about jazz" has the same words and pastes nothing.
_INTRODUCED = re.compile(rf"^[^\n:：]{{0,80}}?{_HANDLE}[^\n:：]{{0,80}}?{_DOCUMENT}[^\n:：]{{0,60}}[:：]", re.I | re.M)
_WRITING = (
    r"(?:sentences?|essays?|grammar|spelling|English|paragraphs?|translation|drafts?|bio|speech|cover letter|cv|resume|"
    rf"{_DOCUMENT})"
)
_FICTION = (
    r"(?:stor(?:y|ies)|tales?|poems?|songs?|lyrics|novels?|books?|dialogues?|scenes?|scripts?|chapters?|monologues?|"
    r"screenplays?|plays?|limericks?|diary|fan ?fiction|role-?play|game|character|hero|protagonist)"
)
_THIS = r"(?:this|that|these|those|the (?:following|above|text|next)|following|below|all of)\b"
_WORK = (
    r"(?:translate|summari[sz]e|sum up|proof-?read|paraphrase|rephrase|reword|re-?write|shorten|simplify|polish|"
    r"spell-?check)"
)
_MEND = r"(?:correct|fix|edit|improve|check|review|continue|finish|complete|transcribe)"
_REST = r"[^\n:：.!?\"“']{0,80}"
_AS_ANOTHER = r"(?:as (?:an?|the|if)|from the (?:perspective|point of view|viewpoint)|in the (?:voice|role|person))\b"
_DRAFT = (
    r"(?:drafts?|essays?|sentences?|paragraphs?|grammar|spelling|translation|wording|bio|speech|cover letter|poem|song|"
    r"lyrics|chapter|scene|script|novel|dialogue|monologue)"
)
_BEING = r" ?(?:'m|'re| am| are|(?:'ll|will)? ?(?:be|play|act as)) (?:the|an?|my|your)\b"
_POLITE = (
    r"(?:(?:hi|hello|hey|ok|okay|now|please|pls|and|then|so|next|just|kindly|(?:can|could|would|will) (?:you|we)|"
    r"help me(?: to| with)?|let's|let us|I (?:want|need) you to|I'd like you to)[ ,]+){0,4}"
)
# What follows is the text: after a colon or line break, or after a sentence that asks for work on "this", on a kind of
# writing, or on nothing that it names. "Translate 'good morning' into Italian" names its text, and ends with it.
_REQUESTED = re.compile(
    rf"(?:^|(?<=[.!?,;–—])\s{{1,9}}|(?<=\n))[ \t>*-]{{0,5}}{_POLITE}(?:"
    rf"{_WORK}\b(?:{_REST}[:：]|(?: (?:(?:my|our|the|an?) )?(?:\w+ ){{0,2}}{_WRITING}\b| {_THIS}|(?= (?:in)?to [A-Z])|"
    rf"(?=[ \t]*[:：.!?\n])){_REST}(?:[.!?\n]|\Z))"
    rf"|{_MEND}\b (?:(?:my|our|the|an?) (?:\w+ ){{0,2}}?(?:{_WRITING}|{_FICTION})\b|{_THIS}(?! out\b)){_REST}"
    rf"(?:[:：.!?\n]|\Z)|(?:make|turn|put) {_THIS} (?:sound|into|in|more|less|shorter|better)\b{_REST}[:：.!?\n]"
    r"|(?:write|tell|compose|draft|create|invent|make up|begin|start)\b (?:me |us )?(?:(?:an?|the|my|our|some) )?"
    rf"(?:[\w-]+ ){{0,3}}?(?:{_FICTION}\b{_REST}[:：.!?\n]|\w+{_REST}\b{_AS_ANOTHER}|{_WRITING}\b{_REST}[:：])"
    r"|(?:pretend|imagine|suppose|assume)(?: that)? (?:I|we|you|he|she|my|an?|to be)\b"
    r"|(?:role-?play|play (?:a game|the (?:role|part))|act (?:as if|as though|like) (?:I|we)|hypothetically|"
    r"for the sake of (?:the )?argument|what if (?:I|we)|(?:let's|let us) (?:say|assume|imagine|suppose))\b"
    rf"|you{_BEING} .{{1,60}}?(?:,| and)? I{_BEING}"
    rf"|(?:let me|I(?:'ll| will)) (?:be|play|act as) .{{1,60}}?(?:,| and)? you{_BEING}"
    rf"|(?:how|what) (?:do|does|did|would|should|could) (?:{_THIS}|it) (?:sound|read|look|mean|say)\b{_REST}[:：.!?\n]"
    rf"|(?:is|are|does|do|(?:tell me )?(?:if|whether)) (?:{_THIS}|my) (?!an? |the ){_REST}\b(?:correct|right|ok|"
    rf"okay|fine|good|clear|natural|polite|grammatical|sounds?|reads?|means?|makes? sense)\b{_REST}[:：.!?\n]"
    rf"|(?:here(?:'s| is| are)|this is|below is|attached is) (?:my|our|the|an?) (?:\w+ ){{0,3}}?{_DRAFT}\b{_REST}"
    rf"[:：.!?\n]|(?:which|what|what's|is|are|mark|find|spot|give|any)\b{_REST}\b(?:{_DRAFT}|mistakes?|errors?)\b{_REST}[:：]"
    rf"|(?!I\b|we\b)[\w'’ -]{{2,40}}? (?:says?|said|wrote|writes|texted|tells? (?:me|us)|told (?:me|us)|replie[sd]|"
    rf"asks?|asked|claims?|claimed)(?: to me)?[:：]"
    rf"|(?:how (?:do|would|can) (?:you|I|we) say|say|repeat|quote)\b{_REST}[:：]"
    rf"|(?:for|in|from) (?:my|our|an?|this) (?:\w+ ){{0,2}}?{_FICTION}\b{_REST}[:：,]|my {_FICTION}\b{_REST}[:：]"
    r")(?!\s*(?:by the way|btw)\b)",
    re.I,
)
_POINTS_BACK = re.compile(
    rf"(?:{_WORK}|{_MEND}) (?:this|that|these|the above|the text above)\b{_REST}[.!?]?\s*\Z", re.I
)
_HEADER = re.compile(r"^(?:from|to|subject|date|sent|cc|von|an|betreff|de|para|asunto): \S", re.I | re.M)
_LABEL = re.compile(
    r"^(?:\*\*)?(user|human|customer|me|assistant|ai|bot|agent|chatgpt|claude|system)(?:\*\*)?: ", re.I | re.M
)
_FORWARDED = re.compile(r"^-{2,} ?(?:forwarded|original) message|^begin forwarded message", re.I | re.M)


@lru_cache(maxsize=32)  # asked for each found fact of a delivery, which has about as many messages
def own_words(text: str) -> str:
    """Return a message without what seems to be pasted.

    >>> own_words("I like jazz. Summarise this article: I live in Vaduz.")
    'I like jazz. '
    >>> own_words("Remember this: I live in Porto.")
    'Remember this: I live in Porto.'
    """
    text = _QUOTED.sub("", _without_tagged(text))
    begins = [len(text)]
    if introduced := _INTRODUCED.search(text):
        # The sentences before the request, on its line, are the user's own.
        sentence_ends = [end.end() for end in re.finditer(r"[.!?。！？]\s*", introduced[0])]
        begins.append(introduced.start() + max(sentence_ends, default=0))
    if requested := _REQUESTED.search(text):
        # Where nothing follows a request to work on "this", the text stands before it.
        blanks = len(requested[0]) - len(requested[0].lstrip())
        begins.append(0 if _POINTS_BACK.search(text) else requested.start() + blanks)
    headers = list(_HEADER.finditer(text))
    labels = list(_LABEL.finditer(text))
    # One such line may be the user's own words; two are the head of a mail.
    if len(headers) > 1:
        begins.append(headers[0].start())
    # Likewise one label; two different ones are a transcript.
    if len({label[1].lower() for label in labels}) > 1:
        begins.append(labels[0].start())
    if forwarded := _FORWARDED.search(text):
        begins.append(forwarded.start())
    # Nothing marks the end of what was pasted, so everything after its first sign counts as pasted.
    return text[: min(begins)]


def _without_tagged(text: str) -> str:
    """Return a text without its tagged passages, from each opening tag to the closing one."""
    result, at = [], 0
    for _ in range(MAX_TAGS):
        opening = _TAG.search(text, at)
        if opening is None:
            break
        closing = text.find(f"</{opening[1]}>", opening.end())
        result.append(text[at : opening.start() if closing >= 0 else opening.end()])
        # A tag without a closing one is markup in the user's own words, and stays.
        at = closing + len(opening[1]) + 3 if closing >= 0 else opening.end()
    return "".join([*result, text[at:]])


def said_by_others(statement: str, source: int | None, heard: Sequence[ChatMessage]) -> bool:
    """Return whether a statement comes from the output of a tool, or from text that a user pasted.

    `source` is the index of its message in `heard`; None: all messages are compared. True if the messages have such
    text, and less than half of the statement's stems are in the rest of them.
    """
    named = source is not None and 0 <= source < len(heard)
    read = [heard[source]] if named and source is not None else heard
    spoken, others = [], False
    for message in read:
        text = message_text(message)
        typed = own_words(text) if message.role is MessageRole.USER else text
        tool = message.role is MessageRole.TOOL
        others = others or tool or typed != text
        spoken.append("" if tool else typed)
    # Only if there is text of others: an extractor also rewords what the user typed, which lowers the share.
    return others and relevance(statement, frozenset(stems("\n".join(spoken)))) < SPOKEN_SHARE

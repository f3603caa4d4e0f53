"""Words, stems and the similarity of two short statements: text helpers shared by the whole engine.

Pure and in linear time. Counting tokens is in `tokens.py`, searching texts in `vectors/keyword.py`.
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import groupby
from threading import Lock
from typing import Any

from memory_core.process import collector_paused


def _listed(names: str) -> frozenset[str]:
    return frozenset(names.split())


_HALF = re.compile(r"[\ud800-\udfff]")
"""A UTF-16 surrogate, as JSON may contain it unpaired; alone it is not text in any encoding."""

UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Kana and Han, as the inside of a character class; written without spaces, each character counts as a word."""

UNSPACED_CHARACTER = re.compile(f"[{UNSPACED}]")
_FREQUENT = frozenset("我你的了是在吗呢什么哪里几个有のはがをにでとですかまいしたてるなもどこ何")
"""Characters of grammar and of questions: too frequent to be search terms by themselves."""
_HANGUL = re.compile("[\uac00-\ud7af]+")

_CI_COMMAND = re.compile(r"(?<![^\s:]):(?=:)|#(?=#\w*\[)")
"""Sign of a command in a log: `::name` at the beginning of a line, `##[name]` or `##vso[name]` anywhere."""

STOP_WORDS = _listed(
    """
    a an the this that these those there here
    i me my mine myself we us our ours you your yours he him his she her hers it its they them their theirs
    am is are was were be been being do does did done doing has have had having will would shall should can could
    to of in on at by for from with as into about over under than then so and or but if while because
    what which who whom whose where when why how
    all any some each both just also too very
    """
)
"""English words with little meaning of their own. Negations are excluded: they reverse a statement."""

_REVERSALS = _listed(
    """
    not no never none nobody nothing nowhere neither nor without hardly
    longer anymore formerly former previously used stopped quit ex
    """
)
"""Words that negate a statement or say that it has ended."""
_PLACING = _listed("to into from than over under above below before after behind beneath")
"""Words around which two things have places: "coffee to tea" is not "tea to coffee"."""

_NUMBER_WORDS = {
    **{"two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7"},
    **{"eight": "8", "nine": "9", "ten": "10", "eleven": "11", "twelve": "12"},
}
"""Number words and their digits. `one` is left out: it is a pronoun as often as a number."""

_ORDINAL = re.compile(r"^(\d+)(?:st|nd|rd|th)$")
"""Matches an ordinal: `the 14th of March` is `14 March`."""

_PERSONS = {
    word: person
    for person, words in {
        "first": "i me my mine myself we us our ours",
        "second": "you your yours",
        "he": "he him his",
        "she": "she her hers",
        "they": "they them their theirs",
    }.items()
    for word in words.split()
}

_FUNCTION_WORD_WEIGHT = 0.25
"""Weight of a stop word in `similarity`; a content word weighs 1."""

_DISAGREEMENT = 0.5
"""Factor of `similarity` if numbers, reversals, persons or names disagree."""

_SUBSTITUTION = 0.8
"""Factor of `similarity` if each statement has a content word that the other lacks."""

_LONGEST_STEMMED = 40
"""Maximum characters of a stemmed word. Longer runs are addresses and keys: kept whole and not cached."""

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_MONTH = "Sept|" + "|".join(f"{month[:3]}(?:{month[3:]})?" for month in MONTHS)
_DAY = r"(?:the )?(?P<{0}>[0-3]?\d)(?:st|nd|rd|th)?"
_DATED = re.compile(
    r"\b(?P<iso>\d{4})-(?P<iso_month>[01]\d)-(?P<iso_day>[0-3]\d)\b|\b(?:"
    rf"{_DAY.format('before')}(?: of)? (?P<second>{_MONTH})|(?P<first>{_MONTH})\.? {_DAY.format('after')}(?![\d:.]\d)"
    r")\b(?:,? (?P<year>\d{4})\b)?",
    re.IGNORECASE,
)
_TIMED = re.compile(
    r"\b(?P<hour>[0-2]?\d)(?:[:.](?P<minute>[0-5]\d))? ?(?P<half>[ap])\.?m\b\.?(?!\.)"
    r"|\b(?P<clock>[0-2]?\d)(?::(?P<past>[0-5]\d)(?::00)?|h(?P<french>[0-5]\d)?)(?![:\w])|\b(?P<named>noon|midnight)\b",
    re.IGNORECASE,
)

_ASCII_WORD = re.compile(r"\d+(?:[.,]\d+)*|[a-z][a-z\d]*(?:'[a-z\d]+)*", re.IGNORECASE | re.ASCII)
"""The pattern of one word (`word_pattern`) in a text of ASCII characters."""
_COMMA_IN_NUMBER = re.compile(r"\d,\d")

_NOT_CONTRACTIONS = {"can't": "can", "won't": "will", "shan't": "shall", "ain't": "is", "cannot": "can"}
_SHORT_FORMS = ("'s", "'m", "'re", "'ve", "'ll", "'d")


def words(text: str) -> list[str]:
    """Return the words and numbers of a text, NFKC-normalised and lower-cased, in order.

    A word keeps its inner apostrophes and a number its decimals; thousands lose their commas. Underscores separate
    words. Chinese and Japanese, which are written without spaces, give one word per character.

    >>> words("Ana's 1,500 user_ids don’t cost $3.50")
    ["ana's", '1500', 'user', 'ids', "don't", 'cost', '3.50']
    """
    # Only of ASCII characters is a text's lower case that of its words.
    return _cased_words(text.lower()) if text.isascii() else [word.lower() for word in _cased_words(text)]


def stems(text: str, *, stop: bool = True) -> list[str]:
    """Return the English (Snowball) stems of a text's words, in order; `stop` leaves the stop words out.

    `n't` becomes `not`; the other short forms lose their ending. Negations are always kept.

    >>> stems("She doesn't like the dogs")
    ['not', 'like', 'dog']
    """
    return [
        stem
        for word in words(text)
        for stem in (_remembered_stems if len(word) <= _LONGEST_STEMMED else _word_stems)(word, stop)
    ]


@lru_cache(maxsize=32_768)
def stem_set(text: str) -> frozenset[str]:
    """Return the stems of a text, without stop words and without their order. Cached, for texts that are compared."""
    return frozenset(stems(text))


def keyword_terms(stemmed: str) -> list[str]:
    """Return stems, passed with spaces between, as keyword search counts them: Chinese, Japanese and Korean in
    overlapping pairs of characters.

    No rule says where words of these languages end, but pairs match most of them. Single characters count too, except
    the most frequent: without single ones, one in eight of our own questions finds nothing.

    >>> keyword_terms("我 住 在 porto 서울에")
    ['我住', '住在', '住', 'porto', '서울', '울에']
    """
    words = stemmed.split(" ") if stemmed else []
    # One check for nearly all texts, instead of one for each word.
    if stemmed.isascii():
        return words
    result: list[str] = []
    for unspaced, several in groupby(words, key=lambda stem: UNSPACED_CHARACTER.fullmatch(stem) is not None):
        if unspaced:  # Han and kana are stems of one character each
            run = "".join(several)
            result += [*_pairs(run), *(character for character in run if character not in _FREQUENT)]
            continue
        for word in several:
            result += _pairs(word) if len(word) > 1 and _HANGUL.fullmatch(word) else [word]
    return result


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)]


@lru_cache(maxsize=16_384)
def in_one_notation(text: str) -> str:
    """Write each date of a text as `14 March 2026`, with or without the year, and each time of day as `20:00`.

    >>> in_one_notation("On March 14th at 8 pm, not 2026-03-15 at noon")
    'On 14 March at 20:00, not 15 March 2026 at 12:00'
    """

    def date(match: re.Match[str]) -> str:
        day, name, year = match["before"] or match["after"], match["first"] or match["second"], match["year"]
        if match["iso"]:
            day, name, year = match["iso_day"], dict(enumerate(MONTHS, 1)).get(int(match["iso_month"])), match["iso"]
        month = next((month for month in MONTHS if name and month[:3] == name[:3].title()), None)
        return f"{int(day)} {month}" + (f" {year}" if year else "") if month else match[0]

    def time(match: re.Match[str]) -> str:
        if match["named"]:
            return "12:00" if match["named"].lower() == "noon" else "0:00"
        hour = int(match["hour"] or match["clock"])
        if match["half"] and hour < 13:  # 12 am is midnight, and 12 pm noon
            hour = hour % 12 + 12 * (match["half"].lower() == "p")
        return f"{hour}:{match['minute'] or match['past'] or match['french'] or '00'}"

    return _TIMED.sub(time, _DATED.sub(date, text))


def similarity(a: str, b: str) -> float:
    """Return the similarity of two short statements, 0 to 1; 1 if they have the same stems in any order. Symmetric.

    `2 · shared / (a + b)`, the Dice coefficient of the two bags of stems, where a content word weighs 1 and a stop word
    0.25, times one factor:

    - 0.5 if they contradict each other: different numbers, different counts of negations (or words such as "formerly"),
      different persons ("he", "she"), a capitalised word on each side that the other lacks ("Ana", "Bob"), or two
      things that changed places ("coffee to tea", "tea to coffee");
    - 0.8 if each has a content word that the other lacks, so that one word replaced in a long statement still matters;
    - 1 otherwise: one statement only says more than the other.

    Weights and factors were chosen by hand so that 0.85 separates duplicates from the rest.
    """
    first, second = _statement(a), _statement(b)
    # Without any word the two are compared as text: "?!" equals only itself.
    if first.bag == second.bag and not first.exchanged(second):
        return 1.0 if first.bag or first.bare == second.bare else 0.0
    less, more = sorted((first.bag, second.bag), key=len)
    shared = sum(min(count, more[stem]) * _weight(stem) for stem, count in less.items() if stem in more)
    dice = 2 * shared / (first.weight + second.weight)
    if first.contradicts(second):
        return dice * _DISAGREEMENT
    if first.lacking(second) and second.lacking(first):
        return dice * _SUBSTITUTION
    return dice


def exchanged(a: str, b: str) -> bool:
    """Return whether two things change places from one statement to the other.

    >>> exchanged("Prefers coffee to tea", "Prefers tea to coffee"), exchanged("Flies to Rome in May", "In May to Rome")
    (True, False)
    """
    return _statement(a).exchanged(_statement(b))


def agreement_key(text: str) -> tuple[frozenset[tuple[str, int]], int]:
    """Return the numbers and the count of reversals: texts with different keys are at most 0.5 similar."""
    statement = _statement(text)
    return frozenset(statement.numbers.items()), statement.reversals


class _TextStatement:
    """Features of a statement that `similarity` compares."""

    def __init__(self, text: str) -> None:
        # Numbers of each stem and of each number; as a `Counter` they would be compared slowly.
        self.bag: dict[str, int] = {}
        self.numbers: dict[str, int] = {}
        self.persons: set[str] = set()
        self.capitalised: set[str] = set()
        self.reversals = 0
        self.behind: dict[str, set[str]] = {}
        for cased in _cased_words(in_one_notation(text)):
            for part in _parts(cased.lower()):
                part = _ORDINAL.sub(r"\1", _NUMBER_WORDS.get(part, part))
                # Stop words are not stemmed, so that they are recognised as such below.
                stem = part if part in STOP_WORDS else _stem(part)
                self.bag[stem] = self.bag.get(stem, 0) + 1
                # Content words behind the last "to", "than", ...
                if part in _PLACING:
                    self.behind[part] = set()
                elif part not in STOP_WORDS:
                    for stems_behind in self.behind.values():
                        stems_behind.add(stem)
                self.reversals += part in _REVERSALS
                if any(character.isdigit() for character in part):
                    self.numbers[part] = self.numbers.get(part, 0) + 1
                if part in _PERSONS:
                    self.persons.add(_PERSONS[part])
                # A name, or any word at the beginning of a sentence: both sides must have one that the other lacks.
                elif cased[0].isupper() and part not in STOP_WORDS and part not in _REVERSALS:
                    self.capitalised.add(stem)
        self.bare = "".join(unicodedata.normalize("NFKC", text).split())
        self.weight = sum(count * _weight(stem) for stem, count in self.bag.items())

    def contradicts(self, other: "_TextStatement") -> bool:
        return (
            self.numbers != other.numbers
            or self.reversals != other.reversals
            # A statement without any person contradicts none.
            or bool(self.persons and other.persons and self.persons.isdisjoint(other.persons))
            or bool(self.capitalised - other.bag.keys() and other.capitalised - self.bag.keys())
            or self.exchanged(other)
        )

    def exchanged(self, other: "_TextStatement") -> bool:
        """Return whether something behind a "to" or "than" of each stands before it in the other."""
        return any(
            (mine & other.bag.keys()) - theirs and (theirs & self.bag.keys()) - mine
            for mine, theirs in ((mine, other.behind.get(placing, set())) for placing, mine in self.behind.items())
        )

    def lacking(self, other: "_TextStatement") -> bool:
        """Return whether the other has a content word that this one lacks."""
        return any(stem not in STOP_WORDS and count > self.bag.get(stem, 0) for stem, count in other.bag.items())


@lru_cache(maxsize=4096)
def _statement(text: str) -> _TextStatement:
    """Return the features of a text; cached, because comparing all pairs of a list parses each text repeatedly."""
    return _TextStatement(text)


def _weight(stem: str) -> float:
    return _FUNCTION_WORD_WEIGHT if stem in STOP_WORDS else 1.0


def _cased_words(text: str) -> list[str]:
    # Most texts, in a tenth of the time: the same pattern for letters from A to Z, and nothing to be normalised.
    if text.isascii() and not _COMMA_IN_NUMBER.search(text):
        return _ASCII_WORD.findall(text)
    matches = word_pattern().finditer(unicodedata.normalize("NFKC", text).replace("’", "'"))
    # Only groups of three digits mark thousands; "1,5" stays a decimal.
    return [match[0].replace(",", "") if match.lastgroup == "thousands" else match[0] for match in matches]


def _parts(word: str) -> tuple[str, ...]:
    """Return a lower-cased word with its contraction split: `("does", "not")` for `doesn't`."""
    # Irregular ones first: "can't" would lose its "n".
    if word in _NOT_CONTRACTIONS:
        return _NOT_CONTRACTIONS[word], "not"
    if "'" in word:
        if word.endswith("n't"):
            return word.removesuffix("n't"), "not"
        for ending in _SHORT_FORMS:
            if word.endswith(ending):
                return (word.removesuffix(ending),)
    return (word,)


def _word_stems(word: str, stop: bool) -> list[str]:
    return [_stem(part) for part in _parts(word) if not (stop and part in STOP_WORDS)]


# The same words come over and over.
_remembered_stems = lru_cache(maxsize=65_536)(_word_stems)


def _stem(word: str) -> str:
    return word if len(word) > _LONGEST_STEMMED else _remembered_stem(word)


@lru_cache(maxsize=65_536)
def _remembered_stem(word: str) -> str:
    stemmer, lock = _stemmer()
    with lock:  # the stemmer keeps the current word as state
        return str(stemmer.stemWord(word))


@cache
def _stemmer() -> tuple[Any, Lock]:
    # It makes tables for thirty languages, none of which is garbage.
    with collector_paused():
        import snowballstemmer

    return snowballstemmer.stemmer("english"), Lock()


@cache
def word_pattern() -> re.Pattern[str]:
    """Return the pattern of one word. Every alternative consumes what it has examined, so matching is linear."""
    # `\w` lacks combining marks, without which Hindi or Thai words fall apart: 65,536 look-ups, about 5 ms, once.
    marks = "".join(chr(code) for code in range(0x10000) if unicodedata.category(chr(code)) in ("Mn", "Mc"))
    letter = rf"(?:(?![{UNSPACED}_])[\w{marks}])"
    return re.compile(
        r"(?P<thousands>\d{1,3}(?:,\d{3})+(?![\d,.]))"
        r"|\d+(?:[.,]\d+)*"
        rf"|[{UNSPACED}]"
        rf"|(?![\d{marks}]){letter}+(?:'{letter}+)*"
    )


def whole_characters(text: str) -> str:
    """Return `text` with surrogate pairs joined into characters; U+FFFD for each unpaired surrogate.

    >>> whole_characters("\\ud83d\\ude00 \\ud83d") == "\\U0001f600 \\ufffd"
    True
    """
    if not _HALF.search(text):
        return text
    # Through UTF-16, in which two surrogates side by side are one character.
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class Characters:
    """Joiner of a streamed text whose pieces may be split in the middle of a character."""

    def __init__(self) -> None:
        self._half = ""

    def add(self, piece: str) -> str:
        """Return the complete characters up to this piece; a high surrogate at its end is kept for the next piece."""
        text = self._half + piece
        # Only a high surrogate waits for its other half; a low one can no longer become a character.
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return whole_characters(text[: len(text) - len(self._half)])

    def rest(self) -> str:
        """Return the remainder at the end of the text: U+FFFD for half a character, else nothing."""
        half, self._half = self._half, ""
        return whole_characters(half)


def listed(words: Iterable[str]) -> str:
    """Join words into a list: `a, b and c`."""
    result = list(words)
    return " and ".join([", ".join(result[:-1]), result[-1]] if len(result) > 1 else result)


def count(number: float, noun: str = "token") -> str:
    """Return a number with its noun: `1 token`, `1,405 tokens`."""
    return f"{number:,.0f} {noun}{'' if number == 1 else 's'}"


def capitalised(text: str) -> str:
    """Return a text with a capital first letter, to begin a sentence."""
    return f"{text[:1].upper()}{text[1:]}"


def printable(text: str) -> str:
    """Return a text on one line, without what acts on a terminal or cannot be seen, and without a CI server's commands.

    >>> printable("a\\x1b[31m\\n::error::b ##[group]c")
    'a [31m : :error::b # #[group]c'
    """
    line = " ".join("".join(character if character.isprintable() else " " for character in text).split())
    return _CI_COMMAND.sub(r"\g<0> ", line)


def shortened(text: str, most: int) -> str:
    """Truncate a text to `most` characters, the last of which is then an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def told_apart(one: float, other: float) -> tuple[str, str]:
    """Format two numbers with the decimals that distinguish them, at least two: `0.28`, `0.31`; `0.309`, `0.310`."""
    places = next(n for n in range(2, 10) if n == 9 or f"{one:.{n}f}" != f"{other:.{n}f}")
    return f"{one:.{places}f}", f"{other:.{places}f}"

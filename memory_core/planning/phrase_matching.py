"""Decide whether a text says a phrase: for tracing, probes, forgetting, quarantine and coding sessions alike. Pure.

A text says a phrase in one of two grades. *Word for word*: it has the very words in their order. *In other words*: one
sentence has all their stems, stop words aside: "Ana is allergic to all nuts" says "allergic to nuts", but a text with
the words in different sentences does not. Every sentence of a longer phrase must match.

Unicode forms, case, apostrophes, quotation marks, dashes, vowel marks, markup and the escapes of JSON and HTML make no
difference, nor whether a compound is written with a hyphen, as one word or as two. Looser modes, for a phrase that
nothing says, are all words in any order (`Phrase.scattered`) and also as parts of longer words (`Phrase.in_compounds`).
"""

import html
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Literal
from unicodedata import category, normalize

from memory_core.planning.running_summary import sentences
from memory_core.text import STOP_WORDS, stems, whole_characters, word_pattern, words

Grade = Literal["verbatim", "reworded"]
"""Grades in which a text says a phrase: word for word, and in other words."""

CARRIED = 0.5
"""A fact carries a phrase if it has more than this share of the stems: facts reword "I live in" as "lives in"."""

MAX_NEEDLES = 40
"""Maximum word prefixes for the fast pre-check of a text; longer phrases are still compared in full."""

MIN_PART, MIN_MIDDLE, MIN_REST = 4, 6, 3
"""Minimum letters of a word at an end of a longer word, of a word inside it, and of the rest on each side: "fire" is
found in "firefighter", "rain" is not found in "train"."""

MIN_JOINED = 3
"""Minimum letters of each of two words that may also be written as one: "lock file" is "lockfile"."""

_IRREGULAR = 3
"""Letters of the longest stem with irregular inflections: "sky" and "skies"."""

_SPEAKER = frozenset({"user", "i", "my", "me"})
"""Stems for the speaker, who is "I" in messages and "the user" in facts; not compared."""

_MARKUP = re.compile(r"[*`~]+")
"""Markdown that may occur within a word."""
_TAG = re.compile(
    r"<!--.{0,200}?-->|</?(?:a|b|code|del|em|font|i|ins|mark|s|small|span|strong|sub|sup|u)(?:\s[^<>]*)?>", re.I
)
_BREAK = re.compile(r"</?(?:br|p|li|div|td|tr)(?:\s[^<>]*)?/?>", re.I)
_LINK = re.compile(r"\[([^\[\]]*)\]\([^()\s]*\)")
_INVISIBLE = re.compile(
    "[\u00ad\u0307\u034f\u0591-\u05c7\u0640\u064b-\u065f\u0670\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufe00-\ufe0f\ufeff]"
)
"""Characters that people leave out: soft hyphens, joiners, direction marks, variation selectors, vowel marks of Arabic
and Hebrew; and the dot over a decomposed Turkish I."""
_SPELLED = {**dict.fromkeys("‘’‛ʼʹ´′＇", "'"), **dict.fromkeys("‐‑‒–—―−﹣－", "-"), "İ": "I"}
"""Apostrophes and dashes, each as the keyboard has it; and the I whose lower case has two characters."""
_FOREIGN = re.compile(r"[^\x00-\x7f]")
MAX_SIGNS = 16
"""Maximum different characters beyond ASCII that are taken out of a text one by one."""
_ESCAPE = re.compile(r"(?<!\\)\\+(?:u([0-9a-fA-F]{4})|([^\W\d_])|(.))", re.DOTALL)
"""JSON escapes in tool texts: a code point, a control character, or any other character."""
_CONTROL = re.compile(r"(?<!\\)\\+[^\W\d_]")
_CODE = re.compile(r"\\u([0-9a-fA-F]{4})")
_JOINTS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])|'")
"""Boundaries of words written together: `birthdayDinner`, `HAT229`, `l'avion`."""
_HYPHENS = re.compile(r"[-_*`~.]*|-\s*\n\s*")
"""Signs between the two halves of a compound, or of a word that a line break or markup divides."""
_SHORT_FORMS = frozenset({"s", "m", "re", "ve", "ll", "d"})
"""Letters behind an apostrophe that may not be dropped: "we'll" is not "well"."""
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1100-\u11ff\uac00-\ud7af]")
"""Letters of Thai, Lao, Burmese, Khmer and Korean, whose words have no separating spaces."""


class _Squeezing(dict[int, str | None]):
    """Table for `str.translate` that drops all but letters and digits."""

    def __missing__(self, code: int) -> str | None:
        self[code] = chr(code) if chr(code).isalnum() else None
        return self[code]


_SQUEEZING = _Squeezing()


@dataclass(frozen=True)
class Phrase:
    """A search phrase, prepared for comparison."""

    text: str
    sentences: tuple["_Sentence", ...]
    """Sentences that have stems."""
    needles: tuple[str, ...]
    """Word prefixes, squeezed (see `squeezed`): a text that lacks one cannot match, whatever the inflection."""
    any_order: bool = False
    """True if every word must occur somewhere in the text, in any order; False: the phrase, or all its stems in one
    sentence."""
    parts: bool = False
    """True if parts of longer words count; only with `any_order`."""

    @classmethod
    def of(cls, text: str) -> "Phrase":
        """Parse a phrase.

        >>> sorted(Phrase.of("allergic to nuts").stems)
        ['allerg', 'nut']
        """
        return _parsed(text)

    @cached_property
    def scattered(self) -> "Phrase":
        """Return a copy that matches all words in any order."""
        return replace(self, any_order=True, needles=_needles(self.all_words, stop=False))

    @cached_property
    def in_compounds(self) -> "Phrase":
        """Return a copy that matches all words, alone or within longer ones.

        >>> Phrase.of("dinner Geburtstag").in_compounds.said_in("Das Geburtstagsessen (birthday dinner)")
        True
        """
        return replace(self.scattered, parts=True)

    @cached_property
    def all_words(self) -> tuple[str, ...]:
        """Return the distinct words, including stop words, emoji and other symbols."""
        text = visible(self.text)
        return tuple(dict.fromkeys([*(word.casefold() for word in words(text)), *_symbols(text)]))

    @cached_property
    def _search_words(self) -> tuple["_SearchWord", ...]:
        return tuple(_SearchWord(word, frozenset(stems(word, stop=False))) for word in self.all_words)

    @cached_property
    def stems(self) -> frozenset[str]:
        return frozenset(stem for sentence in self.sentences for stem in sentence.stems)

    # -- the two grades -------------------------------------------------------------------------------

    def said_in(self, text: str) -> bool:
        """Return whether a text says the phrase, in either grade."""
        if not self.any_order:
            return self.grade_in(text) is not None
        if not self.may_be_in(text):
            return False
        text_words = _TextWords(text)
        return bool(self._search_words) and all(text_words.has(word, parts=self.parts) for word in self._search_words)

    def grade_in(self, text: str) -> Grade | None:
        """Return how a text says the phrase, None if it does not.

        >>> texts = "I’m **allergic** to nuts!", "allergic to all nuts", "Nuts? Not allergic."
        >>> [Phrase.of("allergic to nuts").grade_in(text) for text in texts]
        ['verbatim', 'reworded', None]
        """
        if self.verbatim_in(text):
            return "verbatim"
        return "reworded" if self.reworded_in(text) else None

    def verbatim_in(self, text: str) -> bool:
        """Return whether a text has the very words in their order, also across lines and sentences."""
        if not self.may_be_in(text):
            return False
        if self._signs:  # nothing more to compare
            return True
        # Splitting a text into words takes long, and most texts lack the letters in a row.
        letters = squeezed(text)
        wanted = [run for run, row in zip(self._runs, self.rows, strict=True) if row and row in letters]
        return any(phrase.is_in(run) for phrase in wanted for run in _prepared(text).runs)

    def reworded_in(self, text: str) -> str:
        """Return the sentence of a text that has all stems, or those of the phrase's first sentence; else nothing."""
        if not self.sentences or not self.may_be_in(text):
            return ""
        parts = _prepared(text).sentences
        matches = [next((part.text for part in parts if part.has(wanted)), "") for wanted in self.sentences]
        return matches[0] if all(matches) else ""

    def may_be_in(self, text: str) -> bool:
        """Return False if a text cannot say the phrase: a fast check without tokenising the text."""
        # Stems drop emoji and currency signs, which may be the important part.
        if self._symbols and not self.any_order and not self._symbols <= _symbols(text):
            return False
        if not any(self.rows):
            return bool(self._signs) and any(self._signs in "".join(reading.split()) for reading in readings(text))
        letters = squeezed(text)
        return all(needle in letters for needle in self.needles)

    def nearest(self, text: str) -> tuple[str, int]:
        """Return the sentence that shares most stems with the phrase, and how many; an empty one if none shares any."""
        shared = [(len(self.stems & part.stems), part.text) for part in _prepared(text).sentences]
        most = max(shared, key=lambda one: one[0], default=(0, ""))
        return (most[1], most[0]) if most[0] else ("", 0)

    @cached_property
    def _symbols(self) -> Set[str]:
        return _symbols(self.text)

    @cached_property
    def _signs(self) -> str:
        """Return the phrase without spaces if it has no letters; else empty."""
        return "" if any(self.rows) else "".join(visible(self.text).split())

    @cached_property
    def _runs(self) -> list["_LetterRow"]:
        return [_LetterRow(reading) for reading in readings(self.text)]

    @cached_property
    def rows(self) -> list[str]:
        """Return the letters of each reading of the phrase: a text without one of these rows is not verbatim."""
        return [_row(reading) for reading in readings(self.text)]

    def carried_by(self, text: str) -> bool:
        """Return whether the text of a derived fact, relation or summary has most of the phrase's stems."""
        return carries(frozenset(stems(text)), self.stems) if self.stems else self.said_in(text)


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Phrase:
    # A phrase that was copied from JSON has the escapes of JSON.
    line = " ".join(whole_characters(_CODE.sub(lambda match: chr(int(match[1], 16)), text)).split())
    parts = tuple(part for sentence in sentences(visible(line)) if (part := _Sentence(sentence)).stems)
    content = words(visible(line).casefold())
    return Phrase(line, parts, _needles(content) or _needles(content, stop=False))


def _needles(words: Iterable[str], *, stop: bool = True) -> tuple[str, ...]:
    # Word by word, so that each stem's beginning is one of a single word.
    beginnings = (_row(_beginning(stem)) for word in words for stem in stems(word, stop=stop))
    return tuple(dict.fromkeys(filter(None, beginnings)))[:MAX_NEEDLES]


class _LetterRow:
    """The letters of a text's words in a row, with the places where words meet."""

    def __init__(self, text: str) -> None:
        letters: list[str] = []
        joints: dict[int, bool] = {}
        size = end = 0
        for match in word_pattern().finditer(text):
            gap, end = text[end : match.start()], match.end()
            word = match[0].replace(",", "") if match.lastgroup == "thousands" else match[0]
            for number, piece in enumerate(word.casefold().split("'")):
                if size:
                    joints[size] = piece not in _SHORT_FORMS if number else _may_be_one(letters[-1], gap, piece)
                letters.append(piece)
                size += len(piece)
        self.letters = "".join(letters)
        self._joints = joints
        """True for a place whose two words may also be written as one."""
        self._places = list(joints)

    def is_in(self, other: "_LetterRow") -> bool:
        """Return whether another run has the same words in a row, each compound in any spelling."""
        start = other.letters.find(self.letters)
        while start >= 0:
            if other._begins(start) and other._ends(start + len(self.letters)) and self._meets_as(other, start):
                return True
            start = other.letters.find(self.letters, start + 1)
        return False

    def _begins(self, place: int) -> bool:
        return not place or place in self._joints or bool(_UNSPACED.match(self.letters, place))

    def _ends(self, place: int) -> bool:
        at_end = place == len(self.letters) or place in self._joints
        return at_end or bool(_UNSPACED.match(self.letters, place - 1))

    def _meets_as(self, other: "_LetterRow", start: int) -> bool:
        first = bisect_left(other._places, start + 1)
        last = bisect_left(other._places, start + len(self.letters))
        theirs = {place - start for place in other._places[first:last]}
        return all(self._joints[place] for place in self._joints.keys() - theirs) and all(
            other._joints[start + place] for place in theirs - self._joints.keys()
        )


def _may_be_one(word: str, gap: str, following: str) -> bool:
    """Return whether two words may also be written as one."""
    if _HYPHENS.fullmatch(gap):
        return True
    if not gap.isspace():
        return False
    # "Room 5" and "Room5"
    if word[-1:].isdigit() != following[:1].isdigit():
        return True
    return min(len(word), len(following)) >= MIN_JOINED and STOP_WORDS.isdisjoint((word, following))


class _Sentence:
    """A sentence with its stems."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.stems = frozenset(stems(text.casefold()))

    @cached_property
    def compounds(self) -> dict[str, frozenset[str]]:
        """Two words that follow each other by the stem they have as one: `{"lockfil": {"lock", "file"}}`."""
        pairs = {pair for pair in pairwise(words(self.text.casefold())) if STOP_WORDS.isdisjoint(pair)}
        long = (pair for pair in pairs if min(map(len, pair)) >= MIN_JOINED and all(map(str.isalpha, pair)))
        halves = {"".join(pair): pair for pair in long}
        joined = ((stems(whole, stop=False)[0], pair) for whole, pair in halves.items())
        return {stem: frozenset(stems(" ".join(pair))) for stem, pair in joined}

    def has(self, wanted: "_Sentence") -> bool:
        """Return whether the sentence has all stems of another, a compound as one word or as two."""
        if missing := wanted.stems - self.stems:
            letters = _row(self.text)
            if not all(_row(_beginning(stem)) in letters for stem in missing):
                return False
            halves = (pair for whole, pair in wanted.compounds.items() if whole in self.stems)
            return missing <= {*self.compounds, *(half for pair in halves for half in pair)}
        return True


class _Text:
    """A text in its readings: as it stands, and without markup and escapes."""

    def __init__(self, text: str) -> None:
        self._readings = list(dict.fromkeys(readings(text)))

    @cached_property
    def runs(self) -> list[_LetterRow]:
        return [_LetterRow(reading) for reading in self._readings]

    @cached_property
    def sentences(self) -> list[_Sentence]:
        return [_Sentence(sentence) for reading in self._readings for sentence in sentences(reading)]


_prepared = lru_cache(maxsize=8)(_Text)
"""Prepared text: many phrases are often looked for in one text, such as a prompt or a summary."""


class _SearchWord:
    """A word of a search phrase, with its stems."""

    def __init__(self, text: str, stems: frozenset[str]) -> None:
        self.text, self.stems = text, stems
        self.in_runs = bool(_UNSPACED.search(text))


class _TextWords:
    """A text's words in every form in which they can be typed."""

    def __init__(self, text: str) -> None:
        self._text = text

    def has(self, word: _SearchWord, *, parts: bool) -> bool:
        """Return whether the text has a word, possibly inflected, alone or (`parts`) within a longer one."""
        # Some scripts have no spaces: a word is found wherever its characters occur.
        if word.in_runs:
            return any(word.text in form.casefold() for form in self._forms)
        if word.text in self._words or (bool(word.stems) and self._stems >= word.stems):
            return True
        return parts and self._in_longer_word(word.text)

    def _in_longer_word(self, word: str) -> bool:
        # Short words occur in many longer ones by chance.
        if len(word) < MIN_PART or not word.isalpha():
            return False
        rest = f".{{{MIN_REST},}}"
        middle = f"|{rest}{word}{rest}" if len(word) >= MIN_MIDDLE else ""
        is_part = re.compile(f"{word}{rest}|{rest}{word}{middle}").fullmatch
        return any(is_part(longer) for longer in self._words)

    @cached_property
    def _forms(self) -> list[str]:
        return list(readings(self._text))

    @cached_property
    def _words(self) -> Set[str]:
        result: set[str] = set()
        for form in self._forms:
            result |= _symbols(form)
            result.update(word.casefold() for word in words(form))
            # A single letter that splitting leaves, such as the "l" of "l'avion", says nothing by itself.
            result.update(word.casefold() for word in words(_JOINTS.sub(" ", form)) if len(word) > 1)
            result.update(part for word in tuple(result) if word.count(",") + word.count(".") for part in _listed(word))
        return result

    @cached_property
    def _stems(self) -> frozenset[str]:
        return frozenset(stem for form in self._forms for stem in stems(form, stop=False))


def _listed(number: str) -> list[str]:
    """Return the numbers in `1,2,3` or `12.5.2024`, or a number with thousands separators; none for a decimal."""
    # One point is a decimal; "3.5" has no part that anybody means.
    several = "," in number or number.count(".") > 1
    return [number.replace(",", ""), *re.split("[.,]", number)] if several else []


def visible(text: str) -> str:
    """Normalise to Unicode's composed form without invisible characters, and with plain apostrophes and dashes."""
    if text.isascii():
        return text
    # Before composing, which makes a space of a lone accent; and after it, for what is composed.
    return _spelled(_INVISIBLE.sub("", normalize("NFKC", _spelled(text))))


def _spelled(text: str) -> str:
    # Each sign by itself: looking for one takes a hundredth of what `str.translate` takes on text beyond ASCII.
    for sign, plain in _SPELLED.items():
        text = text.replace(sign, plain)
    return text


def word_matches(text: str) -> list[re.Match[str]]:
    """Return the words of a text with their places in it; apostrophes and dashes are plain."""
    return list(word_pattern().finditer(_spelled(text)))


def readings(text: str) -> Iterator[str]:
    """Yield a visible text as it stands and, if it has any, with markup removed and escapes decoded."""
    plain = visible(text)
    yield plain
    read = plain
    if "\\u" in read:
        read = whole_characters(
            _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else f" {match[3] or ''}", read)
        )
    elif "\\" in read:  # faster
        read = _CONTROL.sub(" ", read)
    if "&" in read:
        read = html.unescape(html.unescape(read))  # of what was escaped already, too
    if "<" in read or "](" in read:
        read = _LINK.sub(r"\1", _BREAK.sub(" ", _TAG.sub("", read)))
    read = _MARKUP.sub("", read)
    if read != plain:
        yield visible(read)


@lru_cache(maxsize=8)
def squeezed(text: str) -> str:
    """Return the casefolded letters and digits of all readings of a text, without anything between them."""
    return "\n".join(map(_row, readings(text)))


def _row(reading: str) -> str:
    """Return the casefolded letters and digits of one reading."""
    row = reading.casefold()
    # Without quotation marks and the like most texts are ASCII, which `str.translate` passes over ten times as fast.
    signs = set(_FOREIGN.findall(row))
    for sign in signs if len(signs) <= MAX_SIGNS else ():
        if not sign.isalnum():
            row = row.replace(sign, "")
    return row.translate(_SQUEEZING)


def spaced(text: str) -> list[str]:
    """Return each reading of a text as its casefolded words, with one space for whatever is between them."""
    return [re.sub(r"[\W_]+", " ", reading.casefold()).strip() for reading in readings(text)]


def _symbols(text: str) -> Set[str]:
    """Return a text's emoji, currency and plus signs, which are part of no word."""
    if text.isascii() and "\\" not in text:
        return {sign for sign in "$+" if sign in text}
    return {sign for read in readings(text) for sign in read if sign == "+" or category(sign) in ("So", "Sc", "Cn")}


def carries(present: Set[str], wanted: Set[str]) -> bool:
    """Return whether most of the wanted stems are present, ignoring those of the speaker; True if none are wanted."""
    # "I live in Porto" becomes "The user lives in Porto": who speaks is reworded.
    wanted = (wanted - _SPEAKER) or wanted
    shared = len(wanted & present)
    # The second condition matters only when nothing is wanted.
    return shared > len(wanted) * CARRIED or shared == len(wanted)


def _beginning(stem: str) -> str:
    """Return the common prefix of all words of a stem: "hop" of "hope" and "hoping", "d" of "die" and "dying".

    Empty if there is none: "not" also occurs in "don't", and numbers may be written with commas.
    """
    if stem == "not" or stem[0].isdigit():
        return stem[:1] if stem[0].isdigit() else ""
    return (stem[:-1] if len(stem) > _IRREGULAR else stem[:1]).casefold()


def answered_with(phrase: Phrase, answers: Iterable[str]) -> bool:
    """Return whether an answer uses the words of the phrase."""
    return any(phrase.carried_by(text) for text in answers)

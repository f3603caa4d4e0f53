"""Text of a running summary: its sentences, the losses of a new wording, and the sentences to drop if it is too long.

Pure. A model's text is compared with the former one and with its limit.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from memory_core.planning.fact_merging import relevance, same_words
from memory_core.text import MONTHS, STOP_WORDS, stems


def _listed(names: str) -> tuple[str, ...]:
    return tuple(names.split())


_END = re.compile(r"(?:([.!?…]{1,9})[\"'”’»)\]]{0,3}(?=\s)|[。！？]{1,9}[」』”）]{0,3}|\n)\s*")
"""The end of a sentence, with the white space after it."""
_NO_END = frozenset(_listed("mr mrs ms dr prof st vs e.g i.e approx dept tel"))
"""Words whose full stop ends no sentence."""
# In this order: an ISO date; a number with its separators and ordinal ending; digits that letters follow, as in
# "3pm"; a word with its apostrophes.
_TOKEN = re.compile(
    r"\d{4}-\d\d-\d\d(?!\d)|\d+(?:[.,:]\d+)*(?:st|nd|rd|th)?(?![^\W\d_])|\d+|[^\W\d_]+(?:['’][^\W\d_]+)*"
)
_BETWEEN = re.compile(r" |, |-| of ")
"""Separators between the day and the month of one date."""
_IN_ORDER = tuple(map(str.lower, MONTHS))
_MONTHS = {month[:3]: month for month in _IN_ORDER} | {month: month for month in _IN_ORDER} | {"sept": "september"}
"""Names of months, short ones too."""
_NUMBER_WORDS = dict(
    zip(_listed("two three four five six seven eight nine ten eleven twelve"), map(str, range(2, 13)), strict=True)
)
_NO_NAMES = STOP_WORDS | set(
    _listed("""
    user assistant said says also however later earlier still next now then today tomorrow yesterday please yes no
    ok okay thanks thank hello hi dear not never only after before since during there once maybe perhaps well
    """)
)
"""Words capitalised at the beginning of sentences that are not names."""
_BEGINS = re.compile(r"[.!?…:\n\"“«]")
"""Punctuation between two words after which the second begins a sentence."""
_AFTER_COMMANDS = frozenset(
    _listed("it the a an that this these those me my us our you your him her them to in on at for of from by with up")
)
"""Second words of sentences that begin with a verb or a thing instead of a name ("Keep it", "Dinner for six")."""


BROKEN_SHARE, MIN_BROKEN = 3, 8
"""Divisor and minimum tokens: a sentence longer than the whole limit is cut to a third of it, but at least 8 tokens."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A text that was shortened to a token limit, if necessary."""

    text: str
    shortened: int = 0
    """Tokens that were left out: whole sentences, and the ends of sentences that alone were too long."""
    broken: int = 0
    """Number of sentences in `text` that alone were longer than the limit, and were truncated."""


def sentences(text: str) -> tuple[str, ...]:
    """Return the whole sentences of a text in order; nothing but the white space around them is left out.

    >>> sentences("Dr. Lee pays 3.50 euros. Ana comes, too!\\n- no nuts")
    ('Dr. Lee pays 3.50 euros.', 'Ana comes, too!', '- no nuts')
    """
    return tuple(sentence for start, end in _spans(text) if (sentence := text[start:end].strip()))


def losses(before: str, after: str) -> tuple[str, ...]:
    """Return names, numbers and dates of `before` that `after` lacks, in the order of `before`.

    A date counts once in any spelling; each word of a name counts, and adjacent lost words are joined. Case, ordinals
    and number words make no difference.

    >>> losses("Ana Sousa brings 12 guests on 14 March.", "Ana brings twelve guests on 15 March.")
    ('Sousa', '14 March')
    """
    marks, remaining_keys = _marks(before), _content_keys(after)
    gone = [mark for mark in marks if mark.key not in remaining_keys]
    shown: list[tuple[int, int]] = []
    for mark in gone:
        if shown and mark.start <= shown[-1][1]:  # a number inside of a date that is named already
            shown[-1] = (shown[-1][0], max(shown[-1][1], mark.end))
        # The words of one name are shown as one loss; a date is a loss of its own.
        elif shown and before[shown[-1][1] : mark.start] in (" ", "-") and not mark.date:
            shown[-1] = (shown[-1][0], mark.end)
        else:
            shown.append((mark.start, mark.end))
    return tuple(dict.fromkeys(" ".join(before[start:end].split()) for start, end in shown))


def density(sentence: str) -> int:
    """Count the names, numbers and dates in a sentence."""
    return len({mark.key for mark in _marks(sentence)})


def fit(text: str, max_tokens: int, count: Callable[[str], int]) -> Fitted:
    """Shorten the text to `max_tokens`, as `count` counts them, by dropping whole sentences.

    Repetitions are dropped first, then the sentence with the fewest names, numbers and dates, the oldest first. The
    others keep their order and words; a sentence that alone exceeds the limit is truncated, or it would push out all
    others.
    """
    text = text.strip()
    spans = [(start, end) for start, end in _spans(text) if text[start:end].strip()]
    pieces = [text[start:end] for start, end in spans]
    keep = _without_repeats(pieces)
    fitting = _joined(pieces, keep)
    broken: set[int] = set()
    # Most texts fit as they are: sentences are counted one by one only where something was or has to be dropped.
    if len(keep) < len(pieces) or count(fitting) > max_tokens:
        sizes = [count(piece) for piece in pieces]
        broken = {place for place in keep if sizes[place] > max_tokens}
        # Alone, a sentence may fill the whole limit; otherwise its share leaves room for the others.
        share = max_tokens if len(keep) == 1 else min(max_tokens, max(MIN_BROKEN, max_tokens // BROKEN_SHARE))
        for place in broken:
            pieces[place] = _broken_off(pieces[place], share, count)
            sizes[place] = count(pieces[place])
        # After truncation, two sentences may be equal, and one of which nothing fits is empty.
        keep = [place for place in _without_repeats(pieces) if place in keep and pieces[place]]
        total = sum(sizes[place] for place in keep)
        for place in sorted(keep, key=lambda place: (density(pieces[place]), place)):
            # Sizes of sentences do not add up exactly to the size of the text, so near the limit the text is counted.
            if total <= 2 * max_tokens and count(_joined(pieces, keep)) <= max_tokens:
                break
            keep.remove(place)
            total -= sizes[place]
        fitting = _joined(pieces, keep)
    lost = max(0, count(text) - count(fitting)) if fitting != text else 0
    return Fitted(fitting, lost, len(broken & set(keep)))


def cut_order(parts: Sequence[str], question: str) -> tuple[int, ...]:
    """Return indexes of a summary's sentences in the order to cut them when a prompt has no room for all.

    Sentences related to the question stay longest, then those with names, numbers and dates, which nothing else in the
    prompt can replace, then later ones.
    """
    query = frozenset(stems(question))
    ranks = [(relevance(part, query), density(part), place) for place, part in enumerate(parts)]
    return tuple(place for _, _, place in sorted(ranks))


# -- sentences -----------------------------------------------------------------------------------


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each sentence; together they cover the text."""
    start = 0
    for end in _END.finditer(text):
        if _is_abbreviation(text, start, end):
            continue
        yield start, end.end()
        start = end.end()
    # What follows the last end mark is a sentence as well: a model's text need not end with a full stop.
    if start < len(text):
        yield start, len(text)


def _is_abbreviation(text: str, start: int, end: re.Match[str]) -> bool:
    """Return whether the full stop belongs to the word before it: `Dr.`, an initial, the number of a list."""
    if end[1] != ".":
        return False
    # Abbreviations are short, so a few characters in front suffice, however long the sentence is.
    before = text[max(start, end.start() - 12) : end.start()].split()
    word = before[-1].lstrip("(\"'“‘") if before else ""
    # An initial, as in "J. Smith"; "I" is the pronoun at the end of a sentence.
    if len(word) == 1 and word.isupper() and word != "I":
        return True
    # The number of a list's item stands alone at the beginning of its sentence.
    if word.isdigit() and not text[start : end.start() - len(word)].strip():
        return True
    return word.lower() in _NO_END


def _without_repeats(pieces: Sequence[str]) -> list[int]:
    """Return the indexes of the sentences, of equal ones only the first."""
    # From the end, so that of equal sentences the first place is the last one to be written, and stays.
    return sorted({same_words(piece): place for place, piece in reversed(list(enumerate(pieces)))}.values())


def _broken_off(sentence: str, room: int, count: Callable[[str], int]) -> str:
    """Truncate a sentence to `room` tokens, at the end of a word if possible; empty if nothing fits."""
    words = [word.end() for word in re.finditer(r"\S+", sentence)]
    # At the end of a word if one fits; else within the first word, which may be an address without spaces.
    for ends in (words, range(1, words[0] if words else 1)):
        fitting = bisect_right(ends, room, key=lambda end: count(f"{sentence[:end]}…"))
        while fitting and count(f"{sentence[: ends[fitting - 1]]}…") > room:  # counters are not quite monotonous
            fitting -= 1
        if fitting:
            return f"{sentence[: ends[fitting - 1]]}… "
    return ""


def _joined(pieces: Sequence[str], keep: Sequence[int]) -> str:
    return "".join(pieces[place] for place in keep).strip()


# -- names, numbers and dates --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Mark:
    """A name, number or date in a text."""

    key: tuple[str, ...]
    """Normalised form: one word, or day and month."""
    start: int
    end: int
    date: bool = False


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    key: str
    start: int
    end: int

    @property
    def number(self) -> bool:
        return self.key[:1].isdigit()

    @property
    def month(self) -> str | None:
        """Month that a capitalised token names; None for other tokens, as `may` and `march` are words, too."""
        word = self.key
        return _MONTHS.get(word) if self.text[0].isupper() else None


def _tokens(text: str) -> list[_Token]:
    return [_Token(m.group(), _key(m.group()), m.start(), m.end()) for m in _TOKEN.finditer(text)]


def _key(word: str) -> str:
    """Normalise the spelling of a word or number."""
    word = unicodedata.normalize("NFKC", word).casefold().replace("’", "'")
    if word[:1].isdigit():
        word = re.sub(r"(?:st|nd|rd|th)$", "", word)
        # "03" and "3" are one number, "1,500" and "1500" too; a comma before other than three digits stays.
        return re.sub(r"^0+(?=\d)", "", re.sub(r",(?=\d{3}(?:\D|$))", "", word))
    word = re.sub(r"'s$|'$", "", word)
    return _NUMBER_WORDS.get(word, word)


def _marks(text: str) -> list[_Mark]:
    """Return the names, numbers and dates of a text in order."""
    tokens = _tokens(text)
    dates = _dates(tokens, text)
    in_date = {place for first, last, _ in dates for place in (first, last)}
    # A word that the text also writes in lower case is no name, although it begins some sentence.
    lower = {token.key for token in tokens if token.text[0].islower()}
    marks = [_Mark(key, tokens[first].start, tokens[last].end, date=True) for first, last, key in dates]
    for place, token in enumerate(tokens):
        if place not in in_date and (token.number or (token.key not in lower and _is_name(tokens, place, text))):
            marks.append(_Mark((token.key,), token.start, token.end))
    return sorted(marks, key=lambda mark: mark.start)


def _is_name(tokens: Sequence[_Token], place: int, text: str) -> bool:
    """Return whether a token is capitalised, and not only because it begins a sentence."""
    token = tokens[place]
    # Short forms such as "Don't" and "It's" are grammar, whatever their capital.
    short_form = token.key.endswith("n't") or token.key.partition("'")[0] in STOP_WORDS
    if not token.text[0].isupper() or token.key in _NO_NAMES or short_form:
        return False
    begins = not place or _BEGINS.search(text[tokens[place - 1].end : token.start])
    following = tokens[place + 1].key if place + 1 < len(tokens) else ""
    # Every first word has a capital: only the word after it, or the ending of an adverb, tells that it is no name.
    return not begins or not (following in _AFTER_COMMANDS or token.key.endswith("ly"))


def _content_keys(text: str) -> set[tuple[str, ...]]:
    """Return the keys of everything in a text: each word, and each date."""
    tokens = _tokens(text)
    # A full date contains its year: a text that has the date has not lost the year.
    years = {(token.key[:4],) for token in tokens if "-" in token.key}
    return {(token.key,) for token in tokens} | {key for _, _, key in _dates(tokens, text)} | years


def _dates(tokens: Sequence[_Token], text: str) -> list[tuple[int, int, tuple[str, ...]]]:
    """Return the dates of a text: places of their first and last word, and the day with the month."""
    result: list[tuple[int, int, tuple[str, ...]]] = []
    # Without "of", day and month are neighbours in "the 14th of March" as in "14 March".
    counted = [(place, token) for place, token in enumerate(tokens) if token.key != "of"]
    for (first, one), (last, two) in pairwise(counted):
        day, month = (one, two.month) if one.number else (two, one.month)
        together = _BETWEEN.fullmatch(text[one.end : two.start])
        # One or two digits are a day; four are a year, which is a mark of its own.
        if together and month is not None and re.fullmatch(r"\d{1,2}", day.key):
            result.append((first, last, (day.key, month)))
    for place, token in enumerate(tokens):
        # An ISO date is one token, and gets the same key as the date in words.
        if "-" in token.key and 1 <= int(token.key[5:7]) <= 12:
            result.append((place, place, (token.key[8:].lstrip("0"), _IN_ORDER[int(token.key[5:7]) - 1])))
    return result

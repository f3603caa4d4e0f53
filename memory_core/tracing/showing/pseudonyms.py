"""Names, mails, numbers and keys in texts, and what stands in their place. Pure.

An original is replaced as a whole word, in whatever letter case and with or without accents; a number however its
digits are grouped. The same original always becomes the same pseudonym, and nothing tells which belonged to which.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from unicodedata import normalize

from memory_core.errors import FormatError
from memory_core.models.offline.grammar import BASE, GERUND, NOT_NAMES, PAST, THIRD
from memory_core.text import STOP_WORDS, UNSPACED

OriginalKind = Literal["name", "mail", "number", "key", "other"]
"""`other`: named by a person."""

MAX_CHARACTERS = 200
"""Characters of a pseudonym that a person types."""

_LABELS: Mapping[OriginalKind, str] = {
    "name": "Name", "mail": "Mail", "number": "Number", "key": "Key", "other": "Word",
}  # fmt: skip

_LETTER = rf"(?:(?![{UNSPACED}])[^\W_])"
"""A letter or digit of a word that spaces surround."""
_TOKEN = re.compile(rf"[{UNSPACED}]|{_LETTER}+")
_GROUPED = r"[ \u00a0().\-/]{0,3}"
"""What may stand between the digits of a number."""
_LEAST_DIGITS = 7

_KEYS = tuple(
    re.compile(form)
    for form in (
        r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[\w+/=\s-]{0,8000}?-----END [A-Z ]{0,30}PRIVATE KEY-----",
        r"\beyJ[\w-]{8,2000}\.[\w-]{8,4000}(?:\.[\w-]{0,2000})?",
        r"\b(?:sk|pk|rk|gh[posu]|github_pat|glpat|xox[abeprs]|hf|npm)[-_](?=[\w-]{0,200}\d)[\w-]{12,4000}",
        r"\b(?:AKIA|ASIA|AIza)[\w-]{12,4000}",
        # Letters and digits in one long run; a slug of an address has its words apart.
        r"\b(?=[A-Za-z]{0,80}\d)(?=\d{0,80}[A-Za-z])[A-Za-z0-9]{20,4000}\b",
        r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b",
    )
)
_SAID_KEY = re.compile(
    r"\b(?:pass ?word|passwd|passphrase|passcode|pin|secret|token|api[ _-]?key|access[ _-]?key)\b"
    r"[\"']?(?: is|:| ?=)[ \"'`]{0,3}(?P<key>(?=[^\s\"'`,;]{0,80}\d)[^\s\"'`,;]{4,4000})",
    re.IGNORECASE,
)
_MAIL = re.compile(r"[\w.+%-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")
_ACCOUNT = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b")
_NO_NUMBER = re.compile(
    r"\b\d{4}([-/.])\d{1,2}\1\d{1,2}(?!\d)|\b\d{1,2}([-/.])\d{1,2}\2\d{2,4}(?!\d)|\b\d{1,2}:\d\d(?::\d\d)?(?:\.\d+)?|"
    r"\b(?:1[5-9]|20)\d\d ?[-–/] ?(?:1[5-9]|20)\d\d\b|(?<![\d.])\d{1,6}\.\d+(?![\d.])"
)
"""Dates, times, spans of years, decimals."""
_NUMBER = re.compile(r"(?<![\w.,])\(?\d(?:[ \u00a0().\-/]{0,3}\d){6,200}(?!\w)")

_WORD = re.compile(r"[^\W\d_]+")
_ADDRESS = re.compile(r"\S{0,100}(?:@|://)\S{1,200}")
_BEGINS = re.compile(r"(?:^|[.!?…:;\n*#>|\[({\"“‘'»«]|[–—-]\s)\s*[\"“‘'(*_]*$")
"""What stands before the first word of a sentence, which has a capital in any case."""
_BEFORE = 6
"""Characters before a word that are looked at for it."""
_VERBS = BASE.keys() | PAST.keys() | GERUND.keys() | THIRD.keys()
"""With one of these a fact may begin that names no subject: "Prefers window seats"."""
_NO_NAMES = NOT_NAMES | STOP_WORDS | frozenset(("user", "users", "assistant", "system", "tool", "agent", "mr", "mrs"))


@dataclass(frozen=True, slots=True)
class Original:
    """Something that can be replaced, and what would stand in its place."""

    text: str
    """As it is written where it was found."""
    kind: OriginalKind
    times: int
    """How often it stands in the texts, each text counted once."""
    pseudonym: str


# -- finding -----------------------------------------------------------------------------------------


def find_originals(
    texts: Sequence[str],
    *,
    said: Iterable[str] | None = None,
    people: Iterable[str] = (),
    known: Iterable[str] = (),
    facts: Iterable[str] = (),
) -> tuple[Original, ...]:
    """What there is to replace in some texts: names first, then mails, numbers and keys, the most frequent first.

    `said` are those of the texts in which a capital tells a name, None: all. `people` are names of speakers and
    persons, `known` those of other entities, `facts` statements that begin with their subject. A name of several words
    is replaced word by word, so that "Ana Lopes" and "Ana" stay one person.
    """
    found: dict[str, tuple[OriginalKind, str]] = {}
    for text in texts:
        for kind, original in _secrets(text):
            found.setdefault(_identity(original), (kind, original))
    for name in _names(texts if said is None else tuple(said), people, known, facts):
        found.setdefault(_identity(name), ("name", name))
    counted = Pseudonyms({original: "" for _, original in found.values()}).count(texts)
    order = tuple(_LABELS)
    present = sorted(
        ((kind, original) for kind, original in found.values() if counted[original]),
        key=lambda each: (order.index(each[0]), -counted[each[1]]),
    )
    invented = invent([(original, kind) for kind, original in present], texts)
    return tuple(Original(text, kind, counted[text], invented[text]) for kind, text in present)


def invent(originals: Sequence[tuple[str, OriginalKind]], texts: Iterable[str] = ()) -> dict[str, str]:
    """A pseudonym for each original, none of them a word of these texts or part of an original: `Name1`, `Mail2`."""
    whole = [_folded(original)[0] for original, _ in originals]
    taken = {token for text in (*texts, *whole) for token in _TOKEN.findall(_folded(text)[0])}
    joined = "\n".join(whole)
    numbers: Counter[str] = Counter()
    made = {}
    for original, kind in originals:
        label = _LABELS[kind]
        while True:
            numbers[label] += 1
            pseudonym = f"{label}{numbers[label]}"
            if pseudonym.lower() not in taken and pseudonym.lower() not in joined:
                break
        made[original] = pseudonym
    return made


def _secrets(text: str) -> Iterator[tuple[OriginalKind, str]]:
    """Keys, mails and numbers of a text; what was taken for one is not taken for another."""
    if not any(character.isdigit() or character in "@-" for character in text):
        return
    for pattern in _KEYS:
        yield from (("key", found.group()) for found in pattern.finditer(text))
        text = pattern.sub(_blank, text)
    said = [found["key"].rstrip(".)]}") for found in _SAID_KEY.finditer(text)]
    yield from (("key", key) for key in said)
    for key in said:
        text = text.replace(key, "\n")
    for kind, pattern in (("mail", _MAIL), ("number", _ACCOUNT)):
        for found in pattern.finditer(text):
            yield ("mail" if kind == "mail" else "number"), found.group().rstrip(".-")
        text = pattern.sub(_blank, text)
    for found in _NUMBER.finditer(_NO_NUMBER.sub(_blank, text)):
        yield "number", found.group().lstrip("(")


def _blank(found: re.Match[str]) -> str:
    return "\n"


def _names(said: Sequence[str], people: Iterable[str], known: Iterable[str], facts: Iterable[str]) -> Iterator[str]:
    """Words of names: of people in any case; of what else is known, of subjects and inside a sentence, where they are
    more often written with a capital than without."""
    for name in people:
        yield from _words_of(name)
    capitals: dict[str, str] = {}
    more: Counter[str] = Counter()
    """How much more often a word has a capital than not, where a sentence does not give it one."""
    for text in said:
        if "@" in text or "://" in text:
            text = _ADDRESS.sub(" ", text)
        for found in _WORD.finditer(text):
            word = found.group()
            if not word[0].isupper():
                more[word.lower()] -= 1
            elif not _BEGINS.search(text[max(0, found.start() - _BEFORE) : found.start()]):
                more[word.lower()] += 1
                if not word.isupper():  # API, JSON
                    capitals.setdefault(word.lower(), word)
    for name in known:
        yield from (word for word in _words_of(name) if word[0].isupper() and more[word.lower()] >= 0)
    for text in facts:
        subject = _WORD.search(text)
        word = subject.group() if subject is not None else ""
        if word[:1].isupper() and more[word.lower()] >= 0 and word.lower() not in _VERBS:
            yield from _words_of(word)
    yield from (part for small, word in capitals.items() if more[small] > 0 for part in _words_of(word))


def _words_of(name: str) -> Iterator[str]:
    if re.search(f"[{UNSPACED}]", name):
        yield name
        return
    yield from (word for word in _WORD.findall(name) if len(word) > 1 and word.lower() not in _NO_NAMES)


# -- replacing ---------------------------------------------------------------------------------------


class Pseudonyms:
    """Replaces originals by pseudonyms."""

    def __init__(self, pseudonyms: Mapping[str, str]) -> None:
        self._by_token: dict[str, list[tuple[re.Pattern[str], int, str]]] = {}
        """Originals by their first word: pattern, characters before that word, and the original as given."""
        self._numbers: list[tuple[re.Pattern[str], str]] = []
        self._pseudonyms = dict(pseudonyms)
        for original in sorted(pseudonyms, key=len, reverse=True):
            self._add(original)

    @classmethod
    def checked(cls, pseudonyms: Mapping[str, str]) -> "Pseudonyms":
        """Those that a person chose.

        Raises:
            FormatError: an original or a pseudonym is empty, a pseudonym is too long or holds an original, or two of
                either are the same.
        """
        for original, pseudonym in pseudonyms.items():
            if not _TOKEN.search(_folded(original)[0]):
                raise FormatError(f"“{original}” cannot be replaced: it has no letter or digit.")
            if not _TOKEN.search(_folded(pseudonym)[0]):
                raise FormatError(f"Write what should stand in place of “{original}”, with a letter or a digit.")
            if len(pseudonym) > MAX_CHARACTERS:
                raise FormatError(f"What stands in place of “{original}” has at most {MAX_CHARACTERS} characters.")
        identities: dict[str, str] = {}
        for original in pseudonyms:
            same = identities.setdefault(_identity(original), original)
            if same != original:
                raise FormatError(f"“{same}” and “{original}” are the same word. Keep one of them.")
        made = cls(pseudonyms)
        meant: dict[str, str] = {}
        for original, pseudonym in pseudonyms.items():
            same = meant.setdefault(_identity(pseudonym), original)
            if same != original:
                raise FormatError(f"“{same}” and “{original}” would both read “{pseudonym}”.")
            if held := made.count([pseudonym]):
                raise FormatError(f"In “{pseudonym}” one can still read “{next(iter(held))}”. Choose another word.")
        return made

    def replace_all(self, texts: Iterable[str]) -> list[str]:
        """Texts with each original replaced.

        Raises:
            FormatError: words that a person chose make an original again together with what stands beside them.
        """
        replaced = [self.replace(text) for text in texts]
        if left := self.count(replaced):
            raise FormatError(
                f"“{next(iter(left))}” could still be read. Choose another word for what stands beside it."
            )
        return replaced

    def replace(self, text: str) -> str:
        """The text with each original replaced."""
        parts, after = [], 0
        for start, end, original in self._found(text):
            parts += [text[after:start], self._pseudonyms[original]]
            after = end
        return "".join([*parts, text[after:]])

    def count(self, texts: Iterable[str]) -> Counter[str]:
        """How often each original stands in some texts."""
        return Counter(original for text in texts for _, _, original in self._found(text))

    def _add(self, original: str) -> None:
        if _is_number(original):
            digits = _GROUPED.join(_digits(original))
            self._numbers.append((re.compile(rf"(?<!{_LETTER}){digits}(?!{_LETTER})"), original))
            return
        folded = " ".join(_folded(original)[0].split())
        first = _TOKEN.search(folded)
        if first is None:
            return
        # Beside a sign that an original begins or ends with, and beside Kana or Han, a word may stand all the same.
        before = rf"(?<!{_LETTER})" if re.match(_LETTER, folded[0]) else ""
        behind = rf"(?!{_LETTER})" if re.match(_LETTER, folded[-1]) else ""
        pattern = re.compile(before + r"\s+".join(re.escape(part) for part in folded.split()) + behind)
        self._by_token.setdefault(first.group(), []).append((pattern, first.start(), original))

    def _found(self, text: str) -> list[tuple[int, int, str]]:
        """Start, end and original of everything that is replaced, in order: of what overlaps the first, the longest."""
        folded, places = _folded(text)
        hits: list[tuple[int, int, str]] = []
        if self._by_token:
            for token in _TOKEN.finditer(folded):
                for pattern, offset, original in self._by_token.get(token.group(), ()):
                    start = token.start() - offset
                    if start >= 0 and (found := pattern.match(folded, start)):
                        hits.append((found.start(), found.end(), original))
        for pattern, original in self._numbers:
            hits += [(found.start(), found.end(), original) for found in pattern.finditer(folded)]
        chosen: list[tuple[int, int, str]] = []
        for start, end, original in sorted(hits, key=lambda hit: (hit[0], -hit[1])):
            if not chosen or start >= chosen[-1][1]:
                chosen.append((start, end, original))
        if places is None:
            return chosen
        # What a character stands for may be several; the marks that were left out behind the last one go with it.
        return [(places[start], max(places[end], places[end - 1] + 1), original) for start, end, original in chosen]


def _identity(original: str) -> str:
    return _digits(original) if _is_number(original) else " ".join(_folded(original)[0].split())


def _is_number(original: str) -> bool:
    """Whether it is told by its digits alone, however they are grouped."""
    return not any(character.isalpha() for character in original) and len(_digits(original)) >= _LEAST_DIGITS


def _digits(text: str) -> str:
    return "".join(character for character in _folded(text)[0] if character.isdigit())


def _folded(text: str) -> tuple[str, list[int] | None]:
    """A text in one letter case, without accents, and for each character of it the place in the text it comes from,
    with the text's end behind; None where both are as long and the places the same."""
    if text.isascii():
        return text.lower(), None
    folded: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        plain = normalize("NFKD", normalize("NFKD", character).casefold())
        plain = "".join("i" if each == "ı" else each for each in plain if not "\u0300" <= each <= "\u036f")
        folded.append(plain)
        places.extend([place] * len(plain))
    return "".join(folded), [*places, len(text)]

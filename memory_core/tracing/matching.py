"""Decide whether a text says a phrase, by words. Pure.

A text says a phrase if one sentence has all its stems, ignoring stop words: "Ana is allergic to all nuts" says
"allergic to nuts", but a text with the words in different sentences does not. Every sentence of a
longer phrase must match.

Looser modes follow if no text matches: all words in any order (`Phrase.scattered`), then also as parts of longer words
(`Phrase.in_compounds`). Markup, punctuation, case, Unicode forms and JSON escapes in tool arguments are ignored.
"""

import re
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, replace
from functools import cached_property
from unicodedata import category, normalize

from memory_core.text import stems, whole_characters, words

CARRIED = 0.5
"""A fact carries a phrase if it has more than this share of the stems: facts reword "I live in" as "lives in"."""

MAX_NEEDLES = 40
"""Maximum word prefixes for the fast pre-check of a text; longer phrases are still compared in full."""

MIN_PART, MIN_MIDDLE, MIN_REST = 4, 6, 3
"""Minimum letters of a word at an end of a longer word, of a word inside it, and of the rest on each side: "fire" is
found in "firefighter", "rain" is not found in "train"."""

_IRREGULAR = 3
"""Letters of the longest stem with irregular inflections: "sky" and "skies"."""

_SENTENCES = re.compile(r"(?<=[.!?…])\s+|\n+")
_SPEAKER = frozenset({"user", "i", "my", "me"})
"""Stems for the speaker, who is "I" in messages and "the user" in facts; not compared."""

_MARKUP = re.compile(r"[*`~]+")
"""Markdown that may occur within a word."""
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff]")
"""Invisible characters: soft hyphens, joiners, direction marks and variation selectors."""
_ESCAPE = re.compile(r"\\+(?:u([0-9a-fA-F]{4})|([^\W\d_])|(.))", re.DOTALL)
"""JSON escapes in tool texts: a code point, a control character, or any other character."""
_CODE = re.compile(r"\\u([0-9a-fA-F]{4})")
_JOINTS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])|'")
"""Boundaries of words written together: `birthdayDinner`, `HAT229`, `l'avion`."""
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1100-\u11ff\uac00-\ud7af]")
"""Letters of Thai, Lao, Burmese, Khmer and Korean, whose words have no separating spaces."""


@dataclass(frozen=True)
class Phrase:
    """A search phrase, prepared for comparison."""

    text: str
    sentences: tuple[frozenset[str], ...]
    """Stems of each non-empty sentence."""
    needles: tuple[str, ...]
    """Casefolded word prefixes: a text that lacks one cannot match, whatever the inflection."""
    any_order: bool = False
    """True if every word must occur somewhere in the text, in any order; False: the phrase, or all its stems in one
    sentence."""
    parts: bool = False
    """True if parts of longer words count; only with `any_order`."""

    @classmethod
    def of(cls, text: str) -> "Phrase":
        """Parse a phrase.

        >>> sorted(Phrase.of("allergic to nuts").sentences[0])
        ['allerg', 'nut']
        """
        line = " ".join(text.split())
        # Word by word, so that each stem's beginning is one of a single word.
        content = dict.fromkeys(stem for word in words(line) for stem in stems(word))
        sentences = [frozenset(stems(sentence)) for sentence in _SENTENCES.split(line)]
        needles = dict.fromkeys(needle for stem in content if (needle := _beginning(stem)))
        return cls(line, tuple(sentence for sentence in sentences if sentence), tuple(needles)[:MAX_NEEDLES])

    @cached_property
    def scattered(self) -> "Phrase":
        """Return a copy that matches all words in any order."""
        needles = (_beginning(stem) for word in self.all_words for stem in stems(word, stop=False))
        return replace(self, any_order=True, needles=tuple(dict.fromkeys(filter(None, needles)))[:MAX_NEEDLES])

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
        copied = _CODE.sub(lambda match: chr(int(match[1], 16)), self.text)  # as in JSON
        text = visible(whole_characters(copied))
        return tuple(dict.fromkeys([*(word.casefold() for word in words(text)), *_symbols(text)]))

    @cached_property
    def _search_words(self) -> tuple["_SearchWord", ...]:
        return tuple(_SearchWord(word, frozenset(stems(word, stop=False))) for word in self.all_words)

    @property
    def stems(self) -> frozenset[str]:
        return frozenset(stem for sentence in self.sentences for stem in sentence)

    def said_in(self, text: str) -> bool:
        """Return whether a text says the phrase: literally, or with all its stems in one sentence."""
        if not self.text:
            return False
        if self.any_order:
            held = _TextWords(text)
            return bool(self._search_words) and all(held.has(word, parts=self.parts) for word in self._search_words)
        # Stems drop emoji and currency signs, which may be the important part.
        if self._symbols and not self._symbols <= _symbols(text):
            return False
        if self._word_for_word(text):  # also across lines, as a copied phrase has no sentence ends
            return True
        if not self.sentences:  # only stop words or signs
            return bool(self._signs) and self._signs in visible(" ".join(text.split())).casefold()
        sentences = [set(stems(sentence)) for sentence in _SENTENCES.split(text)]
        return all(any(wanted <= sentence for sentence in sentences) for wanted in self.sentences)

    @cached_property
    def _symbols(self) -> Set[str]:
        return _symbols(self.text)

    @cached_property
    def _signs(self) -> str:
        """Return the phrase if it has no words; else empty."""
        signs = visible(self.text).casefold()
        return "" if words(signs) else signs

    @cached_property
    def _run(self) -> str:
        return " ".join(words(self.text))

    def _word_for_word(self, text: str) -> bool:
        return bool(self._run) and f" {self._run} " in f" {' '.join(words(text))} "

    def carried_by(self, text: str) -> bool:
        """Return whether the text of a derived fact, relation or summary has most of the phrase's stems."""
        return carries(frozenset(stems(text)), self.stems) if self.stems else self.said_in(text)


class _SearchWord:
    """A word of a search phrase, with its stems and their prefixes."""

    def __init__(self, text: str, stems: frozenset[str]) -> None:
        self.text, self.stems = text, stems
        self.beginnings = tuple(map(_beginning, stems))
        self.in_runs = bool(_UNSPACED.search(text))


class _TextWords:
    """A text's words in every form in which they can be typed."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._folded = folded(text)

    def has(self, word: _SearchWord, *, parts: bool) -> bool:
        """Return whether the text has a word, possibly inflected, alone or (`parts`) within a longer one."""
        # Some scripts have no spaces: a word is found wherever its characters occur.
        if word.in_runs:
            return word.text in self._folded
        if not all(prefix in self._folded for prefix in word.beginnings):  # fast check without tokenising the text
            return False
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
        return [form for text in _unescaped(visible(self._text)) for form in {text, _MARKUP.sub("", text)}]

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


def folded(text: str) -> str:
    """Normalise a text for substring search: visible, casefolded, without markup and escapes."""
    if text.isascii() and "\\" not in text:
        return _MARKUP.sub("", text).casefold()
    return _MARKUP.sub("", "\n".join(_unescaped(visible(text)))).casefold()


def visible(text: str) -> str:
    """Normalise to Unicode's composed form without invisible characters."""
    return text if text.isascii() else _INVISIBLE.sub("", normalize("NFKC", text)).replace("’", "'")


def _unescaped(text: str) -> Iterator[str]:
    """Yield a text as is, and with JSON escapes decoded."""
    yield text
    if "\\" in text:
        read = _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else f" {match[3] or ''}", text)
        yield visible(whole_characters(read))


def _symbols(text: str) -> Set[str]:
    """Return a text's emoji and currency signs, which are part of no word."""
    if text.isascii():
        return {"$"} if "$" in text else frozenset()
    return {sign for sign in visible(text) if category(sign) in ("So", "Sc", "Cn")}


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
    return (stem[:-1] if len(stem) > _IRREGULAR else stem[:1]).split("'")[0].casefold()


def answered_with(phrase: Phrase, answers: Iterable[str]) -> bool:
    """Return whether an answer uses the words of the phrase."""
    return any(phrase.carried_by(text) for text in answers)

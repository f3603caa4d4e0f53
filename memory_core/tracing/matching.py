"""Whether a text says a phrase, by words. Pure.

A phrase is said where one sentence has all its stems, stop words aside, so that "allergic to nuts" is found in "Ana is
allergic to all nuts" and not in a text that names an allergy here and nuts there. A phrase of several sentences is
said where each of them is.
"""

import re
from collections.abc import Iterable, Set
from dataclasses import dataclass

from memory_core.text import stems, words

CARRIED = 0.5
"""Share of a phrase's stems that a fact must have to carry it: facts reword, "I live in" becomes "lives in"."""

MAX_STEMS = 40
"""Stems of a phrase that are compared; of a longer one, the first."""

_IRREGULAR = 3
"""Letters of the longest stem whose words differ in more than what follows its last letter: "sky" and "skies"."""

_SENTENCES = re.compile(r"(?<=[.!?…])\s+|\n+")
_SPEAKER = frozenset({"user", "i", "my", "me"})
"""Stems by which a fact names whom a message calls otherwise."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """What is looked for, made comparable once."""

    text: str
    sentences: tuple[frozenset[str], ...]
    """Stems of each sentence that has any."""
    needles: tuple[str, ...]
    """Beginnings of its words, casefolded: a text without one of them, whatever the ending, does not say it."""

    @classmethod
    def of(cls, text: str) -> "Phrase":
        """Read a phrase.

        >>> sorted(Phrase.of("allergic to nuts").sentences[0])
        ['allerg', 'nut']
        """
        line = " ".join(text.split())
        content: list[str] = []
        for word in words(line):
            if stems(word) and len(content) < MAX_STEMS:
                content.append(word)
        found = [frozenset(stems(sentence)[:MAX_STEMS]) for sentence in _SENTENCES.split(line)]
        needles = [_beginning(stem) for word in content for stem in stems(word)]
        sentences = tuple(sentence for sentence in found if sentence)
        return cls(line, sentences, tuple(dict.fromkeys(needle for needle in needles if needle)))

    @property
    def stems(self) -> frozenset[str]:
        return frozenset(stem for sentence in self.sentences for stem in sentence)

    def said_in(self, text: str) -> bool:
        """Whether a text says it, word for word or with all its stems in one sentence."""
        if not self.text:
            return False
        if self._word_for_word(text):  # also across lines, where a phrase copied from a text has no sentence's end
            return True
        if not self.sentences:  # nothing but stop words or signs
            return not words(self.text) and self.text.casefold() in " ".join(text.split()).casefold()
        there = [set(stems(sentence)) for sentence in _SENTENCES.split(text)]
        return all(any(wanted <= sentence for sentence in there) for wanted in self.sentences)

    def _word_for_word(self, text: str) -> bool:
        said = " ".join(words(self.text))
        return bool(said) and f" {said} " in f" {' '.join(words(text))} "

    def carried_by(self, text: str) -> bool:
        """Whether a fact, a relation or a summary made of a text that says it still carries it: most of its stems."""
        return carries(frozenset(stems(text)), self.stems) if self.stems else self.said_in(text)


def carries(there: Set[str], wanted: Set[str]) -> bool:
    """Whether most of some stems are there, those aside by which a speaker is named; True if none are wanted."""
    wanted = (wanted - _SPEAKER) or wanted
    shared = len(wanted & there)
    return shared > len(wanted) * CARRIED or shared == len(wanted)


def _beginning(stem: str) -> str:
    """Letters that every word of a stem begins with: "hop" of "hope" and "hoping", "d" of "die" and "dying".

    Empty where there are none: "not" is in "don't" too, and numbers may be written with commas.
    """
    if stem == "not" or stem[0].isdigit():
        return stem[:1] if stem[0].isdigit() else ""
    return (stem[:-1] if len(stem) > _IRREGULAR else stem[:1]).split("'")[0].casefold()


def answered_with(phrase: Phrase, answers: Iterable[str]) -> bool:
    """Whether an answer uses the words of what is followed."""
    return any(phrase.carried_by(text) for text in answers)

"""Relation of one short statement to another: the same, more, less, its end, its opposite, another value.

Pure and by rules, for statements in the third person such as "The user lives in Porto". Where no rule is sure, two
statements are unrelated: nothing is lost by keeping both.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from memory_core.planning.fact_merging import DUPLICATE, DUPLICATE_IN_SLOT
from memory_core.text import STOP_WORDS, similarity, stems, words

Bearing = Literal[
    "same", "more", "less", "ended", "negation", "partly", "opposite", "same_slot", "other_number", "preference",
    "apart",
]  # fmt: skip
"""Relation of a new statement to a known one.

- `same`, `less`: it adds nothing; `more`: it repeats what is known and adds something
- `ended`: the known one no longer holds; `negation`: it is denied; `partly`: part of it is denied
- `opposite`: what the known one denies holds after all; `same_slot`: another value of a single-valued slot
- `other_number`: the same with another number; `preference`: another choice of the same kind
- `apart`: none of these
"""

CONTRADICTING: frozenset[Bearing] = frozenset(
    ("ended", "negation", "partly", "opposite", "same_slot", "other_number", "preference")
)


def _listed(names: str) -> frozenset[str]:
    return frozenset(names.split())


_SAME_VERBS = {
    **dict.fromkeys(("love", "enjoy", "ador", "prefer", "fond"), "like"),
    **dict.fromkeys(("move", "reloc", "resid"), "live"),
}
"""Stems of verbs, each with the stem of a verb that counts as saying the same."""
_DISLIKING = frozenset(("dislik", "hate", "detest", "loath"))
_ENDED = re.compile(
    r"\bno longer\b|\b(?:not|n't|never)\b.{0,200}\b(?:any ?more|any longer)\b|\bused to\b|"
    r"\b(?:stopped|quit|gave up|formerly|previously)\b",
    re.IGNORECASE,
)
_DENIED = re.compile(r"\b(?:not|never|cannot|without)\b|n't\b", re.IGNORECASE)
_TURNING = _listed("no longer not never any anymore used stopped quit gave up formerly previously cannot without")
"""Words that negate a statement and are not part of its subject matter."""
_CONTRAST = re.compile(r"(?:,|;)? (?:but|and now|instead)\b|; ", re.IGNORECASE)
_CONNECTING = STOP_WORDS | _listed(
    "every during named called especially near since until before after twice daily often always again"
)
"""Words that may continue a statement's last word: "a cat" may become "a cat allergy"."""
_ORDINAL = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b", re.IGNORECASE)
_CORRECTION = re.compile(r", not (?:on |in |at |the |an? )*([^,]{1,60})$", re.IGNORECASE)
"""The former value at the end of a correction: "is on 3 May, not 2 May". It denies nothing of the statement before."""
_EXCHANGED = re.compile(
    r"\b(?:switch|chang|mov|reschedul|renam|upgrad|downgrad|bump|push|replac|transferr)\w*\b.*? from "
    r"(?:the |an? )?([^,]{1,60}?) to \S"
    r"|\S instead of (?:the |an? )?([^,]{1,60}?)(?:$|,| because | since )",
    re.IGNORECASE,
)
"""The former value in a change: "switched the browser from Firefox to Edge", "on 3 May instead of 2 May"."""
_LISTING = frozenset(("and", "or"))
_PERSONS = _listed("he him his she her hers they them their theirs")
_COUNTED = re.compile(r"(?P<before>.*\b(?:has|have|owns?)) (?P<number>\w+) (?P<after>.+)", re.IGNORECASE)
_NUMBER = re.compile(r"\d+|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve", re.IGNORECASE)
_PREFERRED = re.compile(r"(?P<who>.*)\bprefers? (?P<what>.+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Statement:
    """Statement without its negation."""

    holds: bool
    ended: bool
    goes_on: bool
    """True if the statement says something else after a "but"."""
    words: tuple[str, ...]
    matter: tuple[str, ...]
    """The stem of each word; stop words are unchanged."""
    content: frozenset[str]

    @property
    def owners(self) -> frozenset[str]:
        """Owners of the subject: a statement about Ana's sister is not one about Ana."""
        return frozenset(stem for stem in self.content if "'" in stem)

    @property
    def subject(self) -> str:
        return next((stem for stem in self.matter if stem in self.content), "")

    @property
    def last(self) -> str:
        return next((stem for stem in reversed(self.matter) if stem in self.content), "")


def bearing(new: str, known: str, *, same_slot: bool = False) -> Bearing:
    """Return the relation of a new statement to a known one; `same_slot`: both give a value to one single-valued slot.

    >>> bearing("The user prefers dark mode in every app", "The user likes dark mode")
    'more'
    >>> bearing("The user no longer likes jazz", "The user likes jazz")
    'ended'
    >>> bearing("The user lives in Porto", "The user lives in Lisbon", same_slot=True)
    'same_slot'
    """
    a, b = _statement(new), _statement(known)
    how = _compared(a, b)
    # 1. Both affirm, or both deny: what counts is how much of one the other says.
    if a.holds == b.holds:
        if a.holds and _one_owner(a, b) and _replaces(new, known):
            return "same_slot"
        if how in ("same", "more", "less"):
            return how
        # Close wordings are one statement only about one subject: Ana's sister is not Ana.
        alike = similarity(new, known) >= (DUPLICATE_IN_SLOT if same_slot else DUPLICATE)
        if alike and a.subject == b.subject and a.owners == b.owners:
            return "same"
        # Only an affirmation replaces a value: not living in Porto does not say where else.
        if a.holds and same_slot:
            return "same_slot"
        if a.holds and _other_number(new, known):
            return "other_number"
        return "preference" if a.holds and _other_preference(new, known) else "apart"
    # 2. The new one affirms what the known one denies, or has nothing to do with it.
    if a.holds:
        return "opposite" if how == "same" else "apart"
    # 3. The new one denies. Denying the shorter statement denies the longer, unless it is one item of a list.
    if how == "same" or (how == "less" and not _in_list(b, a)):
        return "ended" if a.ended else "negation"
    return "partly" if how == "less" else "apart"


def says_more(text: str) -> bool:
    """Return whether a statement says more than that something ended: it denies it, or continues after a "but"."""
    statement = _statement(text)
    return statement.goes_on or (not statement.ended and not statement.holds)


def _compared(a: _Statement, b: _Statement) -> Literal["same", "more", "less", "apart"]:
    """Return what `a` says relative to `b`, apart from their negations."""
    if not a.content or not b.content or a.subject != b.subject:
        return "apart"
    if a.content == b.content:
        return "same"
    if a.content > b.content and _extends(a, b):
        return "more"
    if a.content < b.content and _extends(b, a):
        return "less"
    return "apart"


def _extends(longer: _Statement, shorter: _Statement) -> bool:
    """Return whether the longer statement says all of the shorter one, and then goes on."""
    # One content word is a bare subject, which every statement about it would extend.
    if len(shorter.content) < 2:
        return False
    # Each stem with the word behind it; "and" stands for the end, where anything may follow.
    after = zip(longer.matter, (*longer.words[1:], "and"), strict=True)
    return any(stem == shorter.last and word in _CONNECTING for stem, word in after)


def _in_list(longer: _Statement, shorter: _Statement) -> bool:
    """Return whether the shorter statement is one item of a list in the longer."""
    return not _LISTING.isdisjoint(longer.words) and _LISTING.isdisjoint(shorter.words)


def _other_number(new: str, known: str) -> bool:
    a, b = _COUNTED.fullmatch(new.strip(" .")), _COUNTED.fullmatch(known.strip(" ."))
    if not a or not b or not _NUMBER.fullmatch(a["number"]) or not _NUMBER.fullmatch(b["number"]):
        return False
    # Stop words count here: all but the number has to be the same.
    return all(stems(a[part], stop=False) == stems(b[part], stop=False) for part in ("before", "after"))


def _other_preference(new: str, known: str) -> bool:
    a, b = _PREFERRED.fullmatch(new.strip(" .")), _PREFERRED.fullmatch(known.strip(" ."))
    if not a or not b or stems(a["who"], stop=False) != stems(b["who"], stop=False):
        return False
    (chosen, where), (before, _) = _phrase(a["what"]), _phrase(b["what"])
    # Two of a kind share their last word ("green tea", "black tea"); a choice for one occasion replaces none.
    return bool(not where and len(chosen) > 1 and len(before) > 1 and chosen[-1] == before[-1])


def _one_owner(a: _Statement, b: _Statement) -> bool:
    """Return whether two statements are about things of one person, as far as they say whose."""
    theirs, others = a.owners - {"user's"}, b.owners - {"user's"}
    return theirs <= others or others <= theirs


def _former(text: str) -> str:
    """Return the former value that a statement names as such; empty if it names none."""
    match = _CORRECTION.search(text) or _EXCHANGED.search(text)
    return "" if match is None else next(filter(None, match.groups()))


def _replaces(new: str, known: str) -> bool:
    """Return whether `new` gives up the value of `known`, of which it says most besides: "on 3 May, not 2 May"."""
    former = _former(new)
    if not former:
        return False
    # What `known` names as former, it does not state itself.
    now = known.replace(_former(known) or "\n", " ")
    gone, before, after = (
        set(stems(_ORDINAL.sub("", text), stop=False)) for text in (former, now, new.replace(former, " "))
    )
    besides = {stem for stem in before - gone if stem not in STOP_WORDS} - {"user", "user's"}
    shared = besides & after
    return gone <= before and not gone <= after and bool(shared) and 2 * len(shared) >= len(besides)


def _phrase(text: str) -> tuple[list[str], list[str]]:
    """Return the stems up to the first connecting word, and the words from there on."""
    parts = words(text)
    end = next((place for place, word in enumerate(parts) if word in _CONNECTING), len(parts))
    return stems(" ".join(parts[:end])), parts[end:]


@lru_cache(maxsize=4096)
def _statement(text: str) -> _Statement:
    text = _CORRECTION.sub("", text)
    ended = bool(_ENDED.search(text))
    denied = ended or bool(_DENIED.search(text))
    # "No longer in Porto, but in Faro" denies one thing and states another: only the first part is compared.
    first_part, *rest = _CONTRAST.split(text) if denied else [text]
    remaining_words: list[str] = []
    matter: list[str] = []
    content: set[str] = set()
    disliked = False
    listed = words(first_part)
    for place, word in enumerate(listed):
        # Negations are in `holds` alone, so that an affirmation and its denial have the same matter.
        if word in _TURNING or word.endswith("n't") or (word == "to" and place and listed[place - 1] == "used"):
            continue
        stem = word if word in STOP_WORDS or "'" in word else (stems(word, stop=False) or [word])[0]
        disliked = disliked or stem in _DISLIKING
        # "Hates jazz" is compared as the denial of "likes jazz"; denied once more, it holds.
        stem = "like" if stem in _DISLIKING else _SAME_VERBS.get(stem, stem)
        remaining_words.append(word)
        matter.append(stem)
        if stem in _PERSONS or stem not in STOP_WORDS:
            content.add(stem)
    return _Statement(
        holds=denied == disliked,
        ended=ended,
        goes_on=any(stems(part) for part in rest),
        words=tuple(remaining_words),
        matter=tuple(matter),
        content=frozenset(content),
    )

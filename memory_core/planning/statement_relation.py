"""Relation of one short statement to another: the same, more, less, its end, its opposite, another value.

Pure and by rules, for statements in the third person such as "The user lives in Porto". Where no rule is sure, two
statements are unrelated: nothing is lost by keeping both.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Literal

from memory_core.planning.slots import excludes
from memory_core.text import STOP_WORDS, exchanged, in_one_notation, similarity, stems, words

DUPLICATE = 0.85
"""Similarity (`memory_core.text.similarity`) at and above which two wordings count as one fact."""

DUPLICATE_IN_SLOT = 0.8
"""Like `DUPLICATE`, for two facts in one slot: it holds one value, so a lower similarity is enough evidence."""

REPEATED = 0.65
"""Similarity from which nearly all pairs of statements say the same; see `history.fact_evidence.NEAR_DUPLICATE`."""

Bearing = Literal[
    "same", "more", "less", "ended", "negation", "partly", "opposite", "same_slot", "other_number", "preference",
    "apart",
]  # fmt: skip
"""Relation of a new statement to a known one.

- `same`, `less`: it adds nothing; `more`: it repeats what is known and adds something
- `ended`: the known one no longer holds; `negation`: it is denied; `partly`: part of it is denied
- `opposite`: what the known one denies holds after all; `same_slot`: another value of a single-valued slot
- `other_number`: the same with another number; `preference`: another choice of the same kind, or two things that
  changed places
- `apart`: none of these
"""

_DENYING: frozenset[Bearing] = frozenset(("ended", "negation", "partly"))
CONTRADICTING: frozenset[Bearing] = frozenset((*_DENYING, "opposite", "same_slot", "other_number", "preference"))


def _listed(names: str) -> frozenset[str]:
    return frozenset(names.split())


_SAME_VERBS = {
    **dict.fromkeys(("love", "enjoy", "ador", "prefer", "fond", "fan", "keen"), "like"),
    **dict.fromkeys(("move", "reloc", "resid"), "live"),
}
"""Stems of verbs, each with the stem of a verb that counts as saying the same."""
_OPPOSITES = {
    **dict.fromkeys(("hate", "detest", "loath", "despis", "abhor"), "like"),
    **dict.fromkeys(("reject", "declin", "refus"), "accept"),
    **dict.fromkeys(("forbid", "forbidden", "prohibit", "ban"), "allow"),
    **{"forget": "rememb", "forgot": "rememb", "exclud": "includ", "fail": "pass", "lost": "won", "lose": "win"},
    **{"close": "open", "late": "earli", "lack": "have", "absent": "present", "dead": "aliv"},
    **{"inact": "activ", "intoler": "toler", "imposs": "possibl", "illeg": "legal"},
}
"""Stems of words, each with the stem of its opposite."""
_OPPOSING = re.compile(r"\A(?:un(?!der|til|ion|ique|it|less|like\b)|dis|non)(?=\w{4})")
"""Prefix that makes a word its opposite: unhappy, dislikes."""
_UNBEARABLE = re.compile(r"\b(?:can't|cannot|can not|couldn't|could not) (?:stand|bear|abide)\b", re.IGNORECASE)
_NOT_ONLY = re.compile(r"(?:\bnot|n't) (?:only|just|merely)\b", re.IGNORECASE)
_ANY_MORE = re.compile(r"\b(?:no|any) ?(?:more|longer)\b", re.IGNORECASE)
_DENIED = re.compile(r"\b(?:not|never|cannot|without|neither|no)\b|n't\b", re.IGNORECASE)
_ENDED = re.compile(
    r"(?<!\bam )(?<!\bis )(?<!\bare )(?<!\bbe )(?<!\bget )(?<!\bgets )(?<!\bgot )\bused to\b"
    r"|\b(?:stopped(?! (?:at|by|in|for)\b)|quit|gave up|given up|formerly|previously)\b",
    re.IGNORECASE,
)
"""Words that deny by themselves, but for a second denial: "never stopped smoking"."""
_TURNING = _listed(
    "no longer not never any anymore used stopped quit gave given up formerly previously cannot without neither nor "
    "now currently still actually really absolutely truly"
)
"""Words that negate or stress a statement and are not part of its subject matter."""
_MODAL = _listed("should would could shall if whether maybe")
"""Words that make a statement a wish, a duty or a question, which is not compared with a plain statement."""
_CONTRAST = re.compile(r"(?:,|;)? (?:but|and now|and not|instead|rather than)\b|; ", re.IGNORECASE)
_CONNECTING = STOP_WORDS | _listed(
    "every during named called especially near since until before after twice daily often always again"
)
"""Words that may continue a statement's last word: "a cat" may become "a cat allergy"."""
_YEAR = re.compile(r"\b(\d\d? (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*)(?: (\d{4}))?\b")
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
    denied: bool
    """True if it is negated, which a word of opposite meaning, such as "hates", is not."""
    opposing: bool
    """True if it has such a word."""
    ended: bool
    modals: frozenset[str]
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


@lru_cache(maxsize=16_384)
def bearing(new: str, known: str, *, same_slot: bool = False) -> Bearing:
    """Return the relation of a new statement to a known one; `same_slot`: both give a value to one single-valued slot.

    >>> bearing("The user prefers dark mode in every app", "The user likes dark mode")
    'more'
    >>> bearing("The user no longer likes jazz", "The user likes jazz")
    'ended'
    >>> bearing("The user lives in Porto", "The user lives in Lisbon", same_slot=True)
    'same_slot'
    """
    new, older = _aligned(new, known)
    a, b = _statement(new), _statement(older)
    how = _compared(a, b)
    # 1. Both affirm, or both deny: what counts is how much of one the other says.
    if a.holds == b.holds:
        if not a.denied and _one_owner(a, b) and _replaces(new, older):
            return "same_slot"
        if how != "apart" and exchanged(new, older):
            return "apart" if a.denied else "preference"
        if how in ("same", "more", "less"):
            return how
        # Close wordings are one statement only about one subject: Ana's sister is not Ana.
        alike = similarity(new, older) >= (DUPLICATE_IN_SLOT if same_slot else DUPLICATE)
        if alike and a.subject == b.subject and a.owners == b.owners:
            return "same"
        # Only an affirmation replaces a value: not living in Porto does not say where else.
        if not a.denied and same_slot:
            return "same_slot"
        if not a.denied and _other_number(new, older):
            return "other_number"
        return "preference" if not a.denied and _other_preference(new, older) else "apart"
    # 2. Not to hate something leaves room for not liking it either.
    if any(one.denied and one.opposing for one in (a, b)) and not (a.opposing and b.opposing):
        return "apart"
    # 3. The new one affirms what the known one denies.
    if a.holds and how == "same":
        return "opposite"
    # 4. The new one denies. Denying the shorter statement denies the longer, unless it is one item of a list.
    if not a.holds and how in ("same", "less"):
        whole = how == "same" or not _in_list(b, a)
        return "partly" if not whole else "ended" if a.ended else "negation"
    return "same_slot" if same_slot and not (a.denied or b.denied) else "apart"


def contradicts(one: str, other: str, *, same_slot: bool = False) -> bool:
    """Return whether one of two statements denies the other, or gives another value than it; see `bearing`.

    >>> contradicts("Ana loves nuts", "Ana hates nuts"), contradicts("Ana is not only kind", "Ana is kind")
    (True, False)
    """
    return bearing(one, other, same_slot=same_slot) in CONTRADICTING or bearing(other, one) in _DENYING


def repeats(one: str, other: str, *, same_slot: bool = False) -> bool:
    """Return whether two statements say the same, or one of them says more, in whatever words.

    >>> repeats("The user has a nut allergy", "The user is allergic to nuts")
    True
    """
    a, b = (_statement(in_one_notation(text)) for text in (one, other))
    if (a.holds, a.modals) != (b.holds, b.modals) or exchanged(one, other):
        return False
    # Beginnings of words: "allergic" and "allergy" have different stems.
    less, more = sorted(({stem[:5] for stem in one.content} for one in (a, b)), key=len)
    if (len(less) > 2 or less == more) and less <= more:
        return True
    if same_slot and (a.last in b.content or b.last in a.content):
        return True
    return bearing(one, other) in ("same", "more", "less") or similarity(one, other) >= REPEATED


class Contradictions:
    """Statements by number, in which each new one finds those that it contradicts, in near-linear time."""

    def __init__(self, texts: Iterable[str]) -> None:
        """Count the stems of all texts that will be added."""
        self._frequency = Counter(chain.from_iterable(_statement(in_one_notation(text)).content for text in texts))
        self._numbered: defaultdict[tuple[object, ...], list[tuple[int, str]]] = defaultdict(list)

    def add(self, number: int, text: str, slot: str | None = None) -> list[int]:
        """Add a statement; return the numbers of those added before that it contradicts, in ascending order."""
        against = self.against(text, slot)
        self.put(number, text, slot)
        return against

    def put(self, number: int, text: str, slot: str | None = None) -> None:
        """Add a statement without comparing it."""
        one, new = _statement(in_one_notation(text)), (number, text)
        for key in (
            ("words", one.content),
            ("rarest", self._rarest(one), one.holds),
            *(("stem", stem, one.holds) for stem in one.content),
            *([(slot,)] if slot is not None else []),
        ):
            self._numbered[key].append(new)

    def against(self, text: str, slot: str | None = None) -> list[int]:
        """Return the numbers of the statements that this one contradicts, in ascending order."""
        one = _statement(in_one_notation(text))
        # Of two opposites the longer has all stems of the shorter, and so the rarest of them.
        near = {*self._numbered["stem", self._rarest(one), not one.holds]}
        near.update(chain.from_iterable(self._numbered["rarest", stem, not one.holds] for stem in one.content))
        near.update(self._numbered["words", one.content])  # things that changed places
        against = {other for other, older in near if contradicts(text, older)}
        if slot is not None:
            single = excludes(slot, slot)
            against |= {other for other, older in self._numbered[slot,] if contradicts(text, older, same_slot=single)}
        return sorted(against)

    def _rarest(self, statement: _Statement) -> str:
        return min(statement.content, key=lambda stem: (self._frequency[stem], stem), default="")


def says_more(text: str) -> bool:
    """Return whether a statement says more than that something ended: it denies it, or continues after a "but"."""
    statement = _statement(text)
    return statement.goes_on or (not statement.ended and not statement.holds)


def _compared(a: _Statement, b: _Statement) -> Literal["same", "more", "less", "apart"]:
    """Return what `a` says relative to `b`, apart from their negations."""
    if not a.content or not b.content or (a.subject, a.modals) != (b.subject, b.modals):
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


def _aligned(one: str, other: str) -> tuple[str, str]:
    """Write dates and times of two texts alike; a year that only one of them gives to a day is left out."""
    texts = in_one_notation(one), in_one_notation(other)
    without_year = {day for text in texts for day, year in _YEAR.findall(text) if not year}
    one, other = (_YEAR.sub(lambda date: date[1] if date[1] in without_year else date[0], text) for text in texts)
    return one, other


@lru_cache(maxsize=16_384)
def _statement(text: str) -> _Statement:
    text = _UNBEARABLE.sub("hates", _NOT_ONLY.sub("", _CORRECTION.sub("", text).replace("’", "'")))
    # "No longer in Porto, but in Faro" denies one thing and states another: only the first part is compared.
    first_part, *rest = _CONTRAST.split(text) if _DENIED.search(text) or _ENDED.search(text) else [text]
    endings = len(_ENDED.findall(first_part))
    denied = (endings + len(_DENIED.findall(first_part))) % 2 == 1
    remaining_words: list[str] = []
    matter: list[str] = []
    content: set[str] = set()
    opposing = 0
    listed = words(_ANY_MORE.sub("longer", first_part))
    for place, word in enumerate(listed):
        # Negations are in `holds` alone, so that an affirmation and its denial have the same matter.
        if word in _TURNING or word.endswith("n't") or (word == "to" and place and listed[place - 1] == "used"):
            continue
        base = _OPPOSING.sub("", word, count=1)
        stem = base if base in STOP_WORDS or "'" in base else (stems(base, stop=False) or [base])[0]
        # "Hates jazz" is compared as the denial of "likes jazz"; denied once more, it holds.
        opposing += base != word or stem in _OPPOSITES
        stem = _OPPOSITES.get(stem, stem)
        stem = _SAME_VERBS.get(stem, stem)
        remaining_words.append(word)
        matter.append(stem)
        if stem in _PERSONS or stem not in STOP_WORDS:
            content.add(stem)
    return _Statement(
        holds=denied == (opposing % 2 == 1),
        denied=denied,
        opposing=opposing > 0,
        ended=denied and (endings > 0 or _ANY_MORE.search(first_part) is not None),
        modals=_MODAL.intersection(listed) | ({"?"} if text.rstrip().endswith("?") else set()),
        goes_on=any(stems(part) for part in rest),
        words=tuple(remaining_words),
        matter=tuple(matter),
        content=frozenset(content),
    )

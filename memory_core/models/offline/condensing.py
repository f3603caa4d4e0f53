"""Shorten a list of facts by rules. Pure and deterministic.

Duplicates become one fact. Then, while the list is above the target, what one subject likes (has,
visited, ...) is joined into one sentence. Only then are facts left out: the least specific first, and of
equally specific ones the oldest. Pinned facts are never changed or left out.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from memory_core.models.offline.patterns import pattern
from memory_core.models.protocols import Condensation, CondensedFact
from memory_core.text import agreement_key, similarity, stems

SAME = 0.85
"""Minimum `similarity` of two facts that say the same (see `memory_core.text.similarity`)."""
LIST_CHARACTERS = 240
"""Maximum characters of a joined sentence."""
_JOINABLE = {
    "is allergic to": "health",
    "is intolerant to": "health",
    "cannot eat": "health",
    "does not eat": "health",
    "does not like": "preference",
    "is interested in": "preference",
    "is fond of": "preference",
    "likes": "preference",
    "loves": "preference",
    "enjoys": "preference",
    "prefers": "preference",
    "hates": "preference",
    "dislikes": "preference",
    "is learning": "other",
    "has been learning": "other",
    "speaks": "personal",
    "plays": "preference",
    "collects": "preference",
    "has": "personal",
    "owns": "personal",
    "visited": "other",
    "went to": "other",
    "wants to": "plan",
    "plans to": "plan",
}
"""Predicates that take a list, with the category of the joined fact."""
_LIST = pattern(rf"(?P<subject>[A-Z].{{0,60}}?) (?P<verb>{'|'.join(_JOINABLE)}) (?P<object>.+)")


@dataclass(frozen=True, slots=True)
class _Entry:
    text: str
    stands_for: tuple[int, ...]
    pinned: bool
    category: str = "other"


def condense_by_rules(facts: Sequence[str], *, pinned: Sequence[int], target: int) -> Condensation:
    """Condense `facts` into at most `target` sentences, or as many as are pinned.

    `stands_for` lists every fact whose words went into a sentence; omitted facts are not listed. An unchanged fact has
    the neutral category `other`, as the engine knows its category.

    >>> [fact.text for fact in condense_by_rules(["Ana likes jazz", "Ana likes tea"], pinned=[], target=1).facts]
    ['Ana likes jazz and tea']
    """
    fixed = set(pinned)
    # 1. Each fact for itself; 2. duplicates as one; 3. lists of one subject; 4. the least specific left out.
    entries = [_Entry(text, (index,), index in fixed) for index, text in enumerate(facts)]
    entries = _without_duplicates(entries)
    entries = _joined(entries, target)
    entries = _most_specific(entries, target)
    return Condensation(tuple(CondensedFact(entry.text, entry.category, entry.stands_for) for entry in entries))


def _without_duplicates(entries: list[_Entry]) -> list[_Entry]:
    """Merge each group of near-duplicates into one fact: the pinned one, else the fullest, else the newest."""
    kept_entries: list[_Entry] = []
    # Only entries that agree in numbers and negations and share a stem can be this similar.
    places: dict[tuple[object, str], set[int]] = {}
    for entry in entries:
        agreement = agreement_key(entry.text)
        keys = [(agreement, stem) for stem in {*stems(entry.text)} or {""}]
        candidates = sorted(set().union(*(places.get(key, ()) for key in keys)))
        twin = next((i for i in candidates if similarity(entry.text, kept_entries[i].text) >= SAME), None)
        # Two pinned facts stay two, whatever they say.
        if twin is None or (entry.pinned and kept_entries[twin].pinned):
            kept_entries.append(entry)
            for key in keys:
                places.setdefault(key, set()).add(len(kept_entries) - 1)
            continue
        # The twin is found by the words of both from now on, whichever of them was kept.
        for key in keys:
            places.setdefault(key, set()).add(twin)
        other = kept_entries[twin]
        newer = not other.pinned and (entry.pinned or len(stems(entry.text)) >= len(stems(other.text)))
        winner = entry if newer else other
        kept_entries[twin] = _Entry(winner.text, other.stands_for + entry.stands_for, winner.pinned)
    return kept_entries


def _joined(entries: list[_Entry], target: int) -> list[_Entry]:
    """Join facts of the same subject and verb into lists, in their order, until `target` is reached."""
    remaining: list[_Entry] = []
    places: dict[tuple[str, str], int] = {}
    # Every join shortens the list by one, so no more are made than are needed.
    surplus = len(entries) - target
    for entry in entries:
        match = None if entry.pinned else _LIST.fullmatch(entry.text)
        if match is None:
            remaining.append(entry)
            continue
        key = (match["subject"], match["verb"])
        place = places.get(key)
        if surplus > 0 and place is not None:
            text = _one_more(remaining[place].text, match["object"])
            # When the list would be too long, a new one starts at this fact.
            if len(text) <= LIST_CHARACTERS:
                remaining[place] = _Entry(
                    text, remaining[place].stands_for + entry.stands_for, False, _JOINABLE[match["verb"]]
                )
                surplus -= 1
                continue
        places[key] = len(remaining)
        remaining.append(entry)
    return remaining


def _one_more(text: str, item: str) -> str:
    """Add an item to the list at the end of `text`: "jazz and tea" becomes "jazz, tea and opera"."""
    head, joint, last = text.rpartition(" and ")
    # Only the last joint is an "and", so that the list stays a list.
    return f"{head}, {last} and {item}" if joint else f"{text} and {item}"


def _most_specific(entries: list[_Entry], target: int) -> list[_Entry]:
    surplus = len(entries) - target
    loose = [place for place, entry in enumerate(entries) if not entry.pinned]
    # Of equally specific facts the older one goes.
    dropped = set(sorted(loose, key=lambda place: (_specificity(entries[place].text), place))[: max(0, surplus)])
    return [entry for place, entry in enumerate(entries) if place not in dropped]


def _specificity(text: str) -> int:
    """Return the number of content words, with numbers and names inside the sentence counted twice."""
    return len(stems(text)) + len(re.findall(r"\d+|(?<=\s)[A-Z]\w+", text))

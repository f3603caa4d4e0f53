"""Navigation targets, and the search for those that match a few words. Pure."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

Kind = Literal["Turn", "Page", "Session", "Block", "Fact", "Message", "Event", "Trace"]

MOST = 20
MAX_OF_A_KIND = 6
"""Maximum number of targets offered, in all and per kind, so that many messages cannot hide a fact."""

_TURN = re.compile(r"(?:turn\s*)?#?(\d{1,9})")


@dataclass(frozen=True, slots=True)
class PageTarget:
    """A navigation target."""

    kind: Kind
    words: str
    """Text of the target, unescaped; the caller that draws it must escape it."""
    page: str
    turn: int | None = None
    """Turn to show; None: the latest."""
    session: str | None = None
    """Id of the session to show; None: the open one."""
    query: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Further URL parameters for the page."""


def turn_asked(words: str) -> int | None:
    """The turn meant by `12` or `turn 12`.

    >>> turn_asked(" Turn 12 "), turn_asked("12 eggs")
    (12, None)
    """
    match = _TURN.fullmatch(words.strip().casefold())
    return int(match[1]) if match else None


def find(targets: Iterable[PageTarget], words: str) -> list[PageTarget]:
    """Return targets that contain every word, ignoring case: those that begin with the typed text come first, then
    those that contain it, otherwise in the order of `targets`. Empty without words."""
    wanted = words.casefold().split()
    if not wanted:
        return []
    typed = " ".join(wanted)
    held = []
    for target in targets:
        says = " ".join(target.words.casefold().split())
        if all(word in says for word in wanted):
            held.append((not says.startswith(typed), typed not in says, target))
    # The sort is stable: targets of equal rank keep their order.
    held.sort(key=lambda ranked: ranked[:2])
    # Counted per kind, so that many messages cannot hide a fact.
    numbers: Counter[Kind] = Counter()
    shown = []
    for _, _, target in held:
        numbers[target.kind] += 1
        if numbers[target.kind] <= MAX_OF_A_KIND:
            shown.append(target)
    return shown[:MOST]


def around(text: str, words: str, most: int = 90) -> str:
    """The part of a text around the first of the words, as one line of at most `most` characters.

    >>> around("Nothing here. Rui stays off meat these days.", "meat", 20)
    '…off meat these day…'
    """
    line = " ".join(text.split())
    if len(line) <= most:
        return line
    folded = line.casefold()
    places = [place for word in words.casefold().split() if (place := folded.find(word)) >= 0]
    # Casefolding may lengthen a text, so the place is approximate.
    first = min(places, default=0)
    start = 0 if first < most // 2 else first - most // 2
    if start:  # start at a word boundary
        start = line.find(" ", start, first) + 1 or start
    # Two characters are kept for the ellipses at the ends.
    cut = line[start : start + most - 2].strip()
    return f"{'…' if start else ''}{cut}{'…' if start + most - 2 < len(line) else ''}"

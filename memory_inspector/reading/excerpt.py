"""The passage of a stored turn that best matches a question, and the words in it to highlight. Pure."""

import re
from functools import lru_cache

from memory_core.text import stems
from memory_inspector.wording.marked_text import Span

REACH = 90
"""Characters within which matching words count as one passage."""

BEFORE = 28
"""Characters kept before the first matching word of an excerpt."""

_WORD = re.compile(r"\w+(?:['’]\w+)*")


def matches(text: str, query: str, sought: str = "") -> list[Span]:
    """The matching words of the best passage in `text`, in order.

    If `text` contains `sought` literally, that is the passage. Otherwise it is the passage with the most different
    words of `sought`, or of the question, by stem and without stop words; of several, the first.
    """
    # Words may be separated by other white space in the text, such as a line break.
    exact = re.search(r"\s+".join(re.escape(word) for word in sought.split()), text, re.IGNORECASE) if sought else None
    # Sought words of only spaces make an empty pattern, which is found at the very start.
    if exact is not None and exact.end() > exact.start():
        return [exact.span()]
    # Words that were sought matter more than those of the question.
    return _best(text, sought) or _best(text, query)


def _best(text: str, query: str) -> list[Span]:
    wanted = set(stems(query, stop=True))
    if not wanted:
        return []
    matches = [(match.span(), shared) for match in _WORD.finditer(text) if (shared := wanted & _stems(match.group()))]
    best: list[Span] = []
    most = 0
    for place, ((start, _), _) in enumerate(matches):
        near = [later for later in matches[place:] if later[0][1] - start <= REACH]
        different = len(set[str]().union(*(shared for _, shared in near)))
        # Only more different words win, so that the first of equal passages stays.
        if different > most:
            most, best = different, [span for span, _ in near]
    return best


# Words repeat across stored turns, so their stems are kept.
@lru_cache(maxsize=20_000)
def _stems(word: str) -> frozenset[str]:
    return frozenset(stems(word))


def excerpt(text: str, spans: list[Span], characters: int) -> str:
    """Return a line of text from shortly before the matching words on; from the beginning if they are there.

    >>> excerpt("We looked at flats in town all day. Rui stays off meat these days.", [(36, 39), (50, 54)], 40)
    '…at flats in town all day. Rui stays off…'
    """
    first = spans[0][0] if spans else 0
    start = 0
    if first > BEFORE:
        # An excerpt begins with a whole word, if a space comes before the first match.
        space = text.find(" ", first - BEFORE)
        start = space + 1 if 0 <= space < first else first
    line = " ".join(text[start:].split())
    shown = line if len(line) <= characters else line[: characters - 1].rstrip() + "…"
    return f"…{shown}" if start else shown

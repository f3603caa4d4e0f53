"""Facts that a reply restates from the message it answers: "I've updated Ana's phone number to 555-0100". Pure.

A reply names what the user only points at ("her number is 555-0100"). It shows what the user's words are about and
is no source: the user has to state the value as true, in one sentence, and to use a word of what the reply says has it.
"""

from collections.abc import Iterator

from memory_core.models.offline.clauses import sentences
from memory_core.models.offline.grammar import USER
from memory_core.models.offline.patterns import pattern
from memory_core.models.offline.specifics import EXACT, attribute_slot, certain
from memory_core.models.offline.wording import StatedFact
from memory_core.text import stems

_OWNER = (
    r"(?P<owner>[Yy]our|(?!(?:It|That|This|Here|There|What|Who|He|She|Let)'s)[A-Z][\w-]{1,25}(?: [A-Z][\w-]{1,25})?'s)"
)
_WHAT = rf"{_OWNER} (?P<what>(?:[\w/-]+ ){{0,5}}?[\w/-]+)"
_VALUE = (
    r"(?P<value>[^\s,;:—–()][^;:—–()]{0,80}?)"
    r"(?= ?[;:—–(]|[.!]?$|, | (?:instead|rather|which|based|per|because|since|as of|reflecting|effective|"
    r"and|so|for|going forward|after|following|in (?:my|your|our)|according|from)\b)"
)
_FORMS = (
    pattern(
        rf"\bI(?:'ve| have|'ll)?(?: now| just)? (?:updated?|changed?|corrected?|switched|moved?|set) {_WHAT}(?: back)?"
        rf"(?: from (?P<former>[^,;]{{1,60}}?))?(?: back)? to {_VALUE}"
    ),
    pattern(rf"(?:^|[,:—–] ?|\bthat |\bso )(?:[Ss]o )?{_WHAT} (?:is|remains)(?: now| currently| actually)? {_VALUE}"),
)
_UNSURE = pattern(
    r"\b(?:if|may|might|could|would|should|once|until|unless|when|pending|possibl[ey]|potential|tentative|unconfirmed|not|"
    r"maybe|perhaps|probably|sounds|seems|will)\b|n't\b|\?"
)
_YOUR = pattern(r"\byour\b")
_LONGEST = 240


def restated(message: str, reply: str) -> Iterator[StatedFact]:
    """Yield the facts of a user's message that the reply to it restates.

    >>> reply = "I've updated Ana's phone number to 555-0100."
    >>> [fact.text for fact in restated("Her number is 555-0100, not 555-0101.", reply)]
    ["Ana's phone number is 555-0100"]
    >>> list(restated("Is the number 555-0100?", reply))
    []
    """
    stated = [set(stems(sentence, stop=False)) for sentence in sentences(message) if certain(sentence)]
    for sentence in sentences(reply) if stated else ():
        matches = [] if len(sentence) > _LONGEST or _UNSURE.search(sentence) else [f.search(sentence) for f in _FORMS]
        match = next(filter(None, matches), None)
        if match is None or not EXACT.search(f"- {match['value']}"):
            continue
        value = set(stems(match["value"]))
        shared = set(stems(match["what"])) & set(stems(message))
        if value and shared and any(value <= words for words in stated):
            owner = f"{USER}'s" if match["owner"].lower() == "your" else match["owner"]
            line = _YOUR.sub("the user's", f"{owner} {match['what']} is {match['value']}")
            former = match.groupdict().get("former")
            yield StatedFact(f"{line}, not {former}" if former else line, "other", attribute_slot(line))

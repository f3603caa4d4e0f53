"""Read back the slot of a stored fact from its words, by the offline rules. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from heapq import nlargest
from itertools import chain

from memory_core.models.offline.doubts import TENTATIVE
from memory_core.models.offline.extractor import facts_in
from memory_core.models.offline.grammar import BASE
from memory_core.models.offline.patterns import pattern
from memory_core.models.offline.wording import StatedFact
from memory_core.planning.fact_merging import Fact, relevance
from memory_core.planning.slots import STATUS, Slot, single_slot
from memory_core.text import stems

_MOST_READ = 200
"""Maximum number of known facts whose slots are read for one found fact; reading one takes about half a millisecond."""

_FIRST_PERSON = (
    (pattern(r"\b[Tt]he user's\b"), "my"),
    (pattern(r"\b[Tt]he user is\b"), "I am"),
    (pattern(r"\b[Tt]he user does\b"), "I do"),
    (pattern(r"\b[Tt]he user has\b"), "I have"),
)
_THIRD_VERB = pattern(
    r"\b[Tt]he user (?P<adverb>(?:always|usually|often|still|never|only|now|currently|"
    r"recently|just|also|no longer) )?(?P<verb>\w+)"
)
_ALSO_DOES = pattern(r"\band (?:also )?(?P<verb>\w+)")
"""A second verb of one subject: "lives in Porto and works at Acme"."""


def slot_in(line: str) -> str | None:
    """Return the slot of a fact, read as if the user had said it; None where the rules find none.

    >>> slot_in("The user lives in Porto"), slot_in("The user likes jazz")
    ('user.home', None)
    """
    return next((str(fact.slot) for fact in _read_back(line) if fact.slot is not None), None)


def sole_statement(line: str) -> StatedFact | None:
    """Return the statement of a fact that says one thing; None if it says several, considers one, or is not readable.

    A fact with a slot is replaced as a whole, so whatever else it says would be lost.

    >>> sole_statement("The user now lives in Porto").text, sole_statement("Ana lives in Rome and works at Acme")
    ('The user lives in Porto', None)
    """
    facts = list(_read_back(line))
    several = len(facts) > 1 or any(match["verb"] in BASE for match in _ALSO_DOES.finditer(line))
    return facts[0] if facts and not several and not TENTATIVE.search(line) else None


@lru_cache(maxsize=16_384)
def sole_slot(line: str) -> str | None:
    """Return the slot of a fact that says one thing, as it is stored with it; None if it denies it or has no slot."""
    stated = sole_statement(line)
    return None if stated is None or stated.slot is None or stated.negated else str(stated.slot)


def slots_of(known: Sequence[Fact], found: Iterable[tuple[str, str | None]]) -> dict[int, str | None]:
    """Return the slots of known facts by id, to compare them with found facts, which are pairs of text and slot.

    Facts were once stored without a slot, and a marital status as any status: it is read from their words, if a found
    fact has one to compare it with, and only for those nearest in wording. What a program stores under a key has none.
    """
    slots = {fact.id: fact.slot for fact in known}
    without = [
        fact
        for fact in known
        if fact.key is None
        and fact.state != "rejected"
        and (fact.slot is None or Slot.read(fact.slot).attribute == STATUS)
    ]
    words = [stems(text) for text, slot in found if single_slot(slot) is not None] if without else []
    query = frozenset(chain(*words))
    # Of equally near ones the oldest, which come first in `known`.
    for fact in nlargest(_MOST_READ * len(words), without, key=lambda fact: relevance(fact.text, query)):
        slots[fact.id] = sole_slot(fact.text) or fact.slot
    return slots


def _read_back(line: str) -> Iterator[StatedFact]:
    """Return the facts in the words of a stored fact."""
    spoken = line
    for third, words in _FIRST_PERSON:
        spoken = third.sub(words, spoken)
    # Put the verb back in its base form, as the grammar expects it after "I".
    return facts_in(_THIRD_VERB.sub(lambda m: f"I {m['adverb'] or ''}{BASE.get(m['verb'], m['verb'])}", spoken))

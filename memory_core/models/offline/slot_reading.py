"""Read back the slot of a stored fact from its words, by the offline rules. Pure."""

from memory_core.models.offline.extractor import facts_in
from memory_core.models.offline.grammar import BASE
from memory_core.models.offline.languages.readers import rules_for
from memory_core.models.offline.patterns import pattern

_FIRST_PERSON = (
    (pattern(r"\b[Tt]he user's\b"), "my"),
    (pattern(r"\b[Tt]he user is\b"), "I am"),
    (pattern(r"\b[Tt]he user does\b"), "I do"),
    (pattern(r"\b[Tt]he user has\b"), "I have"),
)
_THIRD_VERB = pattern(r"\b[Tt]he user (?P<adverb>(?:always|usually|often|still|never|only) )?(?P<verb>\w+)")


def slot_in(line: str) -> str | None:
    """Return the slot of a fact, read as if the user had said it; None where the rules find none.

    >>> slot_in("The user lives in Porto"), slot_in("The user likes jazz")
    ('user.home', None)
    >>> slot_in("Der Nutzer wohnt in Porto"), slot_in("用户住在北京")
    ('user.home', 'user.home')
    """
    # Rules for another language read the fact in that language, in its first person.
    if rules := rules_for(line):
        facts = rules.facts_in(rules.first_person(line))
    else:
        spoken = line
        for third, words in _FIRST_PERSON:
            spoken = third.sub(words, spoken)
        # Put the verb back in its base form, as the grammar expects it after "I".
        facts = facts_in(_THIRD_VERB.sub(lambda m: f"I {m['adverb'] or ''}{BASE.get(m['verb'], m['verb'])}", spoken))
    return next((str(fact.slot) for fact in facts if fact.slot is not None), None)

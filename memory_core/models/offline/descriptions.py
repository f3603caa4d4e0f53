"""Facts that describe somebody or something by name: "The capital of Peru is Lima", "Ana was born in Porto". Pure.

Each sentence is matched whole against a few general English forms: a definite description ("the capital of Peru is …")
or a verb, mostly with a preposition ("was born in …"), ending in the value. The text before the value names the
attribute; a later sentence with the same one replaces the value. Only attributes with one value at a time get a slot.
"""

from memory_core.models.offline.grammar import NOT_NAMES, word_set
from memory_core.models.offline.patterns import pattern
from memory_core.models.offline.wording import YOU, StatedFact
from memory_core.planning.slots import Slot
from memory_core.text import words

_CAPITALISED = r"[A-ZÀ-ÖØ-Þ0-9][\w.'’&-]*"
_JOINING = "of|the|de|da|di|del|du|des|la|le|el|al|van|von|and|&|for|in|on|at|to|as|a|an"
_NAMED = rf"(?:[Tt]he )?{_CAPITALISED}(?:,? (?:{_CAPITALISED}|{_JOINING}|[a-z]{{3,12}})){{0,8}}?"
"""A name of up to nine words: `Ana`, `Hall of Birkenhead`, `Slovakia national football team`."""
_VALUE = r"(?P<value>[^\s,;:].{0,90}?)"
_A_NAME = pattern(
    rf"(?:The )?{_CAPITALISED}(?:,? (?:{_CAPITALISED}|{_JOINING}|[a-z]{{3,12}}))*|(?:[\w-]+ ){{0,3}}[\w-]+"
)
"""A value: a name, or at most four plain words."""
_PREPOSITION = r"(?:in|at|by|to|of|for|with|from|on|as)"
_KIND = r"the (?:[a-z]+ ){1,3}of "
"""Definite noun before a value: `the city of`, `the official language of`."""
_NOT_DEFINITE = "same|only|best|worst|first|last|next|point|problem|thing|whole|rest|one|reason|way|idea|fact"
_THE = rf"The (?!(?:{_NOT_DEFINITE})\b)[A-Za-z][\w' -]{{1,40}}?"
_IS = rf"(?:is|was)(?: now)?(?: (?:located|based))? (?:{_PREPOSITION} )?(?:{_KIND})?"
_FORMS = (
    pattern(rf"(?P<attribute>{_THE} (?:of|for) .{{2,90}}?) {_IS}{_VALUE}"),
    # A relative clause has a verb of its own, so the last "is" is the one before the value.
    pattern(rf"(?P<attribute>{_THE} (?:where|that|who|which|in) .{{2,90}}) {_IS}{_VALUE}"),
    pattern(rf"(?P<attribute>{_NAMED}['’]s? [a-z][a-z -]{{2,40}}?) {_IS}{_VALUE}"),
    pattern(
        rf"(?P<attribute>(?:{_NAMED}|(?:[a-z-]+ ){{0,3}}?[a-z-]+)"
        rf" (?P<verb>(?:is|was|has been) (?:an? )?[a-z]{{3,16}}|[a-z]{{2,14}}(?:s|ed)|wrote|made)"
        rf"(?: {_PREPOSITION})? (?P<kind>{_KIND})?){_VALUE}"
    ),
)
_SINGLE = word_set(
    """
    born died founded created established located based headquartered married divorced employed educated written
    authored produced directed developed performed composed designed discovered invented published affiliated owned
    citizen famous known associated
    """
)
"""Verbs and nouns with one value at a time; so has every verb if a definite noun precedes the value (`_KIND`)."""
_SPEAKER = pattern(r"^(?:I|I'm|I've|My|Our|We) |\bI (?!is\b|was\b)[a-z']|\b(?:my|me|we|our|us)\b")
"""First-person words: sentences with them are left to `grammar.py`."""
_NO_VALUE = word_set("a an the this that these those it he she they what who very so too not always never really just")
"""First words of phrases that describe rather than name: "is a great place"."""
_COMMON = (NOT_NAMES - word_set("back free past")) | word_set(
    "i i'm i've we're we've you're nor or this it's they're that's there's wow yeah last congrats just"
)


def described(sentence: str) -> StatedFact | None:
    """Return the fact of a sentence that gives an attribute of something named; None for every other sentence.

    >>> str(described("The capital of Peru is Lima.").slot)
    'the capital of peru'
    >>> described("The weather is nice.") is None
    True
    """
    text = " ".join(sentence.split()).rstrip(" .!")
    # Stories, questions and words to the assistant are left out; the grammar reads sentences about the speaker.
    if len(text) > _LONGEST or text.endswith("?") or YOU.search(text) or _SPEAKER.search(text):
        return None
    # A capital at the start is no sign of a name, so common words are excluded.
    first = text.partition(" ")[0]
    if first.lower() in _COMMON and first != "The":
        return None
    for form in _FORMS:
        match = form.fullmatch(text)
        if match is None or not _names_a_value(match["value"]):
            continue
        parts = match.groupdict()
        # A plain word after the verb is an opinion ("the film was great"), unless a noun says what it is a value of.
        if parts.get("kind") is not None or not match["value"][0].islower():
            # A subject that is no name ("tea is from Assam") is read only with such a noun, too.
            return StatedFact(text, "other", _slot(parts)) if first[0].isupper() or parts.get("kind") else None
    return None


_LONGEST = 200


def _names_a_value(value: str) -> bool:
    """Return whether the value is a name, a number or a short noun, and not a description or another clause."""
    first = value.partition(" ")[0]
    return _A_NAME.fullmatch(value) is not None and first not in _NO_VALUE


def _slot(parts: dict[str, str | None]) -> Slot | None:
    verb = parts.get("verb")
    single = verb is None or parts.get("kind") is not None or not _SINGLE.isdisjoint(words(verb))
    return Slot("", " ".join(words(parts["attribute"] or ""))) if single else None

"""Word the facts of the offline rules: in the third person, cut where another thought begins, with their slot."""

import re
from dataclasses import dataclass

from memory_core.models.offline.grammar import NAME, PAST, THIRD, USER, Statement, word_set
from memory_core.models.offline.patterns import pattern
from memory_core.models.offline.sense import specific, stands_alone
from memory_core.models.offline.vocabulary import CAPITAL, DATE, MONEY, NUMBER, TASTES, TIME
from memory_core.planning import slots
from memory_core.planning.slots import Slot

_CUT = pattern(
    r",? (?:because|since (?:I|it|the|my|we|he|she|they|there)|but|although|though|which|so that|so|"
    r"as (?:it|they|I|the|there|these|this|those|he|she|that|a result)|where|when|while|whenever|until I|"
    r"and (?:\w{1,15} )?(?:I|it|it's|they|we|he|she)|"
    r"and (?:now|then|was|were|is|are|am|have|had|has|feel|felt|would|feeling|found|realized|thought|hope|want)|"
    r"and (?:(?!that |which |who )\w{1,20} ){1,5}?(?:can|is|are|was|were|will)|"
    r"that (?:I|we|it|they|he|she)|hoping|in order|after all|it's|they're|I'm)\b.*$"
    r"| (?:and something|even (?:though|if)|I|I've|we|we've)\b.*$"
    r"|, (?:I|it|my|the|this|that|they|we|he|she|his|her|do|don't|didn't|doesn't|not sure|no|what|how|can|"
    r"check|a variety|to name)\b.*$"
    r"|(?: and)?(?:, \w+ly)?, had\b.*$"
    r"| [-–—(] ?.*$|:(?!\d| ?[A-Z]*\d).*$|,? (?:'?cause|'?cuz|cos)\b.*$"
    rf"|, {NAME} (?:(?:always|usually|often|never|also|really|just) )?(?:is|has|was|\w{{2,12}}[^s\W]s)\b.*$"
    r"|(?: too)?, (?:just|only|even|especially|maybe|kind of|sort of|not to mention) (?=\w+ing\b).*$",
)
_EDGE = " ,.!;–-"
_CONTACT = pattern(r" (?:that )?(?:I|I've|we|we've|it|they|he|she)\b")
_OF_CONTACT = pattern(
    r"\b(?:the|that|those|all|how|what|which)(?: [\w'-]+){1,3}$|\b(?:before|after|until|since|while)$"
)
"""Noun phrase before a clause without "that": cut there, "the dogs [I wanted]" would mean other dogs."""
_HALF = pattern(r"an? [\w-]+ (?:but|and) ")
"""An adjective whose noun was cut off: "a lively [but manageable part]"."""
_TAIL = pattern(
    r"[ ,]{1,2}(?:too|as well|though|lately|recently|now|right now|at the moment|by the way|a lot|"
    r"a ton|too much|honestly|apparently|partly|(?:a few|few|couple of|a couple of) days ago|"
    r"very much|so much|please|you know|actually|again|these days|"
    r"and so on|etc|nowadays|instead|for now|and|or|just now|(?P<day>today|tonight|yesterday|"
    r"last (?:night|week|weekend|month|year|summer|winter|spring|autumn|fall|(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs)?|Fri|"
    r"Sat(?:ur)?|Sun)(?:day)?)|this (?:week|weekend|month|year|morning|afternoon|evening)))[.,! ]{0,3}$"
    r"|, (?:my )?friend$",
    re.IGNORECASE,
)
_SECOND_VERB = pattern(
    r"(?<=and )[a-z]{2,12}(?= (?:an?|the|my|our|to|in|at|on|with|for|some|their|about|them|it|him|her|every)\b)"
)
ALONE = word_set(
    """
    smoke drink run swim ski sing dance commute exercise volunteer paint draw cook bake drive teach
    """
)
"""Habits that need no object."""
_PERSON = {
    "my": "the user's", "mine": "the user's", "our": "the user's", "me": "the user", "myself": "themselves",
    "i": "the user", "us": "the user", "we": "the user", "i'm": "the user is", "i've": "the user has",
    "ourselves": "themselves",
}  # fmt: skip
_PERSON_WORD = pattern(r"\b(?:I'm|I've|I|[Mm]y|[Mm]ine|[Oo]urs?|[Mm]e|[Mm]yself|[Uu]s|[Ww]e|[Oo]urselves)\b(?!['-])")
_I_DO = pattern(
    r"(?<=\bI )(?P<adverbs>(?:(?:always|often|never|also|just|only|still|sometimes|almost|"
    r"(?!(?:rely|apply|reply|supply|imply|multiply) )[a-z]{2,12}ly) )*)"
    r"(?P<verb>[a-z]{2,15})\b(?!['-])"
)
_IRREGULAR = {"am": "is", "have": "has", "do": "does", "go": "goes"}
_SAME_FOR_ALL = word_set(
    """
    can could will would shall should may might must was were had did always usually often never sometimes really also
    just only still even first last ever recently currently already finally actually not said told knew found gave
    """
)
BUDGET = Slot("", slots.BUDGET)
"""Slot without an owner, so that "my budget" and "the budget" replace each other."""
YOU = pattern(r"\b(?:you|your|yours|yourself|you're|you've)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class StatedFact:
    """A fact with its category and slot; `negated` if it denies something."""

    text: str
    category: str
    slot: Slot | None = None
    negated: bool = False
    day: str = ""
    """Day that the text leaves out, relative to its message as it was said: `yesterday`, `this weekend`."""


def fact(statement: Statement, category: str, slot: Slot | None = None) -> StatedFact | None:
    """Return the statement as a fact; None when nothing is left of it that can be understood alone."""
    rest, day = _trimmed(statement.rest)
    if rest and statement.subject == USER:
        # Pronouns of the user after their own verb add nothing.
        rest = rest.removeprefix("the user ")  # "booked us a trip"
    if not rest or not specific(rest) or not stands_alone(statement.subject, rest):
        return None
    if (
        statement.kind == "present"
        and statement.verb not in TASTES
        and THIRD.get(statement.verb) in statement.said.split()
    ):
        rest = _SECOND_VERB.sub(lambda verb: THIRD.get(verb[0], verb[0]), rest)
    negated = statement.negated or bool(re.search(r" any ?(?:more|longer)$", rest))
    return StatedFact(statement.text(rest), category, slot, negated, day)


def clean(rest: str) -> str | None:
    """Return the words after the verb, cut before the next thought, in the third person; None if they state nothing."""
    return _trimmed(rest)[0]


def _trimmed(rest: str) -> tuple[str | None, str]:
    """Return what `clean` returns, and the relative day that was cut off its end."""
    if re.match(r"(?:it|that|this|them|these|those|him|so|here|there|both)\b(?! \w+ing\b)", rest) and not re.match(
        r"(?:that|this|these|those) \w+", rest
    ):
        return None, ""
    cut = _CUT.search(rest)
    if cut:
        rest = rest[: cut.start()].strip(_EDGE)
        # The cut would leave a phrase that has another meaning without the clause behind it.
        if (_CONTACT.match(cut[0]) and _OF_CONTACT.search(rest)) or _HALF.fullmatch(rest + cut[0][:5]):
            return None, ""
    day = ""
    # Closing words pile up: "a lot lately, too".
    for _ in range(3):
        if tail := _TAIL.search(rest):
            day = tail["day"] or day
            rest = rest[: tail.start()].strip(_EDGE)
    return in_third_person(rest), day


def in_third_person(text: str) -> str | None:
    """Rephrase `text` from the first into the third person; None when it is empty or addresses the assistant."""
    if not text or YOU.search(text):
        return None
    # Verbs first, while "I" still shows which ones are the user's.
    text = _I_DO.sub(lambda match: match["adverbs"] + _third(match["verb"]), text)
    return _PERSON_WORD.sub(lambda match: _PERSON.get(match.group().lower(), match.group()), text).strip(" ,.!")


def _third(verb: str) -> str:
    """Return a verb in the form that follows "the user", from the form that follows "I"."""
    # Modal verbs, adverbs and past forms are the same in every person.
    if verb in _SAME_FOR_ALL or verb in PAST or verb.endswith("ed"):
        return verb
    return _IRREGULAR.get(verb) or THIRD.get(verb) or f"{verb}s"


def concrete(rest: str) -> bool:
    """Return whether `rest` contains something concrete: a name, title, number, date or time."""
    return any(pattern.search(rest) for pattern in (CAPITAL, NUMBER, DATE, TIME))


def slug(subject: str) -> str:
    if subject == USER or subject.startswith(USER + "'s "):
        return ("user." + subject[len(USER) + 3 :].lower()).rstrip(".")
    return subject.removeprefix("The ").lower().replace("'s ", ".")


def slot_of(statement: Statement, attribute: str) -> Slot:
    return Slot(slug(statement.subject), attribute)


def named_slot(statement: Statement) -> Slot:
    """Return the slot named by the subject itself: "The user's favourite colour"."""
    return Slot.read(slug(statement.subject))


def dated_slot(statement: Statement) -> Slot | None:
    # A date, a time, a price and a place of one thing do not contradict each other, so each has a slot.
    attribute = next((attribute for attribute, shape in _DATED if shape.search(statement.rest)), None)
    return None if attribute is None else slot_of(statement, attribute)


_DATED = (
    (slots.DATE, DATE),
    (slots.TIME, TIME),
    (slots.PRICE, MONEY),
    (slots.PLACE, pattern(rf"^(?:now )?(?:at|in) (?:the )?{NAME}")),
)

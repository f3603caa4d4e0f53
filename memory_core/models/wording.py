"""How a fact of the offline rules is worded: in the third person, cut where another thought begins, with its slot."""

import re
from dataclasses import dataclass

from memory_core.models.grammar import NAME, THIRD, USER, Statement, word_set
from memory_core.models.vocabulary import CAPITAL, DATE, MONEY, NUMBER, TASTES, TIME

_CUT = re.compile(
    r",? (?:because|since (?:I|it|the|my|we|he|she|they|there)|but|although|though|which|so that|so|"
    r"as (?:it|they|I|the|there|these|this|those|he|she|that|a result|well as)|where|when|while|whenever|until I|"
    r"and (?:\w{1,15} )?(?:I|it|it's|they|we|he|she)|"
    r"and (?:now|then|was|were|is|are|am|have|had|has|feel|felt|would|feeling|found|realized|thought|hope|want)|"
    r"and [\w ]{1,40}? (?:can|is|are|was|were|will)|"
    r"that (?:is|was|I|are|it|makes|made|we)|hoping|in order|after all|it's|they're|I'm)\b.*$"
    r"| (?:and something|even (?:though|if)|I|I've|we|we've)\b.*$"
    r"|, (?:I|it|my|the|this|that|they|we|he|she|his|her|do|what|how|can|check|a variety|to name)\b.*$"
    r"| [-–—(] ?.*$|:(?!\d).*$",
)
_TAIL = re.compile(
    r"[ ,]{1,2}(?:too|as well|though|lately|recently|today|now|right now|at the moment|by the way|a lot|"
    r"very much|so much|please|you know|actually|yesterday|this morning|last night|tonight|again|these days|"
    r"and so on|etc|nowadays|instead|for now|and|or|this afternoon|this evening|just now|last weekend|"
    r"last week)[.,! ]{0,3}$"
    r"|, (?:my )?friend$",
    re.IGNORECASE,
)
_LOOSE_END = re.compile(
    r"\b(?:it|that|this|them|those|these|to|with|about|of|for|from|at|in|fan|where|how|what|whether|than|like|"
    r"as|feeling|idea|the|a|an|is|are|my|there|by|on|into)$|^(?:to|about|of|for|with|at|in)$",
    re.IGNORECASE,
)
"""What is left hanging when a thought was cut off, or points to something said elsewhere."""
_POINTING = re.compile(
    r"(?:\w{1,15} )?(?:on|of|about|with|for|at|to|in|into) (?:it|this|that|them|these|those)\b|(?:how|what|the way)\b|"
    r".{0,200}\b(?:this|these|those) "
    r"(?!morning|week|month|year|weekend|spring|summer|autumn|fall|winter|afternoon|evening)\w",
    re.IGNORECASE,
)
"""What only the conversation around it explains."""
_SECOND_VERB = re.compile(
    r"(?<=and )(?:eat|drink|watch|read|listen|cook|write|paint|go|make|take|try|play|work|swim)(?= )"
)
ALONE = word_set(
    """
    smoke drink run swim ski sing dance commute exercise volunteer paint draw cook bake drive teach
    """
)
"""Habits that need no object."""
_PERSON = {
    "my": "the user's", "mine": "the user's", "our": "the user's", "me": "the user", "myself": "themselves",
    "i": "the user", "us": "the user's group", "we": "the user's group", "i'm": "the user is", "i've": "the user has",
    "ourselves": "themselves",
}  # fmt: skip
_PERSON_WORD = re.compile(r"\b(?:I'm|I've|I|[Mm]y|[Mm]ine|[Oo]urs?|[Mm]e|[Mm]yself|[Uu]s|[Ww]e|[Oo]urselves)\b(?!')")
YOU = re.compile(r"\b(?:you|your|yours|yourself|you're|you've)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Found:
    """A fact with what decides whether it keeps its slot."""

    text: str
    category: str
    slot: str | None = None
    negated: bool = False


def fact(said: Statement, category: str, slot: str | None = None) -> Found | None:
    """The statement as a fact; None when what is left of it says nothing by itself."""
    rest = clean(said.rest)
    if not rest or _LOOSE_END.search(rest) or _POINTING.match(rest):
        return None
    if said.kind == "present" and said.verb not in TASTES:
        rest = _SECOND_VERB.sub(lambda verb: THIRD[verb.group()], rest)
    return Found(said.text(rest), category, slot, said.negated or bool(re.search(r" any ?(?:more|longer)$", rest)))


def clean(rest: str) -> str | None:
    """What follows the verb, cut where another thought begins and told of the user; None when it says nothing."""
    if re.match(r"(?:it|that|this|them|these|those|him|so|here|there|both)\b(?! \w+ing\b)", rest) and not re.match(
        r"(?:that|this|these|those) \w+", rest
    ):
        return None
    rest = _CUT.sub("", rest).strip(" ,.!;")
    for _ in range(3):
        rest = _TAIL.sub("", rest).strip(" ,.!;")
    return in_third_person(rest)


def in_third_person(text: str) -> str | None:
    """`text` told of the user instead of by them; None when it speaks to the assistant."""
    if not text or YOU.search(text):
        return None
    return _PERSON_WORD.sub(lambda match: _PERSON.get(match.group().lower(), match.group()), text).strip(" ,.!")


def concrete(rest: str) -> bool:
    """Whether something in `rest` can be looked up: a name, title, number, date or time."""
    return any(pattern.search(rest) for pattern in (CAPITAL, NUMBER, DATE, TIME))


def slug(subject: str) -> str:
    if subject == USER or subject.startswith(USER + "'s "):
        return ("user." + subject[len(USER) + 3 :].lower()).rstrip(".")
    return subject.removeprefix("The ").lower().replace("'s ", ".")


def slot_of(said: Statement, attribute: str) -> str:
    return f"{slug(said.subject)}.{attribute}" if said.subject != USER else f"user.{attribute}"


def dated_slot(said: Statement) -> str | None:
    rest = said.rest
    if DATE.search(rest):
        return f"{slug(said.subject)}.date"
    if TIME.search(rest):
        return f"{slug(said.subject)}.time"
    if MONEY.search(rest):
        return f"{slug(said.subject)}.price"
    return f"{slug(said.subject)}.place" if re.match(rf"(?:now )?(?:at|in) (?:the )?{NAME}", rest) else None

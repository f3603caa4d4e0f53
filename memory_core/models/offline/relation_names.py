"""Names, things and dates for the relation rules, and the entity type that a name implies. Pure."""

import re

from memory_core.models.offline.grammar import BASE, NOT_NAMES, THIRD, USER, word_set
from memory_core.models.offline.patterns import pattern
from memory_core.models.offline.vocabulary import MONTH, WEEKDAY

_WORD = r"[A-ZÀ-ÖØ-Þ][A-Za-zÀ-ÖØ-öø-ÿ0-9&-]{0,30}(?:'[A-Z][a-z]{1,20})?"
_JOIN = r"(?:of|de|da|do|dos|das|del|della|di|la|le|van|von|der|den|the|&)"
PROPER = rf"(?:(?:Dr|Mrs?|Ms|Prof)\.? )?{_WORD}(?:(?: {_JOIN}){{0,2}} {_WORD}| \d{{1,4}}\b){{0,4}}"
"""A name of one word or several: `Taberna do Cais`, `Project Alpha`, `Windows 11`."""
_ONLY_PROPER = pattern(
    rf"({PROPER})(?=$|[,.;!)]| (?:and|or|with|from|in|at|on|for|to|by|since|until|till|as|every|near|next|last|now|too|"
    r"again|because|but|so|these|this|right|currently|still|any ?more|any longer|when|where|after|before|during|"
    r"together|alone|yesterday|today|tomorrow|tonight|recently|though|who|which)\b)"
)
"""A name, unless the next word may belong to it: "Porto" does not match in "Porto airport"."""

_DATE = pattern(
    rf"(?:now )?(?:on |in |by |at |for |until |the )?(?:the )?(?P<date>"
    rf"(?:(?:end|beginning|middle) of )?(?:\d{{1,2}}(?:st|nd|rd|th)? (?:of )?)?{MONTH}"
    rf"(?: \d{{1,2}}(?:st|nd|rd|th)?\b)?(?:,? \d{{4}})?|\d{{4}}-\d\d-\d\d|\d{{1,2}}/\d{{1,2}}(?:/\d{{2,4}})?|"
    rf"(?:next |this )?{WEEKDAY}|Q[1-4](?: \d{{4}})?|\d{{4}}|tomorrow)\b(?! ?(?:euros?|dollars?|people|guests))"
)

_NP_ENDS = word_set(
    """
    until till since for in at on with by from to as near every each but because where which who that when while
    so now today tonight tomorrow too also very really again though although if then than about of how after
    before during the a an most best especially particularly anymore any much lot always usually often sometimes
    instead together around over under without
    """
)
"""Words that end the name of a thing."""
_OF_VERBS = frozenset(["on", "up", "out", "off", "over", "around", "in", "at", "near", "under", "down", "away"])
"""Words that belong to a verb before them, as in "lounging around": the verb's object is not a thing by itself."""
_UNFINISHED = frozenset(["of", "that", "which", "who", "about", "how", "than", "to", "with", "if"])
"""Words after which a name continues: the part before them is not the whole name."""
_NO_THING = word_set(
    """
    it this that them those these him her me us you your his their its something anything everything nothing
    someone anyone everyone people things thing stuff one ones here there myself both all some many much more most
    my our own same idea ideas way ways time times lot lots bit fact kind sort
    hearing seeing having being doing making getting knowing sharing talking helping learning trying spending going
    giving taking thinking feeling looking finding connecting chatting telling saying
    """
)
_ORGANISATION = pattern(
    r"(?:Inc|Ltd|Corp|Corporation|Company|GmbH|University|College|Institute|Hospital|Clinic|Bank|School|Labs?|"
    r"Foundation|Studios?|Group|Ministry|Museum|Library|Agency|Airlines|Technologies|Systems|Partners)\b|"
    r"\b(?:hospital|university|school|bank|clinic|library|museum|company|factory|office|restaurant|bakery|hotel|"
    r"airport|agency|post office|department|team|shelter|gym|studio|shop|store)$"
)
PROJECT = pattern(r"^Project\b|\bproject$", re.IGNORECASE)
ANY_DATE = pattern(
    rf"(?:end of |next |this )?(?:\d{{1,2}} )?(?:{MONTH}|{WEEKDAY})\b.{{0,12}}|\d{{4}}(?:-\d\d-\d\d)?|Q[1-4] \d{{4}}"
)


def type_of(name: str, otherwise: str = "other") -> str:
    """Return the entity type implied by a name; `otherwise` if it implies none.

    >>> type_of("Project Alpha"), type_of("Porto General Hospital"), type_of("14 March")
    ('project', 'organisation', 'date')
    """
    if name == USER:
        return "person"
    if PROJECT.search(name):
        return "project"
    if ANY_DATE.fullmatch(name):
        return "date"
    return "organisation" if _ORGANISATION.search(name) else otherwise


def proper(text: str) -> str | None:
    """Return the name that a text begins with; None when it does not."""
    match = _ONLY_PROPER.match(text.removeprefix("the "))
    return match[1] if match and is_name(match[1]) else None


def is_name(name: str) -> bool:
    """Return whether capitalised words are a name, rather than just the beginning of a sentence."""
    words = name.split()
    return words[0].lower().removesuffix("'s") not in NOT_NAMES and words[0] not in ("I", "I'm") and len(name) <= 60


def thing(text: str, *, article: bool = False) -> str | None:
    """Return the short name of a thing at the start of a text: `nuts`, `dark mode`, `the hospital`; None without one.

    `article`: the name keeps its article.
    """
    text = re.sub(r"^(?:both|any|all|some) ", "", text)
    match = re.match(r"(?:the|an?|two|three|four|my|his|her|their) ", text)
    lead, rest = (match.group(), text[match.end() :]) if match else ("", text)
    # "My car" is a different thing for each speaker, and no name in a graph.
    if lead in ("my ", "his ", "her ", "their "):
        return None
    words: list[str] = []
    for word in rest.split():
        bare = word.strip(",;.!?)\"'")
        if not re.fullmatch(r"[^\W\d_][\w'&-]*", bare) or bare.lower() in _NP_ENDS:
            # The phrase continues with what it is of or about, so its beginning is no name.
            if bare.lower() in _UNFINISHED or (bare.lower() in _OF_VERBS and words and words[0].endswith("ing")):
                return None
            break
        words.append(bare)
        # A punctuation mark ends the phrase.
        if bare != word:
            break
    if not 1 <= len(words) <= 4 or any(word.lower() in _NO_THING for word in words):
        return None
    # A verb inside means that a clause was read instead of a name.
    if any(word in BASE or word in ("is", "are", "was", "were", "has", "I", "we") for word in words[1:]):
        return None
    name = " ".join(words)
    return f"{lead}{name}" if article or lead in ("two ", "three ", "four ") else name


def things(text: str) -> list[str]:
    """Split a list of things: `jazz, blues and tango`. Empty if the first item is not a thing."""
    result: list[str] = []
    for part in re.split(r", (?:and |or )?| and | or ", text):
        name = thing(part)
        if name is None or (
            # A verb, or other capitalisation, shows that another clause began.
            result and (part.split()[0].lower() in (*BASE, *THIRD) or name.istitle() != result[0].istitle())
        ):
            break
        result.append(name)
        if thing(part) is None or len(part.split()) > len(name.split()) + 1:
            break
    return result


def date(text: str) -> str | None:
    """Return the date that a text begins with, in a uniform wording: `the 14th of March` is `14 March`."""
    match = _DATE.match(text)
    if match is None:
        return None
    # One wording for one date, so that the graph gets one node.
    plain = re.sub(r"(?<=\d)(?:st|nd|rd|th)\b", "", match["date"])
    return re.sub(r"(?<=\d) of (?=[A-Z])", " ", plain)


def organisation(text: str) -> str | None:
    """Return the organisation or place at the start of a text: a name, or `the hospital`; None if there is none."""
    name = proper(text)
    if name is not None:
        return name
    if not text.startswith("the "):
        return None
    noun = thing(text, article=True)
    return noun if noun is not None and _ORGANISATION.search(noun) else None

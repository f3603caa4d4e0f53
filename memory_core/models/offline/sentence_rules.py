"""Facts from whole sentences: descriptions by name, the user's exact words, and what a reply restates. Pure."""

import re
from collections.abc import Iterator, Sequence

from memory_core.models.offline.grammar import (
    BASE,
    DATE,
    GERUND,
    MONTH,
    NOT_NAMES,
    PAST,
    RELATION,
    THIRD,
    USER,
    pattern,
    strip_lead_in,
    word_set,
)
from memory_core.models.offline.sentences import is_reported, is_supposed, sentences
from memory_core.models.offline.wording import YOU, StatedFact, in_third_person
from memory_core.planning.slots import Slot, of_user
from memory_core.text import capitalised, stems, words

# -- descriptions by name: "The capital of Peru is Lima", "Ana was born in Porto" ------------------
# Each sentence is matched whole against a few general English forms: a definite description ("the capital of Peru is
# …") or a verb, mostly with a preposition ("was born in …"), ending in the value. The text before the value names the
# attribute; a later sentence with the same one replaces the value. Only attributes with one value at a time get a slot.

_CAPITALISED = r"[A-ZÀ-ÖØ-Þ0-9][\w.'’&-]*"
_JOINING = "of|the|de|da|di|del|du|des|la|le|el|al|van|von|and|&|for|in|on|at|to|as|a|an"
_NAMED = rf"(?:[Tt]he )?{_CAPITALISED}(?:,? (?:{_CAPITALISED}|{_JOINING}|[a-z]{{3,12}})){{0,8}}?"
"""A name of up to nine words: `Ana`, `Hall of Birkenhead`, `Slovakia national football team`."""
_DESCRIBED = r"(?P<value>[^\s,;:].{0,90}?)"
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
_DESCRIPTIONS = (
    pattern(rf"(?P<attribute>{_THE} (?:of|for) .{{2,90}}?) {_IS}{_DESCRIBED}"),
    # A relative clause has a verb of its own, so the last "is" is the one before the value.
    pattern(rf"(?P<attribute>{_THE} (?:where|that|who|which|in) .{{2,90}}) {_IS}{_DESCRIBED}"),
    pattern(rf"(?P<attribute>{_NAMED}['’]s? [a-z][a-z -]{{2,40}}?) {_IS}{_DESCRIBED}"),
    pattern(
        rf"(?P<attribute>(?:{_NAMED}|(?:[a-z-]+ ){{0,3}}?[a-z-]+)"
        rf" (?P<verb>(?:is|was|has been) (?:an? )?[a-z]{{3,16}}|[a-z]{{2,14}}(?:s|ed)|wrote|made)"
        rf"(?: {_PREPOSITION})? (?P<kind>{_KIND})?){_DESCRIBED}"
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
    if len(text) > _LONGEST_DESCRIPTION or text.endswith("?") or YOU.search(text) or _SPEAKER.search(text):
        return None
    # A capital at the start is no sign of a name, so common words are excluded.
    first = text.partition(" ")[0]
    if first.lower() in _COMMON and first != "The":
        return None
    for form in _DESCRIPTIONS:
        match = form.fullmatch(text)
        if match is None or not _names_a_value(match["value"]):
            continue
        parts = match.groupdict()
        # A plain word after the verb is an opinion ("the film was great"), unless a noun says what it is a value of.
        if parts.get("kind") is not None or not match["value"][0].islower():
            # A subject that is no name ("tea is from Assam") is read only with such a noun, too.
            return StatedFact(text, "other", _slot(parts)) if first[0].isupper() or parts.get("kind") else None
    return None


_LONGEST_DESCRIPTION = 200


def _names_a_value(value: str) -> bool:
    """Return whether the value is a name, a number or a short noun, and not a description or another clause."""
    first = value.partition(" ")[0]
    return _A_NAME.fullmatch(value) is not None and first not in _NO_VALUE


def _slot(parts: dict[str, str | None]) -> Slot | None:
    verb = parts.get("verb")
    single = verb is None or parts.get("kind") is not None or not _SINGLE.isdisjoint(words(verb))
    return Slot("", " ".join(words(parts["attribute"] or ""))) if single else None


# -- sentences that name something exact, in the user's own words ----------------------------------
# A statement about a number, a date or a name is worth keeping even where its grammar is unknown: "My latest score is
# 721 as of last week". Left out are questions, suppositions, plans, reports of others, and sentences that need the one
# before them.

MIN_STEMS, MAX_CHARACTERS = 3, 240
"""Minimum content words besides a date, and maximum characters: others are mere answers, or stories."""

EXACT = pattern(
    r"\d[\w.,:/%°'\"-]*"
    r"|(?<=[\w,;–—-] )(?!I\b|(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:days?)?\b)[A-ZÀ-ÖØ-Þ][\w'’&.-]+"
    r"|[\"“][^\"”]{2,40}[\"”]|[\w.+-]+@[\w-]+\.[\w.]+"
)
"""Numbers, names after the first word, and titles. Days of the week do not count: they are ambiguous later."""
_PREPOSITIONS = (
    "During|While|Since|Because|Although|Though|Despite|Unlike|Until|Once|After|Before|As|At|By|For|From|In|On|With|"
    "Without|Every|Each|When|Around"
)
_FRONTED = (
    rf" (?:(?:[a-z]+ ){{0,4}}?{MONTH}(?: \d{{1,2}}(?:st|nd|rd|th)?)?(?:,? \d{{4}})?"
    r"|(?!the|an?|th[ai]t|this|what|all|case|days|times|\w*thing|which|I)[\w'-]+(?: [\w'-]+)?)"
)
"""Fronted date or short phrase, as in "On March 3rd I moved", which no comma has to end."""
_STARTS = pattern(
    r"(?:I|I'm|I've|My|Our|We|We're|We've)\b|(?:The|An?) [A-Za-z]|"
    rf"(?:{_PREPOSITIONS}) |"
    r"(?:(?:Dr|Mr|Mrs|Ms)\. )?[A-Z][\w.'-]*(?: (?:[A-Z][\w.'-]*|at|of)){0,4}(?:'s [a-z][\w -]{2,40}?)? "
    r"(?:(?:just|now|also|still|\w{2,12}ly) )?"
    rf"(?:is|was|are|were|has|had|can|will|[a-z]+(?:s|ed)|{'|'.join(sorted(PAST))})\b"
)
"""Openings of a statement: the user or a possession, a thing, or a name and a verb. "Help me" asks for something."""
_LOOSE = pattern(
    r"\b(?:it|its|it's|this(?! (?:year|month|spring|summer|fall|autumn|winter)\b)|these|those|there|they're|"
    r"that (?:pic|one|time|place|way)|ones?(?![ -](?:minute|hour|day|week|month|year)\b))\b|, [A-ZÀ-Þ]\w+$|"
    r"\b(?:so|super|such|really|truly|awesome|amazing|cool(?:est)?|rad|cute|inspir\w+|legendary|lucky|glad|grateful|proud|"
    r"excited|stoked|thrilled|fun|wild|incredible|unreal|blast|love[sd]? (?:that|how)|indeed|"
    r"great time|nice chat|cheers|painting|picture|photo)\b|"
    r"\b[Ww]e (?!had|got|went|bought|met|moved|took|made|[a-z]+ed\b)|\bcheck (?:it )?out\b",
)
"""Small talk: words that point outside the sentence, praise, moods, and a name in address at the end."""
_HABIT = pattern(
    r"I(?:'ve| have)? (?:(?:still|\w{2,12}ly) )?"
    r"(?:always|never|prefer|avoid|keep|stick|refuse|insist|stopped|switched|quit)\b"
)
MIN_HABIT_WORDS = 8
"""Minimum words for a sentence about a habit or preference to be kept although it has no number, name or title."""
_UNCLEAR = pattern(
    r"(?:It|It's|This|That|That's|These|Those|There|There's|He|She|They|He's|She's|They're|His|Her|Their|Its|So|And|But|"
    r"Or|Which|What|How|Where|Why|Who|Let|Let's|Can|Could|Please|Thanks|Do|Does|Did|Is|Are|Was|Were|Any|If|Yes|No|"
    r"Not|Also|Maybe|Perhaps|Same|Then|Now|"
    r"Just|Last|Wow|Yeah|Glad|Congrats|[A-Z][a-z]+ing|Honestly|Some|Most|Many|All|Both)\b"
    rf"|(?:{_PREPOSITIONS})\b(?! [^,]{{2,60}}(?:, [^,]{{2,30}})?, (?:I|I'm|I've|my)\b|{_FRONTED} (?:I|I'm|I've|my)\b)"
    r"|.{0,300}(?:\band (?:I|me)\b|, [A-Z][\w'-]+ (?:(?:always|never|usually|often) )?[a-z]+s\b)"
)
"""First words of sentences that need the one before them or ask for something; also sentences with two subjects."""
_ATTRIBUTE = pattern(
    rf"(?P<owner>{USER}|[A-Z][\w-]+(?: [A-Z][\w-]+)?)'s "
    r"(?:(?:latest|current|new|actual|correct|usual|own|main|primary|confirmed|preferred|updated|official) )*"
    r"(?P<noun>(?:[\w'-]+ ){0,4}?[\w'-]+) (?:(?:for|at|in|of|here|there)\b.{0,40}? )?(?:now |currently )?"
    r"(?:actually )?(?:is|(?:(?:was|got|has been) )?(?:changed|moved) to)\b"
)
"""A possession with a value; adjectives such as "latest" do not change the attribute."""
_OPENING = pattern(
    r"(?:(?:so )?first off|first|second|separately|turns out|also|yes|yeah|actually|"
    r"(?:please )?(?:remember|note|keep in mind)(?: that)?)(?:,| ?[—–-]| that\b)? (?:actually |— )?"
    r"|[a-z][^,.:—–]{2,50}(?: ?[—–]|:) ?(?=(?:I|I'm|I've|my|our|we)\b|[A-Z])",
    re.IGNORECASE,
)
"""Words before the statement: "Also,", or a short heading such as "One more thing about the lease:"."""
_OWN = pattern(r"(?:I|I'm|I've|My|Our|We|We're|We've|The|An?)\b")
_AS_SUBJECT = pattern(
    r"^(?:(His|Her|Their) (?=[a-z])|(?:He|She|They)(?= (?:is|was|has|had|[a-z]+(?:s|ed))\b))", re.IGNORECASE
)
_SOMEBODY = pattern(r"\b(?:his|hers?|him|he|she|they|them|theirs?)\b", re.IGNORECASE)
_AHEAD = pattern(
    r"\b(?:going to|gonna|plan(?:s|ning|ned)? (?:to|on)|hop(?:e|es|ing)|will|won't|want(?:s|ed)? to|wondering|"
    r"think(?:ing)?|guess|believe|suppose|considering|might|"
    r"need(?:s|ed)? to|trying to|look(?:ing)? (?:for|at|into)|not sure|forget|remember|"
    r"delete|remove|next (?:week|month|year|quarter)|soon|eventually|supposedly|apparently|allegedly|"
    r"the (?:question|problem|thing|point))\b|'ll\b|n't\b",
    re.IGNORECASE,
)
"""Plans, wishes, guesses, denials and requests: nothing of this is true yet."""
_OF_OTHERS = pattern(
    r"\b(?:said|says|saying|told|tells|texted|e-?mailed|mentioned|announced|claims?|claimed|heard|recommend(?:s|ed)|"
    r"suggest(?:s|ed)|offered|sent|"
    r"posted|forwarded|talked|chatted|discussed|confirmed (?:that|they|it|we|she|he|I|my))\b",
    re.IGNORECASE,
)
"""Verbs of reports: another person vouches for the statement, not the user."""

_VERB = frozenset((*THIRD, *BASE, *PAST, *GERUND)) | word_set(
    "is are was were be been has have had do does did can could will must may"
)
_WITHOUT_VERB = word_set("no not never only always at max maximum minimum")
"""Beginnings of a rule without a verb: "no peanuts for Ana"."""


def with_specifics(sentence: str, facts: Sequence[StatedFact], person: str | None = None) -> list[StatedFact]:
    """Return the facts of a sentence; the whole sentence replaces facts that leave out its exact words.

    Facts with a slot are kept in addition: they give the current value. `person` is the only person named so far (or
    None): a pronoun at the start of the sentence means that person.
    """
    whole = _whole(sentence, person)
    if whole is None:
        return [*facts]
    # The sentence adds nothing if the facts have all of its exact words.
    exact = set(stems(" ".join(EXACT.findall(whole)), stop=False))
    if facts and exact <= set(stems(" ".join(fact.text for fact in facts), stop=False)):
        return [*facts]
    of_whole = set(stems(whole, stop=False))
    # Facts that the sentence contains in full would be repeated beside it.
    others = [fact for fact in facts if fact.slot or not set(stems(fact.text, stop=False)) <= of_whole]
    category = facts[0].category if facts else "other"
    return [*others, StatedFact(whole, category, None if others else attribute_slot(whole))]


def attribute_slot(text: str) -> Slot | None:
    """Return the slot of a sentence such as "The user's latest score is 721"; None for relatives, who may be many."""
    match = _ATTRIBUTE.match(text)
    if match is None or re.search(rf"\b{RELATION}s?\b", match["noun"]):
        return None
    attribute = " ".join(stems(match["noun"], stop=False))
    return of_user(attribute) if match["owner"] == USER else Slot(match["owner"].lower(), attribute)


def _whole(sentence: str, person: str | None) -> str | None:
    """Return the sentence in the third person; None if it names nothing exact or states nothing certain.

    `person`: see `with_specifics`.
    """
    text = strip_lead_in(sentence).strip()
    if opening := _OPENING.match(text):
        text = text[opening.end() :]
    if person is not None:
        text = _AS_SUBJECT.sub(lambda pronoun: f"{person}'s " if pronoun[1] else person, text, count=1)
    text = capitalised(text)
    # A sentence that asks, opens unclearly or addresses the assistant is no statement that stands alone.
    if text.endswith("?") or _UNCLEAR.match(text) or not _STARTS.match(text) or YOU.search(text):
        return None
    if not certain(text):
        return None
    if _LOOSE.search(text.rstrip(" .!")):
        return None
    if EXACT.search(text) is None and not (_HABIT.match(text) and len(text.split()) >= MIN_HABIT_WORDS):
        return None
    somebody = _SOMEBODY.search(text)
    if somebody is not None and _OWN.match(text) and not re.search(RELATION, text[: somebody.start()]):
        return None  # nobody was named whom the pronoun could mean
    line = in_third_person(text.rstrip(" .!"))
    if (
        not line
        or re.search(r"\bI\b", line)
        or not has_verb(line)
        or len(line) > MAX_CHARACTERS
        # A date beside two words is the answer to a question that is not stored.
        or len(stems(DATE.sub("", line))) < MIN_STEMS
    ):
        return None
    return f"{line[0].upper()}{line[1:]}"


def certain(sentence: str) -> bool:
    """Return whether a sentence states something as true: it asks, supposes, plans, denies or reports nothing."""
    unsure = sentence.endswith("?") or is_supposed(sentence) or is_reported(sentence)
    return not (unsure or _AHEAD.search(sentence) or _OF_OTHERS.search(sentence))


def has_verb(text: str) -> bool:
    """Return whether a text has a verb, and so states something: "Ana's flight BA 12" does not."""
    words = re.findall(r"[\w'’-]+", text.lower())
    return words[0] in _WITHOUT_VERB or any(word in _VERB or word.endswith(("n't", "ed")) for word in words)


# -- replies that restate: "I've updated Ana's phone number to 555-0100" ---------------------------
# A reply names what the user only points at ("her number is 555-0100"). It shows what the user's words are about and is
# no source: the user has to state the value as true, in one sentence, and to use a word of what the reply says has it.

_OWNER = (
    r"(?P<owner>[Yy]our|(?!(?:It|That|This|Here|There|What|Who|He|She|Let)'s)[A-Z][\w-]{1,25}(?: [A-Z][\w-]{1,25})?'s)"
)
_WHAT = rf"{_OWNER} (?P<what>(?:[\w/-]+ ){{0,5}}?[\w/-]+)"
_UPDATED = (
    r"(?P<value>[^\s,;:—–()][^;:—–()]{0,80}?)"
    r"(?= ?[;:—–(]|[.!]?$|, | (?:instead|rather|which|based|per|because|since|as of|reflecting|effective|"
    r"and|so|for|going forward|after|following|in (?:my|your|our)|according|from)\b)"
)
_RESTATEMENTS = (
    pattern(
        rf"\bI(?:'ve| have|'ll)?(?: now| just)? (?:updated?|changed?|corrected?|switched|moved?|set) {_WHAT}(?: back)?"
        rf"(?: from (?P<former>[^,;]{{1,60}}?))?(?: back)? to {_UPDATED}"
    ),
    pattern(rf"(?:^|[,:—–] ?|\bthat |\bso )(?:[Ss]o )?{_WHAT} (?:is|remains)(?: now| currently| actually)? {_UPDATED}"),
)
_UNSURE = pattern(
    r"\b(?:if|may|might|could|would|should|once|until|unless|when|pending|possibl[ey]|potential|tentative|unconfirmed|not|"
    r"maybe|perhaps|probably|sounds|seems|will)\b|n't\b|\?"
)
_YOUR = pattern(r"\byour\b")
_LONGEST_SENTENCE = 240


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
        if len(sentence) > _LONGEST_SENTENCE or _UNSURE.search(sentence):
            continue
        match = next(filter(None, (form.search(sentence) for form in _RESTATEMENTS)), None)
        if match is None or not EXACT.search(f"- {match['value']}"):
            continue
        value = set(stems(match["value"]))
        shared = set(stems(match["what"])) & set(stems(message))
        if value and shared and any(value <= words for words in stated):
            owner = f"{USER}'s" if match["owner"].lower() == "your" else match["owner"]
            line = _YOUR.sub("the user's", f"{owner} {match['what']} is {match['value']}")
            former = match.groupdict().get("former")
            yield StatedFact(f"{line}, not {former}" if former else line, "other", attribute_slot(line))

"""Word the facts of the offline rules: in the third person, with their slot, and only if they make sense alone. Pure.

Rules find what a sentence states; the check of its sense comes last, for the facts of all rules. "Loves the smell",
"wants to pass it on" and "got great news" are statements, but nobody can say later what they were about.
"""

import re
from dataclasses import dataclass

from memory_core.models.offline.grammar import (
    CAPITAL,
    DATE,
    MONEY,
    NAME,
    NUMBER,
    PAST,
    RELATION,
    TASTES,
    THIRD,
    TIME,
    USER,
    ParsedClause,
    pattern,
    word_set,
)
from memory_core.planning import slots
from memory_core.planning.slots import Slot

# -- sense -----------------------------------------------------------------------------------------

_EMPTY = word_set(
    """
    a an the some any this that these those each every all both no none one two three four five six seven eight nine
    ten other others another such same enough several various certain multiple couple my mine our ours his her hers
    its their theirs own me us him them it i we he she they myself themselves ourselves itself user user's group
    group's everyone everybody someone somebody anyone anybody anything everything something nothing whatever what
    which who whom whose where when why how whether if than as and or but so nor yet then there here now about above
    across after against along among around at away back before behind below between beyond by down during except
    for from in inside into like near of off on onto out outside over past since through throughout till to toward
    towards under until up upon via with within without due because am is are was were be been being have has had
    having do does did doing done can could will would shall should may might must get gets got getting gotten make
    makes made making take takes took taking taken go goes went going gone come comes came coming keep keeps kept
    keeping give gives gave giving put puts putting let lets try tries tried trying start starts started starting
    begin began see sees saw seeing seen look looks looked looking feel feels felt feeling feelings think thinks
    thought thinking thoughts know knows knew knowing known find finds found finding want wants wanted need needs
    needed hope hopes hoped hoping plan plans planning use uses used using show shows showed showing tell tells told
    telling say says said saying happen happens happened happening help helps helped helping share shares shared
    sharing enjoy enjoys enjoyed enjoying love loves loved loving likes liked savor savour cherish appreciate
    embrace experience experiences experienced experiencing work works worked working not never always ever often
    usually sometimes still just really very too also even only quite pretty rather almost already again more most
    much many lot lots ton tons bunch load loads plenty few less least little bit kinda sorta kind kinds sort sorts
    type types piece far well better best worse worst hard soon later together else instead maybe perhaps definitely
    certainly absolutely totally actually finally currently recently lately today tonight tomorrow yesterday usual
    good great nice amazing awesome cool fun fantastic wonderful incredible lovely beautiful gorgeous stunning
    perfect excellent exciting excited interesting interested special important big huge small large tiny new old
    young different difficult easy tough long short right wrong true real whole fresh hot top major main positive
    negative strong happy nuts stay stays staying stop stops gains skill somewhere name names word words rookie
    beginner patient optimistic upbeat hopeful determined calm focused motivated newbie novice someone's pictures
    turn steps care advantage nap guess shower distance deal story stories joke jokes secret result improvement
    improvements sad proud glad sure lucky cute sweet funny crazy weird unique inspiring creative meaningful
    memorable fulfilling rewarding unreal challenging similar possible next last first second final able ready free
    busy open okay ok fine deep deeper quick full close closer particular general overall simple basic specific
    honest thing things stuff news blast vibe vibes time times day days week weeks weekend weekends month months
    year years hour hours minute minutes moment moments while way ways idea ideas view views memory memories bond
    bonds journey journeys adventure adventures step goal goals dream dreams problem problems trouble troubles
    question questions answer answers point points part parts place places chance chances opportunity opportunities
    sense fact reason reasons results change changes difference impact progress success challenge challenges stage
    phase level side end case matter issue issues situation situations event events atmosphere energy support
    connection suggestion suggestions advice recommendation recommendations tip tips method methods decision
    decisions topic topics conversation chat talk person self life world joy happiness positivity confidence
    confident inspiration motivation passion excitement peace shape details detail spot shot picture photo photos
    pic number amount rest break treat surprise mess pleasure honor honour hit blessing believer reminder head foot
    mistake mistakes effort efforts attention fan everything's option options
    """
)
"""Words that identify nothing: grammar, praise, quantity, and nouns that only refer to something else."""
_WORD = pattern(r"[^\W\d_][\w'-]*|\d+")
_PLURAL = pattern(
    r"\b(?:people|folks|kids|children|parents|men|women|and [A-Z]\w+|"
    r"(?!(?:day|week|month|year|hour|minute|time|mile|euro|dollar|pound)s)\w{2,}[^s\W]s)\b",
    re.IGNORECASE,
)
_SINGULAR = pattern(rf"\b(?:an?|the|user's|one|every|each|another) [a-z]|\b{NAME}\b")
_SOMEBODY = pattern(
    rf"\b(?:{RELATION}|man|woman|boy|girl|guy|lady|author|writer|artist|singer|actor|actress)\b|"
    rf"(?<!\ba )(?<!\ban )(?<!\bthe )\b{NAME}\b"
)
_PRONOUN = pattern(
    r"\b(?:(?P<many>they|them|their|theirs)|(?P<thing>it|its|it's|itself)|"
    r"(?P<one>he|him|his|she|her|hers|himself|herself)|(?P<place>there)|"
    r"(?P<never>each other|one another|such(?! as [\w\"“])|(?:that )?same|similar(?! to)|then|this|these|those|"
    r"(?:an?|the|new|old|other|another|better|bigger|smaller|different) ones?|"
    r"that(?= (?:one|kind|sort|way|day|moment|place|to|in|on|for|with|by|at|into|from|as)\b)))\b"
    r"(?! (?:morning|week|month|year|weekend|spring|summer|autumn|fall|winter|afternoon|evening|who|days?)\b)",
    re.IGNORECASE,
)
_ASIDE = pattern(r"\b(?:with|for|to|of|about|from|at|on|by|into|after|before|around) (?:them|it)$", re.IGNORECASE)
"""Pronouns beside the verb that seldom refer to something in the same sentence."""
_POINTING = pattern(
    r"^(?:about )?(?:how|what|why|where|when|whether|the way|some(?:one|body|thing|where)|"
    r"always|usually|often|sometimes|also)\b|^more [\w-]+$|"
    r"(?:^|\b(?:about|of|with|for|to|in|on|at|into|around|from|by|over|during|after|before|through|like|loves?|"
    r"likes?|and|but) )that\b",
    re.IGNORECASE,
)
_LOOSE_END = pattern(
    r"(?:^|[\s,])(?:to|with|about|of|for|from|at|fan|where|how|what|which|whose|whether|than|like|as|such|feeling|idea|"
    r"fact|the|an?|is|are|was|my|by|on|in|into|and|or|but|if|because|not|very|so|too|that|one|ones|some|same|another|"
    r"most|mine|usual|sure|especially|(?:what|which|whose) \w+|understand|ensure|avoid|explain|make|get|"
    r"give|let|keep|say|see|\w{1,20}'s)$",
    re.IGNORECASE,
)
"""Endings of a thought that was cut off, and words that refer to something said elsewhere."""
_BARE_DEFINITE = pattern(
    r"(?:(?:all|both|of|about|for|with|into|like|\w+ing) )*the (?!user)(?:[a-z]+ of the )?(?:[\w'-]+ )?"
    r"(?P<noun>[a-z'-]+)"
    r"(?: and (?:the )?[\w'-]+(?: [\w'-]+)?)?(?: to (?:"
    + "|".join(["be", "have", "do", "find", "help", "show", *THIRD])
    + r")\b.*)?$"
)
"""An object that needs an earlier sentence to be understood: "the smell", "all the yellow leaves"."""
_ONLY_ONE = pattern(
    r"piano|guitar|violin|viola|cello|flute|drums?|saxophone|trumpet|clarinet|harp|ukulele|gym|beach(?:es)?|sea|ocean|"
    r"mountains?|outdoors?|countryside|woods|forest|desert|city|park|library|hospital|doctor|dentist|vet|cinema|movies|"
    r"theat(?:er|re)|opera|museums?|zoo|bus|train|metro|subway|tram|mornings?|evenings?|afternoons?|night|weekends?|"
    r"army|navy|police|news|radio|internet|environment|future|past|rain|snow|sun|cold|heat|summer|winter|spring|"
    r"autumn|fall|stars?|sky|moon|lottery|house|kitchen|garden|office|nineties|eighties|seventies|sixties|stress|"
    r"\w+'s|poor|elderly|homeless|community|law|truth|bible|classics|bill|rent|mortgage|dishes|laundry"
)
_OPEN_MARK = pattern(r"^[^\"]*(?:\"[^\"]*\"[^\"]*)*\"[^\"]*$|^[^`]*(?:`[^`]*`[^`]*)*`[^`]*$|^[^“”]*“[^”]*$|\([^)]*$")


def specific(rest: str) -> bool:
    """Return whether `rest` names anything: not only "some great news" or "everything just right"."""
    # A date, a time or an amount is specific without any other word.
    if DATE.search(rest) or TIME.search(rest) or MONEY.search(rest):
        return True
    return any(word.lower() not in _EMPTY for word in _WORD.findall(rest))


def stands_alone(subject: str, rest: str) -> bool:
    """Return whether `rest`, said of `subject`, can be understood without the sentences around it."""
    if not rest or rest.lower() == subject.lower() or any(p.search(rest) for p in (_OPEN_MARK, _POINTING, _LOOSE_END)):
        return False
    # "The smell" needs a sentence before it, unless everybody knows which is meant, as with "the beach".
    bare = _BARE_DEFINITE.fullmatch(rest)
    if bare and not _ONLY_ONE.fullmatch(bare["noun"]):
        return False
    return all(_resolved(match, subject, rest) for match in _PRONOUN.finditer(rest))


def _resolved(pronoun: re.Match[str], subject: str, rest: str) -> bool:
    """Return whether something before a pronoun, in the same fact, can be its antecedent."""
    # Beside a preposition at the end the pronoun seldom means something in the same fact.
    if pronoun.lastgroup in ("many", "thing") and _ASIDE.search(rest[: pronoun.end()]):
        return False
    before = rest[: pronoun.start()].rpartition(" ")[0].rpartition(" ")[0]  # without the word before the pronoun
    # "They" and "it" never mean the user; "he" and "she" may mean another subject of the fact.
    other_subject = subject.lower() not in ("the user", "the user's group")
    match pronoun.lastgroup:
        case "many":
            return bool(_PLURAL.search(before)) or (other_subject and bool(_PLURAL.search(subject)))
        case "thing":
            return bool(_SINGULAR.search(before)) or (other_subject and not _SOMEBODY.search(subject))
        case "one":
            return other_subject or bool(_SOMEBODY.search(before))
        case "place":
            return bool(re.search(rf"\b{NAME}\b", before))
    # "This", "the same" and the like always point outside of the fact.
    return False


# -- wording ---------------------------------------------------------------------------------------

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


def fact(statement: ParsedClause, category: str, slot: Slot | None = None) -> StatedFact | None:
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


def slot_of(statement: ParsedClause, attribute: str) -> Slot:
    return Slot(slug(statement.subject), attribute)


def named_slot(statement: ParsedClause) -> Slot:
    """Return the slot named by the subject itself: "The user's favourite colour"."""
    return Slot.read(slug(statement.subject))


def dated_slot(statement: ParsedClause) -> Slot | None:
    # A date, a time, a price and a place of one thing do not contradict each other, so each has a slot.
    attribute = next((attribute for attribute, shape in _DATED if shape.search(statement.rest)), None)
    return None if attribute is None else slot_of(statement, attribute)


_DATED = (
    (slots.DATE, DATE),
    (slots.TIME, TIME),
    (slots.PRICE, MONEY),
    (slots.PLACE, pattern(rf"^(?:now )?(?:at|in) (?:the )?{NAME}")),
)

"""Check that a fact makes sense on its own: it names something and depends on no other sentence. Pure.

Rules find what a sentence states; this check comes last, for the facts of all rules. "Loves the smell", "wants to
pass it on" and "got great news" are statements, but nobody can say later what they were about.
"""

import re

from memory_core.models.offline.grammar import NAME, RELATION, THIRD, word_set
from memory_core.models.offline.patterns import pattern
from memory_core.models.offline.vocabulary import DATE, MONEY, TIME

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

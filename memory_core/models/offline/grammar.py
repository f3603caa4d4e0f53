"""Grammar that turns a clause into a statement about a subject, and the words that the rules know. Pure.

    clause      "I've always loved jazz"          "my sister Ana lives in Porto"
    statement   subject "The user", verb "love"   subject "The user's sister", verb "live"

Only the verbs of `_FORMS` are known, and every pattern is anchored at the start of the clause, so that a clause of
another shape gives nothing. `fact_rules.py` decides which statements are facts.
"""

import re
from dataclasses import dataclass
from typing import Any, cast

# -- patterns --------------------------------------------------------------------------------------
# Regular expressions that are compiled at their first use. The offline rules have 150 of them. Compiling all takes
# 0.1 s, which would delay the app's first page.


def pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    r"""Compile a pattern lazily; errors in `text` surface at its first use.

    >>> pattern(r"\d+").findall("3 of 10")
    ['3', '10']
    """
    return cast("re.Pattern[str]", _Pattern(text, flags))


class _Pattern:
    def __init__(self, text: str, flags: int) -> None:
        self._given = (text, flags)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # `copy` asks for these before any attribute is set
            raise AttributeError(name)
        value = getattr(re.compile(*self._given), name)
        setattr(self, name, value)  # later accesses find it without `__getattr__`
        return value


USER = "The user"
GROUP = "The user's group"


def word_set(text: str) -> frozenset[str]:
    """Return the words of a list written as running text."""
    return frozenset(text.split())


NAME = r"[A-ZÀ-ÖØ-Þ][a-zà-öø-ÿ-]{1,25}"
"""Pattern of one word of a name; the words in `NOT_NAMES` are capitalised for other reasons."""
NOT_NAMES = word_set(
    """
    the this that these those there here it he she they we you my your his her our their its what which who
    when where why how yes no not and but or so if then also well oh okay ok hi hello hey thanks thank please
    sorry great good nice today tomorrow yesterday tonight now later soon recently lately monday tuesday
    wednesday thursday friday saturday sunday january february march april may june july august september
    october november december everyone everybody someone somebody nobody nothing everything something anyone
    all some most many one two three both each every any dinner lunch breakfast work life music movies books
    food nature weather people friends actually maybe perhaps just really never always sometimes usually only
    even still let let's god remember note keep call after before because while since although though as at by
    for from in on of to with without being having doing going haha hmm wow definitely absolutely certainly
    sure right alright exactly indeed of course hopefully ai
    """
)

_FORMS = """
like likes liked liking | love loves loved loving | enjoy enjoys enjoyed enjoying
prefer prefers preferred preferring | hate hates hated hating | dislike dislikes disliked disliking
adore adores adored adoring | collect collects collected collecting | live lives lived living
move moves moved moving | come comes came coming | grow grows grew growing | work works worked working
study studies studied studying | teach teaches taught teaching | run runs ran running | own owns owned owning
drive drives drove driving | speak speaks spoke speaking | play plays played playing
practise practises practised practising | practice practices practiced practicing
exercise exercises exercised exercising | cook cooks cooked cooking | bake bakes baked baking
read reads read reading | write writes wrote writing | paint paints painted painting | draw draws drew drawing
listen listens listened listening | watch watches watched watching | eat eats ate eating
drink drinks drank drinking | smoke smokes smoked smoking | take takes took taking | use uses used using
go goes went going | visit visits visited visiting | travel travels traveled traveling | buy buys bought buying
get gets got getting | make makes made making | try tries tried trying | attend attends attended attending
learn learns learned learning | register registers registered registering | book books booked booking
meet meets met meeting | finish finishes finished finishing | start starts started starting
begin begins began beginning | join joins joined joining | adopt adopts adopted adopting
lose loses lost losing | sell sells sold selling | graduate graduates graduated graduating
retire retires retired retiring | pass passes passed passing | fail fails failed failing | win wins won winning
quit quits quit quitting | break breaks broke breaking | celebrate celebrates celebrated celebrating
plant plants planted planting | climb climbs climbed climbing | hike hikes hiked hiking | see sees saw seeing
plan plans planned planning | want wants wanted wanting | hope hopes hoped hoping
intend intends intended intending | need needs needed needing | decide decides decided deciding
prepare prepares prepared preparing | pay pays paid paying | bring brings brought bringing
park parks parked parking | arrive arrives arrived arriving | leave leaves left leaving
cost costs cost costing | open opens opened opening | close closes closed closing
suffer suffers suffered suffering | feel feels felt feeling | miss misses missed missing
turn turns turned turning | marry marries married marrying | swim swims swam swimming | ski skis skied skiing
sing sings sang singing | dance dances danced dancing | train trains trained training
volunteer volunteers volunteered volunteering | save saves saved saving | look looks looked looking
think thinks thought thinking | consider considers considered considering
participate participates participated participating | receive receives received receiving
discover discovers discovered discovering | apply applies applied applying
organise organises organised organising | organize organizes organized organizing
manage manages managed managing | spend spends spent spending | experience experiences experienced experiencing
rent rents rented renting | commute commutes commuted commuting | order orders ordered ordering
reserve reserves reserved reserving | travelled travels travelled travelling
photograph photographs photographed photographing | raise raises raised raising
complete completes completed completing | set sets set setting | build builds built building
create creates created creating | pick picks picked picking | share shares shared sharing
tend tends tended tending | host hosts hosted hosting | invite invites invited inviting
wear wears wore wearing | avoid avoids avoided avoiding | know knows knew knowing
struggle struggles struggled struggling | happen happens happened happening | keep keeps kept keeping
say says said saying | walk walks walked walking
"""
_PARTICIPLES = {
    "seen": "see", "eaten": "eat", "written": "write", "drawn": "draw", "driven": "drive", "spoken": "speak",
    "gone": "go", "been": "be", "taken": "take", "begun": "begin", "grown": "grow", "gotten": "get", "run": "run",
    "broken": "break", "become": "become", "come": "come", "sung": "sing", "swum": "swim", "worn": "wear",
    "drunk": "drink", "known": "know",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ParsedClause:
    """Parsed clause: subject and predicate."""

    subject: str
    """Subject as written in a fact: `The user`, `Ana`, `The user's sister`, `The dinner`."""
    kind: str
    """Form of the verb: `be`, `have`, `present`, `past`, `perfect`, `gerund` (is doing), `modal`, `used` (used to)."""
    verb: str
    """Base form of the verb: `live`, `be`."""
    said: str
    """Verb with auxiliaries and adverbs, as it follows the subject: `no longer lives`, `is`, `has been learning`."""
    rest: str
    """Rest of the clause, as the user wrote it."""
    negated: bool = False

    def text(self, rest: str | None = None) -> str:
        """Return the statement as a sentence without a full stop; `rest` replaces that of the statement."""
        return " ".join(filter(None, [self.subject, self.said, self.rest if rest is None else rest]))


def _verb_tables() -> tuple[dict[str, str], dict[str, str], dict[str, str], dict[str, str]]:
    third: dict[str, str] = {}
    past: dict[str, str] = {}
    gerund: dict[str, str] = {}
    base: dict[str, str] = {}
    for row in re.split(r"[|\n]", _FORMS):
        forms = row.split()
        if len(forms) == 4:
            # British spellings have a row of their own, which belongs to "travel" too.
            lemma = "travel" if forms[0] == "travelled" else forms[0]
            third[lemma] = forms[1]
            base[forms[1]] = lemma
            past[forms[2]] = lemma
            gerund[forms[3]] = lemma
    return third, base, past, gerund


THIRD, BASE, PAST, GERUND = _verb_tables()

_ADVERBS = (
    "really|also|just|mostly|mainly|especially|absolutely|particularly|currently|now|actually|recently|totally|generally|"
    "basically|already|quite|finally|both|definitely|certainly|truly|simply|very much|always|usually|often|sometimes|"
    "still|never|only|normally|even|rarely|seldom|happily|officially|newly|lately|occasionally|mainly|mostly|deeply|"
    "strictly|severely|seriously|deathly|highly|hardly"
)
_KEPT_ADVERBS = word_set(
    """
    always usually often sometimes still never only normally rarely seldom strictly severely deathly highly
    hardly occasionally
    """
)
_LEAD_IN = pattern(
    r"(?:"
    r"(?:well|oh|hi|hello|hey|yes|yeah|yep|nope|haha|hmm|wow|okay|ok|alright|sure|right|so|and|but|also|"
    r"actually|anyway|"
    r"besides|in fact|by the way|for example|for instance|to be honest|honestly|frankly|apparently|luckily|fortunately|"
    r"unfortunately|sadly|thankfully|obviously|surprisingly|seriously|of course|thanks|please|now|lately|"
    r"recently|currently|these days|nowadays|today|yesterday|tonight|this (?:morning|afternoon|evening|"
    r"week|weekend|month|year)|"
    r"last (?:night|week|weekend|month|year|summer|winter|spring|autumn|fall)|at the moment|right now|personally|"
    r"generally|in general|in addition|additionally|usually|sometimes|often|good (?:morning|evening|afternoon)|fyi|"
    r"first of all|first off|firstly|to start(?: with)?|for context|for the record|"
    r"on (?:a|another) (?:\w+ )?note|(?:one|another) (?:more )?thing|quick update|"
    r"(?:i )?(?:just |also )*(?:want(?:ed)?|should|need) to (?:add|mention|note|point out|clarify)(?: that)?|"
    r"i mean|more importantly|then)\b[,!.:;]?"
    r"|(?:friend|my friend|(?:my )?ai companion|there|assistant|everyone|again|great|good|nice|no|sorry|thank you|"
    r"just so you know|correction|update|besides (?:this|that|it|\w{1,20}))[,!.:;]"
    r")\s{0,3}",
    re.IGNORECASE,
)
_DEPENDENT = pattern(
    r"(?:when|while|since|although|though|whenever|until|before|after|as|that|who|which|where|or)\b", re.I
)
_RELATIVE = (
    "mother|mom|mum|father|dad|parents|sister|brother|wife|husband|partner|girlfriend|boyfriend|fiancée?|son|daughter|kids|"
    "children|baby|aunt|uncle|cousin|niece|nephew|grandmother|grandma|grandfather|grandpa|grandparents|boss|manager|"
    "colleague|coworker|co-worker|roommate|flatmate|neighbou?r|friend|teacher|doctor|therapist|trainer|coach|mentor|"
    "sister-in-law|brother-in-law|mother-in-law|father-in-law|stepmother|stepfather|stepsister|stepbrother|twin|ex|"
    "classmate|landlord|landlady|in-laws|team|dog|cat|puppy|kitten|rabbit|parrot|horse|hamster|bird|fish|turtle|pet"
)
_WHICH_RELATIVE = (
    "older|younger|elder|eldest|youngest|big|little|twin|best|old|new|late|"
    "first|second|only|step|half|close|good|oldest"
)
RELATION = rf"(?:(?:{_WHICH_RELATIVE}) ){{0,2}}(?:{_RELATIVE})"
"""Somebody's relative, friend or pet: `older sister`, `dog`."""

_SUBJECT_WORDS = 6
"""Maximum words of a subject; the shortest subject that a known verb follows is taken."""
_SUBJECT_END = pattern(r"(?=,? |'(?:m|s|re|ve|ll) )")
_PRONOUN = pattern(r"(?:I|we|he|she|they|it)(?=[' ])", re.IGNORECASE)
_OPENING = pattern(rf"(?:my|our|the) |{NAME}(?=[ ,'])", re.IGNORECASE)
_AFTER_S = pattern(
    r"(?:not|a|an|the|my|from|in|on|at|allergic|vegetarian|vegan|pregnant|married|single|\w{2,15}ing|\d{1,2})\b"
)
"""Words after the `'s` of a name that make it an "is" and not a possessive."""
_OF_MANY = pattern(r"'m|am|(?:'re|are|were|'ve|have|do)(?:n't| not)?")
"""Verb forms that a single person or thing cannot have."""
_PREDICATE = pattern(
    rf"(?P<lead>(?: (?:{_ADVERBS})\b){{0,3}})"
    r"(?:"
    r"(?P<be>'m|'re|'s| am| are| is| was| were)\b(?P<not1> not|n't)?|"
    r"(?P<aren>(?: isn't| aren't| wasn't| weren't))\b|"
    r"(?P<have>'ve|'s(?= been)| have| has| had)\b(?P<not2> not|n't)?|(?P<haven> haven't| hasn't)\b|"
    r"(?P<dont> don't| doesn't| do not| does not| didn't| did not)\b|"
    r"(?P<modal> can't| cannot| can not| can| must not| mustn't| must| won't| will not| will|'ll)\b|"
    r"(?P<used> used to)\b|"
    r"(?P<nolonger> no longer)\b|)"
    rf"(?P<adverb>(?: (?:{_ADVERBS})\b){{0,3}})"
    r"(?P<been> been\b)?"
    rf"(?P<adverb2>(?: (?:{_ADVERBS})\b){{0,2}})"
    r"(?: (?P<verb>[A-Za-z]{2,15}))?(?=[ ,.!]|$)"
)


def strip_lead_in(clause: str) -> str:
    """Return `clause` without its opening words; a clause of nothing else is left as it is.

    >>> strip_lead_in("Well, actually, I live in Porto")
    'I live in Porto'
    """
    rest = clause
    # Several words may open a clause; the bound keeps the work linear.
    for _ in range(6):
        lead = _LEAD_IN.match(rest)
        # A clause of nothing but opening words stays as it is.
        if not lead or lead.end() == len(rest):
            break
        rest = rest[lead.end() :]
    return rest


def parse(clause: str, *, antecedent: str | None = None, thing: str | None = None) -> ParsedClause | None:
    """Parse `clause` into a statement; None when its form is not known.

    `antecedent` is the person meant by "he", "she" or "they" (None: unknown), and `thing` the thing meant by "it".
    """
    clause = strip_lead_in(clause)
    if _DEPENDENT.match(clause):
        return None
    # The shortest subject that a known verb follows is taken.
    for end in _subject_ends(clause):
        predicate = _PREDICATE.match(clause, end)
        if predicate is None:
            continue
        subject = _subject(clause[:end], antecedent, thing)
        if subject and (statement := _statement(subject, predicate, clause)):
            return statement
    return None


def _subject_ends(clause: str) -> list[int]:
    """Return possible ends of the subject: directly after a pronoun, else after each of the first words."""
    if pronoun := _PRONOUN.match(clause):
        return [pronoun.end()]
    if not _OPENING.match(clause):
        return []
    ends = [match.start() for match in _SUBJECT_END.finditer(clause[:160])][:_SUBJECT_WORDS]
    # "My", "our" and "the" are no subject by themselves.
    return ends[1:] if clause[:4].lower().startswith(("my ", "our ", "the ")) else ends


def _subject(words: str, antecedent: str | None, thing: str | None) -> str | None:
    """Return the subject as written in a fact; None when it is nobody in particular."""
    words = words.strip(" ,")
    low = words.lower()
    pronouns = {"i": USER, "we": GROUP, "he": antecedent, "she": antecedent, "they": antecedent, "it": thing}
    if low in pronouns:
        return pronouns[low]
    # Two subjects would need a fact each, and often a plural verb.
    if " and " in low or " or " in low or "," in low:
        return None
    if low.startswith(("my ", "our ")):
        noun = words.split(" ", 1)[1]
        named = re.fullmatch(rf"{RELATION},? ({NAME})", noun)
        # "My sister Ana" is named by her own name, so that later sentences about Ana join.
        if named and named[1].lower() not in NOT_NAMES:
            return named[1]
        return f"{USER}'s {noun}"
    if low.startswith("the "):
        return f"The {words[4:]}"
    first = re.match(NAME, words)
    if first is None or first[0].lower() in NOT_NAMES or re.fullmatch(r"\w{3,}ing", first[0]):  # "Hiking is fun"
        return None
    if named := re.fullmatch(rf"{NAME}'s {RELATION} ({NAME})", words):
        return named[1]
    return words if re.fullmatch(rf"{NAME}(?: {NAME}){{0,2}}|{NAME}'s [a-z -]{{2,40}}", words) else None


def _adverbs(adverbs: str | None) -> list[str]:
    return [word for word in (adverbs or "").split() if word in _KEPT_ADVERBS]


def _statement(subject: str, match: re.Match[str], clause: str) -> ParsedClause | None:
    """Return the statement of a predicate, with its verb in the third person."""
    word = (match["verb"] or "").lower()
    adverbs = _adverbs(match["lead"]) + _adverbs(match["adverb"]) + _adverbs(match["adverb2"])
    rest = clause[match.end() :].strip(" ,.!")
    whole = clause[match.start("verb") :].strip(" ,.!") if match["verb"] else rest
    negated = bool(
        match["not1"] or match["not2"] or match["aren"] or match["haven"] or match["dont"] or match["nolonger"]
    )
    # "Never" denies as "not" does.
    negated = negated or "never" in adverbs
    plural = _is_plural(subject)

    def join(*words: str) -> str:
        return " ".join(filter(None, words))

    adverb_words = " ".join(adverbs)
    auxiliary = match["be"] or match["aren"] or match["have"] or match["haven"] or match["dont"] or ""
    if not plural and not _PRONOUN.match(clause) and _OF_MANY.fullmatch(auxiliary.strip()):
        return None  # "Kids have fun", "Must have been cold": the subject is no name
    be = (match["be"] or match["aren"] or "").strip()
    if be:
        # "Ana's car" has no verb: this 's is no "is".
        possessive = be == "'s" and not (_PRONOUN.match(clause) or subject.endswith(" name") or _AFTER_S.match(whole))
        if possessive:
            return None
        past = be.startswith("w")
        form = ("were" if plural else "was") if past else ("are" if plural else "is")
        no = "not" if match["not1"] or match["aren"] else ""
        if match["been"]:  # "she's been"
            return None
        if word in GERUND and rest != "":
            return ParsedClause(subject, "gerund", GERUND[word], join(form, no, adverb_words, word), rest, negated)
        if not whole:
            return None
        return ParsedClause(subject, "was" if past else "be", "be", join(form, no, adverb_words), whole, negated)
    have = (match["have"] or match["haven"] or "").strip()
    if have:
        form = "had" if have == "had" else ("have" if plural else "has")
        no = "not" if match["not2"] or match["haven"] else ""
        if match["been"]:
            if word in GERUND:
                return ParsedClause(
                    subject, "gerund", GERUND[word], join(form, no, adverb_words, "been", word), rest, negated
                )
            return (
                ParsedClause(subject, "been", "be", join(form, no, adverb_words, "been"), whole, negated)
                if whole
                else None
            )
        if word in PAST or word in _PARTICIPLES:
            lemma = _PARTICIPLES.get(word) or PAST[word]
            return ParsedClause(subject, "perfect", lemma, join(form, no, adverb_words, word), rest, negated)
        return (
            ParsedClause(subject, "have", "have", join(adverb_words, form, no), whole, negated)
            if whole and have != "'ve"
            else None
        )
    if match["dont"]:
        past = match["dont"].strip().startswith("did")
        if word not in THIRD and word != "have":
            return None
        form = "did not" if past else ("do not" if plural else "does not")
        return ParsedClause(subject, "past" if past else "present", word, join(form, adverb_words, word), rest, True)
    if match["modal"]:
        form = {"can't": "cannot", "can not": "cannot", "won't": "will not", "'ll": "will", "mustn't": "must not"}.get(
            match["modal"].strip(), match["modal"].strip()
        )
        if word not in THIRD and word not in ("be", "have", "stand"):
            return None
        return ParsedClause(subject, "modal", word, join(form, adverb_words, word), rest, form.endswith("not"))
    # Not negated: the user did it in the past.
    if match["used"]:
        if word not in THIRD and word not in ("be", "have"):
            return None
        return ParsedClause(subject, "used", word, join(adverb_words, "used to", word), rest)
    if word == "read" and subject in (USER, GROUP) and not adverbs and re.match(r"(?:an?|the|about|this) |[\"“]", rest):
        return ParsedClause(
            subject, "past", "read", join(adverb_words, word), rest, negated
        )  # past and present look the same; a habit names no single book
    no = "no longer" if match["nolonger"] else ""
    if word in THIRD and (subject in (USER, GROUP) or plural):
        return ParsedClause(
            subject, "present", word, join(adverb_words, no, word if plural else THIRD[word]), rest, negated
        )
    if word in BASE and subject not in (USER, GROUP):
        return ParsedClause(subject, "present", BASE[word], join(adverb_words, no, word), rest, negated)
    # Last, as some past forms are also present ones: "read", "quit", "set".
    if word in PAST:
        return ParsedClause(subject, "past", PAST[word], join(adverb_words, no, word), rest, negated)
    return None


_SEVERAL = word_set("parents kids children friends grandparents sisters brothers in-laws people")


def _is_plural(subject: str) -> bool:
    """Return whether the subject is plural; a single word counts as a name."""
    last = subject.rsplit(" ", 1)[-1].lower()
    return (" " in subject and last in _SEVERAL) or (
        subject.startswith("The ") and last.endswith("s") and not last.endswith("ss") and subject != USER
    )


# -- words by which the rules judge a statement ----------------------------------------------------

MONTH = (
    "(?:January|February|March|April|May|June|July|August|September|October|November|December|"
    "Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Sept|Oct|Nov|Dec)"
)
WEEKDAY = "(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)"
DATE = pattern(
    rf"\b\d{{1,2}}(?:st|nd|rd|th)? (?:of )?{MONTH}\b|\b{MONTH} \d{{1,2}}(?:st|nd|rd|th)?\b|\b\d{{4}}-\d\d-\d\d\b|"
    rf"\b\d{{1,2}}/\d{{1,2}}\b|"
    rf"\b{WEEKDAY}s?\b|\b(?:tomorrow|tonight|next (?:week|month|year|spring|summer|autumn|fall|winter|weekend))\b|"
    rf"\b(?:in|of) {MONTH}\b|\bthe \d{{1,2}}(?:st|nd|rd|th)\b"
)
TIME = pattern(
    r"\b\d{1,2}(?:[:.]\d\d)? ?(?:am|pm|a\.m|p\.m|o'clock)\b|\b\d{1,2}:\d\d\b|\b(?:noon|midnight|"
    r"half past)\b|\bat \d{1,2}\b",
    re.IGNORECASE,
)
MONEY = pattern(
    r"[€$£] ?\d|\b\d[\d.,]{0,12} ?(?:k )?(?:euros?|dollars?|pounds?|francs?|yen|yuan|bucks|usd|eur|gbp|€|\$|£)",
    re.IGNORECASE,
)
NUMBER = pattern(
    r"\d|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|dozen|hundred|thousand)\b",
    re.IGNORECASE,
)
CAPITAL = pattern(rf"(?<![.!?] )\b(?!I\b|I'|AI\b|OK\b){NAME}\b|[\"“]")
LIMIT = pattern(
    r"\b(?:at most|at least|no more than|not more than|no later than|not later than|no earlier than|"
    r"not before|maximum|"
    r"minimum|up to|at the latest|under|below)\b",
    re.IGNORECASE,
)

TASTES = word_set(
    """
    like love enjoy prefer hate dislike adore
    """
)
HABITS = word_set(
    """
    work study live teach run own drive speak play collect practise practice exercise cook bake read write
    paint draw listen watch eat drink smoke take train volunteer swim ski sing dance commute rent travel walk
    wear avoid raise host suffer spend manage photograph
    """
)
DOINGS = word_set(
    """
    pay bring park come arrive leave organise organize book order cost start begin open close turn want need
    use go visit join plan
    """
)
"""Verbs of named people and things, in addition to habits and tastes."""
EVENTS = word_set(
    """
    go visit travel see watch buy get make attend learn register book meet finish start join adopt lose sell
    graduate retire pass fail win quit break celebrate plant climb hike read move cook bake run play
    participate receive discover apply organise organize order reserve complete build create host invite marry
    open try swim ski paint write eat study work live grow begin leave volunteer train raise photograph teach
    paint come arrive take drive bring wear spend
    """
)
UNDERWAY = word_set(
    """
    learn study read work plan prepare train save write move take visit travel build live suffer struggle
    consider organise organize celebrate host come bring pay arrive leave start begin book run play practice
    practise teach raise apply rent exercise meet paint draw get look think try go cook use spend attend
    collect feel see watch expect
    """
)
AIMS = word_set(
    """
    plan want hope intend need decide
    """
)

CONDITION = pattern(
    r"(?:not )?(?:an? )?(?:severely |deathly |highly |very |quite |slightly |strictly )?(?:allergic|"
    r"intolerant|lactose|gluten|vegetarian|vegan|"
    r"pescatarian|pescetarian|diabetic|pregnant|coeliac|celiac|asthmatic|anaemic|anemic|kosher|halal|"
    r"teetotal|colou?r-?blind|"
    r"blind|deaf|dyslexic|left-handed|sober)\b",
    re.IGNORECASE,
)
ILLNESS = pattern(
    r"(?:an? |the |some |severe |mild |bad |chronic |high |low |type \d ){0,3}(?:asthma|diabetes|"
    r"migraines?|insomnia|arthritis|adhd|allerg(?:y|ies)|"
    r"anxiety|depression|epilepsy|eczema|hypertension|blood pressure|back pain|knee|cancer|flu|cold|fever|"
    r"injury|headaches?|"
    r"heart condition|coeliac disease|celiac disease)\b",
    re.IGNORECASE,
)
FEELING = pattern(
    r"(?:a (?:bit|little) |very |so |really |quite |extremely |rather |under (?:a lot of |so much |"
    r"great )?(?:\w+ )?pressure|"
    r"more )?(?:stressed|anxious|tired|exhausted|lonely|depressed|sad|overwhelmed|nervous|worried|unwell|"
    r"sick|ill|down|low|"
    r"burn(?:t|ed) out|busy|procrastinating|pressure|unmotivated|confused|lost)\b|under (?:a lot of |"
    r"so much |great )?(?:\w+ )?pressure",
    re.IGNORECASE,
)
FONDNESS = pattern(
    r"(?:a (?:big |huge |great )?fan of|into|fond of|keen on|interested in|most interested in|"
    r"passionate about|obsessed with|crazy about|"
    r"good at|bad at|terrible at|afraid of|scared of|terrified of|allergic to|addicted to)\b",
    re.IGNORECASE,
)
STATUS = pattern(
    r"(?:not )?(?:married|single|engaged|divorced|widowed|separated|retired|unemployed|self-employed)\b", re.I
)
MARITAL = pattern(
    r"(?:not )?(?:married|single|engaged(?! (?:in|with)\b)|divorced|widowed|separated)(?![\w-])", re.IGNORECASE
)
BECAME = pattern(
    rf"(?:get (?:married|engaged|divorced|separated)(?: (?:to|from) {NAME}(?: {NAME})?)?|marry {NAME})"
    r"(?: (?:again|now|recently|just|yesterday|today|(?:last|this) (?:week|month|year)))?"
)
"""Verb in its base form, and words after it, that give a new marital status; one of an earlier year may be over."""
NATIONALITY = pattern(
    r"(?:half )?(?:American|Argentinian|Australian|Austrian|Belgian|Brazilian|British|Bulgarian|Canadian|"
    r"Chilean|Chinese|Colombian|"
    r"Croatian|Czech|Danish|Dutch|Egyptian|English|Estonian|Filipino|Finnish|French|German|Greek|Hungarian|"
    r"Icelandic|Indian|"
    r"Indonesian|Iranian|Irish|Israeli|Italian|Japanese|Jewish|Kenyan|Korean|Latvian|Lebanese|Lithuanian|"
    r"Malaysian|Mexican|"
    r"Moroccan|Muslim|Nigerian|Norwegian|Pakistani|Peruvian|Polish|Portuguese|Romanian|Russian|Scottish|"
    r"Serbian|Slovak|"
    r"Spanish|Swedish|Swiss|Syrian|Taiwanese|Thai|Turkish|Ukrainian|Vietnamese|Welsh|Catholic|Christian|"
    r"Buddhist|Hindu)\b"
)
OWN_NOUN = pattern(
    rf"(?:(?:[\w'-]{{1,20}} ){{0,3}})?(?:{RELATION}|name|age|birthday|anniversary|job|budget|limit|address|"
    rf"phone|phone number|car|bike|"
    r"house|flat|apartment|email|hobby|hobbies|hometown|home town|major|salary|flight|train|appointment|"
    r"interview|wedding|"
    r"surgery|exam|allergy|diet|company|deadline|dream|goal|native language|mother tongue|nationality|medication|"
    r"blood type|school|university|shift|rent|party|dinner|trip|holiday|vacation|plan)(?:'s (?:name|birthday|job))?",
    re.IGNORECASE,
)
FAVOURITE = pattern(r"favou?rite (?!ones?\b|thing\b|part\b)[\w' -]{2,40}", re.IGNORECASE)
FILLER_AIM = pattern(
    r"(?:to )?(?:chat|talk|ask|know|share|tell|say|brag|complain|vent|apologi[sz]e|admit|mention|add that|congratulate|"
    r"wait|double-check|notice|note|put|reali[sz]e|discuss|hear|thank|find|do|be|make|see|understand|try|take|check|follow|"
    r"keep|give|remember|have|think|rest|relax|look|hear|improve my(?:self)?|know|that|you|we|help|go now|"
    r"stop here)\b",
    re.IGNORECASE,
)

"""Facts from messages by rules, without a language model.

A rule reads one `Statement` (or one clause of a fixed shape, such as "keep it under 300 euros") and
gives facts about the user and the people and plans they name, in one form: "The user lives in Porto",
"Ana is allergic to nuts", "The dinner is on 14 March". Where no rule is sure, nothing is learned:
a fact that is missed can be added by hand, one that was never said should not exist.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from memory_core.messages import ChatMessage, MessageRole, TextPart
from memory_core.models.base import Condensation, ExtractedFact, Extraction
from memory_core.models.clauses import clauses
from memory_core.models.condensing import condense_by_rules
from memory_core.models.grammar import GROUP, NAME, NOT_NAMES, RELATION, THIRD, USER, Statement, parse, strip_lead_in
from memory_core.text import stems

FACT_CHARACTERS = 200
"""Longer statements are stories, not facts: they are left to the vector memory."""

_MONTH = (
    "(?:January|February|March|April|May|June|July|August|September|October|November|December|"
    "Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Sept|Oct|Nov|Dec)"
)
_WEEKDAY = "(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)"
_DATE = re.compile(
    rf"\b\d{{1,2}}(?:st|nd|rd|th)? (?:of )?{_MONTH}\b|\b{_MONTH} \d{{1,2}}\b|\b\d{{4}}-\d\d-\d\d\b|\b\d{{1,2}}/\d{{1,2}}\b|"
    rf"\b{_WEEKDAY}s?\b|\b(?:tomorrow|tonight|next (?:week|month|year|spring|summer|autumn|fall|winter|weekend))\b|"
    rf"\b(?:in|of) {_MONTH}\b|\bthe \d{{1,2}}(?:st|nd|rd|th)\b"
)
_TIME = re.compile(
    r"\b\d{1,2}(?:[:.]\d\d)? ?(?:am|pm|a\.m|p\.m|o'clock)\b|\b\d{1,2}:\d\d\b|\b(?:noon|midnight|half past)\b|\bat \d{1,2}\b",
    re.IGNORECASE,
)
_MONEY = re.compile(
    r"[€$£] ?\d|\b\d[\d.,]{0,12} ?(?:k )?(?:euros?|dollars?|pounds?|francs?|yen|yuan|bucks|usd|eur|gbp|€|\$|£)",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"\d|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|dozen|hundred|thousand)\b",
    re.IGNORECASE,
)
_CAPITAL = re.compile(rf"(?<![.!?] )\b(?!I\b|I'|AI\b|OK\b){NAME}\b|[\"“]")
_LIMIT = re.compile(
    r"\b(?:at most|at least|no more than|not more than|no later than|not later than|no earlier than|not before|maximum|"
    r"minimum|up to|at the latest|under|below)\b",
    re.IGNORECASE,
)

_TASTES = frozenset("like love enjoy prefer hate dislike adore".split())
_HABITS = frozenset(
    "work study live teach run own drive speak play collect practise practice exercise cook bake read write paint draw "
    "listen watch eat drink smoke take train volunteer swim ski sing dance commute rent travel walk wear avoid raise host "
    "suffer spend manage photograph".split()
)
_DOINGS = frozenset(
    "pay bring park come arrive leave organise organize book order cost start begin open close turn want need use go visit "
    "join plan".split()
)
"""What named people and things do, beside habits and tastes."""
_EVENTS = frozenset(
    "go visit travel see watch buy get make attend learn register book meet finish start join adopt lose sell graduate "
    "retire pass fail win quit break celebrate plant climb hike read move cook bake run play participate receive discover "
    "apply organise organize order reserve complete build create host invite marry open try swim ski paint write eat study "
    "work live grow begin leave volunteer train raise photograph teach paint come arrive".split()
)
_UNDERWAY = frozenset(
    "learn study read work plan prepare train save write move take visit travel build live suffer struggle consider "
    "organise organize celebrate host come bring pay arrive leave start begin book run play practice practise teach raise "
    "apply rent exercise meet paint draw get look think try go cook use spend attend collect feel see watch expect".split()
)
_AIMS = frozenset("plan want hope intend need decide".split())

_CONDITION = re.compile(
    r"(?:not )?(?:an? )?(?:severely |deathly |highly |very |quite |slightly |strictly )?(?:allergic|intolerant|lactose|gluten|vegetarian|vegan|"
    r"pescatarian|pescetarian|diabetic|pregnant|coeliac|celiac|asthmatic|anaemic|anemic|kosher|halal|teetotal|colou?r-?blind|"
    r"blind|deaf|dyslexic|left-handed|sober)\b",
    re.IGNORECASE,
)
_ILLNESS = re.compile(
    r"(?:an? |the |some |severe |mild |bad |chronic |high |low |type \d ){0,3}(?:asthma|diabetes|migraines?|insomnia|arthritis|adhd|allerg(?:y|ies)|"
    r"anxiety|depression|epilepsy|eczema|hypertension|blood pressure|back pain|knee|cancer|flu|cold|fever|injury|headaches?|"
    r"heart condition|coeliac disease|celiac disease)\b",
    re.IGNORECASE,
)
_FEELING = re.compile(
    r"(?:a (?:bit|little) |very |so |really |quite |extremely |rather |under (?:a lot of |so much |great )?(?:\w+ )?pressure|"
    r"more )?(?:stressed|anxious|tired|exhausted|lonely|depressed|sad|overwhelmed|nervous|worried|unwell|sick|ill|down|low|"
    r"burn(?:t|ed) out|busy|procrastinating|pressure|unmotivated|confused|lost)\b|under (?:a lot of |so much |great )?(?:\w+ )?pressure",
    re.IGNORECASE,
)
_FONDNESS = re.compile(
    r"(?:a (?:big |huge |great )?fan of|into|fond of|keen on|interested in|most interested in|passionate about|obsessed with|crazy about|"
    r"good at|bad at|terrible at|afraid of|scared of|terrified of|allergic to|addicted to)\b",
    re.IGNORECASE,
)
_STATUS = re.compile(
    r"(?:not )?(?:married|single|engaged|divorced|widowed|separated|retired|unemployed|self-employed)\b", re.I
)
_NATIONALITY = re.compile(
    r"(?:half )?(?:American|Argentinian|Australian|Austrian|Belgian|Brazilian|British|Bulgarian|Canadian|Chilean|Chinese|Colombian|"
    r"Croatian|Czech|Danish|Dutch|Egyptian|English|Estonian|Filipino|Finnish|French|German|Greek|Hungarian|Icelandic|Indian|"
    r"Indonesian|Iranian|Irish|Israeli|Italian|Japanese|Jewish|Kenyan|Korean|Latvian|Lebanese|Lithuanian|Malaysian|Mexican|"
    r"Moroccan|Muslim|Nigerian|Norwegian|Pakistani|Peruvian|Polish|Portuguese|Romanian|Russian|Scottish|Serbian|Slovak|"
    r"Spanish|Swedish|Swiss|Syrian|Taiwanese|Thai|Turkish|Ukrainian|Vietnamese|Welsh|Catholic|Christian|Buddhist|Hindu)\b"
)
_OWN_NOUN = re.compile(
    rf"(?:(?:[\w'-]{{1,20}} ){{0,3}})?(?:{RELATION}|name|age|birthday|anniversary|job|budget|limit|address|phone|phone number|car|bike|"
    r"house|flat|apartment|email|hobby|hobbies|hometown|home town|major|salary|flight|train|appointment|interview|wedding|"
    r"surgery|exam|allergy|diet|company|deadline|dream|goal|native language|mother tongue|nationality|medication|"
    r"blood type|school|university|shift|rent|party|dinner|trip|holiday|vacation|plan)(?:'s (?:name|birthday|job))?",
    re.IGNORECASE,
)
_FAVOURITE = re.compile(r"favou?rite [\w' -]{2,40}", re.IGNORECASE)
_VAGUE = re.compile(
    r"(?:to )?(?:(?:a|an|the|some|any|this|that|these|those|my|one|another|such|so|more|much|many|no|other|all|every|"
    r"great|good|small|little|few|lot of|very|really|different|same|two|certain) ){0,4}"
    r"(?:questions?|problems?|troubles?|idea|ideas|thoughts?|feelings?|suggestions?|advice|recommendations?|points?|look|minute|"
    r"moment|time|times|lot|bit|way|ways|chance|thing|things|something|anything|everything|nothing|methods?|tips?|sense|"
    r"it|them|him|her|here|there|so|both|one|this|that|these|those|others|myself|better|help|need|well|too|"
    r"confident|confidence|conversation|chat|topic|topics|what|how|why|whether|person|progress|decision|experience)\b(?!-)"
    r"(?!\s+(?:job|course|book|club|trainer|brother|sister|machine|off|called|named|of|in|with|abroad|from))",
    re.IGNORECASE,
)
_FILLER_AIM = re.compile(
    r"(?:to )?(?:chat|talk|ask|know|share|tell|say|discuss|hear|thank|find|do|be|make|see|understand|try|take|check|follow|"
    r"keep|give|remember|have|think|rest|relax|look|hear|improve my(?:self)?|know|that|you|we|help|go now|stop here)\b",
    re.IGNORECASE,
)
_CUT = re.compile(
    r",? (?:because|since (?:I|it|the|my|we|he|she|they|there)|but|although|though|which|so that|so|"
    r"as (?:it|they|I|the|there|these|this|those|he|she|that|a result|well as)|where|when|while|whenever|until I|"
    r"and (?:\w{1,15} )?(?:I|it|it's|they|we|he|she)|"
    r"and (?:now|then|was|were|is|are|am|have|had|has|feel|felt|would|feeling|found|realized|thought|hope|want)|"
    r"and [\w ]{1,40}? (?:can|is|are|was|were|will)|"
    r"that (?:is|was|I|are|it|makes|made|we)|hoping|in order|after all|it's|they're|I'm)\b.*$"
    r"|, (?:I|it|my|the|this|that|they|we|he|she|his|her|do|what|how|can|a variety|to name)\b.*$| [-–—(] ?.*$|:.*$",
)
_TAIL = re.compile(
    r"[ ,]{1,2}(?:too|as well|though|lately|recently|today|now|right now|at the moment|by the way|a lot|very much|so much|"
    r"please|you know|actually|yesterday|this morning|last night|tonight|again|these days|again and again|and so on|etc|"
    r"nowadays|instead|for now|and|or|this afternoon|this evening|just now|last weekend|last week)[.,! ]{0,3}$"
    r"|, (?:my )?friend$",
    re.IGNORECASE,
)
_LOOSE_END = re.compile(
    r"\b(?:it|that|this|them|those|these|to|with|about|of|for|from|at|in|where|how|what|whether|than|like|as|feeling|idea|"
    r"the|a|an|is|are|my|there|by|on|into)$|^(?:to|about|of|for|with|at|in)$",
    re.IGNORECASE,
)
"""What is left hanging when a thought was cut off, or points to something said elsewhere."""
_SECOND_VERB = re.compile(
    r"(?<=and )(?:eat|drink|watch|read|listen|cook|write|paint|go|make|take|try|play|work|swim)(?= )"
)
_ALONE = frozenset(
    "smoke drink run swim ski sing dance commute exercise volunteer paint draw cook bake drive teach".split()
)
"""Habits that need no object."""
_PERSON = {
    "my": "the user's", "mine": "the user's", "our": "the user's", "me": "the user", "myself": "themselves",
    "i": "the user", "us": "the user's group", "we": "the user's group", "i'm": "the user is", "i've": "the user has",
    "ourselves": "themselves",
}  # fmt: skip
_PERSON_WORD = re.compile(r"\b(?:I'm|I've|I|[Mm]y|[Mm]ine|[Oo]urs?|[Mm]e|[Mm]yself|[Uu]s|[Ww]e|[Oo]urselves)\b(?!')")
_YOU = re.compile(r"\b(?:you|your|yours|yourself|you're|you've)\b", re.IGNORECASE)

_BUDGET = re.compile(
    r"(?:please )?(?:let's |we (?:have to|need to|must|should) |I (?:have to|need to|must|want to) )?(?:try to )?(?:keep|stay|remain)"
    r"(?: (?:it|this|that|everything|all|costs?|the (?:total|cost|costs|price|budget|bill|whole thing|whole dinner)))?"
    r"(?: all)? (?P<limit>(?:strictly |well )?(?:under|below|within|at most|to at most|at|to) .{1,80})",
    re.IGNORECASE,
)
_SPEND = re.compile(
    r"(?:I|we) (?:can't|cannot|can|must|want to|will|may)(?: only| not| never)? (?:spend|pay|afford) (?P<limit>(?:at most|no more than|"
    r"not more than|more than|up to|only|a maximum of|around|about|less than|under)? ?.{1,60})",
    re.IGNORECASE,
)
_BARE_LIMIT = re.compile(
    r"(?:at most|at least|no more than|no later than|not later than|no earlier than|maximum|max|up to) .{1,80}",
    re.IGNORECASE,
)
_REMEMBER = re.compile(
    r"(?:please )?(?:remember|do not forget|don't forget|note|keep in mind|bear in mind|make a note|for the record|mind)"
    r"(?: that|,|:| -)? (?P<what>.{3,220})",
    re.IGNORECASE,
)
_STANDING = re.compile(r"(?:please )?(?P<what>(?:always|never) [a-z]{2,15} .{3,150})", re.IGNORECASE)
_CALL_ME = re.compile(
    rf"(?:[Pp]lease |[Jj]ust |[Yy]ou can )?[Cc]all me (?P<name>{NAME})$|[Mm]y friends call me (?P<name2>{NAME})$"
)
_HAVE_RELATIVE = re.compile(
    rf"[Ii](?:'ve got| have)\b.{{0,80}}?\b(?P<what>{RELATION}),? (?:named|called) (?P<name>{NAME})\b"
)
_MY_RELATIVE = re.compile(rf"\b[Mm]y (?P<what>{RELATION}),? (?P<name>{NAME})(?! {NAME}'s)\b")
_THEIR_RELATIVE = re.compile(rf"\b(?P<whose>{NAME})'s (?P<what>{RELATION}),? (?P<name>{NAME})\b")
_BARE_EVENT = re.compile(
    r"(?:Dinner|Lunch|Brunch|Breakfast|Budget|Check-in|Check-out|Departure|Deadline)(?= (?:is|was|will|has|starts|moved|begins)\b)"
)


@dataclass(frozen=True, slots=True)
class _Found:
    """A fact with what decides whether it keeps its slot."""

    text: str
    category: str
    slot: str | None = None
    negated: bool = False


class RuleExtractor:
    """Facts by rules: deterministic, from the user's own words only, and in linear time."""

    @property
    def name(self) -> str:
        return "offline rules"

    @property
    def offline(self) -> bool:
        return True

    def extract(self, messages: Sequence[ChatMessage], *, known: Sequence[str]) -> Extraction:
        """Facts the user states in `messages`, in the order said, without repetition and without the `known`."""
        seen = {_key(text) for text in known}
        facts: list[ExtractedFact] = []
        negated: list[bool] = []
        for index, message in enumerate(messages):
            if message.role is not MessageRole.USER:
                continue
            for part in message.parts:
                for found in facts_in(part.text) if isinstance(part, TextPart) else ():
                    if (key := _key(found.text)) not in seen:
                        seen.add(key)
                        facts.append(ExtractedFact(found.text, found.category, index, found.slot))
                        negated.append(found.negated)
        held = {fact.slot for fact, no in zip(facts, negated, strict=True) if not no}
        return Extraction(  # what is denied must not displace what is stated beside it
            tuple(
                replace(fact, slot=None) if no and fact.slot in held else fact
                for fact, no in zip(facts, negated, strict=True)
            )
        )

    def condense(self, facts: Sequence[str], *, pinned: Sequence[int], target: int) -> Condensation:
        """At most `target` facts in place of `facts` where the pinned ones leave room; see `condense_by_rules`."""
        return condense_by_rules(facts, pinned=pinned, target=target)


def _key(text: str) -> tuple[str, ...]:
    return tuple(sorted(stems(text, stop=False)))


def facts_in(text: str) -> Iterator[_Found]:
    """The facts that one text of a user states, in order."""
    people: list[str] = []
    things: list[str] = []
    for clause in clauses(text):
        antecedent = people[0] if len(people) == 1 else None
        thing = things[0] if len(things) == 1 else None
        yield from _relatives(clause)
        statement = _read(clause, antecedent, thing)
        if statement is not None:
            _note(statement, people, things)
        yield from _facts_of_clause(strip_lead_in(clause), statement)


def _read(clause: str, antecedent: str | None, thing: str | None) -> Statement | None:
    bare = strip_lead_in(clause)
    if event := _BARE_EVENT.match(bare):
        bare = f"The {event.group().lower()}{bare[event.end() :]}"
    return parse(bare, antecedent=antecedent, thing=thing)


def _note(statement: Statement, people: list[str], things: list[str]) -> None:
    """Remember whom "she" and what "it" may mean in the clauses that follow."""
    subject = statement.subject
    if subject in (USER, GROUP):
        return
    somebody = not subject.startswith("The ") or re.fullmatch(rf"{USER}'s {RELATION}", subject)
    if "'s" in subject.removeprefix(USER + "'s") and not re.search(rf"'s {RELATION}$", subject):
        somebody = None
    place = people if somebody else things
    if subject not in place:
        place.append(subject)


def _facts_of_clause(clause: str, statement: Statement | None) -> Iterator[_Found]:
    """What one clause states: by its fixed shape, else by its statement."""
    for rule in (_budget, _remembered, _standing, _called):
        if (found := rule(clause)) is not None:
            yield found
            return
    if statement is None:
        if _BARE_LIMIT.fullmatch(clause) and _NUMBER.search(clause) and not _YOU.search(clause):
            limit = _clean(clause)
            if limit:
                yield _Found(f"The limit is {limit[0].lower()}{limit[1:]}", "constraint")
        return
    for judge in (_naming, _being, _having, _tasting, _living, _aiming, _doing):
        if (found := judge(statement)) is not None:
            if len(found.text) <= FACT_CHARACTERS:
                yield found
            return


# --- clauses of a fixed shape


def _relatives(clause: str) -> Iterator[_Found]:
    """ "my sister Ana" and "Ana's brother Rui", wherever they stand."""
    for match in [*_MY_RELATIVE.finditer(clause), *_HAVE_RELATIVE.finditer(strip_lead_in(clause)[:200])]:
        if match["name"].lower() not in NOT_NAMES:
            yield _Found(f"{match['name']} is the user's {match['what'].lower()}", "relationship")
    for match in _THEIR_RELATIVE.finditer(clause):
        if not {match["name"].lower(), match["whose"].lower()} & NOT_NAMES:
            yield _Found(f"{match['name']} is {match['whose']}'s {match['what'].lower()}", "relationship")


def _budget(clause: str) -> _Found | None:
    for pattern in (_BUDGET, _SPEND):
        match = pattern.match(clause)
        if match and _MONEY.search(match["limit"]):
            limit = _clean(match["limit"])
            if limit is None:
                return None
            if re.search(
                r"\b(?:not|never|can't|cannot)\b", clause[: match.start("limit")]
            ) and limit.lower().startswith("more than"):
                limit = f"at most{limit[9:]}"
            return _Found(f"The budget is {limit.removeprefix('within ').removeprefix('to ')}", "constraint", "budget")
    return None


def _remembered(clause: str) -> _Found | None:
    match = _REMEMBER.fullmatch(clause)
    if not match or _FILLER_AIM.match(match["what"]) or re.match(r"(?:to|me|when|the time|how|it)\b", match["what"]):
        return None
    what = match["what"]
    inner = next(_facts_of_clause(what, _read(what, None, None)), None)
    if inner is not None:
        return inner
    text = _in_third_person(what)
    return _Found(text[0].upper() + text[1:], "other") if text else None


def _standing(clause: str) -> _Found | None:
    """ "Always answer in English": a wish for every reply."""
    match = _STANDING.fullmatch(clause)
    text = _in_third_person(match["what"]) if match else None
    return _Found(f"The user asks: {text[0].lower()}{text[1:]}", "constraint") if text else None


def _called(clause: str) -> _Found | None:
    match = _CALL_ME.match(clause)
    name = (match["name"] or match["name2"]) if match else None
    return (
        _Found(f"The user's name is {name}", "personal", "user.name")
        if name and name.lower() not in NOT_NAMES
        else None
    )


# --- statements


def _naming(said: Statement) -> _Found | None:
    """Names of the user, of relatives and of pets."""
    if said.verb != "be" or said.kind not in ("be", "was") or said.negated:
        return None
    rest = said.rest.split(",")[0].split(" and ")[0].strip()
    called = re.match(rf"(?:called |named )?({NAME}(?: {NAME}){{0,2}})$", rest)
    if not called or called[1].split()[0].lower() in NOT_NAMES or _NATIONALITY.match(called[1]):
        return None
    if _DATE.search(rest):
        return None
    if said.subject in (f"{USER}'s name", USER):
        return _Found(f"The user's name is {called[1]}", "personal", "user.name")
    owner = re.fullmatch(rf"{USER}'s ({RELATION})(?:'s name)?", said.subject)
    if owner:
        return _Found(f"{called[1]} is the user's {owner[1].lower()}", "relationship")
    theirs = re.fullmatch(rf"({NAME})'s ({RELATION})(?:'s name)?", said.subject)
    if theirs:
        return _Found(f"{called[1]} is {theirs[1]}'s {theirs[2]}", "relationship")
    return None


def _being(said: Statement) -> _Found | None:
    """What somebody or something is."""
    if said.verb != "be" or said.kind == "used":
        return None
    rest, user = said.rest, said.subject == USER
    if said.subject.startswith("The ") and not said.subject.startswith(USER):
        return _arrangement(said)
    if said.subject == GROUP:
        return _fact(said, "plan") if re.match(r"\d{1,3} (?:people|guests|adults|persons)\b", rest) else None
    own = re.fullmatch(rf"{USER}'s (.+)", said.subject)
    if own and _FAVOURITE.fullmatch(own[1]):
        return _fact(said, "preference", f"user.{own[1].lower()}")
    if own and not _OWN_NOUN.fullmatch(own[1]):
        return None
    if _CONDITION.match(rest):
        return _fact(said, "health")
    if said.kind == "been" and _FEELING.match(rest):
        return _fact(said, "health")
    if said.kind == "been" and re.match(r"to ", rest) and _CAPITAL.search(rest):
        return _fact(said, "other")
    if said.kind == "was" and (born := re.match(r"born (?:in|on) ", rest)):
        dated = bool(_DATE.search(rest) or re.search(r"\d{4}", rest))
        return _fact(said, "personal", _slot(said, "birthday" if dated else "origin")) if born else None
    if said.kind == "was":
        return _fact(said, "plan") if own and _DATE.search(rest) else None
    if _FONDNESS.match(rest):
        return _fact(said, "preference")
    if _STATUS.match(rest):
        return _fact(said, "personal", _slot(said, "status"))
    if _NATIONALITY.match(rest):
        return _fact(said, "personal")
    if re.match(rf"(?:originally )?from {NAME}", rest):
        return _fact(said, "personal", _slot(said, "origin"))
    if re.match(r"in love\b|in (?:my|his|her) (?:\w+ )?(?:twenties|thirties|forties|fifties|sixties|year)", rest):
        return _fact(said, "personal")
    if age := re.match(r"(?:turning )?(\d{1,3})(?: years old)?(?= and\b|,|$)", rest):
        return _Found(f"{said.subject} is {age[1]} years old", "personal", _slot(said, "age"), said.negated)
    if re.match(rf"(?:(?:my|our) |{NAME}'s ){RELATION}\b", rest):
        return _fact(said, "relationship")
    if own and re.fullmatch(r"birthday|anniversary", own[1], re.I) and _DATE.search(rest):
        return _fact(said, "personal", f"user.{own[1].lower()}")
    if re.search(r"'s (?:birthday|anniversary)$", said.subject) and _DATE.search(rest):
        return _fact(said, "relationship", f"{_slug(said.subject)}")
    if own and re.search(r"\b(?:budget|limit)$", own[1], re.I):
        return _Found(f"The budget is {_clean(rest)}", "constraint", "budget") if _MONEY.search(rest) else None
    if said.subject == GROUP:
        return _fact(said, "plan") if re.match(r"\d{1,3} (?:people|guests|adults|persons)\b", rest) else None
    if (
        re.match(r"an? ", rest)
        and not _VAGUE.match(rest)
        and not re.match(r"an? (?:bit|little|lot|few|kind|sort|great|good|big)\b", rest)
    ):
        return _fact(said, "work" if user else "relationship")
    if re.match(
        r"(?:coming|arriving|leaving|on|at|in|away|due|open|closed|booked|scheduled|called|named|now) ?", rest
    ) and (_DATE.search(rest) or _TIME.search(rest)):
        return _fact(said, "plan", _dated_slot(said))
    if own:
        return _fact(said, "personal" if not re.search(RELATION, own[1]) else "relationship")
    return None


def _arrangement(said: Statement) -> _Found | None:
    """Dates, times, prices and places of a thing: "the dinner is on 14 March"."""
    rest = said.rest
    if moved := re.match(r"(?:now )?(?:been )?(?:moved|postponed|changed|shifted|rescheduled) to (.+)", rest):
        preposition = "" if re.match(r"(?:on|at|in) ", moved[1]) else ("on " if _DATE.search(moved[1]) else "at ")
        said = replace(said, said="is", rest=f"{preposition}{moved[1]}")
        return _fact(said, "plan", _dated_slot(said))
    if re.search(r"\b(?:budget|limit|maximum)$", said.subject, re.IGNORECASE) and _NUMBER.search(rest):
        return _fact(said, "constraint", "budget" if _MONEY.search(rest) else None)
    if re.match(r"(?:called|named) ", rest) and _CAPITAL.search(rest):
        return _fact(said, "plan", f"{_slug(said.subject)}.name")
    if re.match(r"(?:cancelled|canceled|fully booked|confirmed|vegetarian|closed on)\b", rest):
        return _fact(said, "plan")
    opens = re.match(
        r"(?:now |still |only |booked |scheduled |planned |fixed |set |due |open |reserved |taking place )?"
        r"(?:on|at|in|for|from|between|before|after|until|by|under|over|around|about|no later|no more|tomorrow|next)\b",
        rest,
    )
    concrete = _DATE.search(rest) or _TIME.search(rest) or _MONEY.search(rest)
    place = re.match(rf"(?:now |booked )?(?:at|in) (?:the )?{NAME}", rest)
    if (opens and concrete) or place or (_MONEY.search(rest) and len(rest) < 40):
        return _fact(said, "constraint" if _LIMIT.search(rest) else "plan", _dated_slot(said))
    return None


def _having(said: Statement) -> _Found | None:
    """What somebody has: family, pets, things, illnesses, appointments."""
    if said.verb != "have" or said.kind not in ("have", "present", "modal", "used"):
        return None
    rest = said.rest
    named = re.match(
        rf"(?:a|an|one) (?:[\w-]{{2,15}} ){{0,2}}?({RELATION}),? (?:named|called|whose name is) ({NAME})", rest
    )
    if named and not said.negated:
        whose = "the user's" if said.subject == USER else f"{said.subject}'s"
        return _Found(f"{named[2]} is {whose} {named[1]}", "relationship")
    if said.said.startswith("had"):
        known = re.match(
            r"(?:an? |my )(?:baby|surgery|accident|operation|interview|stroke|heart attack|appointment)\b", rest
        )
        return _fact(said, "other") if known else None
    if _ILLNESS.match(rest):
        return _fact(said, "health")
    if re.match(
        r"(?:a |an |no |\d+ |one |two |three |four |five |many |several |any ){1}(?:[\w-]{2,15} ){0,2}?"
        + RELATION
        + r"s?\b",
        rest,
    ):
        return _fact(said, "relationship")
    if re.match(
        r"an? (?:[\w-]{2,20} ){0,2}?(?:appointment|interview|meeting|exam|flight|deadline|reservation|date|shift|test|surgery|class)\b",
        rest,
    ):
        return _fact(said, "plan")
    if re.match(r"to ", rest):
        return _fact(said, "constraint") if not _FILLER_AIM.match(rest) and _concrete(rest) else None
    if re.match(r"(?:an? |two |three |\d+ )", rest) and not _VAGUE.match(rest) and said.kind != "used":
        abstract = re.match(
            r"an? (?:[\w-]{2,20} ){0,2}?(?:day|weekend|mood|plan|hard|difficult|different|deeper|better|sense|goal)\b",
            rest,
        )
        return None if abstract else _fact(said, "personal")
    return None


def _tasting(said: Statement) -> _Found | None:
    """Likes and dislikes."""
    if said.verb == "stand" and said.negated:
        return _fact(said, "preference")
    if said.verb in _TASTES and said.kind in ("present", "perfect", "gerund", "used", "past"):
        if said.kind == "past" and not _concrete(said.rest):
            return None
        if said.verb == "like" and re.match(r"to (?:chat|talk|ask|know|share|tell|say|discuss|thank)\b", said.rest):
            return None
        return _fact(said, "preference")
    return None


def _living(said: Statement) -> _Found | None:
    """Where somebody lives and what they work as."""
    if said.verb == "live" and said.kind in ("present", "gerund", "perfect", "used"):
        place = re.match(r"(?:in|at|on|near|with|alone|by)\b", said.rest)
        slot = (
            _slot(said, "home")
            if said.kind in ("present", "gerund") and re.match(r"(?:in|at|near)\b", said.rest)
            else None
        )
        return _fact(said, "personal", slot) if place else None
    if said.verb == "move" and said.kind in ("past", "perfect") and said.rest:
        if not re.match(r"(?:to|into|from|back to|here from|in with)\b", said.rest):
            return None
        if not said.subject.startswith(USER) and said.subject.startswith("The "):
            dated = _DATE.search(said.rest) or _TIME.search(said.rest)
            return _arrangement(replace(said, rest=f"moved {said.rest}")) if dated else None
        return _fact(said, "personal", _slot(said, "home") if re.match(r"(?:to|into|back to)\b", said.rest) else None)
    if said.verb in ("come", "grow") and re.match(r"(?:originally )?(?:from|up in)\b", said.rest):
        return _fact(said, "personal", _slot(said, "origin"))
    if said.verb in ("work", "study", "teach") and said.kind in ("present", "gerund", "used", "past"):
        if not said.rest or re.match(r"(?:hard|well|on (?:it|this|that)|out)\b", said.rest):
            return None
        key = {"as": "job", "at": "employer", "for": "employer"}.get(said.rest.split(" ")[0])
        holds = key is not None and said.kind == "present" and said.verb == "work"
        return _fact(said, "work", _slot(said, str(key)) if holds else None)
    return None


def _aiming(said: Statement) -> _Found | None:
    """Plans, wishes and decisions."""
    rest = said.rest
    if said.kind == "gerund" and said.verb == "go" and re.match(r"to [a-z]", rest):
        return (
            None if _FILLER_AIM.match(rest) or (re.match(r"to (?:the|a|my) ", rest) and False) else _fact(said, "plan")
        )
    if said.verb not in _AIMS or said.kind not in ("present", "gerund", "perfect", "past"):
        return None
    if said.kind == "past" and said.verb != "decide":
        return None
    if re.match(r"to\b", rest):
        decided = said.verb == "decide" and not re.match(r"to (?:chat|talk|ask|share|tell|say)\b", rest)
        return _fact(said, "plan") if decided or not _FILLER_AIM.match(rest) else None
    if said.verb == "plan" and re.match(r"(?:a|an|on|my|for|the) ", rest):
        return _fact(said, "plan") if not _VAGUE.match(rest) else None
    if said.verb == "need" and _NUMBER.search(rest):
        return _fact(said, "constraint")
    if said.verb == "want" and re.match(r"(?:a|an|the) ", rest) and said.subject != USER:
        return _fact(said, "preference")
    return None


def _doing(said: Statement) -> _Found | None:
    """Habits, what is under way, what was done."""
    verb, rest, kind = said.verb, said.rest, said.kind
    somebody = (
        said.subject in (USER, GROUP)
        or not said.subject.startswith("The ")
        or bool(re.search(rf"{RELATION}$", said.subject))
    )
    if not somebody:
        if verb in ("cost", "start", "begin", "open", "close", "take", "leave", "arrive") and (
            _NUMBER.search(rest) or _TIME.search(rest)
        ):
            return _fact(said, "plan", f"{_slug(said.subject)}.{'price' if verb == 'cost' else 'time'}")
        return None
    if not rest and verb in _ALONE and kind in ("present", "used") and said.subject == USER:
        return _Found(said.text(), "other", None, said.negated)
    if kind == "gerund" and verb == "feel":
        return _fact(said, "health") if _FEELING.match(rest) else None
    if not rest or _VAGUE.match(rest):
        return None
    if kind == "modal":
        if said.negated and verb in ("eat", "drink", "come", "attend", "swim", "drive", "have", "walk"):
            return _fact(said, "health" if verb in ("eat", "drink", "have") else "constraint")
        if said.said.startswith("must") and verb in _HABITS | _EVENTS | _DOINGS | {"be", "have"}:
            return _fact(said, "constraint") if _concrete(rest) else None
        wanted = _EVENTS | _DOINGS | _HABITS
        if said.said.startswith("will") and verb in wanted and _concrete(rest):
            return _fact(said, "plan")
        if said.said.startswith("can") and said.subject not in (USER, GROUP) and verb in _DOINGS | _HABITS:
            return _fact(said, "plan")
        return None
    if kind == "present":
        if said.negated and verb in ("eat", "drink", "smoke"):
            return _fact(said, "health")
        if verb == "suffer":
            return _fact(said, "health")
        if verb == "take" and not re.search(
            r"\b(?:mg|medication|pills?|insulin|lessons?|classes|a course|the bus|the train|vitamins?)\b", rest
        ):
            return None
        if verb in _HABITS or (verb in _DOINGS and said.subject not in (USER, GROUP)):
            owned = "personal" if verb in ("own", "rent", "drive", "speak", "raise") else "preference"
            return _fact(said, "other" if verb in _DOINGS else owned)
        return None
    if kind == "used":
        return _fact(said, "other") if verb in _HABITS | _TASTES else None
    if kind == "gerund":
        if verb == "look":
            goal = re.match(r"(?:for|to) (.+)", rest)
            forward = bool(goal) and not _VAGUE.match(rest[3:].strip())
            return _fact(said, "plan") if forward and not _FILLER_AIM.match(rest) else None
        if verb == "think":
            about = re.match(r"(?:of|about) (.+)", rest)
            return _fact(said, "plan") if about and not _VAGUE.match(about[1]) else None
        if verb == "try":
            return _fact(said, "plan") if not _FILLER_AIM.match(rest) else None
        if verb == "go":
            return _fact(said, "plan") if _concrete(rest) else None
        category = (
            "work" if verb == "work" else "plan" if verb in _DOINGS | {"prepare", "consider", "visit"} else "other"
        )
        return _fact(said, category) if verb in _UNDERWAY else None
    if kind in ("past", "perfect") and verb in _EVENTS and not said.negated:
        if verb == "run" and rest.startswith(("out", "into")):
            return None
        if verb in ("get", "make", "try", "see", "come", "leave", "begin", "start", "have") and re.match(
            r"(?:it|them|that|this|to|a (?:bit|lot|little)|lost|up|out|back|sure|me|the feeling|the idea|used|some|very|so)\b",
            rest,
        ):
            return None
        if verb == "learn" and re.match(
            r"(?:about (?:it|this|that|the meaning)|how|so much|much|from|a lot|many|useful)\b", rest
        ):
            return None
        return _fact(said, "other")
    return None


# --- making the fact


def _fact(said: Statement, category: str, slot: str | None = None) -> _Found | None:
    rest = _clean(said.rest)
    if not rest or _LOOSE_END.search(rest):
        return None
    words = said.said
    if said.kind == "present" and said.verb not in _TASTES:
        rest = _SECOND_VERB.sub(lambda verb: THIRD[verb.group()], rest)
    if re.search(r" any ?(?:more|longer)$", rest):
        rest = re.sub(r" any ?(?:more|longer)$", "", rest)
        words = f"{words} any more" if not said.negated else words
        return _Found(f"{said.subject} {words} {rest} any more".replace("  ", " "), category, slot, True)
    return _Found(f"{said.subject} {words} {rest}", category, slot, said.negated)


def _clean(rest: str) -> str | None:
    """What follows the verb, cut where another thought begins and told of the user; None when it says nothing."""
    if re.match(r"(?:it|that|this|them|these|those|him|so|here|there|both)\b(?! \w+ing\b)", rest) and not re.match(
        r"(?:that|this|these|those) \w+", rest
    ):
        return None
    rest = _CUT.sub("", rest).strip(" ,.!;")
    for _ in range(3):
        rest = _TAIL.sub("", rest).strip(" ,.!;")
    return _in_third_person(rest)


def _in_third_person(text: str) -> str | None:
    """`text` told of the user instead of by them; None when it speaks to the assistant."""
    if not text or _YOU.search(text):
        return None
    return _PERSON_WORD.sub(lambda match: _PERSON.get(match.group().lower(), match.group()), text).strip(" ,.!")


def _concrete(rest: str) -> bool:
    """Whether something in `rest` can be looked up: a name, title, number, date or time."""
    return any(pattern.search(rest) for pattern in (_CAPITAL, _NUMBER, _DATE, _TIME))


def _slug(subject: str) -> str:
    if subject == USER or subject.startswith(USER + "'s "):
        return ("user." + subject[len(USER) + 3 :].lower()).rstrip(".")
    return subject.removeprefix("The ").lower().replace("'s ", ".")


def _slot(said: Statement, attribute: str) -> str:
    return f"{_slug(said.subject)}.{attribute}" if said.subject != USER else f"user.{attribute}"


def _dated_slot(said: Statement) -> str | None:
    rest = said.rest
    if _DATE.search(rest):
        return f"{_slug(said.subject)}.date"
    if _TIME.search(rest):
        return f"{_slug(said.subject)}.time"
    if _MONEY.search(rest):
        return f"{_slug(said.subject)}.price"
    return f"{_slug(said.subject)}.place" if re.match(rf"(?:now )?(?:at|in) (?:the )?{NAME}", rest) else None

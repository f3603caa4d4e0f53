"""Find relations in a user's messages by rules: precise rather than complete. Pure.

A rule reads one clause of a fixed shape ("the deadline of Project Alpha is March 2026"), or one
`ParsedClause`. Subject and object must be names, or short and concrete things; where a rule is not sure,
nothing is found.
"""

import re
from collections.abc import Callable, Iterator

from memory_core.models.offline.fact_rules import called, naming, relatives
from memory_core.models.offline.grammar import (
    BASE,
    GROUP,
    MONTH,
    NOT_NAMES,
    RELATION,
    THIRD,
    USER,
    WEEKDAY,
    ParsedClause,
    pattern,
    strip_lead_in,
    word_set,
)
from memory_core.models.offline.sentences import Antecedents, clauses
from memory_core.models.offline.wording import YOU
from memory_core.models.protocols import FoundRelation as Triple

# -- names, things and dates -----------------------------------------------------------------------

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


# -- rules -----------------------------------------------------------------------------------------

_MONEY = pattern(
    r"(?:at most |up to |about |around )?"
    r"(?P<sum>[€$£] ?\d[\d.,]*k?|\d[\d.,]* ?(?:k )?(?:euros?|dollars?|pounds?|€|\$|£))"
)
_DATES = "deadline|due date|start date|end date|release date|launch date|launch|birthday|anniversary|kick-off|date"
_HOLDERS = "manager|owner|leader|lead|head|boss|CEO|CTO|founder|author|director|coordinator|teacher|client|sponsor"
_PLACES = "capital|headquarters|head office|office|location|venue"
_IS = r"(?:is now|is|was|will be|has moved to|has been moved to|moved to|changed to|has changed to|got moved to)"
_ATTRIBUTE = rf"(?P<what>{_DATES}|{_HOLDERS}|{_PLACES}|budget|name)"
_OWNED = pattern(rf"(?:[Tt]he )?(?P<owner>{PROPER})'s? {_ATTRIBUTE} {_IS} (?P<value>.{{1,80}})")
_OF = pattern(
    rf"[Tt]he {_ATTRIBUTE} (?:of|for) "
    rf"(?P<owner>(?:the )?{PROPER}(?: project)?|the (?:[a-z-]{{2,20}} ){{0,2}}[a-z-]{{2,20}})"
    rf" {_IS} (?P<value>.{{1,80}})"
)
_VERBLESS = pattern(
    rf"(?P<subject>I|[Mm]y {RELATION},? {PROPER}|{PROPER}) (?:(?:now|currently|also|still|directly) )?"
    r"(?P<verb>report|lead|head|belong|depend|found|supervise|mentor)(?P<ending>s|ed)?"
    r"(?: (?P<to>to|on))? (?P<rest>.{1,120})"
)
"""Verbs that the grammar does not know, because no fact is learned from them alone."""
_SAID_OF = pattern(r"(?P<name>.{1,80}) is (?:(?P<user>the user)|(?P<whose>.{1,80}))'s (?P<what>[a-zé -]{2,40})")
_ROLE = (
    "engineer|developer|programmer|designer|teacher|nurse|doctor|lawyer|chef|cook|waiter|waitress|baker|"
    "architect|accountant|journalist|writer|editor|photographer|musician|singer|actor|actress|artist|painter|"
    "scientist|researcher|biologist|chemist|physicist|psychologist|therapist|dentist|pharmacist|surgeon|"
    "veterinarian|vet|pilot|driver|mechanic|electrician|plumber|carpenter|farmer|gardener|librarian|translator|"
    "consultant|analyst|manager|director|professor|lecturer|student|intern|secretary|receptionist|salesman|"
    "firefighter|police officer|soldier|social worker|project manager|product manager|CEO|CTO|CFO|founder|"
    "counselor|counsellor|banker|economist|barista|hairdresser|entrepreneur"
)
_WORKS_AS = pattern(rf"(?:an? |the )?(?P<role>(?:[a-z-]{{3,15}} ){{0,2}}(?:{_ROLE}))(?P<after>$|[ ,.].*)")
_AT = pattern(rf" (?:at|for|with) (?P<where>(?:the )?{PROPER}|the [a-z-]{{3,20}})(?=$|[,.;!]| )")
_LEFT_JOB = pattern(r"(?:(?:my|his|her|their) (?:\w{2,15} )?(?:job|position|post|role) (?:at|with|in) )?(?P<where>.+)")
_NEWS = pattern(r"(?:good|great|bad|big|some) news[,:] ", re.IGNORECASE)
_NOW = ("present", "gerund")
_PAST = ("used", "past")


def relations_in(text: str) -> Iterator[Triple]:
    """Yield the relations that one text of a user states, in order, each once."""
    antecedents = Antecedents()
    seen: set[Triple] = set()
    # Remembered within the text, as "I left Acme" ends a job only if Acme is known as one.
    employers: dict[str, str] = {}
    for clause in clauses(text):
        bare = strip_lead_in(_NEWS.sub("", strip_lead_in(clause)))
        kin = list(_kin(clause))
        stated = list(_of_clause(bare, antecedents.read(bare), employers))
        # They were named beside the subject: "she" in the next clause may mean them.
        for triple in kin:
            antecedents.meet(triple.subject)
        for triple in (*kin, *stated):
            if triple.predicate == "works at" and not triple.ended:
                employers[triple.subject] = triple.object
            # The graph has no relation of an entity to itself.
            if triple not in seen and triple.subject.casefold() != triple.object.casefold():
                seen.add(triple)
                yield triple


# -- rules of a clause ---------------------------------------------------------------------------


def _kin(clause: str) -> Iterator[Triple]:
    """Yield relations from "my sister Ana" and "Ana's brother Rui", anywhere in a text."""
    # An apposition and a list look the same here, so neither is read.
    if re.search(rf"\b[Mm]y {RELATION}, {PROPER}(?: and |$)", clause):
        return  # "my girlfriend, Toby and I": Toby may be another person
    for fact in relatives(clause):
        yield from _relation_in_fact(fact.text)


def _relation_in_fact(fact: str) -> Iterator[Triple]:
    """Yield the relation of a fact such as "Ana is the user's sister"."""
    match = _SAID_OF.fullmatch(fact)
    if match is not None and is_name(match["name"]):
        whose = USER if match["user"] else match["whose"]
        # "My older brother" and "my brother" are one relation.
        kin = re.sub(
            r"^(?:(?:older|younger|elder|eldest|youngest|big|little|best|old|new|close|good|oldest|first|"
            r"second|only|late|half) ){1,2}",
            "",
            match["what"],
        )
        animal = re.fullmatch(r"dog|cat|puppy|kitten|rabbit|parrot|horse|hamster|bird|fish|turtle|pet", kin)
        yield Triple(match["name"], f"{kin} of", whose, "other" if animal else "person", type_of(whose, "person"))
    elif named := re.fullmatch(r"The user's name is (.+)", fact):
        yield Triple(USER, "name", named[1], "person", "person")


def _of_clause(clause: str, statement: ParsedClause | None, employers: dict[str, str]) -> Iterator[Triple]:
    if (fact := called(clause)) is not None:
        yield from _relation_in_fact(fact.text)
        return
    for shape in (_OWNED, _OF):
        if match := shape.fullmatch(clause):
            yield from _attribute(match)
            return
    if match := _VERBLESS.fullmatch(clause):
        yield from _other_verb(match)
        return
    # What a group does is no relation of one of its members.
    if statement is None or statement.subject == GROUP or YOU.search(statement.rest):
        return
    if (fact := naming(statement)) is not None:
        yield from _relation_in_fact(fact.text)
        return
    subject = _subject(statement.subject)
    if subject is not None:
        # The first rule that finds something ends the search, so that a clause is read in one way only.
        for rule in _RULES:
            triples = list(rule(subject, statement, employers))
            if triples:
                yield from triples
                return


def _subject(name: str) -> str | None:
    """Return a subject that can be an entity: a name, or `The dinner`; None for "Ana's car" and "The user's sister"."""
    if name == USER or (name.startswith("The ") and "'s" not in name and len(name.split()) <= 4):
        return name
    return name if re.fullmatch(PROPER, name) and is_name(name) else None


def _attribute(match: re.Match[str]) -> Iterator[Triple]:
    """Yield the relation of an attribute: "Project Alpha's deadline is March 2026"."""
    owner, what, value = match["owner"], match["what"], match["value"].strip()
    # "the Atlas project" is named Atlas; "the dinner" keeps its article, as it has no name.
    owner = owner.removeprefix("the ") if re.match(r"the [A-Z]", owner) else owner
    owner = f"The {owner[4:]}" if owner.startswith("the ") else owner
    if re.match(PROPER, owner) and not is_name(owner):
        return
    if re.fullmatch(_DATES, what):
        when = date(value)
        if when is not None:
            predicate = {"due date": "deadline", "launch": "launch date"}.get(what, what)
            kind = "person" if what in ("birthday", "anniversary") else type_of(owner, "thing")
            yield Triple(owner, predicate, when, kind, "date")
    elif what == "budget":
        if money := _MONEY.match(value):
            yield Triple(owner, "budget", money["sum"], type_of(owner, "thing"), "other")
    elif what != "name":
        name = proper(value)
        if name is None:
            return
        if re.fullmatch(_HOLDERS, what):
            yield Triple(name, f"{what} of", owner, "person", type_of(owner, "organisation"))
        else:
            yield Triple(owner, what, name, type_of(owner, "place" if what == "capital" else "organisation"), "place")


def _other_verb(match: re.Match[str]) -> Iterator[Triple]:
    subject, verb, rest = match["subject"], match["verb"], match["rest"]
    if kin := re.fullmatch(rf"[Mm]y {RELATION},? ({PROPER})", subject):
        subject = kin[1]
    subject = USER if subject == "I" else subject
    past = match["ending"] == "ed"
    # "I reports" and "Ana report" are other constructions, such as "the report".
    if not (past or (match["ending"] == "s") == (subject != USER)) or not (subject == USER or is_name(subject)):
        return
    # The preposition is part of the verb: "reports about" is another verb than "reports to".
    wants = {"report": "to", "belong": "to", "depend": "on"}.get(verb)
    if match["to"] != wants or YOU.search(rest):
        return
    name = proper(rest)
    if name is None and verb in ("lead", "head", "supervise"):
        noun = thing(rest, article=True)
        name = noun if noun is not None and type_of(noun) in ("project", "organisation") else None
    if name is None:
        return
    # "They found" is the past of "find"; only "founded" is meant.
    if verb == "found" and not past:
        return
    predicate = {"report": "reports to", "belong": "belongs to", "depend": "depends on", "found": "founded"}.get(
        verb, f"{verb}s"
    )
    people = verb in ("report", "supervise", "mentor")
    things_too = verb in ("belong", "depend")
    yield Triple(
        subject,
        predicate,
        name,
        type_of(subject, "other" if things_too else "person"),
        type_of(name, "person" if people else "other" if things_too else "organisation"),
        ended=past and verb != "found",
    )


# -- rules of a statement ------------------------------------------------------------------------


def _ended(statement: ParsedClause) -> bool | None:
    """Return whether the relation has ended; None when it is denied without saying that it ever held."""
    if statement.negated:
        over = "no longer" in statement.said or re.search(r"\b(?:any ?more|any longer)$", statement.rest)
        return True if over else None
    return statement.kind in _PAST


def _living(subject: str, statement: ParsedClause, employers: dict[str, str]) -> Iterator[Triple]:
    # Only people live somewhere.
    if subject.startswith("The ") and subject != USER:
        return
    if statement.verb == "move" and statement.kind in ("past", "perfect") and not statement.negated:
        here = re.match(r"(?:back )?(?:here )?(?:from (?P<old>.+?) )?(?:back )?to (?P<new>.+)", statement.rest)
        old = proper(here["old"] + ",") if here and here["old"] else None
        if here is None and (origin := re.match(r"(?:here |away )?from (.+)", statement.rest)):
            old = proper(origin[1])
        # Moving away ends the former home, even if the new one is not given.
        if old is not None:
            yield Triple(subject, "lives in", old, "person", "place", ended=True)
        if here and (new := proper(here["new"])) is not None:
            yield Triple(subject, "lives in", new, "person", "place")
    elif statement.verb == "live" and statement.kind in (*_NOW, *_PAST) and (ended := _ended(statement)) is not None:
        place = re.match(r"(?:in|at|near) (.+)", statement.rest)
        if place and (name := proper(place[1])) is not None:
            yield Triple(subject, "lives in", name, "person", "place", ended=ended)


def _working(subject: str, statement: ParsedClause, employers: dict[str, str]) -> Iterator[Triple]:
    gone = statement.verb == "leave" and statement.kind in ("past", "perfect")
    if (gone or statement.verb == "quit") and not statement.negated:  # "quit" is its own past
        job = _LEFT_JOB.match(statement.rest)
        where = organisation(job["where"]) if job else None
        names_a_job = job is not None and job["where"] != statement.rest
        # "I left the party" is no end of a job: only a named job, a known employer or an organisation counts.
        if where is not None and (names_a_job or employers.get(subject) == where or type_of(where) == "organisation"):
            yield Triple(subject, "works at", where, "person", "organisation", ended=True)
        return
    if statement.verb not in ("work", "study", "teach", "volunteer") or statement.kind not in (*_NOW, *_PAST):
        return
    ended = _ended(statement)
    if ended is None:
        return
    rest = statement.rest
    if statement.verb == "work" and (role := re.match(r"as (.+)", rest)):
        yield from _role(subject, role[1], ended)
        return
    if statement.verb == "work" and (other := re.match(r"(on|with|in) (.+)", rest)):
        name = proper(other[2])
        if name is None and other[1] == "on":
            noun = thing(other[2], article=True)
            name = noun if noun is not None and PROJECT.search(noun) else None
        if name is not None and not ANY_DATE.match(name):
            kind = {"on": "project", "with": "person", "in": "place"}[other[1]]
            yield Triple(subject, f"works {other[1]}", name, "person", type_of(name, kind), ended=ended)
        return
    place = re.match(r"(?:[a-z ]{3,30} )?(?:at|for) (.+)" if statement.verb != "work" else r"(?:at|for) (.+)", rest)
    where = organisation(place[1]) if place else None
    if where is not None:
        yield Triple(subject, f"{THIRD[statement.verb]} at", where, "person", "organisation", ended=ended)


def _role(subject: str, text: str, ended: bool) -> Iterator[Triple]:
    """Yield the job and the employer of "a nurse at Porto General"."""
    match = _WORKS_AS.fullmatch(text)
    if match is None or re.match(r" (?:who|that|which|of)\b", match["after"]):
        return
    if match["role"].rsplit(" ", 1)[-1] != "student":
        yield Triple(subject, "works as", match["role"], "person", "other", ended=ended)
        if where := _AT.match(match["after"]):
            yield Triple(
                subject,
                "works at",
                where["where"].removeprefix("the ") if where["where"][4:5].isupper() else where["where"],
                "person",
                "organisation",
                ended=ended,
            )


_BEING = (
    (pattern(r"(?:severely |deathly |highly |very )?allergic to (.+)"), "allergic to", "person", "other"),
    (pattern(r"(?:happily |now )?married to (.+)"), "married to", "person", "person"),
    (pattern(r"(?:now )?engaged to (.+)"), "engaged to", "person", "person"),
    (pattern(r"(?:originally )?from (.+)"), "comes from", "person", "place"),
    (pattern(r"(?:located|based|situated) in (.+)"), "located in", "other", "place"),
    (pattern(r"(?:a )?part of (.+)"), "part of", "other", "other"),
    (pattern(r"a member of (.+)"), "member of", "person", "organisation"),
    (pattern(r"owned by (.+)"), "owned by", "other", "other"),
    (pattern(r"managed by (.+)"), "managed by", "other", "person"),
    (pattern(r"led by (.+)"), "led by", "other", "person"),
)


def _being(subject: str, statement: ParsedClause, employers: dict[str, str]) -> Iterator[Triple]:
    if statement.verb != "be" or statement.kind not in ("be", "was"):
        return
    rest, ended = statement.rest, _ended(statement)
    if over := re.match(r"no longer (.+)", rest):
        rest, ended = over[1], True
    if ended is None:
        return
    for shape, predicate, kind, object_kind in _BEING:
        match = shape.fullmatch(rest)
        if match is None:
            continue
        names = things(match[1]) if predicate == "allergic to" else [proper(match[1])]
        # "Was married to" may hold still or be over, so nothing is concluded.
        if statement.kind == "was":
            return
        for name in names:
            if name is not None and not (
                predicate == "comes from" and (subject.startswith("The ") and subject != USER)
            ):
                yield Triple(subject, predicate, name, type_of(subject, kind), type_of(name, object_kind), ended=ended)
        return
    if statement.kind == "was":
        return
    kin = re.match(rf"(?P<whose>my|{PROPER}'s) (?P<what>{RELATION})(?=$|[,. ])", rest)
    if kin and not ended and not subject.startswith("The "):
        whose = "the user" if kin["whose"] == "my" else kin["whose"].removesuffix("'s")
        yield from _relation_in_fact(f"{subject} is {whose}'s {kin['what'].lower()}")
    elif kin := re.match(rf"the (?P<what>{RELATION}) of (?P<whose>{PROPER})(?=$|[,. ])", rest):
        yield from _relation_in_fact(f"{subject} is {kin['whose']}'s {kin['what'].lower()}")
    elif holds := re.match(rf"(?:the|an?) (?P<what>{_HOLDERS}) of (?P<of>.+)", rest):
        if (name := proper(holds["of"])) is not None:
            yield Triple(subject, f"{holds['what']} of", name, "person", type_of(name, "organisation"), ended=ended)
    elif re.match(r"an? |the ", rest) and _WORKS_AS.fullmatch(rest):
        yield from _role(subject, rest, ended)
    elif subject.startswith("The ") or type_of(subject) == "project":
        yield from _dated(subject, rest)


def _dated(subject: str, rest: str) -> Iterator[Triple]:
    """Yield the date or place of a thing: "due in March 2026", "on the 14th of March", "at Casa Lume"."""
    if subject == USER:
        return
    due = re.match(r"due (?:(?:on|in|by|at) )?(.+)", rest)
    when = (
        date(due[1])
        if due
        else date(rest)
        if re.match(r"(?:now |scheduled |planned |set )?(?:on|in|for) ", rest)
        else None
    )
    if when is None and (planned := re.match(r"(?:scheduled|planned|set|moved|postponed) (?:for|to|on) (.+)", rest)):
        when = date(planned[1])
    if when is not None:
        yield Triple(subject, "deadline" if due else "date", when, type_of(subject, "thing"), "date")
        return
    place = re.match(rf"(?:now |held |taking place )?(?P<how>at|in) (?:the )?(?P<name>{PROPER})$", rest)
    if place and is_name(place["name"]) and not ANY_DATE.match(place["name"]):
        yield Triple(subject, f"located {place['how']}", place["name"], type_of(subject, "thing"), "place")


def _moved(subject: str, statement: ParsedClause, employers: dict[str, str]) -> Iterator[Triple]:
    """Yield the new date of a thing: "The dinner has moved to 15 March"."""
    if statement.verb == "move" and statement.kind in ("past", "perfect") and not statement.negated:
        to = re.match(r"to (.+)", statement.rest)
        if to and subject.startswith("The ") and subject != USER and (when := date(to[1])) is not None:
            yield Triple(subject, "date", when, type_of(subject, "thing"), "date")


_DOING: dict[str, tuple[str, str]] = {
    "manage": ("person", "project"),
    "run": ("person", "organisation"),
    "own": ("person", "thing"),
    "use": ("person", "thing"),
    "know": ("person", "person"),
    "speak": ("person", "other"),
    "play": ("person", "other"),
    "like": ("person", "other"),
    "love": ("person", "other"),
    "prefer": ("person", "other"),
    "enjoy": ("person", "other"),
    "hate": ("person", "other"),
    "dislike": ("person", "other"),
    "drive": ("person", "thing"),
}


def _doing(subject: str, statement: ParsedClause, employers: dict[str, str]) -> Iterator[Triple]:
    kinds = _DOING.get(statement.verb)
    if kinds is None or statement.kind not in ("present", "gerund", "used") or "never" in statement.said:
        return
    # Things do not like or know, but they use: "The project uses Python".
    if subject.startswith("The ") and subject != USER and statement.verb != "use":
        return
    ended, rest = _ended(statement), re.sub(r" (?:any ?more|any longer)$", "", statement.rest)
    if ended is None or (statement.kind == "gerund" and statement.verb not in ("manage", "run", "use")):
        return
    if statement.verb in ("know", "run"):
        names = [proper(rest)]
    elif statement.verb == "manage":
        noun = thing(rest, article=True)
        whole = noun is not None and type_of(noun) in ("project", "organisation")
        names = [proper(rest) or (noun if whole else None)]
    elif statement.verb == "play":
        instrument = re.match(r"the (.+)", rest)
        # "Plays the piano" names its instrument; without an article only listed games and instruments are clear.
        names = [thing(instrument[1])] if instrument else [n for n in things(rest) if _GAMES.fullmatch(n)]
    elif statement.verb == "speak":
        names = [name for name in things(rest) if name[0].isupper()]
    elif statement.verb in ("own", "drive", "use"):
        counted = re.match(r"(?:an?|two|three|four) ", rest)
        names = [proper(rest) or (thing(rest) if counted else None)]
    else:
        plain = re.sub(r" (?:a lot|very much|so much|too|as well|better|best|more|most)\b.*$", "", rest)
        plain = re.sub(r",? (?:especially|particularly|mostly|mainly)\b.*$", "", plain)
        names = [] if re.match(r"the \S+.*[ ,]", plain) else list(things(plain))
        # The preferred thing comes first; after "to" or "over" follows the alternative.
        if re.search(r" (?:than|over|to) ", rest) and statement.verb == "prefer":
            names = names[:1]
    for name in names:
        if name is not None:
            fallback = kinds[1] if statement.verb != "manage" or PROJECT.search(name) else "organisation"
            yield Triple(
                subject, THIRD[statement.verb], name, type_of(subject, kinds[0]), type_of(name, fallback), ended=ended
            )


_GAMES = pattern(
    r"(?:video games|board games|chess|tennis|football|soccer|basketball|baseball|volleyball|golf|cricket|rugby|hockey|"
    r"badminton|poker|bridge|guitar|piano|violin|drums|cello|flute|saxophone|bass|clarinet|trumpet|ukulele)"
)


def _bringing(subject: str, statement: ParsedClause, employers: dict[str, str]) -> Iterator[Triple]:
    """Yield the thing that somebody brings: "Rui can bring the wine"."""
    if (
        statement.verb == "bring"
        and statement.kind in ("modal", *_NOW)
        and not statement.negated
        and not subject.startswith("The ")
    ):
        name = thing(statement.rest, article=True)
        if name is not None:
            yield Triple(subject, "brings", name, "person", "thing")


def _marrying(subject: str, statement: ParsedClause, employers: dict[str, str]) -> Iterator[Triple]:
    happened = statement.verb == "marry" and statement.kind in ("past", "perfect") and not statement.negated
    if happened and (name := proper(statement.rest)) is not None:
        yield Triple(subject, "married to", name, "person", "person")


_Rule = Callable[[str, ParsedClause, dict[str, str]], Iterator[Triple]]
_RULES: tuple[_Rule, ...] = (_moved, _living, _working, _being, _doing, _marrying, _bringing)

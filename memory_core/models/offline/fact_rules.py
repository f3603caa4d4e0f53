"""Facts from a `ParsedClause`, one function per kind of fact, and from clauses of a fixed shape. Pure."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from memory_core.models.offline.grammar import (
    AIMS,
    BECAME,
    CAPITAL,
    CONDITION,
    DATE,
    DOINGS,
    EVENTS,
    FAVOURITE,
    FEELING,
    FILLER_AIM,
    FONDNESS,
    GROUP,
    HABITS,
    ILLNESS,
    LIMIT,
    MARITAL,
    MONEY,
    NAME,
    NATIONALITY,
    NOT_NAMES,
    NUMBER,
    OWN_NOUN,
    RELATION,
    STATUS,
    TASTES,
    TIME,
    UNDERWAY,
    USER,
    ParsedClause,
    pattern,
    strip_lead_in,
)
from memory_core.models.offline.wording import (
    ALONE,
    BUDGET,
    StatedFact,
    clean,
    concrete,
    dated_slot,
    fact,
    in_third_person,
    named_slot,
    slot_of,
    specific,
)
from memory_core.planning import slots
from memory_core.planning.slots import of_user


def naming(statement: ParsedClause) -> StatedFact | None:
    """Return a fact that names the user, a relative or a pet."""
    if statement.verb != "be" or statement.kind not in ("be", "was") or statement.negated:
        return None
    # "I'm Ana, and I need help": what follows is no part of the name.
    rest = statement.rest.split(",")[0].split(" and ")[0].strip()
    called = re.match(rf"(?:called |named )?({NAME}(?: {NAME}){{0,2}})$", rest)
    if not called or called[1].split()[0].lower() in NOT_NAMES or NATIONALITY.match(called[1]):
        return None
    # Months and days are capitalised like names.
    if DATE.search(rest):
        return None
    if statement.subject in (f"{USER}'s name", USER):
        return StatedFact(f"The user's name is {called[1]}", "personal", of_user(slots.NAME))
    owner = re.fullmatch(rf"{USER}'s ({RELATION})(?:'s name)?", statement.subject)
    if owner:
        return StatedFact(f"{called[1]} is the user's {owner[1].lower()}", "relationship")
    theirs = re.fullmatch(rf"({NAME})'s ({RELATION})(?:'s name)?", statement.subject)
    if theirs:
        return StatedFact(f"{called[1]} is {theirs[1]}'s {theirs[2]}", "relationship")
    return None


def being(statement: ParsedClause) -> StatedFact | None:
    """Return the fact of a clause that says what somebody or something is."""
    if statement.verb != "be" or statement.kind == "used" or statement.said.startswith("can"):
        return None
    rest, user = statement.rest, statement.subject == USER
    if _is_thing(statement):
        return _arrangement(statement)
    if statement.subject == GROUP:
        return fact(statement, "plan") if re.match(r"\d{1,3} (?:people|guests|adults|persons)\b", rest) else None
    possession = re.fullmatch(rf"{USER}'s (.+)", statement.subject)
    if possession and FAVOURITE.fullmatch(possession[1]):
        return fact(statement, "preference", named_slot(statement))
    if statement.subject.endswith(whose := f"'s {slots.MARITAL}"):
        owner = replace(statement, subject=statement.subject.removesuffix(whose))
        is_so = fact(replace(statement, said="is"), "personal", slot_of(owner, slots.MARITAL))
        return is_so if MARITAL.match(rest) else None
    # "My point is ..." and the like own nothing; what can be owned is listed.
    if possession and not OWN_NOUN.fullmatch(possession[1]):
        return None
    if CONDITION.match(rest):
        return fact(statement, "health")
    # A mood that has lasted; "I am tired" is over by the time it is read.
    if statement.kind == "been" and FEELING.match(rest):
        return fact(statement, "health")
    if statement.kind == "been" and re.match(r"to ", rest) and CAPITAL.search(rest):
        return fact(statement, "other")
    if statement.kind == "was" and re.match(r"born (?:in|on) ", rest):
        dated = bool(DATE.search(rest) or re.search(r"\d{4}", rest))
        return fact(statement, "personal", slot_of(statement, slots.BIRTHDAY if dated else slots.ORIGIN))
    # Something's former state is history, but a date that was set still says when.
    if statement.kind == "was":
        return fact(statement, "plan") if possession and DATE.search(rest) else None
    if FONDNESS.match(rest):
        return fact(statement, "preference")
    if STATUS.match(rest):
        return fact(statement, "personal", slot_of(statement, slots.MARITAL if MARITAL.match(rest) else slots.STATUS))
    if NATIONALITY.match(rest):
        return fact(statement, "personal")
    if re.match(rf"(?:originally )?from {NAME}", rest):
        return fact(statement, "personal", slot_of(statement, slots.ORIGIN))
    if re.match(r"in love\b|in (?:my|his|her) (?:\w+ )?(?:twenties|thirties|forties|fifties|sixties|year)", rest):
        return fact(statement, "personal")
    if (age := re.match(r"(?:turning )?(\d{1,3})(?: years old)?(?= and\b|,(?!\d)|$)", rest)) and _is_somebody(
        statement
    ):
        return fact(replace(statement, rest=f"{age[1]} years old"), "personal", slot_of(statement, slots.AGE))
    if re.match(rf"(?:(?:my|our) |{NAME}'s ){RELATION}\b", rest):
        return fact(statement, "relationship")
    if possession and re.fullmatch(r"birthday|anniversary", possession[1], re.I) and DATE.search(rest):
        return fact(statement, "personal", named_slot(statement))
    if re.search(r"'s (?:birthday|anniversary)$", statement.subject) and DATE.search(rest):
        return fact(statement, "relationship", named_slot(statement))
    if possession and re.search(r"\b(?:budget|limit)$", possession[1], re.I):
        amount = fact(replace(statement, subject="The budget"), "constraint", BUDGET)
        return amount if MONEY.search(rest) else None
    # "I am a nurse" says what somebody is; "a bit late" does not.
    if re.match(r"an? ", rest) and not re.match(r"an? (?:bit|little|lot|few|kind|sort|great|good|big)\b", rest):
        return fact(statement, "work" if user else "relationship")
    if re.match(
        r"(?:coming|arriving|leaving|on|at|in|away|due|open|closed|booked|scheduled|called|named|now) ?", rest
    ) and (DATE.search(rest) or TIME.search(rest)):
        return fact(statement, "plan", dated_slot(statement))
    if possession:
        return fact(statement, "personal" if not re.search(RELATION, possession[1]) else "relationship")
    return None


def _arrangement(statement: ParsedClause) -> StatedFact | None:
    """Return a date, time, price or place of a thing: "the dinner is on 14 March"."""
    rest = statement.rest
    # Written as the present state: the slot makes it replace the former date.
    if moved := re.match(r"(?:now )?(?:been )?(?:moved|postponed|changed|shifted|rescheduled) to (.+)", rest):
        preposition = "" if re.match(r"(?:on|at|in) ", moved[1]) else ("on " if DATE.search(moved[1]) else "at ")
        statement = replace(statement, said="is", rest=f"{preposition}{moved[1]}")
        return fact(statement, "plan", dated_slot(statement))
    if re.search(r"\b(?:budget|limit|maximum)$", statement.subject, re.IGNORECASE) and NUMBER.search(rest):
        return fact(statement, "constraint", BUDGET if MONEY.search(rest) else None)
    if re.match(r"(?:called|named) ", rest) and CAPITAL.search(rest):
        return fact(statement, "plan", slot_of(statement, slots.NAME))
    if re.match(r"(?:cancelled|canceled|fully booked|confirmed|vegetarian|closed on)\b", rest):
        return fact(statement, "plan")
    opens = re.match(
        r"(?:now |still |only |booked |scheduled |planned |fixed |set |due |open |reserved |taking place )?"
        r"(?:on|at|in|for|from|between|before|after|until|by|under|over|around|about|no later|no more|"
        r"today|tonight|tomorrow|this|next)\b",
        rest,
    )
    # "The dinner is in the evening" is too loose to plan by.
    exact = DATE.search(rest) or TIME.search(rest) or MONEY.search(rest)
    place = re.match(rf"(?:now |booked )?(?:at|in) (?:the )?{NAME}", rest)
    if (opens and exact) or place or (MONEY.search(rest) and len(rest) < 40):
        return fact(statement, "constraint" if LIMIT.search(rest) else "plan", dated_slot(statement))
    return None


def having(statement: ParsedClause) -> StatedFact | None:
    """Return the fact of a clause that says what somebody has: family, pets, things, illnesses, appointments."""
    if statement.verb != "have" or statement.kind not in ("have", "present", "modal", "used"):
        return None
    rest = statement.rest
    named = re.match(
        rf"(?:a|an|one) (?:[\w-]{{2,15}} ){{0,2}}?({RELATION}),? (?:named|called|whose name is) ({NAME})", rest
    )
    # Somebody whom the clause denies is not learned by name.
    if named and not statement.negated:
        whose = "the user's" if statement.subject == USER else f"{statement.subject}'s"
        return StatedFact(f"{named[2]} is {whose} {named[1]}", "relationship")
    # Most of what somebody had is over; these things are remembered for years.
    if statement.said.startswith("had"):
        known_match = re.match(
            r"(?:an? |my )(?:baby|surgery|accident|operation|interview|stroke|heart attack|appointment)\b", rest
        )
        return fact(statement, "other") if known_match else None
    if ILLNESS.match(rest):
        return fact(statement, "health")
    if re.match(
        r"(?:a |an |no |\d+ |one |two |three |four |five |many |several |any ){1}(?:[\w-]{2,15} ){0,2}?"
        + RELATION
        + r"s?\b",
        rest,
    ):
        return fact(statement, "relationship")
    if re.match(
        r"an? (?:[\w-]{2,20} ){0,2}?(?:appointment|interview|meeting|exam|flight|deadline|reservation|date|"
        r"shift|test|surgery|class)\b",
        rest,
    ):
        return fact(statement, "plan")
    # "I have to" is a duty, unless it only leads into the sentence, as "I have to say".
    if re.match(r"to ", rest):
        return fact(statement, "constraint") if not FILLER_AIM.match(rest) and concrete(rest) else None
    if re.match(r"(?:an? |two |three |\d+ )", rest) and statement.kind != "used":
        # "I have a plan" and "a hard time" name nothing that could be asked about.
        abstract = re.match(
            r"an? (?:[\w-]{2,20} ){0,2}?(?:time|day|weekend|mood|plan|hard|difficult|different|deeper|better|"
            r"sense|goal)\b",
            rest,
        )
        return (
            None
            if abstract or statement.kind == "modal" or (statement.negated and statement.subject == USER)
            else fact(statement, "personal")
        )
    return None


def tasting(statement: ParsedClause) -> StatedFact | None:
    """Return a like or dislike."""
    # Only the negation is a taste: "I can't stand olives".
    if statement.verb == "stand" and statement.negated:
        return fact(statement, "preference")
    if (
        statement.verb in TASTES
        and not _is_thing(statement)
        and statement.kind in ("present", "perfect", "gerund", "used", "past")
    ):
        # A taste of the past is kept only with something exact: "loved it" says nothing.
        if statement.kind == "past" and not concrete(statement.rest):
            return None
        # A wish about this conversation, not a preference.
        if statement.verb == "like" and re.match(
            r"to (?:chat|talk|ask|know|share|tell|say|discuss|thank)\b", statement.rest
        ):
            return None
        return fact(statement, "preference")
    return None


def living(statement: ParsedClause) -> StatedFact | None:
    """Return a fact about somebody's home, origin, work or studies."""
    if statement.verb == "live" and statement.kind in ("present", "gerund", "perfect", "used"):
        place = re.match(r"(?:in|at|on|near|with|alone|by)\b", statement.rest)
        # "I have lived in Rome" may be over, so it does not replace the home.
        current = statement.kind in ("present", "gerund") and re.match(r"(?:in|at|near)\b", statement.rest)
        return fact(statement, "personal", slot_of(statement, slots.HOME) if current else None) if place else None
    if statement.verb == "move" and statement.kind in ("past", "perfect") and statement.rest:
        if not re.match(r"(?:to|into|from|back to|here from|in with)\b", statement.rest):
            return None
        # "The dinner moved to Friday" changes a date and no home.
        if _is_thing(statement):
            dated = DATE.search(statement.rest) or TIME.search(statement.rest)
            return _arrangement(replace(statement, rest=f"moved {statement.rest}")) if dated else None
        return fact(
            statement,
            "personal",
            slot_of(statement, slots.HOME) if re.match(r"(?:to|into|back to)\b", statement.rest) else None,
        )
    # "I'm coming from work" is a journey; "I come from Porto" an origin.
    origin = statement.verb in ("come", "grow") and statement.kind != "gerund" and _is_somebody(statement)
    if origin and re.match(r"(?:originally )?(?:from|up in)\b", statement.rest):
        return fact(statement, "personal", slot_of(statement, slots.ORIGIN))
    if statement.verb in ("work", "study", "teach") and statement.kind in ("present", "gerund", "used", "past"):
        if not statement.rest or re.match(r"(?:hard|well|on (?:it|this|that)|out)\b", statement.rest):
            return None
        # One job and one employer at a time: a new one replaces the former.
        jobs = {"as": slots.JOB, "at": slots.EMPLOYER, "for": slots.EMPLOYER}
        attribute = jobs.get(statement.rest.split(" ")[0])
        holds = statement.kind == "present" and statement.verb == "work"
        return fact(statement, "work", slot_of(statement, attribute) if attribute and holds else None)
    return None


def aiming(statement: ParsedClause) -> StatedFact | None:
    """Return a plan, wish or decision."""
    rest = statement.rest
    if statement.kind == "gerund" and statement.verb == "go" and re.match(r"to [a-z]", rest):
        return None if FILLER_AIM.match(rest) or statement.said.startswith("was") else fact(statement, "plan")
    if statement.verb not in AIMS or statement.kind not in ("present", "gerund", "perfect", "past"):
        return None
    # A past wish may be given up; a decision holds until another one.
    if statement.kind == "past" and statement.verb != "decide":
        return None
    if re.match(r"to\b", rest):
        decided = statement.verb == "decide" and not re.match(r"to (?:chat|talk|ask|share|tell|say)\b", rest)
        return fact(statement, "plan") if decided or not FILLER_AIM.match(rest) else None
    if statement.verb == "plan" and re.match(r"(?:a|an|on|my|for|the) ", rest):
        return fact(statement, "plan")
    if statement.verb == "need" and NUMBER.search(rest):
        return fact(statement, "constraint")
    if statement.verb == "want" and re.match(r"(?:a|an|the) ", rest) and statement.subject != USER:
        return fact(statement, "preference")
    return None


def doing(statement: ParsedClause) -> StatedFact | None:
    """Return a habit, or an ongoing or past activity."""
    if not _is_somebody(statement):
        # Of things only prices and times are facts: the rest describes them.
        timed = statement.verb in ("cost", "start", "begin", "open", "close", "take", "leave", "arrive")
        exact = NUMBER.search(statement.rest) or TIME.search(statement.rest)
        attribute = slots.PRICE if statement.verb == "cost" else slots.TIME
        return fact(statement, "plan", slot_of(statement, attribute)) if timed and exact else None
    # Some habits need no object, but only in general: "I smoke".
    if (
        not statement.rest
        and statement.verb in ALONE
        and statement.kind in ("present", "used")
        and statement.subject == USER
    ):
        return StatedFact(statement.text(), "other", None, statement.negated)
    if statement.kind == "gerund" and statement.verb == "feel":
        return fact(statement, "health") if FEELING.match(statement.rest) else None
    judge = _BY_KIND.get(statement.kind)
    if judge is None or not statement.rest:
        return None
    category = judge(statement)
    became = statement.kind in ("past", "perfect") and BECAME.fullmatch(f"{statement.verb} {statement.rest}")
    return fact(statement, category, slot_of(statement, slots.MARITAL) if became else None) if category else None


def _is_thing(statement: ParsedClause) -> bool:
    """Return whether the subject is a thing such as "The dinner", not the user or something that the user has."""
    return statement.subject.startswith("The ") and not statement.subject.startswith(USER)


def _is_somebody(statement: ParsedClause) -> bool:
    """Return whether the subject is a person or an animal."""
    # Somebody's things are not somebody, though their relatives and pets are.
    theirs = statement.subject.startswith(f"{USER}'s ") and not re.search(rf"{RELATION}s?$", statement.subject)
    return not (_is_thing(statement) or theirs)


def _able(statement: ParsedClause) -> str | None:
    """Return the category of an ability, duty or plan; None if the statement is not a fact."""
    verb = statement.verb
    # What somebody cannot eat or drink is a matter of health.
    if statement.negated and verb in ("eat", "drink", "have"):
        return "health"
    if statement.negated and verb in ("come", "attend", "swim", "drive", "walk"):
        return "constraint"
    if (
        statement.said.startswith("must")
        and verb in HABITS | EVENTS | DOINGS | {"be", "have"}
        and concrete(statement.rest)
    ):
        return "constraint"
    if statement.said.startswith("will") and verb in EVENTS | DOINGS | HABITS and concrete(statement.rest):
        return "plan"
    if statement.said.startswith("can ") and statement.subject != USER and verb in DOINGS | HABITS:
        return "plan"
    return None


def _habitual(statement: ParsedClause) -> str | None:
    """Return the category of a habit; None if the statement is not a fact."""
    verb = statement.verb
    if verb == "suffer" or (statement.negated and verb in ("eat", "drink", "smoke")):
        return "health"
    if verb == "take" and not _TAKEN.search(statement.rest):
        return None
    if verb in ("own", "rent", "drive", "speak", "raise"):
        return "personal"
    if verb in DOINGS:
        return "other" if statement.subject != USER else None
    return "preference" if verb in HABITS else None


def _former(statement: ParsedClause) -> str | None:
    """Return the category of a former habit; None if the statement is not a fact."""
    return "other" if statement.verb in HABITS | TASTES else None


def _underway(statement: ParsedClause) -> str | None:
    """Return the category of an ongoing activity; None if the statement is not a fact."""
    verb, rest = statement.verb, statement.rest
    if goal := re.match(r"(?:for|to|of|about) (.+)", rest):
        # "Looking for a flat" is a plan if it says for what.
        if verb in ("look", "think"):
            return "plan" if specific(goal[1]) and not FILLER_AIM.match(rest) else None
    elif verb in ("look", "think"):
        return None
    if verb in ("try", "start", "begin") and FILLER_AIM.match(rest):
        return None
    if verb == "try":
        return "plan"
    if verb == "go":
        return "plan" if concrete(rest) and not statement.said.startswith("was") else None
    if verb == "work":
        return "work"
    if (
        verb not in UNDERWAY
        or (verb == "get" and not _GOT.match(rest))
        or (verb == "come" and rest.startswith("from "))
    ):
        return None
    return "plan" if verb in DOINGS | {"prepare", "consider", "visit"} else "other"


def _done(statement: ParsedClause) -> str | None:
    """Return the category of a past activity; None if the statement is not a fact."""
    verb, rest = statement.verb, statement.rest
    # Without its date the fact must still name something: "went on Friday" does not.
    if verb not in EVENTS or statement.negated or not specific(DATE.sub("", rest)):
        return None
    # "Ran out" and "made sure" name nothing that happened.
    idiom = verb in ("run", "make", "come", "leave", "take", "learn") and re.match(
        r"(?:up|out|back|into|sure|off|from|a lot|many|so much)\b", rest
    )
    return None if idiom or (verb == "get" and not _GOT.match(rest)) else "other"


_TAKEN = pattern(r"\b(?:mg|medication|pills?|insulin|lessons?|classes|a course|the bus|the train|vitamins?)\b")
_GOT = pattern(
    r"(?:(?!no )(?:an?|my|our|his|her|their|some|the|two|three|\d+|new|first|another) |"
    r"(?:married|engaged|divorced|promoted|hired|fired|accepted|laid off|rid)\b|(?:into|to) [A-Z])"
)
"""Things that somebody got, or became for good; "got lucky" names nothing."""
_BY_KIND: dict[str, Callable[[ParsedClause], str | None]] = {
    "modal": _able,
    "present": _habitual,
    "used": _former,
    "gerund": _underway,
    "past": _done,
    "perfect": _done,
}


# -- clauses of a fixed shape: "keep it under 300 euros", "call me Sam", "my sister Ana" -----------

_BUDGET = pattern(
    r"(?:please )?(?:let's |we (?:have to|need to|must|should) |I (?:have to|need to|must|"
    r"want to) )?(?:try to )?(?:keep|stay|remain)"
    r"(?: (?:it|this|that|everything|all|costs?|the (?:total|cost|costs|price|budget|bill|whole thing|"
    r"whole dinner)))?"
    r"(?: all)? (?P<limit>(?:strictly |well )?(?:under|below|within|at most|to at most|at|to) .{1,80})",
    re.IGNORECASE,
)
_SPEND = pattern(
    r"(?:I|we) (?:can't|cannot|can|must|want to|will|may)(?: only| not| never)? (?:spend|pay|"
    r"afford) (?P<limit>(?:at most|no more than|"
    r"not more than|more than|up to|only|a maximum of|around|about|less than|under)? ?.{1,60})",
    re.IGNORECASE,
)
_ASKED = "answer|reply|respond|use|ask|include|write|speak|book|send|show|tell|give|mention|assume|suggest|add|call|say"
"""Verbs of requests to the assistant to do something always or never."""
_STANDING = pattern(rf"(?:please )?(?P<what>(?:always|never) (?:{_ASKED}) .{{3,150}})", re.IGNORECASE)
_CALL_ME = pattern(
    rf"(?:[Pp]lease |[Jj]ust |[Yy]ou can )?[Cc]all me (?P<name>{NAME})$|[Mm]y friends call me (?P<name2>{NAME})$"
)
_HAVE_RELATIVE = pattern(
    rf"[Ii](?:'ve got| have)\b.{{0,80}}?\b(?P<what>{RELATION}),? (?:named|called) (?P<name>{NAME})\b"
)
_MY_RELATIVE = pattern(
    rf"\b[Mm]y (?P<what>{RELATION})(?: (?P<name>{NAME})|, (?P<one>{NAME})(?=,| [a-z]))\b(?! {NAME}'s)"
)
"""After a comma a name may be the next item of a list: "my girlfriend, Toby [and I]"."""
_THEIR_RELATIVE = pattern(rf"\b(?P<whose>{NAME})'s (?P<what>{RELATION}) (?P<name>{NAME})\b")


def relatives(clause: str) -> Iterator[StatedFact]:
    """Yield facts from "my sister Ana" and "Ana's brother Rui", anywhere in a text."""
    mine = [(match["name"] or match["one"], match["what"]) for match in _MY_RELATIVE.finditer(clause)]
    mine += [(match["name"], match["what"]) for match in _HAVE_RELATIVE.finditer(strip_lead_in(clause)[:200])]
    # Not every capitalised word is a name.
    for name, what in mine:
        if name.lower() not in NOT_NAMES:
            yield StatedFact(f"{name} is the user's {what.lower()}", "relationship")
    for match in _THEIR_RELATIVE.finditer(clause):
        if not {match["name"].lower(), match["whose"].lower()} & NOT_NAMES:
            yield StatedFact(f"{match['name']} is {match['whose']}'s {match['what'].lower()}", "relationship")


def budget(clause: str) -> StatedFact | None:
    for shape in (_BUDGET, _SPEND):
        match = shape.match(clause)
        # Without an amount it is no budget: "keep it under control".
        if match and MONEY.search(match["limit"]):
            limit = clean(match["limit"])
            if limit is None:
                return None
            # "Can't spend more than 300" is a limit of at most 300.
            if re.search(
                r"\b(?:not|never|can't|cannot)\b", clause[: match.start("limit")]
            ) and limit.lower().startswith("more than"):
                limit = f"at most{limit[9:]}"
            return StatedFact(
                f"The budget is {limit.removeprefix('within ').removeprefix('to ')}", "constraint", BUDGET
            )
    return None


def standing_instruction(clause: str) -> StatedFact | None:
    """Return a wish for every reply, as in "Always answer in English"; None if the clause is not one."""
    match = _STANDING.fullmatch(clause)
    text = in_third_person(match["what"]) if match else None
    return StatedFact(f"The user asks: {text[0].lower()}{text[1:]}", "constraint") if text else None


def called(clause: str) -> StatedFact | None:
    match = _CALL_ME.match(clause)
    name = (match["name"] or match["name2"]) if match else None
    return (
        StatedFact(f"The user's name is {name}", "personal", of_user(slots.NAME))
        if name and name.lower() not in NOT_NAMES
        else None
    )

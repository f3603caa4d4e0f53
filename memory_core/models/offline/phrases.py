"""Facts in clauses of a fixed shape: "keep it under 300 euros", "call me Sam", "my sister Ana". Pure."""

import re
from collections.abc import Iterator

from memory_core.models.offline.grammar import NAME, NOT_NAMES, RELATION, strip_lead_in
from memory_core.models.offline.patterns import pattern
from memory_core.models.offline.vocabulary import MONEY
from memory_core.models.offline.wording import BUDGET, StatedFact, clean, in_third_person
from memory_core.planning import slots
from memory_core.planning.slots import of_user

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

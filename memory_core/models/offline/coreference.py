"""Resolve "she" and "it" while reading a text clause by clause. Pure."""

import re
from dataclasses import dataclass, field

from memory_core.models.offline.grammar import GROUP, RELATION, USER, Statement, parse, strip_lead_in
from memory_core.models.offline.patterns import pattern

_BARE_EVENT = pattern(
    r"(?:Dinner|Lunch|Brunch|Breakfast|Budget|Check-in|Check-out|Departure|Deadline)(?= (?:is|was|will|has|"
    r"starts|moved|begins)\b)"
)


def statement_of(clause: str, antecedent: str | None = None, thing: str | None = None) -> Statement | None:
    """Return the statement of a clause, None if it has none; "he" and "she" mean `antecedent`, "it" means `thing`."""
    bare = strip_lead_in(clause)
    # A bare "Dinner is at eight" means the one dinner, as "The dinner" would.
    if event := _BARE_EVENT.match(bare):
        bare = f"The {event.group().lower()}{bare[event.end() :]}"
    return parse(bare, antecedent=antecedent, thing=thing)


@dataclass(slots=True)
class Antecedents:
    """Referents of "she" and "it" in one text: the only person, and the only thing, named so far."""

    people: list[str] = field(default_factory=list)
    things: list[str] = field(default_factory=list)

    @property
    def person(self) -> str | None:
        """The only person named so far; None if none or several are."""
        # With two people named, "she" could be either, and a wrong guess would be a false fact.
        return self.people[0] if len(self.people) == 1 else None

    def read(self, clause: str) -> Statement | None:
        """Return the statement of the next clause (None: it has none), and note its subject."""
        antecedent = self.person
        thing = self.things[0] if len(self.things) == 1 else None
        statement = statement_of(clause, antecedent, thing)
        if statement is not None:
            self._note(statement.subject)
        return statement

    def meet(self, person: str) -> None:
        """Note a person who was named beside the subject of a clause."""
        if person not in self.people:
            self.people.append(person)

    def _note(self, subject: str) -> None:
        # The user and their group are never "she" or "it".
        if subject in (USER, GROUP):
            return
        somebody = not subject.startswith(("The ", "Project ")) or re.fullmatch(rf"{USER}'s {RELATION}", subject)
        # A possession such as "Ana's car" may be anything, so it is counted as a thing.
        if "'s" in subject.removeprefix(USER + "'s") and not re.search(rf"'s {RELATION}$", subject):
            somebody = None
        place = self.people if somebody else self.things
        if subject not in place:
            place.append(subject)

"""Resolve "she" and "it" while reading a text clause by clause. Pure."""

import re
from dataclasses import dataclass, field

from memory_core.messages import ChatMessage, MessageRole, message_text
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


_HE_OR_SHE = pattern(r"\s*(?:(?P<he>he)|she)\b", re.IGNORECASE)
_WOMAN = pattern(
    r"\b(?:sister|mother|mom|mum|wife|daughter|aunt|niece|girlfriend|grandmother|grandma)\b", re.IGNORECASE
)
_MAN = pattern(r"\b(?:brother|father|dad|husband|son|uncle|nephew|boyfriend|grandfather|grandpa)\b", re.IGNORECASE)
_NAMED = pattern(r"(?<=[\w,] )[A-ZÀ-Þ][a-zß-ÿ]+")


@dataclass(slots=True)
class Antecedents:
    """Referents of "she" and "it" in one text: the only person, and the only thing, named so far."""

    before: str | None = None
    """The only person of the message before, whom "she" means while this one names nobody; None if there is none."""
    people: list[str] = field(default_factory=list)
    things: list[str] = field(default_factory=list)

    def of_next(self, text: str, before: str, reply: str) -> "Antecedents":
        """Return those of the next message of the user: one that begins with "he" or "she" goes on about the person.

        Not if the words `before` call that person by the other, or the `reply` to them names somebody else.
        """
        match, person = _HE_OR_SHE.match(text), self.person
        other = match and (_WOMAN if match["he"] else _MAN).search(before)
        if not match or not person or other or any(name not in person for name in _NAMED.findall(reply)):
            return Antecedents()
        return Antecedents(person)

    @property
    def person(self) -> str | None:
        """The only person named so far; None if none or several are."""
        # With two people named, "she" could be either, and a wrong guess would be a false fact.
        return self.people[0] if len(self.people) == 1 else None if self.people else self.before

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


@dataclass(slots=True)
class Heard:
    """Last words of the user and the reply to them, for the antecedents of the user's next message."""

    antecedents: Antecedents = field(default_factory=Antecedents)
    text: str = ""
    reply: str = ""

    def hear(self, message: ChatMessage) -> Antecedents | None:
        """Note a message; return the antecedents to read it with, None unless it is the user's."""
        text = message_text(message)
        if message.role is not MessageRole.USER:
            self.reply += f" {text}"
            return None
        self.antecedents = self.antecedents.of_next(text, self.text, self.reply)
        self.text, self.reply = text, ""
        return self.antecedents

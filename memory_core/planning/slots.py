"""Slots: attributes that facts and relations give a value to, and which of them hold one value at a time. Pure.

The rules for facts take their attributes from here, and the graph those of its predicates. In a slot of one value the
last value stated is current; a slot of several values keeps them all. Suppositions, plans and questions have no slot,
and so replace nothing.
"""

import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from memory_core.text import stems

ADDRESS, AGE, ANNIVERSARY, BIRTHDAY, BUDGET = "address", "age", "anniversary", "birthday", "budget"
DATE, EMPLOYER, HOME, JOB, NAME = "date", "employer", "home", "job", "name"
MARITAL, ORIGIN, PLACE, PRICE = "marital status", "origin", "place", "price"
STATUS, TIME = "status", "time"
"""Attributes that rules recognise; others are named by the words of the speaker."""

_OF_SEVERAL = "allergy child children dislike friend hobby language like pet sibling skill"
"""Attributes that hold several values at a time, in singular or plural; all others hold one."""

_NAMED_ALIKE = (
    ADDRESS, AGE, ANNIVERSARY, BIRTHDAY, BUDGET, DATE, MARITAL, NAME, STATUS, "boss", "capital", "ceo",
    "coordinator", "cto", "date of birth", "deadline", "director", "email", "end date", "favourite colour", "head",
    "headquarters", "kick-off", "launch date", "lead", "leader", "located in", "location", "manager",
    "native language", "office", "owner", "phone number", "release date", "start date",
)  # fmt: skip
"""Predicates of the same name as their attribute."""
ATTRIBUTES: Mapping[str, str] = {attribute: attribute for attribute in _NAMED_ALIKE} | {
    "married to": MARITAL, "engaged to": MARITAL,
    "lives in": HOME, "works at": EMPLOYER, "works as": JOB, "located at": PLACE, "venue": PLACE, "reports to": "boss",
    "starts on": "start date", "ends on": "end date", "launch": "launch date", "head office": "headquarters",
}  # fmt: skip
"""Attribute of each predicate that holds for one object at a time, by its normal form; any other predicate may hold for
several objects."""

_OWNED = re.compile(r"(?:the )?(?:(?P<attribute>[^.]+?) of (?:the )?(?P<of>[^.]+)|(?P<owner>[^.]+)'s (?P<its>[^.]+))")


@dataclass(frozen=True, slots=True)
class Slot:
    """A subject and one of its attributes.

    >>> Slot.read("user.sister.home")
    Slot(subject='user.sister', attribute='home')
    """

    subject: str
    """Person or thing that has the attribute: `user`, `user.sister`, `dinner`; empty if the attribute names it, too."""
    attribute: str

    @classmethod
    def read(cls, text: str) -> "Slot":
        """Parse a slot from its text form."""
        subject, _, attribute = text.rpartition(".")
        return cls(subject, attribute)

    @classmethod
    def normal(cls, text: str) -> "Slot":
        """Parse a slot as relations have it: `the deadline of atlas` and `atlas's deadline` as `atlas.deadline`."""
        slot = cls.read(text)
        match = _OWNED.fullmatch(text) if not slot.subject and text not in ATTRIBUTES.values() else None
        return slot if match is None else cls(match["of"] or match["owner"], match["attribute"] or match["its"])

    def __str__(self) -> str:
        """Return the text form, as facts are stored with it: `user.home`."""
        return f"{self.subject}.{self.attribute}" if self.subject else self.attribute

    @property
    def single(self) -> bool:
        """True if the slot holds one value at a time."""
        attribute = stems(self.attribute, stop=False)
        return len(attribute) != 1 or attribute[0] not in stems(_OF_SEVERAL, stop=False)


@lru_cache(maxsize=4_096)
def single_slot(text: str | None) -> Slot | None:
    """Return a stored slot in its normal form; None if there is none, or if it holds several values."""
    slot = None if text is None else Slot.normal(text)
    return slot if slot is not None and slot.single else None


def comes_back(last: dict[Slot, Hashable], slot: Slot | None, value: Hashable) -> bool:
    """Note a value in `last`, by its slot of one value; return whether it follows another value of the slot."""
    before = last.get(slot, value) if slot is not None else value
    if slot is not None and slot.single:
        last[slot] = value
    return before != value


def of_user(attribute: str) -> Slot:
    """Return the slot of an attribute of the user."""
    return Slot("user", attribute)


def excludes(slot: str | None, other: str | None) -> bool:
    """Return whether facts in these slots exclude each other, because it is one slot with one value at a time.

    >>> excludes("user.home", "user.home"), excludes("user.languages", "user.languages"), excludes(None, None)
    (True, False, False)
    """
    return bool(slot) and slot == other and Slot.read(str(slot)).single

"""Scenarios for `operations.py`: MemOps, FactConsolidation, and a generator of our own with a seed."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from recall_data import DataError


@dataclass(frozen=True, slots=True)
class Operation:
    """Change of a value by a user: it is stated, replaced, or to be forgotten."""

    type: str
    """`remember`, `update`, `forget` or `reflect`."""
    confirmed: bool
    old: str
    new: str
    """Former and new value; empty where there is none."""
    quote: str
    """Words of the conversation that say so."""
    place: int
    """Index of its message."""


@dataclass(frozen=True, slots=True)
class Target:
    """A value that is followed through a conversation."""

    name: str
    """Question of the prompt."""
    operations: tuple[Operation, ...]
    """In the order of the conversation."""

    @property
    def confirmed(self) -> tuple[Operation, ...]:
        return tuple(operation for operation in self.operations if operation.confirmed)


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    messages: tuple[tuple[str, str], ...]
    """Role and text."""
    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class Statements:
    """A FactConsolidation file: statements of which later ones replace earlier ones about the same thing."""

    name: str
    statements: tuple[str, ...]
    questions: tuple[tuple[str, tuple[str, ...]], ...]
    """Question and accepted answers."""


def read(path: Path) -> list[Scenario] | Statements:
    """Read a file of MemOps (JSON lines) or FactConsolidation (JSON).

    Raises:
        DataError: the file cannot be read, or is of another shape; names the file and, of JSON lines, the line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error
    number = 0
    try:
        if path.suffix == ".jsonl":
            scenarios = []
            for number, line in enumerate(text.splitlines(), 1):
                scenarios.append(_scenario(json.loads(line), f"{path.stem}/{number}"))
            return scenarios
        data = json.loads(text)
        lines = [line.partition(". ")[2] for line in data["context"].splitlines() if line.partition(". ")[0].isdigit()]
        questions = zip(data["questions"], data["answers"], strict=True)
        return Statements(path.stem, tuple(lines), tuple((asked, tuple(answers)) for asked, answers in questions))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        where = f"{path}, line {number}" if number else f"{path}"
        raise DataError(f"{where} is neither of MemOps nor of FactConsolidation: {error!r}.") from error


def _scenario(data: dict, name: str) -> Scenario:
    messages = [turn for part in data["conversations"] for turn in part["dialogue"]]
    targets: dict[str, tuple[str, list[Operation]]] = {}
    for entry in data["operations"]:
        quote = entry["evidence_spans"][-1]["quote"] if entry["evidence_spans"] else entry["trigger_span"]["quote"]
        place = next((at for at, turn in enumerate(messages) if quote in turn["content"]), len(messages))
        operation = Operation(
            entry["type"],
            entry["validity"] == "confirmed",
            entry["old_value"] or "",
            entry["new_value"] or "",
            quote,
            place,
        )
        target = entry["target"]
        targets.setdefault(target["target_id"], (target["target_name"], []))[1].append(operation)
    return Scenario(
        name,
        tuple((turn["role"], turn["content"]) for turn in messages),
        tuple(Target(asked, tuple(sorted(ops, key=lambda op: op.place))) for asked, ops in targets.values()),
    )


# -- the generator -------------------------------------------------------------------------------

_CITIES = ["Lisbon", "Porto", "Ghent", "Turin", "Malmo", "Graz", "Cork", "Vilnius"]
_JOBS = ["nurse", "surveyor", "baker", "translator", "carpenter", "pharmacist"]
_DRINKS = ["green tea", "black coffee", "ginger lemonade", "mint tea"]
_FRIENDS = ["Ana", "Imke", "Rui", "Tomas", "Ilse"]
_TOPICS = ["What rhymes with orange?", "How do I descale a kettle?", "Is 91 a prime number?", "Name three rivers."]


@dataclass(frozen=True, slots=True)
class _Slot:
    name: str
    says: str
    """A statement of the value."""
    changes: str
    maybe: str
    values: list[str]


_SLOTS = (
    _Slot("home town", "I live in {}.", "I moved to {}.", "I might move to {} one day.", _CITIES),
    _Slot("job", "I work as a {}.", "I now work as a {}.", "I am thinking of becoming a {}.", _JOBS),
    _Slot("favourite drink", "My favourite drink is {}.", "My favourite drink is now {}.",
          "If I were older, my favourite drink would be {}.", _DRINKS),
)  # fmt: skip


def generate(number: int, seed: int) -> list[Scenario]:
    """Return scenarios in which a value changes, goes back, is corrected, is only considered, or is a friend's.

    Distractors (questions, and the same slot of another person) stand between. The same seed gives the same scenarios.
    """
    chance = random.Random(seed)
    return [_generated(f"seed {seed}/{place}", chance, place) for place in range(number)]


_PLANS = ("changes", "goes back", "is corrected", "is tentative", "is shared")


def _generated(name: str, chance: random.Random, place: int) -> Scenario:
    slot, plan = _SLOTS[place % len(_SLOTS)], _PLANS[place % len(_PLANS)]
    first, second, third = chance.sample(slot.values, 3)
    friend = chance.choice(_FRIENDS)
    messages: list[tuple[str, str]] = []
    operations: list[Operation] = []

    def say(text: str, type: str = "", new: str = "", old: str = "", confirmed: bool = True) -> None:
        if type:
            operations.append(Operation(type, confirmed, old, new, text, len(messages)))
        messages.extend([("user", text), ("assistant", "All right.")])
        if chance.random() < 0.7:
            messages.extend([("user", chance.choice(_TOPICS)), ("assistant", "Let me think about that.")])

    say(slot.says.format(first), "remember", first)
    if plan == "is corrected":
        say("Sorry, that was wrong. " + slot.says.format(second), "update", second, first)
    elif plan == "is tentative":
        say(slot.maybe.format(second), "update", second, first, confirmed=False)
    elif plan == "is shared":
        say(_of_friend(slot, friend).format(second))
        say(slot.changes.format(third), "update", third, first)
    else:
        say(slot.changes.format(second), "update", second, first)
        if plan == "goes back":
            say(slot.changes.format(first), "update", first, second)
    return Scenario(f"{name} {slot.name} {plan}", tuple(messages), (Target(slot.name, tuple(operations)),))


def _of_friend(slot: _Slot, friend: str) -> str:
    """The same slot of another person, who must not change the user's."""
    if slot.says.startswith("My"):
        return f"My friend {friend}'s{slot.says.removeprefix('My')}"
    verb, _, rest = slot.says.removeprefix("I ").partition(" ")
    return f"My friend {friend} {verb}s {rest}"


def user_messages(scenario: Scenario) -> Iterator[str]:
    return (text for role, text in scenario.messages if role == "user")

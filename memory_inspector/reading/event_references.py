"""References of an event to facts, messages and relations that can be traced to a prompt. Pure."""

from collections.abc import Iterator
from typing import Any

from memory_core.events import (
    EventRecord,
    FactsCondensed,
    NothingLearned,
    RecipeChosen,
    Ref,
    RefKind,
    Retrieved,
    expand,
)
from memory_inspector.wording.formatting import tokens

MAX_FOLLOWED = 5
"""Maximum number of references of one event, the first ones, that are offered as items to follow."""

_NUMBERED: tuple[tuple[str, RefKind], ...] = (("fact", "fact"), ("relation", "relation"), ("seq", "message"))
"""Fields that hold one number, and the kind of item that it identifies."""

_LISTED: tuple[tuple[str, RefKind], ...] = (
    ("vanished", "fact"), ("new", "fact"), ("kept", "fact"), ("facts", "fact"), ("relations", "relation"),
    ("numbers", "unit"), ("nodes", "unit"),
)  # fmt: skip
"""Fields that list numbers, or tuples that begin with a number, and the kind of item that the numbers identify."""

_SPANS = ("sources", "seqs", "removed")
"""Fields that contain ranges of message numbers."""

_NOUNS: dict[RefKind, str] = {"unit": "stored turn"}


def followable(record: EventRecord) -> list[Ref]:
    """Return the messages, facts, relations and stored units that an event names, its subject first.

    Cuts of a prompt have refs of their own, see `Ref.of_cut`.
    """
    return list(dict.fromkeys(_named(record.event)))


def label(ref: Ref) -> str:
    """Return the label of a button: `Follow fact 4`."""
    return f"Follow {_NOUNS.get(ref.kind, ref.kind)} {tokens(ref.number)}"


def _named(event: Any) -> Iterator[Ref]:
    # The fields of this event have the same names as in others, but list names of blocks.
    if isinstance(event, RecipeChosen):
        return
    for field, kind in _NUMBERED:
        if isinstance(number := getattr(event, field, None), int):
            yield Ref.of(kind, number)
    if isinstance(event, Retrieved):
        granted = [number for number, _, _, _, outcome in event.candidates if outcome == "granted"]
        # What reached the prompt comes first; with nothing granted, all candidates are worth following.
        yield from (Ref.of("unit", number) for number in granted or [ref[0] for ref in event.candidates])
    if isinstance(event, FactsCondensed):
        yield from (Ref.of("fact", number) for merged, into in event.merged for number in (into, *merged))
    for field, kind in _LISTED:
        listed = getattr(event, field, ())
        # Other events use these names for plain numbers.
        for ref in listed if isinstance(listed, tuple) else ():
            yield Ref.of(kind, ref[0] if isinstance(ref, tuple) else ref)
    if isinstance(event, NothingLearned):
        yield from (Ref.of("message", seq) for _, seqs, _, _ in event.reasons for seq in expand(seqs))
    for field in _SPANS:
        yield from (Ref.of("message", seq) for seq in expand(getattr(event, field, ())))

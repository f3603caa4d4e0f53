"""Building blocks of sentences about events, and the words that several of them share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Literal

from memory_core.events import Event, FactsExtracted, RelationsExtracted
from memory_inspector.wording.formatting import count, short, tokens

Tone = Literal["plain", "loss", "waiting"]

QUOTED = 60
"""Maximum characters quoted of a fact or a question in a sentence."""

SAID = 40
"""Maximum characters quoted of a message, whose speaker and size are in the same sentence."""

NOT_CAPTURED = "content not captured"
"""Placeholder where an attached agent's spans have ids and counts, but no words."""

ERASED = "an erased fact"

ERASED_RELATION = "an erased relation"

ERASED_NAME = "an erased name"


@dataclass(frozen=True, slots=True)
class Line:
    """A sentence about an event."""

    icon: str
    """A Material icon's name."""
    text: str
    """Plain text, unescaped; the caller that draws it must escape it."""
    tone: Tone = "plain"
    details: tuple[str, ...] = ()
    """Texts of the items that the sentence counts, such as the facts learned."""
    more: tuple[str, ...] = ()
    """Further details on request, such as the turns recalled."""
    rewrites: str = ""
    """Block for which the Rewrites view of the Facts page lists the items that this sentence counts; empty: none."""


@dataclass(frozen=True, slots=True)
class Words:
    """Texts that events refer to by id or hash."""

    facts: Mapping[int, str]
    """Texts of facts, by id."""
    turns: Mapping[int, int]
    """Number of the turn in the conversation, by id of the stored turn."""
    previews: Mapping[int, str]
    """Beginning of each stored turn's text, by id."""
    due: frozenset[int] = frozenset()
    """Ids of deliveries that are not done yet; a delivery may be done in a later turn than it was queued in."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Texts by hash in the content store: a message's text, a fact's former words, a question."""
    relations: Mapping[int, str] = field(default_factory=dict)
    """Relations by id: `Ana → lives in → Lisbon`."""
    entities: Mapping[int, str] = field(default_factory=dict)
    """Names of entities by id."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Noun for the stored units of each vector block, by the block's name; see `unit_names`."""


def context_of(event: FactsExtracted | RelationsExtracted) -> str:
    """Return the context that a learner was shown, in words that follow the number of messages; empty without one."""
    facts = event.shown if isinstance(event, FactsExtracted) else 0
    shown = [count(event.context, "message")] if event.context else []
    shown += [count(facts, "known fact")] if facts and event.context_tokens else []
    return f", with {' and '.join(shown)} as context ({tokens(event.context_tokens)} tokens)," if shown else ""


@singledispatch
def describe(event: Event, words: Words) -> Line:
    """Describe an event in a sentence; an event of a newer version gets a general one."""
    return Line("help", "An event of a newer version, shown without details")


def seconds(duration: float) -> str:
    """Format a duration with the significant digits: `0.04 s`, `1.3 s`, `21 s`."""
    places = 0 if duration >= 10 else 1 if duration >= 0.1 else 2
    return f"{duration:,.{places}f} s"


def fact_words(fact: int, words: Words) -> str:
    return short(words.facts.get(fact, ERASED), QUOTED)


def relation_words(relation: int, words: Words) -> str:
    return short(words.relations.get(relation, ERASED_RELATION), QUOTED)


def entity_words(entity: int, words: Words) -> str:
    return short(words.entities.get(entity, ERASED_NAME), QUOTED)


def turn_words(stored: int, words: Words) -> str:
    """Return the number of a stored turn in the conversation; `?` if unknown."""
    return tokens(words.turns[stored]) if stored in words.turns else "?"


def in_quotes(title: str) -> str:
    return f" “{short(title)}”" if title else ""


def because(reason: str) -> str:
    return f": {clause(reason)}" if reason else ""


def clause(sentence: str) -> str:
    """Return a sentence without its full stop, for the end of another sentence."""
    # Its full stop goes, because the sentence around it may continue.
    return sentence.strip().removesuffix(".")

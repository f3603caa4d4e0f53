"""Facts: their states, how found facts are merged with known ones, and the checks on a condensed list.

Pure. Found facts are compared with known ones, so that nothing is stored twice, no rejected fact returns, and every
rewriting of a list is traced. Changes by a person are in `curation.py`.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from memory_core.errors import MessageError
from memory_core.messages import storable
from memory_core.planning.slots import excludes
from memory_core.planning.statement_relation import DUPLICATE, DUPLICATE_IN_SLOT, Contradictions
from memory_core.text import similarity, stems

CONDENSED_SHARE = 0.8
"""Condensing must leave at most this share of `max_facts`, so that it is not due again at once."""

_LIMITS_END_IN = 10
"""Proposed limits are multiples of this number, which makes them easier to read and to remember."""

STATES = ("proposed", "active", "superseded", "retired", "rejected")


@dataclass(frozen=True, slots=True)
class Fact:
    """Statement that a block holds, as it was when it was read. Only `active` facts reach a context."""

    id: int
    scope: str
    block: str
    text: str
    tokens: int
    category: str
    slot: str | None
    state: str
    pinned: bool
    origin: str
    """`extracted`, `condensed` or `written` (by a person)."""
    turn: int
    created_at: float
    confirmed_at: float
    updated_at: float
    version: int
    """Number that grows with every change. A change names the version it is based on, so that conflicts are noticed."""
    sources: tuple[tuple[str, int], ...]
    """Session and sequence number of each message that the fact was learned from."""
    topics: tuple[str, ...] = ()
    key: str | None = None
    """A program's name for the fact, unique among the block's active facts; None without one."""
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """JSON object that a program stores with the fact."""


@dataclass(frozen=True, slots=True)
class FactRevision:
    """Version in a fact's history."""

    version: int
    text: str
    state: str
    pinned: bool
    actor: str
    reason: str | None
    turn: int
    at: float
    category: str | None = None
    """None if not stored, as in schema version 1, where categories could not change: the fact's category applies."""
    topics: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    person: str | None = None
    """Person on record for the change set that made this version (`access.Person.label`); None without either."""


def metadata_text(metadata: Mapping[str, Any]) -> str:
    """Return a caller's metadata as JSON text with the keys in the given order, the form that is stored and compared.

    Raises:
        MessageError: it is no JSON object, or nested too deeply.
    """
    # Called only for its errors, such as too deep a nesting; its repaired copy would not be the caller's metadata.
    storable(metadata)
    try:
        text = json.dumps(metadata, allow_nan=False)
        same = json.loads(text) == metadata  # JSON has texts for keys, and lists for tuples
    except (TypeError, ValueError, RecursionError) as error:
        raise MessageError(f"metadata must be a JSON object: {error}") from error
    if not isinstance(metadata, dict) or not same:
        raise MessageError("metadata must be a JSON object: texts as keys, and lists where there are several values")
    return text


# Separator and escape sign, and the characters that no database stores.
_IN_A_PART = re.compile(r"[%/\x00-\x1f\x7f\ud800-\udfff]")
_ESCAPED = re.compile("%(u[0-9A-F]{4}|[0-9A-F]{2})")


def key_of(parts: Sequence[str]) -> str:
    """Join parts into a key; different lists of parts have different keys.

    >>> key_of(["users", "ada", "a/b"]), parts_of("users/ada/a%2Fb")
    ('users/ada/a%2Fb', ('users', 'ada', 'a/b'))
    """

    def escaped(match: re.Match[str]) -> str:
        code = ord(match[0])
        return f"%{code:02X}" if code < 256 else f"%u{code:04X}"

    return "/".join(_IN_A_PART.sub(escaped, part) for part in parts)


def parts_of(key: str) -> tuple[str, ...]:
    """Return the parts that `key_of` joined."""
    return tuple(_ESCAPED.sub(lambda match: chr(int(match[1].lstrip("u"), 16)), part) for part in key.split("/"))


@dataclass(frozen=True, slots=True)
class KnownFact:
    """A known fact, reduced to what planning needs."""

    id: int
    text: str
    slot: str | None = None
    protected: bool = False
    """True if a person wrote, imported, edited, confirmed or pinned the fact; only a person may change it then."""
    rejected: bool = False


@dataclass(frozen=True, slots=True)
class ExtractedFact:
    """A fact as an extractor proposes it, before the engine compares it with what is known."""

    text: str
    category: str = "other"
    """`personal`, `preference`, `plan`, `relationship`, `work`, `health`, `constraint` or `other`."""
    source: int | None = None
    """Index of the message in the extracted batch that says it; None when the extractor does not know."""
    slot: str | None = None
    """Attribute with one value at a time (`home`, `name`, ...): two facts in one slot contradict each other."""
    topics: tuple[str, ...] = ()
    doubtful: bool = False
    """True if the fact leaves so much open that a person must review it; until then no prompt has it."""


@dataclass(frozen=True, slots=True)
class Addition:
    """Index of a found fact that is new, and the facts that it contradicts."""

    index: int
    conflicts_with: tuple[int, ...] = ()
    """Ids of the known facts that it contradicts."""
    found_before: tuple[int, ...] = ()
    """Indexes of the facts found earlier in the batch that it contradicts."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """Index of a found fact, and the id of the known fact that says the same."""

    index: int
    fact: int
    similarity: float


@dataclass(frozen=True, slots=True)
class AdditionPlan:
    """Outcomes of found facts; every found fact is in exactly one of the fields."""

    add: tuple[Addition, ...]
    confirm: tuple[Confirmation, ...]
    held_back: tuple[Confirmation, ...]
    """Found facts that are like a fact a person rejected."""
    repeated: tuple[int, ...]
    """Indexes of found facts that are like another one of the batch."""


def plan_additions(known: Sequence[KnownFact], found: Sequence[ExtractedFact]) -> AdditionPlan:
    """Compare each found fact with all known ones, in order; the most alike known fact decides.

    >>> plan_additions([KnownFact(7, "likes tea")], [ExtractedFact("Likes tea."), ExtractedFact("likes jazz")]).add
    (Addition(index=1, conflicts_with=(), found_before=()),)
    """
    add: list[Addition] = []
    confirm: list[Confirmation] = []
    held_back: list[Confirmation] = []
    repeated: list[int] = []
    held = [fact for fact in known if not fact.rejected]
    contradictions = Contradictions([*(fact.text for fact in held), *(new.text for new in found)])
    for place, fact in enumerate(held):
        contradictions.put(place, fact.text, fact.slot)
    for index, new in enumerate(found):
        alike = [(similarity(fact.text, new.text), fact) for fact in known]
        # Only the nearest decides: a rejected fact must not hold back what an active one says better.
        score, nearest = max(alike, key=lambda pair: pair[0], default=(0.0, None))
        of_one_slot = nearest is not None and excludes(nearest.slot, new.slot)
        if nearest is not None and score >= (DUPLICATE_IN_SLOT if of_one_slot else DUPLICATE):
            (held_back if nearest.rejected else confirm).append(Confirmation(index, nearest.id, score))
            continue
        twin = next((other for other in add if similarity(found[other.index].text, new.text) >= DUPLICATE), None)
        if twin is not None and not any(twin.index in other.found_before for other in add):
            repeated.append(index)
        else:
            # A statement that was contradicted in between, and is repeated now, counts as the later of the two.
            if twin is not None:
                repeated.append(twin.index)
                rest = (other for other in add if other is not twin)
                add = [replace(a, found_before=tuple(i for i in a.found_before if i != twin.index)) for a in rest]
            # Nothing is replaced here: both stay, marked as contradicting each other.
            conflicts = contradictions.add(len(held) + index, new.text, new.slot)
            before = (other.index for other in add if len(held) + other.index in conflicts)
            add.append(Addition(index, tuple(held[n].id for n in conflicts if n < len(held)), tuple(before)))
    return AdditionPlan(tuple(add), tuple(confirm), tuple(held_back), tuple(repeated))


@dataclass(frozen=True, slots=True)
class CondensedFact:
    """Fact of a condensed list, with the indexes of the facts it replaces (none: it is new)."""

    text: str
    category: str = "other"
    stands_for: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CondensePlan:
    """Effect of a condensed list on the known facts. `refused` is the reason for refusing it; then nothing changes."""

    kept: tuple[int, ...]
    merged: tuple[tuple[tuple[int, ...], int], ...]
    """Ids that became one fact, and the index of that fact in the shorter list."""
    vanished: tuple[int, ...]
    new: tuple[int, ...]
    """Indexes of condensed facts that replace no known fact, apart from facts that are kept or replaced elsewhere."""
    refused: str | None = None

    @classmethod
    def unchanged(cls, known: Sequence[KnownFact], reason: str) -> "CondensePlan":
        """Refuse to condense: every known fact stays."""
        return cls(tuple(fact.id for fact in known), (), (), (), reason)


def protected_fill(protected: int) -> str:
    """Return the reason for not condensing a list whose protected facts alone fill the limit."""
    return (
        f"{protected:,} of them were written or confirmed by people and fill it: raise the limit to "
        f"{limit_for(protected):,}, or merge facts by hand"
    )


def condense_target(max_facts: int) -> int:
    """Return the maximum length of a condensed list."""
    return max(1, int(max_facts * CONDENSED_SHARE))


def limit_for(facts: int) -> int:
    """Return a `max_facts` with room for this many facts and some more.

    >>> limit_for(227)
    290
    """
    # The inverse of `condense_target`, for one fact more, so that the next one does not make condensing due again.
    return math.ceil((facts + 1) / CONDENSED_SHARE / _LIMITS_END_IN) * _LIMITS_END_IN


@dataclass(frozen=True, slots=True)
class LimitEffect:
    """Effect of `max_facts` on a block's active facts at its next delivery; all values are numbers of facts."""

    facts: int
    protected: int
    max_facts: int
    keyed: int = 0
    """Further facts, which a program keeps by a key; the limit does not count them."""

    @property
    def target(self) -> int:
        """Length of the list after condensing."""
        return condense_target(self.max_facts)

    @property
    def exceeded(self) -> bool:
        return self.facts > self.max_facts

    @property
    def filled(self) -> bool:
        """True if the protected facts alone leave no room, so that nothing is condensed."""
        # Protected facts stay in any condensed list; with so many of them it has room for nothing else.
        return self.exceeded and self.protected >= self.target

    @property
    def surplus(self) -> int:
        """Number of facts that condensing has to merge or drop."""
        return self.facts - self.target if self.exceeded and not self.filled else 0

    @property
    def proposed(self) -> int:
        """Value of `max_facts` that keeps all facts."""
        return limit_for(self.facts)


def plan_condensing(known: Sequence[KnownFact], shorter: Sequence[CondensedFact], *, max_facts: int) -> CondensePlan:
    """Trace every known fact into the shorter list: kept word for word, merged, or vanished.

    Facts kept word for word are traced first; a fact that several condensed facts stand for counts for
    the first of them. A merge into a kept fact begins with that fact. A list is refused if it is empty,
    longer than `condense_target`, loses a protected fact, or keeps less than half of what it may.
    """
    by_text = {same_words(fact.text): fact.id for fact in known}
    same = [by_text.get(same_words(fact.text)) for fact in shorter]
    kept_ids = tuple(dict.fromkeys(id for id in same if id is not None))
    free = {fact.id for fact in known} - set(kept_ids)
    merged: list[tuple[tuple[int, ...], int]] = []
    new: list[int] = []
    for index, (fact, twin) in enumerate(zip(shorter, same, strict=True)):
        # A model may name indexes that the list does not have.
        named = (known[index].id for index in fact.stands_for if 0 <= index < len(known))
        # Each fact is traced once, or its sources would be counted twice.
        claimed = tuple(dict.fromkeys(id for id in named if id in free))
        free -= set(claimed)
        if claimed:
            merged.append((claimed if twin is None else (twin, *claimed), index))
        elif twin is None:
            new.append(index)
    vanished = tuple(fact.id for fact in known if fact.id in free)
    return CondensePlan(
        kept_ids, tuple(merged), vanished, tuple(new), _refusal(known, shorter, kept_ids, merged, max_facts)
    )


@lru_cache(maxsize=4_096)
def _stems(text: str) -> frozenset[str]:
    """Return the stems of a fact; cached, as every prompt compares all facts."""
    return frozenset(stems(text))


def relevance(text: str, query_stems: frozenset[str]) -> float:
    """Return the share of a fact's stems that the query contains, 0 to 1."""
    own_stems = _stems(text)
    return len(own_stems & query_stems) / len(own_stems) if own_stems else 0.0


def _refusal(
    known: Sequence[KnownFact],
    shorter: Sequence[CondensedFact],
    kept: Sequence[int],
    merged: Sequence[tuple[tuple[int, ...], int]],
    max_facts: int,
) -> str | None:
    target = condense_target(max_facts)
    # A merge into a kept fact begins with that fact, so the set counts it once.
    remaining = len({*kept, *(sources[0] for sources, _ in merged)})
    # Merged counts as lost here: protected means word for word.
    lost = [fact.text for fact in known if fact.protected and fact.id not in kept]
    if not shorter:
        return "it returned no fact at all"
    if len(shorter) > target:
        return f"it returned {len(shorter)} facts, and at most {target} were asked for"
    if lost:
        return f"it lost {len(lost)} protected facts" if len(lost) > 1 else "it lost a protected fact"
    if remaining < min(target, len(known)) // 2:  # one bad answer must not empty a memory: a person may
        return f"it would leave {remaining} of {len(known)} facts, and {target} may stay: merge or retire facts by hand"
    return None


def same_words(text: str) -> str:
    """Normalise a text: equal results have the same words, ignoring case and white space."""
    return re.sub(r"\s+", " ", text).strip().casefold()


# -- age of facts ---------------------------------------------------------------------------------


DAY = 86_400
"""Seconds of a day."""

ASK = "ask_if_true"
"""Key in a fact's metadata: the agent is to ask the user whether the fact still holds."""


def to_ask(metadata: Mapping[str, Any]) -> bool:
    """Return whether the agent is to ask about a fact with this metadata."""
    return metadata.get(ASK) is True


def without_ask(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata without the mark to ask, as for a fact that was confirmed or changed."""
    return {key: value for key, value in metadata.items() if key != ASK}


def prompt_words(text: str, metadata: Mapping[str, Any]) -> str:
    """Return a fact's text as a prompt shows it, with a note if the agent is to ask about the fact.

    >>> prompt_words("The user lives in Porto", {"ask_if_true": True})
    'The user lives in Porto (ask if this is still true)'
    """
    return f"{text} (ask if this is still true)" if to_ask(metadata) else text


@dataclass(frozen=True, slots=True)
class Expiry:
    """Rule by which facts expire."""

    days: int
    now: float
    """Time of the last known message, in seconds since 1970."""
    categories: Sequence[str] = ()
    """Categories whose facts expire; empty: all."""

    @property
    def reason(self) -> str:
        """The rule in words: `not confirmed for 90 days`."""
        return f"not confirmed for {self.days:,} {'day' if self.days == 1 else 'days'}"

    def covers(self, fact: Fact) -> bool:
        """Return whether this rule expires a fact: confirmed too long ago, not pinned, of one of the categories."""
        # A fact that the present delivery confirms has an infinite time until it is stored, so it is never old.
        old = fact.confirmed_at < self.now - self.days * DAY
        return old and not fact.pinned and (not self.categories or fact.category in self.categories)

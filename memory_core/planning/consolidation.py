"""Decisions on found facts, each compared with its nearest known ones: add, update, delete or nothing.

Pure. `prepare` finds the candidates of each found fact; `by_rule` or a model decides; `settle` validates every
decision and returns the changes. An impossible decision is refused, and the rules decide instead, so that no model's
answer touches a fact that was not compared, changes one twice, or loses a found fact.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from memory_core.planning.fact_merging import Confirmation, ExtractedFact, KnownFact, same_words
from memory_core.planning.slots import excludes
from memory_core.planning.statement_relation import CONTRADICTING, DUPLICATE, Bearing, bearing, says_more
from memory_core.text import similarity

Act = Literal["add", "update", "delete", "none"]
ACTS: tuple[Act, ...] = ("add", "update", "delete", "none")

FACT_CHARACTERS = 500
"""Maximum characters of a fact. A longer one that was found is split at its sentences; a longer sentence stays whole,
and is counted in the log. A longer text that a model decides on does not count as a fact."""

EARLIER = "earlier"
"""Rule of a decision on a fact that was said before the known one that it is about."""

MAX_DELETED = 0.5
"""Maximum share of a block's active facts that a model may delete at once; a single fact may always be deleted."""

_RULES: dict[Bearing, tuple[Act, str]] = {
    "same": ("none", "same"),
    "less": ("none", "less"),
    "more": ("update", "more"),
    "ended": ("delete", "negation"),
    "negation": ("delete", "negation"),
    "opposite": ("update", "opposite"),
    "same_slot": ("update", "same_slot"),
    "other_number": ("update", "other_number"),
    "preference": ("update", "preference"),
}
"""Action and name of the rule for each relation of a found fact to a known one, the surest first."""

NOT_COMPARED = "a decision names a fact that was not compared with what was found"
NO_TARGET = "a decision names no fact where it needs one"
PROTECTED = "a decision would change a fact that a person wrote, confirmed or pinned"
TOO_MANY = "the decisions would delete more than half of the facts at once"
TWICE = "two decisions would change one fact"
DOUBLED = "a decision would say the same in two facts"
NO_WORDS = "a decision gives no words that could be a fact"
NO_ACT = "a decision is none of add, update, delete and none"
MISSING = "a found fact was left without a decision"
SURPLUS = "there are more decisions than found facts"


@dataclass(frozen=True, slots=True)
class FactCandidate:
    """A known fact that a found one is compared with."""

    id: int
    text: str
    similarity: float
    """Similarity of wording and, if vectors are available, of meaning, 0 to 1."""
    slot: str | None = None
    protected: bool = False


@dataclass(frozen=True, slots=True)
class Prepared:
    """Found facts, by index: each is in exactly one of `compared`, `held_back` and `repeated`."""

    compared: Mapping[int, tuple[FactCandidate, ...]]
    """Candidates of each fact that needs a decision, nearest first."""
    held_back: tuple[Confirmation, ...]
    """Found facts that are like a fact a person rejected."""
    repeated: Mapping[int, int]
    """Index of each redundant found fact, with that of the found fact that says as much or replaces it."""
    replaced: Mapping[int, tuple[int, ...]]
    """Indexes of the facts whose value a later fact of the batch replaces, in order, by the index of the later one."""
    owners: Mapping[str, int]
    """Ids of the known facts by their text, normalised by `same_words`; without rejected facts."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Decision proposed for one found fact, by a rule or a model, before it is checked."""

    act: Act
    target: int | None = None
    """Id of the candidate that is updated, deleted or repeated; None for `add`."""
    text: str | None = None
    """Text of the updated or added fact; None: the found text. With `delete`: text of a fact to add as well."""
    rule: str = "model"


@dataclass(frozen=True, slots=True)
class Settled:
    """Checked decision on one found fact."""

    index: int
    act: Act
    target: int | None
    """Id of the known fact that is updated, deleted or confirmed; None if there is none."""
    text: str | None
    """Text of the updated or added fact; None if no fact is updated or added."""
    rule: str
    conflicts_with: tuple[int, ...]
    """Ids of the known facts that an added fact contradicts."""
    candidates: tuple[tuple[int, float], ...]
    beside: int | None = None
    """Index of another found fact of the batch that says as much, if no known fact does."""
    found_before: tuple[int, ...] = ()
    """Indexes of the facts found earlier in the batch that an added fact contradicts."""
    replaces: tuple[int, ...] = ()
    """Indexes of the facts found earlier in the batch whose value this one replaces, in order."""
    behind: int | None = None
    """Id of the known fact that replaces an added one, because it was said later; None if there is none."""


@dataclass(frozen=True, slots=True)
class Consolidation:
    """Checked decisions on all found facts that needed a decision, in the order of the facts."""

    settled: tuple[Settled, ...]
    refused: Mapping[str, int]
    """Number of refused decisions by reason."""


def prepare(
    known: Sequence[KnownFact],
    found: Sequence[ExtractedFact],
    *,
    nearest: int,
    cosines: Mapping[tuple[int, int], float] | None = None,
) -> Prepared:
    """Compare each found fact with the others and with all known ones; `nearest` is the number of candidates of each.

    `cosines` are the similarities of the texts' vectors, by index of the found and id of the known fact; without them
    only wordings are compared. Facts that a person rejected hold near copies back and are no candidates.
    """
    held_back: list[Confirmation] = []
    wordings: dict[int, list[float]] = {}
    for index, new in enumerate(found):
        wordings[index] = [similarity(fact.text, new.text) for fact in known]
        score, near = max(zip(wordings[index], known, strict=True), key=lambda pair: pair[0], default=(0.0, None))
        # What a person rejected is not found again in slightly other words.
        if near is not None and near.rejected and score >= DUPLICATE:
            held_back.append(Confirmation(index, near.id, score))
            del wordings[index]
    compared: dict[int, tuple[FactCandidate, ...]] = {}
    # Within the batch first: only its last statement on each matter is compared with known facts.
    repeated = _overtaken(list(wordings), found)
    replaced: dict[int, tuple[int, ...]] = {}
    for index, by in sorted(repeated.items()):
        if index < by and _bearing(found[by].text, found[by].slot, found[index]) in CONTRADICTING:
            replaced[by] = (*replaced.get(by, ()), index)
    for index in [index for index in wordings if index not in repeated]:
        near_ones = []
        for fact, score in zip(known, wordings[index], strict=True):
            if not fact.rejected:
                likeness = _likeness(score, None if cosines is None else cosines[index, fact.id], fact, found[index])
                near_ones.append(FactCandidate(fact.id, fact.text, likeness, fact.slot, fact.protected))
        compared[index] = tuple(sorted(near_ones, key=_nearness(found[index].text))[:nearest])
    owners = {same_words(fact.text): fact.id for fact in known if not fact.rejected}
    return Prepared(compared, tuple(held_back), repeated, replaced, owners)


def by_rule(text: str, slot: str | None, candidates: Sequence[FactCandidate]) -> Decision:
    """Decide without a model, by the surest relation that the fact has to any candidate; ties go to the nearest.

    >>> known = [FactCandidate(7, "The user lives in Lisbon", 0.8, slot="home")]
    >>> by_rule("The user lives in Porto", "home", known)
    Decision(act='update', target=7, text='The user lives in Porto', rule='same_slot')
    """
    bearings = [(_bearing(text, slot, near), near) for near in candidates]
    # Over all candidates for each relation in turn: the nearest fact need not be the one that the find is about.
    for how, (act, rule) in _RULES.items():
        for bears, near in bearings:
            if bears != how:
                continue
            # Both stay, and a person decides between them.
            if near.protected and act != "none":
                return Decision("add", rule="protected")
            if act == "update":
                return Decision("update", near.id, text, rule)
            return Decision(act, near.id, text if act == "delete" and says_more(text) else None, rule)
    return Decision("add", rule="new")


def settle(
    prepared: Prepared,
    decisions: Sequence[Decision],
    found: Sequence[ExtractedFact],
    *,
    active: Collection[int],
    waiting: Collection[int] = (),
    later: Mapping[int, Collection[int]] | None = None,
) -> Consolidation:
    """Validate the decisions, one for each of `prepared.compared` in order, and return the changes.

    `active` are the ids of the block's active facts, `waiting` the indexes of the found facts that a person has to
    review: these change no known fact, but are added and marked as contradicting it. `later` are, by index, the ids of
    known facts that were said after the found one, which changes none of them.
    """
    refused: Counter[str] = Counter()
    indexes = list(prepared.compared)
    checked: list[Decision | None] = []
    # A model may answer with too few or too many decisions; rules decide on the facts that it leaves out.
    for index, decided in zip(indexes, decisions, strict=False):
        problem = find_problem(decided, prepared.compared[index])
        refused.update([problem] if problem else ())
        checked.append(None if problem else decided)
    if len(decisions) < len(indexes):
        refused[MISSING] += len(indexes) - len(decisions)
    elif len(decisions) > len(indexes):
        refused[SURPLUS] += len(decisions) - len(indexes)
    checked += [None] * (len(indexes) - len(checked))
    # After all were checked: together they may empty a memory that each alone would not.
    _spare_most(checked, active, refused)
    settling = _Settling(found, frozenset(waiting), refused, prepared.owners, later or {})
    for index, decision in zip(indexes, checked, strict=True):
        settling.take(index, prepared.compared[index], decision)
    return Consolidation(tuple(settling.settled), dict(refused))


def recalled(found: Sequence[str], from_user: Sequence[bool], remembered: Collection[str]) -> tuple[int, ...]:
    """Return the indexes of found facts that are not `from_user` and only repeat a fact in `remembered`."""
    return tuple(
        index
        for index, (text, users) in enumerate(zip(found, from_user, strict=True))
        if not users and any(similarity(text, fact) >= DUPLICATE for fact in remembered)
    )


# -- categories ----------------------------------------------------------------------------------

_DATED = re.compile(
    r"\b(?:\d{1,2}(?:st|nd|rd|th)?(?: of)? )?(?:january|february|march|april|june|july|august|september|october|"
    r"november|december|monday|tuesday|wednesday|thursday|friday|saturday|sunday)s?\b"
    r"|\b\d{4}-\d\d-\d\d\b|\bin (?:19|20)\d\d\b|\b(?:yesterday|tomorrow|today|tonight|last|next) ?"
    r"(?:week|month|year|night|weekend|spring|summer|autumn|winter)?\b|\b(?:went|visited|met|attended|happened)\b",
    re.IGNORECASE,
)
_HOW_TO = re.compile(
    r"\bhow to\b|\balways\b|\bnever\b|\bsteps?\b|\bfirst\b.*\bthen\b|\bin order to\b|\bwhenever\b|\bevery time\b",
    re.IGNORECASE,
)


def category_among(category: str, text: str, categories: Sequence[str]) -> str:
    """Map a fact's category to one of `categories`, or `other`; without `categories`, unchanged.

    With the three kinds of memory as categories, instructions are `procedural`, dated events `episodic`, and anything
    else `semantic`.

    >>> category_among("plan", "The dinner is on 14 March", ("episodic", "semantic", "procedural"))
    'episodic'
    """
    if not categories:
        return category
    by_folded_name = {name.casefold(): name for name in categories}
    # A name that the block knows goes before any guess by words.
    if category.casefold() in by_folded_name:
        return by_folded_name[category.casefold()]
    # Instructions before events: "always water the fern on Monday" names a day and is no event.
    if "procedural" in by_folded_name and _HOW_TO.search(text):
        return by_folded_name["procedural"]
    if "episodic" in by_folded_name and _DATED.search(text):
        return by_folded_name["episodic"]
    return by_folded_name.get("semantic") or by_folded_name.get("other") or "other"


# -- inside --------------------------------------------------------------------------------------


class _Settling:
    """Apply decisions in order; each sees the effect of those before it."""

    def __init__(
        self,
        found: Sequence[ExtractedFact],
        waiting: Collection[int],
        refused: Counter[str],
        owners: Mapping[str, int],
        later: Mapping[int, Collection[int]],
    ) -> None:
        self.settled: list[Settled] = []
        self._later = later
        self._found, self._waiting, self._refused = found, waiting, refused
        self._owners: dict[str, int | None] = {**owners}
        """Id of the known fact with each normalised text; None if the text is that of an added fact."""
        self._changed: dict[int, str | None] = {}
        """New text of each changed fact, by id; None if it was deleted."""
        self._added: dict[int, ExtractedFact] = {}
        self._said: dict[str, int] = {}
        """Index of the found fact that introduced each normalised text."""

    def take(self, index: int, compared: tuple[FactCandidate, ...], decision: Decision | None) -> None:
        new = self._found[index]
        present = self._as_they_are(compared)
        # Valid by itself, but an earlier decision of the delivery has changed what it is about.
        if decision is not None and (problem := self._late_problem(decision, new)) is not None:
            self._refused.update([problem] if decision.rule == "model" else ())
            decision = None
        if decision is None:
            decision = by_rule(new.text, new.slot, present)
            # A rule would change it a second time: both statements are kept instead.
            if decision.target in self._changed and decision.act != "none":
                decision = Decision("add", rule=decision.rule)
        act, rule, target = decision.act, decision.rule, None if decision.act == "add" else decision.target
        # The words of a deletion are those of a fact to add beside it; without them nothing is added.
        text = decision.text if act == "delete" else None if act == "none" else decision.text or new.text
        conflicts = tuple(near.id for near in present if near.id != target and self._contradicts(text, new, near))
        # What waits for a person changes nothing before it is accepted.
        if index in self._waiting and act in ("update", "delete") and target is not None:
            act, text, rule, conflicts, target = "add", text or new.text, "approval", (target, *conflicts), None
        beside = behind = None
        # An older message changes nothing that was said since: its value is kept as the former one.
        if act in ("update", "delete") and target in self._later.get(index, ()):
            if act == "delete":
                act, text, rule = "none", None, EARLIER
            elif rule == "model" or any(near.id == target and self._contradicts(None, new, near) for near in present):
                act, text, rule, behind, target = "add", new.text, EARLIER, target, None
            else:
                act, text, rule, target = "add", new.text, EARLIER, None
        twin = None if text is None else self._twin(text, new.slot, present, target)
        # The fact that would be added with the deletion is known already.
        if twin is not None and act == "delete":
            text = None
        elif twin is not None:
            (rule, target, beside), act, text, behind = twin, "none", None, None
        self._note(index, act, target, text, new)
        candidates = tuple((near.id, near.similarity) for near in compared)
        conflicts = conflicts if act == "add" and behind is None else ()
        self.settled.append(Settled(index, act, target, text, rule, conflicts, candidates, beside, behind=behind))

    def _note(self, index: int, act: Act, target: int | None, text: str | None, new: ExtractedFact) -> None:
        """Record the effect of this decision."""
        if target is not None and act != "none":
            self._changed[target] = text if act == "update" else None
            # The former text is free again: a later found fact may have it.
            self._owners = {words: owner for words, owner in self._owners.items() if owner != target}
        if text is not None:
            self._owners[same_words(text)] = target if act == "update" else None
            self._said[same_words(text)] = index
            if act != "update":
                self._added[index] = replace(new, text=text)

    def _late_problem(self, decision: Decision, new: ExtractedFact) -> str | None:
        """Return why a decision conflicts with those before it; None if it does not."""
        act, target = decision.act, decision.target
        # Confirming a fact that was just deleted counts as a change as well.
        if target in self._changed and (act in ("update", "delete") or (act == "none" and not self._changed[target])):
            return TWICE
        key = same_words(decision.text or new.text)
        if act == "update" and self._owners.get(key, target) != target:
            return DOUBLED
        # If the decision has no text of its own, this is no mistake: `_twin` treats the found fact as a repetition.
        if act == "add" and decision.text is not None and key in self._owners:
            return DOUBLED
        return None

    def _twin(
        self, text: str, slot: str | None, present: Sequence[FactCandidate], target: int | None
    ) -> tuple[str, int | None, int | None] | None:
        """Return the rule by which a text is a duplicate, and the id or index of the fact it repeats; None if new."""
        key = same_words(text)
        same = next((near for near in present if same_words(near.text) == key), None)
        if same is not None or key in self._owners:
            return "same", None if same is None else same.id, self._said.get(key) if same is None else None
        # New words for a known fact resemble it anyway, so only equal words elsewhere make them a repetition.
        if target is not None:
            return None
        near = next((near for near in present if _bearing(text, slot, near) == "same"), None)
        if near is not None:
            return "same", near.id, None
        for other, added in self._added.items():
            how = _bearing(text, slot, added)
            if how in ("same", "less"):
                return _RULES[how][1], None, other
        return None

    @staticmethod
    def _contradicts(text: str | None, new: ExtractedFact, near: FactCandidate) -> bool:
        how = _bearing(text or new.text, new.slot, near)
        # A protected fact that says less would have been updated: a person decides between the two.
        return how in CONTRADICTING or (near.protected and how == "more")

    def _as_they_are(self, compared: Sequence[FactCandidate]) -> list[FactCandidate]:
        """Return the candidates with their present texts; deleted ones are left out."""
        now = [replace(near, text=self._changed.get(near.id, near.text) or "") for near in compared]
        return [near for near in now if near.text]


def find_problem(decision: Decision, candidates: Sequence[FactCandidate]) -> str | None:
    """Return why a decision is invalid regardless of others; None if it is valid."""
    if decision.act not in ACTS:
        return NO_ACT
    # A rule takes the words as they were found, however long.
    if decision.rule == "model" and decision.text is not None and not is_fact(decision.text):
        return NO_WORDS
    if decision.act == "add":
        return None
    if decision.target is None:
        return NO_TARGET
    target = next((near for near in candidates if near.id == decision.target), None)
    if target is None:
        return NOT_COMPARED
    return PROTECTED if target.protected and decision.act != "none" else None


def _spare_most(decisions: list[Decision | None], active: Collection[int], refused: Counter[str]) -> None:
    """Refuse decisions of a model that would delete most of the facts at once."""
    # Rules delete only what was said to be over, so only a model's deletions are limited.
    deleting = [
        place
        for place, decision in enumerate(decisions)
        if decision is not None and decision.act == "delete" and decision.rule == "model"
    ]
    targets = {decision.target for place in deleting if (decision := decisions[place]) is not None}
    if len(targets) > max(1, MAX_DELETED * len(active)):
        refused[TOO_MANY] += len(deleting)
        for place in deleting:
            decisions[place] = None


def _overtaken(indexes: Sequence[int], found: Sequence[ExtractedFact]) -> dict[int, int]:
    """Map each found fact that another found fact repeats, ends or replaces to that other one; both by index."""
    stays: list[int] = []
    overtaken: dict[int, int] = {}
    for index in indexes:
        bearings = {other: _bearing(found[index].text, found[index].slot, found[other]) for other in stays}
        repeated_by = next((other for other, how in bearings.items() if how in ("same", "less")), None)
        if repeated_by is not None:
            overtaken[index] = repeated_by
            continue
        gone = {other for other, how in bearings.items() if how in _RULES}
        # Entries that name a replaced fact are changed to its successor, so that each names a fact that stays.
        overtaken = {earlier: index if by in gone else by for earlier, by in overtaken.items()}
        overtaken.update(dict.fromkeys(gone, index))
        stays = [*(other for other in stays if other not in gone), index]
    return overtaken


def _nearness(text: str) -> Callable[[FactCandidate], tuple[float, bool, int]]:
    """Return a sort key: nearest candidate first; of equally near ones, the same words as `text`, then the oldest."""
    return lambda near: (-near.similarity, same_words(near.text) != same_words(text), near.id)


def _likeness(wording: float, cosine: float | None, known: KnownFact, new: ExtractedFact) -> float:
    """Combine similarity of wording and of meaning; a shared slot halves the distance."""
    score = wording if cosine is None else (wording + max(0.0, min(1.0, cosine))) / 2
    return 1 - (1 - score) / 2 if excludes(known.slot, new.slot) else score


def _bearing(text: str, slot: str | None, near: FactCandidate | ExtractedFact) -> Bearing:
    return bearing(text, near.text, same_slot=excludes(slot, near.slot))


def is_fact(text: str) -> bool:
    """Return whether a text may be a fact: it has a letter or digit, and at most `FACT_CHARACTERS` characters."""
    return any(map(str.isalnum, text)) and len(text) <= FACT_CHARACTERS

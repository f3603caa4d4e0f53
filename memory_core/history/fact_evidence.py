"""Suspicious facts, the words that support a fact, the provenance of facts, and what each condensing lost.

Pure. Words and events are compared without a model, so flags are hints for a person and decide nothing.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Any, Literal

from memory_core.events import Actor, EventRecord, FactsCondensed, FactsExtracted, ModelCalled
from memory_core.history.contexts import is_call
from memory_core.history.learned_slices import CONDENSING, WORDING, FactSlice, adds_fact, condenses
from memory_core.models.offline.fact_extraction import doubt
from memory_core.models.offline.relative_dates import relative_words, without_dates
from memory_core.planning.fact_merging import Fact
from memory_core.planning.phrase_matching import word_matches
from memory_core.planning.slots import excludes
from memory_core.planning.speakers import own_words
from memory_core.planning.statement_relation import REPEATED, repeats
from memory_core.text import agreement_key, in_one_notation, similarity, stems, words

FlagKind = Literal[
    "near_duplicate", "contradiction", "unsupported", "from_assistant", "from_memory", "from_tool", "pasted",
    "doubtful", "rejected",
]  # fmt: skip

NEAR_DUPLICATE = REPEATED
"""Similarity from which two facts are shown as near duplicates. Among 1,137 facts of five LoCoMo conversations and 270
of MemoryBank, nearly all pairs above it said the same, and few below it did."""

MIN_SUPPORT = 0.5
"""Minimum share of a fact's stems found in its sources. Rules and models reword: "I live in" becomes "lives in"."""

MIN_NEAREST = 0.5
"""Minimum similarity for a fact to count as the nearest; less similar facts mostly share their subject only."""

_GAP = 4
"""Maximum gap, in words, between two words of a fact within one highlighted span."""

_ABOUT_THE_USER = frozenset({"user", "name"})
"""Stems that rules and models put into facts and that people do not say about themselves."""

_NUMBERS = frozenset(["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelv"])
"""Stems of the words that `memory_core.text.similarity` treats as numbers."""
_FIRST_PERSON = frozenset({"i", "i'm", "i've", "i'd", "my", "mine", "me", "myself", "we", "our"})
_SENTENCE_END = re.compile(r"[.!?…]+\s|\n")


@dataclass(frozen=True, slots=True)
class Flag:
    """Something about a fact that needs a person's attention."""

    kind: FlagKind
    sentence: str
    """Plain text; it quotes the words of facts."""
    other: int | None = None
    """Id of the other fact, which this one resembles or contradicts; None for other kinds of flags."""
    similarity: float | None = None


@dataclass(frozen=True, slots=True)
class SupportingText:
    """The part of a message that can support a fact: role and text."""

    role: str
    text: str


Place = tuple[str, int]
"""Session id and sequence number of a message."""


def find_flags(
    facts: Sequence[Fact],
    *,
    conflicts: Mapping[int, Iterable[int]],
    messages: Mapping[Place, SupportingText],
    looked_at: Collection[int] = (),
    unwanted: Sequence[Fact] = (),
) -> dict[int, tuple[Flag, ...]]:
    """Return flags by fact id, for active and proposed facts; facts without flags are omitted.

    `conflicts` are the open contradictions (`history.contradictions`), by the newer fact. Sources missing from
    `messages` were erased and prove nothing. A fact that a person has reviewed (`looked_at`) is not flagged as doubtful
    again. `unwanted` are facts that a person rejected or retired as wrong. A pair is not flagged as near duplicates if
    its newer fact was reviewed, or one of its facts has a key.
    """
    by_id = {fact.id: fact for fact in facts}
    flags: dict[int, list[Flag]] = {}

    def both(kind: FlagKind, a: Fact, b: Fact, score: float | None = None) -> None:
        # The newer fact was reviewed when the older one existed already.
        if kind == "near_duplicate" and max(a.id, b.id) in looked_at:
            return
        for fact, other in ((a, b), (b, a)):
            if kind == "contradiction":
                sentence = f'Contradicts "{other.text}".'
            else:
                sentence = f'Says nearly the same as "{other.text}" ({score:.2f}).'
            flags.setdefault(fact.id, []).append(Flag(kind, sentence, other.id, score))

    for id, others in conflicts.items():
        for other in others:
            if id in by_id and other in by_id and id != other:
                both("contradiction", by_id[id], by_id[other])
    for first, second, score in near_duplicates([(fact.id, fact.text) for fact in facts if fact.key is None]):
        both("near_duplicate", by_id[first], by_id[second], score)
    for fact in facts:
        # A person vouches for what they wrote or reviewed; nothing has to prove it.
        if fact.id not in looked_at and fact.origin != "written":
            if fact.state == "proposed" and (open_question := doubt(fact.text)) is not None:
                flags.setdefault(fact.id, []).append(Flag("doubtful", open_question))
            for gone in unwanted if fact.state == "proposed" else ():
                if repeats(fact.text, gone.text, same_slot=excludes(fact.slot, gone.slot)):
                    how = "rejected" if gone.state == "rejected" else "retired as wrong"
                    flags.setdefault(fact.id, []).append(Flag("rejected", f'Says what was {how}: "{gone.text}".'))
            flags.setdefault(fact.id, []).extend(_source_flags(fact, facts, messages))
    return {id: tuple(found_flags) for id, found_flags in sorted(flags.items()) if found_flags}


def _source_flags(fact: Fact, facts: Sequence[Fact], messages: Mapping[Place, SupportingText]) -> list[Flag]:
    sources = [messages[place] for place in fact.sources if place in messages]
    # The date that "tomorrow" became is in no message.
    text = without_dates(fact.text) if any(relative_words(source.text) for source in sources) else fact.text
    # A missing message may hold the missing words.
    if not sources or len(sources) < len(fact.sources):
        return []
    flags = []
    support, total = supported_stems(text, [source.text for source in sources])
    if support < total * MIN_SUPPORT:
        flags.append(Flag("unsupported", f"{support} of its {total} words are in the messages it was learned from."))
    if all(source.role == "tool" for source in sources):
        flags.append(Flag("from_tool", "Only the output of a tool says it, which anybody can have written."))
    typed = [own_words(source.text) if source.role == "user" else source.text for source in sources]
    if typed != [source.text for source in sources] and not is_supported(text, typed):
        flags.append(Flag("pasted", "Only a text that the user pasted or gave to work on says it, not the user."))
    # The user's own words prove a fact; the assistant's may be a guess or a repetition.
    if all(source.role == "assistant" for source in sources):
        older = [other for other in facts if other.id < fact.id]
        if all(_repeats(source.text, older) for source in sources):
            flags.append(Flag("from_memory", "Only the assistant said it, repeating what memory held."))
        else:
            flags.append(Flag("from_assistant", "Only the assistant said it."))
    return flags


def _repeats(text: str, facts: Iterable[Fact]) -> bool:
    """Return whether one sentence of the text contains all stems of one of the facts."""
    sentences = [_key_stems(sentence) for sentence in _SENTENCE_END.split(text)]
    for fact in facts:
        wanted = _key_stems(fact.text)
        # One stem in common, such as a name, is no repetition.
        if len(wanted) > 1 and any(wanted <= sentence for sentence in sentences):
            return True
    return False


# -- support -------------------------------------------------------------------------------------


def supported_stems(fact: str, sources: Iterable[str]) -> tuple[int, int]:
    """Return the number of a fact's stems found in the texts, and the number of all its stems."""
    wanted = _key_stems(fact)
    present = set(chain.from_iterable(_key_stems(text) for text in sources))
    return len(wanted & present), len(wanted)


def is_supported(fact: str, sources: Iterable[str]) -> bool:
    """Return whether the texts contain enough of a fact's stems."""
    support, total = supported_stems(fact, sources)
    return support >= total * MIN_SUPPORT


def _key_stems(text: str) -> set[str]:
    return {_number(stem) for stem in stems(text)} - _ABOUT_THE_USER


def _number(stem: str) -> str:
    """Strip an ordinal suffix: `14th` becomes `14`, since people and rules write it either way."""
    match = re.fullmatch(r"(\d+)(?:st|nd|rd|th)", stem)
    return match[1] if match else stem


# -- likeness ------------------------------------------------------------------------------------


class _Profile:
    """Precomputed stem counts that give a fast upper bound of a text's `similarity` to others."""

    def __init__(self, text: str) -> None:
        text = in_one_notation(text)
        content = Counter("#" if self._is_number(stem) else stem for stem in stems(text))
        self.marks = frozenset((stem, n) for stem, count in content.items() for n in range(count))
        """Content stems, a repeated one several times; all numbers count as one stem, because their spelling varies."""
        self.stops = len(stems(text, stop=False)) - len(self.marks)
        self.agreement = agreement_key(text)

    @staticmethod
    def _is_number(stem: str) -> bool:
        return stem in _NUMBERS or any(character.isdigit() for character in stem)

    def bound(self, other: "_Profile", shared: int) -> float:
        """Return an upper bound of `memory_core.text.similarity` to `other`, with `shared` marks in common."""
        weight = len(self.marks) + len(other.marks) + 0.25 * (self.stops + other.stops)
        dice = 2 * (shared + 0.25 * min(self.stops, other.stops)) / weight if weight else 1.0
        return dice * (0.8 if shared < len(self.marks) and shared < len(other.marks) else 1.0)

    def least_shared(self, least: float) -> int:
        """Return the minimum number of marks shared with any text of at least this similarity.

        `bound` is largest for a text that consists of the shared marks and as many stop words; solved for `shared`.
        """
        needed = (least * len(self.marks) - 0.5 * self.stops * (1 - least)) / (2 - least)
        return max(1, math.ceil(needed - 1e-9))


_profile = lru_cache(maxsize=16_384)(_Profile)
"""Cached profile of a text: lists of facts are compared repeatedly and seldom change."""


def near_duplicates(texts: Sequence[tuple[int, str]], *, least: float = NEAR_DUPLICATE) -> list[tuple[int, int, float]]:
    """Return pairs of ids of texts with at least this similarity, and the similarity; `least` is above 0.5.

    Only pairs that agree in numbers and negations and share one of their rarest marks are compared word by word: two
    sets that share `n` marks, each sorted by rarity, share one before the last `n - 1` of either (prefix filtering).
    """
    profiles = [_profile(text) for _, text in texts]
    frequency = Counter(chain.from_iterable(profile.marks for profile in profiles))
    having: dict[Any, list[int]] = {}
    pairs: list[tuple[int, int, float]] = []
    for index, profile in enumerate(profiles):
        by_rarity = sorted(profile.marks, key=lambda mark: (frequency[mark], mark))
        # Texts that differ in numbers or negations say different things, so they share no key.
        keys = [(profile.agreement, mark) for mark in by_rarity[: len(by_rarity) - profile.least_shared(least) + 1]]
        for other in sorted(set(chain.from_iterable(having.get(key, ()) for key in keys))):
            # The bound needs only counts and excludes most pairs before the slow comparison.
            if profile.bound(profiles[other], len(profile.marks & profiles[other].marks)) >= least:
                score = similarity(texts[other][1], texts[index][1])
                if score >= least:
                    pairs.append((texts[other][0], texts[index][0], score))
        for key in keys:
            having.setdefault(key, []).append(index)
    return pairs


def nearest(text: str, facts: Iterable[Fact]) -> tuple[Fact, float] | None:
    """Return the fact most similar to a text, with its similarity; None if none is similar enough."""
    profile_of_text = _profile(text)
    best: tuple[Fact, float] | None = None
    for fact in facts:
        profile = _profile(fact.text)
        least = best[1] if best else MIN_NEAREST
        # The bound is cheap and never below the similarity, so most facts need no full comparison.
        if profile_of_text.bound(profile, len(profile_of_text.marks & profile.marks)) >= least:
            score = similarity(fact.text, text)
            if score >= MIN_NEAREST and (best is None or score > best[1]):
                best = fact, score
    return best


# -- provenance ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MadeBy:
    """The transaction that created a fact."""

    position: int
    """Log position of the event that added the fact."""
    turn: int
    at: float
    """Time of this event, in seconds since the epoch."""
    actor: Actor
    extracted: FactsExtracted | None
    """The extraction that the fact came from; None for a fact that a person wrote."""
    condensed: FactsCondensed | None
    """The condensing that wrote the fact; None for any other origin."""
    calls: tuple[ModelCalled, ...]
    """Model calls in that transaction; the offline rules make none."""
    person: str | None = None
    """See `EventRecord.person`."""


def made_by(records: Sequence[EventRecord], fact: int) -> MadeBy | None:
    """Find the transaction that created a fact in its session's log; None if it was created in another session."""
    at = next((i for i, r in enumerate(records) if adds_fact(r.event) and r.event.fact == fact), None)
    if at is None:
        return None
    record = records[at]
    added = record.event
    assert adds_fact(added)
    extracted: FactsExtracted | None = None
    condensed: FactsCondensed | None = None
    calls: tuple[ModelCalled, ...] = ()
    # An extraction is logged before its facts, and the model's calls before the extraction.
    if added.origin != "written" and record.actor == "engine":
        first = at
        while first and not _begins(records[first], added.block):
            first -= 1
        start = records[first].event
        if isinstance(start, FactsExtracted) and start.block == added.block:
            extracted = start
            before = first
            while before and _is_call(records[before - 1], added.block):
                before -= 1
            calls = tuple(r.event for r in records[before:first] if is_call(r.event))
    # A condensing is logged after the facts that it made.
    if added.origin == "condensed":
        later = (r.event for r in records[at:] if condenses(r.event) and r.event.block == added.block)
        condensed = next(later, None)
    return MadeBy(record.position, record.turn, record.at, record.actor, extracted, condensed, calls, record.person)


def _begins(record: EventRecord, block: str) -> bool:
    return isinstance(record.event, FactsExtracted) and record.event.block == block


def _is_call(record: EventRecord, block: str) -> bool:
    return is_call(record.event) and record.event.block == block


def source_spans(fact: str, message: str) -> tuple[tuple[int, int], ...]:
    """Return the spans of a message that support a fact, as (start, end) in characters, in order.

    Words of the fact that are close together in one sentence form a span, extended by small words of the fact
    in front of it. Spans with most of the fact's words are taken first, until none adds a word.
    >>> source_spans("The user lives in Porto", "Hello, my name is Sam and I live in Porto.")
    ((26, 41),)
    """
    matches = word_matches(message)
    wanted = {_number(stem) for stem in stems(fact)} - {"user"}
    small = set(words(fact)) | (_FIRST_PERSON if "user" in stems(fact) else set())
    # Only words of the fact start a span; small words beside them are taken in afterwards.
    strong = [index for index, match in enumerate(matches) if _stems_of(match) & wanted]
    spans: list[tuple[set[str], int, int]] = []
    for first, last in _runs(strong, matches, message):
        matched = set().union(*(_stems_of(match) & wanted for match in matches[first : last + 1]))
        while first and _joins(message, matches[first - 1], matches[first]) and matches[first - 1][0].lower() in small:
            first -= 1
        spans.append((matched, matches[first].start(), matches[last].end()))
    taken = []
    # The longest spans first: each stem is marked once, where most of the fact's words are together.
    for matched, start, end in sorted(spans, key=lambda span: (-len(span[0]), span[1])):
        if matched & wanted:
            wanted -= matched
            taken.append((start, end))
    return tuple(sorted(taken))


def _stems_of(word: re.Match[str]) -> set[str]:
    return {_number(stem) for stem in stems(word[0])}


def _runs(strong: Sequence[int], matches: Sequence[re.Match[str]], message: str) -> list[tuple[int, int]]:
    """Return the first and last index of each group of nearby words in one sentence."""
    runs: list[tuple[int, int]] = []
    for index in strong:
        if runs and index - runs[-1][1] <= _GAP and _joins(message, matches[runs[-1][1]], matches[index]):
            runs[-1] = (runs[-1][0], index)
        else:
            runs.append((index, index))
    return runs


def _joins(message: str, before: re.Match[str], after: re.Match[str]) -> bool:
    """Return whether two words are in the same sentence."""
    return _SENTENCE_END.search(message, before.end(), after.start()) is None


# -- losses of each condensing --------------------------------------------------------------------


REWRITE_KINDS = (*WORDING, *CONDENSING)
"""Event kinds that `find_rewrites` reads from the log."""


@dataclass(frozen=True, slots=True)
class RewrittenLine:
    """Fact in a loss diff."""

    id: int
    text: str
    """Text at the time of the condensing; empty if it was erased since."""
    fact: Fact | None
    """The fact in its present state; None if it was erased."""
    unsupported: bool = False
    """True if the condensed fact says something that its source facts did not."""

    @property
    def restored(self) -> bool:
        """True if the fact is active now, such as a superseded one that was restored."""
        return self.fact is not None and self.fact.state == "active"

    @property
    def replaced(self) -> bool:
        """True if the fact is still superseded, and was neither retired nor restored by a person."""
        return self.fact is not None and self.fact.state == "superseded"


@dataclass(frozen=True, slots=True)
class Merged:
    """Several facts merged into one."""

    sources: tuple[RewrittenLine, ...]
    into: RewrittenLine


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The condensing of a list of facts, as a loss diff."""

    position: int
    """Log position of the event of the condensing."""
    turn: int
    at: float
    """Time of the condensing, in seconds since the epoch."""
    extractor: str
    before: int
    """Number of active facts before the condensing; `after` is the number afterwards."""
    after: int
    kept: tuple[RewrittenLine, ...]
    merged: tuple[Merged, ...]
    vanished: tuple[RewrittenLine, ...]
    new: tuple[RewrittenLine, ...]
    """Facts of the condensed list that replace no former fact."""

    @property
    def put_away(self) -> tuple[RewrittenLine, ...]:
        """Facts that the condensing removed from the list: merged into others, or lost."""
        # A fact that was merged into a kept one is put away; the kept one itself stays in the list.
        gone = [line for merged in self.merged for line in merged.sources if line.id != merged.into.id]
        return (*gone, *self.vanished)

    @property
    def made(self) -> tuple[RewrittenLine, ...]:
        """Facts that the condensing added to the list."""
        unchanged = {line.id for line in self.kept}
        return (*(merged.into for merged in self.merged if merged.into.id not in unchanged), *self.new)

    @property
    def refused(self) -> bool:
        """True if a person has reverted the whole condensing."""
        return not any(line.restored for line in self.made) and not any(line.replaced for line in self.put_away)


def find_rewrites(
    records: Iterable[EventRecord], facts: Mapping[int, Fact], words: Callable[[str], str | None]
) -> list[Rewrite]:
    """Return every condensing with at least one fact still stored, newest first.

    `records` are those of `REWRITE_KINDS`, in any order; `words` returns a text by its hash, None if it was erased.
    """
    past = FactSlice()
    rewrites: list[Rewrite] = []
    for record in sorted(records, key=lambda record: record.position):
        event = record.event
        past.apply(record)
        if condenses(event):
            # Facts that it made precede it in the log, so their words are known here, too.
            then = {id: words(fact.content) or "" for id, fact in past.by_id.items()}
            rewrite = _rewrite(record, event, then, facts)
            # A rewrite of which every fact was erased has nothing left to show.
            if any(line.fact for line in (*rewrite.kept, *rewrite.put_away, *rewrite.made)):
                rewrites.append(rewrite)
    return rewrites[::-1]


def _rewrite(record: EventRecord, event: FactsCondensed, then: Mapping[int, str], facts: Mapping[int, Fact]) -> Rewrite:
    def line(id: int) -> RewrittenLine:
        return RewrittenLine(id, then.get(id, ""), facts.get(id))

    def made(id: int, stands_for: Sequence[int]) -> RewrittenLine:
        texts = [then.get(source, "") for source in stands_for]
        plain = line(id)
        # Where a source was erased, nothing can be said about support.
        return replace(plain, unsupported=bool(plain.text) and all(texts) and not is_supported(plain.text, texts))

    longer = [*event.kept, *(id for sources, _ in event.merged for id in sources), *event.vanished]
    return Rewrite(
        position=record.position,
        turn=record.turn,
        at=record.at,
        extractor=event.extractor,
        before=event.before,
        after=event.after,
        kept=tuple(line(id) for id in event.kept),
        merged=tuple(Merged(tuple(line(id) for id in sources), made(into, sources)) for sources, into in event.merged),
        vanished=tuple(line(id) for id in event.vanished),
        new=tuple(made(id, longer) for id in event.new),
    )

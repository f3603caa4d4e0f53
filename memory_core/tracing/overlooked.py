"""Find unreported problems: questions without results, memory that is never used. Pure."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory_core.events import EventRecord, MemorySearched, Ref, RefKind
from memory_core.history.by_turn import History
from memory_core.history.contexts import is_context
from memory_core.history.stores import is_store_search
from memory_core.history.usage import Usage, Use
from memory_core.planning.phrase_matching import Phrase

_ASIDE = frozenset({"superseded", "retired", "rejected"})


@dataclass(frozen=True, slots=True)
class EmptySearch:
    """A question for which a block's search added nothing to the prompt."""

    turn: int
    block: str
    query: str
    """Hash of the question's text."""
    outcomes: Mapping[str, int]
    """Number of candidates by outcome; empty without candidates."""
    best: Ref | None
    """Candidate with the highest score; None without candidates."""
    score: float | None
    threshold: float | None


@dataclass(frozen=True, slots=True)
class Overlooked:
    """Problems up to one log position that no other screen shows."""

    empty_searches: tuple[EmptySearch, ...]
    """Searches that added nothing to the prompt, newest first."""
    unused: Mapping[RefKind, tuple[Ref, ...]]
    """Active facts, stored units and relations that were in no prompt, newest first."""
    kept: Mapping[RefKind, int]
    """Number of active items of each kind."""
    flipped: tuple[tuple[Ref, int], ...]
    """Facts that were set aside and then restored or learned again, with the number of times; most often first."""
    cut: tuple[tuple[Ref, int, int], ...]
    """Retrieved and cut items: ref, prompts that requested it, prompts that cut it; most often cut first."""

    def __bool__(self) -> bool:
        return bool(self.empty_searches or any(self.unused.values()) or self.flipped or self.cut)


def overlooked(history: History, position: int, usage: Usage) -> Overlooked:
    """Find problems up to a log position; `usage` was counted up to the same position."""
    searches = [
        _empty(search)
        for turn in history.turns.values()
        for search in turn.searches
        if search.position <= position and not (search.event.gates.get("granted") or search.event.elsewhere)  # type: ignore[attr-defined]
    ]
    # By block and words: a fact that is learned again has a new id.
    aside: dict[tuple[str, str], int] = {}
    flips: Counter[int] = Counter()
    facts: dict[int, tuple[str, str]] = {}
    for record in history.upto(position):
        event: Any = record.event
        if event.family != "facts":
            continue
        if event.adds == "facts":
            facts[event.fact] = event.block, event.content
            if facts[event.fact] in aside:  # learned again after it was set aside
                flips[event.fact] += 1 + flips.pop(aside.pop(facts[event.fact]), 0)
        elif event.becomes in _ASIDE and event.fact in facts:
            aside[facts[event.fact]] = event.fact
        elif event.becomes == "active" and aside.get(facts.get(event.fact, ("", ""))) == event.fact:
            flips[event.fact] += 1
            del aside[facts[event.fact]]
    uses: dict[RefKind, Mapping[int, Use]] = {"fact": usage.facts, "unit": usage.turns, "relation": usage.relations}
    active = {kind: usage.kept.get(kind, frozenset()) for kind in uses}
    cut = [
        (Ref.of(kind, number), use.asked, use.cut)
        for kind, counted in uses.items()
        for number, use in counted.items()
        if use.cut and number in active[kind]
    ]
    return Overlooked(
        empty_searches=tuple(sorted(searches, key=lambda entry: -entry.turn)),
        unused={
            kind: tuple(Ref.of(kind, number) for number in sorted(active[kind] - counted.keys(), reverse=True))
            for kind, counted in uses.items()
        },
        kept={kind: len(numbers) for kind, numbers in active.items()},
        flipped=tuple((Ref.of("fact", fact), times) for fact, times in flips.most_common()),
        cut=tuple(sorted(cut, key=lambda entry: -entry[2])),
    )


def _empty(record: EventRecord) -> EmptySearch:
    event: Any = record.event
    best = event.candidates[0] if event.candidates else None
    return EmptySearch(
        turn=record.turn,
        block=event.block,
        query=event.query,
        outcomes={outcome: count for outcome, count in event.gates.items() if count},
        best=Ref.of("unit", best[0]) if best is not None else None,
        score=best[3] if best is not None else None,
        threshold=event.threshold,
    )


# -- results of an attached agent's searches that its next prompt lacks ----------------------------


@dataclass(frozen=True, slots=True)
class OmittedResults:
    """Results of one search that are missing from the prompt that followed."""

    search: EventRecord
    prompt: EventRecord
    missing: tuple[int, ...]
    """Indexes into the search's results, from 0."""


class SentPrompts:
    """A session's prompts in the order sent."""

    def __init__(self, records: Iterable[EventRecord]) -> None:
        self._sent: list[tuple[int, EventRecord]] = []
        self._of_trace: dict[str, list[tuple[int, EventRecord]]] = defaultdict(list)
        for record in records:
            if is_context(record.event) and record.event.known != "built":
                # Directly observed prompts are timed by the record of their call.
                sent = record.event.sent if record.event.sent is not None else int(record.at * 1e6)
                self._sent.append((sent, record))
                if record.event.span is not None:
                    self._of_trace[_trace(record.event.span)].append((sent, record))
        for prompts in (self._sent, *self._of_trace.values()):
            prompts.sort(key=lambda pair: (pair[0], pair[1].position))

    def after(self, event: MemorySearched) -> EventRecord | None:
        """Return the prompt after a search: the next in the search's trace, else in the session; None without one."""
        # The search's own trace first: several agents may report side by side.
        for sent in (self._of_trace.get(_trace(event.span), ()), self._sent):
            place = bisect_left(sent, event.finished, key=lambda pair: pair[0])
            if place < len(sent):
                return sent[place][1]
        return None


def _trace(span: str) -> str:
    return span.partition(":")[0]


def omitted_results(
    records: Sequence[EventRecord],
    searches: Iterable[EventRecord],
    words: Callable[[str], str | None],
    said_in: Callable[[EventRecord], str],
    *,
    prompt: EventRecord | None = None,
) -> Mapping[int, OmittedResults]:
    """Return searches with missing results by log position; `prompt`: only searches for this prompt.

    `records`: the log up to the requested moment; `words` returns the text of a hash, `said_in` a prompt's whole text.
    """
    prompts, omitted = SentPrompts(records), {}
    for search in searches:
        event: Any = search.event
        sent = prompts.after(event) if is_store_search(search.event) and event.results else None
        if sent is None or (prompt is not None and sent.position != prompt.position):
            continue
        text = said_in(sent)
        results = [(n, text_of) for n, (_, key, _, _) in enumerate(event.results) if key and (text_of := words(key))]
        missing = tuple(n for n, result in results if not Phrase.of(result).said_in(text))
        if missing:
            omitted[search.position] = OmittedResults(search, sent, missing)
    return omitted

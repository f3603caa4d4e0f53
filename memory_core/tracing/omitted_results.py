"""Search results of an attached agent's memory that are missing from the prompt that followed. Pure.

Spans report the results; their presence is inferred by comparing texts, so no rule is claimed.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory_core.events import EventRecord, MemorySearched
from memory_core.history.slices.contexts import is_context
from memory_core.history.stores import is_store_search
from memory_core.planning.phrase_matching import Phrase


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

"""Found, and yet not in the prompt: what searches of an attached agent's memory returned and it did not send. Pure.

A span reports what was found; whether a prompt has it is seen by comparing words, so that no rule is claimed.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory_core.events import EventRecord, MemorySearched
from memory_core.history.slices.contexts import is_context
from memory_core.tracing.matching import Phrase, folded


@dataclass(frozen=True, slots=True)
class Unsent:
    """What one search found, and the prompt that followed it has not."""

    search: EventRecord
    prompt: EventRecord
    missing: tuple[int, ...]
    """Places in the search's results, from 0."""


class Prompts:
    """The prompts of a session in the order in which they were sent."""

    def __init__(self, records: Iterable[EventRecord]) -> None:
        self._sent: list[tuple[int, EventRecord]] = []
        self._of_trace: dict[str, list[tuple[int, EventRecord]]] = defaultdict(list)
        for record in records:
            if is_context(record.event) and record.event.known != "built":
                # One that was seen on its way has the time at which its call was recorded.
                sent = record.event.sent if record.event.sent is not None else int(record.at * 1e6)
                self._sent.append((sent, record))
                if record.event.span is not None:
                    self._of_trace[_trace(record.event.span)].append((sent, record))
        for each in (self._sent, *self._of_trace.values()):
            each.sort(key=lambda pair: (pair[0], pair[1].position))

    def after(self, event: MemorySearched) -> EventRecord | None:
        """The prompt that followed a search: the next one of its trace, else of the session."""
        for sent in (self._of_trace.get(_trace(event.span), ()), self._sent):
            place = bisect_left(sent, event.finished, key=lambda pair: pair[0])
            if place < len(sent):
                return sent[place][1]
        return None


def _trace(span: str) -> str:
    return span.partition(":")[0]


def unsent(
    records: Sequence[EventRecord],
    searches: Iterable[EventRecord],
    words: Callable[[str], str | None],
    said_in: Callable[[EventRecord], str],
    *,
    prompt: EventRecord | None = None,
) -> Mapping[int, Unsent]:
    """Searches with something that is not in the prompt that followed, by position; `prompt`: only where that is it.

    `records` are the log up to the moment looked at; `words` are those under a hash, `said_in` all of a prompt.
    """
    prompts, found = Prompts(records), {}
    for search in searches:
        event: Any = search.event
        sent = prompts.after(event) if search.kind == MemorySearched.kind and event.results else None
        if sent is None or (prompt is not None and sent.position != prompt.position):
            continue
        text = said_in(sent)
        in_text = _folded(text)
        told = [(n, own) for n, (_, key, _, _) in enumerate(event.results) if key and (own := words(key))]
        missing = tuple(n for n, own in told if not _says(text, in_text, own))
        if missing:
            found[search.position] = Unsent(search, sent, missing)
    return found


def says(text: str, words: str) -> bool:
    """Whether a text has these words: one after the other, or every sentence of them with all its stems in one."""
    return _says(text, _folded(text), words)


def _says(text: str, in_text: str, words: str) -> bool:
    if _folded(words) in in_text:
        return True
    phrase = Phrase.of(words)
    # Most that lack it lack the beginning of a word, which is seen without their stems.
    return all(needle in in_text for needle in phrase.needles) and phrase.said_in(text)


def _folded(text: str) -> str:
    return " ".join(folded(text).split())

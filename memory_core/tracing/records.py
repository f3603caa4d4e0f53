"""Tracks of records in an attached agent's memory: written, kept, retrieved, in the prompt. Pure.

The agent's spans report what happened to a record; its presence in the prompt is inferred from texts. Reasons are known
to the agent only.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from memory_core.events import EventRecord
from memory_core.history.by_turn import History
from memory_core.history.context_pieces import Words
from memory_core.history.stores import Store, StoreRecord, is_store_search, store_name, stores_of
from memory_core.planning.phrase_matching import Phrase
from memory_core.tracing.overlooked import SentPrompts
from memory_core.tracing.stages import in_turn, no_prompt, stage
from memory_core.tracing.trace_time import Moment
from memory_core.tracing.values import Carrier, Stage, Track

QUOTED = 80
"""Maximum characters of a quoted question."""


@dataclass(frozen=True, slots=True)
class Records:
    """Records of a session's stores, traced to the prompt of one moment."""

    history: History
    moment: Moment
    words: Words
    said_in: Callable[[EventRecord], str]
    """Return a prompt's whole text."""

    def tracks(self, phrase: Phrase) -> Iterator[Track]:
        """Yield a track per record that was written or retrieved with the phrase."""
        then = self.history.upto(self.moment.position)
        stores = stores_of(then)
        prompts, prompt = SentPrompts(then), self.moment.record
        searches = [  # those whose next prompt is the traced one
            record
            for record in then
            if prompt is not None and is_store_search(record.event) and prompts.after(record.event) is prompt
        ]
        for store in stores_of(self.history.records).values():
            for ever in store.records:
                if any(self._says(phrase, key) for key in _words_of(ever)):
                    record = _same(stores.get(store.name), ever)
                    yield self._track(phrase, record, ever, searches)

    def _track(
        self, phrase: Phrase, record: StoreRecord | None, ever: StoreRecord, searches: list[EventRecord]
    ) -> Track:
        words = self.words((record or ever).words or "") or ""
        carrier = Carrier("record", ever.store, words=words, matched="words", record=ever.id)
        stages = [*self._before(phrase, record, ever)]
        if stages[-1].verdict == "passed" and record is not None:
            stages += self._end(record, words, searches)
        return Track(carrier, tuple(stages))

    def _before(self, phrase: Phrase, record: StoreRecord | None, ever: StoreRecord) -> Iterator[Stage]:
        """Yield the stages written and kept. `record`: its state at the moment, `ever`: its latest state."""
        name = f"record {ever.id} of {ever.store}" if ever.id else f"a record of {ever.store}"
        first = self._first(phrase, record)
        if first is None:
            came = self._first(phrase, ever) or ever.found[0]
            text = f"Written as {name} only in turn {came.turn:,}, after {self.moment.prompt}."
            yield _reported("learned", "lost", text, came, "learned_later")
            return
        if record is None or not record.versions:
            yield _reported("learned", "passed", f"Known as {name}: no span reports its write.", first)
            return
        yield _reported("learned", "passed", f"Written as {name} {in_turn(first)}.", first)
        if record.deleted is not None:
            text = f"Deleted from {ever.store} in turn {record.deleted.turn:,}."
            yield _reported("kept", "lost", text, record.deleted, "deleted")
        elif not self._says(phrase, record.versions[-1].words):
            over = record.versions[-1].record
            text = f"Overwritten in turn {over.turn:,}: {name} has other words since."
            yield _reported("kept", "lost", text, over, "overwritten")

    def _first(self, phrase: Phrase, record: StoreRecord | None) -> EventRecord | None:
        """Return the first write with the phrase, or the first search of a record whose writes were not observed."""
        if record is None:
            return None
        # If no span reports its writes, a record is known only from searches.
        if not record.versions:
            return record.found[0] if self._says(phrase, record.found_words) else None
        return next((version.record for version in record.versions if self._says(phrase, version.words)), None)

    def _end(self, record: StoreRecord, words: str, searches: list[EventRecord]) -> Iterator[Stage]:
        """Yield the stages retrieved before the prompt, and in the prompt."""
        moment = self.moment
        if moment.record is None:
            yield stage("prompt", "waiting", no_prompt(moment.turn, "seen"), rule="no_prompt")
            return
        of_store = [search for search in searches if store_name(search.event) == record.store]
        # The newest search first: it is the closest one before the prompt.
        hit = next((search for search in reversed(of_store) if search in record.found), None)
        # Its words may be in the prompt without any search, for example as a message.
        if Phrase.of(words).said_in(self.said_in(moment.record)):
            if hit is not None:
                yield self._found_stage(record, hit)
            text = f"In {moment.prompt}, by its words."
            yield stage("prompt", "passed", text, moment.record, knowledge="observed", turn=moment.record.turn)
        elif hit is not None:
            yield self._found_stage(record, hit)
            where = f"the search of {record.store}{self._question(hit)}"
            text = f"Found by {where}, but not in {moment.prompt}: no message has its words. The reason is not known."
            yield stage("prompt", "lost", text, moment.record, rule="found_not_sent", knowledge="observed")
        elif of_store:
            missed: Any = of_store[-1].event
            number = "nothing" if missed.count == 0 else "other records" if missed.results else "unknown results"
            text = f"Not found: the search of {record.store}{self._question(of_store[-1])} returned {number}."
            yield _reported("found", "lost", text, of_store[-1], "not_returned")
        else:
            text = f"Not searched: no search of {record.store} was reported before {moment.prompt}."
            yield _reported("found", "lost", text, moment.record, "no_search")

    def _found_stage(self, record: StoreRecord, search: EventRecord) -> Stage:
        event: Any = search.event
        place = next((n for n, (id, *_) in enumerate(event.results) if id is not None and id == record.id), None)
        score = event.results[place][3] if place is not None else None
        rank = f", number {place + 1} of {len(event.results)}" if place is not None else ""
        scored = f" with a score of {score:.2f}" if score is not None else ""
        text = f"Found by the search of {record.store}{self._question(search)}{scored}{rank}."
        numbers = {} if score is None else {"score": score}
        return stage("found", "passed", text, search, knowledge="reported", **numbers)

    def _question(self, search: EventRecord) -> str:
        key: str | None = getattr(search.event, "query", None)
        words = " ".join((self.words(key) or "").split()) if key is not None else ""
        return f' for "{words[:QUOTED]}{"…" * (len(words) > QUOTED)}"' if words else ""

    def _says(self, phrase: Phrase, key: str | None) -> bool:
        return key is not None and phrase.said_in(self.words(key) or "")


def _reported(name: Any, verdict: Any, text: str, record: EventRecord | None, rule: str = "") -> Stage:
    return stage(name, verdict, text, record, rule=rule, knowledge="reported")


def _words_of(record: StoreRecord) -> Iterable[str]:
    keys = [version.words for version in record.versions] or [record.found_words]
    return [key for key in keys if key is not None]


def _same(store: Store | None, ever: StoreRecord) -> StoreRecord | None:
    """Return the record's state at the moment; None before its first event. Records without ids are matched by their
    writes."""
    for other in store.records if store is not None else ():
        if other.id == ever.id and (other.id is not None or other.versions[0].record is ever.versions[0].record):
            return other
    return None

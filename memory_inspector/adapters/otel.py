"""Emit a memory's activity as OpenTelemetry spans: `emit_spans(memory)`, or `with SpanEmitter(memory): ...`.

The spans follow the GenAI conventions (open-telemetry/semantic-conventions-genai at 9430220, status Development): a
memory operation per change of a block and per search, an inference per model call. All spans are derived from the
session's log afterwards, so an unobserved memory pays nothing. The log has durations of model calls only: other spans
have zero length, in log order.

`gen_ai.memory.store.id` is the block with its owner (`session:demo/facts`, `user:ada/facts`), `gen_ai.memory.record.id`
the engine's name of an item (see `events.Item`): `f12` a fact, `v7` a stored unit, `r4` a relation, `e3` an entity; a
text edited as a whole has its block's name. Content is captured only on request.
"""

import json
import logging
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from memory_core.blocks.base import scope_of
from memory_core.errors import MemoryInspectorError, NotFoundError
from memory_core.events import KINDS, Event, EventRecord, Item, ModelCalled, Ranges
from memory_core.memory import Memory
from memory_core.messages import message_text
from memory_inspector.adapters import framework

with framework("OpenTelemetry", "otel"):
    from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider, get_tracer

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""Environment variable of the conventions that enables content capture."""
_CAPTURES = ("true", "1", "span_only", "span_and_event")

AT_ONCE = 5_000
"""Events read per batch."""

_UNIT_EVENTS = [kind for kind, event in KINDS.items() if event.family == "vectors"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Operation:
    """A memory operation as the GenAI conventions define it."""

    name: str
    items: tuple[Item, ...] = ()
    query: str | None = None
    """Hash of the query text."""
    error: str | None = None


def operation(event: Event) -> Operation | None:
    """Return the memory operation that an event represents, or None."""
    if event.operation is None:
        return None
    verb, _, store = event.operation.partition("_")
    name = f"{verb}_memory_{store}" if store else f"{verb}_memory"
    # Units stored without vectors have an error too, but they are stored: only an operation without items has failed.
    error = None if event.items else getattr(event, "error", None)
    return Operation(name, event.items, getattr(event, "query", None), error)


class SpanEmitter:
    """Emits spans for the events of a memory, once for each event; use one emitter per session, in any process.

    `emit` covers everything since the last call, under the caller's current span. As a context manager it runs every
    `every` seconds in a background thread, and once more at exit.
    """

    def __init__(
        self,
        memory: Memory,
        tracer_provider: TracerProvider | None = None,
        *,
        content: bool | None = None,
        provider: str = "openai",
        after: int | None = None,
        every: float = 1.0,
    ) -> None:
        """Observe a memory.

        Args:
            tracer_provider: Defaults to the program's global provider.
            content: Whether spans contain text; None: as the environment variable `CAPTURE` says.
            provider: `gen_ai.provider.name` of model calls.
            after: Log position to start after; None: the current end, 0: the whole log.
        """
        self._memory, self._provider, self._every = memory, provider, every
        self._tracer = get_tracer("memory_inspector", tracer_provider=tracer_provider)
        self._content = os.environ.get(CAPTURE, "").lower() in _CAPTURES if content is None else content
        self._after = after if after is not None else _newest(memory)
        self._end = 0
        self._unit_messages: dict[tuple[str, str], Ranges] = {}
        """Messages of each stored unit, by block and unit name."""
        # Units stored before the start are later named by number alone, so their messages are looked up once.
        if self._content and self._after:
            self._learn_units(record.event for record in memory.events(kinds=_UNIT_EVENTS))
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def emit(self) -> int:
        """Emit spans for events recorded since the last call; return their number.

        Raises:
            StoreError: The database cannot be reached; the next call catches up.
        """
        with self._lock:
            number = 0
            # In pieces: a log that was never emitted may have a million events.
            while records := self._memory.events(self._after, limit=AT_ONCE):
                number += self._emitted(records)
                self._after = records[-1].position
            return number

    def _emitted(self, records: Sequence[EventRecord]) -> int:
        made = [(record, op) for record in records if (op := operation(record.event)) is not None]
        self._learn_units(record.event for record in records)
        texts = self._texts(op for _, op in made)
        of_position = {record.position: op for record, op in made}
        number = 0
        for record in records:
            if (op := of_position.get(record.position)) is not None:
                self._memory_span(record, op, texts)
            elif isinstance(record.event, ModelCalled):
                self._inference_span(record, record.event)
            else:
                continue
            number += 1
        return number

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._follow, name="memory-spans", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
        # Emit the events recorded since the thread's last run.
        self.emit()

    def _follow(self) -> None:
        while not self._stopped.wait(self._every):
            try:
                self.emit()
            except MemoryInspectorError as error:
                _log.warning("Spans of session %s are made later: %s", self._memory.session_id, error)

    # -- one span ---------------------------------------------------------------------------------

    def _memory_span(self, record: EventRecord, done: Operation, texts: Mapping[str, str]) -> None:
        block = record.event.about or ""
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": done.name,
            "gen_ai.memory.store.id": self._store(block),
            **self._common(record),
        }
        if not done.name.endswith("_store") and done.error is None:
            attributes["gen_ai.memory.record.count"] = len(done.items)
        if len(done.items) == 1:
            attributes["gen_ai.memory.record.id"] = str(done.items[0].id)
        if self._content:
            if (query := texts.get(done.query or "")) is not None:
                attributes["gen_ai.memory.query.text"] = query
            if records := [self._shown(block, one, texts) for one in done.items]:
                attributes["gen_ai.memory.records"] = json.dumps(records, ensure_ascii=False)
        self._span(done.name, SpanKind.INTERNAL, attributes, record.at, 0.0, done.error)

    def _inference_span(self, record: EventRecord, call: ModelCalled) -> None:
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": self._provider,
            "gen_ai.request.model": call.model,
            "gen_ai.usage.input_tokens": call.input_tokens,
            "gen_ai.usage.cache_read.input_tokens": call.cached_tokens,
            "gen_ai.usage.output_tokens": call.output_tokens,
            "memory_inspector.purpose": call.purpose,
            **self._common(record),
        }
        # Attributes cannot be None: values that a model did not report are left out.
        present = {name: value for name, value in attributes.items() if value is not None}
        self._span(f"chat {call.model}", SpanKind.CLIENT, present, record.at, call.seconds, call.error)

    def _common(self, record: EventRecord) -> dict[str, Any]:
        return {
            "gen_ai.conversation.id": record.session_id,
            "memory_inspector.event": record.kind,
            "memory_inspector.position": record.position,
            "memory_inspector.turn": record.turn,
        }

    def _span(
        self, name: str, kind: SpanKind, attributes: dict[str, Any], at: float, seconds: float, error: str | None
    ) -> None:
        self._end = max(int(at * 1e9), self._end + 1)  # end times are strictly increasing: they carry the log's order
        begun = self._end - max(0, int(seconds * 1e9))
        span: Span = self._tracer.start_span(name, kind=kind, attributes=attributes, start_time=begun)
        if error is not None:
            # `_OTHER` is the conventions' value for errors of unknown class. The text may quote the conversation, so it
            # is set only with content.
            span.set_attribute("error.type", "_OTHER")
            span.set_status(Status(StatusCode.ERROR, error if self._content else None))
        span.end(end_time=self._end)

    # -- attributes ---------------------------------------------------------------------------------

    def _store(self, block: str) -> str:
        """Return the store id: the block with the owner of its contents."""
        try:
            scope = str(self._memory.blocks.settings(block).get("scope", "session"))
        except NotFoundError:  # the block has been removed
            scope = "session"
        return f"{scope_of(scope, self._memory.session_id, self._memory.session.user_id, block)}/{block}"

    def _shown(self, block: str, one: Item, texts: Mapping[str, str]) -> dict[str, Any]:
        """Format a record by the conventions' schema; erased text is omitted."""
        words = texts.get(one.text or "", "")
        if sources := one.sources or self._unit_messages.get((block, one.id), ()):
            words = "\n".join(self._words(sources))
        score = {} if one.score is None else {"score": one.score}
        return {"id": str(one.id), "content": words, **score}

    def _words(self, messages: Ranges) -> Iterator[str]:
        for first, last in messages:
            for stored in self._memory.session.messages(after=first - 1, upto=last):
                yield message_text(stored.message)

    def _texts(self, operations: Iterator[Operation]) -> dict[str, str]:
        if not self._content:
            return {}
        wanted = {
            key for done in operations for key in (done.query, *(one.text for one in done.items)) if key is not None
        }
        return self._memory.log.texts(wanted)

    def _learn_units(self, events: Iterator[Event]) -> None:
        if not self._content:
            return
        for event in events:
            # Later events name units by number alone: their messages are in the event that stored them.
            self._unit_messages |= {(event.about or "", item.id): item.sources for item in event.items if item.sources}


def emit_spans(
    memory: Memory, tracer_provider: TracerProvider | None = None, *, content: bool | None = None, after: int = 0
) -> int:
    """Emit spans for everything recorded after a position, once; return their number. See `SpanEmitter`."""
    return SpanEmitter(memory, tracer_provider, content=content, after=after).emit()


def _newest(memory: Memory) -> int:
    newest: Sequence[EventRecord] = memory.events(limit=1, newest_first=True)
    return newest[0].position if newest else 0

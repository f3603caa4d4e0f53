"""Store exported spans: one transaction per session and batch.

Spans are deduplicated by their ids, stored in the same transaction as their events, and a call that several spans
report is recorded once (`SpanTree`). A span's session is the conversation named by the span, by one around it, or
by its resource; else the session of an earlier or simultaneous span of its trace; else one named by service and trace
id. If the name of such a conversation comes later, with a span around its calls, it is recorded anew under its name.

Of two spans of one call, a client's own inside a framework's or the two of a stream, the one inside is kept, as it is
nearer to what was sent, or the one that has words; it takes what it lacks from the other. Searches and embeddings
likewise.
"""

import logging
import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from sqlalchemy import Connection, select, update

from memory_core.engine.session import Session
from memory_core.errors import ConfigError, ConflictError, MemoryInspectorError, NotFoundError, StoreError, user_message
from memory_core.events import Event, MemoryDeleted, MemorySearched, MemoryStoreChanged, MemoryWritten
from memory_core.history.contexts import is_call
from memory_core.messages import unstorable
from memory_core.sessions.overview import delete_session
from memory_core.store.database import Database, chunks
from memory_core.store.log_rows import read_events
from memory_core.store.tables import span_table
from memory_core.store.writing import Writing, read_session
from memory_inspector.recorder.otlp import LogRecord, Span, SpanExport
from memory_inspector.recorder.recording import CachedPast, attach, check_free, recording
from memory_inspector.recorder.spans import Compaction, MemoryOperation, Report, conversation_of, read_span
from memory_inspector.recorder.wire import Exchange

MAX_SPANS = 20_000
"""Maximum remembered spans; the oldest is forgotten."""

MAX_DEPTH = 100
"""Maximum spans around one that are looked at, and levels inside one; agents nest some ten."""

MAX_LOOKS = 1_000
"""Maximum spans inside one that are looked at."""


class SpanTree:
    """Spans by key (see `Span.key`), with the one around each and the conversation it names. Not thread-safe."""

    def __init__(self) -> None:
        self._around: dict[str, str] = {}
        self._inside: dict[str, list[str]] = {}
        self._names: dict[str, str] = {}

    def add(self, key: str, around: str, name: str | None) -> None:
        """Remember a span; `around`: the key of the one around it, empty for the outermost."""
        if key not in self._around:
            self._around[key] = around
            if around:
                self._inside.setdefault(around, []).append(key)
        if name is not None:
            self._names[key] = name
        while len(self._around) > MAX_SPANS:
            self._forget(next(iter(self._around)))

    def _forget(self, key: str) -> None:
        around = self._around.pop(key)
        self._names.pop(key, None)
        # A parent that never comes must not hold its children for ever.
        siblings = self._inside.get(around, [])
        if key in siblings:
            siblings.remove(key)
        if not siblings:
            self._inside.pop(around, None)

    def around(self, key: str) -> Iterator[str]:
        """Yield the keys of the spans around one, the nearest first; each once, as parents may form a circle."""
        seen = {key}
        while (key := self._around.get(key, "")) and key not in seen and len(seen) <= MAX_DEPTH:
            seen.add(key)
            yield key

    def name(self, key: str) -> str | None:
        """Return the conversation that a span names, or else the nearest around it that names one."""
        return next((self._names[step] for step in (key, *self.around(key)) if step in self._names), None)

    def nearest_inside(self, key: str, among: Container[str]) -> list[str]:
        """Return the spans inside one that are `among` these, without those inside of one that is."""
        result: list[str] = []
        seen, waiting = {key}, [key]
        # A trace may have ten thousand spans, of which most are no calls.
        for _ in range(MAX_LOOKS):
            if not waiting:
                break
            for inner in self._inside.get(waiting.pop(), ()):
                if inner in among:
                    result.append(inner)
                elif inner not in seen and len(seen) < MAX_LOOKS:
                    seen.add(inner)
                    waiting.append(inner)
        return result


MAX_CALLS = 5_000
"""Maximum remembered calls; the oldest is forgotten."""

OVERLAP_NS = 1_000_000_000
"""Nanoseconds that two spans with the same id of an answer may lie apart: the ids of some servers repeat."""

Origin = TypeVar("Origin")


Adds = Literal["words", "outcome", "answer", ""]
"""Contents that a span adds to a recorded call: its prompt and answer; the call with its answer, where the prompt was
recorded; the answer alone; or nothing."""


@dataclass(slots=True)
class _KnownCall:
    """A call that a span reported."""

    kind: str
    began: int
    ended: int
    captured: bool
    answered: bool
    begun: bool
    report: Report | None
    """None once it was handed on."""
    session: str = ""


@dataclass(frozen=True, slots=True)
class CallAddition:
    """Contents that a span adds to a call that was recorded before."""

    report: Report
    """With the key of that call; the span's own key is in `also`."""
    several: bool = False
    """True if the span is around several calls, and adds nothing to any."""


class SameCalls:
    """Recent calls, by which a call is known when another span reports it. Not thread-safe."""

    def __init__(self, tree: SpanTree) -> None:
        self._tree = tree
        self._calls: dict[str, _KnownCall] = {}
        self._of_answer: dict[tuple[str, str], str] = {}
        self._of_stream: dict[str, str] = {}

    def once(self, reports: Iterable[tuple[Report, Origin]]) -> tuple[list[tuple[Report, Origin]], list[CallAddition]]:
        """Return the reports with each call once, and what some of them add to calls of earlier requests."""
        # In the order of their ends, so that what is inside is known before what is around it.
        came = list(reports)
        origins: dict[str, Origin] = {}
        others: list[tuple[Report, Origin]] = []
        additions: list[CallAddition] = []
        for report, origin in sorted(came, key=lambda pair: (pair[0].ended, -pair[0].began)):
            if not report.tells:
                continue
            if not (kind := _kind(report)):
                others.append((report, origin))
                continue
            same = self._same(report, kind)
            origins[report.key] = origin
            if not same:
                self._add(report, kind)
            elif (addition := self._join(report, kind, same)) is not None:
                additions.append(addition)
        fresh = [*others]
        for key, origin in origins.items():
            call = self._calls.get(key)
            if call is not None and call.report is not None:
                fresh.append((call.report, origin))
                call.report = None
        places = {report.key: place for place, (report, _) in enumerate(came)}
        fresh.sort(key=lambda pair: places[pair[0].key])
        while len(self._calls) > MAX_CALLS:
            del self._calls[next(iter(self._calls))]
        for index in (self._of_answer, self._of_stream):
            while len(index) > MAX_CALLS:
                del index[next(iter(index))]  # type: ignore[arg-type]
        return fresh, additions

    def recorded(self, key: str, session: str) -> None:
        """Note in which session a call was recorded."""
        if key in self._calls:
            self._calls[key].session = session

    def lacks(self, addition: CallAddition) -> Adds:
        """Return what of an addition its call lacks."""
        return "" if addition.several else _adds(addition.report, self._calls[addition.report.key])

    def added(self, key: str, adds: Adds) -> None:
        """Note that a call has what it lacked."""
        call = self._calls[key]
        call.captured, call.answered = call.captured or adds == "words", call.answered or bool(adds)
        call.begun = call.begun and adds != "outcome"

    def session_of(self, key: str) -> str:
        """Return the session in which a call was recorded; empty if it was refused."""
        return self._calls[key].session if key in self._calls else ""

    def _add(self, report: Report, kind: str) -> None:
        what = report.what
        captured = not isinstance(what, Exchange) or bool(what.messages)
        answered = not isinstance(what, Exchange) or what.answer is not None
        self._calls[report.key] = _KnownCall(kind, report.began, report.ended, captured, answered, report.begun, report)
        if report.response:
            self._of_answer[kind, report.response] = report.key
        if report.begun:
            self._of_stream[report.stream] = report.key

    def _same(self, report: Report, kind: str) -> list[str]:
        """Return the known calls that are the reported one: those inside of its span, or one around or beside it."""
        ofs = _OfKind(self._calls, kind)
        # Parents tell most; then the id that the endpoint gave its answer; then what Logfire writes twice.
        if inside := self._tree.nearest_inside(report.key, ofs):
            return inside
        if around := next((key for key in self._tree.around(report.key) if key in ofs), None):
            return [around]
        key = self._of_answer.get((kind, report.response)) if report.response else None
        if key is not None and key in ofs:
            other = self._calls[key]
            if max(other.began, report.began) <= min(other.ended, report.ended) + OVERLAP_NS:
                return [key]
        if report.stream and not report.begun and (key := self._of_stream.get(report.stream)) in ofs:
            return [str(key)]
        return []

    def _join(self, report: Report, kind: str, same: list[str]) -> CallAddition | None:
        """Join a report with the known calls that are the same; return what it adds if those were handed on."""
        last = max(same, key=lambda key: self._calls[key].ended)
        # A span around several calls with words sums them up.
        several = len(same) > 1 and any(self._calls[key].captured for key in same)
        waiting = [key for key in same if self._calls[key].report is not None]
        if not waiting:
            what = report.what
            what = replace(what, span=last) if isinstance(what, Exchange) else what
            return CallAddition(replace(report, key=last, what=what, also=(*report.also, report.key)), several)
        latest = self._calls[waiting[-1]].report
        assert latest is not None
        if several:
            self._calls[waiting[-1]].report = replace(latest, also=(*latest.also, report.key))
            return None
        # Neither was handed on, so one report takes the place of both.
        for key in waiting:
            before = self._calls.pop(key).report
            assert before is not None
            report = joined(before, report)
        self._add(report, kind)
        return None


class _OfKind:
    """The known calls of a kind, as a container of keys."""

    def __init__(self, calls: dict[str, _KnownCall], kind: str) -> None:
        self._calls, self._kind = calls, kind

    def __contains__(self, key: object) -> bool:
        call = self._calls.get(str(key))
        # One that was handed on and not recorded, as the database could not be reached, comes again.
        waits_or_recorded = call is not None and (call.report is not None or bool(call.session))
        return call is not None and call.kind == self._kind and waits_or_recorded


def _kind(report: Report) -> str:
    """Return what of a report may be told twice: a kind of call, or a search; empty for anything else."""
    what = report.what
    if isinstance(what, Exchange):
        return what.purpose
    return what.kind if isinstance(what, MemoryOperation) and what.kind == "search" else ""


def _adds(report: Report, call: _KnownCall) -> Adds:
    what = report.what
    if not isinstance(what, Exchange):
        return ""
    if what.messages and not call.captured:
        return "words"
    if call.begun and not report.begun:
        return "outcome"
    return "answer" if what.answer is not None and not call.answered else ""


def joined(first: Report, second: Report) -> Report:
    """Return one report of what two spans report; `first` ended before, as what is inside does."""
    # All keys are recorded with the call, so that no span that is sent again is taken for another one.
    keys = dict.fromkeys((*first.also, *second.also, first.key, second.key))
    if isinstance(first.what, Exchange) and isinstance(second.what, Exchange):
        base, other = (first, second) if first.what.messages or not second.what.messages else (second, first)
        if first.begun and not second.begun:
            base, other = second, first
        mine, its = base.what, other.what
        assert isinstance(mine, Exchange)
        assert isinstance(its, Exchange)
        names = ("answer", "input_tokens", "output_tokens", "cached_tokens", "error")
        lacking = {name: getattr(its, name) for name in names if getattr(mine, name) is None}
        model = its.model if mine.model == "unknown" else mine.model
        what = replace(mine, model=model, compacted=mine.compacted or its.compacted, **lacking)
        result = replace(base, what=what, response=base.response or other.response)
    else:
        has_records = isinstance(first.what, MemoryOperation) and bool(first.what.records)
        result = first if has_records else second
        other = second if has_records else first
    return replace(
        result,
        session=result.session or other.session,
        process=result.process or other.process,
        also=tuple(key for key in keys if key != result.key),
    )


TRACE_DIGITS = 8
"""Last hex digits of the trace id in a generated session name: the first are the time in some emitters' ids."""

MAX_UNNAMED, MAX_UNNAMED_REPORTS, MAX_UNNAMED_CHARACTERS = 64, 200, 16_000_000
"""Maximum sessions without a name that may still get one, of spans of each, and total characters of these."""

MAX_CACHED_SESSIONS = 256
"""Maximum cached sessions; the oldest is evicted."""


MAX_LOGGED, MAX_LOGGED_CHARACTERS = 2_000, 32_000_000
"""Maximum number of spans for which log records are kept, and total characters of these; the oldest are evicted."""

LATE_EVENTS = 200
"""Number of recent calls and prompts of a session to which late log records may belong."""

_log = logging.getLogger(__name__)

MAX_REASONS = 10
"""Maximum rejection reasons reported per request."""


@dataclass(slots=True)
class Refusals:
    """Rejected spans of one request."""

    spans: int = 0
    reasons: dict[str, None] = field(default_factory=dict)
    """The first `MAX_REASONS` distinct reasons, in order."""

    def add(self, reason: str) -> None:
        self.spans += 1
        if len(self.reasons) < MAX_REASONS:
            self.reasons.setdefault(reason)


class LoggedEvents:
    """Log records of spans that have not arrived yet, as exporters send logs first. Thread-safe."""

    def __init__(self) -> None:
        self._events: dict[str, list[LogRecord]] = {}
        self._characters = 0
        self._lock = threading.Lock()

    def add(self, records: Iterable[LogRecord]) -> None:
        """Store log records, evicting the oldest beyond the limits."""
        with self._lock:
            for record in records:
                self._events.setdefault(record.span, []).append(record)
                self._characters += _characters(record)
            # A log record whose span never comes would stay for ever otherwise.
            while self._events and (len(self._events) > MAX_LOGGED or self._characters > MAX_LOGGED_CHARACTERS):
                self._forget(next(iter(self._events)))

    def completed(self, span: Span) -> Span:
        """Return the span with the events logged for it, which are removed from this object."""
        with self._lock:
            events = tuple((record.event, record.attributes) for record in self._forget(span.key))
        return replace(span, events=(*span.events, *events)) if events else span

    def _forget(self, key: str) -> list[LogRecord]:
        records = self._events.pop(key, [])
        self._characters -= sum(map(_characters, records))
        return records


def _characters(record: LogRecord) -> int:
    return len(record.event) + len(str(record.attributes))


class Receiver:
    """Stores spans. Not thread-safe except for `logged`: use one thread."""

    def __init__(self, database: Callable[[], Database], opened: Callable[[str], Session]) -> None:
        self._database, self._opened = database, opened
        self._sessions: dict[str, tuple[Session, CachedPast]] = {}
        self.logged = LoggedEvents()
        self._tree = SpanTree()
        self._calls = SameCalls(self._tree)
        self._unnamed = _Unnamed()

    def store(self, exports: Sequence[SpanExport]) -> list[Refusals]:
        """Store the spans of these requests; return the refusals of each.

        Raises:
            StoreError: The database cannot be reached. Retrying stores no span twice.
        """
        refusals = [Refusals() for _ in exports]
        reports: list[tuple[Report, Refusals]] = []
        named: dict[str, str] = {}
        for export, refused in zip(exports, refusals, strict=True):
            for reason in export.refused:
                refused.add(reason)
            for span in export.spans:
                try:
                    self._tree.add(span.key, span.around, name := conversation_of(span.values))
                    named |= {} if name is None else {span.trace: name}
                    # Spans are read before a session is opened: most concern neither a model nor memory.
                    report = read_span(self.logged.completed(span))
                except Exception as error:  # spans are untrusted: one that fails must not cost the rest of its batch
                    refused.add(f"the span {span.name[:80]!r} cannot be read: {_reason(error)}")
                    continue
                if report is not None:
                    reports.append((report, refused))
        fresh, additions = self._calls.once(reports)
        # A call whose span has neither name nor parent is in the conversation of the other span that reports it.
        for addition in additions:
            key, name = addition.report.key, addition.report.session or self._tree.name(addition.report.also[-1])
            if name is not None and self._tree.name(key) is None:
                self._tree.add(key, "", name)
                named[key.partition(":")[0]] = name
        self._rename(named)
        for session_id, of_session in self._by_session(fresh).items():
            self._record(session_id, of_session)
            for report, _ in of_session:
                self._calls.recorded(report.key, session_id)
        for addition in additions:
            self._add(addition)
        return refusals

    def _rename(self, names: Mapping[str, str]) -> None:
        """Move what was recorded in sessions without a name to the conversations that their traces name now.

        `names`: a name by trace. It is recorded there first and deleted afterwards, so that nothing is lost between.
        """
        for session_id, (reports, written) in self._unnamed.of(names):
            by_name: dict[str, list[Report]] = defaultdict(list)
            for report in reports:
                by_name[self._tree.name(report.key) or names.get(report.trace) or session_id].append(report)
            # Somebody has worked with it, or one of its traces names nothing yet: it stays as it is.
            if session_id in by_name or self._written(session_id) != written or not all(map(self._takes, by_name)):
                continue
            for name, moved in by_name.items():
                record_reports(*self._session(name), moved, moved_from=session_id)
                for report in moved:
                    self._calls.recorded(report.key, name)
            with suppress(ConflictError, NotFoundError):  # somebody began to work with it meanwhile, or deleted it
                delete_session(self._database(), session_id, reusable=True, unused_since=written)
            self._sessions.pop(session_id, None)

    def _takes(self, session_id: str) -> bool:
        """Return whether spans may be recorded under a name."""
        try:
            check_free(self._opened(session_id), "spans")
        except ConfigError:
            return False
        return unstorable(session_id) is None

    def _add(self, addition: CallAddition) -> None:
        """Record what a span adds to a call of an earlier request, and that the span was received."""
        report = addition.report
        if not (session_id := self._calls.session_of(report.key)):
            return
        with self._database().read() as connection:
            if _recorded_spans(connection, report.also[-1:]):  # sent again, after the span that it added to
                return
        try:
            session, past = self._session(session_id)
            if adds := self._calls.lacks(addition):
                record_late(session, past, report, adds)
            with recording(session, past) as to:
                _add_spans(to.w, report.also)
            self._calls.added(report.key, adds)
        except StoreError:
            raise
        except MemoryInspectorError as error:
            self._sessions.pop(session_id, None)
            _log.warning("What a span says of a call that was recorded before is lost: %s.", _reason(error))
        else:
            self._unnamed.join(session_id, report, self._written(session_id))

    def _written(self, session_id: str) -> float:
        with self._database().read() as connection:
            state = read_session(connection, session_id)
        return 0.0 if state is None else state.updated_at

    def store_late(self, records: Iterable[LogRecord]) -> Refusals:
        """Store what these log records say of spans that were stored before without it; return the refusals.

        Raises:
            StoreError: The database cannot be reached.
        """
        refused, times = Refusals(), {record.span: record.time for record in records}
        with self._database().read() as connection:
            recorded = _recorded_spans(connection, list(times))
            sessions = _sessions_of_traces(connection, {key.partition(":")[0] for key in recorded})
        for key in sorted(recorded, key=times.__getitem__):
            trace, _, id = key.partition(":")
            call = {"gen_ai.operation.name": "chat"}
            try:
                report = read_span(self.logged.completed(Span(trace, id, began=times[key], attributes=call)))
                assert report is not None
                record_late(*self._session(sessions[trace]), report)
            except StoreError:
                raise
            except Exception as error:  # untrusted, as spans are
                self._sessions.pop(sessions[trace], None)
                refused.add(f"log records cannot be read: {_reason(error)}")
        return refused

    def _record(self, session_id: str, reports: Sequence[tuple[Report, Refusals]]) -> None:
        """Store spans of one session; if the batch fails, one by one."""
        try:
            session, past = self._session(session_id)
            record_reports(session, past, [report for report, _ in reports])
            if session_id == _generated(reports[0][0]):
                self._unnamed.add(session_id, [report for report, _ in reports], self._written(session_id))
        except StoreError:
            raise
        except Exception as error:
            # The cached past may hold what was rolled back, and a deleted session must not stay cached.
            self._sessions.pop(session_id, None)
            # If the session itself is refused (deleted, or not an attached agent's), separating the spans does not
            # help.
            alone = len(reports) == 1 or isinstance(error, NotFoundError | ConfigError | ConflictError)
            for pair in reports:
                if alone:
                    pair[1].add(_reason(error))
                else:
                    self._record(session_id, [pair])

    def _by_session(self, reports: Sequence[tuple[Report, Refusals]]) -> Mapping[str, list[tuple[Report, Refusals]]]:
        names = {report.key: report.session or self._tree.name(report.key) or report.process for report, _ in reports}
        named = {report.trace: name for report, _ in reports if (name := names[report.key]) is not None}
        unnamed = {report.trace for report, _ in reports} - named.keys()
        # A trace may span several requests: its session is the one that an earlier request stored.
        if unnamed:
            with self._database().read() as connection:
                named |= _sessions_of_traces(connection, unnamed)
        by_session: dict[str, list[tuple[Report, Refusals]]] = defaultdict(list)
        for report, refused in reports:
            session_id = names[report.key] or named.get(report.trace)
            session_id = session_id or _generated(report)
            if problem := unstorable(session_id):
                refused.add(f"the name of its conversation {problem}")
            else:
                by_session[session_id].append((report, refused))
        return by_session

    def _session(self, session_id: str) -> tuple[Session, CachedPast]:
        cached = self._sessions.get(session_id)
        if cached is None or not cached[0].database.in_place:
            session = self._opened(session_id)
            attach(session, source="spans")
            self._sessions[session_id] = session, CachedPast()
            if len(self._sessions) > MAX_CACHED_SESSIONS:
                del self._sessions[next(iter(self._sessions))]
        return self._sessions[session_id]


class _Unnamed:
    """Reports in sessions whose name was made from a trace, as long as the trace may still name one."""

    def __init__(self) -> None:
        self._sessions: dict[str, tuple[list[Report], float]] = {}
        self._of_trace: dict[str, str] = {}
        self._characters: dict[str, int] = {}

    def add(self, session_id: str, reports: Sequence[Report], written: float) -> None:
        """Remember these reports; `written`: when the session was last written to, in seconds since the epoch."""
        # Put at the end: the session that was written to longest ago is forgotten first.
        before = self._sessions.pop(session_id, ([], 0.0))[0]
        keys = {report.key for report in before}  # an exporter may send a span again
        new = [report for report in reports if report.key not in keys]
        self._sessions[session_id] = [*before, *new], written
        self._characters[session_id] = self._characters.get(session_id, 0) + sum(map(_prompt_characters, new))
        self._of_trace |= {report.trace: session_id for report in reports}
        while len(self._sessions) > MAX_UNNAMED or sum(self._characters.values()) > MAX_UNNAMED_CHARACTERS:
            self._forget(next(iter(self._sessions)))
        if len(before) + len(reports) > MAX_UNNAMED_REPORTS:
            self._forget(session_id)

    def join(self, session_id: str, addition: Report, written: float) -> None:
        """Remember what was added to a report."""
        if session_id in self._sessions:
            reports = self._sessions[session_id][0]
            reports = [joined(report, addition) if report.key == addition.key else report for report in reports]
            self._sessions[session_id] = reports, written

    def of(self, traces: Iterable[str]) -> list[tuple[str, tuple[list[Report], float]]]:
        """Return, and forget, the sessions of these traces, each with its reports and when it was last written to."""
        ids = dict.fromkeys(filter(None, map(self._of_trace.get, traces)))
        return [(session_id, reports) for session_id in ids if (reports := self._forget(session_id)) is not None]

    def _forget(self, session_id: str) -> tuple[list[Report], float] | None:
        reports = self._sessions.pop(session_id, None)
        self._characters.pop(session_id, None)
        for report in reports[0] if reports is not None else ():
            self._of_trace.pop(report.trace, None)
        return reports


def _prompt_characters(report: Report) -> int:
    messages = report.what.messages if isinstance(report.what, Exchange) else ()
    return sum(len(message.content or "") for message in messages)


def _generated(report: Report) -> str:
    return f"{report.service} {report.trace[-TRACE_DIGITS:]}"


def _reason(error: Exception) -> str:
    """Return the reason of a refusal; an unforeseen error's type only, as its text may quote the conversation."""
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    return user_message(error).rstrip(".") if isinstance(error, MemoryInspectorError) else type(error).__name__


def record_reports(
    session: Session, past: CachedPast, reports: Sequence[Report], *, moved_from: str | None = None
) -> None:
    """Record spans of one session in one transaction, ordered by end time; known spans are skipped.

    `past` caches what the previous transaction read of the session. `moved_from`: the session in which these spans were
    recorded before; they count as this one's.

    Raises:
        NotFoundError: The session was deleted; nothing was stored.
        StoreError: The database cannot be reached; nothing was stored.
    """
    with recording(session, past) as to:
        w = to.w
        keys = [key for report in reports for key in (report.key, *report.also)]
        if moved_from is not None:
            _move_spans(w, keys, moved_from)
        recorded = set() if moved_from is not None else _recorded_spans(w.connection, keys)
        # A mapping, as one batch may hold a span twice.
        fresh = {report.key: report for report in reports if recorded.isdisjoint((report.key, *report.also))}
        # By their ends: an answer exists, and a record is found, only when the span ends.
        ordered = sorted(fresh.values(), key=lambda report: (report.ended, report.began))
        meanwhile = _before_their_call(ordered)
        held = {report.key for operations in meanwhile.values() for report in operations}
        for report in ordered:
            if isinstance(report.what, Exchange):
                before = [_event(session, w, operation) for operation in meanwhile.get(report.key, ())]
                to.exchange(report.what, before, called=not report.begun)
            elif isinstance(report.what, Compaction):
                to.compacted()
            elif report.key not in held:
                w.record(_event(session, w, report), actor="agent")
        _add_spans(w, [key for report in fresh.values() for key in (report.key, *report.also)])


def record_late(session: Session, past: CachedPast, report: Report, adds: Adds = "words") -> None:
    """Record what a report adds to a call that was recorded before, or a compaction that came with it.

    Raises:
        MessageError: A message cannot be stored; nothing was stored.
        NotFoundError: The session was deleted; nothing was stored.
        StoreError: The database cannot be reached; nothing was stored.
    """
    kinds, exchange = ("context_built", "model_called"), report.what
    after = adds in ("outcome", "answer")
    if not isinstance(exchange, Exchange) or not (exchange.messages or exchange.compacted or after):
        return
    with recording(session, past) as to:
        if after:
            to.exchange(replace(exchange, messages=()), called=adds == "outcome")
            return
        newest = read_events(to.w.connection, session.id, kinds=kinds, limit=LATE_EVENTS, newest_first=True)
        of_span = [record.event for record in newest if getattr(record.event, "span", None) == report.key]
        # A prompt is recorded once, although an exporter may send its log records twice.
        if exchange.messages and len(of_span) == 1 and is_call(of_span[0]) and not of_span[0].captured:
            to.exchange(exchange, called=False)
        elif exchange.compacted:
            to.compacted()


def _before_their_call(ordered: Sequence[Report]) -> Mapping[str, list[Report]]:
    """Group memory operations by the model call that followed them in their trace.

    A look-up for a message belongs to that message's turn, but the message arrives only with the call.
    """
    calls: dict[str, list[Report]] = defaultdict(list)
    for report in sorted(ordered, key=lambda report: report.began):
        if isinstance(report.what, Exchange) and report.what.messages:
            calls[report.trace].append(report)
    by_call: dict[str, list[Report]] = defaultdict(list)
    for report in ordered:
        if isinstance(report.what, MemoryOperation):
            of_trace = calls.get(report.trace, [])
            place = bisect_left(of_trace, report.ended, key=lambda call: call.began)
            # The first call that began after the operation had ended may have used its result.
            if place < len(of_trace):
                by_call[of_trace[place].key].append(report)
    return by_call


def _event(session: Session, w: Writing, report: Report) -> Event:
    """Convert a memory operation to its event; store its text in the content store."""
    done = report.what
    assert isinstance(done, MemoryOperation)
    span, finished, store = report.key, report.ended // 1_000, done.store
    if done.kind == "create_store" or done.kind == "delete_store":
        change = "created" if done.kind == "create_store" else "deleted"
        return MemoryStoreChanged(span, finished, store, change, done.error)  # type: ignore[arg-type]
    if done.kind == "delete":
        ids = tuple(record.id for record in done.records if record.id is not None)
        return MemoryDeleted(span, finished, store, ids, done.count, done.error)
    records = tuple(
        (record.id, *_stored(session, w, record.words), record.score if done.kind == "search" else None)
        for record in done.records
    )
    if done.kind == "search":
        query = None if done.query is None else w.store_text(done.query)
        return MemorySearched(span, finished, store, query, records, done.count, done.best, done.error)
    written = tuple(record[:3] for record in records)
    return MemoryWritten(span, finished, store, done.kind, written, done.count, done.error)


def _stored(session: Session, w: Writing, words: str | None) -> tuple[str | None, int]:
    """Store a record's text; return its hash and tokens."""
    return (None, 0) if words is None else (w.store_text(words), session.counter.text(words))


# -- ids of recorded spans, so that a span that an exporter sends again is not recorded again ------


_s = span_table.c


def _recorded_spans(connection: Connection, keys: Sequence[str]) -> set[str]:
    """Return the keys (`trace:span`) among these whose spans were recorded, in any session."""
    wanted, result = set(keys), set[str]()
    # By trace alone: for a list of pairs SQLite would scan the whole table.
    for chunk in chunks(sorted({key.partition(":")[0] for key in keys})):
        rows = connection.execute(select(_s.trace, _s.span).where(_s.trace.in_(chunk)))
        result.update(key for trace, span in rows if (key := f"{trace}:{span}") in wanted)
    return result


def _sessions_of_traces(connection: Connection, traces: Iterable[str]) -> dict[str, str]:
    """Return for each trace a session in which its spans were recorded; unknown traces are missing."""
    result: dict[str, str] = {}
    for chunk in chunks(sorted(set(traces))):
        result.update(connection.execute(select(_s.trace, _s.session_id).where(_s.trace.in_(chunk)).distinct()).all())
    return result


def _move_spans(w: Writing, keys: Iterable[str], session_id: str) -> None:
    """Count spans that were recorded in another session as this one's."""
    for chunk in chunks(sorted({key.partition(":")[0] for key in keys})):
        of_session = (_s.session_id == session_id) & _s.trace.in_(chunk)
        w.connection.execute(update(span_table).where(of_session).values(session_id=w.session.id))


def _add_spans(w: Writing, keys: Iterable[str]) -> None:
    """Record spans as stored, in the same transaction as their effects."""
    rows = [
        {"trace": trace, "span": span, "session_id": w.session.id}
        for trace, _, span in (key.partition(":") for key in keys)
    ]
    w.database.insert_if_new(w.connection, span_table, rows)

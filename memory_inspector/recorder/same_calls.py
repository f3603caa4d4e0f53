"""Tell calls that several spans report: a client's own span inside a framework's, or the two of a stream.

Of two such spans the one inside is kept, as it is nearer to what was sent, or the one that has words; it takes what it
lacks from the other. Searches and embeddings likewise.
"""

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from memory_inspector.recorder.spans import MemoryOperation, Report
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

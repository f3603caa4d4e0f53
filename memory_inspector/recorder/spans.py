"""Extract model calls and memory operations from spans. Pure; other spans yield nothing.

Without the conventions' opt-in for content, spans have ids and counts but no text.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memory_core.errors import MessageError
from memory_core.messages import ChatMessage, MessageRole, content_hash
from memory_core.tokens import reported
from memory_inspector.recorder.dialects import (
    COMPACTED,
    DIALECTS,
    LOGFIRE,
    MLFLOW,
    NO_NAME,
    SESSION,
    SPAN_NAME,
    STREAMED,
    Dialect,
    Field,
    MemoryKind,
)
from memory_inspector.recorder.otlp import Span
from memory_inspector.recorder.prompt_messages import (
    answers_in_value,
    answers_of,
    calls_of,
    decoded,
    flattened_list,
    instructions,
    messages_of,
    messages_of_events,
)
from memory_inspector.recorder.wire import Exchange, has_compaction

MAX_NAME = 200
"""Maximum characters of an id, store or model name. Longer ids are truncated."""

MAX_RECORDS = 1_000
"""Maximum records of an operation; a span with more is refused."""

_CODE = re.compile(r"[\w.:<>-]{1,80}")


@dataclass(frozen=True, slots=True)
class MemoryRecord:
    """A record of a memory operation."""

    id: str | None
    words: str | None
    """Text of the record; None if the span left it out."""
    score: float | None = None


@dataclass(frozen=True, slots=True)
class MemoryOperation:
    """An operation of an agent on its own memory."""

    kind: MemoryKind
    store: str | None
    """Name of the store; None if the span names none."""
    records: tuple[MemoryRecord, ...] = ()
    query: str | None = None
    count: int | None = None
    """Number of records written, found or deleted, as the span counts them."""
    best: float | None = None
    """Highest score of a search."""
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Compaction:
    """A compaction of the conversation that is reported apart from the calls."""


@dataclass(frozen=True, slots=True)
class Report:
    """Contents of a relevant span."""

    key: str
    """Deduplication key of the span, see `Span.key`."""
    trace: str
    began: int
    """Start of the span; like `ended`, in nanoseconds since the epoch."""
    ended: int
    session: str | None
    """Conversation named by the span."""
    process: str | None
    """Conversation named by its resource, which may name one for a whole process."""
    service: str
    what: Exchange | MemoryOperation | Compaction
    response: str = ""
    """Id of the answer; empty if the span has none. Two spans with the same one report the same call."""
    stream: str = ""
    """Text that the two spans of a streamed call have in common, as Logfire writes them; empty for others."""
    begun: bool = False
    """True for the first of these two: it ends when the stream begins, so all but the prompt comes with the second."""
    also: tuple[str, ...] = ()
    """Keys of other spans that report the same."""

    @property
    def tells(self) -> bool:
        """Return whether it says anything of a call: words, tokens, a failure or an answer, if only its id."""
        what = self.what
        if not isinstance(what, Exchange) or what.purpose != "reply":
            return True
        outcome = (what.answer, what.input_tokens, what.output_tokens, what.error)
        return bool(what.messages or self.response or what.compacted) or any(value is not None for value in outcome)


def read_span(span: Span) -> Report | None:
    """Read a span; None if it concerns neither a model nor memory nor a compaction.

    Raises:
        MessageError: An attribute does not follow its convention; the message names the attribute.
    """
    match = _dialect(span)
    response = ""
    what: Exchange | MemoryOperation | Compaction
    if match is None:
        if not _is_compacted(span):
            return None
        what = Compaction()
    else:
        dialect, operation = match
        read = _exchange if operation in ("reply", "embed") else _operation
        what = read(span, dialect, operation)
        response = _name(_get(span.values, dialect, "response")[1]) or ""
    session, process = conversation_of(span.values), conversation_of(span.resource)
    service = _name(span.resource.get("service.name")) or "agent"
    report = Report(span.key, span.trace, span.began, span.ended, session, process, service, what, response)
    return _of_stream(report, span) if LOGFIRE.named_by in span.attributes else report


def _of_stream(report: Report, span: Span) -> Report:
    """Return a report of Logfire with what its stream is known by, if it may be one of the two spans of a stream."""
    what = report.what
    if not isinstance(what, Exchange) or not what.messages:
        return report
    # The request's span ends when the stream is handed to the program; the second is written when it has ended.
    second = str(span.attributes[LOGFIRE.named_by]).startswith(STREAMED)
    outcome = (what.answer, what.input_tokens, what.output_tokens, what.error)
    begun = not (second or report.response) and all(value is None for value in outcome)
    stream = f"{span.trace} {span.parent} {len(what.messages)} {content_hash(what.messages[-1].to_json())}"
    return replace(report, stream=stream, begun=begun) if begun or second else report


def conversation_of(attributes: Mapping[str, Any]) -> str | None:
    """Return the name of the conversation in the attributes of a span, or of its resource; None if they name none."""
    values = (attributes.get(name) for name in SESSION)
    names = (_name(_unquoted(value)) for value in values)
    return next((name for name in names if name is not None and not NO_NAME.match(name)), None)


def _unquoted(value: Any) -> Any:
    """Return a text that is written as JSON, as MLflow writes each; any other value as it is."""
    try:
        text = json.loads(value) if isinstance(value, str) and value.startswith('"') else value
    except ValueError:
        return value
    return text if isinstance(text, str) else value


def _is_compacted(span: Span) -> bool:
    """Return whether a span, or an event of it, reports a compaction."""
    reported_so = str(span.values.get(COMPACTED)).lower() in ("true", "1")
    return reported_so or any(name == COMPACTED for name, _ in span.events)


def _dialect(span: Span) -> tuple[Dialect, Any] | None:
    for dialect in DIALECTS:
        named = span.name if dialect.named_by == SPAN_NAME else span.attributes.get(dialect.named_by)
        operation = dialect.operations.get(str(named))
        if operation is not None:
            return dialect, operation
    return None


def _get(values: Mapping[str, Any], dialect: Dialect, field: Field) -> tuple[str, Any]:
    """Return name and value of the first attribute present for a field; the value is None if there is none."""
    for name in dialect.fields.get(field, ()):
        attribute, *keys = name.split("/")
        value = flattened_list(values, name.removesuffix("*")) if name.endswith(".*") else values.get(attribute)
        if keys and value is not None:
            value = _inside(value, keys)
        if value is not None:
            return name, value
    return "", None


def _inside(value: Any, keys: Sequence[str]) -> Any:
    """Return the value below some keys of a JSON object; None if there is none, or the JSON was cut off."""
    try:
        value = decoded(value)
    except MessageError:
        return None
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _name(value: Any) -> str | None:
    return _words(str(value)[:MAX_NAME]) if isinstance(value, str | int) and str(value).strip() else None


def _error(span: Span) -> str | None:
    """Return the error class of an operation; never its text, which may quote anything."""
    # OpenTelemetry records an exception as an event, whatever the library.
    code = str(span.attributes.get("error.type") or span.values.get("exception:exception.type") or "")
    if not code and not span.failed:
        return None
    return f"it failed with {code}" if _CODE.fullmatch(code) else "it failed"


# -- model calls -----------------------------------------------------------------------------------


def _exchange(span: Span, dialect: Dialect, purpose: str) -> Exchange:
    values = span.values
    messages, answer = _prompt_and_answer(span, dialect) if purpose == "reply" else ([], None)
    return Exchange(
        purpose=purpose,
        model=_name(_get(values, dialect, "model")[1]) or "unknown",
        messages=tuple(messages),
        answer=answer,
        input_tokens=reported(_get(values, dialect, "input_tokens")[1]),
        output_tokens=reported(_get(values, dialect, "output_tokens")[1]),
        cached_tokens=reported(_get(values, dialect, "cached_tokens")[1]),
        seconds=max(0, span.ended - span.began) / 1e9,
        error=_error(span),
        known="reported",
        span=span.key,
        # Microseconds: nanoseconds of today exceed what JSON readers represent exactly.
        sent=span.began // 1_000 or None,
        captured=purpose != "reply" or bool(messages),
        compacted=purpose == "reply" and (_is_compacted(span) or _holds_compaction(_get(values, dialect, "input")[1])),
    )


def _prompt_and_answer(span: Span, dialect: Dialect) -> tuple[list[ChatMessage], ChatMessage | None]:
    """Return a call's prompt and first answer."""
    values, events = span.values, span.events
    prompt = _read(values, dialect, "system", instructions)
    asked = _read(values, dialect, "input", lambda value: messages_of(value, MessageRole.USER))
    # Some emitters write the system prompt beside the messages and once more as their first.
    if prompt and asked and asked[0].role is MessageRole.SYSTEM and asked[0].content == prompt[0].content:
        prompt = []
    prompt += asked
    # Emitters that write both attributes and events repeat the same messages.
    prompt = prompt or messages_of_events(events, said=False)
    in_value = _get(values, dialect, "output")[0] in ("output.value", "mlflow.spanOutputs")
    answers = _read(values, dialect, "output", answers_in_value if in_value else answers_of)
    if dialect is MLFLOW and not answers:  # the answer itself, or in the form of another client
        answers = _read(values, dialect, "output", lambda value: answers_of(_unquoted(value)))
    answers = answers or messages_of_events(events, said=True)
    # Tool calls that are stored apart are joined with the first answer's text into one message.
    if calls := _read(values, dialect, "calls", calls_of):
        answers = [calls[0].with_parts([*(part for answer in answers[:1] for part in answer.parts), *calls[0].parts])]
    for message in (*prompt, *answers):
        message.to_json()  # fails early on unstorable text: refuses this span, not its batch
    first = next((answer for answer in answers if answer.role is MessageRole.ASSISTANT), None)
    return prompt, first if first is not None and first.parts else None


def _holds_compaction(value: Any) -> bool:
    # Looked for as text first, as decoding a prompt once more takes long.
    return not (isinstance(value, str) and '"compaction"' not in value) and has_compaction(decoded(value))


def _read(values: Mapping[str, Any], dialect: Dialect, field: Field, read: Any) -> list[ChatMessage]:
    name, value = _get(values, dialect, field)
    if value is None:
        return []
    try:
        messages: list[ChatMessage] = read(value)
        return messages
    except MessageError as error:
        raise MessageError(f"{name} {str(error).rstrip('.')}") from None


# -- memory ----------------------------------------------------------------------------------------


def _operation(span: Span, dialect: Dialect, kind: MemoryKind) -> MemoryOperation:
    values = span.values
    store = _one(_get(values, dialect, "store")[1])
    query = _get(values, dialect, "query")[1]
    records = _records(values, dialect)
    count = reported(_get(values, dialect, "count")[1])
    scores = [record.score for record in records if record.score is not None]
    best = _number(_get(values, dialect, "best")[1])
    return MemoryOperation(
        kind=kind,
        store=_name(store),
        records=records,
        query=None if query is None else _words(query),
        count=count if count is not None else len(records) if records else None,
        best=best if best is not None else max(scores, default=None),
        error=_error(span),
    )


def _records(values: Mapping[str, Any], dialect: Dialect) -> tuple[MemoryRecord, ...]:
    """Return the records of an operation: with text, or ids only."""
    record_id = _name(_get(values, dialect, "record")[1])
    name, raw = _get(values, dialect, "records")
    if raw is not None:
        try:
            entries = decoded(raw)
        except MessageError as error:
            raise MessageError(f"{name} {error}") from None
        entries = entries if isinstance(entries, list) else [entries]
        if len(entries) > MAX_RECORDS:
            raise MessageError(f"{name} has {len(entries):,} records, and at most {MAX_RECORDS:,} are kept")
        # The operation's own record id can only mean a single record.
        only = record_id if len(entries) == 1 else None
        return tuple(_record(entry, only) for entry in entries)
    ids, texts = (_several(_get(values, dialect, field)[1]) for field in ("ids", "texts"))
    if ids or texts:
        longest = max(len(ids), len(texts))
        pairs = zip(ids + [record_id] * (longest - len(ids)), texts + [None] * (longest - len(texts)), strict=True)
        return tuple(MemoryRecord(_name(id), None if text is None else _words(text)) for id, text in pairs)
    return (MemoryRecord(record_id, None),) if record_id is not None else ()


def _record(entry: Any, only: str | None) -> MemoryRecord:
    """Parse a record in GenAI's, OpenInference's or Strands's schema."""
    if not isinstance(entry, Mapping):
        return MemoryRecord(only, _words(entry))
    fields = entry["document"] if isinstance(entry.get("document"), Mapping) else entry
    words = fields.get("content")
    return MemoryRecord(
        id=_name(fields.get("id")) or only,
        words=None if words is None else _words(words),
        score=_number(fields.get("score")),
    )


def _several(value: Any) -> list[Any]:
    """Return a value as a list."""
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]


def _one(value: Any) -> Any:
    """Unwrap a single-element list; some emitters encode it as JSON. Names of several stores are joined."""
    try:
        parsed = decoded(value)
    except MessageError:
        return value
    return ", ".join(map(str, parsed)) if isinstance(parsed, list) else parsed


def _words(value: Any) -> str:
    words = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    try:
        words.encode()
    except UnicodeEncodeError:
        raise MessageError("a text holds half a character, which cannot be stored") from None
    return words


def _number(value: Any) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise MessageError("a score is infinite, or no number")
    return number

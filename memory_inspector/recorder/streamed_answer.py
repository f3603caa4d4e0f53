"""Assemble a streamed answer into the form of an unstreamed one. Pure.

Endpoints split answers differently. An unreadable chunk is skipped.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from memory_core.formats.content import first_text
from memory_core.tokens import reported
from memory_inspector.files.located_json import read_json, storable_value

_BLANK_LINE = re.compile(rb"(?:\r\n|\n|\r(?!\n)){2,}")
_LAST_BYTES, _LAST_EVENT_BYTES = 1_000_000, 200
"""Bytes at a stream's end searched for its last event, and bytes of that event searched for its type."""
_END = re.compile(rb'^data: ?\[DONE\]$|(?:^event: ?|"type": ?")(?:response\.completed|message_stop)\b', re.MULTILINE)
_MARKS = re.compile(r'\\.?|["{}]', re.DOTALL)
"""Tokens that determine nesting depth in JSON: quotes, braces and escapes."""


def stream_events(body: bytes) -> Iterator[dict[str, Any]]:
    """Parse server-sent events, or JSON lines; a truncated one is dropped.

    Events that the endpoint marks as errors get an `error` key.
    """
    for block in _BLANK_LINE.split(body.removeprefix(b"\xef\xbb\xbf")):
        failed, data = False, list[bytes]()
        for line in block.splitlines():
            name, _, value = line.partition(b":")
            if name == b"event":
                failed = failed or value.strip() == b"error"
            elif name in (b"data", b"error"):  # llama.cpp sends errors in a field of its own
                failed = failed or name == b"error"
                data.append(value.strip())
            elif line.lstrip().startswith(b"{"):  # a failing server may send bare JSON
                data.append(line)
        parsed = read_json(b"\n".join(data)) if data else None
        # Some endpoints omit the blank line between events.
        objects = objects_in([read_json(line) for line in data] if parsed is None and len(data) > 1 else parsed)
        if failed and data and not any("error" in entry for entry in objects):
            objects = [{"error": objects[0] if objects else {"message": None}}]
        yield from objects


def is_complete(body: bytes) -> bool:
    """Return whether a stream ended regularly: with `[DONE]`, or the last event of a response or message."""
    last = _BLANK_LINE.split(body.rstrip()[-_LAST_BYTES:])[-1]
    return bool(_END.search(last[:_LAST_EVENT_BYTES]))


def objects_in(value: Any) -> list[dict[str, Any]]:
    """Return the value in a list if it is an object, or the objects in it if it is a list; else nothing."""
    return [entry for entry in (value if isinstance(value, list) else [value]) if isinstance(entry, dict)]


# -- chat completions ------------------------------------------------------------------------------


def joined_chunks(events: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Join chat completion chunks of the first choice, as far as they arrived."""
    choices: dict[int, _Message] = {}
    for event in events:
        for choice in objects_in(event.get("choices")):
            index = choice.get("index")
            index = index if isinstance(index, int) else 0
            if isinstance(delta := choice.get("delta"), Mapping):
                choices.setdefault(index, _Message()).add(delta)
            elif isinstance(whole := choice.get("message"), Mapping):  # an endpoint that does not stream
                choices[index] = _Message()
                choices[index].add(whole)
    return {"choices": [{"message": choices[min(choices)].made()}] if choices else []}


@dataclass(slots=True, eq=False)
class _Call:
    """A partial tool call."""

    index: Any
    kind: str = "function"
    id: str | None = None
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    """Pieces of its arguments, or of a custom tool's input."""
    _depth: int = 0
    _quoted: bool = False
    _escape: str = ""
    """A trailing backslash, which escapes the next piece's first character."""

    def add(self, text: str) -> None:
        """Append arguments and update the nesting depth."""
        self.pieces.append(text)
        marks = _MARKS.findall(self._escape + text)
        self._escape = marks[-1] if marks and marks[-1] == "\\" else ""
        for mark in marks:
            if mark == '"':
                self._quoted = not self._quoted
            elif not self._quoted and mark in "{}":
                self._depth += 1 if mark == "{" else -1

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)

    @property
    def begun(self) -> bool:
        """Return whether the arguments object is open; until it closes, all pieces belong to it."""
        return self.kind == "function" and self._depth > 0

    @property
    def complete(self) -> bool:
        """Return whether the arguments are a complete object."""
        return self._depth == 0 and any(map(str.strip, self.pieces))

    def made(self) -> dict[str, Any]:
        text = "input" if self.kind == "custom" else "arguments"
        return {"id": self.id, "type": self.kind, self.kind: {"name": self.name, text: self.arguments}}


class _Calls:
    """Tool calls of one message, joined from pieces whose id or index may be missing."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._latest: dict[tuple[str | None, int | str | None], _Call] = {}
        """Call of the latest piece, by id, index or both."""

    def add(self, pieces: Iterable[Mapping[str, Any]]) -> None:
        """Add the pieces of one chunk."""
        fresh: set[_Call] = set()
        for piece in pieces:
            kind = "custom" if piece.get("type") == "custom" or "custom" in piece else "function"
            fields = piece[kind] if isinstance(piece.get(kind), Mapping) else piece
            index, id, name = piece.get("index"), first_text(piece, "id", "call_id"), first_text(fields, "name") or ""
            index = index if isinstance(index, int | str) else None
            arguments = fields.get("arguments", fields.get("input"))
            text = arguments if isinstance(arguments, str) else "" if arguments is None else json.dumps(arguments)
            # 1. Find the call that this piece may continue.
            call = self._continued(index, id)
            # 2. Two named pieces in one chunk are two calls, unless they share an id.
            beside = call in fresh and name != "" and (id is None or call is None or id != call.id)
            if call is None or beside or _starts(call, index, id, name, text):
                call = _Call(index, kind)
                self._calls.append(call)
                fresh.add(call)
            call.id = call.id or id
            # Some endpoints repeat the name with each piece, some send its beginning so far.
            call.name = name if name.startswith(call.name) else call.name if not name else call.name + name
            if text:
                call.add(text)
            # 3. Remember the call under id and index, as later pieces may have only one of them.
            self._latest |= {(id, index): call, (id, None): call, (None, index): call}

    def _continued(self, index: int | str | None, id: str | None) -> _Call | None:
        """Return the call that a piece most likely continues: same id and index, either of them, else the last."""
        keys = [key for key in ((id, index), (id, None), (None, index)) if key != (None, None)]
        last = self._calls[-1] if self._calls else None
        return next((self._latest[key] for key in keys if key in self._latest), last)

    def made(self) -> list[dict[str, Any]]:
        """Return the calls, ordered by index where present."""
        calls = [call for call in self._calls if call.name or call.arguments]
        if all(isinstance(call.index, int) for call in calls):
            calls.sort(key=lambda call: call.index)
        return [call.made() for call in calls]


def _starts(call: _Call, index: Any, id: str | None, name: str, text: str) -> bool:
    """Return whether a piece starts a new call."""
    same_id, moved = id is not None and id == call.id, None not in (index, call.index) and index != call.index
    if same_id and not moved:
        return False
    # Some endpoints count up the index within one call; only a name or an id begins another.
    if moved and not same_id:
        return id is not None or name != ""
    if id is not None and call.id is not None:  # unreliable: ids may change per piece, or be shared
        return name != "" and not (call.begun and name == call.name)
    # Without ids and indexes, a name after a whole object of arguments begins another call.
    return name != "" and call.complete and (text.strip() != "" or name != call.name)


class _Message:
    """A partial message of one choice."""

    def __init__(self) -> None:
        self._content: list[Any] = []
        self._refusal: list[str] = []
        self._thoughts: list[str] = []
        self._calls, self._function_calls = _Calls(), _Calls()

    def add(self, delta: Mapping[str, Any]) -> None:
        content = delta.get("content")
        entries = content if isinstance(content, list) else [] if content is None else [content]
        self._content += [_text_in(entry) for entry in entries]
        if isinstance(refusal := delta.get("refusal"), str):
            self._refusal.append(refusal)
        thought = delta.get("reasoning_content", delta.get("reasoning"))  # some endpoints write both, alike
        self._thoughts += [thought] if isinstance(thought, str) else []
        self._calls.add(objects_in(delta.get("tool_calls")))
        self._function_calls.add(objects_in(delta.get("function_call")))

    def made(self) -> dict[str, Any]:
        content: list[Any] = []
        for is_text, group in groupby(self._content, lambda entry: isinstance(entry, str)):
            entries = list(group)
            content += ["".join(entries)] if is_text else entries
        return {
            "role": "assistant",
            "content": content[0] if len(content) == 1 else content or None,
            "refusal": "".join(self._refusal) or None,
            "reasoning_content": "".join(self._thoughts) or None,
            "tool_calls": self._calls.made(),
            "function_call": next((call["function"] for call in self._function_calls.made()), None),
        }


def _text_in(entry: Any) -> Any:
    """Return the text of a text-only content entry, for joining."""
    if isinstance(entry, dict) and entry.get("type", "text") in ("text", "output_text") and not entry.get("thought"):
        return entry["text"] if isinstance(entry.get("text"), str) else entry
    return entry


# -- the Responses API -----------------------------------------------------------------------------

_ENDS = ("response.completed", "response.incomplete", "response.failed", "response.done")
_PIECE = re.compile(r"response\.(?:(\w+_call)_(arguments|input|code)|(?:output_)?(text|refusal))\.(delta|done)")
_MAX_OPEN = 100
"""Maximum recent items that an event may belong to; no endpoint interleaves more."""


@dataclass(slots=True)
class _Item:
    index: Any
    id: Any
    item: dict[str, Any] = field(default_factory=dict)
    done: bool = False
    pieces: dict[int, list[str]] = field(default_factory=dict)
    """Pieces of text by content index; those of a call's streamed field have index 0."""
    name: str | None = None
    """Name of a call's streamed field, such as `arguments`; None for a message."""

    def made(self) -> dict[str, Any]:
        """Return the item, filling missing content from the pieces."""
        texts = ["".join(pieces) for pieces in self.pieces.values()]
        if self.name is not None:
            return self.item if self.item.get(self.name) else {**self.item, self.name: "".join(texts)}
        item = self.item or {"type": "message", "role": "assistant"}
        if any(texts) and not item.get("content"):
            return {**item, "content": [{"type": "output_text", "text": text} for text in texts]}
        return item


def joined_events(events: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a Responses API answer: the last event's, with the output assembled from the pieces if they are longer.

    Some endpoints omit from the last event what they have streamed.
    """
    items: list[_Item] = []
    last: Any = None
    for event in events:
        kind = str(event.get("type") or "")
        if kind in _ENDS:
            last = event.get("response")
        elif kind in ("response.output_item.added", "response.output_item.done"):
            if isinstance(new_item := event.get("item"), dict):
                item = _item(items, event.get("output_index"), new_item.get("id"))
                item.item, item.done = new_item, kind.endswith("done")
        elif match := _PIECE.fullmatch(kind):
            item = _item(items, event.get("output_index"), event.get("item_id"))
            call, item.name, text, came = match.groups()
            item.item = item.item or ({"type": call} if call else {})
            index = event.get("content_index")
            index = index if isinstance(index, int) else 0
            if came == "delta":
                item.pieces.setdefault(index, []).append(str(event.get("delta") or ""))
            elif isinstance(whole := event.get(item.name or text), str) and whole:
                item.pieces[index] = [whole]
    # If indexes are missing or of several types, the items stay in the order of arrival.
    if all(isinstance(item.index, int) for item in items):
        items.sort(key=lambda item: item.index)
    streamed = storable_value([item.made() for item in items])
    final = last if isinstance(last, dict) else {}
    output = storable_value(final.get("output"))
    output = output if isinstance(output, list) else []
    return {**final, "output": streamed if _size(streamed) > _size(output) else output}


def _item(items: list[_Item], index: Any, id: Any) -> _Item:
    """Find or create an event's item; an event without index and id belongs to the last unfinished item."""
    for item in reversed(items[-_MAX_OPEN:]):
        if (index is not None and item.index == index) or (id is not None and item.id == id):
            return item
    last = items[-1] if items and not items[-1].done else None
    if last is None or None not in (index, last.index) or None not in (id, last.id):
        items.append(_Item(index, id))
        return items[-1]
    last.index, last.id = (last.index if index is None else index), (last.id if id is None else id)
    return last


def _size(value: Any) -> int:
    """Measure the content of items; the larger of two versions of an answer is the complete one."""
    if isinstance(value, list):
        return sum(map(_size, value))
    if isinstance(value, dict):
        return sum(_size(entry) for name, entry in value.items() if name not in ("id", "encrypted_content"))
    return len(value) if isinstance(value, str) else 0


# -- Anthropic's messages --------------------------------------------------------------------------

_DELTAS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": ("partial_json", "input"),
    "compaction_delta": ("content", "content"),
}
"""Field of a delta that continues a block, and the block's field; others, such as signatures, are not recorded."""
_INPUT_TOKENS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def joined_blocks(events: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Join a message from its events as far as they arrived, with the counts reported last; or return a whole one."""
    blocks: dict[int, dict[str, Any]] = {}
    pieces: dict[tuple[int, str], list[str]] = {}
    usage: dict[str, Any] = {}
    for event in events:
        message = event.get("message", event)
        message = message if isinstance(message, Mapping) else {}
        # Some endpoints report zero, or nothing, before or after the real count.
        for reports in objects_in([message.get("usage")]):
            usage |= {name: count for name, count in reports.items() if count or name not in usage}
        for n, block in enumerate(objects_in(message.get("content"))):
            blocks[n] = block
        index = event.get("index")
        index = index if isinstance(index, int) else 0
        if isinstance(event.get("content_block"), dict):
            blocks[index] = event["content_block"]
        if isinstance(delta := event.get("delta"), Mapping):
            field, into = _DELTAS.get(str(delta.get("type")), ("", ""))
            if isinstance(text := delta.get(field), str):
                blocks.setdefault(index, {"type": "text"})
                pieces.setdefault((index, into), []).append(text)
    for (index, into), texts in pieces.items():
        begins = blocks[index].get(into)
        blocks[index] = {**blocks[index], into: "".join([*([begins] if isinstance(begins, str) else []), *texts])}
    # Anthropic counts tokens of its cache beside the input, others as part of it.
    counts = [reported(usage.get(name)) for name in _INPUT_TOKENS]
    usage["input_tokens"] = None if counts[0] is None else sum(filter(None, counts))
    return {"type": "message", "content": [blocks[index] for index in sorted(blocks)], "usage": usage}


# -- Gemini's contents -----------------------------------------------------------------------------


def joined_parts(answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Join the parts of the first candidate, in which texts or thoughts in a row are one, with the last counts."""
    parts = [
        part
        for answer in answers
        for candidate in objects_in(answer.get("candidates"))
        if candidate.get("index", 0) == 0
        for content in objects_in(candidate.get("content"))
        for part in objects_in(content.get("parts"))
    ]
    content: list[dict[str, Any]] = []
    for (is_text, thought), group in groupby(
        parts, lambda part: (isinstance(part.get("text"), str), part.get("thought") is True)
    ):
        entries = list(group)
        content += [{"text": "".join(part["text"] for part in entries), "thought": thought}] if is_text else entries
    usage: dict[str, Any] = next(reversed(objects_in([answer.get("usageMetadata") for answer in answers])), {})
    output = [reported(usage.get(name)) for name in ("candidatesTokenCount", "thoughtsTokenCount")]
    counts = {"input_tokens": usage.get("promptTokenCount"), "output_tokens": sum(filter(None, output)) or output[0]}
    counts["cached_tokens"] = usage.get("cachedContentTokenCount")
    return {"content": content, "usage": counts}

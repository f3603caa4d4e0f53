"""Read the sessions of OpenCode, rows of `~/.local/share/opencode/opencode.db`, also while it writes.

Read from a database that 1.18.33 wrote, 2026-11-29. A message with its parts makes a record. A compaction is a message
of the user with a part `compaction`, its summary the answer to it. A fork is a copy with new ids. Deleted messages stay
in a log. The system prompt, with memory files in it, and tools are not in the file.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from memory_inspector.coding.opencode_rows import OpenCodeRows, sessions_in, subagents_of
from memory_inspector.coding.plain_reader import PlainReader, stated
from memory_inspector.coding.record_file import SourceOpener
from memory_inspector.coding.transcript import (
    Boundary,
    Record,
    TranscriptItem,
    as_mapping,
    as_milliseconds,
    as_text,
    as_usage,
    item,
    objects,
    reasons_by_name,
)

Row = Mapping[str, Any]


class OpenCodeReader(PlainReader):
    """Reads the records of one session."""

    program = "OpenCode"
    unseen = "the system prompt, with memory files in it"
    source: ClassVar[SourceOpener] = OpenCodeRows
    reasons = reasons_by_name(
        {
            "step of an answer": "step-start step-finish snapshot patch retry agent",
            "request of a compaction": "compaction",
        }
    )

    def __init__(self) -> None:
        super().__init__()
        self._ids: list[str] = []
        self._before: dict[str, str | None] = {}  # record before each message
        self._compactions: dict[str, Row] = {}  # by the message that asks for it

    @staticmethod
    def sessions(path: Path) -> Iterable[tuple[Path, int, float]]:
        """Return the sessions of a database, each with the number of its parts."""
        return sessions_in(path)

    @staticmethod
    def knows(record: Row) -> bool:
        """Return whether a record describes a session."""
        return "session" in record

    @staticmethod
    def subagents(session: Path, named: Sequence[str]) -> Mapping[str, Path]:
        """Return the sessions of the same database that name it as their parent, or that calls of tools name."""
        return {name: session.with_name(name) for name in [*subagents_of(session), *named]}

    def read(self, record: Row, line: int) -> Sequence[Record]:
        """Return the values of one record."""
        if "session" in record:
            session = as_mapping(record["session"])
            about = stated(**{key: as_text(session.get(key)) for key in ("title", "folder", "version")})
            return [Record(line, "session", left_out="description of the session", about=about)]
        parent = self.last
        if "cleared" in record:
            self.last = f"line {line}"
            gone = frozenset(map(as_text, record["cleared"] if isinstance(record["cleared"], list) else ()))
            return [Record(line, "cleared", self.last, parent, boundary=Boundary("auto", clears=gone))]
        if back := as_text(record.get("back_before")):
            before, self.last = self._before.get(back, self.last), f"line {line}"
            self._ids = self._ids[: self._ids.index(back)] if back in self._ids else self._ids
            return [Record(line, "revert", self.last, before, left_out="note of a rewind", goes_back=True)]
        info, parts = as_mapping(record.get("info")), [part for _, part in objects(record.get("parts"))]
        id, role = as_text(record.get("id")), as_text(info.get("role"))
        at = as_milliseconds(as_mapping(info.get("time")).get("created"))
        items = [one for number, part in enumerate(parts) for one in self._part(role, part, line, number, at)]
        tokens = as_mapping(info.get("tokens"))
        counted = {**tokens, **as_mapping(tokens.get("cache"))}
        usage = as_usage(counted, "input read write output+reasoning", whole=False, dollars=info.get("cost"))
        boundary = None
        for part in parts:
            if part.get("type") == "compaction":
                self._compactions[id] = part
        if info.get("summary") is True and info.get("finish") and not info.get("error"):
            asked = self._compactions.get(as_text(info.get("parentID")), {})
            trigger = "auto" if asked.get("auto") is True else "manual" if "auto" in asked else ""
            # Messages from this one on stay beside the summary.
            tail = as_text(asked.get("tail_start_id"))
            staying = self._ids[self._ids.index(tail) :] if tail in self._ids else []
            boundary = Boundary(trigger, None, parent or "", keeps=tuple(staying))
            items = [
                item("summary", one.text, line=line, part=one.part, at=at) for one in items if one.kind == "assistant"
            ]
        shown = bool(items or usage or boundary)
        types = (as_text(part.get("type")) for part in parts)
        reason = next((self.reasons[kind] for kind in types if kind in self.reasons), "message without text")
        self._ids.append(id)
        self._before[id] = parent
        self.last = id if shown else parent
        model = as_text(info.get("modelID")) if usage else ""
        made = tuple(items)
        about = {f"lane {name}": call for part in parts for name, call in _lane(part)}
        left_out = "" if shown else reason
        return [Record(line, role, id, parent, at, made, "", model, usage, boundary, left_out=left_out, about=about)]

    def _part(self, role: str, part: Row, line: int, number: int, at: float | None) -> Iterator[TranscriptItem]:
        place = {"line": line, "part": 2 * number, "at": at}
        kind, text = as_text(part.get("type")), as_text(part.get("text"))
        speaker: Any = "injected" if part.get("synthetic") is True else "assistant" if role == "assistant" else "user"
        match kind:
            case "text":
                if text.strip() and part.get("ignored") is not True:
                    yield item(speaker, text, **place)
            case "reasoning":
                if text.strip():
                    yield item("thinking", text, **place)
            case "tool":
                state, tool_id = as_mapping(part.get("state")), as_text(part.get("callID"))
                yield self.called(as_text(part.get("tool")), tool_id, state.get("input"), place)
                if state.get("status") in ("completed", "error"):
                    yield self.returned(
                        tool_id, state.get("output", state.get("error")), {**place, "part": 2 * number + 1}
                    )
            case "file":
                yield item(
                    speaker,
                    f"({as_text(part.get('mime')) or 'file'})",
                    path=as_text(part.get("filename")),
                    images=1,
                    **place,
                )
            case "subtask":
                yield item("injected", as_text(part.get("prompt")), tool="subtask", **place)
            case _ if kind not in self.reasons:
                yield item("injected", f"(part of an unknown type: {kind})", **place)


def _lane(part: Row) -> Iterator[tuple[str, str]]:
    """Yield the subagent's session that a call of a tool started, with the call's id."""
    if session := as_text(as_mapping(as_mapping(part.get("state")).get("metadata")).get("sessionId")):
        yield session, as_text(part.get("callID"))

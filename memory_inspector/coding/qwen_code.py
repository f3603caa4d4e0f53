"""Read the records of Qwen Code, `~/.qwen/projects/<folder>/chats/<id>.jsonl`. Pure.

Read from files that 0.24.4 wrote, 2026-11-29. A tree by `uuid` and `parentUuid` with Google's parts; a compaction has
the whole new history. A fork is a copy with the same ids. The system prompt, reminders in prompts and tools are not in
the file; calls aside (compaction, extraction of memories) are in telemetry alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from memory_inspector.coding.plain_reader import PlainReader, stated
from memory_inspector.coding.transcript import (
    Boundary,
    ItemKind,
    Record,
    TranscriptItem,
    as_count,
    as_mapping,
    as_text,
    as_time,
    as_usage,
    objects,
    reasons_by_name,
)

_NAMES = "promptTokenCount cachedContentTokenCount - candidatesTokenCount"
_SUMMARY = "<state_snapshot>"


class QwenReader(PlainReader):
    """Reads the records of one file."""

    program = "Qwen Code"
    unseen = "the system prompt, with memory files in it, and reminders"
    reasons = reasons_by_name(
        {
            "telemetry": "ui_telemetry",
            "count of who wrote which characters": "attribution_snapshot",
            "copies of files, for undo": "file_history_snapshot",
            "title of a session": "custom_title",
            "command of the program": "slash_command",
        }
    )

    def __init__(self) -> None:
        super().__init__()
        self._said: set[str] = set()  # texts of the user and the model

    @staticmethod
    def knows(record: Mapping[str, Any]) -> bool:
        """Return whether a record is a message with Google's parts in a tree of Claude Code's form."""
        return "uuid" in record and ("provenance" in record or "parts" in as_mapping(record.get("message")))

    @staticmethod
    def subagents(session: Path, named: Sequence[str]) -> Mapping[str, Path]:
        """Return the files in the session's folder beside `chats`."""
        folder = session.parent.parent / "subagents" / session.stem
        return {path.stem.removeprefix("agent-"): path for path in sorted(folder.glob("agent-*.jsonl"))}

    def read(self, record: Mapping[str, Any], line: int) -> Sequence[Record]:
        """Return the values of one record. Records of unknown types are left out under their type."""
        kind, at = as_text(record.get("type")), as_time(record.get("timestamp"))
        message, payload = as_mapping(record.get("message")), as_mapping(record.get("systemPayload"))
        id, parent = as_text(record.get("uuid")), record.get("parentUuid")
        place = {"line": line, "at": at}
        items: list[TranscriptItem] = []
        boundary = usage = None
        left_out = ""
        about = stated(
            folder=as_text(record.get("cwd")),
            version=as_text(record.get("version")),
            branch=as_text(record.get("gitBranch")),
            title=as_text(payload.get("customTitle")),
        )
        match kind:
            case "user" | "assistant" | "tool_result":
                by_user = record.get("provenance", "real_user") == "real_user"
                speaker: ItemKind = "assistant" if kind == "assistant" else "user" if by_user else "injected"
                items = list(self.parts(speaker, message.get("parts"), place))
                usage = as_usage(record.get("usageMetadata"), _NAMES, whole=True) if kind == "assistant" else None
                self._said.update(one.text for one in items)
                about |= _lanes(message)
                left_out = "" if items or usage else "message without text"
            case "system" if record.get("subtype") == "chat_compression":
                info = as_mapping(payload.get("info"))
                before = as_count(info.get("originalTokenCount")) or None
                boundary = Boundary(as_text(info.get("triggerReason")), before, as_text(parent))
                items = list(self._history(payload.get("compressedHistory"), place))
            case "system":
                kind = as_text(record.get("subtype"))
                left_out = self.reason(kind)
            case _:
                left_out = self.reason(kind)
        parent, model = parent if isinstance(parent, str) else None, as_text(record.get("model")) if usage else ""
        made = tuple(items)
        return [Record(line, kind, id, parent, at, made, "", model, usage, boundary, left_out=left_out, about=about)]

    def _history(self, history: Any, place: Mapping[str, Any]) -> Iterator[TranscriptItem]:
        """Yield the new history of a compaction: a summary, what the program adds to it, and what stays."""
        number = 0
        for _, message in objects(history):
            speaker: ItemKind = "assistant" if message.get("role") == "model" else "user"
            for one in self.parts(speaker, message.get("parts"), {**place, "part": 0}):
                kind = one.kind
                # What the new history has and nobody said is the program's.
                if kind in ("user", "assistant") and one.text not in self._said:
                    kind = "summary" if _SUMMARY in one.text else "injected"
                yield replace(one, kind=kind, part=number)
                number += 1


def _lanes(message: Mapping[str, Any]) -> dict[str, str]:
    """Return the subagents that a message starts, each by the name of its file, with the id of the call."""
    calls = [as_mapping(part.get("functionCall")) for _, part in objects(message.get("parts"))]
    named = ((as_text(as_mapping(call.get("args")).get("subagent_type")), as_text(call.get("id"))) for call in calls)
    return {f"lane {kind}-{id}": id for kind, id in named if kind and id}

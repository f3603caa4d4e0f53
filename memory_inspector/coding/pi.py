"""Read the records of pi, `~/.pi/agent/sessions/--<folder>--/<time>_<id>.jsonl`. Pure.

Read from files that 0.73.1 wrote, 2026-11-29. Entries form a tree by `id` and `parentId`; a compaction names the first
entry that stays beside its summary. The system prompt, with the memory files in it, and tools are not in the file.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from memory_inspector.coding.plain_reader import PlainReader, content_of, stated
from memory_inspector.coding.transcript import (
    Boundary,
    Record,
    TranscriptItem,
    as_count,
    as_mapping,
    as_text,
    as_time,
    as_usage,
    item,
    reasons_by_name,
)


class PiReader(PlainReader):
    """Reads the records of one file."""

    program = "pi"
    unseen = "the system prompt, with memory files in it"
    reasons = reasons_by_name(
        {
            "description of the session": "session",
            "title of a session": "session_info",
            "setting of the program": "model_change thinking_level_change",
            "bookmark": "label",
            "state of an extension": "custom",
        }
    )
    listed = re.compile(rb'"role": ?"(?:user|assistant)"|"type": ?"(?:session|session_info|compaction)"')

    def __init__(self) -> None:
        super().__init__()
        self._parents: dict[str, str | None] = {}
        self._shown: set[str] = set()

    @staticmethod
    def knows(record: Mapping[str, Any]) -> bool:
        """Return whether a record is the head, or an entry of the tree."""
        if record.get("type") == "session":
            return "cwd" in record
        return record.get("type") == "message" and {"id", "parentId", "message"} <= {*record}

    def read(self, record: Mapping[str, Any], line: int) -> Sequence[Record]:
        """Return the values of one record. Records of unknown types are left out under their type."""
        kind, at = as_text(record.get("type")), as_time(record.get("timestamp"))
        message, summary = as_mapping(record.get("message")), as_text(record.get("summary"))
        parent = record.get("parentId", self.last)  # the first version of the form had no ids
        parent = parent if isinstance(parent, str) else None
        id = "" if kind == "session" else as_text(record.get("id")) or f"line {line}"
        place = {"line": line, "at": at}
        items: list[TranscriptItem] = []
        boundary = usage = None
        left_out, about = "", {}
        match kind:
            case "message" if message.get("excludeFromContext") is True:
                left_out = "command that the user kept from the model"
            case "message":
                items = self._items(message, place)
                used = as_mapping(message.get("usage"))
                cost = as_mapping(used.get("cost")).get("total")
                usage = as_usage(used, "input cacheRead cacheWrite output", whole=False, dollars=cost)
                left_out = "" if items or usage else "message without text"
            case "compaction":
                items = [item("summary", summary, **place)] if summary else []
                staying = self._staying(parent, as_text(record.get("firstKeptEntryId")))
                boundary = Boundary("", as_count(record.get("tokensBefore")) or None, parent or "", keeps=staying)
            case "branch_summary" | "custom_message":
                text = summary or content_of(record.get("content"))[0]
                items = [item("injected", text, tool=kind, **place)]
            case _:
                left_out = self.reason(kind)
                about = stated(folder=as_text(record.get("cwd")), title=as_text(record.get("name")))
        if id:
            self._parents[id], self.last = parent, id
            # A compaction may keep entries of which nothing is shown, such as changes of the model.
            self._shown |= set() if left_out else {id}
        model = as_text(message.get("model")) if usage is not None else ""
        made = Record(line, kind, id, parent, at, tuple(items), "", model, usage, boundary)
        return [replace(made, left_out=left_out, about=about)]

    def _staying(self, last: str | None, first: str) -> tuple[str, ...]:
        """Return the entries from the first that a compaction keeps to the last before it."""
        ids: dict[str, None] = {}
        while last is not None and last in self._parents and last not in ids:  # a file may have a circle
            ids[last] = None
            if last == first:
                return tuple(id for id in reversed(ids) if id in self._shown)
            last = self._parents[last]
        return ()

    def _items(self, message: Mapping[str, Any], place: Mapping[str, Any]) -> list[TranscriptItem]:
        content = message.get("content")
        match message.get("role"):
            case "user" | "assistant" as speaker:
                return list(self.parts(speaker, content, place))
            case "toolResult":
                return [self.returned(as_text(message.get("toolCallId")), content, place)]
            case "bashExecution":  # the user's own command, which the model is told
                text = f"Ran `{as_text(message.get('command'))}`\n{as_text(message.get('output'))}"
                return [item("injected", text, tool="bash", **place)]
            case role:
                text = as_text(message.get("summary")) or content_of(content)[0]
                return [item("injected", text, tool=as_text(role), **place)]

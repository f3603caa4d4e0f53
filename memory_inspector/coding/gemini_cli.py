"""Read the records of Gemini CLI, `~/.gemini/tmp/<project>/chats/session-<minute>-<id>.jsonl`. Pure.

Read from files that 0.61.0 wrote, 2026-11-29. An answer is written again, under its id, when it has its calls of tools;
`$set` replaces the whole history: at each resume by the same messages, at a compaction by a summary and what stays,
under new ids. `$rewindTo` takes back a message and all after it. The system prompt and tools are not in the file, nor
the tokens of the compaction's own call.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from memory_inspector.coding.plain_reader import PlainReader, google_parts, stated
from memory_inspector.coding.transcript import (
    Boundary,
    ItemKind,
    Record,
    TranscriptItem,
    as_mapping,
    as_text,
    as_time,
    as_usage,
    objects,
    reasons_by_name,
)

_SUMMARY = "<state_snapshot>"
_INJECTED = re.compile(r"\s*<(?:session_context|loaded_context)>|Got it\. Thanks for the additional context!$")
"""Beginnings of texts that the program writes in the place of the user and the model."""

_FOLDER = re.compile(r"\*\*Workspace Directories:\*\*\n\s*- ([^\n]{1,400})")


class GeminiReader(PlainReader):
    """Reads the records of one file."""

    program = "Gemini CLI"
    unseen = "the system prompt"
    reasons = reasons_by_name({"note of the program": "info warning error"})
    listed = re.compile(rb'"tokens"|"type": ?"user"|"projectHash"')

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[tuple[str, str, str]] = set()  # message, kind, and text or id of the tool
        self._record_of: dict[str, str] = {}  # by the id of a message
        self._before: dict[str, str | None] = {}  # record before each message
        self._context: set[str] = set()  # messages of the program that are sent

    @staticmethod
    def knows(record: Mapping[str, Any]) -> bool:
        """Return whether a record is the head, replaces the history, or is an answer."""
        return "projectHash" in record or "$set" in record or record.get("type") == "gemini"

    @staticmethod
    def subagents(session: Path, named: Sequence[str]) -> Mapping[str, Path]:
        """Return the files in the folder that has the session's whole id."""
        return {path.stem: path for path in sorted(session.parent.glob(f"{session.stem[-8:]}-*/*.jsonl"))}

    def read(self, record: Mapping[str, Any], line: int) -> Sequence[Record]:
        """Return the values of one line: a message, or those of a history that are new."""
        changed = as_mapping(record.get("$set"))
        if isinstance(changed.get("messages"), list):
            return self._replaced([one for _, one in objects(changed["messages"])], line)
        kind = as_text(record.get("type"))
        if kind in ("user", "gemini"):
            made = self._message(record, line, list(self._items(record, line, 0)))
            return [made or Record(line, kind, left_out="copy of a message")]
        if target := as_text(record.get("$rewindTo")):
            parent, self.last = self._before.get(target), f"line {line}"
            # The history that follows goes on from here.
            self._record_of |= {name: self.last for name, id in self._record_of.items() if id == parent}
            return [Record(line, "$rewindTo", self.last, parent, left_out="note of a rewind", goes_back=True)]
        folders = record.get("directories")
        folder = as_text(folders[0]) if isinstance(folders, list) and folders else ""
        reason = "state of the session" if "$set" in record else "description of the session"
        about = stated(folder=folder, title=as_text(changed.get("summary")))
        return [Record(line, kind, left_out=self.reason(kind) if kind else reason, about=about)]

    def _message(self, message: Mapping[str, Any], line: int, items: list[TranscriptItem]) -> Record | None:
        """Return a message with the items that were not read before; None if there are none."""
        name, kind = as_text(message.get("id")), as_text(message.get("type"))
        fresh = [one for one in items if self._is_fresh(name, one)]
        # Tokens of tools stand beside those of the input, and thoughts beside the output.
        names, tokens = "input+tool cached - output+thoughts", message.get("tokens")
        usage = as_usage(tokens, names, whole=True) if kind == "gemini" else None
        # The history that a resume writes has the answers with their tokens once more.
        if not fresh and (usage is None or name in self._record_of):
            return None
        id, parent = f"{name} line {line}" if name in self._record_of or not name else name, self.last
        answer = (name or id) if kind == "gemini" else ""
        self._record_of[name] = self.last = id
        self._before.setdefault(name, parent)
        self._context |= {one.tool_id for one in fresh if one.kind == "injected"}
        folder = next((match[1] for one in fresh if (match := _FOLDER.search(one.text))), "")
        calls = [(as_text(one.get("agentId")), as_text(one.get("id"))) for _, one in objects(message.get("toolCalls"))]
        about = stated(folder=folder.strip(), **{f"lane {agent}": id for agent, id in calls if agent})
        at, model = as_time(message.get("timestamp")), as_text(message.get("model")) if usage else ""
        return Record(line, kind, id, parent, at, tuple(fresh), answer, model, usage, about=about)

    def _replaced(self, messages: Sequence[Mapping[str, Any]], line: int) -> Sequence[Record]:
        """Return what a new history says: a compaction if it has a new summary, else the messages that are new."""
        pairs: list[tuple[Mapping[str, Any], list[TranscriptItem]]] = []
        items: list[TranscriptItem] = []
        for message in messages:
            pairs.append((message, list(self._items(message, line, len(items)))))
            items += pairs[-1][1]
        summaries = [(as_text(m.get("id")), one) for m, of_it in pairs for one in of_it if one.kind == "summary"]
        # A history without a new summary was only written again, as at each resume.
        if not all((message, one.kind, one.text) in self._seen for message, one in summaries):
            self.last, before = f"line {line}", self.last or ""
            self._context = {one.tool_id for one in items if one.kind == "injected"}
            for message, of_it in pairs:
                name = as_text(message.get("id"))
                self._record_of[name] = self._before[name] = self.last
                for one in of_it:
                    self._is_fresh(name, one)
            return [Record(line, "$set", self.last, items=tuple(items), boundary=Boundary(continues=before))]
        before_it = (id for one in reversed(messages) if (id := self._record_of.get(as_text(one.get("id")))))
        self.last = next(before_it, self.last)  # a history that ends earlier was taken back
        made: list[Record] = []
        if gone := frozenset(self._context.difference(as_text(one.get("id")) for one in messages)):
            # A rewind drops the memory files, which the next resume sends again.
            self._context, self._seen = self._context - gone, {key for key in self._seen if key[0] not in gone}
            parent, self.last = self.last, f"line {line}"
            made = [Record(line, "$set", self.last, parent, boundary=Boundary(clears=gone))]
        made += [record for message, of_it in pairs if (record := self._message(message, line, of_it))]
        return made or [Record(line, "$set", left_out="repeated history")]

    def _is_fresh(self, message: str, one: TranscriptItem) -> bool:
        # A call is written again once its result is there.
        is_tool = one.tool_id and one.kind != "injected"
        key = ("", one.kind, one.tool_id) if is_tool else (message, one.kind, one.text)
        fresh = key not in self._seen
        self._seen.add(key)
        return fresh

    def _items(self, message: Mapping[str, Any], line: int, first: int) -> Iterator[TranscriptItem]:
        """Yield a message's items, numbered from `first` on; the program's own have the message's id as a tool's."""
        speaker: ItemKind = "user" if message.get("type") == "user" else "assistant"
        place = {"line": line, "at": as_time(message.get("timestamp"))}
        for number, one in enumerate(self.parts(speaker, google_parts(message), place), first):
            kind, id = one.kind, one.tool_id
            if kind in ("user", "assistant") and _INJECTED.match(one.text):
                kind, id = "injected", as_text(message.get("id"))
            elif kind in ("user", "assistant") and one.text.startswith(_SUMMARY):
                kind = "summary"
            yield replace(one, kind=kind, part=number, tool_id=id)

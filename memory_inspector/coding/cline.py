"""Read the sessions of Cline's command line, `~/.cline/data/sessions/<id>/<id>.messages.json`. Pure, but for its files.

Read from files that 3.0.65 wrote, 2026-11-29. One JSON object with all messages in Anthropic's form, written anew each
time; `<id>.json` has title and folder. `<id>.compaction.json` has the history by which the last compaction replaced the
first messages; earlier compactions are not in the files. Definitions of tools are not in them either.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from memory_core.errors import FormatError
from memory_inspector.coding.plain_reader import PlainReader, stated
from memory_inspector.coding.record_file import BadLine, SourceOpener, whole_object
from memory_inspector.coding.transcript import (
    Boundary,
    ItemKind,
    Record,
    TranscriptItem,
    as_count,
    as_mapping,
    as_milliseconds,
    as_text,
    as_usage,
    item,
    objects,
)

MESSAGES = ".messages.json"
_WRAPPED = re.compile(r'\s*<user_input mode="\w+">(.*)</user_input>\s*', re.DOTALL)
_NAMES = "inputTokens cacheReadTokens cacheWriteTokens outputTokens"


class ClineFiles:
    """The files of a session as records: the head, the messages, and the last compaction where it happened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.at_end, self.size = False, 0
        ends = (".json", ".compaction.json")
        self._files = [path, *(path.with_name(path.name.removesuffix(MESSAGES) + end) for end in ends)]
        self._seen: list[tuple[int, int]] = []
        self._records: list[Mapping[str, Any] | BadLine] = []

    def starts_again(self) -> bool:
        """Return whether a file was written since it was read: then all of it was."""
        try:
            status = [self.path.stat(), *(path.stat() for path in self._files[1:] if path.exists())]
        except OSError as error:
            raise FormatError(f"{self.path.name} cannot be read: {error.strerror}.") from error
        seen, self._seen = self._seen, [(one.st_size, one.st_mtime_ns) for one in status]
        self.at_end = self.at_end and seen == self._seen
        return not self.at_end

    def new_records(
        self, wanted: Callable[[bytes], bool] | None = None, until: float = math.inf
    ) -> Iterator[tuple[int, Mapping[str, Any] | BadLine]]:
        """Yield all records, once for each time that the files were written."""
        if not self.at_end:
            self._records, self.at_end = self._read(), True
            yield from enumerate(self._records, 1)

    def record(self, line: int) -> Mapping[str, Any]:
        """Return a record again."""
        one = self._records[line - 1] if 0 < line <= len(self._records) else {}
        return {} if isinstance(one, BadLine) else one

    def _read(self) -> list[Mapping[str, Any] | BadLine]:
        read = {path: whole_object(path) if path.exists() else {} for path in self._files}
        self.size = self._seen[0][0] if self._seen else 0
        bad = [BadLine(1, f"({p.name}) {one.problem}") for p, one in read.items() if isinstance(one, BadLine)]
        session, about, compaction = ({} if isinstance(one, BadLine) else one for one in read.values())
        if not session:
            return [*bad]
        messages = [one for _, one in objects(session.get("messages"))]
        place = as_count(compaction.get("source_message_count"))
        compacted = [{"compaction": compaction}] if compaction else []
        head = {**{key: field for key, field in session.items() if key != "messages"}, "about": about}
        # The compaction stands behind the messages that it replaced.
        return [head, *messages[:place], *compacted, *messages[place:], *bad]


class ClineReader(PlainReader):
    """Reads the records of one session."""

    program = "Cline"
    unseen = "memory files, which are added to the system prompt"
    source: ClassVar[SourceOpener] = ClineFiles

    def __init__(self) -> None:
        super().__init__()
        self._ids: set[str] = set()

    @staticmethod
    def knows(record: Mapping[str, Any]) -> bool:
        """Return whether a record is the head."""
        return "about" in record and {"agent", "sessionId"} <= {*record}

    @staticmethod
    def subagents(session: Path, named: Sequence[str]) -> Mapping[str, Path]:
        """Return the files of subagents in the session's folder."""
        paths = sorted(session.parent.glob(f"agent_*{MESSAGES}"))
        return {path.name.removesuffix(MESSAGES): path for path in paths if path != session}

    def read(self, record: Mapping[str, Any], line: int) -> Sequence[Record]:
        """Return the values of the head, a message or a compaction."""
        if "compaction" in record:
            return [self._compaction(as_mapping(record["compaction"]), line)]
        if "role" not in record:
            about, prompt = as_mapping(record.get("about")), as_text(record.get("system_prompt"))
            facts = stated(
                folder=as_text(about.get("cwd")),
                title=as_text(as_mapping(about.get("metadata")).get("title")),
                version=as_text(as_mapping(record.get("origin")).get("version")),
            )
            if not prompt:
                return [Record(line, "head", left_out="description of the session", about=facts)]
            self.last = f"line {line}"
            always = item("injected", prompt, line=line, in_each_call=True)
            return [Record(line, "head", self.last, items=(always,), about=facts)]
        items = tuple(self._items(record, line, 0))
        id, parent, at = as_text(record.get("id")) or f"line {line}", self.last, as_milliseconds(record.get("ts"))
        metrics = as_mapping(record.get("metrics"))
        usage = as_usage(metrics, _NAMES, whole=True, dollars=metrics.get("cost"))
        model = as_text(as_mapping(record.get("modelInfo")).get("id")) if usage else ""
        left_out = "" if items or usage else "message without text"
        self._ids.add(id)
        self.last = parent if left_out else id
        return [Record(line, as_text(record["role"]), id, parent, at, items, "", model, usage, left_out=left_out)]

    def _compaction(self, compaction: Mapping[str, Any], line: int) -> Record:
        id, before = f"line {line}", self.last or ""
        staying: list[str] = []
        items: list[TranscriptItem] = []
        tokens = at = None
        for _, message in objects(compaction.get("messages")):
            about = as_mapping(message.get("metadata"))
            # A message with a known id stays as it was; the others are new.
            if (name := as_text(message.get("id"))) in self._ids:
                staying.append(name)
                continue
            summary = about.get("kind") == "compaction_summary"
            tokens = as_count(about.get("tokensBefore")) or tokens
            at = as_milliseconds(about.get("generatedAt")) or at
            new = self._items(message, line, len(items))
            items += [replace(one, kind="summary") if summary and one.kind == "user" else one for one in new]
        self.last = id
        boundary = Boundary("", tokens, before, keeps=(*staying,))
        return Record(line, "compaction", id, None, at, tuple(items), boundary=boundary)

    def _items(self, message: Mapping[str, Any], line: int, first: int) -> Iterator[TranscriptItem]:
        place = {"line": line, "at": as_milliseconds(message.get("ts"))}
        speaker: ItemKind = "assistant" if message.get("role") == "assistant" else "user"
        for one in self.parts(speaker, message.get("content"), place, first):
            # The program wraps what a person types.
            unwrapped = _WRAPPED.fullmatch(one.text) if one.kind == "user" else None
            yield replace(one, text=unwrapped[1], characters=len(unwrapped[1])) if unwrapped else one

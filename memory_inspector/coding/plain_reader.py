"""Share what readers of several programs need: parts of messages in the forms of two APIs, tools by their id. Pure.

Anthropic's parts have a `type` (Cline, and pi with names of its own); Google's have a field for each kind (Gemini CLI,
Qwen Code). Results name only the id of their call, so a reader keeps the name and the file of each.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from memory_inspector.coding.record_file import RecordFile, SourceOpener
from memory_inspector.coding.transcript import ItemKind, Record, TranscriptItem, as_mapping, as_text, item, objects

_PATHS = ("file_path", "filePath", "path", "absolute_path", "notebook_path")
"""Arguments that name the file a tool works on."""


class PlainReader:
    """Base of readers; one instance a file."""

    program = ""
    unseen: ClassVar[str] = ""
    source: ClassVar[SourceOpener] = RecordFile
    reasons: ClassVar[Mapping[str, str]] = {}
    """Reason why records of a type are not shown."""
    listed: ClassVar[re.Pattern[bytes]] = re.compile(rb"\S")
    """Pattern of the lines that a list of sessions needs."""

    def __init__(self) -> None:
        self.last: str | None = None
        """Id of the record before, where records do not name it."""
        self._tools: dict[str, tuple[str, str]] = {}  # by id: name, path

    @classmethod
    def knows(cls, record: Mapping[str, Any]) -> bool:
        """Return whether something can be read of a record."""
        return any(one.items or one.usage or one.boundary for one in cls().read(record, 1))

    @staticmethod
    def sessions(path: Path) -> Iterable[tuple[Path, int, float]]:
        """Return the one session of a file, with its bytes and the time of the last write."""
        status = path.stat()
        return [(path, status.st_size, status.st_mtime)]

    @staticmethod
    def subagents(session: Path, named: Sequence[str]) -> Mapping[str, Path]:
        """Return none: there are none, or their files are found in another way."""
        return {}

    def read(self, record: Mapping[str, Any], line: int) -> Sequence[Record]:
        """Return the values of one record; see `RecordReader`."""
        raise NotImplementedError

    @classmethod
    def is_for_list(cls, line: bytes) -> bool:
        """Return whether a line is a prompt, an answer, a compaction or a title."""
        return cls.listed.search(line) is not None

    def reason(self, kind: str) -> str:
        """Return why a record of a type is not shown."""
        return self.reasons.get(kind, f"unknown type {kind!r}")

    def called(self, name: str, tool_id: str, arguments: Any, place: Mapping[str, Any]) -> TranscriptItem:
        """Return the call of a tool."""
        fields = as_mapping(arguments)
        path = next((path for key in _PATHS if (path := as_text(fields.get(key)))), "")
        self._tools[tool_id] = name, path
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        return item("tool_call", text, tool=name, tool_id=tool_id, path=path, **place)

    def returned(self, tool_id: str, content: Any, place: Mapping[str, Any]) -> TranscriptItem:
        """Return what a tool answered."""
        name, path = self._tools.get(tool_id, ("", ""))
        text, images = content_of(content)
        return item("tool_result", text, tool=name, tool_id=tool_id, path=path, images=images, **place)

    def parts(
        self, speaker: ItemKind, content: Any, place: Mapping[str, Any], first: int = 0
    ) -> Iterator[TranscriptItem]:
        """Yield the items of a message's content, which is a text or a list of parts, numbered from `first`."""
        for number, part in objects([{"text": content}] if isinstance(content, str) else content):
            at = {**place, "part": first + number}
            call, answer = as_mapping(part.get("functionCall")), as_mapping(part.get("functionResponse"))
            match part.get("type"):
                # Google's parts have no type, but a field for each kind.
                case None if call:
                    yield self.called(as_text(call.get("name")), as_text(call.get("id")), call.get("args"), at)
                case None if answer:
                    response = as_mapping(answer.get("response"))
                    output = next((response[key] for key in ("output", "error") if key in response), response)
                    yield self.returned(as_text(answer.get("id")), output, at)
                case None | "text" if isinstance(part.get("text"), str):
                    if part["text"].strip():
                        yield item("thinking" if part.get("thought") is True else speaker, part["text"], **at)
                case "thinking":
                    if text := as_text(part.get("thinking")):
                        yield item("thinking", text, **at)
                case "toolCall" | "tool_use":
                    arguments = part.get("arguments", part.get("input"))
                    yield self.called(as_text(part.get("name")), as_text(part.get("id")), arguments, at)
                case "tool_result":
                    yield self.returned(as_text(part.get("tool_use_id")), part.get("content"), at)
                case "image" | "document" as kind:
                    yield item(speaker, f"({kind})", images=1, **at)
                case None if "inlineData" in part or "fileData" in part:
                    yield item(speaker, "(file)", images=1, **at)
                case other:
                    yield item("injected", f"(part of an unknown type: {other or ', '.join(part)[:60]})", **at)


def content_of(content: Any) -> tuple[str, int]:
    """Return the text of a tool's result, and its number of images."""
    if isinstance(content, str):
        return content, 0
    parts = [part for _, part in objects(content)]
    if not parts or not all("type" in part for part in parts):  # a result in the tool's own form
        return "" if content is None else json.dumps(content, ensure_ascii=False), 0
    texts = [as_text(part.get("text")) or f"({part.get('type')})" for part in parts]
    return "\n".join(texts), sum(part.get("type") == "image" for part in parts)


def google_parts(message: Mapping[str, Any]) -> list[Any]:
    """Return the thoughts, the content and the calls of a message of Gemini CLI as parts of one form."""
    thoughts = [one for _, one in objects(message.get("thoughts"))]
    texts = ["\n".join(filter(None, map(as_text, (one.get("subject"), one.get("description"))))) for one in thoughts]
    content = message.get("content")
    contents = [{"text": content}] if isinstance(content, str) else [part for _, part in objects(content)]
    calls = [{"functionCall": one} for _, one in objects(message.get("toolCalls"))]
    return [*({"text": text, "thought": True} for text in texts), *contents, *calls]


def stated(**about: str) -> dict[str, str]:
    """Return the facts about a session that are not empty."""
    return {key: text for key, text in about.items() if text}

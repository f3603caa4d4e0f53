"""Read the records of Codex, `$CODEX_HOME/sessions/<year>/<month>/<day>/rollout-*.jsonl` (2025 to 2026). Pure.

Read from files that 0.171.0 wrote, 2026-11-29; 0.98 and others before are read as well. Records have no ids: each
follows the line before. A `response_item` is what the model reads or writes, `turn_context` names the model,
`event_msg` repeats items for the screen, `token_usage_record` has the tokens of each call (before it, `token_count`),
and `compacted` replaces the history by `replacement_history`; where it has none, by what the user said last and a
summary.

A thread goes on in several files, which begin with a `session_meta`. A fork names the record of its origin before which
it goes on, and copies nothing; a rewind goes on in a second file of the same thread, named
`rollout-<time>-<thread>_<segment>`; a subagent is a thread that names its parent. Archived and compressed files count.
"""

import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from memory_core.errors import FormatError
from memory_inspector.coding.plain_reader import PlainReader
from memory_inspector.coding.record_file import RecordFile
from memory_inspector.coding.transcript import (
    ENCRYPTED,
    Boundary,
    CallUsage,
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

KEPT_BYTES = 80_000
"""Bytes of user's messages that a compaction without `replacement_history` keeps: 20,000 tokens of 4 bytes."""

_INJECTED = re.compile(
    r"\s*(?:<(?:environment_context|user_instructions|permissions instructions|turn_aborted|skill|INSTRUCTIONS|"
    r"user_shell_command|subagent_notification|collaboration_mode|model_switch)\b|# AGENTS\.md instructions)"
)
"""Beginnings of texts that the program writes in the user's place."""

_SUMMARY = re.compile(r"\s*(?:<context_summary|Another language model started to solve this problem)")
"""Beginnings of the summary in a replaced history."""

_NOTIFIED = re.compile(r'\s*<subagent_notification>\s*\{"agent_path":\s*"([^"]+)"')
"""Beginning of what a subagent gives back, with its id."""

_AGENT = re.compile(r'^\{"agent_id":\s*"([^"]+)"')
"""Beginning of the result of the call that starts a subagent."""

_EVENTS = reasons_by_name(
    {
        "note of the program": "task_started task_complete turn_started turn_complete turn_aborted thread_rolled_back "
        "thread_name_updated thread_settings_applied thread_goal_updated context_compacted entered_review_mode "
        "exited_review_mode undo_completed error warning",
        "copy of an item, for the screen": "user_message injected_message agent_message agent_reasoning "
        "agent_reasoning_raw_content item_completed view_image_tool_call dynamic_tool_call_request "
        "dynamic_tool_call_response sub_agent_activity guardian_assessment",
    }
)
"""Reason why events are not shown; that of `…_begin` and `…_end` is that of a copy."""

_OTHERS = reasons_by_name(
    {
        "state of the program": "world_state retained_context security_risk_score realtime_item "
        "inter_agent_communication_metadata",
    }
)
"""Reason why records of other types are not shown."""

_ITEMS = reasons_by_name(
    {
        "message without text": "message agent_message reasoning",
        "copies of files, for undo": "ghost_snapshot",
        "definitions of tools": "additional_tools",
        "note of the program": "compaction_trigger configuration_update",
    }
)
"""Reason why items are not shown."""

_NAMES = "input_tokens cached_input_tokens cache_write_input_tokens output_tokens"

_TURNS = frozenset({"task_started", "turn_started", "turn_aborted", "user_message"})
"""Events between two answers. A stopped answer has no count of tokens, with which it would end."""


class CodexReader(PlainReader):
    """Reads the records of one file."""

    program = "Codex"
    listed = re.compile(
        rb'"token_count"|"token_usage_record"|"compacted"|"session_meta"|"turn_context"|"role": ?"user"'
        rb'|"thread_name_updated"'
    )

    def __init__(self) -> None:
        super().__init__()
        self._model = ""
        self._answer = 0  # number of the answer that is being written
        self._begun = False  # an item of it was written
        self._total: object = None
        self._counted: CallUsage | None = None
        self._described = False
        self._base = ""  # instructions that are sent with each call
        self._agents: dict[str, str] = {}  # calls that started subagents, by their ids and paths
        self._file = 0
        # Of the user's messages: the record before it, its own, and its bytes.
        self._prompts: list[tuple[str | None, str, int]] = []
        self._compaction: str | None = None

    def go_on(self, file: int) -> "CodexReader":
        """Return a reader of the file at a place of a lane, which goes on from what was read so far."""
        after = copy(self)
        after._prompts, after._file, after._begun = list(self._prompts), file, False
        return after

    def read(self, record: Mapping[str, Any], line: int) -> Sequence[Record]:
        """Return the values of one record. Records of unknown types are left out under their type."""
        kind, payload = as_text(record.get("type")), as_mapping(record.get("payload"))
        at = as_time(record.get("timestamp"))
        name = as_text(payload.get("type"))
        # Several files of a lane have the same lines.
        prefix = f"{self._file}: " if self._file else ""
        id, before = f"{prefix}line {line}", self.last
        about: dict[str, str] = {}
        items: list[TranscriptItem] = []
        left_out, answer = "", ""
        boundary = usage = None
        if self._begun and (kind in ("turn_context", "compacted") or name in _TURNS):
            self._answer, self._begun = self._answer + 1, False
        match kind:
            # The file of a fork also has the description of its origin.
            case "session_meta" if not self._described:
                self._described = True
                about = {
                    "folder": as_text(payload.get("cwd")),
                    "version": as_text(payload.get("cli_version")),
                    "branch": as_text(as_mapping(payload.get("git")).get("branch")),
                }
                instructions = as_text(payload.get("instructions"))
                base = "" if instructions else as_text(as_mapping(payload.get("base_instructions")).get("text"))
                self._base, text = base, instructions or base
                place = {"line": line, "file": self._file, "at": at}
                items = [item("injected", text, in_each_call=bool(base), **place)] if text else []
                left_out = "" if items else "description of the session"
            case "session_meta":
                left_out = "description of the session"
            case "turn_context":
                self._model = as_text(payload.get("model")) or self._model
                about = {"folder": as_text(payload.get("cwd"))}
                left_out = "settings of a turn"
            case "response_item":
                items = list(self._items(payload, line, 0, at))
                left_out = "" if items else _ITEMS.get(name, f"unknown item {name!r}")
                if not items and self._base and _content(payload.get("content"))[0] == self._base:
                    left_out = "copy of the base instructions"
                about = self._spawned(payload)
                if items and items[0].kind in ("assistant", "thinking", "tool_call"):
                    answer, self._begun = f"{prefix}answer {self._answer}", True
                if items and items[0].kind == "user":
                    self._prompts.append((before, id, len(items[0].text.encode())))
            case "inter_agent_communication":
                text = as_text(payload.get("content")) or (ENCRYPTED if payload.get("encrypted_content") else "")
                items = [item("injected", text, line=line, file=self._file, at=at)] if text else []
                left_out = "" if items else "message without text"
            case "token_usage_record":
                usage = self._unless_repeated(as_usage(payload.get("usage"), _NAMES, whole=True))
                left_out = "" if usage else "repeated count of tokens"
            case "event_msg" if name == "token_count":
                usage = self._usage(as_mapping(payload.get("info")))
                limit = as_count(as_mapping(payload.get("info")).get("model_context_window"))
                about = {"limit": str(limit)} if limit else {}
                left_out = "" if usage else "repeated count of tokens"
            case "event_msg":
                copy = "copy of an item, for the screen" if name.endswith(("_begin", "_end")) else ""
                left_out = _EVENTS.get(name) or copy or f"unknown event {name!r}"
                about = {"title": as_text(payload.get("thread_name")), **self._spawned(as_mapping(payload.get("item")))}
                if name == "thread_rolled_back":
                    before = self._rolled_back(as_count(payload.get("num_turns")))
            case "compacted":
                history = isinstance(payload.get("replacement_history"), list)
                boundary = Boundary(continues=before or "", keeps=() if history else self._preserved())
                items = list(self._compacted(payload, line, at))
                # Nothing is taken back beyond a compaction.
                self._prompts = [] if history else [(id, prompt, size) for _, prompt, size in self._prompts]
                self._compaction = id
            case _:
                left_out = _OTHERS.get(kind, f"unknown type {kind!r}")
        if usage is not None:
            # An answer ends with the count of its tokens: what follows belongs to the next.
            answer = f"{prefix}answer {self._answer}"
            self._answer, self._begun = self._answer + 1, False
        # Each record follows the last one that has content.
        self.last = id if items or usage is not None or boundary is not None else before
        return [
            Record(
                line,
                f"{kind} {name}".strip(),
                id=id,
                parent=before,
                at=at,
                items=tuple(items),
                answer=answer,
                model=self._model if usage is not None else "",
                usage=usage,
                boundary=boundary,
                left_out=left_out,
                file=self._file,
                about={key: text for key, text in about.items() if text},
            )
        ]

    def _rolled_back(self, turns: int) -> str | None:
        """Return the record that what follows is written after, once the last turns of the user were taken back."""
        if not turns:
            return self.last
        before = self._prompts[-turns][0] if turns <= len(self._prompts) else self._compaction
        del self._prompts[-turns:]
        return before

    def _preserved(self) -> tuple[str, ...]:
        """Return the records of the user's last messages, as many as a compaction keeps."""
        sizes = accumulate(size for *_, size in reversed(self._prompts))
        fitting = sum(size <= KEPT_BYTES for size in sizes)
        return tuple(id for _, id, _ in self._prompts[len(self._prompts) - fitting :])

    def _items(self, payload: Mapping[str, Any], line: int, part: int, at: float | None) -> Iterator[TranscriptItem]:
        place = {"line": line, "part": part, "file": self._file, "at": at}
        tool_id = as_text(payload.get("call_id")) or as_text(payload.get("id"))
        match payload.get("type"):
            case "message" | "agent_message":
                text, images = _content(payload.get("content"))
                notified = _NOTIFIED.match(text) if self._agents else None
                by = self._agents.get(notified[1] if notified else as_text(payload.get("author")), "")
                if (text or images) and text != self._base:
                    yield item(_speaker(payload, text), text, images=images, tool_id=by, **place)
            case "reasoning":
                texts = [_content(payload.get(key))[0] for key in ("summary", "content")]
                text = "\n".join(filter(None, texts)) or (ENCRYPTED if payload.get("encrypted_content") else "")
                if text:
                    yield item("thinking", text, **place)
            case (
                "function_call"
                | "custom_tool_call"
                | "local_shell_call"
                | "web_search_call"
                | "tool_search_call"
                | "image_generation_call" as kind
            ):
                name = as_text(payload.get("name")) or kind.removesuffix("_call")
                fields = ("arguments", "input", "action", "revised_prompt")
                text = _text(next((value for field in fields if (value := payload.get(field))), ""))
                path = _path(text)
                self._tools[tool_id] = name, path
                yield item("tool_call", text, tool=name, tool_id=tool_id, path=path, **place)
            case "function_call_output" | "custom_tool_call_output" | "tool_search_output":
                name, path = self._tools.get(tool_id, ("", ""))
                text, images = _output(payload.get("output", payload.get("tools")))
                yield item("tool_result", text, tool=name, tool_id=tool_id, path=path, images=images, **place)
            case "compaction" | "compaction_summary" | "context_compaction":
                yield item("summary", as_text(payload.get("summary")) or ENCRYPTED, **place)

    def _compacted(self, payload: Mapping[str, Any], line: int, at: float | None) -> Iterator[TranscriptItem]:
        """Yield what a compaction left: the items of the new history, the summary as such."""
        message = as_text(payload.get("message"))
        history = payload.get("replacement_history")
        summarised = False
        for part, entry in enumerate(history if isinstance(history, list) else ()):
            for one in self._items(as_mapping(entry), line, part, at):
                repeats = bool(message) and one.text.endswith(message)
                is_summary = one.kind == "summary" or repeats or _SUMMARY.match(one.text)
                summarised = summarised or bool(is_summary)
                yield replace(one, kind="summary") if is_summary else one
        if message and not summarised:
            part = len(history) if isinstance(history, list) else 0
            yield item("summary", message, line=line, part=part, file=self._file, at=at)

    def _usage(self, info: Mapping[str, Any]) -> CallUsage | None:
        """Return the tokens of the last call; None if they were reported before, or estimated after a compaction."""
        total, usage = info.get("total_token_usage"), as_usage(info.get("last_token_usage"), _NAMES, whole=True)
        # The program repeats the last count whenever its limits change.
        if usage is None or (total and total == self._total):
            return None
        self._total = total
        return self._unless_repeated(usage)

    def _unless_repeated(self, usage: CallUsage | None) -> CallUsage | None:
        """Return a count of tokens; None if it is the last one again, with nothing answered since."""
        again = usage and self._counted and usage.prompt == self._counted.prompt and not self._begun
        self._counted = usage or self._counted
        return None if again else usage

    def _spawned(self, payload: Mapping[str, Any]) -> dict[str, str]:
        """Return the calls that started subagents by `lane ID`: from events, or from the result that names the id."""
        call = as_text(payload.get("call_id")) or as_text(payload.get("id"))
        several = payload.get("receiver_thread_ids") if payload.get("tool") == "spawn_agent" else None
        ids = [id for id in several if isinstance(id, str)] if isinstance(several, list) else []
        if payload.get("kind") == "started":
            ids += [as_text(payload.get("agent_thread_id"))]
            self._agents[as_text(payload.get("agent_path"))] = call
        if self._tools.get(call, ("", ""))[0] == "spawn_agent":
            ids += _AGENT.findall(as_text(payload.get("output")))
        self._agents.update(dict.fromkeys(ids, call))
        self._agents.pop("", None)
        return {f"lane {id}": call for id in ids if id}


def _speaker(payload: Mapping[str, Any], text: str) -> Any:
    if payload.get("role") == "assistant":
        return "assistant"
    if payload.get("role") != "user" or _INJECTED.match(text):
        return "injected"
    return "summary" if _SUMMARY.match(text) else "user"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _content(value: Any) -> tuple[str, int]:
    parts = [as_mapping(part) for part in value] if isinstance(value, list) else []
    texts = [as_text(part.get("text")) for part in parts]
    text = value if isinstance(value, str) else "\n".join(filter(None, texts))
    return text, sum(part.get("type") == "input_image" for part in parts)


def _output(value: Any) -> tuple[str, int]:
    """Return the text of a tool's output: a text, a list of parts or tools, or JSON with the text inside."""
    if isinstance(value, dict):
        return _output(value.get("content"))
    if isinstance(value, str) and value.startswith('{"output":'):
        try:
            return as_text(as_mapping(from_json(value)).get("output")), 0
        except ValueError:
            return value, 0
    text, images = _content(value)
    return text or (_text(value) if value and not images else ""), images


_PATH = re.compile(r'"(?:path|file_path|file)": ?"([^"\\]{1,400})"|\*\*\* (?:Update|Add|Delete) File: ([^\n\\]{1,400})')


def _path(arguments: str) -> str:
    match = _PATH.search(arguments)
    return (match[1] or match[2]).strip() if match else ""


_NAME = re.compile(r"(rollout-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-([^_]+)(?:_(.+))?|.+?)\.jsonl(?:\.zst)?")

_ROLLOUT = re.compile(r"rollout-.*\.jsonl")
_FOLDERS = "sessions", "archived_sessions"

SETTLED_NS = 2_000_000_000
"""Nanoseconds after its last change for which a folder is listed anew."""


@dataclass(frozen=True, slots=True)
class Head:
    """The name and the first record of a file: its place among the others."""

    path: Path
    thread: str
    """Id of its thread; of a file with another name than Codex gives, its path."""
    id: str
    """Id of its segment; the first segment has that of the thread."""
    described: str = ""
    """Id of the thread as its first record has it."""
    base: str = ""
    """Id of the file that it goes on from; empty if it begins by itself."""
    until: int = 0
    """Number of the first record of that file that it does not inherit."""
    parent: str = ""
    """Thread that started it, of a subagent."""


def head_of(path: Path) -> Head:
    """Return the place of a file, by its name alone where its first record cannot be read."""
    try:
        return _read_head(path)
    except FormatError:
        return _head(path, {})


@lru_cache(100_000)  # a first record does not change
def _read_head(path: Path) -> Head:
    first = RecordFile(path).first()
    if not first:
        raise FormatError("The first record is not written yet.")
    return _head(path, as_mapping(first.get("payload")) if first.get("type") == "session_meta" else {})


def _head(path: Path, meta: object) -> Head:
    about = as_mapping(meta)
    name = _NAME.fullmatch(path.name)
    thread = (name and name[2]) or str(path.with_name(name[1] if name else path.name))
    spawned = as_mapping(as_mapping(as_mapping(about.get("source")).get("subagent")).get("thread_spawn"))
    # Older forks, and subagents that are given what was said so far, have a copy instead.
    base = as_mapping(about.get("history_base"))
    id, until = as_text(base.get("thread_id")), as_count(base.get("end_ordinal_exclusive"))
    if not id:
        id, until = as_text(about.get("forked_from_id")), as_count(about.get("forked_from_ordinal_exclusive"))
    return Head(
        path,
        thread,
        (name and name[3]) or thread,
        as_text(about.get("id")),
        id if until else "",
        until,
        as_text(about.get("parent_thread_id")) or as_text(spawned.get("parent_thread_id")),
    )


@dataclass(frozen=True, slots=True)
class ThreadFile:
    """A file that a lane is read from, or its beginning."""

    path: Path
    after: int | None = None
    """Place of the part that it goes on from; None for one that begins by itself."""
    until: int = 0
    """Number of the first record of that part that it does not go on from."""
    inherited: bool = False
    """True if only the records that another part goes on from are read."""


class Rollouts:
    """Files of Codex, by the ids of their threads and segments."""

    def __init__(self, heads: Iterable[Head]) -> None:
        self.by_id: dict[str, Head] = {}
        threads: dict[str, list[Head]] = {}
        # While a file is compressed or archived there are two of it.
        for head in sorted(heads, key=lambda head: (head.path.suffix, "archived_sessions" in head.path.parts)):
            if self.by_id.setdefault(head.id, head) is head:
                threads.setdefault(head.thread, []).append(head)
        self._threads = {thread: sorted(heads, key=lambda head: head.path.name) for thread, heads in threads.items()}
        for head in list(self.by_id.values()):
            if head.described:
                self.by_id.setdefault(head.described, head)

    def segments(self, head: Head) -> list[Head]:
        """Return the files of a file's thread, the earliest first."""
        return self._threads.get(head.thread, [head])

    def session(self, head: Head) -> Head:
        """Return the first file of the session that a file belongs to; that of a subagent is its parent's."""
        # A subagent may have started others.
        way = [self.segments(head)[0]]
        while parent := self.by_id.get(way[-1].parent):
            above = self.segments(parent)[0]
            if above in way:  # two files may name each other
                return way[0]
            way.append(above)
        return way[-1]

    def subagents(self, head: Head) -> list[Head]:
        """Return the first file of each subagent of a file's session, however deep."""
        first = self.segments(head)[0]
        threads = (heads[0] for heads in self._threads.values())
        return [one for one in threads if one.thread != head.thread and self.session(one) is first]

    def parts(self, head: Head) -> tuple[tuple[ThreadFile, ...], list[str]]:
        """Return the files to read for a file's thread, each after what it goes on from, and ids that are missing."""
        places: dict[str, int] = {}
        parts: list[ThreadFile] = []
        missing: list[str] = []
        for segment in self.segments(head):
            way = [segment]
            # Two files may name each other.
            while way[-1].id not in places and (base := self.by_id.get(way[-1].base)) and base not in way:
                way.append(base)
            for one in reversed(way):
                if one.id in places:
                    continue
                if one.base and one.base not in self.by_id:
                    missing.append(one.base)
                base = self.by_id.get(one.base)
                after = places.get(base.id) if base else None
                places[one.id] = len(parts)
                parts.append(ThreadFile(one.path, after, one.until, one.thread != head.thread))
        return tuple(parts), missing


def rollouts_near(path: Path) -> Rollouts:
    """Return the files in the home of a file, archived ones included, and the file itself."""
    # Codex has a folder for each day, `<year>/<month>/<day>`, and archives without them.
    above = path.absolute().parents
    dated = len(above) > 3 and all(folder.name.isdigit() for folder in above[:3])
    root = above[3] if dated else above[0]
    roots = [root.with_name(name) for name in _FOLDERS] if root.name in _FOLDERS else [root]
    folders = [str(folder) for folder in roots]
    below = folders
    for _ in ("year", "month", "day"):
        below = [os.path.join(folder, name) for folder in below for name in _names_in(folder) if name.isdigit()]
        folders += below
    names = (os.path.join(folder, name) for folder in folders for name in _names_in(folder) if _ROLLOUT.match(name))
    return Rollouts(head_of(file) for file in dict.fromkeys([path, *map(Path, names)]))


def _names_in(folder: str) -> tuple[str, ...]:
    """Return the names in a folder; none if it is none, or may not be read."""
    try:
        changed = os.stat(folder).st_mtime_ns
        # A folder that was changed just now may change once more within the same tick of the clock.
        settled = time.time_ns() - changed > SETTLED_NS
        return _settled_names(folder, changed) if settled else tuple(os.listdir(folder))
    except OSError:
        return ()


@lru_cache(4_096)
def _settled_names(folder: str, changed: int) -> tuple[str, ...]:
    return tuple(os.listdir(folder))

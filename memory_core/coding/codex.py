"""Read the records of Codex, `$CODEX_HOME/sessions/<year>/<month>/<day>/rollout-*.jsonl` (2025 to 2026). Pure.

Records have no ids: each follows the line before. A `response_item` is what the model reads or writes, `turn_context`
names the model, `event_msg` repeats items for the screen and has the tokens of each call (`token_count`), and
`compacted` replaces the history by `replacement_history`, or by a summary where it has none.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memory_core.coding.transcript import Boundary, Item, Record, Usage, as_count, as_mapping, as_text, as_time, item

ENCRYPTED = "(encrypted: it cannot be read)"

_INJECTED = re.compile(
    r"\s*(?:<(?:environment_context|user_instructions|permissions instructions|turn_aborted|skill|INSTRUCTIONS|"
    r"user_shell_command|subagent_notification|collaboration_mode|model_switch)\b|# AGENTS\.md instructions)"
)
"""Beginnings of texts that the program writes in the user's place."""

_SUMMARY = re.compile(r"\s*(?:<context_summary|Another language model started to solve this problem)")
"""Beginnings of the summary in a replaced history."""

_COUNTS = re.compile(rb'"token_count"|"compacted"|"session_meta"|"turn_context"|"role": ?"user"')


class CodexReader:
    """Reads the records of one file."""

    program = "Codex"

    def __init__(self) -> None:
        self._model = ""
        self._answer = 0  # number of the answer that is being written
        self._last: str | None = None
        self._tools: dict[str, tuple[str, str]] = {}
        self._total = -1

    @staticmethod
    def counts(line: bytes) -> bool:
        """Return whether a line has the session's folder, a prompt, tokens or a compaction."""
        return _COUNTS.search(line) is not None

    def read(self, record: Mapping[str, Any], line: int) -> Sequence[Record]:
        """Return the values of one record. Records of unknown types are left out under their type."""
        kind, payload = as_text(record.get("type")), as_mapping(record.get("payload"))
        at = as_time(record.get("timestamp"))
        name = as_text(payload.get("type"))
        about: dict[str, str] = {}
        items: list[Item] = []
        left_out, answer = "", ""
        boundary = usage = None
        match kind:
            case "session_meta":
                git = as_mapping(payload.get("git"))
                about = {
                    "folder": as_text(payload.get("cwd")),
                    "version": as_text(payload.get("cli_version")),
                    "branch": as_text(git.get("branch")),
                }
                instructions = as_text(payload.get("instructions")) or as_text(
                    as_mapping(payload.get("base_instructions")).get("text")
                )
                items = [item("injected", instructions, line=line, at=at)] if instructions else []
                left_out = "" if items else "description of the session"
            case "turn_context":
                self._model = as_text(payload.get("model")) or self._model
                about = {"folder": as_text(payload.get("cwd"))}
                left_out = "settings of a turn"
            case "response_item":
                items = list(self._items(payload, line, 0, at))
                left_out = "" if items else _unknown("item", name, known=("ghost_snapshot",))
                if items and items[0].kind in ("assistant", "thinking", "tool_call"):
                    answer = f"answer {self._answer}"
            case "event_msg" if name == "token_count":
                # An answer ends with the count of its tokens: what follows belongs to the next.
                usage = self._usage(as_mapping(payload.get("info")))
                limit = as_count(as_mapping(payload.get("info")).get("model_context_window"))
                about = {"limit": str(limit)} if limit else {}
                left_out = "" if usage else "repeated count of tokens"
                if usage is not None:
                    answer, self._answer = f"answer {self._answer}", self._answer + 1
            case "event_msg":
                left_out = "copy of an item, for the screen"
            case "compacted":
                boundary = Boundary("", None)
                items = list(self._compacted(payload, line, at))
            case _:
                left_out = _unknown("type", kind)
        read = Record(
            line,
            f"{kind} {name}".strip(),
            f"line {line}",
            self._last,
            at,
            tuple(items),
            answer,
            self._model if usage is not None else "",
            usage,
            boundary,
            False,
            left_out,
            {key: text for key, text in about.items() if text},
        )
        # Each record follows the last one that has content.
        if items or usage is not None or boundary is not None:
            self._last = f"line {line}"
        return [read]

    def _items(self, payload: Mapping[str, Any], line: int, part: int, at: float | None) -> Iterator[Item]:
        place = {"line": line, "part": part, "at": at}
        tool_id = as_text(payload.get("call_id")) or as_text(payload.get("id"))
        match payload.get("type"):
            case "message":
                text, images = _content(payload.get("content"))
                if text or images:
                    yield item(_speaker(payload, text), text, images=images, **place)
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
                | "tool_search_call" as kind
            ):
                name = as_text(payload.get("name")) or kind.removesuffix("_call")
                arguments = payload.get("arguments", payload.get("input", payload.get("action")))
                text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
                path = _path(text)
                self._tools[tool_id] = name, path
                yield item("tool_call", text, tool=name, tool_id=tool_id, path=path, **place)
            case "function_call_output" | "custom_tool_call_output" | "tool_search_output":
                name, path = self._tools.get(tool_id, ("", ""))
                text, images = _output(payload.get("output"))
                yield item("tool_result", text, tool=name, tool_id=tool_id, path=path, images=images, **place)
            case "compaction" | "compaction_summary" | "context_compaction":
                yield item("summary", as_text(payload.get("summary")) or ENCRYPTED, **place)

    def _compacted(self, payload: Mapping[str, Any], line: int, at: float | None) -> Iterator[Item]:
        """Yield what a compaction left: the items of the new history, the summary as such."""
        message = as_text(payload.get("message"))
        history = payload.get("replacement_history")
        summarised = False
        for part, entry in enumerate(history if isinstance(history, list) else ()):
            for one in self._items(as_mapping(entry), line, part, at):
                is_summary = one.kind == "summary" or _SUMMARY.match(one.text) or (message and message in one.text)
                summarised = summarised or bool(is_summary)
                yield item("summary", one.text, line=line, part=part, at=at) if is_summary else one
        if message and not summarised:
            yield item("summary", message, line=line, part=len(history) if isinstance(history, list) else 0, at=at)

    def _usage(self, info: Mapping[str, Any]) -> Usage | None:
        """Return the tokens of the last call; None if they were reported before."""
        total = as_count(as_mapping(info.get("total_token_usage")).get("total_tokens"))
        last = as_mapping(info.get("last_token_usage"))
        prompt = as_count(last.get("input_tokens"))
        # The program repeats the last count whenever its limits change.
        if total == self._total or not prompt:
            return None
        self._total = total
        cached = min(as_count(last.get("cached_input_tokens")), prompt)
        return Usage(prompt - cached, cached, 0, as_count(last.get("output_tokens")))


def _speaker(payload: Mapping[str, Any], text: str) -> Any:
    if payload.get("role") == "assistant":
        return "assistant"
    if payload.get("role") != "user" or _INJECTED.match(text):
        return "injected"
    return "summary" if _SUMMARY.match(text) else "user"


def _content(value: Any) -> tuple[str, int]:
    parts = [as_mapping(part) for part in value] if isinstance(value, list) else []
    texts = [as_text(part.get("text")) for part in parts]
    text = value if isinstance(value, str) else "\n".join(filter(None, texts))
    return text, sum(part.get("type") == "input_image" for part in parts)


def _output(value: Any) -> tuple[str, int]:
    """Return the text of a tool's output: a text, a list of parts, or JSON with the text inside."""
    if isinstance(value, dict):
        return _output(value.get("content"))
    if isinstance(value, str) and value.startswith('{"output":'):
        try:
            return as_text(as_mapping(json.loads(value)).get("output")), 0
        except ValueError:
            return value, 0
    return _content(value)


_PATH = re.compile(r'"(?:path|file_path|file)": ?"([^"\\]{1,400})"|\*\*\* (?:Update|Add|Delete) File: ([^\n\\]{1,400})')


def _path(arguments: str) -> str:
    match = _PATH.search(arguments)
    return (match[1] or match[2]).strip() if match else ""


def _unknown(noun: str, name: str, known: Sequence[str] = ()) -> str:
    return "copies of files, for undo" if name in known else f"unknown {noun} {name!r}"

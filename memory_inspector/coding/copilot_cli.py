"""Read the records of Copilot CLI, `~/.copilot/session-state/<id>/events.jsonl`. Pure.

Read from files that 1.0.102 wrote, 2026-11-29. Events in a row; those of subagents stand among them, by `agentId`. The
system prompt is in the file whole, and the tokens of each call. After a compaction the prompt lists all that the user
said, before the summary. A rewind deletes what it takes back. Definitions of tools are not in the file.
"""

import re
from collections.abc import Mapping, Sequence
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
    item,
    objects,
    reasons_by_name,
)

_NAMES = "inputTokens cacheReadTokens cacheWriteTokens outputTokens"


class CopilotReader(PlainReader):
    """Reads the records of one file."""

    program = "Copilot CLI"
    reasons = reasons_by_name(
        {
            "description of the session": "session.start session.resume session.context_changed",
            "title of a session": "session.title_changed",
            "end of the program": "session.shutdown",
            "note of the program": "assistant.turn_start assistant.turn_end session.compaction_start session.info "
            "session.warning session.error session.idle session.model_change session.mode_changed abort",
            "progress of a tool": "tool.execution_start tool.execution_progress tool.execution_partial_result",
            "state of a subagent": "subagent.started subagent.selected subagent.configured subagent.completed "
            "subagent.failed subagent.deselected",
            "copy of a call, for diagnosis": "model.turn_started model.model_call_started model.model_call_success "
            "model.message model.response model.turn_ended model.messages_snapshot",
        }
    )
    listed = re.compile(rb'"type": ?"(?:user\.message|session\.(?:start|usage_record|compaction_complete|title))')

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, str] = {}  # event of each lane
        self._said: list[str] = []  # events of the user
        self._system: dict[str, str] = {}

    @staticmethod
    def knows(record: Mapping[str, Any]) -> bool:
        """Return whether a record is an event: its type has a dot, and its fields are in `data`."""
        return "." in as_text(record.get("type")) and {"id", "parentId", "data"} <= {*record}

    @staticmethod
    def subagents(session: Path, named: Sequence[str]) -> Mapping[str, Path]:
        """Return the session's own file for each, which has their events."""
        return dict.fromkeys(named, session)

    def read(self, record: Mapping[str, Any], line: int) -> Sequence[Record]:
        """Return the values of one event. Events of unknown types are left out under their type."""
        kind, data = as_text(record.get("type")), as_mapping(record.get("data"))
        at, id, agent = as_time(record.get("timestamp")), as_text(record.get("id")), as_text(record.get("agentId"))
        place = {"line": line, "at": at}
        about = stated(
            folder=as_text(as_mapping(data.get("context")).get("cwd")),
            version=as_text(data.get("copilotVersion")),
            title=as_text(data.get("title")),
            deleted="what was taken back" if data.get("infoType") == "rewind" else "",
        )
        items: list[TranscriptItem] = []
        boundary = usage = None
        answer, left_out = as_text(data.get("apiCallId")), ""
        match kind:
            case "user.message":
                items = _spoken(data, place)
                self._said += [id] if not agent and any(one.kind == "user" for one in items) else []
            case "system.message":
                text = as_text(data.get("content"))
                left_out = "repeated system prompt" if text == self._system.get(agent) else ""
                items = [item("injected", text, in_each_call=True, **place)] if text and not left_out else []
                self._system[agent] = text
            case "session.usage_record":
                used = as_mapping(data.get("usage"))
                usage, answer = as_usage(used, _NAMES, whole=True), as_text(used.get("apiCallId"))
                # The name of the model stands beside the tokens.
                data, limit = used, as_count(used.get("maxPromptTokens"))
                about |= {"limit": str(limit)} if limit and not agent else {}
            case "assistant.message":
                thought = as_text(data.get("reasoningText"))
                calls = [
                    {"functionCall": {**one, "id": one.get("toolCallId"), "args": one.get("arguments")}}
                    for _, one in objects(data.get("toolRequests"))
                ]
                parts = [{"text": thought, "thought": True}, {"text": as_text(data.get("content"))}, *calls]
                items = list(self.parts("assistant", parts, place))
            case "tool.execution_complete":
                output = as_mapping(data.get("result")) or as_mapping(data.get("error"))
                output = output.get("content", output.get("message"))
                items, answer = [self.returned(as_text(data.get("toolCallId")), output, place)], ""
            case "session.compaction_complete" if data.get("success") is True:
                before = as_count(data.get("preCompactionTokens")) or None
                trigger, last = as_text(data.get("trigger")), self._last.get(agent, "")
                # A subagent has no list of what its user said.
                boundary = Boundary(trigger, before, last, keeps=() if agent else tuple(self._said))
                summary = as_text(data.get("summaryContent"))
                items = [item("summary", summary, **place)] if summary else []
                data = as_mapping(data.get("compactionTokensUsed"))
                usage = as_usage(data, _NAMES, whole=True)
            case "session.compaction_complete":
                left_out = "compaction that failed"
            case "subagent.started" if agent:
                # The event belongs to the lane that started the subagent.
                about[f"lane {agent}"], agent, left_out = as_text(data.get("toolCallId")), "", self.reason(kind)
            case _:
                left_out = self.reason(kind)
        if not (left_out or items or usage or boundary):
            left_out = "message without text"
        parent, model = self._last.get(agent), as_text(data.get("model")) if usage else ""
        if not left_out:
            self._last[agent] = id
        made = tuple(items)
        if kind == "user.message" and len(items) == 2:  # a compaction keeps the user's words without the addition
            added = Record(line, kind, f"{id} added", id, at, made[1:], lane=agent)
            self._last[agent] = added.id
            return [Record(line, kind, id, parent, at, made[:1], lane=agent, about=about), added]
        read = Record(line, kind, id, parent, at, made, answer, model, usage, boundary)
        return [replace(read, lane=agent, left_out=left_out, about=about)]


def _spoken(data: Mapping[str, Any], place: Mapping[str, Any]) -> list[TranscriptItem]:
    """Return a message of the user, and what the program adds to it before it is sent."""
    text, sent = as_text(data.get("content")), as_text(data.get("transformedContent"))
    by = as_text(data.get("source"))
    # A task that the agent gives to a subagent is its user's message.
    speaker: ItemKind = "user" if by in ("", "user") or by.startswith("agent-") else "injected"
    items = [item(speaker, text, **place)] if text else []
    added = "\n".join(filter(None, map(str.strip, sent.split(text)))) if text else sent.strip()
    return [*items, item("injected", added, part=1, **place)] if added else items

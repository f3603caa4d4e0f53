"""Sessions of Claude Code and Codex, written as these programs write them, for tests."""

import json
from datetime import UTC, datetime

from memory_core.coding.claude_code import ClaudeCodeReader
from memory_core.coding.codex import CodexReader
from memory_core.coding.coding_session import CodingSession

BEGIN = 1_700_000_000


class ClaudeSession:
    """Records of one file; each call adds one, ten seconds after the one before."""

    def __init__(self, path, folder="", begin=BEGIN):
        self.path, self.folder, self.at = path, str(folder), begin
        self.records, self.last = [], None

    def add(self, kind, **fields):
        self.at += 10
        id = f"r{len(self.records)}"
        record = {"type": kind, "uuid": id, "parentUuid": self.last, "cwd": self.folder}
        record["timestamp"] = datetime.fromtimestamp(self.at - 10, UTC).isoformat()
        self.records.append(record | fields)
        self.last = id
        return self

    def user(self, text, **fields):
        return self.add("user", message={"role": "user", "content": text}, **fields)

    def answer(self, text="Done.", model="claude-opus-4-6", prompt=100):
        usage = {"input_tokens": prompt, "output_tokens": 5}
        content = [{"type": "text", "text": text}]
        id = f"m{len(self.records)}"
        return self.add(
            "assistant", message={"role": "assistant", "id": id, "model": model, "usage": usage, "content": content}
        )

    def calls_tool(self, path, name="Read"):
        content = [{"type": "tool_use", "id": f"t{len(self.records)}", "name": name, "input": {"file_path": str(path)}}]
        return self.add("assistant", message={"role": "assistant", "id": f"m{len(self.records)}", "content": content})

    def gives_result(self, text):
        content = [{"type": "tool_result", "tool_use_id": f"t{len(self.records) - 1}", "content": text}]
        return self.add("user", message={"role": "user", "content": content})

    def loads(self, path, text):
        attachment = {"type": "nested_memory", "path": str(path), "content": {"path": str(path), "content": text}}
        return self.add("attachment", attachment=attachment)

    def compacts(self, summary):
        self.add("system", subtype="compact_boundary", compactMetadata={"trigger": "auto", "preTokens": 1000})
        self.records[-1] |= {"parentUuid": None, "logicalParentUuid": self.records[-2]["uuid"]}
        return self.user(summary, isCompactSummary=True)

    def write(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text("".join(f"{json.dumps(record)}\n" for record in self.records))
        return self.path

    def followed(self):
        session = CodingSession(self.write(), ClaudeCodeReader)
        session.follow()
        return session


def codex_session(path, folder, *texts):
    """A session of Codex in a folder, whose messages in the user's place are these texts."""
    at = datetime.fromtimestamp(BEGIN, UTC).isoformat()
    records = [{"type": "session_meta", "payload": {"cwd": str(folder)}}]
    for text in texts:
        content = [{"type": "input_text", "text": text}]
        records.append({"type": "response_item", "payload": {"type": "message", "role": "user", "content": content}})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps({'timestamp': at} | record)}\n" for record in records))
    session = CodingSession(path, CodexReader)
    session.follow()
    return session

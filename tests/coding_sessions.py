"""Small sessions of coding agents of our own, as files in a home folder, for tests of what shows them."""

import json
from itertools import count

RULE = "Never touch the lockfile."
TASK = "Add a test for the parser."
SUMMARY = "This session is being continued from a previous conversation.\n- Add a test for the parser."


class ClaudeSession:
    """Writes a session of Claude Code record by record, each after the one before."""

    def __init__(self, path, folder="/srv/parser"):
        self.path, self.folder = path, folder
        self._numbers, self._last = count(1), None
        path.parent.mkdir(parents=True, exist_ok=True)

    def record(self, kind, **fields):
        id = f"u{next(self._numbers)}"
        fields = {"type": kind, "uuid": id, "parentUuid": self._last, "cwd": self.folder, **fields}
        fields.setdefault("timestamp", f"2026-02-28T10:{next(self._numbers) % 60:02}:00Z")
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(fields) + "\n")
        self._last = id
        return self

    def user(self, text, **fields):
        return self.record("user", message={"role": "user", "content": text}, **fields)

    def answer(self, *parts, prompt, output=20):
        usage = {"input_tokens": 3, "cache_read_input_tokens": prompt - 3, "output_tokens": output}
        content = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
        message = {"id": f"msg_{next(self._numbers)}", "role": "assistant", "model": "claude-opus-4-6"}
        return self.record("assistant", message={**message, "content": content, "usage": usage})

    def tool(self, name, arguments, result, *, prompt):
        id = f"toolu_{next(self._numbers)}"
        self.answer({"type": "tool_use", "id": id, "name": name, "input": arguments}, prompt=prompt)
        part = {"type": "tool_result", "tool_use_id": id, "content": result}
        return self.record("user", message={"role": "user", "content": [part]})

    def compaction(self, summary, tokens=150_000):
        self._last = None
        self.record("system", subtype="compact_boundary", compactMetadata={"trigger": "auto", "preTokens": tokens})
        return self.user(summary, isCompactSummary=True) if summary else self


def session_that_lost_a_rule(home, name="11111111-2222-3333-4444-555555555555", folder="/srv/parser"):
    """Write a session whose compaction keeps the task and loses the rule; return its file."""
    session = ClaudeSession(home / "-srv-parser" / f"{name}.jsonl", folder)
    session.user(f"{RULE} {TASK}").answer("I read the parser first.", prompt=20_100)
    session.tool("Read", {"file_path": f"{folder}/parser.py"}, "def parse_everything(text): return text", prompt=20_200)
    session.answer("Now I write the test.", prompt=21_000)
    session.compaction(SUMMARY).answer("I go on with the test.", prompt=20_900)
    return session.path

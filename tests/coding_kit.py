"""Sessions of coding agents, written as Claude Code and Codex write them."""

import json
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

from memory_inspector.coding.claude_code import ClaudeCodeReader
from memory_inspector.coding.codex import CodexReader
from memory_inspector.coding.coding_session import CodingSession

START = datetime(2026, 2, 12, 16, 0, tzinfo=UTC)
MODEL = "claude-opus-4-6"
FOLDER = "/srv/ana/boats"

RULE = "Never touch the lockfile."
TASK = "Add a test for the parser."
SUMMARY = "This session is being continued from a previous conversation.\n- Add a test for the parser."


class Lines:
    """The lines of a file, a second apart. Methods that write some return the object, so that others can follow."""

    reader: type

    def __init__(self, start=START, folder=FOLDER):
        self.lines, self.folder = [], folder
        self._at = start

    def add(self, record, *, timed=True):
        if timed:
            self._at += timedelta(seconds=1)
            record = {"timestamp": self._at.isoformat().replace("+00:00", "Z"), **record}
        self.lines.append(record)
        return self

    @property
    def data(self) -> bytes:
        return b"".join(json.dumps(line, separators=(",", ":"), default=str).encode() + b"\n" for line in self.lines)

    def write(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.data)
        return path

    def session(self, path: Path) -> CodingSession:
        """The session that is read from these lines."""
        session = CodingSession(self.write(path), self.reader)
        session.follow()
        return session


def call(tool_id, name="Read", **arguments):
    return {"type": "tool_use", "id": tool_id, "name": name, "input": arguments}


def hash_of(message):
    """The hash by which Claude Code names a message in its requests."""
    parts = message["content"]
    parts = [{"type": "text", "text": parts}] if isinstance(parts, str) else parts
    text = json.dumps({"role": message["role"], "content": parts}, sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()


def thinking(text):
    return {"type": "thinking", "thinking": text, "signature": ""}


class ClaudeCode(Lines):
    """Records of Claude Code. Each follows the one that was written last, unless `last` is set to another."""

    reader = ClaudeCodeReader

    def __init__(self, start=START, folder=FOLDER, *, side=False):
        super().__init__(start, folder)
        self.last = None
        self._side, self._caller = side, {}
        self._requested, self._named, self._requests = {}, set(), 0

    def record(self, type, *, parent=..., **fields):
        """Write a record that has a place in the tree."""
        parent = self.last if parent is ... else parent
        self.last = f"u{len(self.lines) + 1}"
        about = {"isSidechain": self._side, "cwd": self.folder, "version": "2.1.39", "gitBranch": "main"}
        return self.add({"parentUuid": parent, **about, "type": type, **fields, "uuid": self.last})

    def user(self, text, **fields):
        return self.record("user", message={"role": "user", "content": text}, **fields)

    def answer(self, *parts, prompt=1_000, output=10, cached=True, model=MODEL, id=None, **fields):
        """Write an answer as it is streamed, a record a part."""
        id = id or f"msg_{len(self.lines) + 1}"
        usage = {"input_tokens": 3 if cached else prompt}
        if cached:
            usage["cache_read_input_tokens"] = prompt // 2
            usage["cache_creation_input_tokens"] = prompt - prompt // 2 - 3
        parts = parts or ("Done.",)
        for number, part in enumerate(parts, 1):
            part = {"type": "text", "text": part} if isinstance(part, str) else part
            message = {"role": "assistant", "id": id, "model": model, "content": [part]}
            message["usage"] = {**usage, "output_tokens": output * number // len(parts)}
            self.record("assistant", message=message, **fields)
            if part["type"] == "tool_use":
                self._caller[part["id"]] = self.last
        return self

    def result(self, tool_id, content, **fields):
        """Write a tool's result, which follows its call and not what was written last."""
        part = {"type": "tool_result", "tool_use_id": tool_id, "content": content}
        caller = self._caller[tool_id]
        message = {"role": "user", "content": [part]}
        return self.record("user", parent=caller, message=message, sourceToolAssistantUUID=caller, **fields)

    def attachment(self, type, **fields):
        return self.record("attachment", attachment={"type": type, **fields})

    def rendered(self, type, *sent, role="user", **fields):
        """Write an attachment with the texts that were sent for it."""
        about = {"rendered": [{"content": text} for text in sent], "renderedRole": role}
        return self.record("attachment", attachment={"type": type, **fields}, **about)

    def request(self, *messages, system=("You are a harbour master.",), tools=("Read",), base=None):
        """Write a request with its messages, those that are no record as blobs; return its id for the answer."""
        described = [{"name": name, "description": f"Use {name} well.", "input_schema": {}} for name in tools]
        shape = {"system": [{"type": "text", "text": text} for text in system], "tools": described}
        name = f"shape {json.dumps(shape)}"
        if name not in self._named:
            self._named.add(name)
            self.add({"type": "api-request-shape", "shapeHash": name, "shape": shape})
        hashes = [hash_of(message) for message in messages]
        records = {hash_of(line["message"]) for line in self.lines if "uuid" in line and "message" in line}
        for hash, message in zip(hashes, messages, strict=True):
            if hash not in records | self._named and message["role"] != "assistant":
                self.add({"type": "api-request-blob", "hash": hash, "message": message}, timed=False)
                self._named.add(hash)
        before = self._requested.get(base, [])
        keep = next((n for n, (a, b) in enumerate(zip(before, hashes, strict=False)) if a != b), len(before))
        id = f"request {self._requests}"
        self._requests, self._requested[id] = self._requests + 1, hashes
        more = {"base": base} if base is not None else {}
        self.add({"type": "api-request", "id": id, "shapeHash": name, **more, "keep": keep, "tail": hashes[keep:]})
        return id

    def spent(self, dollars, **by_model):
        """Write what the program counted so far: by model, its prompt's tokens and those of its answers."""
        usage = {
            model: {"inputTokens": prompt, "outputTokens": output, "costUSD": dollars}
            for model, (prompt, output) in by_model.items()
        }
        return self.add({"type": "cost-state", "totalCostUSD": dollars, "modelUsage": usage}, timed=False)

    def memory_file(self, path, text):
        return self.attachment("nested_memory", path=path, content={"path": path, "content": text})

    def progress(self, type="hook_progress", *, tool="", **data):
        return self.record("progress", data={"type": type, **data}, parentToolUseID=tool)

    def compact(self, summary="The work so far.", *, before=..., trigger="auto", tokens=170_000, **about):
        """Write a compaction, and its summary if it has one."""
        before = self.last if before is ... else before
        metadata = {"trigger": trigger, "preTokens": tokens, **about}
        fields = {"subtype": "compact_boundary", "content": "Conversation compacted", "compactMetadata": metadata}
        self.record("system", parent=None, logicalParentUuid=before, **fields)
        return self if summary is None else self.user(summary, isCompactSummary=True, isVisibleInTranscriptOnly=True)

    def clear(self, *tool_ids):
        """Write a microcompaction that takes out results of tools."""
        metadata = {"trigger": "auto", "preTokens": 90_000, "tokensSaved": 40_000, "compactedToolIds": list(tool_ids)}
        return self.record("system", subtype="microcompact_boundary", microcompactMetadata=metadata)

    def snapshot(self):
        return self.add({"type": "file-history-snapshot", "messageId": self.last, "snapshot": {}}, timed=False)

    def queue(self, text):
        return self.add({"type": "queue-operation", "operation": "enqueue", "content": text})

    def title(self, text):
        return self.add({"type": "custom-title", "customTitle": text, "sessionId": "s"}, timed=False)

    def subagent(self, path, name) -> Path:
        """Write these lines as a subagent's of the session at a path."""
        return self.write(path.with_suffix("") / "subagents" / f"agent-{name}.jsonl")


def message(role, text, kind="input_text"):
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


class Codex(Lines):
    """A rollout of Codex, which begins with its description."""

    reader = CodexReader

    def __init__(self, start=START, folder=FOLDER):
        super().__init__(start, folder)
        self._total = 0
        meta = {"id": "c", "cwd": self.folder, "cli_version": "0.98.0", "git": {"branch": "main"}}
        self.line("session_meta", {**meta, "base_instructions": {"text": "You are Codex."}})
        self.turn()

    def line(self, type, payload):
        return self.add({"type": type, "payload": payload})

    def event(self, type, **fields):
        return self.line("event_msg", {"type": type, **fields})

    def item(self, type, **fields):
        return self.line("response_item", {"type": type, **fields})

    def turn(self, model="gpt-5.2-codex"):
        return self.line("turn_context", {"cwd": self.folder, "model": model, "approval_policy": "never"})

    def user(self, text):
        self.line("response_item", message("user", text))
        return self.event("user_message", message=text)

    def developer(self, text):
        return self.line("response_item", message("developer", text))

    def answer(self, text):
        self.line("response_item", message("assistant", text, "output_text"))
        return self.event("agent_message", message=text)

    def reasoning(self, summary="", encrypted="gAAAA"):
        texts = [{"type": "summary_text", "text": summary}] if summary else []
        return self.item("reasoning", summary=texts, encrypted_content=encrypted)

    def call(self, call_id, name="exec_command", **arguments):
        return self.item("function_call", name=name, arguments=json.dumps(arguments), call_id=call_id)

    def output(self, call_id, output):
        return self.item("function_call_output", call_id=call_id, output=output)

    def tokens(self, prompt, cached=0, output=10, again=False):
        """Write the count of an answer's tokens, with which it ends."""
        self._total += 0 if again else prompt + output
        last = {"input_tokens": prompt, "cached_input_tokens": cached, "output_tokens": output}
        last |= {"reasoning_output_tokens": 0, "total_tokens": prompt + output}
        total = {**last, "total_tokens": self._total}
        info = {"total_token_usage": total, "last_token_usage": last, "model_context_window": 272_000}
        return self.event("token_count", info=info, rate_limits=None)

    def compacted(self, message, history=None):
        more = {} if history is None else {"replacement_history": history}
        self.line("compacted", {"message": message, **more})
        return self.event("context_compacted")


def texts(items):
    return [item.text for item in items]


def kinds(items):
    return [item.kind for item in items]


def work() -> ClaudeCode:
    """A session that has some of everything: streamed pieces, tools at once, a subagent, compactions, a rewind."""
    lines = ClaudeCode()
    lines.snapshot()
    first = lines.user("Never push to main. Build the harbour page.").last
    lines.progress()
    lines.answer(
        thinking("I read both files."),
        "I read them.",
        call("t1", file_path="/boats/harbour.py"),
        call("t2", file_path="/boats/quay.py"),
        prompt=12_000,
    )
    lines.progress("bash_progress")
    lines.result("t2", "quay = [1, 2]")
    lines.attachment("hook_additional_context", content=["The hook saw t2.", "It was fine."])
    lines.result("t1", "harbour = 'Oslo'")
    lines.answer("Both are short.", call("t3", "Task", prompt="Look for other piers"), prompt=13_000)
    lines.progress("agent_progress", agentId="a1", tool="t3")
    lines.result("t3", "Two piers.", toolUseResult={"agentId": "a1"})
    end = lines.answer("There are two piers.", prompt=13_500).last
    lines.queue("And the lighthouse?")
    lines.clear("t1", "t2")
    lines.user("Draw it.")
    lines.answer("Drawn.", prompt=12_900)
    lines.compact("The user wants a harbour page. Never push to main.")
    lines.user("Go on.")
    lines.answer("Done.", prompt=15_000)
    lines.last = end
    lines.user("Draw it in blue.")
    lines.answer("Drawn in blue.", prompt=13_600)
    lines.last = first
    lines.record("assistant", message={"role": "assistant", "content": "API Error"}, isApiErrorMessage=True)
    lines.title("Harbour")
    return lines


def rollout() -> Codex:
    """A rollout that has some of everything."""
    lines = Codex()
    lines.developer("<permissions instructions>Ask before writing.</permissions instructions>")
    lines.user("Never push to main. Build the harbour page.")
    lines.reasoning("I look around.")
    lines.call("c1", cmd="ls")
    lines.call("c2", cmd="pwd")
    lines.output("c1", '{"output":"harbour.py","metadata":{"exit_code":0}}')
    lines.output("c2", "/boats")
    lines.tokens(9_000, cached=5_000)
    lines.item("custom_tool_call", name="apply_patch", input="*** Update File: harbour.py\n+1", call_id="c3")
    lines.tokens(9_500)
    lines.item("custom_tool_call_output", call_id="c3", output=[{"type": "input_text", "text": "Done."}])
    lines.item("web_search_call", action={"type": "search", "query": "piers"})
    lines.answer("Built.")
    lines.tokens(9_900)
    lines.tokens(9_900, again=True)
    lines.compacted("Another language model started to solve this problem: a harbour page.")
    lines.user("Go on.")
    lines.answer("Done.")
    lines.tokens(4_000)
    lines.event("thread_rolled_back", num_turns=1)
    lines.user("Stop.")
    lines.answer("Stopped.")
    lines.tokens(4_100)
    lines.compacted("", [message("user", "Stop."), {"type": "compaction", "encrypted_content": "gAAAA"}])
    lines.user("Again.")
    lines.answer("Yes.")
    lines.tokens(3_000)
    return lines


def session_that_lost_a_rule(home) -> Path:
    """Write a session whose compaction keeps the task and loses the rule; return its file."""
    lines = ClaudeCode(folder="/srv/parser").user(f"{RULE} {TASK}")
    lines.answer("I read the parser first.", prompt=20_100, output=20)
    lines.answer(call("t1", file_path="/srv/parser/parser.py"), prompt=20_200, output=20)
    lines.result("t1", "def parse_everything(text): return text")
    lines.answer("Now I write the test.", prompt=21_000, output=20)
    lines.compact(SUMMARY).answer("I go on with the test.", prompt=20_900, output=20)
    return lines.write(home / "-srv-parser" / "11111111-2222-3333-4444-555555555555.jsonl")

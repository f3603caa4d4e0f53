"""A model on 127.0.0.1 that answers real agents by a script, in their four dialects, and keeps what it was sent.

Marks in the newest words of the user steer it: `RUN:echo_x` calls the shell tool, `SUB:x` a subagent, `THINK` adds
reasoning, `BIG:160000` reports as many tokens of input. A request for a summary is answered with `SUMMARY`.
"""

import gzip
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

SUMMARY = "The folder was listed with one command. Nothing else is left to be done."
ASKS_SUMMARY = re.compile(
    r"(detailed|anchored|structured|condensed|conversation) summary|CHECKPOINT|<conversation>|state_snapshot"
    r"|scratchpad|[Ss]ummari[sz](e|ing) (this|our|the|conv)|tasked with summarizing|create a (new )?summary"
)
SHELLS = (
    "Bash",
    "bash",
    "shell",
    "shell_command",
    "exec_command",
    "run_shell_command",
    "execute_command",
    "run_commands",
)
HELPERS = ("Agent", "Task", "task", "agent", "spawn_agent")
TASK = "Look for the word zebra and report it."


@dataclass(slots=True)
class Asked:
    """A request as any dialect says it: its texts, the user's newest words, and its tools with their schemas."""

    texts: list[str]
    newest: str = ""
    after_tool: bool = False
    tools: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Call:
    """A request with its answer."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    texts: list[str]
    answer: str
    tokens: tuple[int, int, int]
    """Tokens of the whole input, those of it read from the cache, and those of the answer."""


def texts_of(content: Any) -> list[str]:
    """Return the texts in any content, without names, ids, schemas and pictures."""
    if isinstance(content, str):
        return [content] if content.strip() else []
    if isinstance(content, list):
        return [text for entry in content for text in texts_of(entry)]
    if isinstance(content, dict):
        names = ("text", "content", "thinking", "summary", "output", "functionResponse", "response", "parts")
        return [text for name in names for text in texts_of(content.get(name))]
    return []


def _read(path: str, body: dict[str, Any]) -> Asked:
    """Read a request in the dialect of its path."""
    turns = body.get("messages") or body.get("input") or body.get("contents") or []
    turns = [{"role": "user", "content": turns}] if isinstance(turns, str) else turns
    front = [body.get(name) for name in ("system", "instructions", "systemInstruction")]
    asked = Asked(texts_of([*front, *turns]))
    for turn in turns:
        kinds = {part.get("type") for part in turn.get("content") or () if isinstance(part, dict)}
        result = "tool_result" in kinds or turn.get("role") == "tool" or "_output" in str(turn.get("type"))
        result = result or any("functionResponse" in part for part in turn.get("parts") or ())
        asked.after_tool = result or (asked.after_tool and turn.get("role") != "user")
        if turn.get("role") == "user" and not result:
            asked.newest = "\n".join(texts_of(turn))
    for tool in [*(body.get("tools") or ()), *(each for turn in turns for each in turn.get("tools") or ())]:
        for one in tool.get("functionDeclarations") or tool.get("tools") or [tool.get("function", tool)]:
            schema = next((one[k] for k in ("input_schema", "parameters", "parametersJsonSchema") if k in one), {})
            space = f"{tool['name']}:" if tool.get("type") == "namespace" else ""
            asked.tools[str(one.get("name"))] = {**schema, "space": space}
    return asked


def _arguments(schema: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Fill the properties of a schema: the given ones by name, and those that it requires by their type."""
    blank = {"string": "x", "boolean": False, "number": 1, "integer": 1, "array": [], "object": {}}
    filled = {}
    for name, spec in (schema.get("properties") or {}).items():
        kind = str(spec.get("type", "string")).lower()
        if name in given:
            filled[name] = [given[name]] if kind == "array" else given[name]
        elif name in (schema.get("required") or ()):
            filled[name] = spec["enum"][0] if spec.get("enum") else blank.get(kind, "x")
    return filled


class ScriptedModel:
    """The server: `url`, and the `calls` so far."""

    def __init__(self, port: int = 0) -> None:
        self.calls: list[Call] = []
        self._ids, self._lock = count(1), threading.Lock()
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                if self.headers.get("upgrade"):
                    return self._send(426, "text/plain", b"")
                models = b'{"object": "list", "data": [], "models": [], "has_more": false}'
                return self._send(200, "application/json", models)

            def do_HEAD(self) -> None:
                self._send(200, "text/plain", b"")

            def do_POST(self) -> None:
                raw = self._body()
                body = json.loads(raw or b"{}")
                path = self.path.split("?")[0]
                if path.endswith(("count_tokens", ":countTokens")):
                    size = len(raw) // 4 + 1
                    counted = {"input_tokens": size, "totalTokens": size}
                    return self._send(200, "application/json", json.dumps(counted).encode())
                streamed = body.get("stream") or "streamGenerate" in path
                events = list(model._answered(path, dict(self.headers.items()), body))
                if not events:
                    return self._send(404, "application/json", b"{}")
                if not streamed:
                    return self._send(200, "application/json", json.dumps(events[-1]).encode())
                named = "type" in events[0]
                lines = [(f"event: {e['type']}\n" if named else "") + f"data: {json.dumps(e)}\n\n" for e in events[:-1]]
                lines += [] if named or "gen" in path.lower() else ["data: [DONE]\n\n"]
                return self._send(200, "text/event-stream", "".join(lines).encode())

            def _body(self) -> bytes:
                if self.headers.get("transfer-encoding", "").lower() != "chunked":
                    raw = self.rfile.read(int(self.headers.get("content-length") or 0))
                else:
                    raw = b""
                    while size := int(self.rfile.readline().split(b";")[0], 16):
                        raw += self.rfile.read(size)
                        self.rfile.readline()
                    self.rfile.readline()
                coding = self.headers.get("content-encoding", "")
                if coding == "zstd":
                    import zstandard

                    return zstandard.ZstdDecompressor().decompressobj().decompress(raw)
                return gzip.decompress(raw) if coding == "gzip" else raw

            def _send(self, status: int, kind: str, body: bytes) -> None:
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                """Say nothing: programs hang up as they end."""

        self._server = Server(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answered(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the events of a streamed answer, and last the whole one; nothing for a path of no model."""
        dialect = next(
            (d for end, d in _DIALECTS.items() if path.partition(":")[2].endswith(end) or path.endswith(end)), None
        )
        if dialect is None:
            return
        asked = _read(path, body)
        compacts = any(isinstance(e, dict) and e.get("type") == "compaction_trigger" for e in body.get("input") or ())
        thought, text, calls = ("", "", []) if compacts else self._decided(asked, body)
        big = re.findall(r"BIG:(\d+)", asked.newest)
        size = int(big[-1]) if big and text not in ("", SUMMARY) else len(json.dumps(body)) // 4
        tokens = size, size // 2, 20 + len(text) // 4
        with self._lock:
            self.calls.append(Call(path, {k.lower(): v for k, v in headers.items()}, body, asked.texts, text, tokens))
            number = next(self._ids)
        if compacts:
            yield from _compaction(number, tokens)
        else:
            yield from dialect(str(body.get("model")), number, thought, text, calls, tokens)

    def _decided(self, asked: Asked, body: dict[str, Any]) -> tuple[str, str, list[tuple[str, dict[str, Any]]]]:
        thought = "Let me think about the lock." if "THINK" in asked.newest else ""
        form = (body.get("output_config") or {}).get("format") or (body.get("text") or {}).get("format") or {}
        if form.get("type") == "json_schema":
            return "", json.dumps(dict.fromkeys(form["schema"].get("properties", {}), "Listing")), []
        if ASKS_SUMMARY.search(asked.newest) or ASKS_SUMMARY.search(" ".join(texts_of(body.get("system")))):
            return "", f"<summary>\n{SUMMARY}\n</summary>" if "<summary>" in " ".join(asked.texts) else SUMMARY, []
        if asked.after_tool:
            return thought, "Done: the tool has answered.", []
        mark = re.search(r"(RUN|SUB):(\S+)", asked.newest)
        names = {"RUN": SHELLS, "SUB": HELPERS}[mark[1]] if mark else ()
        if mark and (tool := next((name for name in names if name in asked.tools), None)):
            words = mark[2].replace("_", " ")
            given = dict.fromkeys(("command", "cmd", "commands"), words) if mark[1] == "RUN" else {}
            given |= dict.fromkeys(("prompt", "message", "task"), TASK) if mark[1] == "SUB" else {}
            given |= {"description": "look", "subagent_type": "general" if tool == "task" else "general-purpose"}
            return thought, "I will look.", [(asked.tools[tool]["space"] + tool, _arguments(asked.tools[tool], given))]
        return thought, f"Understood, this is answer {len(self.calls) + 1}.", []


Calls = list[tuple[str, dict[str, Any]]]
Counts = tuple[int, int, int]


def _anthropic(model: str, n: int, thought: str, text: str, calls: Calls, tokens: Counts) -> Iterator[dict[str, Any]]:
    given, cached, out = tokens
    usage = {"input_tokens": given - cached - 5, "cache_creation_input_tokens": 5, "cache_read_input_tokens": cached}
    blocks: list[dict[str, Any]] = [{"type": "thinking", "thinking": thought, "signature": "c2ln"}] if thought else []
    blocks += [{"type": "text", "text": text}]
    blocks += [
        {"type": "tool_use", "id": f"toolu_{n}_{k}", "name": name, "input": a} for k, (name, a) in enumerate(calls)
    ]
    stop = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
    whole = {"id": f"msg_{n}", "type": "message", "role": "assistant", "model": model}
    begun = {**whole, "content": [], "stop_reason": None, "stop_sequence": None, "usage": {**usage, "output_tokens": 1}}
    yield {"type": "message_start", "message": begun}
    for k, block in enumerate(blocks):
        field, delta, empty = {
            "thinking": ("thinking", "thinking_delta", ""),
            "text": ("text", "text_delta", ""),
            "tool_use": ("input", "input_json_delta", {}),
        }[block["type"]]
        yield {"type": "content_block_start", "index": k, "content_block": {**block, field: empty}}
        name, words = ("partial_json", json.dumps(block[field])) if field == "input" else (field, block[field])
        yield {"type": "content_block_delta", "index": k, "delta": {"type": delta, name: words}}
        if field == "thinking":
            signed = {"type": "signature_delta", "signature": "c2ln"}
            yield {"type": "content_block_delta", "index": k, "delta": signed}
        yield {"type": "content_block_stop", "index": k}
    yield {"type": "message_delta", "delta": stop, "usage": {**usage, "output_tokens": out}}
    yield {"type": "message_stop"}
    yield {**whole, **stop, "content": blocks, "usage": {**usage, "output_tokens": out}}


def _responses(model: str, n: int, thought: str, text: str, calls: Calls, tokens: Counts) -> Iterator[dict[str, Any]]:
    given, cached, out = tokens
    usage = {"input_tokens": given, "input_tokens_details": {"cached_tokens": cached}, "output_tokens": out}
    usage |= {"output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": given + out}
    summary = [{"type": "summary_text", "text": thought}]
    items: list[dict[str, Any]] = [{"type": "reasoning", "id": f"rs_{n}", "summary": summary}] if thought else []
    said = [{"type": "output_text", "text": text, "annotations": []}]
    items += [{"type": "message", "id": f"m_{n}", "role": "assistant", "status": "completed", "content": said}]
    items += [
        {"type": "function_call", "id": f"fc_{n}_{k}", "call_id": f"call_{n}_{k}", "arguments": json.dumps(a)}
        | dict(zip(("name", "namespace"), reversed(name.split(":")), strict=False))
        for k, (name, a) in enumerate(calls)
    ]
    whole = {"id": f"resp_{n}", "object": "response", "created_at": 1, "model": model, "status": "completed"}
    whole |= {"output": items, "usage": usage, "error": None, "incomplete_details": None}
    yield {"type": "response.created", "response": {**whole, "status": "in_progress", "output": [], "usage": None}}
    for k, item in enumerate(items):
        yield {"type": "response.output_item.added", "output_index": k, "item": {**item, "status": "in_progress"}}
        if item["type"] == "message":
            yield {
                "type": "response.output_text.delta",
                "item_id": item["id"],
                "output_index": k,
                "content_index": 0,
                "delta": text,
            }
        yield {"type": "response.output_item.done", "output_index": k, "item": item}
    yield {"type": "response.completed", "response": whole}
    yield whole


def _compaction(n: int, tokens: Counts) -> Iterator[dict[str, Any]]:
    """Answer as the Responses API does where the endpoint compacts: an item that only it can read."""
    item = {"type": "compaction", "id": f"cmp_{n}", "encrypted_content": "b3BhcXVl"}
    usage = {"input_tokens": tokens[0], "output_tokens": tokens[2], "total_tokens": tokens[0] + tokens[2]}
    usage |= {"input_tokens_details": {"cached_tokens": tokens[1]}}
    whole = {"id": f"resp_{n}", "object": "response", "status": "completed", "output": [item], "usage": usage}
    yield {"type": "response.created", "response": {**whole, "status": "in_progress", "output": [], "usage": None}}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    yield {"type": "response.completed", "response": whole}
    yield whole


def _chat(model: str, n: int, thought: str, text: str, calls: Calls, tokens: Counts) -> Iterator[dict[str, Any]]:
    given, cached, out = tokens
    usage = {"prompt_tokens": given, "completion_tokens": out, "total_tokens": given + out}
    usage |= {"prompt_tokens_details": {"cached_tokens": cached}}
    made = [
        {"id": f"call_{n}_{k}", "type": "function", "function": {"name": name, "arguments": json.dumps(a)}}
        for k, (name, a) in enumerate(calls)
    ]
    base = {"id": f"chatcmpl-{n}", "created": 1, "model": model, "object": "chat.completion.chunk"}
    reasoning = {"reasoning_content": thought} if thought else {}
    stop = "tool_calls" if calls else "stop"
    message = {"role": "assistant", "content": text, **reasoning, **({"tool_calls": made} if made else {})}
    indexed = [{"index": k, **call} for k, call in enumerate(made)]
    for delta in ({"role": "assistant", **reasoning}, {"content": text}, {"tool_calls": indexed} if made else {}):
        yield {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": stop}], "usage": usage}
    whole = {"index": 0, "message": message, "finish_reason": stop}
    yield {**base, "object": "chat.completion", "choices": [whole], "usage": usage}


def _gemini(model: str, n: int, thought: str, text: str, calls: Calls, tokens: Counts) -> Iterator[dict[str, Any]]:
    given, cached, out = tokens
    usage = {"promptTokenCount": given, "cachedContentTokenCount": cached, "candidatesTokenCount": out}
    usage |= {"totalTokenCount": given + out}
    parts: list[dict[str, Any]] = [{"text": thought, "thought": True}] if thought else []
    parts += [{"text": text}, *({"functionCall": {"name": name, "args": a}} for name, a in calls)]
    content = {"content": {"role": "model", "parts": parts}, "index": 0, "finishReason": "STOP"}
    whole = {"candidates": [content], "usageMetadata": usage, "modelVersion": model, "responseId": f"r{n}"}
    yield from (whole, whole)


_DIALECTS = {
    "/messages": _anthropic,
    "/responses": _responses,
    "/chat/completions": _chat,
    "generateContent": _gemini,
    "streamGenerateContent": _gemini,
}

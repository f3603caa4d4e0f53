"""A model on loopback that answers one visit of three calls, in the form that each request asks for.

A call of a tool, the answer to its result, and an answer in pieces. It keeps what every request said.
"""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

CITY, GREY, PIECES = {"city": "Oslo"}, "It is grey in Oslo, at 7 degrees.", ("Yes, ", "take ", "one: ", "rain is near.")
_IDS = count(1)
TOKENS = ((120, 20, 0), (140, 16, 64), (160, 12, 0))
"""In, out, and of those in from a cache, of each of the three calls."""

Entry = tuple[str, str]
"""Role and text of what a prompt or an answer holds; a call of a tool is `call` with its arguments."""


@dataclass(frozen=True)
class Call:
    """A call as it is compared: what was sent, and what was answered."""

    prompt: tuple[Entry, ...]
    answer: Entry | None
    tokens: tuple[int | None, int | None, int | None]


def plain(role: str, content: Any) -> list[Entry]:
    """Return the texts of a content, whatever its parts are called, as one entry; none without any."""
    parts = [content] if isinstance(content, str | Mapping) else content or []
    texts = [part if isinstance(part, str) else str(part.get("text") or "") for part in parts]
    text = " ".join(" ".join(texts).split())
    if role == "tool" and text.startswith("{"):  # some clients wrap a result into an object
        text = " ".join(map(str, json.loads(text).values()))
    return [(role, text)] if text else []


def called(arguments: Any) -> Entry:
    """Return the entry of a call."""
    arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
    return "call", json.dumps(arguments, sort_keys=True)


# -- what each form asks ---------------------------------------------------------------------------


def _chat(request: Any) -> Iterator[Entry]:
    for message in request["messages"]:
        role = {"developer": "system"}.get(message["role"], message["role"])
        yield from plain(role, message.get("content"))
        yield from (called(call["function"]["arguments"]) for call in message.get("tool_calls") or ())


def _responses(request: Any) -> Iterator[Entry]:
    yield from plain("system", request.get("instructions"))
    given = request["input"]
    for item in [{"role": "user", "content": given}] if isinstance(given, str) else given:
        if item.get("type") == "function_call":
            yield called(item["arguments"])
        elif item.get("type") == "function_call_output":
            yield from plain("tool", item["output"])
        else:
            yield from plain({"developer": "system"}.get(item["role"], item["role"]), item["content"])


def _anthropic(request: Any) -> Iterator[Entry]:
    yield from plain("system", request.get("system"))
    for message in request["messages"]:
        blocks = message["content"]
        for block in [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks:
            if block["type"] == "tool_use":
                yield called(block["input"])
            elif block["type"] == "tool_result":
                yield from plain("tool", block["content"])
            else:
                yield from plain(message["role"], block)


def _gemini(request: Any) -> Iterator[Entry]:
    yield from plain("system", (request.get("systemInstruction") or {}).get("parts"))
    for content in request["contents"]:
        for part in content["parts"]:
            if "functionCall" in part:
                yield called(part["functionCall"]["args"])
            elif "functionResponse" in part:
                yield from plain("tool", str(next(iter(part["functionResponse"]["response"].values()))))
            else:
                yield from plain({"model": "assistant"}.get(content["role"], content["role"]), part)


# -- what each form is answered: whole, and the events of a stream -----------------------------------


def _chat_answer(number: int, stream: bool, request: Any) -> list[Any]:
    tokens_in, out, cached = TOKENS[number]
    function = {"name": "weather", "arguments": json.dumps(CITY)}
    calls = [{"index": 0, "id": "call_1", "type": "function", "function": function}] if number == 0 else None
    finish = "stop" if number else "tool_calls"
    usage = {"prompt_tokens": tokens_in, "completion_tokens": out, "total_tokens": tokens_in + out}
    usage |= {"prompt_tokens_details": {"cached_tokens": cached}}
    kind = "chat.completion.chunk" if stream else "chat.completion"
    base = {"id": f"chat_{next(_IDS)}", "object": kind, "created": 1_700_000_000, "model": "gpt-test"}
    if not stream:
        message = {"role": "assistant", "content": _text(number) or None, "tool_calls": calls}
        return [base | {"choices": [{"index": 0, "finish_reason": finish, "message": message}], "usage": usage}]
    deltas = [{"tool_calls": calls}] if calls else [{"content": piece} for piece in _pieces(number)]
    deltas = [{"role": "assistant", "content": ""}, *deltas]
    chunks = [base | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    last = base | {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}
    return [*chunks, last, base | {"choices": [], "usage": usage}]


def _responses_answer(number: int, stream: bool, request: Any) -> list[Any]:
    tokens_in, out, cached = TOKENS[number]
    parts = [{"type": "output_text", "text": _text(number), "annotations": [], "logprobs": []}]
    item = {"id": f"msg_{number}", "type": "message", "role": "assistant", "status": "completed", "content": parts}
    if number == 0:
        item = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "weather", "status": "completed"}
        item |= {"arguments": json.dumps(CITY)}
    usage = {"input_tokens": tokens_in, "output_tokens": out, "total_tokens": tokens_in + out}
    usage |= {"input_tokens_details": {"cached_tokens": cached}, "output_tokens_details": {"reasoning_tokens": 0}}
    base = {"id": f"resp_{next(_IDS):048x}", "object": "response", "created_at": 1_700_000_000, "model": "gpt-test"}
    base |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    base |= {"instructions": request.get("instructions")}
    whole = base | {"status": "completed", "output": [item], "usage": usage}
    if not stream:
        return [whole]
    at: dict[str, Any] = {"output_index": 0, "item_id": item["id"]}
    events = [{"type": "response.created", "response": base | {"status": "in_progress", "output": []}}]
    events += [{"type": "response.output_item.added", "item": item | {"status": "in_progress", "content": []}, **at}]
    if number:
        at["content_index"] = 0
        events += [{"type": "response.content_part.added", "part": parts[0] | {"text": ""}, **at}]
        events += [{"type": "response.output_text.delta", "delta": one, "logprobs": [], **at} for one in PIECES]
        events += [{"type": "response.output_text.done", "text": _text(number), "logprobs": [], **at}]
        events += [{"type": "response.content_part.done", "part": parts[0], **at}]
    events += [{"type": "response.output_item.done", "item": item, "output_index": 0}]
    events += [{"type": "response.completed", "response": whole}]
    return [event | {"sequence_number": place} for place, event in enumerate(events)]


def _anthropic_answer(number: int, stream: bool, request: Any) -> list[Any]:
    tokens_in, out, cached = TOKENS[number]
    usage = {"input_tokens": tokens_in - cached, "output_tokens": out, "cache_read_input_tokens": cached}
    usage |= {"cache_creation_input_tokens": 0}
    block = {"type": "text", "text": _text(number)}
    block = block if number else {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": CITY}
    finish = {"stop_reason": "end_turn" if number else "tool_use", "stop_sequence": None}
    whole = {"id": f"msg_{next(_IDS)}", "type": "message", "role": "assistant", "model": "claude-test", "usage": usage}
    whole |= {"content": [block], **finish}
    if not stream:
        return [whole]
    begun = whole | {"content": [], "stop_reason": None, "usage": usage | {"output_tokens": 1}}
    deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(number)]
    return [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": finish, "usage": {"output_tokens": out}},
        {"type": "message_stop"},
    ]


def _gemini_answer(number: int, stream: bool, request: Any) -> list[Any]:
    tokens_in, out, cached = TOKENS[number]
    usage = {"promptTokenCount": tokens_in, "candidatesTokenCount": out, "totalTokenCount": tokens_in + out}
    usage |= {"cachedContentTokenCount": cached} if cached else {}
    texts: Sequence[str] = _pieces(number) if stream else [_text(number)]
    parts = [{"text": text} for text in texts] if number else [{"functionCall": {"name": "weather", "args": CITY}}]
    made = f"gemini_{next(_IDS)}"
    candidates = [{"index": 0, "content": {"role": "model", "parts": [part]}} for part in parts]
    answers = [{"candidates": [one], "modelVersion": "gemini-test", "responseId": made} for one in candidates]
    candidates[-1]["finishReason"] = "STOP"
    return [*answers[:-1], answers[-1] | {"usageMetadata": usage}]


FORMS = {
    "/chat/completions": (_chat, _chat_answer),
    "/responses": (_responses, _responses_answer),
    "/messages": (_anthropic, _anthropic_answer),
    "enerateContent": (_gemini, _gemini_answer),
}
"""How a request is read and answered, by the end of its path."""


def _text(number: int) -> str:
    return ("", GREY, "".join(PIECES))[number]


def _pieces(number: int) -> Sequence[str]:
    return PIECES if number == 2 else [_text(number)]


def _number(prompt: Sequence[Entry]) -> int:
    """Return which of the three calls a prompt is."""
    return 1 if "7 degrees" in prompt[-1][1] else 2 if ("assistant", GREY) in prompt else 0


class _Handler(BaseHTTPRequestHandler):
    calls: list[Call]

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        path = self.path.partition("?")[0]
        read, answer = next(form for end, form in FORMS.items() if path.endswith(end))
        prompt = tuple(read(request))
        number, stream = _number(prompt), bool(request.get("stream")) or "streamGenerate" in path
        said = called(CITY) if number == 0 else ("assistant", _text(number))
        self.calls.append(Call(prompt, said, TOKENS[number]))
        events = answer(number, stream, request)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if stream else "application/json")
        self.end_headers()
        for event in events:
            kind = f"event: {event['type']}\n" if "type" in event else ""
            self.wfile.write(f"{kind}data: {json.dumps(event)}\n\n".encode() if stream else json.dumps(event).encode())
        if stream and path.endswith("completions"):
            self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def listening(handler: type[BaseHTTPRequestHandler], **kept: Any) -> Iterator[str]:
    """Serve on loopback; the address. `kept`: attributes of the handler's class."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (handler,), kept))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def visited() -> Iterator[tuple[str, list[Call]]]:
    """Serve the model; its address, and the calls as they come."""
    calls: list[Call] = []
    with listening(_Handler, calls=calls) as url:
        yield url, calls

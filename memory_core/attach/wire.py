"""One call of an OpenAI-compatible endpoint, read from the bytes of its request and of its answer.

Pure. Headers never come here, so no key can be kept; of an endpoint's refusal only its code is, as some repeat the key.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from memory_core.errors import MessageError
from memory_core.events import Knowledge
from memory_core.formats.json_values import read_json, storable_value
from memory_core.formats.prompt_messages import read_items, read_message
from memory_core.messages import ChatMessage, MessageRole, ThinkingPart
from memory_core.tokens import reported

Endpoint = Literal["chat/completions", "responses", "embeddings"]
ENDPOINTS: tuple[Endpoint, ...] = ("chat/completions", "responses", "embeddings")
"""The paths whose calls are recorded; others are passed on only."""

_EVENT_END = re.compile(rb"\r?\n\r?\n")
_CODE = re.compile(r"[a-z0-9_.]{1,60}")


@dataclass(frozen=True, slots=True)
class Answered:
    """What came back: the status, and the body as far as it came."""

    status: int | None
    """None: nothing came."""
    body: bytes = b""
    seconds: float = 0.0
    problem: str | None = None
    """Why it is not whole, in words of this program."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One call of a model: the prompt, and what came of it."""

    purpose: str
    """`reply` or `embed`, as of `ModelCalled`."""
    model: str
    messages: tuple[ChatMessage, ...]
    """The prompt in its order; empty for embeddings."""
    answer: ChatMessage | None = None
    input_tokens: int | None = None
    """As the endpoint counted them."""
    output_tokens: int | None = None
    seconds: float = 0.0
    error: str | None = None
    known: Knowledge = "observed"
    """How the prompt is known."""
    span: str | None = None
    """Identity of the span that reports the call; None: it was seen itself."""
    sent: int | None = None
    """When it began, in microseconds since the epoch, as the span says."""
    captured: bool = True
    """Whether the words of the prompt are known; a span may report a call without them."""


def read_exchange(endpoint: Endpoint, request: bytes, answered: Answered) -> Exchange:
    """The call, whatever became of it.

    Raises:
        MessageError: the request is none of this endpoint's.
    """
    asked = _object(request)
    if asked is None:
        raise MessageError("the request is no JSON object")
    purpose = "embed" if endpoint == "embeddings" else "reply"
    said = Exchange(purpose, storable_value(str(asked.get("model") or "unknown"))[:200], _prompt(endpoint, asked))
    said = replace(said, seconds=answered.seconds, error=_problem(answered))
    if answered.status is None or answered.status >= 400:
        return said
    body = _object(answered.body)
    if body is None:
        events = list(_events(answered.body))
        body = _joined_chunks(events) if endpoint == "chat/completions" else _joined_events(events)
    usage = body.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    answer = None
    try:
        answer = _answer(endpoint, body)
    except MessageError as error:
        said = replace(said, error=said.error or f"its answer could not be read: {error}")
    return replace(
        said,
        answer=answer,
        input_tokens=reported(usage.get("prompt_tokens", usage.get("input_tokens"))),
        output_tokens=reported(usage.get("completion_tokens", usage.get("output_tokens"))),
    )


def _problem(answered: Answered) -> str | None:
    if answered.status is None or answered.status < 400:
        return answered.problem
    error = (_object(answered.body) or {}).get("error")
    named = [error.get(key) for key in ("code", "type")] if isinstance(error, dict) else []
    code = next((name for name in named if isinstance(name, str) and _CODE.fullmatch(name)), "")
    return " ".join(["the endpoint refused it:", str(answered.status), code]).rstrip()


# -- the request -----------------------------------------------------------------------------------


def _prompt(endpoint: Endpoint, asked: Mapping[str, Any]) -> tuple[ChatMessage, ...]:
    if endpoint == "embeddings":
        return ()
    if endpoint == "responses":
        front, given = asked.get("instructions"), asked.get("input")
        instructions = front if isinstance(front, list) else [{"role": "system", "content": front}] if front else []
        items = given if isinstance(given, list) else [] if given is None else [given]
        return tuple(read_items(storable_value([*instructions, *items])))
    given = asked.get("messages")
    if not isinstance(given, list):
        raise MessageError('the request has no list of "messages"')
    return tuple(message for entry in given for message in read_message(storable_value(entry)))


# -- the answer ------------------------------------------------------------------------------------


def _answer(endpoint: Endpoint, body: Mapping[str, Any]) -> ChatMessage | None:
    """What the model said, without its reasoning: that does not go into the next prompt, which is compared with it."""
    if endpoint == "embeddings":
        return None
    if endpoint == "chat/completions":
        choices = body.get("choices")
        first = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        message = first.get("message")
        found = read_message(storable_value(message)) if isinstance(message, dict) else []
    else:
        output = body.get("output")
        found = read_items(storable_value(output if isinstance(output, list) else []))
    said = next((each for each in reversed(found) if each.role is MessageRole.ASSISTANT), None)
    parts = [part for part in said.parts if not isinstance(part, ThinkingPart)] if said is not None else []
    return said.with_parts(parts) if said is not None and parts else None


def _events(body: bytes) -> Iterator[dict[str, Any]]:
    """The JSON objects of server-sent events; one that was cut off is left out."""
    for block in _EVENT_END.split(body):
        lines = [line[5:].strip() for line in block.splitlines() if line.startswith(b"data:")]
        if (event := _object(b"\n".join(lines))) is not None:
            yield event


def _joined_chunks(events: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The answer of chat completions that these pieces of its first choice make, as far as they came."""
    texts = {"content": "", "refusal": ""}
    calls: dict[int, dict[str, Any]] = {}
    usage: Any = None
    for event in events:
        usage = event.get("usage") or usage
        for choice in event.get("choices") or ():
            delta = choice.get("delta") or {}
            if choice.get("index", 0) != 0:
                continue
            for name in texts:
                texts[name] += delta.get(name) or ""
            for piece in delta.get("tool_calls") or ():
                call = calls.setdefault(piece.get("index", len(calls)), {"id": None, "name": "", "arguments": ""})
                call["id"] = piece.get("id") or call["id"]
                function = piece.get("function") or {}
                call["name"] += function.get("name") or ""
                call["arguments"] += function.get("arguments") or ""
    made = [
        {"id": call["id"], "function": {"name": call["name"], "arguments": call["arguments"]}}
        for _, call in sorted(calls.items())
        if call["name"]
    ]
    message = {"role": "assistant", **{name: text or None for name, text in texts.items()}, "tool_calls": made}
    return {"choices": [{"message": message}], "usage": usage}


def _joined_events(events: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The answer of the Responses API: its last event holds it whole; before that, the items and the text that came."""
    done: list[Any] = []
    text = ""
    for event in events:
        response = event.get("response")
        if event.get("type") in ("response.completed", "response.incomplete") and isinstance(response, dict):
            return response
        if event.get("type") == "response.output_item.done":
            done.append(event.get("item"))
            text = ""
        elif event.get("type") == "response.output_text.delta":
            text += str(event.get("delta") or "")
    cut_off = [{"type": "message", "role": "assistant", "content": text}] if text else []
    return {"output": [*done, *cut_off]}


def _object(data: bytes) -> dict[str, Any] | None:
    found = read_json(data)
    return found if isinstance(found, dict) else None

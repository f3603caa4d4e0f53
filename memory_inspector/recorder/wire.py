"""Parse one call of an endpoint like OpenAI's, Anthropic's or Gemini's from its request and response bytes.

Pure. Headers are never passed, so no API key is stored; of an error only the code is kept: its text may hold the key.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal, cast
from urllib.parse import unquote

from memory_core.errors import LimitError, MessageError
from memory_core.events import Knowledge
from memory_core.limits import MAX_VALUES, Budget
from memory_core.messages import ChatMessage, MessageRole
from memory_core.tokens import reported
from memory_inspector.files.located_json import read_json, storable_value
from memory_inspector.recorder.prompt_messages import (
    SUMMARISE,
    asks_for_summary,
    is_nobodys,
    read_blocks,
    read_items,
    read_message,
)
from memory_inspector.recorder.streamed_answer import (
    joined_blocks,
    joined_chunks,
    joined_events,
    joined_parts,
    objects_in,
    stream_events,
)

Endpoint = Literal["chat/completions", "responses", "embeddings", "messages", "generateContent"]
"""Recorded paths; calls to others are only forwarded."""
_PATH = re.compile(r"(?:(?:openai/)?deployments/([^/]+)/|openai/(?:v1/)?)?(chat/completions|responses|embeddings)")
"""Path of an endpoint like OpenAI's; Azure puts the model into the path, as a deployment."""
_GEMINI = re.compile(r"(?:v1(?:alpha|beta)/)?models/([^/:]+):(?:g|streamG)enerateContent")
"""Path of a call of Gemini's; it names the model."""
MAX_PROMPT_VALUES = 250_000
"""Maximum JSON values in a request with a prompt; a message takes some 3 KB of memory, even if short."""
MAX_PIECES = 900_000
"""Maximum lines, objects and lists in a stream, at up to four microseconds each. An answer of 128,000 tokens, one event
per token, has about 770,000."""
MAX_ENTRIES = 150_000
"""Maximum items, calls and parts in an answer, at up to 20 microseconds each; a tool call of 128,000 tokens has as many
pieces."""
_ANSWERS = frozenset({"choices", "output", "data", "embeddings", "embedding", "candidates"})
"""Fields of which every answer has at least one, but for Anthropic's."""
_TYPES = re.compile(r"response\.|message|content_block_")
"""Start of the types of a stream's events and, of Anthropic's, also of whole answers."""


def endpoint_of(path: str) -> tuple[Endpoint, str | None] | None:
    """Return the endpoint of a path, and the model that the path names; None if its calls are not recorded."""
    path = path.strip("/")
    if path == "messages":
        return "messages", None
    if match := _GEMINI.fullmatch(path):
        return "generateContent", unquote(match[1])
    match = _PATH.fullmatch(path)
    return None if match is None else (cast(Endpoint, match[2]), match[1] and unquote(match[1]))


@dataclass(frozen=True, slots=True)
class Answered:
    """A response: its status, and the body as far as it arrived."""

    status: int | None
    """HTTP status; None if nothing arrived."""
    body: bytes = b""
    seconds: float = 0.0
    problem: str | None = None
    """Reason the response is incomplete, in this program's words; None if it is complete."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A model call: its prompt and its outcome."""

    purpose: str
    """Purpose as in `ModelCalled`: `reply`, `embed`, or that of a call beside the conversation (see `callers`)."""
    model: str
    messages: tuple[ChatMessage, ...]
    """The prompt in order; empty for embeddings."""
    answer: ChatMessage | None = None
    input_tokens: int | None = None
    """Token count reported by the endpoint."""
    output_tokens: int | None = None
    cached_tokens: int | None = None
    """Tokens of the input that the endpoint read from its cache, as it reported them."""
    tools: str = ""
    """Definitions of the tools that were sent with the prompt, as JSON; empty without any."""
    seconds: float = 0.0
    error: str | None = None
    known: Knowledge = "observed"
    """Origin of the prompt: observed in the call, or reported by a span."""
    span: str | None = None
    """Deduplication key of the reporting span; None if the call was observed directly."""
    sent: int | None = None
    """Start time in microseconds since the epoch, from the span."""
    captured: bool = True
    """True if the prompt's text is known; spans may omit it."""
    compacted: bool = False
    """True if a compaction was reported with the call, or is in its prompt: a summary in place of earlier messages."""
    summaries: tuple[str, ...] = ()
    """Summaries of the conversation that other calls wrote beside it, which this prompt may hold."""


def read_exchange(
    endpoint: Endpoint, request: bytes | None, answered: Answered, *, deployment: str | None = None
) -> Exchange:
    """Parse a call, whatever its outcome. `request`: None if unreadable; then `deployment` names the model.

    Raises:
        MessageError: The request does not fit the endpoint.
    """
    most = MAX_VALUES if endpoint == "embeddings" else MAX_PROMPT_VALUES  # embedding inputs may be lists of token ids
    asked = {} if request is None else read_json(request, most)
    if not isinstance(asked, dict):
        raise MessageError(f"the request is no JSON object, or holds more than {most:,} values")
    prompt = () if request is None else _prompt(endpoint, asked)
    purpose = "embed" if endpoint == "embeddings" else SUMMARISE if asks_for_summary(prompt) else "reply"
    captured = request is not None or purpose == "embed"
    compacted = has_compaction(asked.get("input" if endpoint == "responses" else "messages"))
    exchange = Exchange(purpose, "unknown", prompt, seconds=answered.seconds, captured=captured, compacted=compacted)
    exchange = replace(exchange, tools=_tools(asked))
    try:
        answers = _answers(answered.body)
    except LimitError:
        answers = []
        problem = answered.problem or "its answer is in too many pieces to be read"
        answered = replace(answered, problem=problem)
    # The requested name first, as answers often name a dated variant of it.
    named = [asked.get("model"), deployment, *(answer.get("model") for answer in answers)]
    model = storable_value(str(next(filter(None, named), exchange.model)))[:200]
    exchange = replace(exchange, model=model, error=_problem(answered, answers))
    # An error's body is no answer, whatever fields it has.
    if answered.status is None or answered.status >= 400:
        return exchange
    # Joined before the counts are read, as each of Anthropic's events reports a part of the usage.
    if join := _JOINS.get(endpoint):
        answers = [join(answers)]
    answer = _answer(endpoint, answers)
    asked_tokens, written, cached = reported_tokens(answers)
    return replace(exchange, answer=answer, input_tokens=asked_tokens, output_tokens=written, cached_tokens=cached)


def _answers(body: bytes) -> list[dict[str, Any]]:
    """Return the answer, or the events of a stream.

    Raises:
        LimitError: It has too many pieces.
    """
    answers = objects_in(read_json(body))
    if not answers:
        Budget("answer", items=MAX_PIECES).take(items=sum(map(body.count, (b"\n", b"\r", b"{", b"["))))
        answers = list(stream_events(body))
    entries = Budget("answer", items=MAX_ENTRIES)
    for answer in answers:
        for holder in objects_in([answer, *(answer.get(name) for name in ("response", "item", "message"))]):
            choices = objects_in(holder.get("choices", holder.get("candidates")))
            messages = [choice.get(name) for choice in choices for name in ("delta", "message", "content")]
            for lists in objects_in([holder, *messages, *objects_in(holder.get("output"))]):
                entries.take(items=sum(len(value) for value in lists.values() if isinstance(value, list)))
    return answers


def _problem(answered: Answered, answers: list[dict[str, Any]]) -> str | None:
    if answered.status is None:
        return answered.problem
    if answered.status >= 400:
        refusal = next(filter(None, (failure_code(answer.get("error")) for answer in answers)), "")
        # Many endpoints repeat the status as the code.
        return f"the endpoint refused it: {answered.status} {refusal}".removesuffix(f" {answered.status}").rstrip()
    for answer in answers:
        if (code := reported_failure(answer)) is not None:
            return f"the endpoint reported a failure: {code}".removesuffix(": ")
    if answered.problem is None and not answers:
        return "its answer is neither JSON nor a stream of events"
    if answered.problem is None and all(
        _ANSWERS.isdisjoint(answer) and not _TYPES.match(str(answer.get("type"))) for answer in answers
    ):
        return "its answer is none of a model's"
    return answered.problem


# -- the request -----------------------------------------------------------------------------------


def _prompt(endpoint: Endpoint, asked: Mapping[str, Any]) -> tuple[ChatMessage, ...]:
    if endpoint == "embeddings":
        return ()
    if endpoint == "responses":
        front, entries = asked.get("instructions"), asked.get("input")
        instructions = front if isinstance(front, list) else [{"role": "system", "content": front}] if front else []
        items = entries if isinstance(entries, list) else [] if entries is None else [entries]
        return tuple(read_items(storable_value([*instructions, *items])))
    if endpoint == "generateContent":
        if not (contents := objects_in(asked.get("contents"))):
            raise MessageError('the request has no "contents"')
        fronts = objects_in(asked.get("systemInstruction", asked.get("system_instruction")))
        turns = [*({**front, "role": "system"} for front in fronts), *contents]
        return tuple(message for entry in turns for message in read_message(storable_value({"role": "user", **entry})))
    entries = asked.get("messages")
    if not isinstance(entries, list):
        raise MessageError('the request has no list of "messages"')
    if endpoint == "chat/completions":
        return tuple(message for entry in entries for message in read_message(storable_value(entry)))
    # A message for each block of the system prompt, so that one that changes with each call leaves the others known.
    front = asked.get("system")
    blocks = [[block] for block in front] if isinstance(front, list) else [front] if front else []
    system = [{"role": "system", "content": block} for block in blocks]
    return tuple(message for entry in [*system, *entries] for message in read_blocks(storable_value(entry)))


def _tools(asked: Mapping[str, Any]) -> str:
    """Return the definitions of tools as JSON, wherever a request has them."""
    defined = [asked.get("tools"), *(item.get("tools") for item in objects_in(asked.get("input")) if is_nobodys(item))]
    return json.dumps([storable_value(tools) for tools in defined if tools], ensure_ascii=False) if any(defined) else ""


def has_compaction(entries: Any) -> bool:
    """Return whether a compaction is among the entries of a prompt, or among their parts."""
    parts = (
        part for entry in objects_in(entries) for name in ("content", "parts") for part in objects_in(entry.get(name))
    )
    return any(part.get("type") == "compaction" for part in chain(objects_in(entries), parts))


# -- the answer ------------------------------------------------------------------------------------

_JOINS = {"messages": joined_blocks, "generateContent": joined_parts}
"""Functions that make one answer of a whole one and of a stream alike."""


def _answer(endpoint: Endpoint, answers: list[dict[str, Any]]) -> ChatMessage | None:
    """Return the answer with its reasoning in front, which later prompts have or omit."""
    if endpoint == "embeddings":
        return None
    whole = answers[0] if len(answers) == 1 else {}
    if endpoint == "chat/completions":
        choices = objects_in(whole.get("choices"))
        if not (choices and isinstance(choices[0].get("message"), dict)):
            choices = joined_chunks(answers)["choices"]
        messages = read_message(storable_value(choices[0]["message"])) if choices else []
    elif endpoint in _JOINS:
        messages = read_blocks(storable_value({"role": "assistant", "content": whole.get("content")}))
    else:
        output = whole.get("output")
        output = output if isinstance(output, list) else joined_events(answers)["output"]
        messages = read_items(storable_value(output))
    reply = next((message for message in reversed(messages) if message.role is MessageRole.ASSISTANT), None)
    return reply if reply is not None and reply.parts else None


# -- token counts and failures that an endpoint's answer reports ----------------------------------


_CODE = re.compile(r"[a-z0-9_.]{1,60}")
_NAMES = (
    ("prompt_tokens", "input_tokens"),
    ("completion_tokens", "output_tokens"),
    ("cached_tokens", "cache_read_input_tokens", "prompt_cache_hit_tokens"),
)
"""Names of each count: tokens of the prompt, of the answer, and of the prompt's part that a cache had."""


def reported_tokens(answers: Iterable[Mapping[str, Any]]) -> tuple[int | None, int | None, int | None]:
    """Return the tokens of the prompt, of the answer, and of the prompt's part that was read from a cache.

    Each is as reported last; None for a count that nothing reports.
    """
    tokens: list[int | None] = [None, None, None]
    for usage in (usage for answer in answers for usage in _usages(answer)):
        details = objects_in([usage.get(name) for name in ("prompt_tokens_details", "input_tokens_details")])
        usage = {**usage, **{name: count for entry in details for name, count in entry.items() if name in _NAMES[2]}}
        for n, names in enumerate(_NAMES):
            counts = [reported(usage.get(name)) for name in names]
            count = next((value for value in counts if value is not None), None)
            tokens[n] = count or tokens[n] or count  # some events report zero before or after the real count
    return tokens[0], tokens[1], tokens[2]


def _usages(answer: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the `usage` objects of the answer, of an object it wraps, an extension (Groq) or choices (Moonshot)."""
    extensions = [value for name, value in answer.items() if str(name).startswith("x_")]
    for holder in objects_in([answer, answer.get("response"), answer.get("message"), *extensions]):
        yield from objects_in(holder.get("usage"))
    for choice in objects_in(answer.get("choices")):
        for holder in objects_in([choice, choice.get("delta"), choice.get("message")]):
            yield from objects_in(holder.get("usage"))


def reported_failure(answer: Mapping[str, Any]) -> str | None:
    """Return the code of a failure reported by an answer or event: "" without a code, None without a failure.

    The message is dropped, as some endpoints repeat the API key in it.
    """
    response = answer.get("response")
    if isinstance(response, dict) and (code := reported_failure(response)) is not None:
        return code
    if error := answer.get("error"):
        return failure_code(error)
    if "error" in (answer.get("type"), answer.get("object")):
        return failure_code(answer)
    if answer.get("type") == "response.failed" or answer.get("status") == "failed":
        return ""
    of_minimax = answer.get("base_resp")
    if isinstance(of_minimax, dict) and of_minimax.get("status_code"):
        return failure_code({"code": of_minimax["status_code"]})
    for choice in objects_in(answer.get("choices")):
        if choice.get("error") or choice.get("finish_reason") == "error":
            return failure_code(choice.get("error"))
    return None


def failure_code(error: Any) -> str:
    """Return an error's code or type; "" if it is not a number or a short word."""
    named = [str(error.get(key)) for key in ("code", "type") if error.get(key)] if isinstance(error, Mapping) else []
    return next((name for name in named if _CODE.fullmatch(name) and name != "error"), "")

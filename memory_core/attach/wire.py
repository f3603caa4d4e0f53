"""One call of an OpenAI-compatible endpoint, read from the bytes of its request and of its answer.

Pure. Headers never come here, so no key can be kept; of an endpoint's refusal only its code is, as some repeat the key.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast
from urllib.parse import unquote

from memory_core.attach.answer_report import failure_code, reported_failure, reported_tokens
from memory_core.attach.streamed_answer import joined_chunks, joined_events, objects_in, stream_events
from memory_core.errors import LimitError, MessageError
from memory_core.events import Knowledge
from memory_core.formats.json_values import read_json, storable_value
from memory_core.formats.prompt_messages import read_items, read_message
from memory_core.limits import MAX_VALUES, Budget
from memory_core.messages import ChatMessage, MessageRole, ThinkingPart

Endpoint = Literal["chat/completions", "responses", "embeddings"]
"""The paths whose calls are recorded; others are passed on only."""
_PATH = re.compile(r"(?:(?:openai/)?deployments/([^/]+)/|openai/(?:v1/)?)?(chat/completions|responses|embeddings)")
"""Azure names the model in the path, as a deployment."""
MAX_PROMPT_VALUES = 250_000
"""JSON values of a request with a prompt: a message takes some 3 KB of memory, however short it is."""
MAX_PIECES = 900_000
"""Lines, objects and lists of a stream, up to four microseconds each: an answer of 128,000 tokens, each an event with
all that endpoints write around it, has 770,000."""
MAX_ENTRIES = 150_000
"""Items, calls and parts of an answer, up to 20 microseconds each; a call of 128,000 tokens comes in as many."""
_ANSWERS = frozenset({"choices", "output", "data", "embeddings", "embedding"})
"""Fields of which one is in every answer of these endpoints."""


def endpoint_of(path: str) -> tuple[Endpoint, str | None] | None:
    """The endpoint that a path names, and the deployment in it; None where its calls are not recorded."""
    found = _PATH.fullmatch(path.strip("/"))
    return None if found is None else (cast(Endpoint, found[2]), found[1] and unquote(found[1]))


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


def read_exchange(
    endpoint: Endpoint, request: bytes | None, answered: Answered, *, deployment: str | None = None
) -> Exchange:
    """The call, whatever became of it. `request`: None where it cannot be read; `deployment` names its model then.

    Raises:
        MessageError: the request is none of this endpoint's.
    """
    most = MAX_VALUES if endpoint == "embeddings" else MAX_PROMPT_VALUES  # texts may be sent as lists of tokens
    asked = {} if request is None else read_json(request, most)
    if not isinstance(asked, dict):
        raise MessageError(f"the request is no JSON object, or holds more than {most:,} values")
    purpose = "embed" if endpoint == "embeddings" else "reply"
    prompt = () if request is None else _prompt(endpoint, asked)
    captured = request is not None or purpose == "embed"
    said = Exchange(purpose, "unknown", prompt, seconds=answered.seconds, captured=captured)
    try:
        answers = _answers(answered.body)
    except LimitError:
        answers = []
        problem = answered.problem or "its answer is in too many pieces to be read"
        answered = replace(answered, problem=problem)
    named = [asked.get("model"), deployment, *(answer.get("model") for answer in answers)]
    model = storable_value(str(next(filter(None, named), said.model)))[:200]
    said = replace(said, model=model, error=_problem(answered, answers))
    if answered.status is None or answered.status >= 400:
        return said
    input_tokens, output_tokens = reported_tokens(answers)
    answer = _answer(endpoint, answers)
    return replace(said, answer=answer, input_tokens=input_tokens, output_tokens=output_tokens)


def _answers(body: bytes) -> list[dict[str, Any]]:
    """Return the answer, or the events of a stream.

    Raises:
        LimitError: it is in more pieces than are read.
    """
    answers = objects_in(read_json(body))
    if not answers:
        Budget("answer", items=MAX_PIECES).take(items=sum(map(body.count, (b"\n", b"\r", b"{", b"["))))
        answers = list(stream_events(body))
    entries = Budget("answer", items=MAX_ENTRIES)
    for answer in answers:
        for holder in objects_in([answer, answer.get("response"), answer.get("item")]):
            choices = objects_in(holder.get("choices"))
            messages = [choice.get(name) for choice in choices for name in ("delta", "message")]
            for lists in objects_in([holder, *messages, *objects_in(holder.get("output"))]):
                entries.take(items=sum(len(value) for value in lists.values() if isinstance(value, list)))
    return answers


def _problem(answered: Answered, answers: list[dict[str, Any]]) -> str | None:
    if answered.status is None:
        return answered.problem
    if answered.status >= 400:
        refusal = next(filter(None, (failure_code(answer.get("error")) for answer in answers)), "")
        return f"the endpoint refused it: {answered.status} {refusal}".removesuffix(f" {answered.status}").rstrip()
    for answer in answers:
        if (code := reported_failure(answer)) is not None:
            return f"the endpoint reported a failure: {code}".removesuffix(": ")
    if answered.problem is None and not answers:
        return "its answer is neither JSON nor a stream of events"
    if answered.problem is None and all(
        _ANSWERS.isdisjoint(answer) and not str(answer.get("type")).startswith("response.") for answer in answers
    ):
        return "its answer is none of a model's"
    return answered.problem


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


def _answer(endpoint: Endpoint, answers: list[dict[str, Any]]) -> ChatMessage | None:
    """What the model said, without its reasoning: that does not go into the next prompt, which is compared with it."""
    if endpoint == "embeddings":
        return None
    whole = answers[0] if len(answers) == 1 else {}
    if endpoint == "chat/completions":
        choices = objects_in(whole.get("choices"))
        if not (choices and isinstance(choices[0].get("message"), dict)):
            choices = joined_chunks(answers)["choices"]
        found = read_message(storable_value(choices[0]["message"])) if choices else []
    else:
        output = whole.get("output")
        output = output if isinstance(output, list) else joined_events(answers)["output"]
        found = read_items(storable_value(output))
    said = next((each for each in reversed(found) if each.role is MessageRole.ASSISTANT), None)
    parts = [part for part in said.parts if not isinstance(part, ThinkingPart)] if said is not None else []
    return said.with_parts(parts) if said is not None and parts else None

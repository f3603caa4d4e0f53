"""Chat model at any OpenAI-compatible address, through chat completions.

Only `/chat/completions` is used, because every such server supports it. `endpoint.py` holds the
address, the key and the errors; `structured.py` reads structured answers.
"""

import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from memory_core.errors import ConfigError, ModelAnswerError, ModelRequestError, ModelUnreachableError
from memory_core.formats.openai_message import to_openai
from memory_core.messages import ChatMessage, ToolCallPart, decode_arguments
from memory_core.models.endpoint import Endpoint, model_error, transport_errors
from memory_core.models.protocols import Answer, ModelCall, ToolSpec, json_schema, whole_reply
from memory_core.models.structured import instruction, parse_answer
from memory_core.text import Characters, whole_characters
from memory_core.tokens import reported

DEFAULT_MODEL = "gpt-4o-mini"
_RUNGS = ("json_schema", "json_object", "text")
"""Ways to ask for a structured answer, best first."""
_FORM_WORDS = ("response_format", "json_schema", "json_object", "json mode", "structured output", "grammar")
_STREAM_WORDS = ("stream_options", "include_usage")
_NO_TOOLS = re.compile(
    r"\b(?:tools?|functions?)\b.{0,80}\b(?:not support|unsupported|not (?:allowed|permitted|available)|requires?)"
    r"|\b(?:not support|unsupported|unknown|unrecogni[sz]ed|unexpected|extra|no endpoints)"
    r".{0,80}\b(?:tools?|functions?)\b",
    re.IGNORECASE | re.DOTALL,
)
"""Error texts of endpoints that do not support tools."""
LONGEST_REPLY = 2_000_000
"""Maximum characters of a streamed reply, arguments of tool calls included: four times what models can give at once."""


def _to_tool(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": function}


class OpenAIChat:
    """A model at an OpenAI-compatible address. Safe to share between threads.

    Args:
        base_url, api_key: None or "" means `OPENAI_BASE_URL` and `OPENAI_API_KEY`.
        timeout_seconds: seconds without data after which the endpoint counts as not answering.
        max_retries: further attempts after a lost connection or an HTTP status 408, 409, 429 or 5xx.
        prices: US dollars per million input and output tokens; None leaves costs unknown.
    """

    offline = False

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout_seconds: float = 60,
        max_retries: int = 1,
        prices: tuple[float, float] | None = None,
    ) -> None:
        if not model:
            raise ConfigError(f"the name of a model must not be empty: {model=}")
        self._model = model
        self._prices = prices
        self.endpoint = Endpoint(base_url, api_key, timeout_seconds=timeout_seconds, max_retries=max_retries)
        self._rung = 0
        self._sends_stream_options = True

    @classmethod
    def from_environment(cls) -> "OpenAIChat | None":
        """Return a model by `OPENAI_API_KEY`, `OPENAI_BASE_URL` and `OPENAI_MODEL`; None if the first two are empty."""
        if not (os.environ.get("OPENAI_API_KEY", "").strip() or os.environ.get("OPENAI_BASE_URL", "").strip()):
            return None
        return cls(os.environ.get("OPENAI_MODEL", "").strip() or DEFAULT_MODEL)

    @property
    def name(self) -> str:
        return self._model

    def __repr__(self) -> str:
        return f"OpenAIChat({self._model!r}, {self.endpoint.address!r})"

    def close(self) -> None:
        """Close the connections; the next call reopens them."""
        self.endpoint.close()

    def stream(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec] = ()) -> "OpenAIStream":
        """Start a reply; when this returns, the endpoint has accepted the request.

        Raises:
            ModelRequestError: the endpoint or this model takes no tools, and some were offered.
            ModelError: the endpoint does not answer or refuses.
        """
        try:
            return self._stream(messages, tools)
        except ModelRequestError as error:
            if tools and _NO_TOOLS.search(f"{error} {error.__cause__}"):
                raise ModelRequestError(
                    f'"{self._model}" at {self.endpoint.host} takes no tools, so it cannot edit its memory. '
                    "Choose a model that calls tools, or make the blocks read only for the agent."
                ) from error
            raise

    def _stream(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]) -> "OpenAIStream":
        started = time.monotonic()
        request: dict[str, Any] = {"model": self._model, "messages": to_openai(messages), "stream": True}
        if tools:
            request["tools"] = [_to_tool(tool) for tool in tools]
        usage = {"stream_options": {"include_usage": True}}
        # Some servers refuse unknown fields; usage is then unknown, but replies work.
        if self._sends_stream_options:
            try:
                return OpenAIStream(self, self._create(**request, **usage), started)
            except ModelRequestError as error:
                # A refusal for another reason must not switch off the usage for good.
                if not _mentions(error, _STREAM_WORDS):
                    raise
                self._sends_stream_options = False
        return OpenAIStream(self, self._create(**request), started)

    def reply(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec] = ()) -> ChatMessage:
        """Return a whole reply as one message. Raises as `stream` does."""
        return whole_reply(self, messages, tools)

    def ask(self, messages: Sequence[ChatMessage], answer: type[Answer], *, purpose: str) -> tuple[Answer, ModelCall]:
        """Ask for an answer of type `answer`, by the best method that this endpoint is known to support.

        Raises:
            ModelAnswerError: the answer is empty, cut off, a refusal, or does not fit `answer`.
            ModelError: the endpoint does not answer or refuses.
        """
        started = time.monotonic()
        while True:
            # Read once, as another thread may change it during this request.
            rung = self._rung
            try:
                completion = self._create(**self._structured_request(messages, answer, _RUNGS[rung]))
                break
            except ModelRequestError as error:
                if rung + 1 == len(_RUNGS) or not _mentions(error, _FORM_WORDS):
                    raise
                # Remembered for later calls, and never raised again by a thread that began earlier.
                self._rung = max(self._rung, rung + 1)
        # Compatible servers may send bodies without the fields that the client's types promise.
        choices = getattr(completion, "choices", None)
        if not choices or getattr(choices[0], "message", None) is None:
            raise ModelAnswerError(f"{self.endpoint.host} sent an answer without any text.")
        message = choices[0].message
        _check_finish(choices[0].finish_reason, getattr(message, "refusal", None))
        parsed = parse_answer(str(message.content or ""), answer)
        return parsed, self.call_of(purpose, completion.usage, started)

    def call_of(self, purpose: str, usage: Any, started: float) -> ModelCall:
        """Return the finished call with the usage that the endpoint reported; `started` is a `time.monotonic` value."""
        input_tokens = reported(getattr(usage, "prompt_tokens", None))
        output_tokens = reported(getattr(usage, "completion_tokens", None))
        cost = None
        # A cost from half of the usage would be too low, and unknown is not 0.
        if self._prices is not None and input_tokens is not None and output_tokens is not None:
            cost = (input_tokens * self._prices[0] + output_tokens * self._prices[1]) / 1_000_000
        return ModelCall(purpose, self._model, input_tokens, output_tokens, time.monotonic() - started, cost)

    def _structured_request(self, messages: Sequence[ChatMessage], answer: type[Answer], rung: str) -> dict[str, Any]:
        sent = to_openai(messages)
        request: dict[str, Any] = {"model": self._model, "messages": sent}
        if rung == "json_schema":
            schema = {"name": answer.__name__, "schema": json_schema(answer), "strict": True}
            return request | {"response_format": {"type": "json_schema", "json_schema": schema}}
        # Without a schema in the request, the form has to be asked for in words.
        sent.append({"role": "user", "content": instruction(answer)})
        return request | ({"response_format": {"type": "json_object"}} if rung == "json_object" else {})

    def _create(self, **request: Any) -> Any:
        """Call the endpoint, and translate its errors into `ModelError`s."""
        client = self.endpoint.client()
        import openai

        try:
            return client.chat.completions.create(**request)
        except (openai.OpenAIError, ValueError) as error:
            raise model_error(error, self.endpoint, model=self._model) from error


class OpenAIStream:
    """Stream of one reply's text pieces. To be read by one thread; closing it stops the HTTP call."""

    def __init__(self, chat: OpenAIChat, chunks: Any, started: float) -> None:
        self.call: ModelCall | None = None
        self.tool_calls: tuple[ToolCallPart, ...] = ()
        self._chat = chat
        self._chunks = chunks
        self._started = started
        self._closed = False

    def close(self) -> None:
        self._closed = True
        self._chunks.close()

    def __iter__(self) -> Iterator[str]:
        """Yield the pieces of text as they arrive.

        Raises:
            ModelAnswerError: the reply is empty, cut off or a refusal.
            ModelError: the connection broke.
        """
        endpoint = self._chat.endpoint
        usage = finish = None
        # Collected over all pieces, as a refusal is streamed as well.
        refusal = ""
        heard = spoke = False
        calls, characters, length = _StreamedCalls(), Characters(), 0
        try:
            for chunk in self._read():
                heard = True
                usage = getattr(chunk, "usage", None) or usage
                # One choice was asked for; a chunk with the usage alone has none.
                for choice in (getattr(chunk, "choices", None) or [])[:1]:
                    finish = choice.finish_reason or finish
                    refused = getattr(choice.delta, "refusal", None) or ""
                    piece = getattr(choice.delta, "content", None) or ""
                    # Arguments count too, so that endless calls end as endless text does.
                    length += len(refused) + len(piece) + calls.add(getattr(choice.delta, "tool_calls", None) or ())
                    if length > LONGEST_REPLY:
                        raise ModelAnswerError(
                            f"The reply did not end within {LONGEST_REPLY:,} characters. Nothing of it was kept: set a "
                            "limit for answers at the endpoint, or choose another model."
                        )
                    refusal += refused
                    # An emoji may be cut between two pieces: its half waits for the rest.
                    if piece := characters.add(piece):
                        spoke = spoke or bool(piece.strip())
                        yield piece
            if rest := characters.rest():
                yield rest
            stopped = self._closed
        finally:
            self.close()
        # The caller closed the stream: the missing end is no error, and the call is not complete.
        if stopped:
            return
        self.call = self._chat.call_of("reply", usage, self._started)
        _check_finish(finish, refusal)
        if not heard:
            raise ModelAnswerError(f"{endpoint.address} did not answer with a stream. Check the address.")
        # Some servers just close the connection when they fail; half an answer must not pass for a whole one.
        if finish is None:
            raise ModelUnreachableError(
                f"{endpoint.host} closed the connection before the answer was complete. Try again."
            )
        # Calls without text are an answer, blanks alone are not.
        if not spoke and not calls.whole():
            raise ModelAnswerError("The model gave an empty answer.")
        self.tool_calls = calls.whole()

    def _read(self) -> Iterator[Any]:
        """Yield the chunks; translate the endpoint's errors, and end quietly when this stream was closed."""
        import openai

        if self._closed:
            return
        failures: tuple[type[Exception], ...] = (openai.OpenAIError, ValueError, RuntimeError, *transport_errors())
        try:
            yield from self._chunks
        except failures as error:  # RuntimeError: the stream was closed
            if self._closed:
                return
            raise model_error(error, self._chat.endpoint, model=self._chat.name, started=True) from error


@dataclass(slots=True)
class _StreamedCall:
    index: int | None
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    decoded: dict[str, Any] | None = None
    """Arguments sent as an object instead of text; None if there are none."""


class _StreamedCalls:
    """Tool calls assembled from pieces by their index, or by their id where an endpoint gives all the same index."""

    def __init__(self) -> None:
        self._calls: list[_StreamedCall] = []

    def add(self, pieces: Iterable[Any]) -> int:
        """Add the pieces of one event; return the number of characters of arguments in them."""
        length = 0
        for piece in pieces:
            function = getattr(piece, "function", None)
            id, name = str(getattr(piece, "id", None) or ""), str(getattr(function, "name", None) or "")
            call = self._meant(getattr(piece, "index", None), id, name)
            # Later pieces of a call repeat its id and name, or leave them empty.
            call.id = call.id or id
            call.name = call.name or name
            arguments = getattr(function, "arguments", None)
            if isinstance(arguments, str):
                call.arguments.append(arguments)
                length += len(arguments)
            # Some servers send the arguments as an object, though the API has them as text.
            elif isinstance(arguments, dict):
                call.decoded = arguments
        return length

    def _meant(self, index: int | None, id: str, name: str) -> _StreamedCall:
        last = next((call for call in reversed(self._calls) if index is None or call.index == index), None)
        # Servers without a useful index mark a new call by a new id, or by a name without an index.
        another = last is not None and bool(
            (id and last.id and id != last.id) or (index is None and name and last.name)
        )
        if last is None or another:
            last = _StreamedCall(index)
            self._calls.append(last)
        return last

    def whole(self) -> tuple[ToolCallPart, ...]:
        """Return the calls in order; arguments that are no JSON object are kept as text."""
        return tuple(
            ToolCallPart(
                tool_call_id=call.id or None,
                tool_name=call.name,
                tool_kwargs=decode_arguments(call.decoded or whole_characters("".join(call.arguments)).strip()),
            )
            for call in self._calls
        )


def _check_finish(reason: str | None, refusal: str | None) -> None:
    # The refusal first: its finish reason says nothing more.
    if refusal:
        raise ModelAnswerError(f"The model refused: {' '.join(refusal.split())[:300]}")
    if reason == "length":
        raise ModelAnswerError("The answer was cut off at the model's output limit. Ask for less, or raise the limit.")
    if reason == "content_filter":
        raise ModelAnswerError("The endpoint's content filter stopped the answer.")


def _mentions(error: Exception, words: Sequence[str]) -> bool:
    text = str(error).lower()
    return any(word in text for word in words)

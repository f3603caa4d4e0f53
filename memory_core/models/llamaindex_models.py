"""LlamaIndex's chat and embedding models behind this engine's protocols. LlamaIndex is never imported here."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory_core.errors import (
    EmbedderError,
    ModelAnswerError,
    ModelError,
    ModelRequestError,
    ModelUnreachableError,
    user_message,
)
from memory_core.formats.llamaindex_message import message_to_llamaindex
from memory_core.messages import ChatMessage, MessageRole, ToolCallPart
from memory_core.models.embedding import MeasuredEmbedder, Rows, unit_rows
from memory_core.models.protocols import Answer, ModelCall, ToolSpec, whole_reply
from memory_core.models.structured import instruction, parse_answer
from memory_core.tokens import reported

_LLM = "llama_index.core.base.llms.base", "BaseLLM"
_EMBEDDING = "llama_index.core.base.embeddings.base", "BaseEmbedding"
_PROMPT = "llama_index.core.prompts.base", "BasePromptTemplate"


def wrapped(value: Any) -> Any:
    """Return a model of LlamaIndex wrapped in the protocol that it fits; any other value unchanged."""
    if _is(value, _LLM):
        return LlamaIndexChat(value)
    return LlamaIndexEmbedder(value) if _is(value, _EMBEDDING) else value


def template_text(value: Any, variables: Sequence[str]) -> Any:
    """Return a prompt template of LlamaIndex as one text, each variable in braces; any other value unchanged."""
    if not _is(value, _PROMPT):
        return value
    # Each variable stands for itself, so that the engine can fill it in later.
    formatted = value.format_messages(**{name: f"{{{name}}}" for name in variables})
    return "\n\n".join(str(message.content) for message in formatted if message.content)


def _is(value: Any, of: tuple[str, str]) -> bool:
    """Return whether `value` has the class `of` (module, name). Imports nothing: an instance has its module loaded."""
    module = sys.modules.get(of[0])
    return module is not None and isinstance(value, getattr(module, of[1]))


class LlamaIndexChat:
    """An LLM of LlamaIndex as a `ChatModel`, for learning and replies; tools are refused."""

    offline = False

    def __init__(self, llm: Any) -> None:
        self.llm = llm

    @property
    def name(self) -> str:
        return str(self.llm.metadata.model_name)

    def __repr__(self) -> str:
        return f"LlamaIndexChat({type(self.llm).__name__}, {self.name!r})"

    def stream(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec] = ()) -> "LlamaIndexReply":
        """Start a reply.

        Raises:
            ModelRequestError: tools are offered.
            ModelError: the model fails.
        """
        # Refused instead of ignored: an agent that silently cannot edit looks like a forgetful one.
        if tools:
            raise ModelRequestError(
                f'"{self.name}" is called through LlamaIndex and offered no tools. Use OpenAIChat for an agent that '
                "edits its memory."
            )
        started = time.monotonic()
        with _their_errors(self.llm, self.name):
            return LlamaIndexReply(self, self.llm.stream_chat(_theirs(messages)), started)

    def reply(self, messages: Sequence[ChatMessage]) -> ChatMessage:
        """Return a whole reply as one message. Raises as `stream` does."""
        return whole_reply(self, messages)

    def ask(self, messages: Sequence[ChatMessage], answer: type[Answer], *, purpose: str) -> tuple[Answer, ModelCall]:
        """Ask for an answer of the class `answer`, and parse it from the model's text.

        Raises:
            ModelAnswerError: the answer is empty or does not fit that class.
            ModelError: the model fails.
        """
        started = time.monotonic()
        # The form is asked for in words, which every LLM of LlamaIndex takes.
        question = [*messages, ChatMessage(instruction(answer), role=MessageRole.USER)]
        with _their_errors(self.llm, self.name):
            reply = self.llm.chat(_theirs(question))
            text, raw = reply.message.content or "", reply.raw
        return parse_answer(text, answer), self.call_of(purpose, raw, started)

    def call_of(self, purpose: str, raw: Any, started: float) -> ModelCall:
        """Return the finished call, with the usage that the endpoint reported in OpenAI's form."""
        usage = _field(raw, "usage")
        tokens = [reported(_field(usage, name)) for name in ("prompt_tokens", "completion_tokens")]
        return ModelCall(purpose, self.name, tokens[0], tokens[1], time.monotonic() - started)


class LlamaIndexReply:
    """Stream of one reply's text pieces; `call` is set when it ends."""

    tool_calls: tuple[ToolCallPart, ...] = ()

    def __init__(self, chat: LlamaIndexChat, pieces: Any, started: float) -> None:
        self.call: ModelCall | None = None
        self._chat, self._pieces, self._started = chat, pieces, started

    def __iter__(self) -> Iterator[str]:
        raw, spoke = None, False
        with _their_errors(self._chat.llm, self._chat.name):
            for piece in self._pieces:
                # Usage comes with the last piece, if at all.
                raw = piece.raw or raw
                if piece.delta:
                    spoke = spoke or bool(piece.delta.strip())
                    yield piece.delta
        # An empty reply would be stored as if the model had answered.
        if not spoke:
            raise ModelAnswerError("The model gave an empty answer.")
        self.call = self._chat.call_of("reply", raw, self._started)

    def close(self) -> None:
        close = getattr(self._pieces, "close", None)
        if callable(close):
            close()


class LlamaIndexEmbedder(MeasuredEmbedder):
    """An embedding model of LlamaIndex as an `Embedder`. Questions are embedded like other texts."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self._name = model.model_name

    def __repr__(self) -> str:
        return f"LlamaIndexEmbedder({type(self.model).__name__}, {self.model.model_name!r})"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return unit vectors, shape `(len(texts), dimensions)`.

        Raises:
            EmbedderError: the model fails, or returns something other than vectors.
        """
        return self._memo.of(texts, lambda new: unit_rows(self._vectors(new)))

    def _vectors(self, texts: Sequence[str]) -> Rows:
        try:
            with _their_errors(self.model, self.model.model_name):
                rows = np.asarray(self.model.get_text_embedding_batch(list(texts)), dtype=np.float32)
        except ModelError as error:
            raise EmbedderError(str(error)) from error
        if rows.ndim != 2 or len(rows) != len(texts) or not np.isfinite(rows).all():
            raise EmbedderError(f'"{self.model.model_name}" did not give one vector per text.')
        return rows


@contextmanager
def _their_errors(model: Any, name: str) -> Iterator[None]:
    """Translate errors of LlamaIndex's clients into `ModelError`s, without the key."""
    try:
        yield
    # Raised inside by this engine, with its own message.
    except ModelError:
        raise
    # Every client of LlamaIndex has errors of its own, so no narrower class would do.
    except Exception as error:
        key = getattr(model, "api_key", None)
        # Some clients hold the key as a pydantic secret.
        key = getattr(key, "get_secret_value", lambda: key)()
        words = " ".join(user_message(error, secret=key if isinstance(key, str) else "").split())[:300]
        raise ModelUnreachableError(f'"{name}" failed: {words}') from error


def _theirs(messages: Sequence[ChatMessage]) -> list[Any]:
    from llama_index.core.base.llms.types import ChatMessage as Theirs

    return [Theirs.model_validate(message_to_llamaindex(message)) for message in messages]


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)

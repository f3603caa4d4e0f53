"""Protocols of chat models, embedders and learners, and the values they exchange with the engine.

No vendor's name is used here. Clients have their own modules and turn vendor errors into
`memory_core.errors.ModelError`s.
"""

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from memory_core.errors import EmbedderError
from memory_core.events import NothingReason
from memory_core.formats.openai_message import to_openai
from memory_core.messages import ChatMessage, MessageRole, Part, TextPart, ToolCallPart, content_hash
from memory_core.planning.consolidation import Decision as Decision
from memory_core.planning.consolidation import FactCandidate as FactCandidate
from memory_core.planning.fact_merging import CondensedFact as CondensedFact
from memory_core.planning.fact_merging import ExtractedFact as ExtractedFact

Answer = TypeVar("Answer", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class ModelOutput:
    """Model's answer, keyed by a hash of its input (`learners.input_key`)."""

    key: str
    text: str
    readable: bool = True
    """True if the answer was in the requested form; if not, `text` says why."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """Finished call of a model, as reported by the endpoint; unknown values are None, never 0."""

    purpose: str
    """`reply`, `extract`, `condense`, `decide`, `summarise` or `relate`."""
    model: str
    input_tokens: int | None
    output_tokens: int | None
    seconds: float
    cost: float | None = None
    """US dollars; None where the price is unknown."""
    output: ModelOutput | None = field(default=None, compare=False, repr=False)
    """Answer of a learner's model, to be stored; None for replies."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """Description of a tool for a model."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON schema of the tool's arguments, which form an object."""


class ReplyStream(Protocol):
    """Text pieces of one reply, in order; closing it stops the call."""

    call: ModelCall | None
    """Set once the reply is complete."""
    tool_calls: tuple[ToolCallPart, ...]
    """Calls of tools, set once the reply is complete; empty where no tools were offered."""

    def __iter__(self) -> Iterator[str]: ...

    def close(self) -> None: ...


class Model(Protocol):
    """Base protocol of all models: a display name, and whether it works offline, by rules."""

    @property
    def name(self) -> str: ...

    @property
    def offline(self) -> bool: ...


@runtime_checkable
class ChatModel(Model, Protocol):
    """Model that answers a conversation.

    Every method raises `ModelError`, and nothing else, for failures of the model or the network.
    """

    def stream(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec] = ()) -> ReplyStream:
        """Start a reply in which the model may call `tools`. The first error may be raised here or while iterating."""
        ...

    def ask(self, messages: Sequence[ChatMessage], answer: type[Answer], *, purpose: str) -> "tuple[Answer, ModelCall]":
        """Ask for an answer as an instance of the pydantic class `answer`.

        Raises:
            ModelAnswerError: the answer is empty or does not fit that class.
        """
        ...


def whole_reply(chat: ChatModel, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec] = ()) -> ChatMessage:
    """Return a whole reply as one message, tool calls included.

    Raises:
        ModelError: the model fails.
    """
    # Calls are complete only when the text has been read to its end.
    stream = chat.stream(messages, tools)
    text = "".join(stream)
    parts: list[Part] = [TextPart(text=text)] if text else []
    return ChatMessage(role=MessageRole.ASSISTANT, parts=[*parts, *stream.tool_calls])


@dataclass(frozen=True, slots=True)
class NothingFound:
    """Reason why a learner found nothing in a message."""

    code: NothingReason
    known: str | None = None
    """Text of the known fact that says the same, as it was passed to the learner; None if the reason is another one."""
    said: str = ""
    """The model's short reason; if `code` is `language`, the name of the language."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """Result of one extraction from a batch of messages."""

    facts: tuple[ExtractedFact, ...]
    calls: tuple[ModelCall, ...] = ()
    nothing: Mapping[int, NothingFound] = field(default_factory=dict)
    """Reasons why a message gave no fact, by its index in the batch, if the extractor knows."""
    refused: tuple[str, ...] = ()
    """Reasons for which proposals of the model were left out, a sentence each."""


@dataclass(frozen=True, slots=True)
class Condensation:
    """A condensed list of facts, with the model calls made for it."""

    facts: tuple[CondensedFact, ...]
    calls: tuple[ModelCall, ...] = ()


@runtime_checkable
class FactExtractor(Model, Protocol):
    """Learner that finds facts in messages, and shortens a list of facts that has grown too long."""

    def extract(self, messages: Sequence[ChatMessage], *, known: Sequence[str]) -> Extraction:
        """Return the new facts in `messages`; those in `known` need not be repeated."""
        ...

    def condense(self, facts: Sequence[str], *, pinned: Sequence[int], target: int) -> Condensation:
        """Return at most `target` facts in place of `facts`; those at the `pinned` indexes stay word for word."""
        ...


@dataclass(frozen=True, slots=True)
class LearningContext:
    """Messages and facts that a learner is shown to understand the messages by that it learns from."""

    lines: tuple[tuple[int, ChatMessage], ...] = ()
    """Other messages in order, each with the number of messages of the batch that come before it."""
    facts: tuple[str, ...] = ()
    """Known facts; what says them again is noted again."""


@runtime_checkable
class Contextual(Protocol):
    """Learner that can be shown a context. It learns nothing from it."""

    def with_context(self, context: LearningContext) -> "Contextual":
        """Return a copy of this learner that is shown `context`."""
        ...


@runtime_checkable
class Categorising(Protocol):
    """Extractor that assigns facts to given categories."""

    def under(self, categories: Sequence[str]) -> FactExtractor:
        """Return a copy of this extractor with these categories."""
        ...


@runtime_checkable
class Promptable(Protocol):
    """Extractor whose prompts can be replaced."""

    def with_prompts(self, *, extract: str | None, condense: str | None) -> FactExtractor:
        """Return a copy of this extractor with these prompts; None keeps the present one."""
        ...


@dataclass(frozen=True, slots=True)
class Proposal:
    """An extracted fact with the known facts nearest to it, nearest first."""

    fact: ExtractedFact
    candidates: tuple[FactCandidate, ...]


@dataclass(frozen=True, slots=True)
class Decisions:
    """Decisions, one for each proposal and in the same order."""

    decisions: tuple[Decision, ...]
    calls: tuple[ModelCall, ...] = ()
    refused: tuple[str, ...] = ()
    """Rejected decisions of the model, a sentence each; their proposals are decided by rule."""


@runtime_checkable
class FactDecider(Model, Protocol):
    """Learner that decides whether an extracted fact is new, changes a known fact, ends one, or says nothing new."""

    def decide(self, proposals: Sequence[Proposal]) -> Decisions: ...


@dataclass(frozen=True, slots=True)
class Summarised:
    """An updated running summary."""

    text: str
    calls: tuple[ModelCall, ...] = ()
    shortened: int = 0
    """Number of tokens that the summariser left out, to stay within `max_tokens`."""
    broken: int = 0
    """Number of sentences that were cut off, as each alone was longer than `max_tokens`."""
    nothing: Mapping[int, NothingFound] = field(default_factory=dict)
    """Reasons why nothing of a message went into the text, by its index, if the summariser knows."""


@runtime_checkable
class Summariser(Model, Protocol):
    """Learner that keeps a running summary: the former text and new messages in, one text out."""

    def summarise(
        self, summary: str, messages: Sequence[ChatMessage], *, max_tokens: int, count: Callable[[str], int]
    ) -> Summarised:
        """Return a text of at most about `max_tokens` (counted by `count`) that says what `summary` and `messages` say.

        Without messages: the same summary, shortened where it is too long.
        """
        ...


@dataclass(frozen=True, slots=True)
class FoundRelation:
    """A relation as an extractor proposes it: two names and the predicate between them."""

    subject: str
    predicate: str
    """Predicate in the third person and this engine's base wording: `works at`, `manages`, `allergic to`."""
    object: str
    subject_type: str = "other"
    object_type: str = "other"
    source: int | None = None
    """Index of the message in the batch that says it."""
    ended: bool = False
    """True if the relation no longer holds."""


@dataclass(frozen=True, slots=True)
class RelationsFound:
    """Result of one extraction from a batch of messages."""

    relations: tuple[FoundRelation, ...]
    calls: tuple[ModelCall, ...] = ()
    refused: tuple[str, ...] = ()
    """Proposals of the model that cannot be relations, a sentence each."""
    nothing: Mapping[int, NothingFound] = field(default_factory=dict)
    """Reasons why a message gave no relation, by its index in the batch, if the extractor knows."""


@runtime_checkable
class RelationExtractor(Model, Protocol):
    """Learner that finds relations between people and things in messages."""

    def relations(self, messages: Sequence[ChatMessage], *, known: Sequence[str]) -> RelationsFound:
        """Return the relations stated in `messages`, in order; `known` are names of entities to use where they fit."""
        ...


@runtime_checkable
class Embedder(Protocol):
    """Model that turns texts into unit vectors.

    `id` names model and dimension: vectors of different ids are never compared.
    """

    @property
    def id(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    @property
    def offline(self) -> bool: ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return unit vectors as rows, shape `(len(texts), dimensions)`.

        Raises:
            EmbedderError: the model is missing, or its endpoint does not answer.
        """
        ...


@runtime_checkable
class LimitedEmbedder(Protocol):
    """Embedder whose vectors are useful for some texts only."""

    def reads(self, text: str) -> bool:
        """Return whether the embedder's vector of a text is useful."""
        ...


def model_name(learner: Model) -> str | None:
    """Return the name of a learner's model; None if it works by rules."""
    return None if learner.offline else learner.name


def embedded(embedder: Embedder, texts: Sequence[str]) -> NDArray[np.float32]:
    """Return the vectors of the texts as rows, checked: shape `(len(texts), dimensions)`, of finite length.

    All vectors of the engine come from here: a vector of another dimension or with a NaN would be
    stored for good, and make every search of its collection fail.

    Raises:
        EmbedderError: the model failed, or returned anything else.
    """
    answer = embedder.embed(texts)
    try:
        # A custom embedder may return lists, or anything else.
        rows = np.asarray(answer, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise EmbedderError(f'"{embedder.id}" gave something else than one vector per text.') from error
    expected = (len(texts), embedder.dimensions)
    if rows.shape != expected:
        actual, wanted = (" x ".join(map(str, shape)) for shape in (rows.shape, expected))
        raise EmbedderError(f'"{embedder.id}" gave {actual} numbers where {wanted} were expected.')
    # A length that overflows becomes infinite, and is refused below without a warning.
    with np.errstate(over="ignore"):
        lengths = np.linalg.norm(rows, axis=1)
    if not np.isfinite(lengths).all():
        raise EmbedderError(f'"{embedder.id}" gave a vector that holds something else than numbers.')
    return rows


def json_schema(answer: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of `answer` as strict endpoints want it: all fields required, no others allowed."""
    schema = answer.model_json_schema()
    for part in [schema, *schema.get("$defs", {}).values()]:
        # Optional fields are listed as required, too: strict endpoints take no other schema.
        if part.get("type") == "object":
            part["additionalProperties"] = False
            part["required"] = list(part.get("properties", {}))
    return schema


# -- base classes of learners ---------------------------------------------------------------------


class RuleBased:
    """Learner that works by fixed rules, without a language model."""

    name = "offline rules"
    offline = True


class LearnsInContext:
    """Learner that can be shown a context."""

    context = LearningContext()
    """Context that it is shown; empty in the beginning."""

    def with_context(self, context: LearningContext) -> Self:
        """Return a copy of this learner that is shown `context`."""
        other = copy.copy(self)
        other.context = context
        return other


class ModelBased(LearnsInContext):
    """Learner that uses a chat model. Each call carries its answer, under a hash of the input."""

    def __init__(self, chat: ChatModel) -> None:
        self.chat = chat

    @property
    def name(self) -> str:
        return self.chat.name

    @property
    def offline(self) -> bool:
        return self.chat.offline

    def answered(
        self, messages: Sequence[ChatMessage], answer: type[Answer], *, purpose: str
    ) -> tuple[Answer, ModelCall]:
        """Return the model's answer as an object of the class `answer`, and its call.

        Raises:
            ModelAnswerError: the answer is empty or does not fit that class.
            ModelError: the model did not answer.
        """
        result, call = self.chat.ask(messages, answer, purpose=purpose)
        # Keyed by the input, so that a replay can be served from it without a second call.
        output = ModelOutput(input_key(self.name, messages, answer), to_json(result))
        return result, replace(call, output=output)

    def written(self, messages: Sequence[ChatMessage], *, purpose: str) -> tuple[str, tuple[ModelCall, ...]]:
        """Return the model's answer as plain text, and its call (empty if the model reports none).

        Raises:
            ModelError: the model did not answer.
        """
        stream = self.chat.stream(messages)
        text = "".join(stream)
        # A stream without a call reports no usage, and there is nothing to record.
        if stream.call is None:
            return text, ()
        output = ModelOutput(input_key(self.name, messages), text)
        return text, (replace(stream.call, purpose=purpose, output=output),)


def to_json(answer: BaseModel) -> str:
    """Return an answer as the JSON that is stored: in ASCII, as a model may have written a lone surrogate."""
    return json.dumps(answer.model_dump())


def input_key(model: str, messages: Sequence[ChatMessage], answer: type[BaseModel] | None = None) -> str:
    """Return a hash of a request: the model's name, the messages as sent, the form of the answer (None: text).

    The messages include the task, so rewording the task changes the hash.
    """
    form = [answer.__name__, json_schema(answer)] if answer is not None else None
    return content_hash(json.dumps([model, to_openai(messages), form], sort_keys=True))

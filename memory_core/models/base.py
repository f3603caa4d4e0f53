"""What the engine asks of a model: three small seams, and the values that cross them.

No vendor's name appears here. Clients live in their own modules and turn vendor errors into
`memory_core.errors.ModelError`s.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from memory_core.messages import ChatMessage

Answer = TypeVar("Answer", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One finished call, as reported by the endpoint; what is unknown is None, never 0."""

    purpose: str
    """`reply`, `extract` or `condense`."""
    model: str
    input_tokens: int | None
    output_tokens: int | None
    seconds: float
    cost: float | None = None
    """US dollars, where the price is known."""


class ReplyStream(Protocol):
    """Text pieces of one reply, in order; closing it stops the call."""

    call: ModelCall | None
    """Set once the reply is complete."""

    def __iter__(self) -> Iterator[str]: ...

    def close(self) -> None: ...


@runtime_checkable
class ChatModel(Protocol):
    """Something that answers a conversation.

    `name` is shown on screen; `offline` says that no language model is behind it.
    Every method raises `ModelError` and nothing else for what goes wrong outside.
    """

    @property
    def name(self) -> str: ...

    @property
    def offline(self) -> bool: ...

    def stream(self, messages: Sequence[ChatMessage]) -> ReplyStream:
        """Start a reply. The first error may come here or while iterating."""
        ...

    def ask(self, messages: Sequence[ChatMessage], answer: type[Answer], *, purpose: str) -> "tuple[Answer, ModelCall]":
        """One answer in the form of the pydantic class `answer`.

        Raises:
            ModelAnswerError: the answer is empty or not in that form.
        """
        ...


@dataclass(frozen=True, slots=True)
class ExtractedFact:
    """A fact as an extractor proposes it, before the engine compares it with what is known."""

    text: str
    category: str = "other"
    """`personal`, `preference`, `plan`, `relationship`, `work`, `health`, `constraint` or `other`."""
    source: int | None = None
    """Index of the message in the extracted batch that says it; None when the extractor cannot tell."""
    slot: str | None = None
    """What can hold only one value at a time (`home`, `name`, ...): two facts in one slot contradict each other."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """What one reading of a batch of messages gave."""

    facts: tuple[ExtractedFact, ...]
    calls: tuple[ModelCall, ...] = ()


@dataclass(frozen=True, slots=True)
class CondensedFact:
    """One fact of a condensed list, with the indexes of the facts it stands for (none: it is new)."""

    text: str
    category: str = "other"
    stands_for: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Condensation:
    """A shorter list of facts that should say the same."""

    facts: tuple[CondensedFact, ...]
    calls: tuple[ModelCall, ...] = ()


@runtime_checkable
class FactExtractor(Protocol):
    """Finds facts in messages, and shortens a list of facts that has grown too long."""

    @property
    def name(self) -> str: ...

    @property
    def offline(self) -> bool: ...

    def extract(self, messages: Sequence[ChatMessage], *, known: Sequence[str]) -> Extraction:
        """New facts in `messages`, in the order they were said; `known` need not be repeated."""
        ...

    def condense(self, facts: Sequence[str], *, pinned: Sequence[int], target: int) -> Condensation:
        """At most `target` facts in place of `facts`; those at the `pinned` indexes stay word for word."""
        ...


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into unit vectors.

    `id` names model and dimension: vectors of different ids are never compared.
    """

    @property
    def id(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    @property
    def offline(self) -> bool: ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit rows, shape `(len(texts), dimensions)`.

        Raises:
            EmbedderError: the model is missing, or its endpoint does not answer.
        """
        ...


def json_schema(answer: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of `answer`, every field required and no other allowed: what strict endpoints ask for."""
    schema = answer.model_json_schema()
    for part in [schema, *schema.get("$defs", {}).values()]:
        if part.get("type") == "object":
            part["additionalProperties"] = False
            part["required"] = list(part.get("properties", {}))
    return schema

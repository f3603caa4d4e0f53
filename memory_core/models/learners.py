"""Base classes of learners: fixed rules or a chat model, with the attributes that each kind declares."""

import copy
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Self

from pydantic import BaseModel

from memory_core.formats.openai_message import to_openai
from memory_core.messages import ChatMessage, content_hash
from memory_core.models.protocols import Answer, ChatModel, LearningContext, ModelCall, ModelOutput, json_schema


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

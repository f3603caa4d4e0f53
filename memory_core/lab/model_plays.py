"""A model in a play: what it answered once is not asked again, and new calls are counted before they are made.

    counted = CountedModel(chat.name, KeptOutputs(memory), encoding=memory.session.config.encoding)
    Player(services).play(script_of(memory), variant, by=counted)
    needed = counted.counted().new
    model = PlayedModel(chat, KeptOutputs(memory), calls=needed)
    played = Player(services).play(script_of(memory), variant, by=model)  # None: model.stopped says why

A play with a model calls it for whatever its blocks learn. Answers are kept with the session, each under all that was
asked, and those of the session's own life are there already: equal stages cost nothing. Counting is a play in which
nothing is called. Where an answer is not known, the rules learn in its place, so that the number after the first such
call is an estimate.
"""

import json
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from memory_core.engine.delivery import stored_outputs
from memory_core.errors import MemoryInspectorError, ModelAnswerError, ModelError
from memory_core.memory import Memory
from memory_core.messages import ChatMessage, ToolCallPart, content_hash
from memory_core.models.deciding import ModelDecider, RuleDecider
from memory_core.models.extraction import ModelExtractor
from memory_core.models.learners import ModelBased, input_key, to_json
from memory_core.models.offline.extractor import RuleExtractor
from memory_core.models.protocols import (
    Answer,
    ChatModel,
    ModelCall,
    ModelOutput,
    ToolSpec,
)
from memory_core.models.relating import ModelRelations, RuleRelations
from memory_core.models.summarising import ModelSummariser, RuleSummariser
from memory_core.services import Services
from memory_core.store.delivery_rows import still_there
from memory_core.store.erasing import message_seqs
from memory_core.store.model_outputs import keep_outputs, read_output
from memory_core.store.writing import read_existing
from memory_core.tokens import counter_for

Result = TypeVar("Result")


class NotKeptError(ModelError):
    """Raised while counting: this was not asked yet."""


class KeptOutputs:
    """The answers kept with a session. What is kept is kept at once, so that a play that is cancelled paid for it."""

    def __init__(self, memory: Memory) -> None:
        self._database, self._session_id = memory.session.database, memory.session_id
        with self._database.read() as connection:
            self._seqs = message_seqs(connection, self._session_id, None)

    def find(self, key: str) -> ModelCall | None:
        """The call that was asked this."""
        with self._database.read() as connection:
            found = read_output(connection, self._session_id, key)
        if found is None:
            return None
        output = ModelOutput(key, found.text, found.readable)
        tokens = found.input_tokens, found.output_tokens
        return ModelCall(found.purpose, found.model, *tokens, found.seconds, found.cost, output)

    def keep(self, call: ModelCall) -> bool:
        """Keep a call's answer; False where the session lost messages since, whose words it may repeat.

        Raises:
            NotFoundError: the session was deleted.
        """
        with self._database.write() as connection:
            read_existing(connection, self._session_id, lock=not self._database.is_sqlite)
            if not still_there(connection, self._session_id, self._seqs):
                return False
            keep_outputs(connection, self._session_id, stored_outputs([call]), now=time.time())
        return True


class _ByInput(ABC):
    """A chat model for learners that answers what it was asked before without a call. Safe to share between threads."""

    offline = False

    def __init__(self, name: str, outputs: KeptOutputs) -> None:
        self.name = name
        self.outputs = outputs
        self._failed: Counter[str] = Counter()
        """How often the answer to an input could not be read in this play: each further try is a question of its own,
        as in life."""
        self._turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._lock = threading.Lock()

    def ask(self, messages: Sequence[ChatMessage], answer: type[Answer], *, purpose: str) -> tuple[Answer, ModelCall]:
        def make() -> tuple[str, ModelCall]:
            found, call = self._model().ask(messages, answer, purpose=purpose)
            return to_json(found), call

        text, call = self._answer(input_key(self.name, messages, answer), messages, purpose, make)
        return answer.model_validate(json.loads(text)), call

    def stream(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec] = ()) -> "_KeptReply":
        assert not tools, "learners offer no tools"

        def make() -> tuple[str, ModelCall]:
            stream = self._model().stream(messages)
            text = "".join(stream)
            return text, stream.call or ModelCall("reply", self.name, None, None, 0.0)

        return _KeptReply(*self._answer(input_key(self.name, messages), messages, "reply", make))

    def _answer(
        self,
        key: str,
        messages: Sequence[ChatMessage],
        purpose: str,
        make: Callable[[], tuple[str, ModelCall]],
    ) -> tuple[str, ModelCall]:
        """The answer to an input, as it was kept or as it is made now; two that ask the same at once make one call."""
        with self._lock:
            turn = self._turns[key]
        with turn:
            question = content_hash(f"{key} {self._failed[key]}") if self._failed[key] else key
            call = self.outputs.find(question)
            if call is not None:
                self._found(question)
            else:
                call = self._ask_anew(question, messages, purpose, make)
            output = call.output
            assert output is not None
            if not output.readable:
                self._failed[key] += 1
                raise ModelAnswerError(output.text)
        return output.text, call

    def _found(self, key: str) -> None:  # noqa: B027  (only counting needs it)
        """Called for each answer that was kept."""

    @abstractmethod
    def _model(self) -> ChatModel:
        """The model to call."""

    @abstractmethod
    def _ask_anew(
        self, key: str, messages: Sequence[ChatMessage], purpose: str, make: Callable[[], tuple[str, ModelCall]]
    ) -> ModelCall:
        """The call for an input that was not asked yet, with its answer."""


class PlayedModel(_ByInput):
    """A model in a play: calls it for what was not asked yet, at most so often as was agreed, and keeps each answer."""

    def __init__(self, chat: ChatModel, outputs: KeptOutputs, *, calls: int) -> None:
        """`calls`: how many may be made."""
        super().__init__(chat.name, outputs)
        self._chat: ChatModel | None = chat
        self.agreed = calls
        self.made: list[ModelCall] = []
        """Calls that were paid for, in the order in which they ended."""
        self.stopped: str | None = None
        """One sentence: why the play must end; nothing more is called."""
        self._begun = 0

    @property
    def cost(self) -> float | None:
        """US dollars of the calls that were made; None where a price is not known."""
        costs = [call.cost for call in self.made]
        return sum(cost for cost in costs if cost is not None) if None not in costs else None

    def learning(self, services: Services) -> Services:
        """Services that learn with it."""
        return services.with_chat(self)

    def close(self) -> None:
        """Let go of the model, and of the key with which it is called: a played session outlives its play."""
        self._chat = None

    def _model(self) -> ChatModel:
        assert self._chat is not None
        return self._chat

    def _ask_anew(
        self, key: str, messages: Sequence[ChatMessage], purpose: str, make: Callable[[], tuple[str, ModelCall]]
    ) -> ModelCall:
        self._begin()
        try:
            text, call = make()
            call = replace(call, purpose=purpose, output=ModelOutput(key, text))
        except ModelAnswerError as error:
            output = ModelOutput(key, str(error), readable=False)
            call = ModelCall(purpose, self.name, None, None, 0.0, output=output)
        except ModelError as error:  # it does not answer, or refuses: nor would it answer the next question
            self.stopped = self.stopped or str(error)
            raise
        with self._lock:
            self.made.append(call)
        try:
            if not self.outputs.keep(call):
                self.stopped = "Messages of the session were removed while it was played: nothing more was asked."
        except MemoryInspectorError as error:  # the session, or the database, is gone
            self.stopped = str(error)
        return call

    def _begin(self) -> None:
        with self._lock:
            if self._begun >= self.agreed and self.stopped is None:
                calls = "1 call was" if self.agreed == 1 else f"{self.agreed:,} calls were"
                self.stopped = f"{calls} made, as agreed, and it needs more. What was answered is kept."
            if self._chat is None or self.stopped is not None:
                raise ModelError(self.stopped or "The play has ended.")
            self._begun += 1


@dataclass(frozen=True, slots=True)
class CallCount:
    """What playing a configuration with a model would take."""

    new: int
    """Calls that were not made yet; an estimate unless 0."""
    input_tokens: int
    """Tokens they would send, about: an answer that is not known is in the question after it."""
    kept: int
    """Answers that are kept already and no configuration before it uses."""


class CountedModel(_ByInput):
    """A model that is never called: counts what would have to be asked. What one play asks is known to the next."""

    def __init__(self, name: str, outputs: KeptOutputs, *, encoding: str) -> None:
        super().__init__(name, outputs)
        self._counter = counter_for(None, encoding=encoding)
        self._new: dict[str, int] = {}
        """Tokens of each question that was not asked yet."""
        self._kept: set[str] = set()
        self._told = CallCount(0, 0, 0)
        self.stopped: str | None = None

    def counted(self) -> CallCount:
        """What was asked since this was called last, and not before."""
        before, now = self._told, CallCount(len(self._new), sum(self._new.values()), len(self._kept))
        self._told = now
        return CallCount(now.new - before.new, now.input_tokens - before.input_tokens, now.kept - before.kept)

    def learning(self, services: Services) -> Services:
        """Services that learn by what this model answered before, and by rules elsewhere."""
        other = services.with_extractor(_Extractor(self))
        other.decider, other.summariser, other.relations = _Decider(self), _Summariser(self), _Relations(self)
        return other

    def _found(self, key: str) -> None:
        with self._lock:
            self._kept.add(key)

    def _model(self) -> ChatModel:
        raise NotKeptError("This was not asked yet.")

    def _ask_anew(
        self, key: str, messages: Sequence[ChatMessage], purpose: str, make: Callable[[], tuple[str, ModelCall]]
    ) -> ModelCall:
        with self._lock:
            self._new[key] = sum(self._counter.message(message).billed for message in messages)
        raise NotKeptError("This was not asked yet.")


class _KeptReply:
    """A whole answer in the form of a reply."""

    tool_calls: tuple[ToolCallPart, ...] = ()

    def __init__(self, text: str, call: ModelCall) -> None:
        self._text = text
        self.call: ModelCall | None = call

    def __iter__(self) -> Iterator[str]:
        yield self._text

    def close(self) -> None:
        return None


# -- learners while counting: by what the model answered before, else by rules --------------------


def _by_rules_else(ask: Callable[..., Result], rules: Callable[[], Any]) -> Callable[..., Result]:
    """A learner's method, done by the rules where the model was not asked yet."""

    def learned(model: ModelBased, *given: Any, **named: Any) -> Result:
        try:
            return ask(model, *given, **named)
        except NotKeptError:
            by_rules: Result = getattr(rules(), ask.__name__)(*given, **named)
            return by_rules

    return learned


class _Extractor(ModelExtractor):
    extract = _by_rules_else(ModelExtractor.extract, RuleExtractor)
    condense = _by_rules_else(ModelExtractor.condense, RuleExtractor)


class _Decider(ModelDecider):
    decide = _by_rules_else(ModelDecider.decide, RuleDecider)


class _Summariser(ModelSummariser):
    summarise = _by_rules_else(ModelSummariser.summarise, RuleSummariser)


class _Relations(ModelRelations):
    relations = _by_rules_else(ModelRelations.relations, RuleRelations)

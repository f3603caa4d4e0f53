"""Replay a conversation under another configuration with the real engine, in a temporary in-memory database.

Nothing is persisted, and no model is called unless one is given: offline rules stand in for learning models, with a
caveat. Prompts, cuts and flushes are recorded as in any session, so pages and traces work on them.

With a model, answers are cached, and new calls are counted before they are made:

    counted = CountedModel(chat.name, KeptOutputs(memory), encoding=memory.session.config.encoding)
    Player(services).play(script_of(memory), variant, by=counted)
    needed = counted.counted().new
    model = PlayedModel(chat, KeptOutputs(memory), calls=needed)
    played = Player(services).play(script_of(memory), variant, by=model)  # None: model.stopped says why

It is called for everything that blocks learn. Answers are cached with the session by their full input, including those
of the live session, so identical stages cost nothing. Counting replays without calls; rules stand in for missing
answers, so the count after the first such call is an estimate.
"""

import json
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from memory_core.agent.loop import act
from memory_core.agent.tools import MemoryTools
from memory_core.engine.delivery import stored_outputs
from memory_core.errors import EmbedderError, MemoryInspectorError, ModelAnswerError, ModelError
from memory_core.history.prompt import Prompt
from memory_core.memory import Memory
from memory_core.messages import ChatMessage, MessageRole, ToolCallPart, content_hash
from memory_core.models.deciding import ModelDecider, RuleDecider
from memory_core.models.extraction import ModelExtractor
from memory_core.models.offline.fact_extraction import RuleExtractor
from memory_core.models.offline.responder import OfflineResponder
from memory_core.models.protocols import (
    Answer,
    ChatModel,
    Embedder,
    ModelBased,
    ModelCall,
    ModelOutput,
    ToolSpec,
    embedded,
    input_key,
    to_json,
)
from memory_core.models.relating import ModelRelations, RuleRelations
from memory_core.models.summarising import ModelSummariser, RuleSummariser
from memory_core.services import Services
from memory_core.store.database import Database
from memory_core.store.delivery_rows import keep_outputs, read_output, still_there
from memory_core.store.erasing import message_seqs
from memory_core.store.writing import read_existing
from memory_core.tokens import Tokenizer, counter_for
from memory_inspector.lab.script import Script, ScriptStep, curate
from memory_inspector.lab.variants import Variant

PATIENCE_SECONDS = 86_400.0
"""Seconds that a put waits for learning. Replaces `delivery_timeout`, as wall-clock timeouts would make replays of one
configuration differ."""


class Learning(Protocol):
    """A model that learns during a replay, with answers that are cached."""

    @property
    def name(self) -> str: ...

    @property
    def stopped(self) -> str | None:
        """Reason to end the replay, one sentence; None while it goes on."""
        ...

    def learning(self, services: Services) -> Services:
        """Return a copy of the services whose blocks learn with this model."""
        ...


@dataclass(frozen=True, slots=True)
class Played:
    """A conversation replayed under one configuration."""

    variant: Variant
    memory: Memory
    """The replayed session, in this process only."""
    unknown: tuple[str, ...]
    """Caveats as whole sentences: ways in which a live session may differ."""

    def turns(self) -> list[int]:
        """Return the turns with a prompt, in order."""
        return sorted(number for number, turn in self.memory.log.history().turns.items() if turn.built is not None)

    def prompt(self, turn: int) -> Prompt | None:
        """Return a turn's last prompt; None if it has none."""
        record = self.memory.log.history().turns.get(turn)
        return self.memory.log.prompt(record.built) if record is not None and record.built is not None else None

    def close(self) -> None:
        """Release the session; it cannot be read afterwards."""
        self.memory.session.database.close()


class Player:
    """Runner of replays that embeds each text once, however many configurations are played."""

    def __init__(self, services: Services, *, tokenizer_fn: Tokenizer | None = None) -> None:
        self._embedder = _Once(services.embedder)
        self._tokenizer_fn = tokenizer_fn

    def play(
        self,
        script: Script,
        variant: Variant,
        *,
        by: Learning | None = None,
        progress: Callable[[int, int], object] = lambda done, of: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Played | None:
        """Replay the script under a configuration; None once `cancelled`, or if `by` stopped.

        `by` learns instead of the rules and is never timed out. `progress` receives the steps done and their total.

        Raises:
            ConfigError: The configuration is invalid.
        """

        def ended() -> bool:
            return cancelled() or (by is not None and by.stopped is not None)

        # The clock shows the recorded times, so that ages and dates in prompts are as they were.
        now = script.steps[0].at if script.steps else 0.0
        services = Services(embedder=self._embedder)  # services of its own, so their caches are freed with the memory
        memory = Memory.from_defaults(
            # Blocks with scope "user" need a user; any id will do, as the database holds this session alone.
            user_id="played" if variant.of_user else None,
            memory_blocks=variant.make_blocks(),
            tokenizer_fn=self._tokenizer_fn,
            database=Database.open(None),
            services=by.learning(services) if by is not None else services,
            title=variant.name,
            clock=lambda: now,
            # Last, so that it overrides the variant's own timeout.
            **{**variant.settings, "delivery_timeout": PATIENCE_SECONDS},
        )
        # Made once: which tools exist depends on the blocks, and no step changes those.
        agent = _Agent(memory, script)
        for number, step in enumerate(script.steps):
            if ended():
                return None
            now = step.at
            agent.do(step, f"played-{number}")
            progress(number + 1, len(script.steps))
        if by is not None and by.stopped is not None:  # stopped in the last step: its learning is missing
            return None
        return Played(variant, memory, (*variant.left_out, *_unknown(memory, variant, script, agent.not_made, by)))


class _Agent:
    """Stand-in for an agent that repeats the recorded actions on a memory, edits included."""

    def __init__(self, memory: Memory, script: Script) -> None:
        self._memory = memory
        self._tools = MemoryTools(memory)
        self._names = {spec.name for spec in self._tools.specs()} if memory.blocks.editable_by_agents else set()
        self._by_rules = bool(self._names) and not script.editing
        """True if rules edit in the agent's place: this memory offers editing tools, the recorded agent had none."""
        self.not_made = 0
        """Number of people's changes that could not be applied."""

    def do(self, step: ScriptStep, reply_id: str) -> None:
        # Without `record=False`: pages and traces read the replay from its log, as they do any session.
        if step.does == "ask":
            self._memory.build_context(step.input, reserved_tokens=step.reserved_tokens)
        elif step.curated is not None:
            self.not_made += not curate(self._memory, step.curated)
        elif step.does != "put":
            # A struck flush or condensing is held back, as if it had never happened.
            with self._memory.session.holding(step.held):
                self._memory.flush(all=step.does == "close")
        else:
            # Calls of unknown tools are part of the conversation, and change no memory.
            calls = [call for message in step.messages for call in message.tool_calls]
            for number, call in enumerate(calls):  # before storing the messages, as when the calls were made
                if call.tool_name in self._names and number not in step.unmade:
                    self._tools.call(call)
            # Settings and blocks are changed for this put alone, so later steps flush and condense as usual.
            with self._memory.session.holding(step.held):
                self._memory.put_messages(step.messages)
            # After a user's message, where the recorded agent would have had its turn.
            if self._by_rules and step.messages[-1].role is MessageRole.USER:
                act(self._memory, OfflineResponder(), reply_id)


def _unknown(memory: Memory, variant: Variant, script: Script, not_made: int, by: Learning | None) -> list[str]:
    """Return caveats on how a live session may differ."""
    caveats = []
    if not_made:
        changes = "1 change of facts" if not_made == 1 else f"{not_made:,} changes of facts"
        caveats.append(f"{changes} could not be repeated: the replay has no fact with the same text.")
    if script.by_people:
        changes = "1 change" if script.by_people == 1 else f"{script.by_people:,} changes"
        caveats.append(f"{changes} that people made to the session's memory {_was(script.by_people)} not made again.")
    learner = by.name if by is not None else "rules"
    for model in script.learners:
        # The same model gives the same answers where they were kept.
        if by is None or model != learner:
            caveats.append(f"What {model} learned is learned by {learner} here: facts and summaries may differ.")
    if by is not None and memory.blocks.editable_by_agents and not script.editing:
        caveats.append("What its agent would write into its memory is written by rules.")
    if by is not None:
        caveats.append(f"{learner} may answer differently another time: its first answers are kept and used again.")
    if variant.of_user:
        caveats.append("Facts learned in the user's other sessions are missing.")
    if problem := _undelivered(memory):
        caveats.append(problem)
    return caveats


def _undelivered(memory: Memory) -> str | None:
    """Describe deliveries that are not done, or else stored units without a vector; None if there are neither."""
    pending = memory.session.deliveries(states=("pending", "parked"))
    if not pending:
        # A delivery succeeds even if the embedder fails: its units then lack vectors.
        stored = any(attached.kind == "vector" for attached in memory.blocks)
        try:
            bare = memory.retrieval.under_other_embedders() if stored else 0
        except EmbedderError as error:
            return str(error)
        return f"{bare} stored pieces are found by keyword alone: the embedding model failed." if bare else None
    reason = next((f" {delivery.error}" for delivery in pending if delivery.error), "")
    return f"{len(pending)} deliveries were not done, so less was learned than in a live session.{reason}"


def _was(number: int) -> str:
    return "was" if number == 1 else "were"


class _Once:
    """An embedder that caches every text, across configurations."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[str, NDArray[np.float32]] = {}

    @property
    def id(self) -> str:
        return self._embedder.id

    @property
    def dimensions(self) -> int:
        return self._embedder.dimensions

    @property
    def offline(self) -> bool:
        return self._embedder.offline

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        # A batch may repeat a text: an embedder is paid by text.
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            self._known.update(zip(new, embedded(self._embedder, new), strict=True))
        rows = [self._known[text] for text in texts]
        # `np.stack` refuses an empty list.
        return np.stack(rows) if rows else np.zeros((0, self.dimensions), dtype=np.float32)


Result = TypeVar("Result")


class NotKeptError(ModelError):
    """Raised while counting: the cache lacks this answer."""


class KeptOutputs:
    """Answers cached with a session. Each is stored at once, so a cancelled replay keeps what it paid for."""

    def __init__(self, memory: Memory) -> None:
        self._database, self._session_id = memory.session.database, memory.session_id
        # Read once: an answer may repeat any of these messages, so it is kept only while all of them are stored.
        with self._database.read() as connection:
            self._seqs = message_seqs(connection, self._session_id, None)

    def find(self, key: str) -> ModelCall | None:
        """Return the cached call with this input hash; None if there is none."""
        with self._database.read() as connection:
            stored = read_output(connection, self._session_id, key)
        if stored is None:
            return None
        output = ModelOutput(key, stored.text, stored.readable)
        tokens = stored.input_tokens, stored.output_tokens
        return ModelCall(stored.purpose, stored.model, *tokens, stored.seconds, stored.cost, output)

    def keep(self, call: ModelCall) -> bool:
        """Cache a call's answer; return False if messages were erased since, as the answer may repeat their text.

        Raises:
            NotFoundError: The session was deleted.
        """
        with self._database.write() as connection:
            # Locked, so that no erasure falls between the check and the storing; SQLite's write locks everything.
            read_existing(connection, self._session_id, lock=not self._database.is_sqlite)
            if not still_there(connection, self._session_id, self._seqs):
                return False
            keep_outputs(connection, self._session_id, stored_outputs([call]), now=time.time())
        return True


class _ByInput(ABC):
    """A chat model for learners that answers from the cache first. Thread-safe."""

    offline = False

    def __init__(self, name: str, outputs: KeptOutputs) -> None:
        self.name = name
        self.outputs = outputs
        self._failed: Counter[str] = Counter()
        """Number of unparsable answers in this replay, by input; a retry is cached under a key with this number."""
        self._turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._lock = threading.Lock()

    def ask(self, messages: Sequence[ChatMessage], answer: type[Answer], *, purpose: str) -> tuple[Answer, ModelCall]:
        def make() -> tuple[str, ModelCall]:
            reply, call = self._model().ask(messages, answer, purpose=purpose)
            return to_json(reply), call

        # Serialised and read again even when new, so that a kept answer and a new one are treated alike.
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
        """Return the cached or new answer to an input; concurrent requests for one input share a call."""
        with self._lock:
            turn = self._turns[key]
        with turn:
            # A retry asks the same input again: under the same key it would get the unreadable answer back for ever.
            question = content_hash(f"{key} {self._failed[key]}") if self._failed[key] else key
            # An earlier replay or the live session may have kept the answer.
            call = self.outputs.find(question)
            if call is not None:
                self._count_reuse(question)
            else:
                call = self._ask_anew(question, messages, purpose, make)
            output = call.output
            assert output is not None
            if not output.readable:
                self._failed[key] += 1
                raise ModelAnswerError(output.text)
        return output.text, call

    def _count_reuse(self, key: str) -> None:  # noqa: B027  (only counting needs it)
        """Hook for cache hits."""

    @abstractmethod
    def _model(self) -> ChatModel:
        """Return the model to call."""

    @abstractmethod
    def _ask_anew(
        self, key: str, messages: Sequence[ChatMessage], purpose: str, make: Callable[[], tuple[str, ModelCall]]
    ) -> ModelCall:
        """Make the call for an input that is not cached."""


class PlayedModel(_ByInput):
    """Wrapper that calls a model for uncached inputs, up to an agreed number of calls, and caches each answer."""

    def __init__(self, chat: ChatModel, outputs: KeptOutputs, *, calls: int) -> None:
        """Wrap a model. `calls`: maximum number of new calls."""
        super().__init__(chat.name, outputs)
        self._chat: ChatModel | None = chat
        self.agreed = calls
        self.made: list[ModelCall] = []
        """Paid calls in order of completion."""
        self.stopped: str | None = None
        """Reason to end the replay, one sentence; then no more calls are made. None while the replay goes on."""
        self._begun = 0

    @property
    def cost(self) -> float | None:
        """US dollars spent on new calls; None if a price is unknown."""
        costs = [call.cost for call in self.made]
        return sum(cost for cost in costs if cost is not None) if None not in costs else None

    def learning(self, services: Services) -> Services:
        """Return services that learn with this model."""
        return services.with_chat(self)

    def close(self) -> None:
        """Drop the model and its API key, as played sessions outlive their replay."""
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
            # An unreadable answer was paid for, too: it is kept, so that a replay repeats the failure without a call.
            output = ModelOutput(key, str(error), readable=False)
            call = ModelCall(purpose, self.name, None, None, 0.0, output=output)
        except ModelError as error:  # an unavailable model, or a refused key: later calls would fail as well
            self.stopped = self.stopped or str(error)
            raise
        with self._lock:
            self.made.append(call)
        try:
            # The caller gets the answer even if it cannot be kept: it was paid for. The replay ends at its next step.
            if not self.outputs.keep(call):
                self.stopped = "Messages of the session were removed while it was played: nothing more was asked."
        except MemoryInspectorError as error:  # the session or the database is gone
            self.stopped = str(error)
        return call

    def _begin(self) -> None:
        with self._lock:
            if self._begun >= self.agreed and self.stopped is None:
                calls = "1 call was" if self.agreed == 1 else f"{self.agreed:,} calls were"
                self.stopped = f"{calls} made, as agreed, and the play needs more. The answers are kept."
            if self._chat is None or self.stopped is not None:
                raise ModelError(self.stopped or "The play has ended.")
            # Counted when a call begins: counted at its end, concurrent calls would exceed the number agreed.
            self._begun += 1


@dataclass(frozen=True, slots=True)
class CallCount:
    """Calls needed to replay a configuration with a model."""

    new: int
    """Number of calls that are not cached; an estimate unless 0."""
    input_tokens: int
    """Approximate input tokens of the uncached calls, as inputs may contain answers that are not known yet."""
    kept: int
    """Number of cached answers that no earlier configuration used."""


class CountedModel(_ByInput):
    """Stand-in for a model that counts the calls needed without making any. Counts continue across replays."""

    def __init__(self, name: str, outputs: KeptOutputs, *, encoding: str) -> None:
        super().__init__(name, outputs)
        self._counter = counter_for(None, encoding=encoding)
        self._new: dict[str, int] = {}
        """Tokens of each uncached input."""
        self._kept: set[str] = set()
        self._told = CallCount(0, 0, 0)
        self.stopped: str | None = None

    def counted(self) -> CallCount:
        """Return and reset the counts since the last call."""
        before, now = self._told, CallCount(len(self._new), sum(self._new.values()), len(self._kept))
        self._told = now
        return CallCount(now.new - before.new, now.input_tokens - before.input_tokens, now.kept - before.kept)

    def learning(self, services: Services) -> Services:
        """Return services that learn from cached answers, else by rules."""
        # Separate learners, as a learner can fall back to rules and a chat model cannot.
        other = services.with_extractor(_Extractor(self))
        other.decider, other.summariser, other.relations = _Decider(self), _Summariser(self), _Relations(self)
        return other

    def _count_reuse(self, key: str) -> None:
        with self._lock:
            self._kept.add(key)

    def _model(self) -> ChatModel:
        raise NotKeptError("This was not asked yet.")

    def _ask_anew(
        self, key: str, messages: Sequence[ChatMessage], purpose: str, make: Callable[[], tuple[str, ModelCall]]
    ) -> ModelCall:
        with self._lock:
            # Keyed by input, so that an input asked again under another configuration counts as one call.
            self._new[key] = sum(self._counter.message(message).billed for message in messages)
        raise NotKeptError("This was not asked yet.")


class _KeptReply:
    """A cached answer as a reply."""

    tool_calls: tuple[ToolCallPart, ...] = ()

    def __init__(self, text: str, call: ModelCall) -> None:
        self._text = text
        self.call: ModelCall | None = call

    def __iter__(self) -> Iterator[str]:
        yield self._text

    def close(self) -> None:
        return None


# -- learners while counting: cached answers, else rules -------------------------------------------


def _fall_back_to_rules(ask: Callable[..., Result], rules: Callable[[], Any]) -> Callable[..., Result]:
    """Wrap a learner's method to use rules where the cache lacks an answer."""

    def learned(model: ModelBased, *arguments: Any, **named: Any) -> Result:
        try:
            return ask(model, *arguments, **named)
        except NotKeptError:
            # The learner by rules has a method of the same name.
            by_rules: Result = getattr(rules(), ask.__name__)(*arguments, **named)
            return by_rules

    return learned


class _Extractor(ModelExtractor):
    extract = _fall_back_to_rules(ModelExtractor.extract, RuleExtractor)
    condense = _fall_back_to_rules(ModelExtractor.condense, RuleExtractor)


class _Decider(ModelDecider):
    decide = _fall_back_to_rules(ModelDecider.decide, RuleDecider)


class _Summariser(ModelSummariser):
    summarise = _fall_back_to_rules(ModelSummariser.summarise, RuleSummariser)


class _Relations(ModelRelations):
    relations = _fall_back_to_rules(ModelRelations.relations, RuleRelations)

"""Replay a conversation under another configuration with the real engine, in a temporary in-memory database.

Nothing is persisted, and no model is called unless one is given (`model_plays`): offline rules stand in for learning
models, with a caveat. Prompts, cuts and flushes are recorded as in any session, so pages and traces work on them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from memory_core.agent.loop import act
from memory_core.agent.tools import MemoryTools
from memory_core.errors import EmbedderError
from memory_core.history.prompt import Prompt
from memory_core.memory import Memory
from memory_core.messages import MessageRole
from memory_core.models.offline.responder import OfflineResponder
from memory_core.models.protocols import Embedder, embedded
from memory_core.services import Services
from memory_core.store.database import Database
from memory_core.tokens import Tokenizer
from memory_inspector.lab.script import Script, ScriptStep, curate
from memory_inspector.lab.variants import Variant

PATIENCE_SECONDS = 86_400.0
"""Seconds that a put waits for learning. Replaces `delivery_timeout`, as wall-clock timeouts would make replays of one
configuration differ."""


class Learning(Protocol):
    """A model that learns during a replay (see `model_plays`)."""

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

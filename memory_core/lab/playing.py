"""A conversation played again under another configuration: by the engine itself, in a memory that is thrown away.

Nothing is stored, and no model is called unless one is given (`model_plays`): where a model learned, the offline rules
learn in its place, which is said.
Prompts, cuts and flushes are recorded there as in any session, so that every page and trace can tell of them.
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
from memory_core.lab.curating import curate
from memory_core.lab.script import Script, Step
from memory_core.lab.variants import Variant
from memory_core.memory import Memory
from memory_core.messages import MessageRole
from memory_core.models.offline.responder import OfflineResponder
from memory_core.models.protocols import Embedder, embedded
from memory_core.services import Services
from memory_core.store.database import Database
from memory_core.tokens import Tokenizer

PATIENCE_SECONDS = 86_400.0
"""How long a put of a play waits for what learns from it. Replaces `delivery_timeout`: by the clock of another day, an
answer that came late would make two plays of one configuration differ."""


class Learning(Protocol):
    """A model that learns in a play (see `model_plays`)."""

    @property
    def name(self) -> str: ...

    @property
    def stopped(self) -> str | None:
        """One sentence: why the play must end."""
        ...

    def learning(self, services: Services) -> Services:
        """Services like these, with which blocks learn by it."""
        ...


@dataclass(frozen=True, slots=True)
class Played:
    """A conversation under one configuration."""

    variant: Variant
    memory: Memory
    """The session that was played, in this process only."""
    unknown: tuple[str, ...]
    """Whole sentences: what may be otherwise in a session that is really lived."""

    def turns(self) -> list[int]:
        """The turns that have a prompt, in order."""
        return sorted(number for number, turn in self.memory.log.history().turns.items() if turn.built is not None)

    def prompt(self, turn: int) -> Prompt | None:
        """The last prompt of a turn; None where it has none."""
        found = self.memory.log.history().turns.get(turn)
        return self.memory.log.prompt(found.built) if found is not None and found.built is not None else None

    def close(self) -> None:
        """Let go of the session; nothing can be read from it any more."""
        self.memory.session.database.close()


class Player:
    """Plays conversations; what was embedded once is not embedded again."""

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
        """The script under a configuration; None once `cancelled`, or `by` stopped.

        `by` learns in the place of the rules, and is waited for, however long it takes. `progress` is called with the
        steps done and their total.

        Raises:
            ConfigError: the configuration is impossible.
        """

        def ended() -> bool:
            return cancelled() or (by is not None and by.stopped is not None)

        now = script.steps[0].at if script.steps else 0.0
        services = Services(embedder=self._embedder)  # of its own: what it caches goes with the memory
        memory = Memory.from_defaults(
            user_id="played" if variant.of_user else None,
            memory_blocks=variant.make_blocks(),
            tokenizer_fn=self._tokenizer_fn,
            database=Database.open(None),
            services=by.learning(services) if by is not None else services,
            title=variant.name,
            clock=lambda: now,
            **{**variant.settings, "delivery_timeout": PATIENCE_SECONDS},
        )
        agent = _Agent(memory, script)
        for number, step in enumerate(script.steps):
            if ended():
                return None
            now = step.at
            agent.do(step, f"played-{number}")
            progress(number + 1, len(script.steps))
        if by is not None and by.stopped is not None:  # in the last step: what it was to learn is missing
            return None
        return Played(variant, memory, (*variant.left_out, *_unknown(memory, variant, script, agent.not_made, by)))


class _Agent:
    """Does to a memory what an agent did, its edits of the memory included."""

    def __init__(self, memory: Memory, script: Script) -> None:
        self._memory = memory
        self._tools = MemoryTools(memory)
        self._names = {spec.name for spec in self._tools.specs()} if memory.blocks.editable_by_agents else set()
        self._by_rules = bool(self._names) and not script.editing
        """Rules make the calls that an agent without these tools could not make."""
        self.not_made = 0
        """Changes of people that could not be made again."""

    def do(self, step: Step, reply_id: str) -> None:
        if step.does == "ask":
            self._memory.build_context(step.input)
        elif step.curated is not None:
            self.not_made += not curate(self._memory, step.curated)
        elif step.does != "put":
            with self._memory.session.holding(step.held):
                self._memory.flush(all=step.does == "close")
        else:
            calls = [call for message in step.messages for call in message.tool_calls]
            for number, call in enumerate(calls):  # before its messages are put, as when it was made
                if call.tool_name in self._names and number not in step.unmade:
                    self._tools.call(call)
            with self._memory.session.holding(step.held):
                self._memory.put_messages(step.messages)
            if self._by_rules and step.messages[-1].role is MessageRole.USER:
                act(self._memory, OfflineResponder(), reply_id)


def _unknown(memory: Memory, variant: Variant, script: Script, not_made: int, by: Learning | None) -> list[str]:
    """What a session that is really lived may do otherwise."""
    said = []
    if not_made:
        changes = "1 change of facts" if not_made == 1 else f"{not_made:,} changes of facts"
        said.append(f"{changes} could not be made again: facts that say the same are not there.")
    if script.by_people:
        changes = "1 change" if script.by_people == 1 else f"{script.by_people:,} changes"
        said.append(f"{changes} that people made to the session's memory {_was(script.by_people)} not made again.")
    learner = by.name if by is not None else "rules"
    for model in script.learners:
        if by is None or model != learner:
            said.append(f"What {model} learned is learned by {learner} here: facts and summaries may differ.")
    if by is not None and memory.blocks.editable_by_agents and not script.editing:
        said.append("What its agent would write into its memory is written by rules.")
    if by is not None:
        said.append(f"{learner} may answer otherwise another time: what it answered once is kept, and used again.")
    if variant.of_user:
        said.append("What the user's other sessions taught is not in it.")
    if problem := undelivered(memory):
        said.append(problem)
    return said


def undelivered(memory: Memory) -> str | None:
    """Sentence about deliveries that did not reach their blocks; None if all did."""
    left = memory.session.deliveries(states=("pending", "parked"))
    if not left:
        stored = any(attached.kind == "vector" for attached in memory.blocks)
        try:
            bare = memory.retrieval.under_other_embedders() if stored else 0
        except EmbedderError as error:
            return str(error)
        return f"{bare} stored pieces are found by keyword alone: the embedding model failed." if bare else None
    reason = next((f" {delivery.error}" for delivery in left if delivery.error), "")
    return f"{len(left)} deliveries were not done, so it learned less than it would.{reason}"


def _was(number: int) -> str:
    return "was" if number == 1 else "were"


class _Once:
    """An embedder that embeds each text once, however many configurations store it."""

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
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            self._known.update(zip(new, embedded(self._embedder, new), strict=True))
        rows = [self._known[text] for text in texts]
        return np.stack(rows) if rows else np.zeros((0, self.dimensions), dtype=np.float32)

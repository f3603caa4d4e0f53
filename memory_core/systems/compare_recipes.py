"""Recipes side by side on one conversation: each is given the same messages in a memory of its own that is thrown away.

Nothing is stored and no model is called: what a model would be asked is counted, and the offline
rules learn in its place. Vectors are made once for all recipes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory_core.agent.loop import act
from memory_core.blocks import BUILT_IN, BaseMemoryBlock, StaticMemoryBlock
from memory_core.engine.context import Context
from memory_core.engine.session import SessionBlock
from memory_core.errors import EmbedderError, MemoryInspectorError
from memory_core.events import DeliveryDone, ToolCalled
from memory_core.memory import Memory, Receipt
from memory_core.messages import ChatMessage, MessageRole
from memory_core.models.base import Embedder, embedded
from memory_core.models.offline.responder import OfflineResponder
from memory_core.planning.context import turns_of
from memory_core.services import Services

MAX_TURNS = 300
"""Turns of a conversation that are tried, the newest; more adds time and no insight."""


@dataclass(frozen=True, slots=True)
class TrialTurn:
    """One turn under a recipe. Sizes are tokens of the session's accounting."""

    turn: int
    sent: int
    """The prompt that would have gone out for it."""
    cut: int
    flushed: int
    """Messages that left the queue in it."""
    calls: int
    """Calls a model would have been asked for while it learned from this turn."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A recipe on the conversation so far."""

    recipe: str
    turns: tuple[TrialTurn, ...]
    calls: int
    """Calls that a model would have been asked for; the rules made them for nothing."""
    call_tokens: int
    """Tokens of messages it would have read in them, its instructions left out."""
    prompt: Context | None
    """Next prompt under the recipe; None where it cannot be tried."""
    error: str | None = None
    """Why it cannot be tried, or learned less than it would, in a sentence."""

    @property
    def average(self) -> int:
        """Tokens of a prompt, on average over the turns."""
        return round(sum(turn.sent for turn in self.turns) / len(self.turns)) if self.turns else 0


def compare_recipes(
    memory: Memory,
    keys: Sequence[str],
    *,
    progress: Callable[[int, int], object] = lambda done, of: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> list[Trial]:
    """Each recipe on the conversation so far, as the session would be after switching to it.

    At most the newest 300 turns are tried. `progress` is called with the turns done and their total; once
    `cancelled`, what is finished is given. A recipe that cannot be tried says why.
    """
    memory.session.refresh()
    turns = turns_of(memory.get_all())[-MAX_TURNS:]
    services = Services(embedder=_Once(memory.session.services.embedder))
    done = 0
    trials: list[Trial] = []
    for key in keys:
        trial = _Running(memory, key, services)
        for turn in turns:
            if cancelled():
                return trials
            trial.take(turn)
            done += 1
            progress(done, len(turns) * len(keys))
        trials.append(trial.result())
    return trials


class _Running:
    """One recipe being tried."""

    def __init__(self, memory: Memory, key: str, services: Services) -> None:
        self._key = key
        self._turns: list[TrialTurn] = []
        self._error: str | None = None
        self._memory: Memory | None = None
        self._position = 0
        try:
            self._memory = _scratch(memory, key, services)
        except MemoryInspectorError as error:
            self._error = str(error)

    def take(self, turn: Sequence[ChatMessage]) -> None:
        """Put a turn; its prompt is built where the answer begins, as for a reply."""
        memory = self._memory
        if memory is None:
            return
        asked = [message for message in turn[:1] if message.role is MessageRole.USER]
        flushed, sent, cut = 0, 0, 0
        if asked:
            flushed += _left(memory.put(asked[0]))
            _edit_by_rules(memory, f"trial-{len(self._turns)}")
            plan = memory.build_context(record=False).plan
            sent, cut = plan.total, sum(cut.tokens for cut in plan.cuts)
        if rest := turn[len(asked) :]:
            flushed += _left(memory.put_messages(rest))
        calls, _ = _calls(memory, self._position)
        self._position = memory.session.status().position
        if asked:
            self._turns.append(TrialTurn(len(self._turns) + 1, sent, cut, flushed, calls))

    def result(self) -> Trial:
        if self._memory is None:
            return Trial(self._key, (), 0, 0, None, self._error)
        calls, tokens = _calls(self._memory, 0)
        prompt = self._memory.build_context(record=False)
        return Trial(self._key, tuple(self._turns), calls, tokens, prompt, _undelivered(self._memory))


def _calls(memory: Memory, after: int) -> tuple[int, int]:
    """Model calls that would have been made since a position of the log, and the tokens read in them."""
    costs = {  # comparing found facts with known ones takes one more
        a.name: (a.block.kind_model_calls if a.block else 0) + (a.settings.get("on_change") == "decide")
        for a in memory.blocks
    }
    sizes = {delivery.id: delivery.tokens for delivery in memory.session.deliveries(states=("done",))}
    calls = tokens = 0
    for record in memory.events(after, kinds=(DeliveryDone.kind, ToolCalled.kind)):
        if isinstance(record.event, DeliveryDone):
            cost = costs.get(record.event.block, 0)
            calls += cost
            tokens += cost * sum(sizes.get(id, 0) for id in record.event.deliveries)
        else:
            calls += 1
    return calls, tokens


def _undelivered(memory: Memory) -> str | None:
    """Sentence about deliveries that did not reach their blocks."""
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


def _left(receipt: Receipt) -> int:
    return len(receipt.flushed.leave) if receipt.flushed else 0


def _edit_by_rules(memory: Memory, reply: str) -> None:
    """Let the offline rules use the memory's tools, where it has any."""
    if memory.blocks.editable_by_agents:
        act(memory, OfflineResponder(), reply)


def _scratch(memory: Memory, key: str, services: Services) -> Memory:
    """A memory in this process, as the session would be after the switch, with nothing said yet."""
    plan = memory.preview.switch(key)
    made: dict[str, BaseMemoryBlock[Any] | None] = {block.name: block for block in plan.blocks}
    for attached in memory.blocks:
        if attached.name in plan.kept:
            changes = {name: after for name, (_, after) in plan.changed.get(attached.name, {}).items()}
            made[attached.name] = _copy(attached, changes)
    settings = memory.session.config.model_dump(mode="json", exclude={"recipe", "recipe_parameters"})
    settings |= {name: after for name, (_, after) in plan.settings.items()}
    return Memory.from_defaults(
        user_id="trial" if memory.session.user_id else None,
        memory_blocks=[block for name in plan.order if (block := made[name]) is not None],
        tokenizer_fn=memory.session.tokenizer_fn,
        database_uri="sqlite://",
        services=services,
        **settings,
    )


def _copy(attached: SessionBlock, changes: Mapping[str, Any]) -> BaseMemoryBlock[Any] | None:
    """A block that stays, empty but for a fixed text. Blocks of somebody's own are not run for a trial."""
    if attached.kind == "custom":
        return None
    extra: dict[str, Any] = {}
    if isinstance(attached.block, StaticMemoryBlock):
        extra = {"static_content": attached.block.static_content}
    return BUILT_IN[attached.kind](**{**attached.settings, **changes, "name": attached.name, **extra})


class _Once:
    """An embedder that embeds each text once, however many recipes store it."""

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

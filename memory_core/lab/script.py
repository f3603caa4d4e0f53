"""What an agent did to a memory, step by step, so that the same can be done to another: puts, flushes, prompts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from memory_core.events import ContextBuilt, EventRecord, FlushPlanned, MessageAdded, SessionReset
from memory_core.memory import Memory
from memory_core.messages import ChatMessage, MessageRole


@dataclass(frozen=True, slots=True)
class Step:
    """One call of an agent."""

    does: Literal["put", "ask", "flush", "close"]
    at: float = 0.0
    """Seconds since the epoch; recency counts by it."""
    messages: tuple[ChatMessage, ...] = ()
    """What a put appends, in one transaction."""
    input: str | None = None
    """What a prompt is asked for, where that is not in the queue yet."""


@dataclass(frozen=True, slots=True)
class Script:
    """A conversation as steps."""

    steps: tuple[Step, ...]
    by_people: int = 0
    """Changes that people made to its memory meanwhile. They are not done again: facts learned under other settings
    are other facts."""
    learners: tuple[str, ...] = ()
    """Names of the models that learned in it."""
    editing: bool = False
    """Whether the agent had tools to edit its memory: then the calls it made are all there were."""

    @property
    def messages(self) -> list[ChatMessage]:
        return [message for step in self.steps for message in step.messages]

    @property
    def turns(self) -> int:
        return sum(message.role is MessageRole.USER for message in self.messages)


def script_from(messages: Iterable[ChatMessage], *, at: float = 0.0) -> Script:
    """The steps of an agent that puts each message by itself, and asks for its prompt after each of the user's."""
    steps: list[Step] = []
    for message in messages:
        steps.append(Step("put", at, (message,)))
        if message.role is MessageRole.USER:
            steps.append(Step("ask", at))
    return Script(tuple(steps))


def script_of(memory: Memory) -> Script:
    """What an agent did in a session since its last reset, as its log tells.

    A turn for which it asked no prompt gets one, after the user's message.
    """
    records = memory.log.history().records
    first = next((i for i in reversed(range(len(records))) if isinstance(records[i].event, SessionReset)), -1) + 1
    messages = {stored.seq: stored.message for stored in memory.session.messages()}
    gathering = _Gathering(memory, messages)
    for record in records[first:]:
        gathering.take(record)
    learners = dict.fromkeys(attached.learner for attached in memory.blocks if attached.learner)
    return Script(
        tuple(_with_prompts(gathering.steps)), gathering.by_people, tuple(learners), memory.blocks.editable_by_agents
    )


@dataclass
class _Gathering:
    """Reads steps off the log."""

    memory: Memory
    messages: dict[int, ChatMessage]
    steps: list[Step] = field(default_factory=list)
    by_people: int = 0
    _together: tuple[float, str] | None = None
    """Time and actor of the put that is being read: its messages share them, as they share a transaction."""

    def take(self, record: EventRecord) -> None:
        event = record.event
        if isinstance(event, MessageAdded):
            self._put(record, event.seq)
            return
        if isinstance(event, FlushPlanned) and self._together == (record.at, record.actor):
            return  # the put's own
        self._together = None
        if isinstance(event, FlushPlanned) and event.trigger != "over_budget":
            self.steps.append(Step("flush" if event.trigger == "asked" else "close", record.at))
        elif isinstance(event, ContextBuilt):
            text = self.memory.log.texts([event.input]).get(event.input) if event.input else None
            self.steps.append(Step("ask", record.at, input=text))
        elif record.actor == "user" and event.family in ("facts", "relations", "summaries", "blocks", "settings"):
            self.by_people += 1

    def _put(self, record: EventRecord, seq: int) -> None:
        message = self.messages.get(seq)
        if message is None:  # erased since
            return
        if self._together == (record.at, record.actor):
            last = self.steps.pop()
            self.steps.append(Step("put", record.at, (*last.messages, message)))
        else:
            self.steps.append(Step("put", record.at, (message,)))
        self._together = (record.at, record.actor)


def _with_prompts(steps: Sequence[Step]) -> list[Step]:
    """With a prompt after the first put of each turn that has none."""
    made: list[Step] = []
    for number, step in enumerate(steps):
        made.append(step)
        if any(message.role is MessageRole.USER for message in step.messages) and not _asked(steps[number + 1 :]):
            made.append(Step("ask", step.at))
    return made


def _asked(later: Sequence[Step]) -> bool:
    """Whether a prompt is asked for before the next message of the user."""
    for step in later:
        if step.does == "ask":
            return True
        if any(message.role is MessageRole.USER for message in step.messages):
            return False
    return False

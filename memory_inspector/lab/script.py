"""An agent's actions on a memory as replayable steps: puts, flushes, prompts."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from memory_core.events import EventRecord
from memory_core.history.by_turn import flush_of
from memory_core.history.slices.contexts import context_of
from memory_core.memory import Memory
from memory_core.messages import ChatMessage, MessageRole
from memory_core.planning.quarantine import changes_quarantine
from memory_inspector.lab.curation_steps import CuratedFacts, curated_facts

Held = Literal["flush", "condensing"]
"""Actions that may be suppressed at a step."""


@dataclass(frozen=True, slots=True)
class ScriptStep:
    """An action of an agent."""

    does: Literal["put", "ask", "flush", "close", "curate"]
    at: float = 0.0
    """Seconds since the epoch; recency is computed from it."""
    messages: tuple[ChatMessage, ...] = ()
    """Messages appended by a put, in one transaction."""
    input: str | None = None
    """Prompt input that is not in the queue yet."""
    positions: tuple[int, ...] = ()
    """Log positions of the step's events, for a put one per message; empty for added steps."""
    unmade: frozenset[int] = frozenset()
    """Indexes of tool calls to skip."""
    held: frozenset[Held] = frozenset()
    """Actions to suppress."""
    reserved_tokens: int | None = None
    """Tokens of the agent's own system prompt and tools, if measured for a prompt; None: those of the settings."""
    curated: CuratedFacts | None = None
    """A person's change of facts."""


@dataclass(frozen=True, slots=True)
class Script:
    """A conversation as steps."""

    steps: tuple[ScriptStep, ...]
    by_people: int = 0
    """Number of changes to memory by people that are not replayed. Their changes of facts are, and do not count."""
    learners: tuple[str, ...] = ()
    """Names of the models that learned in the conversation."""
    editing: bool = False
    """True if the agent had memory tools; then its recorded calls are complete."""

    @property
    def messages(self) -> list[ChatMessage]:
        return [message for step in self.steps for message in step.messages]

    @property
    def turns(self) -> int:
        return sum(message.role is MessageRole.USER for message in self.messages)


def script_from(messages: Iterable[ChatMessage], *, at: float = 0.0) -> Script:
    """Build a script that stores each message separately and prompts after each user message."""
    steps: list[ScriptStep] = []
    for message in messages:
        steps.append(ScriptStep("put", at, (message,)))
        if message.role is MessageRole.USER:
            steps.append(ScriptStep("ask", at))
    return Script(tuple(steps))


def script_of(memory: Memory, upto: int | None = None) -> Script:
    """Read an agent's actions since the last reset from the log, optionally up to a position.

    Turns without a prompt get one, after the user's message.
    """
    turns = memory.log.history().turns.values()
    pairs = sorted((pair for pair in _recorded_steps(memory) if upto is None or _position(pair) <= upto), key=_position)
    # Events of single facts have the time of their change set. Those of a replayed set do not count as left out.
    again = {record.at for record, step in pairs if step is not None and step.curated is not None}
    learners = dict.fromkeys(attached.learner for attached in memory.blocks if attached.learner)
    return Script(
        steps=tuple(_with_prompts(_together(pairs))),
        by_people=sum(
            (upto is None or record.position <= upto)
            and not (record.event.family == "facts" and record.at in again)
            # Importing or renaming a session changes no memory.
            and (record.event.family != "session" or changes_quarantine(record.event))
            for turn in turns
            for record in turn.edited
        ),
        learners=tuple(learners),
        editing=memory.blocks.editable_by_agents,
    )


def _recorded_steps(memory: Memory) -> Iterator[tuple[EventRecord, ScriptStep | None]]:
    """Yield each message, prompt, flush and change set of facts with the step that replays it; None for a flush that a
    put triggered."""
    history = memory.log.history()
    pieces = memory.log.pieces() if history.records else None
    for stored in memory.session.messages():
        state = pieces.message(stored.seq) if pieces is not None else None
        if state is not None:
            yield (
                state.record,
                ScriptStep("put", state.record.at, (stored.message,), positions=(state.record.position,)),
            )
    curated = curated_facts(memory, history.records)
    for record in history.after(
        max((record.position for record in history.records if record.event.empties_session), default=0)
    ):
        if record.position in curated:
            place = (record.position,)
            yield record, ScriptStep("curate", record.at, positions=place, curated=curated[record.position])
    for turn in history.turns.values():
        for record in turn.contexts:
            built = context_of(record)
            asked = memory.log.texts([built.input]).get(built.input) if built.input else None
            measured = built.reserved_tokens if built.measured else None
            yield (
                record,
                ScriptStep("ask", record.at, input=asked, positions=(record.position,), reserved_tokens=measured),
            )
        for record in turn.flushes:
            here = (record.position,)
            steps = {
                "asked": ScriptStep("flush", record.at, positions=here),
                "closed": ScriptStep("close", record.at, positions=here),
            }
            # A flush over budget is no step: the put that is replayed decides again, under the new settings.
            yield record, steps.get(flush_of(record).trigger)


def _position(pair: tuple[EventRecord, ScriptStep | None]) -> int:
    return pair[0].position


def _together(pairs: Iterable[tuple[EventRecord, ScriptStep | None]]) -> list[ScriptStep]:
    """Join the messages of one put, recognised by equal time and actor, as they share a transaction."""
    steps: list[ScriptStep] = []
    before: EventRecord | None = None
    for record, step in pairs:
        if (
            step is not None
            and step.messages
            and before is not None
            and (before.at, before.actor) == (record.at, record.actor)
        ):
            steps[-1] = replace(
                steps[-1],
                messages=(*steps[-1].messages, *step.messages),
                positions=(*steps[-1].positions, *step.positions),
            )
        elif step is not None:
            steps.append(step)
        # A flush ends the put before it, so a message of the same time after it begins another put.
        before = record if step is not None and step.messages else None
    return steps


def _with_prompts(steps: Sequence[ScriptStep]) -> list[ScriptStep]:
    """Insert a prompt after the first put of each turn that has none."""
    made: list[ScriptStep] = []
    for number, step in enumerate(steps):
        made.append(step)
        if any(message.role is MessageRole.USER for message in step.messages) and not _asked(steps[number + 1 :]):
            # Before the answer, when an agent would have asked for it.
            made.append(ScriptStep("ask", step.at))
    return made


def _asked(later: Sequence[ScriptStep]) -> bool:
    """Return whether a prompt comes before the next user message."""
    for step in later:
        if step.does == "ask":
            return True
        if any(message.role is MessageRole.USER for message in step.messages):
            return False
    return False

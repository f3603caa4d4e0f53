"""Decide which messages leave the queue once it outgrows the history budget.

Pure: no store, no model, no clock. The caller passes running totals and an iterator from the
oldest message on; only what leaves, and one message more, is read from it, so that the cost does
not grow with the queue. All sizes are in tokens.

Two kinds of cut exist. A cut *between turns* falls before a user message. A cut *inside* the
newest turn (see `_thin`) falls between a complete step, an assistant message with the results of
its calls, and the next.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from memory_core.errors import ConfigError
from memory_core.formats.notebooks import repr_html
from memory_core.messages import MessageRole


@dataclass(frozen=True, slots=True)
class SizedMessage:
    """A message reduced to what planning needs."""

    seq: int
    """Sequence number in the session; messages are ordered by it, never by a clock."""
    role: MessageRole
    tokens: int
    calls: tuple[str, ...] = ()
    """Ids of the tool calls in this message."""
    answers: str | None = None
    """Id of the tool call whose result this message is; None for other messages."""


@dataclass(frozen=True, slots=True)
class Queue:
    """Running totals of the queue. Pinned system messages are not part of it."""

    tokens: int
    messages: int
    newest_turn: int | None
    """`seq` of the newest user message in the queue; None when it holds no user message."""


Trigger = Literal["over_budget", "asked", "closed"]
Rule = Literal["window", "whole_turns", "long_turn", "no_user_message", "everything"]


@dataclass(frozen=True, slots=True)
class FlushPlan:
    """Messages that leave the queue (`leave`), oldest first; all others stay."""

    leave: tuple[SizedMessage, ...]
    rules: tuple[Rule, ...]
    """Rules of the cuts that were made, in order."""
    tokens: int
    """Tokens of the messages that leave."""
    tokens_left: int
    over_by: int
    """Tokens still above the history budget: the newest turn alone may be too big."""

    _repr_html_ = repr_html

    def __bool__(self) -> bool:
        return bool(self.leave)


def plan_flush(
    queue: Queue,
    oldest: Iterable[SizedMessage],
    *,
    history_budget: float,
    token_flush_size: int,
    split_long_turns: bool = True,
    turns_over: int = 0,
    trigger: Trigger = "over_budget",
) -> FlushPlan:
    """Plan which of the oldest messages leave, until the rest fits `history_budget`.

    `turns_over` is the number of turns that the queue holds beyond its window: exactly these leave
    first, whatever their size.

    At least `token_flush_size` tokens leave at a time, so that flushes stay rare; the queue then
    starts with a user message, and the newest turn stays. These are the boundary rules of
    LlamaIndex's `Memory`, with two differences: a queue without any user message keeps its newest
    step (there, it is emptied), and with `split_long_turns` a newest turn that alone is above the
    budget is thinned (there, it grows without bound).

    `trigger="asked"` moves one batch whatever the total; `"closed"` moves everything.

    >>> turns = [SizedMessage(seq, MessageRole.USER, tokens=20) for seq in (1, 2, 3)]
    >>> plan = plan_flush(Queue(60, 3, newest_turn=3), turns, history_budget=40, token_flush_size=10)
    >>> [message.seq for message in plan.leave]
    [1]

    Raises:
        ConfigError: `token_flush_size` is below 1.
    """
    if token_flush_size < 1:
        raise ConfigError(f"must be at least 1: {token_flush_size=}")
    # 1. Nobody will answer in a closed session, so no turn has to stay whole.
    if trigger == "closed":
        return _plan(queue, list(oldest), ("everything",) if queue.messages else (), history_budget)
    # 2. Turns beyond the window leave first, and are subtracted from the totals before the budget is checked.
    messages = iter(oldest)
    beyond: list[SizedMessage] = []
    if turns_over > 0 and trigger == "over_budget":
        beyond, messages = _oldest_turns(messages, turns_over)
    window = queue
    if beyond:
        window = Queue(queue.tokens - sum(m.tokens for m in beyond), queue.messages - len(beyond), queue.newest_turn)
    rules: list[Rule] = ["window"] if beyond else []
    if trigger == "over_budget" and window.tokens <= history_budget:
        return _plan(queue, beyond, tuple(rules), history_budget)

    # 3. Without a user message no cut between turns exists: whole steps are the best that can be kept together.
    target = _Target(window, history_budget, token_flush_size, once=trigger == "asked")
    if window.newest_turn is None:
        leave = _oldest_steps(messages, target, upto=window.messages)
        return _plan(queue, leave, ("no_user_message",) if leave else (), history_budget)

    # 4. Whole turns up to the newest one.
    leave, rest = _whole_turns(messages, target, newest_turn=window.newest_turn)
    rules += ["whole_turns"] if leave else []
    # 5. The newest turn is above the budget by itself. It is thinned only under pressure, not on request.
    still_over = window.tokens - target.flushed > history_budget
    if split_long_turns and still_over and trigger == "over_budget":
        steps = _thin(rest, target, upto=window.messages - len(leave))
        leave += steps
        rules += ["long_turn"] if steps else []
    return _plan(queue, [*beyond, *leave], tuple(rules), history_budget)


def complete_turns(messages: Sequence[SizedMessage]) -> Sequence[SizedMessage]:
    """Return the messages up to the end of the last complete turn.

    A turn is complete once it is answered, by an assistant message that calls no tool, or once
    the next one begins.
    """
    last = messages[-1] if messages else None
    if last is None or (last.role is MessageRole.ASSISTANT and not last.calls):
        return messages
    starts = [index for index, message in enumerate(messages) if message.role is MessageRole.USER]
    return messages[: starts[-1]] if starts else ()


class _Target:
    """Flush target: whole batches of the flush size leave until the queue is under budget."""

    def __init__(self, queue: Queue, history_budget: float, flush_size: int, *, once: bool) -> None:
        self.flushed = 0
        self._batch = 0
        self._queue_tokens = queue.tokens
        self._budget = history_budget
        self._flush_size = flush_size
        self._once = once

    def add(self, tokens: int) -> None:
        self.flushed += tokens
        self._batch += tokens

    @property
    def batch_full(self) -> bool:
        return self._batch >= self._flush_size

    def met(self) -> bool:
        """Return whether the flush may end here; a full batch that is not enough is followed by another."""
        if not self.batch_full:
            return False
        # The next batch counts from here: a further cut must again free at least the flush size.
        self._batch = 0
        return self._once or self._queue_tokens - self.flushed <= self._budget


def _oldest_turns(messages: Iterator[SizedMessage], turns: int) -> tuple[list[SizedMessage], Iterator[SizedMessage]]:
    """Split off the oldest turns, with any messages before the first of them."""
    leave: list[SizedMessage] = []
    begun = 0
    for message in messages:
        begun += message.role is MessageRole.USER
        if begun > turns:
            return leave, chain([message], messages)
        leave.append(message)
    return leave, messages


def _whole_turns(
    messages: Iterator[SizedMessage], target: _Target, *, newest_turn: int
) -> tuple[list[SizedMessage], Iterator[SizedMessage]]:
    """Split off all messages before the first user message at which the target is met, at most to the newest turn."""
    leave: list[SizedMessage] = []
    for message in messages:
        # Not in front of the very first message, where nothing would leave.
        may_cut = message.role is MessageRole.USER and bool(leave)
        # The message that was read ahead goes back in front, as thinning continues from it.
        if message.seq >= newest_turn or (may_cut and target.met()):
            return leave, chain([message], messages)
        leave.append(message)
        target.add(message.tokens)
    return leave, messages


def _thin(rest: Iterator[SizedMessage], target: _Target, *, upto: int) -> list[SizedMessage]:
    """Return the oldest complete steps of the newest turn; its user message and its newest step stay."""
    # The user message stays: the steps of the turn mean nothing without its request.
    next(rest, None)
    return _oldest_steps(rest, target, upto=upto - 1)


def _oldest_steps(messages: Iterator[SizedMessage], target: _Target, *, upto: int) -> list[SizedMessage]:
    """Return whole steps from the front until the target is met; the last step of the `upto` messages stays.

    A step is a message that is no tool result, with the results that follow it. A step with a
    call that has no result yet ends the search: a result must never outlive its call.
    """
    leave: list[SizedMessage] = []
    step: list[SizedMessage] = []
    for read, message in enumerate(messages, start=1):
        if step and message.role is not MessageRole.TOOL:
            # Later steps stay as well: the queue is cut at one place.
            called = {call for message in step for call in message.calls}
            if not called <= {message.answers for message in step}:
                return leave
            leave += step
            target.add(sum(m.tokens for m in step))
            if target.met():
                return leave
            step = []
        step.append(message)
        if read == upto:
            break
    return leave


def _plan(queue: Queue, leave: list[SizedMessage], rules: tuple[Rule, ...], history_budget: float) -> FlushPlan:
    tokens = sum(message.tokens for message in leave)
    remaining = queue.tokens - tokens
    return FlushPlan(
        leave=tuple(leave),
        rules=rules,
        tokens=tokens,
        tokens_left=remaining,
        # The budget is a share of the token limit, and may be a fraction.
        over_by=max(0, math.ceil(remaining - history_budget)),
    )

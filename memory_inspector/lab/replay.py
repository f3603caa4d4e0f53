"""Replay a session's flushes under another configuration, and their cost, from the sizes of its messages alone.

Needs no store and no model: the engine's own planner is called at every put, as if the messages had been put one by
one. The whole replay is O(messages).
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from memory_core.config import MemoryConfig
from memory_core.messages import ChatMessage, MessageRole
from memory_core.planning.flush import FlushPlan, Queue, SizedMessage, plan_flush


@dataclass(frozen=True, slots=True)
class ReplayedFlush:
    """A flush that would have happened."""

    seq: int
    """Sequence number of the message whose put exceeded the queue's budget."""
    queue_before: int
    """Tokens in the queue before the flush."""
    plan: FlushPlan


def queued_sizes(messages: Sequence[ChatMessage], sizes: Sequence[int]) -> list[SizedMessage]:
    """Return the messages that enter the queue; system messages before the first user message are pinned instead.

    `sizes` are tokens, one per message. Sequence numbers count all messages from 1.
    """
    roles = [message.role for message in messages]
    opening = roles.index(MessageRole.USER) if MessageRole.USER in roles else len(roles)
    return [
        SizedMessage(
            seq,
            message.role,
            tokens,
            tuple(call.tool_call_id for call in message.tool_calls if call.tool_call_id),
            message.tool_call_id if message.role is MessageRole.TOOL else None,
        )
        for seq, (message, tokens) in enumerate(zip(messages, sizes, strict=True), start=1)
        if message.role is not MessageRole.SYSTEM or seq > opening
    ]


def replay_flushes(sizes: Sequence[SizedMessage], config: MemoryConfig) -> list[ReplayedFlush]:
    """Return the flushes that `config` would have caused, in order.

    `sizes` are all messages that were ever in the queue, archived ones included, in order, with tokens of the
    accounting that `config` names; pinned system messages are not among them.
    >>> turns = [SizedMessage(seq, MessageRole.USER, tokens=20) for seq in (1, 2, 3)]
    >>> config = MemoryConfig(token_limit=50, chat_history_token_ratio=0.8, token_flush_size=10)
    >>> [(flush.seq, [message.seq for message in flush.plan.leave]) for flush in replay_flushes(turns, config)]
    [(3, [1])]
    """
    queue: deque[SizedMessage] = deque()
    tokens, turns, newest_turn = 0, 0, None
    flushes = []
    history_budget, flush_size = config.history_budget, config.flush_size
    for message in sizes:
        queue.append(message)
        tokens += message.tokens
        if message.role is MessageRole.USER:
            # Never reset: a flush over budget leaves the newest user message in the queue.
            newest_turn = message.seq
            turns += 1
        plan = plan_flush(
            Queue(tokens, len(queue), newest_turn),
            queue,
            history_budget=history_budget,
            token_flush_size=flush_size,
            split_long_turns=config.split_long_turns,
            turns_over=max(0, turns - config.queue_turns) if config.queue_turns is not None else 0,
        )
        if plan:
            flushes.append(ReplayedFlush(message.seq, tokens, plan))
            remove_leaving(queue, plan.leave)
            tokens = plan.tokens_left
            turns -= sum(leaving.role is MessageRole.USER for leaving in plan.leave)
    return flushes


def remove_leaving(queue: deque[SizedMessage], leave: Sequence[SizedMessage]) -> None:
    """Remove the messages in `leave` from the front of the queue; the user message of a split turn stays there."""
    stay = []
    for leaving in leave:
        while (first := queue.popleft()) is not leaving:
            stay.append(first)
    queue.extendleft(reversed(stay))


# -- cost of a play -------------------------------------------------------------------------------

PROMPT_TOKENS = 400
"""Approximate tokens that an extraction call has besides the messages: instructions and the answer's schema."""

FACT_TOKENS = 12
"""Approximate size, in tokens, of a known fact; every call lists all known facts."""


@dataclass(frozen=True, slots=True)
class PlayCost:
    """Estimated calls and tokens. Recorded replies are reused, so only learning calls the model."""

    flushes: int
    calls: int
    input_tokens: int


def play_cost(
    messages: Sequence[ChatMessage], sizes: Sequence[int], config: MemoryConfig, *, learners: int = 1
) -> PlayCost:
    """Count flushes and learning calls when playing `messages` of these sizes (tokens) one by one.

    `learners` is the number of blocks that call a model for every flush. One new fact per turn is assumed.
    """
    flushes = replay_flushes(queued_sizes(messages, sizes), config)
    facts = tokens = 0
    # Every call reads the messages of its flush and lists the facts that are known by then.
    for flush in flushes:
        tokens += flush.plan.tokens + PROMPT_TOKENS + facts * FACT_TOKENS
        facts += sum(message.role is MessageRole.USER for message in flush.plan.leave)
    return PlayCost(len(flushes), len(flushes) * learners, tokens * learners)

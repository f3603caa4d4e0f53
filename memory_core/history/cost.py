"""Estimated cost of playing a recorded conversation with a paid model, without calling it."""

from collections.abc import Sequence
from dataclasses import dataclass

from memory_core.config import MemoryConfig
from memory_core.history.replay import replay_flushes
from memory_core.messages import ChatMessage, MessageRole
from memory_core.planning.flush import SizedMessage

PROMPT_TOKENS = 400
"""Approximate tokens an extraction call adds to the messages: its instructions and the answer's schema."""

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

    `learners` is the number of blocks that call a model for every flush. One new fact per turn is assumed. System
    messages before the first user message are pinned and never enter the queue.
    """
    roles = [message.role for message in messages]
    opening = roles.index(MessageRole.USER) if MessageRole.USER in roles else len(roles)
    sized = [
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
    flushes = replay_flushes(sized, config)
    known = tokens = 0
    for flush in flushes:
        tokens += flush.plan.tokens + PROMPT_TOKENS + known * FACT_TOKENS
        known += sum(message.role is MessageRole.USER for message in flush.plan.leave)
    return PlayCost(len(flushes), len(flushes) * learners, tokens * learners)

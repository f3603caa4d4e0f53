"""Estimated cost of playing a recorded conversation with a paid model, without calling it."""

from collections.abc import Sequence
from dataclasses import dataclass

from memory_core.config import MemoryConfig
from memory_core.history.replay import queued_sizes, replay_flushes
from memory_core.messages import ChatMessage, MessageRole

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

    `learners` is the number of blocks that call a model for every flush. One new fact per turn is assumed.
    """
    flushes = replay_flushes(queued_sizes(messages, sizes), config)
    known = tokens = 0
    for flush in flushes:
        tokens += flush.plan.tokens + PROMPT_TOKENS + known * FACT_TOKENS
        known += sum(message.role is MessageRole.USER for message in flush.plan.leave)
    return PlayCost(len(flushes), len(flushes) * learners, tokens * learners)

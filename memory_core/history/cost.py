"""Cost of models: an estimate for playing a recorded conversation, and prices derived from recorded calls."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from memory_core.config import MemoryConfig
from memory_core.events import Event, EventRecord, ModelCalled
from memory_core.history.replay import queued_sizes, replay_flushes
from memory_core.messages import ChatMessage, MessageRole

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


def is_call(event: Event) -> TypeGuard[ModelCalled]:
    return isinstance(event, ModelCalled)


def known_price(records: Iterable[EventRecord]) -> float | None:
    """Estimate US dollars per million input tokens of the model that was called last, from its recorded calls.

    None unless at least two of its calls, of different sizes, have a recorded cost: input and output tokens have
    different prices.
    """
    called = [record.event for record in records if is_call(record.event)]
    charged = [call for call in called if None not in (call.cost, call.input_tokens, call.output_tokens)]
    same = [call for call in charged if call.model == charged[-1].model]
    if len(same) < 2:
        return None
    import numpy as np  # here: most sessions have no such call

    # Two unknowns, the prices of a token read and of one written; rank 2 says that the sizes determine both.
    sizes = np.array([(call.input_tokens, call.output_tokens) for call in same], dtype=float)
    (read, _), _, rank, _ = np.linalg.lstsq(sizes, np.array([call.cost for call in same], dtype=float), rcond=None)
    return round(float(read) * 1_000_000, 6) if rank == 2 else None

"""Distinguish prompts from other reads of memory: record only contexts that precede a model call."""

from collections.abc import Hashable
from typing import Any

from memory_core.engine.context import Context
from memory_core.memory import Memory
from memory_core.messages import MessageRole


class PromptDetector:
    """Detects which contexts of one memory are prompts. Frameworks also read memory to inspect it, or after storing the
    answer; recording those would show prompts that no model received."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._recorded: Hashable = None

    def context(self, input: str | None = None, **arguments: Any) -> Context:
        """Return the context; record it only the first time for a message that awaits an answer, or for an `input`."""
        newest = self._memory.session.messages("active", last=1)
        answered = not newest or newest[0].message.role not in (MessageRole.USER, MessageRole.TOOL)
        # A stored message without an answer is the question itself; `input` can only repeat it.
        key = (newest[0].seq if newest else 0, input if answered else None)
        record = key != self._recorded and not (answered and not input)
        if record:
            self._recorded = key
        return self._memory.build_context(input or None, record=record, **arguments)

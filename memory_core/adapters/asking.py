"""Which of the contexts that a framework asks for are prompts: those that a model call follows."""

from collections.abc import Hashable
from typing import Any

from memory_core.engine.context import Context
from memory_core.memory import Memory
from memory_core.messages import MessageRole


class Asking:
    """The contexts of one memory as a framework asks for them. Frameworks also read memory to look at it, or after the
    answer was put: those are not recorded, or the app would show as a turn's prompt what no model got."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._recorded: Hashable = None

    def context(self, input: str | None = None, **arguments: Any) -> Context:
        """The context; recorded once for each newest message that a model has to answer, or for an `input` to come."""
        newest = self._memory.session.messages("active", last=1)
        answered = not newest or newest[0].message.role not in (MessageRole.USER, MessageRole.TOOL)
        key = (newest[0].seq if newest else 0, input if answered else None)
        record = key != self._recorded and not (answered and not input)
        if record:
            self._recorded = key
        return self._memory.build_context(input or None, record=record, **arguments)

"""Ablation: ask a model the same prompt again with one item removed or reworded.

Nothing is stored and no event recorded; token counts are known before the calls. A model that edits its memory is
offered its tools as usual; tool calls are reported, not executed.
"""

from collections.abc import Callable
from dataclasses import dataclass

from memory_core.agent.tools import MemoryTools, definition_tokens
from memory_core.errors import ConfigError
from memory_core.events import EventRecord, Ref
from memory_core.history.prompt_store import EDITABLE
from memory_core.memory import Memory
from memory_core.messages import ChatMessage, ToolCallPart
from memory_core.models.protocols import ChatModel, ToolSpec
from memory_core.tokens import counter_for


@dataclass(frozen=True, slots=True)
class AlteredPrompt:
    """A past prompt in two versions: as sent, and with one item removed or reworded."""

    before: tuple[ChatMessage, ...]
    after: tuple[ChatMessage, ...]
    tokens: tuple[int, int]
    """Tokens that the calls with `before` and `after` send, tool definitions included."""
    tools: tuple[ToolSpec, ...] = ()
    """Tools offered to the model; empty unless agents may edit the memory."""


@dataclass(frozen=True, slots=True)
class Answers:
    """A model's answers to both prompts."""

    model: str
    before: str
    after: str
    calls: tuple[tuple[ToolCallPart, ...], tuple[ToolCallPart, ...]] = ((), ())
    """Tool calls of both answers."""

    @property
    def same(self) -> bool:
        """Return whether the answers are identical, text and tool calls."""
        # Runs of whitespace do not count as a difference.
        called = [[(call.tool_name, call.arguments) for call in calls] for calls in self.calls]
        return self.before.split() == self.after.split() and called[0] == called[1]


def question_without(memory: Memory, context: EventRecord, ref: Ref, words: str | None = None) -> AlteredPrompt:
    """Return a recorded prompt as sent, and without an item or with `words` in the item's place.

    Raises:
        ConfigError: The prompt lacks the item, or its text cannot be replaced.
    """
    if words is not None and ref.kind not in EDITABLE:
        raise ConfigError("A stored turn is made of several messages: it can be left out, but not reworded.")
    before = memory.log.altered_prompt(context)
    after = memory.log.altered_prompt(
        context, without=() if words is not None else (ref,), edited={} if words is None else {ref: words}
    )
    # Checked before any call: two equal prompts would be paid for and show no difference.
    if before == after:
        raise ConfigError("The prompt is the same with and without it: there is nothing to ask.")
    config = memory.session.config
    counter = config.counting(counter_for(memory.session.tokenizer_fn, encoding=config.encoding))
    tools = tuple(MemoryTools(memory).specs()) if memory.blocks.editable_by_agents else ()
    # Definitions of tools are sent with both calls, beside the messages.
    beside = definition_tokens(tools, memory.session.count_tokens)
    sizes = [beside + sum(counter.message(message).billed for message in messages) for messages in (before, after)]
    return AlteredPrompt(before, after, (sizes[0], sizes[1]), tools)


def ask_both(
    model: ChatModel,
    question: AlteredPrompt,
    *,
    progress: Callable[[str], object] = lambda line: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Answers | None:
    """Ask a model both prompts; return None once `cancelled`.

    Raises:
        ModelError: The model did not answer.
    """
    answers: list[str] = []
    called: list[tuple[ToolCallPart, ...]] = []
    for line, messages in (("Asking with it", question.before), ("Asking without it", question.after)):
        progress(line)
        stream = model.stream(messages, question.tools)
        try:
            words = []
            for piece in stream:
                if cancelled():
                    return None
                words.append(piece)
        # Also after a cancellation: closing ends the request.
        finally:
            stream.close()
        answers.append("".join(words).strip())
        # The calls are complete only once the stream has ended.
        called.append(stream.tool_calls)
    return Answers(model.name, answers[0], answers[1], (called[0], called[1]))

"""Loop of an agent that edits its own memory: prompt, model, tool calls, repeated until it answers.

Calls of a round and their results are stored together, in one turn, so that no flush separates them. Stored messages
stay when the model fails or the reply is stopped.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from memory_core.agent.tools import MemoryTools, ToolResult, storable
from memory_core.events import ModelCalled
from memory_core.memory import Memory
from memory_core.messages import ChatMessage, MessageRole, Part, TextPart, ToolCallPart, content_hash
from memory_core.models.protocols import ChatModel, ToolSpec

MAX_ROUNDS = 8
"""Maximum rounds of tool calls in one reply; then the model has to answer without tools."""

MAX_CALLS = 16
"""Maximum number of calls executed in one round; the others are refused."""

MAX_REPEATS = 2
"""Maximum number of executions of a call with the same arguments in one reply."""

STEP = "-step-"
"""Separator in the id of a message of tool calls or results; the reply's id precedes it."""


def nothing(what: str) -> None:
    """Default callback that discards streamed text."""


@dataclass(frozen=True, slots=True)
class ReplyCallbacks:
    """Callbacks of a reply in progress: for its text, for its steps, and to stop it."""

    text: Callable[[str], None] = nothing
    """Callback that receives each piece of streamed text, in every round."""
    step: Callable[[str], None] = nothing
    """Callback that receives a line about the present step."""
    stopped: Callable[[], bool] = lambda: False


@dataclass(frozen=True, slots=True)
class AgentReply:
    """Reply of the agent, and how it ended."""

    text: str
    """Text of the answer, already stored; empty if the reply was stopped before the answer began."""
    stopped: bool
    results: tuple[ToolResult, ...]
    """Results of all calls, in order."""


def reply(memory: Memory, model: ChatModel, reply_id: str, watch: ReplyCallbacks | None = None) -> AgentReply:
    """Answer the newest message, with tool calls; store all messages under ids that begin with `reply_id`.

    Without a block that an agent may edit, no tools are offered and the model answers in one round.

    Raises:
        ModelError: the model failed; what was stored before stays.
    """
    watch = watch or ReplyCallbacks()
    tools = MemoryTools(memory)
    made = _Made(tools, reply_id)
    # One round more than the limit: in the last one no tools are offered, so that the model must answer.
    for number in range(MAX_ROUNDS + 1):
        if watch.stopped():
            break
        watch.step("Reading memory")
        context = memory.build_context()
        # Asked for in every round, as a call may have changed a block's text or limit.
        offered = tools.specs() if number < MAX_ROUNDS else []
        watch.step("Waiting for the model")
        reply = _stream(memory, model, context.messages, offered, watch)
        # A stopped reply keeps its text, but its calls are not made.
        if watch.stopped() or not reply.calls or not offered:
            if reply.text.strip():
                watch.step("Storing the reply")
                put(memory, [ChatMessage(role="assistant", content=reply.text)], [f"{reply_id}-reply"])
            return AgentReply(reply.text, watch.stopped(), tuple(made.results))
        watch.step("Editing memory")
        # Calls are executed before the messages that record them are stored, as these contain the results.
        messages = made.round(number, reply.text, reply.calls, model)
        # Ids by round and position, so that a round repeated after a crash is stored once.
        put(memory, messages, [f"{reply_id}{STEP}{number}-{place}" for place in range(len(messages))])
    # Only a stop between rounds ends the loop here: the last round offers no tools and returns above.
    return AgentReply("", True, tuple(made.results))


def act(memory: Memory, model: ChatModel, reply_id: str) -> tuple[ToolResult, ...]:
    """Execute the tool calls that a model makes on the newest message, in one round and without an answer.

    For a conversation with recorded answers. The prompt is a preview with the static texts and the queue, without
    search results.

    Raises:
        ModelError: the model failed; nothing was changed.
    """
    tools = MemoryTools(memory)
    made = _Made(tools, reply_id)
    # Searching would call an embedder for a prompt that only has to show the editable blocks.
    searched = [attached.name for attached in memory.blocks if attached.kind != "static"]
    context = memory.preview.context(without=searched)
    reply = _stream(memory, model, context.messages, tools.specs(), ReplyCallbacks(), recorded=not model.offline)
    if reply.calls:
        messages = made.round(0, "", reply.calls, model)
        put(memory, messages, [f"{reply_id}{STEP}0-{place}" for place in range(len(messages))])
    return tuple(made.results)


def put(memory: Memory, messages: Sequence[ChatMessage], ids: Sequence[str]) -> None:
    """Store messages. Offline rules learn from flushed messages before this returns, a model in the background."""
    memory.put_messages(messages, message_ids=ids, wait=memory.session.services.extractor.offline)


@dataclass(frozen=True, slots=True)
class _ModelAnswer:
    text: str
    calls: tuple[ToolCallPart, ...]


def _stream(
    memory: Memory,
    model: ChatModel,
    messages: Sequence[ChatMessage],
    tools: Sequence[ToolSpec],
    watch: ReplyCallbacks,
    *,
    recorded: bool = True,
) -> _ModelAnswer:
    started = time.monotonic()
    stream = model.stream(messages, tools)
    pieces: list[str] = []
    try:
        # Always close the stream, so that the rest of a stopped reply is not generated and billed.
        for piece in stream:
            if watch.stopped():
                break
            pieces.append(piece)
            watch.text(piece)
    finally:
        stream.close()
    call, seconds = stream.call, round(time.monotonic() - started, 3)
    # `act` does not record calls of the offline rules: they cost nothing and say nothing about the session.
    if recorded:
        memory.log.record(
            ModelCalled(
                purpose="reply",
                model=model.name,
                input_tokens=call.input_tokens if call else None,
                output_tokens=call.output_tokens if call else None,
                seconds=seconds,
                cost=call.cost if call else None,
            )
        )
    # Some models call tools that were not offered in this round: these calls are dropped.
    return _ModelAnswer("".join(pieces), stream.tool_calls if tools else ())


class _Made:
    """Tool calls of one reply: executed, or refused if they are repeated or too many."""

    def __init__(self, tools: MemoryTools, reply_id: str) -> None:
        self.results: list[ToolResult] = []
        self._tools = tools
        self._reply_id = reply_id
        self._times: Counter[tuple[str, str]] = Counter()
        self._ids: set[str] = set()

    def round(self, number: int, text: str, calls: Sequence[ToolCallPart], model: ChatModel) -> list[ChatMessage]:
        """Execute one round's calls in order; return the messages to store: the calls, then a result for each."""
        # One call beyond the limit is kept, to carry the refusal of itself and all later ones.
        taken = calls[: MAX_CALLS + 1]
        named = [self._named(number, place, storable(call)) for place, call in enumerate(taken)]
        results = [self._make(call) for call in named[:MAX_CALLS]]
        if unanswered := len(calls) - len(results):
            # A refused call still needs a result, so the one beyond the limit carries the reason for all others.
            too_many = (
                f"{len(calls)} calls at once are too many: this one and all after it, {unanswered}, were not made."
            )
            results.append(self._tools.refuse(named[-1], too_many))
        self.results += results
        parts: list[Part] = [*([TextPart(text=text)] if text.strip() else []), *named]
        answers = [
            ChatMessage(
                role=MessageRole.TOOL,
                content=result.text,
                # Endpoints reject a result that does not name its call.
                additional_kwargs={"tool_call_id": call.tool_call_id, "name": call.tool_name}
                | ({} if result.done else {"is_error": True}),
            )
            for call, result in zip(named, results, strict=True)
        ]
        return [ChatMessage(role=MessageRole.ASSISTANT, parts=parts, additional_kwargs={"model": model.name}), *answers]

    def _named(self, number: int, place: int, call: ToolCallPart) -> ToolCallPart:
        """Return the call with an id unique in the reply: not every endpoint gives one."""
        id = call.tool_call_id
        # Derived from round and position, not random: a replay gives the same ids.
        if not id or id in self._ids:
            id = f"call_{content_hash(f'{self._reply_id}/{number}/{place}')[:24]}"
        self._ids.add(id)
        return call.model_copy(update={"tool_call_id": id})

    def _make(self, call: ToolCallPart) -> ToolResult:
        # Arguments are compared as JSON text, so the same call under another id counts as a repeat.
        key = (call.tool_name, call.arguments)
        self._times[key] += 1
        # Small models repeat a call until something stops them.
        if self._times[key] > MAX_REPEATS:
            reason = f"This call was made {MAX_REPEATS} times already. It was not made again. Answer the user."
            return self._tools.refuse(call, reason)
        return self._tools.call(call)

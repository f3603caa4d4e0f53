"""`Memory` as a capability of Pydantic AI's agents: `Agent(model, capabilities=[InspectedMemory(memory)])`.

The first request of a run is the recorded prompt for its question, whether the agent was given a message history or
not; later requests of a tool loop are that prompt and what followed. The agent's own history stays as it is. Its
system prompts and instructions are sent as before; they and its tools are counted beside the memory. With one agent
for many conversations, each run is given its own: `agent.run(question, capabilities=[InspectedMemory(memory)])`.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any

from memory_core.formats.any_message import read_messages
from memory_core.memory import Memory
from memory_core.messages import ChatMessage, FilePart, ImagePart, MessageRole, Part, TextPart
from memory_inspector.adapters import framework
from memory_inspector.adapters.prompts import keep, reading, tokens_beside
from memory_inspector.files.located_json import storable_value

with framework("Pydantic AI", "pydantic-ai"):
    from pydantic_ai import RunContext
    from pydantic_ai import messages as theirs
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.models import ModelRequestContext


class InspectedMemory(AbstractCapability[Any]):
    """A capability over a `Memory`. Pydantic AI makes a copy of it for each run."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self._seen: dict[int, theirs.ModelMessage] = {}
        """The run's messages that are stored, by identity; other capabilities may drop some of the history."""
        self._prompt: list[theirs.ModelMessage] = []
        self._asked: dict[int, theirs.ModelMessage] = {}
        """The run's messages when its prompt was made; empty before."""

    async def for_run(self, ctx: RunContext[Any]) -> AbstractCapability[Any]:
        return type(self)(self.memory)

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Store what is new, and send the recorded prompt in the place of the history before it."""
        messages = request_context.messages
        await self._store(messages)
        if not self._asked:
            beside = tokens_beside(self.memory, lambda: _beside(request_context))
            context = await asyncio.to_thread(self.memory.build_context, reserved_tokens=beside)
            self._prompt = [*_theirs(context.messages)]
            if not self._prompt or not isinstance(self._prompt[-1], theirs.ModelRequest):
                self._prompt.append(messages[-1])  # Pydantic AI refuses a prompt that ends with an answer
            if prompts := [*_system_prompts(messages)]:
                self._prompt.insert(0, theirs.ModelRequest(parts=prompts))
            # A capability behind this one may make the prompt the agent's history.
            self._seen |= {id(message): message for message in self._prompt}
            self._asked = dict(self._seen)
        return replace(request_context, messages=[*self._prompt, *_without(self._asked, messages)])

    async def after_node_run(self, ctx: RunContext[Any], *, node: Any, result: Any) -> Any:
        """Store an answer as soon as it is in the history."""
        await self._store(ctx.messages)
        return result

    async def after_run(self, ctx: RunContext[Any], *, result: Any) -> Any:
        await self._store(result.all_messages())
        return result

    async def _store(self, messages: Sequence[theirs.ModelMessage]) -> None:
        new, whole = _without(self._seen, messages), not self._seen
        self._seen |= {id(message): message for message in new}
        ours: list[ChatMessage] = []
        for message in new:
            with reading(self.memory, asks=any(isinstance(part, theirs.UserPromptPart) for part in message.parts)):
                ours += _ours(message)
        if ours:
            # A history that was given is stored but for what the memory has already.
            await asyncio.to_thread(partial(keep, self.memory, ours, whole=whole))


def _without(
    seen: Mapping[int, theirs.ModelMessage], messages: Sequence[theirs.ModelMessage]
) -> list[theirs.ModelMessage]:
    """Return the messages that are not among those seen; a capability may have put an equal copy in one's place."""
    fresh = [message for message in messages if id(message) not in seen]
    return [message for message in fresh if message not in seen.values()] if fresh else []


def _system_prompts(messages: Sequence[theirs.ModelMessage]) -> Iterator[theirs.SystemPromptPart]:
    for message in messages:
        yield from (part for part in message.parts if isinstance(part, theirs.SystemPromptPart))


def _beside(request: ModelRequestContext) -> Iterator[Any]:
    """Yield what a request sends beside its conversation: system prompts, instructions and tools."""
    sent = request.model_request_parameters
    yield from (part.content for part in (*_system_prompts(request.messages), *(sent.instruction_parts or ())))
    for tool in (*sent.function_tools, *sent.output_tools):
        yield {"name": tool.name, "description": tool.description, "parameters": tool.parameters_json_schema}


def _ours(message: theirs.ModelMessage) -> list[ChatMessage]:
    """Convert a message, without the agent's system prompts and instructions."""
    [written] = theirs.ModelMessagesTypeAdapter.dump_python([message], mode="json")
    parts = [part for part in written["parts"] if part.get("part_kind") != "system-prompt"]
    return read_messages(storable_value({**written, "parts": parts, "instructions": None}))


def _theirs(messages: Sequence[ChatMessage]) -> Iterator[theirs.ModelMessage]:
    for answers, group in groupby(messages, key=lambda message: message.role is MessageRole.ASSISTANT):
        if answers:
            if parts := [part for message in group for part in _answer(message)]:
                yield theirs.ModelResponse(parts=parts)
        else:
            yield theirs.ModelRequest(parts=[_request(message) for message in group])


def _answer(message: ChatMessage) -> Iterator[theirs.ModelResponsePart]:
    """Yield an answer's text and calls; what a model thought in an earlier turn is not sent again."""
    if message.content:
        yield theirs.TextPart(content=message.content)
    for call in message.tool_calls:
        named = {"tool_call_id": call.tool_call_id} if call.tool_call_id else {}
        yield theirs.ToolCallPart(tool_name=call.tool_name, args=call.arguments, **named)


def _request(message: ChatMessage) -> theirs.ModelRequestPart:
    if message.role is MessageRole.TOOL:
        name, call = str(message.additional_kwargs.get("name") or ""), message.tool_call_id
        named = {"tool_call_id": call} if call else {}
        return theirs.ToolReturnPart(tool_name=name, content=message.content or "", **named)
    if message.role is not MessageRole.USER:
        return theirs.SystemPromptPart(content=message.content or "")
    content = [_shown(part) for part in message.parts]
    plain = all(isinstance(part, str) for part in content)
    return theirs.UserPromptPart(content="\n".join(map(str, content)) if plain else content)


def _shown(part: Part) -> Any:
    """Convert a part of a user's message; what cannot be sent becomes a placeholder that names it."""
    if isinstance(part, TextPart):
        return part.text
    if isinstance(part, ImagePart | FilePart):
        kinds = {"audio": theirs.AudioUrl, "video": theirs.VideoUrl, "document": theirs.DocumentUrl}
        with suppress(ValueError):  # no base64, or no kind of file that Pydantic AI knows
            if part.url.startswith("data:"):
                return theirs.BinaryContent.from_data_uri(part.url)
            if part.url.startswith(("http://", "https://")):
                return kinds.get(part.type, theirs.ImageUrl)(url=part.url)
    return f"[{part.type}, not shown to the model]"

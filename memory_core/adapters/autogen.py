"""`Memory` as the memory of AutoGen's agents: `AssistantAgent(..., memory=[InspectedMemory(memory)])`.

Before the model call that opens a turn, new messages of the agent's model context are stored and the context is
replaced by the recorded prompt. Calls, results and answers that the agent appends later are stored as they arrive.
"""

import asyncio
import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from memory_core.adapters import framework
from memory_core.adapters.prompts import keep, reading
from memory_core.engine.context import Context
from memory_core.errors import ConfigError, MessageError
from memory_core.formats.any_message import read_messages
from memory_core.formats.json_values import storable_value
from memory_core.memory import Memory
from memory_core.messages import ChatMessage, ImagePart, MessageRole, Part, TextPart, ThinkingPart
from memory_core.planning import curation
from memory_core.planning.fact_merging import same_words

with framework("AutoGen", "autogen"):
    from autogen_core import CancellationToken, FunctionCall, Image
    from autogen_core.memory import Memory as AutoGenMemory
    from autogen_core.memory import MemoryContent, MemoryMimeType, MemoryQueryResult, UpdateContextResult
    from autogen_core.model_context import ChatCompletionContext
    from autogen_core.models import (
        AssistantMessage,
        FunctionExecutionResult,
        FunctionExecutionResultMessage,
        LLMMessage,
        SystemMessage,
        UserMessage,
    )


class InspectedMemory(AutoGenMemory):
    """AutoGen's memory interface over a `Memory`. One object serves one agent."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self._context: ChatCompletionContext | None = None
        self._given: list[LLMMessage] = []
        """Contents of the agent's context after the last prompt was written into it."""
        self._following = True
        """True if messages added to the context come from the agent; False while the prompt is being written."""

    async def update_context(self, model_context: ChatCompletionContext) -> UpdateContextResult:
        """Store new messages, then replace the context's messages by the prompt; return the blocks' contributions."""
        self._follow(model_context)
        await self._put_new()
        context = await asyncio.to_thread(self.memory.build_context)
        self._following = False
        try:
            await model_context.clear()
            for message in _theirs(context.messages):
                await model_context.add_message(message)
            # Read back, as a truncating context returns fewer messages than were added.
            self._given = list(await model_context.get_messages())
        finally:
            self._following = True
        return UpdateContextResult(memories=_given_by_blocks(context))

    async def query(
        self, query: str | MemoryContent, cancellation_token: CancellationToken | None = None, **kwargs: Any
    ) -> MemoryQueryResult:
        """Return what blocks would contribute to a prompt for this question. Records nothing."""
        question = query if isinstance(query, str) else _text(query)
        context = await asyncio.to_thread(self.memory.build_context, question, record=False)
        return _given_by_blocks(context)

    async def add(self, content: MemoryContent, cancellation_token: CancellationToken | None = None) -> None:
        """Add a fact verbatim, with its metadata; JSON as its text. A fact that exists already stays as it is.

        Raises:
            ConfigError: No block of the memory holds facts.
            MessageError: The content is no text: an image, or bytes that are not UTF-8.
        """
        # AutoGen's interface names no block, so the first that holds facts is meant.
        name = next((block.name for block in self.memory.blocks if block.kind == "facts"), None)
        if name is None:
            raise ConfigError("AutoGen adds facts, and this memory has no block for them: FactExtractionMemoryBlock")
        text = _text(content)
        if not any(same_words(fact.text) == same_words(text) for fact in self.memory.facts.read(name)):
            fact = curation.add(text, metadata=storable_value(content.metadata or {}))
            await asyncio.to_thread(self.memory.facts.desk(name).apply, fact, actor="agent")

    async def clear(self) -> None:
        """Delete the session, what was learned from it, and every fact of the memory's blocks, a user's facts too."""
        self._given = []
        await asyncio.to_thread(self.memory.reset, user_memory=True)
        await asyncio.to_thread(self.memory.facts.erase_all, actor="agent")

    async def close(self) -> None:
        """Do nothing; there is nothing to release."""

    def _follow(self, model_context: ChatCompletionContext) -> None:
        """Store messages that are added to this context from now on."""
        if model_context is self._context:
            return
        self._context, add = model_context, model_context.add_message

        async def added(message: LLMMessage) -> None:
            await add(message)
            followed = self._following and self._context is model_context
            if followed:
                # Pass the message itself: a truncating context shows a different preceding list each time.
                await self._put([message])
                self._given = list(await model_context.get_messages())

        # AutoGen calls a memory only at a turn's start and contexts emit no events, so the method is replaced.
        model_context.add_message = added  # type: ignore[method-assign]

    async def _put_new(self) -> None:
        if self._context is None:
            return
        messages = list(await self._context.get_messages())
        # If the context was cut or replaced, its beginning differs: the stored history says what is new.
        shared = len(self._given) if messages[: len(self._given)] == self._given else 0
        self._given = messages
        await self._put(messages[shared:], whole=not shared)

    async def _put(self, messages: Sequence[LLMMessage], *, whole: bool = False) -> None:
        new: list[ChatMessage] = []
        for message in messages:
            with reading(self.memory, asks=isinstance(message, UserMessage)):
                new += _ours(message)
        if new:
            await asyncio.to_thread(partial(keep, self.memory, new, whole=whole))


def _given_by_blocks(context: Context) -> MemoryQueryResult:
    texts = [context.words[piece.ref] for part in context.plan.granted for piece in part.pieces]
    return MemoryQueryResult(
        results=[MemoryContent(content=text, mime_type=MemoryMimeType.TEXT) for text in texts if text]
    )


def _text(content: MemoryContent) -> str:
    value = content.content
    try:
        if isinstance(value, dict):
            return json.dumps(storable_value(value), ensure_ascii=False)
        text = value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        text = None
    if not isinstance(text, str):
        raise MessageError(
            f"a memory must be text or JSON, and this {type(value).__name__} is neither: say it in words"
        )
    return text


def _ours(message: LLMMessage) -> Iterator[ChatMessage]:
    """Convert a message of AutoGen, which may hold the results of several tool calls."""
    content = message.content if isinstance(message.content, list) else [message.content]
    if isinstance(message, FunctionExecutionResultMessage):
        entries = [
            {"role": "tool", "content": result.content, "tool_call_id": result.call_id, "name": result.name}
            for result in message.content
        ]
    elif isinstance(message, AssistantMessage):
        calls = [call for call in content if isinstance(call, FunctionCall)]
        words = [part for part in content if not isinstance(part, FunctionCall)]
        if message.thought:  # next to calls, `thought` is the text of the answer
            words.insert(0, message.thought if calls else {"type": "thinking", "thinking": message.thought})
        called = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in calls]
        entries = [{"role": "assistant", "content": words, "tool_calls": called}]
    else:
        role = "user" if isinstance(message, UserMessage) else "system"
        words = [{"type": "image", "url": part.data_uri} if isinstance(part, Image) else part for part in content]
        entries = [{"role": role, "content": words}]
    source = {"source": message.source} if isinstance(message, AssistantMessage | UserMessage) else {}
    for entry in entries:
        for ours in read_messages(storable_value(entry)):
            yield ours.model_copy(update={"additional_kwargs": {**source, **ours.additional_kwargs}})


def _theirs(messages: Sequence[ChatMessage]) -> list[LLMMessage]:
    theirs: list[LLMMessage] = []
    for message in messages:
        source = str(message.additional_kwargs.get("source") or message.role)
        if message.role is MessageRole.TOOL:
            result = FunctionExecutionResult(
                content=message.content or "",
                name=str(message.additional_kwargs.get("name") or ""),
                call_id=message.tool_call_id or "",
                is_error=False,
            )
            # In AutoGen, one message holds the results of all calls of an answer.
            if theirs and isinstance(theirs[-1], FunctionExecutionResultMessage):
                theirs[-1].content.append(result)
            else:
                theirs.append(FunctionExecutionResultMessage(content=[result]))
        elif message.role is MessageRole.ASSISTANT:
            calls = [
                FunctionCall(id=call.tool_call_id or "", name=call.tool_name, arguments=call.arguments)
                for call in message.tool_calls
            ]
            text = message.content
            thoughts = [part.text for part in message.parts if isinstance(part, ThinkingPart)]
            theirs.append(
                AssistantMessage(content=calls, thought=text, source=source)
                if calls
                else AssistantMessage(content=text or "", thought="\n".join(thoughts) or None, source=source)
            )
        elif message.role is MessageRole.USER:
            content = [_shown(part) for part in message.parts]
            plain = len(content) == 1 and isinstance(content[0], str)
            theirs.append(UserMessage(content=content[0] if plain else content, source=source))
        else:
            theirs.append(SystemMessage(content=message.content or ""))
    return theirs


def _shown(part: Part) -> str | Image:
    """Convert a part of a user message; unsupported files and pictures become a placeholder that names them."""
    if isinstance(part, TextPart):
        return part.text
    if isinstance(part, ImagePart):
        try:
            return Image.from_uri(part.url)
        except Exception:  # any error of Pillow's: skip the picture, never stop the agent
            return "[image, not shown to the model]"
    return f"[{part.type}, not shown to the model]"

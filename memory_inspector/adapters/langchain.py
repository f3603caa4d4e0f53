"""`Memory` in LangChain: as middleware of `create_agent`, and as a history of chat messages.

    agent = create_agent(model, tools, middleware=[InspectedMiddleware(memory)])

The middleware stores every message of a model call and sends the recorded prompt instead, so the app shows exactly what
the model saw, in tool loops too. If the memory fails, the model gets the thread's own messages and the agent still gets
its answer.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from memory_core.formats.any_message import read_messages
from memory_core.formats.openai_message import to_openai
from memory_core.memory import Memory
from memory_core.messages import ChatMessage
from memory_inspector.adapters import framework
from memory_inspector.adapters.prompts import harmless, keep, tokens_beside
from memory_inspector.files.located_json import storable_value

with framework("LangChain", "langchain"):
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
    from langchain_core.chat_history import BaseChatMessageHistory
    from langchain_core.messages import BaseMessage, convert_to_messages
    from langchain_core.utils.function_calling import convert_to_openai_tool


class InspectedMiddleware(AgentMiddleware[Any, Any]):
    """Replaces the thread's messages by the memory's prompt in each model call.

    A message is stored once, so every call may pass the whole thread, with LangChain's ids or from a front end without.
    The agent's system prompt and tools are measured, and taken off the limit.
    """

    def __init__(self, memory: Memory) -> None:
        super().__init__()
        self.memory = memory

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        response = handler(request.override(messages=self._prompt(request)))
        _keep(self.memory, response.result)
        return response

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        prompt = await asyncio.to_thread(self._prompt, request)
        response = await handler(request.override(messages=prompt))
        await asyncio.to_thread(_keep, self.memory, response.result)
        return response

    def _prompt(self, request: ModelRequest[Any]) -> list[BaseMessage]:
        # If the memory fails, the model still gets the thread's own messages.
        with harmless(self.memory.session_id, "The prompt is the thread's own"):
            _keep(self.memory, request.messages, whole=True)
            beside = tokens_beside(self.memory, lambda: _beside(request))
            return _theirs(self.memory.build_context(reserved_tokens=beside).messages)
        return list(request.messages)


class InspectedHistory(BaseChatMessageHistory):
    """A chat history over a `Memory`, for `RunnableWithMessageHistory`. Its messages are the prompt without the
    next question; reading them records no prompt."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        """Return the memory section and the queue."""
        return _theirs(self.memory.build_context(record=False).messages)

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        _keep(self.memory, messages)

    def clear(self) -> None:
        self.memory.reset()


def _keep(memory: Memory, messages: Sequence[BaseMessage], *, whole: bool = False) -> None:
    """Store the messages whose LangChain id is new; `whole` as in `Memory.put_messages`."""
    ids: list[str] = []
    ours: list[ChatMessage] = []
    with harmless(memory.session_id, "Messages were not kept"):
        for message in messages:
            # LangChain's summary stands for messages that are stored here already; nobody said it.
            if message.additional_kwargs.get("lc_source") == "summarization":
                continue
            id = message.id or uuid.uuid4().hex
            for number, one in enumerate(_ours(message), 1):
                # The ids must be the same each time: a thread sends all its messages with every call.
                ids.append(id if number == 1 else f"{id}:{number}")
                ours.append(one)
        keep(memory, ours, message_ids=ids, whole=whole)


def _beside(request: ModelRequest[Any]) -> list[Any]:
    """Return what a call sends beside its messages: the agent's system prompt, and the definitions of its tools."""
    # Other middleware may pass a request of its own making, which need not have either.
    tools = (t if isinstance(t, dict) else convert_to_openai_tool(t) for t in getattr(request, "tools", None) or ())
    return [getattr(request, "system_prompt", None) or "", *tools]


def _ours(message: BaseMessage) -> list[ChatMessage]:
    fields = storable_value(message.model_dump())  # block metadata may hold client objects of a provider
    return read_messages({"type": message.type, "data": fields})


def _theirs(messages: Sequence[ChatMessage]) -> list[BaseMessage]:
    return list(convert_to_messages(to_openai(messages)))

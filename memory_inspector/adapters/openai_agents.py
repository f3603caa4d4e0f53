"""`Memory` as the session of the OpenAI Agents SDK.

    await Runner.run(agent, "Hello", **InspectedSession(memory).for_run())

`for_run` passes the session and its input callback. Only the callback sees the new question; it stores the question
and returns the memory retrieved for it. With `session=` alone the model gets memory for the previous question, and no
prompt is recorded. Later calls of a tool loop get the recorded prompt and the messages after it.

The SDK shows instructions and tools only once the prompt is made: their tokens are taken off the limit from the next
prompt of this object on. The first is planned with the setting `reserved_tokens`.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from memory_core.errors import ConfigError
from memory_core.memory import Memory
from memory_inspector.adapters import framework
from memory_inspector.adapters.prompts import harmless, keep, tokens_beside
from memory_inspector.files.located_json import storable_value
from memory_inspector.files.openai_items import items_from_messages, items_of, messages_from_items, without_last_item

with framework("The OpenAI Agents SDK", "openai-agents"):
    from agents import FunctionTool, RunConfig
    from agents.memory import SessionABC, SessionSettings
    from agents.memory.session_settings import coerce_session_settings, resolve_session_limit
    from agents.run import CallModelData

Item = dict[str, Any]

_log = logging.getLogger(__name__)


class InspectedSession(SessionABC):
    """The SDK's `Session` over a `Memory`. `session_settings.limit` is the limit of `get_items` without one."""

    def __init__(self, memory: Memory, session_settings: SessionSettings | dict[str, Any] | None = None) -> None:
        self.memory = memory
        self.session_id = memory.session_id
        # The SDK's own reading: an unknown setting is an error.
        self.session_settings = coerce_session_settings({} if session_settings is None else session_settings)
        self._taken: list[Item] | None = None
        """New items already stored by the callback; None once the SDK has passed them to `add_items`."""
        self._beside: int | None = None
        """Tokens of the instructions and tools of the latest call; None before any."""

    def for_run(self, run_config: RunConfig | None = None) -> dict[str, Any]:
        """Return keyword arguments for `Runner.run`: this session, and `run_config` with `input_callback`.

        A filter of the model's input measures each call, before the configuration's own filter.

        Raises:
            ConfigError: The configuration has another session input callback.
        """
        config = run_config or RunConfig()
        # The SDK calls one callback only; to replace it silently would change the agent.
        if config.session_input_callback is not None:
            raise ConfigError("run_config has a session_input_callback of its own, which this session has to be")
        own_filter = config.call_model_input_filter

        def measure(data: CallModelData[Any]) -> Any:
            self._beside = tokens_beside(self.memory, lambda: _beside(data))
            return own_filter(data) if own_filter is not None else data.model_data

        made = replace(config, session_input_callback=self.input_callback, call_model_input_filter=measure)
        return {"session": self, "run_config": made}

    async def get_items(self, limit: int | None = None) -> list[Item]:
        """Return the current prompt, memory section first; with a limit, its newest items.

        As with the SDK's `SQLiteSession`, items are counted singly, so a limit can part a tool call from its result;
        without `limit` that of `session_settings` applies; 0 gives none, and a negative limit all.
        """
        items = items_from_messages(await asyncio.to_thread(self._messages))
        limit = resolve_session_limit(limit, self.session_settings)
        return items if limit is None or limit < 0 else items[max(len(items) - limit, 0) :]

    async def add_items(self, items: Sequence[Mapping[str, Any]]) -> None:
        """Store new items, skipping those that the callback has stored.

        Raises:
            ConfigError: The items are encrypted: no memory could be made of them.
        """
        if any(isinstance(item, Mapping) and "__enc__" in item for item in items):
            raise ConfigError(
                "EncryptedSession hides what is said from its underlying_session, and this one has to read it: give "
                "InspectedSession to the Runner itself, and encrypt the disk of its database"
            )
        # Valid for this run only: the next one may add the same items again.
        taken, self._taken = self._taken, None
        with harmless(self.session_id, "Messages were not kept"):
            storable = [item for item in items if _is_item(item)]
            if len(storable) < len(items):
                _log.warning("%r: %d items were not kept: they are none", self.session_id, len(items) - len(storable))
            new = messages_from_items(storable_value([*(_after(storable, taken) if taken else storable)]))
            if new:
                await asyncio.to_thread(keep, self.memory, new)

    async def pop_item(self) -> Item | None:
        """Remove and return the newest item of the queue; None when it is empty."""
        return await asyncio.to_thread(self._pop)

    async def clear_session(self) -> None:
        await asyncio.to_thread(self.memory.reset)

    async def input_callback(self, history: Sequence[Item], new: Sequence[Item]) -> list[Item]:
        """Store the new items and return the recorded prompt for them; for `RunConfig(session_input_callback=...)`."""
        messages = messages_from_items(storable_value([*new]))
        await asyncio.to_thread(partial(self.memory.put_messages, messages, whole=True))
        # The SDK hands the same items to `add_items` at the end of the run.
        self._taken = list(new)
        context = await asyncio.to_thread(self.memory.build_context, reserved_tokens=self._beside)
        items = items_from_messages(context.messages)
        if items[len(items) - len(new) :] == list(new):
            items[len(items) - len(new) :] = new  # the SDK recognises new items by identity
        return items

    def _messages(self) -> Sequence[Any]:
        return self.memory.build_context(record=False).messages

    def _pop(self) -> Item | None:
        queue = [stored.message for stored in self.memory.session.messages("active")]
        if not queue:
            return None
        last = queue.pop()
        # One message may be several of the SDK's items, such as a reply with its tool calls.
        remaining = without_last_item(last)
        self.memory.set([*queue, remaining] if remaining is not None else queue)
        return items_of(last)[-1]


def _beside(data: CallModelData[Any]) -> list[Any]:
    """Return what a call sends beside its items: the instructions, and the definitions of functions."""
    functions = [tool for tool in data.agent.tools if isinstance(tool, FunctionTool)]
    tools = [{"name": f.name, "description": f.description, "parameters": f.params_json_schema} for f in functions]
    return [data.model_data.instructions or "", *tools]


def _is_item(item: Any) -> bool:
    return isinstance(item, Mapping) and ("type" in item or "role" in item)


def _after(items: Sequence[Mapping[str, Any]], taken: Sequence[Item]) -> Sequence[Mapping[str, Any]]:
    """Return the items after those stored already (`taken`); a memory section may precede the stored ones."""
    wanted = [_identity(item) for item in taken]
    for start in range(len(items) - len(taken) + 1):
        if [_identity(item) for item in items[start : start + len(taken)]] == wanted:
            return items[start + len(taken) :]
    return items


def _identity(item: Mapping[str, Any]) -> tuple[Any, ...]:
    [message] = messages_from_items([item])
    return message.role, message.parts, message.tool_call_id

"""Promises of an adapter that makes a `Memory` the memory of an agent framework, tried on a temporary database."""

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from logging.handlers import BufferingHandler
from pathlib import Path
from typing import Any, Protocol

from memory_core.blocks import StaticMemoryBlock
from memory_core.formats.any_message import GivenMessage, as_messages
from memory_core.memory import Memory
from memory_core.messages import ChatMessage, ToolCallPart
from memory_core.services import Services
from memory_inspector.checks.conformance import Conformance, check_promises, name_of

CORE = "The green locker belongs to Ana."


class Adapted(Protocol):
    """An adapter as a check drives it; a method `close` is called if it has one."""

    def put_messages(self, messages: Sequence[ChatMessage], /) -> Any:
        """Pass messages, in the framework's own form, as the framework does after a step of the agent."""

    def get(self) -> Sequence[GivenMessage]:
        """Return the messages that the framework then sends to the model."""
        ...


def check_adapter(make: Callable[[Memory], Adapted]) -> Conformance:
    """Check an adapter of an agent framework against its promises, and print the result.

    `make` puts the adapter around a memory, and converts messages to and from the framework's form.

    Raises:
        AssertionError: a promise is broken; it holds the result.
    """
    __tracebackhide__ = True
    return check_promises(name_of(make), AdapterPromises, make)


@dataclass
class AdapterPromises:
    """Promises of an adapter of an agent framework."""

    folder: Path
    opened: ExitStack
    make: Callable[[Memory], Adapted]

    def stores_messages_in_order(self) -> None:
        """Every message is stored once and in order, also by a new adapter after the first was closed."""
        texts = [f"Message {number}" for number in range(24)]
        for half in (texts[:12], texts[12:]):
            memory, adapter = self._open(half)
            for _ in range(2):
                getattr(adapter, "close", lambda: None)()
        stored = [message.content for message in memory.get_all()]
        assert stored == texts, f"Of {len(texts)} messages it stored {stored}."

    def keeps_calls_with_results(self) -> None:
        """Tool calls are stored and sent before their results, each result with the id of its call."""
        memory, adapter = self._open(["How many?"])
        calls = [ToolCallPart(tool_call_id=id, tool_name="look", tool_kwargs={"at": id}) for id in "ab"]
        results = [ChatMessage(f"six {id}", role="tool", additional_kwargs={"tool_call_id": id}) for id in "ab"]
        adapter.put_messages([ChatMessage(role="assistant", parts=calls)])
        adapter.put_messages(results)
        for kind, messages in (("stored", memory.get_all()), ("sent", _sent(adapter))):
            ids = [call.tool_call_id for m in messages for call in m.tool_calls]
            answered = [message.tool_call_id for message in messages if message.role == "tool"]
            assert ids == answered == ["a", "b"], f"It {kind} calls {ids} with results of {answered}."

    def sends_the_prompt(self) -> None:
        """The model gets the memory section and the queue."""
        memory, adapter = self._open(["Hello", "Hi", "Whose locker is green?"])
        sent, prompt = ([(m.role, m.content) for m in messages] for messages in (_sent(adapter), memory.get()))
        assert sent == prompt, f"It sent {sent} instead of {prompt}."

    def stores_no_memory_section(self) -> None:
        """Memory that a framework passes back with the conversation is not stored as something that was said."""
        for method in ("system", "user"):
            memory, adapter = self._open(["Whose locker is green?"], method, insert_method=method)
            memory.get()
            adapter.put_messages([message for message in _sent(adapter) if CORE in (message.content or "")])
            stored = [message.content for message in memory.get_all()]
            assert CORE not in str(stored), f"With insert_method={method!r} it stored {stored}."

    def goes_on_without_a_database(self) -> None:
        """An answer that cannot be stored, as the database is away, ends no run and is logged without its words."""
        memory, adapter = self._open(["Hello"])
        memory.close()
        handler = BufferingHandler(1_000)
        logging.getLogger().addHandler(handler)
        self.opened.callback(logging.getLogger().removeHandler, handler)
        adapter.put_messages([ChatMessage("Take the ferry", role="assistant")])
        logged = [record.getMessage() for record in handler.buffer]
        assert logged, "An answer was lost and nothing was logged."
        assert "ferry" not in str(logged), f"It logged {logged}."

    def _open(self, texts: Sequence[str], session: str = "agent", **settings: Any) -> tuple[Memory, Adapted]:
        """Open a session, and pass what user and assistant say in turn."""
        uri, blocks = f"sqlite:///{self.folder}/memory.db", [StaticMemoryBlock(name="core", static_content=CORE)]
        settings |= {"database_uri": uri, "memory_blocks": blocks, "services": Services()}
        memory = self.opened.enter_context(Memory.from_defaults(session, **settings))
        adapter = self.make(memory)
        for number, text in enumerate(texts):
            adapter.put_messages([ChatMessage(text, role=("user", "assistant")[number % 2])])
        return memory, adapter


def _sent(adapter: Adapted) -> list[ChatMessage]:
    return [message for message in adapter.get() for message in as_messages(message)]

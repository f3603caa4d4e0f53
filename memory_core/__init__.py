"""Memory Inspector's engine: what an LLM agent remembers, with every decision on record.

from memory_core import ChatMessage, FactExtractionMemoryBlock, Memory, StaticMemoryBlock

memory = Memory.from_defaults(
    session_id="demo",
    token_limit=4000,
    memory_blocks=[
        StaticMemoryBlock(name="core_info", static_content="My name is Logan."),
        FactExtractionMemoryBlock(name="facts", priority=1),
    ],
)
memory.put(ChatMessage(role="user", content="I am allergic to nuts."))
print(memory.build_context("What can I eat?").explain())
"""

from typing import Any

import lazy_loader

from memory_core.process import collector_paused

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    """Load a name when it is first used, from the module that `__init__.pyi` names: the whole engine takes a second."""
    # None of the classes and functions that modules make is garbage: to look for it takes a sixth of that second.
    with collector_paused():
        return _load(name)

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

import lazy_loader

# Each name is loaded when it is first used, from the module that `__init__.pyi` names: the whole engine takes a second.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

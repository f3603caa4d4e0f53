"""Memory systems under the names their users know, each a small object over `Memory`."""

from memory_core.systems.chat_buffers import ChatMemoryBuffer, ChatSummaryMemoryBuffer
from memory_core.systems.consolidating import ConsolidatingMemory
from memory_core.systems.knowledge_graph import KnowledgeGraph
from memory_core.systems.self_editing import SelfEditingMemory
from memory_core.systems.user_memories import UserMemories
from memory_core.systems.vector_memory import VectorMemory

__all__ = [
    "ChatMemoryBuffer",
    "ChatSummaryMemoryBuffer",
    "ConsolidatingMemory",
    "KnowledgeGraph",
    "SelfEditingMemory",
    "UserMemories",
    "VectorMemory",
]

"""Memory systems under the names their users know, each a small object over `Memory`."""

from memory_core.systems.consolidating import ConsolidatingMemory
from memory_core.systems.knowledge_graph import KnowledgeGraph
from memory_core.systems.llamaindex_memories import ChatMemoryBuffer, ChatSummaryMemoryBuffer, VectorMemory
from memory_core.systems.self_editing import SelfEditingMemory
from memory_core.systems.user_memories import UserMemories

__all__ = [
    "ChatMemoryBuffer",
    "ChatSummaryMemoryBuffer",
    "ConsolidatingMemory",
    "KnowledgeGraph",
    "SelfEditingMemory",
    "UserMemories",
    "VectorMemory",
]

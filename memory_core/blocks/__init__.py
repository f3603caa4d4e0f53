"""Memory blocks: their base class, and the built-in ones."""

from typing import Any

from memory_core.blocks.base import BaseMemoryBlock
from memory_core.blocks.facts import FactExtractionMemoryBlock
from memory_core.blocks.graph import GraphMemoryBlock
from memory_core.blocks.static import StaticMemoryBlock
from memory_core.blocks.summary import SummaryMemoryBlock
from memory_core.blocks.vector import VectorMemoryBlock

BUILT_IN: dict[str, type[BaseMemoryBlock[Any]]] = {
    block.kind: block
    for block in (
        StaticMemoryBlock,
        FactExtractionMemoryBlock,
        VectorMemoryBlock,
        SummaryMemoryBlock,
        GraphMemoryBlock,
    )
}
"""Blocks that can be created from their stored settings alone."""

WITH_TEXT = frozenset(kind for kind, block in BUILT_IN.items() if block.kind_has_text)
"""Kinds of blocks whose memory is one versioned text."""

__all__ = [
    "BUILT_IN",
    "WITH_TEXT",
    "BaseMemoryBlock",
    "FactExtractionMemoryBlock",
    "GraphMemoryBlock",
    "StaticMemoryBlock",
    "SummaryMemoryBlock",
    "VectorMemoryBlock",
]

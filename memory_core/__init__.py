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

from memory_core.blocks import (
    BaseMemoryBlock,
    FactExtractionMemoryBlock,
    GraphMemoryBlock,
    StaticMemoryBlock,
    SummaryMemoryBlock,
    VectorMemoryBlock,
)
from memory_core.config import MemoryConfig, Settings
from memory_core.engine.context import Context
from memory_core.errors import (
    AccessError,
    ConfigError,
    ConflictError,
    ContextOverflowError,
    EmbedderError,
    FormatError,
    MemoryInspectorError,
    MessageError,
    ModelAnswerError,
    ModelError,
    ModelKeyError,
    ModelRateLimitError,
    ModelRequestError,
    ModelTimeoutError,
    ModelUnreachableError,
    NotFoundError,
    StoreError,
    VectorIndexError,
)
from memory_core.events import Event, EventRecord
from memory_core.formats.llamaindex_blocks import AudioBlock, DocumentBlock, VideoBlock
from memory_core.memory import Memory, Receipt
from memory_core.messages import (
    ChatMessage,
    FilePart,
    ImagePart,
    MessageRole,
    MessageStatus,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from memory_core.models.protocols import ChatModel, Embedder
from memory_core.planning.rendering import InsertMethod
from memory_core.services import Services
from memory_core.sessions.forget_user import forget_user
from memory_core.sessions.overview import Status, delete_session, list_sessions
from memory_core.store.block_rows import Holding, TextRevision
from memory_core.store.database import Database
from memory_core.store.delivery_rows import Delivery
from memory_core.store.fact_rows import FactRevision
from memory_core.store.message_rows import StoredMessage

# LlamaIndex's names for the same values, so that code written for it only changes its imports.
TextBlock = TextPart
ImageBlock = ImagePart
ThinkingBlock = ThinkingPart
ToolCallBlock = ToolCallPart

__all__ = [
    "AccessError",
    "AudioBlock",
    "BaseMemoryBlock",
    "ChatMessage",
    "ChatModel",
    "ConfigError",
    "ConflictError",
    "Context",
    "ContextOverflowError",
    "Database",
    "Delivery",
    "DocumentBlock",
    "Embedder",
    "EmbedderError",
    "Event",
    "EventRecord",
    "FactExtractionMemoryBlock",
    "FactRevision",
    "FilePart",
    "FormatError",
    "GraphMemoryBlock",
    "Holding",
    "ImageBlock",
    "ImagePart",
    "InsertMethod",
    "Memory",
    "MemoryConfig",
    "MemoryInspectorError",
    "MessageError",
    "MessageRole",
    "MessageStatus",
    "ModelAnswerError",
    "ModelError",
    "ModelKeyError",
    "ModelRateLimitError",
    "ModelRequestError",
    "ModelTimeoutError",
    "ModelUnreachableError",
    "NotFoundError",
    "Receipt",
    "Services",
    "Settings",
    "StaticMemoryBlock",
    "Status",
    "StoreError",
    "StoredMessage",
    "SummaryMemoryBlock",
    "TextBlock",
    "TextPart",
    "TextRevision",
    "ThinkingBlock",
    "ThinkingPart",
    "ToolCallBlock",
    "ToolCallPart",
    "VectorIndexError",
    "VectorMemoryBlock",
    "VideoBlock",
    "delete_session",
    "forget_user",
    "list_sessions",
]

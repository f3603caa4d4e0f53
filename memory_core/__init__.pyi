"""What `memory_core` offers, for type checkers and editors; at run time each name is loaded when it is used."""

from .blocks import (
    BaseMemoryBlock,
    FactExtractionMemoryBlock,
    GraphMemoryBlock,
    StaticMemoryBlock,
    SummaryMemoryBlock,
    VectorMemoryBlock,
)
from .config import MemoryConfig, Settings
from .engine.context import Context
from .errors import (
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
from .events import Event, EventRecord
from .formats.llamaindex_message import (
    AudioBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    VideoBlock,
)
from .memory import Memory, Receipt
from .messages import ChatMessage, FilePart, ImagePart, MessageRole, MessageStatus, TextPart, ThinkingPart, ToolCallPart
from .models.protocols import ChatModel, Embedder
from .planning.fact_merging import FactRevision
from .planning.rendering import InsertMethod
from .services import Services
from .sessions.forgetting import forget_user
from .sessions.overview import Status, delete_session, list_sessions
from .store.block_rows import Holding, TextRevision
from .store.database import Database
from .store.delivery_rows import Delivery
from .store.message_rows import StoredMessage

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

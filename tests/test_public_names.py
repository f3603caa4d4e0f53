"""What `import memory_core` offers, and what it must not load."""

import subprocess
import sys

import pytest

import memory_core

PUBLIC = [
    "AccessError", "AudioBlock", "BaseMemoryBlock", "ChatMessage", "ChatModel", "ConfigError", "ConflictError",
    "Context",
    "ContextOverflowError",
    "Database", "Delivery", "DocumentBlock", "Embedder", "EmbedderError", "Event", "EventRecord",
    "FactExtractionMemoryBlock",
    "FactRevision", "FilePart", "FormatError",
    "GraphMemoryBlock", "Holding", "ImageBlock", "ImagePart", "InsertMethod", "Memory", "MemoryConfig",
    "MemoryInspectorError", "MessageError", "MessageRole", "MessageStatus", "ModelAnswerError", "ModelError",
    "ModelKeyError", "ModelRateLimitError", "ModelRequestError", "ModelTimeoutError", "ModelUnreachableError",
    "NotFoundError", "Receipt", "Services", "Settings", "StaticMemoryBlock", "Status", "StoreError", "StoredMessage",
    "SummaryMemoryBlock", "TextBlock", "TextPart", "TextRevision", "ThinkingBlock", "ThinkingPart", "ToolCallBlock",
    "ToolCallPart", "VectorIndexError", "VectorMemoryBlock", "VideoBlock", "delete_session", "forget_user",
    "list_sessions",
]  # fmt: skip

SLOW = (
    "chromadb",
    "openai",
    "onnxruntime",
    "tokenizers",
    "tiktoken",
    "streamlit",
    "plotly",
    "snowballstemmer",
    "jinja2",
)


def test_the_public_names_are_the_documented_ones():
    assert sorted(memory_core.__all__) == sorted(PUBLIC)
    assert len(memory_core.__all__) == len(set(memory_core.__all__))


def test_every_public_name_is_there():
    assert [name for name in memory_core.__all__ if not hasattr(memory_core, name)] == []


def test_names_of_llamaindex_are_the_same_values():
    assert memory_core.TextBlock is memory_core.TextPart
    assert memory_core.ImageBlock is memory_core.ImagePart
    assert memory_core.ThinkingBlock is memory_core.ThinkingPart
    assert memory_core.ToolCallBlock is memory_core.ToolCallPart


def test_the_names_of_llamaindexs_files_and_roles_make_what_is_meant():
    assert memory_core.AudioBlock(b"abc", format="wav").url == "data:audio/wav;base64,YWJj"
    assert memory_core.VideoBlock(url="https://x/a.mp4") == memory_core.FilePart(type="video", url="https://x/a.mp4")
    document = memory_core.DocumentBlock(b"abc", title="A", document_mimetype="text/plain")
    assert (document.type, document.title, document.url) == ("document", "A", "data:text/plain;base64,YWJj")
    for given in ({}, {"audio": b"a", "url": "https://x/a.wav"}, {"audio": b""}):
        with pytest.raises(memory_core.MessageError, match="audio"):
            memory_core.AudioBlock(**given)
    roles = memory_core.MessageRole
    assert roles.DEVELOPER is roles("developer") is roles.SYSTEM
    assert (roles("function"), roles("model"), roles.CHATBOT) == (roles.TOOL, roles.ASSISTANT, roles.ASSISTANT)
    for unknown in ("Developer", "SYSTEM", "captain"):
        with pytest.raises(ValueError, match=unknown):
            roles(unknown)


@pytest.mark.slow
def test_importing_the_engine_loads_nothing_slow():
    program = f"import sys, memory_core; print([name for name in {SLOW!r} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.strip() == "[]"


@pytest.mark.slow
def test_a_put_and_a_prompt_load_only_what_they_need(tmp_path):
    program = f"""
import sys
from memory_core import ChatMessage, Memory
with Memory.from_defaults(database_uri="sqlite:///{tmp_path / "memory.db"}") as memory:
    memory.put(ChatMessage(role="user", content="Hello"))
    memory.get()
    rooms = ("memory_core.tracing", "memory_core.retrieval", "memory_core.sessions", "memory_core.curation")
    print([name for name in sys.modules if name.startswith(rooms)])
    print(len(memory.session.messages()), memory.trace is memory.trace)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.split() == ["[]", "1", "True"]

"""Export a session's messages and configuration for other programs; `bundle` exports whole sessions."""

import json

from memory_core.formats.openai_message import message_to_openai
from memory_core.memory import Memory
from memory_inspector.files.configuration import StoredBlock, write_configuration, write_python
from memory_inspector.files.llamaindex_python import write_llamaindex_python
from memory_inspector.files.stores.llamaindex_stores import write_chat_store


def export_messages(memory: Memory) -> str:
    """Return all messages in order, including archived ones, as JSONL in OpenAI's format."""
    return "".join(json.dumps(message_to_openai(message), ensure_ascii=False) + "\n" for message in memory.get_all())


def export_chat_store(memory: Memory) -> str:
    """Return all messages in order as LlamaIndex's `SimpleChatStore`, keyed by session id."""
    return write_chat_store({memory.session_id: memory.get_all()})


def export_configuration(memory: Memory) -> str:
    """Return settings and blocks as JSON; see `configuration.read_configuration`."""
    return write_configuration(memory.session.config, stored_blocks(memory))


def export_python(memory: Memory) -> str:
    """Return settings and blocks as Python source."""
    return write_python(memory.session.config, stored_blocks(memory), user_id=memory.session.user_id)


def export_llamaindex_python(memory: Memory) -> str:
    """Return settings and blocks as Python source for LlamaIndex."""
    return write_llamaindex_python(memory.session.config, stored_blocks(memory))


def stored_blocks(memory: Memory) -> list[StoredBlock]:
    """Return the session's blocks with their fixed texts, without anything they learned."""
    return [StoredBlock.of(attached.record, attached.state) for attached in memory.blocks]

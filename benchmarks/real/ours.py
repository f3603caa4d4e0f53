"""The conversations through this project's counterpart of each system, with the settings that mean the same."""

import sys
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from conversations import Conversation, Message
from results import BUDGET, LIMIT, Known, Run, line

from memory_core import ChatMessage, FactExtractionMemoryBlock, Memory
from memory_core.errors import ModelError
from memory_core.formats.any_message import as_messages
from memory_core.messages import message_text
from memory_core.models.openai_client import OpenAIChat
from memory_core.systems import ChatMemoryBuffer, ChatSummaryMemoryBuffer, ConsolidatingMemory, UserMemories

BUDGETED: dict[str, Any] = {"token_limit": LIMIT, "chat_history_token_ratio": BUDGET / LIMIT, "token_flush_size": 1}
"""Settings with which a queue holds as much as LlamaIndex's."""


def mem0(conversation: Conversation, model: OpenAIChat) -> Known:
    memory = ConsolidatingMemory(user_id="ada", on_change="add", chat=model)
    for turn in conversation.turns:
        with suppress(ModelError):  # as an agent that answers all the same
            memory.add(list(turn))
    memory.memory.deliver()
    return {"memories": sorted(entry["memory"] for entry in memory.get_all()["results"])}


def agno(conversation: Conversation, model: OpenAIChat) -> Known:
    memories = UserMemories("ada", chat=model, summaries=False)
    for turn in conversation.turns:
        memories.add_run(_messages(turn))
    memories.memory.deliver()
    return {"memories": sorted(fact.text for fact in memories.get_user_memories())}


def llamaindex(conversation: Conversation, model: OpenAIChat) -> Known:
    buffer = ChatMemoryBuffer.from_defaults(token_limit=BUDGET, tokenizer_fn=str.split)
    summing = ChatSummaryMemoryBuffer.from_defaults(llm=model, tokenizer_fn=str.split, **BUDGETED)
    block = FactExtractionMemoryBlock(name="facts", llm=model)
    memory = Memory.from_defaults(memory_blocks=[block], tokenizer_fn=str.split, **BUDGETED)
    for message in (message for turn in conversation.turns for message in _messages(turn)):
        for one in (buffer, summing, memory):
            one.put(message)
    summing.memory.deliver()
    memory.deliver()
    return {
        "buffer": _plain(buffer.get()),
        **_summed_up(summing.memory),
        "facts": sorted(fact.text for fact in memory.facts.read("facts")),
        "queue": _plain(memory.get_all("active")),
    }


def langchain(conversation: Conversation, model: OpenAIChat) -> Known:
    memory = Memory.from_recipe("summary", chat=model, queue_turns=1)
    for turn in conversation.turns:
        memory.put_messages(_messages(turn))
    memory.deliver()
    return _summed_up(memory)


def _run(known: Callable[[Conversation, OpenAIChat], Known]) -> Run:
    def run(conversation: Conversation, url: str) -> Known:
        with closing(OpenAIChat("m", url, "x", max_retries=0)) as model:
            return known(conversation, model)

    return run


RUNS = {known.__name__: _run(known) for known in (mem0, agno, llamaindex, langchain)}


def _messages(turn: Sequence[Message]) -> list[ChatMessage]:
    return [message for given in turn for message in as_messages(given)]


def _plain(messages: Sequence[ChatMessage]) -> list[str]:
    return [line(message.role.value, message_text(message)) for message in messages]


def _summed_up(memory: Memory) -> Known:
    [block] = [block.name for block in memory.blocks if block.kind == "summary"]
    text = memory.blocks.summary(block).state().text
    return {"summary": [text] if text else [], "after the summary": _plain(memory.get_all("active"))}

"""The conversations through LlamaIndex's two buffers and its memory with facts. Run where it is installed."""

import asyncio
import json
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from urllib.error import HTTPError

from conversations import Conversation
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, ToolCallBlock
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.llms.callbacks import llm_chat_callback
from llama_index.core.memory import ChatMemoryBuffer, ChatSummaryMemoryBuffer, FactExtractionMemoryBlock, Memory
from llama_index.core.storage.chat_store.sql import MessageStatus
from results import BUDGET, LIMIT, Known, line, main


class Endpoint(CustomLLM):
    """The scripted model."""

    url: str

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_chat_model=True, model_name="m")

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **_: Any) -> ChatResponse:
        sent = [{"role": message.role.value, "content": message.content or ""} for message in messages]
        body = json.dumps({"model": "m", "messages": sent}).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{self.url}/chat/completions", body)) as response:
            text = json.load(response)["choices"][0]["message"]["content"]
        return ChatResponse(message=ChatMessage(role="assistant", content=text))

    def complete(self, prompt: str, *_: Any, **__: Any) -> CompletionResponse:
        return CompletionResponse(text=self.chat([ChatMessage(content=prompt)]).message.content)

    def stream_complete(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


def theirs(message: dict[str, Any]) -> ChatMessage:
    """Return a message of chat completions as LlamaIndex has it."""
    made = ChatMessage(role=message["role"], content=message["content"])
    for call in message.get("tool_calls", ()):
        function = call["function"]
        block = ToolCallBlock(
            tool_call_id=call["id"], tool_name=function["name"], tool_kwargs=json.loads(function["arguments"])
        )
        made.blocks.append(block)
    if "tool_call_id" in message:
        made.additional_kwargs["tool_call_id"] = message["tool_call_id"]
    return made


def plain(messages: Sequence[ChatMessage]) -> list[str]:
    return [line(message.role.value, message.content) for message in messages]


def run(conversation: Conversation, url: str) -> Known:
    model, words = Endpoint(url=url), str.split
    buffer = ChatMemoryBuffer.from_defaults(token_limit=BUDGET, tokenizer_fn=words)
    summing = ChatSummaryMemoryBuffer.from_defaults(llm=model, token_limit=BUDGET, tokenizer_fn=words)
    block = FactExtractionMemoryBlock(name="facts", llm=model)
    memory = Memory.from_defaults(
        token_limit=LIMIT,
        chat_history_token_ratio=BUDGET / LIMIT,
        token_flush_size=1,
        memory_blocks=[block],
        tokenizer_fn=words,
    )
    short: list[ChatMessage] = []
    for turn in conversation.turns:
        for message in map(theirs, turn):
            buffer.put(message)
            summing.put(message)
            with suppress(HTTPError):  # as an agent that answers all the same
                asyncio.run(memory.aput(message))
        with suppress(HTTPError):
            short = summing.get()
    summary = [message.content or "" for message in short[:1] if message.role.value == "system"]
    return {
        "buffer": plain(buffer.get()),
        "summary": summary,
        "after the summary": plain(short[len(summary) :]),
        "facts": sorted(block.facts),
        "queue": plain(asyncio.run(memory.aget_all(MessageStatus.ACTIVE))),
    }


if __name__ == "__main__":
    main(run, "llama-index-core")

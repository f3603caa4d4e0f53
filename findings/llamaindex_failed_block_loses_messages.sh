#!/usr/bin/env bash
# Expect messages that leave the short-term queue to reach every memory block.
# Get two of them in no block and in no prompt: a block that raised once, as a model that is busy
# makes it, is never given them again, while later messages reach it as if nothing had happened.
# Hits whoever extracts facts with a model behind a rate limit: what the user said in those turns
# is archived, and never learned.
# Seen with llama-index-core 0.14.25 on 2026-11-29.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check llama-index-core==0.14.25

"$work/venv/bin/python" -W ignore - <<'PY'
import asyncio
from importlib.metadata import version

from llama_index.core.llms import ChatMessage
from llama_index.core.memory import BaseMemoryBlock, Memory
from llama_index.core.storage.chat_store.sql import MessageStatus


class Notes(BaseMemoryBlock[str]):
    name: str = "notes"
    received: list[str] = []
    busy: int = 1

    async def _aget(self, messages=None, **_):
        return "; ".join(self.received)

    async def _aput(self, messages):
        if self.busy:
            self.busy -= 1
            raise ConnectionError("the model is busy")
        self.received += [message.content.partition(":")[0] for message in messages]


def names(messages):
    return [message.content.partition(":")[0] for message in messages]


async def talk():
    block = Notes()
    memory = Memory.from_defaults(
        session_id="s",
        token_limit=60,
        chat_history_token_ratio=0.5,
        token_flush_size=10,
        tokenizer_fn=str.split,
        memory_blocks=[block],
    )
    refused = []
    for number in range(12):
        role = "user" if number % 2 == 0 else "assistant"
        try:
            await memory.aput(ChatMessage(role=role, content=f"m{number}: one two three four five"))
        except ConnectionError:
            refused.append(f"m{number}")
    archived = names(await memory.aget_all(status=MessageStatus.ARCHIVED))
    prompt = " ".join(message.content for message in await memory.aget())
    return block.received, archived, prompt, refused


received, archived, prompt, refused = asyncio.run(talk())
print("llama-index-core", version("llama-index-core"))
print("documented: at the limit the oldest messages are ejected from the queue, and then processed by")
print("            each memory block")
print(f"  the block raised once, at the put of {refused}")
print(f"  archived: {archived}")
print(f"  received: {received}")
lost = [name for name in archived if name not in received]
print(f"seen: {lost} are archived, in no block, and in no prompt; the put that failed was stored")
assert lost == ["m0", "m1"]
assert len(refused) == 1 and refused[0] in archived
assert not any(f"{name}:" in prompt or name in prompt.split("; ") for name in lost)
PY

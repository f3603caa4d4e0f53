#!/usr/bin/env bash
# Expect a buffer that sums up "all older messages" to send the newest one as it was said.
# Get a prompt without a user: a question longer than token_limit is summed up together with what
# was before it. get() returns one system message, and has replaced the stored history by it.
# Hits whoever pastes a long text: the model is asked nothing, and what was asked is gone.
# Seen with llama-index-core 0.14.25 on 2026-11-29.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check llama-index-core==0.14.25

"$work/venv/bin/python" -W ignore - <<'PY'
from importlib.metadata import version

from llama_index.core.llms import ChatMessage, MockLLM
from llama_index.core.memory import ChatSummaryMemoryBuffer

LIMIT = 40


def prompt_of(words):
    """Roles of what is sent after a question of some words, and of what is stored then."""
    memory = ChatSummaryMemoryBuffer.from_defaults(
        llm=MockLLM(max_tokens=5), token_limit=LIMIT, tokenizer_fn=str.split
    )
    memory.put(ChatMessage(role="user", content="Hello, I am Ada."))
    memory.put(ChatMessage(role="assistant", content="Hello Ada."))
    question = "Which of these is right? " + "word " * (words - 5)
    memory.put(ChatMessage(role="user", content=question))
    sent = [message.role.value for message in memory.get()]
    return sent, [message.role.value for message in memory.get_all()]


print("llama-index-core", version("llama-index-core"))
print("documented: full text for the latest {token_limit}; all older messages are summarized")
fits, over = prompt_of(LIMIT - 10), prompt_of(LIMIT + 10)
print(f"  a question of {LIMIT - 10} tokens: sent {fits[0]}, stored {fits[1]}")
print(f"  a question of {LIMIT + 10} tokens: sent {over[0]}, stored {over[1]}")
print("seen: the newest question is summed up too; nobody asks anything in the prompt")
assert fits[0][-1] == "user"
assert over == (["system"], ["system"])
PY

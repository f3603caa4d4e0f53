"""A user's program as strict type checkers see it, for `make wheel-test`: every mistake in it has to be found.

`# type: ignore[...]` marks one that mypy must report: in strict mode an ignore that hides nothing is an error itself,
and `# pyright: ignore[...]` the same for pyright with `reportUnnecessaryTypeIgnoreComment`.
"""

from typing import Any, assert_type

from memory_core import (
    BaseMemoryBlock,
    ChatMessage,
    FactExtractionMemoryBlock,
    GraphMemoryBlock,
    Memory,
    MemoryConfig,
    Receipt,
    StaticMemoryBlock,
    SummaryMemoryBlock,
    VectorMemoryBlock,
)


class MentionCounter(BaseMemoryBlock[str]):
    """That of docs/how-to/own-block.md, with the types that LlamaIndex's documentation gives it."""

    mention_name: str = "Logan"
    mention_count: int = 0

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        return f"{self.mention_name} was mentioned {self.mention_count} times."

    async def _aput(self, messages: list[ChatMessage]) -> None:
        self.mention_count += sum(self.mention_name in (m.content or "") for m in messages)

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        return None


counter = MentionCounter(name="mentions", mention_count=1)
memory = Memory.from_defaults(
    session_id="typed",
    token_limit=4000,
    memory_blocks=[
        StaticMemoryBlock(name="core_info", static_content="You help Sam.", priority=0),
        FactExtractionMemoryBlock(name="facts", priority=1, max_facts=20),
        VectorMemoryBlock(name="turns", priority=2, similarity_top_k=3),
        GraphMemoryBlock(hops=2),
        SummaryMemoryBlock(max_tokens=200),
        counter,
    ],
)
assert_type(memory.put(ChatMessage(role="user", content="Hello")), Receipt)
assert_type(memory.get("Hello"), list[ChatMessage])
assert_type(counter.mention_count, int)
assert_type(MemoryConfig(token_limit=100).token_limit, int)

# What has to be found:
StaticMemoryBlock(static_content="x", priorty=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
VectorMemoryBlock(similarity_topk=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
SummaryMemoryBlock(max_token=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
FactExtractionMemoryBlock(max_facts="many")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
GraphMemoryBlock(hop=2)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
MentionCounter(name="mentions", mention_counts=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
MentionCounter()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
MemoryConfig(token_limits=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
memory.put(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

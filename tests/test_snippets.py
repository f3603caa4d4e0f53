"""Code written for LlamaIndex's `Memory`: it runs here with other imports, and our model and vector objects passed in.

Each test is such a piece of code as its documentation shows it, with what it prints there checked.
"""

import asyncio
from typing import Any, List, Optional  # noqa: UP035  as the code written for LlamaIndex has it

import pytest
from fakes import FakeChat, FakeEmbedder

from memory_core import (
    BaseMemoryBlock,
    ChatMessage,
    FactExtractionMemoryBlock,
    InsertMethod,
    Memory,
    MessageStatus,
    StaticMemoryBlock,
    TextBlock,
    VectorMemoryBlock,
)
from memory_core.vectors.exact import ExactIndex


def test_short_term_memory():
    memory = Memory.from_defaults(session_id="my_session", token_limit=40000)
    memory.put_messages(
        [
            ChatMessage(role="user", content="Hello, world!"),
            ChatMessage(role="assistant", content="Hello, world to you too!"),
        ]
    )
    chat_history = memory.get()
    assert [str(message.role) for message in chat_history] == ["user", "assistant"]
    assert chat_history[0].blocks == (TextBlock(text="Hello, world!"),)
    memory.reset()
    assert memory.get_all() == []


def test_a_queue_with_its_sizes():
    memory = Memory.from_defaults(
        session_id="my_session",
        token_limit=50,
        chat_history_token_ratio=0.7,
        token_flush_size=10,
    )
    for _ in range(100):
        memory.put_messages(
            [
                ChatMessage(role="user", content="Hello, world!"),
                ChatMessage(role="assistant", content="Hello, world to you too!"),
                ChatMessage(role="user", content="What is the capital of France?"),
                ChatMessage(role="assistant", content="The capital of France is Paris."),
            ]
        )
    current_chat_history = memory.get()
    assert len(current_chat_history) == 4
    assert len(memory.get_all()) == 400
    assert len(memory.get_all(status=MessageStatus.ARCHIVED)) == 396


def a_model():
    """Answers one extraction in the form it is asked for."""
    return FakeChat({"facts": [{"text": "The user has two cats", "category": "personal", "message": 1}]})


def test_long_term_memory_blocks():
    llm = a_model()
    embed_model = FakeEmbedder()
    vector_store = ExactIndex()

    blocks = [
        StaticMemoryBlock(
            name="core_info",
            static_content="My name is Logan, and I live in Saskatoon. I work at LlamaIndex.",
            priority=0,
        ),
        FactExtractionMemoryBlock(
            name="extracted_info",
            llm=llm,
            max_facts=50,
            priority=1,
        ),
        VectorMemoryBlock(
            name="vector_memory",
            vector_store=vector_store,
            priority=2,
            embed_model=embed_model,
            similarity_top_k=2,
            retrieval_context_window=5,
        ),
    ]
    memory = Memory.from_defaults(
        session_id="my_session",
        token_limit=200,
        chat_history_token_ratio=0.1,
        token_flush_size=20,
        memory_blocks=blocks,
        insert_method="user",
    )
    memory.put_messages(
        [
            ChatMessage(role="user", content="I have two cats, and they sleep on the red sofa all day."),
            ChatMessage(role="assistant", content="Lucky cats!"),
            ChatMessage(role="user", content="Where do my cats sleep?"),
        ]
    )
    chat_history = memory.get()
    assert len(chat_history) == 1
    assert chat_history[0].content == "\n".join(
        [
            "<memory>",
            "<core_info>",
            "My name is Logan, and I live in Saskatoon. I work at LlamaIndex.",
            "</core_info>",
            "<extracted_info>",
            "<fact>The user has two cats</fact>",
            "</extracted_info>",
            "<vector_memory>",
            "user: I have two cats, and they sleep on the red sofa all day.",
            "assistant: Lucky cats!",
            "</vector_memory>",
            "</memory>",
            "Where do my cats sleep?",
        ]
    )
    assert len(llm.asked) == 1
    assert memory.memory_blocks[1].facts == ["The user has two cats"]


def test_an_insert_method_may_be_its_enum():
    memory = Memory.from_defaults(
        insert_method=InsertMethod.SYSTEM,
        memory_blocks=[StaticMemoryBlock(name="core_info", static_content="My name is Logan.")],
    )
    memory.put(ChatMessage(role="user", content="Hi"))
    assert [str(message.role) for message in memory.get()] == ["system", "user"]


class MentionCounter(BaseMemoryBlock[str]):
    """
    A memory block that counts the number of times a user mentions a specific name.
    """

    mention_name: str = "Logan"
    mention_count: int = 0

    async def _aget(
        self,
        messages: Optional[List[ChatMessage]] = None,  # noqa: UP006, UP045
        **block_kwargs: Any,
    ) -> str:
        return f"Logan was mentioned {self.mention_count} times."

    async def _aput(self, messages: List[ChatMessage]) -> None:  # noqa: UP006
        for message in messages:
            if self.mention_name in message.content:
                self.mention_count += 1

    async def atruncate(self, content: str, tokens_to_truncate: int) -> Optional[str]:  # noqa: UP045
        return ""


def test_a_custom_block():
    memory = Memory.from_defaults(
        token_limit=60,
        chat_history_token_ratio=0.2,
        token_flush_size=1,
        memory_blocks=[MentionCounter(name="mentions", priority=1)],
    )
    for text in ("Logan is here.", "Who? Logan!", "Somebody else."):
        memory.put_messages([ChatMessage(role="user", content=text), ChatMessage(role="assistant", content="I see.")])
    assert "Logan was mentioned 2 times." in memory.get()[0].content
    # Its own truncation gives everything up as soon as the limit is near.
    memory.put(ChatMessage(role="user", content="word " * 55))
    assert [str(message.role) for message in memory.get()] == ["user"]


@pytest.fixture
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_remote_database_by_the_url_of_its_async_driver(in_a_folder):
    def memory():
        return Memory.from_defaults(
            session_id="my_session",
            token_limit=60,
            chat_history_token_ratio=0.2,
            token_flush_size=1,
            async_database_uri="sqlite+aiosqlite:///memory.db",
            memory_blocks=[MentionCounter(name="mentions", priority=1)],
        )

    first = memory()
    first.put_messages(
        [ChatMessage(role="user", content="Logan is here."), ChatMessage(role="assistant", content="Hi.")]
    )
    first.put_messages(
        [ChatMessage(role="user", content="Ask Logan about it, please."), ChatMessage(role="assistant", content="Who?")]
    )
    again = memory()
    assert len(again.get_all()) == 4
    assert "Logan was mentioned 1 times." in again.get()[0].content


def test_an_async_engine_of_ones_own(tmp_path):
    from sqlalchemy.ext.asyncio import create_async_engine

    async_engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/memory.db")
    memory = Memory.from_defaults(session_id="my_session", async_engine=async_engine)
    memory.put(ChatMessage(role="user", content="Hi"))
    assert len(Memory.from_defaults(session_id="my_session", async_engine=async_engine).get_all()) == 1


def test_a_tokenizer_of_ones_own():
    memory = Memory.from_defaults(token_limit=10, tokenizer_fn=lambda text: text.split())
    memory.put(ChatMessage(role="user", content="one two three"))
    assert memory.session.status().queue_tokens == 3


def test_async_code():
    async def main():
        memory = Memory.from_defaults(session_id="my_session", token_limit=40000)
        await memory.aput_messages(
            [
                ChatMessage(role="user", content="Hello, world!"),
                ChatMessage(role="assistant", content="Hello, world to you too!"),
            ]
        )
        await memory.aput(ChatMessage(role="user", content="Bye"))
        chat_history = await memory.aget()
        archived = await memory.aget_all(status=MessageStatus.ARCHIVED)
        await memory.areset()
        return len(chat_history), len(archived), len(await memory.aget_all())

    assert asyncio.run(main()) == (3, 0, 0)


def test_what_a_custom_block_learned_shows_on_the_memory_s_blocks():
    memory = Memory.from_defaults(token_limit=40, token_flush_size=10, memory_blocks=[MentionCounter(name="mentions")])
    for _ in range(6):
        memory.put(ChatMessage(role="user", content="Logan said that Logan would be late again"))
    assert memory.memory_blocks[0].mention_count == memory.session.status().archived_messages > 0

"""LlamaIndex's public names mean here what they mean there; the real library is run beside ours where it can be."""

import asyncio
import json
import pickle

import pytest
from engine_fakes import NoteExtractor
from llama_index.core.llms import ChatMessage as TheirMessage
from llama_index.core.llms import MockLLM
from llama_index.core.memory import ChatMemoryBuffer as TheirBuffer
from llama_index.core.memory import Memory as TheirMemory
from llama_index.core.memory import StaticMemoryBlock as TheirStatic
from pydantic import Field

from memory_core import (
    BaseMemoryBlock,
    ChatMessage,
    ConfigError,
    FactExtractionMemoryBlock,
    Memory,
    StaticMemoryBlock,
    TextBlock,
    ThinkingBlock,
    VectorMemoryBlock,
)
from memory_core.systems import ChatMemoryBuffer, ChatSummaryMemoryBuffer

SAID = [("user", "one two three"), ("assistant", "four five"), ("user", "six"), ("assistant", "seven eight nine ten")]


def ours(said=SAID):
    return [ChatMessage(text, role=role) for role, text in said]


def said_by(messages):
    return [(str(getattr(message.role, "value", message.role)), message.content) for message in messages]


# -- Memory ------------------------------------------------------------------------------------------


def test_the_constructor_takes_what_from_defaults_takes():
    block = StaticMemoryBlock(name="core", static_content="Be brief.")
    given = {"token_limit": 1000, "token_flush_size": 700, "chat_history_token_ratio": 0.9, "session_id": "s"}
    memory = Memory(**given, memory_blocks=[block], tokenizer_fn=str.split)
    memory.put_messages(ours())
    assert (memory.session_id, memory.memory_blocks, len(memory.get_all())) == ("s", [block], 4)
    assert "Be brief." in memory.get()[0].content
    with pytest.raises(ConfigError, match="token_limit"):
        Memory(token_limit=0)
    with pytest.raises(ConfigError, match="token_limit is a setting of a session to be made"):
        Memory(memory._session, token_limit=5)


def test_settings_are_read_as_attributes_and_setting_one_configures_the_session():
    given = {"token_limit": 1000, "token_flush_size": 700, "chat_history_token_ratio": 0.9}
    memory, theirs = Memory(**given, tokenizer_fn=str.split), TheirMemory(**given, tokenizer_fn=str.split)
    for name in given:
        assert getattr(memory, name) == getattr(theirs, name) == given[name]
    assert memory.insert_method == theirs.insert_method.value == "system"
    assert memory.tokenizer_fn("a b") == theirs.tokenizer_fn("a b") == ["a", "b"]
    assert memory.sql_store is memory.session.database
    memory.token_limit, memory.insert_method = 2000, "user"
    assert (memory.session.config.token_limit, memory.insert_method) == (2000, "user")
    assert memory.events(kinds=["configuration_changed"])
    with pytest.raises(ConfigError):
        memory.token_limit = 0
    assert Memory(token_limit=1000).token_flush_size == 100, "what is not given is what holds"


# -- blocks by themselves ----------------------------------------------------------------------------


class Mentions(BaseMemoryBlock[str]):
    seen: list[str] = Field(default_factory=list)

    async def _aget(self, messages=None, **kwargs):
        return f"{len(self.seen)} seen, asked with {kwargs}"

    async def _aput(self, messages):
        self.seen = [*self.seen, *(f"{message.content} {message.additional_kwargs}" for message in messages)]


def test_a_block_of_one_s_own_is_read_and_told_by_the_public_names_of_its_hooks():
    block = Mentions(name="mentions")
    asyncio.run(block.aput(ours(SAID[:1]), session_id="s"))
    assert block.seen == ["one two three {'session_id': 's'}"]
    assert asyncio.run(block.aget(ours(), depth=2)) == "1 seen, asked with {'depth': 2}"
    shy = Mentions(name="shy", accept_short_term_memory=False)
    asyncio.run(shy.aput(ours(), from_short_term_memory=True))
    assert shy.seen == []
    asyncio.run(shy.aput(ours(SAID[:1])))
    assert len(shy.seen) == 1


def test_static_content_is_given_as_blocks_and_learns_nothing():
    for static in (StaticMemoryBlock(static_content="Be brief."), TheirStatic(static_content="Be brief.")):
        asyncio.run(static.aput([]))
        assert [part.text for part in asyncio.run(static.aget())] == ["Be brief."]
    parts = [TextBlock(text="a"), TextBlock(text="b")]
    assert asyncio.run(StaticMemoryBlock(static_content=parts).aget()) == parts


def test_facts_are_learned_once_each_and_condensed_above_their_number():
    block = FactExtractionMemoryBlock(facts=["The user likes tea"], max_facts=2)
    for _ in range(2):
        asyncio.run(block.aput([ChatMessage("I live in Faro.", role="user")]))
    assert block.facts == ["The user likes tea", "The user lives in Faro"]
    assert asyncio.run(block.aget()) == "<fact>The user likes tea</fact>\n<fact>The user lives in Faro</fact>"
    asyncio.run(block.aput([ChatMessage("I work as a nurse. I have two cats.", role="user")]))
    assert len(block.facts) == 2


def test_what_needs_a_memory_says_so_and_what_a_memory_feeds_is_fed_by_it():
    for call in (VectorMemoryBlock().aget(), VectorMemoryBlock().aput(ours())):
        with pytest.raises(ConfigError, match="VectorMemoryBlock needs a memory"):
            asyncio.run(call)
    for block in (FactExtractionMemoryBlock(llm=NoteExtractor()), Mentions(name="mentions")):
        Memory(memory_blocks=[block])
        with pytest.raises(ConfigError, match="is of a memory, which hands it messages"):
            asyncio.run(block.aput(ours()))
        assert isinstance(asyncio.run(block.aget()), str)


def test_a_thought_is_given_and_read_by_llamaindex_s_name_too():
    thought = ThinkingBlock(content="Hm.")
    assert thought == ThinkingBlock(text="Hm.")
    assert (thought.text, thought.content) == ("Hm.", "Hm.")
    assert ChatMessage.from_json(ChatMessage(role="assistant", parts=[thought]).to_json()).parts == (thought,)


# -- the buffers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("beside", range(9))
def test_tokens_beside_a_buffer_are_taken_off_its_limit_as_there(beside):
    history = [TheirMessage(role=role, content=text) for role, text in SAID]
    theirs = TheirBuffer.from_defaults(history, token_limit=13, tokenizer_fn=str.split)
    memory = ChatMemoryBuffer.from_defaults(ours(), token_limit=13, tokenizer_fn=str.split)
    assert said_by(memory.get(initial_token_count=beside)) == said_by(theirs.get(initial_token_count=beside))
    assert said_by(asyncio.run(memory.aget(initial_token_count=beside))) == said_by(memory.get(None, beside))


def test_more_beside_than_the_limit_is_an_error_unless_it_is_not_counted():
    with pytest.raises(ConfigError, match="initial_token_count of 14 is above the token limit of 13"):
        ChatMemoryBuffer.from_defaults(ours(), token_limit=13, tokenizer_fn=str.split).get(initial_token_count=14)
    for counted in (True, False):
        memory = ChatSummaryMemoryBuffer.from_defaults(
            ours(), token_limit=13, tokenizer_fn=str.split, count_initial_tokens=counted
        )
        if counted:
            with pytest.raises(ConfigError, match="initial_token_count"):
                memory.get(initial_token_count=14)
        else:
            assert memory.get(initial_token_count=14) == memory.get()
        assert memory.get_token_count() == memory.memory.session.status().queue_tokens


@pytest.mark.parametrize("kind", [ChatMemoryBuffer, ChatSummaryMemoryBuffer])
def test_a_buffer_is_saved_and_read_back_in_every_way_there_is(kind):
    memory = kind.from_defaults(ours(), token_limit=50, chat_store_key="monday")
    if kind is ChatSummaryMemoryBuffer:
        memory.count_initial_tokens = True
    copies = [
        kind.from_dict(memory.to_dict()),
        kind.from_string(memory.to_string()),
        kind.from_dict(json.loads(json.dumps(memory.to_dict()))),
        pickle.loads(pickle.dumps(memory)),  # noqa: S301  our own
    ]
    for copy in copies:
        assert copy.get_all() == memory.get_all()
        assert (copy.token_limit, copy.count_initial_tokens) == (50, True)
        copy.put(ChatMessage("more", role="user"))
    assert len(memory.get_all()) == 4, "a copy is a session of its own"
    saved = memory.to_dict()
    assert saved["chat_store"]["store"].keys() == {saved["chat_store_key"]} == {"monday"}


def test_what_llamaindex_saved_is_read_in_its_new_and_its_old_form():
    message = {"role": "user", "additional_kwargs": {}, "blocks": [{"block_type": "text", "text": "Hello"}]}
    store = {"store": {"chat_history": [message]}, "class_name": "SimpleChatStore"}
    for data in (
        {"token_limit": 7, "chat_store": store, "chat_store_key": "chat_history", "class_name": "ChatMemoryBuffer"},
        {"token_limit": 7, "chat_history": [message]},
    ):
        read = ChatMemoryBuffer.from_dict(data)
        assert (read.token_limit, said_by(read.get_all())) == (7, [("user", "Hello")])
    with pytest.raises(ConfigError, match="SimpleChatStore"):
        ChatMemoryBuffer.from_dict({"token_limit": 7, "chat_store": {"class_name": "RedisChatStore"}})


def test_a_limit_not_given_is_that_of_the_model_s_window_or_llamaindex_s_own():
    assert (
        ChatMemoryBuffer.from_defaults(llm=MockLLM()).token_limit
        == TheirBuffer.from_defaults(llm=MockLLM()).token_limit
    )
    assert ChatMemoryBuffer(token_limit=70).token_limit == 70
    assert ChatMemoryBuffer.from_defaults().token_limit == TheirBuffer.from_defaults().token_limit == 3000

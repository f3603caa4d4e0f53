"""A block of a plug-in's class, added once, works in every process that has the package."""

from importlib.metadata import EntryPoint

import pytest
from engine_fakes import Counter, HashEmbedder, NoteExtractor, note, open_memory, user

from memory_core import BaseMemoryBlock, Memory, Services
from memory_core.blocks import plugins
from memory_core.blocks.plugins import GROUP, load


@pytest.fixture
def installed(monkeypatch):
    found = load([EntryPoint("counter", "engine_fakes:Counter", GROUP)])
    monkeypatch.setattr(plugins, "plugins", lambda: found)


def reopened(memory):
    """The session in another process, which was never given the block."""
    services = Services(embedder=HashEmbedder(), extractor=NoteExtractor())
    return Memory.open("s", memory.session.database, services=services, tokenizer_fn=str.split)


def test_it_learns_wherever_the_session_is_opened_and_its_state_stays(installed):
    first = open_memory()
    first.blocks.add(Counter(name="heard", priority=3))
    memory = reopened(first)
    assert [(attached.name, type(attached.block)) for attached in memory.blocks] == [("heard", Counter)]
    for number in range(6):
        memory.put(note(number))
    learned = memory.session.status().archived_messages
    assert learned > 0
    again = reopened(memory)
    assert again.memory_blocks[0].priority == 3
    assert f"{learned} messages" in again.get()[0].content


def test_without_the_package_it_is_shown_as_it_last_was():
    first = open_memory()
    first.blocks.add(Counter(name="heard"))
    assert [attached.block for attached in reopened(first).blocks] == [None]


def test_a_block_may_call_its_fields_what_it_likes():
    class Counting(BaseMemoryBlock[str]):
        learns: int = 0
        has_text: str = "messages"
        model_calls: int = 0

        def _get(self, messages=None, **kwargs):
            return f"{self.learns} {self.has_text}"

        def _put(self, messages):
            self.learns += len(messages)

    memory = open_memory(memory_blocks=[Counting(name="counting", deliver_on="turn")])
    memory.put(user("Hello"))
    memory.put(user("Again"))
    memory.deliver()
    assert "1 messages" in memory.preview.context().messages[0].content

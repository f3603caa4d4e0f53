"""Failures in std logging: one warning for each recorded failure, with no word of the conversation and no key."""

import logging

from engine_fakes import HashEmbedder, NoteExtractor, assistant, note, open_memory, user

from memory_core import Services
from memory_core.blocks.base import BaseMemoryBlock
from memory_core.blocks.facts import FactExtractionMemoryBlock
from memory_core.blocks.vector import VectorMemoryBlock
from memory_core.errors import EmbedderError
from memory_core.events import BlockFailed, DeliveryFailed, DeliveryParked, Retrieved

SECRET = "sk-secret-123 and note 7 of the day"
"""A key and words that were said, as the text of an exception may quote them."""


def warned(caplog):
    return [(each.name, each.getMessage()) for each in caplog.records if each.levelno >= logging.WARNING]


def recorded(memory, kind):
    return [each.event for each in memory.events() if isinstance(each.event, kind)]


class Refusing(NoteExtractor):
    def extract(self, messages, *, known):
        raise RuntimeError(SECRET)


class Unreadable(BaseMemoryBlock[str]):
    name: str = "unreadable"

    async def _aget(self, messages=None, **kwargs):
        raise LookupError(SECRET)

    async def _aput(self, messages):
        pass


class Deaf(HashEmbedder):
    """Embeds what is stored, and fails at every question."""

    def embed(self, texts):
        if any("?" in text for text in texts):
            raise EmbedderError(SECRET)
        return super().embed(texts)


def check_silent_about_words(caplog):
    told = " ".join(message for _, message in warned(caplog)) + caplog.text
    assert "secret" not in told
    assert "of the day" not in told


def test_each_failed_attempt_to_learn_is_one_warning_and_parking_another(caplog):
    facts = FactExtractionMemoryBlock(name="facts", llm=Refusing(), deliver_on="turn")
    memory = open_memory(memory_blocks=[facts], delivery_attempts=2)
    memory.put_messages([note(7), assistant("Noted.")], end_turn=True)
    assert warned(caplog) == [
        ("memory_core.engine.delivery", "Session 's', block 'facts': attempt 1 to learn failed with RuntimeError.")
    ]
    memory.deliver()
    assert len(recorded(memory, DeliveryFailed)) == 2
    assert len(recorded(memory, DeliveryParked)) == 1
    assert [message for _, message in warned(caplog)][1:] == [
        "Session 's', block 'facts': attempt 2 to learn failed with RuntimeError.",
        "Session 's', block 'facts': parked after attempt 2, which failed with RuntimeError.",
    ]
    check_silent_about_words(caplog)


def test_a_block_left_out_of_a_prompt_is_one_warning_and_a_preview_is_none(caplog):
    memory = open_memory(memory_blocks=[Unreadable()])
    memory.put(note(7))
    memory.preview.next_prompt()
    assert warned(caplog) == []
    memory.build_context()
    assert len(recorded(memory, BlockFailed)) == 1
    assert warned(caplog) == [
        (
            "memory_core.engine.context",
            "Session 's', block 'unreadable': left out of a prompt, as reading it failed with LookupError.",
        )
    ]
    check_silent_about_words(caplog)


def test_a_search_without_its_embedder_is_one_warning(caplog):
    block = VectorMemoryBlock(name="turns", embed_model=Deaf(), deliver_on="turn")
    memory = open_memory(memory_blocks=[block], services=Services(embedder=Deaf()))
    memory.put_messages([note(7), assistant("Noted.")], end_turn=True)
    memory.deliver()
    assert warned(caplog) == []
    memory.put(user("Which note?"))
    memory.build_context()
    assert [each.degraded is None for each in recorded(memory, Retrieved)] == [False]
    assert warned(caplog) == [
        (
            "memory_core.engine.context",
            "Session 's', block 'turns': a search was done without its index or its embedder.",
        )
    ]
    check_silent_about_words(caplog)

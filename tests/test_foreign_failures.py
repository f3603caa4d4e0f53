"""Blocks, extractors and embedders of other people: whatever they raise or return, `put` and `build_context` go on."""

import asyncio

import pytest
from engine_fakes import Clock, Counter, HashEmbedder, NoteExtractor, note, open_memory
from pydantic import Field

from memory_core import Services, StaticMemoryBlock, VectorMemoryBlock
from memory_core.blocks.base import BaseMemoryBlock
from memory_core.blocks.facts import FactExtractionMemoryBlock
from memory_core.engine import context
from memory_core.errors import EmbedderError, MessageError, NotFoundError, StoreError, user_message
from memory_core.events import BlockFailed, ContextBuilt, DeliveryDone, DeliveryFailed, DeliveryParked
from memory_core.messages import ChatMessage, unstorable
from memory_core.models.protocols import ExtractedFact, Extraction, ModelCall


class UnreadableError(Exception):
    def __str__(self):
        raise ValueError("no text")


RAISED = {
    "half an emoji": RuntimeError("answer \ud83d broken"),
    "unreadable": UnreadableError(),
    "a NUL": RuntimeError("a\x00b"),
    "enormous": RuntimeError("\ud83d" * 1_000_000),
    "our own, enormous": MessageError("x" * 1_000_000),
    "the end of the process": SystemExit(3),
    "a cancelled task": asyncio.CancelledError(),
    "a store of its own": StoreError("its own database is gone"),
    "a record of its own": NotFoundError("its own record is gone"),
}
raising = pytest.mark.parametrize("error", RAISED.values(), ids=RAISED)


class Raising(BaseMemoryBlock[str]):
    name: str = "raising"
    error: object = None
    on: str = "put"

    def _get(self, messages=None, **kwargs):
        if self.on == "get":
            raise self.error
        return "some content" if self.on == "truncate" else ""

    def _put(self, messages):
        if self.on == "put":
            raise self.error

    def truncate(self, content, tokens_to_truncate):
        raise self.error


class AsyncRaising(Raising):
    async def _aget(self, messages=None, **kwargs):
        return self._get(messages)

    async def _aput(self, messages):
        self._put(messages)


class Returning(BaseMemoryBlock[str]):
    name: str = "returning"
    content: object = Field(default=None, exclude=True)

    def _get(self, messages=None, **kwargs):
        return self.content

    def _put(self, messages):
        return None


class FixedExtractor(NoteExtractor):
    """Gives the same answer to everything."""

    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def extract(self, messages, *, known):
        return self.answer


def events(memory, *kinds):
    return [record.event for record in memory.events() if isinstance(record.event, kinds)]


@raising
def test_the_text_of_any_error_is_short_and_storable(error):
    text = user_message(error)

    assert unstorable(text) is None
    assert 0 < len(text) <= 2_000
    assert text.encode()


@pytest.mark.slow
@raising
def test_puts_go_on_while_a_block_fails_and_its_deliveries_are_parked(error):
    clock = Clock()
    memory = open_memory(memory_blocks=[Raising(error=error), Counter()], clock=clock)

    for number in range(60):
        memory.put(note(number), wait=True)
        clock.pass_by(60)

    assert len(memory.get_all()) == 60
    failed, parked = events(memory, DeliveryFailed), events(memory, DeliveryParked)
    assert {event.block for event in failed} == {"raising"} == {event.block for event in parked}
    assert len(parked) >= 5
    states = {d.state for d in memory.session.deliveries() if d.block == "counter"}
    assert states == {"done"}


@pytest.mark.parametrize("on", ["put", "get"])
def test_an_async_block_that_ends_the_process_stops_no_other_block(on):
    memory = open_memory(memory_blocks=[AsyncRaising(error=SystemExit(3), on=on), Counter()])
    for number in range(6):
        memory.put(note(number))
    built = memory.build_context()
    assert list(built.failures) == (["raising"] if on == "get" else [])
    assert "2 messages" in built.messages[0].content


@raising
def test_a_lease_is_released_after_a_failure(error):
    memory = open_memory(memory_blocks=[Raising(error=error)])
    for number in range(6):
        memory.put(note(number))
    attempts = len(events(memory, DeliveryFailed))

    served = memory.deliver(force=True)

    assert served["raising"].outcome == "failed"
    assert len(events(memory, DeliveryFailed)) == attempts + 1


@pytest.mark.parametrize("on", ["get", "truncate"])
@raising
def test_a_prompt_is_built_and_recorded_without_the_block_that_fails(error, on):
    memory = open_memory(
        memory_blocks=[
            Raising(error=error, on=on, priority=1),
            StaticMemoryBlock(name="core", static_content="A " * 20),
        ],
        token_limit=28,
        token_flush_size=14,
    )
    memory.put(note(1))

    built = memory.build_context("and now?")

    assert built.unrecorded is None
    assert list(built.failures) == ["raising"]
    assert "note 1 " in str(built.messages)
    assert [event.block for event in events(memory, BlockFailed)] == ["raising"]


@pytest.mark.parametrize(
    "content",
    [
        "half \ud83d",
        [ChatMessage(content="half \ud83d")],
        ["no part"],
        42,
        {"a": "dict"},
    ],
)
def test_content_that_cannot_be_stored_costs_its_block_alone(content):
    memory = open_memory(memory_blocks=[Returning(content=content), Counter(count=3)])
    memory.put(note(1))

    built = memory.build_context("and now?")

    assert built.unrecorded is None
    assert list(built.failures) == ["returning"]
    assert "3 messages" in str(built.messages)
    assert [event.block for event in events(memory, BlockFailed)] == ["returning"]
    assert len(events(memory, ContextBuilt)) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer",
    [
        None,
        Extraction((ExtractedFact("half \ud83d", source=0),)),
        Extraction((ExtractedFact("Rui has a cat.", "half \ud83d", source=0),)),
        Extraction((ExtractedFact("Rui has a cat.", {"a": "dict"}, source=0),)),
        Extraction((ExtractedFact(17, source=0),)),
        Extraction((ExtractedFact("Rui has a cat.", source=10**400),)),
        Extraction((), (ModelCall("extract", "half \ud83d", 1, 1, 0.0),)),
        Extraction((), (ModelCall("extract", "m", object(), 1, 0.0),)),
    ],
)
def test_an_extractor_may_answer_anything(answer):
    clock = Clock()
    memory = open_memory(
        memory_blocks=[FactExtractionMemoryBlock(name="facts", llm=FixedExtractor(answer)), Counter()], clock=clock
    )

    for number in range(30):
        memory.put(note(number))
        clock.pass_by(60)
    memory.build_context("and now?")

    assert len(memory.get_all()) == 30
    assert {event.block for event in events(memory, DeliveryFailed)} <= {"facts"}
    settled = {d.state for d in memory.session.deliveries() if d.block == "facts"}
    assert settled <= {"done", "parked", "pending"}
    assert events(memory, DeliveryParked) or settled == {"done"}


def test_fields_of_a_block_keep_their_words_when_a_character_is_broken():
    class Diary(BaseMemoryBlock[str]):
        name: str = "diary"
        lines: tuple[str, ...] = ()

        def _get(self, messages=None, **kwargs):
            return "\n".join(self.lines)

        def _put(self, messages):
            self.lines = (*self.lines, "seen \ud83d")

    memory = open_memory(memory_blocks=[Diary()])
    for number in range(6):
        memory.put(note(number))

    assert set(memory.memory_blocks[0].lines) == {"seen \ufffd"}
    assert "seen \ufffd" in str(memory.build_context("and now?").messages)


def test_a_block_that_refuses_its_own_fields_is_not_given_the_same_again():
    class Refusing(Counter):
        name: str = "refusing"

        def take_state(self, state):
            if self._owner is not None and self.count == 0 and '"count":0' not in (state or "").replace(" ", ""):
                raise ValueError("not these")
            super().take_state(state)

    memory = open_memory(memory_blocks=[Refusing()])
    for number in range(6):
        memory.put(note(number))

    done = [id for event in events(memory, DeliveryDone) for id in event.deliveries]
    assert len(done) == len(set(done)) > 0


def test_an_embedder_with_a_broken_name_costs_no_prompt():
    class Broken(HashEmbedder):
        id = "broken \ud83d"

    memory = open_memory(
        memory_blocks=[VectorMemoryBlock(name="turns", embed_model=Broken())],
        services=Services(embedder=HashEmbedder(), extractor=NoteExtractor()),
    )
    for number in range(8):
        memory.put(note(number))

    built = memory.build_context("note 1")

    assert "note 7 " in str(built.messages)


def test_a_prompt_that_cannot_be_recorded_is_given_all_the_same(monkeypatch):
    memory = open_memory(memory_blocks=[Counter()])
    memory.put(note(1))

    def fails(*arguments, **named):
        raise OverflowError("Python int too large to convert to SQLite INTEGER")

    monkeypatch.setattr(context, "_record", fails)
    built = memory.build_context("and now?")

    assert "OverflowError" in built.unrecorded
    assert "note 1 " in str(built.messages)


def test_the_callers_own_half_character_is_refused():
    memory = open_memory(memory_blocks=[Counter()])
    memory.put(note(1))

    with pytest.raises(MessageError, match="half a character"):
        memory.build_context("half \ud83d")


def test_an_embedder_that_fails_with_half_an_emoji_costs_no_prompt_and_no_put():
    class Failing(HashEmbedder):
        failing = False

        def embed(self, texts):
            if self.failing:
                raise EmbedderError("answer \ud83d broken")
            return super().embed(texts)

    embedder = Failing()
    memory = open_memory(memory_blocks=[VectorMemoryBlock(name="turns", embed_model=embedder)])
    for number in range(8):
        memory.put(note(number))
    embedder.failing = True
    for number in range(8, 16):
        memory.put(note(number))

    built = memory.build_context("note 1")

    assert built.unrecorded is None
    assert "note 15 " in str(built.messages)
    assert not events(memory, DeliveryFailed)

"""Vectors that follow: long messages are stored and found by keyword at once, and embedded in the background."""

import threading

import pytest
from engine_fakes import assistant, open_memory, user
from fakes import FakeEmbedder

from memory_core import EmbedderError, Memory, Services, StaticMemoryBlock, VectorMemoryBlock
from memory_core.blocks import storing
from memory_core.store.vector_rows import sessions_without_vectors

LONG = 1_200
"""Words of a message: more than is embedded at once."""


class HeldEmbedder(FakeEmbedder):
    """Embeds what is long only once it may; questions at once."""

    def __init__(self):
        super().__init__()
        self.may = threading.Event()
        self.fails = False

    def embed(self, texts):
        if any(len(text.split()) > 50 for text in texts):
            assert self.may.wait(20)
            if self.fails:
                raise EmbedderError("The embedding model is missing.")
        return super().embed(texts)


def long(topic):
    return f"{topic} " + " ".join(f"word{number}" for number in range(LONG))


def a_memory(embedder, uri=None, **options):
    memory = open_memory(
        "s",
        database_uri=uri,
        token_limit=3_000,
        chat_history_token_ratio=0.5,
        memory_blocks=[
            StaticMemoryBlock(name="core", static_content="Be kind."),
            VectorMemoryBlock(name="turns", retrieval_context_window=1),
        ],
        services=Services(embedder=embedder),
        **options,
    )
    for topic in ("passport", "boiler", "lemon"):
        memory.put(user(long(topic)))
        memory.put(assistant(f"I see, {topic}."))
    return memory


def kinds(memory):
    return [record.kind for record in memory.events() if record.kind.startswith("vectors")]


def stored(memory):
    return next(record.event for record in memory.events(kinds=["vectors_stored"]))


@pytest.fixture
def held(monkeypatch):
    monkeypatch.setattr(storing, "QUIET_SECONDS", 0.0)
    embedder = HeldEmbedder()
    yield embedder
    embedder.may.set()


def test_a_put_does_not_wait_for_the_vectors_of_long_messages(held, monkeypatch):
    monkeypatch.setattr("memory_core.engine.context.PATIENCE_SECONDS", 0.01)
    memory = a_memory(held)
    assert kinds(memory) == ["vectors_stored"] * 2
    assert (stored(memory).follow, stored(memory).error) == (True, None)
    assert memory.retrieval.vectors_pending("turns")
    first = next(part for part in memory.build_context("passport").plan.granted if part.name == "turns")
    assert first.granted, "found by keyword meanwhile"
    without = memory.retrieval.under_other_embedders("turns")
    held.may.set()
    memory.deliver()
    assert set(kinds(memory)[2:]) == {"vectors_replaced"}
    assert memory.retrieval.under_other_embedders("turns") == 0 < without
    assert not memory.retrieval.vectors_pending("turns")


def test_a_prompt_waits_for_them_and_is_as_if_they_had_been_there(held, monkeypatch):
    monkeypatch.setattr("memory_core.engine.context.PATIENCE_SECONDS", 20.0)
    memory = a_memory(held)
    threading.Timer(0.2, held.may.set).start()
    context = memory.build_context("passport")
    assert memory.retrieval.under_other_embedders("turns") == 0
    monkeypatch.setattr("memory_core.blocks.storing.AT_ONCE_TOKENS", 1_000_000)
    at_once = a_memory(FakeEmbedder())
    assert set(kinds(at_once)) == {"vectors_stored"}
    assert context.plan == at_once.build_context("passport").plan


def test_what_is_short_is_embedded_before_it_is_stored(held):
    memory = open_memory("s", token_limit=60, memory_blocks=[VectorMemoryBlock(name="turns")])
    for number in range(12):
        memory.put(user(f"number {number} of my short messages"))
        memory.put(assistant("I see."))
    assert set(kinds(memory)) == {"vectors_stored"}
    assert not any(record.event.follow for record in memory.events(kinds=["vectors_stored"]))


def test_what_a_dead_process_left_is_taken_up_by_the_next(tmp_path, monkeypatch):
    uri = f"sqlite:///{tmp_path}/m.db"
    with monkeypatch.context() as dies:
        dies.setattr(storing.Following, "start", lambda *_: None)
        memory = a_memory(FakeEmbedder(), uri)
    without = memory.retrieval.under_other_embedders("turns")
    database = memory.session.database
    with database.read() as connection:
        assert sessions_without_vectors(connection, database) == ["s"]
    again = Memory.open("s", database, services=Services(embedder=FakeEmbedder()), tokenizer_fn=str.split)
    again.retrieval.resume_vectors()
    again.deliver()
    assert without > again.retrieval.under_other_embedders("turns") == 0
    with database.read() as connection:
        assert sessions_without_vectors(connection, database) == []


def test_what_is_of_another_programs_model_waits_for_that(tmp_path, monkeypatch):
    class Other(FakeEmbedder):
        id = "another"

    uri = f"sqlite:///{tmp_path}/m.db"
    theirs = a_memory(FakeEmbedder(), uri)
    theirs.deliver()
    with monkeypatch.context() as dies:
        dies.setattr(storing.Following, "start", lambda *_: None)
        for _ in range(2):
            theirs.put(user(long("later")))
    mine = Memory.open("s", theirs.session.database, services=Services(embedder=Other()), tokenizer_fn=str.split)
    before = kinds(mine)
    mine.retrieval.resume_vectors()
    assert not mine.retrieval.vectors_pending("turns")
    assert kinds(mine) == before


def test_a_model_that_fails_in_the_background_harms_nobody_and_is_tried_again(held, caplog):
    held.fails = True
    memory = a_memory(held)
    without = memory.retrieval.under_other_embedders("turns")
    held.may.set()
    memory.deliver()
    assert memory.retrieval.under_other_embedders("turns") == without > 0
    assert "found by keyword only until they can be embedded" in caplog.text
    held.fails = False
    memory.put(user(long("later")))
    memory.deliver()
    assert memory.retrieval.under_other_embedders("turns") == 0


def test_messages_stored_while_others_are_embedded_get_their_vectors_too(held):
    memory = a_memory(held)
    for topic in ("river", "tunnel"):
        memory.put(user(long(topic)))
        memory.put(assistant(f"I see, {topic}."))
    held.may.set()
    memory.deliver()
    assert memory.retrieval.under_other_embedders("turns") == 0
    numbers = [turn.number for turn in memory.retrieval.stored_turns("turns")]
    assert len(numbers) == len(set(numbers)) == memory.session.status().archived_messages


def test_a_session_that_is_deleted_meanwhile_ends_the_work(held):
    from memory_core import delete_session

    memory = a_memory(held)
    delete_session(memory.session.database, "s")
    held.may.set()
    assert following_of(memory).wait(20)


def following_of(memory):
    (found,) = [v for key, v in memory.session.services._remembered.items() if key[0] == "following"]
    return found

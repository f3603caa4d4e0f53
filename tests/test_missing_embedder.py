"""While no embedding model answers: nothing is lost, keywords find it at once, vectors follow when one answers."""

import pytest
from fakes import FakeEmbedder

from memory_core import ChatMessage, EmbedderError, Memory, Services, VectorMemoryBlock
from memory_core.blocks import storing
from memory_core.bundles.bundle import import_bundle, read_bundle, write_bundle
from memory_core.events import VectorsReplaced, VectorsStored
from memory_core.vectors.chroma import ChromaIndex
from memory_core.vectors.exact import ExactIndex

GONE = "The embedding model is missing. Install it again."


class Unplugged(FakeEmbedder):
    """A model that can be unplugged, and a text that it never takes."""

    def __init__(self, gone=True):
        self.gone = gone
        self.refused = None

    def embed(self, texts):
        if self.gone or (self.refused and any(self.refused in text for text in texts)):
            raise EmbedderError(GONE)
        return super().embed(texts)


def made(embedder, index=None):
    return Memory.from_defaults(
        "s",
        token_limit=10_000,
        memory_blocks=[VectorMemoryBlock(name="turns", similarity_top_k=2, unit="message")],
        services=Services(index=index or ExactIndex(), embedder=embedder),
    )


def tell(memory, *things):
    """Store messages of these things; what became of them."""
    memory.put_messages([ChatMessage(role="user", content=f"My {thing} stand in the garden") for thing in things])
    return memory.flush(all=True).served["turns"]


def recalled(memory, question):
    """Words and vector scores of what is brought back."""
    return [
        (found.words, found.vector is not None)
        for found in memory.retrieval.search(question).found
        if found.score > 0.3
    ]


def test_what_has_no_vector_is_stored_at_once_and_found_by_keyword():
    memory = made(Unplugged())
    assert tell(memory, "lanterns", "violins").outcome == "done"
    context = memory.build_context("Where are the lanterns?")
    assert any("My lanterns stand" in str(message.content) for message in context.messages)
    search = memory.retrieval.search("lanterns")
    assert search.degraded == f"Keyword search only. {GONE}"
    assert memory.retrieval.under_other_embedders() == 2


def test_the_log_tells_it():
    memory = made(Unplugged())
    tell(memory, "lanterns")
    (record,) = memory.events(kinds=("vectors_stored",))
    assert isinstance(record.event, VectorsStored)
    assert (record.event.embedder, len(record.event.nodes)) == ("", 1)


def test_vectors_follow_with_the_next_messages_once_the_model_answers():
    embedder = Unplugged()
    memory = made(embedder)
    tell(memory, "lanterns", "violins")
    embedder.gone = False
    tell(memory, "kites")
    (record,) = memory.events(kinds=("vectors_replaced",))
    first, second, _ = (turn.number for turn in memory.retrieval.stored_turns("turns"))
    assert record.event == VectorsReplaced("turns", "fake-64", (first, second))
    assert memory.retrieval.under_other_embedders() == 0
    assert recalled(memory, "lanterns stand in the garden")[0][1]


def test_vectors_follow_when_they_are_asked_for():
    embedder = Unplugged()
    memory = made(embedder)
    tell(memory, "lanterns", "violins")
    with pytest.raises(EmbedderError, match="Install it again"):
        memory.retrieval.reembed()
    embedder.gone = False
    assert memory.retrieval.reembed() == 2
    assert memory.retrieval.search("lanterns").degraded is None


def test_a_text_that_no_vector_can_be_made_of_holds_nothing_up():
    embedder = Unplugged(gone=False)
    embedder.refused = "violins"
    memory = made(embedder)
    tell(memory, "violins")
    tell(memory, "kites")
    assert memory.retrieval.under_other_embedders() == 1
    assert [by_meaning for _, by_meaning in recalled(memory, "kites stand")][:1] == [True]


def test_as_many_follow_at_once_as_are_embedded_in_a_moment(monkeypatch):
    monkeypatch.setattr(storing, "MAX_CAUGHT_UP", 2)
    embedder = Unplugged()
    memory = made(embedder)
    tell(memory, "lanterns", "violins", "maps")
    embedder.gone = False
    left = []
    for thing in ("kites", "ferns"):
        tell(memory, thing)
        left.append(memory.retrieval.under_other_embedders())
    assert left == [1, 0]


def test_an_index_with_a_copy_follows(tmp_path):
    index = ChromaIndex(path=tmp_path / "chroma")
    embedder = Unplugged(gone=False)
    memory = made(embedder, index)
    tell(memory, "kites")
    memory.retrieval.search("kites")
    embedder.gone = True
    tell(memory, "lanterns")
    embedder.gone = False
    tell(memory, "ferns")
    assert [found.vector is not None for found in memory.retrieval.search("lanterns").found] == [True, True, True]
    index.close()


def test_a_bundle_takes_what_has_no_vector_along():
    memory = made(Unplugged())
    tell(memory, "lanterns")
    copy = import_bundle(memory.session.database, read_bundle(write_bundle(memory.session.database, "s"), "s.zip"))
    again = Memory.open(copy, memory.session.database, services=Services(embedder=FakeEmbedder()))
    assert (again.retrieval.under_other_embedders(), again.retrieval.reembed()) == (1, 1)

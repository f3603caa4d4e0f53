"""Vectors that are none: an embedding model that gives them, and those stored before they were refused."""

import numpy as np
import pytest
from fakes import FakeEmbedder
from sqlalchemy import select, update

from memory_core import ChatMessage, EmbedderError, Memory, Services, VectorMemoryBlock
from memory_core.events import VectorsReplaced, VectorsStored
from memory_core.models.protocols import embedded
from memory_core.store.tables import vector_table
from memory_core.vectors.chroma import ChromaIndex
from memory_core.vectors.exact import ExactIndex

THINGS = ("boats", "violins", "cheese", "chess", "maps", "clocks", "kites", "bridges")


class Broken(FakeEmbedder):
    """Gives what a test wants for as long as it wants."""

    def __init__(self, broken):
        self.broken = broken

    def embed(self, texts):
        rows = super().embed(texts)
        return rows if self.broken is None else self.broken(rows)


def with_nan(rows):
    rows = rows.copy()
    rows[0, 0] = np.nan
    return rows


BROKEN = {
    "NaN": with_nan,
    "infinite": lambda rows: np.full_like(rows, np.inf),
    "too short": lambda rows: rows[:, :-1],
    "too few": lambda rows: rows[1:],
    "one row for all": lambda rows: rows[0],
    "ragged": lambda rows: [list(row[:n]) for n, row in enumerate(rows, 2)],
    "words": lambda rows: [["a"] * rows.shape[1] for _ in rows],
    "nothing": lambda rows: None,
}


def session(embedder, index=None):
    return Memory.from_defaults(
        "s",
        token_limit=10_000,
        memory_blocks=[VectorMemoryBlock(name="turns", similarity_top_k=3)],
        services=Services(index=index or ExactIndex(), embedder=embedder),
    )


def say(memory, things):
    memory.put_messages([ChatMessage(role="user", content=f"This one is about {thing}") for thing in things])
    memory.flush(all=True)


def by_meaning(memory):
    """How many stored units a search gives a vector score, and what it says of its own state."""
    found = memory.retrieval.search("violins", block="turns")
    return sum(each.vector is not None for each in found.found), found.degraded


def spoil(memory, blobs):
    """As earlier versions did, store for the oldest units what the model gave."""
    with memory.session.database.write() as connection:
        ids = connection.execute(select(vector_table.c.id).order_by(vector_table.c.id)).scalars().all()
        for number, blob in zip(ids, blobs, strict=False):
            connection.execute(update(vector_table).where(vector_table.c.id == number).values(embedding=blob))
    return ids


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_what_is_no_vector_is_refused_and_recorded_and_the_units_get_theirs_later(broken):
    embedder = Broken(broken)
    with pytest.raises(EmbedderError, match="fake"):
        embedded(embedder, ["a", "b", "c"])
    memory = session(embedder)
    say(memory, THINGS[:3])
    (stored,) = (record.event for record in memory.events(kinds=("vectors_stored",)))
    assert isinstance(stored, VectorsStored)
    assert (stored.embedder, len(stored.nodes)) == ("", 3)
    assert "gave" in stored.error
    assert [found.number for found in memory.retrieval.search("violins", block="turns").found]  # by keyword
    embedder.broken = None
    say(memory, THINGS[3:5])
    assert by_meaning(memory) == (5, None)
    assert memory.retrieval.under_other_embedders() == 0


BAD = [b"", b"\x00", np.full(64, np.nan, "<f4").tobytes(), np.ones(3, "<f4").tobytes(), b"x" * 257]


@pytest.mark.parametrize("index", [ExactIndex, ChromaIndex], ids=["exact", "chroma"])
def test_bad_vectors_that_are_stored_already_switch_no_search_off(index, tmp_path):
    store = index() if index is ExactIndex else index(path=tmp_path)
    memory = session(FakeEmbedder(), store)
    say(memory, THINGS)
    spoil(memory, BAD)
    memory = Memory.open("s", memory.session.database, services=Services(index=ExactIndex(), embedder=FakeEmbedder()))
    scored, degraded = by_meaning(memory)
    assert degraded is None
    assert scored == len(THINGS)
    best = memory.retrieval.search("clocks", block="turns").found[0]
    assert best.vector > 0.4


def test_bad_vectors_that_are_stored_already_are_repaired_by_embedding_again():
    memory = session(FakeEmbedder())
    say(memory, THINGS)
    sound = list(memory.retrieval.search("violins", block="turns").found)
    ids = spoil(memory, BAD)
    memory = Memory.open("s", memory.session.database, services=Services(index=ExactIndex(), embedder=FakeEmbedder()))
    seen = []
    assert memory.retrieval.reembed(progress=lambda done, of: seen.append((done, of))) == len(BAD)
    assert seen == [(5, 5)]
    assert list(memory.retrieval.search("violins", block="turns").found) == sound
    (record,) = memory.events(kinds=("vectors_replaced",))
    assert record.event == VectorsReplaced("turns", FakeEmbedder().id, tuple(ids[: len(BAD)]))
    assert memory.retrieval.reembed() == 0


def test_bad_vectors_that_a_search_has_met_are_repaired_with_the_next_delivery():
    memory = session(FakeEmbedder())
    say(memory, THINGS)
    sound = list(memory.retrieval.search("violins", block="turns").found)
    spoil(memory, BAD)
    memory = Memory.open("s", memory.session.database, services=Services(index=ExactIndex(), embedder=FakeEmbedder()))
    by_meaning(memory)
    assert memory.retrieval.under_other_embedders() == len(BAD)
    say(memory, ["candles"])
    assert memory.retrieval.under_other_embedders() == 0
    found = {each.number: each.vector for each in memory.retrieval.search("violins", block="turns").found}
    assert {each.number: each.vector for each in sound}.items() <= found.items()

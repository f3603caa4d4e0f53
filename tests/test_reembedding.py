"""Another embedding model than the one that stored turns have vectors of."""

from contextlib import closing

import numpy as np
import pytest
from fakes import FakeEmbedder
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import event

from memory_core import ChatMessage, ConfigError, EmbedderError, Memory, NotFoundError, Services, VectorMemoryBlock
from memory_core.blocks.static import StaticMemoryBlock
from memory_core.bundles.bundle import import_bundle, read_bundle, write_bundle
from memory_core.engine.context import reading_of
from memory_core.events import VectorsReplaced
from memory_core.retrieval import retrieval as module
from memory_core.store import vector_rows
from memory_core.store.vector_rows import DatabaseVectors, collection_name, replace_vectors
from memory_core.vectors.chroma import ChromaIndex
from memory_core.vectors.exact import ExactIndex
from memory_core.vectors.vector_index import EMPTY

pytestmark = pytest.mark.slow

THINGS = ("boats", "violins", "cheese", "chess", "maps", "clocks", "kites", "bridges", "candles", "ferns")


class Other(FakeEmbedder):
    """The words counted in twice as many places."""

    id = "other-128"
    dimensions = 128


class Third(FakeEmbedder):
    id = "third-32"
    dimensions = 32


class StopsAfter(Other):
    """Embeds so many times, then no more."""

    def __init__(self, times):
        self.left = times

    def embed(self, texts):
        if not self.left:
            raise EmbedderError("The embedding model is gone.")
        self.left -= 1
        return super().embed(texts)


def stored(database=None, *, embedder=None, index=None, count=10):
    """A session in which `count` messages are stored, each of its own thing."""
    memory = Memory.from_defaults(
        "s",
        token_limit=10_000,
        memory_blocks=[
            VectorMemoryBlock(name="turns", similarity_top_k=3),
            StaticMemoryBlock(name="fixed", static_content="x"),
        ],
        services=Services(index=index or ExactIndex(), embedder=embedder or FakeEmbedder()),
        database_uri=database,
    )
    texts = [f"Number {number} is about {THINGS[number % len(THINGS)]}" for number in range(count)]
    memory.put_messages([ChatMessage(role="user", content=text) for text in texts])
    memory.flush(all=True)
    return memory


def opened(memory, embedder, index=None):
    """The same session in a process with another embedding model."""
    return Memory.open("s", memory.session.database, services=Services(index=index or ExactIndex(), embedder=embedder))


def source(memory, embedder):
    return DatabaseVectors(memory.session.database, collection_name(memory.session.database, "s", "turns", embedder.id))


def cached_units(memory):
    """Everything that this process keeps of the stored turns, and what a keyword search of them finds."""
    block, reading = memory._session.block("turns").block, reading_of(memory._session, "")
    kept = block.stored(reading)
    texts = kept.text_numbers(list(kept.places))
    found = kept.keywords.search("boats once more", limit=99)
    return dict(kept.nodes), tuple(kept.order.tolist()), dict(kept.traits), texts, found


def numbers(memory):
    return [turn.number for turn in memory.retrieval.stored_turns("turns")]


def nearest(memory, question):
    """Numbers and vector scores of what a search finds, best first; None where there is no vector score."""
    return [(found.number, found.vector) for found in memory.retrieval.search(question, block="turns").found]


def test_every_stored_turn_gets_a_vector_of_the_present_model_and_keeps_its_number():
    memory = stored()
    before = numbers(memory)
    other = opened(memory, Other())
    assert other.retrieval.under_other_embedders("turns") == other.retrieval.under_other_embedders() == 10
    assert {vector for _, vector in nearest(other, "violins")} == {None}
    assert other.retrieval.reembed("turns") == 10
    assert (numbers(other), other.retrieval.under_other_embedders()) == (before, 0)
    assert nearest(other, "violins") == nearest(stored(embedder=Other()), "violins")
    assert memory.retrieval.under_other_embedders() == 10


def test_nothing_to_do_does_nothing():
    memory = stored()
    position = memory.session.status().position
    assert memory.retrieval.reembed(progress=lambda done, of: pytest.fail("asked")) == 0
    assert memory.session.status().position == position


def test_the_log_says_what_was_embedded_again_and_with_what():
    memory = stored()
    opened(memory, Other()).retrieval.reembed()
    (record,) = memory.events(kinds=("vectors_replaced",))
    assert (record.event, record.actor) == (VectorsReplaced("turns", "other-128", tuple(numbers(memory))), "user")


def test_it_goes_on_where_it_stopped(monkeypatch):
    monkeypatch.setattr(module, "BATCH", 3)
    memory = stored()
    told = []
    with pytest.raises(EmbedderError, match="The embedding model is gone"):
        opened(memory, StopsAfter(2)).retrieval.reembed(progress=lambda done, of: told.append((done, of)))
    other = opened(memory, Other())
    assert (told, other.retrieval.under_other_embedders()) == ([(3, 10), (6, 10)], 4)
    assert other.retrieval.reembed() == 4
    assert nearest(other, "cheese") == nearest(stored(embedder=Other()), "cheese")


def test_a_progress_that_raises_stops_it_and_what_is_done_is_kept(monkeypatch):
    monkeypatch.setattr(module, "BATCH", 4)
    other = opened(stored(), Other())

    def stop(done, of):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        other.retrieval.reembed(progress=stop)
    assert other.retrieval.under_other_embedders() == 6


def test_a_turn_deleted_while_it_was_embedded_stays_deleted():
    memory = stored()

    class Slow(Other):
        def embed(self, texts):
            memory.retrieval.forget("turns", numbers(memory)[0])
            return super().embed(texts)

    assert opened(memory, Slow()).retrieval.reembed() == 9
    assert len(numbers(memory)) == 9


def test_only_blocks_that_store_turns_can_be_embedded_again():
    memory = stored()
    with pytest.raises(ConfigError, match="stores no turns"):
        memory.retrieval.reembed("fixed")
    with pytest.raises(NotFoundError):
        memory.retrieval.under_other_embedders("none")


def test_a_block_s_own_model_is_asked():
    memory = Memory.from_defaults(
        "s", memory_blocks=[VectorMemoryBlock(name="turns", embed_model=Other())], services=Services()
    )
    memory.put(ChatMessage(role="user", content="boats"))
    memory.flush(all=True)
    assert memory.retrieval.under_other_embedders() == 0


@pytest.mark.parametrize("kind", ["exact", "chroma"])
def test_an_index_that_knows_both_collections_follows_what_moves(tmp_path, kind):
    """Older turns join newer ones in the collection of the model that comes back."""
    with closing(ChromaIndex(path=tmp_path / "chroma") if kind == "chroma" else ExactIndex()) as index:
        memory = stored(index=index)
        other = opened(memory, Other(), index)
        nearest(memory, "boats")
        stored_meanwhile = opened(memory, Other(), index)
        stored_meanwhile.put(ChatMessage(role="user", content="Number 10 is about lanterns"))
        stored_meanwhile.flush(all=True)
        for each in (other, memory, other):
            nearest(each, "boats")  # both collections have a copy
            expected = {number for number, _ in nearest(each, "boats")}
            each.retrieval.reembed()
            found = nearest(each, "boats")
            plain = nearest(opened(memory, each.session.services.embedder), "boats")
            assert found == plain
            assert expected == {number for number, _ in found}
            assert None not in {vector for _, vector in found}


def test_a_bundle_takes_the_new_vectors_along(tmp_path):
    memory = stored()
    opened(memory, Other()).retrieval.reembed()
    copy = import_bundle(memory.session.database, read_bundle(write_bundle(memory.session.database, "s"), "s.zip"))
    again = Memory.open(copy, memory.session.database, services=Services(embedder=Other()))
    assert again.retrieval.under_other_embedders() == 0
    assert len(again.events(kinds=("vectors_replaced",))[0].event.numbers) == 10


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("move"), st.sampled_from([FakeEmbedder, Other, Third]), st.sets(st.integers(0, 11))),
        st.tuples(st.just("search"), st.sampled_from([FakeEmbedder, Other, Third]), st.none()),
        st.tuples(st.just("forget"), st.integers(0, 11), st.none()),
        st.tuples(st.just("store"), st.sampled_from(THINGS), st.none()),
    ),
    max_size=12,
)


@pytest.fixture(scope="module")
def small_pages():
    """Vectors are read three at a time."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(vector_rows, "_PAGE", 3)
        yield


@pytest.mark.usefixtures("small_pages")
@settings(max_examples=25)
@given(STEPS)
def test_whatever_moves_in_whatever_order_a_copy_holds_what_the_database_holds(steps):
    memory = stored(count=12)
    known = numbers(memory)
    index = ExactIndex()
    texts = {turn.number: str(turn.messages[0].message.content) for turn in memory.retrieval.stored_turns("turns")}
    earlier = [EMPTY]

    def check(embedder):
        query = embedder.embed(["boats"])[0]
        where = source(memory, embedder)
        assert index.search(where, query, limit=20) == ExactIndex().search(where, query, limit=20)
        assert cached_units(memory) == cached_units(opened(memory, embedder))

    def check_revisions():
        revision = source(memory, FakeEmbedder()).revision()
        assert [source(memory, FakeEmbedder()).revision(since=before) for before in earlier] == [revision] * len(
            earlier
        )
        earlier.append(revision)

    for step, what, which in steps:
        if step == "move":
            chosen = [number for place, number in enumerate(known) if place in which]
            vectors = dict(zip(chosen, what().embed([texts[number] for number in chosen]), strict=True))
            with memory._session.writing() as w:
                replace_vectors(w, "turns", what.id, vectors)
        elif step == "search":
            check(what())
        elif step == "store":
            memory.put(ChatMessage(role="user", content=f"{what} once more"))
            memory.flush(all=True)
        elif known[what] in numbers(memory):
            memory.retrieval.forget("turns", known[what])
        check_revisions()
    for embedder in (FakeEmbedder(), Other(), Third()):
        check(embedder)
        held = [each.number for each in source(memory, embedder).vectors()]
        assert held == sorted(source(memory, embedder).numbers())
        assert all(np.linalg.norm(each.vector) for each in source(memory, embedder).some(held))
    total = sum(source(memory, embedder).revision().count for embedder in (FakeEmbedder(), Other(), Third()))
    assert total == len(numbers(memory))


def test_a_turn_that_another_process_embeds_anew_and_forgets_is_found_no_more():
    memory = stored()
    other = opened(memory, Other())
    first, *rest = cached_units(memory)[1]
    other.retrieval.reembed("turns")
    assert cached_units(memory)[1] == (first, *rest)
    other.retrieval.forget("turns", first)
    assert cached_units(memory)[1] == tuple(rest)


def test_turns_that_did_not_change_are_not_counted_again():
    memory, statements = stored(), []
    memory.get("boats")
    event.listen(
        memory.session.database.engine, "before_cursor_execute", lambda _c, _cur, sql, *_: statements.append(sql)
    )
    memory.get("violins")
    assert any("max(mi_vector.id)" in sql for sql in statements)
    assert not [sql for sql in statements if "count(" in sql and "mi_vector" in sql]


def test_numbers_grow_in_the_order_in_which_turns_are_stored():
    turns = stored(count=40).retrieval.stored_turns("turns")
    assert [turn.messages[0].seq for turn in turns] == list(range(1, 41))

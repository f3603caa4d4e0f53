"""The exact scan, against cosine worked out one by one."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vector_fakes import ListSource, queries, random_vectors

from memory_core.errors import ConfigError, VectorIndexError
from memory_core.vectors import open_index
from memory_core.vectors.exact import ExactIndex
from memory_core.vectors.vector_index import Hit, Revision, StoredVector


def vector(*values):
    return np.array(values, dtype=np.float32)


def by_hand(source, query, limit):
    def cosine(stored):
        dot = math.fsum(float(a) * float(b) for a, b in zip(stored, query, strict=True))
        return dot / math.sqrt(math.fsum(float(a) ** 2 for a in stored) * math.fsum(float(b) ** 2 for b in query))

    scored = sorted((-round(cosine(stored), 6), number) for number, stored in source.stored.items())
    return [(number, pytest.approx(-score, abs=1.1e-6)) for score, number in scored[:limit]]


def pairs(hits):
    return [(hit.number, hit.score) for hit in hits]


def test_the_nearest_come_first_with_their_cosine():
    source = ListSource().add([1, 0], [0, 2], [-3, 0], [5, 5])
    assert ExactIndex().search(source, vector(2, 0), limit=9) == [
        Hit(1, 1.0),
        Hit(4, 0.707107),
        Hit(2, 0.0),
        Hit(3, -1.0),
    ]


def test_hits_and_order_are_those_of_cosine_by_hand():
    source, index = ListSource().add(*random_vectors(300)), ExactIndex()
    for query in queries(20):
        assert pairs(index.search(source, query, limit=7)) == by_hand(source, query, 7)


def test_equal_vectors_come_in_the_order_of_their_numbers_whatever_their_length():
    source = ListSource().add(*random_vectors(500))
    twin = source.stored[250]
    source.add(twin, 2 * twin, twin)
    assert [hit.number for hit in ExactIndex().search(source, twin, limit=3)] == [250, 501, 502]


def test_a_zero_vector_is_near_to_nothing():
    source = ListSource().add([0, 0], [1, 1])
    assert ExactIndex().search(source, vector(1, 1), limit=2) == [Hit(2, 1.0), Hit(1, 0.0)]
    assert ExactIndex().search(source, vector(0, 0), limit=1) == [Hit(1, 0.0)]


def test_an_empty_collection_has_no_hits():
    assert ExactIndex().search(ListSource(), vector(1, 0), limit=3) == []


def test_new_vectors_are_added_without_reading_the_old_again():
    source, index = ListSource().add([1, 0], [0, 1]), ExactIndex()
    index.search(source, vector(1, 0), limit=1)
    source.add([2, 0.1])
    assert [hit.number for hit in index.search(source, vector(1, 0.1), limit=2)] == [3, 1]
    assert source.read_after == [0, 2]


def test_nothing_is_read_when_nothing_changed():
    source, index = ListSource().add([1, 0]), ExactIndex()
    for _ in range(3):
        index.search(source, vector(1, 0), limit=1)
    assert source.read_after == [0]


def test_a_deleted_vector_is_found_no_more():
    source, index = ListSource().add([1, 0], [0.9, 0.1], [0, 1]), ExactIndex()
    index.search(source, vector(1, 0), limit=1)
    source.delete(1)
    assert [hit.number for hit in index.search(source, vector(1, 0), limit=9)] == [2, 3]


def test_deleting_one_and_adding_one_between_searches_is_seen():
    source, index = ListSource().add([1, 0], [0, 1]), ExactIndex()
    index.search(source, vector(1, 0), limit=1)
    source.delete(2)
    source.add([1, 1])
    assert [hit.number for hit in index.search(source, vector(1, 0), limit=9)] == [1, 3]


def test_a_database_made_anew_under_the_same_name_is_read_anew():
    index = ExactIndex()
    index.search(ListSource().add([1, 0], [1, 0], [1, 0]), vector(1, 0), limit=3)
    assert index.search(ListSource().add([0, 1]), vector(1, 0), limit=3) == [Hit(1, 0.0)]


class GrowsWhileRead(ListSource):
    """Another process adds a vector between the revision and the reading."""

    def revision(self, **since):
        before = super().revision(**since)
        if len(self.stored) < 3:
            self.add([0, 1])
        return before


def test_vectors_that_arrive_while_reading_are_found_once_each():
    source, index = GrowsWhileRead().add([1, 0]), ExactIndex()
    for _ in range(4):
        hits = index.search(source, vector(1, 0), limit=9)
    assert [hit.number for hit in hits] == [1, 2, 3]


def test_a_reading_that_fails_leaves_nothing_half_read():
    class FailsOnce(ListSource):
        failed = False

        def vectors(self, *, after=0):
            yield StoredVector(1, self.stored[1])
            if not self.failed:
                self.failed = True
                raise OSError("the database is gone")
            yield from (StoredVector(number, self.stored[number]) for number in (2, 3))

    source, index = FailsOnce().add([1, 0], [0, 1], [1, 1]), ExactIndex()
    with pytest.raises(OSError, match="gone"):
        index.search(source, vector(1, 0), limit=9)
    assert sorted(hit.number for hit in index.search(source, vector(1, 0), limit=9)) == [1, 2, 3]


def test_only_the_collections_used_last_stay_in_memory():
    index = ExactIndex(max_collections=2)
    sources = [ListSource(collection=f"c-{i}").add([1, 0]) for i in range(3)]
    for source in (sources[0], sources[1], sources[0], sources[2], sources[0], sources[1]):
        index.search(source, vector(1, 0), limit=1)
    assert [len(source.read_after) for source in sources] == [1, 2, 1]


def test_collections_beyond_the_memory_allowed_are_dropped_but_for_the_last():
    index = ExactIndex(max_bytes=100)
    sources = [ListSource(collection=f"c-{i}").add(*random_vectors(10)) for i in range(2)]
    for source in (sources[0], sources[1], sources[1], sources[0]):
        index.search(source, random_vectors(1)[0], limit=1)
    assert [len(source.read_after) for source in sources] == [2, 1]


def test_a_forgotten_collection_is_read_again():
    source, index = ListSource().add([1, 0]), ExactIndex()
    index.search(source, vector(1, 0), limit=1)
    index.forget(source.collection)
    index.forget("never-seen")
    index.search(source, vector(1, 0), limit=1)
    assert source.read_after == [0, 0]


def test_a_query_from_another_embedding_model_is_refused():
    with pytest.raises(VectorIndexError, match="3 dimensions and the stored vectors have 2"):
        ExactIndex().search(ListSource().add([1, 0]), vector(1, 0, 0), limit=1)


def test_vectors_of_two_embedding_models_in_one_collection_are_refused():
    with pytest.raises(VectorIndexError, match="Vector 2 has 3 dimensions"):
        ExactIndex().search(ListSource().add([1, 0], [1, 0, 0]), vector(1, 0), limit=1)


def test_a_stored_vector_that_is_no_number_is_named():
    with pytest.raises(VectorIndexError, match="Vector 2 holds values that are no numbers"):
        ExactIndex().search(ListSource().add([1, 0], [1, math.nan]), vector(1, 0), limit=1)


@pytest.mark.parametrize("query", [vector(1, math.nan), vector(math.inf, 0), vector(), vector(1, 0).reshape(1, 2)])
def test_a_query_that_is_no_vector_is_refused(query):
    with pytest.raises(VectorIndexError, match="not a vector of finite numbers"):
        ExactIndex().search(ListSource().add([1, 0]), query, limit=1)


def test_a_limit_below_one_is_refused():
    with pytest.raises(ConfigError, match="limit=0"):
        ExactIndex().search(ListSource().add([1, 0]), vector(1, 0), limit=0)


def test_threads_that_share_an_index_get_the_answers_of_one():
    sources = [ListSource(collection=f"c-{i}").add(*random_vectors(200, seed=i)) for i in range(4)]
    asked = queries(10)
    alone = [[ExactIndex().search(source, query, limit=5) for query in asked] for source in sources]
    shared = ExactIndex(max_collections=2)
    with ThreadPoolExecutor(8) as pool:
        answers = [[pool.submit(shared.search, source, query, limit=5) for query in asked] for source in sources]
    assert [[answer.result() for answer in row] for row in answers] == alone


class Changes(ListSource):
    """A source with `Revision.last_number` as the last ever given, which is allowed too."""

    def revision(self, **since):
        return Revision(len(self.stored), self.last_number, self.deleted)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from(["add", "delete", "search"]), st.integers(0, 99)), max_size=25),
    st.sampled_from([ListSource, Changes]),
)
def test_after_any_changes_it_answers_as_one_that_reads_afresh(changes, kind):
    source, index, pool = kind(), ExactIndex(), random_vectors(100, dim=4)
    for what, choice in changes:
        if what == "add":
            source.add(pool[choice])
        elif what == "delete" and source.stored:
            source.delete(sorted(source.stored)[choice % len(source.stored)])
        else:
            index.search(source, pool[choice], limit=3)
    assert index.search(source, pool[0], limit=5) == ExactIndex().search(source, pool[0], limit=5)
    assert pairs(index.search(source, pool[0], limit=5)) == by_hand(source, pool[0], 5)


def test_no_setting_opens_the_exact_scan():
    index = open_index(None)
    index.check()
    assert (type(index), index.name) == (ExactIndex, "exact scan")


@pytest.mark.parametrize("setting", ["ftp://host:1", "postgresql://host/db", "", " ", "://x"])
def test_a_setting_that_is_neither_folder_nor_web_address_is_refused(setting):
    with pytest.raises(ConfigError, match="must be a folder or an address"):
        open_index(setting)

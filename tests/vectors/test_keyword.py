"""The keyword index, against BM25 worked out by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core.errors import ConfigError
from memory_core.vectors.keyword import K1, B, KeywordIndex


def index(*texts):
    filled = KeywordIndex()
    filled.add(dict(enumerate(texts, start=1)))
    return filled


def test_the_score_is_bm25_over_the_most_the_query_could_reach():
    found = index("tea tea cake", "tea", "milk bread butter salt").search("tea sugar", limit=5)

    def idf(texts):
        return math.log(1 + (3 - texts + 0.5) / (texts + 0.5))

    def expected(count, length):
        held_back = K1 * (1 - B + B * length / (8 / 3))
        return idf(2) * count * (K1 + 1) / (count + held_back) / ((idf(2) + idf(0)) * (K1 + 1))

    assert {hit.number: hit.score for hit in found} == pytest.approx({1: expected(2, 3), 2: expected(1, 1)})


def test_words_are_found_by_their_stem():
    assert [hit.number for hit in index("two dogs", "a cat").search("the dog", limit=5)] == [1]


def test_a_text_of_nothing_but_the_query_comes_near_one():
    assert index("tea " * 500, "milk").search("tea", limit=1)[0].score > 0.98


def test_unknown_words_in_the_query_lower_the_score():
    filled = index("tea and cake", "milk", "bread")
    known, mixed = (filled.search(query, limit=1)[0].score for query in ("tea", "tea zebra quartz violin"))
    assert mixed < known / 3


def test_a_score_does_not_depend_on_how_many_are_asked_for():
    filled = index("tea", "tea cake", "tea cake milk", "bread")
    assert filled.search("tea cake", limit=1) == filled.search("tea cake", limit=9)[:1]


def test_equal_texts_come_in_the_order_of_their_numbers():
    filled = KeywordIndex()
    filled.add(dict.fromkeys((7, 3, 9, 5, 1), "green tea"))
    assert [hit.number for hit in filled.search("tea", limit=3)] == [1, 3, 5]


def test_a_removed_text_leaves_no_trace():
    filled = index("tea cake", "tea milk", "bread")
    filled.remove(1)
    filled.remove(1)
    without = KeywordIndex()
    without.add({2: "tea milk", 3: "bread"})
    assert (len(filled), sorted(filled.numbers())) == (2, [2, 3])
    assert filled.search("tea cake", limit=5) == without.search("tea cake", limit=5)


def test_adding_under_a_known_number_replaces_its_text():
    filled = index("tea", "milk")
    filled.add({1: "bread"})
    assert filled.search("tea", limit=5) == []
    assert [hit.number for hit in filled.search("bread", limit=5)] == [1]


@pytest.mark.parametrize("query", ["", "the of", "?!", "zebra"])
def test_a_query_that_matches_nothing_finds_nothing(query):
    assert index("tea", "milk").search(query, limit=5) == []


def test_texts_without_words_are_never_found_and_do_no_harm():
    assert index("", "the", "?!").search("tea", limit=5) == []


def test_an_empty_index_finds_nothing():
    assert KeywordIndex().search("tea", limit=5) == []


def test_a_limit_below_one_is_refused():
    with pytest.raises(ConfigError, match="limit=0"):
        index("tea").search("tea", limit=0)


WORDS = ["tea", "cake", "milk", "bread", "salt", "not"]
texts = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
numbers = st.integers(1, 12)


def by_the_formula(texts, query):
    """The score of each text with a term of the query, as `KeywordIndex` documents it, one after another."""
    terms, lengths = sorted(set(query.split())), {number: len(text.split()) for number, text in texts.items()}
    average = sum(lengths.values()) / max(1, len(texts))
    scores, reachable = dict.fromkeys(texts, 0.0), 0.0
    for term in terms:
        counts = {number: n for number, text in texts.items() if (n := text.split().count(term))}
        idf = math.log(1 + (len(texts) - len(counts) + 0.5) / (len(counts) + 0.5))
        reachable += idf * (K1 + 1)
        for number, n in counts.items():
            scores[number] += idf * n * (K1 + 1) / (n + K1 * (1 - B + B * lengths[number] / average))
    return {number: score / reachable for number, score in scores.items() if score}


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "add_stemmed"]), st.dictionaries(numbers, texts))
        | st.tuples(st.just("remove"), numbers),
        max_size=40,
    ),
    st.dictionaries(st.integers(13, 20), texts),
    texts,
    st.integers(1, 25),
)
def test_after_any_changes_the_scores_are_those_of_the_formula(changes, also, query, limit):
    index, left = KeywordIndex(), {}
    for method, change in changes:
        getattr(index, method)(change)
        left = left | change if isinstance(change, dict) else {n: text for n, text in left.items() if n != change}
    expected = by_the_formula(left | also, query)

    scores = index.scores(query, also=also)

    ranked = sorted(((number, score) for number, score in expected.items()), key=lambda pair: (-pair[1], pair[0]))
    assert [(hit.number, hit.score) for hit in scores.best(limit)] == ranked[:limit]
    assert scores.of(range(25)).tolist() == [expected.get(number, 0.0) for number in range(25)]
    assert all(0 < score <= 1 for score in expected.values())
    assert sorted(index.numbers()) == sorted(left)

"""Facts as LangGraph's store: the same as its own in memory, and on record."""

import json
import uuid

import langgraph.store.base as base
import langgraph.store.memory as reference
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_core import MessageError
from memory_core.planning import curation
from memory_inspector.adapters.langgraph import BLOCK, InspectedStore

WAKING = {"text": "likes tea", "n": 3, "deep": [{"é": None}, 1.5, True]}


@pytest.fixture
def uri(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


@pytest.fixture
def store(uri):
    return InspectedStore(database_uri=uri)


# -- the same as LangGraph's own -------------------------------------------------------------------

labels = st.sampled_from(["users", "ada", "a/b", "50%", "*", "two words", "ü"])
namespaces = st.lists(labels, min_size=1, max_size=3).map(tuple)
prefixes = st.lists(labels, max_size=2).map(tuple)
keys = st.sampled_from(["k", "", "k/2", "%2F", "\x00", "\ud800"])
leaves = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["tea", "two  words", "\x00\ud800", ""])
extras = st.dictionaries(st.sampled_from(["color", "who", ""]), leaves | st.lists(leaves, max_size=2), max_size=2)
values = st.builds(lambda n, extra, who: {"n": n, **extra, "deep": {"who": who}}, st.integers(-3, 3), extras, leaves)
orders = st.dictionaries(st.sampled_from(["$gt", "$gte", "$lt", "$lte", "$eq", "$ne"]), st.integers(-2, 2), min_size=1)
filters = st.none() | st.fixed_dictionaries(
    {}, optional={"n": orders | st.integers(-3, 3), "color": leaves, "deep": st.builds(lambda w: {"who": w}, leaves)}
)
index = st.sampled_from([None, False, ["color"], ["deep.who", "color"]])
puts = st.builds(lambda *given: base.PutOp(*given), namespaces, keys, values | st.none(), index)
gets = st.builds(lambda *given: base.GetOp(*given), namespaces, keys)
searches = st.builds(
    lambda prefix, where, query, limit, offset: base.SearchOp(prefix, where, limit, offset, query),
    prefixes,
    filters,
    st.sampled_from([None, "tea"]),
    st.sampled_from([2, 100]),
    st.sampled_from([0, 1]),
)
conditions = st.builds(base.MatchCondition, st.sampled_from(["prefix", "suffix"]), prefixes)
listings = st.builds(
    base.ListNamespacesOp,
    st.none() | st.lists(conditions, max_size=2).map(tuple),
    st.none() | st.integers(1, 3),
    st.sampled_from([2, 100]),
    st.sampled_from([0, 1]),
)
batches = st.lists(puts | gets | searches | listings, min_size=1, max_size=4)


def plain(item):
    return (item.namespace, item.key, json.dumps(item.value))


def without_emptied(theirs):
    """LangGraph's store in memory goes on listing a namespace whose items were deleted, or that was only asked for; its
    others do not."""
    fresh = reference.InMemoryStore()
    fresh.batch([base.PutOp(i.namespace, i.key, i.value) for i in theirs.search((), limit=10_000)])
    return fresh


def whole(theirs, op):
    """All items of a search: which of them come first is each store's own business."""
    return theirs.batch([op._replace(limit=10_000, offset=0)])[0]


def check_same(op, ours, theirs, every):
    if isinstance(op, base.SearchOp):
        found = [plain(item) for item in ours]
        assert len(set(found)) == len(found) == len(theirs)
        assert set(found) <= {plain(item) for item in every}
    elif isinstance(op, base.GetOp):
        assert (ours and plain(ours)) == (theirs and plain(theirs))
    else:
        assert ours == theirs


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return f"sqlite:///{tmp_path_factory.mktemp('store')}/store.db"


@settings(max_examples=25, deadline=None)
@given(st.lists(batches, min_size=1, max_size=8))
@pytest.mark.slow
def test_whatever_is_put_and_asked_it_answers_like_langgraphs_own(shared, runs):
    session = uuid.uuid4().hex
    theirs = reference.InMemoryStore()
    for ops in runs:
        ours = InspectedStore(database_uri=shared, session_id=session)  # each batch in a process of its own
        asked = [op for op in ops if not isinstance(op, base.PutOp)]
        right = [without_emptied(theirs).batch([op])[0] for op in asked]
        wholes = [whole(theirs, op) if isinstance(op, base.SearchOp) else None for op in asked]
        answered = [answer for op, answer in zip(ops, ours.batch(ops), strict=True)
                    if not isinstance(op, base.PutOp)]  # fmt: skip
        theirs.batch(ops)
        for op, answer, expected, every in zip(asked, answered, right, wholes, strict=True):
            check_same(op, answer, expected, every)
    ours = InspectedStore(database_uri=shared, session_id=session)
    assert sorted(map(plain, ours.search((), limit=10_000))) == sorted(map(plain, theirs.search((), limit=10_000)))


def test_a_question_finds_by_the_words_that_index_names(store):
    store.put(("docs",), "tea", {"text": "how to brew green tea", "note": "trains"})
    store.put(("docs",), "rail", {"text": "the night train to Porto", "note": "x"}, index=["text"])
    store.put(("docs",), "secret", {"text": "brewing tea in secret"}, index=False)
    found = store.search(("docs",), query="brewing tea")
    assert [item.key for item in found] == ["tea", "rail", "secret"]
    assert found[0].score > found[1].score
    assert found[2].score is None
    assert [fact.text for fact in store.memory.facts.read(BLOCK)][1] == "the night train to Porto"


# -- on record -------------------------------------------------------------------------------------


def told(store):
    return [(r.kind, r.actor) for r in store.memory.events() if r.event.family == "facts"]


def test_every_put_get_and_search_is_an_event_with_what_it_found(store):
    store.put(("users", "ada"), "look", {"theme": "dark"})
    store.put(("users", "ada"), "look", {"theme": "light"})
    store.get(("users", "ada"), "look")
    store.get(("users", "ada"), "nothing")
    store.search(("users",), query="theme")
    store.delete(("users", "ada"), "look")
    assert told(store) == [
        ("fact_added", "agent"),
        ("facts_curated", "agent"),
        ("fact_changed", "agent"),
        ("facts_curated", "agent"),
        *[("facts_read", "agent")] * 3,
        ("fact_retired", "agent"),
        ("facts_curated", "agent"),
    ]
    [fact] = store.memory.facts.read(BLOCK, states=None)
    reads = [record.event for record in store.memory.events(kinds=["facts_read"])]
    words = store.memory.log.texts([key for read in reads for key in (read.key, read.query) if key])
    assert [(words[read.key], words.get(read.query), read.facts, read.found) for read in reads] == [
        ("users/ada/look", None, (fact.id,), 1),
        ("users/ada/nothing", None, (), 0),
        ("users/", "theme", (fact.id,), 1),
    ]
    assert [dict(each.metadata) for each in store.memory.facts.history(fact)] == [
        {"theme": "dark"}, {"theme": "light"}, {"theme": "light"},
    ]  # fmt: skip


def test_what_a_person_changes_or_restores_in_the_app_is_what_the_agent_gets(store):
    store.put(("users",), "ada", WAKING, index=["text"])
    store.put(("users",), "ben", {"n": 1})
    desk = store.memory.facts.desk(BLOCK)
    ada, ben = desk.facts()
    desk.apply(curation.edit(ada, "likes coffee"))
    desk.apply(curation.edit(ben, '{"n": 2}'))
    assert store.get(("users",), "ada").value == {**WAKING, "text": "likes coffee"}
    assert store.get(("users",), "ben").value == {"n": 2}
    store.delete(("users",), "ada")
    assert store.get(("users",), "ada") is None
    desk.undo(desk.changes()[0].number)
    assert store.get(("users",), "ada").value == {**WAKING, "text": "likes coffee"}
    desk.erase(desk.facts())
    desk.apply(curation.add("A note of a person, not an item"))
    assert store.search(()) == []
    assert store.list_namespaces() == []


@pytest.mark.parametrize(
    "op",
    [
        base.PutOp(("a",), "k", {"n": {1, 2}}),
        base.PutOp(("a",), "k", {"n": float("inf")}),
        base.PutOp(("a",), "k", {1: "n"}),
        base.PutOp(("a",), "k", {"n": 1}, ttl=5.0),
        base.SearchOp((), {"n": {"$near": 1}}),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence_and_nothing_is_put(store, op):
    store.put(("a",), "there", {"n": 1})
    with pytest.raises(MessageError):
        store.batch([base.PutOp(("a",), "other", {"n": 1}), op])
    assert [item.key for item in store.search(())] == ["there"]
    with pytest.raises(NotImplementedError):
        store.put(("a",), "k", {"n": 1}, ttl=5.0)

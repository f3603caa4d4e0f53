"""Finding facts by a question, and the vectors of their words: kept once, erased with the words."""

from types import SimpleNamespace

import hypothesis
import pytest
from engine_fakes import assistant, block, user
from fakes import FakeEmbedder, FakeExtractor
from hypothesis import strategies as st
from sqlalchemy import func, select

from memory_core.blocks.fact_search import FactHit, order_contradicted
from memory_core.blocks.facts import FactExtractionMemoryBlock
from memory_core.blocks.static import StaticMemoryBlock
from memory_core.errors import ConfigError, EmbedderError, NotFoundError
from memory_core.memory import Memory
from memory_core.messages import message_text
from memory_core.planning.curation import add, label, pin, retire
from memory_core.services import Services
from memory_core.sessions.overview import delete_session
from memory_core.store.tables import word_vector_table


class CountingEmbedder(FakeEmbedder):
    """Remembers what it embedded; fails where it is told to."""

    def __init__(self, *, broken=False):
        self.seen = []
        self.broken = broken

    def embed(self, texts):
        if self.broken:
            raise EmbedderError("The embedding model is missing.")
        self.seen += texts
        return super().embed(texts)


def memory_of(*blocks, session_id="s", user_id=None, embedder=None, database_uri=None, **settings):
    return Memory.from_defaults(
        session_id,
        user_id,
        memory_blocks=blocks or [facts_block()],
        services=Services(embedder=embedder or CountingEmbedder(), extractor=FakeExtractor()),
        tokenizer_fn=str.split,
        database_uri=database_uri,
        **settings,
    )


def facts_block(name="Facts", **settings):
    return FactExtractionMemoryBlock(name=name, **settings)


def learns(name="Facts", **settings):
    return facts_block(name, **({"on_change": "decide", "deliver_on": "turn"} | settings))


def know(memory, *facts, block="Facts"):
    """Add facts, each a text or a text with a category and topics."""
    desk = memory.facts.desk(block)
    for given in facts:
        text, category, topics = (given, "other", ()) if isinstance(given, str) else given
        desk.apply(add(text, category=category, topics=topics))


def vectors(memory):
    with memory.session.database.read() as connection:
        return connection.execute(select(func.count()).select_from(word_vector_table)).scalar_one()


def texts(hits):
    return [hit.fact.text for hit in hits]


TEA, DOG, HOME = "the user likes green tea", "the user has a dog", "the user lives in Porto"


# -- finding --------------------------------------------------------------------------------------


def test_facts_are_found_best_first_with_their_scores():
    memory = memory_of()
    know(memory, DOG, TEA, HOME)
    hits = memory.facts.search("green tea", threshold=0)
    assert texts(hits)[0] == TEA
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert all(0 < hit.score <= 1 for hit in hits)
    assert hits[0].score == pytest.approx(0.85 * hits[0].vector + 0.15 * hits[0].keyword)


def test_threshold_and_top_k_bound_what_is_found():
    memory = memory_of()
    know(memory, DOG, TEA, HOME)
    every = memory.facts.search("the user likes tea", threshold=0)
    assert len(every) == 3
    assert texts(memory.facts.search("the user likes tea", threshold=every[0].score)) == [TEA]
    assert len(memory.facts.search("the user likes tea", threshold=0, top_k=2)) == 2
    assert memory.facts.search("the user likes tea", threshold=1) == []
    assert memory.facts.search("  ") == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"top_k": 0},
        {"threshold": 1.5},
        {"filters": {"mood": "good"}},
        {"filters": {"turn": {"near": 3}}},
        {"filters": {"turn": {"gt": "three"}}},
        {"filters": {"state": "gone"}},
        {"block": "core"},
    ],
)
def test_what_cannot_be_searched_is_refused(wrong):
    memory = memory_of(facts_block(), StaticMemoryBlock(name="core", static_content="x"))
    know(memory, TEA)
    with pytest.raises(ConfigError):
        memory.facts.search("tea", **wrong)
    with pytest.raises(NotFoundError):
        memory.facts.search("tea", block="nobody")


def test_categories_topics_and_filters_narrow_the_choice():
    memory = memory_of()
    know(memory, (TEA, "preference", ("Drinks", "tea")), (DOG, "personal", ("pets",)), (HOME, "personal", ()))
    memory.facts.desk("Facts").apply(pin(memory.facts.read("Facts")[1:2]))
    ask = "what is known of the user"

    def found(**given):
        return set(texts(memory.facts.search(ask, threshold=0, **given)))

    assert found(categories=["Preference"]) == {TEA}
    assert found(topics=["drinks", "pets"]) == {TEA, DOG}
    assert found(filters={"pinned": True}) == {DOG}
    assert found(filters={"category": ["personal"], "pinned": {"ne": True}}) == {HOME}
    assert found(filters={"turn": {"lte": 0}}) == {TEA, DOG, HOME}
    assert found(filters={"turn": {"gt": 0}}) == set()
    assert found(filters={"topics": {"in": ["TEA"]}}) == {TEA}
    assert found(filters={"block": "Facts", "origin": "written"}) == {TEA, DOG, HOME}
    memory.facts.desk("Facts").apply(retire(memory.facts.read("Facts")[:1]))
    assert found() == {DOG, HOME}
    assert found(filters={"state": "retired"}) == {TEA}


def test_all_facts_blocks_that_are_on_are_searched_unless_one_is_named():
    memory = memory_of(facts_block("a"), facts_block("b"), facts_block("c", enabled=False))
    for name, text in (("a", TEA), ("b", DOG), ("c", HOME)):
        know(memory, text, block=name)
    assert set(texts(memory.facts.search("the user", threshold=0))) == {TEA, DOG}
    assert texts(memory.facts.search("the user", block="c", threshold=0)) == [HOME]


def test_one_user_never_finds_anothers_facts(tmp_path):
    uri = f"sqlite:///{tmp_path}/m.db"

    def memory_for(name, session_id):
        return memory_of(facts_block(scope="user"), session_id=session_id, user_id=name, database_uri=uri)

    know(memory_for("ada", "s1"), TEA)
    know(memory_for("bob", "s2"), DOG)
    assert texts(memory_for("ada", "s3").facts.search("the user", threshold=0)) == [TEA]
    assert texts(memory_for("bob", "s2").facts.search("the user", threshold=0)) == [DOG]


def test_without_an_embedder_facts_are_found_by_keyword():
    memory = memory_of(embedder=CountingEmbedder(broken=True))
    know(memory, DOG, TEA)
    (hit,) = memory.facts.search("which tea is it", threshold=0.01)
    assert (hit.fact.text, hit.vector) == (TEA, None)
    assert hit.score == hit.keyword > 0


# -- vectors ----------------------------------------------------------------------------------------


def test_words_are_embedded_once_and_kept_with_what_was_learned(tmp_path):
    uri = f"sqlite:///{tmp_path}/m.db"
    memory = memory_of(learns(), database_uri=uri)
    memory.put_messages([user("I like green tea. I have a dog"), assistant("ok")], end_turn=True)
    assert vectors(memory) == 2
    later = CountingEmbedder()
    again = memory_of(learns(), database_uri=uri, embedder=later)
    assert len(again.facts.search("a dog, green tea", threshold=0)) == 2
    assert later.seen == ["a dog, green tea"]


def test_what_was_not_embedded_before_is_only_remembered():
    embedder = CountingEmbedder()
    memory = memory_of(embedder=embedder)
    know(memory, TEA, DOG)
    for _ in range(2):
        memory.facts.search("tea")
    assert sorted(embedder.seen) == sorted(["tea", "tea", TEA, DOG])
    assert vectors(memory) == 0


def test_another_embedder_never_reads_the_vectors_of_the_first(tmp_path):
    uri = f"sqlite:///{tmp_path}/m.db"
    memory_of(learns(), database_uri=uri).put_messages([user("I like green tea")], end_turn=True)
    other = CountingEmbedder()
    other.id = "another-64"
    memory_of(learns(), database_uri=uri, embedder=other).facts.search("tea")
    assert other.seen == ["tea", "The user like green tea"]


@pytest.mark.parametrize("how", ["erase", "reset", "delete the session"])
def test_vectors_go_with_the_words(how):
    memory = memory_of(learns())
    memory.put_messages([user("I like green tea. I have a dog")], end_turn=True)
    assert vectors(memory) == 2
    if how == "erase":
        memory.facts.desk("Facts").erase(memory.facts.read("Facts")[:1])
        assert vectors(memory) == 1
        memory.facts.desk("Facts").erase(memory.facts.read("Facts"))
    elif how == "reset":
        memory.reset()
    else:
        delete_session(memory.session.database, "s")
    assert vectors(memory) == 0


# -- in the prompt ------------------------------------------------------------------------------------


def shown(memory, question):
    return [text for text in (TEA, DOG, HOME) if text in message_text(memory.get(question)[0])]


def test_only_facts_that_fit_the_question_ask_for_the_prompt():
    memory = memory_of(facts_block(show="relevant", top_k=1))
    know(memory, DOG, TEA, HOME)
    before = memory.session.status().position
    assert shown(memory, "do I like green tea?") == [TEA]
    assert shown(memory, "who has a dog") == [DOG]
    kinds = {record.event.kind for record in memory.events(before)}
    assert kinds == {"context_built"}
    assert vectors(memory) == 0
    memory.facts.desk("Facts").apply(pin([fact for fact in memory.facts.read("Facts") if fact.text == HOME]))
    assert shown(memory, "do I like green tea?") == [TEA, HOME]


def test_without_a_question_the_newest_facts_ask():
    memory = memory_of(facts_block(show="relevant", top_k=1))
    know(memory, TEA, DOG)
    assert shown(memory, "") == [DOG]


def test_facts_that_are_only_searched_are_in_no_prompt():
    memory = memory_of(facts_block(show="none"))
    know(memory, TEA)
    assert TEA not in "".join(message_text(message) for message in memory.get("green tea?"))
    assert texts(memory.facts.search("green tea")) == [TEA]


def test_the_least_fitting_is_cut_first_and_the_pinned_last():
    memory = memory_of(facts_block(show="relevant", top_k=3, priority=1), token_limit=12, token_flush_size=4)
    know(memory, HOME, DOG, TEA)
    assert shown(memory, "green tea for the dog") == [TEA, DOG]
    memory.facts.desk("Facts").apply(pin(memory.facts.read("Facts")[:1]))
    assert HOME in shown(memory, "green tea for the dog")


# -- labels ---------------------------------------------------------------------------------------------


def test_topics_and_category_survive_edits_and_undo():
    memory = memory_of()
    know(memory, (TEA, "preference", ("Drinks", "drinks", " ")))
    desk = memory.facts.desk("Facts")
    (fact,) = memory.facts.read("Facts")
    assert (fact.category, fact.topics) == ("preference", ("drinks",))
    desk.apply(label([fact], "work", ["tea"]))
    (after,) = memory.facts.read("Facts")
    assert (after.category, after.topics, after.version) == ("work", ("tea",), 2)
    assert [r.event.topics for r in memory.events(kinds=["fact_labelled"])] == [("tea",)]
    assert [(r.category, r.topics) for r in memory.facts.history(after)] == [
        ("preference", ("drinks",)),
        ("work", ("tea",)),
    ]
    assert desk.undo().undone
    (back,) = memory.facts.read("Facts")
    assert (back.category, back.topics) == ("preference", ("drinks",))


def test_found_facts_carry_the_blocks_categories_and_topics():
    memory = memory_of(learns(categories=["episodic", "semantic", "procedural"]))
    memory.put_messages([user("I visited Rome in 2019. I like tea. I always back up first")], end_turn=True)
    assert [fact.category for fact in memory.facts.read("Facts")] == ["episodic", "semantic", "procedural"]
    assert block(memory, "Facts").facts[1] == "The user like tea"


def test_a_fact_that_a_later_one_contradicts_comes_right_behind_it():
    memory = Memory.from_defaults(
        "contradicted", memory_blocks=[FactExtractionMemoryBlock(name="Facts")], services=Services()
    )
    for text in ("I live in Porto.", "I like living by the sea.", "I live in Lisbon.", "I live in Faro."):
        memory.put(user(text))
        memory.flush(all=True)
        memory.deliver()
    hits = [hit.fact.text for hit in memory.facts.search("Where in Porto do I live?")]
    homes = [text for text in hits if "lives in" in text]
    assert homes[0] == "The user lives in Faro"
    assert set(homes[1:]) == {"The user lives in Lisbon", "The user lives in Porto"}
    assert [hit.fact.text for hit in memory.facts.search("Where in Porto do I live?", top_k=1)] == homes[:1]


@hypothesis.given(st.permutations(range(6)), st.dictionaries(st.integers(0, 7), st.integers(0, 7), max_size=6))
def test_reordering_keeps_every_hit_once(order, later):
    hits = [FactHit(SimpleNamespace(id=id), 0.5, None, 0.5) for id in order]
    ordered = [hit.fact.id for hit in order_contradicted(hits, later)]
    assert sorted(ordered) == sorted(order)

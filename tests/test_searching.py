"""Looking into a vector block: what a question would find, why the rest is not, and taking a stored turn out."""

import json

import pytest
from fakes import FakeEmbedder

from memory_core import (
    ChatMessage,
    ConfigError,
    EmbedderError,
    Memory,
    NotFoundError,
    Services,
    StaticMemoryBlock,
    VectorMemoryBlock,
)
from memory_core.blocks.vector import CLASSIC
from memory_core.events import Retrieved, VectorsRemoved
from memory_core.retrieval.explain import ASKED, compared
from memory_core.vectors.chroma import ChromaIndex
from memory_core.vectors.exact import ExactIndex
from memory_inspector.checks.simulation import rebuild

THINGS = ["boats", "violins", "cheese", "chess", "maps", "clocks", "kites", "bridges", "candles", "ferns"]


def user(text):
    return ChatMessage(role="user", content=text)


def made(turns=12, *, services=None, limit=120, blocks=None, **settings):
    block = VectorMemoryBlock(name="turns", priority=1, **{**CLASSIC, "similarity_top_k": 3, **settings})
    memory = Memory.from_defaults(
        "s",
        token_limit=limit,
        token_flush_size=10,
        memory_blocks=[block] if blocks is None else blocks,
        services=services or Services(index=ExactIndex(), embedder=FakeEmbedder()),
    )
    for turn in range(turns):
        thing = THINGS[turn % len(THINGS)]
        memory.put(user(f"My number {turn} concern is about {thing} and nothing besides"))
        memory.put(ChatMessage(role="assistant", content=f"Then tell me more of those {thing}"))
    return memory


def outcomes(search):
    return {found.turn: found.outcome for found in search.found}


def test_a_search_finds_what_a_context_would_and_records_nothing():
    memory = made()
    before = memory.session.status().position
    search = memory.retrieval.search("concern about cheese")
    assert memory.session.status().position == before
    memory.build_context("concern about cheese")
    recorded = memory.events(kinds=("retrieved",))[-1].event
    asked = [found.number for found in search.found if found.outcome in ("granted", "cut")]
    assert asked == [number for number, *_, outcome in recorded.candidates if outcome == "granted"]
    known = {found.number: found for found in search.found}
    for number, vector, keyword, score, _ in recorded.candidates:
        found = known[number]
        assert (found.vector, found.keyword, found.score) == pytest.approx((vector, keyword, score), abs=1e-4)


def test_every_stored_turn_is_there_once_with_its_rank_words_and_turn():
    memory = made()
    search = memory.retrieval.search("violins")
    stored = {turn.number: turn for turn in memory.retrieval.stored_turns("turns")}
    assert sorted(found.number for found in search.found) == sorted(stored)
    assert [found.rank for found in search.found] == list(range(1, len(stored) + 1))
    assert [found.score for found in search.found] == sorted((f.score for f in search.found), reverse=True)
    assert all(found.turn == stored[found.number].turn for found in search.found)
    assert search.found[0].words.startswith("My number 1 concern is about violins")
    assert sum(search.counts.values()) == search.stored == len(stored)


def test_the_score_is_its_two_terms_by_their_weights():
    memory = made(vector_weight=0.6, keyword_weight=0.2)
    search = memory.retrieval.search("concern about cheese")
    assert search.weights == (0.6, 0.2)
    for found in search.found:
        assert found.score == pytest.approx(0.75 * max(0, found.vector) + 0.25 * found.keyword)


def test_what_the_token_limit_cuts_is_told_apart_from_what_is_granted():
    memory = made(limit=120)
    search = memory.retrieval.search("concern about cheese", settings={"similarity_top_k": 9})
    granted = {piece.ref for part in search.context.plan.granted for piece in part.pieces}
    assert search.counts["granted"] == len(granted) > 0
    assert search.counts["cut"] > 0
    assert {f"v{found.number}" for found in search.found if found.outcome == "granted"} == granted
    assert search.asked == search.counts["granted"] + search.counts["cut"]


def test_trial_settings_decide_and_are_not_stored():
    memory = made()
    search = memory.retrieval.search(
        "cheese", settings={"similarity_top_k": 1, "similarity_threshold": 0.2, "keyword_weight": 0}
    )
    assert search.asked == 1
    assert all(found.keyword is None for found in search.found)
    assert all((found.outcome == "below_threshold") == (found.score < 0.2) for found in search.found)
    stored = memory.blocks[0].record.settings
    assert (stored["similarity_top_k"], stored["similarity_threshold"]) == (3, None)
    assert memory.retrieval.search("cheese").settings.similarity_top_k == 3


@pytest.mark.parametrize(
    "settings",
    [
        {"similarity_top_k": 0},
        {"similarity_threshold": 2},
        {"similarity_top_k": "many"},
        {"colour": "red"},
        {"vector_weight": 0, "keyword_weight": 0},
    ],
)
def test_impossible_trial_settings_are_errors(settings):
    with pytest.raises(ConfigError):
        made(2).retrieval.search("cheese", settings=settings)


def test_what_is_still_in_the_queue_is_held_back():
    memory = made(3, limit=1000, deliver_on="turn")
    search = memory.retrieval.search("boats")
    assert outcomes(search) == {1: "in_queue", 2: "in_queue", 3: "in_queue"}
    assert search.counts["in_queue"] == 3
    assert search.asked == 0


@pytest.mark.slow
@pytest.mark.parametrize("written", ["Where is the spare key?", "  where is THE\nspare key? "])
def test_a_question_asked_before_takes_no_place_and_its_answer_does(written):
    memory = made(0, limit=400, unit="message", similarity_top_k=2)
    talk = [("Where is the spare key?", "Under a pot."), *((f"Is thing {n} a boat?", "No idea.") for n in range(30))]
    for asked, answer in [*talk, ("where is the SPARE key?", "I cannot tell."), *talk[1:]]:
        memory.put_messages([user(asked), ChatMessage(role="assistant", content=answer)])
    memory.flush(all=True)
    memory.put(user(written))
    search = memory.retrieval.search(written)
    assert {one.words for one in search.found.only("granted")} == {"Under a pot.", "I cannot tell."}
    copies = [one for one in search.found.only("repeated") if "key" in one.words.lower()]
    assert len(copies) == 2
    assert sum(one.words == "No idea." and one.outcome != "repeated" for one in search.found.candidates) <= 1
    # A tool that searches is shown the question too, once: it stands in no prompt.
    found = [turn.messages[0].message.content for turn in memory.retrieval.recall("Where is the spare key?")]
    assert len(found) == 2


def test_a_question_that_only_the_input_asks_takes_no_place_either():
    memory = made(0, limit=400, unit="message", similarity_top_k=1)
    for asked, answer in [("Where is the spare key?", "Under a pot."), ("Is it a boat?", "No idea.")]:
        memory.put_messages([user(asked), ChatMessage(role="assistant", content=answer)])
    memory.flush(all=True)
    prompt = memory.get("Where is the spare key?")[0].content
    assert "Under a pot." in prompt
    assert "spare key" not in prompt


def test_texts_that_differ_in_one_ending_are_two():
    memory = made(0, limit=400, unit="message", similarity_top_k=2)
    memory.put_messages([user("I like this boat."), user("I liked this boat."), user("i like  this boat.")])
    memory.flush(all=True)
    memory.put(user("Which boat do I like?"))
    granted = memory.retrieval.search("Which boat do I like?").found.only("granted")
    assert sorted(one.words for one in granted) == ["I liked this boat.", "i like  this boat."]


@pytest.mark.slow
def test_one_word_said_a_hundred_thousand_times_is_a_question_like_others():
    memory = made(3)
    memory.put(user("boats " * 100_000))
    assert memory.retrieval.search("boats " * 100_000).found.candidates
    assert not memory.retrieval.search("  ").found.candidates


def test_nothing_is_found_where_nothing_is_stored_or_asked():
    empty = made(0).retrieval.search("boats")
    assert (empty.stored, len(empty.found), empty.context, empty.candidates) == (0, 0, None, 0)
    silent = made().retrieval.search("  ")
    assert (silent.candidates, silent.counts["not_proposed"]) == (0, silent.stored)
    assert [found.turn for found in silent.found] == list(range(1, silent.stored + 1))
    assert {(found.vector, found.keyword, found.score) for found in silent.found} == {(None, None, 0.0)}


def test_turns_that_neither_search_names_are_there_with_their_scores(monkeypatch):
    monkeypatch.setattr("memory_core.blocks.vector.MIN_CANDIDATES", 2)
    memory = made(20, keyword_weight=0)
    search = memory.retrieval.search("violins", settings={"similarity_top_k": 1})
    assert search.proposed == 4
    assert search.counts["not_proposed"] == search.stored - search.candidates > 0
    missed = [found for found in search.found if found.outcome == "not_proposed"]
    assert all(found.vector is not None for found in missed)
    assert min(found.rank for found in missed) > search.candidates


@pytest.mark.slow
def test_the_smallest_change_that_would_ask_for_a_turn_does_ask_for_it():
    memory = made(similarity_threshold=0.6, similarity_top_k=1)
    search = memory.retrieval.search("concern about cheese")
    missed = [found for found in search.found if found.outcome in ("below_threshold", "beyond_top_k")]
    assert missed
    for found in missed:
        changes = search.settings_to_ask_for(found.number)
        again = memory.retrieval.search("concern about cheese", settings=changes)
        assert again.one(found.number).outcome in ("granted", "cut")
        fewer = {**changes, "similarity_top_k": changes.get("similarity_top_k", 1) - 1}
        if fewer["similarity_top_k"]:
            assert (
                memory.retrieval.search("concern about cheese", settings=fewer).one(found.number).outcome
                == "beyond_top_k"
            )


def test_what_is_in_quarantine_takes_no_place_from_a_turn_that_is_asked_for():
    memory = made(0, limit=400, unit="message", similarity_top_k=1, similarity_threshold=None)
    memory.put_messages(
        [user("Boat Zuleika."), user("The boat is red."), user("My uncle owns a boat in a small harbour.")]
    )
    memory.flush(all=True)
    memory.session.quarantine("Zuleika")
    search = memory.retrieval.search("the boat of Zuleika")
    outcomes = [found.outcome for found in search.found]
    assert outcomes == ["quarantined", "granted", "beyond_top_k"]
    assert search.settings_to_ask_for(search.found[2].number) == {"similarity_top_k": 2}


def test_no_change_is_offered_for_what_is_asked_for_already():
    search = made().retrieval.search("cheese")
    assert search.settings_to_ask_for(search.found[0].number) == {}
    assert search.settings_to_ask_for(-1) == {}


def test_two_searches_are_compared_by_what_became_of_each_turn():
    memory = made()
    before, after = (
        memory.retrieval.search("cheese"),
        memory.retrieval.search("cheese", settings={"similarity_top_k": 1}),
    )
    changed = compared(before, after)
    asked = [(found.number, found.outcome) for found in before.found if found.outcome in ASKED]
    assert [(one.number, one.outcome) for one, _ in changed] == asked[1:]
    assert {other.outcome for _, other in changed} == {"beyond_top_k"}
    assert compared(before, before) == ()


class BrokenEmbedder(FakeEmbedder):
    broken = False

    def embed(self, texts):
        if self.broken:
            raise EmbedderError("The embedding model is missing. Install it again.")
        return super().embed(texts)


def test_without_an_embedder_keywords_alone_are_the_score_and_it_is_said():
    embedder = BrokenEmbedder()
    memory = made(services=Services(index=ExactIndex(), embedder=embedder), similarity_threshold=0.31)
    embedder.broken = True
    search = memory.retrieval.search("violins")
    assert search.degraded == "Keyword search only. The embedding model is missing. Install it again."
    assert search.weights == (0.0, 0.15)
    assert search.found[0].words.startswith("My number 1 concern is about violins")
    assert search.found[0].outcome == "granted"
    assert {found.vector for found in search.found} == {None}
    nothing = memory.retrieval.search("violins", settings={"keyword_weight": 0})
    assert nothing.degraded.startswith("Nothing could be searched.")
    assert nothing.candidates == 0


class FailingIndex(ExactIndex):
    """Answers once, and is then unplugged."""

    name = "a server"

    def __init__(self):
        super().__init__()
        self.answers = 1

    def search(self, source, query, *, limit):
        from memory_core import VectorIndexError

        if self.answers == 0:
            raise VectorIndexError("Nothing answers at localhost:8000.")
        self.answers -= 1
        return super().search(source, query, limit=limit)


def test_an_index_that_goes_away_between_two_looks_is_replaced_by_the_database_s_copy():
    memory = made(services=Services(index=FailingIndex(), embedder=FakeEmbedder()))
    search = memory.retrieval.search("violins")
    whole = made(services=Services(index=ExactIndex(), embedder=FakeEmbedder())).retrieval.search("violins")
    assert [(f.turn, f.score, f.outcome) for f in search.found] == [(f.turn, f.score, f.outcome) for f in whole.found]
    again = memory.retrieval.search("violins")
    assert again.degraded.startswith("Searched the database copy")
    assert [f.turn for f in again.found] == [f.turn for f in whole.found]


def test_a_block_that_is_switched_off_is_searched_and_nothing_of_it_is_in_the_prompt():
    memory = made()
    memory.blocks.configure("turns", enabled=False)
    search = memory.retrieval.search("violins")
    assert search.no_prompt == "The block is switched off: nothing of it is in the prompt."
    assert search.counts["no_prompt"] == 3
    assert search.counts["granted"] == 0


def test_where_no_prompt_can_be_built_it_is_said_why():
    memory = made()
    memory.blocks.add(StaticMemoryBlock(name="fixed", static_content="word " * 200))
    memory.configure(when_over="raise")
    search = memory.retrieval.search("violins")
    assert "over the limit of 120" in search.no_prompt
    assert search.asked == search.counts["no_prompt"]


def test_turns_that_another_embedding_model_stored_are_found_by_keyword_and_counted():
    memory = made()

    class Other(FakeEmbedder):
        id = "other-64"

    services = Services(index=ExactIndex(), embedder=Other())
    other = Memory.open("s", memory.session.database, services=services)
    other.put(user("A concern about lanterns " * 9))
    other.put(ChatMessage(role="assistant", content="Lanterns it is"))
    other.flush(all=True)
    search = other.retrieval.search("lanterns violins")
    old = [found for found in search.found if found.vector is None]
    assert search.other_embedder == len(old) == len(memory.retrieval.stored_turns("turns")) - (search.stored - len(old))
    assert any(found.keyword and found.outcome != "not_proposed" for found in old)


def test_the_first_block_that_stores_turns_is_searched_and_another_kind_cannot_be():
    blocks = [
        StaticMemoryBlock(name="fixed", static_content="x"),
        VectorMemoryBlock(name="one", similarity_top_k=1),
        VectorMemoryBlock(name="two", similarity_top_k=2),
    ]
    memory = made(blocks=blocks)
    assert memory.retrieval.search("violins").block == "one"
    assert memory.retrieval.search("violins", block="two").asked <= 2
    with pytest.raises(ConfigError, match='"fixed" stores no turns'):
        memory.retrieval.search("violins", block="fixed")
    with pytest.raises(NotFoundError, match='no block called "none"'):
        memory.retrieval.search("violins", block="none")
    with pytest.raises(NotFoundError, match="No block stores earlier turns"):
        made(2, blocks=[StaticMemoryBlock(name="fixed", static_content="x")]).retrieval.search("violins")


# -- neighbours and the map ------------------------------------------------------------------------


@pytest.mark.slow
def test_neighbours_are_the_nearest_other_turns():
    memory = made(24)
    turns = {turn.number: turn for turn in memory.retrieval.stored_turns("turns")}
    number = next(n for n, turn in turns.items() if "violins" in turn.messages[0].message.content)
    near = memory.retrieval.neighbours("turns", number, limit=4)
    assert len(near) == 4
    assert number not in {each.number for each in near}
    assert "violins" in near[0].words
    assert [each.similarity for each in near] == sorted((each.similarity for each in near), reverse=True)
    assert near[0].turn == turns[near[0].number].turn
    with pytest.raises(NotFoundError, match="not in"):
        memory.retrieval.neighbours("turns", 10_000)


# -- what was searched then --------------------------------------------------------------------------


def test_a_recorded_search_is_what_was_searched_then():
    memory = made(limit=120, similarity_top_k=9, similarity_threshold=0.1)
    turn = memory.session.status().turns
    live = memory.retrieval.search("concern about cheese")
    memory.build_context("concern about cheese")
    memory.blocks.configure("turns", similarity_top_k=1, similarity_threshold=0.9)
    (then,) = memory.retrieval.recorded(turn, "turns")[-1:]
    assert then.query == "concern about cheese"
    assert then.settings == live.settings
    assert then.counts == live.counts
    assert [(f.number, f.turn, f.words, f.tokens, f.outcome) for f in then.found] == [
        (f.number, f.turn, f.words, f.tokens, f.outcome) for f in live.found if f.outcome != "not_proposed"
    ]
    assert memory.retrieval.recorded(turn, "elsewhere") == []


def test_a_recorded_search_still_shows_a_turn_that_was_deleted_since():
    memory = made()
    turn = memory.session.status().turns
    memory.build_context("concern about cheese")
    (then,) = memory.retrieval.recorded(turn, "turns")[-1:]
    memory.retrieval.forget("turns", then.found[0].number)
    assert list(memory.retrieval.recorded(turn, "turns")[-1].found) == list(then.found)


def test_words_that_were_erased_since_are_missing_and_no_error():
    memory = made()
    memory.build_context("concern about cheese")
    turn = memory.session.status().turns
    memory.reset()
    then = memory.retrieval.recorded(turn, "turns")[-1]
    assert then.query is None
    assert {found.words for found in then.found} == {""}


# -- forgetting ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["exact", "chroma"])
def test_a_forgotten_turn_is_found_no_more_and_its_messages_stay(kind, tmp_path):
    index = ExactIndex() if kind == "exact" else ChromaIndex(path=tmp_path / "chroma")
    memory = made(services=Services(index=index, embedder=FakeEmbedder()))
    search = memory.retrieval.search("violins")
    gone = search.found[0]
    archived = [message.seq for message in memory.session.messages("archived")]
    memory.retrieval.forget("turns", gone.number)
    after = memory.retrieval.search("violins")
    assert [f.number for f in after.found] == [f.number for f in search.found if f.number != gone.number]
    memory.build_context("violins")
    recorded = [r.event for r in memory.events(kinds=("retrieved",))][-1]
    assert gone.number not in {candidate[0] for candidate in recorded.candidates}
    assert [message.seq for message in memory.session.messages("archived")] == archived
    index.close()


def test_forgetting_is_recorded_with_who_did_it():
    memory = made()
    number = memory.retrieval.stored_turns("turns")[0].number
    memory.retrieval.forget("turns", number)
    record = memory.events(kinds=("vectors_removed",))[-1]
    assert (record.event, record.actor) == (VectorsRemoved(block="turns", numbers=(number,)), "user")


def test_a_delivery_does_not_bring_a_forgotten_turn_back():
    memory = made()
    number = memory.retrieval.stored_turns("turns")[0].number
    words = memory.retrieval.stored_turns("turns")[0].messages[0].message.content
    memory.retrieval.forget("turns", number)
    memory.blocks.fill("turns")
    memory.deliver()
    memory.flush(all=True)
    assert words not in [turn.messages[0].message.content for turn in memory.retrieval.stored_turns("turns")]


def test_what_was_forgotten_elsewhere_is_said_and_nothing_is_recorded():
    memory = made()
    number = memory.retrieval.stored_turns("turns")[0].number
    memory.retrieval.forget("turns", number)
    before = memory.session.status().position
    with pytest.raises(NotFoundError, match="Nothing was deleted"):
        memory.retrieval.forget("turns", number)
    assert memory.session.status().position == before


def test_a_turn_of_another_session_cannot_be_forgotten(tmp_path):
    services = Services(index=ExactIndex(), embedder=FakeEmbedder())
    uri = f"sqlite:///{tmp_path / 'memory.db'}"
    memories = []
    for name in ("one", "two"):
        block = VectorMemoryBlock(name="turns")
        memory = Memory.from_defaults(
            name, token_limit=60, token_flush_size=10, memory_blocks=[block], services=services, database_uri=uri
        )
        for turn in range(9):
            memory.put(user(f"Some words of turn {turn} in session {name}"))
        memories.append(memory)
    number = memories[1].retrieval.stored_turns("turns")[0].number
    with pytest.raises(NotFoundError):
        memories[0].retrieval.forget("turns", number)
    assert number in {turn.number for turn in memories[1].retrieval.stored_turns("turns")}


def test_the_past_is_rebuilt_with_the_turn_and_the_present_without_it():
    memory = made()
    turn = memory.retrieval.stored_turns("turns")[0]
    before = memory.session.status().position
    memory.retrieval.forget("turns", turn.number)
    events = memory.events()
    words = memory.log.texts
    seq = turn.messages[0].seq

    def stored(upto):
        outcomes = rebuild(events, lambda key: words([key]).get(key), upto).outcomes
        return outcomes[seq].vectors

    assert stored(before) == (turn.number,)
    assert stored(None) == ()


def test_an_event_of_an_older_version_has_no_weights():
    event = Retrieved("turns", "h", "e", "i", 1, None, (), {})
    data = json.loads(event.to_json())
    del data["weights"]
    assert Retrieved(**data).weights is None


@pytest.mark.parametrize("words", ['"Bell"', "straße", "STRASSE", "back\\slash", "one\ntwo", "role", "boats"])
def test_stored_turns_are_found_by_words_that_they_hold_as_people_read_them(words):
    memory = made(0)
    for said in ('They called it "Bell"', "We met in the Straße 3", "It has a back\\slash", "one\ntwo", "Two boats"):
        memory.put(ChatMessage(role="user", content=said))
        memory.put(ChatMessage(role="assistant", content="I see."))
    memory.flush(all=True)
    found = memory.retrieval.search("What was said?").found
    held = [one.words for one in found if words.casefold() in one.words.casefold()]
    assert [one.words for one in found.holding([words])] == held
    assert len(held) == (0 if words == "role" else 1)

"""Which questions found a stored turn."""

import pytest
from fakes import FakeEmbedder

from memory_core import ChatMessage, Memory, NotFoundError, Services, VectorMemoryBlock
from memory_core.blocks import vector
from memory_core.events import ContextBuilt, EventRecord, Retrieved
from memory_core.retrieval.explain import found_by
from memory_core.vectors.exact import ExactIndex
from memory_inspector.reading.search_rows import rows

THINGS = ["boats", "violins", "cheese", "chess", "maps", "clocks", "kites", "bridges"]


def made(limit=1_000, **settings):
    block = VectorMemoryBlock(name="turns", priority=1, **settings)
    services = Services(index=ExactIndex(), embedder=FakeEmbedder())
    memory = Memory.from_defaults("s", token_limit=limit, memory_blocks=[block], services=services)
    for thing in THINGS:
        memory.put(ChatMessage(role="user", content=f"My concern is about {thing} and nothing besides"))
    memory.flush(all=True)
    return memory


def ask(memory, question):
    """A new turn with its prompt."""
    memory.put(ChatMessage(role="user", content=question))
    memory.build_context()


def number_of(memory, word):
    turns = memory.retrieval.stored_turns("turns")
    return next(turn.number for turn in turns if word in str(turn.messages[0].message.content))


def test_each_question_is_named_with_rank_score_and_what_became_of_it_newest_first():
    memory = made(similarity_top_k=1)
    ask(memory, "Tell me about cheese")
    ask(memory, "Tell me about kites")
    found = memory.retrieval.found_by(number_of(memory, "cheese"))
    words = memory.log.texts({one.query for one in found})
    assert [words[one.query] for one in found] == ["Tell me about kites", "Tell me about cheese"]
    assert [one.outcome for one in found] == ["beyond_top_k", "granted"]
    assert found[1].rank == 1
    for one in found:
        then = memory.retrieval.recorded(one.turn, "turns")[one.place].one(number_of(memory, "cheese"))
        assert (then.rank, then.score, then.outcome) == (one.rank, one.score, one.outcome)


def test_what_the_token_limit_cut_and_what_no_prompt_followed_are_told_apart():
    memory = made(limit=60, similarity_top_k=8)
    ask(memory, "Tell me about cheese")
    outcomes = {
        turn.number: memory.retrieval.found_by(turn.number)[0].outcome
        for turn in memory.retrieval.stored_turns("turns")
    }
    assert set(outcomes.values()) == {"granted", "cut"}
    assert outcomes[number_of(memory, "cheese")] == "granted"
    search = Retrieved("turns", "q", "e", "i", 5, None, ((7, 0.5, 0.1, 0.4, "granted"),), {"granted": 1})
    (alone,) = found_by([EventRecord(1, "s", 3, 0.0, "engine", search)], "turns", 7)
    assert (alone.turn, alone.outcome) == (3, "no_prompt")


def test_what_was_granted_beyond_the_recorded_candidates_is_found_in_the_prompt(monkeypatch):
    monkeypatch.setattr(vector, "MAX_RECORDED", 2)
    memory = made(similarity_top_k=8)
    ask(memory, "Tell me about cheese")
    found = [memory.retrieval.found_by(turn.number)[0] for turn in memory.retrieval.stored_turns("turns")]
    assert [one.outcome for one in found] == ["granted"] * len(THINGS)
    assert sorted(one.rank for one in found if one.rank is not None) == [1, 2]


def test_nothing_is_found_before_a_question_was_asked_nor_after_a_position():
    memory = made(similarity_top_k=1)
    number = number_of(memory, "cheese")
    assert memory.retrieval.found_by(number) == ()
    before = memory.session.status().position
    ask(memory, "Tell me about cheese")
    assert memory.retrieval.found_by(number, upto=before) == ()
    assert len(memory.retrieval.found_by(number, block="turns")) == 1
    assert memory.retrieval.found_by(number, block="elsewhere") == ()


def test_without_a_block_that_stores_turns_it_is_said():
    memory = Memory.from_defaults("s", services=Services(index=ExactIndex(), embedder=FakeEmbedder()))
    with pytest.raises(NotFoundError):
        memory.retrieval.found_by(1)


def test_a_prompt_of_another_turn_does_not_tell():
    search = Retrieved("turns", "q", "e", "i", None, None, ((7, 0.5, 0.1, 0.4, "granted"),), {"granted": 1})
    records = [EventRecord(1, "s", 3, 0.0, "engine", search)]
    built = made(similarity_top_k=1)
    ask(built, "boats")
    prompt = next(r.event for r in built.events() if isinstance(r.event, ContextBuilt))
    assert found_by([*records, EventRecord(2, "s", 4, 0.0, "engine", prompt)], "turns", 7)[0].outcome == "no_prompt"


def test_an_outcome_that_a_later_version_recorded_is_shown_as_left_out_by_an_unknown_rule():
    memory = made()
    number = number_of(memory, "cheese")
    later = Retrieved("turns", "q", "e", "i", 5, None, ((number, 0.5, 0.1, 0.4, "too_old"),), {"too_old": 1})
    memory.log.record(later)
    (found,) = memory.retrieval.found_by(number)
    (search,) = memory.retrieval.recorded(found.turn, "turns")
    assert search.one(number).outcome == found.outcome == "too_old"
    assert sum(search.counts.values()) == 1
    (row,) = rows(search.found, search)
    assert row["Outcome"] == "Left out by an unknown rule"

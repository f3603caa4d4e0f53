"""`VectorMemory`: put, get, set and reset of messages, turns found whole, each embedded once."""

import asyncio
import itertools
import json
import sqlite3
from contextlib import closing

import numpy as np
import pytest
from engine_fakes import assistant, on_file, together, user
from fakes import FakeEmbedder
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from memory_core import (
    ChatMessage,
    ConfigError,
    EmbedderError,
    Memory,
    MessageError,
    NotFoundError,
    Services,
    StaticMemoryBlock,
    VectorIndexError,
    VectorMemoryBlock,
)
from memory_core.messages import ToolCallPart
from memory_core.store.tables import TABLES
from memory_core.systems.llamaindex_memories import VectorMemory
from memory_core.text import stems
from memory_core.vectors.chroma import ChromaIndex
from memory_core.vectors.exact import ExactIndex
from memory_core.vectors.keyword import KeywordIndex


class CountingEmbedder(FakeEmbedder):
    """Notes every text it is asked to embed, and fails while it is told to."""

    def __init__(self):
        self.texts = []
        self.broken = False

    def embed(self, texts):
        if self.broken:
            raise EmbedderError("Nothing answers at the embedding model's address.")
        self.texts += texts
        return super().embed(texts)

    def times(self, word):
        return sum(word in text for text in self.texts)


class UnreachableIndex(ExactIndex):
    name = "an index far away"

    def forget(self, collection):
        raise VectorIndexError("It does not answer.")


def system(text):
    return ChatMessage(role="system", content=text)


def tool(text, call_id):
    return ChatMessage(role="tool", content=text, additional_kwargs={"tool_call_id": call_id})


def made(embedder=None, *, index=None, **options):
    services = Services(index=index or ExactIndex(), embedder=embedder or FakeEmbedder())
    return VectorMemory.from_defaults(**{"services": services, **options})


def texts(messages):
    return [message.content for message in messages]


PASSPORT = [user("Where did I leave the passport?"), assistant("In the blue drawer, under the maps.")]
BOILER = [user("The boiler makes a humming noise"), assistant("Bleed the radiators first.")]
CAKE = [user("Aunt Olga wants a lemon cake"), assistant("Then buy six lemons.")]
TALK = [*PASSPORT, *BOILER, *CAKE]


# -- what comes back ---------------------------------------------------------------------------------


def test_a_question_brings_back_the_user_message_and_its_reply_together():
    memory = made(top_k=1)
    memory.put_messages(TALK)
    assert memory.get("the passport please") == PASSPORT
    assert memory.get("radiators") == BOILER
    assert memory.get("what about lemons") == CAKE


def test_what_was_put_one_by_one_is_found_as_what_was_put_at_once():
    one_by_one, at_once = made(top_k=1), made(top_k=1)
    for message in TALK:
        one_by_one.put(message)
    at_once.put_messages(TALK)
    for question in ("passport", "radiators", "lemons"):
        assert one_by_one.get(question) == at_once.get(question)


def test_turns_come_back_in_order_of_time_however_they_score():
    memory = made(top_k=2)
    memory.put_messages(TALK)
    assert memory.get("lemon cake, and where is the passport") == [*PASSPORT, *CAKE]


def test_no_more_than_top_k_turns_come_back():
    memory = made(top_k=2)
    memory.put_messages(TALK)
    assert len(memory.get("passport boiler lemon")) == 4


def test_two_turns_come_back_where_nothing_else_was_said():
    memory = made()
    memory.put_messages(TALK)
    assert len(memory.get("passport boiler lemon")) == 4


def test_every_reply_belongs_to_the_user_message_before_it():
    memory = made(top_k=1)
    turn = [user("Book the ferry to Bergen"), assistant("Which day?"), assistant("I took Friday."), assistant("Paid.")]
    for message in [*turn, *BOILER]:
        memory.put(message)
    assert memory.get("ferry") == turn
    assert [len(unit.messages) for unit in memory.memory.retrieval.stored_turns("Earlier turns")] == [4]


def test_tool_calls_and_their_results_belong_to_their_turn():
    call = ChatMessage(
        role="assistant",
        parts=[ToolCallPart(tool_call_id="c1", tool_name="weather", tool_kwargs={"city": "Bergen"})],
    )
    turn = [user("Will it rain?"), call, tool("Heavy showers until noon", "c1"), assistant("Take an umbrella.")]
    memory = made(top_k=1)
    memory.put_messages([*turn, *BOILER])
    assert memory.get("heavy showers") == turn
    assert memory.get("weather in Bergen") == turn


def test_the_newest_turn_is_found_before_another_begins():
    memory = made(top_k=1)
    memory.put_messages(TALK)
    assert memory.get("lemons") == CAKE
    memory.put(assistant("And a bag of sugar."))
    assert memory.get("sugar") == [*CAKE, assistant("And a bag of sugar.")]


def test_the_newest_turn_competes_with_the_stored_ones_on_equal_terms():
    stored, newest = made(top_k=3), made(top_k=3)
    stored.put_messages([*PASSPORT, *BOILER, *CAKE, user("So")])
    newest.put_messages([*PASSPORT, *BOILER, *CAKE])
    question = "a lemon cake"
    then, now = (
        [(turn.messages[0].message, turn.score) for turn in memory.memory.retrieval.recall(question)]
        for memory in (stored, newest)
    )
    assert now[0][0] == then[0][0] == CAKE[0]
    assert now[0][1] == pytest.approx(then[0][1], abs=0.1)


def test_a_reply_without_a_user_message_is_a_unit_of_its_own():
    memory = made(top_k=1)
    memory.put_messages([assistant("Welcome to the harbour office."), *PASSPORT, *BOILER])
    assert memory.get("harbour") == [assistant("Welcome to the harbour office.")]


def test_a_turn_above_every_limit_stays_whole():
    memory = made(top_k=1, token_limit=50, token_flush_size=5)
    turn = [user("Read me the saga"), *(assistant(f"Chapter {n} of the saga and what followed it") for n in range(12))]
    for message in turn:
        memory.put(message)
    assert memory.get("saga") == turn
    memory.put_messages(BOILER)
    assert memory.get("saga") == turn


def test_a_message_comes_back_as_it_was_put_and_can_be_changed_by_who_got_it():
    marked = ChatMessage(role="user", content="The passport again", additional_kwargs={"name": ["Ada"]})
    memory = made(top_k=1)
    memory.put(marked)
    found = memory.get("passport")
    assert found == [marked]
    found[0].additional_kwargs["name"].append("Bob")
    assert memory.get("passport") == [marked]


def test_nothing_below_the_threshold_comes_back():
    memory = made(similarity_threshold=0.95)
    memory.put_messages(TALK)
    assert memory.get("radiators") == []


def test_reading_changes_nothing_and_records_nothing():
    memory = made()
    memory.put_messages(TALK)
    before = memory.memory.session.status()
    memory.get("passport")
    memory.get_all()
    assert memory.memory.session.status() == before


ROLES = st.lists(st.sampled_from(["user", "assistant", "tool", "system"]), max_size=14)


@pytest.mark.slow
@settings(max_examples=25)
@given(ROLES, st.sets(st.integers(0, 14)))
def test_whatever_is_put_each_turn_is_found_whole_by_any_of_its_words(roles, pauses):
    """A user message begins a turn, other messages continue it; `pauses` are where a put ends."""
    said = [ChatMessage(role=role, content=f"word{place}x") for place, role in enumerate(roles)]
    memory = made(top_k=1)
    memory.memory.blocks.configure("Earlier turns", vector_weight=0)
    ends = [*sorted(pause for pause in pauses if 0 < pause < len(said)), len(said)]
    for start, end in itertools.pairwise([0, *ends]):
        memory.put_messages(said[start:end])
    turns = []
    for message in (message for message in said if message.role != "system"):
        if not turns or message.role == "user":
            turns.append([])
        turns[-1].append(message)
    instructions = [message for message in said if message.role == "system"]
    assert memory.get_all() == said
    for turn in turns:
        for message in turn:
            assert memory.get(message.content) == [*instructions, *turn]


# -- system messages, and no question ------------------------------------------------------------------


def test_system_messages_come_first_in_every_answer_and_are_no_turns():
    memory = made(top_k=1)
    memory.put_messages([system("Answer in rhymes."), *PASSPORT, system("The shop is closed."), *BOILER])
    memory.put(system("Answer in rhymes."))
    instructions = ["Answer in rhymes.", "The shop is closed."]
    assert texts(memory.get("passport")) == [*instructions, *texts(PASSPORT)]
    assert texts(memory.get("rhymes in the closed shop"))[:2] == instructions
    turns = memory.memory.retrieval.recall("rhymes in the closed shop, passport, boiler")
    assert {str(stored.message.role) for turn in turns for stored in turn.messages} == {"user", "assistant"}


@pytest.mark.parametrize("nothing", [None, "", "  \n"])
def test_without_a_question_only_the_system_messages_come_back(nothing):
    memory = made()
    memory.put_messages([system("Answer in rhymes."), *TALK])
    assert texts(memory.get(nothing)) == ["Answer in rhymes."]


def test_get_all_is_the_whole_conversation_in_order():
    memory = made()
    memory.put_messages([system("Answer in rhymes."), *TALK])
    assert memory.get_all() == [system("Answer in rhymes."), *TALK]


def test_an_empty_memory_has_nothing_to_say():
    memory = made()
    assert memory.get("passport") == memory.get(None) == memory.get_all() == []


# -- what is embedded ----------------------------------------------------------------------------------


def test_a_closed_turn_is_embedded_once_however_many_replies_it_had():
    embedder = CountingEmbedder()
    memory = made(embedder)
    memory.put(user("Book the ferry"))
    for n in range(10):
        memory.put(assistant(f"Reply {n}"))
    assert embedder.texts == []
    memory.put(user("Thanks"))
    assert [text.count("Reply") for text in embedder.texts] == [10]
    for _ in range(3):
        memory.get("ferry")
    assert embedder.times("Reply 0") == 1


def test_the_open_turn_is_embedded_only_when_it_is_asked_about_and_again_only_when_it_grew():
    embedder = CountingEmbedder()
    memory = made(embedder)
    memory.put_messages(PASSPORT)
    assert embedder.texts == []
    for _ in range(3):
        memory.get("anything")
    assert embedder.times("blue drawer") == 1
    memory.put(assistant("Or in the red one."))
    assert embedder.times("blue drawer") == 1
    for _ in range(3):
        memory.get("anything")
    assert embedder.times("blue drawer") == 2
    assert embedder.times("anything") == 6


@pytest.mark.slow
def test_a_long_talk_costs_one_embedding_a_turn():
    embedder = CountingEmbedder()
    memory = made(embedder)
    for turn in range(30):
        memory.put(user(f"Question {turn}"))
        memory.put(assistant(f"Answer {turn}"))
    assert len(embedder.texts) == 29
    assert len(set(embedder.texts)) == 29


def test_what_could_not_be_embedded_is_found_by_its_words_and_later_by_meaning():
    embedder = CountingEmbedder()
    memory = made(embedder, top_k=1)
    embedder.broken = True
    memory.put_messages(TALK)
    assert [turn.messages[0].message for turn in memory.memory.retrieval.stored_turns("Earlier turns")] == TALK[:-2:2]
    assert memory.get("passport") == PASSPORT
    embedder.broken = False
    assert memory.get("lemons") == CAKE
    memory.memory.deliver()
    assert len(memory.memory.retrieval.stored_turns("Earlier turns")) == 2
    assert memory.get("passport") == PASSPORT


def test_threads_that_put_and_ask_at_once_part_no_turn(tmp_path):
    memory = made(top_k=1, database_uri=on_file(tmp_path))

    def putting(who):
        def job():
            for n in range(6):
                memory.put_messages([user(f"{who}question{n}"), assistant(f"{who}answer{n}")])

        return job

    def asking():
        for n in range(6):
            assert len(memory.get(f"adaquestion{n}")) in (0, 2)

    together(putting("ada"), putting("bob"), asking)
    memory.memory.deliver()
    turns = [
        [m.message.content for m in turn.messages] for turn in memory.memory.retrieval.stored_turns("Earlier turns")
    ]
    assert all(len(turn) == 2 and turn[0].replace("question", "answer") == turn[1] for turn in turns)
    assert len(turns) == 11


# -- set and reset -------------------------------------------------------------------------------------


def test_set_replaces_everything():
    memory = made(top_k=3)
    memory.put_messages([system("Answer in rhymes."), *TALK])
    memory.set([system("Answer in prose."), *BOILER])
    assert memory.get_all() == [system("Answer in prose."), *BOILER]
    assert memory.get("passport lemon boiler") == [system("Answer in prose."), *BOILER]
    memory.put_messages(CAKE)
    assert memory.get("passport lemon boiler") == [system("Answer in prose."), *BOILER, *CAKE]


def test_setting_what_get_all_gave_changes_nothing_that_is_found():
    memory = made(top_k=1)
    memory.put_messages([system("Answer in rhymes."), *TALK])
    memory.set(memory.get_all())
    assert memory.get_all() == [system("Answer in rhymes."), *TALK]
    assert memory.get("passport")[1:] == PASSPORT


def test_set_of_something_that_is_no_message_loses_nothing():
    memory = made(top_k=1)
    memory.put_messages(TALK)
    with pytest.raises(MessageError):
        memory.set([user("fine"), "not a message"])
    assert memory.get_all() == TALK
    assert memory.get("passport") == PASSPORT


def test_set_of_nothing_is_a_reset():
    memory = made()
    memory.put_messages(TALK)
    memory.set([])
    assert memory.get_all() == memory.get("passport") == []


def test_after_a_reset_the_next_reply_revives_nothing():
    memory = made()
    memory.put_messages([system("Answer in rhymes."), *TALK])
    memory.get("lemon")
    memory.reset()
    assert memory.get("lemon") == memory.get_all() == []
    memory.put(assistant("Where were we?"))
    assert memory.get("lemon cake passport") == [assistant("Where were we?")]


def stored_words(database):
    """Everything that stands in any table, as one text."""
    with database.read() as connection:
        rows = [tuple(row) for table in TABLES for row in connection.execute(select(table))]
    return json.dumps(rows, default=lambda value: value.hex() if isinstance(value, bytes) else str(value))


def vector_in_hex(text):
    return np.asarray(FakeEmbedder().embed([text])[0], dtype="<f4").tobytes().hex()


def test_reset_leaves_neither_words_nor_vectors_behind(tmp_path):
    index = ChromaIndex(path=tmp_path / "chroma")
    memory = made(index=index, database_uri=on_file(tmp_path), session_id="s")
    memory.put_messages(TALK)
    memory.get("passport lemon")
    passport = vector_in_hex("\n".join(texts(PASSPORT)))
    held = stored_words(memory.memory.session.database)
    assert "blue drawer" in held
    assert passport in held
    folder = [file for file in (tmp_path / "chroma").rglob("*") if file.is_file()]
    assert any(bytes.fromhex(passport) in file.read_bytes() for file in folder)
    memory.reset()
    held = stored_words(memory.memory.session.database)
    for word in ("passport", "drawer", "boiler", "lemon", "radiators", passport):
        assert word not in held
    index.close()
    memory.memory.session.database.close()
    for file in (file for file in tmp_path.rglob("*") if file.is_file() and file.name != "chroma.sqlite3"):
        assert bytes.fromhex(passport) not in file.read_bytes(), file
    with closing(sqlite3.connect(tmp_path / "chroma" / "chroma.sqlite3")) as connection:
        counts = {
            table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("collections", "segments", "embeddings", "embeddings_queue", "embedding_metadata")
        }
    assert set(counts.values()) == {0}, counts


def test_reset_takes_what_the_exact_scan_and_the_process_remembered():
    index = ExactIndex()
    memory = made(index=index)
    memory.put_messages(TALK)
    memory.get("passport lemon")
    assert index._copies
    memory.reset()
    assert not index._copies
    remembered = memory.memory.session.services._remembered
    assert not any(value._vectors for key, value in remembered.items() if key[0] == "unsaved")
    assert not any(value._stored.nodes for key, value in remembered.items() if key[0] == "units")


def test_reset_says_when_the_index_still_has_a_copy():
    memory = made(index=UnreachableIndex())
    memory.put_messages(TALK)
    with pytest.raises(VectorIndexError, match="an index far away still has a copy"):
        memory.reset()
    assert memory.get_all() == []


def test_another_session_keeps_its_turns_when_one_is_reset(tmp_path):
    services = Services(index=ExactIndex(), embedder=FakeEmbedder())
    uri = on_file(tmp_path)
    first = made(services=services, database_uri=uri, session_id="one", top_k=1)
    other = made(services=services, database_uri=uri, session_id="other", top_k=1)
    first.put_messages(TALK)
    other.put_messages([*PASSPORT, user("So")])
    assert first.get("lemons") == CAKE
    assert other.get("passport") == PASSPORT
    first.reset()
    assert first.get("passport") == []
    assert other.get("passport") == PASSPORT


# -- making one ----------------------------------------------------------------------------------------


def test_it_is_there_again_when_it_is_opened_from_its_file(tmp_path):
    memory = made(database_uri=on_file(tmp_path), session_id="s", top_k=1)
    memory.put_messages(TALK)
    again = made(database_uri=on_file(tmp_path), session_id="s", top_k=1)
    assert again.get_all() == TALK
    assert again.get("passport") == PASSPORT
    assert again.get("lemons") == CAKE
    again.put(assistant("And sugar."))
    assert memory.get("sugar") == [*CAKE, assistant("And sugar.")]


def test_code_written_for_llamaindex_runs_with_our_objects_passed_in():
    vector_memory = VectorMemory.from_defaults(
        vector_store=ExactIndex(),
        embed_model=FakeEmbedder(),
        retriever_kwargs={"similarity_top_k": 1},
    )
    msgs = [
        ChatMessage(role="user", content="Jerry likes juice."),
        ChatMessage(role="user", content="Bob likes burgers."),
        ChatMessage(role="user", content="Alice likes apples."),
    ]
    for m in msgs:
        vector_memory.put(m)
    assert vector_memory.get("What does Jerry like?") == [msgs[0]]
    vector_memory.reset()
    msgs = [
        ChatMessage(role="user", content="Jerry likes burgers."),
        ChatMessage(role="assistant", content="Bob likes apples."),
        ChatMessage(role="assistant", content="Indeed, Bob likes apples."),
        ChatMessage(role="user", content="Alice likes juice."),
    ]
    vector_memory.set(msgs)
    assert vector_memory.get("What does Bob like?") == msgs[:3]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"top_k": 0}, "top_k"),
        ({"retriever_kwargs": {"alpha": 1}}, "alpha"),
        ({"top_k": 1, "retriever_kwargs": {"similarity_top_k": 2}}, "not both"),
        ({"similarity_threshold": 2.0}, "threshold"),
        ({"index_kwargs": {}}, "index_kwargs"),
    ],
)
def test_an_impossible_setting_is_said(given, said):
    with pytest.raises(ConfigError, match=said):
        made(**given)


def test_the_async_names_do_the_same():
    memory = made(top_k=1)

    async def talk():
        await memory.aput(system("Answer in rhymes."))
        await memory.aput_messages(TALK)
        found = await memory.aget("passport")
        everything = await memory.aget_all()
        await memory.aset(BOILER)
        left = await memory.aget_all()
        await memory.areset()
        return found, everything, left, await memory.aget_all()

    found, everything, left, nothing = asyncio.run(talk())
    assert found == [system("Answer in rhymes."), *PASSPORT]
    assert everything == [system("Answer in rhymes."), *TALK]
    assert (left, nothing) == (BOILER, [])


# -- turns recalled by any memory ----------------------------------------------------------------------


def test_any_memory_with_a_vector_block_recalls_stored_and_queued_turns():
    memory = Memory.from_defaults(
        "s",
        memory_blocks=[VectorMemoryBlock(name="turns", deliver_on="turn", unit="turn", similarity_top_k=1)],
        services=Services(embedder=FakeEmbedder()),
    )
    memory.put_messages([*PASSPORT, *BOILER, user("Lemons are yellow")])
    found = {q: memory.retrieval.recall(q)[0].messages for q in ("passport", "lemons yellow")}
    assert [stored.message for stored in found["passport"]] == PASSPORT
    assert [stored.message for stored in found["lemons yellow"]] == [user("Lemons are yellow")]


def test_only_vector_blocks_recall_turns():
    memory = Memory.from_defaults("s", memory_blocks=[StaticMemoryBlock(name="core", static_content="x")])
    with pytest.raises(NotFoundError):
        memory.retrieval.recall("x")
    with pytest.raises(ConfigError):
        memory.retrieval.recall("x", block="core")


def test_a_text_outside_the_keyword_index_is_found_as_it_would_be_inside():
    texts_by_number = {
        1: "the passport lies in the blue drawer",
        2: "bleed the radiators of the boiler",
        3: "lemon cake",
    }
    whole = KeywordIndex()
    whole.add(texts_by_number)
    found = whole.search("blue passport and lemon", limit=3)
    for outside in ({3}, {2, 3}, {1, 2, 3}):
        part = KeywordIndex()
        part.add({number: text for number, text in texts_by_number.items() if number not in outside})
        also = {number: " ".join(stems(texts_by_number[number])) for number in sorted(outside)}
        assert part.scores("blue passport and lemon", also=also).best(3) == found
        assert len(part) == 3 - len(outside)

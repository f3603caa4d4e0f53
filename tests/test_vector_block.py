"""The vector block through `Memory`: what is stored, what comes back, and why."""

import json
import shutil

import pytest
from fakes import FakeEmbedder

from memory_core import ChatMessage, ConfigError, EmbedderError, Memory, Services, TextPart, VectorMemoryBlock
from memory_core.blocks.units import kept_heard, messages_of, parse_unit
from memory_core.blocks.vector import CLASSIC
from memory_core.bundles.bundle import import_bundle, read_bundle, write_bundle
from memory_core.events import Retrieved, VectorsStored
from memory_core.messages import message_text
from memory_core.store.message_rows import MessageCache
from memory_core.store.vector_rows import read_all_heard, read_nodes
from memory_core.vectors.chroma import ChromaIndex
from memory_core.vectors.exact import ExactIndex


def user(text):
    return ChatMessage(role="user", content=text)


def assistant(text):
    return ChatMessage(role="assistant", content=text)


def talk(turns):
    """Alternating messages: each turn speaks of its own thing."""
    things = ["boats", "violins", "cheese", "chess", "maps", "clocks", "kites", "bridges", "candles", "ferns"]
    for turn in range(turns):
        thing = things[turn % len(things)]
        yield user(f"My number {turn} concern is about {thing} and nothing besides")
        yield assistant(f"Then tell me more of those {thing}")


def memory(block=None, *, services=None, limit=120, session_id="s", **options):
    block = block or VectorMemoryBlock(name="turns", similarity_top_k=3, priority=1)
    return Memory.from_defaults(
        session_id,
        token_limit=limit,
        token_flush_size=10,
        memory_blocks=[block],
        services=services or Services(index=ExactIndex(), embedder=FakeEmbedder()),
        **options,
    )


def filled(turns=12, **options):
    made = memory(**options)
    for message in talk(turns):
        made.put(message)
    return made


def retrieved(made):
    return [record.event for record in made.events(kinds=("retrieved",))][-1]


def recalled(made, question):
    """Texts brought back for a question, best first."""
    made.build_context(question)
    numbers = [c[0] for c in retrieved(made).candidates if c[4] == "granted"]
    by_number = {turn.number: turn for turn in made.retrieval.stored_turns("turns")}
    return [message_text(by_number[number].messages[0].message) for number in numbers]


def test_a_user_message_and_its_replies_are_stored_together_where_the_unit_is_the_turn():
    made = filled(block=VectorMemoryBlock(name="turns", unit="turn"))
    assert [[m.message.role for m in turn.messages] for turn in made.retrieval.stored_turns("turns")] == [
        ["user", "assistant"]
    ] * len(made.retrieval.stored_turns("turns"))
    stored = [event for record in made.events(kinds=("vectors_stored",)) for event in record.event.nodes]
    assert [number for number, _, _ in stored] == [turn.number for turn in made.retrieval.stored_turns("turns")]


@pytest.mark.slow
def test_a_whole_flush_can_be_one_unit():
    made = memory(VectorMemoryBlock(name="turns", unit="batch"), limit=200)
    for message in talk(30):
        made.put(message)
    turns = made.retrieval.stored_turns("turns")
    assert len(turns) == made.session.status().flushes
    assert sum(len(turn.messages) for turn in turns) == made.session.status().archived_messages


def test_the_turn_that_shares_the_question_s_words_comes_back_first():
    made = filled()
    assert recalled(made, "what was that about violins")[0].startswith("My number 1 concern is about violins")


def test_no_more_than_top_k_come_back_and_every_candidate_has_its_outcome():
    made = filled()
    made.build_context("concern about cheese")
    event = retrieved(made)
    outcomes = [candidate[4] for candidate in event.candidates]
    assert outcomes.count("granted") == 3
    assert sum(event.gates.values()) == len(made.retrieval.stored_turns("turns"))


def test_nothing_below_the_threshold_comes_back():
    made = filled(block=VectorMemoryBlock(name="turns", similarity_threshold=0.99, **CLASSIC))
    made.build_context("concern about cheese")
    assert retrieved(made).gates["granted"] == 0
    assert "turns" not in (made.get("concern about cheese")[0].content or "")


def test_the_latest_user_input_weighs_most():
    block = VectorMemoryBlock(name="turns", similarity_top_k=1, retrieval_context_window=5, keyword_weight=0)
    made = filled(block=block)
    assert "violins" in recalled(made, "violins violins violins")[0]


@pytest.mark.slow
@pytest.mark.parametrize(("off", "kept"), [("vector_weight", 2), ("keyword_weight", 1)])
def test_either_search_can_be_switched_off(off, kept):
    made = filled(block=VectorMemoryBlock(name="turns", **{off: 0}))
    made.build_context("concern about cheese")
    candidates = retrieved(made).candidates
    assert candidates
    assert all(candidate[3 - kept] is None and candidate[kept] is not None for candidate in candidates)


@pytest.mark.slow
def test_a_block_never_answers_with_another_session_s_turns(tmp_path):
    services = Services(index=ExactIndex(), embedder=FakeEmbedder())
    uri = f"sqlite:///{tmp_path / 'memory.db'}"
    first, second = (
        memory(VectorMemoryBlock(name="turns", similarity_top_k=3), services=services, session_id=id, database_uri=uri)
        for id in ("one", "two")
    )
    for message in talk(12):
        first.put(message)
        second.put(message.with_parts([TextPart(text=f"Elsewhere {message.content}")]))
    assert not any(text.startswith("Elsewhere") for text in recalled(first, "violins"))
    assert all(text.startswith("Elsewhere") for text in recalled(second, "violins"))


def test_a_process_that_begins_reads_what_units_say_and_not_their_messages(tmp_path, monkeypatch):
    uri = f"sqlite:///{tmp_path / 'memory.db'}"
    made = memory(database_uri=uri)
    for message in talk(12):
        made.put(message)
    question = "What did I say of violins?"
    expected = made.build_context(question)
    listened = []
    listen = VectorMemoryBlock._heard

    def counted(self, connection, reading, nodes):
        listened.extend(nodes)
        return listen(self, connection, reading, nodes)

    monkeypatch.setattr(VectorMemoryBlock, "_heard", counted)
    for change, read in (
        ("", 0),
        ("UPDATE mi_vector SET heard = NULL WHERE id % 2", 1),  # stored by an earlier version
        ("UPDATE mi_vector SET heard = replace(heard, '[1,', '[0,')", 2),  # by other rules
    ):
        with made.session.database.write() as connection:
            connection.exec_driver_sql(change or "SELECT 1")
        listened.clear()
        again = Memory.open("s", made.session.database, services=Services(index=ExactIndex(), embedder=FakeEmbedder()))
        context = again.build_context(question)
        assert (context.messages, context.plan) == (expected.messages, expected.plan)
        stored = len(made.retrieval.stored_turns("turns"))
        assert len(listened) == (0, stored // 2, stored)[read]


@pytest.mark.parametrize("index", [ExactIndex, ChromaIndex])
def test_where_all_vectors_are_of_another_model_units_are_found_by_keyword(index, tmp_path):
    class Other(FakeEmbedder):
        id = "another"

    made = filled(database_uri=f"sqlite:///{tmp_path / 'memory.db'}")
    where = {"path": tmp_path / "chroma"} if index is ChromaIndex else {}
    again = Memory.open("s", made.session.database, services=Services(index=index(**where), embedder=Other()))
    found = again.retrieval.search("violins")
    assert found.other_embedder == found.stored > 0
    assert "violins" in found.found[0].words
    assert again.build_context("violins").failures == {}


def test_what_is_still_in_the_queue_is_not_repeated():
    made = memory(limit=60)
    for message in talk(4):
        made.put(message)
    made.blocks.fill("turns")
    queue = {stored.seq for stored in made.session.messages("active")}
    made.build_context("concern")
    granted = {c[0] for c in retrieved(made).candidates if c[4] == "granted"}
    for turn in made.retrieval.stored_turns("turns"):
        if turn.number in granted:
            assert not {message.seq for message in turn.messages} <= queue


@pytest.mark.slow
def test_chroma_brings_back_what_the_exact_scan_does_and_so_does_a_rebuilt_index(tmp_path, data_file):
    conversation = json.loads(data_file("locomo/locomo5.json").read_text())[0]["conversation"]
    said = [
        line
        for key in sorted(conversation)
        if key.startswith("session_") and key[8:].isdigit()
        for line in conversation[key]
    ]
    messages = [(user if i % 2 == 0 else assistant)(line["text"]) for i, line in enumerate(said[:240])]
    questions = [line["text"] for line in said[250:280]]

    def answers(index):
        made = memory(limit=600, services=Services(index=index, embedder=FakeEmbedder()))
        made.put_messages(messages)
        return [recalled(made, question) for question in questions], made

    exact, _ = answers(ExactIndex())
    chroma = ChromaIndex(path=tmp_path / "chroma")
    served, made = answers(chroma)
    assert served == exact
    assert retrieved(made).index.startswith("Chroma")
    chroma.close()
    shutil.rmtree(tmp_path / "chroma")
    rebuilt = ChromaIndex(path=tmp_path / "chroma")
    again = Memory.open("s", made.session.database, services=Services(index=rebuilt, embedder=FakeEmbedder()))
    assert [recalled(again, question) for question in questions] == exact
    rebuilt.close()


def test_an_index_that_does_not_answer_is_replaced_by_the_database_s_own_vectors():
    made = filled(services=Services(index="http://127.0.0.1:9", embedder=FakeEmbedder()))
    assert "violins" in recalled(made, "violins")[0]
    assert retrieved(made).degraded.startswith("Searched the database copy")


class BrokenEmbedder(FakeEmbedder):
    """Stores well, and is then unplugged."""

    broken = False

    def embed(self, texts):
        if self.broken:
            raise EmbedderError("The embedding model is missing. Install it again.")
        return super().embed(texts)


def test_without_an_embedder_keywords_still_find_and_it_is_said():
    embedder = BrokenEmbedder()
    made = filled(services=Services(index=ExactIndex(), embedder=embedder))
    embedder.broken = True
    assert "violins" in recalled(made, "violins")[0]
    assert retrieved(made).degraded == "Keyword search only. The embedding model is missing. Install it again."


def test_the_same_question_finds_the_same_turns_whatever_was_asked_before():
    made = filled()
    before = recalled(made, "cheese")
    recalled(made, "violins")
    assert recalled(made, "cheese") == before


def test_reset_leaves_nothing_to_find():
    made = filled()
    made.reset()
    made.put(user("violins"))
    made.build_context("violins")
    assert made.retrieval.stored_turns("turns") == []
    assert made.events(kinds=("retrieved",), after=made.session.status().position) == []


@pytest.mark.parametrize(
    "setting",
    [
        {"similarity_top_k": 0},
        {"retrieval_context_window": 0},
        {"similarity_threshold": 2.0},
        {"vector_weight": 0, "keyword_weight": 0},
        {"vector_weight": -1},
    ],
)
def test_impossible_settings_are_errors(setting):
    with pytest.raises(ConfigError):
        VectorMemoryBlock(name="turns", **setting)


def test_events_name_turns_and_never_copy_their_words():
    made = filled()
    made.build_context("violins")
    for record in made.events():
        if isinstance(record.event, Retrieved | VectorsStored):
            assert "violins" not in record.event.to_json()


@pytest.mark.slow
def test_a_branch_and_an_import_keep_what_their_units_say_as_if_heard_anew():
    made = filled(turns=20)
    bundle = read_bundle(write_bundle(made.session.database, made.session_id), "s.zip")
    imported = import_bundle(made.session.database, bundle)
    for session_id in (made.session_id, made.branch(15).session_id, imported):
        with made.session.database.read() as connection:
            nodes = read_nodes(connection, session_id, "turns")
            units = messages_of(connection, session_id, MessageCache(), nodes)
            kept = read_all_heard(connection, session_id)
        assert len(nodes) > 10
        assert kept.keys() == units.keys() == {node.number for node in nodes}
        assert kept_heard(list(kept.values())) == [parse_unit(units[number]) for number in kept]

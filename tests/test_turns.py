"""A chat turn as background work: stored once whatever happens, stopped, failed, interrupted, tried again."""

import re

import pytest
from engine_fakes import HashEmbedder, NoteExtractor, assistant, note, on_file, open_memory, user

from memory_core import (
    ChatMessage,
    FactExtractionMemoryBlock,
    Memory,
    ModelTimeoutError,
    Services,
    VectorMemoryBlock,
)
from memory_core.blocks import vector
from memory_core.events import ModelCalled, ReplyEnded, ReplyStarted
from memory_core.models.embedding import MiniLMEmbedder
from memory_core.models.protocols import ModelCall
from memory_core.store.database import Database
from memory_inspector.demo.conversations import MESSAGES
from memory_inspector.server import chat_turns
from memory_inspector.server.chat_turns import Unanswered
from memory_inspector.server.jobs import Job

RECORDING = [note(1), assistant("noted the first"), note(2), assistant("noted the second")]


class Stream:
    """A reply that is said piece by piece; an exception among the pieces is raised."""

    def __init__(self, pieces, on_piece):
        self.pieces, self.on_piece, self.call, self.closed = pieces, on_piece, None, False
        self.tool_calls = ()

    def __iter__(self):
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece
            self.on_piece(piece)
        self.call = ModelCall("reply", "parrot", 11, 7, 0.5, 0.25)

    def close(self):
        self.closed = True


class Parrot:
    name, offline = "parrot", True

    def __init__(self, *pieces, on_piece=lambda piece: None):
        self.pieces, self.on_piece, self.heard = pieces, on_piece, []

    def stream(self, messages, tools=()):
        self.heard.append([message.content for message in messages])
        return Stream(self.pieces, self.on_piece)


@pytest.fixture
def memory():
    return open_memory()


def said(memory):
    return [(str(message.role), message.content) for message in memory.get_all()]


def replies(memory):
    return [record.event for record in memory.events(kinds=("reply_started", "reply_ended"))]


def test_a_message_and_its_reply_are_stored_and_the_reply_is_followed(memory):
    job, model = Job("j"), Parrot("Eight ", "people")
    chat_turns.send(job, memory, model, "turn-1", "How many")
    assert said(memory) == [("user", "How many"), ("assistant", "Eight people")]
    assert job.text == "Eight people"
    assert job.progress == ("Storing your message", "Reading memory", "Waiting for the model", "Storing the reply")
    assert model.heard == [["How many"]]
    assert replies(memory) == [ReplyStarted("turn-1", 1, "parrot"), ReplyEnded("turn-1", "done")]
    called = memory.events(kinds=("model_called",))[0].event
    assert isinstance(called, ModelCalled)
    assert (called.purpose, called.input_tokens, called.output_tokens, called.cost) == ("reply", 11, 7, 0.25)


def test_a_turn_done_again_after_a_crash_adds_nothing(memory):
    for words in ("Eight people", "something else"):
        chat_turns.send(Job("j"), memory, Parrot(words), "turn-1", "How many")
    assert said(memory) == [("user", "How many"), ("assistant", "Eight people")]


def test_stopping_keeps_what_was_said_so_far(memory):
    job = Job("j")
    chat_turns.send(job, memory, Parrot("Eight ", "people", on_piece=lambda _: job.cancel.set()), "turn-1", "How many")
    assert said(memory) == [("user", "How many"), ("assistant", "Eight ")]
    assert replies(memory)[-1] == ReplyEnded("turn-1", "stopped")
    assert chat_turns.unanswered(memory, running=False) is None


def test_stopping_before_the_first_word_leaves_the_message_alone(memory):
    job = Job("j")
    job.cancel.set()
    chat_turns.send(job, memory, Parrot("Eight"), "turn-1", "How many")
    assert said(memory) == [("user", "How many")]
    assert chat_turns.unanswered(memory, running=False) is None


def test_a_failed_reply_keeps_the_message_and_nothing_of_the_reply(memory):
    failure = ModelTimeoutError("The model did not answer within 60 s.")
    with pytest.raises(ModelTimeoutError):
        chat_turns.send(Job("j"), memory, Parrot("Eig", failure), "turn-1", "How many")
    assert said(memory) == [("user", "How many")]
    assert chat_turns.unanswered(memory, running=False) == Unanswered("turn-1", "The model did not answer within 60 s.")


def test_trying_again_answers_the_same_message_once(memory):
    with pytest.raises(ModelTimeoutError):
        chat_turns.send(Job("j"), memory, Parrot(ModelTimeoutError("Nothing came.")), "turn-1", "How many")
    chat_turns.answer(Job("k"), memory, Parrot("Eight"), "turn-1+")
    assert said(memory) == [("user", "How many"), ("assistant", "Eight")]
    assert chat_turns.unanswered(memory, running=False) is None


def test_a_failed_second_try_can_be_tried_a_third_time(memory):
    with pytest.raises(ModelTimeoutError):
        chat_turns.send(Job("j"), memory, Parrot(ModelTimeoutError("First.")), "turn-1", "How many")
    with pytest.raises(ModelTimeoutError):
        chat_turns.answer(Job("k"), memory, Parrot(ModelTimeoutError("Second.")), "turn-1+")
    assert chat_turns.unanswered(memory, running=False) == Unanswered("turn-1+", "Second.")


def test_a_reply_that_was_begun_and_not_ended_is_interrupted(memory):
    memory.put(user("How many"), message_id="turn-1-user")
    memory.log.record(ReplyStarted("turn-1", 1, "parrot"))
    assert chat_turns.unanswered(memory, running=False) == Unanswered("turn-1", "interrupted")
    assert chat_turns.unanswered(memory, running=True) is None


def test_a_message_whose_reply_was_never_begun_is_interrupted_too(memory):
    chat_turns.send(Job("j"), memory, Parrot("Eight"), "turn-1", "How many")
    memory.put(user("And when"), message_id="turn-2-user")
    assert chat_turns.unanswered(memory, running=False) == Unanswered("turn-2", "interrupted")


def test_what_is_typed_into_an_agents_session_is_left_to_it_until_somebody_asks_for_rules():
    class Model(NoteExtractor):
        name, offline = "gpt-prod", False

    memory = open_memory(memory_blocks=[FactExtractionMemoryBlock(name="facts", llm=Model())])
    rules = Parrot("By rules")
    chat_turns.send(Job("j"), memory, rules, "turn-1", "How many")
    assert said(memory) == [("user", "How many")]
    left = chat_turns.unanswered(memory, running=False)
    assert left == Unanswered("turn-1", "not asked")
    chat_turns.answer(Job("k"), memory, rules, f"{left.reply}+")
    assert said(memory)[1:] == [("assistant", "By rules")]
    model = Parrot("By a model")
    model.offline = False
    chat_turns.send(Job("l"), memory, model, "turn-2", "And when")
    assert said(memory)[-1] == ("assistant", "By a model")


def test_nobody_awaits_a_reply_to_a_message_that_was_not_typed_here(memory):
    assert chat_turns.unanswered(memory, running=False) is None
    memory.put(user("put by a program"))
    assert chat_turns.unanswered(memory, running=False) is None


def test_playing_puts_the_next_turn_and_builds_its_prompt_before_the_reply(memory):
    memory.session.attach_recording(RECORDING, source="notes")
    job = Job("j")
    chat_turns.play(job, memory, turns=1, pace=0)
    assert said(memory) == [("user", RECORDING[0].content), ("assistant", "noted the first")]
    assert [record.event.queue_tokens for record in memory.events(kinds=("context_built",))] == [7]
    assert job.progress == (
        "Playing message 1 of 4",
        "A message was stored",
        "The prompt was built",
        "A message was stored",
    )


def test_playing_to_the_end_puts_every_message_once(memory):
    memory.session.attach_recording(RECORDING, source="notes")
    chat_turns.play(Job("j"), memory, turns=1, pace=0)
    chat_turns.play(Job("k"), memory, turns=None, pace=0)
    chat_turns.play(Job("l"), memory, turns=None, pace=0)
    assert [content for _, content in said(memory)] == [message.content for message in RECORDING]
    assert memory.session.recording().next_turn == ()


def deeds(memory):
    """Every event without its measured seconds; by turn, because blocks learn beside each other."""
    records = memory.events()
    return sorted((r.turn, r.actor, r.kind, re.sub(r'"seconds":[^,}]*', "", r.event.to_json())) for r in records)


@pytest.mark.slow
def test_playing_without_pauses_leaves_the_log_that_playing_turn_by_turn_leaves(tmp_path):
    def made(name, **settings):
        blocks = [FactExtractionMemoryBlock(name="facts"), VectorMemoryBlock(name="earlier", priority=2)]
        memory = Memory.from_defaults(
            "s",
            database_uri=on_file(tmp_path / name),
            memory_blocks=blocks,
            token_limit=400,
            services=Services(embedder=MiniLMEmbedder()),
            **settings,
        )
        memory.session.attach_recording(MESSAGES, source="a trip")
        return memory

    (tmp_path / "each").mkdir()
    (tmp_path / "all").mkdir()
    each, whole = made("each"), made("all", delivery_timeout=0.0)  # as on a machine that is never in time
    recording = each.session.recording()
    while recording.next_turn:  # as an agent would put them, knowing nothing of what comes
        for offset, message in enumerate(recording.next_turn):
            if offset:
                each.build_context()
            each.put(message, message_id=recording.message_id(recording.played + offset))
        recording = each.session.recording()
    chat_turns.play(Job("j"), whole, turns=None, pace=0)
    made_alike = [[deed for deed in deeds(memory) if deed[2] != "configuration_changed"] for memory in (whole, each)]
    assert made_alike[0] == made_alike[1]
    kinds = {kind for _, _, kind, _ in deeds(whole)}
    assert {"retrieved", "vectors_stored", "flush_planned", "context_built"} <= kinds


def test_what_is_foreseen_is_embedded_once_and_only_where_no_endpoint_is_asked():
    asked = []

    class Noted(HashEmbedder):
        def embed(self, texts):
            asked.extend(texts)
            return super().embed(texts)

    local, remote = Noted(), Noted()
    remote.offline = False
    for embedder in (local, remote):
        memory = open_memory(memory_blocks=[VectorMemoryBlock(name="earlier")], services=Services(embedder=embedder))
        memory.session.foresee([*RECORDING, ChatMessage(role="system", content="Be kind.")])
        vector._ahead().submit(lambda: None).result(60)
        assert memory.events(kinds=("vectors_stored",)) == []
    assert asked == [message.content for message in RECORDING]


def test_two_players_of_one_recording_store_it_once(tmp_path):
    one = open_memory(database_uri=on_file(tmp_path))
    one.session.attach_recording(RECORDING, source="notes")
    other = Memory.open(
        "s",
        Database.open(on_file(tmp_path)),
        services=Services(embedder=HashEmbedder(), extractor=NoteExtractor()),
        tokenizer_fn=str.split,
    )
    both = [one.session.recording(), other.session.recording()]
    assert both[0] == both[1]
    for memory, recording in zip((one, other), both, strict=True):
        for index, message in enumerate(recording.next_turn):
            memory.put(message, message_id=recording.message_id(index))
    assert [content for _, content in said(one)] == [message.content for message in RECORDING[:2]]


def test_a_paused_player_stops_after_the_turn_it_is_in(memory):
    memory.session.attach_recording(RECORDING, source="notes")
    job = Job("j")
    job.cancel.set()
    chat_turns.play(job, memory, turns=None, pace=1)
    assert said(memory) == []
    assert memory.session.recording().played == 0


def test_what_a_model_learns_is_not_waited_for(memory):
    class Slow(NoteExtractor):
        offline = False

    waits = []
    patient = open_memory("patient")
    for session, extractor in ((memory, Slow()), (patient, NoteExtractor())):
        session.session.services.extractor = extractor
        put = session.put_messages
        session.put_messages = lambda m, put=put, **options: (waits.append(options["wait"]), put(m, **options))[1]
        chat_turns.send(Job("j"), session, Parrot("Eight"), "turn-1", "How many")
    assert waits == [False, False, True, True]


def test_what_was_played_and_what_comes_next_show_in_the_session(memory):
    memory.session.attach_recording([assistant("welcome"), *RECORDING, user("and last")], source="notes")
    recording = memory.session.recording()
    assert (recording.played, len(recording.messages)) == (0, 6)
    assert [message.content for message in recording.next_turn] == [
        "welcome",
        RECORDING[0].content,
        "noted the first",
    ]
    chat_turns.play(Job("j"), memory, turns=2, pace=0)
    assert memory.session.recording().played == 5
    assert [message.content for message in memory.session.recording().next_turn] == ["and last"]


def test_a_session_without_a_recording_plays_nothing(memory):
    chat_turns.play(Job("j"), memory, turns=None, pace=0)
    assert (memory.session.recording(), said(memory)) == (None, [])


def test_a_reset_session_can_be_played_again(memory):
    memory.session.attach_recording(RECORDING, source="notes")
    chat_turns.play(Job("j"), memory, turns=None, pace=0)
    memory.reset()
    assert memory.session.recording().played == 0
    chat_turns.play(Job("k"), memory, turns=1, pace=0)
    assert [content for _, content in said(memory)] == [message.content for message in RECORDING[:2]]


def test_a_recording_goes_on_where_it_was_after_played_messages_were_removed():
    memory = Memory.from_defaults("s", token_limit=60)
    memory.session.attach_recording(MESSAGES, source="a trip")
    for _ in range(4):
        recording = memory.session.recording()
        for offset, message in enumerate(recording.next_turn):
            memory.put(message, message_id=recording.message_id(recording.played + offset))
    before = memory.session.recording().played
    memory.reset("archived")
    assert len(memory.session.messages()) < before
    assert memory.session.recording().played == before

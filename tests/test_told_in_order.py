"""A recording that is played to be watched shows what each message caused in the order of the log, and stops."""

from collections import Counter

import pytest
from test_forgotten import FILLER, SAID, imported

from memory_core import Database, Memory, Services, StaticMemoryBlock, VectorMemoryBlock
from memory_core.agent import loop
from memory_core.bundles.bundle import read_bundle, restore_bundle
from memory_core.events import ContextBuilt, FlushPlanned, MessageAdded
from memory_core.history.by_turn import history_of
from memory_inspector.demo.conversations import FORGOTTEN_WORDS, RECORDED_TURNS
from memory_inspector.reading.forgotten import Forgotten, forgotten
from memory_inspector.server import chat_turns
from memory_inspector.server.jobs import Job, Reveal, Stop
from memory_inspector.server.shipped_demo import BUNDLE
from memory_inspector.wording.event_sentences.event_words import words_in_log
from memory_inspector.wording.story import STORY_KINDS, story


class Watched(Job):
    """A job that notes every moment it shows."""

    def __init__(self):
        self.shown = []
        super().__init__("play-x")
        self.shown.clear()

    @property
    def reveal(self):
        return self.shown[-1] if self.shown else None

    @reveal.setter
    def reveal(self, moment):
        self.shown.append(moment)


@pytest.fixture(autouse=True)
def nobody_reads(monkeypatch):
    monkeypatch.setattr(chat_turns, "LINE_SECONDS", 0)
    monkeypatch.setattr(chat_turns, "reading_seconds", lambda message: 0)
    monkeypatch.setattr(chat_turns, "STEP_SECONDS", 0)


@pytest.fixture
def demo(tmp_path):
    database = Database.open(f"sqlite:///{tmp_path}/memory.db")
    restore_bundle(database, read_bundle(BUNDLE.read_bytes(), BUNDLE.name), "demo")
    return Memory.open("demo", database, services=Services())


def played(memory, reveal=None, **options):
    job = Watched()
    options = {"turns": None, "stops_after": RECORDED_TURNS} | options
    chat_turns.play(job, memory, pace=1, reveal=reveal, **options)
    return job


def lines_at(memory, moment):
    """The lines of the story that are on screen at a moment."""
    records = memory.log.history().upto(moment.position)
    events = [record for record in records if record.turn == records[-1].turn and record.kind in STORY_KINDS]
    return story(events, words_in_log(memory, events))[: moment.lines]


def stops(memory):
    """Every stop of the demo, with its moment, by *Continue* until the recording ends."""
    reveal = None
    while (reveal := played(memory, reveal).reveal) is not None and reveal.held is not None:
        yield reveal


def test_the_demo_stops_at_each_effect_names_only_the_first_a_first_and_stops_at_what_was_forgotten(demo):
    found = [(reveal.held, demo.session.status().turns) for reveal in stops(demo)]
    missed = Forgotten("Rui stays off meat these days, and some of us drive home.", 4)
    assert FORGOTTEN_WORDS in missed.words
    assert found == [
        (Stop("flushed"), 12),
        (Stop("learned"), 12),
        (Stop("recalled"), 12),
        (Stop("cut", first=True), 12),
        (Stop("forgotten", forgotten=missed), 16),
    ]
    assert demo.session.recording().next_turn == ()
    assert forgotten(demo, last=20) == missed
    assert forgotten(demo, last=2) is None


@pytest.mark.parametrize("turns", [None, 7])
def test_nothing_is_shown_before_its_cause(demo, turns):
    before = demo.log.history().position
    moments = [*played(demo, turns=turns, stops_after=None).shown]
    while moments[-1] is not None and moments[-1].held is not None:
        moments += played(demo, moments[-1], turns=turns, stops_after=None).shown
    history = demo.log.history()
    positions = [moment.position for moment in moments]
    assert positions == sorted(positions)
    assert positions[-1] == history.position
    flushes, cuts = 0, 0
    for record in history.after(before):
        if isinstance(record.event, FlushPlanned):
            above = next(r for r in reversed(history.upto(record.position)) if isinstance(r.event, MessageAdded))
            assert above.position in positions  # the queue is seen above its line
            turn = history_of(history.upto(above.position)).turns[record.turn]
            assert turn.queue_tokens == record.event.queue_before > record.event.history_budget
            first = next(moment for moment in moments if moment.position >= record.position)
            assert lines_at(demo, first)[-1].text.startswith(f"Flushed {record.event.messages} messages")
            flushes += 1
        if isinstance(record.event, ContextBuilt) and record.event.cuts:
            first = next(moment for moment in moments if moment.position >= record.position)
            assert first.position < history.turns[record.turn].last_position
            assert lines_at(demo, first)[-1].icon == "content_cut"
            cuts += 1
    assert (flushes, cuts) == (4, 1)


@pytest.mark.parametrize(("turns", "most"), [(None, 1), (1, 4)])
def test_lines_are_only_added_and_one_by_one_where_there_is_time_to_read(demo, turns, most):
    shown, turn = [], 0
    for moment in played(demo, turns=turns, stops_after=None).shown:
        lines, now = lines_at(demo, moment), history_of(demo.log.history().upto(moment.position)).latest_turn
        if now != turn:
            shown, turn = lines, now
        assert lines[: len(shown)] == shown
        assert len(lines) - len(shown) <= most
        shown = lines


def test_who_pauses_or_plays_to_the_end_sees_everything_at_once(demo):
    job = Watched()
    chat_turns.play(job, demo, turns=2, pace=0)
    assert set(job.shown) == {None}
    job = Watched()
    job.cancel.set()
    chat_turns.play(job, demo, turns=None, pace=1)
    assert set(job.shown) <= {None}


def test_a_stop_is_over_once_anything_else_is_recorded():
    stop = Reveal(7, 1, Stop("flushed"), until=9)
    job = Job("play-x")
    assert stop.lasts(job, 9)
    assert not stop.lasts(job, 10)
    job._finish(None, 0.0)
    assert stop.lasts(job, 9)
    assert not Reveal(7).lasts(job, 7)


@pytest.mark.parametrize(
    ("answer", "missed"),
    [
        ("I don't know what Mila eats.", Forgotten("My cat Mila eats only salmon.", 1)),
        ("Sorry, you haven’t told me that.", Forgotten("My cat Mila eats only salmon.", 1)),
        ("Mila eats salmon.", None),
    ],
)
def test_an_imported_conversation_stops_where_its_answer_lacks_what_was_said(answer, missed):
    memory = imported(*SAID, *FILLER, "What does my cat Mila eat?", answer, "Thanks.", "You are welcome.")
    reveal = played(memory, stops_after=None).reveal
    assert (reveal.held.forgotten if reveal.held else None) == missed
    if missed:
        assert memory.session.recording().played == 10
        assert played(memory, reveal, stops_after=None).reveal.held is None
    assert memory.session.recording().next_turn == ()


def test_a_turn_with_two_prompts_is_told_without_going_back(monkeypatch):
    """Another program asks for a prompt between what a message causes."""
    put = loop.put

    def put_and_ask(memory, messages, ids):
        put(memory, messages, ids)
        memory.build_context()
        memory.flush(all=True)

    monkeypatch.setattr(loop, "put", put_and_ask)
    memory = imported(*SAID, *FILLER, "I like tea.", "Noted.")
    memory.blocks.add(VectorMemoryBlock(name="turns"))
    memory.blocks.add(StaticMemoryBlock(name="rules", static_content="too long " * 40, priority=1))
    positions = [moment.position for moment in played(memory, stops_after=None).shown]
    prompts = Counter(r.turn for r in memory.log.history().after(0) if isinstance(r.event, ContextBuilt))
    assert max(prompts.values()) > 1
    assert positions == sorted(positions)

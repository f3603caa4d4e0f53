"""What the scrubber shows and where its steps lead."""

import pytest
from engine_fakes import HashEmbedder

from memory_core import ChatMessage, Memory, Services, StaticMemoryBlock, VectorMemoryBlock
from memory_inspector.server.chat_turns import PLAY
from memory_inspector.server.jobs import Job
from ui.frame.header import STEP_KINDS, place_of, steps_of, track
from ui.tab.view import View, latest_moment, turn_at


@pytest.fixture
def memory():
    services = Services(embedder=HashEmbedder())
    made = Memory.from_defaults(
        session_id="s",
        token_limit=120,
        chat_history_token_ratio=0.5,
        token_flush_size=20,
        memory_blocks=[
            StaticMemoryBlock(name="Who", static_content="The user plans a dinner by the river. " * 5, priority=0),
            VectorMemoryBlock(name="Earlier", priority=1, similarity_threshold=None, similarity_top_k=9),
        ],
        services=services,
    )
    for number in range(6):
        made.put(ChatMessage(role="user", content=f"Question {number} about the river and the dinner"))
        made.build_context()
        made.put(ChatMessage(role="assistant", content=f"Answer {number} about the river and the dinner"))
    return made


def seen(memory, *, turn=None, step=None, running=None):
    return View(memory, memory.log.history(), memory.session.status(), turn, running, step)


def test_the_track_marks_every_turn_with_a_flush_and_every_one_with_a_cut(memory):
    shown = track(seen(memory))
    turns = memory.log.history().turns
    assert (shown["turns"], shown["shown"], shown["past"]) == (6, 6, False)
    assert shown["flushes"] == tuple(number for number, turn in turns.items() if turn.flushes) != ()
    assert shown["cuts"] == tuple(number for number, turn in turns.items() if turn.cut_tokens) != ()


def test_every_step_of_a_turn_is_a_place_but_the_last_which_is_its_end(memory):
    view = seen(memory)
    positions = [
        record.position for record in memory.log.history().records if record.turn == 3 and record.kind in STEP_KINDS
    ]
    assert track(view)["steps"][2] == len(positions) > 2
    places = [place_of(view, 3, step) for step in (*range(1, len(positions) + 1), None)]
    assert places == [*((3, position) for position in positions[:-1]), (3, None), (3, None)]
    shown = [track(seen(memory, turn=3, step=step))["step"] for _, step in places]
    assert shown == [*range(1, len(positions)), None, None]


def test_the_end_of_the_latest_turn_is_the_latest_and_no_place_lies_outside(memory):
    view = seen(memory)
    asked = ((6, None), (6, 99), (99, None), (None, None), (0, None), (6, 1))
    first = steps_of(memory.log.history())[6][0]
    latest = (None, None)
    assert [place_of(view, *each) for each in asked] == [latest, latest, latest, latest, (1, None), (6, first)]


def test_a_step_inside_a_turn_shows_the_queue_as_it_stood_then(memory):
    history = memory.log.history()
    turn = history.turns[6]
    asked = next(r for r in history.records if r.turn == 6 and r.kind == "message_added")
    then = seen(memory, turn=6, step=asked.position)
    assert then.past
    assert then.then.built is None
    assert then.status_then.queue_tokens == turn.flushes[0].event.queue_before > turn.queue_tokens
    assert then.last_seq == asked.event.seq
    assert track(then)["step"] == 1


def test_while_a_turn_has_no_prompt_yet_the_turn_before_it_is_shown(memory):
    playing = Job(f"{PLAY}x")
    memory.put(ChatMessage(role="user", content="One more question"))
    begun = seen(memory, running=playing)
    assert (begun.shown_turn, begun.latest_turn, begun.between) == (6, 6, True)
    assert begun.status_then.queue_tokens == memory.log.history().turns[6].queue_tokens
    assert seen(memory).shown_turn == 7
    memory.build_context()
    told = seen(memory, running=playing)
    assert (told.shown_turn, told.between) == (7, False)
    assert told.status_then.queue_tokens == memory.session.status().queue_tokens


def test_a_job_that_builds_no_prompts_holds_nothing_back(memory):
    memory.put(ChatMessage(role="user", content="One more question"))
    history = memory.log.history()
    assert latest_moment(history, Job("flush-x")) == history.position
    assert turn_at(history, history.position) == 7

"""Compactions that an agent's calls and spans report: what was left out for a summary leaves the queue."""

import json

import pytest
from span_kit import Attached, chat, message, sent

from memory_core.engine.session import Session
from memory_inspector.recorder.otlp import LogRecord
from memory_inspector.recorder.recording import attach, record_exchange, recording
from memory_inspector.recorder.wire import Answered, read_exchange
from memory_inspector.wording.event_sentences.event_words import describe, present_words

COMPACTED = "gen_ai.conversation.compacted"
BEFORE = [("system", "Be brief."), ("user", "one"), ("assistant", "two"), ("user", "three")]
AFTER = [("system", "Be brief."), ("user", "It was about numbers."), ("user", "three")]
LEFT = ["one", "two", "four"]


@pytest.fixture
def attached():
    attached = Attached()
    attached.take(chat(BEFORE[:2], "two"), chat(BEFORE, "four", began=1))
    return attached


def left(attached):
    """The words that left the queue, if one compaction was recorded; none without one."""
    memory = attached.memory()
    flushes = [record.event.trigger for record in memory.events(kinds=["flush_planned"])]
    archived = [message.content for message in memory.get_all(status="archived")]
    assert flushes == (["compacted"] if archived else [])
    return archived


def after(began=2, events=(), attributes=None):
    """The call whose prompt was compacted."""
    span = chat(AFTER, "five", began=began)
    other = sent("", attributes or {}, events=events)
    return span | {"attributes": [*span["attributes"], *other["attributes"]], "events": other["events"]}


def with_part():
    """The same, in which the summary is a part of its own type."""
    parts = [{"type": "compaction", "id": "c", "content": AFTER[1][1]}]
    prompt = [message(*AFTER[0]), {"role": "user", "parts": parts}, message(*AFTER[2])]
    span = after()
    [prompts] = [each for each in span["attributes"] if each["key"] == "gen_ai.input.messages"]
    prompts["value"] = {"stringValue": json.dumps(prompt)}
    return span


REPORTED = {
    "an attribute": after(attributes={COMPACTED: True}),
    "an attribute as text": after(attributes={COMPACTED: "true"}),
    "an event": after(events=[(COMPACTED, {})]),
}


@pytest.mark.parametrize("span", REPORTED.values(), ids=REPORTED)
def test_what_a_compacted_prompt_leaves_out_leaves_the_queue(attached, span):
    assert attached.take(span) == []
    assert left(attached) == LEFT
    assert attached.prompts()[-2:] == [BEFORE, AFTER]


def test_a_summary_in_a_part_of_its_own_is_read_and_tells_of_the_compaction(attached):
    attached.take(with_part())
    assert left(attached) == LEFT
    assert attached.prompts()[-1] == AFTER


def test_a_log_record_of_a_call_tells_of_its_compaction(attached):
    span = after()
    attached.receiver.logged.add([LogRecord(f"{span['traceId']}:{span['spanId']}", COMPACTED, {})])
    attached.take(span)
    assert left(attached) == LEFT


def test_a_log_record_that_comes_after_its_call_tells_of_the_compaction_too(attached):
    span = after()
    attached.take(span)
    record = LogRecord(f"{span['traceId']}:{span['spanId']}", COMPACTED, {})
    attached.receiver.logged.add([record])
    assert attached.receiver.store_late([record]).spans == 0
    assert left(attached) == LEFT


@pytest.mark.parametrize("value", [False, "false", 0, None])
def test_without_a_compaction_what_an_agent_drops_stays_in_the_queue(attached, value):
    attached.take(after(attributes={} if value is None else {COMPACTED: value}))
    assert left(attached) == []


def test_a_compaction_that_another_span_reports_counts_for_the_call_that_left_messages_out(attached):
    """An agent's own span ends after its calls."""
    attached.take(after(), chat([*AFTER, ("assistant", "five"), ("user", "six")], "seven", began=3))
    attached.take(sent("invoke_agent", {"gen_ai.conversation.id": "c1"}, events=[(COMPACTED, {})], seconds=9))
    assert left(attached) == LEFT


def test_a_compaction_that_is_reported_first_counts_for_the_next_call_that_leaves_messages_out(attached):
    attached.take(sent("compact", {"gen_ai.conversation.id": "c1", COMPACTED: True}, began=1.5))
    attached.take(chat([*BEFORE, ("assistant", "four"), ("user", "more")], "yes", began=2))
    assert left(attached) == []
    attached.take(after(began=3))
    assert left(attached) == ["one", "two", "four", "more", "yes"]


def test_a_compaction_is_recorded_once_however_often_it_is_reported(attached):
    attached.take(REPORTED["an event"])
    attached.take(REPORTED["an event"], chat([*AFTER, ("assistant", "five"), ("user", "six")], "seven", began=3))
    assert left(attached) == LEFT


def test_messages_of_another_agent_in_the_session_stay_in_the_queue(attached):
    attached.take(chat([("system", "Search."), ("user", "Find it")], "found", began=1.5))
    attached.take(REPORTED["an attribute"])
    assert left(attached) == LEFT
    assert "found" in [message.content for message in attached.memory().get_all(status="active")]


def test_a_message_that_comes_back_after_a_compaction_is_the_one_that_left(attached):
    attached.take(REPORTED["an attribute"], chat([AFTER[0], ("user", "one"), ("user", "again")], "yes", began=4))
    assert attached.prompts()[-1] == [AFTER[0], ("user", "one"), ("user", "again")]
    assert [message.content for message in attached.memory().get_all()].count("one") == 1


def test_a_compaction_has_a_sentence_of_its_own_and_a_branch_goes_on_from_it(attached):
    attached.take(REPORTED["an attribute"])
    memory = attached.memory()
    [flush] = memory.events(kinds=["flush_planned"])
    assert "left out by the agent's compaction" in describe(flush.event, present_words(memory, [flush])).text
    branch = memory.branch(memory.log.history().latest_turn)
    queue = [message.content for message in branch.get_all(status="active")]
    assert queue == ["Be brief.", "three", "It was about numbers.", "five"]


BLOCK = {"type": "compaction", "content": "It was about numbers."}
WIRES = {
    "messages": (
        {"messages": [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]},
        {"messages": [{"role": "assistant", "content": [BLOCK]}, {"role": "user", "content": "three"}]},
    ),
    "responses": (
        {"input": [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]},
        {"input": [BLOCK, {"role": "user", "content": "three"}]},
    ),
}


@pytest.mark.parametrize(("endpoint", "prompts"), WIRES.items(), ids=WIRES)
def test_a_compaction_in_a_recorded_prompt_lets_the_messages_before_it_leave(endpoint, prompts):
    attached = Attached()
    session = Session(attached.database, "c1", services=attached.services)
    attach(session)
    for prompt in prompts:
        record_exchange(session, read_exchange(endpoint, json.dumps(prompt).encode(), Answered(200)))
    assert left(attached) == ["one", "two"]
    assert attached.prompts()[-1] == [("assistant", "It was about numbers."), ("user", "three")]


def test_a_streamed_compaction_is_recorded_as_the_answer_that_comes_back():
    parts = [{"type": "compaction_delta", "content": piece} for piece in ("It was ", "about numbers.")]
    events = [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "compaction", "content": None}},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in parts),
    ]
    body = b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in events)
    asked = {"messages": [{"role": "assistant", "content": [BLOCK]}]}
    exchange = read_exchange("messages", json.dumps(asked).encode(), Answered(200, body))
    assert exchange.answer == exchange.messages[0]


def test_a_failed_compaction_is_no_message():
    asked = {"messages": [{"role": "assistant", "content": [{"type": "compaction", "content": None}]}]}
    assert read_exchange("messages", json.dumps(asked).encode(), Answered(200)).messages == ()


def test_a_compaction_that_is_reported_after_words_were_forgotten_is_recorded(attached):
    attached.memory().session.forget("two")
    with recording(Session(attached.database, "c1", services=attached.services)) as to:
        to.compacted()
    assert attached.take(REPORTED["an attribute"]) == []
    assert attached.prompts()[-1] == AFTER

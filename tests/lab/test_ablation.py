"""A prompt asked again without one item: the rest is word for word what was sent, and nothing is stored."""

import pytest
from engine_fakes import user
from fakes import FakeChat
from test_playing import lived

from memory_core.agent.tools import definition_tokens
from memory_core.errors import ConfigError
from memory_core.events import Ref, spread
from memory_core.history.contexts import context_of
from memory_core.messages import ToolCallPart
from memory_core.models.offline.responder import OfflineResponder
from memory_inspector.lab.value import ask_both, question_without


@pytest.fixture
def memory():
    memory = lived("blocks", 110, [("turn", pick) for pick in (2, 1, 4, 5, 6)])
    memory.put(user("What am I allergic to?"))
    memory.build_context()
    return memory


def last(memory):
    return memory.log.history().turns[memory.log.history().latest_turn].built


def refs(memory):
    event = context_of(last(memory))
    return [ref for part in event.parts for ref in spread(part["refs"])] + [
        Ref.of("message", seq) for first, after in event.queue for seq in range(first, after + 1)
    ]


def text(messages):
    return "\n".join(message.content or "" for message in messages)


def test_a_prompt_that_is_not_altered_is_what_was_sent(memory):
    for turn in memory.log.history().turns.values():
        assert memory.log.altered_prompt(turn.built) == memory.log.prompt(turn.built).messages


def test_without_an_item_only_its_words_are_missing(memory):
    events = len(memory.events())
    for ref in refs(memory):
        if ref.kind == "day":
            continue
        question = question_without(memory, last(memory), ref)
        assert len(text(question.after)) < len(text(question.before))
        assert question.tokens[1] < question.tokens[0]
    assert len(memory.events()) == events, "nothing is recorded"


def test_what_only_one_item_said_is_not_answered_without_it_and_otherwise_when_it_is_reworded(memory):
    fact = next(ref for ref in refs(memory) if ref.kind == "fact" and "nuts" in memory.trace.words([ref])[ref])
    everything = [ref for ref in refs(memory) if ref.kind == "unit"]
    record = last(memory)
    answers = ask_both(OfflineResponder(), question_without(memory, record, fact, "The user is allergic to milk."))
    assert "nuts" in answers.before
    assert "milk" in answers.after
    assert not answers.same
    without = memory.log.altered_prompt(record, without=[fact, *everything])
    assert "nuts" not in text(without)


def test_what_cannot_be_reworded_or_is_not_there_is_refused(memory):
    unit = next((ref for ref in refs(memory) if ref.kind == "unit"), Ref.of("unit", 1))
    with pytest.raises(ConfigError, match="several messages"):
        question_without(memory, last(memory), unit, "other words")
    with pytest.raises(ConfigError, match="the same with and without"):
        question_without(memory, last(memory), Ref.of("fact", 9_999))
    assert (
        ask_both(OfflineResponder(), question_without(memory, last(memory), refs(memory)[-1]), cancelled=lambda: True)
        is None
    )


def test_an_agent_that_edits_its_memory_is_offered_its_tools_and_what_it_calls_is_told_and_not_done():
    memory = lived("self_editing", 900, [("turn", 0), ("turn", 1), ("turn", 2)])
    memory.put(user("My name is Ana, and I work at Acme."))
    memory.build_context()
    events, texts = len(memory.events()), [attached.state for attached in memory.blocks]
    ref = Ref.of("message", memory.session.messages()[0].seq)
    question = question_without(memory, last(memory), ref)
    names = [tool.name for tool in question.tools]
    assert "core_memory_append" in names
    assert question.tokens[1] > definition_tokens(question.tools, memory.session.count_tokens) > 0

    call = ToolCallPart(tool_name="core_memory_append", tool_kwargs={"label": "human", "content": "Works at Acme."})
    other = ToolCallPart(tool_name="core_memory_append", tool_kwargs={"label": "human", "content": "Is called Ana."})
    model = FakeChat([call], [other])
    answers = ask_both(model, question)
    assert model.offered == [names, names]
    assert answers.calls == ((call,), (other,))
    assert not answers.same, "no words, and other calls"
    assert ask_both(FakeChat([call], [call]), question).same
    assert (len(memory.events()), [attached.state for attached in memory.blocks]) == (events, texts)


def test_without_a_block_that_an_agent_edits_no_tools_are_offered(memory):
    assert question_without(memory, last(memory), refs(memory)[-1]).tools == ()

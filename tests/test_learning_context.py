"""Context of learning: what a learner is shown to understand messages by, and learns nothing from."""

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_core import ChatMessage, FactExtractionMemoryBlock, GraphMemoryBlock, Memory, Services
from memory_core.blocks.base import in_context
from memory_core.events import Ref
from memory_core.models.offline.fact_extraction import RuleExtractor
from memory_core.models.protocols import LearningContext, ModelCall
from memory_core.systems import ConsolidatingMemory, UserMemories
from memory_inspector.lab.comparing import model_calls
from memory_inspector.wording.event_sentences import Words, describe

SECRET = "harbour pilot"


class Chat:
    """A model that answers with what it is given, and notes what it was asked."""

    name, offline = "scripted", False

    def __init__(self, **answer):
        self.answer, self.asked = answer, []

    def ask(self, messages, answer, *, purpose):
        self.asked.append((purpose, messages[0].content, messages[1].content))
        empty = {name: [] for name, field in answer.model_fields.items() if field.is_required()}
        given = {name: value for name, value in self.answer.items() if name in answer.model_fields}
        return answer.model_validate(empty | given), ModelCall(purpose, "scripted", 1, 1, 0.0)

    def stream(self, messages, tools=()):
        raise AssertionError("not asked for text")

    def shown(self, purpose="extract"):
        return [data for asked_for, _, data in self.asked if asked_for == purpose]


def user(text):
    return ChatMessage(role="user", content=text)


def assistant(text):
    return ChatMessage(role="assistant", content=text)


def facts_memory(chat, scope="session", **config):
    block = FactExtractionMemoryBlock(name="facts", llm=chat, scope=scope, deliver_on="turn")
    return Memory.from_defaults(user_id="mara", memory_blocks=[block], **config)


def run(memory, *messages):
    memory.put_messages(messages, end_turn=True)


def extracted(memory, kind="facts_extracted"):
    return [record.event for record in memory.events() if record.kind == kind]


def test_a_user_block_sees_the_question_and_the_turn_before_and_learns_from_the_answer_alone():
    chat = Chat()
    memory = facts_memory(chat, "user")
    run(memory, user("My cousin Signe moved out."), assistant("Where to?"))
    run(memory, assistant("Does she have a boat?"), user("No, she sold it."), assistant("I see."))
    assert chat.shown()[0].endswith(": My cousin Signe moved out.\n[2] assistant (context): Where to?\n</transcript>")
    lines = chat.shown()[1].splitlines()[1:-1]
    assert lines[0] == "[2] user (context): My cousin Signe moved out."
    assert lines[1:3] == ["[3] assistant (context): Where to?", "[4] assistant (context): Does she have a boat?"]
    assert (lines[3][:8], lines[3].endswith(": No, she sold it.")) == ("[1] user", True)
    assert lines[4] == "[5] assistant (context): I see."
    assert "marked as context" in chat.asked[1][1]


def test_with_a_setting_of_0_nothing_is_shown_beside():
    chat = Chat()
    memory = facts_memory(chat, "user", learning_context=0)
    run(memory, user("My cousin Signe moved out."))
    run(memory, assistant("Does she have a boat?"), user("No, she sold it."))
    assert "context" not in "".join(part for asked in chat.asked for part in asked[1:])
    assert [(event.context, event.context_tokens, event.shown) for event in extracted(memory)] == [(0, 0, 0)] * 2


@pytest.mark.parametrize("scope", ["session", "user"])
def test_a_fact_whose_source_is_context_is_refused_and_counted(scope):
    chat = Chat()
    memory = facts_memory(chat, scope)
    run(memory, user("My cousin Signe moved out."))
    chat.answer = {"facts": [{"text": "Signe moved out", "message": 2}, {"text": "Signe sold a boat", "message": 1}]}
    run(memory, user("She sold her boat."))
    assert [fact.text for fact in memory.facts.read("facts")] == ["Signe sold a boat"]
    [refused] = extracted(memory, "proposal_refused")
    assert (refused.what, refused.number, "context only" in refused.reason) == ("fact", 1, True)


def test_a_relation_whose_source_is_context_is_refused_and_counted():
    chat = Chat()
    memory = Memory.from_defaults(memory_blocks=[GraphMemoryBlock(name="graph", llm=chat, deliver_on="turn")])
    run(memory, user("Signe is my cousin."))
    chat.answer = {
        "relations": [
            {"subject": "Signe", "predicate": "cousin of", "object": "The user", "message": 2},
            {"subject": "Signe", "predicate": "lives in", "object": "Bodo", "message": 1},
        ]
    }
    run(memory, user("She lives in Bodo."))
    assert "[2] user (context): Signe is my cousin." in chat.shown("relate")[1]
    assert [relation.predicate for relation in memory.graph.relations()] == ["lives in"]
    assert [event.context for event in extracted(memory, "relations_extracted")] == [0, 1]
    assert "context only" in extracted(memory, "proposal_refused")[0].reason


def test_the_event_and_its_sentence_say_what_was_shown_and_the_price_includes_it():
    chat = Chat(facts=[{"text": "Signe is the user's cousin", "message": 1}])
    memory = ConsolidatingMemory("mara", services=Services().with_chat(chat))
    memory.add("My cousin Signe moved out.")
    chat.answer = {}
    memory.add("She lives in Bodo.")
    first, event = extracted(memory.memory)
    assert (first.context, first.shown, first.context_tokens) == (0, 0, 0)
    assert (event.context, event.shown, event.context_tokens > 8) == (1, 1, True)
    line = describe(event, Words({}, {}, {})).text
    assert f"with 1 message and 1 known fact as context ({event.context_tokens} tokens)" in line
    read = model_calls(memory.memory)
    sizes = [delivery.tokens for delivery in memory.memory.session.deliveries()]
    assert read[2][0] == sizes[1] + event.context_tokens


def test_known_facts_are_shown_where_each_found_fact_is_decided_on_but_not_those_in_quarantine():
    chat = Chat(facts=[{"text": "Signe is the user's cousin"}, {"text": f"Signe is a {SECRET}"}])
    memory = ConsolidatingMemory("mara", services=Services().with_chat(chat))
    memory.add("My cousin Signe moved out.")
    [secret] = [fact for fact in memory.get_all() if SECRET in fact.text]
    memory.memory.session.quarantine(Ref.of("fact", secret.id))
    chat.answer = {}
    memory.add("She lives in Bodo.")
    assert "<known>\n- Signe is the user's cousin\n</known>" in chat.shown()[1]
    assert SECRET not in chat.shown()[1]
    assert "Note what they state, also if it is known." in chat.asked[-1][1]


def test_a_message_in_quarantine_is_no_context():
    chat = Chat()
    memory = facts_memory(chat, "user")
    run(memory, user(f"Signe is a {SECRET}."))
    memory.session.quarantine(SECRET)
    run(memory, user("She lives in Bodo."))
    assert SECRET not in chat.shown()[1]


def test_what_is_erased_while_a_model_reads_it_as_context_is_not_learned_from():
    chat = Chat(facts=[])
    memory = facts_memory(chat, "user")
    run(memory, user(f"Signe is a {SECRET}."))
    plain = chat.ask

    def erase_meanwhile(messages, answer, *, purpose):
        if SECRET in messages[1].content:
            chat.answer = {"facts": [{"text": f"Signe, a {SECRET}, lives in Bodo", "message": 1}]}
            memory.session.forget(Ref("m1"))
        else:
            chat.answer = {"facts": [{"text": "She lives in Bodo", "message": 1}]}
        return plain(messages, answer, purpose=purpose)

    chat.ask = erase_meanwhile
    run(memory, user("She lives in Bodo."))
    assert [fact.text for fact in memory.facts.read("facts")] == ["She lives in Bodo"]


def test_a_turn_with_ten_tool_calls_between_question_and_answer_shows_the_question():
    chat = Chat()
    memory = facts_memory(chat, "user")
    tools = [
        ChatMessage(role="tool", content=f"Row {number} " * 400, additional_kwargs={"tool_call_id": str(number)})
        for number in range(10)
    ]
    run(memory, user("Look up my boats."), *tools, assistant("Is the blue one yours?"))
    run(memory, user("Yes, it is."))
    assert "(context): Is the blue one yours?" in chat.shown()[1]
    assert "(context): Look up my boats." in chat.shown()[1]
    assert "Row" not in chat.shown()[1]


def test_of_a_long_message_before_the_turn_its_end_is_shown():
    chat = Chat()
    memory = facts_memory(chat, "user", token_limit=200_000)
    run(memory, user("Tell me about boats."), assistant("Boats float. " * 15_000 + "Do you own one?"))
    run(memory, user("Two."))
    shown = chat.shown()[1]
    assert "Do you own one?" in shown
    assert memory.session.count_tokens(shown) < 700


@pytest.mark.slow
@settings(max_examples=30)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 60)), min_size=1, max_size=12), st.integers(0, 60))
def test_what_is_shown_beside_never_passes_the_setting_and_is_never_what_is_learned_from(told, size):
    chat = Chat()
    memory = facts_memory(chat, "user", learning_context=size)
    for number, (long, words) in enumerate(told):
        run(memory, user(f"Thing {number}. " + "word " * words * (5 if long else 1)), assistant(f"Reply {number}."))
    for number, (event, shown) in enumerate(zip(extracted(memory), chat.shown(), strict=True)):
        lines = shown.splitlines()
        beside = [line for line in lines if " (context): " in line]
        assert event.context == len(beside)
        assert sum(memory.session.count_tokens(line.partition("(context): ")[2]) for line in beside) <= size
        assert not any(f"Thing {number}." in line for line in beside)


@pytest.mark.parametrize("size", [0, 600])
def test_a_turn_takes_as_many_calls_with_context_as_without(size):
    chat = Chat(facts=[{"text": "The user sails", "message": 1}], summary="The user sails.", text="The user sails.")
    memory = UserMemories("mara", services=Services().with_chat(chat), summaries=False, learning_context=size)
    for text in ("I sail.", "On Sundays.", "With Signe."):
        memory.add_run(text, "Nice.")
    assert [purpose for purpose, _, _ in chat.asked].count("extract") == 3


def test_a_long_delivery_shows_each_piece_the_one_before(monkeypatch):
    monkeypatch.setattr("memory_core.blocks.base.CALL_TOKENS", 12)
    chat = Chat()
    memory = facts_memory(chat)
    run(memory, user("My cousin Signe moved out of her house."), assistant("Where did she go, and when?"))
    first, second = chat.shown()
    assert "(context): Where did she go" in first
    assert "(context): My cousin Signe" in second


def test_a_piece_without_context_is_not_shown_that_of_the_piece_before():
    before = LearningContext(((0, user("Who is Ana?")),))
    learner, shown = in_context(RuleExtractor().with_context(before), SimpleNamespace(context_of=lambda piece: []), [])
    assert (learner.context, shown) == (LearningContext(), [])

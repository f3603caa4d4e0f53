"""The responder without a model: quotes the context that it is given, or says that it does not know."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from memory_core.errors import ModelRequestError
from memory_core.messages import ChatMessage
from memory_core.models.offline.fact_extraction import RuleExtractor
from memory_core.models.offline.responder import OfflineResponder
from memory_core.models.protocols import ChatModel, LearningContext

MEMORY = """<memory>
<instructions>
You help Sam plan a dinner. Never book anything.
</instructions>
<facts>
<fact>The user's name is Sam</fact>
<fact>Ana is the user's sister</fact>
<fact>Ana is allergic to nuts</fact>
<fact>The dinner is on 14 March</fact>
<fact>The budget is under 300 euros altogether</fact>
<fact>Rui is Ana's brother</fact>
<fact>Rui can bring the wine</fact>
<fact>The user lives in Porto</fact>
<fact>Ana lives in Braga</fact>
</facts>
<earlier>
<message role='user'>Ana loves jazz, so live music is a plus.</message>
<message role='assistant'>Rui eats fish and the guests are 12.</message>
</earlier>
</memory>"""


def reply(text, *, before=(), memory=MEMORY):
    messages = [ChatMessage(role="system", content=memory), *before, ChatMessage(role="user", content=text)]
    return "".join(OfflineResponder().stream(messages))


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is Ana allergic to?", "From memory: “Ana is allergic to nuts”."),
        ("When is the dinner?", "From memory: “The dinner is on 14 March”."),
        ("How much can we spend?", "From memory: “The budget is under 300 euros altogether”."),
        ("What is the budget?", "From memory: “The budget is under 300 euros altogether”."),
        ("Where do I live?", "From memory: “The user lives in Porto”."),
        ("What's my name?", "From memory: “The user's name is Sam”."),
        ("Who brings the wine?", "From memory: “Rui can bring the wine”."),
        ("What music does Ana like?", "From memory: “Ana loves jazz, so live music is a plus”."),
        ("Remind me who brings wine before we fix the menu?", "From memory: “Rui can bring the wine”."),
        ("Tell me about Rui", "From memory: “Rui can bring the wine”; “Rui is Ana's brother”."),
        ("What do you know about me?", "From memory: “The user lives in Porto”; “Ana is the user's sister”."),
    ],
)
def test_a_question_is_answered_from_memory(question, answer):
    assert reply(question) == answer


@pytest.mark.parametrize(
    "question",
    [
        "What can Rui eat?",  # the assistant's own words are no source, and bringing wine is no answer
        "Where do I work?",
        "What is the capital of France?",
        "When does the train leave?",
        "How many guests are coming?",
        "When is Ana coming?",
        "Where does my sister live?",  # two facts would have to be joined
        "What?",
    ],
)
def test_what_nothing_answers_is_not_known(question):
    assert reply(question) == "I don't know. Nothing in memory answers that."


def test_without_any_memory_nothing_is_known():
    assert reply("When is the dinner?", memory="Be brief.").startswith("I don't know.")


def test_recent_words_of_the_user_are_a_source_and_newer_than_memory():
    before = [
        ChatMessage(role="user", content="The cake comes from Padaria Ribeiro."),
        ChatMessage(role="assistant", content="The cake comes from Lidl."),
    ]
    assert reply("Where does the cake come from?", before=before) == (
        "From memory: “The cake comes from Padaria Ribeiro”."
    )
    assert "15 March" in reply(
        "When is the dinner?", before=[ChatMessage(role="user", content="The dinner is on 15 March.")]
    )


def test_memory_in_the_user_message_is_memory_and_not_the_question():
    messages = [ChatMessage(role="user", content=f"{MEMORY}\nWhen is the dinner?")]
    assert "".join(OfflineResponder().stream(messages)) == "From memory: “The dinner is on 14 March”."


def test_the_newest_of_equal_answers_comes_first():
    before = [ChatMessage(role="user", content="The dinner is on 15 March.")]
    assert reply("When is the dinner?", before=before).startswith("From memory: “The dinner is on 15 March”")


def test_former_values_are_no_answer():
    memory = "<memory>\n<fact>The user lives in Porto</fact> <former>until turn 2</former>\n</memory>"
    assert reply("Where do I live?", memory=memory).startswith("I don't know.")


def test_a_statement_is_acknowledged_with_the_facts_that_rules_read_in_it():
    assert reply("Ana is allergic to nuts and it is serious.") == "Noted: “Ana is allergic to nuts”."
    assert reply("I live in Porto and I like tea.") == "Noted: “The user lives in Porto”; “The user likes tea”."


ONLY = "Without a language model, I only answer questions, from memory."


@pytest.mark.parametrize("words", ["Hello!", "Thanks a lot!", "Book a table", "The weather, oh well.", ""])
def test_whatever_is_neither_question_nor_fact_is_answered_with_what_the_rules_can_do(words):
    assert reply(words) == ONLY


def test_no_messages_are_no_question():
    assert "".join(OfflineResponder().stream([])) == ONLY


def test_the_reply_comes_word_by_word_and_the_call_after_it():
    stream = OfflineResponder().stream([ChatMessage(role="user", content="I like tea")])
    assert stream.call is None
    assert list(stream) == ["Noted: ", "“The ", "user ", "likes ", "tea”."]
    call = stream.call
    assert (call.purpose, call.input_tokens, call.output_tokens, call.cost) == ("reply", None, None, None)


def test_closing_ends_the_reply_and_leaves_no_call():
    stream = OfflineResponder().stream([ChatMessage(role="user", content="I like tea")])
    pieces = iter(stream)
    assert next(pieces) == "Noted: "
    stream.close()
    assert (list(pieces), stream.call, stream.tool_calls) == ([], None, ())


def test_it_says_what_it_is_and_gives_no_structured_answers():
    responder = OfflineResponder()
    assert (responder.name, responder.offline) == ("Offline: rules, not a language model", True)
    assert isinstance(responder, ChatModel)
    with pytest.raises(ModelRequestError, match="need a language model"):
        responder.ask([], BaseModel, purpose="extract")


WORDS = st.sampled_from(
    ["Ana", "Rui", "the user", "I", "lives", "is", "in Porto", "the dinner", "on 14 March", "300 euros"]
)
LINES = st.lists(st.lists(WORDS, min_size=1, max_size=5).map(" ".join), max_size=6)


@given(LINES, LINES, WORDS)
def test_nothing_is_answered_but_what_the_prompt_holds(facts, said, about):
    memory = f"<memory>\n{''.join(f'<fact>{fact}</fact>' for fact in facts)}\n</memory>"
    before = [ChatMessage(role="user", content=words) for words in said]
    answer = reply(f"What about {about}?", memory=memory, before=before)
    quoted = re.findall("“([^”]*)”", answer)
    assert set(quoted) <= set(facts + said)
    assert bool(quoted) is answer.startswith("From memory: ") is not answer.startswith("I don't know.")
    assert len(quoted) <= 2


def test_a_very_long_context_is_answered_too():
    text = "The cake comes from Padaria Ribeiro. " * 20_000
    assert "Padaria" in reply("Where does the cake come from?", before=[ChatMessage(role="user", content=text)])


def test_a_long_statement_waits_for_a_person_and_is_not_dropped():
    told = "I live in a house with " + " and ".join(f"room {number} for guests" for number in range(12)) + "."
    [found] = RuleExtractor().extract([ChatMessage(role="user", content=told)], known=()).facts
    assert (len(found.text) > 200, found.doubtful) == (True, True)


def told(*texts):
    """The facts of a conversation, of which every second message is the assistant's."""
    roles = ("user", "assistant")
    messages = [ChatMessage(role=roles[number % 2], content=text) for number, text in enumerate(texts)]
    return [fact.text for fact in RuleExtractor().extract(messages, known=()).facts]


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (("My cousin Signe visited me.", "I see.", "She lives in Bodo."), True),
        (("My cousin Signe visited me.", "Did Tor come, too?", "She lives in Bodo."), False),
        (("My brother Tor visited me.", "I see.", "She lives in Bodo."), False),
        (("Signe and Tor visited me.", "I see.", "She lives in Bodo."), False),
        (("My cousin Signe visited me.", "I see.", "I sail.", "Nice.", "She lives in Bodo."), False),
    ],
)
def test_she_is_the_only_person_of_the_message_before_or_nobody(texts, found):
    assert any("lives in Bodo" in fact for fact in told(*texts)) is found


def test_she_is_a_person_of_the_context_too():
    context = LearningContext(((0, ChatMessage(role="user", content="My cousin Signe visited me.")),))
    learned = (
        RuleExtractor()
        .with_context(context)
        .extract([ChatMessage(role="user", content="She lives in Bodo.")], known=())
    )
    assert [(fact.text, fact.source) for fact in learned.facts] == [("Signe lives in Bodo", 0)]

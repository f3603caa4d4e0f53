"""The responder without a model: answers from the context it is given, or says that it does not know."""

import threading

import pytest
from pydantic import BaseModel

from memory_core.errors import ConfigError, ModelRequestError
from memory_core.messages import ChatMessage
from memory_core.models.offline.extractor import RuleExtractor
from memory_core.models.offline.responder import OfflineResponder, second_person
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
        ("What is Ana allergic to?", "From what I remember: Ana is allergic to nuts."),
        ("When is the dinner?", "From what I remember: the dinner is on 14 March."),
        ("How much can we spend?", "From what I remember: the budget is under 300 euros altogether."),
        ("What is the budget?", "From what I remember: the budget is under 300 euros altogether."),
        ("Where do I live?", "From what I remember: you live in Porto."),
        ("Where does my sister live?", "From what I remember: Ana lives in Braga."),
        ("What's my name?", "From what I remember: your name is Sam."),
        ("Who brings the wine?", "From what I remember: Rui can bring the wine."),
        ("What music does Ana like?", "Earlier you said: “Ana loves jazz, so live music is a plus.”"),
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
    ],
)
def test_what_nothing_answers_is_not_known(question):
    assert reply(question) == f'I don\'t know. Nothing I remember answers "{question}"'


def test_without_any_memory_nothing_is_known():
    assert reply("When is the dinner?", memory="Be brief.").startswith("I don't know.")


def test_recent_words_of_the_user_are_a_source_and_newer_than_memory():
    before = [
        ChatMessage(role="user", content="The cake comes from Padaria Ribeiro."),
        ChatMessage(role="assistant", content="The cake comes from Lidl."),
    ]
    assert reply("Where does the cake come from?", before=before) == (
        "Earlier you said: “The cake comes from Padaria Ribeiro.”"
    )
    assert "15 March" in reply(
        "When is the dinner?", before=[ChatMessage(role="user", content="The dinner is on 15 March.")]
    )


def test_memory_in_the_user_message_is_memory_and_not_the_question():
    messages = [ChatMessage(role="user", content=f"{MEMORY}\nWhen is the dinner?")]
    assert "".join(OfflineResponder().stream(messages)) == "From what I remember: the dinner is on 14 March."


def test_a_statement_is_acknowledged_in_the_second_person():
    assert reply("Ana is allergic to nuts and it is serious.") == "Noted: Ana is allergic to nuts."
    assert reply("I live in Porto and I like tea.") == "Noted: you live in Porto; you like tea."
    assert reply("Rui stays off meat these days.") == "Noted: Rui stays off meat these days."
    assert reply("I parked behind my church.") == "Noted: you parked behind your church."


def test_greetings_and_thanks_are_returned():
    assert reply("Hello!") == "Hello, Sam. What would you like to talk about?"
    assert reply("Hi there", memory="") == "Hello. What would you like to talk about?"
    assert reply("Thanks a lot!") == "You're welcome."


def test_a_request_it_cannot_carry_out_is_declined():
    assert reply("Book a table").startswith("I cannot do that: I answer by rules, without a language model")


def test_no_messages_are_answered_with_a_greeting():
    stream = OfflineResponder().stream([])
    assert "".join(stream) == "Hello. What would you like to talk about?"


def test_the_reply_comes_word_by_word_and_the_call_after_it():
    stream = OfflineResponder().stream([ChatMessage(role="user", content="Hello")])
    assert stream.call is None
    assert list(stream) == ["Hello. ", "What ", "would ", "you ", "like ", "to ", "talk ", "about?"]
    call = stream.call
    assert (call.purpose, call.input_tokens, call.output_tokens, call.cost) == ("reply", None, None, None)


def test_closing_ends_the_pause_between_words():
    stream = OfflineResponder(pace_seconds=50).stream([ChatMessage(role="user", content="Hello")])
    pieces = iter(stream)
    assert next(pieces) == "Hello. "
    threading.Timer(0.05, stream.close).start()
    assert (list(pieces), stream.call) == ([], None)


def test_it_says_what_it_is_and_gives_no_structured_answers():
    responder = OfflineResponder()
    assert (responder.name, responder.offline) == ("Offline: rules, not a language model", True)
    assert isinstance(responder, ChatModel)
    with pytest.raises(ModelRequestError, match="need a language model"):
        responder.ask([], BaseModel, purpose="extract")
    with pytest.raises(ConfigError, match="pace_seconds=-1"):
        OfflineResponder(pace_seconds=-1)


@pytest.mark.parametrize(
    ("fact", "said"),
    [
        ("The user lives in Porto", "you live in Porto"),
        ("The user does not like tea", "you do not like tea"),
        ("The user has always loved jazz", "you have always loved jazz"),
        ("The user no longer works at Acme", "you no longer work at Acme"),
        ("The user's name is Sam", "your name is Sam"),
        ("Ana is the user's sister", "Ana is your sister"),
        ("The dinner is on 14 March.", "the dinner is on 14 March"),
    ],
)
def test_a_fact_about_the_user_is_said_to_the_user(fact, said):
    assert second_person(fact) == said


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

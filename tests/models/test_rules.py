"""What the offline rules learn, and above all what they do not."""

import time

import pytest

from memory_core.messages import ChatMessage
from memory_core.models.base import FactExtractor
from memory_core.models.clauses import clauses, sentences
from memory_core.models.grammar import parse
from memory_core.models.rules import RuleExtractor, facts_in


def learned(text):
    return [fact.text for fact in RuleExtractor().extract([ChatMessage(role="user", content=text)], known=()).facts]


@pytest.mark.parametrize(
    ("said", "facts"),
    [
        ("Hello, my name is Emily. Nice to meet you.", ["The user's name is Emily"]),
        ("Hi, I'm Sam and I live in Porto.", ["The user's name is Sam", "The user lives in Porto"]),
        ("Call me Lulu", ["The user's name is Lulu"]),
        ("I'm 34.", ["The user is 34 years old"]),
        ("I come from Italy. I'm Italian.", ["The user comes from Italy", "The user is Italian"]),
        ("I moved to Berlin", ["The user moved to Berlin"]),
        ("I work as a nurse at St. Mary's hospital.", ["The user works as a nurse at St. Mary's hospital"]),
        ("I'm a software engineer.", ["The user is a software engineer"]),
        ("I've been studying Dutch since May.", ["The user has been studying Dutch since May"]),
        ("My sister Ana lives in Braga.", ["Ana is the user's sister", "Ana lives in Braga"]),
        ("Ana's brother Rui likes fish", ["Rui is Ana's brother", "Rui likes fish"]),
        ("Rui is Ana's brother", ["Rui is Ana's brother"]),
        ("My wife's name is Julia.", ["Julia is the user's wife"]),
        ("I have a dog called Rex.", ["Rex is the user's dog"]),
        ("I have two kids.", ["The user has two kids"]),
        ("I love jazz, because it calms me down.", ["The user loves jazz"]),
        ("I like tea but I hate coffee.", ["The user likes tea", "The user hates coffee"]),
        ("I don't like spicy food!", ["The user does not like spicy food"]),
        ("My favourite colour is blue", ["The user's favourite colour is blue"]),
        ("Ana is allergic to nuts", ["Ana is allergic to nuts"]),
        ("Ana's allergic to nuts and it is serious.", ["Ana is allergic to nuts"]),
        ("I'm vegetarian. I can't eat gluten.", ["The user is vegetarian", "The user cannot eat gluten"]),
        ("I have asthma", ["The user has asthma"]),
        ("The dinner is on 14 March", ["The dinner is on 14 March"]),
        ("Dinner is at 8 pm.", ["The dinner is at 8 pm"]),
        ("Actually, the dinner has been moved to 15 March.", ["The dinner is on 15 March"]),
        ("The table is booked for 8 p.m. Sam pays the bill.", ["The table is booked for 8 p.m", "Sam pays the bill"]),
        ("My birthday is on 3 May", ["The user's birthday is on 3 May"]),
        ("Keep it under 300 euros altogether", ["The budget is under 300 euros altogether"]),
        ("We can't spend more than 300 euros", ["The budget is at most 300 euros"]),
        ("At most 12 people", ["The limit is at most 12 people"]),
        ("No later than 10 pm, please.", ["The limit is no later than 10 pm"]),
        ("I own a red bicycle", ["The user owns a red bicycle"]),
        (
            "I have an appointment with Dr. Lee on Monday at 3 pm.",
            ["The user has an appointment with Dr. Lee on Monday at 3 pm"],
        ),
        ("Remember that the door code is 4711.", ["The door code is 4711"]),
        ("Please remember that Ana is allergic to nuts", ["Ana is allergic to nuts"]),
        ("I went to Lisbon last weekend.", ["The user went to Lisbon"]),
        ("I don't live in Porto any more", ["The user does not live in Porto any more"]),
        ("I no longer work at Acme", ["The user no longer works at Acme"]),
        ("I used to smoke.", ["The user used to smoke"]),
        ("I recently read a novel, it was long.", ["The user read a novel"]),
        ("Dinner is at 8:30 pm on Sunday", ["The dinner is at 8:30 pm on Sunday"]),
        ("I'm planning a trip to New Zealand", ["The user is planning a trip to New Zealand"]),
        ("I live in Porto, do you know it?", ["The user lives in Porto"]),
        ("Always answer in English.", ["The user asks: always answer in English"]),
    ],
)
def test_what_is_stated_is_learned_in_one_form(said, facts):
    assert learned(said) == facts


@pytest.mark.parametrize(
    "said",
    [
        "Rui stays off meat these days",
        "Do I like tea?",
        "Is Ana allergic to nuts?",
        "What if I lived in Rome",
        "If I lived in Paris, I would eat snails.",
        "I would like a table for two.",
        "I'd love a dog",
        "Maybe I live in a dream",
        "I might be allergic to nuts",
        "Imagine I am a pirate.",
        'She said "I live in Paris".',
        '"I live in Paris," she said.',
        "My friend told me that I am a genius",
        "Ana said she likes tea",
        "> I live in Paris",
        "```\nI live in Paris\n```",
        "I have a question",
        "I like it",
        "I enjoy chatting with you",
        "I love your advice",
        "She likes jazz",
        "It is on 15 March",
        "The weather is nice today",
        "Thank you for the suggestions",
        "Always here to help",
        "Hiking is an awesome way to bond",
        "I love how they can fly",
        "I'm working on it",
        "I'm a huge fan of this genre",
        "",
        "Is it 3.50? I'm fine.",
    ],
)
def test_what_states_nothing_is_not_learned(said):
    assert learned(said) == []


def test_she_and_it_are_resolved_only_when_one_person_or_thing_was_named():
    assert learned("Ana is vegan. She likes jazz.") == ["Ana is vegan", "Ana likes jazz"]
    assert learned("My mother lives in Rome. She is a teacher.") == [
        "The user's mother lives in Rome",
        "The user's mother is a teacher",
    ]
    assert learned("Ana is vegan. Rui is diabetic. She likes jazz.") == ["Ana is vegan", "Rui is diabetic"]
    assert learned("The dinner moved. It's on 15 March now.") == ["The dinner is on 15 March"]


def test_only_the_user_is_believed_and_the_source_is_the_message_s_index():
    messages = [
        ChatMessage(role="system", content="I live in Oslo"),
        ChatMessage(role="assistant", content="I live in Rome"),
        ChatMessage(role="user", content="I live in Porto"),
        ChatMessage(role="tool", content="The dinner is on 14 March"),
        ChatMessage(role="user", content="I live in Porto. I like tea."),
    ]
    facts = RuleExtractor().extract(messages, known=["The user likes tea."]).facts
    assert [(fact.text, fact.category, fact.source, fact.slot) for fact in facts] == [
        ("The user lives in Porto", "personal", 2, "user.home")
    ]


def test_what_can_hold_one_value_has_a_slot():
    about = "My name is Sam. I'm 34. I moved to Berlin. I work as a nurse."
    plans = "The dinner is on 14 March. Keep it under 300 euros."
    facts = RuleExtractor().extract([ChatMessage(role="user", content=f"{about} {plans}")], known=()).facts
    assert [fact.slot for fact in facts] == [
        "user.name",
        "user.age",
        "user.home",
        "user.job",
        "dinner.date",
        "budget",
    ]
    assert [fact.slot for fact in facts_in("Ana lives in Braga. Ana likes jazz.")] == ["ana.home", None]


def test_a_denial_does_not_displace_what_is_stated_beside_it():
    text = "I moved to Berlin. I don't live in Porto any more."
    facts = RuleExtractor().extract([ChatMessage(role="user", content=text)], known=()).facts
    assert [(fact.text, fact.slot) for fact in facts] == [
        ("The user moved to Berlin", "user.home"),
        ("The user does not live in Porto any more", None),
    ]


def test_categories_are_those_of_the_seam():
    texts = {
        "I'm 34": "personal",
        "I like tea": "preference",
        "The dinner is on 14 March": "plan",
        "My sister Ana": "relationship",
        "I work as a nurse": "work",
        "I'm vegetarian": "health",
        "Keep it under 300 euros": "constraint",
        "I went to Lisbon": "other",
    }
    assert {said: next(facts_in(said)).category for said in texts} == texts


def test_sentences_end_neither_in_numbers_nor_in_abbreviations():
    text = 'Dr. Lee costs 3.50 euros, e.g. for J. Smith. We meet at 7 p.m. Ana comes. "Go. Now." is a film.\n1. A list'
    assert list(sentences(text)) == [
        "Dr. Lee costs 3.50 euros, e.g. for J. Smith.",
        "We meet at 7 p.m.",
        "Ana comes.",
        '"Go. Now." is a film.',
        "A list",
    ]


def test_clauses_are_cut_where_another_subject_begins():
    assert list(clauses("I'm Sam and my sister Ana is vegan, so we need care; she likes salt and pepper.")) == [
        "I'm Sam",
        "my sister Ana is vegan",
        "we need care",
        "she likes salt and pepper",
    ]


def test_a_clause_of_unknown_shape_is_no_statement():
    assert parse("Rui stays off meat these days") is None
    assert parse("when I lived in Rome") is None
    assert parse("Movies can take me away") is None


@pytest.mark.parametrize(
    "text",
    [
        "a" * 1_000_000,
        '"' * 1_000_000,
        "`" * 1_000_000,
        " " * 1_000_000,
        "My " * 330_000,
        "I live in " * 100_000,
        "Ana's " * 160_000,
        "keep it under " * 70_000,
        "I like " + "very " * 200_000,
        "I have a " * 110_000,
        "' a" * 330_000,
    ],
    ids=lambda text: text[:9],
)
def test_a_megabyte_without_an_end_is_read_in_linear_time(text):
    """Processor time, with a hundredfold of what it takes: quadratic reading would need minutes."""
    started = time.process_time()
    learned(text)
    assert time.process_time() - started < 30


def test_the_extractor_says_what_it_is():
    extractor = RuleExtractor()
    assert (extractor.name, extractor.offline, isinstance(extractor, FactExtractor)) == ("offline rules", True, True)

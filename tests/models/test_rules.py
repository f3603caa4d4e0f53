"""What the offline rules learn, and above all what they do not."""

import time

import pytest

from memory_core.messages import ChatMessage
from memory_core.models.offline.fact_extraction import RuleExtractor, facts_in
from memory_core.models.offline.grammar import parse
from memory_core.models.offline.sentences import clauses, only_asks, sentences
from memory_core.models.protocols import FactExtractor, NothingFound
from memory_core.planning.slots import HOME, Slot


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
            "I have an appointment with Dr. Lee on 4 May at 3 pm.",
            ["The user has an appointment with Dr. Lee on 4 May at 3 pm"],
        ),
        ("Remember that the door code is 4711.", ["The door code is 4711"]),
        ("Please remember that Ana is allergic to nuts", ["Ana is allergic to nuts"]),
        ("I went to Lisbon last weekend.", ["The user went to Lisbon"]),
        ("I don't live in Porto any more", ["The user does not live in Porto any more"]),
        ("I no longer work at Acme", ["The user no longer works at Acme"]),
        ("I used to smoke.", ["The user used to smoke"]),
        ("I recently read a novel, it was long.", ["The user read a novel"]),
        ("Dinner is at 8:30 pm on 3 May", ["The dinner is at 8:30 pm on 3 May"]),
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


@pytest.mark.parametrize(
    "said",
    [
        "Sounds incredible! Must have been quite an atmosphere.",
        "Must've been an amazing game.",
        "Kids have an amazing ability to bounce back.",
        "Animals have a way of brightening our day",
        "Art can be a real mood-booster",
        "Fantasy books always fuel my creativity",
        "The cactus painting came from a road trip",
    ],
)
def test_a_word_that_opens_a_sentence_is_nobody_where_its_verb_says_so(said):
    assert learned(said) == []


@pytest.mark.parametrize(
    "said",
    [
        "I want to pass it on to others",
        "I love their work",
        "I'm always taking notes on her style",
        "I love that it teaches me patience",
        "I want to feel that same sense of freedom",
        "I went through a similar phase",
        "We've got each other!",
        "I hate having to memorize a new one each time",
        "I've been trying to plan everything around that timeline",
        "I'm learning how to take better care of them",
        "The kids love nature",
    ],
)
def test_a_pronoun_that_only_another_sentence_explains_is_not_learned(said):
    assert learned(said) == []


@pytest.mark.parametrize(
    ("said", "fact"),
    [
        ("I met some young folks and supported them", "The user met some young folks and supported them"),
        ("I'm reading a book that changed its author", "The user is reading a book that changed its author"),
        ("My sister Ana loves her dog", "Ana loves her dog"),
        ("I love expressing myself through writing", "The user loves expressing themselves through writing"),
    ],
)
def test_a_pronoun_is_kept_where_the_fact_itself_names_whom_it_means(said, fact):
    assert fact in learned(said)


@pytest.mark.parametrize(
    "said",
    [
        "I love the smell",
        "I love all the yellow leaves, it looks so cozy",
        "I like the structure of the language",
        "I'm enjoying the progress I've been making",
        "I got lucky finding a breeder nearby that has the dogs I wanted",
        "I joined the classes to find like-minded people",
        "The opening night is tomorrow",
        "During Thanksgiving, we usually watch a few movies.",
        "I started on February 5th",
    ],
)
def test_a_thing_that_only_the_conversation_shows_is_not_learned(said):
    assert learned(said) == []


@pytest.mark.parametrize(
    ("said", "fact"),
    [
        ("I love the ocean", "The user loves the ocean"),
        ("I play the piano", "The user plays the piano"),
        ("I love the feeling of being healthy", "The user loves the feeling of being healthy"),
        ("I love the connection to nature", "The user loves the connection to nature"),
        ("I passed the adoption agency interviews", "The user passed the adoption agency interviews"),
    ],
)
def test_a_thing_that_everybody_knows_or_that_is_described_is_learned(said, fact):
    assert learned(said) == [fact]


@pytest.mark.parametrize(
    "said",
    [
        "I'm learning a ton.",
        "I got great news",
        "I'm starting some big new things too!",
        "I'll definitely have a blast.",
        "We saw lots of amazing views",
        "I'm working hard to make everything just right",
        "I've been playing for about four months now",
        "I have a funny story.",
        "I'm getting motivated by something I saw",
        "I'm going to stay positive and keep going",
        "Don't forget - every step matters!",
        "Remember Jon, just do it!",
        "My trip is my trip",
        "I wasn't going to visit Rome",
        "I saw someone drawing the other day",
    ],
)
def test_what_names_nothing_is_not_learned(said):
    assert learned(said) == []


@pytest.mark.parametrize(
    ("said", "facts"),
    [
        ("We adopted another puppy called Pixie", ["The user adopted another puppy called Pixie"]),
        ("Our wedding is on 3 May", ["The user's wedding is on 3 May"]),
        ("We are 12 people", ["The user's group is 12 people"]),
    ],
)
def test_what_we_do_the_user_does(said, facts):
    assert learned(said) == facts


@pytest.mark.parametrize(
    ("said", "facts"),
    [
        ("Ana loves the sea, Rui always sleeps at home.", ["Ana loves the sea"]),
        ("I'm starting a dance studio 'cause I love dancing", ["The user is starting a dance studio"]),
        ("I have a tasty and easy recipe that I can share", ["The user has a tasty and easy recipe"]),
        ("We went camping, had a great time", ["The user went camping"]),
        ("I work on trust and teach them at home", []),
        ("I cook at home and bake for my son", ["The user cooks at home and bakes for the user's son"]),
        ("I went to a parade last Friday", ["The user went to a parade"]),
        ("I'm gonna visit Galway", ["The user is going to visit Galway"]),
        ("I took the first step - I applied to an art school", ["The user applied to an art school"]),
        ("I need to cancel flights that are late", ["The user needs to cancel flights that are late"]),
        ("I'm going to wait and see Rome before I panic", []),
        ("My apartment is a lively but manageable part of town", []),
        ("We booked us a weekend trip to Rome", ["The user booked a weekend trip to Rome"]),
        ("I went to a Mediterranean spot near his office", []),
        ("I need to update that to window", []),
        ("I still have a decent budget", ["The user still has a decent budget"]),
        ("Always use bullets when I ask", ["The user asks: always use bullets when the user asks"]),
        ('I\'m trying to fix this "TypeError: x" error', []),
    ],
)
def test_a_fact_ends_where_another_thought_begins(said, facts):
    assert learned(said) == facts


def test_a_name_in_a_list_of_people_is_not_the_relative_before_it():
    assert learned("My girlfriend, Toby and I are going camping") == []
    assert learned("I like Daniel's baby, Chloe") == ["The user likes Daniel's baby, Chloe"]
    assert learned("My girlfriend, Zoe, likes camping")[0] == "Zoe is the user's girlfriend"


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


def test_of_each_message_without_a_fact_the_rules_say_why():
    said = ["I like tea.", "I like tea.", "I like jazz!", "Who is Ana? Where is she?", "I see.", ""]
    messages = [ChatMessage(role="user", content=text) for text in said]
    messages.append(ChatMessage(role="assistant", content="I like tea, too."))
    extraction = RuleExtractor().extract(messages, known=["The user likes jazz"])
    assert [fact.text for fact in extraction.facts] == ["The user likes tea"]
    assert extraction.nothing == {
        1: NothingFound("repeated"),
        2: NothingFound("known", "The user likes jazz"),
        3: NothingFound("question"),
        4: NothingFound("no_rule"),
        5: NothingFound("no_rule"),
        6: NothingFound("assistant"),
    }


@pytest.mark.parametrize(
    ("said", "asks"),
    [
        ("Where is Porto?", True), ("Is it far (by train?)", True), ("If I moved, would I like it?", True),
        ("I live in Porto, do you know it?", False), ("Hello! Where is Porto?", False), ("Tell me.", False),
        ("", False),
    ],
)  # fmt: skip
def test_a_message_is_a_question_where_it_does_nothing_but_ask(said, asks):
    assert only_asks(said) is asks


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
    stated = list(facts_in("Ana lives in Braga. Ana likes jazz."))
    assert [fact.slot for fact in stated] == [Slot("ana", HOME), None]


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


@pytest.mark.slow
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


@pytest.mark.parametrize(
    ("said", "learned"),
    [
        ("Frankly I hate cilantro.", ["The user hates cilantro"]),
        ("Fortunately I passed the driving test in May.", ["The user passed the driving test in May"]),
        ("We play chess together.", ["The user plays chess"]),
        ("We live together in Porto.", ["The user lives in Porto"]),
        ("I work together with Ana on a novel.", ["The user works together with Ana on a novel"]),
        ("Remember that Ana's flight BA 12.", []),
        ("Note: no peanuts for Ana.", ["No peanuts for Ana"]),
    ],
)
def test_what_opens_a_sentence_goes_and_what_is_no_sentence_is_not_learned(said, learned):
    assert [found.text for found in facts_in(said)] == learned

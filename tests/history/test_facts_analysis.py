"""Flags, provenance and the words that carry a fact: pure."""

import random
from itertools import combinations

import pytest
from engine_fakes import fact_row as fact
from hypothesis import given
from hypothesis import strategies as st

from memory_core.events import (
    EventRecord,
    FactAdded,
    FactsCondensed,
    FactsExtracted,
    MessageAdded,
    ModelCalled,
)
from memory_core.history.fact_evidence import (
    NEAR_DUPLICATE,
    Flag,
    MadeBy,
    SupportingText,
    find_flags,
    made_by,
    near_duplicates,
    nearest,
    source_spans,
)
from memory_core.text import similarity, stems


def flags(facts, *, said=None, conflicts=None, looked_at=()):
    messages = {("s", id): SupportingText("user", text) for id, text in (said or {}).items()}
    return find_flags(facts, conflicts=conflicts or {}, messages=messages, looked_at=looked_at)


# -- flags ---------------------------------------------------------------------------------------


def test_near_copies_are_flagged_on_both_sides():
    a, b = fact(1, "The user went to a concert"), fact(2, "The user went to see Jay Chou's concert")
    score = similarity(a.text, b.text)
    assert flags([a, b]) == {
        1: (Flag("near_duplicate", f'Says nearly the same as "{b.text}" ({score:.2f}).', 2, score),),
        2: (Flag("near_duplicate", f'Says nearly the same as "{a.text}" ({score:.2f}).', 1, score),),
    }


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("The user lives in Porto", "The user lives in Lisbon"),
        ("The user likes tea", "The user likes jazz"),
        ("Ana is the user's sister", "Rui is the user's brother"),
        ("The dinner is on 14 March", "The dinner is on 15 March"),
    ],
)
def test_facts_of_one_form_are_not_near_copies(a, b):
    assert flags([fact(1, a), fact(2, b)]) == {}


def test_a_contradiction_is_flagged_while_both_facts_are_there():
    porto, lisbon = fact(1, "The user lives in Porto"), fact(2, "The user lives in Lisbon")
    found = flags([porto, lisbon], conflicts={2: (1, 9)})
    assert {id: [(f.kind, f.other, f.sentence) for f in of] for id, of in found.items()} == {
        1: [("contradiction", 2, 'Contradicts "The user lives in Lisbon".')],
        2: [("contradiction", 1, 'Contradicts "The user lives in Porto".')],
    }
    assert flags([lisbon], conflicts={2: (1,)}) == {}


def test_what_a_person_dealt_with_is_not_flagged_again():
    pair = [fact(1, "The user went to a concert"), fact(2, "The user went to see Jay Chou's concert")]
    assert flags(pair, looked_at={2}) == {}
    assert set(flags(pair, looked_at={1})) == {1, 2}
    assert flags([fact(1, "owns a submarine")], said={1: "I like tea"}, looked_at={1}) == {}


@pytest.mark.parametrize(
    ("text", "said", "flagged"),
    [
        ("The user lives in Porto", "Hello, my name is Sam and I live in Porto.", False),
        ("Ana is the user's sister", "Ana is my sister.", False),
        ("The dinner is on 14 March", "So the dinner is on the 14th of March.", False),
        ("The budget is under 300 euros", "Keep it under 300 euros altogether.", False),
        ("The user is a vegetarian chef in Rome", "I cook on Sundays.", True),
    ],
)
def test_a_fact_whose_words_nobody_said_is_flagged(text, said, flagged):
    found = flags([fact(1, text)], said={1: said})
    assert [f.kind for f in found.get(1, ())] == (["unsupported"] if flagged else [])


def test_the_flag_says_how_much_of_the_fact_was_said():
    found = flags([fact(1, "Ana owns a red submarine")], said={1: "Ana is here."})
    assert found[1][0].sentence == "1 of its 4 words are in the messages it was learned from."


def test_what_cannot_be_checked_is_not_flagged():
    forgotten = fact(1, "owns a submarine", sources=(("s", 1), ("s", 2)))
    written = fact(3, "owns a submarine too", origin="written", sources=(("s", 3),))
    assert flags([forgotten], said={1: "I like tea"}) == {}
    assert flags([written], said={3: "I like tea"}) == {}
    assert flags([fact(1, "owns a submarine", sources=())]) == {}


def spoken(role, text):
    return {("s", 5): SupportingText(role, text)}


def test_what_only_the_assistant_said_is_flagged():
    new = fact(5, "Casa Lume has a quiet corner")
    found = find_flags([new], conflicts={}, messages=spoken("assistant", "Casa Lume has a quiet corner."))
    assert [(f.kind, f.sentence) for f in found[5]] == [("from_assistant", "Only the assistant said it.")]
    assert find_flags([new], conflicts={}, messages=spoken("user", "Casa Lume has a quiet corner.")) == {}


def test_what_the_assistant_repeated_from_memory_is_flagged_as_that():
    old = fact(1, "Ana is allergic to nuts", sources=())
    new = fact(5, "The dessert must be safe: no nuts for an allergic Ana")
    text = "The dessert must be safe, as Ana is allergic to nuts."
    found = find_flags([old, new], conflicts={}, messages=spoken("assistant", text))
    assert [f.kind for f in found[5]] == ["from_memory"]


# -- likeness ------------------------------------------------------------------------------------

WORDS = ["user", "likes", "tea", "jazz", "in", "is", "on", "Porto", "14th", "14", "two", "2", "not", "Ana", "dinner"]
texts = st.lists(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=7).map(" ".join).filter(lambda text: stems(text)),
    min_size=2,
    max_size=8,
)


@pytest.mark.slow
@given(texts, st.sampled_from([NEAR_DUPLICATE, 0.8, 0.9]))
def test_the_fast_way_finds_every_pair(texts, least):
    slow = {(i, j) for i, j in combinations(range(len(texts)), 2) if similarity(texts[i], texts[j]) >= least}
    assert {(i, j) for i, j, _ in near_duplicates(list(enumerate(texts)), least=least)} == slow


def test_three_hundred_facts_are_compared_pair_by_pair_where_it_matters(monkeypatch):
    """Counted, not timed: 44,850 pairs, of which the word-by-word comparison sees few."""
    compared = []
    monkeypatch.setattr(
        "memory_core.history.fact_evidence.similarity", lambda a, b: compared.append((a, b)) or similarity(a, b)
    )
    draw = random.Random(1)
    names = ["".join(draw.choice("bdfglmnprst") + draw.choice("aeiou") for _ in range(3)) for _ in range(60)]
    forms = ["The user likes {}", "The user lives in {}", "{} is a friend", "The user works at {}", "Ana visits {}"]
    many = [form.format(name) for form in forms for name in names]
    near_duplicates(list(enumerate(many)))
    assert len(compared) < 450


def test_the_nearest_fact_is_the_most_alike():
    facts = [fact(1, "The dinner is on 14 March"), fact(2, "The dinner is on 14 March upstairs"), fact(3, "likes tea")]
    near = nearest("The dinner is on the 14th of March", facts)
    assert near is not None
    assert near[0].id == 1
    assert nearest("plays chess", facts) is None


# -- provenance ----------------------------------------------------------------------------------


def log(*events, actor="engine"):
    return [EventRecord(10 + n, "s", 4, 1.0, actor, event) for n, event in enumerate(events)]


def added(id, **values):
    return FactAdded(id, "facts", "h", 3, "other", ((1, 1),), **values)


CALL = ModelCalled("extract", "m", 10, 2, 0.5, 0.001, "facts")
OTHER_CALL = ModelCalled("reply", "m", 10, 2, 0.5, 0.001)
READ = FactsExtracted("facts", "m", ((1, 4),), 2, 2, 0)


def test_a_learned_fact_leads_to_its_reading_and_model_calls():
    records = log(OTHER_CALL, CALL, CALL, READ, added(1), added(2))
    assert made_by(records, 2) == MadeBy(15, 4, 1.0, "engine", READ, None, (CALL, CALL))


def test_a_condensed_fact_leads_to_its_condensing():
    condensed = FactsCondensed("facts", "m", 9, 5, (), (), (), (2,))
    records = log(CALL, READ, added(1), added(2, origin="condensed"), condensed)
    assert made_by(records, 2) == MadeBy(13, 4, 1.0, "engine", READ, condensed, (CALL,))


def test_a_written_fact_has_no_model_call():
    records = log(CALL, READ, added(1)) + log(added(2, origin="written"), actor="user")
    assert made_by(records, 2) == MadeBy(10, 4, 1.0, "user", None, None, ())


def test_a_fact_of_another_session_is_not_in_this_log():
    assert made_by(log(MessageAdded(1, "m", "user", 1, 1, "c", "h")), 3) is None


@pytest.mark.parametrize(
    ("text", "message", "marked"),
    [
        ("The user lives in Porto", "Hello, my name is Sam and I live in Porto. Help me.", ["I live in Porto"]),
        ("The user's name is Sam", "Hello, my name is Sam and I live in Porto.", ["my name is Sam"]),
        ("Ana is the user's sister", "A dinner for Ana. Ana is my sister.", ["Ana is my sister"]),
        ("Ana is allergic to nuts", "Careful, Ana is allergic to nuts and it is serious. Ana likes jazz.",
         ["Ana is allergic to nuts"]),
        ("The dinner is on 14 March", "So the dinner is on the 14th of March.", ["the dinner is on the 14th of March"]),
        ("Ana likes tea and Rui likes jazz", "Ana likes tea. It rains. Rui prefers jazz.",
         ["Ana likes tea", "Rui prefers jazz"]),
        ("likes tea", "Nothing of that was said.", []),
        ("", "Nothing.", []),
    ],
)  # fmt: skip
def test_the_words_that_carry_a_fact_are_marked(text, message, marked):
    assert [message[start:end] for start, end in source_spans(text, message)] == marked


@pytest.mark.slow
@given(st.text(max_size=60), st.text(max_size=200))
def test_spans_are_in_order_inside_the_message_and_apart(text, message):
    ends = [0]
    for start, end in source_spans(text, message):
        assert ends[-1] <= start < end <= len(message)
        ends.append(end)

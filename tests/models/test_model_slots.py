"""Slots of facts that a model finds: the last confirmed value is current unless the model decides otherwise."""

import pytest
from engine_fakes import user
from fakes import FakeChat, FakeEmbedder
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_core.blocks.facts import FactExtractionMemoryBlock
from memory_core.memory import Memory
from memory_core.models.deciding import DecidedFacts
from memory_core.models.offline.fact_extraction import sole_statement
from memory_core.models.protocols import ModelCall
from memory_core.services import Services

CITIES = st.lists(st.sampled_from(["Lisbon", "Porto", "Berlin"]), min_size=2, max_size=5)
TENTATIVE = (
    "The user might move to {}", "The user may live in {}", "The user is thinking of moving to {}",
    "The user plans to move to {}", "If the rent falls, the user lives in {}", "Perhaps the user lives in {}",
    "The user would live in {}", "Does the user live in {}?", "The user is considering living in {}",
)  # fmt: skip


class Model(FakeChat):
    """A chat model that finds the facts it is given, by the words of the message, and decides as it is given."""

    def __init__(self, facts, decide=lambda data: []):
        super().__init__()
        self.facts, self.decide, self.known = facts, decide, []

    def ask(self, messages, answer, *, purpose):
        data = str(messages[1].content)
        if answer is DecidedFacts:
            made = {"decisions": self.decide(data)}
        else:
            self.known.append(data.partition("<transcript>")[0])
            heard = "\n".join(line for line in data.splitlines() if "(context)" not in line)
            made = {"facts": [{"text": text, "message": 1} for said, text in self.facts if said in heard]}
        return answer.model_validate(made), ModelCall(purpose, self.name, 10, 2, 0.0)


def learn(facts, *, on_change="decide", decide=lambda data: [], at_once=False, **values):
    """Let a model find a fact in each message; return the memory."""
    numbered = [(f"message {number} ", text) for number, text in enumerate(facts)]
    block = FactExtractionMemoryBlock(
        name="Facts", on_change=on_change, deliver_on="turn", llm=Model(numbered, decide), **values
    )
    memory = Memory.from_defaults("s", "ada", memory_blocks=[block], services=Services(embedder=FakeEmbedder()))
    messages = [user(f"I tell you something in message {number} now: {text}") for number, text in enumerate(facts)]
    for batch in [messages] if at_once else [[message] for message in messages]:
        memory.put_messages(batch, end_turn=True)
    return memory


def active(memory):
    return [fact.text for fact in memory.facts.read("Facts")]


def homes(cities):
    return [f"The user lives in {city}" for city in cities]


def changes(texts):
    """The texts without those that repeat the one before them."""
    return [text for place, text in enumerate(texts) if place == 0 or texts[place - 1] != text]


@settings(max_examples=20, deadline=None)
@given(CITIES, st.booleans())
@pytest.mark.slow
def test_the_last_value_is_current_where_the_model_decides_nothing(cities, at_once):
    memory = learn(homes(cities), at_once=at_once)
    [fact] = memory.facts.read("Facts")
    assert (fact.text, fact.slot) == (homes(cities)[-1], "user.home")
    if not at_once:
        assert changes([one.text for one in memory.facts.history(fact)]) == changes(homes(cities))


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(CITIES, st.sampled_from(TENTATIVE), st.booleans(), st.data())
def test_a_tentative_statement_never_replaces_a_value(cities, form, decided, data):
    stated = homes(cities)
    place = data.draw(st.integers(1, len(stated)))
    facts = [*stated[:place], form.format("Oslo"), *stated[place:]]
    # A model that takes what is only considered for decided is not followed.
    considered = form.startswith(("The user might", "The user may", "The user is thinking"))
    update = [{"found": 1, "act": "update", "known": 1, "text": form.format("Oslo")}]
    memory = learn(facts, decide=lambda data: update if decided and considered and "Oslo" in data else [])
    assert [text for text in active(memory) if text in homes([*cities, "Oslo"])] == stated[-1:]
    if considered:
        assert form.format("Oslo") not in active(memory)


@settings(max_examples=10, deadline=None)
@given(st.lists(st.sampled_from(["German", "Greek", "Thai", "Dutch"]), min_size=2, unique=True))
@pytest.mark.slow
def test_a_slot_of_several_values_keeps_them_all(languages):
    facts = [f"The user speaks {language}" for language in languages]
    assert active(learn(facts)) == facts


def test_a_decision_of_the_model_goes_before_the_slot():
    add = [{"found": 1, "act": "add"}]
    memory = learn(homes(["Porto", "Lisbon"]), decide=lambda data: add)
    assert active(memory) == homes(["Porto", "Lisbon"])
    stay = [{"found": 1, "act": "none", "known": 1}]
    assert active(learn(homes(["Porto", "Lisbon"]), decide=lambda data: stay)) == homes(["Porto"])


def test_a_value_that_comes_back_is_the_later_one_where_facts_are_only_added():
    memory = learn(homes(["Porto", "Lisbon", "Porto"]), on_change="add")
    porto, lisbon = memory.facts.read("Facts")
    assert porto.confirmed_at > lisbon.confirmed_at
    # Both values are in dispute, so the model is told of neither as known.
    assert "lives in" not in memory.memory_blocks[0].llm.known[-1]


def test_a_denial_does_not_displace_the_value_stated_beside_it():
    facts = ["The user lives in Lisbon", "The user does not live in Porto"]
    learned = learn(facts, at_once=True).facts.read("Facts")
    assert [(fact.text, fact.slot) for fact in learned] == [
        (facts[0], "user.home"),
        (facts[1], None),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "The user lives in Porto and works at Acme", "The user lives in Porto. The user works at Acme.",
        *(form.format("Oslo") for form in TENTATIVE),
    ],
)  # fmt: skip
def test_what_says_two_things_or_nothing_for_sure_has_no_slot(text):
    stated = sole_statement(text)
    assert stated is None or stated.slot is None


@pytest.mark.parametrize(
    ("text", "slot"),
    [
        ("The user now lives in Lisbon", "user.home"), ("The user currently works at Acme", "user.employer"),
        ("The user no longer lives in Porto", "user.home"), ("Ana moved to Lisbon", "ana.home"),
        ("The user's favourite colour is blue", "user.favourite colour"),
    ],
)  # fmt: skip
def test_the_slot_is_read_from_the_words_of_the_fact(text, slot):
    assert str(sole_statement(text).slot) == slot

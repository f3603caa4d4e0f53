"""Slots: one table says for facts and relations alike which attributes hold one value, and the last one is current."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core.messages import ChatMessage
from memory_core.models.offline.fact_extraction import RuleExtractor, facts_in
from memory_core.models.offline.relation_rules import relations_in
from memory_core.planning.consolidation import by_rule, prepare, settle
from memory_core.planning.fact_merging import ExtractedFact, KnownFact, plan_additions
from memory_core.planning.graph_changes import NamedRelation, plan_relations
from memory_core.planning.graph_rules import Graph
from memory_core.planning.slots import ATTRIBUTES, Slot, excludes, of_user

CITIES = st.lists(st.sampled_from(["Lisbon", "Porto", "Berlin", "Rome"]), min_size=1, max_size=6)
TENTATIVE = (
    "I might move to {}.", "I'm thinking of moving to {}.", "If I lived in {}, I'd swim.",
    "I plan to move to {}.", "Should I move to {}?", "Maybe I live in {} by May.",
)  # fmt: skip


def changed(values):
    """The values without those that repeat the one before them."""
    return [value for place, value in enumerate(values) if place == 0 or values[place - 1] != value]


def learn_facts(messages):
    """Put messages one by one through the rules; return the current facts and the former wordings, oldest first."""
    known, former, ids = {}, [], count(1)
    for message in messages:
        found = RuleExtractor().extract([ChatMessage(role="user", content=message)], known=[]).facts
        new = [fact for fact in found if not fact.doubtful]
        prepared = prepare([KnownFact(id, fact.text, fact.slot) for id, fact in known.items()], new, nearest=5)
        decisions = [by_rule(new[index].text, new[index].slot, near) for index, near in prepared.compared.items()]
        for step in settle(prepared, decisions, new, active=known).settled:
            if step.act in ("update", "delete"):
                former.append(known.pop(step.target).text)
            if step.text is not None:
                known[next(ids) if step.act != "update" else step.target] = ExtractedFact(
                    step.text, slot=new[step.index].slot
                )
    return [fact.text for fact in known.values()], former


def learn_relations(messages):
    """Put messages one by one into a graph; return the sentences that hold and those that ended, oldest first."""
    graph, ids = Graph(), count(1)
    for message in messages:
        found = [NamedRelation(r.subject, r.predicate, r.object, ended=r.ended) for r in relations_in(message)]
        graph = plan_relations(graph, found).applied_to(graph, ids)
    sentences = {"active": [], "ended": []}
    for relation in graph.relations.values():
        sentences[relation.state].append(graph.sentence(relation))
    return sentences["active"], sentences["ended"]


@pytest.mark.slow
@given(CITIES)
@pytest.mark.parametrize("learn", [learn_facts, learn_relations])
def test_the_last_home_is_current_and_the_former_ones_stay_in_the_past(learn, cities):
    now, former = learn([f"I live in {city}." for city in cities])
    homes = [f"The user lives in {city}" for city in changed(cities)]
    assert (now, former) == (homes[-1:], homes[:-1])


@pytest.mark.slow
@given(CITIES, st.sampled_from(TENTATIVE), st.data())
@pytest.mark.parametrize("learn", [learn_facts, learn_relations])
def test_a_tentative_statement_replaces_nothing(learn, cities, form, data):
    messages = [f"I live in {city}." for city in cities]
    place = data.draw(st.integers(1, len(messages)))
    now, _ = learn([*messages[:place], form.format("Oslo"), *messages[place:]])
    assert [text for text in now if text.startswith("The user lives")] == [f"The user lives in {cities[-1]}"]


def test_only_what_is_stated_has_a_slot():
    home = of_user("home")
    assert [fact.slot for fact in facts_in("I live in Oslo.")] == [home]
    for form in TENTATIVE:
        assert home not in [fact.slot for fact in facts_in(form.format("Oslo"))], form


@given(st.lists(st.sampled_from(["German", "Greek", "Thai", "Dutch"]), min_size=2, unique=True))
@pytest.mark.slow
def test_a_slot_of_several_values_keeps_them_all(languages):
    found = [ExtractedFact(f"The user speaks {language}", slot="user.languages") for language in languages]
    assert [new.conflicts_with + new.found_before for new in plan_additions([], found).add] == [()] * len(found)
    now, former = learn_relations([f"I speak {language}." for language in languages])
    assert (now, former) == ([fact.text for fact in found], [])
    known = [KnownFact(1, found[0].text, found[0].slot)]
    assert by_rule(found[1].text, found[1].slot, prepare(known, found[1:2], nearest=5).compared[0]).act == "add"


def test_predicates_of_one_attribute_end_each_other():
    graph, ids = Graph(), count(1)
    for predicate, date in (("start date", "3 May"), ("starts on", "5 May"), ("end date", "9 May")):
        graph = plan_relations(graph, [NamedRelation("Atlas", predicate, date)]).applied_to(graph, ids)
    assert [graph.sentence(r) for r in graph.active()] == ["Atlas starts on 5 May", "Atlas end date 9 May"]


def test_a_value_stated_again_under_another_predicate_of_its_attribute_is_confirmed():
    graph, ids = Graph(), count(1)
    for predicate in ("start date", "starts on"):
        plan = plan_relations(graph, [NamedRelation("Atlas", predicate, "3 May", sources=((predicate, 1),))])
        graph = plan.applied_to(graph, ids)
    assert [(graph.sentence(r), len(r.sources)) for r in graph.relations.values()] == [("Atlas start date 3 May", 2)]


@given(st.sampled_from([*ATTRIBUTES.values(), "favourite colour"]), st.sampled_from(["", "user", "user.sister", "ana"]))
def test_the_stored_text_of_a_slot_names_the_same_slot(attribute, subject):
    slot = Slot(subject, attribute)
    assert Slot.read(str(slot)) == slot
    assert slot.single
    assert excludes(str(slot), str(slot))


@pytest.mark.parametrize("attribute", ["likes", "siblings", "languages", "hobbi", "child"])
def test_an_attribute_of_several_values_is_known_in_any_form(attribute):
    assert not of_user(attribute).single
    assert of_user(f"favourite {attribute}").single

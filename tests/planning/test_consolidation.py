"""Deciding what becomes of found facts: what statements say of each other, the rules, and the check of any decision."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_core.planning import statement_relation
from memory_core.planning.consolidation import (
    DOUBLED,
    MISSING,
    NO_ACT,
    NO_TARGET,
    NO_WORDS,
    NOT_COMPARED,
    PROTECTED,
    SURPLUS,
    TOO_MANY,
    TWICE,
    Decision,
    by_rule,
    category_among,
    prepare,
    recalled,
    settle,
)
from memory_core.planning.fact_merging import Addition, ExtractedFact, KnownFact, plan_additions, same_words
from memory_core.planning.statement_relation import Contradictions, bearing, contradicts, repeats, says_more

# -- what one statement says of another ------------------------------------------------------------


@pytest.mark.parametrize(
    ("new", "known", "expected"),
    [
        ("The user likes dark mode", "The user likes dark mode.", "same"),
        ("The user loves dark mode", "The user likes dark mode", "same"),
        ("The user hates jazz", "The user does not like jazz", "same"),
        ("The user prefers dark mode in every app", "The user likes dark mode", "more"),
        ("The user is allergic to nuts and shellfish", "The user is allergic to nuts", "more"),
        ("The user likes dark mode", "The user prefers dark mode in every app", "less"),
        ("The user no longer likes jazz", "The user likes jazz", "ended"),
        ("The user does not like jazz anymore", "The user likes jazz", "ended"),
        ("The user no longer drinks coffee", "The user drinks coffee every morning", "ended"),
        ("The user does not like jazz", "The user likes jazz", "negation"),
        ("The user hates jazz", "The user likes jazz", "negation"),
        ("The user no longer likes jazz", "The user likes jazz and blues", "partly"),
        ("The user likes jazz", "The user no longer likes jazz", "opposite"),
        ("The user has three cats", "The user has two cats", "other_number"),
        ("The user prefers light mode", "The user prefers dark mode", "preference"),
        ("The user has a cat allergy", "The user has a cat", "apart"),
        ("The user works with Ana's brother", "The user works with Ana", "apart"),
        ("Ana's sister likes jazz", "Ana likes jazz", "apart"),
        ("The user likes tea", "The user likes jazz", "apart"),
        ("The user prefers window seats", "The user prefers dark mode", "apart"),
        ("The user no longer drinks coffee at night", "The user drinks coffee", "apart"),
        ("The user visited Rome in 2020", "The user visited Rome in 2019", "apart"),
        ("", "The user likes jazz", "apart"),
        ("…", "…", "same"),
    ],
)
def test_a_statement_bears_on_another(new, known, expected):
    assert bearing(new, known) == expected


@pytest.mark.parametrize(
    ("new", "known", "expected"),
    [
        ("The user lives in Porto", "The user lives in Lisbon", "same_slot"),
        ("The user moved to Porto", "The user lives in Porto", "same"),
        ("The user no longer lives in Lisbon", "The user lives in Lisbon", "ended"),
        ("The user no longer lives in Lisbon", "The user lives in Porto", "apart"),
    ],
)
def test_one_slot_holds_one_value(new, known, expected):
    assert bearing(new, known, same_slot=True) == expected


@pytest.mark.parametrize(
    ("new", "known", "expected"),
    [
        ("The exam is on 3 May, not 2 May", "The user's exam is on 2 May", "same_slot"),
        ("The user changed the browser from Firefox to Edge", "The user's browser is Firefox", "same_slot"),
        ("The user leaves on 16 March instead of the 14th", "The user leaves on 14 March", "same_slot"),
        ("Ben's exam is on 3 May, not 2 May", "Ana's exam is on 2 May", "apart"),
        ("The exam is on 3 May, not 2 May", "The dinner with Ana and Rui is on 2 May", "apart"),
        ("The user bikes from Graz to Linz", "The user lives in Graz", "apart"),
        ("The exam is on 3 May, not 2 May", "The exam is on 3 May, not 2 May", "same"),
        ("The user moved it from 2 to 3 May", "The user moved it from 2 to 3 May", "same"),
    ],
)
def test_a_value_that_is_named_as_former_is_replaced(new, known, expected):
    assert bearing(new, known) == expected


def test_a_correction_gives_a_value_and_denies_none():
    assert bearing("The score is 72, not 74", "The score is 74 points", same_slot=True) == "same_slot"


def test_what_only_ends_something_says_no_more():
    assert not says_more("The user no longer likes jazz")
    assert says_more("The user no longer likes jazz but prefers blues")
    assert says_more("The user does not like jazz")


@given(st.text(max_size=60))
def test_every_statement_says_the_same_as_itself(text):
    assert bearing(text, text) == "same"


TURNED = {"more": "less", "less": "more", "same": "same"}


@given(
    *[st.sampled_from(("likes", "hates", "no longer likes", "never likes"))] * 2,
    *[st.sampled_from(("tea", "tea at night", "tea and cake"))] * 2,
)
def test_seen_from_the_other_side_a_bearing_turns_round(how, other_how, what, other_what):
    a, b = f"Ana {how} {what}", f"Ana {other_how} {other_what}"
    if bearing(a, b) in ("more", "less", "same"):
        assert bearing(b, a) == TURNED[bearing(a, b)]
    if bearing(a, b) in ("ended", "negation") and what == other_what:
        assert bearing(b, a) == "opposite"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Mia eats fish", "Mia doesn't eat fish"),
        ("Mia eats fish on Fridays", "Mia never eats fish"),
        ("Mia eats fish", "Mia does not eat fish any more"),
        ("Mia is a runner", "Mia isn’t a runner anymore"),
        ("Mia is a runner", "Mia is no longer a runner"),
        ("Mia plays chess", "Mia stopped playing chess"),
        ("Mia plays chess", "Mia has given up playing chess"),
        ("Mia always walks home", "Mia never walks home"),
        ("Mia has a car", "Mia has no car"),
        ("Mia can drive", "Mia cannot drive"),
        ("Mia adores opera", "Mia detests opera"),
        ("Mia enjoys opera", "Mia can't stand opera"),
        ("Mia trusts the bank", "Mia distrusts the bank"),
        ("Mia accepted the offer", "Mia declined the offer"),
        ("Mia hates rain", "Mia does not hate rain"),
        ("Mia never stopped painting", "Mia stopped painting"),
        ("Mia likes tea but not milk", "Mia does not like tea"),
        ("Mia prefers coffee to tea", "Mia prefers tea to coffee"),
        ("Mia moved from Porto to Braga", "Mia moved from Braga to Porto"),
        ("Mia's cat is older than Mia's dog", "Mia's dog is older than Mia's cat"),
        ("Mia has lunch before the meeting", "Mia has the meeting before lunch"),
    ],
)
def test_a_denial_and_an_opposite_contradict_in_either_order(one, other):
    for before, after in ((one, other), (other, one)):
        assert contradicts(before, after)
        contradictions = Contradictions([before, after])
        assert (contradictions.add(1, before), contradictions.add(2, after)) == ([], [1])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Mia is not only a runner", "Mia is a runner"),
        ("Mia does not dislike rain", "Mia likes rain"),
        ("Mia does not hate rain", "Mia does not like rain"),
        ("Mia never stopped painting", "Mia paints"),
        ("Mia quit painting", "Mia does not paint"),
        ("Mia's brother does not eat fish", "Mia eats fish"),
        ("Leo does not eat fish", "Mia eats fish"),
        ("Does Mia eat fish?", "Mia does not eat fish"),
        ("Mia should not eat fish", "Mia eats fish"),
        ("Mia does not always walk home", "Mia walks home"),
        ("Mia does not eat fish at school", "Mia eats fish"),
        ("Mia likes tea but not milk", "Mia likes tea"),
        ("Mia likes milk but not tea", "Mia does not like tea"),
        ("Mia is used to cold rooms", "Mia likes cold rooms"),
        ("Mia has a car park", "Mia has no car"),
        ("Mia is unmarried", "Mia is not married"),
        ("Mia flew from Rome to Oslo in May", "In May Mia flew to Oslo from Rome"),
        ("Mia walks to school with Ben", "With Ben, Mia walks to school"),
        ("Mia does not prefer coffee to tea", "Mia does not prefer tea to coffee"),
    ],
)
def test_what_can_both_hold_is_no_contradiction(one, other):
    for before, after in ((one, other), (other, one)):
        assert not contradicts(before, after)
        contradictions = Contradictions([before, after])
        assert (contradictions.add(1, before), contradictions.add(2, after)) == ([], [])


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("at 19:30", "at 7.30 pm", True),
        ("at 12:00", "at noon", True),
        ("on 3 May", "on 2027-05-03", True),
        ("on May 3rd", "on Monday 3 May", True),
        ("on the 3rd of May 2027 at 9 am", "on 2027-05-03 at 09:00", True),
        ("at 7:30", "at 7:30 pm", False),
        ("on 3 May 2026", "on 2027-05-03", False),
        ("on 3 May", "on 2027-05-04", False),
    ],
)
def test_a_date_or_time_in_another_notation_is_no_other_value(one, other, same):
    one, other = f"The concert is {one}", f"The concert is {other}"
    assert contradicts(one, other, same_slot=True) == contradicts(other, one, same_slot=True) == (not same)


def test_two_things_that_changed_places_are_neither_the_same_nor_lost():
    before, after = KnownFact(1, "Mia prefers coffee to tea"), ExtractedFact("Mia prefers tea to coffee")
    assert not repeats(before.text, after.text)
    assert plan_additions([before], [after]).add == (Addition(0, conflicts_with=(1,)),)


def test_opposites_among_many_statements_are_found_without_comparing_all(monkeypatch):
    compared = []
    monkeypatch.setattr(statement_relation, "contradicts", lambda *pair: compared.append(pair) or contradicts(*pair))
    texts = [f"Guest {n} {'eats' if n % 2 else 'does not eat'} dish {n} on Monday" for n in range(400)]
    texts += [f"Guest {n} does not eat dish {n}" for n in (7, 9)]
    contradictions = Contradictions(texts)
    assert [(n, found) for n, text in enumerate(texts) if (found := contradictions.add(n, text))] == [
        (400, [7]),
        (401, [9]),
    ]
    assert len(compared) < 4 * len(texts)


# -- the rules ---------------------------------------------------------------------------------------


def known(*texts, **given):
    return [KnownFact(id, text, **given) for id, text in enumerate(texts, start=1)]


@pytest.mark.parametrize(
    ("found", "texts", "expected"),
    [
        ("The user likes tea", (), Decision("add", rule="new")),
        ("The user likes tea", ("The user likes jazz",), Decision("add", rule="new")),
        ("The user likes tea", ("The user likes jazz", "The user likes tea"), Decision("none", 2, rule="same")),
        (
            "The user prefers dark mode in every app",
            ("The user likes dark mode",),
            Decision("update", 1, "The user prefers dark mode in every app", "more"),
        ),
        ("The user no longer likes jazz", ("The user likes jazz",), Decision("delete", 1, rule="negation")),
        (
            "The user does not like jazz",
            ("The user likes jazz",),
            Decision("delete", 1, "The user does not like jazz", "negation"),
        ),
        ("The user no longer likes jazz", (), Decision("add", rule="new")),
    ],
)
def test_rules_decide(found, texts, expected):
    assert by_rule(found, None, known(*texts)) == expected


def test_rules_leave_pinned_facts_alone_but_confirm_them():
    pinned = known("The user lives in Lisbon", slot="home", protected=True)
    assert by_rule("The user lives in Porto", "home", pinned) == Decision("add", rule="protected")
    assert by_rule("The user lives in Lisbon", "home", pinned) == Decision("none", 1, rule="same")


# -- candidates ---------------------------------------------------------------------------------------


def found(*texts, slot=None):
    return [ExtractedFact(text, slot=slot) for text in texts]


def test_the_nearest_known_facts_are_candidates():
    prepared = prepare(known("likes tea", "likes green tea", "has a dog"), found("likes cold green tea"), nearest=2)
    assert [near.id for near in prepared.compared[0]] == [2, 1]


def test_meaning_counts_as_much_as_wording():
    facts = known("adores pets", "likes green soup")
    cosines = {(0, 1): 0.9, (0, 2): 0.0}
    assert [n.id for n in prepare(facts, found("likes animals"), nearest=2).compared[0]] == [2, 1]
    near = prepare(facts, found("likes animals"), nearest=2, cosines=cosines).compared[0]
    assert [n.id for n in near] == [1, 2]
    assert near[0].similarity == pytest.approx(0.45)


def test_what_shares_a_slot_is_nearer():
    facts = [KnownFact(1, "lives in Rome", slot="home"), KnownFact(2, "works in Porto")]
    assert [n.id for n in prepare(facts, found("moved to Porto", slot="home"), nearest=1).compared[0]] == [1]


def test_a_near_copy_of_a_rejected_fact_is_held_back_and_rejected_facts_are_no_candidates():
    facts = [KnownFact(1, "likes tea", rejected=True), KnownFact(2, "likes jazz")]
    prepared = prepare(facts, found("Likes tea.", "likes rock"), nearest=5)
    assert [(held.index, held.fact) for held in prepared.held_back] == [(0, 1)]
    assert [near.id for near in prepared.compared[1]] == [2]


def test_the_same_fact_forty_times_is_decided_once():
    prepared = prepare([], found(*["The user likes tea"] * 40), nearest=5)
    assert list(prepared.compared) == [0]
    assert prepared.repeated == dict.fromkeys(range(1, 40), 0)


def test_of_what_is_found_together_the_last_word_counts():
    said = ("The user likes dark mode", "The user has a dog", "The user prefers dark mode in every app")
    prepared = prepare([], found(*said), nearest=5)
    assert list(prepared.compared) == [1, 2]
    assert prepared.repeated == {0: 2}


# -- the check of decisions ---------------------------------------------------------------------------


def done(facts, texts, choices, *, nearest=5, active=None, approval=False, slot=None):
    new = found(*texts, slot=slot)
    prepared = prepare(facts, new, nearest=nearest)
    ids = [fact.id for fact in facts] if active is None else active
    return settle(prepared, choices, new, active=ids, waiting=range(len(new)) if approval else ())


TEA, JAZZ, CAT = "The user likes tea", "The user likes jazz", "The user has a cat"


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        pytest.param(Decision("update", 99, "The user likes tea a lot"), NOT_COMPARED, id="an invented id"),
        pytest.param(Decision("delete", None), NO_TARGET, id="deletes nothing in particular"),
        pytest.param(Decision("none", None), NO_TARGET, id="drops it without a reason"),
        pytest.param(Decision("replace", 1), NO_ACT, id="an act that does not exist"),
        pytest.param(Decision("update", 1, "  … "), NO_WORDS, id="no words"),
        pytest.param(Decision("update", 1, "tea " * 200), NO_WORDS, id="a story"),
        pytest.param(Decision("delete", 3), PROTECTED, id="a protected fact"),
        pytest.param(Decision("update", 3, "The user has two cats"), PROTECTED, id="another protected fact"),
        pytest.param(Decision("update", 1, JAZZ), DOUBLED, id="the words of another fact"),
    ],
)
def test_a_decision_that_cannot_be_is_refused_and_decided_by_rule(choice, reason):
    facts = [*known(TEA, JAZZ), KnownFact(3, CAT, protected=True)]
    result = done(facts, ["The user plays the harp"], [choice])
    assert result.refused == {reason: 1}
    assert [(step.act, step.text, step.rule) for step in result.settled] == [("add", "The user plays the harp", "new")]


def test_a_decision_too_few_or_too_many_is_noticed():
    assert done([], [TEA, CAT], [Decision("add")]).refused == {MISSING: 1}
    result = done([], [TEA], [Decision("add"), Decision("add")])
    assert result.refused == {SURPLUS: 1}
    assert [step.text for step in result.settled] == [TEA]


def test_deleting_most_facts_at_once_is_refused():
    facts = known(TEA, JAZZ, CAT)
    texts = ["The user plays the harp", "The user has a dog", "The user speaks Dutch"]
    result = done(facts, texts, [Decision("delete", id) for id in (1, 2, 3)])
    assert result.refused == {TOO_MANY: 3}
    assert {step.act for step in result.settled} == {"add"}


def test_a_single_fact_may_be_deleted():
    result = done(known(JAZZ), ["The user no longer likes jazz"], [Decision("delete", 1)])
    assert [(step.act, step.target, step.text) for step in result.settled] == [("delete", 1, None)]
    assert not result.refused


def test_a_fact_is_changed_once():
    texts = ["The user plays the harp", "The user has a dog"]
    choices = [Decision("update", 1, "The user likes green tea"), Decision("update", 1, "The user likes black tea")]
    result = done(known(TEA), texts, choices)
    assert result.refused == {TWICE: 1}
    assert [(step.act, step.target) for step in result.settled] == [("update", 1), ("add", None)]


def test_forty_updates_of_one_fact_change_it_once():
    texts = [f"The user knows the number {number}" for number in range(40)]
    result = done(known(TEA), texts, [Decision("update", 1, "The user likes green tea")] * 40)
    assert [step.act for step in result.settled].count("update") == 1
    assert result.refused == {TWICE: 39}


def test_adding_what_is_known_confirms_it():
    result = done(known(TEA), ["The user likes tea."], [Decision("add")])
    assert [(step.act, step.target, step.rule) for step in result.settled] == [("none", 1, "same")]


def test_what_contradicts_a_pinned_fact_is_added_and_marked():
    facts = [KnownFact(1, "The user lives in Lisbon", slot="home", protected=True)]
    text = "The user lives in Porto"
    result = done(facts, [text], [by_rule(text, "home", facts)], slot="home")
    assert [(s.act, s.rule, s.conflicts_with) for s in result.settled] == [("add", "protected", (1,))]


def test_under_approval_nothing_known_changes():
    facts = known("The user likes dark mode", JAZZ)
    texts = ["The user prefers dark mode in every app", "The user no longer likes jazz"]
    choices = [by_rule(text, None, facts) for text in texts]
    result = done(facts, texts, choices, approval=True)
    steps = [(s.act, s.text, s.rule, s.conflicts_with) for s in result.settled]
    assert steps == [("add", texts[0], "approval", (1,)), ("add", texts[1], "approval", (2,))]


SUBJECTS = ("The user", "Ana", "Ana's sister")
MATTERS = (
    "likes tea",
    "likes green tea",
    "no longer likes tea",
    "hates tea",
    "has two cats",
    "has three cats",
    "… ",
    "",
)
TEXTS = st.builds(lambda who, what: f"{who} {what}", st.sampled_from(SUBJECTS), st.sampled_from(MATTERS))
SLOTS = st.sampled_from((None, None, "tea", "cats"))
KNOWN = st.lists(
    st.builds(KnownFact, st.integers(1, 9), TEXTS, SLOTS, st.booleans(), st.booleans()),
    max_size=6,
    unique_by=(lambda fact: fact.id, lambda fact: same_words(fact.text)),
)
FOUND = st.lists(st.builds(ExtractedFact, TEXTS, slot=SLOTS), max_size=6)
CHOICES = st.lists(
    st.builds(
        Decision,
        st.sampled_from(("add", "update", "delete", "none", "merge")),
        st.none() | st.integers(1, 12),
        st.none() | TEXTS | st.just(""),
        st.sampled_from(("model", "new")),
    ),
    max_size=8,
)


@settings(max_examples=300)
@given(KNOWN, FOUND, CHOICES, st.integers(1, 4), st.booleans())
@pytest.mark.slow
def test_whatever_is_decided_nothing_is_lost_and_nothing_uncompared_is_touched(facts, new, choices, nearest, approval):
    prepared = prepare(facts, new, nearest=nearest)
    parts = [*prepared.compared, *(held.index for held in prepared.held_back), *prepared.repeated]
    assert sorted(parts) == list(range(len(new)))

    active = [fact.id for fact in facts if not fact.rejected]
    result = settle(prepared, choices, new, active=active, waiting=range(len(new)) if approval else ())
    assert [step.index for step in result.settled] == list(prepared.compared)
    assert all(other in prepared.compared for other in prepared.repeated.values())
    by_id = {fact.id: fact for fact in facts}
    by_index = {step.index: step for step in result.settled}
    changed = [step.target for step in result.settled if step.act in ("update", "delete")]
    assert len(changed) == len(set(changed))
    assert not (approval and changed)
    for step in result.settled:
        compared = {near.id for near in prepared.compared[step.index]}
        assert {id for id, _ in step.candidates} == compared
        assert len(compared) <= nearest
        assert step.target is None or step.target in compared
        if step.act == "none" and step.target is None:
            assert step.beside in by_index
            assert by_index[step.beside].act != "none"
        assert set(step.conflicts_with) <= compared
        assert (step.text is not None) or step.act in ("delete", "none")
        if step.act in ("update", "delete"):
            assert not by_id[step.target].protected
            assert not by_id[step.target].rejected
    deleted = [step for step in result.settled if step.act == "delete" and step.rule == "model"]
    assert len(deleted) <= max(1, len(active) / 2)

    texts = {fact.id: fact.text for fact in facts if not fact.rejected}
    added = []
    for step in result.settled:
        if step.act == "delete":
            del texts[step.target]
        if step.act == "update":
            texts[step.target] = step.text
        elif step.text is not None:
            added.append(step.text)
    after = [same_words(text) for text in (*texts.values(), *added)]
    assert len(after) == len(set(after))


# -- recalled, and categories -------------------------------------------------------------------------


def test_only_what_others_repeat_is_recalled():
    texts = ["The user lives in Porto", "The user lives in Porto", "The user has a dog"]
    assert recalled(texts, [True, False, False], {"The user lives in Porto."}) == (1,)


@pytest.mark.parametrize(
    ("category", "text", "names", "expected"),
    [
        ("plan", "The dinner is on 14 March", ("episodic", "semantic", "procedural"), "episodic"),
        ("other", "The user visited Rome", ("episodic", "semantic", "procedural"), "episodic"),
        ("other", "The user always backs up first", ("episodic", "semantic", "procedural"), "procedural"),
        ("preference", "The user likes tea", ("episodic", "semantic", "procedural"), "semantic"),
        ("Work", "The user works at Acme", ("work", "home"), "work"),
        ("health", "The user is allergic to nuts", ("work", "home"), "other"),
        ("health", "The user is allergic to nuts", ("Other", "home"), "Other"),
        ("health", "The user is allergic to nuts", (), "health"),
    ],
)
def test_facts_come_under_the_blocks_own_categories(category, text, names, expected):
    assert category_among(category, text, names) == expected

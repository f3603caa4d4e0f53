"""What a person wishes for facts, as change sets, and what they come to: pure."""

from dataclasses import replace
from typing import get_args

import pytest

from memory_core.errors import ConflictError, MessageError
from memory_core.planning import curation
from memory_core.planning.curation import (
    Action,
    ChangeSet,
    FactChange,
    FactDraft,
    SuppressedFact,
    active_after,
    find_clash,
    settle,
    together,
    words_for,
)
from memory_core.planning.fact_merging import Fact


def fact(id, text="likes tea", **values):
    given = {
        "id": id,
        "scope": "session:s",
        "block": "facts",
        "text": text,
        "tokens": len(text.split()),
        "category": "other",
        "slot": None,
        "state": "active",
        "pinned": False,
        "origin": "extracted",
        "turn": 1,
        "created_at": 1.0,
        "confirmed_at": 1.0,
        "updated_at": 1.0,
        "version": 1,
        "sources": (("s", id),),
    }
    return Fact(**{**given, **values})


def count(text):
    return len(text.split())


def after(facts, change):
    return [(f.id, f.text, f.pinned, f.tokens, f.sources) for f in active_after(facts, change, count)]


# -- wishes --------------------------------------------------------------------------------------


def test_an_added_fact_is_active_and_written_in_one_line():
    assert curation.add("  likes \n jazz ", pinned=True) == ChangeSet("add", (FactDraft("likes jazz", pinned=True),))


@pytest.mark.parametrize("make", [lambda t: curation.add(t), lambda t: curation.edit(fact(1), t)])
def test_a_fact_cannot_be_empty(make):
    with pytest.raises(MessageError, match=r"^A fact cannot be empty\. Retire it instead\?$"):
        make(" \n ")


def test_an_edit_that_changes_nothing_is_refused():
    with pytest.raises(MessageError, match=r"^This would change nothing\.$"):
        curation.edit(fact(1, "likes tea"), "likes tea")


def test_a_merge_keeps_one_fact_and_gives_it_all_support():
    one, two = fact(1, "likes tea"), fact(2, "loves tea", pinned=True)
    assert curation.merge([one, two], "loves green tea") == ChangeSet(
        "merge",
        (
            FactChange(two, {"text": "loves green tea"}),
            FactChange(two, sources=(("s", 1),)),
            FactChange(one, {"state": "superseded"}, by=2),
        ),
    )


def test_of_merged_facts_the_one_that_has_the_words_already_stays():
    one, two = fact(1, "likes tea", pinned=True), fact(2, "loves tea")
    change = curation.merge([one, two], "loves tea")
    assert change.steps == (
        FactChange(two, {"pinned": True}),
        FactChange(two, sources=(("s", 1),)),
        FactChange(one, {"state": "superseded"}, by=2),
    )


def test_a_proposed_fact_that_is_merged_into_an_active_one_leaves_the_active_one():
    new, old = fact(2, "loves tea", state="proposed"), fact(1, "likes tea")
    assert after([old], curation.merge([new, old], "loves tea very much")) == [
        (1, "loves tea very much", False, 4, (("s", 1), ("s", 2)))
    ]


def test_of_merged_proposed_facts_the_one_that_stays_becomes_active():
    facts = [fact(1, "likes tea", state="proposed"), fact(2, "likes jazz", state="proposed")]
    assert [f.id for f in active_after([], curation.merge(facts, "likes tea and jazz"), count)] == [1]


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ([fact(1)], "Choose at least two facts to merge."),
        ([fact(1), fact(1)], "Choose at least two facts to merge."),
        ([fact(1), fact(2, state="retired")], '"likes tea" is retired. Restore it before it is merged.'),
    ],
)
def test_what_cannot_be_merged_is_said(facts, said):
    with pytest.raises(MessageError) as caught:
        curation.merge(facts, "x")
    assert str(caught.value) == said


def test_the_parts_of_a_split_fact_keep_its_support_and_its_pin():
    whole = fact(7, "likes tea and jazz", pinned=True, category="preference")
    change = curation.split(whole, ["likes tea", "likes jazz"])
    assert settle(change).added == tuple(
        FactDraft(text, pinned=True, category="preference", origin="extracted", sources=(("s", 7),))
        for text in ("likes tea", "likes jazz")
    )
    assert settle(change).changed[0].by == -1
    assert [row[:2] for row in after([whole, fact(9, "x")], change)] == [
        (9, "x"),
        (curation.FIRST_ADDED, "likes tea"),
        (curation.FIRST_ADDED + 1, "likes jazz"),
    ]


@pytest.mark.parametrize("texts", [["one"], ["one", "One"], ["one", " "]])
def test_a_split_needs_two_different_parts(texts):
    with pytest.raises(MessageError):
        curation.split(fact(1), texts)


@pytest.mark.parametrize(
    ("wish", "comes_from", "becomes"),
    [
        (curation.retire, ("active", "proposed"), "retired"),
        (curation.reject, ("active", "proposed", "superseded", "retired"), "rejected"),
        (curation.restore, ("superseded", "retired", "rejected"), "active"),
        (curation.accept, ("proposed", "active"), "active"),
    ],
)
def test_a_state_is_left_only_from_where_it_makes_sense(wish, comes_from, becomes):
    states = ("proposed", "active", "superseded", "retired", "rejected")
    facts = [fact(id, f"n{id}", state=state) for id, state in enumerate(states, start=1)]
    change = wish(facts)
    assert [(step.fact.state, step.after.state) for step in change.steps] == [
        (state, becomes) for state in states if state in comes_from
    ]
    rest = [f for f in facts if f.state not in comes_from]
    with pytest.raises(MessageError, match="change nothing"):
        wish(rest)


def test_a_reason_stays_with_the_change_set():
    assert curation.retire([fact(1)], " not  true ").reason == "not true"


def test_pinning_leaves_alone_what_is_pinned():
    one, two = fact(1), fact(2, pinned=True)
    assert curation.pin([one, two]).steps == (FactChange(one, {"pinned": True}),)
    assert curation.pin([one, two], False) == ChangeSet("unpin", (FactChange(two, {"pinned": False}),))


def test_what_vanished_comes_back_pinned():
    gone = fact(1, state="superseded")
    assert after([], curation.restore_vanished([gone])) == [(1, "likes tea", True, 2, (("s", 1),))]
    assert after([], curation.restore_vanished([gone], pinned=False)) == [(1, "likes tea", False, 2, (("s", 1),))]


def test_a_fact_does_not_replace_itself():
    with pytest.raises(MessageError, match="cannot replace itself"):
        curation.supersede(fact(1), fact(1))


def test_the_fact_that_replaces_another_holds_from_then_on():
    old, new = fact(1), fact(2, "likes jazz", state="proposed")
    assert curation.supersede(old, new).steps == (
        FactChange(old, {"state": "superseded"}, by=2),
        FactChange(new, {"state": "active"}),
    )
    assert after([old], curation.supersede(old, new)) == [(2, "likes jazz", False, 2, (("s", 2),))]
    with pytest.raises(MessageError, match="is retired"):
        curation.supersede(old, fact(2, state="retired"))


def test_what_was_held_back_is_allowed_with_where_it_was_said():
    new = FactDraft("likes tea", category="preference", slot="drink", origin="extracted", sources=(("s", 5),))
    held = SuppressedFact(new, fact(1, state="rejected"), 0.9, 3, 1.0, 12)
    assert curation.allow(held) == ChangeSet("allow", (new,))


# -- several as one ------------------------------------------------------------------------------


def test_a_proposed_fact_is_edited_and_accepted_at_once():
    waits = fact(3, state="proposed")
    change = together("accept", curation.edit(waits, "likes green tea"), curation.accept([waits]))
    assert after([], change) == [(3, "likes green tea", False, 3, (("s", 3),))]


def test_new_facts_of_joined_change_sets_keep_their_places():
    one, two = fact(1, "a and b"), fact(2, "c and d")
    change = together("split", curation.split(one, ["a", "b"]), curation.split(two, ["c", "d"]))
    assert [(c.fact.id, c.by) for c in settle(change).changed] == [(1, -1), (2, -3)]


def test_steps_on_two_versions_of_a_fact_do_not_go_together():
    with pytest.raises(ConflictError, match='The fact "likes tea" was changed elsewhere'):
        settle(together("edit", curation.edit(fact(1), "x"), curation.pin([replace(fact(1), version=2)])))


# -- the same words twice ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "clash"),
    [
        (curation.add("Likes  Jazz"), "Likes Jazz"),
        (curation.add("likes blues"), None),
        (curation.edit(fact(1), "likes jazz"), "likes jazz"),
        (curation.restore([fact(3, "likes jazz", state="retired")]), "likes jazz"),
        (curation.restore([fact(4, "likes rock", state="retired")]), None),
        (curation.merge([fact(1), fact(2, "likes jazz")], "likes jazz"), None),
        (together("import", curation.add("new"), curation.add("New")), "New"),
    ],
)
def test_two_active_facts_with_the_same_words_are_noticed(change, clash):
    known = [
        fact(1),
        fact(2, "likes jazz"),
        fact(3, "likes jazz", state="retired"),
        fact(4, "likes rock", state="retired"),
    ]
    found = find_clash(settle(change), known)
    assert (found.text if found else None) == clash


def test_words_that_two_facts_had_before_are_left_alone():
    assert find_clash(settle(curation.pin([fact(2)])), [fact(1), fact(2)]) is None


# -- words ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "changed", "added", "said"),
    [
        ("retire", 2, 0, "retired 2 facts"),
        ("edit", 1, 0, "edited a fact"),
        ("merge", 3, 0, "merged 3 facts into one"),
        ("split", 1, 2, "split a fact into 2"),
        ("add", 0, 1, "added a fact"),
        ("import", 0, 1200, "imported 1,200 facts"),
        ("supersede", 2, 0, "replaced a fact by another"),
        ("something newer", 2, 0, "changed 2 facts"),
    ],
)
def test_a_change_set_is_told_in_words(action, changed, added, said):
    assert words_for(action, changed=changed, added=added) == said


def test_every_action_has_words():
    assert [action for action in get_args(Action) if words_for(action, changed=1, added=1).startswith("changed")] == []

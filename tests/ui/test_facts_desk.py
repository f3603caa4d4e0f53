"""The Facts page's rows, sentences and marks: pure functions, no app."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from said_numbers import as_said

from memory_core import MessageError
from memory_core.curation.fact_desk import TriedFact
from memory_core.history.fact_evidence import Merged, Rewrite, RewrittenLine
from memory_core.planning.curation import FactChange, FactDraft, SuppressedFact
from memory_core.planning.fact_merging import Fact, FactRevision
from memory_inspector.palette import contrast
from memory_inspector.reading.fact_history import steps
from memory_inspector.reading.fact_rows import (
    BADGES,
    CHIPS,
    SORTS,
    Edits,
    FactFilter,
    Picked,
    ShownFact,
    chips,
    conflicts,
    in_view,
    matching_rows,
    nothing_found,
    opening,
    over_theirs,
    picked_now,
    plan_table,
    selected,
    sorted_rows,
    states_of,
    still_there,
    used,
    view_labels,
)
from memory_inspector.wording.marked_text import diff_pieces, markdown, source_pieces
from ui.facts.fact_dialogs import outcome
from ui.facts.fact_list import CHIP_COLOURS
from ui.facts.fact_tab import source_of
from ui.facts.facts_page import headline, lost, sums
from ui.facts.review import in_turn, why_held
from ui.parts.effect import describe, foreseen


def shown(id, text, state, *, tokens=0, pinned=False, learned_at=0, confirmed_at=0, **of_the_row):
    draft = FactDraft(text, state=state, pinned=pinned)
    fact = draft.as_fact(id, scope="session:s", block="Facts", tokens=tokens, turn=1, at=learned_at)
    return ShownFact(replace(fact, confirmed_at=confirmed_at), **of_the_row)


ROWS = (
    shown(1, "Ana is allergic to nuts", "active", pinned=True, tokens=6, source="user", learned_at=100, carried=3),
    shown(
        2, "Dinner is on 14 March", "active", tokens=7, source="assistant", learned_at=200, flags=("from_assistant",)
    ),
    shown(3, "Sam lives in Porto", "superseded", tokens=5, source="user", learned_at=50, here=False),
    shown(4, "Sam lives in Lisbon", "proposed", tokens=5, flags=("contradiction",), waits=True, learned_at=300, cut=2),
)
MARKUP = "![x](http://evil/x.png) <b>hi</b> $x$ :material/home:"


def ids(rows):
    return [row.id for row in rows]


def fact(id, text="Ana likes jazz", *, version=1, pinned=False, state="active"):
    return Fact(
        id=id,
        scope="session:s",
        block="Facts",
        text=text,
        tokens=3,
        category="other",
        slot=None,
        state=state,
        pinned=pinned,
        origin="extracted",
        turn=1,
        created_at=0,
        confirmed_at=0,
        updated_at=0,
        version=version,
        sources=(),
    )


# -- views, search, filters, order -----------------------------------------------------------------


def test_each_view_lists_its_states_and_says_how_many():
    assert {view: ids(in_view(ROWS, view)) for view in ("review", "active", "retired", "rewrites")} == {
        "review": [4],
        "active": [1, 2],
        "retired": [3],
        "rewrites": [],
    }
    assert list(view_labels(ROWS, 1).values()) == ["Review 1", "Active 2", "Retired 1", "Rewrites 1"]


def test_a_search_wants_every_word_in_any_order_and_case():
    assert ids(matching_rows(ROWS, FactFilter(words="NUTS ana"), now=0)) == [1]
    assert ids(matching_rows(ROWS, FactFilter(words="sam boat"), now=0)) == []


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (FactFilter(), [1, 2, 3, 4]),
        (FactFilter(states=("pinned",)), [1]),
        (FactFilter(states=("superseded", "proposed")), [3, 4]),
        (FactFilter(sources=("assistant",)), [2]),
        (FactFilter(where="elsewhere"), [3]),
        (FactFilter(where="here"), [1, 2, 4]),
        (FactFilter(suspicious=True), [2, 4]),
        (FactFilter(age="Last hour"), [2, 4]),
    ],
)
def test_each_filter_leaves_what_it_asks_for(wanted, expected):
    assert ids(matching_rows(ROWS, wanted, now=3_750)) == expected


def test_filters_that_are_set_are_counted_without_the_search():
    assert FactFilter(words="x").filters == 0
    assert FactFilter(states=("active",), sources=("user",), age="Last day", where="here", suspicious=True).filters == 5


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("newest", [4, 3, 2, 1]),
        ("oldest", [1, 2, 3, 4]),
        ("words", [1, 2, 4, 3]),
        ("tokens", [2, 1, 4, 3]),
        ("carried", [1, 4, 3, 2]),
        ("cut", [4, 3, 2, 1]),
    ],
)
def test_rows_are_sorted_with_equal_ones_newest_first(order, expected):
    assert ids(sorted_rows(ROWS, order)) == expected


def test_a_repeated_fact_counts_from_its_last_confirmation_and_another_from_its_learning():
    rows = [
        shown(1, "a", "active", learned_at=10, confirmed_at=90),
        shown(2, "b", "active", learned_at=20, confirmed_at=20),
        shown(3, "c", "active", learned_at=30),
    ]
    assert ids(sorted_rows(rows, "unconfirmed")) == [2, 3, 1]


@given(st.permutations(ROWS), st.sampled_from(sorted(SORTS)))
def test_an_order_does_not_depend_on_the_order_before(rows, order):
    assert sorted_rows(rows, order) == sorted_rows(ROWS, order)


# -- chips and sentences ---------------------------------------------------------------------------


def test_the_state_column_says_nothing_of_a_fact_that_is_only_active():
    assert [chips(row) for row in ROWS] == [["Pinned"], ["Not the user"], ["Superseded"], ["Proposed", "Conflict"]]
    assert chips(shown(5, "x", "active")) == []
    assert chips(shown(6, "x", "active", pinned=True, quarantined=True)) == ["Quarantined", "Pinned"]
    assert states_of(ROWS[0]) == ["Pinned", "Active"]


def test_every_chip_has_a_badge_and_a_colour_that_reads_in_both_modes():
    assert set(CHIPS) == set(BADGES)
    for mode, ink in (("light", "#000000"), ("dark", "#FFFFFF")):
        assert {
            name: contrast(CHIP_COLOURS[mode][colour], ink) > 4.5 for name, colour in CHIPS.items()
        } == dict.fromkeys(CHIPS, True)


def test_the_page_opens_with_its_numbers_in_one_sentence():
    assert opening(ROWS) == "2 active facts, 13 tokens. 1 to review."
    assert opening(ROWS[:1]) == "1 active fact, 6 tokens. Nothing to review."
    assert opening([]) == "No active facts. Nothing to review."
    assert opening(ROWS, past_turn=8) == "After turn 8: 2 active facts, 13 tokens."


def test_the_other_sentences_count_in_words():
    assert selected(ROWS[:2]) == "2 facts selected, 13 tokens"
    assert used(3, 0) == "In 3 prompts, cut 0 times."
    assert used(1, 1) == "In 1 prompt, cut 1 time."
    assert used(0, 0) == "Not in a prompt yet."
    assert nothing_found(ROWS, FactFilter(words=" boat "), "active", now=400) == 'No active fact contains "boat".'
    assert (
        nothing_found(ROWS[:1], FactFilter(suspicious=True), "active", now=400) == "No active fact passes the filter."
    )
    assert nothing_found(ROWS, FactFilter(words="Porto"), "active", now=400) == (
        'No active fact contains "Porto". 1 under Retired.'
    )
    assert nothing_found(ROWS, FactFilter(words="Ana", states=("retired",)), "retired", now=400) == (
        'No fact here contains "Ana" and passes the filter.'
    )


# -- selection ---------------------------------------------------------------------------------


def test_clicking_words_opens_a_fact_and_leaves_the_ticks():
    assert picked_now(Picked(10, (10, 20)), [10, 20, 30], [0, 1], 2) == Picked(30, (10, 20))


def test_ticking_opens_what_was_ticked_last():
    assert picked_now(Picked(10), [10, 20, 30], [1], 0) == Picked(20, (20,))
    assert picked_now(Picked(20, (20,)), [10, 20, 30], [1, 2], 0) == Picked(30, (20, 30))


def test_ticks_that_a_search_hides_stay_until_they_are_gone():
    hidden = picked_now(Picked(10, (10, 20)), [20, 30], [0, 1], None)
    assert hidden == Picked(30, (10, 20, 30))
    assert still_there(hidden, {20, 30}) == Picked(30, (20, 30))
    assert still_there(Picked(10, (10,)), {20}) == Picked(None, ())


@given(st.lists(st.integers(-2, 9)), st.none() | st.integers(-2, 9), st.sets(st.integers(1, 6)))
def test_a_selection_never_names_what_is_not_there(rows, cell, before):
    drawn = [1, 2, 3, 4]
    picked = picked_now(Picked(1, tuple(before)), drawn, rows, cell)
    assert set(picked.ticked) <= set(drawn) | before
    assert picked.open in drawn


# -- words with marks ------------------------------------------------------------------------------


def test_a_source_shows_the_facts_words_lit_and_what_stands_around_them():
    text = "Careful with dessert, Ana is allergic to nuts and it is serious."
    start = text.index("Ana")
    pieces = source_pieces(text, [(start, start + len("Ana is allergic to nuts"))], around=12)
    assert [(piece.text, piece.mark) for piece in pieces] == [
        ("… dessert, ", "same"),
        ("Ana is allergic to nuts", "lit"),
        (" and it is …", "same"),
    ]
    assert markdown(pieces) == r"… dessert\, :blue-background[Ana is allergic to nuts] and it is …"


def test_a_source_without_spans_shows_its_beginning():
    assert [piece.mark for piece in source_pieces("word " * 100, ())] == ["same"]
    assert source_pieces("", [(0, 4)]) == []


@given(st.text(max_size=60), st.lists(st.tuples(st.integers(-5, 70), st.integers(-5, 70)), max_size=4))
def test_a_sources_pieces_are_its_own_words_in_order(text, spans):
    shown = "".join(piece.text for piece in source_pieces(text, spans, around=200))
    assert shown == text


@given(st.text(max_size=40), st.text(max_size=40))
def test_a_diff_holds_both_texts(before, after):
    pieces = diff_pieces(before, after)
    assert "".join(piece.text for piece in pieces if piece.mark != "new") == before
    assert "".join(piece.text for piece in pieces if piece.mark != "gone") == after


def test_marked_words_stay_words():
    for mark in (source_pieces(MARKUP, [(0, 12)]), diff_pieces(MARKUP, "other " + MARKUP)):
        shown = markdown(mark)
        assert "![" not in shown.replace("\\!", "").replace("\\[", "")
        assert "<b>" not in shown
        assert ":material/home:" not in shown


def test_an_edit_shows_what_went_and_what_came():
    assert markdown(diff_pieces("on 14 March", "on 15 March")) == "on :orange[~~14~~] :blue[**15**] March"


# -- history ---------------------------------------------------------------------------------------


def revision(version, text="Ana likes jazz", state="active", pinned=False, actor="user", reason=None, **values):
    return FactRevision(version, text, state, pinned, actor, reason, 12, 100.0 + version, **values)


def test_a_history_tells_what_was_done_by_whom():
    told_steps = steps(
        [
            revision(1, actor="engine"),
            revision(2, text="Ana loves jazz"),
            revision(3, text="Ana loves jazz", pinned=True),
            revision(4, text="Ana loves jazz", pinned=True, state="retired", reason="outdated"),
            revision(5, text="Ana loves jazz", pinned=True),
            revision(6, text="Ana loves jazz", pinned=True),
            revision(7, text="Ana loves jazz", pinned=True, metadata={"ask": True}),
        ]
    )
    assert [(step.what, step.who) for step in told_steps] == [
        ("Added", "the engine, turn 12"),
        ("Edited", "a person, turn 12"),
        ("Pinned", "a person, turn 12"),
        ("Retired: outdated", "a person, turn 12"),
        ("Restored", "a person, turn 12"),
        ("Reviewed", "a person, turn 12"),
        ("Changed its metadata", "a person, turn 12"),
    ]
    assert markdown(told_steps[1].pieces) == "Ana :orange[~~likes~~] :blue[**loves**] jazz"


# -- what the next prompt makes of it --------------------------------------------------------------


def prompt(total, facts, *, asked=None, free=None, cuts=(), over_by=0, earlier=0):
    """A context as far as the sentences read it; `earlier`: tokens of earlier turns, and all others are of facts."""
    pieces = tuple(SimpleNamespace(ref=f"f{id}") for id in facts)
    plan = SimpleNamespace(
        total=total,
        free=1200 - total if free is None else free,
        over_by=over_by,
        queue_granted=0,
        pinned_tokens=0,
        reserved_tokens=0,
        granted=(
            SimpleNamespace(name="Earlier turns", granted=earlier, pieces=(SimpleNamespace(ref="sabc"),)),
            SimpleNamespace(name="Facts", granted=total - earlier, pieces=pieces),
        ),
        cuts=tuple(SimpleNamespace(part=part, tokens=size) for part, size in cuts),
    )
    return SimpleNamespace(plan=plan, words={f"f{id}": "" for id in (asked or facts)} | {"sabc": ""}, messages=())


def test_a_saved_fact_says_what_the_next_prompt_makes_of_it():
    assert (
        describe("Saved.", prompt(1173, [1]), prompt(1187, [1, 2]), [2])
        == "Saved. The next prompt will hold it: +14 tokens, 13 still free."
    )
    assert (
        describe("Retired.", prompt(1187, [1, 2]), prompt(1160, []), [1, 2])
        == "Retired. The next prompt will go without them: −27 tokens, 40 free."
    )


def test_a_fact_that_finds_no_room_says_so():
    before, after = prompt(1190, [1]), prompt(1190, [1], asked=[1, 2], cuts=[("Facts", 14)])
    assert describe("Saved.", before, after, [2]) == (
        "Saved. The model will not see it in the next prompt: cut by the limit. Facts would lose 14 more."
    )


def coming(*made, leave=(), unknown=(), **how):
    """A foretold prompt, the messages that are flushed before it, and the blocks that learn what nobody knows."""
    flush = SimpleNamespace(leave=leave) if leave else None
    return SimpleNamespace(context=prompt(*made, **how), flush=flush, unknown=unknown)


def test_what_is_foreseen_names_who_would_lose():
    before = coming(1180, [1], cuts=[("Earlier turns", 56)], earlier=100)
    assert foreseen(before, coming(1191, [1, 2], cuts=[("Earlier turns", 56)], earlier=100)) == (
        "Next prompt +11 tokens, nothing more cut."
    )
    assert as_said(foreseen(before, coming(1130, [1, 2], cuts=[("Earlier turns", 117)], earlier=39))) == (
        "Next prompt −50 tokens, Earlier turns 100 → 39, Facts 1,080 → 1,091."
    )
    # A block may ask for less, which is no cut.
    assert foreseen(before, coming(1130, [1], earlier=50)) == "Next prompt −50 tokens, nothing more cut."
    assert as_said(foreseen(before, coming(1130, [1, 2], earlier=43))) == (
        "Next prompt −50 tokens, Earlier turns 100 → 43, Facts 1,080 → 1,087; nothing more cut."
    )
    assert foreseen(before, coming(1212, [1, 2], over_by=12, earlier=100)) == (
        "Next prompt +32 tokens, 12 over the limit."
    )
    over = coming(1212, [1], over_by=12)
    assert foreseen(over, over) == "Next prompt stays the same size, 12 over the limit."


def test_what_is_foreseen_says_the_flush_that_comes_first():
    before, leave = coming(1180, [1]), ("one", "two")
    assert foreseen(before, coming(1191, [1, 2], leave=leave)).endswith("Before it 2 messages are flushed.")
    said = foreseen(before, coming(1191, [1, 2], leave=leave, unknown=("Facts", "Graph")))
    assert said.endswith("Before it 2 messages are flushed. What Facts and Graph will learn is not counted.")


# -- edit as table -----------------------------------------------------------------------------


def test_all_edits_of_the_grid_are_one_change_set():
    snapshot = (fact(1), fact(2, "Sam lives in Porto"), fact(3, "Teresa is an aunt", pinned=True))
    state = {
        "edited_rows": {0: {"Fact": " Ana  loves jazz "}, 2: {"Pinned": False}},
        "added_rows": [{}, {"Fact": "Rui is a vegetarian", "Pinned": True}],
        "deleted_rows": [1],
    }
    edits = Edits.of(state)
    assert len(edits) == 4
    assert plan_table(snapshot, edits).steps == (
        FactChange(snapshot[0], {"text": "Ana loves jazz"}),
        FactChange(snapshot[2], {"pinned": False}),
        FactChange(snapshot[1], {"state": "retired"}),
        FactDraft("Rui is a vegetarian", pinned=True),
    )


def test_an_emptied_row_is_named():
    with pytest.raises(MessageError, match=r"Row 2: A fact cannot be empty. Retire it instead\?"):
        plan_table((fact(1), fact(2)), Edits({1: {"Fact": "  "}}, (), ()))


def test_only_edited_rows_that_others_changed_are_conflicts():
    snapshot = (fact(1), fact(2), fact(3))
    now = (fact(1, "Ana loves jazz", version=2), fact(2, version=2))
    found_conflicts = conflicts(snapshot, now, Edits({0: {"Fact": "x"}, 2: {"Pinned": True}}, (), ()))
    assert [(conflict.row, conflict.theirs) for conflict in found_conflicts] == [(1, now[0]), (3, None)]
    assert over_theirs(snapshot, now) == (now[0], now[1], snapshot[2])


# -- review, rewrites, trials ------------------------------------------------------------------------


def test_skipped_facts_come_last_and_the_one_a_link_asked_for_first():
    waiting = [fact(1), fact(2), fact(3), fact(4)]
    assert ids(in_turn(waiting, ())) == [1, 2, 3, 4]
    assert ids(in_turn(waiting, (3, 1))) == [2, 4, 3, 1]
    assert ids(in_turn(waiting, (), 3)) == [3, 1, 2, 4]
    assert ids(in_turn(waiting, (3,), 3)) == [1, 2, 4, 3]


@pytest.mark.parametrize(("later", "when"), [(0, "just now"), (300, "5 min ago"), (200_000, "on 1 January, 00:00")])
def test_a_held_back_fact_says_when_its_near_copy_was_rejected(later, when):
    held = SuppressedFact(FactDraft("Ana loves jazz"), fact(1, state="rejected"), 0.95, 1, 0, 7)
    assert why_held(held, later) == f'Held back: you rejected a near copy {when} (0.95): "Ana likes jazz".'


def line(id, *, unsupported=False, restored=False, gone=False):
    now = None if gone else fact(id, state="active" if restored else "superseded")
    return RewrittenLine(id, "words", now, unsupported)


def test_a_rewrite_is_summed_up_so_that_the_numbers_add_up():
    rewrite = Rewrite(
        position=1,
        turn=28,
        at=0,
        extractor="x",
        before=8,
        after=4,
        kept=(line(1),),
        merged=(Merged((line(2), line(3)), line(9)), Merged((line(4), line(5), line(6)), line(10))),
        vanished=(line(7), line(8, gone=True)),
        new=(line(11, unsupported=True),),
    )
    assert headline(rewrite) == "8 facts became 4 in turn 28"
    assert sums(rewrite) == "kept 1 · merged 5 → 2 · dropped 2 · new 1 · unsupported 1"
    assert ids(lost(rewrite)) == [7]


@pytest.mark.parametrize(
    ("tried", "says"),
    [
        (TriedFact("a", "other", "added", fact(1), 0.7), "New"),
        (TriedFact("a", "other", "proposed", conflicts_with=(fact(1),)), "New, contradicts: Ana likes jazz"),
        (TriedFact("a", "other", "confirmed", fact(1), 0.94), "Known already (0.94): Ana likes jazz"),
        (TriedFact("a", "other", "held_back", fact(1), 1.0), "Held back: rejected before (1.00): Ana likes jazz"),
        (TriedFact("a", "other", "repeated"), "Found twice"),
    ],
)
def test_a_trial_says_what_would_become_of_each_fact(tried, says):
    assert outcome(tried) == says


@pytest.mark.parametrize(
    ("origin", "sources", "expected"),
    [
        ("written", (), "person"),
        ("condensed", (("s", 1),), "condensed"),
        ("extracted", (("s", 1), ("s", 2)), "user"),
        ("extracted", (("s", 2),), "assistant"),
        ("extracted", (("other", 2),), "user"),
        ("extracted", (("s", 9),), "unknown"),
        ("extracted", (), "unknown"),
    ],
)
def test_a_facts_source_is_said_in_one_word(origin, sources, expected):
    assert source_of(origin, sources, "s", {1: "user", 2: "assistant"}) == expected

from hypothesis import given
from hypothesis import strategies as st

from memory_core.planning.context import Part, cut_first
from memory_core.planning.priorities import CutOrder, cut_order, plan_priorities

ORDERS = st.sampled_from(["largest_first", "smallest_first"])
NUMBERS = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 4), min_size=1)


def test_the_largest_number_goes_first_unless_the_order_says_otherwise():
    numbers = {"rules": 0, "facts": 1, "turns": 2, "more": 2}
    assert cut_order(numbers, "largest_first") == CutOrder((("turns", "more"), ("facts",)), ("rules",))
    assert cut_order(numbers, "smallest_first") == CutOrder((("facts",), ("turns", "more")), ("rules",))


def test_a_step_meets_the_next_place_and_a_second_one_passes_it():
    order = CutOrder((("a",), ("b",), ("c",)), ())
    assert order.sooner("b").groups == (("a", "b"), ("c",))
    assert order.sooner("b").sooner("b").groups == (("b",), ("a",), ("c",))
    assert order.later("b").groups == (("a",), ("c", "b"))


def test_the_ends_are_the_ends():
    order = CutOrder((("a",), ("b",)), ("n",))
    assert (order.sooner("a"), order.later("b"), order.sooner("n")) == (order, order, order)
    assert [order.can_move(name, -1) for name in "abn"] == [False, True, False]


def test_never_cut_is_a_place_of_its_own_and_who_leaves_it_is_cut_last():
    order = CutOrder((("a", "b"),), ("n",))
    assert order.set_never("a", True) == CutOrder((("b",),), ("n", "a"))
    assert order.set_never("n", False) == CutOrder((("a", "b"), ("n",)), ())
    assert order.set_never("n", True) == order


def test_a_swap_swaps_the_numbers_in_use_and_a_new_place_counts_from_one():
    before = {"rules": 0, "facts": 3, "turns": 9}
    order = cut_order(before, "largest_first")
    swapped = order.sooner("facts").sooner("facts")
    assert plan_priorities(swapped, before, "largest_first") == {"rules": 0, "facts": 9, "turns": 3}
    cut_too = order.set_never("rules", False)
    assert plan_priorities(cut_too, before, "largest_first") == {"rules": 1, "facts": 2, "turns": 3}


@given(NUMBERS, ORDERS)
def test_the_order_is_the_one_in_which_the_planner_cuts(numbers, direction):
    parts = [Part(name, number, ()) for name, number in numbers.items()]
    order = cut_order(numbers, direction)
    assert [name for group in order.groups for name in group] == [part.name for part in cut_first(parts, direction)]
    assert {*order.never} == {name for name, number in numbers.items() if not number}


@given(NUMBERS, ORDERS)
def test_an_order_that_is_not_changed_changes_no_number(numbers, direction):
    assert plan_priorities(cut_order(numbers, direction), numbers, direction) == numbers


@given(NUMBERS, ORDERS, st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from(["sooner", "later", "never"]))))
def test_any_order_reached_by_steps_is_the_order_of_the_numbers_planned_for_it(numbers, direction, steps):
    order = cut_order(numbers, direction)
    for name, step in steps:
        if name not in numbers:
            continue
        order = order.set_never(name, name not in order.never) if step == "never" else getattr(order, step)(name)
    order = order.listed(numbers)
    assert cut_order(plan_priorities(order, numbers, direction), direction) == order


@given(NUMBERS, ORDERS, st.sampled_from("abcdef"))
def test_a_step_back_undoes_a_step(numbers, direction, name):
    order = cut_order(numbers, direction)
    for forth, back in (("sooner", "later"), ("later", "sooner")):
        moved = getattr(order, forth)(name)
        if moved != order:
            assert getattr(moved, back)(name).listed(numbers) == order

from hypothesis import given
from hypothesis import strategies as st

from memory_core.planning.context_plan import CutOrder, Part, cut_first, cut_order

ORDERS = st.sampled_from(["largest_first", "smallest_first"])
NUMBERS = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 4), min_size=1)


def test_the_largest_number_goes_first_unless_the_order_says_otherwise():
    numbers = {"rules": 0, "facts": 1, "turns": 2, "more": 2}
    assert cut_order(numbers, "largest_first") == CutOrder((("turns", "more"), ("facts",)), ("rules",))
    assert cut_order(numbers, "smallest_first") == CutOrder((("facts",), ("turns", "more")), ("rules",))


@given(NUMBERS, ORDERS)
def test_the_order_is_the_one_in_which_the_planner_cuts(numbers, direction):
    parts = [Part(name, number, ()) for name, number in numbers.items()]
    order = cut_order(numbers, direction)
    assert [name for group in order.groups for name in group] == [part.name for part in cut_first(parts, direction)]
    assert {*order.never} == {name for name, number in numbers.items() if not number}

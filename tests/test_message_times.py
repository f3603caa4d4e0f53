"""Times of messages are read in every unit and form in which exports write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core.messages import seconds_of

AT = 1_772_359_200.0
"""2026-03-01, 10:00 in UTC."""


@pytest.mark.parametrize(
    "written",
    [
        AT,
        int(AT) * 1_000,
        "1772359200",
        "1772359200000",
        "2026-03-01T10:00:00Z",
        "2026-03-01T11:00:00+01:00",
        {"$date": "2026-03-01T10:00:00Z"},
        {"$date": {"$numberLong": "1772359200000"}},
    ],
)
def test_a_time_is_read_in_any_form(written):
    assert seconds_of(written) == AT


@given(
    st.recursive(
        st.none() | st.text() | st.integers() | st.booleans(), lambda inner: st.fixed_dictionaries({"$date": inner})
    )
)
def test_whatever_stands_for_a_time_is_one_or_none(written):
    time = seconds_of(written)
    assert time is None or 1e8 <= time < 1e10

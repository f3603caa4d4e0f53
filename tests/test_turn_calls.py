"""The calls of a turn and their figure: lengths and places are the log's, and nothing else is drawn."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core.events import (
    ContextBuilt,
    DeliveryDone,
    DeliveryFailed,
    EventRecord,
    MemorySearched,
    ModelCalled,
    Retrieved,
    ToolCalled,
)
from memory_inspector.figures.timeline_figures import MAX_CALLS, calls_figure, drawn
from memory_inspector.palette import colour
from memory_inspector.reading.turn_series import TurnCall, breaks, calls_rows, summary, turn_calls

SEARCH = Retrieved("Earlier turns", "q", None, "exact", 5, None, (), {})


def record(at, event, position=1):
    return EventRecord(position, "s", 1, at, "engine", event)


def model(seconds, name="m-1", cost=None, **more):
    return ModelCalled("reply", name, 100, 10, seconds, cost, **more)


def context(sent, span):
    names = ("pinned", "queue", "queue_asked", "queue_tokens", "pinned_tokens", "parts", "cuts", "asked", "total")
    values = {name: () if name in ("pinned", "queue", "parts", "cuts") else 0 for name in names}
    more = {"token_limit": 1, "over_by": 0, "over_because": None, "markup_tokens": 0, "overhead_tokens": 0}
    rest = {"billed": 0, "insert_method": "system", "truncation_order": "x", "accounting": "content", "section": None}
    return ContextBuilt(**values, **more, **rest, input=None, known="observed", sent=sent, span=span)


def test_calls_stand_in_the_order_in_which_they_began():
    calls = turn_calls(
        [record(10.0, SEARCH), record(13.0, model(2.5, cost=0.002)), record(14.0, DeliveryDone((1,), "Facts", 1, 3.9))]
    )
    assert [(call.what, call.name, call.begin, call.end) for call in calls] == [
        ("Search", "Earlier turns", 10.0, 10.0),
        ("Delivery", "Facts", pytest.approx(10.1), 14.0),
        ("Reply", "m-1", 10.5, 13.0),
    ]
    assert [call.amount for call in calls] == ["time not recorded", "3.9 s", "2.5 s, $0.0020"]
    assert summary(calls) == "3 calls, 2.5 s in models, $0.0020."


def test_a_call_of_an_agent_began_when_its_span_says_so():
    spans = [
        record(50.0, context(7_000_000, "a")),
        record(50.0, model(1.5, span="a")),
        record(50.0, model(1.0, span="b")),
    ]
    assert [(call.begin, call.end) for call in turn_calls(spans)] == [(7.0, 8.5), (49.0, 50.0)]


def test_failures_tools_and_searches_elsewhere_are_calls_without_a_time():
    records = [
        record(1.0, ToolCalled("archival_insert", None, "refused", "a", "r")),
        record(2.0, DeliveryFailed((1,), "Facts", 1, "Away.", 0)),
        record(3.0, MemorySearched("s", 4_000_000, None, None, (), 0, None)),
        record(5.0, model(0.5, error="Away.")),
    ]
    calls = turn_calls(records)
    assert [(call.what, call.name, call.seconds, call.failed) for call in calls] == [
        ("Tool", "archival_insert", None, True),
        ("Delivery", "Facts", None, True),
        ("Search", "memory", None, False),
        ("Reply", "m-1", 0.5, True),
    ]
    assert summary(calls) == "4 calls, 500 ms in models, 3 failed."
    assert [row["Milliseconds"] for row in calls_rows(calls)] == [None, None, None, 500]


def test_without_any_time_nothing_is_drawn():
    assert drawn(turn_calls([record(1.0, SEARCH)])) == []
    assert drawn(turn_calls([record(1.0, model(0.0))])) == []


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_a_bar_is_as_long_as_its_call_in_the_colour_of_its_block_and_hatched_if_it_failed(mode):
    calls = turn_calls(
        [
            record(10.0, SEARCH),
            record(12.0, DeliveryDone((1,), "Facts", 1, 1.5)),
            record(13.0, model(2.0, error="Away.")),
        ]
    )
    figure = calls_figure(drawn(calls), {"Facts": "facts", "Earlier turns": "vector"}, mode)
    bars = {trace.hovertext: trace for trace in figure.data if trace.type == "bar"}
    (mark,) = [trace for trace in figure.data if trace.type == "scatter"]
    assert mark.marker.color == colour("vector", mode)
    learned, failed = bars["Delivery · Facts: 1.5 s"], bars["Reply · m-1: 2.0 s, failed"]
    assert (learned.x[0], learned.base[0], learned.marker.color) == (1_500, 500, colour("facts", mode))
    assert (failed.x[0], failed.base[0], failed.marker.pattern.fgcolor) == (2_000, 1_000, colour("cut", mode))


def test_names_in_the_figure_are_never_markup():
    calls = turn_calls([record(10.0, model(2.0, "<b>x</b>"))])
    figure = calls_figure(calls, {}, "light")
    assert all("<b>" not in note.text for note in figure.layout.annotations)
    assert all("<b>" not in trace.hovertext for trace in figure.data)


def test_of_very_many_calls_the_longest_are_drawn_in_their_order():
    calls = turn_calls([record(float(number), model(0.1 + number % 7)) for number in range(60)])
    some = drawn(calls)
    assert len(some) == MAX_CALLS
    assert min(call.seconds for call in some) >= max(call.seconds for call in calls if call not in some)
    assert some == [call for call in calls if call in some]


def test_idle_minutes_are_left_out_and_named():
    calls = turn_calls([record(10.0, model(2.0)), record(300.0, model(1.0)), record(300.5, model(0.4))])
    assert breaks(calls) == [(10.0, 299.0)]
    figure = calls_figure(calls, {}, "light")
    bars = [(trace.base[0], trace.x[0]) for trace in figure.data]
    assert bars[0] == (0, 2_000)
    assert 2_000 < bars[1][0] < 4_000
    assert bars[2][0] - bars[1][0] == pytest.approx(1_100)  # to scale again
    assert [note.text for note in figure.layout.annotations if "idle" in note.text] == ["289 s idle"]


@given(st.lists(st.tuples(st.floats(0, 1e6), st.one_of(st.none(), st.floats(0.001, 100))), min_size=1, max_size=20))
def test_no_bar_changes_its_length_or_begins_before_one_that_began_earlier(times):
    records = [record(at, SEARCH if took is None else model(took)) for at, took in times]
    calls = drawn(turn_calls(records))
    if not calls:
        return
    traces = calls_figure(calls, {}, "light").data
    begins = [trace.base[0] if trace.type == "bar" else trace.x[0] for trace in traces]
    assert all(later - earlier > -1e-3 for earlier, later in pairwise(begins))
    lengths = [trace.x[0] for trace in traces if trace.type == "bar"]
    assert lengths == pytest.approx([call.seconds * 1000 for call in calls if call.seconds is not None])


def test_no_more_rows_are_drawn_than_have_room_however_alike_the_calls_are():
    call = TurnCall("Search", "Facts", None, 1.0, 0.5)
    assert len(drawn([call] * 100)) == MAX_CALLS

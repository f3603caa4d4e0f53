"""The two lanes stand where the numbers say, the table adds up, and no name can become markup."""

import re
from dataclasses import replace
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core import Memory
from memory_inspector.figures.budget_lanes import (
    Lanes,
    Motion,
    Segment,
    describe,
    in_order,
    lanes_html,
    legend_html,
    queue_sentence,
)
from memory_inspector.palette import DARK, LIGHT
from ui.parts.budget_card import Shown, moved

QUEUE = Segment("Queue", "queue", 561, None, 561)
INSTRUCTIONS = Segment("Instructions", "static", 212, 0, 212)
FACTS = Segment("Facts", "facts", 126, 1, 126)
EARLIER = Segment("Earlier turns", "vector", 279, 2, 335)

TURN_12 = Lanes(limit=1200, flush_line=720, sent=(INSTRUCTIONS, FACTS, EARLIER, QUEUE), free=22, queue_now=603, cut=56)
TURN_11 = Lanes(
    limit=1200,
    flush_line=720,
    sent=(replace(QUEUE, tokens=646, asked=646), INSTRUCTIONS, replace(FACTS, tokens=84, asked=84)),
    free=258,
    queue_now=688,
    cut=0,
)


def boxes(html):
    """(background, left, width) of every box, percentages of the scale."""
    found = re.findall(r"left:([\d.]+)%;width:(?:calc\()?([\d.]+)%[^\"]*?background:([^;\"]+)", html)
    return [(background, float(left), float(width)) for left, width, background in found]


def line_at(html, kind):
    """Where the limit (`solid`) or the flush line (`dashed`) stands, in percent of the scale."""
    (left,) = re.findall(rf"left:calc\(([\d.]+)% - 1px\);[^\"]*border-left:2px {kind}", html)
    return float(left)


def test_queue_first_then_from_never_cut_to_cut_first():
    assert in_order(TURN_12) == (QUEUE, INSTRUCTIONS, FACTS, EARLIER)


def test_the_smallest_number_stands_last_when_it_is_cut_first():
    assert in_order(replace(TURN_12, cut_first="smallest")) == (QUEUE, INSTRUCTIONS, EARLIER, FACTS)


def test_of_equal_priority_the_first_configured_is_cut_first():
    tie = replace(EARLIER, label="Later in the list", priority=1)
    assert in_order(replace(TURN_12, sent=(QUEUE, FACTS, tie))) == (QUEUE, tie, FACTS)


def test_the_scale_holds_everything_that_is_drawn():
    assert TURN_12.scale == 1234
    assert TURN_11.scale == 1200
    assert replace(TURN_11, queue_now=1900).scale == 1900


def test_segments_follow_each_other_to_scale():
    drawn = boxes(lanes_html(TURN_12, "light"))
    colours = (LIGHT.queue, LIGHT.static, LIGHT.facts, LIGHT.vector)
    sent = [next(box for box in drawn if box[0] == colour) for colour in colours]
    assert [width for _, _, width in sent] == pytest.approx([100 * n / 1234 for n in (561, 212, 126, 279)], abs=1e-3)
    assert [left for _, left, _ in sent] == pytest.approx([100 * n / 1234 for n in (0, 561, 773, 899)], abs=1e-3)


def test_the_cut_begins_where_the_sent_ends_and_passes_the_limit():
    (hatched,) = [box for box in boxes(lanes_html(TURN_12, "dark")) if box[0].startswith("repeating-linear-gradient")]
    assert hatched[1:] == pytest.approx((100 * 1178 / 1234, 100 * 56 / 1234), abs=1e-3)
    assert hatched[1] < line_at(lanes_html(TURN_12, "dark"), "solid") < hatched[1] + hatched[2]


def test_the_limit_and_the_flush_line_stand_at_their_true_places():
    html = lanes_html(TURN_12, "light")
    assert line_at(html, "solid") == pytest.approx(100 * 1200 / 1234, abs=1e-3)
    assert line_at(html, "dashed") == pytest.approx(100 * 720 / 1234, abs=1e-3)


def test_the_free_room_ends_at_the_limit_and_the_queues_track_at_the_flush_line():
    free = [box[1:] for box in boxes(lanes_html(TURN_11, "dark")) if box[0] == DARK.free]
    assert [left + width for left, width in free] == pytest.approx([100, 60], abs=2e-3)


def test_the_second_lane_is_the_queue_now():
    *_, queue_now = [box for box in boxes(lanes_html(TURN_12, "light")) if box[0] == LIGHT.queue]
    assert queue_now[1:] == pytest.approx((0, 100 * 603 / 1234), abs=1e-3)


@pytest.mark.parametrize(
    ("limit", "flush_line", "side"),
    [(1200, 720, "left:max(60.000% + 6px"), (1200, 1100, "right:calc(8.333% + 6px)"), (131072, 91750, "right:0")],
)
def test_the_words_of_a_line_stand_where_they_fit(limit, flush_line, side):
    html = lanes_html(Lanes(limit, flush_line, (), limit, 80_123 * limit // 131_072, 0), "light")
    assert f'<span style="position:absolute;{side}' in html.split("Queue now")[2]


def test_nothing_is_hatched_when_nothing_was_cut():
    assert "gradient" not in lanes_html(TURN_11, "light")


def test_what_is_over_the_limit_is_hatched_from_the_limit_on():
    html = lanes_html(replace(TURN_11, limit=800, free=0), "light")
    (hatched,) = [box for box in boxes(html) if box[0].startswith("repeating-linear-gradient")]
    assert hatched[1:] == pytest.approx((100 * 800 / 942, 100 * 142 / 942), abs=1e-3)


def test_two_blocks_of_a_kind_are_two_pixels_apart():
    twins = (QUEUE, INSTRUCTIONS, replace(INSTRUCTIONS, label="House rules"), FACTS)
    assert re.findall(r"% - (\d)px\);min", lanes_html(replace(TURN_11, sent=twins), "light")) == ["1", "2", "1", "1"]


@given(
    st.lists(st.integers(0, 5000), max_size=8),
    st.integers(0, 5000),
    st.integers(1, 5000),
    st.sampled_from([0.1, 0.6, 1]),
)
def test_sent_and_cut_fill_the_first_lane_without_gap_or_overlap(sizes, cut, limit, ratio):
    segments = tuple(Segment(f"b{n}", "custom", size, n, size) for n, size in enumerate(sizes))
    lanes = Lanes(limit, int(limit * ratio), segments, max(0, limit - sum(sizes)), 0, cut)
    drawn = [box for box in boxes(lanes_html(lanes, "light")) if box[0] == LIGHT.custom]
    assert sum(width for _, _, width in drawn) == pytest.approx(100 * sum(sizes) / lanes.scale, abs=0.01)
    assert all(left + width <= 100.01 for _, left, width in boxes(lanes_html(lanes, "light")))


def test_a_name_cannot_become_markup():
    nasty = replace(FACTS, label='"><img src=http://evil/ onerror=x>')
    html = lanes_html(replace(TURN_12, sent=(QUEUE, nasty)), "light")
    assert "<img" not in html
    assert "&quot;&gt;&lt;img src=http://evil/" in html


def test_the_only_tags_are_divs_and_spans_without_addresses():
    html = lanes_html(TURN_12, "dark")
    assert set(re.findall(r"</?(\w+)", html)) == {"div", "span"}
    assert not re.search(r"url\(|href|src=|http", html)


def test_a_long_name_is_short_in_the_lane_and_whole_in_its_hint():
    long = replace(FACTS, label="Everything said about the dinner")
    html = lanes_html(replace(TURN_12, sent=(QUEUE, long)), "light")
    assert ">Everything said about t…</span>" in html
    assert 'title="Everything said about the dinner: 126 tokens, priority 1"' in html


def test_the_lanes_are_described_in_words():
    assert describe(TURN_12) == (
        "Sent 1,178 of 1,200 tokens: Queue 561, Instructions 212, Facts 126, Earlier turns 279 of 335; "
        "22 free, 56 cut. Queue now 603, flushed above 720."
    )
    html = lanes_html(TURN_12, "light")
    assert html.startswith(f'<div role="img" aria-label="{describe(TURN_12)}"')


def table(html):
    """(name, tokens, note) of every row, as one reads them."""
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", html)]
    return [tuple(unescape(re.sub(r"<.*?>", "", cell)) for cell in row) for row in cells]


def test_the_table_says_what_each_part_has_and_by_which_rule_it_is_cut():
    html = legend_html(TURN_12, "light")
    assert table(html) == [
        ("■ Queue", "561", "flushed, not cut"),
        ("■ Instructions", "212", "never cut"),
        ("■ Facts", "126", "priority 1"),
        ("■ Earlier turns", "279 of 335", "priority 2, cut 56"),
    ]
    assert re.findall(r"color:(#\w+)\">■", html) == [LIGHT.queue, LIGHT.static, LIGHT.facts, LIGHT.vector]
    assert re.search(rf'<span style="color:{LIGHT.cut};white-space:nowrap"><a [^>]*>cut</a> 56</span>', html)


def test_the_columns_of_the_table_do_not_depend_on_its_numbers():
    def columns(lanes):
        return re.findall(r"table-layout:\w+|<col style=\"(.*?)\">", legend_html(lanes, "light"))

    assert columns(TURN_11) == columns(TURN_12)
    assert "table-layout:fixed" in legend_html(TURN_11, "light")


def test_names_and_notes_in_the_table_cannot_become_markup():
    nasty = replace(FACTS, label="<img src=x>" + 40 * "n", note="<b>off</b>")
    html = legend_html(replace(TURN_12, sent=(nasty,)), "dark")
    assert set(re.findall(r"</?(\w+)", html)) == {"table", "colgroup", "col", "tbody", "tr", "th", "td", "span"}
    (row,) = re.findall(
        r"<a .*?>", legend_html(replace(TURN_12, sent=(replace(nasty, label='"><b>', note=""),)), "dark")
    )[:1]
    assert 'title="&quot;&gt;&lt;b&gt;: ' in row
    assert table(html) == [("■ <img src=x>nnnnnnnnnnnn…", "126", "<b>off</b>")]
    assert 'title="&lt;img src=x&gt;nnnn' in html


def test_a_shrunken_queue_says_so():
    (row,) = table(legend_html(replace(TURN_12, sent=(replace(QUEUE, asked=700),)), "light"))
    assert row == ("■ Queue", "561 of 700", "oldest left out, cut 139")


def test_impossible_budgets_are_refused():
    with pytest.raises(ValueError, match=r"self\.limit=0"):
        replace(TURN_12, limit=0)
    with pytest.raises(ValueError, match=r"self\.free=-1"):
        replace(TURN_12, free=-1)


def test_lanes_that_changed_move_from_where_they_were_past_the_flush_line_and_come_to_rest():
    before = Shown("demo", 56, TURN_11, since=0.0)
    now = moved(before, Shown("demo", 72, TURN_12, since=10.0), {58: 732})
    assert now.motion == Motion(TURN_11, peak=732)
    html = lanes_html(TURN_12, "light", now.motion)
    assert f"--peak-width:{100 * 732 / TURN_12.scale:.3f}%" in html
    assert f"--was-width:{100 * TURN_11.queue_now / TURN_11.scale:.3f}%" in html
    assert moved(now, Shown("demo", 72, TURN_12, since=11.0), {58: 732}).motion == now.motion
    assert moved(now, Shown("demo", 72, TURN_12, since=20.0), {58: 732}).motion is None
    assert "animation" not in lanes_html(TURN_12, "light")


def test_nothing_passes_the_flush_line_on_the_way_back_or_once_its_flush_was_shown():
    now = moved(Shown("demo", 80, TURN_11), Shown("demo", 72, TURN_12), {58: 732})
    assert now.motion == Motion(TURN_11, peak=0)
    now = moved(Shown("demo", 58, TURN_11), Shown("demo", 72, TURN_12), {58: 732})
    assert now.motion == Motion(TURN_11, peak=0)


def test_a_queue_that_was_shown_above_its_line_only_drops():
    full = replace(TURN_11, queue_now=732)
    assert moved(Shown("demo", 57, full), Shown("demo", 58, TURN_12), {58: 732}).motion == Motion(full, peak=0)


def test_another_sessions_lanes_are_no_beginning():
    assert moved(Shown("other", 1, TURN_11), Shown("demo", 1, TURN_12), {}).motion is None


@pytest.mark.parametrize(("leaving", "says"), [(True, "its oldest messages leave now."), (False, "the next message")])
def test_a_queue_above_its_line_says_when_it_is_flushed(leaving, says):
    full = Memory.from_defaults(token_limit=1200).session.status()
    full = replace(full, queue_tokens=int(full.history_budget) + 12)
    assert queue_sentence(full, leaving=leaving).startswith(f"12 above the flush line: {says}")

"""The timeline's figures, its list and its drawer's numbers, as values."""

import dataclasses
import subprocess
import sys
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from memory_core import Memory
from memory_core.events import (
    KINDS,
    BlockEdited,
    BlocksOrdered,
    ConfigurationChanged,
    ContextBuilt,
    DeliveryFailed,
    EventRecord,
    FactChanged,
    FactPinned,
    FactsCondensed,
    Family,
    FlushPlanned,
    MessageAdded,
    ModelCalled,
    Retrieved,
    SessionReset,
    UnknownEvent,
    VectorsStored,
)
from memory_core.history.by_turn import TurnRecord
from memory_core.history.projection import project
from memory_inspector.figures.timeline_figures import SCISSORS, counted, outcome_rows, strip_figure, tokens_figure
from memory_inspector.palette import DARK, LIGHT
from memory_inspector.reading.event_rows import (
    CUTS,
    GROUPS,
    NEWER,
    PROMPTS,
    Calls,
    Filter,
    Index,
    chosen,
    ledger,
    totals,
)
from memory_inspector.reading.outcomes import outcomes_of
from memory_inspector.reading.turn_series import MAX_BARS, MAX_POINTS, Layer, Mark, course, course_rows, describe
from memory_inspector.wording.event_details import number_rows

KINDS_OF = {"Instructions": "static", "Facts": "facts", "Earlier turns": "vector"}
NASTY = "<img src=x onerror=alert(1)> $a$"

BUILT = ContextBuilt(
    pinned=(), queue=(), queue_asked=560, queue_tokens=560, pinned_tokens=0,
    parts=(
        {"name": "Earlier turns", "priority": 2, "asked": 335, "granted": 279, "refs": []},
        {"name": "Instructions", "priority": 0, "asked": 212, "granted": 212, "refs": []},
        {"name": "Facts", "priority": 1, "asked": 126, "granted": 126, "refs": []},
    ),
    cuts=(), asked=1233, total=1177, token_limit=1200, over_by=0, over_because=None, markup_tokens=0,
    overhead_tokens=0, billed=1305, insert_method="system", truncation_order="largest_first",
    accounting="content", section=None, input=None,
)  # fmt: skip
CUT = {"part": "Earlier turns", "rule": "trimmed", "refs": ["v7"], "tokens": 56, "over_before": 34}


def built(**changes):
    return dataclasses.replace(BUILT, **changes)


def flush(**changes):
    given = {
        "flush": 1, "trigger": "over_budget", "rules": ("whole_turns",), "seqs": ((1, 4), (7, 7)), "messages": 5,
        "tokens": 171, "queue_before": 732, "queue_after": 561, "history_budget": 720.0, "flush_size": 120,
        "over_by": 0,
    }  # fmt: skip
    return FlushPlanned(**(given | changes))


def record(event, position=1, turn=1, actor="engine"):
    return EventRecord(position, "s", turn, 0.0, actor, event)


def turn(number, context=BUILT, *, flushes=0, limit=1200, **changes):
    """One turn, its context at position 10 × number, its flushes just before."""
    context = context and replace(context, token_limit=limit if context.known == "built" else context.token_limit)
    return TurnRecord(
        turn=number, first_position=10 * number - 5, last_position=10 * number, at=0.0, queue_tokens=603,
        history_budget=0.6 * limit, token_limit=limit, prompt_budget=0.6 * limit,
        flushes=tuple(record(flush(), 10 * number - 1 - place, number) for place in range(flushes)),
        contexts=(record(context, 10 * number, number),) if context else (), **changes,
    )  # fmt: skip


def turns(*given):
    return {each.turn: each for each in given}


# -- tokens by turn ------------------------------------------------------------------------------


def test_the_layers_go_from_the_queue_over_never_cut_to_cut_first():
    drawn = course(turns(turn(1)), KINDS_OF)
    assert drawn.layers == (
        Layer("Queue", "queue", (560,)),
        Layer("Instructions", "static", (212,)),
        Layer("Facts", "facts", (126,)),
        Layer("Earlier turns", "vector", (279,)),
    )


def test_the_order_is_that_of_the_newest_priorities():
    smallest = built(truncation_order="smallest_first")
    assert [layer.label for layer in course(turns(turn(1), turn(2, smallest)), KINDS_OF).layers] == [
        "Queue", "Instructions", "Earlier turns", "Facts",
    ]  # fmt: skip


def test_of_equal_priorities_the_first_is_cut_first_and_so_drawn_last():
    parts = tuple({**part, "priority": 1} for part in BUILT.parts)
    assert [layer.label for layer in course(turns(turn(1, built(parts=parts))), {}).layers] == [
        "Queue", "Facts", "Instructions", "Earlier turns",
    ]  # fmt: skip


def test_a_turn_without_a_prompt_shows_its_queue():
    drawn = course(turns(turn(1, None), turn(2)), KINDS_OF)
    assert drawn.layers[0].tokens == (603, 560)
    assert drawn.prompts == (0, 20)
    assert drawn.layers[2].tokens == (0, 126)


def test_a_turn_without_a_prompt_has_a_ring_and_no_words_inside_its_bar():
    drawn = course(turns(turn(1, None), turn(2)), KINDS_OF)
    assert drawn.without_prompt == {1: 603}
    figure = tokens_figure(drawn, "light")
    (ring,) = [trace for trace in figure.data if trace.name == "no prompt"]
    assert list(ring.x) == [1]
    assert ring.y[0] > 603
    assert all(trace.textposition == "none" for trace in figure.data if trace.type == "bar")
    assert not course(turns(turn(1)), KINDS_OF).without_prompt


def test_pinned_system_messages_are_a_part_of_their_own():
    drawn = course(turns(turn(1, built(pinned_tokens=40)), turn(2)), KINDS_OF)
    assert drawn.layers[1] == Layer("System messages", "custom", (40, 0))


def test_the_lines_are_steps_where_the_settings_changed():
    drawn = course(turns(turn(1), turn(2), turn(3, limit=2000)), KINDS_OF)
    assert drawn.limit == ((1, 2, 1200), (3, 3, 2000))
    assert drawn.flush_line == ((1, 2, 720), (3, 3, 1200))
    figure = tokens_figure(drawn, "light")
    limit = next(trace for trace in figure.data if trace.type == "scatter" and trace.line.dash == "solid")
    assert (list(limit.x), list(limit.y)) == ([0.5, 2.5, 2.5, 3.5], [1200, 1200, 2000, 2000])


def test_a_limit_changed_after_a_reply_counts_from_the_next_turn():
    memory = Memory.from_defaults(session_id="s", token_limit=1200)
    for limit in (2000, 500, None):
        memory.put({"role": "user", "content": "And then?"})
        memory.build_context()
        memory.put({"role": "assistant", "content": "Then this."})
        if limit:
            memory.configure(token_limit=limit)
    drawn = course(memory.log.history().turns, {})
    assert drawn.limit == ((1, 1, 1200), (2, 2, 2000), (3, 3, 500))
    assert drawn.flush_line == ((1, 1, 840), (2, 2, 1400), (3, 3, 350))
    rows = course_rows(memory.log.history().turns, {})
    assert [(row["Limit"], row["Flush above"]) for row in rows] == [(500, 350), (2000, 1400), (1200, 840)]


def test_every_flush_and_cut_is_marked_with_the_position_of_its_event():
    drawn = course(turns(turn(1, flushes=2), turn(2, built(cuts=(CUT, CUT)))), KINDS_OF)
    assert drawn.flushes == (Mark(1, 9, 171), Mark(1, 8, 171))
    assert drawn.cuts == (Mark(2, 20, 112),)
    assert drawn.prompts == (10, 20)
    assert list(tokens_figure(drawn, "light").data[0].customdata) == [10, 20]
    marks = {trace.name: trace for trace in tokens_figure(drawn, "light").data if trace.name in ("flush", "cut")}
    assert list(marks["flush"].customdata) == [9, 8]
    assert list(marks["cut"].customdata) == [20]
    assert set(marks["cut"].text) == {SCISSORS}
    assert describe(drawn) == "Tokens by turn of 2 turns, limit 1,200; 2 flushes and 1 prompt with cuts marked"


def test_the_marks_stand_above_everything_that_is_drawn():
    high = course(turns(turn(1, built(queue_tokens=5000, cuts=(CUT,)), flushes=1)), KINDS_OF)
    figure = tokens_figure(high, "light")
    heights = [trace.y[0] for trace in figure.data if trace.name in ("flush", "cut")]
    assert min(heights) > 5000 + 212 + 126 + 279
    assert max(heights) < figure.layout.yaxis.range[1]


@pytest.mark.parametrize(
    ("count", "kind", "step"), [(MAX_BARS, "bar", 1), (MAX_BARS + 1, "scatter", 1), (MAX_POINTS + 2, "scatter", 2)]
)
def test_a_long_session_is_drawn_as_areas_of_every_few_turns(count, kind, step):
    drawn = course({number: turn(number) for number in range(1, count + 1)}, KINDS_OF)
    figure = tokens_figure(drawn, "light")
    layers = [trace for trace in figure.data if trace.name in ("Queue", *KINDS_OF)]
    assert {trace.type for trace in layers} == {kind}
    assert drawn.step == step
    assert (drawn.turns[0], drawn.turns[-1]) == (1, count)
    assert len(layers[0].x) <= MAX_POINTS + 1
    notes = [note.text for note in figure.layout.annotations if "drawn" in note.text]
    assert notes == ([] if step == 1 else ["every 2nd turn drawn, all flushes and cuts"])


def test_no_flush_or_cut_is_thinned_away():
    given = {n: turn(n, built(cuts=(CUT,)) if n % 3 == 0 else BUILT, flushes=n % 2) for n in range(1, 2501)}
    drawn = course(given, KINDS_OF)
    figure = tokens_figure(drawn, "light")
    marks = {trace.name: list(trace.x) for trace in figure.data if trace.name in ("flush", "cut")}
    assert marks == {"flush": list(range(1, 2501, 2)), "cut": list(range(3, 2501, 3))}
    assert drawn.step == 5
    assert len(drawn.turns) <= MAX_POINTS + 1


def test_the_picked_turn_is_marked_and_what_came_after_is_pale():
    drawn = course({number: turn(number) for number in range(1, 6)}, KINDS_OF)
    marked, pale = tokens_figure(drawn, "light", picked=3).layout.shapes
    assert (marked.x0, marked.x1, marked.fillcolor) == (2.5, 3.5, LIGHT.accent)
    assert (pale.x0, pale.x1, pale.fillcolor, pale.layer) == (3.5, 5.6, LIGHT.page, "above")
    assert tokens_figure(drawn, "light").layout.shapes == ()


def test_dark_figures_have_dark_colours():
    figure = tokens_figure(course(turns(turn(1)), KINDS_OF), "dark")
    assert figure.data[0].marker.color == DARK.queue
    assert figure.layout.font.color == DARK.text


def test_a_blocks_name_is_shown_as_it_is():
    parts = ({"name": NASTY, "priority": 1, "asked": 1, "granted": 1, "refs": []},)
    figure = tokens_figure(course(turns(turn(1, built(parts=parts))), {}), "light")
    assert "<img" not in figure.to_json()
    assert "&lt;img" in figure.data[1].name


def test_the_same_numbers_stand_in_a_table_newest_first():
    rows = course_rows(turns(turn(1, None), turn(2, built(cuts=(CUT,)), flushes=1, facts_added=3)), KINDS_OF)
    assert rows == [
        {"Turn": 2, "Queue": 560, "Instructions": 212, "Facts": 126, "Earlier turns": 279, "Sent": 1177,
         "Limit": 1200, "Cut": 56, "Flushed": 171, "Flush above": 720, "Facts learned": 3},
        {"Turn": 1, "Queue": 603, "Instructions": None, "Facts": None, "Earlier turns": None, "Sent": None,
         "Limit": 1200, "Cut": 0, "Flushed": 0, "Flush above": 720, "Facts learned": 0},
    ]  # fmt: skip


# -- the outcome of the messages --------------------------------------------------------------------


def outcomes():
    said = [record(MessageAdded(n, f"m{n}", "user", 10, 10, "o200k", f"h{n}"), n, n) for n in range(1, 7)]
    events = [*said, record(flush(seqs=((1, 3),)), 7, 6), record(SessionReset("active", 3, 0, 0), 8, 6)]
    return outcomes_of(project(events))


def test_the_strip_has_a_segment_a_run_in_order_and_what_is_lost_is_hatched():
    figure = strip_figure(outcomes().runs(), "light")
    flushed, gone = figure.data
    assert [(bar.base[0], bar.x[0], bar.text) for bar in figure.data] == [(0, 3, "3"), (3, 3, "3")]
    assert flushed.hovertext == "Messages 1 to 3, turns 1 to 3: flushed. 30 tokens"
    assert gone.hovertext == "Messages 4 to 6, turns 4 to 6: gone. 30 tokens"
    assert gone.marker.pattern.fgcolor == LIGHT.cut
    assert flushed.marker.color == LIGHT.rest
    assert outcome_rows(outcomes().runs())[0] == {
        "Messages": "1 to 3", "Turns": "1 to 3", "Outcome": "flushed", "Number": 3, "Tokens": 30, "Facts learned": 0,
    }  # fmt: skip


def test_of_a_long_session_the_outcomes_are_counted():
    said = [record(MessageAdded(n, f"m{n}", "user", 10, 10, "o200k", f"h{n}"), n, n) for n in range(1, 6)]
    runs = outcomes_of(project([*said, record(flush(seqs=((1, 1), (3, 3))), 7, 6)])).runs()
    assert [run.kind for run in runs] == ["flushed", "queue", "flushed", "queue"]
    assert [(run.kind, run.messages, run.first.seq, run.last.seq) for run in counted(runs)] == [
        ("flushed", 2, 1, 3),
        ("queue", 3, 2, 5),
    ]


# -- the list ------------------------------------------------------------------------------------


def test_every_family_of_events_has_a_group_of_its_own():
    assert {event.family for event in KINDS.values()} == set(GROUPS) == set(get_args(Family))
    assert len({group.name for group in GROUPS.values()}) == len(GROUPS)


LOG = (
    record(flush(), 1),
    record(built(cuts=(CUT,)), 2),
    record(built(), 3),
    record(FactPinned(1, "Facts", True), 4, 2, "user"),
    record(BlocksOrdered(("Facts", "Notes")), 5, 2, "user"),
    record(UnknownEvent("dreamed", {}), 6, 2),
)


@pytest.mark.parametrize(
    ("wanted", "positions"),
    [
        (Filter(), [6, 5, 4, 3, 2, 1]),
        (Filter(group="Flushes"), [1]),
        (Filter(group=PROMPTS), [3, 2]),
        (Filter(group=CUTS), [2]),
        (Filter(group=NEWER), [6]),
        (Filter(actor="user"), [5, 4]),
        (Filter(block="Facts"), [5, 4]),
        (Filter(block="Earlier turns"), [2]),
        (Filter(group="Facts", actor="engine"), []),
    ],
)
def test_events_are_chosen_newest_first_by_kind_actor_and_block(wanted, positions):
    assert [each.position for each in chosen(LOG, wanted)] == positions
    assert bool(wanted) is (positions != [6, 5, 4, 3, 2, 1])


def test_the_filters_offer_what_there_is():
    index = Index()
    for event in LOG:
        index.apply(event)
    assert index.options() == ["Flushes", "Facts", PROMPTS, CUTS, "Blocks", NEWER]
    assert (index.groups[PROMPTS], index.groups[CUTS]) == (2, 1)
    assert list(index.blocks) == ["Facts"]
    assert dict(index.actors) == {"engine": 4, "user": 2}


def test_model_calls_are_summed_by_turn_purpose_and_model():
    rows = ledger(
        [
            record(ModelCalled("extract", "gpt", 100, 10, 0.5, 0.001, "Facts"), 1, 3),
            record(ModelCalled("extract", "gpt", 200, 20, 1.5, 0.002, "Facts"), 2, 3),
            record(ModelCalled("reply", "offline", None, None, 0.1, None), 3, 4),
            record(ModelCalled("extract", "gpt", None, None, 60.0, None, "Facts", "Timed out."), 4, 5),
            record(flush(), 5, 5),
        ]
    )
    assert rows == [
        Calls(5, "find facts", "gpt", 1, 1, None, None, 60.0, None),
        Calls(4, "reply", "offline", 1, 0, None, None, 0.1, None),
        Calls(3, "find facts", "gpt", 2, 0, 300, 30, 2.0, 0.003),
    ]
    assert totals(rows) == Calls(0, "", "", 4, 1, 300, 30, pytest.approx(62.1), 0.003)


# -- the numbers of one event --------------------------------------------------------------------


def test_a_flush_gives_its_numbers_and_its_rule():
    assert number_rows(flush(over_by=12)) == [
        ("Messages", "5: number 1 to 4, 7"),
        ("Tokens that left", "171"),
        ("Queue before", "732"),
        ("Queue after", "561"),
        ("Flush above", "720"),
        ("Flush size", "at least 120"),
        ("Still above by", "12"),
        ("Rule", "oldest first, whole turns; the newest turn stays"),
    ]


def test_a_prompt_gives_what_every_part_asked_and_got():
    assert number_rows(built(pinned_tokens=5, over_because=None)) == [
        ("Requested", "1,233"),
        ("Sent", "1,177 of 1,200"),
        ("Free", "23"),
        ("Queue", "560"),
        ("System messages", "5"),
        ("Earlier turns", "279 of 335, priority 2"),
        ("Instructions", "212, never cut"),
        ("Facts", "126, priority 1"),
        ("Billed", "about 1,305"),
    ]
    over = number_rows(built(total=1312, over_because="the queue", neutralised=2))
    assert ("Over the limit by", "112") in over
    assert ("Never cut", "the queue") in over
    assert ("Made harmless", "2 texts") in over


def test_a_search_gives_its_gates():
    event = Retrieved("Earlier turns", "q", "m", "exact", 5, None, (), {"granted": 2, "in_queue": 1}, None, (0.8, 0.2))
    assert number_rows(event) == [
        ("Recalled", "2"),
        ("Still in the queue", "1"),
        ("Results requested", "5"),
        ("Threshold", "none"),
        ("Weight of meaning, keywords", "0.8, 0.2"),
    ]
    filled = replace(
        event, top_k=None, token_budget=300, boost_weights={"speaker": 0.25, "date": 0.0}, gates={"no_room": 4}
    )
    assert number_rows(filled) == [
        ("No room", "4"),
        ("Results requested", "as many as fit"),
        ("Token budget", "300 tokens"),
        ("Threshold", "none"),
        ("Weight of meaning, keywords", "0.8, 0.2"),
        ("Weights of boosts", "speaker 0.25"),
    ]


@pytest.mark.parametrize(
    ("event", "rows"),
    [
        (
            ConfigurationChanged({"token_limit": 1200}, {"token_limit": 1240, "split_long_turns": False}, "app"),
            [("Token limit", "1,200 → 1,240"), ("Splitting of long turns", "off")],
        ),
        (BlockEdited("Facts", 2, None, None, {"priority": 3}), [("Version", "2"), ("Priority", "3")]),
        (FactChanged(1, "Facts", "hash", "hash2", 7), [("Tokens", "7")]),
        (
            FactsCondensed("Facts", "rules", 50, 40, (1, 2), (((4, 5), 1),), (), ()),
            [("Found by", "rules"), ("Facts before", "50"), ("Facts after", "40"), ("Kept", "2"), ("Merged", "1")],
        ),
        (
            DeliveryFailed((1,), "Facts", 2, "No list.", 8.0),
            [("Deliveries", "1"), ("Attempt", "2"), ("Next attempt in", "8.0 s"), ("Error", "No list.")],
        ),
        (
            MessageAdded(3, "id", "user", 44, 40, "o200k", "h"),
            [("Message", "3"), ("Role", "user"), ("Tokens", "44"), ("Tokens as LlamaIndex counts", "40"),
             ("Counted with", "o200k")],
        ),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)  # fmt: skip
def test_an_events_numbers_have_labels_and_hold_no_id_or_hash(event, rows):
    assert number_rows(event) == rows


def test_what_was_stored_is_counted_in_what_the_block_stores():
    event = VectorsStored("Earlier turns", "m", ((7, ((1, 2),), 9),))
    assert ("Stored turns", "1") in number_rows(event)
    assert ("Stored messages", "1") in number_rows(event, "message")


def test_arrays_are_sent_as_arrays():
    figure = tokens_figure(course({n: turn(n, flushes=1) for n in range(1, 1001)}, KINDS_OF), "light")
    assert all(isinstance(trace.x, np.ndarray) for trace in figure.data if trace.name)
    assert len(figure.to_json()) < 60_000


def test_turns_without_a_prompt_are_no_white_stripes():
    turns = {number: turn(number, BUILT if number % 2 else None) for number in range(1, 201)}
    long = course(turns, KINDS_OF)
    assert not long.bars
    assert long.turns == tuple(range(1, 200, 2))
    assert all(long.prompts)
    short = course({number: turns[number] for number in range(1, 11)}, KINDS_OF)
    assert short.turns == tuple(range(1, 11))
    bars = next(trace for trace in tokens_figure(short, "light").data if trace.type == "bar")
    assert [opacity < 1 for opacity in bars.marker.opacity] == [not number % 2 for number in range(1, 11)]


@pytest.mark.slow
def test_whoever_draws_a_figure_has_the_whole_of_pandas():
    # Plotly asks sys.modules for it at every number, and fails over half a module that another thread is loading
    code = "import sys; from memory_inspector.figures import timeline_figures; sys.modules['pandas'].Series"
    subprocess.run([sys.executable, "-c", code], check=True)

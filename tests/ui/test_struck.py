"""How what has no effect on a prompt is marked: struck through or greyed, with its reason in words."""

from types import SimpleNamespace

import pytest
import streamlit as st
from pandas import DataFrame
from streamlit.elements.lib.pandas_styler_utils import marshall_styler
from streamlit.proto.ArrowData_pb2 import ArrowData

from memory_core.events import Ref
from memory_core.tracing.effects import Effect
from memory_core.tracing.values import Stage
from memory_inspector.palette import colour
from ui.parts.struck import brief, greyed, reason, struck


def effect(name, verdict, rule="", text="Because.", **numbers):
    return Effect(Ref("f7"), "Facts", Stage(name, verdict, text, 40, 31, rule, numbers))


IN = effect("prompt", "passed", text="In the prompt of turn 31, as fact 7 of Facts.")


def test_only_what_is_not_in_the_prompt_is_marked_and_only_what_was_overruled_is_struck():
    superseded, cut = effect("kept", "lost", "superseded"), effect("prompt", "lost", "trimmed")
    not_sent, waits = effect("found", "lost", "not_relevant"), effect("kept", "waiting", "proposed")
    told = [struck("Ana", each) for each in (None, IN, superseded, cut, not_sent, waits)]
    assert told == ["Ana", "Ana", ":gray[~~Ana~~]", ":gray[~~Ana~~]", ":gray[Ana]", ":gray[Ana]"]
    assert [reason(each) for each in (None, IN, cut)] == ["", "", "Because."]


def test_words_of_others_stay_words_when_they_are_struck():
    marked = struck("**b** ~~c~~ :red[d]", effect("kept", "lost", "retired"))
    assert marked == ":gray[~~\\*\\*b\\*\\* \\~\\~c\\~\\~ \\:red\\[d\\]~~]"


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (effect("kept", "lost", "superseded", fact=7, by=9), "Superseded in turn 31"),
        (effect("kept", "lost", "merged", by=9, before=12, after=3), "Merged in turn 31"),
        (effect("kept", "lost", "condensed", before=12, after=3), "Condensed in turn 31"),
        (effect("kept", "lost", "retired"), "Retired in turn 31"),
        (effect("kept", "lost", "rejected"), "Rejected in turn 31"),
        (effect("kept", "lost", "erased"), "Deleted in turn 31"),
        (effect("kept", "waiting", "proposed"), "Waits for approval"),
        (effect("learned", "lost", "learned_later", fact=7, turn=31), "Learned later, in turn 31"),
        (effect("prompt", "lost", "trimmed", priority=2, over_before=16), "Cut, priority 2"),
        (effect("prompt", "lost", "dropped", priority=2, over_before=16), "Cut, priority 2"),
        (effect("prompt", "lost", "own_truncation", priority=2, over_before=16), "Cut, priority 2"),
        (effect("found", "lost", "not_relevant", top_k=1_000), "Beyond the 1,000 best"),
        (effect("found", "lost", "show_none"), "Searched with a tool"),
        (effect("prompt", "lost", "block_off"), "Block switched off"),
        (effect("prompt", "lost", "block_removed"), "Block not there"),
        (effect("prompt", "lost", "block_failed"), "Block not read"),
        (effect("found", "lost", "no_reason", fact=7), "Not sent"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_every_rule_that_keeps_a_fact_out_has_a_few_words(told, words):
    assert brief(told.stage) == words


ROWS = [{"State": ["Active"], "Fact": f"Fact {n}", "Turn": n} for n in range(4)]


def as_sent(styler):
    sent = ArrowData()
    marshall_styler(sent, styler.set_uuid("x"), "x")
    return sent.styler


def test_a_greyed_table_is_what_pandas_would_have_sent(monkeypatch):
    monkeypatch.setattr(st, "context", SimpleNamespace(theme=SimpleNamespace(type="dark")))
    grey = f"color: {colour('unknown', 'dark')}"
    table = DataFrame(ROWS)
    marks = DataFrame("", table.index, table.columns)
    marks.loc[[1, 3], ["Fact", "Turn"]] = grey
    own, pandas = as_sent(greyed(ROWS, [1, 3], "Fact", "Turn")), as_sent(table.style.apply(lambda _: marks, axis=None))
    assert own.styles == pandas.styles
    assert own.display_values == pandas.display_values
    assert greyed(ROWS, [], "Fact") is ROWS

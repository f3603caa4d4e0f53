"""What the screen says of a running summary, without a screen."""

from dataclasses import replace

import pytest

from memory_core.curation.block_desks import SummaryRevision
from memory_core.events import BlockAdded, BlockEdited, EventRecord, SummaryRewritten
from memory_core.history.usage import BlockUse, Write
from memory_core.store.block_rows import Holding
from memory_inspector.wording.block_text import (
    Freshness,
    GrantedInPrompt,
    Standing,
    State,
    as_lines,
    by_whom,
    card,
    cost_line,
    freshness_line,
    freshness_then,
    lost_line,
    origin_line,
    sentence_refs,
)

BEHIND = Freshness(31, 35)


def standing(text="Ana is 12.", fresh=BEHIND, size=248, **settings):
    given = {"priority": 1, "max_tokens": 300, **settings}
    return Standing("Summary", "summary", "summary", given, text=text, text_tokens=size, fresh=fresh)


def revision(**changes):
    given = {"actor": "engine", "turn": 12, "at": 0.0, "covers_turn": 10, "lost": ()}
    return SummaryRevision(3, "Ana is 12.", **{**given, **changes})


@pytest.mark.parametrize(
    ("fresh", "line"),
    [
        (Freshness(31, 35), "Covers up to turn 31, 4 turns behind"),
        (Freshness(34, 35), "Covers up to turn 34, 1 turn behind"),
        (Freshness(1035, 1035), "Covers up to turn 1,035, up to date"),
        (Freshness(None, 5), "Covers no turn yet"),
    ],
)
def test_how_fresh_a_summary_is_stands_in_one_line(fresh, line):
    assert freshness_line(fresh) == line


def test_the_card_shows_the_text_its_size_and_how_fresh_it_is():
    use = BlockUse(prompts=3, last_write=Write(34, "engine"))
    drawn = card(standing(), GrantedInPrompt(248, 248, 1000), use, Holding(texts=4))
    assert (drawn.size, drawn.holds) == ("**248** tokens", "Ana is 12.")
    assert drawn.states == (State("timelapse", "Covers up to turn 31, 4 turns behind."),)
    assert "248 of 300 tokens used · last write turn 34" in drawn.lines


def test_a_summary_that_was_written_since_the_prompt_says_what_it_asks_for_next():
    refs = tuple(sentence_refs("Ana is 12."))
    now = replace(standing(size=3), sentences=frozenset(refs))
    since = State("update", "Written since: 3 tokens from the next prompt on.")
    assert since not in card(now, GrantedInPrompt(3, 3, 1000, refs), BlockUse(), Holding()).states
    assert since in card(now, GrantedInPrompt(9, 9, 1000, (*refs, "s0")), BlockUse(), Holding()).states
    assert since in card(now, GrantedInPrompt(0, 0, 1000), BlockUse(), Holding()).states
    assert since not in card(now, GrantedInPrompt(3, 0, 1000), BlockUse(), Holding()).states, "only cut"


def test_the_card_of_an_empty_summary_says_when_it_begins():
    drawn = card(standing("", Freshness(None, 2), 0), None, BlockUse(), Holding())
    assert drawn.holds == "Nothing yet. It is written when messages leave the queue."
    assert drawn.states[0].says == "Covers no turn yet."


def test_the_card_of_a_summary_above_its_bound_says_so():
    _, state = card(standing(size=301), None, BlockUse(), Holding()).states
    assert (state.says, state.tone) == (
        "Above its limit: it is shortened when it is next written.",
        "waiting",
    )


def test_what_a_version_lost_is_named_and_harmless():
    assert "No name, number or date" in lost_line(())
    assert "~~Ana~~, ~~14 March~~" in lost_line(("Ana", "14 March"))
    assert r"\*\*bold\*\*" in lost_line(("**bold**",))
    assert lost_line(tuple(map(str, range(15)))).endswith("and 3 more]")


@pytest.mark.parametrize(
    ("version", "who", "how"),
    [
        (
            revision(summariser="offline rules", asked_by="engine", messages=6, shortened=13),
            "by offline rules",
            "Read 6 messages, covers up to turn 10, 13 tokens of sentences left out to stay within its limit.",
        ),
        (
            revision(summariser="gpt", asked_by="user"),
            "by gpt",
            "Rewritten on demand, covers up to turn 10.",
        ),
        (revision(actor="user", restored=1), "by a person", "Restores version 1, covers up to turn 10."),
        (revision(covers_turn=None), "by the engine", ""),
    ],
)
def test_a_version_tells_whose_words_it_is_and_how_it_came_to_be(version, who, how):
    assert by_whom(version) == who
    assert origin_line(version).replace("\\", "") == (f":gray[{how}]" if how else "")


def test_a_rewriting_says_first_what_it_will_read_and_call():
    assert cost_line(36, 436, None) == (
        "It reads 36 messages, 436 tokens, by rules on this machine: no model is called."
    )
    assert cost_line(0, 248, "gpt-4o-mini").replace("\\", "") == (
        "It reads its own 248 tokens, and calls gpt-4o-mini once."
    )
    assert cost_line(900, 20_000, "gpt").endswith("calls gpt about 3 times.")


def test_versions_are_compared_sentence_by_sentence():
    assert as_lines("Ana is 12. Rui is 13.") == "Ana is 12.\nRui is 13."


def test_how_fresh_it_was_comes_from_the_log():
    events = [
        BlockAdded("Summary", "summary", {}),
        BlockEdited("Summary", 1, None, "a"),
        SummaryRewritten("Summary", 1, "rules", 4, 2, ((1, 4),), 0, 9, 300, 0),
        BlockEdited("Other", 1, None, "b"),
        BlockEdited("Summary", 2, "a", "c"),
        SummaryRewritten("Summary", 2, "rules", 8, 4, ((5, 8),), 9, 12, 300, 0),
        BlockEdited("Summary", 3, "c", "a", restored=1),
        SummaryRewritten("Summary", 4, "rules", 0, 0, (), 9, 0, 300, 0),
    ]
    log = [EventRecord(n, "s", n, 0.0, "engine", event) for n, event in enumerate(events, 1)]
    covered = [freshness_then(log[:end], "Summary", 9).covers for end in range(len(log) + 1)]
    assert covered == [None, None, None, 2, 2, 2, 4, 2, None]

"""What memory did, in sentences whose numbers are the events' own."""

from dataclasses import replace

import pytest

from memory_core.events import (
    BlockFailed,
    CondensingRefused,
    ContextBuilt,
    DeliveryDone,
    DeliveryFailed,
    DeliveryParked,
    DeliveryQueued,
    DeliveryRetried,
    EventRecord,
    FactAdded,
    FactConfirmed,
    FactDecided,
    FactsCondensed,
    FlushPlanned,
    MemoryStripped,
    ProposalRefused,
    QueueRecounted,
    RecipeChosen,
    RelationAdded,
    RelationConfirmed,
    RelationEnded,
    Retrieved,
    VectorsStored,
)
from memory_inspector.wording.event_sentences import Line, Words
from memory_inspector.wording.story import TurnLine, happened, passages, story, summaries

WORDS = Words(
    facts={1: "Ana is allergic to nuts", 2: "Sam lives in Porto", 3: "Sam lives in Lisbon"},
    turns={7: 2, 8: 4},
    previews={7: "Careful with dessert", 8: "Rui stays off meat"},
    due=frozenset({1}),
)
BUILT = ContextBuilt(
    pinned=(), queue=((1, 5),), queue_asked=561, queue_tokens=561, pinned_tokens=0,
    parts=({"name": "Earlier turns", "priority": 2, "asked": 335, "granted": 279, "refs": []},),
    cuts=(), asked=840, total=840, token_limit=1200, over_by=0, over_because=None, markup_tokens=0,
    overhead_tokens=0, billed=840, insert_method="system", truncation_order="largest_first",
    accounting="content", section=None, input=None,
)  # fmt: skip


def records(*events, turn=12):
    return [EventRecord(place, "s", turn, 0.0, "engine", event) for place, event in enumerate(events, 1)]


def flush(**changes):
    given = {
        "flush": 2, "trigger": "over_budget", "rules": (), "seqs": ((7, 10),), "messages": 4, "tokens": 171,
        "queue_before": 732, "queue_after": 561, "history_budget": 720.0, "flush_size": 120, "over_by": 0,
    }  # fmt: skip
    return FlushPlanned(**(given | changes))


def built(**changes):
    return replace(BUILT, **changes)


def fact(number, **changes):
    return FactAdded(fact=number, block="Facts", content="c", tokens=7, category="person", sources=((1, 1),), **changes)


def retrieved(*candidates, threshold=0.31, degraded=None):
    return Retrieved("Earlier turns", "q", "minilm", "exact", 5, threshold, candidates, {}, degraded)


def cut(part, tokens, rule="turn", refs=(), over=34):
    return {"part": part, "rule": rule, "refs": list(refs), "tokens": tokens, "over_before": over}


def told(*events):
    return story(records(*events), WORDS)


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (flush(), "Flushed 4 messages, 171 tokens: queue 732 was above 720"),
        (flush(messages=1, tokens=1, trigger="asked"), "Flushed 1 message, 1 token: flushed by hand"),
        (flush(trigger="closed"), "Flushed 4 messages, 171 tokens: the session was closed"),
        (
            flush(rules=("long_turn",), over_by=40),
            "Flushed 4 messages, 171 tokens: queue 732 was above 720, and the newest turn alone is too long. "
            "Still 40 above it",
        ),
    ],
)
def test_a_flush_says_what_left_and_by_which_rule(event, text):
    assert told(event) == [Line("keyboard_tab", text)]


def test_what_was_learned_is_named():
    assert told(fact(1), fact(2)) == [
        Line("lightbulb", "Learned 2 facts", details=("Ana is allergic to nuts", "Sam lives in Porto"))
    ]


def test_what_was_heard_again_is_stored_once():
    assert told(FactConfirmed(1, "Facts", 0.9, ((3, 3),))) == [
        Line("check", "Already known", details=("Ana is allergic to nuts",))
    ]


def test_what_was_decided_about_known_facts_is_summed_up():
    def decided(decision, known):
        return FactDecided("Facts", "c", decision, known, ((2, 0.8),), "offline rules", "preference", ((1, 1),))

    assert told(decided("update", 2), decided("none", 1), decided("delete", 3), decided("add", None)) == [
        Line("edit", "Updated 1 fact", details=("Sam lives in Porto",)),
        Line("history", "Ended 1 fact", details=("Sam lives in Lisbon",)),
    ]


def test_a_switch_of_the_recipe_comes_first_and_what_was_refused_is_told():
    lines = told(ProposalRefused("Facts", "fact", "no words"), RecipeChosen("window", None, (), (), ("Facts",)))
    assert [line.text for line in lines] == [
        "Switched to Sliding window: removed Facts",
        "Left out 1 fact proposed for Facts: no words",
    ]


def test_a_contradiction_waits_for_somebody():
    assert told(fact(3, conflicts_with=(2,))) == [
        Line("lightbulb", "Learned 1 fact", details=("Sam lives in Lisbon",)),
        Line("warning", "“Sam lives in Lisbon” contradicts “Sam lives in Porto”", "waiting"),
    ]


def test_a_fact_that_was_erased_since_is_said_to_be():
    assert told(fact(99)) == [Line("lightbulb", "Learned 1 fact", details=("an erased fact",))]


def test_only_what_was_found_in_messages_and_is_in_use_counts_as_learned():
    written, proposed = fact(1, origin="written"), fact(2, state="proposed")
    rewritten = fact(3, origin="condensed")
    assert told(written, proposed, rewritten) == [
        Line("inbox", "Proposed 1 fact, to be reviewed", "waiting", ("Sam lives in Porto",)),
        Line("edit", "Added 1 fact by hand", details=("Ana is allergic to nuts",)),
    ]
    assert summaries(records(written, proposed, rewritten)) == {12: TurnLine()}


def test_condensing_counts_what_was_dropped_in_one_line():
    condensed = FactsCondensed("Facts", "rules", 50, 40, (1,), (((4, 5), 1),), (2,), (3,))
    assert told(condensed) == [
        Line(
            "compress",
            "50 facts reduced to 40: 1 dropped",
            "loss",
            rewrites="Facts",
        )
    ]


def test_a_refused_condensing_says_why():
    refused = CondensingRefused("Facts", "gpt", 50, 40, "it lost a pinned fact")
    assert told(refused) == [Line("block", "50 facts not condensed (limit 40): it lost a pinned fact", "waiting")]


def test_stored_turns_are_counted():
    stored = VectorsStored("Earlier turns", "minilm", ((7, ((1, 2),), 40), (8, ((3, 4),), 44)))
    assert told(stored) == [Line("inventory_2", "Stored 2 turns in Earlier turns")]


def test_the_queue_counted_anew_says_both_numbers():
    assert told(QueueRecounted("a", "b", 700, 1_810)) == [
        Line("calculate", "Counted the queue again: 700 is now 1,810")
    ]


QUEUED = DeliveryQueued(1, "Facts", "flush", ((7, 10),), 171)
FAILED = DeliveryFailed((1,), "Facts", 1, "The model returned no list.", 8.0)
PARKED = DeliveryParked((1,), "Facts", 5, "The model returned no list.")
LEARNING = Line("schedule", "Facts is learning from 4 messages", "waiting")


@pytest.mark.parametrize(
    ("events", "lines"),
    [
        ((QUEUED,), [LEARNING]),
        (
            (QUEUED, FAILED),
            [
                Line(
                    "refresh",
                    "Facts could not be updated, and will be tried again: The model returned no list",
                    "waiting",
                )
            ],
        ),
        (
            (QUEUED, FAILED, PARKED),
            [Line("error", "Facts could not be updated, given up after 5 tries: The model returned no list", "loss")],
        ),
        ((QUEUED, PARKED, DeliveryRetried((1,), "Facts")), [LEARNING]),
    ],
    ids=["waiting", "failed", "given up", "tried again"],
)
def test_a_delivery_that_is_still_due_shows_its_state(events, lines):
    assert told(*events) == lines


def test_a_delivery_that_was_done_shows_nothing_even_if_in_a_later_turn():
    done_elsewhere = DeliveryQueued(2, "Facts", "flush", ((7, 10),), 171)
    assert told(done_elsewhere) == []
    assert story(records(QUEUED, DeliveryDone((1,), "Facts", 1, 0.1)), Words({}, {}, {})) == []


def test_recalled_turns_are_counted_and_listed_with_their_scores():
    event = retrieved(
        (8, 0.5, 0.4, 0.62, "granted"), (7, 0.3, 0.2, 0.33, "granted"), (9, 0.1, 0.1, 0.12, "below_threshold")
    )
    assert told(event, built()) == [
        Line(
            "search",
            "Recalled 2 earlier turns, best 0.62",
            more=("Turn 4 (0.62): Rui stays off meat", "Turn 2 (0.33): Careful with dessert"),
        )
    ]


def test_nothing_recalled_says_how_near_the_best_was():
    assert told(retrieved((8, 0.28, None, 0.28, "below_threshold")), built()) == [
        Line("search_off", "Recalled nothing: what fits best (0.28) is below the threshold 0.31")
    ]


def test_an_empty_store_is_not_worth_a_line():
    assert told(retrieved(), built()) == []


def test_a_missing_search_signal_is_said():
    assert told(retrieved(degraded="Keyword search only."), built()) == [
        Line("warning", "Recalled nothing from Earlier turns: no stored turn fits. Keyword search only", "waiting")
    ]


def test_a_cut_names_block_amount_cause_and_what_went():
    event = retrieved((8, 0.5, 0.4, 0.62, "granted"), (7, 0.3, 0.2, 0.33, "cut"))
    lines = told(event, built(cuts=(cut("Earlier turns", 56, refs=["v7"]),)))
    assert lines[-1] == Line(
        "content_cut",
        "The prompt was 34 tokens over, so turn 2 (56 tokens, lowest score 0.33) was left out",
        "loss",
    )


def test_turns_that_were_cut_are_named_in_the_order_they_went():
    event = retrieved((8, 0.5, 0.4, 0.62, "granted"), (7, 0.3, 0.2, 0.33, "granted"))
    lines = told(event, built(cuts=(cut("Earlier turns", 116, refs=["v8", "v7"]),)))
    assert lines[-1].text == (
        "The prompt was 34 tokens over, so 116 tokens were left out, lowest score first: turn 2 (0.33), turn 4 (0.62)"
    )


def test_cut_facts_are_named():
    assert told(built(cuts=(cut("Facts", 14, refs=["f1", "f2"]),))) == [
        Line(
            "content_cut",
            "The prompt was 34 tokens over, so 14 tokens of Facts were left out",
            "loss",
            ("Ana is allergic to nuts", "Sam lives in Porto"),
        )
    ]


def test_facts_above_the_share_of_their_block_are_said_to_be():
    (line,) = told(built(cuts=(cut("Facts", 14, rule="over_share", refs=["f1"]),)))
    assert line.text == "The prompt was 34 tokens over, so 14 tokens that Facts asked for above its share were left out"


def test_a_block_left_out_whole_is_said_to_be():
    assert told(built(cuts=(cut("Notes", 90, rule="dropped"),)))[0].text == (
        "The prompt was 34 tokens over, so all of Notes (90 tokens) was left out"
    )


def test_turns_left_out_of_the_queue_are_counted():
    assert told(built(cuts=(cut("queue", 120, refs=["t1", "t2"]),))) == [
        Line("content_cut", "The prompt was 34 tokens over, so its 2 oldest turns (120 tokens) were left out", "loss")
    ]


def test_a_prompt_over_the_limit_says_why_it_could_not_be_cut():
    event = built(total=1312, over_by=112, over_because="Instructions (priority 0) and the newest turn")
    assert told(event) == [
        Line(
            "error",
            "Sent 1,312 of 1,200: 112 over. Instructions (priority 0) and the newest turn cannot be cut",
            "loss",
        )
    ]


def test_a_block_that_could_not_be_read_is_said():
    assert told(BlockFailed("Notes", "It timed out.")) == [
        Line("error", "Notes could not be read: It timed out", "loss")
    ]


def test_memory_that_came_back_in_a_message_is_said():
    assert told(MemoryStripped(3)) == [Line("remove", "Removed memory's own text from a message that repeated it")]


def test_the_lines_come_in_the_order_of_cause_and_only_the_last_prompt_counts():
    first = built(cuts=(cut("Facts", 500),))
    last = built(cuts=(cut("Facts", 14, refs=["f1"]),))
    recalled = retrieved((8, 0.5, 0.4, 0.62, "granted"))
    lines = told(first, recalled, fact(1), flush(), last)
    assert [line.icon for line in lines] == ["keyboard_tab", "lightbulb", "search", "content_cut"]
    assert "14 tokens" in lines[-1].text


def test_what_the_reply_caused_is_told_after_its_prompt():
    recalled = retrieved((8, 0.28, None, 0.28, "below_threshold"))
    events = records(recalled, built(), flush(), fact(1))
    assert [(passage.stage, passage.begins) for passage in passages(events, WORDS)] == [
        ("recalled", 1), ("flushed", 3), ("learned", 4)
    ]  # fmt: skip
    assert [line.icon for line in story(events, WORDS)] == ["search_off", "keyboard_tab", "lightbulb"]


def test_a_delivery_that_failed_after_the_prompt_is_told_once_and_after_it():
    lines = story(records(QUEUED, built(cuts=(cut("Facts", 14),)), FAILED), WORDS)
    assert [line.icon for line in lines] == ["content_cut", "refresh"]


def test_a_moment_before_the_prompt_tells_what_was_recalled_by_then():
    assert [line.icon for line in told(flush(), retrieved((8, 0.5, 0.4, 0.62, "granted")))] == [
        "keyboard_tab", "search"
    ]  # fmt: skip


def test_what_happened_counts_in_any_turn_and_only_if_something_came_of_it():
    recalled = retrieved((8, 0.5, 0.4, 0.62, "granted"))
    assert happened(records(flush(), fact(1), recalled, built(cuts=(cut("Facts", 14),)))) == {
        "flushed", "learned", "recalled", "cut"
    }  # fmt: skip
    assert happened(records(retrieved((8, 0.1, 0.1, 0.1, "below_threshold")), built())) == set()
    earlier = records(built(cuts=(cut("Facts", 14),)), turn=3)
    assert happened([*earlier, *records(built())]) == {"cut"}


def test_a_turn_is_summed_up_in_one_line():
    events = [
        *records(flush(), fact(1), fact(2), built(cuts=(cut("Earlier turns", 56),), total=1178)),
        *records(built(total=1106), turn=11),
    ]
    told = summaries(events)
    assert told == {
        12: TurnLine(flushed=4, learned=2, cut=56, sent=1178, limit=1200),
        11: TurnLine(sent=1106, limit=1200),
    }
    assert told[12].in_short(12) == (
        "Turn 12 · 1,178 of 1,200 tokens · flushed 4 messages · learned 2 facts · cut 56 tokens"
    )
    assert told[11].in_short(11) == "Turn 11 · 1,106 of 1,200 tokens"
    assert TurnLine().in_short(3) == "Turn 3"
    assert TurnLine(learned=3, relations=1).in_short(3) == "Turn 3 · learned 2 facts and 1 relation"
    assert TurnLine(learned=1, relations=1).in_short(3) == "Turn 3 · learned 1 relation"


def test_relations_are_summed_up_by_what_became_of_them():
    words = replace(WORDS, relations={1: "Ana → lives in → Lisbon", 2: "Ana → lives in → Porto"})
    lines = story(
        records(
            RelationAdded(2, "Relations", 1, "p", 3, ((9, 9),)),
            RelationEnded(1, "Relations", 2),
            RelationConfirmed(1, "Relations", ((9, 9),)),
            RelationAdded(3, "Relations", 1, "p", 3, (), "written"),
        ),
        words,
    )
    assert lines == [
        Line("hub", "Learned 1 relation", details=("Ana → lives in → Porto",)),
        Line("edit", "Added 1 relation by hand", details=("an erased relation",)),
        Line("check", "Already known", details=("Ana → lives in → Lisbon",)),
        Line("history", "Ended 1 relation", details=("Ana → lives in → Lisbon",)),
    ]


def test_relations_that_were_cut_are_named():
    words = replace(WORDS, relations={1: "Ana → lives in → Lisbon"})
    (line,) = story(records(built(cuts=(cut("Relations", 9, refs=["r1", "r4"]),))), words)
    assert line.text == (
        "The prompt was 34 tokens over, so 9 tokens of Relations were left out, farthest from the question first"
    )
    assert line.details == ("Ana → lives in → Lisbon", "an erased relation")

"""Two settings swept: what each cell says is what a play of it comes to, and the front is what nothing beats."""

from itertools import pairwise

import pytest
from test_playing import lived, player

from memory_core import Memory
from memory_core.errors import ConfigError, FormatError
from memory_core.events import ModelCalled, Ref
from memory_inspector.lab.comparing import outcome_of
from memory_inspector.lab.probes import EvidenceInPrompt, InPrompt, evaluate, read_questions
from memory_inspector.lab.replanning import Replanner
from memory_inspector.lab.script import script_of
from memory_inspector.lab.sizes import sizes_of
from memory_inspector.lab.sweeping import Axis, Range, known_price, play_cells, sweep, values_around
from memory_inspector.lab.variants import variant_of

PHRASE = "I am allergic to nuts."
PROBE = InPrompt(phrase=PHRASE, from_turn=3)


@pytest.fixture(scope="module")
def memory():
    return lived("buffer", 200, [("turn", pick) for pick in (0, 1, 2, 3, 4, 5, 6, 7)])


def swept(memory, x, y, **more):
    carriers = memory.trace.carriers(PHRASE)
    probes = [(PROBE, (carriers,))]
    return sweep(Replanner(sizes_of(memory)), variant_of(memory), x, y, watched=[carriers], probes=probes, **more)


@pytest.mark.slow
def test_every_cell_is_what_a_play_of_it_comes_to(memory):
    found = swept(memory, Axis("token_limit", (60, 120, 200)), Axis("chat_history_token_ratio", (0.5, 1.0)))
    assert len(found.cells) == 6
    for cell in found.cells:
        played = player().play(script_of(memory), variant_of(memory).with_changes("c", cell.changes)).memory
        outcome = outcome_of(played)
        assert cell.measures["sent"] == Range(outcome.average, outcome.average)
        assert cell.measures["flushes"].low == outcome.flushes
        assert cell.measures["watched"].low == (played.trace.presence(PHRASE).turns[-1].state == "prompt")
        assert cell.measures["probes"].low == evaluate(played, [PROBE])[0].held


def test_the_front_is_what_nothing_beats_with_fewer_tokens(memory):
    found = swept(memory, Axis("token_limit", tuple(range(60, 260, 20))), Axis("queue_turns", (2, 4, 8)))
    front = found.front("probes")
    assert [cell.measures["probes"].low for cell in front] == sorted({c.measures["probes"].low for c in front})
    for cell in front:
        for other in found.cells:
            better = other.measures["probes"].low >= cell.measures["probes"].low
            assert not (better and other.measures["sent"].low < cell.measures["sent"].low)


def test_a_cell_that_cannot_be_says_why_and_a_limit_takes_the_flush_size_along(memory):
    found = swept(memory, Axis("token_limit", (60,)), Axis("token_flush_size", (10, 90)))
    assert [cell.problem is not None for cell in found.cells] == [False, True]


def test_a_sweep_can_be_cancelled_and_one_of_a_million_cells_is_refused(memory):
    seen = []
    x, y = Axis("token_limit", (60, 90)), Axis("chat_history_token_ratio", (0.5, 1.0))
    assert swept(memory, x, y, progress=lambda *at: seen.append(at), cancelled=lambda: len(seen) == 2) is None
    assert seen == [(1, 4), (2, 4)]
    with pytest.raises(ConfigError, match="1,000,000 configurations are too many"):
        swept(memory, Axis("token_limit", tuple(range(1, 1001))), Axis("queue_turns", tuple(range(1, 1001))))
    with pytest.raises(ConfigError, match="two different settings"):
        swept(memory, x, x)


@pytest.mark.slow
def test_cells_that_a_plan_cannot_know_are_played_and_what_was_played_stays_when_cancelled():
    learning = lived("blocks", 260, [("turn", pick) for pick in (0, 1, 2, 3, 4, 8, 5, 6, 7)])
    script, base = script_of(learning), variant_of(learning)
    found = swept(learning, Axis("token_limit", (140, 260)), Axis("chat_history_token_ratio", (0.3, 0.9)))
    unknown = found.unknown("calls")
    assert unknown == found.unknown("stable") == found.cells, "the plan says that it cannot know"
    asked = iter((False, False, True))
    filled = []
    for cell in play_cells(player(), script, base, unknown, phrases=[PHRASE], probes=[PROBE]):
        filled.append(cell)
        found = found.with_cell(cell)
        if len(filled) == 3:
            break
    assert len(found.unknown("stable")) == 1, "the others are kept"
    for cell in filled:
        played = player().play(script, base.with_changes("c", cell.changes)).memory
        outcome = outcome_of(played)
        contexts = [turn.built for _, turn in sorted(played.log.history().turns.items())]
        same = [played.log.shared_prefix_tokens(*pair) for pair in pairwise(contexts)]
        assert cell.measures["calls"].low == outcome.calls > 0
        assert cell.measures["sent"].low == outcome.average
        assert cell.measures["stable"].low == sum(same) / sum(context.event.billed for context in contexts[1:])
        assert cell.measures["watched"].low == (played.trace.presence(PHRASE).turns[-1].state == "prompt")
        assert cell.measures["probes"].low == evaluate(played, [PROBE])[0].held
    assert not list(play_cells(player(), script, base, unknown, cancelled=lambda: next(asked)))


@pytest.mark.slow
def test_evidence_of_questions_is_found_as_probes_and_prompts_say_and_what_a_plan_cannot_know_is_a_range():
    learning = lived("blocks", 260, [("turn", pick) for pick in (0, 1, 2, 3, 4, 8, 5, 6, 7)])
    probe = EvidenceInPrompt(turn=9, messages=(1, 17))
    questions = read_questions("Any allergy?\tI am allergic to nuts.\nWho flies? -> nobody ever said this")
    carriers = tuple(learning.trace.carriers(Ref.of("message", seq)) for seq in probe.messages)
    base, x, y = variant_of(learning), Axis("token_limit", (90, 2_000)), Axis("queue_turns", (9,))
    planned = sweep(Replanner(sizes_of(learning)), base, x, y, probes=[(probe, carriers)], questions=len(questions))
    played = play_cells(player(), script_of(learning), base, planned.cells, probes=[probe], questions=questions)
    for plan, cell in zip(planned.cells, played, strict=True):
        again = _played(learning, cell)
        held = [evaluate(again, [EvidenceInPrompt(turn=9, messages=(seq,))])[0].held for seq in (1, 17)]
        prompt = " ".join(message.content for message in again.build_context("Any allergy?").messages)
        share = (sum(held) + ("allergic to nuts" in prompt)) / 4
        assert cell.measures["recall"] == Range(share, share)
        assert plan.measures["recall"].low <= share <= plan.measures["recall"].high
        assert not plan.measures["recall"].exact
    assert [cell.measures["recall"].low for cell in planned.cells][1] >= 0.5, (
        "under a wide limit the plan knows the probe's"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fine -> fine\nno arrow", "Line 2 has no arrow"),
        ("-> answer", "Line 1 needs a question"),
        ("asked →   ", "Line 1 needs a question"),
        ("q -> a\n" * 201, "201 lines are too many"),
        (f"q -> {'a' * 3_000}", "Line 1 has 3,005 characters"),
    ],
)
def test_a_list_of_questions_that_cannot_be_read_says_which_line(text, said):
    with pytest.raises(FormatError, match=said):
        read_questions(text)


def test_what_models_read_is_priced_and_a_price_is_that_of_recorded_calls(memory):
    found = swept(memory, Axis("token_limit", (60, 120)), Axis("chat_history_token_ratio", (0.5,)))
    sent = [sum(turn.sent for turn in outcome_of(_played(memory, cell)).turns) for cell in found.cells]
    assert [cell.measures["read"] for cell in found.cells] == [Range(tokens, tokens) for tokens in sent]
    assert [cell.measures["cost"].low for cell in found.priced(2.0).cells] == [tokens * 2e-6 for tokens in sent]
    assert found.priced(2.0).front("cost")[0] == found.priced(2.0).cells[0], "what costs less is better"
    log = Memory.from_defaults(memory_blocks=[])
    assert known_price(log.events()) is None
    for read, answered in ((1_000, 10), (300, 200), (50, 0)):
        cost = read * 0.15e-6 + answered * 0.6e-6
        log.log.record(ModelCalled("extraction", "mini", read, answered, 1.0, cost))
    log.log.record(ModelCalled("extraction", "mini", None, None, 1.0, None))
    assert known_price(log.events()) == pytest.approx(0.15)


def _played(memory, cell):
    return player().play(script_of(memory), variant_of(memory).with_changes("c", cell.changes)).memory


def test_without_a_block_that_learns_the_plan_knows_that_no_model_is_called(memory):
    found = swept(memory, Axis("token_limit", (60, 120)), Axis("chat_history_token_ratio", (0.5,)))
    assert [cell.measures["calls"] for cell in found.cells] == [Range(0, 0)] * 2


@pytest.mark.parametrize(
    ("value", "step", "least", "most"),
    [(1_200, 600, 50, 10**9), (50, 25, 50, 10**9), (0.7, 0.15, 0.05, 1.0), (5, 1, 0, 5)],
)
def test_values_to_sweep_hold_the_present_one_within_the_bounds(value, step, least, most):
    values = values_around(value, step, least, most)
    assert len(set(values)) == 4
    assert value in values
    assert least <= min(values) <= max(values) <= most


def test_where_the_bounds_leave_one_value_it_is_swept_alone():
    assert values_around(1, 1, 1, 1) == (1,)


def test_cells_nearest_to_the_present_values_come_first(memory):
    found = swept(memory, Axis("token_limit", (60, 120, 200)), Axis("queue_turns", (2, 4, 8)))
    order = [(cell.x, cell.y) for cell in found.nearest_first(found.cells, 130, 8)]
    assert order[0] == (1, 2)
    assert set(order[1:4]) == {(0, 2), (2, 2), (1, 1)}
    assert set(order[-2:]) == {(0, 0), (2, 0)}

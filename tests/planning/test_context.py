"""What goes into a context and what is cut: pure, so no store, model or fixture."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core.events import Ref, compact, is_ref, numbers, runs, spread
from memory_core.messages import MessageRole
from memory_core.planning.context_plan import Cut, Part, Piece, cut_first, plan_context, turns_of
from memory_core.planning.flush import SizedMessage

USER, ASSISTANT, TOOL = MessageRole.USER, MessageRole.ASSISTANT, MessageRole.TOOL


def part(name, priority, *sizes, order=(), **options):
    pieces = tuple(Piece(f"{name}{number}", tokens) for number, tokens in enumerate(sizes, start=1))
    return Part(name, priority, pieces, cut_order=tuple(order), **options)


def turns(*sizes):
    """One turn per size: a user message of that many tokens, answered in 0 tokens."""
    queue = []
    for tokens in sizes:
        queue += [SizedMessage(len(queue) + 1, USER, tokens), SizedMessage(len(queue) + 2, ASSISTANT, 0)]
    return queue


def cuts(made):
    return [(cut.part, cut.rule, cut.refs, cut.tokens) for cut in made.cuts]


def granted(made):
    return {part.name: part.granted for part in made.granted}


def test_a_context_that_fits_exactly_is_not_cut():
    made = plan_context([part("a", 1, 40)], turns(60), token_limit=100)
    assert (made.cuts, made.total, made.free, made.over_by, made.over_because) == ((), 100, 0, 0, None)


def test_one_token_too_many_cuts():
    made = plan_context([part("a", 1, 41)], turns(60), token_limit=100)
    assert made.cuts == (Cut("a", "dropped", ("a1",), 41, 1),)
    assert (made.asked, made.total, made.free) == (101, 60, 40)


def test_the_largest_number_is_cut_first():
    made = plan_context([part("a", 1, 10), part("b", 3, 10), part("c", 2, 10)], turns(80), token_limit=95)
    assert [cut.part for cut in made.cuts] == ["b", "c"]


def test_the_smallest_number_is_cut_first_where_that_is_asked_for():
    made = plan_context(
        [part("a", 2, 10), part("b", 1, 10)], turns(80), token_limit=95, truncation_order="smallest_first"
    )
    assert [cut.part for cut in made.cuts] == ["b"]


@pytest.mark.parametrize("order", ["largest_first", "smallest_first"])
def test_of_equal_priorities_the_first_in_the_list_goes_first(order):
    made = plan_context([part("b", 1, 10), part("a", 1, 10)], turns(80), token_limit=95, truncation_order=order)
    assert [cut.part for cut in made.cuts] == ["b"]


def test_priority_0_is_never_cut_and_the_plan_says_what_is_too_large():
    made = plan_context([part("a", 0, 514)], turns(10), token_limit=100)
    assert (made.cuts, made.total, made.over_by, made.over_because) == ((), 524, 424, "a and the newest turn")


def test_what_is_never_cut_is_named_in_full():
    made = plan_context(
        [part("a", 0, 60), part("b", 0, 60), part("empty", 0)],
        [],
        token_limit=100,
        pinned_tokens=50,
        when_over="return",
    )
    assert made.over_because == "a, b and pinned system messages"


def test_pieces_go_in_the_cut_order_and_no_more_than_needed():
    made = plan_context([part("f", 1, 10, 20, 30, order=(2, 0, 1))], turns(60), token_limit=85)
    assert cuts(made) == [("f", "trimmed", ("f1", "f3"), 40)]
    assert [piece.ref for piece in made.granted[0].pieces] == ["f2"]


def test_a_piece_that_frees_exactly_enough_is_the_last_to_go():
    made = plan_context([part("f", 1, 10, 20, order=(0, 1))], turns(80), token_limit=100)
    assert cuts(made) == [("f", "trimmed", ("f1",), 10)]


def test_a_turn_that_frees_exactly_enough_is_the_last_to_go():
    made = plan_context([part("a", 0, 40)], turns(30, 30, 30), token_limit=100)
    assert cuts(made) == [("queue", "oldest_turns", ("m1",), 30)]


def test_a_part_that_drops_goes_whole_though_it_could_be_trimmed():
    made = plan_context([part("f", 1, 10, 20, order=(0, 1), truncation="drop")], turns(75), token_limit=100)
    assert cuts(made) == [("f", "dropped", ("f1", "f2"), 30)]


def test_a_part_above_its_share_is_cut_before_all_others():
    parts = [part("facts", 1, 10, 20, 30, order=(1, 0, 2), share=35), part("turns", 2, 50, order=(0,))]
    made = plan_context(parts, turns(10), token_limit=100)
    assert cuts(made) == [("facts", "over_share", ("facts2",), 20)]
    assert granted(made) == {"facts": 40, "turns": 50}


def test_a_part_keeps_its_share_while_others_can_be_cut():
    parts = [part("facts", 1, 10, 20, 30, order=(1, 0, 2), share=30), part("turns", 2, 50, order=(0,))]
    made = plan_context(parts, turns(50), token_limit=80)
    assert cuts(made) == [("facts", "over_share", ("facts1", "facts2"), 30), ("turns", "trimmed", ("turns1",), 50)]


def test_a_share_is_no_maximum():
    made = plan_context([part("facts", 1, 10, 20, order=(0, 1), share=5)], turns(50), token_limit=80)
    assert cuts(made) == []


def test_a_share_decides_nothing_about_a_part_that_is_never_cut_or_cut_whole():
    parts = [part("a", 0, 40, 40, order=(0, 1), share=10), part("b", 1, 20, 20, truncation="drop", share=10)]
    assert cuts(plan_context(parts, turns(10), token_limit=110)) == [("b", "dropped", ("b1", "b2"), 40)]


def test_a_part_with_a_truncation_of_its_own_shortens_itself():
    def half(asked, over):
        assert (asked.tokens, over) == (40, 10)
        return part("x", 1, 25)

    made = plan_context([part("x", 1, 40)], turns(70), token_limit=100, truncators={"x": half})
    assert cuts(made) == [("x", "own_truncation", (), 15)]
    assert granted(made) == {"x": 25}


def test_a_truncation_that_gives_nothing_drops_the_part():
    made = plan_context([part("x", 1, 40)], turns(70), token_limit=100, truncators={"x": lambda *_: None})
    assert cuts(made) == [("x", "own_truncation", ("x1",), 40)]


def test_a_truncation_that_does_not_shrink_is_dropped_in_the_second_pass():
    made = plan_context(
        [part("x", 2, 40), part("y", 1, 5)], turns(90), token_limit=100, truncators={"x": lambda asked, _: asked}
    )
    assert cuts(made) == [("y", "dropped", ("y1",), 5), ("x", "dropped", ("x1",), 40)]


def test_a_truncation_that_grows_is_recorded_and_dropped_in_the_second_pass():
    made = plan_context([part("x", 1, 40)], turns(90), token_limit=100, truncators={"x": lambda *_: part("x", 1, 50)})
    assert cuts(made) == [("x", "own_truncation", (), -10), ("x", "dropped", ("x1",), 50)]


def test_the_queue_gives_its_oldest_whole_turns_when_blocks_are_not_enough():
    made = plan_context([part("a", 0, 50)], turns(30, 30, 30), token_limit=100)
    assert cuts(made) == [("queue", "oldest_turns", ("m1", "m3"), 60)]
    assert ([m.seq for m in made.queue], made.queue_asked, made.queue_granted, made.total) == ([5, 6], 90, 30, 80)


def test_the_newest_turn_stays_however_large():
    made = plan_context([part("a", 0, 10)], turns(30, 300), token_limit=100)
    assert ([m.seq for m in made.queue], made.over_by, made.over_because) == ([3, 4], 210, "a and the newest turn")


def test_returning_over_the_limit_leaves_the_queue_whole():
    made = plan_context([part("a", 0, 50)], turns(30, 30), token_limit=100, when_over="return")
    assert (made.cuts, len(made.queue), made.over_by, made.over_because) == ((), 4, 10, "a and the queue")


def test_pinned_messages_count_and_are_never_cut():
    made = plan_context([part("a", 1, 20)], turns(60), token_limit=100, pinned_tokens=30)
    assert (granted(made), made.total) == ({"a": 0}, 90)


def test_the_frame_of_a_part_goes_with_its_last_piece():
    made = plan_context([part("f", 1, 10, 10, order=(0, 1), frame=5)], turns(80), token_limit=96)
    assert (granted(made), made.total) == ({"f": 15}, 95)
    made = plan_context([part("f", 1, 10, 10, order=(0, 1), frame=5)], turns(80), token_limit=94)
    assert (granted(made), made.total) == ({"f": 0}, 80)


def test_the_outer_frame_counts_once_and_goes_with_the_last_part():
    parts = [part("a", 1, 10), part("b", 2, 10)]
    assert plan_context(parts, [], token_limit=100, frame=6).total == 26
    assert plan_context(parts, [], token_limit=20, frame=6).total == 16
    assert plan_context(parts, [], token_limit=5, frame=6).total == 0


def test_what_stands_before_the_first_user_message_is_a_turn_of_its_own():
    queue = [
        SizedMessage(1, ASSISTANT, 1),
        SizedMessage(2, USER, 1),
        SizedMessage(3, TOOL, 1),
        SizedMessage(4, USER, 1),
    ]
    assert [[m.seq for m in turn] for turn in turns_of(queue)] == [[1], [2, 3], [4]]


# -- promises ------------------------------------------------------------------------------------


@st.composite
def all_parts(draw):
    made = []
    for number in range(draw(st.integers(0, 5))):
        sizes = draw(st.lists(st.integers(0, 60), max_size=5))
        order = draw(st.permutations(range(len(sizes)))) if draw(st.booleans()) else ()
        truncation = draw(st.sampled_from(["trim", "drop"]))
        options = {"truncation": truncation, "frame": draw(st.integers(0, 9))}
        share = draw(st.none() | st.integers(1, 100))
        made.append(part(chr(97 + number), draw(st.integers(0, 3)), *sizes, order=order, share=share, **options))
    return made


@st.composite
def queues(draw):
    roles = draw(st.lists(st.sampled_from([USER, ASSISTANT, TOOL]), max_size=12))
    return [SizedMessage(seq, role, draw(st.integers(0, 60))) for seq, role in enumerate(roles, start=1)]


orders = st.sampled_from(["largest_first", "smallest_first"])
policies = st.sampled_from(["shrink_queue", "return", "raise"])


@pytest.mark.slow
@given(all_parts(), queues(), st.integers(1, 400), st.integers(0, 40), st.integers(0, 9), orders, policies)
def test_every_plan_keeps_the_promises_of_the_docstring(parts, queue, limit, pinned, frame, order, policy):
    def again():
        return plan_context(
            parts,
            queue,
            token_limit=limit,
            pinned_tokens=pinned,
            frame=frame,
            truncation_order=order,
            when_over=policy,
        )

    made = again()
    assert made == again()

    # The numbers are those of what is granted.
    outer = frame if any(p.pieces for p in made.granted) else 0
    assert made.total == pinned + made.queue_granted + sum(p.granted for p in made.granted) + outer
    assert made.total == made.asked - sum(cut.tokens for cut in made.cuts)
    assert made.queue_granted == sum(message.tokens for message in made.queue)

    # Within the limit, or said by how much and why; and then nothing is left that could be cut.
    assert made.over_by == max(0, made.total - limit)
    assert bool(made.over_because) == bool(made.over_by)
    if made.over_by:
        assert all(not p.pieces for p in made.granted if p.priority > 0)
        if policy == "shrink_queue":
            assert len(turns_of(made.queue)) <= 1

    # Parts keep their order and their pieces' order; what is missing was cut, once.
    assert [p.name for p in made.granted] == [p.name for p in parts]
    for asked, given_ in zip(parts, made.granted, strict=True):
        gone = [ref for cut in made.cuts if cut.part == asked.name for ref in cut.refs]
        assert [piece.ref for piece in asked.pieces if piece.ref not in gone] == [p.ref for p in given_.pieces]
        assert len(gone) == len(set(gone)) == len(asked.pieces) - len(given_.pieces)
        if asked.priority == 0:
            assert not gone

    # What stays of the queue is its end, from the beginning of a turn on.
    assert list(made.queue) == queue[len(queue) - len(made.queue) :]
    if policy != "shrink_queue":
        assert list(made.queue) == queue
    if queue:
        assert made.queue
        assert made.queue[0] in (turn[0] for turn in turns_of(queue))

    # Nothing is cut without need: what is above a share first, each part to at most a piece below it; then the others
    # in the order of the priorities, the queue last.
    assert all(cut.over_before > 0 for cut in made.cuts)
    above = [cut for cut in made.cuts if cut.rule == "over_share"]
    assert list(made.cuts[: len(above)]) == above
    for cut in above:
        asked = next(p for p in parts if p.name == cut.part)
        largest = max(piece.tokens for piece in asked.pieces) + asked.frame
        assert cut.tokens - largest < min(asked.tokens - asked.share, cut.over_before)
    cut_names = [cut.part for cut in made.cuts[len(above) :]]
    in_order = [p.name for p in cut_first(parts, order)] + ["queue"]
    first_pass = list(dict.fromkeys(cut_names))
    assert first_pass == sorted(first_pass, key=in_order.index)


@pytest.mark.slow
@given(all_parts(), orders)
def test_the_cut_order_is_by_priority_and_then_by_place(parts, order):
    found = cut_first(parts, order)
    sign = -1 if order == "largest_first" else 1
    keys = [(sign * p.priority, parts.index(p)) for p in found]
    assert keys == sorted(keys)
    assert {p.name for p in found} == {p.name for p in parts if p.priority > 0}


@given(queues())
def test_turns_are_the_queue(queue):
    assert [message for turn in turns_of(queue) for message in turn] == queue


refs = st.lists(
    st.tuples(st.sampled_from("fvm"), st.integers(1, 12)).map(lambda pair: f"{pair[0]}{pair[1]}")
    | st.sampled_from(["s0a1f", "cdeadbeef", "s12", "c7"])
)


@given(refs)
def test_refs_are_spread_to_what_was_compacted(found):
    assert spread(compact(found)) == tuple(found)


@given(refs)
def test_the_numbers_of_a_kind_are_read_from_single_refs_and_runs_alike(found):
    facts = [int(ref.removeprefix("f")) for ref in found if ref.startswith("f")]
    assert numbers(found, "fact") == numbers(compact(found), "fact") == facts


@pytest.mark.parametrize(
    ("ref", "kind", "number"),
    [("f12", "fact", 12), ("v7", "unit", 7), ("m3", "message", 3), ("r4", "relation", 4), ("d7", "day", 7)],
)
def test_a_numbered_ref_says_its_kind_and_its_number(ref, kind, number):
    assert (Ref(ref).kind, Ref(ref).number, Ref.of(kind, number)) == (kind, number, ref)
    assert list(runs([ref])) == [(kind, number, number)]
    assert is_ref(ref)


@pytest.mark.parametrize(("ref", "kind"), [("s" + "0a" * 16, "text"), ("c" + "0a" * 16, "content")])
def test_a_ref_by_hash_says_its_kind_and_the_hash(ref, kind):
    assert (Ref(ref).kind, Ref(ref).hash, Ref.of(kind, "0a" * 16)) == (kind, "0a" * 16, ref)
    assert is_ref(ref)
    assert list(runs([ref])) == []


@pytest.mark.parametrize("text", ["", "f", "x1", "f3-f3", "f3-f2", "f1-v2", "s12", "f1 ", "f" + "1" * 19])
def test_what_is_no_ref_is_known_for_it(text):
    assert not is_ref(text)


def test_runs_of_refs_are_written_as_their_ends():
    assert compact(f"f{number}" for number in range(1, 3001)) == ("f1-f3000",)
    assert compact(["f1", "v2", "v3", "s4", "s5"]) == ("f1", "v2-v3", "s4", "s5")


@pytest.mark.slow
@given(all_parts(), queues(), st.integers(1, 400), st.integers(0, 500), st.integers(0, 9), orders, policies)
def test_reserved_tokens_are_counted_and_leave_the_plan_of_a_limit_without_them(
    parts, queue, limit, reserved, frame, order, policy
):
    def planned(token_limit, **reserving):
        return plan_context(
            parts,
            queue,
            token_limit=token_limit,
            frame=frame,
            truncation_order=order,
            when_over=policy,
            **reserving,
        )

    made, alone = planned(limit, reserved_tokens=reserved), planned(limit - reserved)
    assert (made.granted, made.queue, made.cuts, made.over_by) == (
        alone.granted, alone.queue, alone.cuts, alone.over_by,
    )  # fmt: skip
    assert (made.asked, made.total) == (alone.asked + reserved, alone.total + reserved)
    if not made.over_by:
        assert limit == made.total + made.free
    assert planned(limit, reserved_tokens=0) == planned(limit)

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_core.config import MemoryConfig
from memory_core.events import FlushPlanned, MessageAdded, ranges
from memory_core.memory import Memory
from memory_core.messages import ChatMessage, MessageRole, ToolCallPart
from memory_core.planning.flush import SizedMessage
from memory_core.store.message_rows import sizes_between
from memory_inspector.lab.sizes import replay_flushes


def user(seq, tokens):
    return SizedMessage(seq, MessageRole.USER, tokens)


def assistant(seq, tokens, *calls):
    return SizedMessage(seq, MessageRole.ASSISTANT, tokens, calls)


def result(seq, tokens, call):
    return SizedMessage(seq, MessageRole.TOOL, tokens, answers=call)


def left(flushes):
    return [(flush.seq, [message.seq for message in flush.plan.leave]) for flush in flushes]


def test_a_queue_within_its_budget_is_never_flushed():
    sizes = [user(seq, 10) for seq in range(1, 8)]
    assert replay_flushes(sizes, MemoryConfig(token_limit=100, chat_history_token_ratio=0.7)) == []


def test_a_lower_limit_flushes_earlier_and_each_flush_starts_where_the_last_one_ended():
    sizes = [user(seq, 10) for seq in range(1, 8)]
    config = MemoryConfig(token_limit=50, chat_history_token_ratio=0.6, token_flush_size=20)
    flushes = replay_flushes(sizes, config)
    assert left(flushes) == [(4, [1, 2]), (6, [3, 4])]
    assert [(flush.queue_before, flush.plan.tokens_left) for flush in flushes] == [(40, 20), (40, 20)]


def test_a_thinned_turn_keeps_its_user_message_for_the_flushes_after_it():
    sizes = [user(1, 10)]
    for seq in range(2, 12, 2):
        sizes += [assistant(seq, 10, f"call{seq}"), result(seq + 1, 10, f"call{seq}")]
    config = MemoryConfig(token_limit=50, chat_history_token_ratio=1, token_flush_size=20)
    assert left(replay_flushes(sizes, config)) == [(6, [2, 3]), (8, [4, 5]), (10, [6, 7])]


def conversations():
    """Lists of (kind, tokens): who speaks next, a tool step being a call and its results, or a call left open."""
    kinds = st.sampled_from(["system", "user", "user", "assistant", "assistant", "step", "step", "open"])
    return st.lists(st.tuples(kinds, st.integers(1, 40)), max_size=25)


def written(conversation):
    for number, (kind, size) in enumerate(conversation):
        words = "x" * size
        if kind in ("step", "open"):
            call = ToolCallPart(tool_call_id=f"c{number}", tool_name="t", tool_kwargs={})
            yield ChatMessage(role="assistant", parts=[call])
            if kind == "step":
                yield ChatMessage(role="tool", content=words, additional_kwargs={"tool_call_id": f"c{number}"})
        else:
            yield ChatMessage(role=kind, content=words)


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    conversation=conversations(),
    token_limit=st.integers(20, 150),
    ratio=st.sampled_from([0.3, 0.5, 0.7, 1.0]),
    flush_size=st.sampled_from([1, 10, 20]),
    split_long_turns=st.booleans(),
    accounting=st.sampled_from(["content", "reference", "billed"]),
)
def test_the_replay_under_the_same_configuration_is_what_the_engine_did(
    conversation, token_limit, ratio, flush_size, split_long_turns, accounting
):
    memory = Memory.from_defaults(
        token_limit=token_limit,
        chat_history_token_ratio=ratio,
        token_flush_size=flush_size,
        split_long_turns=split_long_turns,
        accounting=accounting,
        tokenizer_fn=list,
    )
    for message in written(conversation):
        memory.put(message)
    recorded, seq = [], 0
    for record in memory.events(kinds=["message_added", "flush_planned"]):
        if isinstance(record.event, MessageAdded):
            seq = record.event.seq
        else:
            recorded.append((seq, record.event))

    with memory.session.database.read() as connection:
        sizes = sizes_between(connection, memory.session_id, after=0, accounting=accounting)
    memory.session.database.close()

    replayed = replay_flushes(sizes, memory.session.config)
    assert [
        (flush.seq, event_of(number, flush, memory.session.config)) for number, flush in enumerate(replayed, 1)
    ] == recorded


def event_of(number, flush, config):
    plan = flush.plan
    seqs = [message.seq for message in plan.leave]
    return FlushPlanned(
        flush=number,
        trigger="over_budget",
        rules=plan.rules,
        seqs=ranges(seqs),
        messages=len(seqs),
        tokens=plan.tokens,
        queue_before=flush.queue_before,
        queue_after=plan.tokens_left,
        history_budget=config.history_budget,
        flush_size=config.flush_size,
        over_by=plan.over_by,
    )

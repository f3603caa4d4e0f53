"""Agents' conversations with tool calls: whatever is flushed, no call stands without its result, nothing is lost."""

import json

import pytest
from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

from memory_core import Memory, MessageRole
from memory_inspector.files.openai_format import read_conversation

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trajectories(data_file):
    """Every trajectory of the file, as messages."""
    raw = json.loads(data_file("tau-bench/airline_100.json").read_bytes())
    return [read_conversation(json.dumps(entry["traj"]).encode(), filename="one.json").messages for entry in raw]


@pytest.fixture(scope="module")
def database(data_file):
    engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    yield engine
    engine.dispose()


def orphans(messages):
    """Results whose call does not stand before them, and calls that are not answered though more follows."""
    open_calls, found = set(), []
    for message in messages:
        if message.role is MessageRole.TOOL:
            if message.tool_call_id not in open_calls:
                found.append(("result", message.tool_call_id))
            open_calls.discard(message.tool_call_id)
            continue
        found += [("call", call) for call in open_calls]
        open_calls = {call.tool_call_id for call in message.tool_calls}
    return found


@pytest.mark.parametrize("limit", [1_000, 4_000])
def test_every_prefix_of_every_trajectory_is_whole(limit, trajectories, database):
    for number, trajectory in enumerate(trajectories):
        memory = Memory.from_defaults(f"{limit}-{number}", engine=database, token_limit=limit)
        for place, message in enumerate(trajectory, 1):
            memory.put(message)
            context = memory.build_context(record=False)
            where = (limit, number, place)
            assert orphans(context.messages) == [], where
            assert context.messages[0] == trajectory[0], where
            assert context.plan.total <= limit or (context.plan.over_by and context.plan.over_because), where
            seqs = [*context.pinned_seqs, *context.queue_seqs]
            assert seqs == sorted(seqs), where
            assert [trajectory[seq - 1] for seq in seqs] == list(context.messages), where
        queued, archived = memory.session.messages("active"), memory.session.messages("archived")
        assert sorted(m.seq for m in [*queued, *archived]) == list(range(1, len(trajectory) + 1)), number
        assert memory.get_all() == list(trajectory), number

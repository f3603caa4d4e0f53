"""The slice of messages: its totals are what counting its messages gives, whatever happened."""

from hypothesis import given
from hypothesis import strategies as st

from memory_core.events import EventRecord, FlushPlanned, MessageAdded, QueueReplaced, SessionReset, ranges
from memory_core.history.message_slice import Messages


@st.composite
def lives(draw):
    """Events of a session: puts, flushes from the front, replaced ends, resets."""
    events, queued, archived, seq = [], [], set(), 0
    for step in draw(st.lists(st.sampled_from(["put", "put", "pin", "flush", "replace", "reset"]), max_size=25)):
        if step in ("put", "pin"):
            seq += 1
            tokens = draw(st.integers(0, 9))
            added = MessageAdded(seq, f"m{seq}", "user", tokens, tokens + 1, "o200k", f"h{seq}", step == "pin")
            events.append(added)
            queued.append(added)
        elif step == "flush":
            unpinned = [message.seq for message in queued if not message.pinned]
            gone = unpinned[: draw(st.integers(0, len(unpinned)))]
            events.append(FlushPlanned(1, "asked", (), ranges(gone), len(gone), 0, 0, 0, 0.0, 0, 0))
            archived |= set(gone)
            queued = [message for message in queued if message.seq not in gone]
        elif step == "replace":
            keep = draw(st.integers(0, len(queued)))
            events.append(QueueReplaced(ranges(message.seq for message in queued[keep:]), 0))
            queued = queued[:keep]
        else:
            status = draw(st.sampled_from([None, "active", "archived"]))
            events.append(SessionReset(status, 0, 0, 0))
            queued = queued if status == "archived" else []
            archived = archived if status == "active" else set()
    return events, queued, archived, seq


@given(lives())
def test_totals_are_those_of_the_messages_that_are_there(life):
    events, queued, archived, seq = life
    messages, forgotten = Messages(), set()
    for position, event in enumerate(events, 1):
        forgotten |= set(messages.apply(EventRecord(position, "s", 1, 0.0, "engine", event)))
    unpinned = [message for message in queued if not message.pinned]
    assert messages.queue_messages == len(unpinned)
    assert messages.queue_content == sum(message.tokens for message in unpinned)
    assert messages.queue_reference == sum(message.reference_tokens for message in unpinned)
    assert messages.archived_messages == len(archived)
    assert messages.next_seq == seq + 1
    by_place = {seq: state.place for seq, state in messages.by_seq.items()}
    assert {seq for seq, place in by_place.items() if place == "queued"} == {message.seq for message in queued}
    assert {seq for seq, place in by_place.items() if place == "archived"} == archived
    assert {seq for seq, place in by_place.items() if place == "forgotten"} == forgotten
    end = len(events)
    assert messages.in_queue(end, first=1, before=seq + 1) == [message.seq for message in unpinned]

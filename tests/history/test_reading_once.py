"""The log is read and folded once: in whatever pieces, with the same result as anew, and with few objects."""

import pytest
from engine_fakes import HashEmbedder, NoteExtractor, note
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from session_script import ALL_STEPS, Script

from memory_core import Memory, Services, VectorMemoryBlock
from memory_core.events import VectorsStored, decode, decode_all
from memory_core.history.by_turn import Folding, StaleLogError, history_of
from memory_core.history.learned_slices import RangeIndex, StoredUnit
from memory_core.history.message_slice import Messages
from memory_core.history.projection import Projection, project
from memory_core.history.usage import usage_of
from memory_core.store import log_rows
from memory_core.store.copying.copies import Stream

NUMBERS = st.lists(st.integers(0, 2_000), max_size=30)


@pytest.mark.slow
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=ALL_STEPS, cuts=st.lists(st.integers(0, 400), max_size=4))
def test_a_log_read_in_pieces_with_its_projection_is_the_log_read_at_once(steps, cuts):
    script = Script()
    for step in steps:
        script.do(step)
    records = script.memory.log.history().records
    past = Projection()
    folding, begin = Folding(past), 0
    for end in (*sorted(cuts), len(records)):
        try:
            read = folding.apply(records[begin : max(begin, end)])
        except StaleLogError:
            return  # what was read before is read anew
        begin = max(begin, end)
    assert read == history_of(records)
    anew = project(records)
    assert usage_of(past) == usage_of(anew)
    assert past.messages.by_seq == anew.messages.by_seq
    assert dict(past.vectors.units()) == dict(anew.vectors.units())


@given(added=st.lists(NUMBERS, max_size=20), asked=NUMBERS)
def test_values_by_ranges_are_those_by_single_numbers(added, asked):
    spanned, single = RangeIndex[int](), {}
    for place, numbers in enumerate(added):
        spanned.add(numbers, place)
        for number in set(numbers):
            single.setdefault(number, []).append(place)
    assert [spanned[number] for number in asked] == [single.get(number, []) for number in asked]


def played():
    memory = Memory.from_defaults(
        "a session",
        memory_blocks=[VectorMemoryBlock(name="turns")],
        services=Services(embedder=HashEmbedder(), extractor=NoteExtractor()),
        tokenizer_fn=str.split,
        token_limit=40,
        chat_history_token_ratio=0.5,
        token_flush_size=5,
    )
    for number in range(30):
        memory.put(note(f"number {number} likes walnuts"))
    memory.build_context()
    return memory


def test_each_stored_unit_is_what_its_event_says():
    memory = played()
    records = memory.log.history().records
    vectors = project(records).vectors
    stored = [record.event for record in records if isinstance(record.event, VectorsStored)]
    ever = {number: StoredUnit(e.block, seqs, tokens) for e in stored for number, seqs, tokens in e.nodes}
    assert len(ever) > 5
    assert {number: vectors.unit(number) for number in ever} == ever
    assert dict(vectors.units()) == ever
    assert vectors.unit(max(ever) + 1) is None


def test_a_trace_decodes_and_folds_each_event_once(monkeypatch):
    memory = played()
    decoded, folded = [], []
    monkeypatch.setattr(log_rows, "decode_all", lambda some: decoded.extend(some) or decode_all(some))
    apply = Messages.apply
    monkeypatch.setattr(Messages, "apply", lambda self, record: folded.append(record.position) or apply(self, record))
    again = Memory.open("a session", memory.session.database, services=Services(embedder=HashEmbedder()))
    again.trace("number 3 likes walnuts")
    events = again.log.history().records
    assert len(decoded) == len(events)
    assert (
        len(folded) == len(set(folded)) == sum(record.kind in ("message_added", "flush_planned") for record in events)
    )
    again.trace("number 4 likes walnuts")
    assert len(decoded) == len(events)


def test_an_event_of_a_newer_version_is_unknown_and_one_without_a_field_is_refused():
    event = played().log.history().records[-1].event
    assert decode(event.kind, event.to_json()) == event
    newer = decode(event.kind, event.to_json()[:-1] + ',"later":[[1,2]]}')
    assert (newer.kind, newer.name, newer.data["later"]) == ("unknown_event", event.kind, ((1, 2),))
    with pytest.raises(TypeError):
        decode(event.kind, "{}")


def test_what_is_held_is_read_once_and_copied_where_it_is_used():
    read, copied = [], []

    def rows():
        read.append(1)
        return iter((1, 2, 3))

    def copy(row):
        copied.append(row)
        return str(row)

    some = Stream(rows, copy).only(lambda numbers: (number for number in numbers if number > 1)).followed_by(["end"])
    held = some.held()
    assert (len(read), copied, list(held.rows)) == (1, [], [2, 3, "end"])
    assert list(held) == list(held) == ["2", "3", "end"]
    assert (len(read), copied) == (1, [2, 3, 2, 3])

"""What spans report, recorded as the session of the agent that sent them."""

import json
from contextlib import nullcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from span_kit import START, Attached, as_json, chat, memory, message, sent

from memory_core import ConfigError, Database, Memory, Services
from memory_core.bundles.bundle import import_bundle, read_bundle, write_bundle
from memory_core.engine.reconcile import create_or_join
from memory_core.engine.session import Session
from memory_core.events import AgentAttached, MemoryDeleted, MemorySearched, MemoryWritten
from memory_core.history.contexts import is_context
from memory_core.history.stores import UNATTRIBUTED
from memory_core.sessions.overview import delete_session
from memory_inspector.recorder import receiving
from memory_inspector.recorder.otlp import LogRecord, Span, SpanExport
from memory_inspector.recorder.receiving import Receiver
from memory_inspector.recorder.recording import check_free


@pytest.fixture
def attached():
    return Attached()


HELLO = [("system", "Be brief."), ("user", "I like tea.")]
MORE = [*HELLO, ("assistant", "Noted."), ("user", "What do I drink?")]


def test_calls_appear_as_a_session_with_its_prompts(attached):
    assert attached.take(chat(HELLO, "Noted.", began=1), chat(MORE, "Tea.", began=2)) == []
    assert attached.prompts() == [HELLO, MORE]
    history = attached.log()
    assert (history.attached, history.latest_turn) == (True, 2)
    assert {record.event.known for record in history.records if is_context(record.event)} == {"reported"}
    calls = attached.memory().events(kinds=["model_called"])
    assert [(c.event.model, c.event.input_tokens, c.event.seconds) for c in calls] == [("gpt-test", 11, 0.1)] * 2
    # The store decides nothing about an agent's messages: each stands once.
    assert [m.content for m in attached.memory().get_all()] == ["Be brief.", *[w for _, w in MORE[1:]], "Tea."]


def test_what_is_sent_twice_is_recorded_once_also_after_a_restart(attached):
    spans = [chat(HELLO, "Noted.", began=1), memory("create_memory", records=[("r1", "Likes tea.")], began=2)]
    attached.take(*spans, spans[0])
    before = attached.log().position
    attached.take(*spans)
    attached.take(*spans, chat(MORE, began=3), receiver=attached.restarted())
    new = attached.log().after(before)
    assert [record.kind for record in new] == ["message_added", "context_built", "model_called"]
    # It is the span that is known, and not what it says: its emitter may say the same again.
    attached.take(memory("create_memory", records=[("r1", "Likes tea.")], began=4))
    assert len(attached.stores()["notes"].records[0].versions) == 2


def test_after_a_restart_the_answer_of_late_log_records_is_known(attached):
    span = chat(None)
    prompt = {"gen_ai.input.messages": json.dumps([message("user", "Open?")])}
    answer = {"gen_ai.output.messages": json.dumps([message("assistant", "Until six.")])}
    record = LogRecord(f"{span['traceId']}:{span['spanId']}", "gen_ai.details", prompt | answer, START)
    attached.take(span)
    attached.receiver.logged.add([record])
    assert attached.receiver.store_late([record]).spans == 0
    more = [("user", "Open?"), ("assistant", "Until six."), ("user", "And?")]
    attached.take(chat(more, began=2), receiver=attached.restarted())
    assert [m.content for m in attached.memory().get_all()] == ["Open?", "Until six.", "And?"]


def test_processes_that_record_one_agent_know_of_each_other_s_messages(attached):
    other, last = Attached(attached.database), [*MORE, ("assistant", "Tea."), ("user", "Thanks.")]
    attached.take(chat(HELLO, "Noted.", began=1))
    other.take(chat(MORE, "Tea.", began=2))
    attached.take(chat(last, began=3))
    other.take(chat(HELLO, began=4))
    assert attached.prompts() == [HELLO, MORE, last, HELLO]
    assert [m.content for m in attached.memory().get_all()] == [words for _, words in last]


def test_what_was_looked_up_for_a_message_stands_in_its_turn(attached):
    attached.take(
        memory("search_memory", query="drinks", records=[("r1", "Likes tea.", 0.5)], began=1),
        chat(HELLO, "Noted.", began=2),
        memory("create_memory", records=[("r2", "Said hello.")], began=3, trace=9),
    )
    records = attached.log().records
    assert attached.kinds() == [
        "message_added", "message_added", "memory_searched", "context_built", "model_called", "message_added",
        "memory_written",
    ]  # fmt: skip
    assert [r.turn for r in records if r.event.family == "stores"] == [1, 1]
    assert {r.actor for r in records if r.event.family == "stores"} == {"agent"}


def test_writes_apply_in_the_order_in_which_they_ended(attached):
    late = memory("update_memory", records=[("r1", "Lives in Rome.")], began=5)
    attached.take(memory("create_memory", records=[("r1", "Lives in Oslo.")], began=1))
    attached.take(memory("update_memory", records=[("r1", "Lives in Paris.")], began=9))
    attached.take(late)
    (record,) = attached.stores()["notes"].held
    assert [attached.words(v.words) for v in record.versions] == ["Lives in Oslo.", "Lives in Rome.", "Lives in Paris."]
    assert [version.how for version in record.versions] == ["create", "update", "update"]
    # As of an earlier position the late one is not there yet.
    then = attached.stores(upto=attached.log().position - 1)["notes"].held[0]
    assert [attached.words(v.words) for v in then.versions] == ["Lives in Oslo.", "Lives in Paris."]


def test_stores_know_what_is_held_found_and_never_found(attached):
    attached.take(
        memory("create_memory", records=[("r1", "Likes tea."), ("r2", "Has a cat."), ("r3", "Old.")], began=1),
        memory("search_memory", query="tea", records=[("r1", "Likes tea.", 0.9)], began=2),
        memory("search_memory", query="dogs", count=0, began=3),
        memory("search_memory", query="boats", began=4),  # says no number
        memory("delete_memory", record="r3", began=5),
        sent("delete_memory", {"gen_ai.operation.name": "delete_memory", "gen_ai.conversation.id": "c1",
                               "gen_ai.memory.store.id": "notes", "error.type": "timeout"}, began=6),
        memory("upsert_memory", store="other", records=[("r1", "Another one.")], began=7),
        memory("delete_memory_store", store="other", began=8),
    )  # fmt: skip
    notes, other = attached.stores()["notes"], attached.stores()["other"]
    assert [record.id for record in notes.held] == ["r1", "r2"]
    assert [record.id for record in notes.never_found] == ["r2"]
    assert [attached.words(search.event.query) for search in notes.unanswered] == ["dogs"]
    assert len(notes.searches) == 3
    assert (other.held, other.deleted.kind) == ([], "memory_store_changed")
    gone = notes.records[2].deleted.event
    assert gone == MemoryDeleted(gone.span, START // 1_000 + 5_100_000, "notes", ("r3",), 1)


def test_without_content_there_are_ids_and_counts(attached):
    attached.take(
        chat(None, began=1),
        sent("upsert_memory", {"gen_ai.operation.name": "upsert_memory", "gen_ai.memory.record.id": "r1",
                               "gen_ai.conversation.id": "c1"}, began=2),
        memory("search_memory", count=4, began=3),
    )  # fmt: skip
    call, wrote, searched = (record.event for record in attached.log().records[3:])
    assert (call.captured, call.input_tokens) == (False, 11)
    assert isinstance(wrote, MemoryWritten)
    assert (wrote.store, wrote.records) == (None, (("r1", None, 0),))
    assert isinstance(searched, MemorySearched)
    assert (searched.query, searched.results, searched.count) == (None, (), 4)
    assert set(attached.stores()) == {UNATTRIBUTED, "notes"}


def test_a_span_that_names_no_session_belongs_to_that_of_its_trace(attached):
    attached.take(memory("search_memory", conversation=None, query="a", began=1, trace=5))
    attached.take(
        memory("search_memory", conversation=None, query="b", began=2, trace=6), chat(HELLO, began=3, trace=6)
    )
    attached.take(memory("search_memory", conversation=None, query="c", trace=6), receiver=attached.restarted())
    assert attached.kinds(f"shop {5:08x}") == ["memory_searched"]
    assert [attached.words(r.event.query) for r in attached.log().records if r.kind == "memory_searched"] == ["b", "c"]


def test_a_session_of_its_own_is_not_written_into(attached):
    Memory.from_defaults("c1", database=attached.database, services=attached.services)
    (reason,) = attached.take(chat(HELLO), memory("search_memory"), chat(HELLO, conversation="c2"))
    assert "session of its own" in reason
    assert attached.prompts("c2") == [HELLO]


def test_what_cannot_be_read_is_named_and_the_rest_is_stored(attached):
    broken = sent("chat", {"gen_ai.operation.name": "chat", "gen_ai.input.messages": '[{"role'})
    (reason,) = attached.take(broken, chat(HELLO))
    assert "gen_ai.input.messages is JSON that was cut off" in reason
    assert attached.prompts() == [HELLO]


def test_a_span_nested_too_deep_is_refused_alone(attached):
    deep = "[" * 20_000 + "]" * 20_000
    spans = [
        sent("chat", {"gen_ai.operation.name": "chat", "gen_ai.input.messages": deep}),
        sent("upsert_memory", {"gen_ai.operation.name": "upsert_memory", "gen_ai.memory.records": deep}),
        chat(HELLO),
    ]
    assert len(attached.take(*spans)) == 2
    assert attached.prompts() == [HELLO]


HALF = "half \ud83d"
UNFIT = {
    "score too large": memory("search_memory", records=[("r", "tea", 10**400)]),
    "score NaN": memory("search_memory", records=[("r", "tea", float("nan"))]),
    "score infinite": memory("search_memory", records=[("r", "tea", float("-inf"))]),
    "record id": memory("search_memory", records=[(HALF, "tea", 0.5)]),
    "words": memory("search_memory", records=[("r", HALF, 0.5)]),
    "key": memory("search_memory", records=[("r", {HALF: 1}, 0.5)]),
    "query": memory("search_memory", query={"a": [HALF]}),
    "store": memory("search_memory", store=json.dumps([HALF])),
    "digits that are no number": sent("chat", {"openinference.span.kind": "LLM", "llm.input_messages.²": "x",
        "llm.input_messages.².message.content": "x"}),
    "raw text": memory("search_memory", store=HALF),
    "raw name": chat(HELLO, model=HALF),
    "raw session": chat(HELLO, conversation=HALF),
    "raw attribute name": sent("chat", {"gen_ai.operation.name": "chat", HALF: 1}),
    "raw integer": sent("chat", {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 10**40}),
}  # fmt: skip


@pytest.mark.parametrize("unfit", UNFIT.values(), ids=UNFIT)
def test_what_no_database_can_hold_costs_its_own_span_alone(attached, unfit):
    before, after = chat(HELLO, began=1), chat(MORE, began=2)
    other = as_json(chat([("user", "Hi from another agent.")], conversation="c2"))
    own, others = attached.receive(as_json(before, unfit, after), other)

    assert own.spans == 1
    assert all(reason.encode() for reason in own.reasons)
    assert others.spans == 0
    assert attached.prompts() == [HELLO, MORE]
    assert attached.prompts("c2") == [[("user", "Hi from another agent.")]]


def test_a_span_that_fails_only_when_it_is_stored_costs_no_other(attached, monkeypatch):
    def fails(session, w, report):
        if report.what.store == "broken":
            raise OverflowError("Python int too large to convert to SQLite INTEGER")
        return event(session, w, report)

    event = receiving._event
    monkeypatch.setattr(receiving, "_event", fails)
    (reason,) = attached.take(
        chat(HELLO, began=1), memory("search_memory", store="broken", began=2), chat(MORE, began=3)
    )
    assert reason == "OverflowError"
    assert attached.prompts() == [HELLO, MORE]


def test_a_deleted_session_stays_deleted_and_the_agent_is_told(attached):
    attached.take(chat(HELLO, "Noted.", began=1))
    delete_session(attached.database, "c1")
    other = chat(MORE, conversation="c2")
    for receiver in (attached.receiver, attached.restarted()):
        (reason,) = attached.take(chat(MORE, began=2), other, receiver=receiver)
        assert "does not exist any more" in reason
    assert attached.prompts("c2") == [MORE]


def test_the_words_of_memory_go_with_the_session_and_travel_with_it(attached):
    attached.take(
        chat(HELLO, "Noted.", began=1),
        memory("create_memory", records=[("r1", "Zanzibar.")], began=2),
        memory("search_memory", query="where to", records=[("r1", "Zanzibar.", 0.5)], began=3),
    )
    bundle = read_bundle(write_bundle(attached.database, "c1"), "c1.zip")
    other = Attached()
    copy = import_bundle(other.database, bundle)
    (record,) = other.stores(copy)["notes"].held
    assert other.words(record.words, copy) == "Zanzibar."
    assert other.log(copy).attached
    with attached.database.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM mi_content WHERE data LIKE '%Zanz%'").scalar() == 1
    delete_session(attached.database, "c1")
    with attached.database.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM mi_content WHERE data LIKE '%Zanz%'").scalar() == 0
        assert connection.exec_driver_sql("SELECT count(*) FROM mi_span").scalar() == 0


operations = st.tuples(
    st.sampled_from(["create_memory", "update_memory", "delete_memory", "search_memory", "delete_memory_store"]),
    st.sampled_from(["r1", "r2"]),
    st.sampled_from(["Tea.", "Cake.", "Rome."]),
)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.lists(operations, max_size=8), st.data())
def test_stores_are_the_same_in_whichever_order_and_how_often_spans_come(done, data):
    spans = [
        memory(kind, records=None if kind.startswith("delete") else [(id, words)], record=id, began=n)
        for n, (kind, id, words) in enumerate(done)
    ]
    shuffled = data.draw(st.permutations(spans))
    again = data.draw(st.lists(st.sampled_from(spans), max_size=3)) if spans else []
    told = []
    for order in (spans, [*shuffled, *again]):
        attached = Attached()
        attached.take(chat(HELLO))
        for span in order:
            attached.take(span)
        stores = attached.stores()
        told.append(
            {
                name: [(r.id, [v.words for v in r.versions], len(r.found), r.deleted is None) for r in store.records]
                for name, store in stores.items()
            }
        )
    assert told[0] == told[1]


@pytest.mark.parametrize("source", ["file", "proxy", "adapter", "spans", "user"])
def test_spans_are_recorded_in_sessions_of_spans_only_and_calls_in_those_of_calls(source):
    database = Database.open(None)
    services = Services()
    if source == "user":
        Memory.from_defaults("taken", database=database, services=services)
    else:
        create_or_join(
            Session(database, "taken", services=services), title="taken", user_id=None, config={}, blocks=None,
            begun=AgentAttached(source=source),
        )  # fmt: skip
    messages = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "hello"}]}])
    attributes = {
        "gen_ai.operation.name": "chat", "gen_ai.conversation.id": "taken", "gen_ai.input.messages": messages,
    }  # fmt: skip
    receiver = Receiver(lambda: database, lambda id: Session(database, id, services=services))
    (refused,) = receiver.store([SpanExport((Span("1" * 32, "2" * 16, attributes=attributes),))])
    assert refused.spans == (0 if source == "spans" else 1)
    assert bool(Memory.open("taken", database, services=services).session.messages()) == (source == "spans")
    with nullcontext() if source == "proxy" else pytest.raises(ConfigError, match="another name"):
        check_free(Session(database, "taken", services=services))

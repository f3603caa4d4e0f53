"""An attached agent's session on the pages: what was seen of it, and nothing to change."""

import pytest
from pages_driver import opened
from span_kit import as_protobuf, chat, memory

from memory_core import ChatMessage
from memory_core.engine.session import Session
from memory_inspector.recorder.otlp import PROTOBUF, read_export
from memory_inspector.recorder.receiving import Receiver
from memory_inspector.recorder.recording import attach, record_exchange
from memory_inspector.recorder.wire import Exchange
from ui.tab import services

pytestmark = pytest.mark.slow


def test_an_attached_agent_is_shown_and_not_changed(home):
    shared = services.engine()
    session = Session(shared.database, "agent", services=shared.services)
    attach(session)
    first = (ChatMessage(role="system", content="Be brief."), ChatMessage(role="user", content="I live in Oslo."))
    record_exchange(session, Exchange("reply", "m", first, ChatMessage(role="assistant", content="Good."), 21, 2))
    record_exchange(session, Exchange("reply", "m", (first[0], ChatMessage(role="user", content="Where do I live?"))))

    context = opened(page="context", session="agent")
    shown = " ".join(each.value for each in context.markdown).replace("\\", "")
    assert "as observed on the way to the model" in shown
    # What the agent had said before and left out of its second prompt.
    assert "I live in Oslo." in shown
    assert "2 messages of this session" in shown
    # It has neither a queue nor parts that asked for more than they got.
    assert "Requested" not in shown
    assert "Queue" not in shown
    assert "definitions of tools" not in shown
    followed = [link.proto.query_string for link in context.get("page_link") if link.proto.label == ":small[Follow]"]
    assert [query.rpartition("follow=")[2] for query in followed] == ["m2", "m3"]

    timeline = opened(page="timeline", session="agent")
    assert any("2 prompts in 2 turns" in each.value for each in timeline.markdown)
    (events,) = [each.value for each in timeline.dataframe if "What happened" in each.value.columns][:1]
    assert "Sent 2 messages" in " ".join(events["What happened"])
    assert "1,000,000,000" not in " ".join(events["What happened"])
    lab = opened(page="lab", session="agent")
    limit = next(each for each in lab.number_input if each.label == "Token limit")
    assert limit.value is None, "it has none"

    chat = opened(session="agent")
    assert not chat.chat_input
    assert not any("Flush" in each.label for each in chat.button)
    assert next(each for each in chat.button if each.label == "Settings").disabled
    for page in (context, timeline, chat, lab):
        assert not page.exception
        assert "1,000,000,000" not in " ".join(each.value for each in page.markdown)


def test_a_compaction_of_an_attached_agent_is_on_its_pages(home):
    shared = services.engine()
    session = Session(shared.database, "agent", services=shared.services)
    attach(session)
    system, said, summary = (
        ChatMessage(role=role, content=words)
        for role, words in (
            ("system", "Be brief."),
            ("user", "I live in Oslo."),
            ("user", "They told where they live."),
        )
    )
    record_exchange(session, Exchange("reply", "m", (system, said), ChatMessage(role="assistant", content="Good.")))
    record_exchange(session, Exchange("reply", "m", (system, summary), compacted=True))
    timeline, context, chat = (opened(page=page, session="agent") for page in ("timeline", "context", "chat"))
    (events,) = [each.value for each in timeline.dataframe if "What happened" in each.value.columns][:1]
    assert "left out by the agent's compaction" in " ".join(events["What happened"])
    assert "I live in Oslo" in " ".join(each.value for each in context.markdown)
    assert [s.verdict for s in shared.open("agent").trace("live in Oslo").tracks[0].stages] == ["passed", "lost"]
    for page in (timeline, context, chat, opened(page="trace", session="agent", words="live in Oslo")):
        assert not page.exception


def test_of_what_an_attached_agent_left_out_no_rule_is_claimed_and_nothing_is_foretold(home):
    shared = services.engine()
    session = Session(shared.database, "agent", services=shared.services)
    attach(session)
    said, asked = (ChatMessage(role="user", content=words) for words in ("I live in Oslo.", "And now?"))
    record_exchange(session, Exchange("reply", "m", (said,), ChatMessage(role="assistant", content="Good.")))
    record_exchange(session, Exchange("reply", "m", (asked,)))
    memory = shared.open("agent")
    trace = memory.trace("live in Oslo")
    assert [(s.name, s.verdict, s.rule, s.knowledge) for s in trace.tracks[0].stages] == [
        ("said", "passed", "", "observed"),
        ("prompt", "lost", "not_sent", "observed"),
    ]
    assert memory.trace("live in Oslo", turn=1).reached
    assert [each.state for each in memory.trace.presence("live in Oslo").turns] == ["prompt", "out"]
    assert memory.trace.fixes(trace).offered == ()
    assert memory.trace.fixes(trace).held is False
    page = opened(page="trace", session="agent", words="live in Oslo")
    assert not page.exception
    assert memory.log.history().attached
    assert not memory.branch(1).log.history().attached
    assert not any("next prompt" in each.value for each in page.markdown)


def test_what_an_agent_does_with_its_memory_is_on_the_pages(home):
    shared = services.engine()
    spans = [
        memory("upsert_memory", records=[("allergy", "Ana is allergic to nuts."), ("home", "Ana lives in Lisbon.")]),
        memory("update_memory", records=[("home", "Ana lives in [Porto](http://evil.test).")], began=1),
        memory("search_memory", query="dogs", count=0, began=2),
        memory("search_memory", query="dinner", records=[("allergy", "Ana is allergic to nuts.", 0.5)], began=3),
        chat([("user", "Book a dinner.")], "Satay.", began=4),
        memory("create_memory", store="episodes", records=[("e1", "Booked satay.")], began=5),
    ]
    receiver = Receiver(lambda: shared.database, lambda id: Session(shared.database, id, services=shared.services))
    receiver.store([read_export(as_protobuf(*spans), PROTOBUF)])

    def words(page, **query):
        drawn = opened(page=page, session="c1", **query)
        assert not drawn.exception
        return drawn, " ".join(each.value for each in drawn.markdown).replace("\\", "")

    blocks, shown = words("blocks")
    assert "3 records in 2 stores" in shown
    assert "**1 record** never found by a search: home" in shown
    (records,) = [each.value for each in blocks.dataframe]
    assert list(records["Writes"]) == [1, 2]
    assert list(records["Found"]) == [1, 0]

    retrieval, shown = words("retrieval")
    assert "1 question found nothing" in shown
    assert "1 record found is not in the prompt that followed" in shown
    (searches,) = [each.value for each in retrieval.dataframe]
    assert list(searches["Not in the prompt"]) == ["1 of 1, turn 1", ""]

    timeline, _ = words("timeline")
    (events,) = [each.value for each in timeline.dataframe if "What happened" in each.value.columns][:1]
    told = list(events["What happened"])
    assert told[0] == "Created 1 record in episodes: “Booked satay.”"
    assert any(each.startswith("Found, not in the prompt: 1 of 1. Searched notes for “dinner”") for each in told)

    assert "Found, but not in this prompt" in words("context")[1]
    assert "but not in the prompt of turn 1" in words("trace", words="allergic to nuts")[1]


def test_an_agent_whose_spans_have_no_content_is_shown_by_ids_and_counts(home):
    shared = services.engine()
    receiver = Receiver(lambda: shared.database, lambda id: Session(shared.database, id, services=shared.services))
    spans = [chat(None), memory("upsert_memory", record="r1"), memory("search_memory", count=3)]
    receiver.store([read_export(as_protobuf(*spans), PROTOBUF)])
    for page in ("blocks", "retrieval", "timeline", "context", "trace", None):
        assert not opened(page=page, session="c1").exception
    (events,) = [each.value for each in opened(page="timeline", session="c1").dataframe][:1]
    assert sum("content not captured" in each for each in events["What happened"]) == 3

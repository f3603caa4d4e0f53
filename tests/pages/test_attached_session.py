"""An attached agent's session on the pages: what was seen of it, and nothing to change."""

from pages_driver import opened

from memory_core import ChatMessage
from memory_core.attach.recording import attach, record_exchange
from memory_core.attach.wire import Exchange
from memory_core.engine.session import Session
from ui import services


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

    timeline = opened(page="timeline", session="agent")
    assert any("2 prompts in 2 turns" in each.value for each in timeline.markdown)
    (events,) = [each.value for each in timeline.dataframe if "What happened" in each.value.columns][:1]
    assert "Sent 2 messages" in " ".join(events["What happened"])

    chat = opened(session="agent")
    assert not chat.chat_input
    assert not any("Flush" in each.label for each in chat.button)
    assert next(each for each in chat.button if each.label == "Settings").disabled
    for page in (context, timeline, chat):
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

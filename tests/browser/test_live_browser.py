"""What another process writes shows up on a page that is open, without a reload."""

import json
import re
import uuid

import pytest
from app_server import behind, healthy, idle
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from playwright.sync_api import expect
from running_agent import running_agent

from memory_core import ChatMessage, delete_session
from memory_inspector.server.engine import new_memory

pytestmark = pytest.mark.browser


def test_chat_and_timeline_follow_another_process(served, visitor):
    """The test's own process is the other one: it shares nothing with the server but the database."""
    memory = new_memory(behind(served), title="From elsewhere")
    chat = visitor.open(f"{served.url}/chat?session={memory.session_id}")
    expect(chat.get_by_text("Nothing said yet.")).to_be_visible()
    timeline = visitor.open(f"{served.url}/timeline?session={memory.session_id}")
    expect(
        timeline.get_by_text("Nothing has happened yet").or_(timeline.get_by_text("0 flushes")).first
    ).to_be_visible()
    idle(chat)
    idle(timeline)
    memory.put(ChatMessage(role="user", content="Said in another process"))
    memory.build_context()
    memory.put(ChatMessage(role="assistant", content="Heard there too"))
    expect(chat.get_by_text("Said in another process")).to_be_visible()
    expect(chat.get_by_text("Heard there too")).to_be_visible()
    expect(chat.get_by_text("Turn 1 ·").first).to_be_visible()
    expect(timeline.get_by_text("1 turn").first).to_be_visible()
    delete_session(memory.session.database, memory.session_id)
    expect(chat.get_by_text("deleted elsewhere").first).to_be_visible()
    for tab in (chat, timeline):
        idle(tab)
        healthy(tab)


def test_a_page_of_the_past_stays_where_it_is(served, visitor):
    memory = new_memory(behind(served), title="Looking back")
    for number in (1, 2, 3):
        memory.put(ChatMessage(role="user", content=f"Question {number}"))
        memory.put(ChatMessage(role="assistant", content=f"Answer {number}"))
    tab = visitor.open(f"{served.url}/chat?session={memory.session_id}&turn=2")
    expect(tab.get_by_text("You are looking at")).to_be_visible()
    memory.put(ChatMessage(role="user", content="Question 4"))
    other = visitor.open(f"{served.url}/chat?session={memory.session_id}")
    expect(other.get_by_text("Question 4")).to_be_visible()
    expect(tab.get_by_text("Answer 2")).to_be_visible()
    assert tab.get_by_text("Question 3").count() == 0
    healthy(tab)


LONG_TO_READ = "\n".join(
    json.dumps({"role": role, "content": f"What was said in turn {turn}, and {turn * 7} words more"})
    for turn in range(15_000)
    for role in ("user", "assistant")
).encode()


def chosen(served, visitor):
    """The import dialog, reading a file that takes a moment."""
    tab = visitor.open(f"{served.url}/sessions")
    expect(tab.get_by_role("heading", name="Sessions", level=1)).to_be_visible()
    idle(tab)
    tab.locator(".st-key-sessions__import button").click()
    dialog = tab.get_by_role("dialog")
    file = {"name": "long.jsonl", "mimeType": "text/plain", "buffer": LONG_TO_READ}
    dialog.locator("input[type=file]").set_input_files(file)
    return tab, dialog, dialog.get_by_text(re.compile("^Reading long.jsonl"))


def test_no_script_runs_while_a_file_is_read_and_then_it_is_shown(served, visitor):
    tab, dialog, reading = chosen(served, visitor)
    expect(reading).to_be_visible()
    idle(tab)
    expect(reading).to_be_visible()
    assert not tab.locator('[data-testid="stStatusWidget"]').is_visible()
    expect(dialog.get_by_text(re.compile("^30,000 messages, 15,000 turns"))).to_be_visible()
    expect(reading).to_have_count(0)
    idle(tab)
    expect(dialog.get_by_role("button", name="Play it all now")).to_be_visible()
    expect(dialog.get_by_role("button", name="Cancel", exact=True)).to_have_count(0)
    healthy(tab)


def test_reading_a_file_can_be_cancelled(served, visitor):
    tab, dialog, reading = chosen(served, visitor)
    expect(reading).to_be_visible()
    dialog.get_by_role("button", name="Cancel", exact=True).click()
    expect(dialog.get_by_text("Reading was cancelled.", exact=False)).to_be_visible()
    expect(reading).to_have_count(0)
    idle(tab)
    healthy(tab)


def test_a_running_agents_session_is_read_only_until_it_is_taken_over_and_then_an_edit_is_in_its_next_prompt(
    served, visitor
):
    """The agent is a third process, which knows nothing of the app."""
    session_id = uuid.uuid4().hex  # another one where the test is tried again
    with running_agent(served.database_url, session_id) as agent:
        agent.say("note 1 of the day")
        tab = visitor.open(f"{served.url}/blocks?session={session_id}")
        take_over = tab.get_by_role("button", name="Take over")
        expect(take_over).to_be_visible()
        expect(tab.get_by_text(f"Live: process {agent.pid} is writing. Read-only.")).to_be_visible()
        edit = tab.locator(".st-key-blocks__edit_rules button")
        expect(edit).to_have_count(0)
        idle(tab)
        take_over.click()
        hand_back = tab.get_by_role("button", name="Hand back")
        expect(hand_back).to_be_visible()
        edit.click()
        dialog = tab.get_by_role("dialog")
        dialog.get_by_role("textbox", name="Text").fill("Answer in rhymes.")
        dialog.get_by_role("button", name="Save").click()
        expect(dialog).to_have_count(0)
        prompt, _ = agent.say("note 2 of the day")
        assert "Answer in rhymes." in prompt
        assert "Be brief." not in prompt
        hand_back.click()
        expect(take_over).to_be_visible()
        agent.kill()
        expect(take_over).to_have_count(0)  # without a reload
        expect(edit).to_be_visible()
        healthy(tab)


def test_all_sessions_shows_a_new_session_of_another_process_and_opens_it_on_click(served, visitor):
    session_id = f"live-agent-{uuid.uuid4().hex[:6]}"
    tab = visitor.open(f"{served.url}/sessions?session=demo")
    expect(tab.get_by_text("all systems OK")).to_be_visible()
    idle(tab)
    with running_agent(served.database_url, session_id) as agent:
        agent.say("note 1 of the day")
        link = tab.get_by_role("link", name=session_id)
        expect(link).to_be_visible()
        link.click()
        expect(tab.get_by_text("note 1 of the day").first).to_be_visible()
        expect(tab).to_have_url(re.compile(f"/chat.*session={session_id}"))
        for number in range(2, 6):
            agent.say(f"note {number} of the day")
            expect(tab.get_by_text(f"note {number} of the day").first).to_be_visible()
        assert tab.get_by_text("Birthday dinner").count() == 0
        assert session_id in tab.title()
        healthy(tab)


def test_a_tab_on_a_live_session_stays_there_when_it_came_from_the_demo(served, visitor):
    session_id = f"live-agent-{uuid.uuid4().hex[:6]}"
    tab = visitor.open(f"{served.url}/sessions?session=demo")
    idle(tab)
    with running_agent(served.database_url, session_id) as agent:
        agent.say("note 1 of the day")
        tab.goto(f"{served.url}/chat?session={session_id}")
        for number in range(2, 8):
            agent.say(f"note {number} of the day")
            tab.wait_for_timeout(300)
        expect(tab.get_by_text("note 7 of the day").first).to_be_visible()
        idle(tab)
        assert tab.get_by_text("Birthday dinner").count() == 0
        assert f"session={session_id}" in tab.url
        healthy(tab)


def test_an_agent_attached_by_one_variable_appears_while_a_page_is_open(served, visitor, monkeypatch):
    """The real exporter, told where to send by its variable, and a memory that was found and not sent."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", served.url)
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
    tracer = provider.get_tracer("agent")

    def span(operation, **attributes):
        named = {f"gen_ai.{name.replace('__', '.')}": value for name, value in attributes.items()}
        own = {"gen_ai.operation.name": operation, "gen_ai.conversation.id": "by-spans", **named}
        with tracer.start_as_current_span(operation, attributes=own):
            pass

    def prompt(words):
        return json.dumps([{"role": "user", "parts": [{"type": "text", "content": words}]}])

    nuts = json.dumps([{"id": "r1", "content": "Ana is allergic to nuts.", "score": 0.6}])
    span("chat", request__model="m", input__messages=prompt("Hello there"))
    timeline = visitor.open(f"{served.url}/timeline?session=by-spans")
    expect(timeline.get_by_text("1 prompt in 1 turn")).to_be_visible()
    span("search_memory", memory__store__id="notes", memory__query__text="dinner", memory__records=nuts)
    span("chat", request__model="m", input__messages=prompt("Book a dinner"))
    expect(timeline.get_by_text("2 prompts in 2 turns and 1 memory operation")).to_be_visible()
    trace = visitor.open(f"{served.url}/trace?session=by-spans&words=allergic+to+nuts")
    expect(trace.get_by_text("but not in the prompt of turn 2").first).to_be_visible()
    for tab in (timeline, trace):
        idle(tab)
        healthy(tab)
    provider.shutdown()

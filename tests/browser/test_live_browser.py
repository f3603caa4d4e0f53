"""What another process writes shows up on a page that is open, without a reload."""

import pytest
from app_server import AppServer, behind, healthy, idle, running
from playwright.sync_api import expect

from memory_core import ChatMessage, delete_session
from ui.new_session import new_memory

pytestmark = pytest.mark.browser

expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    yield from running(AppServer("serve.py", tmp_path_factory.mktemp("served")))


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
    delete_session(memory.database, memory.session_id)
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

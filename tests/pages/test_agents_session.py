"""A session that a running agent works in, on the pages: read only until a person takes it over."""

import pytest
from engine_fakes import until
from pages_driver import message_texts, opened, said
from running_agent import running_agent

from memory_inspector.reading.write_access import left_to_agent
from ui.tab import services

pytestmark = pytest.mark.slow

PAGES = ("context", "timeline", "blocks", "facts", "graph", "retrieval", "trace", "lab")

CHANGING = (
    "Flush now", "Try now", "Add block", "Change order", "Edit", "Save", "Pin", "Retire", "Add", "Undo", "Import",
    "Add a relation", "Next message", "Play", "Edit rules", "Use it from the next turn", "Apply from the next turn",
)  # fmt: skip
"""Labels of what changes a session; such a button is not drawn or disabled."""


@pytest.fixture
def agent(home, monkeypatch):
    """An agent at work in the session "s", after two turns; the server looks for what is due all the time."""
    monkeypatch.setattr("memory_inspector.server.engine.RETRY_EVERY_SECONDS", 0.05)
    with running_agent(services.engine().settings.database, "s") as agent:
        agent.say("note 1 of the day")
        agent.say("note 2 of the day")
        yield agent


def changing(app):
    return [each.label for each in app.button if each.label in CHANGING and not each.disabled]


def test_every_page_shows_the_agents_session_and_changes_nothing_until_it_is_taken_over(agent):
    chat = opened(session="s")
    reason = f"Live: process {agent.pid} is writing. Read-only."
    shown = " ".join(each.value for each in chat.markdown).replace("\\", "")
    assert reason in shown
    assert "note 2 of the day" in message_texts(chat)
    assert [each.disabled for each in chat.chat_input] == [True]
    for page in PAGES:
        app = opened(page=page, session="s")
        assert not app.exception
        assert changing(app) == [], page
        assert next(each for each in app.button if each.key == "frame__settings").disabled
        assert [each.key for each in app.button if each.label == "Take over"] == ["frame__take_over"]
    sessions = opened(page="sessions", session="s")
    assert {each.label: each.disabled for each in sessions.button if each.label in ("Delete", "Export", "Rename")} == {
        "Delete": True,
        "Export": False,
        "Rename": False,
    }

    before = services.engine().open("s").log.history().position
    chat.button(key="frame__take_over").click().run()
    assert said(chat) == ["You have taken this session over."]
    assert not chat.chat_input[0].disabled
    (taken,) = services.engine().open("s").events(after=before)
    assert (taken.kind, taken.actor) == ("session_taken_over", "user")
    assert "Flush now" in changing(chat)
    assert "Add block" in changing(opened(page="blocks", session="s"))
    chat.button(key="frame__hand_back").click().run()
    assert chat.chat_input[0].disabled


def states():
    return {delivery.state for delivery in services.engine().open("s").session.deliveries()}


def test_it_is_free_again_once_the_agent_has_ended_to_whom_what_is_due_was_left(agent, monkeypatch):
    looked = []
    engine = "memory_inspector.server.engine"
    monkeypatch.setattr(f"{engine}.left_to_agent", lambda *of: looked.append(of) or left_to_agent(*of))
    assert opened(session="s").chat_input[0].disabled
    with services.engine().database.write() as connection:  # as if the agent had been interrupted
        connection.exec_driver_sql("UPDATE mi_delivery SET state = 'pending', next_attempt_at = 0")
    until(lambda: len(looked) > 2)
    assert states() == {"pending"}
    agent.kill()
    until(lambda: states() == {"done"})
    chat = opened(session="s")
    assert not chat.chat_input[0].disabled
    assert not [each for each in chat.button if each.label in ("Take over", "Hand back")]

"""The card that connects an agent: its lines are run as they stand, in a process of its own."""

import subprocess
import sys

import pytest
from pages_driver import ROOT, joined, message_texts, opened
from running_agent import running_agent
from streamlit.testing.v1 import AppTest

from memory_core import ChatMessage, Database
from memory_core.engine.session import Session
from memory_core.history.log import last_position
from memory_inspector.recorder.recording import attach
from memory_inspector.server.chat_turns import play
from memory_inspector.server.engine import new_memory
from ui.sessions.connect import HeardMessages, code, listened, sentence
from ui.tab import services

pytestmark = pytest.mark.slow

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


def card(session_id):
    def script(session_id):
        from ui.sessions.connect import draw_card

        draw_card(session_id)

    app = AppTest.from_function(script, args=(session_id,), default_timeout=60).run()
    assert not app.exception, app.exception
    return app


def elsewhere(lines, *messages):
    """Run the lines of the card in another process, and put these messages."""
    puts = [f"memory.put(ChatMessage(role='user', content={text!r}))" for text in messages]
    script = "\n".join([lines, *puts])
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT, timeout=120)


@pytest.mark.slow
def test_the_lines_of_the_card_connect_another_process_and_the_dot_lights(demo_home):
    made = new_memory(services.engine(), title="Empty", token_limit=1200)
    app = card(made.session_id)
    assert made.session_id in app.code[0].value
    assert "Listening. Nothing has arrived from another process yet." in joined(app)
    elsewhere(app.code[0].value, "Hello from outside", "And again")
    lines = app.code[0].value
    app.run()
    assert ":green[:material/circle:] 2 messages arrived, last " in joined(app)
    session = services.engine().open(made.session_id).session
    assert len(session.messages()) == 2
    assert session.config.token_limit == 1200  # joining changed nothing of the session
    elsewhere(lines, "A third")
    app.run()
    assert "3 messages arrived" in joined(app)


def test_the_lines_never_name_the_demo_or_a_conversation_that_exists_for_something_else(demo_home):
    shared = services.engine()
    other = new_memory(shared, title="Other")
    other.put(ChatMessage(role="user", content="said before anybody listened"))
    before = len(shared.open("demo").session.messages())
    app = opened(page="sessions", session="demo")
    app.session_state["sessions__connect"] = True
    app.run()
    assert '"my-agent"' in app.code[0].value
    assert app.code[0].value == card(other.session_id).code[0].value
    elsewhere(app.code[0].value, "Hello from outside")
    app.run()
    assert "1 message arrived" in joined(app)
    assert any(link.proto.label.replace("\\", "") == "Open **my-agent**" for link in app.get("page_link"))
    assert len(shared.open("demo").session.messages()) == before
    # Its process has ended: the next agent gets another name.
    assert '"my-agent-2"' in card("demo").code[0].value
    assert '"my-agent-2"' in card("my-agent").code[0].value
    with running_agent(shared.database.url, "my-agent") as agent:
        agent.say("I am back.")
        assert '"my-agent"' in card("my-agent").code[0].value


def test_what_this_server_plays_itself_is_not_taken_for_an_agent(demo_home):
    shared = services.engine()
    demo = HeardMessages("demo", last_position(shared.database, "demo"), None)
    memory = shared.open("demo")
    job = shared.start("demo", "play-1", lambda job: play(job, memory, turns=2, pace=0))
    assert job.wait(60)
    now = HeardMessages("demo", last_position(shared.database, "demo"), job.id)
    played = listened(demo, now, memory.events(after=demo.position))
    assert (played.messages, played.position) == (0, now.position)
    elsewhere(code(shared.database, "demo"), "Hello from outside")
    after = HeardMessages("demo", last_position(shared.database, "demo"), job.id)
    assert listened(played, after, memory.events(after=played.position)).messages == 1


def test_a_session_that_was_deleted_elsewhere_leaves_the_card_without_an_error(demo_home):
    assert not card("gone").exception


def test_the_lines_show_no_password_and_any_id_is_a_string():
    class Secret:
        is_sqlite, tenant = False, "acme"
        url = Database.open("sqlite://").url.replace("sqlite://", "postgresql://me:***@host/db")

    lines = code(Secret, 'a"b')
    assert "postgresql://me:***@host/db" in lines
    assert '"a\\"b"' in lines
    assert 'tenant="acme")' in lines


def test_where_people_sign_in_the_lines_hold_a_place_for_a_token(demo_home, monkeypatch):
    monkeypatch.setattr("ui.sessions.connect.sign_in_configured", lambda: True)
    shown = " ".join(block.value for block in card("demo").code)
    assert "/record/mi_TOKEN/my-agent/v1" in shown
    assert "Authorization=Bearer%20mi_TOKEN" in shown


def test_the_dot_says_how_long_ago():
    assert sentence(HeardMessages("s", 1, None, messages=4, last=100.0), 102.4) == "4 messages arrived, last 2 s ago."
    assert sentence(HeardMessages("s", 1, None, messages=1, last=100.0), 400.0) == "1 message arrived, last 5 min ago."


def test_an_empty_chat_shows_the_card_until_the_first_message_comes_from_elsewhere(demo_home):
    made = new_memory(services.engine(), title="Empty")
    app = opened(page="chat", session=made.session_id)
    assert "**Connect your agent**" in joined(app)
    assert "Listening." in joined(app)
    elsewhere(app.code[0].value, "Hello from outside")
    app.run()
    assert not app.exception
    assert "**Connect your agent**" not in joined(app)
    assert message_texts(app) == ["Hello from outside"]


def test_a_conversation_that_waits_to_be_played_needs_no_agent(demo_home):
    made = new_memory(services.engine(), title="To be played")
    made.session.attach_recording([ChatMessage(role="user", content="Hello")], source="file")
    assert "Connect your agent" not in joined(opened(page="chat", session=made.session_id))


def test_a_session_that_another_process_writes_to_is_marked_live_on_every_page(demo_home):
    app = opened(page="blocks", session="demo")
    assert "live" not in joined(app)
    elsewhere(code(services.engine().database, "demo"), "Hello from outside")
    app.run()
    assert ":green-badge[:material/sensors: live]" in joined(app)
    memory = services.engine().open("demo")
    assert services.engine().start("demo", "play-1", lambda job: play(job, memory, turns=1, pace=0)).wait(60)
    app.run()
    assert "live]" in joined(app)  # what this server plays does not make it less so


def test_the_card_names_the_variable_of_each_way_to_attach(demo_home):
    shared = services.engine()
    lines = [each.value for each in card("demo").code]
    openai, anthropic = lines[1].splitlines()
    assert (openai.partition("=")[0], lines[2].partition("=")[0]) == ("export OPENAI_BASE_URL", f"export {ENDPOINT}")
    assert anthropic == openai.replace("OPENAI", "ANTHROPIC").removesuffix("/v1")
    assert lines[2] == f"export {ENDPOINT}={openai.partition('=')[2].partition('/record/')[0]}"
    for source, name in (("proxy", "OPENAI_BASE_URL"), ("spans", ENDPOINT)):
        attach(Session(shared.database, source, services=shared.services), source=source)
        (line,) = [each.value for each in card(source).code]
        assert line.startswith(f"export {name}=http://127.0.0.1:")

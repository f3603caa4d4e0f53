"""The chosen model is tried with one small request, and the key is nowhere but in it."""

import logging
import time
from contextlib import nullcontext

import pytest
from models.scripted_server import ScriptedServer, Step, refusal, streamed
from pages_driver import opened, press

from memory_core import AccessError
from memory_core.access import Person, look_up_people
from memory_core.models.openai_client import OpenAIChat
from memory_inspector.server.jobs import Job
from memory_inspector.upkeep.health import Check, Health
from ui.frame import sidebar
from ui.sessions import health
from ui.tab import people, services

pytestmark = pytest.mark.slow

KEY = "sk-secret-123"


@pytest.fixture
def app(demo_home):
    return opened()


def tried(app, url, *, key=KEY, name=""):
    """Give the model, press Test and wait; the one sentence that says what became of it."""
    app.text_input(key="model__key").set_value(key)
    app.text_input(key="model__name").set_value(name)
    app.text_input(key="model__address").set_value(url).run()
    press(app, "Test")
    assert services.engine().job(app.session_state[sidebar._TRIAL]).wait(60)
    app.run()
    assert not app.exception
    (told,) = [each.value.replace("\\", "") for each in (*app.success, *app.error)]
    assert KEY not in told
    return told


def test_a_model_that_answers_is_named_with_the_time_it_took(app):
    with ScriptedServer(streamed("ready")) as server:
        told = tried(app, server.url, name="small-one")
        assert app.success
        assert told.startswith("small-one at 127.0.0.1")
        assert told.endswith(" s.")
        ((_, headers, body),) = server.requests
    assert headers["authorization"] == f"Bearer {KEY}"
    assert (body["model"], len(body["messages"])) == ("small-one", 1)


def test_a_model_that_answers_is_not_said_to_be_out_of_reach_any_more(app, monkeypatch):
    def line():
        return app.get("popover")[0].proto.popover.label

    failed = Health((Check("chat", "failed", "small-one", None, "no answer"),), time.time())
    found = iter([failed])
    monkeypatch.setattr(health, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(health, "check_health", lambda *given, **named: next(found, Health((), time.time())))
    with ScriptedServer(streamed("ready")) as server:
        app.text_input(key="model__key").set_value(KEY)
        app.text_input(key="model__address").set_value(server.url).run()
        for _ in range(100):  # it is looked at in the background
            if "reachable" in line():
                break
            time.sleep(0.05)
            app.run()
        assert line() == "Chat model not reachable"
        tried(app, server.url)
    assert "reachable" not in line()


def words(app):
    return " ".join(str(element.proto) for block in (app.main, app.sidebar) for element in block)


@pytest.mark.parametrize("role", ["curator", "viewer"])
def test_a_viewer_has_the_server_ask_no_address_and_is_shown_none(app, role):
    """Nor where the address was entered in a higher role, as the check is where the client is made."""
    person = Person("ben@acme.test", "Ben", "curator")
    look_up_people(lambda: person)
    try:
        with ScriptedServer(streamed("ready"), streamed("ready")) as server:
            tried(app, server.url)
            person = Person("ben@acme.test", "Ben", role)
            app.run()
            assert ("The key entered here goes to" in words(app)) == (role == "curator")
            # As a press on a button of a page that was drawn before.
            client, job = OpenAIChat("small-one", api_key=KEY, base_url=server.url), Job("test")
            asked = nullcontext() if role == "curator" else pytest.raises(AccessError, match="needs the role curator")
            with asked:
                sidebar._ask(client, job)
            client.close()
            app.run()
            assert not app.exception
            sees = role == "curator"
            assert ("Base URL" in words(app)) == sees
            assert ('label: "Test"' in words(app)) == sees
            assert ("Database: sqlite" in words(app)) == sees
            assert len(server.requests) == (2 if sees else 1)
    finally:
        look_up_people(people.visitor)


REFUSALS = [
    pytest.param(refusal(401, f"Incorrect API key provided: {KEY}"), "The key was refused by", id="wrong key"),
    pytest.param(
        refusal(404, "The model does not exist", code="model_not_found"),
        'does not know the model "none"',
        id="no model",
    ),
    pytest.param(Step(200, "<html>", content_type="text/html"), "Check", id="a web page"),
    pytest.param(Step(500, {"error": {"message": KEY}}), "failed (status 500)", id="out of order"),
]


@pytest.mark.parametrize(("step", "reason"), REFUSALS)
def test_one_that_does_not_is_told_by_its_exact_reason_and_asked_once(app, step, reason, caplog):
    caplog.set_level(logging.DEBUG)
    with ScriptedServer(step, streamed("too late")) as server:
        assert reason in tried(app, server.url, name="none")
        assert len(server.requests) == 1
    assert app.error
    assert KEY not in caplog.text


def test_nobody_at_the_address_and_one_who_is_silent_are_told_apart(app, monkeypatch):
    assert tried(app, "http://127.0.0.1:9/v1").startswith("Nothing answers at ")
    monkeypatch.setattr(sidebar, "PATIENCE_SECONDS", 0.3)
    with ScriptedServer(Step(delay=2, body={})) as server:
        assert tried(app, server.url) == "The model did not answer within 0.3 s."


def test_another_key_takes_the_finding_away(app):
    with ScriptedServer(streamed("ready")) as server:
        tried(app, server.url)
    app.text_input(key="model__key").set_value("sk-other").run()
    assert not app.success


def test_rules_have_nothing_to_be_tested(app):
    assert "model__test" not in [each.key for each in app.button]

"""A session that somebody deletes elsewhere, while something runs for it here or nothing does."""

import threading

import pytest
from pages_driver import SECONDS, button, opened, said

from memory_core import Memory, delete_session, list_sessions
from memory_core.errors import NotFoundError
from ui.tab import services

pytestmark = pytest.mark.slow


def deleted_in_the_middle(monkeypatch, app, press, method):
    """Press a button; at the engine's next call of `method` the session is deleted by somebody else. Gives the job."""
    reached, gone = threading.Event(), threading.Event()
    as_it_was = getattr(Memory, method)

    def after_the_deletion(self, *args, **named):
        reached.set()
        assert gone.wait(SECONDS)
        return as_it_was(self, *args, **named)

    monkeypatch.setattr(Memory, method, after_the_deletion)
    press()
    assert reached.wait(SECONDS)
    shared = services.engine()
    delete_session(shared.database, "demo")
    gone.set()
    job = shared.job("demo")
    assert job.wait(SECONDS)
    return job


@pytest.mark.parametrize("what", ["played", "typed"])
def test_a_turn_of_a_session_that_is_deleted_meanwhile_ends_in_a_sentence(app, monkeypatch, what):
    def press():
        if what == "played":
            button(app, "Next message").click().run()
        else:
            app.chat_input[0].set_value("Am I still here?").run()

    job = deleted_in_the_middle(monkeypatch, app, press, "build_context")
    assert job.error == "This session does not exist any more."
    app.run()
    assert not app.exception
    assert "deleted elsewhere" in said(app)[0]
    with pytest.raises(NotFoundError):
        services.engine().open("demo")


@pytest.mark.parametrize("page", ["context", "timeline", "blocks", "facts", "graph", "trace", "retrieval", "lab"])
def test_a_page_whose_session_is_deleted_between_two_looks_says_so(demo_home, page):
    app = opened(page=page, session="demo")
    delete_session(services.engine().database, "demo")
    app.run()
    assert not app.exception
    assert "deleted elsewhere" in said(app)[0]


def test_messages_that_wait_for_a_session_that_is_deleted_are_sent_to_nobody(app, monkeypatch):
    def press():
        app.chat_input[0].set_value("Is this stored?").run()
        app.chat_input[0].set_value("And this?").run()
        assert [each.text for each in services.engine().waiting("demo")] == ["And this?"]

    deleted_in_the_middle(monkeypatch, app, press, "build_context")
    app.run()
    assert not app.exception
    shared = services.engine()
    while shared.running("demo"):
        assert shared.job("demo").wait(SECONDS)
    assert shared.waiting("demo") == ()
    assert "demo" not in [each.id for each in list_sessions(shared.database)]

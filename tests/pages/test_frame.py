"""The frame around every page: the header's turn picker is the one clock, and the address says where one is."""

import threading

import pytest
from pages_driver import button, joined, menu, opened, press, session_picker, table, turn_picked

from memory_core import delete_session
from memory_core.sessions.handle import SessionLog
from memory_inspector.demo.conversations import FORGOTTEN_WORDS, MESSAGES
from memory_inspector.server.chat_turns import play
from memory_inspector.server.engine import new_memory, recorded_session
from memory_inspector.server.jobs import Job
from ui.frame import header
from ui.tab import drawing, services
from ui.tab.view import View


def keyed(app, key):
    return next(each for each in app.button if each.key == key)


def banner(app):
    """Which earlier moment the header says one is looking at; None at the latest."""
    ways_on = [each.label for each in app.button if each.key in ("frame__latest", "frame__branch")]
    assert ways_on in ([], ["Back to latest", "Branch from here"])
    if not ways_on:
        return None
    track = header.track(opened_view(app.session_state["session"], app.session_state["turn"]))
    assert track["past"]
    return f"**turn {track['shown']}** of {track['turns']}"


def opened_view(session_id, turn):
    view = View(memory := services.engine().open(session_id), memory.log.history(), memory.session.status(), turn, None)
    assert view.past
    return view


def warnings(app):
    return [each.value.replace("\\", "") for each in app.warning]


def titles(app):
    return [each.value for each in app.title]


def test_the_latest_turn_is_shown_without_one_in_the_address(app):
    assert titles(app) == ["Chat"]
    assert turn_picked(app) is None
    assert "turn" not in app.query_params
    assert banner(app) is None


def test_a_turn_in_the_address_is_shown_and_nothing_on_it_can_be_changed(demo_home):
    app = opened(session="demo", turn="8")
    assert not app.exception
    assert "**turn 8** of 11" in banner(app)
    assert turn_picked(app) == 8
    assert "budget** of turn 8" in joined(app)
    assert "**90 to the next flush.**" in joined(app)
    assert list(app.chat_input) == []
    assert not any(each.label in ("Next message", "Play", "Flush now") for each in app.button)
    assert keyed(app, "frame__settings").disabled


@pytest.mark.slow
def test_what_turn_5_shows_is_what_the_page_showed_then(demo_home):
    """The budget's rows of a turn, live when it was the newest and looked back at later."""
    memory = recorded_session(services.engine(), MESSAGES, title="Twice")
    memory.configure(token_limit=500)
    play(Job("first"), memory, turns=5, pace=0)
    live = table(opened(session=memory.session_id))
    assert live
    play(Job("then"), memory, turns=3, pace=0)
    later = opened(session=memory.session_id, turn="5")
    assert "**turn 5** of 8" in banner(later)
    assert table(later) == live


@pytest.mark.parametrize("asked", ["99", "0", "-1", "eight", "9" * 30])
def test_a_turn_that_is_not_there_is_said_and_the_latest_shown(demo_home, asked):
    app = opened(session="demo", turn=asked)
    assert not app.exception
    said = f"Turn {asked[:12]} is not in this session. Showing the latest, turn 11."
    assert said in warnings(app)
    assert banner(app) is None
    assert "turn" not in app.query_params


@pytest.mark.slow
def test_one_steps_back_and_on_and_returns_to_the_latest(app):
    app = keyed(app, "frame__before").click().run()
    assert app.query_params["turn"] == "10"
    app = keyed(app, "frame__before").click().run()
    assert "**turn 9** of 11" in banner(app)
    app = keyed(app, "frame__after").click().run()
    app = keyed(app, "frame__after").click().run()
    assert banner(app) is None
    assert "turn" not in app.query_params
    app = keyed(app, "frame__before").click().run()
    app = press(app, "Back to latest")
    assert banner(app) is None
    assert app.chat_input


def test_the_turn_stays_on_the_way_to_another_page(app):
    app = keyed(app, "frame__before").click().run()
    app.switch_page("pages/timeline.py")
    for name in ("session", "turn"):  # the menu drops what the address carries
        app.query_params.pop(name, None)
    app.run()
    assert titles(app) == ["Timeline"]
    assert "**turn 10** of 11" in banner(app)
    assert (app.query_params["turn"], app.query_params["session"]) == ("10", "demo")


def test_every_line_of_the_menu_keeps_the_session_and_the_turn(app):
    assert set(menu(app).values()) == {"session=demo"}
    app = keyed(app, "frame__before").click().run()
    assert set(menu(app)) == {"Chat", "Context", "Timeline", "Blocks", "Facts", "Retrieval"}
    assert set(menu(app).values()) == {"session=demo&turn=10"}


def test_the_menu_follows_to_another_session(app):
    other = new_memory(services.engine(), title="Other")
    app.run()
    session_picker(app).select(other.session_id).run()
    assert set(menu(app).values()) == {f"session={other.session_id}"}


def test_a_link_sets_the_turn_also_back_to_the_latest(app):
    app.query_params["turn"] = "3"
    app.run()
    assert "**turn 3** of 11" in banner(app)
    app.query_params.pop("turn")
    app.run()
    assert banner(app) is None


@pytest.mark.slow
def test_another_session_begins_at_its_latest_turn(app):
    other = new_memory(services.engine(), title="Other")
    app = keyed(app, "frame__before").click().run()
    app.run()
    session_picker(app).select(other.session_id)
    app.run()
    assert banner(app) is None
    assert "turn" not in app.query_params


def test_the_session_picker_does_not_depend_on_a_message_that_an_interrupted_run_never_sent(demo_home):
    """A browser that saw only the second run reports the picker's default with every later one."""
    other = new_memory(services.engine(), title="Other")
    app = opened(session=other.session_id)
    seen = session_picker(app.run()).proto
    assert seen.options[seen.default] == "Other"


@pytest.mark.slow
def test_a_run_for_new_events_stays_in_its_session_whatever_its_address_says(app):
    other = new_memory(services.engine(), title="Other")
    app.run()
    session_picker(app).select(other.session_id).run()
    app.query_params["session"] = "demo"  # a poll that was begun before the session was changed
    app.session_state[drawing._FOLLOWED] = True
    app.run()
    assert app.session_state["session"] == other.session_id
    assert app.query_params["session"] == other.session_id


@pytest.mark.slow
def test_a_session_deleted_elsewhere_is_said_with_a_way_on(app):
    other = new_memory(services.engine(), title="Other")
    app.run()
    session_picker(app).select(other.session_id).run()
    delete_session(services.engine().database, other.session_id)
    app.run()
    assert not app.exception
    assert any("deleted elsewhere" in each for each in warnings(app))


@pytest.mark.slow
def test_the_sessions_page_has_no_clock(demo_home):
    app = opened(page="sessions", session="demo", turn="8")
    assert titles(app) == ["Sessions"]
    assert banner(app) is None
    assert not [each for each in app.button if each.key == "frame__before"]


def test_the_guide_goes_for_good_when_it_is_closed(app, demo_home):
    assert "Send the next message" in joined(app)
    app = keyed(app, "chat__guide_close").click().run()
    assert "Send the next message" not in joined(app)
    assert "Send the next message" not in joined(opened())


@pytest.mark.slow
def test_the_guides_first_step_is_ticked_once_a_message_was_sent(app):
    assert ":material/check: Send the next message" not in joined(app)
    app = press(app, "Next message")
    services.engine().job("demo").wait(60)
    app = app.run()
    assert ":material/check: Send the next message" in joined(app)
    assert button(app, "Next message")


GUIDE = ("Send the next message", "See what was cut", "Find what it forgot")


def ticked(app):
    said = [each.label for each in app.button] + [each.proto.label for each in app.get("page_link")]
    return [step for step in GUIDE if any(f":material/check: {step}]" in words for words in said)]


@pytest.mark.slow
def test_a_step_of_the_guide_is_done_where_its_promise_was_kept_and_not_before(app):
    app = press(app, "Next message")
    for page in ("timeline", "retrieval"):
        app.switch_page(f"pages/{page}.py").run()
        assert not app.exception
    assert ticked(opened()) == ["Send the next message"]
    opened(page="context", session="demo", turn="3")  # nothing was cut there
    assert ticked(opened()) == ["Send the next message"]
    opened(page="context", session="demo")
    assert ticked(opened()) == ["Send the next message", "See what was cut"]
    found = opened(page="trace", session="demo", words=FORGOTTEN_WORDS)
    assert not found.exception
    assert ticked(opened()) == ["Send the next message", "See what was cut", "Find what it forgot"]


@pytest.mark.slow
def test_the_guide_links_to_the_turn_of_the_last_cut(app):
    for _ in range(3):
        app = press(app, "Next message")
    link = next(each.proto for each in app.get("page_link") if "See what was cut" in each.proto.label)
    assert "turn=12" in link.query_string


@pytest.mark.slow
def test_a_large_session_is_read_while_its_page_says_how_far(demo_home, monkeypatch):
    """Here a demo is large, and reading it waits for the test."""
    go_on, read_ahead = threading.Event(), SessionLog.read_ahead

    def waits(log, progress):
        progress(20)
        go_on.wait(60)
        read_ahead(log, progress)

    monkeypatch.setattr(header, "LARGE", 10)
    monkeypatch.setattr(header, "SHOWN_AFTER_SECONDS", 0)
    monkeypatch.setattr(SessionLog, "read_ahead", waits)
    app = opened(page="context", session="demo", turn="5")
    unread = len(services.engine().open("demo").events())
    assert f"20 of {unread} events" in joined(app)
    assert "Turn" not in [each.label for each in app.selectbox]
    go_on.set()
    assert services.engine().reading("\x00opening-demo").wait(60)
    app.run()
    assert "Reading the log" not in joined(app)
    assert turn_picked(app) == 5
    assert services.engine().open("demo").log.unread() == 0

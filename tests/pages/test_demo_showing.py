"""The demo as it is shown to somebody: it stops where memory does something for the first time, and can be repeated."""

import threading

import pytest
from pages_driver import (
    budget_title,
    button,
    job_of,
    joined,
    message_texts,
    opened,
    press,
    settled,
    story,
    table,
)

from memory_core.messages import ChatMessage
from memory_core.planning import curation
from memory_inspector.demo.conversations import FORGOTTEN_WORDS, MESSAGES, RECORDED_TURNS
from memory_inspector.server import chat_turns
from memory_inspector.server.jobs import Job
from memory_inspector.server.shipped_demo import reset_demo
from ui.frame import header
from ui.parts import toasts
from ui.tab import services
from ui.tab.view import opened as opened_view

pytestmark = pytest.mark.slow

GUIDE = ("Send the next message", "See what was cut", "Find what it forgot")


@pytest.fixture(autouse=True)
def nobody_reads(monkeypatch):
    monkeypatch.setattr(chat_turns, "LINE_SECONDS", 0)
    monkeypatch.setattr(chat_turns, "reading_seconds", lambda message: 0)
    monkeypatch.setattr(chat_turns, "STEP_SECONDS", 0)


def memory():
    return services.engine().open("demo")


def step(app, words):
    """The step of the guide with these words: a button, or else a link."""
    for each in (*app.button, *app.get("page_link")):
        if words in (each.label if hasattr(each, "label") else each.proto.label):
            return each
    return None


def title(app):
    return [each.value for each in app.title]


def played():
    return memory().session.recording().played


PAUSES = (
    ("**Flush.** The queue was full", "Flushed"),
    ("**Learning.** Facts were taken", "Learned"),
    ("**Recall.** Earlier turns", "Recalled"),
    ("**First cut.** Over the limit", "The prompt was"),
)
"""Sentences at which the demo stops in turn 12, and what the story says more by then."""


def track():
    """The scrubber's turns with a flush, and those with a cut."""
    data = header.track(opened_view("demo"))
    return data["flushes"], data["cuts"]


def stopped(app):
    return any(sentence in joined(app) for sentence, _ in PAUSES)


def test_play_stops_at_each_effect_and_shows_nothing_of_what_follows_it(app):
    app = press(app, "Play")
    shown, seen = [], []
    for sentence, more in PAUSES:
        assert sentence in joined(app)
        assert played() == 2 * RECORDED_TURNS + 1  # the question of turn 12, not yet its answer
        assert any(more in line for line in story(app)[len(shown) :])
        shown = story(app)
        line = next(label for each in app.button if "Turn 12" in (label := each.label))
        seen.append((budget_title(app), "165 to the next" in joined(app), "cut 83" in line, *track()))
        app = press(app, "Continue")
    of_11, of_12 = "1,108 of 1,200", "1,155 of 1,200"
    assert seen == [
        *[(of_11, True, False, (10, 12), ())] * 3,
        (of_12, True, True, (10, 12), (12,)),
    ]
    assert not app.exception


def test_play_stops_where_the_answer_lacks_what_was_said_and_leads_there_at_the_end_too(app):
    app = app.selectbox(key="chat__speed").set_value("4 ×").run()
    app = press(app, "Play")
    for _ in PAUSES:
        app = press(app, "Continue")
    assert "**Forgotten.** Turn 4 said: “Rui stays off meat these days" in joined(app)
    assert played() == 32
    primary = [each.label for each in app.button if each.proto.type == "primary"]
    assert primary == ["Find what it forgot"]
    app = press(app, "Continue")
    assert services.engine().job("demo").pace == 4
    assert played() == len(MESSAGES)
    assert "End of demo" in joined(app)
    assert button(app, "Play again")
    app = button(app, "Find what it forgot").click().run()
    assert not app.exception
    assert title(app) == ["Where did it go?"]
    assert FORGOTTEN_WORDS in app.query_params["words"]
    assert f":material/check: {GUIDE[2]}" in linked(opened(session="demo"))


def test_a_stop_is_still_there_after_a_reload_and_the_next_message_ends_it(app):
    app = press(app, "Play")
    app = opened(session="demo")
    assert PAUSES[0][0] in joined(app)
    app = press(app, "Next message")
    assert played() == 2 * RECORDED_TURNS + 2
    assert not stopped(app)
    assert "of 1,200 tokens · flushed 4 messages" in joined(app)
    assert any("The prompt was" in line for line in story(app))
    app = press(app, "Play")  # each was seen in turn 12
    assert played() == 32


@pytest.mark.parametrize("page", ["context", "timeline", "facts", "blocks", "trace", "lab"])
def test_another_page_at_a_stop_shows_the_same_moment_and_leaves_it_there(app, page):
    press(app, "Play")
    seen = opened(page=page, session="demo")
    assert not seen.exception
    assert track() == ((10, 12), ())
    if page == "context":
        assert "1,108" in joined(seen)
        assert "1,155" not in joined(seen)
    assert PAUSES[0][0] in joined(opened(session="demo"))


def test_an_earlier_turn_at_a_stop_has_no_stop_and_the_latest_still_has(app):
    app = press(app, "Play")
    app = press(app, "One turn back")
    assert "did in turn 11**" in joined(app)
    assert any("Recalled 3" in line for line in story(app))
    assert not stopped(app)
    app = press(app, "Back to latest")
    assert PAUSES[0][0] in joined(app)


def test_a_change_at_a_stop_ends_it_as_the_log_has_gone_on(app):
    app = press(app, "Play")
    memory().facts.desk("Facts").apply(curation.add("Rui eats no meat"))
    app = app.run()
    assert not stopped(app)
    assert any("The prompt was" in line for line in story(app))
    assert button(app, "Play")


@pytest.mark.slow
def test_playing_to_the_end_does_not_stop_and_a_reset_ends_a_stop(app):
    app = press(app, "Play")
    reset_demo(services.engine())
    app = app.run()
    assert not stopped(app)
    assert button(app, "Play")
    app = press(app, "To the end")
    assert played() == len(MESSAGES)


@pytest.mark.slow
def test_two_showings_from_a_reset_look_the_same(app):
    def showing():
        reset_demo(services.engine())
        app, screens = opened(session="demo"), []
        for words in ("Play", *["Continue"] * 4, *["Next message"] * 2):
            app = press(app, words)
            screens.append((joined(app), message_texts(app), story(app), table(app)))
        for page in ("context", "timeline", "facts", "blocks"):
            seen = opened(page=page, session="demo")
            assert not seen.exception
            screens.append(as_shown(seen))
        return screens

    def as_shown(app):
        return [each.value for each in app.markdown]

    assert showing() == showing()


def test_the_first_step_of_the_guide_sends_the_next_message(app):
    settled(step(app, GUIDE[0]).click().run(), job_of(app))
    assert played() == 2 * RECORDED_TURNS + 2


@pytest.mark.parametrize(("words", "page"), [(GUIDE[1], "Context"), (GUIDE[2], "Where did it go?")])
def test_a_step_plays_what_it_shows_if_that_has_not_happened_yet(app, words, page):
    found = step(app, words)
    app = found.click().run()
    assert not app.exception
    assert title(app) == [page]
    assert played() == 2 * RECORDED_TURNS + 2
    assert memory().log.history().turns[12].cut_tokens
    if page != "Context":
        assert app.query_params["words"] == FORGOTTEN_WORDS
    assert f":material/check: {words}" in linked(opened(session="demo"))


def test_a_step_that_is_pressed_while_something_plays_stops_it_first(app):
    shared, begun = services.engine(), threading.Event()
    shared.start("demo", "play-slowly", lambda job: (begun.set(), job.cancel.wait(60)))
    assert begun.wait(60)
    app = step(app.run(), GUIDE[1]).click().run()
    assert not app.exception
    assert title(app) == ["Context"]
    assert played() == 2 * RECORDED_TURNS + 2


def linked(app):
    return "\n".join(each.proto.label for each in app.get("page_link"))


def test_a_step_is_done_only_where_it_was_seen_in_this_run_and_a_reset_begins_the_guide_again(app):
    opened(page="trace", session="demo", words=FORGOTTEN_WORDS)  # it is not forgotten yet
    assert "material/check" not in joined(opened(session="demo")) + linked(opened(session="demo"))
    app = press(opened(session="demo"), "Next message")
    opened(page="context", session="demo")
    app = opened(session="demo")
    assert f":material/check: {GUIDE[1]}" in linked(app)
    app.button(key="chat__guide_close").click().run()
    reset_demo(services.engine())
    elsewhere = opened(session="demo")  # another browser
    assert all(step(elsewhere, words) for words in GUIDE)
    assert "material/check: S" not in joined(elsewhere) + linked(elsewhere)


def test_after_the_last_message_the_first_step_offers_to_begin_again(app):
    chat_turns.play(Job("on"), memory(), turns=None, pace=0)
    app = opened(session="demo")
    app.button(key="chat__guide_again").click().run()
    assert not app.exception
    assert "Reset demo" in joined(app)


def test_what_was_reported_before_goes_when_playing_begins(app):
    app.session_state["toast"] = toasts.Toast(1, "The demo is as shipped.", None, None, float("inf"))
    app = app.run()
    assert "The demo is as shipped" in "".join(each.value for each in app.success)
    app = press(app, "Next message")
    assert not list(app.success)


def test_a_message_is_left_as_long_as_it_takes_to_read(monkeypatch):
    monkeypatch.undo()
    short, longer, endless = (ChatMessage(role="user", content="a" * length) for length in (60, 120, 100_000))
    assert chat_turns.reading_seconds(longer) == 2 * chat_turns.reading_seconds(short) > 0
    assert chat_turns.reading_seconds(endless) == chat_turns.LONGEST_READING_SECONDS

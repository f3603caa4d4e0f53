"""The settings drawer: what it foretells is what happens, and it changes what was asked for and nothing else."""

import pytest
from pages_driver import button, dialog, field, joined, numbers, press, said, with_toasts
from said_numbers import as_said, growth

from memory_core import Memory
from memory_inspector.server.chat_turns import play
from memory_inspector.server.jobs import Job
from memory_inspector.server.shipped_demo import demo_memory
from ui.tab import services

pytestmark = pytest.mark.slow

CONFLICT = "Changed in another tab since you opened it. Nothing was saved."


def demo():
    return services.engine().open("demo")


def drawer(session="demo"):
    return dialog("ui.settings_drawer", "settings_dialog", session)


def play_demo(turns):
    shared = services.engine()
    play(Job("test"), demo_memory(shared.database, shared.services), turns=turns, pace=0)


@pytest.mark.parametrize("limit", [300, 700, 900])
def test_the_flush_and_the_queue_come_as_foretold(demo_home, limit):
    drawn = drawer()
    field(drawn, "Token limit").set_value(limit).run()
    foretold = demo().preview.next_prompt({"token_limit": limit})
    assert f"{len(foretold.flush.leave)} messages with {foretold.flush.tokens} tokens leave the queue" in joined(drawn)
    assert foretold.flush
    press(drawn, "Apply from the next turn")
    flushes = demo().session.status().flushes
    play_demo(1)
    came = [each.event for each in demo().events(kinds=("flush_planned", "context_built"))]
    flushed = next(each for each in came if each.kind == "flush_planned" and each.flush == flushes + 1)
    assert (flushed.messages, flushed.tokens, flushed.queue_after) == (
        len(foretold.flush.leave), foretold.flush.tokens, foretold.flush.tokens_left,
    )  # fmt: skip
    built = [each for each in came if each.kind == "context_built"][-1]
    plan = foretold.context.plan
    assert (built.queue_asked, built.total, built.token_limit) == (plan.queue_asked, plan.total, limit)
    assert [(cut["part"], cut["tokens"]) for cut in built.cuts] == [(cut.part, cut.tokens) for cut in plan.cuts]
    assert foretold.unknown == ()


def test_who_loses_how_much_is_named_and_a_prompt_over_the_limit_is_a_warning(demo_home):
    drawn = drawer()
    field(drawn, "Token limit").set_value(300).run()
    assert growth(joined(drawn).partition("Before it")[0]) == 296 - 1_155
    assert "Earlier turns 310 → 0" in as_said(joined(drawn))
    field(drawn, "Flush size").set_value(20).run()
    field(drawn, "Token limit").set_value(100).run()
    warnings = [each.value for each in drawn.warning if "over the limit of 100" in each.value]
    assert len(warnings) == 1
    assert "Instructions" in warnings[0].replace("\\", "")
    foretold = demo().preview.next_prompt({"token_limit": 100, "token_flush_size": 20})
    assert foretold.context.plan.over_by in numbers(warnings[0])


def test_a_flush_size_above_the_limit_is_said_and_lowered_only_when_asked(demo_home):
    demo().configure(token_flush_size=400)
    drawn = drawer()
    field(drawn, "Token limit").set_value(100).run()
    assert field(drawn, "Flush size").value == 400
    assert "The flush size of 400 is above the limit of 100" in drawn.error[0].value
    assert button(drawn, "Apply").disabled
    press(drawn, "Set the flush size to 100")
    assert not [each.value for each in drawn.error if "flush size" in each.value]
    press(drawn, "Apply")
    assert (demo().session.config.token_limit, demo().session.config.token_flush_size) == (100, 100)


def test_a_flush_size_that_follows_the_limit_goes_on_following_it(demo_home):
    demo().configure(token_flush_size=None)
    drawn = drawer()
    assert field(drawn, "Flush size").value is None
    field(drawn, "Token limit").set_value(800).run()
    press(drawn, "Apply")
    assert (demo().session.config.token_flush_size, demo().session.config.flush_size) == (None, 80)


def test_only_what_was_changed_is_applied_and_a_share_that_is_no_whole_percent_stays(demo_home):
    demo().configure(chat_history_token_ratio=0.605)
    before = demo().session.config
    drawn = drawer()
    field(drawn, "Turns in the queue").set_value(4).run()
    press(drawn, "Apply")
    assert demo().session.config == before.changed(queue_turns=4)


def test_a_draft_is_there_when_the_drawer_is_opened_again_until_it_is_discarded(demo_home):
    field(drawer(), "Token limit").set_value(700).run()
    again = drawer()
    assert field(again, "Token limit").value == 700
    assert "Your draft, just now" in joined(again)
    press(again, "Discard changes")
    assert field(drawer(), "Token limit").value == 1200
    assert demo().session.config.token_limit == 1200


def test_what_was_applied_is_said_and_undone_unless_it_was_changed_since(demo_home):
    before = demo().session.config
    for since in ({}, {"token_limit": 900}):
        drawn = with_toasts("ui.settings_drawer", "settings_dialog", "demo")
        field(drawn, "Token limit").set_value(1000).run()
        press(drawn, "Apply")
        assert said(drawn)[0] == "From the next turn: the token limit from 1,200 to 1,000."
        if since:
            demo().configure(**since)
        press(drawn, "Undo")
        assert demo().session.config == before.changed(**since)
    assert "The settings were changed elsewhere since you opened this. Nothing was saved." in said(drawn)


def test_settings_changed_in_another_tab_are_not_overwritten(demo_home):
    drawn = drawer()
    field(drawn, "Token limit").set_value(1000).run()
    demo().configure(token_limit=900, queue_turns=6)
    press(drawn, "Apply")
    assert [each.value for each in drawn.warning if each.value == CONFLICT]
    assert demo().session.config.token_limit == 900
    press(drawn, "Keep editing")
    assert field(drawn, "Token limit").value == 1000
    press(drawn, "Discard changes")
    assert field(drawer(), "Token limit").value == 900


def test_a_session_without_a_recording_says_that_the_next_message_comes_on_top(demo_home):
    shared = services.engine()
    memory = Memory.from_recipe("blocks", "bare", database_uri=shared.settings.database, services=shared.services)
    drawn = drawer(memory.session_id)
    assert "Your next message will be added to it." in joined(drawn)


def test_what_is_odd_about_the_settings_is_said_with_its_numbers_and_mended_by_a_button(demo_home):
    drawn = drawer()
    field(drawn, "Token limit").set_value(1000).run()
    field(drawn, "Flush size").set_value(900).run()
    warning = "Flush size 900 is above the history budget of "
    assert [each.value for each in drawn.warning if each.value.startswith(warning)]
    press(drawn, "Set the flush size to the default")
    assert not [each.value for each in drawn.warning if each.value.startswith(warning)]
    press(drawn, "Apply from the next turn")
    assert demo().session.config.flush_size == 100


def test_a_text_that_is_never_cut_and_does_not_fit_is_an_error_in_the_drawer(demo_home):
    (text,) = [attached.state for attached in demo().blocks if attached.name == "Instructions"]
    needed = demo().session.count_tokens(text)
    drawn = drawer()
    field(drawn, "Flush size").set_value(1).run()
    field(drawn, "Token limit").set_value(needed).run()
    (error,) = [each.value for each in drawn.error]
    assert numbers(error)[-2:] == [needed, needed]
    assert "never cut" in error

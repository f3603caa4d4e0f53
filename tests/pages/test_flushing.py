"""Flushing by hand: what leaves is shown first, leaves once, and is reported once it has left."""

import threading

import pytest
from pages_driver import button, dialog, joined, press, said

from memory_core.models.offline.fact_extraction import RuleExtractor
from ui.tab import services


def demo():
    return services.engine().open("demo")


@pytest.mark.slow
def test_what_would_leave_is_shown_and_is_what_leaves(app):
    drawn = button(app, "Flush now").click().run()
    plan, before = demo().preview.flush(), demo().session.status()
    assert f"**{len(plan.leave)} messages, {plan.tokens} tokens** would leave the queue" in joined(drawn)
    assert "They are handed to Facts and Earlier turns." in joined(drawn)
    words = next(
        each for each in demo().session.messages(status="active") if each.seq == plan.leave[0].seq
    ).message.content
    assert " ".join(words.split())[:40] in joined(drawn)
    assert "cannot be undone" in joined(drawn)
    assert demo().session.status().position == before.position, "looking changes nothing"
    press(drawn, f"Flush {len(plan.leave)}")
    assert said(drawn) == [f"Flushed {len(plan.leave)} messages, {plan.tokens} tokens."]
    assert "Undo" not in [each.label for each in drawn.button]
    assert (demo().session.status().flushes, demo().session.status().queue_tokens) == (
        before.flushes + 1,
        plan.tokens_left,
    )


@pytest.mark.slow
def test_a_flush_is_reported_only_when_it_has_ended_and_once(app, monkeypatch):
    go_on, extract = threading.Event(), RuleExtractor.extract
    monkeypatch.setattr(RuleExtractor, "extract", lambda *given, **named: go_on.wait(60) and extract(*given, **named))
    button(app, "Flush now").click().run()
    button(app, "Flush 4").click().run()
    assert said(app) == []
    go_on.set()
    assert services.engine().job("demo").wait(60)
    assert said(app.run()) == ["Flushed 4 messages, 177 tokens."]
    button(app, "Dismiss").click().run()
    assert said(app.run()) == []


@pytest.mark.slow
def test_a_flush_that_a_block_cannot_learn_from_is_no_success(app, monkeypatch):
    def fail(*given, **named):
        raise RuntimeError("out of *order*")

    monkeypatch.setattr(RuleExtractor, "extract", fail)
    button(app, "Flush now").click().run()
    press(app, "Flush 4")
    assert [each.value for each in app.success] == []
    (warning,) = said(app)
    assert "Flushed 4 messages" in warning
    assert "Facts: RuntimeError: out of *order*" in warning
    assert "Earlier turns" not in warning, "this block has its turns"


def test_a_flush_that_other_work_prevents_is_not_reported_as_done(app):
    go_on = threading.Event()
    button(app, "Flush now").click().run()
    flushes = demo().session.status().flushes
    job = services.engine().start("demo", "other", lambda job: go_on.wait(60))
    button(app, "Flush 4").click().run()
    go_on.set()
    assert job.wait(60)
    assert [each.value for each in app.success] == []
    assert any("Nothing was flushed" in each.value for each in app.warning)
    assert demo().session.status().flushes == flushes


def test_what_was_written_meanwhile_is_looked_at_again_first(demo_home):
    drawn = dialog("ui.parts.flushing", "flush_dialog", "demo")
    flush = button(drawn, "Flush ")
    flushes = demo().session.status().flushes
    demo().session.rename("Another name")
    flush.click().run()
    assert demo().session.status().flushes == flushes


def test_a_queue_of_one_turn_has_nothing_to_flush(demo_home):
    while demo().preview.flush():
        demo().flush()
    assert "Nothing to flush" in joined(dialog("ui.parts.flushing", "flush_dialog", "demo"))

"""Flushing by hand: what leaves is shown first, and leaves once."""

from pages_driver import button, dialog, joined, press, said, with_toasts

from ui.tab import services


def demo():
    return services.engine().open("demo")


def test_what_would_leave_is_shown_and_is_what_leaves(demo_home):
    drawn = with_toasts("ui.parts.flushing", "flush_dialog", "demo")
    plan, before = demo().preview.flush(), demo().session.status()
    assert f"**{len(plan.leave)} messages, {plan.tokens} tokens** would leave the queue" in joined(drawn)
    assert "They are handed to Facts and Earlier turns." in joined(drawn)
    words = next(
        each for each in demo().session.messages(status="active") if each.seq == plan.leave[0].seq
    ).message.content
    assert " ".join(words.split())[:40] in joined(drawn)
    assert "cannot be undone" in joined(drawn)
    assert demo().session.status().position == before.position, "looking changes nothing"
    press(drawn, "Flush ")
    services.engine().job("demo").wait(30)
    assert said(drawn) == [f"Flushed {len(plan.leave)} messages, {plan.tokens} tokens."]
    assert "Undo" not in [each.label for each in drawn.button]
    assert (demo().session.status().flushes, demo().session.status().queue_tokens) == (
        before.flushes + 1,
        plan.tokens_left,
    )


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

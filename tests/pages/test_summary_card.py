"""A running summary on the Blocks page: its card, its versions with what they lost, and rewriting it."""

import re
import threading

import pytest
from pages_driver import as_read, button, dialog, joined, message_texts, opened
from summary_fakes import Scribe

from memory_core import ChatMessage, SummaryMemoryBlock
from memory_core.planning.running_summary import sentences
from memory_inspector.server.engine import new_memory
from memory_inspector.server.jobs import Job
from ui.blocks.block_text import rewrite, rewriting
from ui.tab import services

pytestmark = pytest.mark.slow

SAID = [
    "My name is Chandra and I live in Porto.",
    "The dinner is on 14 March for 12 guests.",
    "My sister Ana is allergic to nuts.",
    "Keep it under 300 euros.",
    "We meet at Café Luso at 19:30.",
    "My dog is called Rex.",
]


@pytest.fixture
def talk(home):
    """A session whose older turns are in a summary that is too short for all they said."""
    memory = new_memory(services.engine(), title="Dinner")
    for name in [attached.name for attached in memory.blocks]:
        memory.blocks.remove(name)
    memory.configure(token_limit=400, chat_history_token_ratio=0.1, token_flush_size=10)
    memory.blocks.add(SummaryMemoryBlock(max_tokens=40, priority=1))
    for text in SAID:
        memory.put(ChatMessage(role="user", content=text))
        memory.build_context()
        memory.put(ChatMessage(role="assistant", content="I will keep that in mind."))
    return memory


def again(memory):
    return services.engine().open(memory.session_id)


def blocks_page(memory, **query):
    app = opened(page="blocks", session=memory.session_id, **query)
    assert not app.exception
    return app


def drawer(module, name, *args):
    drawn = dialog(module, name, *args)
    assert not drawn.exception
    return drawn


def history(memory):
    return drawer("ui.blocks.block_text", "history_dialog", memory.session_id, "Summary")


def asked(memory):
    return drawer("ui.blocks.block_text", "rewrite_dialog", memory.session_id, "Summary")


def by_model(monkeypatch, scribe):
    """Let a model write this server's summaries."""
    monkeypatch.setattr(services.engine().services, "summariser", scribe)


def test_its_card_shows_the_text_its_size_and_how_fresh_it_is(talk):
    talk.build_context()  # with what the summary took in after the last prompt
    app = blocks_page(talk)
    state = talk.blocks.summary().state()
    assert state.text.startswith(app.text[0].value.removesuffix(" …"))
    assert f"{state.tokens} of 40 tokens" in joined(app)
    assert f"Covers up to turn {state.covers_turn}, {state.behind} turns behind" in joined(app)
    menu = next(each for each in app.menu_button if each.key == "blocks__menu_Summary")
    assert menu.options[:3] == ["History", "Rewrite now", "Settings"]
    assert button(app, "Edit")


def test_of_a_version_written_after_the_prompt_what_the_prompt_says_too_is_not_marked(talk):
    text = talk.blocks.summary().state().text
    kept = sentences(text)[0]
    talk.build_context()
    talk.blocks.edit("Summary", f"{kept} Ana likes rain.")
    app = blocks_page(talk)
    held = next(each for each in app.markdown if "Ana likes rain" in each.value)
    assert as_read(held.value) == f"{kept} :gray[Ana likes rain.]"
    assert re.fullmatch(r"Version \d+ of Summary came in turn 6, after the prompt of turn 6\.", as_read(held.help))
    talk.build_context()
    assert blocks_page(talk).text[0].value == f"{kept} Ana likes rain."


def test_an_earlier_turn_shows_it_as_it_was_and_changes_nothing(talk):
    app = blocks_page(talk, turn="4")
    then = talk.branch(4).blocks.summary().state()
    assert then.text.startswith(app.text[0].value.removesuffix(" …"))
    assert f"Covers up to turn {then.covers_turn}, {then.behind} turns behind" in joined(app)
    assert not [each for each in app.button if each.label == "Edit"]
    assert "blocks__menu_Summary" not in [each.key for each in app.menu_button]


def test_every_version_names_what_it_lost(talk):
    revisions = talk.blocks.summary().revisions()
    lost = next(revision for revision in revisions if revision.lost)
    drawn = history(talk)
    assert drawn.selectbox[0].options[0].startswith(f"{revisions[-1].revision}, now · turn ")
    assert "by offline rules" in drawn.selectbox[0].options[0]
    drawn.selectbox[0].set_value(lost.revision).run()
    said = joined(drawn)
    assert f"Lost: {', '.join(f'~~{each}~~' for each in lost.lost)}" in said
    assert f"up to turn {lost.covers_turn}" in said


def test_an_earlier_version_is_brought_back(talk):
    first = talk.blocks.summary().revisions()[0]
    drawn = history(talk)
    drawn.selectbox[0].set_value(first.revision).run()
    button(drawn, f"Restore version {first.revision}").click().run()
    assert again(talk).blocks.summary().state().text == first.text
    newest = again(talk).blocks.summary().revisions()[-1]
    assert (newest.actor, newest.restored) == ("user", first.revision)


def test_a_person_edits_it_within_its_bound(talk):
    drawn = drawer("ui.blocks.editor", "edit_dialog", talk.session_id, "Summary")
    drawn.text_area[0].set_value("Ana is allergic to nuts.").run()
    assert "6 of 40 tokens" in joined(drawn)
    button(drawn, "Save").click().run()
    assert again(talk).blocks.summary().state().text == "Ana is allergic to nuts."
    drawn.text_area[0].set_value("word " * 60).run()
    button(drawn, "Save").click().run()
    assert "may hold 40 tokens" in drawn.error[0].value.replace("\\", "")
    assert again(talk).blocks.summary().state().text == "Ana is allergic to nuts."


def test_rewriting_says_first_what_it_reads_and_calls(talk, monkeypatch):
    archived = len(talk.get_all("archived"))
    drawn = asked(talk)
    assert f"It reads {archived} messages" in joined(drawn)
    assert "no model is called" in joined(drawn)
    scribe = Scribe(lambda summary, said: "Ana is allergic to nuts.")
    by_model(monkeypatch, scribe)
    drawn = asked(talk)
    assert "It reads its own" in joined(drawn)
    assert "and calls scribe once." in joined(drawn)
    assert scribe.asked == []


def test_it_is_rewritten_in_the_background(talk, monkeypatch):
    by_model(monkeypatch, Scribe(lambda summary, said: "Ana is allergic to nuts on 14 March, at 300 euros."))
    drawn = asked(talk)
    button(drawn, "Rewrite now").click().run()
    assert services.engine().job(talk.session_id).wait(20)
    assert again(talk).blocks.summary().state().text == "Ana is allergic to nuts on 14 March, at 300 euros."
    assert "Could not be rewritten" not in joined(blocks_page(talk))


def test_a_rewriting_that_fails_is_said_on_the_card_and_leaves_the_text(talk, monkeypatch):
    before = talk.blocks.summary().state().text
    by_model(monkeypatch, Scribe(fails=1))
    drawn = asked(talk)
    button(drawn, "Rewrite now").click().run()
    assert services.engine().job(talk.session_id).wait(20)
    assert "Could not be rewritten: Nothing answers at the model's address." in joined(blocks_page(talk))
    assert again(talk).blocks.summary().state().text == before


def test_while_it_is_rewritten_the_card_says_so_and_it_is_not_begun_again(talk, monkeypatch):
    evict = threading.Event()
    by_model(monkeypatch, Scribe(lambda summary, said: evict.wait(20) and "Ana is allergic to nuts on 14 March."))
    try:
        button(asked(talk), "Rewrite now").click().run()
        assert "Rewriting. The former text stays until it is done." in (rewriting(talk.session_id, "Summary") or "")
        assert rewriting(talk.session_id, "Other") is None
        assert button(asked(talk), "Rewrite now").disabled
    finally:
        evict.set()
    assert services.engine().job(talk.session_id).wait(20)
    assert rewriting(talk.session_id, "Summary") is None


def test_there_is_nothing_to_rewrite_of_an_empty_summary(home):
    memory = new_memory(services.engine(), title="New")
    memory.blocks.add(SummaryMemoryBlock())
    drawn = asked(memory)
    assert button(drawn, "Rewrite now").disabled
    assert "It has received no message yet." in drawn.info[0].value
    assert "No text yet." in joined(history(memory))
    assert "Covers no turn yet" in joined(blocks_page(memory))


def test_the_work_behind_it_is_the_desks(talk):
    job = Job("test")
    rewrite(job, again(talk), "Summary", True)
    assert job.progress == ("Rewriting the summary",)
    assert again(talk).events(kinds=("summary_rewritten",))[-1].actor == "user"


def test_looking_at_it_changes_nothing(talk):
    before = talk.session.status().position
    blocks_page(talk)
    history(talk)
    asked(talk)
    drawer("ui.blocks.block_settings", "settings_of_dialog", talk.session_id, "Summary")
    assert talk.session.status().position == before


def test_the_timeline_and_the_prompt_tell_of_it(talk):
    app = opened(page="timeline", session=talk.session_id)
    assert not app.exception
    told = app.dataframe[0].value["What happened"].tolist()
    assert any("into Summary: " in sentence and "left out to stay" in sentence for sentence in told)
    context = opened(page="context", session=talk.session_id)
    assert not context.exception
    part = next(each for each in context.expander if "Summary" in each.label)
    context.session_state[part.key] = True
    context.run()
    assert sentences(talk.blocks.summary().state().text)[0] in message_texts(context)

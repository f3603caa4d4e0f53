"""The Chat page, drawn and clicked in this process."""

import json
import re
import time
from functools import partial

import pytest
from engine_fakes import HashEmbedder, NoteExtractor
from models.scripted_server import ScriptedServer, Step, refusal, streamed
from pages_driver import (
    budget_title,
    button,
    dialog,
    drawn_until,
    field,
    joined,
    message_texts,
    numbers,
    opened,
    opened_by,
    press,
    read,
    session_picker,
    settled,
    story,
    table,
    turn_picked,
)

from memory_core import (
    ChatMessage,
    FactExtractionMemoryBlock,
    Memory,
    Services,
    StaticMemoryBlock,
    ToolCallPart,
    delete_session,
    list_sessions,
)
from memory_core.events import ContextBuilt, FactAdded, FlushPlanned, ReplyStarted, Retrieved
from memory_inspector.palette import DARK, LIGHT
from memory_inspector.server.engine import new_memory, recorded_session
from memory_inspector.wording.formatting import plain
from ui.tab import services

pytestmark = pytest.mark.slow

NASTY = "<img src=x onerror=alert(1)> ![x](http://evil.test/a.png) **bold** :red[r] $a$ <b>b</b> [l](http://evil.test)"
"""Markup of every sort that must come out as it was typed."""

NASTY_NAME = "![x](http://evil.test/a.png) **bold** :red[r]"
"""The same for a block, whose name may hold no < and >."""


def demo():
    return services.engine().open("demo")


def said(memory):
    return [(str(message.role), message.content) for message in memory.get_all()]


def a_session(*messages, title="Mine"):
    memory = new_memory(services.engine(), title=title)
    for message in messages:
        memory.put(message)
    return memory


# -- the demo ------------------------------------------------------------------------------------


def test_the_first_start_makes_the_demo_and_opens_it(home):
    app = opened()
    assert not app.exception
    memory = demo()
    assert memory.session.status().turns == 11
    assert len(said(memory)) == 22
    assert "22 of 36" in joined(app)


def test_the_demo_opens_one_message_before_a_flush_and_its_numbers_add_up(app):
    assert not app.exception
    status = demo().session.status()
    assert (status.turns, status.to_next_flush) == (11, 32)
    assert "**32 to the next" in joined(app)
    sent, limit = numbers(budget_title(app))
    assert limit == 1200
    assert sum(row["tokens"] for row in table(app)) == sent
    assert [row["name"] for row in table(app)] == ["Queue", "Instructions", "Facts", "Earlier turns"]
    assert app.get("html")[0].proto.body.startswith(
        f'<div role="img" aria-label="Sent {sent:,} of {limit:,} tokens: Queue'
    )


def test_the_next_message_plays_a_turn_and_the_story_tells_it_in_the_events_own_numbers(app):
    press(app, "Next message")
    assert not app.exception
    memory = demo()
    assert memory.session.status().turns == 12
    events = [record.event for record in memory.events(turn=12)]
    flush = next(event for event in events if isinstance(event, FlushPlanned))
    built = next(event for event in events if isinstance(event, ContextBuilt))
    recalled = [c for event in events if isinstance(event, Retrieved) for c in event.candidates if c[4] == "granted"]
    learned = sum(isinstance(event, FactAdded) for event in events)
    lines = story(app)
    assert (
        f"Flushed {flush.messages} messages, {flush.tokens} tokens: queue {flush.queue_before} was above 720"
        in lines[0]
    )
    assert f"Learned {learned} facts" in lines[1]
    assert f"({built.cuts[0]['tokens']} tokens, lowest score" in lines[-1]
    assert any(f"Recalled {len(recalled)} earlier turns" in line for line in lines)
    assert numbers(budget_title(app)) == [built.total, 1200]
    assert sum(row["tokens"] for row in table(app)) == built.total
    cut = built.cuts[0]["tokens"]
    line = f"flushed {flush.messages} messages · learned {learned} facts · cut {cut} tokens"
    assert f"Turn 12 · {built.total:,} of 1,200 tokens · " in joined(app)
    assert line in joined(app)
    assert "24 of 36" in joined(app)


@pytest.mark.slow
def test_at_its_end_the_recording_says_so_and_can_be_played_again(app):
    app.selectbox(key="chat__speed").set_value("4 ×")
    for _ in range(7):
        press(app, "Next message")
    assert not app.exception
    assert demo().session.status().turns == 18
    assert "Next message" not in [each.label for each in app.button]
    assert "End of demo " in joined(app)
    assert "36 of 36" in joined(app)
    assert button(app, "Play again")


def test_the_line_under_a_turn_sets_the_one_clock(app):
    press(app, "· flushed 6")
    assert "did in turn 10**" in joined(app)
    assert "budget** of turn 10" in joined(app)
    assert turn_picked(app) == 10
    assert any("Flushed 6 messages" in line for line in story(app))
    press(app, "Back to latest")
    assert "did in turn 11**" in joined(app)


@pytest.mark.slow
def test_after_a_reset_the_demo_can_be_played_again(app):
    press(app, "Next message")
    dialog("ui.sessions.session_dialogs", "reset_dialog", "demo").button[0].click().run()
    app.run()
    assert demo().session.status().turns == 11
    press(app, "Next message")
    assert demo().session.status().turns == 12


# -- writing -------------------------------------------------------------------------------------


def test_a_message_gets_an_answer_and_both_are_stored_once(app):
    settled(app.chat_input[0].set_value("What is Ana allergic to?").run())
    app.run()
    assert not app.exception
    assert said(demo())[22:] == [
        ("user", "What is Ana allergic to?"),
        ("assistant", "From memory: “Careful with dessert, Ana is allergic to nuts and it is serious”."),
    ]
    assert message_texts(app)[-2:] == [content for _, content in said(demo())[22:]]
    assert "did in turn 12**" in joined(app)


def test_an_empty_message_sends_nothing(app):
    settled(app.chat_input[0].set_value("   ").run())
    assert len(said(demo())) == 22


def test_new_makes_no_session_before_it_is_confirmed(app):
    for _ in range(2):
        press(app, "New")
    assert not app.exception
    assert [status.session_id for status in list_sessions(services.engine().database)] == ["demo"]
    button(app, "Start session").click().run()
    drawn_until(app, lambda: len(list_sessions(services.engine().database)) == 2)


def test_an_empty_session_says_what_to_do(demo_home):
    app = opened(session=new_memory(services.engine(), title="Mine").session_id)
    assert not app.exception
    assert "Nothing said yet." in joined(app)
    assert "Nothing yet. Every turn is described here." in joined(app)
    app.pills[0].set_value("Plan a trip").run()
    press(app, "Next message")
    memory = services.engine().open(app.session_state["session"])
    assert [role for role, _ in said(memory)] == ["user", "assistant"]


def test_markup_in_anyones_words_is_shown_as_it_was_typed(demo_home):
    memory = a_session(ChatMessage(role="user", content=NASTY), title=NASTY)
    memory.blocks.add(StaticMemoryBlock(name=NASTY_NAME, static_content=NASTY, priority=0))
    memory.build_context()
    app = opened(session=memory.session_id)
    assert not app.exception
    assert message_texts(app) == [NASTY]
    everything = [element.value for kind in ("markdown", "caption", "warning", "error") for element in app.get(kind)]
    everything += [each.label for kind in ("button", "menu_button") for each in app.get(kind)]
    everything += [option for menu in app.menu_button for option in menu.options]
    for text in everything:
        assert "![x](" not in text
        assert "<img" not in text.replace("\\<img", "")
        assert "**bold**" not in text
    assert not any("<img" in each.proto.body for each in app.get("html"))
    assert NASTY_NAME[:10] in "".join(row["name"] for row in table(app))


def test_a_facts_markup_is_shown_as_it_was_typed(app):
    from memory_core import FactExtractionMemoryBlock
    from memory_core.models.protocols import ExtractedFact, Extraction

    class Repeats(NoteExtractor):
        def extract(self, messages, *, known):
            return Extraction((ExtractedFact(NASTY, source=0),), ())

    memory = a_session()
    memory.blocks.remove("Facts")
    memory.blocks.add(FactExtractionMemoryBlock(name="Facts", priority=1, llm=Repeats()))
    memory.put(ChatMessage(role="user", content="hello"))
    memory.flush(all=True)
    app = opened(session=memory.session_id)
    assert not app.exception
    line = next(each.value for each in app.markdown if "Learned 1 fact" in each.value)
    assert "![x](" not in line
    assert plain(NASTY[:30]) in line


def test_only_the_newest_messages_are_drawn_until_more_are_asked_for(demo_home):
    memory = a_session(*(ChatMessage(role="user", content=f"message {n}") for n in range(100)))
    app = opened(session=memory.session_id)
    assert message_texts(app) == [f"message {n}" for n in range(60, 100)]
    press(app, "Show earlier")
    assert message_texts(app) == [f"message {n}" for n in range(20, 100)]


@pytest.mark.slow
def test_a_very_long_message_is_stored_whole_and_drawn_in_part(demo_home):
    text = "word " * 200_000
    memory = recorded_session(services.engine(), [ChatMessage(role="user", content=text)], title="Long")
    app = opened(session=memory.session_id)
    press(app, "Next message")
    assert not app.exception
    assert said(memory) == [("user", text)]
    assert max(len(shown) for shown in message_texts(app)) == len(text[:4_000].rstrip())
    app = press(app, "Show all (996,000 more characters)")
    assert max(len(shown) for shown in message_texts(app)) == len(text.rstrip())
    press(app, "Show less")
    assert max(len(shown) for shown in message_texts(app)) == len(text[:4_000].rstrip())


def test_data_is_folded_and_indented_and_a_long_result_shows_whole_on_demand(home):
    call = ToolCallPart(tool_call_id="1", tool_name="get_order", tool_kwargs='{"id": "W1", "list": [1, 2]}')
    hostile = '{"said": "<b>*x*</b> ![](http://evil.test/a.png)"}'
    memory = a_session(
        ChatMessage(role="user", content="Where is it?"),
        ChatMessage(role="assistant", parts=[call]),
        ChatMessage(role="tool", content=hostile, additional_kwargs={"tool_call_id": "1"}),
        ChatMessage(role="tool", content="x" * 904, additional_kwargs={"tool_call_id": "1"}),
    )
    app = opened(session=memory.session_id)
    assert not app.exception
    assert app.code == []
    labels = [each.label for each in app.expander]
    assert any("Arguments: " in label for label in labels)
    assert any(f"Result: {plain(hostile)}" in label for label in labels)
    for key in ("chat__data_2_0", "chat__data_3_0"):
        app.session_state[key] = True
    app.run()
    assert [each.value for each in app.code] == [
        '{\n  "id": "W1",\n  "list": [\n    1,\n    2\n  ]\n}',
        '{\n  "said": "<b>*x*</b> ![](http://evil.test/a.png)"\n}',
    ]
    app = press(app, "Show all (304 more characters)")
    assert "x" * 904 in message_texts(app)


# -- sessions ------------------------------------------------------------------------------------


def test_a_link_to_a_session_that_is_gone_says_so_and_shows_another(demo_home):
    app = opened(session="gone")
    assert not app.exception
    assert [each.value for each in app.warning] == [
        plain("This session was deleted elsewhere, or never existed. Showing another one.")
    ]
    assert app.session_state["session"] == "demo"


def test_two_sessions_of_one_title_are_told_apart(demo_home):
    first, second = a_session(title="Trip"), a_session(title="Trip")
    app = opened(session=first.session_id)
    picker = session_picker(app)
    assert picker.options == ["Birthday dinner", "Trip (2)", "Trip"]  # newest first, numbered from the oldest
    assert picker.value == first.session_id
    picker.set_value(second.session_id).run()
    assert app.query_params["session"] == second.session_id


def test_a_session_deleted_in_another_tab_leaves_this_one_usable(demo_home):
    memory = a_session(ChatMessage(role="user", content="hello"))
    app = opened(session=memory.session_id)
    delete_session(services.engine().database, memory.session_id)
    app.run()
    assert not app.exception
    assert len(app.warning) == 1
    assert app.session_state["session"] == "demo"
    assert table(app)


def test_a_dialog_of_a_session_deleted_meanwhile_says_so(demo_home):
    memory = a_session()
    delete_session(services.engine().database, memory.session_id)
    for module, name in (
        ("ui.settings_drawer", "settings_dialog"),
        ("ui.blocks.editor", "add_dialog"),
        ("ui.blocks.editor", "remove_dialog"),
        ("ui.sessions.session_dialogs", "rename_dialog"),
        ("ui.sessions.session_dialogs", "reset_dialog"),
        ("ui.sessions.session_dialogs", "delete_dialog"),
    ):
        drawn = dialog(module, name, memory.session_id)
        assert not drawn.exception
        assert len(drawn.error) == 1
        assert drawn.error[0].value.endswith((plain("does not exist any more."), plain("deleted elsewhere.")))


def test_a_session_is_renamed(demo_home):
    memory = a_session()
    drawn = dialog("ui.sessions.session_dialogs", "rename_dialog", memory.session_id)
    drawn.text_input[0].set_value("Trip").run()
    button(drawn, "Save").click().run()
    assert memory.session.status().title == "Trip"


def test_a_session_is_reset_with_its_blocks_kept(demo_home):
    memory = a_session(ChatMessage(role="user", content="hello"))
    drawn = dialog("ui.sessions.session_dialogs", "reset_dialog", memory.session_id)
    assert "Removes 1 message and" in joined(drawn)
    button(drawn, "Reset session").click().run()
    memory.session.refresh()
    assert said(memory) == []
    assert [attached.name for attached in memory.blocks] == ["Instructions", "Facts", "Earlier turns"]


def test_a_session_is_deleted_and_the_demo_shown(demo_home):
    memory = a_session(ChatMessage(role="user", content="hello"))
    drawn = dialog("ui.sessions.session_dialogs", "delete_dialog", memory.session_id)
    button(drawn, "Delete session").click().run()
    assert [status.session_id for status in list_sessions(services.engine().database)] == ["demo"]


# -- dialogs: blocks and settings ----------------------------------------------------------------


def test_a_static_block_is_edited_in_place(demo_home):
    drawn = dialog("ui.blocks.editor", "edit_dialog", "demo", "Instructions")
    drawn.text_area[0].set_value("Be brief.").run()
    assert "→ **3 tokens**" in joined(drawn)
    button(drawn, "Save").click().run()
    assert [revision.text for revision in demo().blocks.revisions("Instructions")][-1] == "Be brief."


def test_an_edit_from_another_tab_is_not_overwritten(demo_home):
    drawn = dialog("ui.blocks.editor", "edit_dialog", "demo", "Instructions")
    drawn.text_area[0].set_value("Mine.").run()
    demo().blocks.edit("Instructions", "Theirs.")
    drawn.run()
    button(drawn, "Save").click().run()
    assert ["Changed in another tab" in each.value for each in drawn.warning] == [True]
    assert demo().blocks.revisions("Instructions")[-1].text == "Theirs."


def test_an_earlier_text_is_restored(demo_home):
    before = demo().blocks.revisions("Instructions")[0].text
    demo().blocks.edit("Instructions", "Other.")
    drawn = dialog("ui.blocks.block_text", "history_dialog", "demo", "Instructions")
    drawn.selectbox[0].set_value(1).run()
    button(drawn, "Restore").click().run()
    assert [revision.text for revision in demo().blocks.revisions("Instructions")] == [before, "Other.", before]


def test_settings_say_their_effect_before_they_are_applied(demo_home):
    drawn = dialog("ui.settings_drawer", "settings_dialog", "demo")
    assert [field(drawn, name).value for name in ("Token limit", "History share, %", "Flush size")] == [1200, 60, 120]
    assert button(drawn, "Apply").disabled, "nothing is changed yet"
    field(drawn, "Token limit").set_value(1000).run()
    assert "Next prompt: **965** of 1,000 tokens (so far 1,155 of 1,200)." in joined(drawn)
    assert demo().session.config.token_limit == 1200
    button(drawn, "Apply from the next turn").click().run()
    assert (demo().session.config.token_limit, demo().session.config.chat_history_token_ratio) == (1000, 0.6)


def test_impossible_settings_are_refused_in_one_sentence_and_nothing_changes(demo_home):
    before = demo().session.config
    drawn = dialog("ui.settings_drawer", "settings_dialog", "demo")
    field(drawn, "Token limit").set_value(1).run()
    assert not drawn.exception
    assert len(drawn.error) + len(drawn.warning) >= 1
    assert button(drawn, "Apply").disabled
    assert demo().session.config == before


@pytest.mark.slow
def test_a_block_added_in_mid_session_is_filled_from_the_archive(demo_home):
    drawn = dialog("ui.blocks.editor", "add_dialog", "demo")
    drawn.segmented_control[0].set_value("facts").run()
    assert "the 6 messages" in drawn.checkbox[0].label
    drawn.text_input[0].set_value("More facts").run()
    button(drawn, "Add block").click().run()
    memory = demo()
    until = time.monotonic() + 20
    while memory.session.deliveries(states=("pending",)) and time.monotonic() < until:
        time.sleep(0.05)
    assert [fact.text for fact in memory.facts.read("More facts")] == [
        fact.text for fact in memory.facts.read("Facts")
    ][:6]


def test_a_block_name_that_is_taken_is_refused(demo_home):
    drawn = dialog("ui.blocks.editor", "add_dialog", "demo")
    drawn.text_input[0].set_value("Facts").run()
    assert ["“Facts” is taken" in each.value for each in drawn.error] == [True]
    assert button(drawn, "Add block").disabled


def test_a_block_is_removed(demo_home):
    drawn = dialog("ui.blocks.editor", "remove_dialog", "demo")
    drawn.selectbox[0].set_value("Earlier turns").run()
    button(drawn, "Remove block").click().run()
    assert [attached.name for attached in demo().blocks] == ["Instructions", "Facts"]


def test_flush_now_moves_one_batch(app):
    before = demo().session.status().queue_messages
    drawn = dialog("ui.parts.flushing", "flush_dialog", "demo")
    button(drawn, "Flush 4 messages").click().run()
    app = settled(app.run())
    assert not app.exception
    assert demo().session.status().queue_messages == before - 4
    assert any("flushed by hand" in line for line in story(app))


# -- importing -----------------------------------------------------------------------------------


def imported(name, data):
    drawn = dialog("ui.sessions.session_files", "import_dialog")
    return read(drawn.file_uploader[0].set_value((name, data, "application/json")).run())


def test_a_real_conversation_is_imported_after_a_look_at_it(demo_home, data_file):
    path = data_file("tau-bench/one_conversation.jsonl")
    drawn = imported(path.name, path.read_bytes())
    assert not drawn.exception
    assert "62 messages" in joined(drawn)
    assert "No model is called" in joined(drawn)
    button(drawn, "Step through").click().run()
    memory = services.engine().open(opened_by(drawn))
    assert len(memory.session.recording().messages) == 62
    app = opened(session=memory.session_id)
    press(app, "Next message")
    assert not app.exception
    assert len(said(memory)) >= 2


def test_with_a_paid_model_the_import_says_its_calls_and_tokens_first(demo_home, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-123")
    lines = [json.dumps({"role": role, "content": "word " * 400}) for _ in range(6) for role in ("user", "assistant")]
    shown = joined(imported("long.jsonl", "\n".join(lines).encode()))
    assert "12 messages, 6 turns, about 4,812 tokens." in shown
    flushes, calls, input_tokens = numbers(re.search(r"Playing it makes .*", shown).group())
    assert flushes == calls >= 1
    assert input_tokens > 400 * flushes
    assert "so no reply is paid for" in shown


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("a.jsonl", b'{"role": "user", \n', "a.jsonl"),
        ("a.json", b'[{"role": "user", "content": "a"}', "a.json"),
        ("a.json", b"\xff\xfe\x00", "a.json"),
    ],
    ids=["half a line", "half a list", "not text"],
)
def test_a_malformed_file_is_refused_with_its_place_and_stores_nothing(demo_home, name, data, sentence):
    drawn = imported(name, data)
    assert not drawn.exception
    assert len(drawn.error) == 1
    shown = drawn.error[0].value.replace("\\", "")
    assert sentence in shown
    assert "Nothing was imported" in shown
    assert [each.label for each in drawn.button] == []
    assert [status.session_id for status in list_sessions(services.engine().database)] == ["demo"]


def locomo(least, data_file):
    """A recorded conversation of at least `least` things said, from the longest of shared data."""
    for item in json.loads(data_file("locomo/locomo5.json").read_text()):
        talk = item["conversation"]
        sessions = sorted((k for k in talk if re.fullmatch(r"session_\d+", k)), key=lambda k: int(k.split("_")[1]))
        said = [turn for key in sessions for turn in talk[key]]
        if len(said) >= least:
            first = said[0]["speaker"]
            return [
                {"role": "user" if turn["speaker"] == first else "assistant", "content": turn["text"]} for turn in said
            ]
    raise AssertionError(f"no conversation of {least} turns")


@pytest.mark.slow
def test_of_a_long_conversation_that_is_imported_and_played_the_page_draws_the_end(demo_home, monkeypatch, data_file):
    from memory_inspector.server import chat_turns
    from memory_inspector.server.jobs import Job

    opened_with = partial(Services, embedder=HashEmbedder())
    monkeypatch.setattr("memory_inspector.server.engine.Services", opened_with)
    messages = locomo(200, data_file)
    drawn = imported("locomo.json", json.dumps(messages).encode())
    assert not drawn.exception
    assert f"{len(messages)} messages" in joined(drawn)
    button(drawn, "Step through").click().run()
    memory = services.engine().open(opened_by(drawn))
    chat_turns.play(Job("all"), memory, turns=None, pace=0)
    assert len(said(memory)) == len(messages)
    app = opened(session=memory.session_id)
    assert not app.exception
    assert len(message_texts(app)) == 40


# -- what goes wrong -----------------------------------------------------------------------------


def test_an_interrupted_reply_can_be_tried_again(app):
    memory = demo()
    memory.put(ChatMessage(role="user", content="What is Ana allergic to?"), message_id="turn-1-user")
    memory.log.record(ReplyStarted("turn-1", 23, "offline"))
    app.run()
    assert ["was interrupted" in each.value for each in app.warning] == [True]
    press(app, "Try again")
    assert not app.exception
    assert [role for role, _ in said(memory)[22:]] == ["user", "assistant"]
    assert not app.warning


FAILURES = [
    pytest.param(refusal(401, "Incorrect API key provided: sk-secret-123"), "key", id="wrong key"),
    pytest.param(refusal(400, "This model does not exist"), "exist", id="refused"),
    pytest.param(Step(500, {"error": {"message": "boom"}}), "", id="server error"),
    pytest.param(Step(200, "<html>hello</html>", content_type="text/html"), "", id="a web page"),
    pytest.param(streamed(""), "empty", id="nothing said"),
    pytest.param(Step(stream=["not json at all"]), "", id="nonsense"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("step", "word"), FAILURES)
def test_a_model_that_fails_is_one_sentence_and_the_app_stays_usable(app, step, word):
    with ScriptedServer(*[step] * 4, streamed("Nuts, ", "you said.")) as server:
        app.text_input(key="model__key").set_value("sk-secret-123")
        app.text_input(key="model__address").set_value(server.url).run()
        settled(app.chat_input[0].set_value("What is Ana allergic to?").run())
        assert not app.exception
        assert len(app.error) == 1
        shown = app.error[0].value.replace("\\", "")
        assert shown.endswith("Your message is stored.")
        assert word in shown
        assert "sk-secret-123" not in shown
        assert [content for _, content in said(demo())[22:]] == ["What is Ana allergic to?"]
        while len(server.script) > 1:
            server.script.popleft()
        press(app, "Try again")
        assert not app.exception
        assert not app.error
        assert said(demo())[23:] == [("assistant", "Nuts, you said.")]


@pytest.mark.slow
def test_nobody_listening_at_the_models_address_is_one_sentence(app):
    app.text_input(key="model__address").set_value("http://127.0.0.1:9/v1").run()
    settled(app.chat_input[0].set_value("Hello").run())
    assert not app.exception
    assert len(app.error) == 1
    assert "127.0.0.1" in app.error[0].value.replace("\\", "")


def test_an_impossible_address_of_a_model_is_one_sentence(app):
    app.text_input(key="model__address").set_value("not an address").run()
    assert not app.exception
    assert len(app.error) == 1
    app.text_input(key="model__address").set_value("").run()
    assert not app.error
    assert table(app)


def test_a_pasted_key_is_nowhere_but_in_the_field(app, demo_home):
    with ScriptedServer(streamed("Hello."), streamed("Hello.")) as server:
        app.text_input(key="model__key").set_value("sk-secret-123")
        app.text_input(key="model__address").set_value(server.url).run()
        settled(app.chat_input[0].set_value("Hello").run())
        assert server.requests[0][1]["authorization"] == "Bearer sk-secret-123"
    assert not app.exception
    page = [str(element.value) for kind in ("markdown", "text", "error", "warning") for element in app.get(kind)]
    assert not [text for text in page if "sk-secret" in text]
    assert "sk-secret" not in str(app.query_params)
    services.st.cache_resource.clear()
    for path in demo_home.rglob("*"):
        if path.is_file():
            assert b"sk-secret" not in path.read_bytes(), path


def test_a_database_that_cannot_be_reached_is_one_sentence(home, monkeypatch):
    monkeypatch.setenv("MEMORY_INSPECTOR_DATABASE_URL", "postgresql+psycopg://u:secret-word@127.0.0.1:9/none")
    app = opened()
    assert not app.exception
    assert [each.value for each in app.sidebar.error] == ["Database not reachable"]
    assert len(app.main.error) == 1
    assert "secret-word" not in app.main.error[0].value
    assert "Messages you already sent are safe." in app.main.error[0].value


@pytest.mark.slow
def test_without_its_vector_server_the_same_turns_are_recalled(demo_home, monkeypatch):
    monkeypatch.setenv("MEMORY_INSPECTOR_CHROMA_URL", "http://127.0.0.1:9")
    app = opened()
    press(app, "Next message")
    assert not app.exception
    assert demo().session.status().turns == 12
    assert any("Recalled 5 earlier turns" in line for line in story(app))


@pytest.mark.slow
def test_a_vector_address_of_another_kind_is_one_sentence(demo_home, monkeypatch):
    monkeypatch.setenv("MEMORY_INSPECTOR_CHROMA_URL", "ftp://127.0.0.1")
    app = opened()
    press(app, "Next message")
    assert not app.exception
    assert "ftp" in joined(app) or any("ftp" in each.value for each in app.error)


def test_deliveries_that_failed_come_first_in_the_status_line(demo_home):
    from memory_core import FactExtractionMemoryBlock, ModelAnswerError

    class Fails(NoteExtractor):
        def extract(self, messages, *, known):
            raise ModelAnswerError("The model returned no list.")

    memory = a_session()
    memory.configure(delivery_attempts=1)
    memory.blocks.remove("Facts")
    memory.blocks.add(FactExtractionMemoryBlock(name="Facts", priority=1, llm=Fails()))
    memory.put(ChatMessage(role="user", content="hello"))
    memory.flush(all=True)
    app = opened(session=memory.session_id)
    assert not app.exception
    assert [each.proto.popover.label for each in app.get("popover")] == ["1 delivery failed"]
    assert any("given up after 1 try" in line for line in story(app))
    assert button(app, "Try now")


def test_the_dark_page_draws_in_dark_colours(demo_home):
    app = opened(theme="dark")
    assert not app.exception
    body = app.get("html")[0].proto.body
    assert DARK.queue in body
    assert LIGHT.queue not in body


def test_rules_answer_in_an_agents_session_only_when_they_are_asked_to(demo_home):
    class Model(NoteExtractor):
        name, offline = "gpt-prod", False

    Memory.from_defaults(
        "agents",
        memory_blocks=[FactExtractionMemoryBlock(name="facts", llm=Model())],
        database_uri=services.engine().settings.database,
    )
    app = opened(session="agents")
    before = services.engine().job("agents")
    app = settled(app.chat_input[0].set_value("I am allergic to nuts.").run(), before)
    assert [each.value for each in app.info] == [
        "Your message is stored. An agent with gpt\\-prod works in this session."
    ]
    assert [str(message.role) for message in services.engine().open("agents").get_all()] == ["user"]
    press(app, "Answer with rules")
    assert not app.info
    assert [str(message.role) for message in services.engine().open("agents").get_all()] == ["user", "assistant"]


def test_an_answer_in_chat_is_asked_for_again_below_it_and_nothing_is_stored(demo_home):
    memory = services.engine().open("demo")
    events = len(memory.events())
    app = opened(session="demo", turn="10")
    assert not [each for each in app.selectbox if each.label == "Ask again without"]
    assert [each.key for each in app.button if each.label.endswith("Did memory matter?]]")] == ["chat__again_10"]
    app = app.button(key="chat__again_10").click().run()
    assert "Rules answer, at no cost." in joined(app)
    app = app.button(key="context__matter_ask").click().run()
    app = drawn_until(app, lambda: app.exception or "Without it" in joined(app))
    assert not app.exception
    app = app.button(key="chat__again_10").click().run()
    assert "Without it" not in joined(app)
    assert len(memory.events()) == events

"""A session whose agent keeps its own memory, on Chat and Blocks: by rules, by a model, while a recording plays."""

import json

import pytest
from models.scripted_server import ScriptedServer, Step, chunk, refusal, streamed
from pages_driver import button, dialog, field, joined, message_texts, opened, press, settled, story

from memory_core import ChatMessage, StaticMemoryBlock
from memory_core.agent.tools import MemoryTools
from memory_inspector.server.engine import TRIP, new_memory
from ui.tab import services

pytestmark = pytest.mark.slow


@pytest.fixture
def memory(demo_home):
    return new_memory(services.engine(), title="Notes", recipe="self_editing")


def text(memory, name="Human"):
    memory.session.refresh()
    return next(attached.state for attached in memory.blocks if attached.name == name)


def write(app, words):
    settled(app.chat_input[0].set_value(words).run())
    return app.run()


def test_by_rules_the_agent_edits_its_block_and_the_page_tells_it(memory):
    app = opened(session=memory.session_id)
    write(app, "I live in Porto")
    assert not app.exception
    assert text(memory) == "The user lives in Porto"
    assert ":material/edit_note: Appended to Human: The user lives in Porto" in joined(app)
    assert "Edited by rules" in joined(app)
    assert message_texts(app) == ["I live in Porto", "Noted: “The user lives in Porto”."]
    assert "Turn 1 · 60 of 4,000 tokens · edited 1 time" in joined(app)
    assert "appended 23 characters to" in story(app)[0]
    assert '{"' not in joined(app)


def test_a_refused_edit_is_said_and_the_conversation_goes_on(memory):
    memory.blocks.configure("Human", limit=10)
    app = write(opened(session=memory.session_id), "I live in Porto")
    assert not app.exception
    assert text(memory) == ""
    assert ":orange[:material/block: Refused: Human would have 23 characters; its limit is 10." in joined(app)
    assert "Refused a change by the agent to Human" in story(app)[0]


@pytest.mark.slow
def test_while_a_recording_plays_the_rules_edit_and_the_recorded_answer_stands(memory):
    memory.session.attach_recording(TRIP, source="trip")
    app = press(opened(session=memory.session_id), "Next message")
    assert not app.exception
    assert "The user lives in Ghent" in text(memory)
    roles = [str(message.role) for message in memory.get_all()]
    assert roles == ["user", "assistant", "tool", "assistant"]
    assert memory.get_all()[-1].content == TRIP[1].content
    assert memory.session.recording().played == 2
    assert "Edited by rules" in joined(app)
    assert message_texts(app) == [TRIP[0].content, TRIP[1].content]
    assert len(app.chat_message) == 2
    press(app, "Next message")
    assert memory.session.recording().played == 4


def test_a_model_edits_through_an_endpoint_and_its_words_stand_around_the_calls(memory, monkeypatch):
    arguments = json.dumps({"label": "Human", "content": "Sam lives in Porto"})
    function = {"name": "core_memory_append", "arguments": arguments}
    calls = Step(
        stream=[
            chunk("Let me note that."),
            chunk(tool_calls=[{"index": 0, "id": "a", "function": function}]),
            chunk(finish="tool_calls"),
            "[DONE]",
        ]
    )
    with ScriptedServer(calls, streamed("Noted, ", "Sam.")) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        app = write(opened(session=memory.session_id), "I live in Porto, says Sam")
    assert not app.exception
    assert text(memory) == "Sam lives in Porto"
    assert message_texts(app) == ["I live in Porto, says Sam", "Let me note that.", "Noted, Sam."]
    assert "Appended to Human: Sam lives in Porto" in joined(app)
    assert "Edited by rules" not in joined(app)
    first, second = server.bodies
    assert [tool["function"]["name"] for tool in first["tools"]][:2] == ["core_memory_append", "core_memory_replace"]
    assert [message["role"] for message in second["messages"]][-2:] == ["assistant", "tool"]
    assert "Sam lives in Porto" in second["messages"][0]["content"]


def test_an_endpoint_without_tools_is_said_so_and_the_message_can_be_answered_again(memory, monkeypatch):
    with ScriptedServer(refusal(400, "tiny does not support tools")) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        app = write(opened(session=memory.session_id), "I live in Porto")
    assert not app.exception
    assert "takes no tools" in app.error[0].value
    assert "Try again" in [each.label for each in app.button]
    assert [message.content for message in memory.get_all()] == ["I live in Porto"]


def test_a_model_that_fails_after_its_edit_can_be_asked_again(memory, monkeypatch):
    function = {"name": "core_memory_append", "arguments": '{"label": "Human", "content": "Sam lives in Porto"}'}
    calls = Step(
        stream=[
            chunk(tool_calls=[{"index": 0, "id": "a", "function": function}]),
            chunk(finish="tool_calls"),
            "[DONE]",
        ]
    )
    with ScriptedServer(calls, refusal(400, "out of order"), streamed("Noted.")) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        app = write(opened(session=memory.session_id), "I live in Porto")
        assert "out of order" in app.error[0].value.replace("\\", "")
        press(app, "Try again")
    assert [str(message.role) for message in memory.get_all()] == ["user", "assistant", "tool", "assistant"]
    assert text(memory) == "Sam lives in Porto"
    assert message_texts(app)[-1] == "Noted."


def test_a_session_without_editable_blocks_plays_as_before(demo_home):
    memory = new_memory(services.engine(), title="Plain")
    memory.session.attach_recording([ChatMessage(role="user", content="I live in Porto"), TRIP[1]], source="x")
    app = press(opened(session=memory.session_id), "Next message")
    assert not app.exception
    assert [str(message.role) for message in memory.get_all()] == ["user", "assistant"]


# -- the blocks ------------------------------------------------------------------------------------


def test_an_edit_of_the_agent_is_a_version_that_can_be_taken_back(memory):
    memory.put(ChatMessage(role="user", content="I live in Porto"))
    MemoryTools(memory).call("core_memory_append", label="Human", content="Sam lives in Porto")
    app = opened(page="blocks", session=memory.session_id)
    assert not app.exception
    assert "18 of 2,000 characters" in joined(app)
    drawn = dialog("ui.blocks.block_text", "history_dialog", memory.session_id, "Human")
    assert "+Sam lives in Porto" in drawn.code[0].value
    drawn.selectbox[0].set_value(1).run()
    button(drawn, "Restore version 1").click().run()
    assert text(memory) == ""


def test_a_text_is_given_to_the_agent_and_taken_from_it_in_its_settings(memory):
    memory.blocks.add(StaticMemoryBlock(name="Rules", static_content="Be brief."))
    app = opened(page="blocks", session=memory.session_id)
    assert "Read only for the agent." in joined(app)
    drawn = dialog("ui.blocks.block_settings", "settings_of_dialog", memory.session_id, "Rules")
    drawn.toggle[0].set_value(False).run()
    drawn.text_area[0].set_value("How to answer.").run()
    field(drawn, "Maximum characters").set_value(100).run()
    button(drawn, "Apply from the next turn").click().run()
    memory.session.refresh()
    settings = memory.blocks.settings("Rules")
    assert (settings["read_only"], settings["description"], settings["limit"]) == (False, "How to answer.", 100)
    assert "Rules" in MemoryTools(memory).specs()[0].description
    drawn = dialog("ui.blocks.editor", "edit_dialog", memory.session_id, "Rules")
    assert "9 of 100 characters." in joined(drawn)
    drawn.text_area[0].set_value("x" * 120).run()
    assert "120 of 100 characters:" in joined(drawn)
    button(drawn, "Save").click().run()
    assert text(memory, "Rules") == "x" * 120


def test_what_the_tools_cost_beside_the_prompt_is_said(memory):
    write(opened(session=memory.session_id), "I live in Porto")
    app = opened(page="context", session=memory.session_id)
    app.segmented_control(key="context__show").set_value("Counted, billed").run()
    assert not app.exception
    assert "8 memory tools, about " in joined(app)

"""A store that was opened where it lies, on the pages: what it holds, as it grows, and nothing to change."""

import json
import sqlite3
from contextlib import closing

import pytest
from pages_driver import dialog, opened

from memory_core.sessions.overview import overview
from memory_inspector.files.in_place import open_store
from memory_inspector.server.engine import FOLLOW_EVERY_SECONDS
from ui.sessions.session_rows import origin, origin_in_words
from ui.tab import services

pytestmark = pytest.mark.slow


def wait_until(ready):
    services.engine()
    for _ in range(100):
        if ready():
            return
        services.engine()._closing.wait(FOLLOW_EVERY_SECONDS / 5)
    raise AssertionError


def words(page):
    return " ".join(each.value for each in [*page.markdown, *page.text]).replace("\\", "")


def test_an_opened_store_is_followed_by_the_server_and_shown_read_only(home, tmp_path, data_file):
    path = tmp_path / "agent.db"
    path.write_bytes(data_file("stores/oa_session.db").read_bytes())
    shared_engine = services.engine()
    session_id, _ = open_store(path, shared_engine.database, services=shared_engine.services)
    memory = shared_engine.open(session_id)
    before = len(memory.session.messages())
    with closing(sqlite3.connect(path)) as connection:
        data = json.dumps({"role": "user", "content": "Something new"})
        connection.execute("INSERT INTO agent_messages (session_id, message_data) VALUES ('conv1', ?)", (data,))
        connection.commit()
    wait_until(lambda: len(memory.session.messages()) > before)

    chat = opened(session=session_id)
    assert "Something new" in words(chat)
    assert "In the store" in words(chat)
    assert not chat.chat_input
    assert not any("Flush" in each.label for each in chat.button)
    assert next(each for each in chat.button if each.label == "Settings").disabled
    timeline = opened(page="timeline", session=session_id)
    assert "as agent.db has it." in words(timeline)
    (events,) = [each.value for each in timeline.dataframe if "What happened" in each.value.columns][:1]
    assert "Opened from agent.db, read only" in " ".join(events["What happened"])
    for page in (chat, timeline, opened(page="context", session=session_id), opened(page="blocks", session=session_id)):
        assert not page.exception

    found = next(each for each in overview(shared_engine.database) if each.status.session_id == session_id)
    assert (origin(found), origin_in_words(found, {})) == ("opened", "Opened from agent.db, read only.")

    path.unlink()
    wait_until(lambda: shared_engine.store_problem(session_id) is not None)
    assert "No such file" in shared_engine.store_problem(session_id)
    assert not opened(session=session_id).exception


def test_the_versions_of_a_note_can_be_looked_at_and_not_restored(home, tmp_path):
    shared_engine = services.engine()
    (tmp_path / "a.md").write_text("One.")
    (session_id,) = open_store(tmp_path, shared_engine.database, services=shared_engine.services, only=None)
    (tmp_path / "a.md").write_text("Two, with more words.")
    wait_until(lambda: len(shared_engine.open(session_id).blocks.revisions("a.md")) == 2)
    blocks = opened(page="blocks", session=session_id)
    assert [each.label for each in blocks.button if each.key == "blocks__history_a.md"] == ["History"]
    drawn = dialog("ui.blocks.block_text", "history_dialog", session_id, "a.md")
    drawn.selectbox[0].set_value(1).run()
    assert not drawn.exception
    assert "One." in " ".join(each.value for each in drawn.code)
    assert not drawn.button


def test_the_blocks_of_an_opened_store_are_shown_and_not_edited(home, data_file):
    shared_engine = services.engine()
    (session_id,) = open_store(data_file("stores/loop.af"), shared_engine.database, services=shared_engine.services)
    blocks = opened(page="blocks", session=session_id)
    assert not blocks.exception
    assert "241 of 20,000 characters" in words(blocks)
    assert not {each.label for each in blocks.button} & {"Edit", "Add block", "Change order"}


def test_the_facts_of_an_opened_store_are_shown_and_not_curated(home, data_file):
    shared_engine = services.engine()
    (session_id,) = open_store(
        data_file("stores/mem0_history.db"), shared_engine.database, services=shared_engine.services
    )
    facts = opened(page="facts", session=session_id)
    assert not facts.exception
    known = shared_engine.open(session_id).facts.read("Memories")
    assert known
    assert any(known[0].text in str(frame.value) for frame in facts.dataframe)
    assert not {each.label for each in facts.button} & {"Add", "Add fact", "Import", "Undo"}

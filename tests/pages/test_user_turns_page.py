"""What other sessions of the user answer, on the pages: with its session, its turn, and what became of it."""

import pytest
from pages_driver import as_read, opened

from memory_core import ChatMessage, Memory, VectorMemoryBlock
from ui.tab import services

pytestmark = pytest.mark.slow


def session(session_id, title, *turns):
    shared = services.engine()
    memory = Memory.from_defaults(
        session_id,
        "ana",
        title=title,
        database=shared.database,
        memory_blocks=[VectorMemoryBlock(name="turns", scope="user", deliver_on="turn", similarity_top_k=1)],
        services=shared.services,
    )
    for words in turns:
        memory.put_messages([ChatMessage(role="user", content=words)], end_turn=True)
    memory.deliver()
    return memory


def texts(app):
    return [as_read(each.value) for each in app.markdown]


def test_a_search_shows_what_it_found_in_other_sessions_and_from_where(home):
    session("house", "The house", "The weather is fine.", "My sister keeps lanterns in the attic.")
    memory = session("b", "Another day")
    memory.put(ChatMessage(role="user", content="Where are the lanterns?"))
    memory.build_context()
    memory.put(ChatMessage(role="assistant", content="In the attic."))
    memory.put(ChatMessage(role="user", content="And where are the candles?"))
    for query in ({"query": "Where are the lanterns?"}, {"turn": "1"}):
        page = opened(page="retrieval", session="b", **query)
        assert not page.exception
        shown = texts(page)
        assert "My sister keeps lanterns in the attic." in shown
        assert any(each.startswith(":small[:gray[score ") and "In the prompt" in each for each in shown)
    told = texts(opened(session="b", turn="1"))
    assert any("Recalled 1 stored message of the user's other sessions, best" in each for each in told)
    context = opened(page="context", session="b")
    part = memory.log.prompt(memory.log.history().turns[1].built).parts
    assert [entry.origin for each in part if each.kind == "vector" for entry in each.entries] == [("house", 2)]
    assert not context.exception

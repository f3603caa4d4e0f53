"""A step inside a turn: every page stands where the log stood then, and holds back what came later in the turn."""

import pytest
from pages_driver import joined, message_texts, opened, table

from memory_core import ChatMessage
from memory_core.events import FactAdded, FlushPlanned
from memory_inspector.server.chat_turns import play
from memory_inspector.server.engine import new_memory
from memory_inspector.server.jobs import Job
from memory_inspector.server.shipped_demo import demo_memory
from ui.tab import services

pytestmark = pytest.mark.slow

TURN = 12


@pytest.fixture
def played(demo_home):
    """The demo played to turn 13; in turn 12 it flushed, learned, recalled and cut."""
    engine = services.engine()
    memory = demo_memory(engine.database, engine.services)
    play(Job("on"), memory, turns=2, pace=0)
    return memory


@pytest.fixture
def step(played):
    """Position of the first step of the turn: the message was said, and nothing else happened yet."""
    return next(record.position for record in played.events(turn=TURN) if record.kind == "message_added")


def at(page, step, session="demo", turn=TURN):
    app = opened(page=page, session=session, turn=str(turn), step=str(step))
    assert not app.exception, app.exception
    return app


def test_context_shows_the_prompt_before_and_says_whose_it_is(played, step):
    before = played.log.history().turns[TURN - 1].built
    app = at("context", step)
    assert f"**{before.event.total:,} of 1,200 tokens sent" in joined(app)
    assert "No prompt was built in turn 12 up to this step. This is the prompt of turn 11." in joined(app)
    built = played.log.history().turns[TURN].built
    app = at("context", built.position)
    assert f"**{built.event.total:,} of 1,200 tokens sent" in joined(app)
    assert "No prompt was built" not in joined(app)


def test_blocks_tell_what_the_prompt_before_granted(played, step):
    before, built = (played.log.history().turns[turn].built.event for turn in (TURN - 1, TURN))
    granted = {part["name"]: part["granted"] for part in before.parts}
    later = {part["name"]: part["granted"] for part in built.parts}
    assert granted["Earlier turns"] != later["Earlier turns"]
    words = joined(at("blocks", step))
    assert f"**{granted['Earlier turns']:,}** tokens" in words
    assert f"**{later['Earlier turns']:,}**" not in words


def test_retrieval_knows_no_search_that_came_later(played, step):
    assert "Nothing was searched in turn 12 up to this step." in joined(at("retrieval", step))
    (search,) = [record for record in played.events(turn=TURN) if record.kind == "retrieved"]
    assert "Nothing was searched" not in joined(at("retrieval", search.position))


def test_facts_and_timeline_count_what_was_learned_up_to_the_step(played):
    learned = [record for record in played.events() if isinstance(record.event, FactAdded)]
    turn = learned[-1].turn
    inside = [record for record in learned if record.turn == turn]
    before = len(learned) - len(inside)
    flush = next(record for record in played.events(turn=turn) if isinstance(record.event, FlushPlanned))
    assert flush.position < inside[0].position
    assert f"Up to turn {turn}: " in joined(at("timeline", flush.position, turn=turn))
    assert f", {before} fact" in joined(at("timeline", flush.position, turn=turn)).partition("Up to turn")[2]
    texts = [fact.text for fact in played.facts.read("Facts", states=None) if fact.turn == turn]
    assert texts
    shown = str([each.value for each in at("facts", flush.position, turn=turn).dataframe])
    assert not [text for text in texts if text[:20] in shown]


def test_chat_ends_with_the_message_of_the_step_and_the_budget_before_it(played, step):
    app = at("chat", step)
    said = next(record.event.seq for record in played.events(turn=TURN) if record.kind == "message_added")
    assert message_texts(app)[-1] == played.session.messages(after=said - 1, upto=said)[0].message.content
    before = {part["name"]: part["granted"] for part in played.log.history().turns[TURN - 1].built.event.parts}
    assert {row["name"]: row["tokens"] for row in table(app)}["Earlier turns"] == before["Earlier turns"]


def test_graph_holds_back_a_relation_that_was_learned_later_in_the_turn(demo_home):
    memory = new_memory(services.engine(), title="Family", recipe="graph", token_limit=400)
    for turn in range(12):
        memory.put(ChatMessage(role="user", content=f"Ana lives in Porto. My brother Rui works at Acme number {turn}."))
        memory.put(ChatMessage(role="assistant", content="I will remember that your family is there. " * 6))
    first = next(record for record in memory.events() if record.kind == "relation_added")
    flush = max(
        record.position
        for record in memory.events(turn=first.turn)
        if record.kind == "flush_planned" and record.position < first.position
    )
    assert "**No relations yet.**" in joined(at("graph", flush, memory.session_id, first.turn))
    end = opened(page="graph", session=memory.session_id, turn=str(first.turn))
    assert "**No relations yet.**" not in joined(end)

"""What each memory system is known for, played offline as the app plays it."""

import pytest
from engine_fakes import on_file, user

from memory_core import Memory
from memory_core.models.offline.responder import OfflineResponder
from memory_inspector.demo.conversations import EXAMPLES
from memory_inspector.server.chat_turns import answer, play
from memory_inspector.server.jobs import Job


def played(recipe, session="s", **given):
    example = EXAMPLES[recipe]
    memory = Memory.from_recipe(recipe, session, **{"token_limit": example.token_limit, "user_id": "sam", **given})
    memory.session.attach_recording(example.messages, source="example")
    play(Job("play"), memory, turns=None, pace=0)
    return memory


def answered(memory, question):
    """What the offline responder says to a question in this memory."""
    memory.put(user(question))
    answer(Job("answer"), memory, OfflineResponder(), "reply")
    return memory.get_all()[-1].content


@pytest.mark.slow
def test_a_name_said_once_is_known_in_the_next_session_of_that_user_only(tmp_path):
    place = {"database_uri": on_file(tmp_path)}
    played("user_memories", "monday", user_id="chandra", **place)
    tuesday = Memory.from_recipe("user_memories", "tuesday", "chandra", **place)
    assert "Chandra" in answered(tuesday, "What is my name?")
    stranger = Memory.from_recipe("user_memories", "wednesday", "dora", **place)
    assert "Chandra" not in answered(stranger, "What is my name?")


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["user_memories", "consolidating"])
def test_dark_mode_is_updated_and_not_doubled(recipe):
    memory = played(recipe)
    block = memory.blocks[0].name
    texts = [fact.text for fact in memory.facts.read(block)]
    assert [text for text in texts if "dark mode" in text] == ["The user prefers dark mode in every app"]
    assert [text for text in texts if "lives in" in text] == ["The user lives in York"]
    assert not [text for text in texts if "hiking" in text and "no longer" not in text]
    decisions = [record.event.decision for record in memory.events(kinds=("fact_decided",))]
    assert decisions.count("update") >= 2


def test_a_deadline_two_steps_away_is_found():
    memory = played("graph")
    desk = memory.blocks.graph()
    (path,) = desk.paths("Alice", "March 2026")
    assert desk.describe(path) == "Alice → manages → Project Alpha → deadline → March 2026"
    context = memory.build_context("When is the deadline of the project that Alice manages?")
    assert "Project Alpha deadline March 2026" in context.messages[0].content
    assert "March 2026" in answered(memory, "When is the deadline of Project Alpha?")


def test_where_bob_lived_has_ended_and_where_he_lives_holds():
    memory = played("graph")
    graph = memory.blocks.graph().graph()
    homes = {graph.name(r.object): r.state for r in graph.relations.values() if r.predicate == "lives in"}
    assert homes == {"Leeds": "ended", "York": "active"}


def test_the_agent_edits_its_own_block_and_each_edit_can_be_taken_back():
    memory = played("self_editing")
    human = next(attached for attached in memory.blocks if attached.name == "Human")
    assert "Chandra" in human.state
    assert "York" in human.state
    assert "Leeds" not in human.state
    versions = memory.blocks.revisions("Human")
    assert {version.actor for version in versions[1:]} == {"agent"}
    memory.blocks.restore("Human", versions[1].revision)
    assert memory.blocks.revisions("Human")[-1].text == versions[1].text


def test_a_question_and_its_answer_come_back_together():
    memory = played("vector")
    context = memory.build_context("What does error E4 of the Brio 300 mean?")
    section = context.messages[0].content
    assert "shows error E4 since this morning" in section
    assert "means that the water tank is not seen" in section


def test_what_left_the_queue_is_in_the_summary():
    memory = played("summary")
    state = memory.blocks.summary().state()
    assert state.tokens <= state.max_tokens
    assert "Lisbon" in state.text
    assert state.covers_turn


@pytest.mark.slow
def test_the_agents_notes_hold_nothing_that_was_taken_back():
    memory = played("self_editing")
    human = next(attached for attached in memory.blocks if attached.name == "Human")
    assert [line for line in human.state.splitlines() if "hiking" in line] == ["The user no longer likes hiking"]

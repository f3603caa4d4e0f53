"""Sessions of running agents: who works in one, who has taken it over, and what reaches the agent's next prompt."""

import time

import pytest
from engine_fakes import HashEmbedder, on_file
from running_agent import made
from running_agent import running_agent as agent_at

from memory_core import Database, Memory, Services, delete_session
from memory_core.planning import curation as plans
from memory_core.store.leases import AGENT_SECONDS
from memory_inspector.upkeep.agents import running_agent, running_agents, taken_over


@pytest.fixture
def uri(tmp_path):
    return on_file(tmp_path)


def app(uri):
    """The database as the app opens it."""
    database = Database.open(uri)
    database.for_agents = False
    return database


def opened(uri, session_id="s"):
    return Memory.open(session_id, app(uri), services=Services(embedder=HashEmbedder()))


@pytest.mark.slow
def test_an_agent_works_in_a_session_from_its_first_write_until_it_ends_or_falls_silent(uri):
    with agent_at(uri, "s") as agent:
        agent.say("note 1 of the day")
        database = app(uri)
        found = running_agent(database, "s")
        assert (found.process, found.here) == (agent.pid, True)
        assert running_agent(database, "another") is None
        assert running_agents(database) == {"s": found}
        later = time.time() + AGENT_SECONDS
        assert running_agent(database, "s", clock=lambda: later - 60) is not None
        assert running_agent(database, "s", clock=lambda: later + 1) is None
        assert running_agents(database, clock=lambda: later + 1) == {}
        agent.kill()
        assert running_agent(database, "s") is None
        assert running_agents(database) == {}


def test_what_an_app_or_this_very_process_writes_makes_no_agent(uri):
    memory = Memory.from_defaults("s", database=app(uri), services=Services(embedder=HashEmbedder()))
    memory.put({"role": "user", "content": "Hello"})
    assert memory.session.database.noted == {}
    memory.session.database.for_agents = True
    memory.put({"role": "user", "content": "Hello again"})
    assert list(memory.session.database.noted) == ["s"]
    assert running_agent(memory.session.database, "s") is None


def test_a_program_notes_a_session_once_in_a_while_and_forgets_it_when_it_is_deleted(uri):
    now = time.time()
    database = Database.open(uri)
    memory = Memory.from_defaults("s", database=database, services=Services(embedder=HashEmbedder()), clock=lambda: now)
    first = database.noted["s"]
    memory.put({"role": "user", "content": "Hello"})
    assert database.noted["s"] == first
    now += 20
    memory.put({"role": "user", "content": "Hello again"})
    assert database.noted["s"] == now
    delete_session(database, "s")
    with database.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM mi_lease").scalar() == 0


def test_taking_over_and_handing_back_are_a_persons_acts_in_the_log_of_one_session(uri):
    memory = opened_new(uri)
    other = opened_new(uri, "other")
    assert not taken_over(memory.session.database, "s")
    memory.session.take_over()
    assert taken_over(memory.session.database, "s")
    assert not taken_over(memory.session.database, "other")
    branch = memory.branch(1)
    assert not taken_over(branch.session.database, branch.session_id)
    memory.session.hand_back()
    assert not taken_over(memory.session.database, "s")
    hands = [(r.kind, r.actor) for r in memory.events() if r.kind.startswith(("session_taken", "session_handed"))]
    assert hands == [("session_taken_over", "user"), ("session_handed_back", "user")]
    assert [each.kind for each in other.events(kinds=("session_taken_over",))] == []


def opened_new(uri, session_id="s"):
    memory = Memory.from_defaults(session_id, database=app(uri), services=Services(embedder=HashEmbedder()))
    memory.put({"role": "user", "content": "Hello"})
    return memory


@pytest.mark.slow
def test_every_change_of_a_person_is_in_the_agents_next_prompt_and_stays_when_it_starts_again(uri):
    """Two processes, one SQLite file: the agent knows nothing of the app, and its constructor is as it was."""
    with agent_at(uri, "s") as agent:
        prompt, limit = agent.say("note 1 of the day")
        assert "Be brief." in prompt
        assert limit == 4_000
        memory = opened(uri)
        memory.session.take_over()
        memory.blocks.edit("rules", "Answer in rhymes.")
        memory.facts.desk("facts").apply(plans.add("The user lives in Oslo"))
        memory.configure(token_limit=3_000)
        prompt, limit = agent.say("note 2 of the day")
        assert limit == 3_000
        assert "Answer in rhymes." in prompt
        assert "Be brief." not in prompt
        assert "The user lives in Oslo" in prompt
        agent.kill()
    again = made(uri, "s", rules="Be brief.", token_limit=4_000)
    assert "Answer in rhymes." in words_of(again)
    assert "The user lives in Oslo" in words_of(again)
    assert again.build_context().plan.token_limit == 3_000
    other = made(uri, "s", rules="Answer in prose.", token_limit=4_000)
    assert "Answer in prose." in words_of(other)
    assert other.build_context().plan.token_limit == 3_000


def words_of(memory):
    return "\n".join(message.content for message in memory.get())

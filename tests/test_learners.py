"""Who learns for a block is stored with it: nobody learns in the place of an agent's model."""

import pytest
from engine_fakes import Clock, NoteExtractor, ShakyExtractor, note, on_file, open_memory

from memory_core import FactExtractionMemoryBlock, Memory, Services
from memory_core.bundles.bundle import import_bundle, read_bundle, write_bundle
from memory_core.events import DeliveryRetried, FactsExtracted
from memory_core.models.protocols import FactExtractor


class Model(ShakyExtractor):
    """A model that fails as it is told."""

    name, offline = "gpt-prod", False


def agents(folder, *, fails=lambda call: False, **given):
    """The session as the agent's program opens it, with its own model."""
    block = FactExtractionMemoryBlock(name="facts", llm=Model(fails))
    return open_memory(database_uri=on_file(folder), memory_blocks=[block], clock=Clock(), **given)


def apps(memory, services=None):
    """The same session as another process opens it, where rules learn."""
    return Memory.open("s", memory.session.database, services=services or Services(extractor=NoteExtractor()))


def learned_by(memory):
    return [record.event.extractor for record in memory.events(kinds=(FactsExtracted.kind,))]


def waiting(memory):
    return [delivery.block for delivery in memory.session.deliveries(states=("pending", "parked"))]


@pytest.fixture
def failed(tmp_path):
    """An agent whose model failed once, so that something is due to it."""
    agent = agents(tmp_path, fails=lambda call: call == 1)
    for number in range(5):
        agent.put(note(number))
    assert waiting(agent) == ["facts"]
    return agent


def test_another_process_leaves_to_the_agents_model_what_that_failed_to_learn(failed):
    app = apps(failed)
    served = app.deliver()["facts"]
    assert (served.outcome, served.error) == ("waiting", "Waits for gpt-prod, which learns for this block.")
    assert app.deliver(force=False)["facts"].outcome == "waiting"
    assert waiting(app) == ["facts"]
    failed.deliver()
    assert learned_by(failed) == ["gpt-prod"]
    assert waiting(failed) == []


def test_what_another_process_puts_waits_for_the_agents_model_too(tmp_path):
    agent = agents(tmp_path)
    receipts = [apps(agent).put(note(number)) for number in range(5)]
    assert receipts[-1].waiting == ("facts",)
    agent.put(note(5))
    assert set(learned_by(agent)) == {"gpt-prod"}


def test_somebody_may_have_rules_learn_instead_until_the_agent_comes_back(failed, tmp_path):
    app = apps(failed)
    assert app.session.learn_here()["facts"].outcome == "done"
    assert learned_by(app) == ["notes"]
    assert [record.actor for record in app.events(kinds=(DeliveryRetried.kind,))] == ["user"]
    for number in range(5, 8):
        app.put(note(number))
    assert waiting(app) == []
    again = agents(tmp_path)
    for number in range(8, 12):
        apps(again).put(note(number))
    assert set(waiting(again)) == {"facts"}


def test_a_block_that_a_program_adds_with_a_model_is_left_to_it_until_the_block_goes(tmp_path):
    agent = open_memory(database_uri=on_file(tmp_path), memory_blocks=[])
    agent.blocks.add(FactExtractionMemoryBlock(name="facts", llm=Model(lambda call: False)))
    app = apps(agent)
    assert [attached.learner for attached in app.blocks] == ["gpt-prod"]
    app.blocks.remove("facts")
    app.blocks.add(FactExtractionMemoryBlock(name="facts"))
    assert [attached.learner for attached in app.blocks] == [None]


def test_other_blocks_go_on(failed):
    app = apps(failed)
    app.blocks.add(FactExtractionMemoryBlock(name="others"))
    for number in range(5, 9):
        app.put(note(number))
    assert set(waiting(app)) == {"facts"}
    assert learned_by(app)


def test_a_model_that_somebody_only_tries_is_not_waited_for(tmp_path):
    tried = Services(extractor=Model(lambda call: False))
    tried.records_learners = False
    session = open_memory(
        database_uri=on_file(tmp_path), memory_blocks=[FactExtractionMemoryBlock(name="facts")], services=tried
    )
    for number in range(5):
        session.put(note(number))
    app = apps(session)
    for number in range(5, 9):
        app.put(note(number))
    assert waiting(app) == []
    assert set(learned_by(app)) == {"gpt-prod", "notes"}


def test_a_branch_and_an_opened_bundle_have_no_program_that_could_come_back(failed):
    app = apps(failed)
    branch = app.branch(3, title="Tried")
    opened = import_bundle(
        app.session.database, read_bundle(write_bundle(app.session.database, "s"), "s.zip"), title="Copy"
    )
    for session_id in (branch.session_id, opened):
        copy = Memory.open(session_id, app.session.database, services=app.session.services)
        copy.deliver()
        assert waiting(copy) == []
        assert [attached.learner for attached in copy.blocks] == [None]


def test_rules_are_nobody_to_wait_for(tmp_path):
    session = open_memory(database_uri=on_file(tmp_path), memory_blocks=[FactExtractionMemoryBlock(name="facts")])
    assert isinstance(session.session.services.extractor, FactExtractor)
    assert [attached.learner for attached in session.blocks] == [None]

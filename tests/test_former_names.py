"""What earlier versions stored under another name is read under the present one, and written so from then on."""

import json

from sqlalchemy import update

from memory_core import FactExtractionMemoryBlock, Memory, Services, VectorMemoryBlock
from memory_core.bundles.bundle import import_bundle, read_bundle, write_bundle
from memory_core.events import BlockAdded, BlockEdited, Retrieved, decode
from memory_core.store.fact_rows import read_protected, read_reviewed
from memory_core.store.tables import block_table, event_table, fact_revision_table
from memory_inspector.files.configuration import read_configuration
from tests.engine_fakes import HashEmbedder, user

SERVICES = Services(embedder=HashEmbedder())


def vectors(**settings):
    return VectorMemoryBlock(name="turns", **settings)


def as_stored_then(memory):
    """The tables as an earlier version would have left them."""
    with memory.session.database.write() as connection:
        connection.execute(update(event_table).where(event_table.c.actor == "user").values(actor="curator"))
        for table, column in ((block_table, "settings"), (block_table, "constructor"), (event_table, "data")):
            for row in connection.execute(table.select()).all():
                text = getattr(row, column).replace("episode_weight", "sitting_weight")
                key = [each == getattr(row, each.name) for each in table.primary_key.columns]
                connection.execute(update(table).where(*key).values({column: text}))


def made(**settings):
    memory = Memory.from_defaults("s", memory_blocks=[vectors(**settings)], services=SERVICES, tokenizer_fn=str.split)
    memory.put(user("hello"))
    memory.blocks.configure("turns", episode_weight=0.2)
    return memory


def test_events_are_read_by_their_former_fields():
    found = {
        "block": "turns", "query": "0" * 32, "embedder": None, "index": "exact", "top_k": None, "threshold": None,
        "candidates": [], "gates": {}, "terms": [[0.1]], "term_weights": {"sitting": 0.4, "date": 0.1}, "room": 300,
    }  # fmt: skip
    event = decode("retrieved", json.dumps(found))
    assert isinstance(event, Retrieved)
    assert (event.boosts, event.token_budget) == (((0.1,),), 300)
    assert event.boost_weights == {"episode": 0.4, "date": 0.1}
    assert decode("retrieved", event.to_json()) == event


def test_facts_that_a_person_changed_stay_protected_under_the_former_name():
    memory = Memory.from_defaults("s", memory_blocks=[FactExtractionMemoryBlock(name="facts")], services=SERVICES)
    memory.put(user("I live in Porto."))
    memory.flush(all=True)
    (fact,) = memory.facts.read("facts")
    memory.facts.edit(fact.id, "The user lives in Faro")
    with memory.session.database.write() as connection:
        for table in (fact_revision_table, event_table):
            connection.execute(update(table).where(table.c.actor == "user").values(actor="curator"))
    with memory.session.database.read() as connection:
        assert read_protected(connection, "session:s", "facts") == {fact.id}
        assert read_reviewed(connection, "session:s") == {fact.id}


def test_settings_of_a_block_are_read_by_their_former_names():
    memory = made()
    as_stored_then(memory)
    memory.session.database.forget_log()
    again = Memory.open("s", memory.session.database, services=SERVICES, tokenizer_fn=str.split)
    assert again.blocks.settings("turns")["episode_weight"] == 0.2
    assert "sitting_weight" not in again.blocks.settings("turns")
    events = [record.event for record in again.events(kinds=("block_added", "block_edited"))]
    assert [type(event) for event in events] == [BlockAdded, BlockEdited]
    assert [event.settings["episode_weight"] for event in events] == [0.4, 0.2]
    assert {record.actor for record in again.events()} == {"engine", "user"}
    again.blocks.configure("turns", episode_weight=0.3)
    assert again.blocks.settings("turns")["episode_weight"] == 0.3


def test_a_constructor_of_then_is_the_constructor_of_now():
    """The edit that was stored wins: the program gives what it gave before, under the setting's new name."""
    memory = made(episode_weight=0.1)
    as_stored_then(memory)
    again = Memory.from_defaults(
        "s",
        memory_blocks=[vectors(episode_weight=0.1)],
        services=SERVICES,
        tokenizer_fn=str.split,
        database=memory.session.database,
    )
    assert again.blocks.settings("turns")["episode_weight"] == 0.2


def test_a_bundle_and_a_configuration_of_then_open():
    memory = made()
    as_stored_then(memory)
    file = read_bundle(write_bundle(memory.session.database, "s"), "s.zip")
    copy = import_bundle(memory.session.database, file)
    again = Memory.open(copy, memory.session.database, services=SERVICES, tokenizer_fn=str.split)
    assert again.blocks.settings("turns")["episode_weight"] == 0.2
    text = {
        "format": "memory-inspector-configuration",
        "version": 1,
        "settings": {},
        "blocks": [{"name": "turns", "type": "vector", "settings": {"sitting_weight": 0.2}}],
    }
    (block,) = read_configuration(json.dumps(text).encode(), "c.json").blocks
    assert block.settings()["episode_weight"] == 0.2

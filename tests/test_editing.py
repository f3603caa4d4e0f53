"""What a person does to blocks: order, priorities, texts; and what happens when two do it at once."""

import pytest
from engine_fakes import Clock, Counter, HashEmbedder, NoteExtractor, note, on_file, open_memory

from memory_core import (
    ConfigError,
    ConflictError,
    Database,
    FactExtractionMemoryBlock,
    Memory,
    NotFoundError,
    StaticMemoryBlock,
)
from memory_core.blocks.vector import VectorMemoryBlock
from memory_core.events import BlockEdited, BlocksOrdered
from memory_core.store.block_rows import Holding


def some_blocks():
    return [
        StaticMemoryBlock(name="rules", static_content="be brief"),
        FactExtractionMemoryBlock(name="facts", llm=NoteExtractor(), priority=1),
        VectorMemoryBlock(name="turns", embed_model=HashEmbedder(), priority=2),
    ]


@pytest.fixture
def memory(tmp_path):
    return open_memory(database_uri=on_file(tmp_path), memory_blocks=some_blocks())


@pytest.fixture
def other(memory, tmp_path):
    """The same session in another tab."""
    return open_memory(database_uri=on_file(tmp_path))


def names(memory):
    memory.session.refresh()
    return [attached.name for attached in memory.blocks]


def priorities(memory):
    memory.session.refresh()
    return [attached.record.settings["priority"] for attached in memory.blocks]


def texts(memory, name="rules"):
    return [(revision.revision, revision.text) for revision in memory.blocks.revisions(name)]


def edits(memory):
    """The changes to blocks that a person made, in order."""
    kinds = ("block_edited", "blocks_ordered", "block_added", "block_removed")
    return [record.event for record in memory.events(kinds=kinds) if record.actor == "user"]


# -- the order ------------------------------------------------------------------------------------


def test_blocks_are_put_into_another_order_which_every_process_sees(memory, other):
    memory.blocks.order(["turns", "rules", "facts"])
    assert names(memory) == names(other) == ["turns", "rules", "facts"]
    assert edits(memory) == [BlocksOrdered(names=("turns", "rules", "facts"))]
    past = memory.log.history().blocks_at(memory.log.history().position)
    assert [block.name for block in past] == ["turns", "rules", "facts"]
    assert [part.name for part in memory.build_context().plan.granted] == ["turns", "rules", "facts"]


def test_the_order_they_have_already_is_no_change(memory):
    memory.blocks.order(["rules", "facts", "turns"])
    assert edits(memory) == []


@pytest.mark.parametrize("wanted", [["rules"], ["rules", "facts", "facts"], ["rules", "facts", "turns", "more"]])
def test_an_order_that_does_not_name_every_block_once_is_refused(memory, wanted):
    with pytest.raises(ConfigError, match="name every block once to order them: rules, facts, turns"):
        memory.blocks.order(wanted)
    assert names(memory) == ["rules", "facts", "turns"]


def test_an_order_made_from_what_is_no_longer_so_is_not_saved(memory, other):
    opened = names(memory)
    other.blocks.remove("facts")
    with pytest.raises(ConflictError, match="changed elsewhere"):
        memory.blocks.order(["turns", "facts", "rules"], opened=opened)
    assert names(memory) == ["rules", "turns"]


# -- settings -------------------------------------------------------------------------------------


def test_several_priorities_are_changed_together(memory, other):
    memory.blocks.configure_all({"facts": {"priority": 2}, "turns": {"priority": 1}, "rules": {"priority": 0}})
    assert priorities(memory) == priorities(other) == [0, 2, 1]
    assert [(edit.block, edit.settings) for edit in edits(memory)] == [
        ("facts", {"priority": 2}),
        ("turns", {"priority": 1}),
    ]


def test_priorities_and_the_order_are_changed_together_or_not_at_all(memory):
    memory.blocks.configure_all({"facts": {"priority": 2}}, order=["turns", "facts", "rules"])
    assert (names(memory), priorities(memory)) == (["turns", "facts", "rules"], [2, 2, 0])
    with pytest.raises(ConfigError, match="name every block once"):
        memory.blocks.configure_all({"facts": {"priority": 9}}, order=["turns", "facts"])
    assert (names(memory), priorities(memory)) == (["turns", "facts", "rules"], [2, 2, 0])


def test_one_impossible_value_saves_none_of_them(memory):
    with pytest.raises(ConfigError, match="priority must be at least 0, not -1"):
        memory.blocks.configure_all({"facts": {"priority": 5}, "turns": {"priority": -1}})
    assert priorities(memory) == [0, 1, 2]
    assert edits(memory) == []
    memory.blocks.configure("facts", priority=4)
    assert priorities(memory) == [0, 4, 2]


@pytest.mark.parametrize("setting", ["colour", "name"])
def test_what_is_no_setting_is_refused(memory, setting):
    with pytest.raises(ConfigError, match=f"has no setting called '{setting}'"):
        memory.blocks.configure_all({"facts": {setting: "x"}})


def test_settings_that_another_tab_changed_are_not_overwritten(memory, other):
    opened = {"priority": 2, "similarity_top_k": 2}
    other.blocks.configure("turns", similarity_top_k=9)
    with pytest.raises(ConflictError, match="changed elsewhere since you opened it"):
        memory.blocks.configure("turns", opened=opened, similarity_top_k=3)
    memory.session.refresh()
    assert memory.blocks.settings("turns")["similarity_top_k"] == 9
    memory.blocks.configure("turns", opened={"priority": 2}, enabled=False)
    assert memory.blocks.settings("turns")["enabled"] is False


def test_of_priorities_made_from_what_is_no_longer_so_none_is_saved(memory, other):
    opened = {"rules": {"priority": 0}, "facts": {"priority": 1}, "turns": {"priority": 2}}
    other.blocks.configure("facts", priority=7)
    with pytest.raises(ConflictError):
        memory.blocks.configure_all({"facts": {"priority": 2}, "turns": {"priority": 1}}, opened=opened)
    assert priorities(memory) == [0, 7, 2]
    other.blocks.remove("facts")
    with pytest.raises(ConflictError, match='"facts" was removed elsewhere'):
        memory.blocks.configure_all({"turns": {"priority": 1}}, opened=opened)
    assert priorities(memory) == [0, 2]


def test_a_change_to_a_block_that_does_not_exist_is_told_so(memory):
    with pytest.raises(NotFoundError, match='no block called "nowhere"'):
        memory.blocks.configure("nowhere", priority=1)


def test_a_setting_that_came_with_a_later_version_has_its_default_and_can_be_changed(memory):
    from sqlalchemy import text

    with memory.session.database.write() as connection:
        old = '{"name": "turns", "priority": 2, "enabled": true}'
        connection.execute(text("update mi_block set settings = :s where name = 'turns'"), {"s": old})
    memory.session.refresh()
    assert memory.blocks.settings("turns")["similarity_top_k"] is None
    memory.blocks.configure("turns", opened={"similarity_top_k": None}, similarity_top_k=5)
    assert memory.blocks.settings("turns")["similarity_top_k"] == 5


# -- texts ----------------------------------------------------------------------------------------


def test_an_earlier_text_is_restored_as_a_new_revision(memory):
    memory.blocks.edit("rules", "be long")
    assert memory.blocks.restore("rules", 1, revision=2) == 3
    assert texts(memory) == [(1, "be brief"), (2, "be long"), (3, "be brief")]
    last = edits(memory)[-1]
    assert isinstance(last, BlockEdited)
    assert (last.restored, last.revision, memory.log.texts([last.after])[last.after]) == (1, 3, "be brief")


def test_the_text_it_has_already_is_no_new_revision(memory):
    assert memory.blocks.restore("rules", 1) == 1
    assert texts(memory) == [(1, "be brief")]


def test_a_revision_it_never_had_is_told_so(memory):
    with pytest.raises(NotFoundError, match='"rules" has no version 7'):
        memory.blocks.restore("rules", 7)


def test_neither_an_edit_nor_a_restore_overwrites_what_another_tab_wrote(memory, other):
    other.blocks.edit("rules", "theirs", revision=1)
    for change in (
        lambda: memory.blocks.edit("rules", "mine", revision=1),
        lambda: memory.blocks.restore("rules", 1, revision=1),
    ):
        with pytest.raises(ConflictError):
            change()
    assert texts(memory) == [(1, "be brief"), (2, "theirs")]


def test_an_edit_of_a_block_that_was_removed_does_not_land_in_its_namesake(memory, other):
    other.blocks.remove("rules")
    with pytest.raises(NotFoundError):
        memory.blocks.edit("rules", "mine", revision=1)
    other.blocks.add(StaticMemoryBlock(name="rules", static_content="another block"))
    with pytest.raises(ConflictError):
        memory.blocks.edit("rules", "mine", revision=1)
    assert texts(memory) == [(2, "another block")]


def test_only_a_static_block_has_a_text_to_restore(memory):
    with pytest.raises(ConfigError, match='the text of "facts" is learned'):
        memory.blocks.restore("facts", 1)


# -- what a block holds ---------------------------------------------------------------------------


def test_what_a_block_holds_is_counted(memory):
    for number in range(8):
        memory.put(note(number))
    archived = memory.session.status().archived_messages
    assert memory.blocks.holding("facts") == Holding(
        facts={"active": archived}, newest=f"note {archived - 1} was taken"
    )
    assert memory.blocks.holding("turns") == Holding(turns=archived)
    memory.blocks.edit("rules", "be long")
    assert memory.blocks.holding("rules") == Holding(texts=2)
    with pytest.raises(NotFoundError):
        memory.blocks.holding("nowhere")


def test_what_waits_for_a_block_is_counted_with_it():
    class Failing(Counter):
        async def _aput(self, messages):
            raise RuntimeError("no network")

    memory = open_memory(memory_blocks=[Failing(name="custom")], clock=Clock())
    for number in range(8):
        memory.put(note(number))
    due = len(memory.session.deliveries(states=("pending",)))
    assert memory.blocks.holding("custom") == Holding(waiting=due, flushes=due)
    assert memory.blocks.holding("custom").waiting > 0


def test_what_stays_of_a_removed_block_returns_with_its_name(memory):
    for number in range(8):
        memory.put(note(number))
    before = memory.blocks.holding("facts")
    memory.blocks.remove("facts")
    memory.blocks.remove("turns")
    memory.blocks.add(FactExtractionMemoryBlock(name="facts", llm=NoteExtractor()))
    memory.blocks.add(VectorMemoryBlock(name="turns", embed_model=HashEmbedder()))
    assert (memory.blocks.holding("facts"), memory.blocks.holding("turns")) == (before, Holding())


def test_an_order_made_in_the_app_stays_when_the_agent_joins_again_with_its_own():
    database = Database.open(None)

    def joined(*names):
        blocks = [StaticMemoryBlock(name=name, static_content=name, priority=1) for name in names]
        return Memory.from_defaults("one", memory_blocks=blocks, engine=database.engine)

    memory = joined("A", "B", "C")
    memory.blocks.order(["C", "A", "B"])
    assert [attached.name for attached in joined("A", "B", "C").blocks] == ["C", "A", "B"]
    again = joined("B", "A", "C")
    assert [attached.name for attached in again.blocks] == ["B", "A", "C"]
    assert [block.name for block in again.log.history().blocks_at(again.log.history().position)] == ["B", "A", "C"]

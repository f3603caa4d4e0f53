"""A conversation that comes with a state is a session in that state: nothing is played, and its log tells it all."""

import asyncio

from engine_fakes import assistant, open_memory, user
from llama_index.core.base.llms.types import ChatMessage as TheirMessage
from llama_index.core.memory import Memory as TheirMemory

from memory_core import ChatMessage, Database
from memory_core.services import Services
from memory_core.store.block_rows import TextOrigin
from memory_inspector.checks.simulation import rebuild
from memory_inspector.files.files import read_file
from memory_inspector.files.mirroring import MirroredBlock, TextVersion, aligned, mirror
from memory_inspector.files.stored import import_with_state


def standing(conversation, **given):
    return import_with_state(conversation, Database.open(None), services=Services(), source="a file", **given)


def places(memory):
    rebuilt = rebuild(memory.events(), lambda key: memory.log.texts([key]).get(key))
    stored = memory.session.messages()
    queue = [each.message.content for each in stored if each.status == "active"]
    archived = [each.message.content for each in stored if each.status == "archived"]
    assert [each.message.content for each in rebuilt.queue] == queue
    assert [each.message.content for each in rebuilt.archived] == archived
    return queue, archived


def their_table(tmp_path):
    path = tmp_path / "memory.db"
    theirs = TheirMemory.from_defaults(
        session_id="trip",
        token_limit=100,
        token_flush_size=20,
        chat_history_token_ratio=0.5,
        async_database_uri=f"sqlite+aiosqlite:///{path}",
    )

    async def talk():
        for n in range(8):
            await theirs.aput(TheirMessage(role="user", content=f"Question {n}: what is the tallest tower?"))
            await theirs.aput(TheirMessage(role="assistant", content=f"Answer {n}: another one, as before."))
        kept = [message.content for message in await theirs.sql_store.get_messages("trip", status=None)]
        active = [message.content for message in await theirs.aget()]
        await theirs.sql_store._async_engine.dispose()
        return kept, active

    kept, active = asyncio.run(talk())
    return read_file("memory.db", path.read_bytes()).conversation(), kept, active


def test_what_their_memory_had_archived_is_archived_and_its_queue_is_the_queue(tmp_path):
    conversation, kept, active = their_table(tmp_path)
    assert len(conversation.messages) == len(kept) > len(active) > 0
    memory = standing(conversation)
    queue, archived = places(memory)
    assert queue == active
    assert archived + queue == kept
    flushes = [record.event for record in memory.events(kinds=("flush_planned",))]
    assert [(flush.trigger, flush.rules, flush.messages) for flush in flushes] == [("elsewhere", (), len(archived))]


def test_its_blocks_learn_from_the_archive_if_they_are_asked_to(tmp_path):
    conversation, *_ = their_table(tmp_path)
    memory = standing(conversation)
    due = {delivery.block: delivery.messages for delivery in memory.session.deliveries(states=("pending",))}
    assert due
    assert set(due.values()) == {len(conversation.archived)}
    memory.deliver()
    assert not memory.session.deliveries(states=("pending", "parked"))
    untaught = standing(conversation, learn=False)
    assert not untaught.session.deliveries()


def mirrored(memory, messages, **given):
    changed = mirror(memory._session, messages, **given)
    memory.session.refresh()
    return changed


TALK = [ChatMessage(role="system", content="Be kind."), user("a"), assistant("b"), user("c"), assistant("d")]


def test_a_store_that_grew_is_followed_and_one_that_did_not_change_records_nothing():
    memory = open_memory(memory_blocks=[])
    assert mirrored(memory, TALK[:3])
    before = len(memory.events())
    assert not mirrored(memory, TALK[:3])
    assert len(memory.events()) == before
    assert mirrored(memory, TALK, archived={1, 2})
    assert places(memory) == (["Be kind.", "c", "d"], ["a", "b"])
    assert not mirrored(memory, TALK, archived={1, 2})
    assert [each.pinned for each in memory.session.messages()] == [True, False, False, False, False]


def test_what_a_store_no_longer_has_leaves_the_queue_and_stays_in_the_archive():
    memory = open_memory(memory_blocks=[])
    mirrored(memory, TALK, archived={1, 2})
    assert mirrored(memory, [TALK[0], TALK[4], user("e")])
    assert places(memory) == (["Be kind.", "d", "e"], ["a", "b"])


def test_every_version_of_a_text_is_there_with_its_time_and_its_author():
    memory = open_memory(memory_blocks=[])
    first, second = TextVersion("Lives in Ghent.", TextOrigin(1.6e9, "Ann: begin")), TextVersion("Lives in Lisbon.")
    block = MirroredBlock("human", (first, second), limit=2_000, read_only=False)
    assert mirrored(memory, [], blocks=[block])
    assert not mirrored(memory, [], blocks=[block])
    had = memory.blocks.revisions("human")
    assert [(each.text, each.note) for each in had] == [("Lives in Ghent.", "Ann: begin"), ("Lives in Lisbon.", None)]
    assert had[0].at == 1.6e9 < had[1].at
    assert (memory.blocks[0].state, memory.blocks[0].settings["limit"]) == ("Lives in Lisbon.", 2_000)
    third = TextVersion("Lives in Porto.", TextOrigin(1.7e9, "Ben: moved"))
    assert mirrored(memory, [], blocks=[MirroredBlock("human", (first, second, third), limit=100)])
    assert memory.blocks[0].state == "Lives in Porto."
    assert (memory.blocks[0].settings["limit"], memory.blocks[0].settings["read_only"]) == (100, True)
    assert mirrored(memory, [], blocks=[MirroredBlock("human", (first, second, third), limit=99)])
    branch = memory.branch(0)
    assert next((each.text, each.at) for each in branch.blocks.revisions("human")) == ("Lives in Ghent.", 1.6e9)
    assert mirrored(memory, [], blocks=[])
    assert len(memory.blocks) == 0


def test_a_list_that_lost_its_front_is_aligned_by_what_it_still_has():
    assert aligned("abcd", "cdx") == [2, 3, None]
    assert aligned("", "ab") == [None, None]
    assert aligned("aab", "aabb") == [0, 1, 2, None]

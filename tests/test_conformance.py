"""The conformance checks: our own parts keep their promises, and planted faults are each found by the right one."""

import json
import logging
import sqlite3
import subprocess
import sys
from collections import defaultdict
from contextlib import closing
from datetime import datetime

import numpy as np
import pytest
from llama_index.core.base.llms.types import ChatMessage as LlamaIndexMessage
from pydantic import Field, PrivateAttr

from memory_core import (
    BaseMemoryBlock,
    ChatMessage,
    Database,
    FactExtractionMemoryBlock,
    FormatError,
    GraphMemoryBlock,
    Memory,
    Services,
    StaticMemoryBlock,
    SummaryMemoryBlock,
    TextPart,
    VectorMemoryBlock,
)
from memory_core.blocks.base import Content, Item
from memory_core.events import Ref
from memory_core.formats.llamaindex_message import message_to_llamaindex
from memory_core.vectors.chroma import ChromaIndex
from memory_core.vectors.exact import ExactIndex
from memory_core.vectors.vector_index import Hit
from memory_inspector.adapters.llamaindex import InspectedMemory
from memory_inspector.checks import StoreItem, check_adapter, check_block, check_store_reader, check_vector_index
from memory_inspector.checks.promises import CORE, AdapterPromises, BlockPromises, IndexPromises, ReaderPromises
from memory_inspector.files.files import read_path
from memory_inspector.files.in_place import StoreFollower, open_store
from memory_inspector.files.mirroring import FACTS

slow = pytest.mark.slow

# -- our own parts ---------------------------------------------------------------------------------------

BLOCKS = {
    "static": lambda: StaticMemoryBlock(name="core", static_content="Be brief and kind. " * 9),
    "facts": lambda: FactExtractionMemoryBlock(name="facts"),
    "user's facts": lambda: FactExtractionMemoryBlock(name="facts", scope="user"),
    "summary": lambda: SummaryMemoryBlock(name="summary"),
    "graph": lambda: GraphMemoryBlock(name="graph"),
    "vector": lambda: VectorMemoryBlock(name="turns"),
    "each turn": lambda: FactExtractionMemoryBlock(name="facts", deliver_on="turn"),
    "at the end": lambda: Notes(deliver_on="session_end"),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind in ("static", "facts") else slow) for kind in BLOCKS]
)
def test_our_blocks_keep_their_promises(kind):
    result = check_block(BLOCKS[kind])
    assert result.subject == type(BLOCKS[kind]()).__name__
    assert len(result.passed) == len(promises(BlockPromises))


@pytest.mark.slow
def test_the_exact_scan_keeps_its_promises():
    assert len(check_vector_index(ExactIndex).passed) == len(promises(IndexPromises))


@slow
def test_chroma_keeps_its_promises_and_no_collection_of_the_check(tmp_path):
    assert check_vector_index(lambda: ChromaIndex(path=tmp_path / "chroma")).subject == "ChromaIndex"
    with closing(ChromaIndex(path=tmp_path / "chroma")) as index:
        index.check()
        assert index._place.client().count_collections() == 0


def write_messages(path, items):
    """Write LlamaIndex's table of messages."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "CREATE TABLE llama_index_memory (id INTEGER PRIMARY KEY, key, timestamp, role, status, data)"
        )
        for number, item in enumerate(items):
            text, role, time = item or ("", "user", 1.7e9 + number)
            data = json.dumps({"role": role, "blocks": [{"block_type": "text", "text": text}]}) if item else "{"
            row = int(1e9 * time), role, data
            connection.execute("INSERT INTO llama_index_memory VALUES (NULL, 'a', ?, ?, 'active', ?)", row)


def read_messages(path):
    conversation = read_path(path).conversation()
    times = [datetime.fromisoformat(message.additional_kwargs["time"]) for message in conversation.messages]
    items = [
        StoreItem(message.content, str(message.role), time.timestamp())
        for message, time in zip(conversation.messages, times, strict=True)
    ]
    return items, [f"message {skipped.index}: {skipped.reason}" for skipped in conversation.skipped]


def write_history(path, items):
    """Write Mem0's history of memories."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE history (id, memory_id, old_memory, new_memory, event)")
        for number, item in enumerate(items):
            connection.execute(
                "INSERT INTO history VALUES (?, ?, NULL, ?, 'ADD')", (number, f"m{number}", item and item.text)
            )


def read_history(path):
    """Read it as the app opens it in place."""
    database, services = Database.open(None), Services()
    [session] = open_store(path, database, services=services)
    follower = StoreFollower(database, services)
    follower.look()
    facts = Memory.open(session, database, services=services).facts.read(FACTS)
    return [StoreItem(fact.text) for fact in facts], [note for note in follower.notes.values() if note]


def test_the_reader_of_llamaindex_s_messages_keeps_its_promises():
    assert len(check_store_reader(read_messages, write_messages).passed) == len(promises(ReaderPromises))


@slow
def test_the_reader_of_mem0_s_memories_keeps_its_promises():
    assert check_store_reader(read_history, write_history, fields=["text"]).subject == "read_history"


class LlamaIndexAgent:
    """LlamaIndex's agent, as far as it uses its memory."""

    def __init__(self, memory):
        self.memory = InspectedMemory(memory)

    def put_messages(self, messages):
        self.memory.put_messages(
            [LlamaIndexMessage.model_validate(message_to_llamaindex(message)) for message in messages]
        )

    def get(self):
        return self.memory.get()


def test_the_adapter_for_llamaindex_keeps_its_promises():
    result = check_adapter(LlamaIndexAgent)
    assert result.subject == "LlamaIndexAgent"
    assert len(result.passed) == len(promises(AdapterPromises))


# -- planted faults --------------------------------------------------------------------------------------


class Notes(BaseMemoryBlock[str]):
    """Keeps what the user said: a block without a fault."""

    name: str = "notes"
    priority: int = 1
    notes: list[str] = Field(default_factory=list)

    async def _aget(self, messages=None, **kwargs):
        return "\n".join(self.notes)

    async def _aput(self, messages):
        self.notes += [message.content or "" for message in messages]


def shown(messages):
    return "\n".join(messages)


class LosesTheLast(Notes):
    async def _aput(self, messages):
        await super()._aput(messages[:-1])


class MixesUpTheOrder(Notes):
    async def _aput(self, messages):
        await super()._aput(messages[::-1])


class LosesWhatIsRepeated(Notes):
    """Takes a delivery for done before it is stored."""

    _done: set[str] = PrivateAttr(default_factory=set)

    async def _aput(self, messages, delivery_id):
        if delivery_id not in self._done:
            self._done.add(delivery_id)
            await super()._aput(messages)


class Doubles(Notes):
    """Keeps what it learned where a failed delivery leaves it."""

    _notes: list[str] = PrivateAttr(default_factory=list)

    async def _aget(self, messages=None, **kwargs):
        return "\n".join(self._notes)

    async def _aput(self, messages):
        self._notes += [message.content or "" for message in messages]


class SharesBetweenSessions(Notes):
    async def _aget(self, messages=None, **kwargs):
        return "\n".join(EVERYTHING)

    async def _aput(self, messages):
        EVERYTHING.extend(message.content or "" for message in messages)


EVERYTHING = []


class Grows(Notes):
    async def atruncate(self, content, tokens_to_truncate):
        return content + " and so on" * 9


class IsNotShortened(Notes):
    async def atruncate(self, content, tokens_to_truncate):
        return content


class RaisesWhenShortened(Notes):
    async def atruncate(self, content, tokens_to_truncate):
        raise IndexError("nothing to cut")


class RaisesInGet(Notes):
    async def _aget(self, messages=None, **kwargs):
        return self.notes[-1]


class ChangesWhenRead(Notes):
    _reads: list[int] = PrivateAttr(default_factory=list)

    async def _aget(self, messages=None, **kwargs):
        self._reads.append(1)
        return f"{len(self._reads)} reads"


class RaisesOnEmptyMessages(Notes):
    async def _aput(self, messages):
        assert all(message.content for message in messages), "a message has no text"
        await super()._aput(messages)


class ForgesMarkup(Notes):
    """Puts foreign text into the prompt as it is."""

    def read(self, reading, state):
        text = "\n".join(json.loads(state)["notes"]) if state else ""
        return Content(items=(Item(Ref.of("content", "x"), text, (TextPart(text=text),)),)) if text else Content()


class LosesSettings(Notes):
    def settings(self):
        return {name: value for name, value in super().settings().items() if name != "description"} | {"priority": 1}


class EndsTheProcess(Notes):
    async def _aget(self, messages=None, **kwargs):
        sys.exit("enough")


class MixesCollections(ExactIndex):
    def _copy(self, source):
        source.collection = "all"
        return super()._copy(source)


class WrongOrder(ExactIndex):
    def search(self, source, query, *, limit):
        return super().search(source, query, limit=limit)[::-1]


class WrongScores(ExactIndex):
    def search(self, source, query, *, limit):
        return [Hit(hit.number, hit.score / 2) for hit in super().search(source, query, limit=limit)]


class Approximate(ExactIndex):
    """Misses every tenth vector."""

    def search(self, source, query, *, limit):
        return [hit for hit in super().search(source, query, limit=limit + limit // 2) if hit.number % 10][:limit]


class KeepsDeleted(ExactIndex):
    def __init__(self):
        super().__init__()
        self.seen = defaultdict(dict)

    def search(self, source, query, *, limit):
        self.seen[source.collection] |= source.stored
        return super().search(type(source)(source.collection, dict(self.seen[source.collection])), query, limit=limit)


class TakesAnyDimension(ExactIndex):
    def search(self, source, query, *, limit):
        dimensions = {len(vector) for vector in source.stored.values()}
        fitting = type(source)(source.collection)
        fitting.add(*(np.resize(vector, max(dimensions)) for vector in source.stored.values()))
        return super().search(fitting, np.resize(np.nan_to_num(query), max(dimensions)), limit=max(1, limit))


class NeverForgets(ExactIndex):
    def forget(self, collection):
        pass


class AnswersFromItsFirstReading(ExactIndex):
    def search(self, source, query, *, limit):
        first = FIRST.setdefault(source.collection, type(source)(source.collection, dict(source.stored)))
        return super().search(first, query, limit=limit)


FIRST = {}


def sorts_backwards(path):
    items, problems = read_messages(path)
    return items[::-1], problems


def loses_times(path):
    items, problems = read_messages(path)
    return [item._replace(time=None) for item in items], problems


def writes_to_the_file(path):
    result = read_history(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE IF NOT EXISTS seen (id)")
    return result


def writes_beside_the_file(path):
    path.with_suffix(".lock").touch()
    return read_history(path)


def dies_on_a_bad_row(path):
    items, problems = read_messages(path)
    if problems:
        raise FormatError(problems[0])
    return items, problems


def skips_in_silence(path):
    return read_messages(path)[0], []


def raises_what_sqlite_raises(path):
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        rows = connection.execute("SELECT new_memory FROM history").fetchall()
    return [StoreItem(text) for (text,) in rows if text], [f"{text}" for (text,) in rows if not text]


class Raises:
    """A memory as it is, which raises when its database is away."""

    def __init__(self, memory):
        self.memory = memory

    def put_messages(self, messages):
        self.memory.put_messages(messages)

    def get(self):
        return self.memory.get()


class StoresTwice(LlamaIndexAgent):
    def put_messages(self, messages):
        super().put_messages([*messages, *messages])


class LosesCallIds(LlamaIndexAgent):
    def put_messages(self, messages):
        super().put_messages([ChatMessage(message.content, role=message.role) for message in messages])


class SendsNoMemory(LlamaIndexAgent):
    def get(self):
        return self.memory.get_all()


class StoresItsOwnMemory(LlamaIndexAgent):
    """Takes the tags off, so that nobody sees where the words come from."""

    def put_messages(self, messages):
        texts = [(message, (message.content or "").replace("<memory>\n", "")) for message in messages]
        super().put_messages([ChatMessage(text, role="user") if CORE in text else message for message, text in texts])


class LogsTheWords(LlamaIndexAgent):
    def put_messages(self, messages):
        logging.getLogger("agent").warning("storing %s", messages[0].content)
        super().put_messages(messages)


def faulty_block(make):
    return check_block(make, shows=shown)


def reader_of_messages(read):
    return check_store_reader(read, write_messages)


def reader_of_facts(read):
    return check_store_reader(read, write_history, fields=["text"])


Block, Index, Reader, Adapter = BlockPromises, IndexPromises, ReaderPromises, AdapterPromises
REPEATED = [Block.counts_a_repeated_delivery_once, Block.counts_a_delivery_once_that_was_not_stored]
FORGOTTEN = [Block.counts_a_delivery_once_after_a_restart, Block.survives_closing]
ESSENTIAL = (LosesTheLast, Doubles)
FAULTS = [
    (faulty_block, LosesTheLast, [Block.shows_what_it_learned]),
    (faulty_block, MixesUpTheOrder, [Block.shows_what_it_learned]),
    (faulty_block, LosesWhatIsRepeated, REPEATED),
    (faulty_block, Doubles, [*REPEATED, *FORGOTTEN]),
    (faulty_block, SharesBetweenSessions, [Block.keeps_sessions_apart]),
    (faulty_block, Grows, [Block.stays_within_its_grant]),
    (faulty_block, IsNotShortened, [Block.stays_within_its_grant]),
    (faulty_block, RaisesWhenShortened, [Block.stays_within_its_grant]),
    (faulty_block, RaisesInGet, [Block.reads_without_effect]),
    (faulty_block, EndsTheProcess, [Block.reads_without_effect]),
    (faulty_block, ChangesWhenRead, [Block.reads_without_effect]),
    (faulty_block, RaisesOnEmptyMessages, [Block.takes_odd_messages]),
    (faulty_block, ForgesMarkup, [Block.takes_odd_messages]),
    (faulty_block, LosesSettings, [Block.settings_come_back]),
    (check_vector_index, MixesCollections, [Index.keeps_collections_apart]),
    (check_vector_index, WrongOrder, [Index.ranks_like_the_exact_scan]),
    (check_vector_index, WrongScores, [Index.ranks_like_the_exact_scan]),
    (check_vector_index, KeepsDeleted, [Index.follows_its_source]),
    (check_vector_index, TakesAnyDimension, [Index.refuses_impossible_questions, Index.keeps_models_apart]),
    (check_vector_index, NeverForgets, [Index.forgets_collections]),
    (check_vector_index, AnswersFromItsFirstReading, [Index.follows_its_source, Index.reopens]),
    (reader_of_messages, sorts_backwards, [Reader.reads_items_once_in_order]),
    (reader_of_messages, loses_times, [Reader.reads_items_once_in_order]),
    (reader_of_messages, dies_on_a_bad_row, [Reader.names_unreadable_rows]),
    (reader_of_messages, skips_in_silence, [Reader.names_unreadable_rows]),
    (reader_of_facts, raises_what_sqlite_raises, [Reader.refuses_damaged_files, Reader.refuses_what_is_no_file]),
    (reader_of_facts, writes_to_the_file, [Reader.changes_nothing]),
    (reader_of_facts, writes_beside_the_file, [Reader.changes_nothing]),
    (check_adapter, StoresTwice, [Adapter.stores_messages_in_order]),
    (check_adapter, LosesCallIds, [Adapter.keeps_calls_with_results]),
    (check_adapter, SendsNoMemory, [Adapter.sends_the_prompt]),
    (check_adapter, StoresItsOwnMemory, [Adapter.stores_no_memory_section]),
    (check_adapter, Raises, [Adapter.goes_on_without_a_database]),
    (check_adapter, LogsTheWords, [Adapter.goes_on_without_a_database]),
]


def promises(kit):
    return [method.__doc__ for name, method in vars(kit).items() if callable(method) and not name.startswith("_")]


def broken(check, fault, **options):
    """The result of a check that fails."""
    with pytest.raises(AssertionError) as raised:
        check(fault, **options)
    return raised.value.args[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "fault", "expected"),
    [
        pytest.param(
            *row,
            marks=slow if row[0] in (faulty_block, reader_of_facts) and row[1] not in ESSENTIAL else [],
            id=row[1].__name__,
        )
        for row in FAULTS
    ],
)
def test_a_planted_fault_breaks_the_promises_that_it_concerns(check, fault, expected):
    EVERYTHING.clear()
    result = broken(check, fault)
    assert {promise.__doc__ for promise in expected} <= dict(result.failures).keys()
    assert result.passed, "it does not break all others"
    assert result.subject == fault.__name__


class CountsDeliveries(Notes):
    """Holds no fault, though what it shows depends on how messages are delivered."""

    async def _aput(self, messages):
        self.notes.append(f"{len(messages)} at once")


@slow
@pytest.mark.parametrize("make", [Notes, CountsDeliveries])
def test_a_block_without_a_fault_keeps_its_promises(make):
    assert check_block(make).failures == ()


@pytest.mark.slow
def test_an_index_is_held_to_the_recall_that_it_states():
    assert check_vector_index(Approximate, recall=0.8).failures == ()
    result = broken(check_vector_index, Approximate, recall=0.95)
    assert Index.ranks_like_the_exact_scan.__doc__ in dict(result.failures)


# -- the result ------------------------------------------------------------------------------------------


def test_a_result_is_printed_and_raised_with_a_line_for_every_broken_promise(capsys):
    result = broken(check_adapter, Raises)
    lines = str(result).splitlines()
    assert capsys.readouterr().out == f"{result}\n"
    assert lines[0] == "Raises: 4 passed, 1 failed"
    [(promise, happened)] = result.failures
    assert promise in lines[1]
    assert "closed" in happened
    assert happened in lines[1]


def test_whatever_a_checked_object_raises_is_a_failure_with_its_last_line():
    def fails():
        raise ZeroDivisionError("no such block\nat all")

    result = broken(check_block, fails)
    assert len(result.failures) == len(promises(Block))
    assert {happened for _, happened in result.failures} == {"It raised ZeroDivisionError: no such block at all."}


def test_a_check_can_be_interrupted():
    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check_store_reader(lambda path: interrupted(), write_messages)


@slow
def test_python_without_assertions_checks_nothing_and_says_so():
    program = "from memory_inspector.checks import check_vector_index as check; from memory_core.vectors.exact import *"
    ran = subprocess.run(
        [sys.executable, "-O", "-c", f"{program}; check(ExactIndex)"], capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 1
    assert "ConfigError" in ran.stderr

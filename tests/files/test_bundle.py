import io
import json
import random
import tracemalloc
import zipfile
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest
from copied_rows import as_tuples, plain, rows_of, words_of
from engine_fakes import (
    HashEmbedder,
    NoteExtractor,
    ShakyExtractor,
    assistant,
    blocks,
    note,
    on_file,
    open_memory,
    user,
)
from hypothesis import HealthCheck, given, settings
from session_script import ALL_STEPS, NoteRelations, Script
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from memory_core import (
    ConfigError,
    Database,
    FactExtractionMemoryBlock,
    FormatError,
    Memory,
    NotFoundError,
    Services,
    StaticMemoryBlock,
    VectorMemoryBlock,
    list_sessions,
)
from memory_core.blocks.graph import GraphMemoryBlock
from memory_core.bundles import archive, bundle, bundle_checks
from memory_core.bundles.bundle import blank_places, import_bundle, read_bundle, write_bundle
from memory_core.errors import StoreError
from memory_core.events import ModelCalled, UnknownEvent
from memory_core.messages import content_hash
from memory_core.planning import curation
from memory_core.store import writing
from memory_core.store.copying import session_copying as copying
from memory_core.store.copying.copies import FactCopy, MessageCopy, VectorCopy, WordsCopy
from memory_inspector.checks.simulation import rebuild
from memory_inspector.files.files import read_file

IMPORTED = ("session_imported",)


def services():
    return Services(embedder=HashEmbedder(), extractor=NoteExtractor())


def played(turns=14, **options):
    """A session with something of everything: facts that were edited, deliveries that failed, contexts, a recording."""
    memory = open_memory(
        memory_blocks=[StaticMemoryBlock(name="core", static_content="Be kind."), *blocks()],
        token_limit=60,
        title="Notes",
        **options,
    )
    memory.session.attach_recording([note(n) for n in range(30)], source="file")
    recording = memory.session.recording()
    for number in range(turns):
        memory.put(note(number), message_id=recording.message_id(number))
        memory.build_context(f"note {number}")
        memory.put(assistant(f"noted {number}"))
    desk = memory.facts.desk("facts")
    desk.apply(curation.edit(desk.facts()[0], "note 0 was lost"))
    desk.apply(curation.merge(desk.facts(("active",))[1:3], "notes 1 and 2 are one"))
    memory.blocks.edit("core", "Be brief.")
    return memory


def opened(memory, database=None, **options):
    """The same session from its bundle, in a database of its own."""
    database = database or Database.open()
    bundle = read_bundle(write_bundle(memory.session.database, memory.session_id), "notes.zip")
    session_id = import_bundle(database, bundle, **options)
    return Memory.open(session_id, database, services=services(), tokenizer_fn=str.split)


def refused(data, name="notes.zip"):
    with pytest.raises(FormatError) as error:
        read_bundle(data, name)
    return str(error.value)


def members_of(data):
    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        return {info.filename: packed.read(info) for info in packed.infolist()}


def packed(members, *, sealed=True):
    """A bundle of these members; `sealed` with the checksums that they have."""
    members = dict(members)
    if sealed:
        manifest = json.loads(members["manifest.json"])
        for name in manifest["members"]:
            lines = members[name].count(b"\n")
            manifest["members"][name] = {"sha256": sha256(members[name]).hexdigest(), "lines": lines}
        members["manifest.json"] = json.dumps(manifest).encode()
    return zipped(members)


def zipped(members):
    packing = archive.Packing()
    for name, data in members.items():
        packing.add(name, [data])
    return packing.packed()


def changed(data, member, change, *, line=0):
    """A bundle in which one line of one member is another, with the right checksums."""
    members = members_of(data)
    lines = members[member].splitlines()
    if isinstance(line, str):
        line = next(i for i, text in enumerate(lines) if line.encode() in text)
    value = json.loads(lines[line])
    change(value)
    lines[line] = json.dumps(value).encode()
    members[member] = b"".join(text + b"\n" for text in lines)
    return packed(members)


@pytest.fixture(scope="module")
def notes():
    memory = played()
    return write_bundle(memory.session.database, memory.session_id)


# -- there and back ------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_bundle_opens_again_as_the_same_session():
    memory = played()
    again = opened(memory)
    assert plain(rows_of(again), events=IMPORTED) == plain(rows_of(memory))
    assert words_of(rows_of(again)) == words_of(rows_of(memory))
    assert again.get() == memory.get()
    assert again.build_context("note 3").messages == memory.build_context("note 3").messages
    assert [r.candidates for r in searches(again)] == [renumbered(r, again, memory) for r in searches(memory)]


def searches(memory):
    return [record.event for record in memory.events(kinds=["retrieved"])]


def renumbered(event, again, memory):
    numbers = {
        old.number: new.number
        for old, new in zip(memory.retrieval.stored_turns("turns"), again.retrieval.stored_turns("turns"), strict=True)
    }
    return tuple((numbers[row[0]], *row[1:]) for row in event.candidates)


@pytest.mark.slow
def test_a_bundle_opens_beside_sessions_whose_numbers_it_would_take():
    database = Database.open()
    other = Memory.from_defaults("other", engine=database.engine, memory_blocks=blocks(), tokenizer_fn=str.split)
    for number in range(9):
        other.put(note(number))
    other.flush(all=True)
    before = plain(rows_of(other))
    memory = played()
    again = opened(memory, database)
    assert plain(rows_of(other)) == before
    assert plain(rows_of(again), events=IMPORTED) == plain(rows_of(memory))
    assert {fact.id for fact in again.facts.read("facts", states=None)}.isdisjoint(
        fact.id for fact in other.facts.read("facts", states=None)
    )


@pytest.mark.slow
def test_the_past_of_an_opened_bundle_can_be_seen_word_for_word():
    memory = played()
    again = opened(memory)
    for turn in (3, 9, 14):
        mine, theirs = memory.log.history().turns[turn], again.log.history().turns[turn]
        assert again.log.prompt(theirs.built).messages == memory.log.prompt(mine.built).messages
        assert (theirs.queue_tokens, theirs.facts_added, theirs.recalled) == (
            mine.queue_tokens,
            mine.facts_added,
            mine.recalled,
        )
    told = rebuild(again.events(), lambda key: again.log.texts([key]).get(key))
    assert [fact.text for fact in told.facts] == [fact.text for fact in again.facts.read("facts", states=None)]
    assert told.missing == ()
    assert again.branch(9).get_all() == memory.branch(9).get_all()


@pytest.mark.slow
def test_an_opened_bundle_goes_on():
    memory = played()
    again = opened(memory)
    assert again.session.recording().played == memory.session.recording().played == 14
    for number in range(14, 22):
        assert again.put(note(number)).flushed == memory.put(note(number)).flushed
    assert again.get_all() == memory.get_all()
    assert [f.text for f in again.facts.read("facts")] == [f.text for f in memory.facts.read("facts")]
    assert len(again.retrieval.stored_turns("turns")) == len(memory.retrieval.stored_turns("turns"))
    again.facts.desk("facts").undo()
    assert "note 0 was lost" in [fact.text for fact in again.facts.read("facts")]


def test_what_is_due_is_due_there_too():
    memory = open_memory(memory_blocks=[FactExtractionMemoryBlock(name="facts", llm=ShakyExtractor(lambda call: True))])
    for number in range(6):
        memory.put(note(number))
    again = opened(memory)
    assert [d.state for d in again.session.deliveries()] == ["pending"]
    again.deliver()
    assert [fact.text for fact in again.facts.read("facts")] == ["note 0 was taken", "note 1 was taken"]


@pytest.mark.slow
def test_a_bundle_of_an_earlier_turn_holds_nothing_that_came_later():
    memory = played()
    data = write_bundle(memory.session.database, memory.session_id, upto=memory.log.history().position_at(6))
    bundle = read_bundle(data, "notes.zip")
    assert (bundle.turns, bundle.messages) == (6, 12)
    words = [json.loads(line)["data"] for line in members_of(data)["words.jsonl"].splitlines()]
    assert any("noted 5" in text for text in words)
    assert not any("noted 6" in text or "Be brief" in text for text in words)


@pytest.mark.slow
def test_the_same_session_gives_the_same_bytes():
    memory = played()
    assert write_bundle(memory.session.database, memory.session_id) == write_bundle(
        memory.session.database, memory.session_id
    )


@pytest.mark.slow
def test_a_preview_says_what_the_bundle_holds(notes):
    bundle = read_bundle(notes, "folder/notes.zip")
    assert (bundle.title, bundle.user_id, bundle.turns, bundle.messages) == ("Notes", None, 14, 28)
    assert [block.name for block in bundle.blocks] == ["core", "facts", "turns", "counter"]
    assert bundle.token_limit == 60
    assert bundle.facts > 5
    assert bundle.stored_turns > 5
    assert bundle.tokens == 14 * 9
    assert 0 < bundle.queue_tokens < bundle.tokens
    assert bundle.warnings == ()


def test_importing_twice_gives_two_sessions(notes):
    database = Database.open()
    bundle = read_bundle(notes, "notes.zip")
    first, second = import_bundle(database, bundle), import_bundle(database, bundle, title="Again", user_id="ana")
    assert first != second
    assert {(s.title, s.user_id) for s in list_sessions(database)} == {("Notes", None), ("Again", "ana")}
    copies = [Memory.open(each, database, services=services(), tokenizer_fn=str.split) for each in (first, second)]
    assert plain(rows_of(copies[0]))["facts"] == plain(rows_of(copies[1]))["facts"]


def test_an_import_is_on_record(notes):
    database = Database.open()
    memory = Memory.open(import_bundle(database, read_bundle(notes, "notes.zip")), database, services=services())
    last = memory.events()[-1]
    assert (last.kind, last.actor, last.event.source, last.event.messages) == (
        "session_imported",
        "user",
        "notes.zip",
        28,
    )


def test_a_session_that_is_gone_has_no_bundle():
    with pytest.raises(NotFoundError):
        write_bundle(Database.open(), "nobody")


@pytest.mark.slow
def test_events_of_a_newer_version_travel_unchanged():
    memory = played(8)
    newer = {"kind": "dream_dreamt", "data": {"fact": 3, "of": ["f1", {"seq": 9}], "long": 0.1}}
    with memory.session.database.write() as connection:
        connection.exec_driver_sql(
            "INSERT INTO mi_event (session_id, turn, at, actor, kind, data) VALUES (?, 8, 5.0, 'agent', ?, ?)",
            (memory.session_id, newer["kind"], json.dumps(newer["data"])),
        )
    data = write_bundle(memory.session.database, memory.session_id)
    assert read_bundle(data, "n.zip").warnings == ("1 event is of a newer version and shown without details.",)
    again = opened(memory)
    event = next(r.event for r in again.events() if isinstance(r.event, UnknownEvent))
    assert event == UnknownEvent("dream_dreamt", {"fact": 3, "of": ("f1", {"seq": 9}), "long": 0.1})


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("facts_curated", {"action": "put", "newer": 1}),
        ("fact_dreamt", {"fact": [1]}),
        ("fact_dreamt", {"fact": {"a": 1}}),
        ("fact_dreamt", {"fact": "7"}),
        ("fact_decided", {"candidates": 3, "newer": 1, "fact": None}),
        ("context_built", {"newer": 1, "parts": 3}),
        ("fact_changed", {"newer": 1, "fact": None}),
        ("retrieved", {"newer": 1, "candidates": [9]}),
    ],
)
def test_an_event_of_a_newer_version_that_refers_to_something_unreadable_is_refused_in_a_sentence(notes, kind, data):
    def replaced(event):
        event.update(kind=kind, data=data)

    sentence = refused(changed(notes, "events.jsonl", replaced, line="context_built"))
    assert "events.jsonl" in sentence
    assert f"in a {kind}" in sentence


@pytest.mark.slow
def test_a_bundle_opens_on_a_file_too(tmp_path):
    memory = played(8)
    again = opened(memory, Database.open(on_file(tmp_path)))
    assert again.get() == memory.get()


@pytest.mark.slow
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(steps=ALL_STEPS)
def test_every_session_opens_again(steps):
    script = Script()
    for step in steps:
        script.do(step)
    memory = script.memory
    again = opened(memory)
    assert plain(rows_of(again), events=IMPORTED) == plain(rows_of(memory))
    assert words_of(rows_of(again)) == words_of(rows_of(memory))
    middle = memory.log.history().position_at(memory.log.history().latest_turn // 2)
    assert read_bundle(write_bundle(memory.session.database, memory.session_id, upto=middle), "n.zip").events <= len(
        memory.events()
    )
    again.put(note(1000))


# -- graphs ----------------------------------------------------------------------------------------


def related():
    """A session with a graph: learned, renamed, merged, ended, undone."""
    memory = open_memory(memory_blocks=[GraphMemoryBlock(name="graph", llm=NoteRelations()), *blocks()[:1]])
    for number in range(10):
        memory.put(note(number))
        memory.build_context(f"note {number}")
    desk = memory.blocks.graph()
    desk.rename(desk.entity("Note 1"), "The first", aliases=["Number one"])
    desk.merge([desk.entity("Note 3"), desk.entity("Note 2")], desk.entity("Note 2"))
    desk.end(desk.relations("Note 4", ended=False)[:1])
    desk.add("Ana", "wrote", "Note 5", ("person", "thing"))
    desk.retire(desk.relations("Ana"))
    desk.undo()
    return memory


@pytest.fixture(scope="module")
def graphs():
    memory = related()
    return write_bundle(memory.session.database, memory.session_id)


def told(memory):
    graph = memory.blocks.graph("graph").graph()
    return [
        (graph.describe(each), each.state, each.version, len(each.sources), each.ended_by is None)
        for _, each in sorted(graph.relations.items())
    ], [(each.name, each.aliases, each.state, each.type) for _, each in sorted(graph.entities.items())]


@pytest.mark.slow
def test_a_graph_opens_again_beside_another_one_and_goes_on():
    memory = related()
    again = opened(memory, memory.session.database)
    assert plain(rows_of(again), events=IMPORTED) == plain(rows_of(memory))
    assert told(again) == told(memory)
    assert set(again.blocks.graph().graph().relations).isdisjoint(memory.blocks.graph().graph().relations)
    assert again.build_context("Ana").messages == memory.build_context("Ana").messages
    sentences = [change.sentence for change in memory.blocks.graph().changes()]
    assert [change.sentence for change in again.blocks.graph().changes()] == sentences
    assert again.blocks.graph().undo().sentence == memory.blocks.graph().undo().sentence
    assert told(again) == told(memory)
    for session in (memory, again):
        for number in range(10, 14):
            session.put(note(number))


@pytest.mark.slow
def test_a_graph_of_an_earlier_turn_holds_nothing_that_came_later():
    memory = related()
    data = write_bundle(memory.session.database, memory.session_id, upto=memory.log.history().position_at(6))
    bundle = read_bundle(data, "notes.zip")
    assert 0 < bundle.entities < len(memory.blocks.graph().graph().entities)
    assert not any(b"Ana" in member or b"The first" in member for member in members_of(data).values())


def as_version_1(data):
    """What the version before graphs and topics wrote of a session that has neither."""
    members = members_of(data)
    for name in ("entities.jsonl", "relations.jsonl"):
        assert members.pop(name) == b""
    facts = [json.loads(line) for line in members["facts.jsonl"].splitlines()]
    for fact in facts:
        assert fact.pop("topics") == []
        for revision in fact["revisions"]:
            assert (revision.pop("topics"), revision.pop("category")) == ([], "other")
    members["facts.jsonl"] = b"".join(json.dumps(fact).encode() + b"\n" for fact in facts)
    members["events.jsonl"] = members["events.jsonl"].replace(b',"topics":[]', b"")
    manifest = json.loads(members["manifest.json"])
    manifest["version"] = 1
    manifest["members"] = {name: value for name, value in manifest["members"].items() if name in members}
    return packed({**members, "manifest.json": json.dumps(manifest).encode()})


def test_a_bundle_of_version_1_opens(notes):
    bundle, whole = read_bundle(as_version_1(notes), "old.zip"), read_bundle(notes, "notes.zip")
    assert (bundle.facts, bundle.messages, bundle.entities) == (whole.facts, whole.messages, 0)
    database = Database.open()
    memory = Memory.open(import_bundle(database, bundle), database, services=services(), tokenizer_fn=str.split)
    desk = memory.facts.desk("facts")
    assert {fact.topics for fact in desk.facts()} == {()}
    desk.undo()
    memory.put(note(50))


def test_a_bundle_of_this_version_has_all_members(graphs):
    members = members_of(graphs)
    del members["relations.jsonl"]
    assert refused(zipped(members)) == ("notes.zip is not complete: the relations are missing. Nothing was imported.")


def set_to(**values):
    return lambda row: row.update(values)


def in_data(**values):
    return lambda row: row["data"].update(values)


def in_after(**values):
    return lambda row: row["data"]["after"].update(values)


WRONG_GRAPHS = {
    "an entity in no state": ("entities.jsonl", set_to(state="asleep"), 0),
    "an entity of no type": ("entities.jsonl", set_to(type="wizard"), 0),
    "an entity without words": ("entities.jsonl", set_to(name="0" * 32), 0),
    "an alias without words": ("entities.jsonl", set_to(aliases=["0" * 32]), 0),
    "an alias that is no mark": ("entities.jsonl", set_to(aliases=["Ana"]), 0),
    "one number twice": ("entities.jsonl", lambda row: row.update(id=row["id"] + 1), 0),
    "merged into nothing": ("entities.jsonl", set_to(state="merged"), 0),
    "merged and active": ("entities.jsonl", lambda row: row.update(merged_into=row["id"] + 1), 0),
    "merged into nobody": ("entities.jsonl", set_to(state="merged", merged_into=99999), 0),
    "merged into itself": ("entities.jsonl", lambda row: row.update(state="merged", merged_into=row["id"]), 0),
    "an entity of version 0": ("entities.jsonl", set_to(version=0), 0),
    "a relation in no state": ("relations.jsonl", set_to(state="maybe"), 0),
    "a relation of nobody": ("relations.jsonl", set_to(subject=99999), 0),
    "a relation of another block": ("relations.jsonl", set_to(block="elsewhere"), 0),
    "a relation to itself": ("relations.jsonl", lambda row: row.update(object=row["subject"]), 0),
    "a relation without words": ("relations.jsonl", set_to(predicate="0" * 32), 0),
    "a relation from nowhere": ("relations.jsonl", set_to(sources=[4000]), 0),
    "one source twice": ("relations.jsonl", set_to(sources=[1, 1]), 0),
    "ended by nobody": ("relations.jsonl", set_to(state="ended", ended_by=99999), 0),
    "ended by itself": ("relations.jsonl", lambda row: row.update(ended_by=row["id"]), 0),
    "an entity there never was": ("events.jsonl", in_data(entity=77777), "entity_changed"),
    "a relation there never was": ("events.jsonl", in_data(relation=77777), "relation_ended"),
    "a relation of entities there never were": ("events.jsonl", in_data(subject=77777), "relation_added"),
    "a merge into nobody": ("events.jsonl", in_after(merged_into=77777), "entity_changed"),
    "a change of everything": ("events.jsonl", in_after(id=3), "entity_changed"),
    "a name that is no mark": ("events.jsonl", in_after(name="Ana"), "entity_changed"),
    "a change of sources to come": ("events.jsonl", in_after(sources=[[1, 9999]]), "relation_changed"),
    "a state that is a list": ("events.jsonl", in_after(state=["active"]), "relation_changed"),
    "a change that is none": ("events.jsonl", in_data(after=3), "relation_changed"),
    "a change set of nobody": ("events.jsonl", in_data(entities=[[77777, 1, 2]]), "graph_curated"),
}


@pytest.mark.parametrize("what", WRONG_GRAPHS)
def test_graphs_that_do_not_fit_are_refused_in_one_sentence(graphs, what):
    member, change, line = WRONG_GRAPHS[what]
    said = refused(changed(graphs, member, change, line=line))
    assert said.startswith("notes.zip cannot be opened: ")
    assert "\n" not in said
    assert len(said) < 400


def test_what_ended_a_relation_may_have_been_forgotten_since(graphs):
    members = members_of(graphs)
    rows = [json.loads(line) for line in members["relations.jsonl"].splitlines()]
    gone = rows.pop()["id"]
    rows[0] |= {"state": "ended", "ended_turn": 3, "ended_by": gone}
    members["relations.jsonl"] = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    database = Database.open()
    session_id = import_bundle(database, read_bundle(packed(members), "notes.zip"))
    assert read_bundle(write_bundle(database, session_id), "again.zip").relations == len(rows)
    with database.read() as connection:
        ended = connection.exec_driver_sql("SELECT ended_by FROM mi_relation WHERE state = 'ended'").scalars().all()
        assert any(number is not None for number in ended)


def test_a_circle_of_merged_entities_is_refused(graphs):
    members = members_of(graphs)
    rows = [json.loads(line) for line in members["entities.jsonl"].splitlines()]
    for place in range(3):
        rows[place] |= {"state": "merged", "merged_into": rows[(place + 1) % 3]["id"]}
    members["entities.jsonl"] = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    assert "is merged into itself" in refused(packed(members))


# -- the user's facts ----------------------------------------------------------------------------


def of_sam(database=None, session_id="s", turns=8):
    memory = Memory.from_defaults(
        session_id,
        user_id="sam",
        engine=database.engine if database else None,
        memory_blocks=[FactExtractionMemoryBlock(name="facts", scope="user")],
        services=services(),
        tokenizer_fn=str.split,
        token_limit=40,
        token_flush_size=14,
    )
    for number in range(turns):
        memory.put(note(number))
        memory.build_context("note")
    return memory


def test_facts_of_the_user_come_along_to_another_database():
    memory = of_sam()
    again = opened(memory)
    assert [f.text for f in again.facts.read("facts")] == [f.text for f in memory.facts.read("facts")]
    assert plain(rows_of(again), events=IMPORTED) == plain(rows_of(memory))
    assert again.get() == memory.get()


def test_facts_that_the_user_has_are_left_as_they_are():
    memory = of_sam()
    fact = memory.facts.read("facts")[0]
    memory.facts.desk("facts").apply(curation.reject([fact], "wrong"))
    data = write_bundle(memory.session.database, memory.session_id)
    before = memory.facts.read("facts", states=None)
    memory.facts.desk("facts").apply(curation.restore([memory.facts.read("facts", states=["rejected"])[0]]))
    here = memory.facts.read("facts", states=None)
    session_id = import_bundle(memory.session.database, read_bundle(data, "n.zip"))
    again = Memory.open(session_id, memory.session.database, services=services(), tokenizer_fn=str.split)
    assert memory.facts.read("facts", states=None) == again.facts.read("facts", states=None) == here != before
    assert again.events(kinds=["fact_added", "fact_rejected", "facts_curated"]) == []
    built = again.log.history().turns[8].built
    assert again.log.prompt(built).messages == memory.log.prompt(memory.log.history().turns[8].built).messages


def test_facts_of_the_user_learned_later_are_not_in_a_bundle_of_an_earlier_turn():
    memory = of_sam()
    data = write_bundle(memory.session.database, memory.session_id, upto=memory.log.history().position_at(5))
    told = memory.log.history().upto(memory.log.history().position_at(5))
    assert read_bundle(data, "n.zip").user_facts == sum(record.kind == "fact_added" for record in told)
    assert len(memory.facts.read("facts")) > read_bundle(data, "n.zip").user_facts > 0


@pytest.mark.slow
def test_what_was_held_back_from_the_user_comes_along():
    memory = of_sam()
    desk = memory.facts.desk("facts")
    desk.apply(curation.reject([desk.facts()[0]], "wrong"))
    for number in (0, 50, 51, 52, 53, 54):
        memory.put(note(number))
    assert [held.draft.text for held in desk.held_back()] == ["note 0 was taken"]
    assert [held.draft.text for held in opened(memory).facts.desk("facts").held_back()] == ["note 0 was taken"]
    assert opened(memory, user_facts=False).facts.desk("facts").held_back() == []


def test_facts_of_the_user_can_be_left_out():
    memory = of_sam()
    again = opened(memory, user_facts=False)
    assert again.facts.read("facts", states=None) == []
    assert again.events(kinds=["fact_added"]) == []
    with again.session.database.read() as connection:
        scopes = connection.exec_driver_sql("SELECT DISTINCT scope FROM mi_content").scalars().all()
    assert scopes == [f"session:{again.session_id}"]
    again.put(note(50))


def test_no_other_session_of_the_user_is_named():
    first = of_sam(session_id="private-session")
    second = of_sam(first.session.database, session_id="second", turns=0)
    second.put(note(60))
    data = write_bundle(second.session.database, "second")
    assert read_bundle(data, "n.zip").user_facts == len(first.facts.read("facts"))
    assert b"private-session" not in b"".join(members_of(data).values())


def test_a_session_with_a_users_block_needs_a_user():
    memory = of_sam()
    bundle = read_bundle(write_bundle(memory.session.database, memory.session_id), "n.zip")
    with pytest.raises(ConfigError, match="belongs to the user"):
        import_bundle(Database.open(), bundle, user_id=None)
    database = Database.open()
    again = Memory.open(
        import_bundle(database, bundle, user_id="ana"), database, services=services(), tokenizer_fn=str.split
    )
    assert [fact.scope for fact in again.facts.read("facts")][:1] == ["user:ana"]


# -- nothing of this machine ---------------------------------------------------------------------


@pytest.mark.parametrize(("stored", "read"), [(12.0, 12), ("12", 12), (0.5, None)])
def test_a_bundle_of_a_time_when_tokens_were_stored_as_an_endpoint_wrote_them_opens(stored, read):
    memory = open_memory(memory_blocks=blocks())
    memory.put(note(1))
    memory.log.record(ModelCalled("reply", "m", stored, 7, 0.1, None))
    assert memory.events(kinds=["model_called"])[-1].event.input_tokens == read
    again = opened(memory)
    assert again.events(kinds=["model_called"])[-1].event.input_tokens == read


def test_no_place_of_this_machine_is_in_a_bundle(tmp_path):
    uri = on_file(tmp_path)
    memory = open_memory(database_uri=uri, memory_blocks=blocks())
    for number in range(6):
        memory.put(note(number))
    quoted = f"The database at {uri} is away, see {tmp_path}/trace.log or postgresql://sam:secret@db/x"
    memory.log.record(ModelCalled("reply", "m", None, None, 0.1, None, error=quoted))
    data = write_bundle(memory.session.database, memory.session_id)
    everything = b"".join(members_of(data).values()).decode()
    assert str(tmp_path) not in everything
    assert "secret" not in everything
    assert "sqlite:" not in everything
    error = opened(memory).events(kinds=["model_called"])[-1].event.error
    assert error == "The database at (address) is away, see (path) or (address)"


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        ("Chroma in /var/lib/.memory-inspector/chroma", "Chroma in (path)"),
        (r"cannot open D:\data\sam\memory.db now", "cannot open (path) now"),
        ("nothing answers at http://localhost:8000/v1", "nothing answers at (address)"),
        ("ValueError: 3/4 and/or 1/2 of 20 km/h", "ValueError: 3/4 and/or 1/2 of 20 km/h"),
    ],
)
def test_places_are_blanked_in_what_errors_quote(sentence, shown):
    assert blank_places(sentence) == shown


# -- hostile files -------------------------------------------------------------------------------


def test_a_bundle_that_is_cut_off_says_what_is_missing(notes):
    start = notes.index(b"events.jsonl")
    assert refused(notes[: start + 40]) == (
        "notes.zip is cut off: the manifest and the events are missing. Nothing was imported."
    )
    words = notes.index(b"words.jsonl")
    assert refused(notes[: words + 40]) == (
        "notes.zip is cut off: the manifest, the words and the events are missing. Nothing was imported."
    )
    assert refused(notes[:-30]) == "notes.zip is cut off: its end is missing. Nothing was imported."
    assert refused(notes[:60]) == "notes.zip is not a conversation: it is a damaged zip archive. Nothing was imported."


@pytest.mark.slow
def test_no_cut_and_no_flipped_byte_gets_through(notes):
    whole = as_tuples(read_bundle(notes, "notes.zip").rows)
    for end in range(10, len(notes), 997):
        assert refused(notes[:end]).endswith("Nothing was imported.")
    for place in range(0, len(notes), 499):
        damaged = bytearray(notes)
        damaged[place] ^= 0x41
        try:
            rows = as_tuples(read_bundle(bytes(damaged), "notes.zip").rows)
        except FormatError:
            continue
        assert rows == whole  # a byte that says nothing of the content: a time, for example


def test_a_missing_member_is_named(notes):
    members = members_of(notes)
    del members["vectors.jsonl"]
    assert refused(zipped(members)) == (
        "notes.zip is not complete: the stored turns are missing. Nothing was imported."
    )


def test_a_changed_member_is_noticed(notes):
    members = members_of(notes)
    members["messages.jsonl"] = members["messages.jsonl"].replace(b'"turn":1', b'"turn":2', 1)
    assert refused(packed(members, sealed=False)) == (
        "notes.zip is damaged: the messages were changed since it was written. Nothing was imported."
    )


def test_a_zip_of_something_else_is_said_to_be_one():
    assert refused(zipped({"photo.png": b"..."})) == (
        "notes.zip is not a conversation: it is a zip archive, but not a bundle of Memory Inspector. "
        "Nothing was imported."
    )
    assert "but not a bundle" in refused(packed_manifest({"format": "chrome-extension"}))
    assert "its manifest cannot be read" in refused(packed_manifest("{"))
    assert "its manifest is wrong" in refused(packed_manifest({"format": "memory-inspector-session", "version": 1}))


def packed_manifest(manifest):
    memory = open_memory()
    members = members_of(write_bundle(memory.session.database, memory.session_id))
    members["manifest.json"] = (manifest if isinstance(manifest, str) else json.dumps(manifest)).encode()
    return zipped(members)


def test_a_newer_bundle_asks_for_a_newer_program():
    assert refused(packed_manifest({"format": "memory-inspector-session", "version": 3})) == (
        "notes.zip was written by a newer Memory Inspector (bundle version 3; this one reads up to 2). "
        "Update Memory Inspector. Nothing was imported."
    )


def test_jsonl_by_the_name_of_a_bundle_is_no_bundle():
    assert "damaged zip archive" in refused(b'{"role": "user", "content": "Hello"}\n')


def test_a_zip_bomb_is_not_unpacked(notes, monkeypatch):
    members = members_of(notes)
    members["words.jsonl"] = b" " * 3_000_000
    bomb = packed(members)
    assert len(bomb) < 200_000
    monkeypatch.setattr(archive, "SMALL_BYTES", 2_000_000)
    monkeypatch.setattr(archive, "MAX_TIMES", 20)
    assert refused(bomb) == "notes.zip unpacks to more than 1 MB, which is the most. Nothing was imported."


def test_an_archive_that_lies_about_its_size_is_stopped_while_it_is_read(notes, monkeypatch):
    members = members_of(notes)
    size = len(members["words.jsonl"]) + 3_000_000
    members["words.jsonl"] += b" " * 3_000_000
    data = packed(members)
    lying = data.replace(size.to_bytes(4, "little"), (10).to_bytes(4, "little"))
    monkeypatch.setattr(archive, "MAX_UNPACKED_BYTES", 2_000_000)
    assert refused(lying).endswith("Nothing was imported.")


def test_a_line_without_an_end_is_not_read_whole(notes, monkeypatch):
    members = members_of(notes)
    members["words.jsonl"] = b" " * 3_000_000
    monkeypatch.setattr(archive, "MAX_LINE_BYTES", 1_000_000)
    assert "unpacks to more than" in refused(packed(members))


def test_a_line_of_more_values_than_are_read_is_refused_before_it_is_parsed(notes):
    members = members_of(notes)
    members["session.jsonl"] = b'{"a": [' + b"{}," * 1_050_000 + b"{}]}\n"
    assert refused(packed(members)).startswith("notes.zip holds more than 1,048,576 items")


def test_after_a_wrong_line_the_others_are_counted_as_bytes_and_not_as_lines(notes, monkeypatch):
    monkeypatch.setattr(archive, "MAX_LINES", 100)
    members = members_of(notes)
    members["session.jsonl"] = b"\n" * 1_000
    assert "line 1 of session.jsonl is wrong" in refused(packed(members))


@pytest.mark.slow
def test_what_is_exported_opens_again_at_any_size():
    chance = random.Random(5)
    memory = open_memory("large", token_limit=1_000_000)
    memory.put_messages([user(chance.randbytes(45_000).hex()) for _ in range(500)])
    data = write_bundle(memory.session.database, "large")
    assert len(data) > 21 * 1024 * 1024, "larger than any other file that is imported"
    found = read_file("large.zip", data).bundle
    assert found.messages == 500
    again = Memory.open(import_bundle(memory.session.database, found), memory.session.database, services=services())
    assert again.get_all() == memory.get_all()


def peak_of(work):
    """The most memory that Python held meanwhile, and what the work gave."""
    tracemalloc.start()
    try:
        made = work()
        return tracemalloc.get_traced_memory()[1], made
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_a_bundle_of_a_longer_session_takes_no_more_memory(monkeypatch):
    for module, size in (
        (writing, "PIECE"),
        (copying, "PIECE"),
        (copying, "READ_AT_ONCE"),
        (bundle, "LINES_AT_ONCE"),
    ):
        monkeypatch.setattr(module, size, 50)
    peaks = []
    for messages in (150, 450):
        memory = open_memory("long", token_limit=1_000_000)
        memory.put_messages([user(f"{number} " + "x" * 20_000) for number in range(messages)])
        exporting, data = peak_of(lambda memory=memory: write_bundle(memory.session.database, "long"))
        reading, found = peak_of(lambda data=data: read_bundle(data, "long.zip"))
        database = Database.open()
        storing, _ = peak_of(lambda found=found, database=database: import_bundle(database, found))
        assert found.messages == messages
        peaks.append((exporting, reading, storing))
    fewer, more = peaks
    assert all(of_more < 1.5 * of_fewer for of_fewer, of_more in zip(fewer, more, strict=True)), peaks


def test_rows_that_were_checked_are_stored_as_they_were_read(notes, monkeypatch):
    found = read_bundle(notes, "notes.zip")
    made = []
    copy, event_of = copying._copy, copying._event_of
    monkeypatch.setattr(copying, "_copy", lambda kind, *row, **more: made.append(kind) or copy(kind, *row, **more))
    monkeypatch.setattr(copying, "_event_of", lambda row: made.append(row.kind) or event_of(row))
    import_bundle(Database.open(), found)
    assert FactCopy in made
    assert "fact_added" in made
    assert not {MessageCopy, VectorCopy, WordsCopy, "message_added"}.intersection(made)


@pytest.mark.slow
def test_of_each_message_little_is_in_memory_while_a_bundle_is_opened(monkeypatch):
    monkeypatch.setattr(bundle, "LINES_AT_ONCE", 25)
    peaks = []
    for messages in (200, 1_000):
        memory = open_memory("long", memory_blocks=[VectorMemoryBlock(name="turns", priority=1)], token_limit=100)
        for start in range(0, messages, 50):
            memory.put_messages([note(number) for number in range(start, start + 50)])
            memory.build_context("note 3")
        data = write_bundle(memory.session.database, "long")
        read_bundle(data, "long.zip")  # what is made once for all bundles does not count
        peak, found = peak_of(lambda data=data: read_bundle(data, "long.zip"))
        assert found.messages == found.turns == messages
        assert found.stored_turns > 0.9 * messages
        peaks.append(peak)
    fewer, more = peaks
    assert (more - fewer) / 800 < 250, "bytes for each message: numbers, not its events"


@pytest.mark.slow
def test_a_session_that_no_bundle_can_hold_is_refused_when_it_is_exported(monkeypatch):
    memory = played()
    monkeypatch.setattr(bundle, "MAX_BYTES", 1_000)
    with pytest.raises(FormatError, match="too large for a bundle"):
        write_bundle(memory.session.database, memory.session_id)


def test_too_many_members_are_refused(notes):
    members = members_of(notes) | {f"extra{n}": b"" for n in range(100)}
    assert refused(packed(members)) == "notes.zip holds 111 files. A bundle has 11. Nothing was imported."


def test_paths_of_members_do_not_matter(notes, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    members = members_of(notes) | {"../../evil.txt": b"evil", "/etc/evil": b"evil"}
    assert read_bundle(packed(members), "notes.zip").messages == 28
    assert list(tmp_path.iterdir()) == []
    moved = {f"../{name}": data for name, data in members_of(notes).items()}
    assert "not a bundle" in refused(zipped(moved))


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
def test_a_member_that_is_there_twice_is_refused(notes):
    file = io.BytesIO(notes)
    with zipfile.ZipFile(file, "a") as again:
        again.writestr("events.jsonl", b"")
    assert refused(file.getvalue()) == "notes.zip is damaged: it holds the same file twice. Nothing was imported."


def with_settings(row):
    row["config"]["token_limit"] = -5


WRONG = {
    "text for a number": ("messages.jsonl", set_to(tokens="many"), 0),
    "a giant number": ("messages.jsonl", set_to(tokens=10**30), 0),
    "a negative number": ("messages.jsonl", set_to(turn=-1), 0),
    "a field too many": ("messages.jsonl", set_to(extra=1), 0),
    "no such status": ("messages.jsonl", set_to(status="lost"), 0),
    "no such role": ("messages.jsonl", set_to(role="wizard"), 0),
    "words that are missing": ("messages.jsonl", set_to(content="0" * 32), 0),
    "a place there never was": ("messages.jsonl", set_to(seq=5000), 27),
    "messages out of order": ("messages.jsonl", set_to(seq=9), 0),
    "one id twice": ("messages.jsonl", lambda row: row.update(id=f"{row['id'][:16]}-0"), 2),
    "a flush there never was": ("messages.jsonl", set_to(flush=900), 0),
    "an archived message of no flush": ("messages.jsonl", set_to(flush=None), 0),
    "calls that are none": ("messages.jsonl", set_to(calls="{"), 0),
    "impossible settings": ("session.jsonl", with_settings, 0),
    "settings of another kind": ("session.jsonl", set_to(config={"no_such": 1}), 0),
    "no recording": ("session.jsonl", set_to(recording="0" * 32), 0),
    "a longer log": ("session.jsonl", set_to(next_seq=100), 0),
    "a block of impossible settings": ("blocks.jsonl", lambda row: row["settings"].update(priority=-1), 0),
    "a block without its text": ("blocks.jsonl", set_to(text="0" * 32), 0),
    "a block without its maker": ("blocks.jsonl", set_to(constructor='{"state": 3}'), 0),
    "a user's block and no user": ("blocks.jsonl", lambda row: row["settings"].update(scope="user"), 1),
    "two blocks of one name": ("blocks.jsonl", set_to(name="facts"), 2),
    "a fact in no state": ("facts.jsonl", set_to(state="maybe"), 0),
    "a fact without words": ("facts.jsonl", set_to(content="0" * 32), 0),
    "a fact without history": ("facts.jsonl", set_to(revisions=[]), 0),
    "a fact from nowhere": ("facts.jsonl", set_to(sources=[4000]), 0),
    "a fact of nobody": ("facts.jsonl", set_to(owner="user"), 0),
    "a number too large": ("facts.jsonl", set_to(id=2**63), 0),
    "a vector of nothing": ("vectors.jsonl", set_to(embedding=""), 0),
    "a vector that is none": ("vectors.jsonl", set_to(embedding="AAAAAAAA"), 0),
    "a stored turn of nothing": ("vectors.jsonl", set_to(seqs=[]), 0),
    "a stored turn backwards": ("vectors.jsonl", set_to(seqs=[[4, 2]]), 0),
    "a stored turn of giant length": ("vectors.jsonl", set_to(seqs=[[1, 2**31]]), 0),
    "a delivery of nothing": ("deliveries.jsonl", set_to(last_seq=4000), 0),
    "words under another mark": ("words.jsonl", set_to(data="forged"), 0),
    "words with NUL": ("words.jsonl", set_to(data="a\x00b"), 0),
    "an event of another form": ("events.jsonl", in_data(seq="one"), "message_added"),
    "an event without its fields": ("events.jsonl", set_to(data={"seq": 1}), "message_added"),
    "an event out of order": ("events.jsonl", in_data(seq=7), "message_added"),
    "an event of nobody": ("events.jsonl", set_to(actor="ghost"), "message_added"),
    "a flush of messages to come": ("events.jsonl", in_data(seqs=[[1, 9999]]), "flush_planned"),
    "a flush of endless messages": ("events.jsonl", in_data(seqs=[[1, 10**15]]), "flush_planned"),
    "a flush of a list": ("events.jsonl", in_data(seqs="all"), "flush_planned"),
    "a delivery there never was": ("events.jsonl", in_data(deliveries=[77777]), "delivery_done"),
    "facts there never were": ("events.jsonl", in_data(fact=77777), "fact_changed"),
    "stored turns there never were": ("events.jsonl", in_data(candidates=[[9999, 1.0, 1.0, 1.0, "x"]]), "retrieved"),
    "a number that is none": ("events.jsonl", in_data(tokens=float("nan")), "message_added"),
    "a number beyond all": ("events.jsonl", in_data(tokens=2**70), "message_added"),
    "refs that are none": ("events.jsonl", in_data(parts=[{"refs": ["f-"]}]), "context_built"),
    "endless refs": (
        "events.jsonl",
        in_data(parts=[{"name": "x", "priority": 0, "asked": 1, "granted": 1, "refs": ["f1-f99999999999"]}]),
        "context_built",
    ),
    "a prompt laid out by no rule": ("events.jsonl", in_data(insert_method="middle"), "context_built"),
    "support by endless messages": (
        "events.jsonl",
        lambda row: row["data"].update(support=[[row["data"]["facts"][0][0], "", [[1, 10**15]]]]),
        "facts_curated",
    ),
    "a block in the log without settings": ("events.jsonl", lambda row: row["data"].pop("settings"), "block_added"),
    "settings in the log that are none": ("events.jsonl", in_data(settings=3), "block_added"),
    "weights in the log that are none": ("events.jsonl", in_data(boost_weights=3), "retrieved"),
    "settings in the log": ("events.jsonl", in_data(after={"token_limit": 0}), "configuration_changed"),
    "a block in the log": ("events.jsonl", in_data(settings={"priority": "x"}), "block_added"),
}


@pytest.mark.parametrize("what", WRONG)
def test_rows_that_do_not_fit_are_refused_in_one_sentence(notes, what):
    member, change, line = WRONG[what]
    said = refused(changed(notes, member, change, line=line))
    assert said.startswith("notes.zip cannot be opened: ")
    assert said.endswith(" Nothing was imported.")
    assert "\n" not in said
    assert len(said) < 400


def test_a_bundle_of_endless_lines_or_names_is_refused(notes, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(bundle_checks, "MAX_NAMED", 100)
        patch.setattr(bundle_checks, "MAX_NAMED_EACH", 0)
        assert refused(notes) == "notes.zip cannot be opened: its log is too long. Nothing was imported."
    members = members_of(notes)
    members["events.jsonl"] += b"\n" * 1_000_000
    assert " of events.jsonl is wrong (Invalid JSON" in refused(packed(members))


def test_an_event_under_former_names_of_its_fields_is_known(notes):
    def as_then(row):
        row["data"] |= {"terms": row["data"].pop("boosts"), "room": row["data"].pop("token_budget")}

    bundle = read_bundle(changed(notes, "events.jsonl", as_then, line="retrieved"), "notes.zip")
    assert bundle.warnings == ()


def test_a_line_is_named_with_its_number(notes):
    said = refused(changed(notes, "messages.jsonl", set_to(tokens="many"), line=4))
    assert said == (
        "notes.zip cannot be opened: line 5 of messages.jsonl is wrong (tokens: Input should be a valid integer). "
        "Nothing was imported."
    )


def test_a_line_that_says_what_another_one_says_is_named_with_its_number(notes, monkeypatch):
    monkeypatch.setattr(bundle, "LINES_AT_ONCE", 3)
    members = members_of(notes)
    lines = members["facts.jsonl"].splitlines(keepends=True)
    members["facts.jsonl"] += lines[1]
    assert refused(packed(members)) == (
        f"notes.zip cannot be opened: line {len(lines) + 1} of facts.jsonl is wrong (id: another line says the same). "
        "Nothing was imported."
    )


def test_words_that_are_no_message_are_refused(notes):
    members = members_of(notes)
    rows = [json.loads(line) for line in members["messages.jsonl"].splitlines()]
    text = '{"role": "user", "parts": "none"}'
    word = {"owner": "session", "hash": content_hash(text), "data": text}
    rows[3]["content"] = word["hash"]
    members["words.jsonl"] += json.dumps(word).encode() + b"\n"
    members["messages.jsonl"] = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    assert refused(packed(members)) == ("notes.zip cannot be opened: message 4 cannot be read. Nothing was imported.")


def test_deep_nesting_is_refused(notes):
    members = members_of(notes)
    members["events.jsonl"] += b'{"data":' + b'{"a":' * 5000 + b"1" + b"}" * 5001 + b"\n"
    assert refused(packed(members)).endswith("Nothing was imported.")


def test_markup_in_a_bundle_is_only_text(notes):
    data = changed(notes, "session.jsonl", set_to(title="<script>alert(1)</script>\u202e**bold**"))
    assert read_bundle(data, "notes.zip").title == "<script>alert(1)</script>\u202e**bold**"


def test_a_bundle_that_cannot_be_stored_leaves_nothing_behind(notes, monkeypatch):
    database = Database.open()
    read = read_bundle(notes, "notes.zip")
    rows = as_tuples(read.rows)
    monkeypatch.setattr(bundle.Bundle, "rows", replace(rows, messages=rows.messages * 2))
    with pytest.raises(Exception, match="UNIQUE"):
        import_bundle(database, read)
    assert list_sessions(database) == []
    for table in ("mi_fact", "mi_vector", "mi_delivery", "mi_event", "mi_content"):
        with database.read() as connection:
            assert connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar() == 0


@pytest.mark.slow
def test_vectors_come_as_they_were():
    memory = played()
    mine, theirs = rows_of(memory).vectors, rows_of(opened(memory)).vectors
    assert [np.frombuffer(v.embedding, "<f4").tolist() for v in mine] == [
        np.frombuffer(v.embedding, "<f4").tolist() for v in theirs
    ]


@pytest.mark.parametrize(
    "marks",
    [[["m1", "changed", "c" + "0" * 32, 2]], [["m1"]], 7, [["m1", "else", "f1", 2]], [["f1-f9", "later", None, 2]]],
)
def test_marks_of_former_values_that_are_none_are_refused_with_their_place(notes, marks):
    def mark(row):
        row["data"]["parts"][0]["marks"] = marks

    assert "marks" in refused(changed(notes, "events.jsonl", mark, line="context_built"))


def test_an_export_that_fails_closes_its_archive(monkeypatch):
    closed, close = [], archive.Packing.close
    monkeypatch.setattr(archive.Packing, "close", lambda packing: (closed.append(packing), close(packing)))
    memory = open_memory(memory_blocks=blocks())
    memory.put(note(0))

    def fail(connection, cursor, statement, *_):
        if "mi_vector" in statement:
            raise OperationalError(statement, {}, Exception("the disk cannot be read"))

    event.listen(memory.session.database.engine, "before_cursor_execute", fail)
    with pytest.raises(StoreError):
        write_bundle(memory.session.database, memory.session_id)
    assert closed  # otherwise its finalizer may print a traceback

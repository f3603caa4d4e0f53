"""Roles: a viewer stores nothing, a curator corrects what was learned, an owner does everything else."""

import sqlite3
import threading
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from engine_fakes import HashEmbedder, NoteExtractor, blocks, note, on_file, user
from hypothesis import event, given, settings
from session_script import ALL_STEPS, NoteRelations, Script

from memory_core import FactExtractionMemoryBlock, StaticMemoryBlock, SummaryMemoryBlock
from memory_core.access import RIGHTS, Person, acting_as, acting_person, bind_person, look_up_people, require
from memory_core.blocks.graph import GraphMemoryBlock
from memory_core.bundles.bundle import import_bundle, read_bundle, write_bundle
from memory_core.errors import AccessError
from memory_core.events import KINDS, BlockEdited, ConfigurationChanged, Event
from memory_core.history.fact_evidence import made_by
from memory_core.memory import Memory
from memory_core.planning import curation
from memory_core.services import Services
from memory_core.sessions.forgetting import forget_user
from memory_core.sessions.overview import delete_session, list_sessions
from memory_core.store.database import Database
from memory_inspector.reading.event_rows import by_whom
from memory_inspector.reading.fact_history import steps, who_wrote
from memory_inspector.server.forget_receipt import receipt_for
from memory_inspector.wording.block_text import by_whom as who_summed_up
from ui.parts.listing import about

ANA = Person("ana@acme.test", "Ana", "owner")
BEN = Person("ben@acme.test", "Ben", "curator")
VERA = Person("vera@acme.test", "Vera", "viewer")
SERVICES = Services(embedder=HashEmbedder(), extractor=NoteExtractor())


@pytest.fixture
def memory(tmp_path):
    return open_one(on_file(tmp_path))


def open_one(uri, session="s"):
    kinds = [
        StaticMemoryBlock(name="core", static_content="Be kind."),
        *blocks(NoteExtractor()),
        GraphMemoryBlock(name="graph", llm=NoteRelations()),
    ]
    memory = Memory.from_defaults(session, memory_blocks=kinds, database_uri=uri, token_limit=60, services=SERVICES)
    for number in range(8):
        memory.put(note(number))
    memory.deliver()
    return memory


def dump(memory):
    with sqlite3.connect(memory.session.database.file) as connection:
        rows = "\n".join(line for line in connection.iterdump() if '"mi_lease"' not in line)
    connection.close()
    return rows


def settings_of(memory):
    other = Memory.open("s", memory.session.database, services=SERVICES)
    return other.session.config, [(block.name, other.blocks.settings(block.name)) for block in other.blocks]


def facts_of(memory):
    return memory.facts.desk("facts")


def test_every_event_has_a_least_role():
    examples = [BlockEdited("b", 1, None, None, {"priority": 1}), ConfigurationChanged({}, {"token_limit": 1}, "app")]
    assert {event.least_role for event in examples} == {"owner"}
    for name, cls in KINDS.items():
        assert RIGHTS[cls] in ("curator", "owner"), name


def test_an_event_that_could_change_settings_cannot_be_added_without_a_role():
    with pytest.raises(KeyError):

        class NewSetting(Event, family="settings"):
            pass


def test_without_a_person_everything_is_allowed(memory):
    memory.configure(token_limit=90)
    assert acting_person() is None
    assert {record.person for record in memory.events()} == {None}


def test_a_change_has_its_person_on_record(memory):
    with acting_as(ANA):
        memory.configure(token_limit=90)
    record = memory.events()[-1]
    assert (record.kind, record.actor, record.person) == ("configuration_changed", "user", "Ana <ana@acme.test>")


@pytest.mark.slow
def test_what_follows_from_a_persons_message_in_other_threads_has_them_on_record(memory):
    before = memory.events()[-1].position
    with acting_as(BEN):
        memory.put(note(40))
        memory.flush(all=True)
    since = [record for record in memory.events() if record.position > before]
    assert {"message_added", "fact_added"} <= {record.kind for record in since}
    assert {record.person for record in since} == {BEN.label}


@pytest.mark.slow
def test_a_viewer_is_refused_in_one_sentence_and_nothing_is_stored(memory):
    before = dump(memory)
    with acting_as(VERA):
        OPERATIONS["get"](memory, 1)  # builds a prompt, which is not in the log
        for change in [change for name, change in OPERATIONS.items() if name != "get"]:
            with pytest.raises(AccessError, match=r"^This needs the role (curator|owner), and yours is viewer\. .*\.$"):
                change(memory, 1)
    assert dump(memory) == before


def test_a_viewer_reads_previews_and_plays(memory):
    with acting_as(VERA):
        assert memory.get_all()
        assert memory.build_context("note 3", record=False).messages
        fact = facts_of(memory).facts()[0]
        facts_of(memory).preview(curation.retire([fact]))
        trial = Memory.from_defaults("s", token_limit=60)  # in memory: nobody else sees it
        trial.put(user("Nothing of this is kept."))
        trial.configure(token_limit=90)


def test_a_person_who_creates_a_session_chooses_what_it_begins_with(tmp_path):
    with acting_as(BEN):
        memory = open_one(on_file(tmp_path))
        with pytest.raises(AccessError, match="needs the role owner"):
            memory.configure(token_limit=90)
        with pytest.raises(AccessError):  # a constructor's settings for a session that exists are a change, too
            Memory.from_defaults("s", database_uri=on_file(tmp_path), token_limit=80, services=SERVICES)


def test_another_thread_acts_as_the_person_only_when_carried(memory):
    seen = []
    with acting_as(VERA):
        work = bind_person(lambda: seen.append(acting_person()))
    for target in (work, lambda: seen.append(acting_person())):
        thread = threading.Thread(target=target)
        thread.start()
        thread.join()
    assert seen == [VERA, None]


def test_code_outside_acts_as_the_person_that_the_app_looks_up(memory):
    look_up_people(lambda: VERA)
    try:
        with pytest.raises(AccessError):
            memory.put(note(9))
        with acting_as(None):  # the server's own work
            memory.put(note(9))
            require("owner")
    finally:
        look_up_people(lambda: None)


@pytest.mark.slow
def test_a_branch_keeps_the_people_of_its_log_and_a_bundle_does_not(memory):
    with acting_as(BEN):
        memory.put(note(50))
        twin = memory.branch(9)
    with acting_as(ANA):
        database = memory.session.database
        data = write_bundle(database, "s")
        again = import_bundle(database, read_bundle(data, "s.zip"))
    assert b"ben@acme.test" not in data
    assert BEN.label in {record.person for record in twin.events()}
    people = [(r.kind, r.person) for r in Memory.open(again, database, services=SERVICES).events() if r.person]
    assert people == [("session_imported", ANA.label)]


OPERATIONS = {
    "put": lambda m, n: m.put(note(100 + n)),
    "get": lambda m, n: m.build_context(f"note {n}"),
    "flush": lambda m, n: m.flush(all=True),
    "limit": lambda m, n: m.configure(token_limit=60 + n),
    "text": lambda m, n: m.blocks.edit("core", f"Text {n}."),
    "priority": lambda m, n: m.blocks.configure("core", priority=n),
    "order": lambda m, n: m.blocks.order([block.name for block in m.blocks][::-1]),
    "remove": lambda m, n: m.blocks.remove("core"),
    "add fact": lambda m, n: facts_of(m).apply(curation.add(f"Fact {n}")),
    "pin": lambda m, n: facts_of(m).apply(curation.pin(facts_of(m).facts()[:1])),
    "quarantine": lambda m, n: m.session.quarantine("note 1 of"),
    "forget": lambda m, n: m.session.forget("note 1 of"),
    "erase fact": lambda m, n: facts_of(m).erase(facts_of(m).facts()[:1]),
    "reset": lambda m, n: m.reset(),
    "rename": lambda m, n: m.session.rename(f"Title {n}"),
    "probes": lambda m, n: m.session.keep_probes("[]"),
    "recording": lambda m, n: m.session.attach_recording([user("Hello")], source="file"),
    "branch": lambda m, n: m.branch(2),
    "forget user": lambda m, n: forget_user(m.session.database, "somebody"),
    "delete": lambda m, n: delete_session(m.session.database, "s"),
}
OWNERS_ALONE = {
    "limit",
    "priority",
    "order",
    "remove",
    "forget",
    "erase fact",
    "reset",
    "recording",
    "forget user",
    "delete",
}


@pytest.mark.slow
def test_what_only_an_owner_does_is_refused_to_a_curator(memory):
    with acting_as(BEN):
        for name in OPERATIONS.keys() - OWNERS_ALONE:
            OPERATIONS[name](memory, 1)
        before = dump(memory)
        for name in OWNERS_ALONE:
            with pytest.raises(AccessError, match="needs the role owner, and yours is curator"):
                OPERATIONS[name](memory, 1)
        assert dump(memory) == before
    with acting_as(ANA):
        for name in [name for name in OPERATIONS if name in OWNERS_ALONE and name != "forget user"]:
            OPERATIONS[name](memory, 1)


@pytest.mark.slow
@settings(deadline=None, max_examples=15)
@given(ALL_STEPS)
def test_whatever_a_viewer_and_a_curator_try(steps):
    with TemporaryDirectory() as folder:
        script = Script(database_uri=on_file(Path(folder)))
        memory, refused = script.memory, 0
        for _ in range(4):
            script.do("note")
        chosen = settings_of(memory)
        for step in steps:
            before = dump(memory)
            with acting_as(VERA), suppress(AccessError):
                script.do(step)
            assert dump(memory) == before
            with acting_as(BEN):
                try:
                    script.do(step)
                except AccessError:
                    refused += 1
            assert settings_of(memory) == chosen
        event(f"{refused} of {len(steps)} refused to the curator")


def test_the_screen_names_the_person_where_it_names_the_author(memory):
    with acting_as(ANA):
        memory.put(note(60))
        facts_of(memory).apply(curation.add("The user has 2 cats"))
    records = memory.events()
    [message] = [record for record in records if record.kind == "message_added" and record.person]
    assert by_whom(message) == "engine"
    assert by_whom(message, in_full=True) == "Engine, for Ana"
    assert by_whom(records[-1]) == "user · Ana"
    assert about(facts_of(memory).changes()[0], records[-1].at).startswith("Turn 9, Ana, ")
    assert who_wrote(made_by(records, records[-1].event.facts[0][0])) == ["Written by Ana in turn 9."]


@pytest.mark.parametrize("scope", ["session", "user"])
def test_each_version_of_a_fact_names_the_person_who_made_it(tmp_path, scope):
    block = FactExtractionMemoryBlock(name="facts", llm=NoteExtractor(), scope=scope)
    memory = Memory.from_defaults("s", "ana", memory_blocks=[block], database_uri=on_file(tmp_path), services=SERVICES)
    with acting_as(ANA):
        facts_of(memory).apply(curation.add("The user has 2 cats"))
    [fact] = facts_of(memory).facts()
    with acting_as(BEN):
        facts_of(memory).apply(curation.edit(fact, "The user has 3 cats"))
    facts_of(memory).apply(curation.pin(facts_of(memory).facts()))
    history = memory.facts.history(fact)
    assert [version.person for version in history] == [ANA.label, BEN.label, None]
    assert [step.who for step in steps(history)] == ["Ana, turn 0", "Ben, turn 0", "a person, turn 0"]


def test_each_version_of_a_text_names_the_person_who_wrote_it(memory):
    with acting_as(BEN):
        memory.blocks.edit("core", "Be brief.")
    with acting_as(ANA):
        memory.blocks.configure("core", priority=2)  # no version
        memory.blocks.restore("core", 1)
    assert [version.person for version in memory.blocks.revisions("core")] == [None, BEN.label, ANA.label]


def test_each_version_of_a_summary_names_the_person_who_wrote_it(tmp_path):
    block = SummaryMemoryBlock(name="summary")
    memory = Memory.from_defaults("s", memory_blocks=[block], database_uri=on_file(tmp_path), services=SERVICES)
    with acting_as(BEN):
        memory.blocks.edit("summary", "The user has 2 cats.")
    [version] = memory.blocks.summary("summary").revisions()
    assert (version.person, who_summed_up(version)) == (BEN.label, "by Ben")


def test_a_receipt_for_one_of_several_people_searches_no_other_tenants_file(tmp_path, monkeypatch):
    monkeypatch.setenv("MEMORY_INSPECTOR_HOME", str(tmp_path))
    monkeypatch.delenv("MEMORY_INSPECTOR_CHROMA_URL", raising=False)
    for tenant, words in (("acme", "The code word is heron."), ("globex", "The code word is otter.")):
        Memory.from_defaults("s", database_uri=on_file(tmp_path), tenant=tenant, services=SERVICES).put(user(words))
    with acting_as(ANA):
        receipt = receipt_for(Database.open(on_file(tmp_path), tenant="acme"), ["heron", "otter"])
    assert not receipt.clean
    assert "globex" not in receipt.to_json()


@pytest.mark.postgres
def test_a_receipt_on_postgresql_searches_the_tenants_rows(url, tmp_path, monkeypatch):
    monkeypatch.setenv("MEMORY_INSPECTOR_HOME", str(tmp_path))
    memory = Memory.from_defaults("s", database_uri=url, tenant="acme", services=SERVICES)
    memory.put(user("The code word is heron."))
    assert not receipt_for(memory.session.database, ["heron"]).clean
    assert receipt_for(Database.open(url), ["heron"]).clean


@pytest.mark.parametrize("tenant", ["", "acme"])
def test_a_viewer_may_be_the_first_whom_a_process_serves(tmp_path, tenant):
    uri = on_file(tmp_path)
    Database.open(uri, tenant=tenant).close()
    viewer = Person("vera@acme.test", role="viewer", tenant=tenant)
    with acting_as(viewer), Database.open(uri, tenant=tenant) as database:
        assert list_sessions(database) == []
        with pytest.raises(AccessError), database.write() as connection:
            connection.exec_driver_sql("UPDATE mi_schema SET database_id = 'x'")

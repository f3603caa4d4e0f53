"""The core scenarios on a real PostgreSQL, started by `postgres_kit`."""

import os
import signal
import threading

import pytest
from engine_fakes import (
    Counter,
    HashEmbedder,
    NoteExtractor,
    assistant,
    blocks,
    check_whole,
    fact_numbers,
    note,
    on_file,
    open_memory,
    put_by_processes,
    putting,
    together,
    user,
)
from graph_fakes import graph_memory, lines, say
from postgres_kit import free_port
from session_script import NoteRelations
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError
from test_schema_upgrade import as_it_was, back_to_version_1, check_upgraded, played

from memory_core.blocks.facts import FactExtractionMemoryBlock
from memory_core.blocks.graph import GraphMemoryBlock
from memory_core.blocks.vector import VectorMemoryBlock
from memory_core.bundles.bundle import import_bundle, read_bundle, write_bundle
from memory_core.errors import MemoryInspectorError, StoreError
from memory_core.events import Ref
from memory_core.memory import Memory
from memory_core.models.relating import RuleRelations
from memory_core.sessions import forgetting as forget_user_module
from memory_core.sessions.forgetting import forget_user, outliving_users
from memory_core.sessions.overview import delete_session, list_sessions
from memory_core.store.database import Database, parse_url
from memory_core.store.postgresql import begin, open_postgresql
from memory_core.store.tables import TABLES
from memory_inspector.__main__ import main as command
from memory_inspector.verification.fingerprints import wanted
from memory_inspector.verification.receipts import receipt_of

pytestmark = pytest.mark.postgres


def test_the_documented_example_ends_as_documented(url):
    memory = Memory.from_defaults("my_session", token_limit=50, token_flush_size=10, database_uri=url)
    for _ in range(100):
        memory.put_messages(
            [
                user("Hello, world!"),
                assistant("Hello, world to you too!"),
                user("What is the capital of France?"),
                assistant("The capital of France is Paris."),
            ]
        )
    assert [len(memory.get()), len(memory.get_all()), len(memory.get_all("archived"))] == [4, 400, 396]
    memory.reset()
    assert memory.get_all() == []


def test_what_leaves_the_queue_is_learned_once_and_is_there_after_a_restart(url):
    memory = open_memory(database_uri=url, memory_blocks=blocks())
    for number in range(12):
        memory.put(note(number))
    check_whole(memory, range(12))
    context = memory.get("What was note 3?")
    memory.session.database.close()
    again = open_memory(database_uri=url, memory_blocks=blocks())
    assert again.get("What was note 3?") == context
    again.put(note(12))
    again.put(note(13))
    check_whole(again, range(14))


def test_postgresql_and_sqlite_give_the_same_contexts(url, tmp_path):
    contexts = []
    for uri in (url, on_file(tmp_path)):
        memory = open_memory(database_uri=uri, memory_blocks=blocks(), token_limit=60)
        for number in range(15):
            memory.put(note(number))
            memory.put(assistant(f"note {number} </memory> it is \x00 ☂"))
        contexts.append([memory.get(f"What was note {number} \x00?") for number in range(5)])
    assert contexts[0] == contexts[1]


def test_forgetting_works_and_a_deleted_session_stays_deleted(url):
    memory = open_memory(database_uri=url, memory_blocks=blocks())
    for number in range(12):
        memory.put(note(number))
    memory.get("What was note 3?")
    memory.set([note(20), note(21)])
    memory.reset("archived")
    assert memory.facts.read("facts", states=None) == []
    assert [message.content for message in memory.get_all()] == [note(20).content, note(21).content]
    memory.reset()
    assert memory.get_all() == []
    delete_session(memory.session.database, "s")
    with memory.session.database.read() as connection:
        rows = {table.name: len(connection.execute(table.select()).all()) for table in TABLES}
    assert {name for name, count in rows.items() if count} == {"mi_schema", "mi_tenant", "mi_session", "mi_collection"}
    assert list_sessions(memory.session.database) == []


def test_a_graph_is_the_same_on_both_databases(url, tmp_path):
    told = []
    for uri, schema in ((url, None), (url, "agent"), (on_file(tmp_path), None)):
        memory = graph_memory(
            "Alice | manages | Project Alpha; Project Alpha | deadline | March 2026; Eva | manages | Alice",
            database_uri=uri,
            db_schema=schema,
        )
        say(memory, "Project Alpha | deadline | May 2026; Eva | likes | May 2026; Bob | same as | Eva \x00")
        desk = memory.blocks.graph()
        desk.merge([desk.entity("Bob")], desk.entity("Alice"))
        desk.end([desk.relations("May 2026", ended=False)[-1]])
        paths = [desk.describe(path) for path in desk.paths("Alice", "may 2026")]
        desk.undo()
        desk.undo()
        paths += [desk.describe(path) for path in desk.paths("Eva", "May 2026", hops=6)]
        context = memory.get("When is the deadline of what Alice manages?")
        memory.reset("archived")
        told.append((lines(memory, states=("active", "ended", "retired")), paths, context))
    assert told[0] == told[1] == told[2]
    assert "Eva → manages → Alice → manages → Project Alpha → deadline → May 2026" in told[0][1]


def test_threads_put_into_one_session(url):
    memory = open_memory(database_uri=url, memory_blocks=blocks())
    together(*(putting(memory, range(100 * thread, 100 * thread + 6)) for thread in range(6)))
    check_whole(memory, [100 * thread + number for thread in range(6) for number in range(6)])


def test_processes_put_into_one_session(url):
    put_by_processes(url, 2)
    memory = open_memory(database_uri=url, memory_blocks=blocks())
    check_whole(memory, [100 * process + number for process in range(2) for number in range(10)])


def test_many_may_be_the_first_to_use_a_new_database(url):

    def open_apart():
        engine = create_engine(parse_url(url))  # as another process would: nothing is shared
        Memory.from_defaults("s", engine=engine, memory_blocks=[Counter()])
        engine.dispose()

    together(*[open_apart] * 4)
    memory = Memory.from_defaults("s", database_uri=url)
    kinds = [record.kind for record in memory.events()]
    assert (kinds.count("session_created"), kinds.count("block_added")) == (1, 1)


def test_sessions_of_one_user_learn_in_turn(url):
    def of_user(session_id):
        block = FactExtractionMemoryBlock(name="facts", llm=NoteExtractor(), scope="user")
        turns = VectorMemoryBlock(name="turns", embed_model=HashEmbedder())
        return open_memory(session_id, user_id="ana", database_uri=url, memory_blocks=[block, turns])

    first, second = of_user("a"), of_user("b")
    together(putting(first, range(9)), putting(second, range(9)))
    assert sorted(fact_numbers(first)) == list(range(6))
    assert {len(fact.sources) for fact in first.facts.read("facts")} == {2}


def test_a_branch_and_a_bundle_hold_what_the_session_held(url, tmp_path):
    learning = blocks()[:2]  # without the custom one: no class is imported because a bundle names it
    memory = open_memory("one", database_uri=url, memory_blocks=learning)
    for number in range(12):
        memory.put(note(number))
        if number == 7:
            held = fact_numbers(memory), memory.get_all("active")
    branch = memory.branch(8)
    assert (fact_numbers(branch), branch.get_all("active")) == held
    file = read_bundle(write_bundle(memory.session.database, "one"), "one.zip")
    for database in (memory.session.database, Database.open(on_file(tmp_path))):
        opened = import_bundle(database, file)
        again = Memory.open(opened, database, services=memory.session.services, tokenizer_fn=str.split)
        assert again.get_all() == memory.get_all()
        assert fact_numbers(again) == fact_numbers(memory)
        question = "What was note 3?"
        assert again.build_context(question).messages == memory.build_context(question).messages


def test_a_database_of_version_1_opens_and_works(url):
    memory = played(url)
    before, services = as_it_was(memory), memory.session.services
    memory.session.database.close()
    back_to_version_1(url)
    Database(create_engine(parse_url(url))).close()
    check_upgraded(url, before, services)


def test_a_graph_is_branched_and_bundled(url, tmp_path):
    memory = open_memory(database_uri=url, memory_blocks=[GraphMemoryBlock(name="graph", llm=NoteRelations())])
    for number in range(12):
        memory.put(note(number))
        if number == 7:
            held = memory.blocks.graph().graph()
    desk = memory.blocks.graph()
    desk.merge([desk.entity("Note 1"), desk.entity("Note 2")], desk.entity("Note 2"))
    desk.add("Ana", "lives in", "Lisbon")

    def told(graph):
        return sorted((graph.describe(each), each.state, each.version) for each in graph.relations.values())

    assert told(memory.branch(8).blocks.graph().graph()) == told(held)
    file = read_bundle(write_bundle(memory.session.database, "s"), "s.zip")
    for database in (memory.session.database, Database.open(on_file(tmp_path))):
        again = Memory.open(
            import_bundle(database, file), database, services=memory.session.services, tokenizer_fn=str.split
        )
        assert told(again.blocks.graph().graph()) == told(desk.graph())


def test_tables_may_stand_in_a_schema_of_their_own(url):
    one = open_memory(database_uri=url, db_schema="agents", memory_blocks=blocks())
    two = open_memory(database_uri=url, db_schema="robots")
    for number in range(6):
        one.put(note(number))
    check_whole(one, range(6))
    assert two.get_all() == []
    with one.session.database.read() as connection:
        found = connection.exec_driver_sql(
            "SELECT table_schema, count(*) FROM information_schema.tables WHERE table_name LIKE 'mi_%%' GROUP BY 1"
        ).all()
    assert dict(found) == {"agents": len(TABLES) + 1, "robots": len(TABLES) + 1}  # the one of Alembic
    one.session.database.close()
    two.session.database.close()


def test_urls_and_engines_written_for_async_drivers_are_accepted(url):
    memory = Memory.from_defaults("s", async_database_uri=url.replace("postgresql://", "postgresql+asyncpg://"))
    memory.put(user("hello"))
    assert [message.content for message in Memory.from_defaults("s", database_uri=url).get_all()] == ["hello"]
    assert memory.session.database is Database.open(url)


def test_nobody_waits_without_end_for_what_another_program_holds(url, monkeypatch):
    monkeypatch.setattr("memory_core.store.postgresql.LOCK_TIMEOUT_SECONDS", 1)
    memory = open_memory(database_uri=url, memory_blocks=blocks())
    memory.put(note(0))
    holder = create_engine(parse_url(url))
    with holder.connect() as other:
        other.execute(text("SELECT * FROM mi_session FOR UPDATE"))
        with pytest.raises(StoreError, match=r"waited too long for another program's transaction\..*try again"):
            memory.put(note(1))
        assert [message.content for message in memory.get_all()] == [note(0).content]  # reading waits for nobody
        other.rollback()
    holder.dispose()
    memory.put(note(1))
    assert len(memory.get_all()) == 2


def test_the_lock_of_a_process_that_was_cut_off_is_released(url, monkeypatch):
    memory = open_memory(database_uri=url, memory_blocks=blocks())
    memory.put(note(0))
    monkeypatch.setattr("memory_core.store.postgresql.IDLE_IN_TRANSACTION_SECONDS", 1)
    silent = open_postgresql(parse_url(url))
    with silent.connect() as connection:
        begin(connection, {})
        connection.execute(text("SELECT * FROM mi_session FOR UPDATE"))
        memory.put(note(1))  # once the server has ended the transaction, of which nothing more comes
        connection.invalidate()
    silent.dispose()
    assert len(memory.get_all()) == 2


def test_a_prompt_is_not_held_up_by_what_another_program_holds(url, monkeypatch):
    monkeypatch.setattr("memory_core.engine.context.RECORDING_SECONDS", 0.2)
    memory = open_memory(database_uri=url, memory_blocks=blocks())
    memory.put(note(0))
    holder = create_engine(parse_url(url))
    with holder.connect() as other:
        other.execute(text("SELECT * FROM mi_session FOR UPDATE"))
        context = memory.build_context()
        assert "waited too long" in context.unrecorded
        other.rollback()
    holder.dispose()
    assert memory.build_context().messages == context.messages
    assert memory.build_context().unrecorded is None


def test_no_statement_takes_without_end(url, monkeypatch):
    monkeypatch.setattr("memory_core.store.postgresql.STATEMENT_TIMEOUT_SECONDS", 1)
    database = Database.open(url)
    with pytest.raises(StoreError, match="did not finish one statement within 1 s"), database.write() as connection:
        connection.execute(text("SELECT pg_sleep(20)"))
    with database.read() as connection:
        assert connection.execute(text("SELECT 1")).scalar() == 1


def test_a_server_that_was_frozen_is_waited_for_no_longer_than_any_other(url, monkeypatch):
    monkeypatch.setattr("memory_core.store.postgresql.ANSWER_SECONDS", 1)
    memory = open_memory(database_uri=url, memory_blocks=blocks())
    memory.put(note(0))
    with memory.session.database.read() as connection:
        server = connection.execute(text("SELECT pg_backend_pid()")).scalar()
        os.kill(server, signal.SIGSTOP)
        try:
            with pytest.raises(OperationalError, match="not said anything for 1 s"):
                connection.execute(text("SELECT 1"))
            connection.invalidate()
        finally:
            os.kill(server, signal.SIGCONT)
    with memory.session.database.read() as connection:
        server = connection.execute(text("SELECT pg_backend_pid()")).scalar()
    monkeypatch.setattr("memory_core.store.postgresql.IDLE_SECONDS", 0)
    os.kill(server, signal.SIGSTOP)  # while nobody uses it
    try:
        memory.put(note(1))
    finally:
        os.kill(server, signal.SIGCONT)
    assert len(memory.get_all()) == 2


def test_a_server_that_does_not_answer_is_one_sentence_without_the_password():
    with pytest.raises(StoreError) as told:
        Memory.from_defaults("s", database_uri=f"postgresql://ana:secret-word@127.0.0.1:{free_port()}/memory")
    sentence = str(told.value)
    assert "secret-word" not in sentence
    assert "ana:***@127.0.0.1" in sentence
    assert "Connection refused" in sentence
    assert "\n" not in sentence


def test_a_put_writes_nothing_into_the_index_of_what_was_flushed(url):
    with Database.open(url).read() as connection:
        (made,) = connection.exec_driver_sql(
            "SELECT indexdef FROM pg_indexes WHERE indexname = 'mi_message_flush'"
        ).scalars()
    assert made.endswith("WHERE (flush IS NOT NULL)")


def test_a_shared_fact_is_forgotten_in_all_sessions_while_another_one_learns(url):
    database = Database.open(url)

    def session(id, *texts):
        blocks = [FactExtractionMemoryBlock(name="Facts", scope="user"), GraphMemoryBlock(name="Graph")]
        memory = Memory.from_defaults(id, "ana", database=database, memory_blocks=blocks)
        for words in texts:
            memory.put(user(words))
        memory.flush(all=True)
        memory.deliver()
        return memory

    first, second = session("first", "My dentist is Doctor Vantongeren."), session("second", "I like jazz.")
    second.put(user("My dentist is Doctor Vantongeren."))
    second.flush(all=True)
    [fact] = [fact for fact in first.facts.read("Facts") if "Vantongeren" in fact.text]
    learning = threading.Thread(target=second.deliver)
    learning.start()
    impact = first.session.forget(Ref.of("fact", fact.id))
    learning.join()
    second.deliver()
    assert [other.session for other in impact.others] == ["second"]
    assert not any("Vantongeren" in fact.text for fact in second.facts.read("Facts", states=None))
    assert [message.message.content for message in second.session.messages()] == ["I like jazz."]
    assert receipt_of(url, wanted(["Vantongeren"])).clean
    for id in ("first", "second"):
        delete_session(database, id)
    assert outliving_users(database) == ["ana"]
    forget_user(database, "ana")
    assert outliving_users(database) == []


def test_calls_that_forget_one_user_at_the_same_time_wait_for_each_other(url, monkeypatch):
    def say(session, words):
        block = FactExtractionMemoryBlock(name="Facts", scope="user")
        memory = Memory.from_defaults(session, "ana", database_uri=url, memory_blocks=[block])
        memory.put(user(words))
        memory.flush(all=True)
        memory.deliver()
        return memory.session.database

    # Both calls have read which sessions there are before one of them locks any.
    both, begun, texts = threading.Barrier(2), threading.Event(), forget_user_module._telling_texts

    def pausing(*values):
        read = texts(*values)
        begun.set()
        both.wait(30)
        return read

    monkeypatch.setattr(forget_user_module, "_telling_texts", pausing)
    outcomes = []

    def forgetting():
        try:
            outcomes.append(len(forget_user(database, "ana").sessions))
        except MemoryInspectorError as error:
            outcomes.append(str(error))

    rounds = 6
    for number in range(rounds):
        begun.clear()
        database = say(f"m{number}", f"My dentist is Doctor Vantongeren {number}.")
        first, second = threading.Thread(target=forgetting), threading.Thread(target=forgetting)
        first.start()
        assert begun.wait(30)
        # Sorted before the first, which the second call would lock first.
        say(f"a{number}", "I live in Porto.")
        second.start()
        first.join()
        second.join()
        assert list_sessions(database, user_id="ana") == []
        assert outliving_users(database) == []
    done = [outcome for outcome in outcomes if isinstance(outcome, int)]
    assert (len(done), outcomes.count('Nothing is stored of the user "ana".')) == (rounds, rounds), outcomes
    assert receipt_of(url, wanted(["Vantongeren"])).clean


def test_a_relation_is_marked_whose_value_a_fact_replaced(url):
    class Once(RuleRelations):
        def relations(self, messages, *, known):
            return super().relations([m for m in messages if "Porto" in str(m.content)], known=known)

    blocks = [
        FactExtractionMemoryBlock(name="Facts", on_change="decide", deliver_on="turn"),
        GraphMemoryBlock(name="Graph", deliver_on="turn", llm=Once()),
    ]
    memory = Memory.from_defaults("s", database_uri=url, memory_blocks=blocks)
    for words in ("I live in Porto.", "I live in Lisbon now."):
        memory.put_messages([user(words)], end_turn=True)
    memory.flush(all=True)
    shown = memory.get("Where do I live?")[0].content
    assert "<relation>The user lives in Porto <former>until turn 2; now: The user lives in Lisbon</former>" in shown


def test_forgotten_words_are_searched_for_in_every_column(url, tmp_path, capsys):
    memory = Memory.from_recipe("blocks", "s", database_uri=url)
    memory.put(user("My dentist is Doctor Vantongeren."))
    memory.flush(all=True)
    memory.deliver()
    words = wanted(["Doctor Vantongeren"])
    before = receipt_of(url, words)
    assert "mi_content.data" in {part.part for part in before.searched if part.hits}
    memory.session.forget("Vantongeren")
    after = receipt_of(url, words)
    assert after.clean, after.page()
    assert len(after.searched) > 50
    assert "secret-word" not in after.to_json() + after.page()
    (tmp_path / "receipt.json").write_text(after.to_json())
    assert command(["verify", str(tmp_path / "receipt.json"), "--place", url]) == 0
    memory.put(user("It was Doctor Vantongeren."))
    assert command(["verify", str(tmp_path / "receipt.json"), "--place", url]) == 1
    assert "secret-word" not in capsys.readouterr().out


def test_what_an_account_may_not_read_is_named_and_a_server_that_is_away_is_one_sentence(url, tmp_path):
    import psycopg

    with psycopg.connect(url) as connection:
        connection.execute('CREATE SCHEMA "odd schema"')
        connection.execute('CREATE TABLE "odd schema"."odd ""table" (words bytea, listed text[], nothing int)')
        connection.execute(
            'INSERT INTO "odd schema"."odd ""table" VALUES (%s, %s, NULL)', (b"\x00vantongeren", ["a", "Vantongeren"])
        )
        connection.execute("CREATE TABLE hidden (words text)")
        connection.execute("DROP ROLE IF EXISTS reader")
        connection.execute("CREATE ROLE reader LOGIN")
        connection.execute('GRANT USAGE ON SCHEMA "odd schema" TO reader')
        connection.execute('GRANT SELECT ON ALL TABLES IN SCHEMA "odd schema" TO reader')
    reader = url.replace("ana:secret-word@", "reader@") + "?pgbouncer=true&connect_timeout=9"
    receipt = receipt_of(reader, wanted(["Vantongeren"]))
    assert {(part.part, part.hits) for part in receipt.searched if part.hits} == {
        ('odd schema.odd "table.words', 1),
        ('odd schema.odd "table.listed', 1),
    }
    assert [(part.part, part.problem) for part in receipt.problems] == [
        ("hidden.words", "cannot be read: InsufficientPrivilege")
    ]
    assert not receipt.clean
    with pytest.raises(StoreError, match="cannot be reached") as caught:
        receipt_of(f"postgresql://ana:secret-word@127.0.0.1:{free_port()}/memory", wanted(["Vantongeren"]))
    assert "secret-word" not in str(caught.value)

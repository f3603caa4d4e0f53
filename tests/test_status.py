"""The list of all sessions: what each holds, where it came from, and that it is read in a few queries."""

from contextlib import contextmanager

import pytest
from engine_fakes import Clock, HashEmbedder, NoteExtractor, assistant, note
from sqlalchemy import event

from memory_core import Database, FactExtractionMemoryBlock, Memory, Services, delete_session
from memory_core.sessions.overview import Origin, list_sessions, overview
from memory_core.store import totals


@pytest.fixture
def database():
    return Database.open()


def a_session(database, session_id, *, messages=0, user=None, scope="session", clock=None, **config):
    memory = Memory.from_defaults(
        session_id,
        user,
        engine=database.engine,
        services=Services(embedder=HashEmbedder(), extractor=NoteExtractor()),
        memory_blocks=[FactExtractionMemoryBlock(name="Facts", scope=scope, deliver_on="turn")],
        clock=clock or Clock(),
        **config,
    )
    for number in range(messages):
        memory.put(note(number) if number % 2 == 0 else assistant("Fine."))
    return memory


@contextmanager
def statements(database):
    """What the database is asked within."""
    asked = []

    def listen(connection, cursor, statement, *rest):
        asked.append(statement)

    event.listen(database.engine, "before_cursor_execute", listen)
    yield asked
    event.remove(database.engine, "before_cursor_execute", listen)


def test_a_session_is_listed_with_all_its_messages_also_those_that_left_the_queue(database):
    memory = a_session(database, "one", messages=20, token_limit=60)
    (found,) = overview(database)
    assert found.status == list_sessions(database)[0]
    assert found.status.archived_messages > 0
    assert found.messages == 20
    assert found.tokens == sum(message.tokens.by("content") for message in memory.session.messages())
    assert (found.facts, found.user_facts, found.origin) == (len(memory.facts.read("Facts")), 0, Origin("new"))


def test_tokens_are_counted_as_the_session_counts(database):
    a_session(database, "content", messages=4)
    a_session(database, "billed", messages=4, accounting="billed")
    tokens = {found.status.session_id: found.tokens for found in overview(database)}
    assert tokens["billed"] == tokens["content"] + 4 * 4


def test_the_last_used_comes_first_and_a_deleted_one_not_at_all(database):
    clock = Clock()
    for name in ("a", "b", "c"):
        a_session(database, name, clock=clock)
        clock.pass_by(1)
    delete_session(database, "b")
    assert [found.status.session_id for found in overview(database)] == ["c", "a"]


def test_one_users_sessions_can_be_listed_alone(database):
    a_session(database, "a", user="sam")
    a_session(database, "b", user="ana")
    assert [found.status.session_id for found in overview(database, user_id="sam")] == ["a"]


def test_facts_of_a_user_are_counted_apart_from_the_sessions_own(database):
    a_session(database, "a", messages=4, user="sam", scope="user")
    a_session(database, "b", messages=3, user="sam")
    a_session(database, "c", user="ana")
    counts = {found.status.session_id: (found.facts, found.user_facts) for found in overview(database)}
    assert counts == {"a": (0, 2), "b": (1, 2), "c": (0, 0)}


def test_only_active_facts_count(database):
    memory = a_session(database, "one", messages=5)
    facts = memory.facts.read("Facts")
    with database.write() as connection:
        where = totals.fact_table.c.id == facts[0].id
        connection.execute(totals.fact_table.update().where(where).values(state="retired"))
    assert overview(database)[0].facts == len(facts) - 1


def test_an_imported_session_names_its_source(database):
    memory = a_session(database, "one")
    memory.session.attach_recording([note(1)], source="talk.json")
    assert overview(database)[0].origin == Origin("import", "talk.json")


def test_a_branch_names_its_session_and_turn(database):
    memory = a_session(database, "one", messages=6)
    branch = memory.branch(2)
    origins = {found.status.session_id: found.origin for found in overview(database)}
    assert origins == {"one": Origin("new"), branch.session_id: Origin("branch", "one", 2)}


def test_the_number_of_queries_does_not_grow_with_the_sessions(database):
    a_session(database, "first", messages=2)
    with statements(database) as few:
        overview(database)
    for number in range(12):
        a_session(database, f"s{number}", messages=2)
    with statements(database) as many:
        assert len(overview(database)) == 13
    assert len(many) == len(few)


def test_messages_are_summed_again_only_where_some_came_or_went(database):
    memory = a_session(database, "one", messages=2)
    others = [a_session(database, f"s{number}", messages=2) for number in range(3)]
    overview(database)
    with statements(database) as asked:
        overview(database)
    assert not [each for each in asked if "mi_message" in each]
    memory.put(note(99))
    sums = {found.status.session_id: found.messages for found in overview(database)}
    assert sums == {"one": 3, **{other.session_id: 2 for other in others}}
    memory.reset()
    found = {found.status.session_id: (found.messages, found.tokens) for found in overview(database)}
    assert found["one"] == (0, 0)


def test_a_database_of_its_own_is_summed_by_itself():
    first, second = Database.open(), Database.open()
    a_session(first, "one", messages=2)
    a_session(second, "one", messages=4)
    assert [overview(database)[0].messages for database in (first, second)] == [2, 4]


def test_more_sessions_than_a_statement_takes_parameters_are_summed(database):
    a_session(database, "one", messages=2)
    with database.read() as connection:
        found = totals.sum_messages(connection, ["one", *(f"none {number}" for number in range(1_200))])
    assert [(id, sums.messages) for id, sums in found.items()] == [("one", 2)]

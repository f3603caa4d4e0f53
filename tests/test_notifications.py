"""Notifications between processes on PostgreSQL: who waits for a change is woken."""

import threading
import time

import pytest
from engine_fakes import blocks, note, open_memory
from sqlalchemy import create_engine

from memory_core.memory import Memory
from memory_core.store.database import Database, parse_url
from memory_core.store.postgresql import DELIVERIES

NEVER = 600
"""Seconds that no test waits: whoever waits so long is woken, or the test hangs."""


def listening(notifications, topic):
    """Return the count of a topic once this process listens."""
    deadline = time.monotonic() + 20
    while (count := notifications.count(topic)) is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return count


@pytest.mark.postgres
def test_a_put_of_another_program_wakes_who_waits_for_its_session(url):
    database = Database.open(url)
    notifications = database.notifications
    since = listening(notifications, "s")
    elsewhere = create_engine(parse_url(url))
    writer = Memory.from_defaults("s", engine=elsewhere)
    notifications.wait("s", NEVER, since=since, polling=NEVER)
    assert notifications.count("s") > since
    since = notifications.count("other")
    writer.put(note(0))
    writer.session.database.notifications.send("other")
    notifications.wait("other", NEVER, since=since, polling=NEVER)
    elsewhere.dispose()


@pytest.mark.postgres
def test_due_deliveries_are_news_and_other_puts_are_not(url):
    database = Database.open(url)
    notifications = database.notifications
    since = listening(notifications, DELIVERIES)
    memory = open_memory(database_uri=url, memory_blocks=blocks())
    memory.put(note(0))
    memory.session.database.notifications.send("end")
    notifications.wait("end", NEVER, since=0, polling=NEVER)
    assert notifications.count(DELIVERIES) == since
    memory.flush(all=True)
    notifications.wait(DELIVERIES, NEVER, since=since, polling=NEVER)
    assert notifications.count(DELIVERIES) > since


@pytest.mark.postgres
def test_news_are_heard_again_after_the_connection_was_cut(own_server, monkeypatch):
    monkeypatch.setattr("memory_core.store.postgresql.LISTEN_SECONDS", 0.1)
    server = own_server()
    with Database.open(server.new_database()) as database:
        listening(database.notifications, "s")
        server.restart()
        deadline = time.monotonic() + 20
        while database.notifications.count("s") is not None and time.monotonic() < deadline:
            time.sleep(0.01)
        since = listening(database.notifications, "s")
        database.notifications.send("s")
        database.notifications.wait("s", NEVER, since=since, polling=NEVER)


@pytest.mark.postgres
def test_nobody_listens_behind_a_pooler(url):
    with Database.open(f"{url}?pgbouncer=true") as database:
        database.notifications.send("s")
        assert database.notifications.count("s") is None
        database.notifications.wait("s", NEVER, since=None, polling=0)


def test_without_a_server_waiting_is_a_pause_that_closing_ends():
    database = Database.open()
    database.notifications.send("s")
    assert database.notifications.count("s") is None
    database.notifications.wait("s", NEVER, since=None, polling=0)
    waiting = threading.Thread(
        target=database.notifications.wait, args=("s", NEVER), kwargs={"since": None, "polling": NEVER}
    )
    waiting.start()
    database.close()
    waiting.join()

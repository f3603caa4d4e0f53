"""News between processes on PostgreSQL: who waits for a change is woken."""

import threading
import time

import pytest
from engine_fakes import blocks, note, open_memory
from sqlalchemy import create_engine

from memory_core.memory import Memory
from memory_core.store.database import Database, parse_url
from memory_core.store.postgresql.news import DELIVERIES

NEVER = 600
"""Seconds that no test waits: whoever waits so long is woken, or the test hangs."""


def listening(news, topic):
    """Return the count of a topic once this process listens."""
    deadline = time.monotonic() + 20
    while (count := news.count(topic)) is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return count


@pytest.mark.postgres
def test_a_put_of_another_program_wakes_who_waits_for_its_session(url):
    database = Database.open(url)
    news = database.news
    since = listening(news, "s")
    elsewhere = create_engine(parse_url(url))
    writer = Memory.from_defaults("s", engine=elsewhere)
    news.wait("s", NEVER, since=since, unheard=NEVER)
    assert news.count("s") > since
    since = news.count("other")
    writer.put(note(0))
    writer.session.database.news.tell("other")
    news.wait("other", NEVER, since=since, unheard=NEVER)
    elsewhere.dispose()


@pytest.mark.postgres
def test_due_deliveries_are_news_and_other_puts_are_not(url):
    database = Database.open(url)
    news = database.news
    since = listening(news, DELIVERIES)
    memory = open_memory(database_uri=url, memory_blocks=blocks())
    memory.put(note(0))
    memory.session.database.news.tell("end")
    news.wait("end", NEVER, since=0, unheard=NEVER)
    assert news.count(DELIVERIES) == since
    memory.flush(all=True)
    news.wait(DELIVERIES, NEVER, since=since, unheard=NEVER)
    assert news.count(DELIVERIES) > since


@pytest.mark.postgres
def test_news_are_heard_again_after_the_connection_was_cut(own_server, monkeypatch):
    monkeypatch.setattr("memory_core.store.postgresql.news.LISTEN_SECONDS", 0.1)
    server = own_server()
    with Database.open(server.new_database()) as database:
        listening(database.news, "s")
        server.restart()
        deadline = time.monotonic() + 20
        while database.news.count("s") is not None and time.monotonic() < deadline:
            time.sleep(0.01)
        since = listening(database.news, "s")
        database.news.tell("s")
        database.news.wait("s", NEVER, since=since, unheard=NEVER)


@pytest.mark.postgres
def test_nobody_listens_behind_a_pooler(url):
    with Database.open(f"{url}?pgbouncer=true") as database:
        database.news.tell("s")
        assert database.news.count("s") is None
        database.news.wait("s", NEVER, since=None, unheard=0)


def test_without_a_server_waiting_is_a_pause_that_closing_ends():
    database = Database.open()
    database.news.tell("s")
    assert database.news.count("s") is None
    database.news.wait("s", NEVER, since=None, unheard=0)
    waiting = threading.Thread(target=database.news.wait, args=("s", NEVER), kwargs={"since": None, "unheard": NEVER})
    waiting.start()
    database.close()
    waiting.join()

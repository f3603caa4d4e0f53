"""A full disk: a put fails in one sentence, nothing is lost, and it works again once there is space."""

import subprocess
import sys
from pathlib import Path

import pytest
from engine_fakes import note, on_file, open_memory
from sqlalchemy import event

from memory_core.errors import StoreError

FILLING = """
import resource, sys
from engine_fakes import note, on_file, open_memory
from memory_core.errors import StoreError

memory = open_memory(database_uri=on_file(sys.argv[1]))
memory.put(note(0))
limit = resource.getrlimit(resource.RLIMIT_FSIZE)
# Of any file, the write-ahead log included: the system answers as a full disk does.
resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, limit[1]))
number = 1
try:
    while number < 500:
        memory.put(note(number), message_id=f"note {number}")
        number += 1
except StoreError as error:
    print(error)
assert len(memory.get_all()) == number, "what was acknowledged is not what is stored"
resource.setrlimit(resource.RLIMIT_FSIZE, limit)
memory.put(note(number), message_id=f"note {number}")
assert [message.content for message in memory.get_all()] == [note(n).content for n in range(number + 1)]
print("whole")
"""


def test_a_put_on_a_full_disk_fails_in_one_sentence_and_works_again(tmp_path):
    memory = open_memory(database_uri=on_file(tmp_path))
    memory.put(note(0))
    engine = memory.session.database.engine
    with engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar() + 1

    def no_more_pages(connection, *_):
        connection.execute(f"PRAGMA max_page_count = {pages}")

    event.listen(engine, "checkout", no_more_pages)
    number, failure = 1, None
    while failure is None and number < 200:
        try:
            memory.put(note(number), message_id=f"note {number}")
            number += 1
        except StoreError as error:
            failure = error
    assert str(failure) == (
        f"The database at {memory.session.database.url} did not do what was asked: database or disk is full."
    )
    stored = [note(n).content for n in range(number)]
    assert [message.content for message in memory.get_all()] == stored
    assert memory.build_context().messages  # a prompt is built, recorded or not
    event.remove(engine, "checkout", no_more_pages)
    engine.dispose()  # the limit is that of a connection
    memory.put(note(number), message_id=f"note {number}")
    assert [message.content for message in memory.get_all()] == [*stored, note(number).content]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on the size of files")
def test_a_file_that_may_not_grow_loses_nothing(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-c", FILLING, str(tmp_path)], cwd=Path(__file__).parent.parent, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    sentence, whole = ended.stdout.splitlines()
    assert sentence.startswith("The database at sqlite:///")
    assert whole == "whole"

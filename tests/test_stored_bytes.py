"""Rows of random sessions, which are to the byte those of the build before the hot paths were written anew."""

from pathlib import Path

import pytest
import stored_bytes
from hypothesis import settings

DIGESTS = Path(__file__).with_name("stored_bytes.txt").read_text().split()
TRIED = min(10 * settings.default.max_examples, stored_bytes.SESSIONS)
"""Sessions of the long test: a thousand by default, fewer in CI."""
FIRST = 8


def differing(numbers):
    return [number for number in numbers if stored_bytes.digest(number) != DIGESTS[number]]


def test_a_session_leaves_the_rows_that_it_always_left():
    assert differing(range(FIRST)) == []


@pytest.mark.slow
def test_a_thousand_sessions_leave_the_rows_that_they_always_left():
    assert differing(range(FIRST, TRIED)) == []


def test_a_digest_tells_one_word_from_another(monkeypatch):
    monkeypatch.setattr(stored_bytes, "_NAMES", ("Bea",))
    assert differing(range(3)) == [0, 1, 2]

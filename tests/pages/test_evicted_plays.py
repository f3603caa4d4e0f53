"""Results of plays are few: what was evicted is played again when it is asked for."""

import pytest

from memory_inspector.lab.variants import variant_of
from ui.lab import playing
from ui.tab.services import engine


@pytest.mark.slow
def test_an_evicted_play_is_played_again(demo_home, monkeypatch):
    memory = engine().open("demo")
    position, variant = memory.session.status().position, variant_of(memory)
    first = playing.job_of(memory, position, variant, (), ())
    first.wait(60)
    assert playing.result(memory, position, variant) is not None
    playing._cache(memory).results = playing.LruCache(playing.MAX_KEPT)
    assert playing.result(memory, position, variant) is None
    again = playing.job_of(memory, position, variant, (), ())
    again.wait(60)
    assert again is not first
    assert playing.result(memory, position, variant) is not None
    assert playing.job_of(memory, position, variant, (), ()) is again

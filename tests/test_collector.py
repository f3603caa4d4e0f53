"""The collector of cyclic garbage, which pauses while much is loaded."""

import gc

import pytest

from memory_core.process import collector_paused

MANY = 60_000


def test_garbage_of_a_large_load_is_collected_later():
    gc.collect()
    with collector_paused():
        for value in [[] for _ in range(MANY)]:
            value.append(value)
    del value
    assert gc.collect() >= MANY


def test_the_collector_runs_again_once_the_last_of_nested_pauses_ends():
    with collector_paused():
        with pytest.raises(ValueError, match="broken"), collector_paused():
            raise ValueError("broken")
        assert not gc.isenabled()
    assert gc.isenabled()

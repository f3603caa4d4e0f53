"""All programs of examples/ on the real frameworks, each in a process of its own."""

from importlib.util import find_spec

import pytest
from example_runs import CHECKS, FRAMEWORK_CHECKS


@pytest.mark.slow
@pytest.mark.parametrize("check", [*CHECKS, *FRAMEWORK_CHECKS], ids=lambda check: check.__name__)
def test_a_program_runs_and_shows_its_memory_at_work(check, tmp_path):
    if check.__name__ == "llamaindex_agent" and find_spec("llama_index.llms") is None:
        pytest.skip("llama-index-llms-openai-like is not installed")
    check(tmp_path)

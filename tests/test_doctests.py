"""Every example in a docstring gives what stands beneath it."""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROMPT = ">" * 3 + " "
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for room in ("memory_core", "memory_inspector", "ui")
    for path in (ROOT / room).rglob("*.py")
    if PROMPT in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_hold(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0


def test_there_are_examples_to_hold():
    assert len(MODULES) > 20

"""The suite stays out of its user's database, folder and model, whatever the user's environment names."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from clean_environment import SWITCHES, misleading

from memory_core import ChatMessage, Memory, Services
from memory_core.config import Settings
from memory_core.models.openai_client import OpenAIChat

ROOT = Path(__file__).resolve().parent.parent
NAME = re.compile(r"\b(?:MEMORY_INSPECTOR|OPENAI|ANTHROPIC|GOOGLE|STREAMLIT|OTEL|CODEX|CLAUDE)_[A-Z_]*[A-Z]\b")


def documented():
    """Names of all environment variables that the documents and the code they describe have."""
    places = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    names = {name for place in places for name in NAME.findall(place.read_text(encoding="utf-8"))}
    return names - SWITCHES


def leading_to(folder):
    """An environment in which each documented variable names something in this folder, or an address nobody has."""
    values = dict.fromkeys(documented(), "http://127.0.0.1:9/v1")
    values |= {name: str(folder / name) for name in values if name.endswith(("_HOME", "_DIR", "_CLAUDE", "_CODEX"))}
    return values | {
        "MEMORY_INSPECTOR_DATABASE_URL": f"sqlite:///{folder}/memory.db",
        "MEMORY_INSPECTOR_CODE_FILE": str(folder / "session.jsonl"),
        "OPENAI_API_KEY": "sk-the-users",
    }


def test_no_test_sees_a_documented_variable():
    assert {"MEMORY_INSPECTOR_HOME", "MEMORY_INSPECTOR_DATABASE_URL", "OPENAI_BASE_URL", "CODEX_HOME"} <= documented()
    assert set(misleading(documented())) == documented()
    assert misleading(os.environ) == []


def test_the_suites_own_switches_reach_it():
    switch = re.compile(r'environ(?:\.get\(|\[)"(MEMORY_INSPECTOR_[A-Z_]+)"')
    read = {name for file in ROOT.glob("tests/**/*.py") for name in switch.findall(file.read_text(encoding="utf-8"))}
    assert read - {"MEMORY_INSPECTOR_HOME"} <= SWITCHES
    assert misleading(SWITCHES) == []


def test_a_memory_without_an_address_is_nobodys_file(tmp_path):
    with Memory.from_defaults("s", services=Services()) as memory:
        memory.put(ChatMessage(role="user", content="My name is Teresa and I live in Porto."))
    assert Settings.from_environment() == Settings(home=None, database_url=None, chroma_url=None)
    assert OpenAIChat.from_environment() is None


OPENERS = ("test_plain_loop.py", "coding/test_code_command.py", "adapters/test_llamaindex_agent.py")
"""Tests that open memories with defaults, start the command, and run an agent."""


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["0", "2"])
def test_where_every_variable_names_the_users_own_folder_it_stays_empty(tmp_path, processes):
    folder = tmp_path / "the user's"
    folder.mkdir()
    tests = [f"tests/{name}" for name in OPENERS]
    command = [sys.executable, "-m", "pytest", "-n", processes, f"--basetemp={tmp_path / 'tests'}", *tests]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | leading_to(folder), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert [*folder.iterdir()] == []

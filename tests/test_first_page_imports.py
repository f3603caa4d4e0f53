"""What the first page does not show is loaded after it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from coding_kit import ClaudeCode
from streamlit import config
from streamlit.web import skills

ROOT = Path(__file__).resolve().parent.parent
LATER = (
    "chromadb",
    "onnxruntime",
    "tokenizers",
    "tiktoken",
    "pandas",
    "pyarrow",
    "openai",
    "psycopg",
    "plotly.graph_objs._figure",
    "sqlalchemy.dialects.postgresql",
    "memory_inspector.files.files",
    "memory_inspector.files.files",
)
"""What takes from 0.02 to 2 s to load. Of Plotly Streamlit itself loads a part at its own start."""
BEFORE_IT_ANSWERS = ("memory_core", "sqlalchemy", "numpy", "ui.frame.header")


def loaded_by(program, names, home):
    """Which of these modules a program of its own has loaded at its end."""
    ending = f"import sys; print(*(name for name in {names!r} if name in sys.modules))"
    told = subprocess.run(
        [sys.executable, "-c", f"{program}\n{ending}"],
        cwd=ROOT,
        env={**os.environ, "MEMORY_INSPECTOR_HOME": str(home), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return told.stdout.splitlines()[-1].split()


@pytest.mark.slow
def test_the_first_page_is_drawn_without_models_index_tokenizer_tables_or_charts(tmp_path):
    program = """
from streamlit.testing.v1 import AppTest
from memory_inspector.server.shipped_demo import ensure_demo
from ui.tab.services import engine
ensure_demo(engine())
app = AppTest.from_file("app.py", default_timeout=60).run()
assert not app.exception and app.title[0].value == "Chat"
"""
    assert loaded_by(program, LATER, tmp_path) == []


@pytest.mark.slow
def test_the_server_answers_before_the_engine_is_loaded(tmp_path):
    assert loaded_by("import serve", (*BEFORE_IT_ANSWERS, *LATER), tmp_path) == []


@pytest.mark.parametrize("arguments", [[], ["code"], ["code", "session.jsonl"]])
def test_the_command_starts_the_app_before_the_engine_is_loaded(arguments, tmp_path):
    session = tmp_path / "session.jsonl"
    session.write_text('{"type": "user"}\n', encoding="utf-8")
    given = [str(session) if argument == session.name else argument for argument in arguments]
    program = f"""
import memory_inspector.__main__ as program
program._app = lambda options: 0
assert program.main({given!r}) == 0
"""
    assert loaded_by(program, (*BEFORE_IT_ANSWERS, *LATER), tmp_path) == []


@pytest.mark.slow
def test_what_streamlit_does_for_others_at_its_start_is_left_out(tmp_path):
    program = """
import importlib.metadata
from streamlit import delta_generator, runtime
from streamlit.components.v2.component_manager import BidiComponentManager
from streamlit.runtime.pages_manager import PagesManager
assert PagesManager.uses_pages_directory is not False and delta_generator._use_warning_has_been_displayed is False
import serve
def asked(): raise AssertionError("installed packages were asked for")
importlib.metadata.distributions = asked
BidiComponentManager().discover_and_register_components(start_file_watching=False)
assert PagesManager.uses_pages_directory is False and delta_generator._use_warning_has_been_displayed
import json
"""
    assert loaded_by(program, ("json",), tmp_path) == ["json"]


def test_no_page_offers_to_install_streamlits_own_files(monkeypatch):
    monkeypatch.setattr(skills, "agent_harness_present", lambda: True)
    monkeypatch.setattr(
        config, "get_option", lambda name, get=config.get_option: name != "server.headless" and get(name)
    )
    assert skills.nudge_suppression_reason(str(ROOT)) == "welcome_hidden"


@pytest.mark.slow
def test_the_package_loads_a_name_when_it_is_used(tmp_path):
    names = ("memory_core", "memory_core.errors", "memory_core.memory", "numpy", "no_such")
    assert loaded_by("import memory_core", names, tmp_path) == ["memory_core"]
    assert loaded_by("from memory_core import StoreError", names, tmp_path) == ["memory_core", "memory_core.errors"]
    assert loaded_by("from memory_core import Memory", names, tmp_path) == [*names[:-1]]


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["code", "--list"], ["why", "never push", "--session", "session.jsonl"]])
def test_a_coding_agents_session_is_read_without_the_engine(arguments, tmp_path):
    session = ClaudeCode()
    session.user("Please never push to main.").answer("Understood.")
    session.write(tmp_path / "project" / "session.jsonl")
    given = [str(tmp_path / "project" / part) if part.endswith(".jsonl") else part for part in arguments]
    program = f"""
import memory_inspector.__main__ as program
assert program.main({[*given, "--claude", str(tmp_path)]!r}) == 0
"""
    assert loaded_by(program, ("memory_core.memory", "sqlalchemy", "numpy", *LATER), tmp_path) == []

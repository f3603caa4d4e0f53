"""The wheel holds the engine, and the whole app under one package; the command starts it or says what is missing."""

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from memory_core import ConfigError
from memory_inspector import __main__ as command
from memory_inspector.commands.database_commands import database_url

ROOT = Path(__file__).resolve().parent.parent
APP = ("app.py", "serve.py", "ui", "pages", "static", ".streamlit/config.toml")


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_engine_and_app_and_no_secret(tmp_path):
    pytest.importorskip("hatchling")
    program = f"from hatchling.build import build_wheel; print(build_wheel({str(tmp_path)!r}))"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, timeout=60)
    [wheel] = tmp_path.glob("*.whl")
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    wanted = {name for place in ("memory_core", "memory_inspector") for name in _files(ROOT / place)}
    wanted |= {f"memory_inspector/{name}" for place in APP for name in _files(ROOT / place)}
    assert held == wanted
    assert "memory_inspector/demo/demo.zip" in held
    assert "memory_core/py.typed" in held


def _files(place):
    found = [place] if place.is_file() else [path for path in place.rglob("*") if path.is_file()]
    return [path.relative_to(ROOT).as_posix() for path in found if "__pycache__" not in path.parts]


def test_the_engine_alone_brings_no_app_and_no_vendor():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    heavy = ("streamlit", "plotly", "pandas", "chromadb", "openai")
    assert [name for name in project["dependencies"] if name.startswith(heavy)] == []
    brought = " ".join(project["optional-dependencies"]["app"] + project["optional-dependencies"]["openai"])
    assert [name for name in heavy if name not in brought + "".join(project["optional-dependencies"]["chroma"])] == []


def test_the_app_looks_at_a_database_that_is_there_and_makes_none(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("agent.db").touch()
    assert database_url("agent.db") == database_url(f"sqlite:///{tmp_path}/agent.db")
    assert database_url("postgresql://ada:pw@host/x").endswith("://ada:pw@host/x")
    with pytest.raises(ConfigError, match="SQLite or PostgreSQL"):
        database_url("mysql://host/x")
    assert command.main(["--database", "missing.db"]) == 2
    assert capsys.readouterr().err.startswith("memory-inspector: There is no database missing.db")
    assert not Path("missing.db").exists()


def test_without_streamlit_the_command_names_the_extra(monkeypatch, capsys):
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    assert command.main([]) == 2
    assert "pip install 'memory-inspector[app]'" in capsys.readouterr().err

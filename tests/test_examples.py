"""The programs of examples/: short, described, and run as they stand; those on frameworks run in `make adapters`."""

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib

import pytest
from example_runs import CHECKS, EXAMPLES, FRAMEWORK_CHECKS, ROOT, cook, run
from test_span_receiver import Receiving

from memory_core import Database, Memory

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
PLUGIN = EXAMPLES / "reminders_plugin"
FILES = [path.relative_to(EXAMPLES) for path in sorted(EXAMPLES.rglob("*.py"))]
PROGRAMS = [file for file in FILES if file.name != "reminders_block.py"]
GALLERY = (EXAMPLES / "README.md").read_text(encoding="utf-8")


def test_there_are_twelve_and_every_one_of_them_is_run():
    names = {file.stem if len(file.parts) == 1 else file.parts[0] for file in PROGRAMS}
    assert len(PROGRAMS) == len(names) == 12
    assert {check.__name__ for check in (*CHECKS, *FRAMEWORK_CHECKS)} == names


@pytest.mark.parametrize("file", FILES, ids=str)
def test_a_file_is_short_and_in_the_gallery(file):
    assert len((EXAMPLES / file).read_text(encoding="utf-8").splitlines()) <= 60
    assert f"]({file.as_posix()})" in GALLERY


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_a_program_says_how_it_is_installed_and_run(program):
    docstring = ast.get_docstring(ast.parse((EXAMPLES / program).read_text(encoding="utf-8")))
    assert f" python {program.as_posix()} " in docstring
    [needs] = re.findall(r"^pip install (.+)$", docstring, re.MULTILINE)
    [extras] = re.findall(r"memory-inspector\[([\w,-]+)\]", needs)
    assert set(extras.split(",")) <= EXTRAS.keys()
    [row] = [line for line in GALLERY.splitlines() if f"]({program.as_posix()})" in line]
    assert re.findall(r"`([^`]+)`", row.split("|")[-2]) == shlex.split(needs)


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_program_runs_and_shows_its_memory_at_work(check, tmp_path):
    check(tmp_path)


@pytest.mark.slow
def test_spans_of_a_program_reach_the_receiver_of_the_app(tmp_path):
    receiving = Receiving(Database.open(f"sqlite:///{tmp_path}/received.db"))
    try:
        run("opentelemetry_spans.py", tmp_path, cook, OTEL_EXPORTER_OTLP_ENDPOINT=receiving.endpoint)
    finally:
        receiving.stop()
    assert receiving.recorded("opentelemetry") == ["memory_written"] * 4 + ["memory_searched"]


@pytest.mark.slow
def test_without_an_endpoint_rules_call_the_memory_tools(tmp_path):
    ran = run("memory_tools.py", tmp_path, OPENAI_BASE_URL="", OPENAI_API_KEY="")
    assert ran.prompts == []
    assert "Porto" in ran.memory("memory-tools").blocks.revisions("Human")[-1].text


OPENED = """
from memory_core import Database, Memory, Services
from memory_core.blocks.plugins import plugins

memory = Memory.open("reminders", Database.open("sqlite:///agent.db"), services=Services())
print([(plugin.name, plugin.package, plugin.error) for plugin in plugins()])
print([getattr(attached.block, "reminders", None) for attached in memory.blocks])
"""


@pytest.mark.slow
def test_a_process_with_the_plug_in_installed_has_its_block_and_any_other_has_not(tmp_path):
    run("reminders_plugin/agent.py", tmp_path, cook)
    source = shutil.copytree(PLUGIN, tmp_path / "source", ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", tmp_path / "installed", source], check=True, timeout=120)

    def opened(*path):
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, path))}
        command = [sys.executable, "-c", OPENED]
        done = subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True)
        return [ast.literal_eval(line) for line in done.stdout.splitlines()]

    assert opened(ROOT) == [[], [None]]
    assert opened(ROOT, tmp_path / "installed") == [
        [("reminders", "memory-inspector-reminders 0.1.0", None)],
        [("buy two lemons", "call Rui about the wine")],
    ]


def test_the_plug_in_gives_up_its_oldest_reminders_first(monkeypatch):
    monkeypatch.syspath_prepend(str(PLUGIN))
    from reminders_block import RemindersBlock

    reminders = tuple(f"buy bottle number {number}" for number in range(12))
    block = RemindersBlock(name="reminders", priority=1, reminders=reminders)
    memory = Memory.from_defaults(token_limit=60, memory_blocks=[block])
    memory.put({"role": "user", "content": "What do I still have to do?"})
    context = memory.build_context()
    granted = [reminder for reminder in reminders if f"- {reminder}\n" in context.messages[0].content]
    assert 0 < len(granted) < 12
    assert granted == list(reminders[-len(granted) :])
    assert context.plan.total <= 60

"""The documents: their code runs as it stands there, their links lead somewhere, their tables name what exists.

The blocks of a page run one after another, offline, in one folder. A block behind `<!-- not run in tests: why -->`
needs a server, a key or a package that is not installed. Of such a block the syntax, the imports, and the commands
with their options are checked.
"""

import argparse
import ast
import importlib
import os
import re
import shlex
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest
from models.scripted_server import ScriptedServer, completion

from memory_inspector import __main__ as program
from memory_inspector.files.stores.memory_stores import PROGRAMS
from tests.house import documents

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
TARGETS = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)

SHELLS = ("sh", "bash")
OTHER_LANGUAGES = ("text", "toml", "nginx", "yaml")
OTHER_COMMANDS = {".", "docker", "pipx", "python", "python3", "uvx"}
OTHER_VARIABLES = {
    "ANTHROPIC_BASE_URL",
    "GOOGLE_GEMINI_BASE_URL",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENAI_MODEL",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT",
    "POSTGRES_PASSWORD",
    "STREAMLIT_SERVER_ALLOWED_HOSTS",
}

FENCE = re.compile(r"^(?:<!-- not run in tests: ([^>\n]+) -->\n)?```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    reason: str
    """Why it is not run; empty where it is."""
    language: str
    code: str


def blocks(page):
    """The code blocks of a document, in order."""
    return [Block(*found) for found in FENCE.findall((ROOT / page).read_text(encoding="utf-8"))]


RUN = [page for page in documents() if any(not b.reason and b.language in ("python", *SHELLS) for b in blocks(page))]
NOT_RUN = [
    pytest.param(block, id=f"{page} {number}")
    for page in documents()
    for number, block in enumerate(blocks(page), 1)
    if block.reason
]

ASKS_A_MODEL = "docs/how-to/openai-client.md"
"""The page whose programs need a model; all others run offline."""

PRINTS = {
    "README.md": ("In the prompt of turn 5, as fact 1 of facts.", "No room: better results took the 14 tokens"),
    "docs/how-to/check-a-configuration.md": ("2 of 2 probes held", "token_limit 200 → 60"),
    "docs/how-to/does-memory-help.md": ("without memory       0.38     383     1,290  -0.20",),
    ASKS_A_MODEL: ("No umbrella today.",),
    "docs/how-to/own-block.md": ("Logan was mentioned 1 times.", "MentionCounter: 10 passed"),
    "docs/how-to/vector-index.md": ("QdrantIndex: 7 passed",),
    "docs/reference/testing.md": ("ExactIndex: 7 passed", "read_lines: 5 passed", "LlamaIndexAgent: 5 passed"),
    "docs/tutorial/python.md": (
        "Flushed: [1, 2, 3, 4]",
        "['Ana is allergic to nuts', 'The dinner is in Paris at eight']",
        "No room: better results took the 19 tokens of earlier_turns. It was number 4, score 0.27.",
    ),
    "memory_core/systems/README.md": ("Alice → manages → Project Alpha → deadline → March 2026", "UPDATE"),
}
"""Words that the blocks of a page print."""


@pytest.fixture
def endpoint():
    """The model of the loop with the `openai` client: it calls the tool, then answers."""
    call = {"id": "c1", "type": "function", "function": {"name": "forecast", "arguments": '{"place": "Faro"}'}}
    script = completion(None, finish="tool_calls", tool_calls=[call]), completion("No umbrella today.")
    with ScriptedServer(*script) as server:
        yield server


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN)
def test_every_block_runs(page, tmp_path, monkeypatch, capfd, endpoint):
    folder, commands = tmp_path / "folder", tmp_path / "commands"
    folder.mkdir()
    commands.mkdir()
    folder.joinpath("demo.zip").write_bytes((ROOT / "memory_inspector/demo/demo.zip").read_bytes())
    for name, module in (("memory-inspector", "memory_inspector"), ("pytest", "pytest")):
        command = commands / name
        command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m {module} "$@"\n')
        command.chmod(0o755)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for name in ("MEMORY_INSPECTOR_HOME", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    if page == ASKS_A_MODEL:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
    names = {}
    for number, block in enumerate(blocks(page), 1):
        if block.reason:
            continue
        if block.language == "python":
            exec(compile(block.code, f"{page}, block {number}", "exec"), names)
        elif block.language in SHELLS:
            subprocess.run(["bash", "-euo", "pipefail", "-c", block.code], check=True, timeout=120)
    printed = capfd.readouterr().out
    assert [words for words in PRINTS.get(page, ()) if words not in printed] == []


def test_shown_output_is_what_is_printed(tmp_path, monkeypatch, capfd):
    page = "docs/tutorial/python.md"
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks(page):
        if block.language == "python":
            exec(block.code, names)
    printed = capfd.readouterr().out
    assert [block.code for block in blocks(page) if block.language == "text" and block.code not in printed] == []


@pytest.mark.parametrize("page", documents())
def test_every_block_is_in_a_known_language(page):
    found = blocks(page)
    fences = re.findall(r"^```", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert len(fences) == 2 * len(found)
    assert [block for block in found if block.language not in ("python", *SHELLS, *OTHER_LANGUAGES)] == []


@pytest.mark.parametrize("block", NOT_RUN)
def test_a_block_that_is_not_run_names_what_exists(block, monkeypatch):
    if block.language == "python":
        check_imports(block.code)
    else:
        check_commands(block.code, monkeypatch)


def check_imports(code):
    """Import each name that a piece of code imports, from the packages that are installed."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and find_spec(node.module.partition(".")[0]):
            module = importlib.import_module(node.module)
            assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []
        elif isinstance(node, ast.Import):
            for alias in node.names:
                assert find_spec(alias.name.partition(".")[0]), alias.name


def check_commands(code, monkeypatch):
    """Check the syntax of shell code, and its commands, options, targets, extras and variables."""
    subprocess.run(["bash", "-n", "-c", code], check=True)
    for line in code.splitlines():
        words = shlex.split(line, comments=True)
        while words:
            end = words.index("&&") if "&&" in words else len(words)
            check_command(words[:end], monkeypatch)
            words = words[end + 1 :]


def check_command(words, monkeypatch):
    if words[0] == "export":
        words = words[1:]
    while words and (assigned := re.match(r"([A-Z_]+)=", words[0])):
        assert assigned[1] in OTHER_VARIABLES or assigned[1].startswith("MEMORY_INSPECTOR_")
        words = words[1:]
    match words:
        case []:
            pass
        case ["make", *targets]:
            assert [target for target in targets if target not in TARGETS] == []
        case ["pip", "install", *arguments]:
            extras = re.findall(r"\[([\w,-]+)\]", " ".join(arguments))
            assert {extra for each in extras for extra in each.split(",")} <= EXTRAS.keys()
        case ["memory-inspector", *arguments]:
            parse(arguments, monkeypatch)
        case ["streamlit", "run", file]:
            assert (ROOT / file).is_file()
        case [command, *_]:
            assert command in OTHER_COMMANDS


def parser_of_the_program(monkeypatch):
    found = []
    monkeypatch.setattr(program, "run", lambda parser, arguments: found.append(parser) or 0)
    program.main(["--help"])  # has all commands, where one that is named has its own module's
    return found[0]


def parse(arguments, monkeypatch):
    """Parse arguments of the command, or exit with an error."""
    return parser_of_the_program(monkeypatch).parse_args(arguments)


@pytest.mark.parametrize(
    "code",
    [
        "make nothing",
        "pip install '.[nothing]'",
        "memory-inspector --nothing",
        "streamlit run nothing.py",
        "NOTHING=1 memory-inspector",
        "nothing",
        "if",
    ],
)
def test_a_wrong_command_is_found(code, monkeypatch):
    with pytest.raises((AssertionError, SystemExit, subprocess.CalledProcessError)):
        check_commands(code, monkeypatch)


def test_a_wrong_import_is_found():
    with pytest.raises(AssertionError):
        check_imports("from memory_core import Nothing")


def test_the_page_of_the_command_has_all_commands_and_options(monkeypatch):
    parser = parser_of_the_program(monkeypatch)
    [commands] = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    parsers = [parser, *commands.choices.values()]
    options = {option for each in parsers for action in each._actions for option in action.option_strings}
    page = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
    options = {option for option in options if option.startswith("--")}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", page)) == options
    assert set(re.findall(r"^\| `memory-inspector ([\w-]+)", page, re.MULTILINE)) == set(commands.choices)


def test_the_table_of_frameworks_names_classes_and_extras():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [\w ]+, `([\w-]+)` \| `(\w+)\.(\w+)` \|", text, re.MULTILINE)
    assert len(rows) == 7
    for extra, module, name in rows:
        tree = ast.parse((ROOT / "memory_inspector" / "adapters" / f"{module}.py").read_text(encoding="utf-8"))
        assert extra in EXTRAS
        assert name in {node.name for node in tree.body if isinstance(node, ast.ClassDef)}


def test_the_pages_that_list_stores_name_each_program_whose_facts_are_read():
    formats, attach = (ROOT / "docs" / page for page in ("reference/formats.md", "how-to/attach.md"))
    rows = re.findall(r"^\| ([^|]+) \| [^|]*\bfacts?\b", formats.read_text(encoding="utf-8"), re.MULTILINE)
    commands = re.findall(r"^memory-inspector open .*# (.+)$", attach.read_text(encoding="utf-8"), re.MULTILINE)
    for names in (" ".join(rows), " ".join(commands)):
        assert [store.name for store in PROGRAMS if store.name not in names] == []


def anchors(page):
    """The anchors of a document's headings, as a host of Markdown makes them."""
    text = FENCE.sub("", (ROOT / page).read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", documents())
def test_every_relative_link_leads_somewhere(page):
    text = FENCE.sub("", (ROOT / page).read_text(encoding="utf-8"))
    for link in re.findall(r"\]\((?![a-z]+:)([^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        target = ((ROOT / page).parent / path).resolve() if path else ROOT / page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target.relative_to(ROOT)), link

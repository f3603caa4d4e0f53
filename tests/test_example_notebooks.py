"""The notebooks of examples/: as they are committed, and run from the first cell to the last in their own kernel."""

import os
import sys
from functools import cache
from pathlib import Path

import nbformat
import pytest
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpec
from nbclient import NotebookClient
from test_notebooks import checked

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "examples" / "notebooks"
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("*.ipynb"))

ENTRY_POINTS = """\
[memory_core.html]
render = memory_inspector.notebook.cells:render
watch = memory_inspector.notebook.cells:watch
"""

NOTHING_DRAWS = "import importlib.metadata\nimportlib.metadata.entry_points = lambda **_: ()"
"""A cell that hides all entry points, those of an installed package included."""

SHOWN = {
    "1-a-first-memory.ipynb": ["Memory", "Memory", "FlushPlan", "FlushPlan", "FactList", "Context", "Memory"],
    "2-where-did-it-go.ipynb": ["Context", "Trace", "Trace", "NextPrompt", "Context"],
    "3-facts-by-hand.ipynb": ["FactList", "FactList", "Change", "Change", "FactList"],
    "4-compare-recipes.ipynb": ["Context", "Context", "Memory"],
    "5-watch-an-agent.ipynb": ["Memory", "Trace"],
}
"""Outputs of each notebook, in order."""

SIGNS = {
    "Memory": "Queue now",
    "Context": "for the model",
    "FlushPlan": "leave the queue",
    "FactList": "Fact",
    "Trace": "Every stage in words",
    "NextPrompt": "Next message",
    "Change": "Added a fact.",
}
"""Words by which each kind of drawing is told."""


class KernelOfThisPython(AsyncKernelManager):
    """A kernel that runs the Python of the tests, whatever kernels are installed."""

    @property
    def kernel_spec(self):
        command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=command, display_name="Python", language="python")


def read(name):
    return nbformat.read(FOLDER / name, as_version=4)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Run a notebook, once for all tests, in an empty folder, with the entry points that an installed package has."""
    packages = tmp_path_factory.mktemp("packages")
    declared = packages / "notebook_drawing-1.dist-info"
    declared.mkdir()
    (declared / "METADATA").write_text("Metadata-Version: 2.1\nName: notebook-drawing\nVersion: 1\n")
    (declared / "entry_points.txt").write_text(ENTRY_POINTS)
    own = {"IPYTHONDIR": "ipython", "JUPYTER_RUNTIME_DIR": "runtime"}
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MEMORY_INSPECTOR", "OPENAI"))}
    env |= {"PYTHONPATH": os.pathsep.join([str(ROOT), str(packages)])}

    @cache
    def outputs(name, first_cell=""):
        book = read(name)
        if first_cell:
            book.cells.insert(0, nbformat.v4.new_code_cell(first_cell))
        where = {"metadata": {"path": str(tmp_path_factory.mktemp("folder"))}}
        with pytest.MonkeyPatch.context() as patch:
            for variable, folder in own.items():
                patch.setenv(variable, str(packages / folder))
            client = NotebookClient(book, kernel_manager_class=KernelOfThisPython, timeout=120, resources=where)
            client.execute(env=env | {variable: os.environ[variable] for variable in own})
        return [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]

    return outputs


def test_there_are_five():
    assert list(SHOWN) == NOTEBOOKS


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_valid_short_and_committed_without_outputs(name):
    book = read(name)
    nbformat.validate(book)
    assert 10 <= len(book.cells) <= 15
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert [(cell.outputs, cell.execution_count) for cell in code] == [([], None)] * len(code)
    assert book.cells[0].source.startswith("# ")


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_offline_and_draws(name, run):
    outputs = run(name)
    assert {output.output_type for output in outputs} <= {"execute_result", "display_data", "stream"}
    assert [output.text for output in outputs if output.output_type == "stream" and output.name == "stderr"] == []
    drawn = [output.data for output in outputs if "text/html" in output.get("data", {})]
    pages = [checked(data["text/html"]).text for data in drawn]
    assert [SIGNS[kind] in page for kind, page in zip(SHOWN[name], pages, strict=True)] == [True] * len(pages)
    # Without a front end the same output is plain text.
    assert [data["text/plain"] != "" for data in drawn] == [True] * len(drawn)


@pytest.mark.slow
def test_a_watched_cell_shows_what_the_agent_did_after_it(run):
    outputs = run("5-watch-an-agent.ipynb")
    [watched] = [output.data for output in outputs if output.output_type == "display_data"]
    page = checked(watched["text/html"])
    assert "6 turns" in page.text
    assert "Prompt of turn 6" in page.text
    assert "Not watched any more." in page.text


@pytest.mark.slow
def test_a_notebook_without_a_package_that_draws_is_plain_text(run):
    outputs = run("1-a-first-memory.ipynb", NOTHING_DRAWS)
    assert [output for output in outputs if "text/html" in output.get("data", {})] == []
    assert outputs[0].data["text/plain"].startswith("<Memory 'dinner': limit 70 tokens")

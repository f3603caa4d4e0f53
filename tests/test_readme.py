"""The code of the READMEs runs as it stands there, offline, one block after another."""

import re
from pathlib import Path

import pytest
from models.scripted_server import ScriptedServer, completion

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def endpoint():
    """The model of the README's plain loop: it calls the tool, then answers."""
    call = {"id": "c1", "type": "function", "function": {"name": "forecast", "arguments": '{"place": "Faro"}'}}
    script = completion(None, finish="tool_calls", tool_calls=[call]), completion("No umbrella today.")
    with ScriptedServer(*script) as server:
        yield server


@pytest.mark.parametrize(
    ("page", "least", "prints"),
    [
        ("README.md", 1, ["In the prompt of turn 5, as fact 1 of facts."]),
        ("docs/how-to/openai-client.md", 2, ["No umbrella today."]),
        (
            "memory_core/systems/README.md",
            10,
            ["Alice → manages → Project Alpha → deadline → March 2026", "UPDATE"],
        ),
    ],
)
def test_every_python_block_runs(page, least, prints, tmp_path, monkeypatch, capsys, endpoint):
    monkeypatch.chdir(tmp_path)
    if page == "docs/how-to/openai-client.md":  # its programs ask a model; everything else is offline
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.delenv("MEMORY_INSPECTOR_HOME", raising=False)
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert len(blocks) >= least
    names = {}
    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"{page}, Python block {number}", "exec"), names)
    said = capsys.readouterr().out
    assert [words for words in prints if words not in said] == []

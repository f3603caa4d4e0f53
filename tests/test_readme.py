"""The code of the READMEs runs as it stands there, offline, one block after another."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize(
    ("page", "least", "prints"),
    [
        ("README.md", 3, ["core_info", "billed: "]),
        (
            "memory_core/systems/README.md",
            10,
            ["Alice → manages → Project Alpha → deadline → March 2026", "UPDATE"],
        ),
    ],
)
def test_every_python_block_runs(page, least, prints, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MEMORY_INSPECTOR_HOME", raising=False)
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert len(blocks) >= least
    names = {}
    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"{page}, Python block {number}", "exec"), names)
    said = capsys.readouterr().out
    assert [words for words in prints if words not in said] == []

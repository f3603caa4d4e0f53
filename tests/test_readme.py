"""The README's code runs as it stands there, offline, one block after another."""

import re
from pathlib import Path

import pytest

README = Path(__file__).resolve().parent.parent / "README.md"


@pytest.fixture(scope="module")
def blocks():
    return re.findall(r"^```python\n(.*?)^```$", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_every_python_block_runs(blocks, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MEMORY_INSPECTOR_HOME", raising=False)
    names = {}
    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"README.md, Python block {number}", "exec"), names)
    said = capsys.readouterr().out
    assert "Alice → manages → Project Alpha → deadline → March 2026" in said
    assert "UPDATE" in said
    assert len(blocks) > 10

"""The promises of docs/promises.md name tests that exist."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_test_that_proves_a_promise_exists():
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "docs" / "promises.md").read_text(encoding="utf-8"))
    assert len(named) > 10
    for file, name in set(named):
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, f"{file}::{name}"


def test_every_promise_names_a_test_or_says_that_there_is_none():
    rows = [line for line in (ROOT / "docs" / "promises.md").read_text(encoding="utf-8").splitlines() if "|" in line]
    promises = [row for row in rows if not row.startswith(("| promise", "|---"))]
    assert len(promises) > 15
    for row in promises:
        assert "::test_" in row or "not tested" in row, row

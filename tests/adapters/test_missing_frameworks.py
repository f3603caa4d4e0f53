"""An adapter whose framework is not installed says so in one sentence, with the extra that brings it."""

import importlib
import sys
import tomllib
from pathlib import Path

import pytest

from memory_core import ConfigError

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("llamaindex", "llama_index", "llamaindex"),
        ("openai_agents", "agents", "openai-agents"),
        ("langchain", "langchain", "langchain"),
        ("langgraph", "langgraph", "langgraph"),
        ("pydantic_ai", "pydantic_ai", "pydantic-ai"),
        ("agno", "agno", "agno"),
        ("google_adk", "google", "google-adk"),
        ("mcp_server", "mcp", "mcp"),
        ("otel", "opentelemetry", "otel"),
    ],
)
def test_a_missing_framework_is_named_with_its_extra(module, package, extra, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"memory_inspector.adapters.{module}", raising=False)
    with pytest.raises(ConfigError, match=rf"is not installed. Run: pip install 'memory-inspector\[{extra}\]'"):
        importlib.import_module(f"memory_inspector.adapters.{module}")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert extras[extra]

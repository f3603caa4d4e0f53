"""Keep tests from whatever the environment names of the user: a database, a folder, a model, a tracer."""

import os
from collections.abc import Iterable

SWITCHES = frozenset(
    f"MEMORY_INSPECTOR_{name}"
    for name in (
        "ADAPTERS",
        "ALL_FAULTS",
        "EVERY_STATEMENT",
        "EXAMPLES",
        "KILL_ROUNDS",
        "LAB_CASES",
        "LIVES",
        "MUTATIONS",
        "ORDER",
        "PAGE_CHANGES",
        "PRESSES",
        "PUTS",
        "REAL_AGENTS",
        "SHARED",
        "TENANT_OPERATIONS",
        "TRACED_LIVES",
        "UNTIL",
    )
)
"""The suite's own: how much it tries, and where the real conversations are."""

FAMILIES = (
    "MEMORY_INSPECTOR_",
    "OPENAI_",
    "AZURE_OPENAI_",
    "ANTHROPIC_",
    "GEMINI_",
    "GOOGLE_",
    "CHROMA_",
    "STREAMLIT_",
    "OTEL_",
    "LANGCHAIN_",
    "LANGSMITH_",
)
"""First parts of names that the product, or a framework that it is tested with, reads as an address, key or folder."""

FOLDERS = frozenset({"CLAUDE_CONFIG_DIR", "CODEX_HOME"})
"""Where coding agents keep their sessions."""


def misleading(names: Iterable[str]) -> list[str]:
    """Return those of the variables that could take a test to something of the user's."""
    return [name for name in names if name in FOLDERS or (name.startswith(FAMILIES) and name not in SWITCHES)]


def clear() -> None:
    """Remove them from this process, and so from all that it starts."""
    for name in misleading([*os.environ]):
        del os.environ[name]


clear()

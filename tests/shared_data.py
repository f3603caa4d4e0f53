"""Where the conversations of tests are: real ones outside the project, and ours beside them in the same forms.

`MEMORY_INSPECTOR_SHARED` names the folder that holds the real ones under `data/`. Without it tests marked `data` are
skipped; no other folder is looked for, so that nothing on a machine changes what a test run is.
"""

import os
from pathlib import Path

VARIABLE = "MEMORY_INSPECTOR_SHARED"


def missing_data() -> str | None:
    """Return why tests marked `data` are skipped; None where they run."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        return f"set {VARIABLE} to the folder that holds the real conversations under data/"
    return None if Path(folder, "data").is_dir() else f"{VARIABLE} names {folder}, which has no folder data/"


READY = "MEMORY_INSPECTOR_REAL_AGENTS"
"""Environment variable: `npm`, or a folder with ready installations of coding agents, one folder a program."""


def missing_agents() -> str | None:
    """Return why tests marked `real` are skipped; None where they run."""
    return None if os.environ.get(READY) else f"real coding agents: set {READY}, or `make real`"


def shared(name: str) -> Path:
    """The path of one real file, such as `memorybank/memory_bank_en.json`, for a test marked `data`."""
    assert missing_data() is None, "mark this test `data`"
    return Path(os.environ[VARIABLE], "data", name)

"""Where the test conversations live: beside the project, never inside it."""

import os
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent


def shared(name: str) -> Path:
    """The path of one data file, such as `memorybank/memory_bank_en.json`."""
    folder = Path(os.environ.get("MEMORY_INSPECTOR_SHARED", _ROOT.parent / "shared")) / "data"
    path = folder / name
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: set MEMORY_INSPECTOR_SHARED to the folder that holds data/")
    return path

"""Read what the stores of real frameworks hold, each filled by its framework, and compare it with what was said.

    make real
    .venv/bin/python benchmarks/real/stores.py [--write] [--environments FOLDER] [NAME ...]

Each framework gets a virtual environment of its own, with the newest release. `--write` puts the table into
docs/reference/formats.md. It ends with an error if anything is missing.
"""

import argparse
import datetime
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from comparison import rewritten
from run import environment, versions
from store_programs import ANSWER, CALL, LAST, QUESTION, RESULT, SECOND

from memory_core.errors import FormatError
from memory_inspector.files.files import read_path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "reference" / "formats.md"
PACKAGES = {
    "pydantic_ai": ("pydantic-ai-slim",),
    "strands": ("strands-agents",),
    "agent_framework": ("agent-framework-core",),
    "autogen": ("autogen-agentchat", "autogen-ext"),
    "haystack": ("haystack-ai",),
    "google_adk": ("google-adk", "sqlalchemy", "aiosqlite", "greenlet"),
    "openai_agents": ("openai-agents",),
    "langgraph": ("langgraph-checkpoint-sqlite", "langgraph"),
}
"""Packages that pip installs for each store; the first is the framework."""
EXPECTED = [
    ("user", QUESTION, None), ("assistant", None, CALL), ("tool", RESULT, None), ("assistant", ANSWER, None),
    ("user", SECOND, None), ("assistant", LAST, None),
]  # fmt: skip
"""Role, words and arguments of the call of each message."""


def difference(path: Path) -> str:
    """Return what differs from what was said, in words; empty if nothing does."""
    try:
        preview = read_path(path)
        conversation = preview.conversation()
    except FormatError as error:
        return str(error)
    spoken = [
        (str(message.role), message.content or None, message.tool_calls[0].tool_kwargs if message.tool_calls else None)
        for message in conversation.messages
        if message.role != "system"
    ]
    if len(preview.conversations) > 1:
        return f"{len(preview.conversations)} conversations"
    if conversation.skipped or conversation.notes:
        return f"left out: {[*conversation.skipped, *conversation.notes]}"
    return "" if spoken == EXPECTED else f"read as {spoken}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(PACKAGES)}; all by default")
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.relative_to(ROOT)}")
    parser.add_argument("--environments", type=Path, default=ROOT / ".venv" / "real", metavar="FOLDER")
    options = parser.parse_args()
    rows, differ = [], 0
    for name in options.names or PACKAGES:
        print(f"{name} ...", file=sys.stderr, flush=True)
        package, *_ = PACKAGES[name]
        python = environment(options.environments.resolve() / f"store-{name}", PACKAGES[name], {})
        (version,) = versions(python, package)
        with tempfile.TemporaryDirectory() as folder:
            command = [python, "-W", "ignore", HERE / "store_programs.py", name, folder]
            done = subprocess.run(command, text=True, capture_output=True, env={**os.environ, "PYTHONPATH": ""})
            if done.returncode:
                sys.exit(f"{name} failed:\n{done.stderr[-2000:]}")
            [path] = [*(Path(folder) / name).glob("session_*/"), *(Path(folder) / name).glob("*.*")]
            what = difference(path)
        differ += bool(what)
        rows.append(f"| {package} {version} | {what or 'all of it'} |")
    section = "\n".join(
        [
            f"Stores that the real frameworks filled with a question, a call, its result, an answer and a second turn, "
            f"read on {datetime.date.today().isoformat()} (`make real`):",
            "",
            "| framework | what is read |",
            "|---|---|",
            *rows,
            "",
        ]
    )
    print(section)
    if options.write:
        PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8"), section), encoding="utf-8")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())

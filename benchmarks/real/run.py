"""Run the real memory systems and ours on the same conversations with the same scripted model, and compares them.

    make real [ARGS="--write"]
    .venv/bin/python benchmarks/real/run.py [--write] [--pinned] [--environments FOLDER] [NAME ...]

Each real system gets an environment of its own, with the newest release, or with `--pinned` the one that the last
written table names. Then the tests are counted that peers ship with their packages. `--write` puts the result into
docs/reference/systems.md. It ends with an error if a difference is explained by no row of the documents.
"""

import argparse
import datetime
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import peer_suites
from comparison import SYSTEMS, Compared, differences, explanation, last_versions, rewritten, table
from ours import RUNS
from peer_suites import SUITES
from real_mcp import run as run_mcp
from results import Known, run_all
from scripted_model import serving

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGE = ROOT / SYSTEMS
PACKAGES = {
    "mem0": ("mem0ai",),
    "agno": ("agno", "openai", "sqlalchemy"),
    "llamaindex": ("llama-index-core",),
    "langchain": ("langchain", "langchain-openai"),
}
"""What pip installs for each system; the first is the system."""
SERVER = "@modelcontextprotocol/server-memory"
OURS = ("-m", "memory_inspector", "mcp-memory", "--database", "FOLDER/graph.db", "--session", "graph")


def environment(folder: Path, packages: Sequence[str], versions: Mapping[str, str]) -> Path:
    """Make or update a virtual environment with these packages; its interpreter."""
    bin, suffix = ("Scripts", ".exe") if os.name == "nt" else ("bin", "")
    python = folder / bin / f"python{suffix}"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pinned = [f"{package}=={versions[package]}" if package in versions else package for package in packages]
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade"]
    subprocess.run([*command, *pinned], check=True)
    return python


def versions(python: Path, *packages: str) -> list[str]:
    """Return the versions of packages that an interpreter has."""
    asked = f"from importlib.metadata import version; print(*map(version, {packages!r}))"
    return subprocess.run([python, "-c", asked], check=True, text=True, capture_output=True).stdout.split()


def compared_by_pip(name: str, folder: Path, versions: Mapping[str, str], url: str) -> Compared:
    """Run a system that pip installs, and ours."""
    python = environment(folder, PACKAGES[name], versions)
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "known.json"
        command = [str(python), "-W", "ignore", str(HERE / f"real_{name}.py"), url, str(file)]
        done = subprocess.run(command, text=True, capture_output=True)  # what it logs is shown if it fails
        if done.returncode:
            sys.exit(f"{name} failed:\n{done.stderr[-2000:]}")
        written = json.loads(file.read_text(encoding="utf-8"))
    return Compared(name, written["versions"], differences(name, written["known"], run_all(RUNS[name], url, "ours")))


def compared_by_npm(folder: Path, versions: Mapping[str, str], url: str) -> Compared | None:
    """Run MCP's memory server and ours; None without npm."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if not npm or not node:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    wanted = f"{SERVER}@{versions.get(SERVER, 'latest')}"
    subprocess.run([npm, "install", "--silent", "--no-fund", "--no-audit", "--prefix", folder, wanted], check=True)
    package = folder / "node_modules" / SERVER
    version = json.loads((package / "package.json").read_text(encoding="utf-8"))["version"]
    theirs = _graphs([node, str(package / "dist" / "index.js")], url, "real")
    ours = _graphs([sys.executable, *OURS], url, "ours")
    return Compared("mcp", {SERVER: version}, differences("mcp", theirs, ours))


def _graphs(command: Sequence[str], url: str, name: str) -> dict[str, Known]:
    os.environ["MCP_SERVER"] = json.dumps(command)
    return run_all(run_mcp, url, name)


def suites(folder: Path, pinned: Mapping[str, str], systems: Mapping[str, str]) -> str:
    """Run the peers' own suites, and count the tests that the systems bring; a table."""
    packages = [suite.package for suite in SUITES]
    python = environment(folder, ["-e", f"{ROOT}[openai]", *packages, *peer_suites.NEEDED], pinned)
    found = versions(python, *packages)
    rows = []
    for suite, version in zip(SUITES, found, strict=True):
        root = peer_suites.fetched(suite.package, version, python, folder / "tests")
        theirs, ours = (peer_suites.counted(suite, root, python, ours=ours) for ours in (False, True))
        rows.append((suite, version, theirs, ours))
    roots = {name: peer_suites.fetched(name, version, python, folder / "tests") for name, version in systems.items()}
    return peer_suites.table(rows, {name: len(list(root.rglob("test_*.py"))) for name, root in roots.items()})


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"{', '.join(PACKAGES)}, mcp or suites; all by default"
    )
    parser.add_argument("--write", action="store_true", help=f"write the table into {SYSTEMS}")
    parser.add_argument("--pinned", action="store_true", help="the versions of the table that was written last")
    parser.add_argument("--environments", type=Path, default=ROOT / ".venv" / "real", metavar="FOLDER")
    options = parser.parse_args()
    names = options.names or [*PACKAGES, "mcp", "suites"]
    page = PAGE.read_text(encoding="utf-8")
    pinned = last_versions(page) if options.pinned else {}
    results: list[Compared] = []
    notes: list[str] = []
    for name in names:
        print(f"{name} ...", file=sys.stderr, flush=True)
        folder = options.environments.resolve() / name
        if name == "suites":
            systems = [one for one in results if one.system in PACKAGES]
            own = {PACKAGES[one.system][0]: one.versions[PACKAGES[one.system][0]] for one in systems}
            notes.append(suites(folder, pinned, own))
            continue
        with serving() as url:  # a model of its own for each system: what failed once fails once for each
            run = compared_by_npm if name == "mcp" else partial(compared_by_pip, name)
            result = run(folder, pinned, url)
        if result is None:
            notes.append("MCP's memory server was not run: there is no npm.")
        else:
            results.append(result)
    section = table(results, notes, datetime.date.today().isoformat())
    print(section)
    if options.write:
        PAGE.write_text(rewritten(page, section), encoding="utf-8")
    unexplained = [one for result in results for one in result.differences if explanation(one) is None]
    for difference in unexplained:
        print(f"Unexplained: {difference.system}, {difference.conversation.name}: {difference.line()}", file=sys.stderr)
    return 1 if unexplained else 0


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for package in ("memory_core", "memory_inspector"):
        logging.getLogger(package).setLevel(logging.ERROR)
    sys.exit(main())

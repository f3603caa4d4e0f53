"""How soon the first page is there, and how much it moves: from the start of the process to Chat with its numbers.

    python benchmarks/first_page.py [--runs N] [--port P] [--no-shift]

Each run starts the server as `make run` does, on an empty folder, and sends Chromium's empty tab there as soon as the
server answers; the browser's own start is not counted. Seconds since the process was started, the least and the
median of the runs:

    answers   the server answers
    painted   the browser painted something
    frame     the page's title stands
    numbers   Chat shows the demo's token budget
    idle      the script has run to its end
    work      processor seconds of the server until then

Then, for every page, the layout shift while it loads, as web-vitals counts it (the worst session window of shifts
without a recent input), and the sidebar's width, for the first browser of a new server and for the one after it.
"""

import argparse
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("", "context", "timeline", "blocks", "facts", "graph", "trace", "retrieval", "lab", "sessions")
STEPS = ("answers", "painted", "frame", "numbers", "idle", "work")
IDLE = '[data-testid="stApp"][data-test-script-state="notRunning"]'
SETTLED_MS = 1_500
"""How long nothing but late arrivals is waited for, before the shift is read."""

MARKS = """
window.marks = {};
const mark = (name) => { window.marks[name] ??= (performance.timeOrigin + performance.now()) / 1000; };
const look = () => {
  if (document.querySelector('[data-testid="stMain"] h1')) mark('frame');
  if (document.body?.innerText.includes('Token budget')) mark('numbers');
  if (window.marks.numbers && document.querySelector('[data-test-script-state="notRunning"]')) mark('idle');
};
new MutationObserver(look).observe(document, {childList: true, subtree: true, attributes: true, characterData: true});
new PerformanceObserver((list) => {
  for (const entry of list.getEntries())
    if (entry.name === 'first-contentful-paint')
      window.marks.painted = (performance.timeOrigin + entry.startTime) / 1000;
}).observe({type: 'paint', buffered: true});
"""
"""Notes in `window.marks` when each step was first seen, in seconds since the epoch."""

SHIFTS = """
window.shifts = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries())
    if (!entry.hadRecentInput) window.shifts.push({
      at: entry.startTime, value: entry.value,
      of: entry.sources.map((s) => s.node?.dataset?.testid || s.node?.className || s.node?.nodeName || '?').join(' '),
    });
}).observe({type: 'layout-shift', buffered: true});
"""
"""Notes in `window.shifts` every layout shift that no input explains: when (ms), how much, and of what."""


def cumulative_shift(shifts: list[dict[str, Any]]) -> float:
    """CLS: the largest sum of shifts in one session window (gaps below 1 s, at most 5 s long)."""
    worst = total = 0.0
    began = before = float("-inf")
    for shift in shifts:
        if shift["at"] - before > 1_000 or shift["at"] - began > 5_000:
            began, total = shift["at"], 0.0
        total, before = total + shift["value"], shift["at"]
        worst = max(worst, total)
    return worst


@contextmanager
def server(
    home: Path, port: int, checkout: Path = ROOT, more: dict[str, str] | None = None
) -> Iterator[tuple[str, subprocess.Popen[bytes], float]]:
    """The app on a free port, not yet waited for: its address, its process and when that was started.

    `more`: environment variables that it gets too.
    """
    command = [sys.executable, "-m", "streamlit", "run", "serve.py", "--server.port", str(port)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "MEMORY_INSP"))}
    environment = {**kept, "MEMORY_INSPECTOR_HOME": str(home), **(more or {})}
    started = time.time()
    process = subprocess.Popen(
        command, cwd=checkout, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield f"http://127.0.0.1:{port}", process, started
    finally:
        process.terminate()
        process.wait()


def answering(url: str, process: subprocess.Popen[bytes]) -> float:
    """Wait until the server answers; when that was, in seconds since the epoch."""
    while process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/_stcore/health", timeout=5):
                return time.time()
        except OSError:
            time.sleep(0.01)
    raise SystemExit("the server ended")


CHROMIUMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]


def chromium() -> str:
    """Path of the first Chromium that is installed, by the names that the browser tests know."""
    path = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if path is None:
        raise SystemExit(f"None of {', '.join(CHROMIUMS)} is installed")
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def processor_seconds(pid: int) -> float:
    """User and system time of a process so far; 0 where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def first_page(browser: Any, port: int) -> dict[str, float]:
    """Seconds from the start of the process to each of `STEPS`."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})  # an empty profile, as before any visit
    context.add_init_script(MARKS)
    page = context.new_page()
    with tempfile.TemporaryDirectory() as home, server(Path(home), port) as (url, process, started):
        healthy = answering(url, process)
        page.goto(url, wait_until="commit")
        marks: dict[str, float] = {}
        while "idle" not in marks:  # asked from here: the page's policy forbids what `wait_for_function` does
            time.sleep(0.05)
            marks = page.evaluate("window.marks")
        work = processor_seconds(process.pid)
        context.close()
    seconds = {name: at - started for name, at in {"answers": healthy, **marks}.items()}
    return {**seconds, "work": work}


def time_first_page(browser: Any, runs: int, port: int) -> None:
    taken = []
    print(f"{'first page, seconds':<22}" + "".join(f"{step:>10}" for step in STEPS))
    for number in range(1, runs + 1):
        taken.append(first_page(browser, port or free_port()))
        _row(f"run {number}", taken[-1])
    for name, of in (("least", min), ("median", statistics.median)):
        _row(name, {step: of([run[step] for run in taken]) for step in STEPS})


def _row(name: str, run: dict[str, float]) -> None:
    print(f"{name:<22}" + "".join(f"{run[step]:10.2f}" for step in STEPS), flush=True)


def measure_shift(browser: Any, port: int) -> None:
    """Layout shift and sidebar of every page: as the first page of a new server, and once everything is loaded."""
    print(f"\n{'layout shift':<14}{'first':>8}{'sidebar':>9}{'second':>9}{'sidebar':>9}   largest shift of")
    for path in PAGES:
        with tempfile.TemporaryDirectory() as home, server(Path(home), port or free_port()) as (url, process, _):
            answering(url, process)
            seen = [loaded(browser, f"{url}/{path}") for _ in range(2)]
        largest = max((shift for _, _, shifts in seen for shift in shifts), key=lambda each: each["value"], default={})
        numbers = "".join(f"{shift:8.3f}{width:9.1f} " for shift, width, _ in seen)
        print(f"{path or 'chat':<14}{numbers}  {largest.get('value', 0):.3f} {largest.get('of', '')}"[:160], flush=True)


def loaded(browser: Any, address: str) -> tuple[float, float, list[dict[str, Any]]]:
    """A new browser opens a page: its layout shift, the sidebar's width in pixels, and each shift."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.add_init_script(SHIFTS)
    page = context.new_page()
    page.goto(address)
    page.locator(IDLE).wait_for(timeout=60_000)
    page.locator('[data-testid="stMain"] h1').wait_for(timeout=60_000)
    page.wait_for_timeout(SETTLED_MS)
    page.locator(IDLE).wait_for(timeout=60_000)
    shifts = page.evaluate("window.shifts")
    width = page.locator('[data-testid="stSidebar"]').bounding_box()["width"]
    context.close()
    return cumulative_shift(shifts), width, shifts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--port", type=int, default=0, help="a free one when it is not given")
    parser.add_argument("--no-shift", action="store_true")
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        time_first_page(browser, options.runs, options.port)
        if not options.no_shift:
            measure_shift(browser, options.port)
        browser.close()


if __name__ == "__main__":
    main()

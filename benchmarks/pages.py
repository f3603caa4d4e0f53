"""How quick the pages are on a long session: 5,000 messages, 300 facts, 500 entities, more than 2,000 stored turns.

    python benchmarks/pages.py [--home DIR] [--turns N] [--no-browser]

Every page is drawn anew five times in this process, at the latest turn and at an earlier one; the median is
shown. Then the app is started as `make run` does it, and Chromium (when it is installed) opens the first page:
once on this folder, once on an empty one, where the demo is made first. `--home` keeps the session for the
next run; making it takes some minutes.
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
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

from growth import turns
from streamlit.runtime.pages_manager import PagesManager
from streamlit.testing.v1 import AppTest, app_test

from memory_core import (
    ChatMessage,
    FactExtractionMemoryBlock,
    GraphMemoryBlock,
    Memory,
    StaticMemoryBlock,
    VectorMemoryBlock,
)
from memory_core.planning.graph_changes import NamedRelation

ROOT = Path(__file__).resolve().parent.parent
SESSION = "long"
PAGES = ("chat", "context", "timeline", "blocks", "facts", "graph", "trace", "retrieval", "lab", "sessions")
FACTS = 300
ENTITIES = 500
REPEATS = 5
MAX_RERUN_MS = 300
MAX_COLD_SECONDS = 3.0


def make(home: Path, count: int) -> None:
    """The long session, in the app's own folder and with the app's own embedding model."""
    home.mkdir(parents=True, exist_ok=True)
    blocks = [
        StaticMemoryBlock(name="Instructions", static_content="You help Ada. Be brief."),
        FactExtractionMemoryBlock(
            name="Facts", priority=1, max_facts=2 * FACTS, facts=[f"Ada has been to place {n}" for n in range(FACTS)]
        ),
        VectorMemoryBlock(name="Earlier turns", priority=2, similarity_top_k=5, retrieval_context_window=3),
        GraphMemoryBlock(name="Relations", priority=3),
    ]
    memory = Memory.from_defaults(
        SESSION, database_uri=f"sqlite:///{home}/memory.db", memory_blocks=blocks, title="Long", token_limit=4_000
    )
    memory.blocks.graph().add_many(
        [NamedRelation(f"Person {n}", "knows", f"Person {n // 3}") for n in range(1, ENTITIES)]
    )
    had = memory.session.status().turns
    for number, (said, answer) in enumerate(turns(count), start=1):
        if number <= had:
            continue
        memory.put(ChatMessage(role="user", content=said))
        memory.build_context()
        memory.put(ChatMessage(role="assistant", content=answer))
        if number % 100 == 0:
            print(f"\r  {number:,} of {count:,} turns", end="", file=sys.stderr, flush=True)
    memory.deliver()
    status = memory.session.status()
    messages = status.queue_messages + status.archived_messages
    facts, stored = len(memory.facts.read("Facts")), len(memory.retrieval.stored_turns("Earlier turns"))
    entities = len(memory.blocks.graph().graph().entities)
    held = f"{facts} facts, {entities} entities, {stored:,} stored turns"
    print(f"\r{messages:,} messages, {held}, {status.position:,} events")
    memory.session.database.close()


def median_ms(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return 1000 * statistics.median(seconds)


class _RunningServer(PagesManager):
    """In a running server every page is drawn inside app.py; AppTest begins each run as the very first request."""

    def __init__(self, *given: object, **named: object) -> None:
        PagesManager.uses_pages_directory = False
        super().__init__(*given, **named)  # type: ignore[arg-type]


def reruns(home: Path, count: int) -> None:
    """Milliseconds of one more drawing of each page."""
    os.environ["MEMORY_INSPECTOR_HOME"] = str(home)
    app_test.PagesManager = _RunningServer  # type: ignore[misc]
    print(f"\n{'page':<12}{'first':>10}{'rerun':>10}{'turn ' + str(count // 2):>12}{'goal':>10}")
    for page in PAGES:
        app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=120)
        app.query_params["session"] = SESSION
        app.run()
        app.switch_page(f"pages/{page}.py")
        start = time.perf_counter()
        app.run()
        first = 1000 * (time.perf_counter() - start)
        now = median_ms(app.run)
        then = 0.0
        if page != "sessions":
            app.session_state["turn"] = count // 2
            app.run()
            then = median_ms(app.run)
        if app.exception:
            raise SystemExit(f"{page}: {app.exception[0].value}")
        verdict = "pass" if max(now, then) < MAX_RERUN_MS else "miss"
        past = f"{then:12,.0f}" if then else f"{'':>12}"
        print(f"{page:<12}{first:10,.0f}{now:10,.0f}{past}{'< 300':>10}  {verdict}", flush=True)


@contextmanager
def server(home: Path):  # type: ignore[no-untyped-def]
    """The app on a free port; its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "serve.py", "--server.port", str(port)]
    environment = {**os.environ, "MEMORY_INSPECTOR_HOME": str(home)}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        while process.poll() is None:
            try:
                urllib.request.urlopen(f"{url}/_stcore/health", timeout=1)
                break
            except OSError:
                time.sleep(0.02)
        yield url
    finally:
        process.terminate()
        process.wait()


def cold_starts(home: Path) -> None:
    """Seconds from the start of the process to the first page in a browser."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        print("\nChromium is not installed: the first page was not timed")
        return
    from playwright.sync_api import sync_playwright

    print(f"\n{'first page, seconds':<34}{'server':>10}{'page':>10}{'reload':>10}{'goal':>10}")
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as empty:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        long = ("the long session", home, f"/?session={SESSION}")
        fresh = ("an empty folder, with the demo", Path(empty), "/")
        for name, folder, path in (long, fresh):
            start = time.perf_counter()
            with server(folder) as url:
                healthy = time.perf_counter() - start
                page = browser.new_context().new_page()
                page.goto(url + path)
                page.get_by_text("Token budget").first.wait_for(timeout=60_000)
                cold = time.perf_counter() - start
                again = time.perf_counter()
                page.reload()
                page.get_by_text("Token budget").first.wait_for(timeout=60_000)
                warm = time.perf_counter() - again
            verdict = "pass" if cold < MAX_COLD_SECONDS else "miss"
            print(f"{name:<34}{healthy:10.1f}{cold:10.1f}{warm:10.1f}{'< 3':>10}  {verdict}", flush=True)
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path)
    parser.add_argument("--turns", type=int, default=2_500)
    parser.add_argument("--no-browser", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = options.home or Path(folder)
        make(home, options.turns)
        reruns(home, options.turns)
        if not options.no_browser:
            cold_starts(home)


if __name__ == "__main__":
    main()

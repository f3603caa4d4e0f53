"""Measure a click: processor time of the server, and time until the page is quiet, for two builds in turn.

    python benchmarks/hands.py [--base CHECKOUT] [--rounds N] [--busy]

Each build gets a server on an empty folder with the demo, and a browser of its own at 1440 × 900. In every round each
build does the same in turn: the demo's next message, Context, Facts, Settings, Ctrl+K, Chat, then the words of a fact
are changed and saved. `--base`: a second checkout, by the same Python; `--busy`: two processes want a core each
meanwhile. Beside them, as the floor, a click on an empty page of Streamlit. Medians of the rounds:

    work    processor milliseconds of the server, until nothing has moved for a second
    quiet   milliseconds until the last change of the page
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from first_page import FLAGS, ROOT, answering, chromium, free_port, processor_seconds, server

STILL_MS = 1_000
"""How long nothing moves before an action counts as over."""
WATCH = """
window.changed = 0;
const aside = '[data-testid="stStatusWidget"], [data-testid="stToolbar"]';
const note = (changes) => {
  if (changes.some(({target}) => !(target.closest ? target : target.parentElement)?.closest(aside)))
    window.changed = performance.now();
};
addEventListener('DOMContentLoaded', () => new MutationObserver(note).observe(
    document.body, {childList: true, subtree: true, characterData: true}));
"""
"""Notes when an element or a text changed last; the sign that the script runs is none, it comes with every poll."""
EMPTY = """
import streamlit as st
st.button("Press")
st.write(st.session_state.setdefault("times", 0))
st.session_state["times"] += 1
"""
ACTIONS = ("Next message", "Context", "Facts", "Settings", "Ctrl+K", "Chat", "edit a fact", "save it")


class Hand:
    """Build under test with its server and its browser."""

    def __init__(self, tab: Any, url: str, process: "subprocess.Popen[bytes]") -> None:
        self.tab, self.url, self.process = tab, url, process
        self.taken: dict[str, list[tuple[float, float]]] = defaultdict(list)

    def settle(self) -> None:
        """Wait until the script has ended and nothing has moved for a while."""
        while True:
            self.tab.wait_for_timeout(50)
            idle = self.tab.locator('[data-testid="stApp"][data-test-script-state="notRunning"]').count()
            if idle and self.tab.evaluate("performance.now() - window.changed") > STILL_MS:
                return

    def do(self, name: str, act: Callable[[], object], last: str | None = None) -> None:
        """Measure an action until the page is quiet, with the selector of what it brings."""
        work, began = processor_seconds(self.process.pid), self.tab.evaluate("performance.now()")
        act()
        if last is not None:
            self.tab.locator(last).first.wait_for()
        self.settle()
        quiet = self.tab.evaluate("window.changed") - began
        self.taken[name].append((1_000 * (processor_seconds(self.process.pid) - work), quiet))

    def go(self, path: str) -> None:
        self.tab.goto(f"{self.url}/{path}")
        self.tab.locator('[data-testid="stMain"] h1').wait_for()
        self.settle()

    def page(self, name: str) -> None:
        """Open a page by its line in the sidebar."""
        line = self.tab.locator('[data-testid="stSidebarNavLink"], .st-key-menu a').filter(has_text=name).first
        self.do(name, line.click, f'[data-testid="stMain"] h1:has-text("{name}")')

    def round(self, number: int) -> None:
        """Do each of `ACTIONS` once; the demo begins anew each time it is over."""
        tab = self.tab
        self.go("chat")
        again = tab.get_by_role("button", name="Play again")
        if again.count():
            again.first.click()
            self.settle()
        self.do("Next message", tab.get_by_role("button", name="Next message").first.click)
        self.page("Context")
        self.page("Facts")
        self.do("Settings", tab.locator(".st-key-frame__settings button").first.click, '[role="dialog"]')
        tab.keyboard.press("Escape")
        self.settle()
        self.do("Ctrl+K", lambda: tab.keyboard.press("Control+k"), '[role="dialog"]')
        tab.keyboard.press("Escape")
        self.settle()
        self.page("Chat")
        self.go("facts?fact=1")
        words = tab.locator('[class*="st-key-facts__words"] textarea')
        self.do("edit a fact", lambda: words.fill(f"The user is called Ana, and this is change {number} of it"))
        self.do("save it", tab.locator(".st-key-facts__save button").click)


class EmptyHand(Hand):
    """A page of Streamlit with a button, and the number of its runs."""

    def round(self, number: int) -> None:
        self.tab.goto(self.url)
        self.tab.get_by_role("button", name="Press").wait_for()
        self.settle()
        self.do("a click", self.tab.get_by_role("button", name="Press").click)


@contextmanager
def empty_page() -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "empty.py").write_text(EMPTY, encoding="utf-8")
        port = free_port()
        command = [sys.executable, "-m", "streamlit", "run", "empty.py", "--server.port", str(port)]
        process = subprocess.Popen([*command, "--server.headless", "true"], cwd=folder, stdout=subprocess.DEVNULL)
        try:
            yield f"http://127.0.0.1:{port}", process
        finally:
            process.terminate()
            process.wait()


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keep so many processes at work meanwhile."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def report(hands: dict[str, Hand]) -> None:
    """Print a row for each action, and the sums; the ratio is of the first build to the second."""
    print(f"{'':<16}" + "".join(f"{f'{name}, work':>18}{'quiet':>9}" for name in hands) + f"{'ratio':>9}{'quiet':>7}")
    total: dict[str, list[float]] = {name: [0.0, 0.0] for name in hands}
    for action in ACTIONS:
        medians = {
            name: [statistics.median(run[n] for run in hand.taken[action]) for n in (0, 1)]
            for name, hand in hands.items()
        }
        for name, (work, quiet) in medians.items():
            total[name] = [total[name][0] + work, total[name][1] + quiet]
        _row(action, medians)
    _row("all", total)


def _row(action: str, numbers: dict[str, list[float]]) -> None:
    columns = "".join(f"{work:15.0f} ms{quiet:9.0f}" for work, quiet in numbers.values())
    first, *others = numbers.values()
    ratios = "".join(f"{first[n] / base[n]:9.2f}"[2 * n :] for base in others[:1] for n in (0, 1) if base[n])
    print(f"{action:<16}{columns}{ratios}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path, help="a checkout of the build to compare with")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--busy", action="store_true")
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    builds = {"this build": ROOT} | ({"the other": options.base.resolve()} if options.base else {})
    with ExitStack() as stack:
        browser = stack.enter_context(sync_playwright()).chromium.launch(executable_path=chromium(), args=FLAGS)

        def hand(kind: type[Hand], url: str, process: "subprocess.Popen[bytes]") -> Hand:
            answering(url, process)
            context = browser.new_context(viewport={"width": 1440, "height": 900})
            context.add_init_script(WATCH)
            context.set_default_timeout(120_000)
            return kind(context.new_page(), url, process)

        hands = {}
        for name, checkout in builds.items():
            home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            url, process, _ = stack.enter_context(server(home, free_port(), checkout))
            hands[name] = hand(Hand, url, process)
        floor = hand(EmptyHand, *stack.enter_context(empty_page()))
        every = [*hands.values(), floor]
        for number in range(-1, options.rounds):  # what the first round of all brings is not counted
            if number == 0:
                for one in every:
                    one.taken.clear()
                stack.enter_context(busy(2 if options.busy else 0))
            for one in every if number % 2 else reversed(every):
                one.round(number + 2)
        report(hands)
        work, quiet = (statistics.median(run[n] for run in floor.taken["a click"]) for n in (0, 1))
        print(f"a click on an empty page of Streamlit: {work:.0f} ms of work, quiet after {quiet:.0f} ms")
        browser.close()


if __name__ == "__main__":
    main()

"""Notebook cells: `render`, HTML of each object of the engine, and `watch`, a cell that follows a memory.

Both are functions of the entry point `memory_core.html`. cards.html draws objects from the values of the engine, and
escapes every text. No script, no request. A cell that follows has a daemon thread, which looks up the log's last
position and draws the memory anew when it has changed; between two looks it holds no lock, no transaction, and no
reference that would keep the memory alive.
"""

import logging
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from threading import Event, Thread
from typing import Any, cast
from weakref import WeakKeyDictionary, ref

from markupsafe import Markup

from memory_core import ConfigError, Context, Memory, MemoryInspectorError
from memory_core.curation.change_sets import Change
from memory_core.curation.known_facts import FactList
from memory_core.engine.next_prompt import NextPrompt
from memory_core.events import AgentAttached, ContextBuilt
from memory_core.history.log import last_position
from memory_core.messages import message_text
from memory_core.planning.context_plan import QUEUE, RESERVED_LABEL, ContextPlan
from memory_core.planning.fact_merging import Fact
from memory_core.planning.flush import FlushPlan
from memory_core.text import listed
from memory_core.tracing.exported_page import templates
from memory_core.tracing.rule_words import CUTS, FLUSHES
from memory_core.tracing.values import Trace, Verdict
from memory_core.tracing.words import VERDICTS, brief, carrier_name, prompt_of, stage_name
from memory_inspector.figures.budget_lanes import (
    Lanes,
    Segment,
    amount,
    in_order,
    lanes_html,
    lanes_of,
    note_of,
    queue_sentence,
)
from memory_inspector.palette import block_colour, css_variables
from memory_inspector.wording.event_sentences import describe
from memory_inspector.wording.event_sentences.event_words import Line, present_words
from memory_inspector.wording.formatting import count, session_name, short, tokens
from memory_inspector.wording.story import STORY_KINDS, story

MAX_CHARACTERS, MAX_ROWS = 400, 100
"""Maximum characters of a text, and maximum rows of a table and items of a list."""

QUOTED = 80
"""Maximum characters of words within a sentence."""

MARKS: Mapping[Verdict, str] = {"passed": "✓", "lost": "✕", "waiting": "…", "not_reached": "–", "unknown": "?"}

_LIGHT = ":is([data-jp-theme-light=true],.vscode-light,.vscode-high-contrast-light,[theme=light],[data-theme=light])"
_DARK = ":is([data-jp-theme-light=false],.vscode-dark,.vscode-high-contrast,[theme=dark],[data-theme=dark])"
"""Marks of the theme in JupyterLab, VS Code, Colab and others; without any, the system's setting counts."""


def render(shown: object) -> str | None:
    """Return an object of the engine as HTML for a notebook; None for any other object."""
    inside = body(shown)
    return None if inside is None else card(inside)


def card(inside: Markup | None, state: str = "") -> str:
    """Return a whole output: the style, which applies to nothing else in the notebook, the object, and its state."""
    return str(_cards().card(inside, _style(), state)).strip()


@cache
def _cards() -> Any:
    """Return the macros of cards.html, which use the names and functions given here."""
    functions = (
        amount, block_colour, brief, carrier_name, count, in_order, lanes_html, listed, marks_of, message_text, note_of,
        prompt_of, queue_sentence, session_name, short, stage_name, tokens,
    )  # fmt: skip
    names = {"CUTS": CUTS, "FLUSHES": FLUSHES, "MARKS": MARKS, "VERDICTS": VERDICTS}
    limits = {"MAX_CHARACTERS": MAX_CHARACTERS, "MAX_ROWS": MAX_ROWS, "QUOTED": QUOTED}
    shared = names | limits | {function.__name__: function for function in functions}
    return templates("memory_inspector.notebook").get_template("cards.html", globals=shared).module


@cache
def _style() -> str:
    light, dark = (f"{css_variables(mode)}color-scheme:{mode};" for mode in ("light", "dark"))
    # A light notebook stays light on a dark system.
    in_dark = f".memory-inspector:not({_LIGHT} *){{{dark}}}"
    colours = f".memory-inspector{{{light}}}@media(prefers-color-scheme:dark){{{in_dark}}}{_DARK} {in_dark}"
    return colours + (files(__package__) / "notebook.css").read_text(encoding="utf-8")


def body(shown: object) -> Markup | None:
    """Return the contents of an object's card; None for an object that has none."""
    drawn: Markup | None = None
    match shown:
        case Memory():
            drawn = _memory(shown)
        case Context():
            drawn = _cards().context(shown, _plan(shown.plan, shown.kinds, shown.words))
        case ContextPlan():
            drawn = _plan(shown, {}, {})
        case FlushPlan():
            drawn = _cards().flush(shown)
        case NextPrompt():
            drawn = _cards().next_prompt(shown, body(shown.context))
        case Change():
            drawn = _cards().change(shown, body(shown.prompt))
        case FactList():
            drawn = _cards().facts(shown)
        case Trace():
            drawn = _cards().trace(shown)
    return drawn


def _memory(memory: Memory) -> Markup:
    """Draw a memory's last prompt, its queue, and the story of its last turn."""
    status = memory.session.status()
    newest = memory.events(kinds=[ContextBuilt.kind], newest_first=True, limit=1)
    built = newest[0].event if newest and isinstance(newest[0].event, ContextBuilt) else None
    events = memory.events(turn=status.turns, kinds=STORY_KINDS)
    named = present_words(memory, events)
    kinds = {attached.name: attached.kind for attached in memory.blocks}
    # Another program's prompt was recorded, not planned: its limit is not known, and its queue is its own.
    observed = built.known != "built" if built else memory.events(kinds=[AgentAttached.kind], limit=1)
    lanes = None if observed else lanes_of(status, built, kinds)
    sent = {segment.label for segment in lanes.sent} if lanes else set()
    lines = story(events, named) or [Line("", "Nothing left the queue, and nothing had to be cut.")][: status.turns]
    sentence = describe(built, named).text if built and observed else ""
    unused = [Segment(name, kinds[name], 0, None, 0) for name in kinds if name not in sent]
    turn = newest[0].turn if newest else None
    return cast(Markup, _cards().memory(status, turn, lanes, sentence, unused, lines))


def _plan(plan: ContextPlan, kinds: Mapping[str, str], texts: Mapping[str, str]) -> Markup:
    """Draw the lane of a prompt, and its parts with their pieces; those that were cut are struck through."""
    pinned, beside, queued = plan.pinned_tokens, plan.reserved_tokens, count(len(plan.queue), "message")
    segments = [Segment("Queue", "queue", plan.queue_granted, None, plan.queue_asked, queued)]
    segments += [Segment("System messages", "custom", pinned, 0, pinned, "pinned")] if pinned else []
    segments += [Segment(RESERVED_LABEL, "custom", beside, 0, beside, "the agent's")] if beside else []
    for part in plan.granted:
        segments.append(Segment(part.name, kinds.get(part.name, "custom"), part.granted, part.priority, part.asked))
    cut_tokens = sum(cut.tokens for cut in plan.cuts)
    lanes = Lanes(plan.token_limit, flush_line=0, sent=tuple(segments), free=plan.free, queue_now=0, cut=cut_tokens)
    # Each part with the texts that are in the prompt, and its cuts with those that are not.
    pieces = {part.name: _texts((piece.ref for piece in part.pieces), texts) for part in plan.granted}
    parts = []
    for segment in in_order(lanes):
        place = QUEUE if segment.kind == "queue" else segment.label
        cuts = [(cut, _texts(cut.refs, texts)) for cut in plan.cuts if cut.part == place]
        parts.append((segment, pieces.get(place, []), cuts))
    return cast(Markup, _cards().plan(plan, lanes, parts))


def _texts(refs: Iterable[str], texts: Mapping[str, str]) -> list[str]:
    return [texts[ref] for ref in refs if texts.get(ref)]


def marks_of(fact: Fact) -> Iterator[str]:
    """Yield a fact's state, category, topics and key, without those that go without saying."""
    marks = {fact.state: fact.state != "active", "pinned": fact.pinned, "by hand": fact.origin == "written"}
    marks |= {fact.category: fact.category != "other", **dict.fromkeys(fact.topics, True), fact.key or "": True}
    return (mark for mark, holds in marks.items() if mark and holds)


# -- a notebook cell that follows a memory --------------------------------------------------------


SECONDS = 0.5
"""Seconds between two looks."""

_log = logging.getLogger(__name__)

_watchers: "WeakKeyDictionary[Memory, Watcher]" = WeakKeyDictionary()


def watch(memory: Memory) -> "Watcher":
    """Show a memory in the present cell of a notebook, and follow it; an earlier cell that follows it stops.

    Raises:
        ConfigError: this program is no notebook.
    """
    ipython = sys.modules.get("IPython")
    # IPython in a terminal has no kernel, and cannot change what it has printed.
    if ipython is None or getattr(ipython.get_ipython(), "kernel", None) is None:
        raise ConfigError("Memory.watch shows a cell of a notebook, and this program runs in none.")
    if memory in _watchers:
        _watchers[memory].stop()
    _watchers[memory] = Watcher(memory)
    return _watchers[memory]


class Watcher:
    """A cell that follows a memory."""

    def __init__(self, memory: Memory) -> None:
        from IPython.display import display

        self._memory, self._stopped = ref(memory), Event()
        self._seen, self._reason = -1, ""
        self._draw(memory)
        self._shown: Any = display(self._output("Watching."), raw=True, display_id=True)
        self._thread = Thread(target=self._follow, name="memory-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop following; the cell keeps what it shows. A second call does nothing."""
        self._stopped.set()
        # A database that does not answer must not hold up the caller.
        self._thread.join(4 * SECONDS)

    def _follow(self) -> None:
        try:
            while not self._stopped.wait(SECONDS) and self._look():
                pass
            self._shown.update(self._output(f"Not watched any more. {self._reason}"), raw=True)
        except Exception as error:  # nobody is there to catch what a front end raises
            _log.warning("A watched memory is not drawn any more: %s.", type(error).__name__)

    def _look(self) -> bool:
        """Draw the memory if it has changed; return False once it is closed, deleted or not used any more."""
        memory = self._memory()
        if memory is None:
            return False
        try:
            if self._draw(memory):
                self._shown.update(self._output("Watching."), raw=True)
        except MemoryInspectorError as error:
            self._reason = str(error)
            return False
        return True

    def _draw(self, memory: Memory) -> bool:
        """Draw the memory unless nothing has changed since it was drawn."""
        position = last_position(memory.session.database, memory.session_id)
        changed = position != self._seen
        if changed:
            self._seen, self._body, self._text = position, body(memory), repr(memory)
        return changed

    def _output(self, state: str) -> dict[str, str]:
        return {"text/html": card(self._body, state), "text/plain": self._text}

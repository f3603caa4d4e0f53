"""A notebook cell that follows a memory: the function `watch` of the entry point `memory_core.html`.

A daemon thread looks up the log's last position, and draws the memory anew when it has changed. Between two looks it
holds nothing: no lock, no transaction, and no reference that would keep the memory alive.
"""

import logging
import sys
from threading import Event, Thread
from typing import Any
from weakref import WeakKeyDictionary, ref

from memory_core import ConfigError, Memory, MemoryInspectorError
from memory_core.history.log import last_position
from memory_inspector.notebook.rendering import body, card

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

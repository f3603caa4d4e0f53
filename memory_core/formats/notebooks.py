"""HTML of the engine's objects in notebooks, drawn by other packages, which are looked up by entry points.

    [project.entry-points."memory_core.html"]
    render = "my_package.notebook:html_of"

The engine itself draws nothing, so that it works without such a package.
"""

import logging
from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Protocol, cast

from memory_core.errors import ConfigError, MemoryInspectorError

GROUP = "memory_core.html"

_log = logging.getLogger(__name__)


class Watching(Protocol):
    """A notebook cell that follows a memory."""

    def stop(self) -> None:
        """Stop following; the cell keeps what it shows. A second call does nothing."""


@cache
def functions(name: str) -> tuple[Callable[[Any], Any], ...]:
    """Load the functions that installed packages offer under a name, once per process."""
    loaded = []
    for point in entry_points(group=GROUP, name=name):
        try:
            loaded.append(point.load())
        except Exception as error:  # importing a foreign module may raise anything
            _log.warning("%s draws nothing in notebooks: %s.", point.value, type(error).__name__)
    return tuple(loaded)


def repr_html(shown: object) -> str | None:
    """Return an object as HTML: a class's `_repr_html_`. None, so that plain text is shown, if nothing can draw it."""
    try:
        return next((html for render in functions("render") if (html := render(shown)) is not None), None)
    except MemoryInspectorError:  # a closed database cannot be read
        return None


def watch(memory: object) -> Watching:
    """Show a memory in a notebook cell that follows it.

    Raises:
        ConfigError: there is no notebook, or no installed package draws.
    """
    for follow in functions("watch"):
        return cast(Watching, follow(memory))
    raise ConfigError("No installed package draws a memory in a notebook. Run: pip install memory-inspector")

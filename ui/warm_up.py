"""What takes seconds to load, loaded while the first visitor is still opening the page."""

import gc
import logging

from memory_core import MemoryInspectorError

_log = logging.getLogger(__name__)


def warm_up() -> None:
    """Load the engine, the local embedding model and the vector index, and have the demo made.

    To be run in a thread of its own when the server starts. What is wrong is said by the page to
    whoever comes; here it only goes to the log.
    """
    from ui import sidebar  # noqa: F401  (all that a page imports)
    from ui.demo import ensure_demo
    from ui.services import engine

    try:
        shared = engine()
        ensure_demo(shared)
    except MemoryInspectorError as error:
        _log.warning("could not prepare for the first visitor: %s", error)
    keep_loaded()


def keep_loaded() -> None:
    """Leave what is loaded by now out of the garbage collector's rounds.

    Streamlit makes a full round after every run of a script or a fragment. Over the modules that this app loads it
    takes some 0.15 s, a hundred times what looking for news in another process costs.
    """
    gc.collect()
    gc.freeze()

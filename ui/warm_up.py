"""What takes seconds to load, in the order in which it is missed: the first page, and only then the models.

No import of the engine or of a page at the top: the server answers before any of them is there.
"""

import gc
import logging
import sys
import threading

FIRST_PAGE_SECONDS = 10.0
"""The longest that the models wait for a first page; nobody may be coming."""

PAINT_SECONDS = 1.0
"""Left to the browser after the first page was sent, before the models take the processor from it."""

SWITCH_SECONDS = 0.0005
"""How long a thread that imports may keep the server waiting, in place of Python's 5 ms: the browser asks for some
hundred small files meanwhile."""

_log = logging.getLogger(__name__)
_page_is_out = threading.Event()


def page_is_out() -> None:
    """Said by app.py at the end of every run: the first page does not wait for anything any more."""
    _page_is_out.set()


def warm_up() -> None:
    """Load what the first page draws with, store the demo; once that page is out, load the models and the index.

    To be run in a thread of its own when the server starts. What is wrong is said by the page to whoever comes; here
    it only goes to the log.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.disable()  # a quarter of the time of many imports goes into looking for garbage that is not there
    try:
        _load_first_page()
    finally:
        gc.enable()
    gc.freeze()  # `keep_loaded` once the page is out: looking for garbage first would keep that waiting for 0.2 s
    if _page_is_out.wait(FIRST_PAGE_SECONDS):
        threading.Event().wait(PAINT_SECONDS)
    sys.setswitchinterval(before)
    _load_models()
    from memory_core.process import keep_loaded

    keep_loaded()


def _load_first_page() -> None:
    from memory_core import MemoryInspectorError
    from ui import frame, sidebar  # noqa: F401  (all that a page imports)
    from ui.chat import page  # noqa: F401
    from ui.demo import ensure_demo
    from ui.services import engine

    try:
        ensure_demo(engine())
    except MemoryInspectorError as error:
        _log.warning("could not prepare for the first visitor: %s", error)


def _load_models() -> None:
    from memory_core import MemoryInspectorError
    from ui.services import engine

    try:
        services = engine().services
        services.embedder.embed(["Hello"])
        services.index.check()
    except MemoryInspectorError as error:
        _log.warning("could not load what the first question will need: %s", error)

"""Flicker-free drawing: the elements of a run reach the browser together, with changed ones last.

Streamlit sends every element as it is drawn, and the browser shows what has arrived every 10 ms. A page that takes 0.2
s to draw would therefore show the header of one turn above the budget of another. Here the elements of a run are held
until all are drawn; then unchanged ones are sent first, and the few changed ones after them in one burst.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, tzinfo
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn
from zoneinfo import ZoneInfo

import streamlit as st
from streamlit import runtime
from streamlit.runtime.pages_manager import PagesManager
from streamlit.runtime.scriptrunner import RerunData, RerunException, get_script_run_ctx
from streamlit.runtime.scriptrunner_utils.script_run_context import ThreadState

from memory_inspector.palette import Mode
from ui.tab import state

if TYPE_CHECKING:
    from memory_inspector.server.jobs import Job


MAX_SECONDS = 1.0
"""Maximum seconds for which elements are held after a user's action; a slower page appears as it is drawn."""

MAX_FOLLOWED_SECONDS = 10.0
"""Maximum seconds for which elements are held when the page only follows new events: the old page is consistent."""

SETTLE_SECONDS = 0.03
"""Delay, in seconds, between unchanged and changed elements, so that the browser draws the former first."""

GATHER_SECONDS = 0.005
"""Delay, in seconds, until what was drawn meanwhile goes to the browser with an element; half of what a frame takes."""

ASKED_SECONDS = 10.0
"""Maximum seconds for which a page that was asked for and has not begun keeps timers of other pages out."""

_DRAWN = "_drawn"
_FOLLOWED = "_drawn_followed"
_PAGE = "_drawn_page"
_PLACE = "_drawn_place"

Message = Any
"""Streamlit's `ForwardMsg`: an element with its place on the page, or a message that is no element."""
Drawn = Mapping[tuple[int, ...], str]
"""Hash of the element drawn at each place on the page."""


def begin() -> None:
    """Note which page this run draws: on another one than before, the browser has removed every element.

    To be called before anything is sent: a run of the former page can interrupt this one at each message, and finds its
    elements gone although no other page was drawn. Streamlit can interrupt a run even before the first line of the app.
    """
    context = get_script_run_ctx()
    if context is None:
        return
    if runtime.exists():
        _send_together(context.session_id, context.pages_manager)
    page, begun = context.page_script_hash, _begun(context.pages_manager)
    if st.session_state.get(_PAGE) != page or not begun <= {page}:
        st.session_state[_PAGE] = page
        st.session_state[_DRAWN] = None


def _send_together(session_id: str, manager: PagesManager) -> None:
    """Let the elements of a tab wake the server's loop once for all that are drawn in a moment."""
    tabs = getattr(runtime.get_instance(), "_session_mgr", None)
    tab = tabs and tabs.get_session_info(session_id)  # Streamlit has no public way; a test checks both names
    # Once in the life of a tab; in a test of pages there is none.
    if tab and not isinstance(soon := getattr(tab.session, "_call_soon_on_event_loop", None), _Gathered | None):
        later = partial(tab.session._event_loop.call_later, GATHER_SECONDS)
        tab.session._call_soon_on_event_loop = gathered = _Gathered(soon, later)
        # A request can begin a new run, and Streamlit ignores what arrives afterwards of the one that has ended.
        requests = _Requests(tab.session.handle_backmsg, lambda: manager.current_page_script_hash)
        tab.session.handle_backmsg = partial(gathered.make_before, requests)


class _Gathered:
    """Streamlit's way to its loop, which it would wake for each of a hundred elements, each time changing threads."""

    def __init__(
        self,
        soon: Callable[[Callable[[], object]], None],
        later: Callable[[Callable[[], None]], object],
    ) -> None:
        """`soon`: the way, from any thread; `later`: how the loop itself puts off a call."""
        self._soon, self._later = soon, later
        self._calls: deque[Callable[[], None]] = deque()
        self._waits = False

    def __call__(self, call: Callable[[], None]) -> None:
        self._calls.append(call)
        if not self._waits:
            self._waits = True  # first: the loop may make the calls before this line ends
            try:
                self._soon(partial(self._later, self._make))
            except RuntimeError:
                self._waits = False
                raise

    def make_before(self, handle: Callable[[Message], None], request: Message) -> None:
        """Make the calls that wait, then handle a request of the browser. Runs in the loop."""
        try:
            self._make()
        finally:
            handle(request)

    def _make(self) -> None:
        self._waits = False  # first: what is added from here on wakes the loop again
        try:
            while self._calls:
                self._calls.popleft()()
        finally:
            if self._calls:
                self._later(self._make)


class _Requests:
    """A tab's requests, without those by which the timers of a page that was left would bring it back.

    A fragment that looks for news asks with the page that the browser still shows. Streamlit joins this with the run of
    a page that was asked for and has not begun, and takes the newer request's page; of a run that has begun, it runs
    the fragment afterwards, on the page that was left.
    """

    def __init__(self, handle: Callable[[Message], None], page: Callable[[], str]) -> None:
        """`page`: the page of the run that began last, as a hash."""
        self._handle, self._page = handle, page
        self._asked, self._until = "", 0.0
        self._expected: set[str] = set()
        """Pages of which a run may begin by what was asked for, however late its thread starts."""

    def __call__(self, request: Message) -> None:
        if request.WhichOneof("type") == "rerun_script":
            asks, now = request.rerun_script, self._page()
            if now not in self._expected or time.monotonic() > self._until:
                self._asked = ""  # the app itself went to another page, or the one that was asked for never came
            if not asks.is_auto_rerun:
                earlier = self._expected if self._asked not in ("", now) else set()
                self._asked, self._expected = asks.page_script_hash, {*earlier, asks.page_script_hash, now}
                self._until = time.monotonic() + ASKED_SECONDS
            elif asks.page_script_hash != (self._asked or now):
                return
        self._handle(request)


class _Begun:
    """Streamlit's function that sets the page of a run, and the pages of all runs begun since they were asked for."""

    def __init__(self, set_page: Callable[[str], None]) -> None:
        self._set_page = set_page
        self.pages: set[str] = set()

    def __call__(self, page_script_hash: str) -> None:
        self.pages.add(page_script_hash)
        self._set_page(page_script_hash)


def _begun(manager: PagesManager) -> set[str]:
    """Return the pages of which a run of this tab was begun since the last call, as hashes."""
    noting: object = manager.set_current_page_script_hash  # Streamlit has no public way; a test checks this name
    if not isinstance(noting, _Begun):
        noting = _Begun(manager.set_current_page_script_hash)
        manager.set_current_page_script_hash = noting  # type: ignore[method-assign]
    pages, noting.pages = noting.pages, set()
    return pages


def again() -> NoReturn:
    """Rerun the page because its session has new events, not because of a user's action."""
    st.session_state[_FOLLOWED] = True
    st.rerun()


def following() -> bool:
    """Return whether this run was requested by `again`. False once `together` has begun."""
    return bool(st.session_state.get(_FOLLOWED))


def fragment() -> str | None:
    """Id of the fragment or dialog being drawn."""
    return ThreadState.get().fragment_id


def again_in(fragment: str | None) -> None:
    """Rerun this fragment for another fragment inside it; Streamlit itself only reruns the innermost or the whole page.

    A run that is already drawing it continues.
    """
    context = get_script_run_ctx()
    if context is None or fragment is None:
        return
    # A run of the whole page draws the fragment anyway.
    if context.fragment_ids_this_run and fragment not in context.fragment_ids_this_run:
        raise RerunException(
            RerunData(
                query_string=context.query_string,
                page_script_hash=context.page_script_hash,
                fragment_id_queue=[fragment],
                is_fragment_scoped_rerun=True,
                cached_message_hashes=context.cached_message_hashes,
                context_info=context.context_info,
            )
        )


@contextmanager
def together(place: object) -> Iterator[None]:
    """Hold what is drawn inside and send it at once, if the tab already shows this place.

    The first drawing of another page or session appears as it is drawn. A run interrupted by a newer one sends nothing,
    as the newer one draws everything; unless it holds a message that is sent only once.
    """
    context = get_script_run_ctx()
    if context is None:
        yield
        return
    followed = st.session_state.pop(_FOLLOWED, False)
    # What the browser certainly has. Elements may be sent out of their order only where others keep their places.
    before: Drawn | None = st.session_state.get(_DRAWN) if st.session_state.get(_PLACE) == place else None
    # As long as this run has not been sent to its end.
    st.session_state[_PLACE], st.session_state[_DRAWN] = place, before
    send = context._enqueue  # Streamlit has no public way to hold elements; a test checks this name
    held = _Held(send, before, MAX_FOLLOWED_SECONDS if followed else MAX_SECONDS)
    context._enqueue = held.take
    try:
        yield
    # A rerun discards what is held; any other exception falls through, and its elements are sent.
    except RerunException:
        held.drop()
        raise
    finally:
        context._enqueue = send
        held.send()
    st.session_state[_DRAWN] = held.drawn


class _Held:
    """The elements of one run that are being held."""

    def __init__(self, send: Callable[[Message], None], before: Drawn | None, seconds: float) -> None:
        self._send = send
        self._before = before
        self._kept: list[Message] = []
        # 0.0 lies in the past: without an earlier drawing to compare with, nothing is held.
        self._until = time.monotonic() + seconds if before is not None else 0.0
        self.drawn: dict[tuple[int, ...], str] = {}

    def take(self, message: Message) -> None:
        # Streamlit sends the hash alone where the browser has the element already.
        if message.WhichOneof("type") in ("delta", "ref_hash"):
            self.drawn[tuple(message.metadata.delta_path)] = message.hash or message.ref_hash
        if time.monotonic() < self._until:
            self._kept.append(message)
        else:
            self.send()
            self._send(message)

    def drop(self) -> None:
        """Discard what is held if it will be drawn again; a toast, or a value put into a field, will not."""
        if not any(message.delta.new_element.has_one_shot_effect for message in self._kept):
            self._kept.clear()

    def send(self) -> None:
        # Once sent, nothing is held any more: a slow page shows the rest as it is drawn.
        waiting, self._kept, self._until = self._kept, [], 0.0
        same, changed = by_change(waiting, self._before or {})
        for message in same:
            self._send(message)
        # Otherwise the browser could draw both in one go, and flicker as without holding.
        if same and changed:
            time.sleep(SETTLE_SECONDS)
        for message in changed:
            self._send(message)


def by_change(messages: list[Message], before: Drawn) -> tuple[list[Message], list[Message]]:
    """The messages that draw unchanged elements, and the others; each in their order.

    An element inside a changed container counts as changed, because a new container is empty. A message for a place
    that has already changed stays after that change: a drawer is sent twice, closed and then open.
    """
    same: list[Message] = []
    changed: list[Message] = []
    changed_places: set[tuple[int, ...]] = set()
    for message in messages:
        path = tuple(message.metadata.delta_path)
        inside = any(path[:length] in changed_places for length in range(1, len(path) + 1))
        if not inside and before.get(path) == (message.hash or message.ref_hash):
            same.append(message)
            continue
        changed.append(message)
        # A message without a place is no element.
        if path:
            changed_places.add(path)
    return same, changed


# -- the browser that is drawn for ----------------------------------------------------------------


def mode() -> Mode:
    """Return the appearance of this browser; light until it is known."""
    return "dark" if st.context.theme.type == "dark" else "light"


def zone() -> tzinfo:
    """Return the time zone of this browser; UTC until it is known."""
    name = st.context.timezone
    return ZoneInfo(name) if name else UTC


# -- drawing again when there are new events ------------------------------------------------------


LOOK_SECONDS = 1.0
"""Polling interval, in seconds, while nothing runs in this server; each poll is a single index lookup."""

WATCH_SECONDS = 0.15
"""Polling interval, in seconds, while a job runs for the session."""

UNPACED_SECONDS = 0.7
"""Polling interval, in seconds, during playback without pauses: nobody can follow every turn, and redraws slow it."""


def follow(news: Callable[[], object], seen: object, *, running: "Job | None" = None) -> None:
    """Redraw the page once its news differ from what was `seen`, by a job of this server or by another process.

    No script run lasts as long as a job: a fragment polls and requests a redraw.
    """
    from memory_core.errors import MemoryInspectorError  # here: the server answers before the engine is loaded

    def look() -> None:
        try:
            # Compared by value: what is drawn may be older than the last poll.
            changed = news() != seen
        except MemoryInspectorError:
            changed = True  # the page reports the error
        if changed:
            # A redraw that nobody asked for must not take away what was just said.
            state.keep_notice()
            again()

    every = LOOK_SECONDS if running is None else WATCH_SECONDS if running.pace > 0 else UNPACED_SECONDS
    st.fragment(look, run_every=every)()

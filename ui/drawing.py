"""One picture at a time: what a run draws reaches the browser together, and what changed comes last.

Streamlit sends every element as it is drawn, and the browser shows what has come every 10 ms. A page that is drawn in
0.2 s would so show the header of one turn above the budget of another. Here the elements of a run are held until it has
drawn all; then those that are as they were go out first, and the few that changed after them in one burst.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

import streamlit as st
from streamlit.runtime.scriptrunner import RerunData, RerunException, get_script_run_ctx
from streamlit.runtime.scriptrunner_utils.script_run_context import ThreadState

MOST_SECONDS = 1.0
"""How long elements are held after somebody acted. What takes longer is shown as it comes, with its skeletons."""

MOST_FOLLOWED_SECONDS = 10.0
"""The same where nobody did anything and the page only follows: what it shows meanwhile is still true of its turn."""

SETTLE_SECONDS = 0.03
"""Between what did not change and what did: the browser has drawn the one when the other comes."""

_DRAWN = "_drawn"
_FOLLOWED = "_drawn_followed"
_PLACE = "_drawn_place"

Message = Any
"""Streamlit's `ForwardMsg`: an element with its place on the page, or something that is no element."""
Drawn = Mapping[tuple[int, ...], str]
"""By place on the page, the hash of the element that was drawn there."""


def again() -> NoReturn:
    """Draw the page anew, because its session went on; nobody did anything."""
    st.session_state[_FOLLOWED] = True
    st.rerun()


def fragment() -> str | None:
    """The fragment or dialog that is being drawn."""
    return ThreadState.get().fragment_id


def again_in(fragment: str | None) -> None:
    """Draw this fragment anew, asked by one inside it; Streamlit itself knows only the innermost and the whole page.

    A run that is drawing it already goes on.
    """
    context = get_script_run_ctx()
    if context is None or fragment is None:
        return
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
    """Hold what is drawn inside and send it at once, if the tab shows this place already.

    A first drawing of another page or session is shown as it comes. A run that is ended for the sake of a newer one
    sends nothing, as the newer one draws it all; unless it told the browser something that is told only once.
    """
    context = get_script_run_ctx()
    if context is None:
        yield
        return
    before: Drawn | None = st.session_state.get(_DRAWN) if st.session_state.get(_PLACE) == place else None
    st.session_state[_PLACE] = place
    send = context._enqueue  # Streamlit has no public way to hold elements; a test names this one
    followed = st.session_state.pop(_FOLLOWED, False)
    held = _Held(send, before, MOST_FOLLOWED_SECONDS if followed else MOST_SECONDS)
    context._enqueue = held.take
    try:
        yield
    except RerunException:
        held.drop()
        raise
    finally:
        context._enqueue = send
        held.send()
        st.session_state[_DRAWN] = held.drawn


class _Held:
    """The elements of one run, on their way."""

    def __init__(self, send: Callable[[Message], None], before: Drawn | None, seconds: float) -> None:
        self._send = send
        self._before = before
        self._kept: list[Message] = []
        self._until = time.monotonic() + seconds if before is not None else 0.0
        self.drawn: dict[tuple[int, ...], str] = {}

    def take(self, message: Message) -> None:
        if message.WhichOneof("type") in ("delta", "ref_hash"):
            self.drawn[tuple(message.metadata.delta_path)] = message.hash or message.ref_hash
        if time.monotonic() < self._until:
            self._kept.append(message)
        else:
            self.send()
            self._send(message)

    def drop(self) -> None:
        """Forget what is held, if it will be said again: a toast, and a value that was put into a field, is not."""
        if not any(message.delta.new_element.has_one_shot_effect for message in self._kept):
            self._kept.clear()

    def send(self) -> None:
        kept, self._kept, self._until = self._kept, [], 0.0
        same, changed = by_change(kept, self._before or {})
        for message in same:
            self._send(message)
        if same and changed:
            time.sleep(SETTLE_SECONDS)
        for message in changed:
            self._send(message)


def by_change(messages: list[Message], before: Drawn) -> tuple[list[Message], list[Message]]:
    """The messages that draw what stands there already, and the others; each in their order.

    What lies in a container that changed has changed: a new container comes empty. What follows a change at the same
    place comes after it, whatever it is: a drawer is sent twice, closed and then open.
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
        if path:
            changed_places.add(path)
    return same, changed

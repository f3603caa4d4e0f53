"""Connect your agent: the lines that point one at this database, and a dot that lights when something arrives.

What arrives is a message that another process wrote: the log went on without a job of this server.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import streamlit as st

from memory_core import Database, MemoryInspectorError
from memory_core.events import EventRecord, MessageAdded, SessionCreated, SessionImported, SessionReset
from memory_core.history.log import last_position
from ui.components import heading
from ui.services import engine
from ui.text import ago, count

LOOK_SECONDS = 1.0
"""How often the dot looks whether something arrived; one look at an index."""

LIVE_SECONDS = 600
"""After its last message from another process, a session is not called live any more."""

_HEARD = "connect__heard"


@dataclass(frozen=True, slots=True)
class Heard:
    """What came to a session from other processes since a tab began to listen."""

    session_id: str
    position: int
    """Of its log, as far as it was listened to."""
    job: str | None
    """The last job of this server for the session."""
    running: bool = False
    """It was still at work: what happened until the next look may be its own."""
    messages: int = 0
    last: float | None = None
    """When the newest came, in seconds since 1970."""


def code(database: Database, session_id: str) -> str:
    """Two lines of Python that join the session; a password is not in them."""
    url = database.url
    return (
        "from memory_core import ChatMessage, Memory\n"
        f"memory = Memory.from_defaults({json.dumps(session_id)}, database_uri={json.dumps(url)})"
    )


def listened(before: Heard, now: Heard, new: Sequence[EventRecord]) -> Heard:
    """What was heard by `now`, where nothing was counted yet; `new` is what the log holds since `before`."""
    after = replace(now, messages=before.messages, last=before.last)
    begun = any(isinstance(record.event, SessionCreated | SessionImported | SessionReset) for record in new)
    if now.running or before.running or now.job != before.job or begun:
        return after
    came = [record.at for record in new if isinstance(record.event, MessageAdded)]
    if not came:
        return after
    return replace(after, messages=before.messages + len(came), last=max(came))


def sentence(heard: Heard, now: float) -> str:
    """`Listening`, or `4 messages arrived, last 2 s ago`."""
    if heard.last is None:
        return "Listening. Nothing has arrived from another process yet."
    seconds = max(0, int(now - heard.last))
    when = f"{seconds} s ago" if seconds < 60 else ago(heard.last, now)
    return f"{count(heard.messages, 'message')} arrived, last {when}."


def draw_live(session_id: str) -> None:
    """A mark, if another process wrote to the session lately."""
    try:
        heard = listen(session_id)
    except MemoryInspectorError:  # the page says what is wrong
        return
    now = time.time()
    if heard.last is not None and now - heard.last < LIVE_SECONDS:
        st.badge("live", icon=":material/sensors:", color="green", help=f"From another process: {sentence(heard, now)}")


def draw_card(session_id: str) -> None:
    """The lines to copy, and the dot."""
    with st.container(border=True, gap="small", key="connect"):
        heading("Connect your agent")
        lines = code(engine().database, session_id)
        st.code(lines, language="python", wrap_lines=True)
        hidden = " The password is hidden: put yours in place of the stars." if "***" in lines else ""
        st.markdown(
            ':small[:gray[Then `memory.put(ChatMessage(role="user", content=text))` and `memory.get()` at each turn. '
            f"Every page follows what it writes.{hidden}]]"
        )
        _dot(session_id)


@st.fragment(run_every=LOOK_SECONDS)
def _dot(session_id: str) -> None:
    try:
        heard = listen(session_id)
    except MemoryInspectorError:  # the page says what is wrong
        return
    dot = ":gray[:material/radio_button_unchecked:]" if heard.last is None else ":green[:material/circle:]"
    st.markdown(f"{dot} {sentence(heard, time.time())}")


def listen(session_id: str) -> Heard:
    """Look once, and remember what was heard in this tab.

    Raises:
        MemoryInspectorError: the session is gone, or the database cannot be reached.
    """
    shared = engine()
    job = shared.job(session_id)
    running = job is not None and not job.done  # asked before the log is looked at: it may end in between
    heard = Heard(session_id, last_position(shared.database, session_id), job.id if job is not None else None, running)
    before: Heard | None = st.session_state.get(_HEARD)
    if before is not None and before.session_id == session_id:
        moved = heard.position != before.position
        heard = listened(before, heard, shared.open(session_id).events(after=before.position) if moved else ())
    st.session_state[_HEARD] = heard
    return heard

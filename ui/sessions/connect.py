"""Connect your agent: the code that points an agent at this database, and a dot that lights up when a message arrives.

A message has arrived if another process wrote it: the log grew without a job of this server.
"""

import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

import streamlit as st
from streamlit.config import get_option

from memory_core import Database, MemoryInspectorError, list_sessions
from memory_core.events import AgentAttached, EventRecord, MessageAdded, SessionCreated, SessionImported, SessionReset
from memory_core.history.log import last_position
from memory_inspector.reading.write_access import BRANCH_IT, shown_only
from memory_inspector.server.shipped_demo import DEMO_SESSION
from memory_inspector.upkeep.agents import running_agents
from memory_inspector.wording.attach_lines import ANY, LINES, lines_for
from memory_inspector.wording.formatting import ago, count, plain, session_name, short
from ui.parts.components import heading
from ui.tab import nav, state
from ui.tab.people import obstacle, sign_in_configured
from ui.tab.services import engine

CONNECT = "Connect your agent"

MOST_LIVE = 3
"""Maximum number of live sessions linked at once; the list has all."""

LOOK_SECONDS = 1.0
"""Interval, in seconds, between checks for new messages; each is a single index lookup."""

LIVE_SECONDS = 600
"""Seconds after the last message from another process until a session no longer counts as live."""


AGENT = "my-agent"
"""Name that the lines give an agent of its own; a number follows where it is taken."""

_HEARD = "connect__heard"

_SPANS = "OTEL_EXPORTER_OTLP_ENDPOINT"

TOKEN = "mi_TOKEN"
"""Text in place of an agent's token, which is shown only when it is made."""


@dataclass(frozen=True, slots=True)
class HeardMessages:
    """Messages received by a session from other processes since this tab began to watch."""

    session_id: str
    position: int
    """Position up to which the session's log was checked."""
    job: str | None
    """Id of this server's last job for the session."""
    running: bool = False
    """True if the job was still running: what happens until the next check may be its own work."""
    messages: int = 0
    last: float | None = None
    """Time of the newest message, in seconds since 1970."""


def code(database: Database, session_id: str) -> str:
    """Two lines of Python that join the session, without any password, and for a viewer without the address."""
    # `json.dumps` writes the quotes and escapes of Python's strings too; `url` has stars in place of a password.
    url = "…" if obstacle() else database.url
    # On SQLite the URL is that of the tenant's own file.
    tenant = f", tenant={json.dumps(database.tenant)}" if database.tenant and not database.is_sqlite else ""
    return (
        "from memory_core import ChatMessage, Memory\n"
        f"memory = Memory.from_defaults({json.dumps(session_id)}, database_uri={json.dumps(url)}{tenant})"
    )


def agent_name(database: Database, session_id: str, live: Collection[str]) -> str:
    """Return the session that an agent may join: this one if it is empty or `live`, else one of the agent's own.

    Never the demo, nor a conversation that exists for something else.
    """
    turns = {status.session_id: status.turns for status in list_sessions(database)}

    def is_free(name: str) -> bool:
        return name != DEMO_SESSION and (name in live or not turns.get(name))

    if session_id in turns and is_free(session_id):
        return session_id
    # One more name than there are sessions, so one is free.
    numbered = (f"{AGENT}-{number}" for number in range(2, len(turns) + 3))
    return next(filter(is_free, (AGENT, *numbered)))


def proxy(session_id: str) -> str:
    """Return the address under which this server passes an agent's calls on and records them."""
    token = f"{TOKEN}/" if sign_in_configured() else ""
    return f"http://127.0.0.1:{get_option('server.port')}/record/{token}{quote(session_id)}"


def spans() -> str:
    """Return the address to which an agent's OpenTelemetry exporter sends its spans."""
    return f"http://127.0.0.1:{get_option('server.port')}"


def listened(before: HeardMessages, now: HeardMessages, new: Sequence[EventRecord]) -> HeardMessages:
    """The state after counting arrivals in `new`, the records between `before` and `now`."""
    # The new position counts even where the messages do not, so that they are never looked at again.
    after = replace(now, messages=before.messages, last=before.last)
    begun = any(
        isinstance(record.event, SessionImported)
        # A session that did not exist while this tab watched its name was made by the agent.
        or (isinstance(record.event, SessionCreated) and before.position > 0)
        or (isinstance(record.event, SessionReset) and record.event.seqs is None)
        for record in new
    )
    # A job of this server wrote in between: its messages are not an agent's.
    if now.running or before.running or now.job != before.job or begun:
        return after
    came = [record.at for record in new if isinstance(record.event, MessageAdded)]
    if not came:
        return after
    return replace(after, messages=before.messages + len(came), last=max(came))


def sentence(heard: HeardMessages, now: float) -> str:
    """Status in words: `Listening`, or `4 messages arrived, last 2 s ago`."""
    if heard.last is None:
        return "Listening. Nothing has arrived from another process yet."
    seconds = max(0, int(now - heard.last))
    # To the second while a person waits for the dot; `ago` is coarser.
    when = f"{seconds} s ago" if seconds < 60 else ago(heard.last, now)
    return f"{count(heard.messages, 'message')} arrived, last {when}."


def draw_live(session_id: str) -> None:
    """Draw a badge if another process wrote to the session recently."""
    try:
        heard = listen(session_id)
    except MemoryInspectorError:  # the page reports the error
        return
    now = time.time()
    if heard.last is not None and now - heard.last < LIVE_SECONDS:
        st.badge("live", icon=":material/sensors:", color="green", help=f"From another process: {sentence(heard, now)}")


def draw_attachment(session_id: str, attachment: AgentAttached) -> None:
    """Draw the badge of an attached session: attached, read only, or not followed."""
    problem = engine().store_problem(session_id)
    if problem is not None:
        st.badge("not followed", icon=":material/visibility_off:", color="orange", help=plain(problem))
    else:
        says = "read only" if attachment.source == "file" else "attached"
        st.badge(says, icon=":material/visibility:", color="gray", help=shown_only(attachment).sentence)


def live_sessions(database: Database) -> frozenset[str]:
    """The sessions in which an agent of another process works."""
    return frozenset(running_agents(database))


def draw_live_links(names: Mapping[str, str]) -> None:
    """Draw a link to each session in which an agent works; `names` by id, most recent first."""
    for session_id in list(names)[:MOST_LIVE]:
        label = f"**{plain(short(names[session_id], 60))}** is :green[live]: open it"
        nav.link("chat", label, icon=":material/sensors:", turn=None, **{state.SESSION: session_id})


def draw_card(session_id: str, *, framed: bool = True) -> None:
    """Draw the lines to copy, and the dot; `framed`: with a border and a title."""
    with st.container(border=framed, gap="small", key="connect"):
        attachment = _attachment(session_id)
        # 1. A file is followed without any set-up: only its problems are drawn.
        if attachment is not None and attachment.source == "file":
            heading(f"Opened from {plain(short(attachment.name))}")
            follows = f"This session follows that file, which is never changed. {BRANCH_IT}"
            st.markdown(f":small[:gray[{plain(engine().store_problem(session_id) or '') or follows}]]")
            if note := engine().store_note(session_id):
                st.markdown(f":small[:material/info: {plain(note)}]")
            return
        if framed:
            heading(CONNECT)
        if attachment is not None:
            _draw_attached(session_id, attachment)
            _dot(session_id)
            return
        # 2. Three ways to connect, from the closest to the loosest: the library, the recording proxy, spans.
        name = agent_name(engine().database, session_id, live_sessions(engine().database) | _heard())
        lines = code(engine().database, name)
        st.code(lines, language="python", wrap_lines=True)
        hidden = " The password is hidden: put yours in place of the stars." if "***" in lines else ""
        st.markdown(
            ':small[:gray[Then `memory.put(ChatMessage(role="user", content=text))` and `memory.get()` at each turn. '
            f"Every page follows what your program writes.{hidden}]]"
        )
        st.markdown(
            ":small[:gray[Or attach any agent that uses OpenAI's or Anthropic's clients, without changing its code: "
            "its prompts are recorded as a session of their own.]]"
        )
        _draw_proxy(AGENT)
        st.markdown(
            ":small[:gray[Or any agent that sends OpenTelemetry spans over HTTP: each conversation becomes a session, "
            "with the agent’s memory writes and searches.]]"
        )
        _draw_spans()
        if sign_in_configured():
            tenant = f" --tenant {engine().database.tenant}" if engine().database.tenant else ""
            made = f"`memory-inspector token new --name {AGENT}{tenant}`"
            st.markdown(f":small[:gray[People sign in here, so an agent sends a token, made by {made}.]]")
        _dot(name)


def _heard() -> frozenset[str]:
    """The session that this tab listens to, if an agent has written to it: its lines stay, also if it has ended."""
    before: HeardMessages | None = st.session_state.get(_HEARD)
    try:
        heard = listen(before.session_id) if before is not None else None
    except MemoryInspectorError:  # it is gone
        return frozenset()
    return frozenset({heard.session_id} if heard is not None and heard.last is not None else ())


def _draw_proxy(session_id: str) -> None:
    program = st.selectbox("Program", LINES, key="connect__program", label_visibility="collapsed")
    language, lines = lines_for(program or ANY, proxy(session_id))
    st.code(lines, language=language, wrap_lines=True)


def _draw_spans() -> None:
    lines = [f"export {_SPANS}={spans()}"]
    if sign_in_configured():
        lines.append(f'export OTEL_EXPORTER_OTLP_HEADERS="Authorization=Bearer%20{TOKEN}"')
    st.code("\n".join(lines), language="bash", wrap_lines=True)


def _attachment(session_id: str) -> AgentAttached | None:
    """Return what the session shows, if it is attached."""
    try:
        return engine().open(session_id).log.history().attachment
    except MemoryInspectorError:  # the page reports the error
        return None


def _draw_attached(session_id: str, attachment: AgentAttached) -> None:
    if attachment.source == "spans":
        st.markdown(":small[:gray[This session records the spans that an agent sends to this address.]]")
        _draw_spans()
    else:
        st.markdown(":small[:gray[This session records the calls that an agent makes through this address.]]")
        _draw_proxy(session_id)


@st.fragment(run_every=LOOK_SECONDS)
def _dot(session_id: str) -> None:
    try:
        heard = listen(session_id)
    except MemoryInspectorError:  # the page reports the error
        return
    dot = ":gray[:material/radio_button_unchecked:]" if heard.last is None else ":green[:material/circle:]"
    # The agent may have joined another session than this one.
    elsewhere = {} if heard.last is not None else _live_elsewhere(session_id)
    if elsewhere:
        draw_live_links(elsewhere)
    else:
        st.markdown(f"{dot} {sentence(heard, time.time())}")
        if heard.last is not None and state.selected_session() not in (None, session_id):
            link = {state.SESSION: session_id}
            nav.link("chat", f"Open **{plain(short(session_id, 60))}**", icon=":material/forum:", turn=None, **link)


def _live_elsewhere(session_id: str) -> dict[str, str]:
    """The names of the other sessions in which an agent works, by id."""
    database = engine().database
    live = live_sessions(database) - {session_id}
    # The list is read only if some agent works: this runs every second.
    statuses = list_sessions(database) if live else ()
    return {
        status.session_id: session_name(status.title, status.session_id)
        for status in statuses
        if status.session_id in live
    }


def listen(session_id: str) -> HeardMessages:
    """Check once whether messages have arrived; store the state in this tab, and return it.

    Raises:
        MemoryInspectorError: the session is gone, or the database cannot be reached.
    """
    shared = engine()
    job = shared.job(session_id)
    running = job is not None and not job.done  # read before the log is checked: it may end in between
    heard = HeardMessages(
        session_id, last_position(shared.database, session_id), job.id if job is not None else None, running
    )
    before: HeardMessages | None = st.session_state.get(_HEARD)
    # For another session, counting begins anew: its existing messages have not just arrived.
    if before is not None and before.session_id == session_id:
        # Events are read only if the position moved, which a look-up in the index tells.
        moved = heard.position != before.position
        heard = listened(before, heard, shared.open(session_id).events(after=before.position) if moved else ())
    st.session_state[_HEARD] = heard
    return heard

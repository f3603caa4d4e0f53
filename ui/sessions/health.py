"""Health of the server's dependencies, as last checked.

Checks run in a thread of their own: no page waits for a database or a server that does not answer.
"""

import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256

import streamlit as st

from memory_core import ConfigError, Database, MemoryInspectorError, StoreError
from memory_core.access import acting_person
from memory_core.models.openai_client import OpenAIChat
from memory_core.process import keep_loaded
from memory_core.sessions.overview import list_sessions
from memory_core.text import capitalised
from memory_inspector.server.jobs import Job
from memory_inspector.upkeep.health import Check, Health, Part, can_be_rebuilt, check_health, rebuild_index, size_of
from memory_inspector.wording.formatting import ago, count, milliseconds, plain, short, size, tokens
from ui.parts import toasts
from ui.parts.components import heading
from ui.tab import drawing, model, state
from ui.tab.people import allowed, obstacle
from ui.tab.services import engine

FRESH_SECONDS = 30.0
"""Maximum age, in seconds, of a result that is shown without a new check."""

QUIET_SECONDS = 6.0
"""Seconds after a server's first page during which no check starts by itself: loading models and the vector index would
slow down that page."""

FOLLOW_SECONDS = 0.5
"""Interval, in seconds, between redraws while a check or a rebuild is running."""

MAX_KEPT = 32
"""Maximum number of results cached per server, one for each chat model in use."""

INDEX = "\x00index"
"""Job key in place of a session id: the index belongs to all sessions."""

MAINTENANCE = "sessions__maintenance"
"""Widget key of the maintenance popover, open or closed."""

MIN_FREE_BYTES = 5_000_000
"""Minimum reclaimable bytes for which shrinking the database is offered."""

_UPKEEP = "sessions__upkeep"
_NOT_DONE = {"rebuild": "The index was not rebuilt", "compact": "The file was not made smaller"}
_WAITING = "sessions__health_waiting"
_CLICKED = "sessions__health_clicked"

LABELS: dict[Part, str] = {
    "database": "Database",
    "vectors": "Vectors",
    "embeddings": "Embeddings",
    "chat": "Chat model",
}
"""Display names of the parts."""
_GLANCE: dict[Part, tuple[str, str]] = {
    "database": ("database_off", "Database not reachable"),
    "vectors": ("error", "Vector index not reachable"),
    "embeddings": ("error", "Embeddings do not work"),
    "chat": ("cloud_off", "Chat model not reachable"),
}


class Watch:
    """Cached result per chat model, with the running checks. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._results: OrderedDict[str, Health] = OrderedDict()
        self._looking: dict[str, threading.Thread] = {}
        self._began = time.monotonic()

    @property
    def settled(self) -> bool:
        """Tell whether the server has had time to draw its first page."""
        return time.monotonic() - self._began > QUIET_SECONDS

    def latest(self, key: str) -> Health | None:
        """The last result, however old; None before the first."""
        with self._lock:
            return self._results.get(key)

    def looking(self, key: str) -> bool:
        """Tell whether a check is running."""
        with self._lock:
            return key in self._looking

    def look(self, key: str, check: Callable[[], Health], *, older_than: float = 0.0) -> None:
        """Start a check in the background, unless one is running or the result is younger than `older_than` seconds."""
        with self._lock:
            # Under the lock, so that two tabs that look at once start one check between them.
            result = self._results.get(key)
            if key in self._looking or (result is not None and time.time() - result.at < older_than):
                return
            thread = threading.Thread(target=self._look, args=(key, check), name="health", daemon=True)
            self._looking[key] = thread
        thread.start()

    def forget(self, key: str) -> None:
        """Discard the last result, which is no longer valid."""
        with self._lock:
            self._results.pop(key, None)

    def wait(self, key: str, seconds: float) -> None:
        """Wait until the running check has ended, at most this many seconds."""
        with self._lock:
            thread = self._looking.get(key)
        if thread is not None:
            thread.join(seconds)

    def close(self) -> None:
        """Wait for running checks to end, at most one second each."""
        with self._lock:
            threads = list(self._looking.values())
        for thread in threads:
            thread.join(1)

    def _look(self, key: str, check: Callable[[], Health]) -> None:
        try:
            result = check()
            # The first check has loaded models and index for good: the garbage collector need not visit them any more.
            if self.latest(key) is None:
                keep_loaded()  # models and index have just been loaded
            with self._lock:
                # Taken out first: put in again, it is the newest, and the oldest result is dropped for it.
                self._results.pop(key, None)
                self._results[key] = result
                while len(self._results) > MAX_KEPT:
                    self._results.popitem(last=False)
        finally:
            with self._lock:
                del self._looking[key]


@st.cache_resource(show_spinner=False, on_release=Watch.close)
def watch() -> Watch:
    """The single instance of this server."""
    return Watch()


def at_a_glance() -> tuple[str, str] | None:
    """Icon and text of the first failing part, as last checked; None if no failure is known.

    Reads only the cache; a result older than `FRESH_SECONDS` is refreshed in the background.
    """
    if not watch().settled:
        return None
    try:
        # The sidebar asks on every page: a finished result is read, and never waited for.
        health = latest()
    except StoreError:
        return _GLANCE["database"]
    return _GLANCE[health.problems[0].part] if health is not None and health.problems else None


def latest() -> Health | None:
    """The last result for this browser's chat model; None before the first check.

    Raises:
        StoreError: the database cannot be reached.
    """
    key, look = _look()
    watch().look(key, look(free=True), older_than=FRESH_SECONDS)
    return watch().latest(key)


def model_answered() -> None:
    """Discard a result that calls this browser's chat model unreachable, since the model has just answered."""
    key, _ = _look()
    latest = watch().latest(key)
    if latest is not None and any(check.part == "chat" for check in latest.problems):
        watch().forget(key)


def draw_health(*, follow: bool) -> None:
    """Draw the state of all parts, with advice for failing ones, and maintenance.

    With `follow`, awaited results appear as soon as they arrive: the first one, a requested one, a rebuilt index. The
    page is then redrawn, which would close a dialog.
    """
    key, _ = _look()
    # Before the first result somebody waits for it: followed until it is there.
    if watch().latest(key) is None:
        st.session_state[_WAITING] = True
    _running()
    follows = follow and (st.session_state.get(_WAITING, False) or _UPKEEP in st.session_state)
    with st.container(border=True, key="sessions__health"):
        st.fragment(_draw, run_every=FOLLOW_SECONDS if follows else None)(follows)


def _draw(follows: bool) -> None:
    key, _ = _look()
    health, looking = latest(), watch().looking(key)
    running, clicked = _running(), st.session_state.pop(_CLICKED, False)
    # 1. All followed checks and jobs have ended.
    if follows and not looking and running is None:
        st.session_state[_WAITING] = False
        _tell_done()
        drawing.again()  # the whole page: the sidebar shows health too, and there is nothing left to follow
    # 2. A click in this fragment has started something; only a run of the whole page changes `run_every`.
    if clicked:
        st.rerun()  # the whole page, so that the job started here is followed
    # 3. Title and actions, a badge for each part, the problems below them, and what is running.
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        heading("Health", width="content")
        with st.container(horizontal=True, width="content", gap="small"):
            st.button(
                "Check again",
                key="sessions__check",
                type="tertiary",
                icon=":material/refresh:",
                on_click=_check_again,
                disabled=follows and looking,
                help=f"Checked {ago(health.at, time.time())}" if health else None,
            )
            _maintenance(running)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if health is None:
            st.markdown(":small[:shimmer[Checking]]", width="content")
        for check in health.checks if health else ():
            _badge(check)
    for check in health.checks if health else ():
        _explained(check, running)
    if running is not None:
        _progress(running)


def _badge(check: Check) -> None:
    label = LABELS[check.part]
    if check.state == "ok":
        took = milliseconds(check.seconds or 0)
        if check.part == "chat":
            took = f"{short(check.name)}, {took}"
        elif check.text:
            took = f"{check.text}, {took}"
        st.badge(plain(f"{label} {took}"), icon=":material/check:", color="green", help=plain(check.name))
    elif check.state == "offline":
        st.badge(
            plain(f"{label}: offline rules"), icon=":material/cloud_off:", color="gray", help=plain(_sentence(check))
        )
    elif check.state == "unsure":
        st.badge(
            plain(f"{label} {short(check.name)}"), icon=":material/help:", color="gray", help=plain(_sentence(check))
        )
    else:
        st.badge(plain(label), icon=":material/error:", color="red", help=plain(check.name) or None)


def _sentence(check: Check) -> str:
    return capitalised(check.text) + ("" if check.text.endswith(".") else ".")


def _explained(check: Check, running: Job | None) -> None:
    """Draw the problem and the advice, below the badges."""
    if check.state == "unsure":
        st.markdown(f":small[:gray[{plain(f'{LABELS[check.part]}: {check.text}')}]]")
    if check.state != "failed":
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.error(f"{LABELS[check.part]}: {plain(check.text)}", icon=":material/error:", width="stretch")
        if check.part == "vectors" and can_be_rebuilt(engine().services.index_of(engine().database)):
            st.button(
                "Rebuild index",
                key="sessions__rebuild_failed",
                on_click=_rebuild,
                **allowed(rebuild_index, disabled=running is not None),
            )


def _maintenance(running: Job | None) -> None:
    """Draw the size of the database, and the buttons that shrink it and rebuild the index."""
    opened = st.popover("Maintenance", type="tertiary", key=MAINTENANCE, on_change="rerun")
    # The sizes are read from the database: only for somebody who opens this.
    if not opened.open:
        return
    with opened:
        shared = engine()
        try:
            bytes_, free = size_of(shared.database)
            where = "" if obstacle() else f"  \n:small[:gray[{plain(shared.database.url)}]]"
            st.markdown(f"Database: {size(bytes_)}{where}")
            # The last of the list was not used for the longest time.
            if sessions := list_sessions(shared.database):
                oldest = plain(ago(sessions[-1].updated_at, time.time()))
                maintain = "`memory-inspector maintain --older-than 180d`"
                st.markdown(f":small[:gray[Oldest session: used {oldest}. Old sessions leave with] {maintain}]")
            index = shared.services.index_of(shared.database)
        except MemoryInspectorError as error:
            st.error(plain(str(error)))
            return
        # Shrinking rewrites the whole file while writers wait: a few bytes are not worth it.
        if free >= MIN_FREE_BYTES:
            sentence = f"{size(free)} of it were freed by erasing. Nothing can be written while they are reclaimed."
            st.markdown(f":small[:gray[{sentence}]]")
            may = allowed(Database.compact, disabled=running is not None)
            st.button("Make the file smaller", key="sessions__compact", on_click=_compact, **may)
        st.markdown(f"Vectors: {plain(index.name)}")
        if can_be_rebuilt(index):
            st.markdown(":small[:gray[The index is a copy of the vectors in the database. Rebuilding loses nothing.]]")
            may = allowed(rebuild_index, disabled=running is not None)
            st.button("Rebuild index", key="sessions__rebuild_index", on_click=_rebuild, **may)


def _progress(job: Job) -> None:
    lines = job.progress
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f":shimmer[{plain(lines[-1] if lines else 'Making the file smaller')}]", width="content")
        # Only rebuilding reports progress and can stop between two steps; shrinking is one statement.
        if lines:
            st.button("Cancel", key="sessions__upkeep_cancel", on_click=job.cancel.set, type="tertiary")


def _check_again() -> None:
    try:
        key, look = _look()
    except StoreError as error:
        state.say("error", str(error))
        return
    watch().look(key, look(free=False))
    # Most checks end within this wait, and their result is in the drawing that follows.
    watch().wait(key, FOLLOW_SECONDS)
    st.session_state[_WAITING] = watch().looking(key)
    st.session_state[_CLICKED] = True


def _rebuild() -> None:
    shared = engine()

    def work(job: Job) -> None:
        def describe(done: int, of: int) -> None:
            job.add_progress(f"Rebuilding the index: {tokens(done)} of {count(of, 'vector')}")

        done = rebuild_index(shared.database, shared.services, progress=describe, stop=job.cancel.is_set)
        if job.cancel.is_set():
            job.add_text("Stopped. What is missing in the index is added when it is next searched.")
        else:
            job.add_text(f"The index was rebuilt: {count(done, 'vector')}.")

    _upkeep("rebuild", work)


def _compact() -> None:
    database = engine().database

    def work(job: Job) -> None:
        # Measured, not computed: how much a database gives back is its own decision.
        before, _ = size_of(database)
        database.compact()
        after, _ = size_of(database)
        job.add_text(f"The database takes {size(after)} now, {size(before - after)} less.")

    _upkeep("compact", work)


def _upkeep(what: str, work: Callable[[Job], None]) -> None:
    """Start a maintenance job, one at a time for all sessions; the job's text is the closing message."""
    # If a job is running already, `start` returns it, and the tab follows that one.
    job = engine().start(INDEX, f"{what}-{uuid.uuid4().hex}", work)
    st.session_state[_UPKEEP] = job.id
    st.session_state[_CLICKED] = True
    st.session_state[MAINTENANCE] = False
    # A short job ends before the next drawing, which then shows its result at once.
    job.wait(FOLLOW_SECONDS)


def _running() -> Job | None:
    """The running maintenance job, whichever tab started it."""
    job = engine().running(INDEX)
    if job is not None:
        st.session_state[_UPKEEP] = job.id
    return job


def _tell_done() -> None:
    """Report once how the maintenance job seen by this tab ended."""
    job = engine().job(INDEX)
    # Popped, so that it is reported once; another tab has its own mark.
    if job is None or st.session_state.pop(_UPKEEP, None) != job.id:
        return
    key, look = _look()
    # The result from before the maintenance is out of date.
    watch().look(key, look(free=True))
    if job.error is not None:
        state.say("error", f"{_NOT_DONE[job.id.partition('-')[0]]}: {job.error}")
    else:
        toasts.done(job.text, session_id=None)


def _look() -> tuple[str, Callable[..., Callable[[], Health]]]:
    """Cache key of this browser's result, and a factory of its check. No thread reads session state."""
    shared = engine()
    key = "wrong address"
    chosen: model.Chosen | None = None
    wrong = ""
    try:
        chosen = model.chosen_model()
        # The result depends on the key; a hash tells keys apart without keeping one in the server's memory.
        pasted = sha256(str(st.session_state.get(model.KEY) or "").encode()).hexdigest() if chosen.pasted else ""
        key = f"{chosen.model!r} {pasted}" if not chosen.offline else "offline"
    except ConfigError as error:
        wrong = str(error)

    def look(*, free: bool) -> Callable[[], Health]:
        def check() -> Health:
            health = check_health(shared.database, shared.services, chosen.model if chosen else None, free=free)
            # The client was made for this check, and would keep its connections open.
            if chosen and isinstance(chosen.model, OpenAIChat):
                chosen.model.close()
            # An invalid address cannot be checked, but counts as a failure.
            if wrong:
                health = Health((*health.checks, Check("chat", "failed", "", None, wrong)), health.at)
            return health

        return check

    person = acting_person()
    return f"{key} {person.tenant}" if person is not None else key, look  # tenants have results of their own

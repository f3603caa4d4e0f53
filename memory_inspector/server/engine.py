"""The engine of a server process: its database, its local models, the jobs that run, the messages that wait,
the defaults of new sessions, and texts that were typed and not saved yet.

Unsaved texts are kept here, so that Esc, a click outside and a reload of the page do not lose them; never secrets.
"""

import logging
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from memory_core import (
    ChatMessage,
    ConfigError,
    Database,
    FactExtractionMemoryBlock,
    Memory,
    MemoryConfig,
    MemoryInspectorError,
    Services,
    Settings,
    VectorMemoryBlock,
)
from memory_core.access import bind_person
from memory_core.history.log import last_position
from memory_core.recipes import RECIPES, RecipeSpec
from memory_inspector.reading.write_access import left_to_agent
from memory_inspector.server.jobs import Job, Jobs
from memory_inspector.upkeep import maintenance
from memory_inspector.upkeep.agents import running_agent

if TYPE_CHECKING:
    from memory_inspector.files.in_place import StoreFollower


MAX_DRAFTS = 200
"""Maximum number of drafts; the least recently typed are dropped first."""

Place = tuple[str, ...]
"""Key of what is edited, for example `("text", session id, block)`."""


@dataclass(frozen=True, slots=True)
class Unsaved:
    """A draft, and the values it started from."""

    value: Any
    """A text, or settings by name."""
    began: Any
    """The revision, or the settings, that the draft started from."""
    at: float
    """Time of the last keystroke, in seconds since 1970."""


class UnsavedDrafts:
    """The drafts of one process, by place. Thread-safe."""

    def __init__(self) -> None:
        self._drafts: OrderedDict[Place, Unsaved] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, place: Place, value: Any, began: Any) -> None:
        with self._lock:
            self._drafts[place] = Unsaved(value, began, time.time())
            self._drafts.move_to_end(place)
            while len(self._drafts) > MAX_DRAFTS:
                self._drafts.popitem(last=False)

    def at(self, place: Place) -> Unsaved | None:
        """The draft of this place; None if there is none."""
        with self._lock:
            return self._drafts.get(place)

    def forget(self, place: Place) -> None:
        with self._lock:
            self._drafts.pop(place, None)


RETRY_EVERY_SECONDS = 2.0
"""Interval, in seconds, at which the server looks for deliveries whose next attempt is due."""

RETRY_AFTER_SECONDS = 0.2
"""Seconds from a notification of due deliveries until the server looks: their process usually makes them itself."""

UNNOTIFIED_SECONDS = 5.0
"""Seconds after which a live page looks into the database although there was no notification of its session."""

FOLLOW_EVERY_SECONDS = 1.0
"""Interval, in seconds, at which the server checks whether an opened store has changed."""

STOP_SECONDS = 5.0
"""Maximum seconds to wait for a running job to stop."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A message typed while another job runs for its session: sent when that job has ended, and not stored before."""

    job_id: str
    text: str
    work: Callable[[Job], object] = field(repr=False)
    browser_model: bool


@dataclass(frozen=True, slots=True)
class _Latest:
    """State that a live page depends on, as last read after so many notifications of its session."""

    notifications: int | None
    at: float
    position: int
    agent: object


class Engine:
    """The engine behind the pages of one server, for one tenant."""

    def __init__(self, settings: Settings, tenant: str = "") -> None:
        self.settings = settings
        self.database = Database.open(settings.database, tenant=tenant)
        self.database.for_agents = False  # changes made through this engine are a person's
        self.services = Services(index=settings.index)
        self.unsaved = UnsavedDrafts()
        self._jobs = Jobs(max_workers=8)
        self._current: dict[str, str] = {}
        self._waiting: dict[str, list[Waiting]] = {}
        self._sending: dict[str, Waiting] = {}
        self._browser_models: set[str] = set()
        # Reentrant: `_send_next` starts a job while it holds the lock.
        self._lock = threading.RLock()
        self._closing = threading.Event()
        self._latest: dict[str, _Latest] = {}
        self._retrying = threading.Thread(target=self._retry_deliveries, name="retry-deliveries", daemon=True)
        self._retrying.start()
        self._stores: StoreFollower | None = None
        self._following = threading.Thread(target=self._follow_stores, name="follow-stores", daemon=True)
        self._following.start()

    def open(self, session_id: str, services: Services | None = None) -> Memory:
        """A session's memory. Raises `NotFoundError` if it was deleted."""
        return Memory.open(session_id, self.database, services=services or self.services)

    def start(self, session_id: str, job_id: str, work: Callable[[Job], object], *, browser_model: bool = False) -> Job:
        """Run work for a session, or return the job that is already running for it.

        `browser_model`: the work learns with a model key of one browser, so failed deliveries are retried from that
        browser and not by the server.
        """
        with self._lock:
            (self._browser_models.add if browser_model else self._browser_models.discard)(session_id)
            running = self.running(session_id)
            if running is not None:
                return running
            job = self._jobs.submit(job_id, work, then=lambda: self._send_next(session_id))
            self._current[session_id] = job_id
            return job

    def send(self, session_id: str, message: Waiting) -> None:
        """Send a message now, or when everything running or waiting for its session has ended.

        A message that was sent or waits already, by its id, is ignored.
        """
        with self._lock:
            waiting = {job.job_id for job in self.waiting(session_id)}
            if message.job_id in waiting or self._jobs.get(message.job_id) is not None:
                return
            # Sent later in another job's thread, still by the person who typed it.
            message = replace(message, work=bind_person(message.work))
            self._waiting.setdefault(session_id, []).append(message)
        # Outside of the lock; if a job ends in between, its own end sends the message, and the second try finds
        # nothing.
        if self.running(session_id) is None:
            self._send_next(session_id)

    def waiting(self, session_id: str) -> tuple[Waiting, ...]:
        """The messages that are still to be sent, in their order."""
        with self._lock:
            return tuple(self._waiting.get(session_id, ()))

    def sending(self, session_id: str) -> Waiting | None:
        """Return the message whose job is running; None without one."""
        running, message = self.running(session_id), self._sending.get(session_id)
        return message if running is not None and message is not None and running.id == message.job_id else None

    def withdraw(self, session_id: str, job_id: str) -> None:
        """Remove a message that still waits."""
        with self._lock:
            remaining = [job for job in self._waiting.get(session_id, ()) if job.job_id != job_id]
            self._waiting[session_id] = remaining

    def _send_next(self, session_id: str) -> None:
        with self._lock:
            waiting = self._waiting.get(session_id)
            if not waiting or self._closing.is_set() or self.running(session_id) is not None:
                return
            # Under one lock with the start, so that nothing else can start in between.
            message = self._sending[session_id] = waiting.pop(0)
            self.start(session_id, message.job_id, message.work, browser_model=message.browser_model)

    def job(self, session_id: str) -> Job | None:
        """The last job of a session in this process, running or done."""
        job_id = self._current.get(session_id)
        return self._jobs.get(job_id) if job_id else None

    def read(self, key: str, work: Callable[[Job], object]) -> Job:
        """Run work that stores nothing; if the job of this key is running or has succeeded, only return that job."""
        return self._jobs.submit(key, work)

    def reading(self, key: str) -> Job | None:
        """The job started by `read` under this key, running or done."""
        return self._jobs.get(key)

    def running(self, session_id: str) -> Job | None:
        """The job running for a session, whichever tab started it."""
        job = self.job(session_id)
        return job if job is not None and not job.done else None

    def stop(self, session_id: str) -> bool:
        """Ask the running job of a session to end early and wait for it; return whether nothing is running any more."""
        running = self.running(session_id)
        if running is None:
            return True
        running.cancel.set()
        return running.wait(STOP_SECONDS)

    def latest(self, session_id: str) -> tuple[int, object]:
        """Return the last position of a session's log, and the agent at work in it; cached until a notification."""
        count, now = self.database.notifications.count(session_id), time.monotonic()
        seen = self._latest.get(session_id)
        # An agent may also end without a notification.
        if count is None or seen is None or seen.notifications != count or now - seen.at > UNNOTIFIED_SECONDS:
            position, agent = last_position(self.database, session_id), running_agent(self.database, session_id)
            seen = self._latest[session_id] = _Latest(count, now, position, agent)
        return seen.position, seen.agent

    def store_problem(self, session_id: str) -> str | None:
        """Return why a session's opened store cannot be read (its last state read is shown); None if it can be read."""
        return self._stores.problems.get(session_id) if self._stores is not None else None

    def store_note(self, session_id: str) -> str:
        """Return a note on what the app leaves out of a session's opened store; empty if nothing."""
        return self._stores.notes.get(session_id, "") if self._stores is not None else ""

    def close(self) -> None:
        """Wait for the running jobs and close the database."""
        # In this order: jobs and threads use the database until they end.
        self._closing.set()
        self.database.notifications.wake()
        self._jobs.close()
        self._retrying.join()
        self._following.join()
        self.database.close()

    def _follow_stores(self) -> None:
        """Update the sessions that show another program's store whenever the store changes."""
        while not self._closing.wait(FOLLOW_EVERY_SECONDS):
            try:
                if not self.database.in_place:
                    continue
                if self._stores is None and maintenance.sessions_that_show_stores(self.database):
                    from memory_inspector.files.in_place import StoreFollower  # takes a while, and few need it

                    self._stores = StoreFollower(self.database, self.services)
                if self._stores is not None:
                    self._stores.look()
            except (MemoryInspectorError, OSError) as error:  # the next look may succeed
                _log.warning("opened stores could not be checked: %s", error)

    def _retry_deliveries(self) -> None:
        """Retry due deliveries, and erase the remains of processes that died while storing or erasing."""
        # Vectors that an earlier process left missing are computed once per process, as soon as the database answers.
        begun, heard = False, None
        while not self._closing.is_set():
            heard = maintenance.wait_for_deliveries(self.database, RETRY_EVERY_SECONDS, heard, self._closing.is_set)
            if self._closing.wait(RETRY_AFTER_SECONDS):
                return
            try:
                if not self.database.in_place:
                    continue
                if not begun:
                    for session_id in maintenance.sessions_with_vectors_to_follow(self.database):
                        self.open(session_id).retrieval.resume_vectors()
                    begun = True
                for session_id in set(maintenance.sessions_with_due_deliveries(self.database)) - self._browser_models:
                    # Deliveries of a session that a running agent owns are made by that agent, with its model.
                    if left_to_agent(self.database, session_id) is None:
                        self.open(session_id).deliver(force=False)
                maintenance.erase_remains_of_crashed_work(self.database)
            except MemoryInspectorError as error:  # the next attempt may succeed
                _log.warning("waiting deliveries could not be checked: %s", error)


INSTRUCTIONS = "You are a helpful assistant. Use what you remember, and say when you do not know something."

RECIPE = "blocks"
"""Default recipe of a session."""

ASKS_WITH = 3
"""Number of latest messages from which a search of earlier turns takes its query."""

TOKEN_LIMIT = 4_000
"""Default token limit: small enough for flushes within a short conversation, unlike LlamaIndex's 30,000."""

TRIP = (
    ChatMessage(role="user", content="Hi, I am Mira and I live in Ghent. Help me plan a week in Lisbon in May."),
    ChatMessage(role="assistant", content="Gladly, Mira. What do you enjoy most when you travel?"),
    ChatMessage(role="user", content="I like small museums and the sea. I am vegetarian. Keep it under 900 euros."),
    ChatMessage(
        role="assistant", content="Small museums, the sea, vegetarian food, and at most 900 euros. When in May?"
    ),
)
"""A short conversation that the empty chat suggests, written for this app."""


def new_memory(
    engine: Engine,
    *,
    title: str,
    token_limit: int = TOKEN_LIMIT,
    user_id: str | None = None,
    facts_of: Literal["session", "user"] = "session",
    recipe: str = RECIPE,
) -> Memory:
    """Create a session from a recipe; `facts_of` is the owner of its facts.

    Raises:
        ConfigError: the recipe belongs to a user, and none is given.
    """
    chosen = RECIPES[recipe]
    if chosen.of_user and user_id is None:
        raise ConfigError(f'"{chosen.title}" belongs to a user: say whose conversation it is.')
    # Not every recipe has a block for instructions.
    made = chosen.made(**({"instructions": INSTRUCTIONS} if "instructions" in chosen.parameters else {}))
    for block in made.blocks:
        if isinstance(block, FactExtractionMemoryBlock) and facts_of == "user":
            block.scope = "user"
        elif isinstance(block, VectorMemoryBlock):
            block.retrieval_context_window = ASKS_WITH
    return Memory.from_defaults(
        uuid.uuid4().hex[:12],
        user_id,
        memory_blocks=made.blocks,
        database=engine.database,
        title=title,
        services=engine.services,
        **_settings(made, token_limit),
    )


def _settings(made: RecipeSpec, token_limit: int) -> dict[str, Any]:
    return {**made.settings, "token_limit": token_limit}


def new_config() -> MemoryConfig:
    """Configuration of a new session unless another recipe or limit is chosen."""
    return MemoryConfig(**_settings(RECIPES[RECIPE].made(), TOKEN_LIMIT))


def recorded_session(engine: Engine, messages: Sequence[ChatMessage], *, title: str, skipped: int = 0) -> Memory:
    """Create a session with a recording to be played into it."""
    memory = new_memory(engine, title=title)
    memory.session.attach_recording(messages, source=title, skipped=skipped)
    return memory

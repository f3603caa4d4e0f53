"""What every page of one server process shares: the database, the local models, the running jobs.

The folder is `MEMORY_INSPECTOR_HOME`, else `.memory-inspector` in the user's home.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import streamlit as st

from memory_core import Database, Memory, MemoryInspectorError, Services, Settings
from memory_core.store.deliveries import waiting_sessions
from ui.jobs import Job, Jobs

RETRY_EVERY_SECONDS = 2.0
"""How often the server looks for deliveries whose next attempt has come."""

_log = logging.getLogger(__name__)


class Engine:
    """The engine behind the pages of one server."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.database = Database.open(settings.database)
        self.services = Services(index=settings.index)
        self._jobs = Jobs(max_workers=8)
        self._current: dict[str, str] = {}
        self._browser_models: set[str] = set()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._retrying = threading.Thread(target=self._retry_deliveries, name="retry-deliveries", daemon=True)
        self._retrying.start()

    def open(self, session_id: str, services: Services | None = None) -> Memory:
        """A session's memory. Raises `NotFoundError` when it was deleted."""
        return Memory.open(session_id, self.database, services=services or self.services)

    def start(self, session_id: str, job_id: str, work: Callable[[Job], object], *, browser_model: bool = False) -> Job:
        """Run work for a session, unless something runs for it already: then that is what to follow.

        `browser_model`: it learns with a key that belongs to one browser, so what fails is tried
        again from there and not by the server.
        """
        with self._lock:
            (self._browser_models.add if browser_model else self._browser_models.discard)(session_id)
            running = self.running(session_id)
            if running is not None:
                return running
            job = self._jobs.submit(job_id, work)
            self._current[session_id] = job_id
            return job

    def job(self, session_id: str) -> Job | None:
        """The last job of a session in this process, running or done."""
        job_id = self._current.get(session_id)
        return self._jobs.get(job_id) if job_id else None

    def running(self, session_id: str) -> Job | None:
        """What runs for a session at the moment, in whichever tab it was started."""
        job = self.job(session_id)
        return job if job is not None and not job.done else None

    def close(self) -> None:
        """Wait for the running jobs and let the database go."""
        self._closing.set()
        self._jobs.close()
        self._retrying.join()
        self.database.close()

    def _retry_deliveries(self) -> None:
        while not self._closing.wait(RETRY_EVERY_SECONDS):
            try:
                with self.database.read() as connection:
                    due = waiting_sessions(connection, before=time.time())
                for session_id in set(due) - self._browser_models:
                    self.open(session_id).deliver(force=False)
            except MemoryInspectorError as error:  # the next look may find it mended
                _log.warning("deliveries could not be retried: %s", error)


def app_settings() -> Settings:
    """The process's settings, with a home folder in any case."""
    settings = Settings.from_environment()
    return settings if settings.home else replace(settings, home=Path.home() / ".memory-inspector")


@st.cache_resource(show_spinner=False, on_release=Engine.close)
def engine() -> Engine:
    """The one engine of this server. Raises `StoreError` when the database cannot be reached."""
    return Engine(app_settings())

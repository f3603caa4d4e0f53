"""Work that outlives the script run that asked for it: a chat turn, an import, a sweep. No Streamlit.

A rerun, a second click, a closed tab or a page switch can neither interrupt a job nor repeat it: it runs in a worker
thread under an id made once per submit; pages only observe it, and can leave and rejoin. The workers are not daemons,
so a stopping server waits for the work it has started.
"""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from memory_core.access import bind_person
from memory_core.errors import MemoryInspectorError
from memory_inspector.reading.forgotten import Forgotten

KEEP_SECONDS = 3600.0
"""Seconds for which a finished job can still be read; a viewer absent for longer reads the database."""

KEEP_FINISHED = 200
"""Maximum number of finished jobs that are kept; the oldest are dropped first."""

UNEXPECTED = "Something went wrong inside the app. What you sent before is kept. The server's log has the details."
"""Message shown for an unexpected error."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Stop:
    """Reason why playing a recording has stopped in the middle."""

    stage: str
    """Stage of the turn's story that was shown last."""
    first: bool = False
    """True if nothing earlier in the log is of this stage."""
    forgotten: Forgotten | None = None
    """Words that the answer lacked; `stage` is then `forgotten`."""


@dataclass(frozen=True, slots=True)
class Reveal:
    """The moment that is shown while a recording is played to be watched: the log may be ahead of it."""

    position: int
    """Log position of the moment."""
    lines: int | None = None
    """Number of lines shown of the turn's story at this moment; None: all."""
    held: Stop | None = None
    """Reason why playing has stopped here."""
    until: int = 0
    """End of the log when playing stopped: with later events, the stop is over."""

    def lasts(self, job: "Job", newest: int) -> bool:
        """Tell whether this moment is still shown instead of the end of the log, which is at `newest`."""
        return self.until == newest if self.held is not None else not job.done


class Job:
    """A background job: its output so far, its outcome, and a request to cancel it.

    The worker calls `add_text` and `add_progress` and checks `cancel`; viewers read the properties. Every method may be
    called from any thread.
    """

    def __init__(self, job_id: str) -> None:
        self.id = job_id
        self.cancel = threading.Event()
        """Set by a viewer to request an early end. The work decides what it keeps."""
        self.pace = 1.0
        """Speed of work meant to be watched: 2 is twice as fast, 0 without pauses. A viewer may change it meanwhile."""
        self.watched = False
        """True for work that waits for its viewers and can go on later: it ends early when the server stops."""
        self.reveal: Reveal | None = None
        """Shown moment of the turn being played; None: the end of the log. Replaced by the worker only."""
        self.problem: str | None = None
        """Sentence on what failed although the work was done; None: nothing. Set by the worker before it ends."""
        self._changed = threading.Condition()
        self._chunks: list[str] = []
        self._progress: list[str] = []
        self._done = False
        self._error: str | None = None
        self._finished_at: float | None = None

    @property
    def done(self) -> bool:
        """Tell whether the job has ended, successfully or not."""
        with self._changed:
            return self._done

    @property
    def error(self) -> str | None:
        """Return a sentence for the user if the job failed, otherwise None."""
        with self._changed:
            return self._error

    @property
    def text(self) -> str:
        """All text that the job has added so far."""
        with self._changed:
            return "".join(self._chunks)

    @property
    def progress(self) -> tuple[str, ...]:
        """The progress lines so far, oldest first."""
        with self._changed:
            return tuple(self._progress)

    def add_text(self, chunk: str) -> None:
        """Append to the text that viewers see."""
        with self._changed:
            self._chunks.append(chunk)

    def add_progress(self, line: str) -> None:
        """Append one line about the current step."""
        with self._changed:
            self._progress.append(line)

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Block until the job is done, at most `timeout_seconds`; return whether it is done."""
        with self._changed:
            return self._changed.wait_for(lambda: self._done, timeout_seconds)

    def _finish(self, error: str | None, finished_at: float) -> None:
        with self._changed:
            self._done, self._error, self._finished_at = True, error, finished_at
            self._changed.notify_all()


class Jobs:
    """The jobs of one server process: at most `max_workers` run at once, the rest are queued in order."""

    def __init__(self, max_workers: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns seconds; it is read when a job ends and when old jobs are dropped."""
        if max_workers < 1:
            raise ValueError(f"must be at least 1: {max_workers=}")
        self._pool = ThreadPoolExecutor(max_workers, thread_name_prefix="job")
        self._clock = clock
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}

    def submit(self, job_id: str, work: Callable[[Job], object], *, then: Callable[[], object] | None = None) -> Job:
        """Run `work(job)` once under this id; for a known id, running or succeeded, only return its job.

        `then` is called in the worker's thread when the job has ended, successfully or not. A failed job may be
        submitted again. A finished id is dropped after `KEEP_SECONDS`, or after `KEEP_FINISHED` newer ones; the write
        itself must therefore also be keyed by the id in the database.
        """
        with self._lock:
            self._drop_old()
            running = self._jobs.get(job_id)
            # A second click, or another tab.
            if running is not None and running.error is None:
                return running
            job = Job(job_id)
            self._pool.submit(self._run, job, bind_person(work), then)
            self._jobs[job_id] = job
            return job

    def get(self, job_id: str) -> Job | None:
        """The job with this id; None if it was never submitted here, or ended too long ago."""
        with self._lock:
            self._drop_old()
            return self._jobs.get(job_id)

    def close(self) -> None:
        """Wait for everything submitted and accept nothing more."""
        with self._lock:
            for job in self._jobs.values():
                # Such work can go on later, and the server waits below for all that runs.
                if job.watched:
                    job.cancel.set()
        self._pool.shutdown(wait=True)

    def _run(self, job: Job, work: Callable[[Job], object], then: Callable[[], object] | None) -> None:
        error: str | None = UNEXPECTED  # applies even to a BaseException: no viewer may wait for ever
        try:
            work(job)
            error = None
        except MemoryInspectorError as failure:
            _log.info("job %s failed: %s", _kind(job), failure)
            error = str(failure)
        except Exception:
            _log.exception("job %s failed unexpectedly", _kind(job))
        except BaseException:
            _log.exception("job %s was stopped", _kind(job))
            raise
        finally:
            # Before `then`, which may start the next job and must find this one done.
            job._finish(error, self._clock())
            if then is not None:
                then()

    def _drop_old(self) -> None:
        """Drop finished jobs beyond the two limits; running ones are always kept."""
        finished = [(job._finished_at, job.id) for job in self._jobs.values() if job._finished_at is not None]
        finished.sort(reverse=True)
        oldest = self._clock() - KEEP_SECONDS
        for rank, (finished_at, job_id) in enumerate(finished):
            if rank >= KEEP_FINISHED or finished_at < oldest:
                del self._jobs[job_id]


def _kind(job: Job) -> str:
    """Return the part of a job's id that may be logged: the rest can hold words of the conversation."""
    return job.id.partition("/")[0]

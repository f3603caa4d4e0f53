"""A job runs once, can be looked at by anyone, and tells how it ended."""

import logging
import threading

import pytest

from memory_core.errors import ModelTimeoutError
from memory_inspector.server.jobs import UNEXPECTED, Job, Jobs

LONG = 10.0  # seconds, only reached when a test fails


@pytest.fixture
def jobs():
    jobs = Jobs(max_workers=2)
    yield jobs
    jobs.close()


class Steps:
    """Work that says one word each time it is let on, so that a test decides the order of things."""

    def __init__(self, *words):
        self.words, self.go = words, threading.Semaphore(0)
        self.runs = 0

    def __call__(self, job):
        self.runs += 1
        for word in self.words:
            assert self.go.acquire(timeout=LONG)
            job.add_text(word)

    def let_on(self, times):
        self.go.release(times)


def test_a_finished_job_still_tells_all_it_said(jobs):
    work = Steps("one ", "two")
    work.let_on(2)
    job = jobs.submit("turn", work)
    assert job.wait(LONG)
    assert (job.text, job.done, job.error) == ("one two", True, None)


def test_a_viewer_sees_what_was_said_so_far_and_the_newest_line_of_what_is_done(jobs):
    said = threading.Semaphore(0)
    end = threading.Event()

    def work(job):
        job.add_text("early ")
        job.add_progress("Learning from 4 messages")
        said.release()
        assert end.wait(LONG)
        job.add_text("late")

    job = jobs.submit("turn", work)
    assert said.acquire(timeout=LONG)
    assert (job.text, job.progress, job.done) == ("early ", ("Learning from 4 messages",), False)
    end.set()
    assert job.wait(LONG)
    assert job.text == "early late"


def test_the_same_id_runs_once_however_often_it_is_submitted(jobs):
    work = Steps("word")
    start = threading.Barrier(8)
    given = []

    def click():
        start.wait(LONG)
        given.append(jobs.submit("turn", work))

    clicks = [threading.Thread(target=click) for _ in range(8)]
    for thread in clicks:
        thread.start()
    work.let_on(8)
    for thread in clicks:
        thread.join(LONG)
    assert {id(job) for job in given} == {id(jobs.get("turn"))}
    assert given[0].wait(LONG)
    assert jobs.submit("turn", work) is given[0]
    jobs.close()
    assert work.runs == 1


def test_cancel_reaches_the_work_and_keeps_what_it_said(jobs):
    def work(job):
        job.add_text("Eight people, ")
        if not job.cancel.wait(LONG):
            job.add_text("table by the window.")

    job = jobs.submit("turn", work)
    job.cancel.set()
    assert job.wait(LONG)
    assert (job.text, job.error) == ("Eight people, ", None)


def test_an_error_of_the_engine_is_shown_in_its_own_words(jobs):
    def work(job):
        job.add_text("half")
        raise ModelTimeoutError("The model did not answer within 60 s. Your message is stored.")

    job = jobs.submit("turn", work)
    assert job.wait(LONG)
    assert (job.text, job.error) == ("half", "The model did not answer within 60 s. Your message is stored.")


@pytest.mark.parametrize("failure", [ZeroDivisionError("key sk-123"), SystemExit("key sk-123")])
def test_any_other_error_is_logged_whole_and_shown_as_one_sentence(jobs, caplog, failure):
    def work(job):
        raise failure

    with caplog.at_level(logging.ERROR, logger="memory_inspector.server.jobs"):
        job = jobs.submit("turn", work)
        assert job.wait(LONG)
        jobs.close()
    assert job.error == UNEXPECTED
    assert [record.exc_info[1] for record in caplog.records] == [failure]


def test_a_log_names_the_kind_of_a_job_and_not_what_was_asked_for(jobs, caplog):
    def work(job):
        raise ZeroDivisionError

    with caplog.at_level(logging.INFO, logger="memory_inspector.server.jobs"):
        assert jobs.submit("lab/allergic to nuts", work).wait(LONG)
        jobs.close()
    assert [record.args for record in caplog.records] == [("lab",)]


def test_a_worker_survives_what_its_job_raised():
    def work(job):
        raise SystemExit

    jobs = Jobs(max_workers=1)
    jobs.submit("bad", work)
    good = jobs.submit("good", lambda job: job.add_text("still here"))
    assert good.wait(LONG)
    assert good.text == "still here"
    jobs.close()


def test_an_unknown_id_has_no_job(jobs):
    assert jobs.get("never") is None


def test_finished_jobs_are_forgotten_after_an_hour():
    now = [0.0]
    jobs = Jobs(max_workers=1, clock=lambda: now[0])
    jobs.submit("turn", lambda job: None).wait(LONG)
    now[0] = 3600.0
    assert jobs.get("turn") is not None
    now[0] = 3600.1
    assert jobs.get("turn") is None
    jobs.close()


def test_only_the_newest_200_finished_jobs_are_kept_and_a_running_one_always():
    ticks = iter(range(10_000))
    jobs = Jobs(max_workers=2, clock=lambda: next(ticks))
    end = threading.Event()
    running = jobs.submit("running", lambda job: end.wait(LONG))
    for n in range(205):
        assert jobs.submit(f"job {n}", lambda job: None).wait(LONG)
    kept = [n for n in range(205) if jobs.get(f"job {n}") is not None]
    assert kept == list(range(5, 205))
    assert jobs.get("running") is running
    end.set()
    jobs.close()


def test_nothing_is_taken_after_closing():
    jobs = Jobs(max_workers=1)
    jobs.close()
    with pytest.raises(RuntimeError):
        jobs.submit("turn", lambda job: None)
    assert jobs.get("turn") is None


def test_a_job_needs_a_worker():
    with pytest.raises(ValueError, match="max_workers=0"):
        Jobs(max_workers=0)


def test_the_workers_are_waited_for_when_the_server_stops(jobs):
    daemons = []
    job: Job = jobs.submit("turn", lambda job: daemons.append(threading.current_thread().daemon))
    assert job.wait(LONG)
    assert daemons == [False]


def test_closing_ends_what_only_waits_for_who_watches_it():
    jobs, begun = Jobs(max_workers=1), threading.Event()

    def watch(job):
        job.watched = True
        begun.set()
        assert job.cancel.wait(30)

    job = jobs.submit("a", watch)
    assert begun.wait(30)
    jobs.close()
    assert (job.done, job.error) == (True, None)

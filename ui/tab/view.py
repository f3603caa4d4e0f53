"""A session at a moment, as every page shows it: the single source of time in the app.

A page shows the log up to one position: that of the turn or step selected in the header, otherwise the newest. While a
recording is played to be watched, that is the moment which playback has come to. While another turn is running that has
no prompt yet, it is the end of the previous turn, so that all numbers on a screen belong to one turn.
"""

from dataclasses import dataclass, replace
from functools import cached_property

from memory_core import ConfigError, Memory, Services, Status
from memory_core.events import EventRecord, MessageAdded
from memory_core.history.by_turn import History, TurnRecord, history_of
from memory_core.tracing.effects import Effects
from memory_inspector.reading.write_access import PAST, VIEWER, ReadOnly, read_only, taken_from_agent
from memory_inspector.server.chat_turns import answers, builds_prompts
from memory_inspector.server.jobs import Job, Reveal
from ui.tab import state
from ui.tab.model import chosen_model, services_for
from ui.tab.people import obstacle
from ui.tab.services import engine


@dataclass(frozen=True)
class View:
    """A session at a moment, as a page shows it."""

    memory: Memory
    """Opened with the services of the chosen model."""
    history: History
    """The session's log by turn, as of the start of the drawing."""
    status: Status
    """Current totals."""
    turn: int | None
    """The selected turn, if it is not the latest, or is the latest at an earlier step of it; otherwise None."""
    running: Job | None
    """The job running for this session in this process."""
    step: int | None = None
    """Log position of the step selected inside a turn."""
    seen: object = None
    """Result of `news` at the start of the drawing, with which later results are compared."""
    reveal: Reveal | None = None
    """Moment of a playback that `history` ends with, although the log goes on; None: it is the whole log."""

    @property
    def past(self) -> bool:
        """Tell whether all shown is read from the log: an earlier moment, or records of an attached agent."""
        return self.turn is not None or self.attached

    @property
    def read_only(self) -> ReadOnly | None:
        """Return why nothing can be changed on a page of this moment; None if it can."""
        return self.locked or (PAST if self.turn is not None else None)

    @cached_property
    def locked(self) -> ReadOnly | None:
        """Return why nothing can be changed in this session, at any moment; None if it can."""
        return VIEWER if obstacle() is not None else read_only(self.memory, self.history)

    @cached_property
    def taken_over(self) -> bool:
        """Tell whether an agent works in this session, and a person has taken it over."""
        return taken_from_agent(self.memory.session.database, self.memory.session_id)

    @property
    def attached(self) -> bool:
        """Tell whether this session shows an attached agent."""
        return self.history.attached

    def blocks_of(self, kind: str) -> list[str]:
        """Names of the blocks of a kind that the session has at this moment, in order."""
        blocks = self.history.blocks_at(self.position) if self.past else self.memory.blocks
        return [block.name for block in blocks if block.kind == kind]

    @property
    def shown_turn(self) -> int:
        """The turn that contains this moment; 0 before the first message."""
        return self.turn if self.turn is not None else turn_at(self.history, self.position)

    @cached_property
    def position(self) -> int:
        """Log position of this moment: everything shown happened at or before it."""
        # A step is the finest moment: it wins over the turn that contains it.
        if self.step is not None:
            return self.step
        if self.turn is not None:
            return self.history.position_at(self.turn)
        return self.newest

    @property
    def newest(self) -> int:
        """Position of the newest moment that can be shown."""
        return self.history.position if self.reveal is not None else latest_moment(self.history, self.running)

    @cached_property
    def latest_turn(self) -> int:
        """The newest turn that can be shown; 0 before the first message."""
        return turn_at(self.history, self.newest)

    @property
    def between(self) -> bool:
        """Tell whether a running turn is not shown yet, because its prompt has not been built."""
        return self.turn is None and self.running is not None and self.position < self.history.position

    @cached_property
    def then(self) -> TurnRecord | None:
        """The shown turn up to this moment; None before the first."""
        # The shared record is used if the turn is shown to its end; only a moment inside it is counted anew.
        record = self.history.turns.get(self.shown_turn)
        if record is None or record.last_position <= self.position:
            return record
        return history_of(self.history.upto(self.position)).turns.get(self.shown_turn)

    @cached_property
    def contexts(self) -> tuple[EventRecord, ...]:
        """Prompts of the shown turn up to this moment; if none, those of the last earlier turn that has one."""
        # Newest first. A turn has none until its prompt is built.
        turns = (self.then, *(self.history.turns.get(number) for number in range(self.shown_turn - 1, 0, -1)))
        return next((turn.contexts for turn in turns if turn is not None and turn.contexts), ())

    @cached_property
    def effects(self) -> Effects:
        """Return what is in the shown prompt, and why the rest of the session's memory is not."""
        return self.memory.trace.effects(turn=self.shown_turn, upto=self.position)

    @cached_property
    def status_then(self) -> Status:
        """The session's totals at this moment; in the past without messages in transit, which no turn records.

        While a job is running or stopped on the way, they are read from the log, to match everything else shown.
        """
        then, past = self.then, self.past or self.between or self.reveal is not None
        if then is None or not (past or self.running):
            return self.status
        return replace(
            self.status,
            queue_tokens=then.queue_tokens,
            queue_messages=then.queue_messages,
            archived_messages=then.archived_messages,
            history_budget=then.history_budget,
            token_limit=then.token_limit,
            in_transit_messages=0 if past else self.status.in_transit_messages,
            in_transit_tokens=0 if past else self.status.in_transit_tokens,
        )

    @cached_property
    def last_seq(self) -> int:
        """Sequence number of the newest message at this moment; 0 before the first."""
        records = reversed(self.history.upto(self.position))
        return next((r.event.seq for r in records if isinstance(r.event, MessageAdded)), 0)


def latest_moment(history: History, running: Job | None) -> int:
    """Position of the newest moment that can be shown completely: the log's end, or the end of the turn before a
    running one without a prompt."""
    newest = history.turns.get(history.latest_turn)
    # A turn without a prompt yet would show numbers of two turns side by side.
    if running is None or newest is None or newest.built is not None or not builds_prompts(running):
        return history.position
    return newest.first_position - 1


def turn_at(history: History, position: int) -> int:
    """The turn that contains a position of the log; 0 before the first."""
    records = history.upto(position)
    return records[-1].turn if records else 0


def memory_of(session_id: str) -> Memory:
    """A session with the services of the chosen model.

    Raises:
        NotFoundError: it was deleted.
        StoreError: the database cannot be reached.
    """
    return engine().open(session_id, _services())


def opened(session_id: str, memory: Memory | None = None) -> View:
    """The view of a session that pages show. `memory`: the session as this run has opened it already, if it has.

    Raises:
        NotFoundError: it was deleted.
        StoreError: the database cannot be reached.
    """
    seen = news(session_id)  # first: events stored while the rest is read then count as news at the next poll
    shared = engine()
    memory = memory or memory_of(session_id)
    running = shared.running(session_id)
    # The newest moment, with no turn selected: whether the selected one exists is only known from its log.
    view = View(memory, memory.log.history(), memory.session.status(), None, running, seen=seen)
    job = shared.job(session_id)
    reveal = job.reveal if job is not None else None
    if job is not None and reveal is not None and reveal.lasts(job, view.history.position):
        view = replace(view, history=history_of(view.history.upto(reveal.position)), reveal=reveal)
    turn, step = state.selected_turn(), state.selected_step()
    if step is not None and (turn != turn_at(view.history, step) or step >= view.history.position_at(turn)):
        step = None  # the step belongs to another turn, or is the end of this one
    # The latest turn at its end, or a turn that does not exist, is shown as the present.
    if turn is not None and (turn < view.latest_turn or step is not None):
        return replace(view, turn=turn, step=step)
    return view


def news(session_id: str) -> tuple[object, ...]:
    """Values that the latest view depends on: a difference triggers a redraw.

    Raises:
        NotFoundError: the session was deleted.
        StoreError: the database cannot be reached.
    """
    shared = engine()
    running = shared.running(session_id)
    waiting = tuple(job.job_id for job in shared.waiting(session_id))
    if running is None:
        # One look-up by index a second is cheap, and reading the log would not be: its last position stands for it.
        return *shared.latest(session_id), waiting, shared.store_problem(session_id)
    # While a job runs, events alone are no news: a turn is shown when its prompt is there.
    history = shared.open(session_id).log.history()
    stored = history.position if answers(running) else None  # typed messages are shown before their prompt is built
    return running.reveal or latest_moment(history, running), waiting, running.id, stored


def _services() -> Services:
    """Services of the chosen model; the default ones if its address is invalid, which the sidebar reports."""
    try:
        return services_for(chosen_model())
    except ConfigError:
        return engine().services

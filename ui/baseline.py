"""The baseline: a session or a played configuration that is pinned, and by how much shown numbers differ from its own.

The pin is in the address, and with it survives a reload; the numbers of a configuration are kept in the database.
"""

import time
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Lock
from typing import Any

import streamlit as st

from memory_core import Memory, MemoryInspectorError, NotFoundError
from memory_core.history.numbers import TurnNumbers
from memory_core.lab.baselines import (
    KeptBaseline,
    Numbers,
    keep_baseline,
    keep_reused,
    kept_baseline,
    numbers_of,
    reused_tokens,
)
from memory_core.lab.playing import Played
from ui import state
from ui.jobs import Job
from ui.services import engine
from ui.text import Beside, difference, nothing_beside, plain, session_name, short, tokens

CHIP_CHARACTERS = 34

_SESSION, _KEPT = "session:", "played:"


@dataclass(frozen=True, slots=True)
class Baseline:
    """What others are compared with."""

    name: str
    """Plain text: a session's title, after the changes of a configuration that was played on it."""
    session_id: str
    numbers: Numbers
    lived: Memory | None = None
    """The session itself; None: it is a configuration that was played on it."""

    def reused(self, turn: int) -> int | None:
        """Billed tokens of a turn's prompt that a prompt cache can reuse from the turn before; None: not known."""
        if self.lived is None:
            return self.numbers.reused.get(turn)
        return reused_tokens(self.lived, self.lived.log.history(), turn)


_pinned: ContextVar[Baseline | None] = ContextVar("baseline", default=None)
"""The baseline of this run, read once, so that all numbers on a page are compared with the same."""


def begin_run() -> None:
    """Take what the address of a new tab names, read it, and keep the address; once a run, before anything is drawn."""
    if state.BASELINE not in st.session_state:
        st.session_state[state.BASELINE] = st.query_params.get(state.BASELINE)
    key: str | None = st.session_state[state.BASELINE]
    _pinned.set(_pinned_by(key) if key is not None else None)
    state.write_address(state.BASELINE, st.session_state[state.BASELINE])


def _pinned_by(key: str) -> Baseline | None:
    try:
        return _read(key)
    except NotFoundError:
        state.say("warning", "The pinned baseline was deleted, or never existed. Nothing is compared.")
        unpin()
    except MemoryInspectorError:  # the page says more
        return None
    return None


def pinned() -> Baseline | None:
    return _pinned.get()


def is_pinned(session_id: str) -> bool:
    """Whether this session itself is the baseline."""
    return bool(st.session_state.get(state.BASELINE) == f"{_SESSION}{session_id}")


def pin_session(session_id: str) -> None:
    """Compare with a session from now on. For callbacks."""
    st.session_state[state.BASELINE] = f"{_SESSION}{session_id}"


def pin_played(memory: Memory, played: Played, name: str) -> None:
    """Compare with a configuration that was played on a session; `name` says what it changes. For callbacks."""
    database = memory.session.database
    try:
        id = keep_baseline(memory, played, name, at=time.time())
    except MemoryInspectorError as error:
        state.say("error", str(error))
        return
    st.session_state[state.BASELINE] = f"{_KEPT}{id}"

    def read_prompts(job: Job) -> None:  # takes seconds: until then, nothing stands beside what a cache can reuse
        _kept(id).value = keep_reused(database, played, id)

    engine().read(f"baseline/{id}", read_prompts)


def unpin() -> None:
    st.session_state[state.BASELINE] = None


def draw_chip() -> None:
    """Say in the header that a baseline is pinned; a click unpins it."""
    base = pinned()
    if base is not None:
        st.button(
            f"Baseline: {plain(short(base.name, CHIP_CHARACTERS))}",
            key="frame__baseline",
            icon=":material/close:",
            help=f"Numbers in brackets are differences to {plain(short(base.name, 200))}. A click unpins it.",
            on_click=unpin,
        )


# -- what stands beside a number ---------------------------------------------------------------------


def beside(session_id: str, turn: int | None, block: str | None = None) -> Beside:
    """Differences of a session's numbers at the end of a turn, None: of its last one; of one of its blocks, if given.

    Nothing where the baseline has no such turn, block or number, or is this very session.
    """
    base = pinned()
    then = None if base is None or is_pinned(session_id) else _turn(base.numbers, turn)
    numbers: Any = then if then is None or block is None else then.blocks.get(block)
    if base is None or numbers is None:
        return nothing_beside

    def told(of: str, number: float | None) -> str:
        value = base.reused(then.turn) if of == "reused" and then is not None else getattr(numbers, of)
        return "" if number is None or value is None else f" ({difference(number, value)})"

    return told


def grey(beside: str) -> str:
    """A difference as small grey markdown."""
    return f" :small[:gray[{beside.strip()}]]" if beside else ""


def _turn(numbers: Numbers, turn: int | None) -> TurnNumbers | None:
    return numbers.last if turn is None else numbers.turns.get(turn)


def compared_row(row: dict[str, Any]) -> dict[str, Any]:
    """The Lab's numbers of a configuration with their differences, as words; as they are where nothing is pinned."""
    base = pinned()
    if base is None or base.numbers.last is None:
        return row
    last = base.numbers.last
    known = {
        "Tokens a turn": base.numbers.average,
        "Cut": base.numbers.cut,
        "Flushes": last.flushes,
        "Facts": last.facts,
        "Model calls": base.numbers.calls,
    }
    return {
        name: f"{tokens(value)} ({difference(value, known[name])})" if name in known else value
        for name, value in row.items()
    }


# -- reading it --------------------------------------------------------------------------------------


class _SessionNumbers:
    """The numbers of one session, counted again once it has gone on."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._position = -1
        self._numbers: Numbers | None = None

    def of(self, memory: Memory) -> Numbers:
        with self._lock:
            position = memory.log.history().position
            if self._numbers is None or position != self._position:
                self._numbers, self._position = numbers_of(memory), position
            return self._numbers


@dataclass(slots=True)
class _Kept:
    """A baseline as it was read; what takes longer to count comes later."""

    value: KeptBaseline


def _kept(id: str) -> _Kept:
    shared = engine()
    return shared.services.cached(
        (state.BASELINE, shared.database.id, id), lambda: _Kept(kept_baseline(shared.database, id))
    )


def _read(key: str) -> Baseline:
    """What a key names.

    Raises:
        NotFoundError: it is not there, or the key is none: people edit addresses.
    """
    shared = engine()
    if not key.isprintable():  # no id is so, and a database may refuse it
        raise NotFoundError("The address names no baseline.")
    if key.startswith(_KEPT):
        found = _kept(key.removeprefix(_KEPT)).value
        title = shared.open(found.session_id).session.status().title
        return Baseline(f"{found.name} · {session_name(title, found.session_id)}", found.session_id, found.numbers)
    if not key.startswith(_SESSION):
        raise NotFoundError("The address names no baseline.")
    session_id = key.removeprefix(_SESSION)
    memory = shared.open(session_id)
    counted = shared.services.cached((state.BASELINE, shared.database.id, session_id), _SessionNumbers)
    title = session_name(memory.session.status().title, session_id)
    return Baseline(title, session_id, counted.of(memory), memory)

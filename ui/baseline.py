"""The baseline: one configuration's numbers, pinned in this tab, and by how much others differ from them."""

from dataclasses import dataclass
from typing import Any

import streamlit as st

from memory_core.lab.comparing import Outcome
from ui.text import count, plain, short, tokens

_PINNED = "baseline"


@dataclass(frozen=True, slots=True)
class Baseline:
    """Numbers to compare with."""

    name: str
    """What was pinned, plain text: a session's title and the configuration."""
    outcome: Outcome


def pinned() -> Baseline | None:
    found: Baseline | None = st.session_state.get(_PINNED)
    return found


def pin(name: str, outcome: Outcome) -> None:
    """Compare with these numbers from now on. For callbacks."""
    st.session_state[_PINNED] = Baseline(name, outcome)


def unpin() -> None:
    st.session_state.pop(_PINNED, None)


def difference(number: float, base: float) -> str:
    """`+1,200`, `−30`, `±0`."""
    by = round(number - base)
    return f"+{tokens(by)}" if by > 0 else f"−{tokens(-by)}" if by < 0 else "±0"


def numbers_of(outcome: Outcome) -> dict[str, int]:
    """What is compared, by its name on the page."""
    return {
        "Tokens a turn": outcome.average,
        "Cut": sum(turn.cut for turn in outcome.turns),
        "Flushes": outcome.flushes,
        "Facts": outcome.facts,
        "Model calls": outcome.calls,
    }


def beside(row: dict[str, Any]) -> dict[str, Any]:
    """A row of numbers with the differences to the baseline beside them; as it is where none is pinned."""
    base = pinned()
    if base is None:
        return row
    known = numbers_of(base.outcome)
    return {
        name: f"{tokens(value)} ({difference(value, known[name])})" if name in known else value
        for name, value in row.items()
    }


def draw_turn(turn: int, sent: int) -> None:
    """Say how a turn's prompt differs from the baseline's; nothing if none is pinned, or it has no such turn."""
    base = pinned()
    then = next((each.sent for each in base.outcome.turns if each.turn == turn), None) if base is not None else None
    if base is not None and then is not None:
        _draw(base, f"{tokens(then)} tokens in turn {tokens(turn)} ({difference(sent, then)} here)")


def draw_totals(flushes: int, sent: list[int]) -> None:
    """Say how a session's flushes and prompts, in tokens, differ from the baseline's; nothing if none is pinned."""
    base = pinned()
    if base is not None and sent:
        told = base.outcome
        average = f"{tokens(told.average)} tokens a turn ({difference(sum(sent) / len(sent), told.average)} here)"
        _draw(base, f"{count(told.flushes, 'flush')} ({difference(flushes, told.flushes)} here), {average}")


def _draw(base: Baseline, words: str) -> None:
    st.markdown(f":small[:gray[:material/keep: Baseline {plain(short(base.name, 80))}: {plain(words)}]]")

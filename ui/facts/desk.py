"""What the Facts page lists and says: rows, views, search, filters, sorting and sentences. Pure; no Streamlit.

A row is a fact with what is known about it, from the tables (now) or from the log (a past turn). Times are seconds
since the epoch, sizes tokens.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from memory_core.planning.facts import DUPLICATE
from ui.text import count, tokens

View = Literal["review", "active", "retired", "rewrites", "decisions"]
VIEWS: Mapping[View, str] = {
    "review": "Review",
    "active": "Active",
    "retired": "Retired",
    "rewrites": "Rewrites",
    "decisions": "Decisions",
}

PUT_AWAY = ("superseded", "retired", "rejected")
"""States of facts that are kept and in no prompt."""

STATES = {
    "proposed": "Proposed",
    "active": "Active",
    "superseded": "Superseded",
    "retired": "Retired",
    "rejected": "Rejected",
}

Source = Literal["user", "assistant", "person", "condensed", "unknown"]
SOURCES: Mapping[Source, str] = {
    "user": "Said by the user",
    "assistant": "Said by the assistant",
    "person": "Written by a person",
    "condensed": "From a rewrite",
    "unknown": "Source not known",
}

FLAGS = {
    "near_duplicate": "Near copy",
    "contradiction": "Conflict",
    "unsupported": "Unsupported",
    "from_assistant": "Not the user",
    "from_memory": "Echo",
    "doubtful": "Doubtful",
}
"""Kinds of doubt, in the words of the state column."""

SORTS = {
    "newest": "Newest first",
    "oldest": "Oldest first",
    "changed": "Last changed",
    "words": "A to Z",
    "tokens": "Longest",
    "carried": "Most often in a prompt",
    "cut": "Most often cut",
}

AGES: Mapping[str, float] = {"Any age": math.inf, "Last hour": 3_600, "Last day": 86_400, "Last week": 604_800}
"""How long ago a fact was learned at most, in seconds."""

SIMILAR_AS_SAME = DUPLICATE
"""From this likeness on, the nearest fact is called the same."""

REASONS = ("Wrong", "Outdated", "Duplicate", "Private", "Not about the user")
"""Why a person puts a fact away."""

BADGES: Mapping[str, tuple[Literal["blue", "green", "violet", "orange", "gray"], str]] = {
    "Pinned": ("blue", "keep"),
    "Active": ("green", "check"),
    "Proposed": ("violet", "inbox"),
    **dict.fromkeys(FLAGS.values(), ("orange", "warning")),
    "Superseded": ("gray", "history"),
    "Retired": ("gray", "archive"),
    "Rejected": ("gray", "block"),
}
"""Every state and doubt with its colour and icon."""

CHIPS: Mapping[str, str] = {name: colour for name, (colour, _) in BADGES.items()}
"""Every chip of the state column with its colour."""


@dataclass(frozen=True, slots=True)
class Row:
    """One fact as the list knows it."""

    id: int
    text: str
    state: str
    pinned: bool = False
    tokens: int = 0
    source: Source = "unknown"
    turn: int = 0
    learned_at: float = 0
    changed_at: float = 0
    here: bool = True
    """Learned in the session that is shown, or written in it."""
    flags: tuple[str, ...] = ()
    """Kinds of doubt, see `FLAGS`."""
    waits: bool = False
    """A person has still to decide about it."""
    carried: int = 0
    """Prompts it was in."""
    cut: int = 0
    """Prompts it was cut from."""
    category: str = ""
    topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the filter and the search field ask for. Everything by default."""

    words: str = ""
    states: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    age: str = "Any age"
    where: Literal["any", "here", "elsewhere"] = "any"
    """Learned in this session, or in another one of the same user."""
    suspicious: bool = False
    categories: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    """Any of them is enough."""

    @property
    def filters(self) -> int:
        """How many filters are set, the search aside."""
        picked = (self.states, self.sources, self.categories, self.topics)
        return sum((*map(bool, picked), self.age != "Any age", self.where != "any", self.suspicious))


def in_view(rows: Iterable[Row], view: View) -> list[Row]:
    """The facts that a view lists; Rewrites and Decisions list none."""
    belongs: Mapping[str, Callable[[Row], bool]] = {
        "review": lambda row: row.waits,
        "active": lambda row: row.state == "active",
        "retired": lambda row: row.state in PUT_AWAY,
    }
    test = belongs.get(view)
    return [] if test is None else [row for row in rows if test(row)]


def view_labels(rows: Sequence[Row], rewrites: int, decisions: int | None = None) -> dict[View, str]:
    """The segments with how much each holds: `Active 9`. No decisions (None): that segment is not there."""
    sizes = {view: len(in_view(rows, view)) for view in VIEWS} | {"rewrites": rewrites, "decisions": decisions or 0}
    offered = [view for view in VIEWS if view != "decisions" or decisions is not None]
    return {view: f"{VIEWS[view]} {tokens(sizes[view])}" for view in offered}


def found(rows: Iterable[Row], wanted: Wanted, *, now: float) -> list[Row]:
    """The rows that hold every word searched for and pass every filter."""
    words = wanted.words.casefold().split()
    youngest = now - AGES[wanted.age]

    def passes(row: Row) -> bool:
        text = row.text.casefold()
        return (
            all(word in text for word in words)
            and (not wanted.states or bool(_states(row) & set(wanted.states)))
            and (not wanted.sources or row.source in wanted.sources)
            and row.learned_at >= youngest
            and (wanted.where == "any" or row.here == (wanted.where == "here"))
            and (bool(row.flags) or not wanted.suspicious)
            and (not wanted.categories or row.category in wanted.categories)
            and (not wanted.topics or bool(set(row.topics) & set(wanted.topics)))
        )

    return [row for row in rows if passes(row)]


def sorted_rows(rows: Iterable[Row], order: str) -> list[Row]:
    """The rows in one of `SORTS`; equal ones newest first."""
    keys: Mapping[str, Callable[[Row], tuple[float | str, ...]]] = {
        "newest": lambda row: (-row.id,),
        "oldest": lambda row: (row.id,),
        "changed": lambda row: (-row.changed_at, -row.id),
        "words": lambda row: (row.text.casefold(), -row.id),
        "tokens": lambda row: (-row.tokens, -row.id),
        "carried": lambda row: (-row.carried, -row.id),
        "cut": lambda row: (-row.cut, -row.id),
    }
    return sorted(rows, key=keys[order])


def chips(row: Row) -> list[str]:
    """The state column of a row. `Active` only where nothing says more."""
    said = ["Pinned"] if row.pinned else []
    said += [FLAGS[flag] for flag in row.flags if flag in FLAGS] if row.state in ("active", "proposed") else []
    if row.state != "active":
        return [STATES[row.state], *said]
    return said or ["Active"]


def states_of(row: Row) -> list[str]:
    """The same for the panel, where there is room to say all of it."""
    said = ["Pinned"] if row.pinned else []
    return [*said, STATES[row.state], *(FLAGS[flag] for flag in row.flags if flag in FLAGS)]


# -- sentences -----------------------------------------------------------------------------------


def opening(rows: Sequence[Row], *, past_turn: int | None = None) -> str:
    """The page's one sentence: `9 active facts, 126 tokens. 3 to review.`"""
    active = in_view(rows, "active")
    size = f"{count(len(active), 'active fact')}, {count(sum(row.tokens for row in active), 'token')}"
    if not active:
        size = "No active facts"
    if past_turn is not None:
        return f"After turn {past_turn}: {size}."
    waiting = len(in_view(rows, "review"))
    return f"{size}. {_waiting(waiting)}"


def selected(rows: Sequence[Row]) -> str:
    """What the bulk panel says: `3 facts selected, 38 tokens`."""
    return f"{count(len(rows), 'fact')} selected, {count(sum(row.tokens for row in rows), 'token')}"


def used(carried: int, cut: int) -> str:
    """`In 3 prompts, cut 0 times.`"""
    if not carried and not cut:
        return "Not in a prompt yet."
    return f"In {count(carried, 'prompt')}, cut {count(cut, 'time')}."


def nothing_found(wanted: Wanted, view: View) -> str:
    """Why the list is empty though the view is not. Not escaped: it quotes what was searched for."""
    if wanted.words.strip() and not wanted.filters:
        return f'No fact contains "{wanted.words.strip()}".'
    if wanted.words.strip():
        return f'No fact contains "{wanted.words.strip()}" and passes the filter.'
    return {"active": "No active fact passes the filter.", "retired": "No fact here passes the filter."}.get(
        view, "No fact passes the filter."
    )


def _waiting(waiting: int) -> str:
    return f"{tokens(waiting)} to review." if waiting else "Nothing to review."


def _states(row: Row) -> set[str]:
    return {row.state, "pinned"} if row.pinned else {row.state}


# -- selection -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Picked:
    """What is picked in the list, by id: the fact whose panel is open, and the ticked ones."""

    open: int | None = None
    ticked: tuple[int, ...] = ()


def picked_now(before: Picked, ids: Sequence[int], ticked_rows: Sequence[int], cell_row: int | None) -> Picked:
    """What is picked after the list was clicked. Rows are places in `ids`, as they were drawn.

    Clicking a fact's words opens it; ticking alone opens the one that is ticked.
    """
    ticked = tuple(ids[row] for row in sorted(ticked_rows) if 0 <= row < len(ids))
    clicked = ids[cell_row] if cell_row is not None and 0 <= cell_row < len(ids) else None
    hidden = tuple(id for id in before.ticked if id not in ids)
    new = [id for id in ticked if id not in before.ticked]
    opened = before.open
    if clicked is not None and clicked != before.open:
        opened = clicked
    if new:
        opened = new[-1]
    return Picked(opened, (*hidden, *ticked))


def still_there(picked: Picked, ids: Collection[int]) -> Picked:
    """Without what is no longer listed."""
    return Picked(picked.open if picked.open in ids else None, tuple(id for id in picked.ticked if id in ids))


def categories_count(rows: Iterable[Row]) -> Counter[str]:
    """How many rows stand under each category, the most used first."""
    return Counter(dict(Counter(row.category for row in rows if row.category).most_common()))


def topics_count(rows: Iterable[Row]) -> Counter[str]:
    """How many rows carry each topic, the most used first."""
    return Counter(dict(Counter(topic for row in rows for topic in row.topics).most_common()))


def states_count(rows: Iterable[Row]) -> Counter[str]:
    """How many rows carry each state, for the filter's labels."""
    return Counter(state for row in rows for state in _states(row))

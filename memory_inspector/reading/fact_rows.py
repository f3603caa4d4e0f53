"""Rows, views, search, filters, sorting and sentences of the Facts page, and the edits of its grid. Pure; no Streamlit.

A row is a fact with its use in prompts, read from the tables (now) or from the log (a past turn). Times are in seconds
since the epoch, sizes in tokens.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from memory_core.errors import MessageError
from memory_core.history.fact_evidence import NEAR_DUPLICATE
from memory_core.planning import curation as plans
from memory_core.planning.curation import ChangeSet
from memory_core.planning.fact_merging import DAY, Fact, to_ask
from memory_core.planning.former_values import FALSE_REASONS
from memory_core.planning.statement_relation import DUPLICATE
from memory_core.text import similarity
from memory_inspector.wording.event_sentences import MARKS
from memory_inspector.wording.formatting import ago, count, tokens

View = Literal["review", "check", "active", "retired", "rewrites", "decisions"]
VIEWS: Mapping[View, str] = {
    "review": "Review",
    "check": "Still true?",
    "active": "Active",
    "retired": "Retired",
    "rewrites": "Rewrites",
    "decisions": "Decisions",
}

PUT_AWAY = ("superseded", "retired", "rejected")
"""States of facts that are stored but in no prompt."""

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
    "unknown": "Unknown source",
}

FLAGS = {
    "near_duplicate": "Near copy",
    "contradiction": "Conflict",
    "unsupported": "Unsupported",
    "from_assistant": "Not the user",
    "from_memory": "Echo",
    "from_tool": "From a tool",
    "pasted": "Pasted",
    "doubtful": "Doubtful",
    "rejected": "Rejected before",
}
"""Labels of flags in the state column."""

SORTS = {
    "newest": "Newest first",
    "oldest": "Oldest first",
    "changed": "Last changed",
    "unconfirmed": "Longest unconfirmed",
    "words": "A to Z",
    "tokens": "Longest",
    "carried": "Most often in a prompt",
    "cut": "Most often cut",
}

AGES: Mapping[str, float] = {"Any age": math.inf, "Last hour": 3_600, "Last day": 86_400, "Last week": 604_800}
"""Maximum age of a fact in seconds, by label."""

CHECK_AFTER: Mapping[str, float] = {
    "any time": 0,
    "1 day": DAY,
    "7 days": 7 * DAY,
    "30 days": 30 * DAY,
    "90 days": 90 * DAY,
}
"""Minimum seconds without a confirmation after which a fact is to be checked, by label."""

CHECK_FIRST = "30 days"
"""Key of `CHECK_AFTER` that is selected at first."""

SIMILAR_AS_SAME = DUPLICATE
"""Minimum similarity at which the nearest fact is called the same."""

REASONS = (*FALSE_REASONS, "Duplicate", "Private", "Not about the user")
"""Reasons offered for retiring or rejecting a fact."""

BADGES: Mapping[str, tuple[Literal["blue", "green", "violet", "orange", "gray"], str]] = {
    "Quarantined": ("orange", "block"),
    **{label: ("blue", icon) for label, _, icon in MARKS.values()},
    "To ask": ("blue", "help"),
    "Active": ("green", "check"),
    "Proposed": ("violet", "inbox"),
    **dict.fromkeys(FLAGS.values(), ("orange", "warning")),
    "Superseded": ("gray", "history"),
    "Retired": ("gray", "archive"),
    "Rejected": ("gray", "block"),
}
"""Colour and icon of every state and flag."""

CHIPS: Mapping[str, str] = {name: colour for name, (colour, _) in BADGES.items()}
"""Colour of every chip in the state column."""


@dataclass(frozen=True, slots=True)
class ShownFact:
    """A fact in the list."""

    fact: Fact
    source: Source = "unknown"
    here: bool = True
    """True if the fact was learned or written in the session shown."""
    flags: tuple[str, ...] = ()
    """Kinds of flags, see `FLAGS`."""
    waits: bool = False
    """True if the fact waits for review."""
    carried: int = 0
    """Number of prompts that contained the fact."""
    cut: int = 0
    """Number of prompts from which the fact was cut."""
    quarantined: bool = False
    """True if the fact is kept out of all prompts until a person releases it."""

    @property
    def id(self) -> int:
        return self.fact.id


@dataclass(frozen=True, slots=True)
class FactFilter:
    """Values of the filter and the search field. By default everything passes."""

    words: str = ""
    states: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    age: str = "Any age"
    where: Literal["any", "here", "elsewhere"] = "any"
    """Only facts learned in this session (`here`), or in other sessions of the same user (`elsewhere`)."""
    suspicious: bool = False
    categories: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    """Topics of which a fact needs at least one."""

    @property
    def filters(self) -> int:
        """Number of active filters, without the search."""
        picked = (self.states, self.sources, self.categories, self.topics)
        return sum((*map(bool, picked), self.age != "Any age", self.where != "any", self.suspicious))


def in_view(rows: Iterable[ShownFact], view: View) -> list[ShownFact]:
    """Rows listed in a view; none for Rewrites and Decisions."""
    belongs: Mapping[str, Callable[[ShownFact], bool]] = {
        "review": lambda row: row.waits,
        "active": lambda row: row.fact.state == "active",
        "retired": lambda row: row.fact.state in PUT_AWAY,
    }
    test = belongs.get(view)
    return [] if test is None else [row for row in rows if test(row)]


def view_labels(
    rows: Sequence[ShownFact], rewrites: int, decisions: int | None = None, checks: int | None = None
) -> dict[View, str]:
    """Labels of the views with their sizes: `Active 9`. A view whose number is None is left out."""
    sizes = {view: len(in_view(rows, view)) for view in VIEWS}
    sizes |= {"rewrites": rewrites, "decisions": decisions or 0, "check": checks or 0}
    # None leaves a view out; with 0 it is offered although it is empty.
    left_out = {view for view, size in (("decisions", decisions), ("check", checks)) if size is None}
    offered = [view for view in VIEWS if view not in left_out]
    return {view: f"{VIEWS[view]} {tokens(sizes[view])}" for view in offered}


def to_check(rows: Iterable[ShownFact], *, now: float, older: float) -> list[ShownFact]:
    """Return active facts that were neither repeated nor confirmed for at least `older` seconds.

    Sorted by whole days without a confirmation, longest first; within a day, the most used first.
    """
    due = [row for row in rows if row.fact.state == "active" and now - _last_confirmed(row) >= older]
    # By whole days, so that the often used facts of one day come first, not those confirmed a minute earlier.
    return sorted(due, key=lambda row: (_last_confirmed(row) // DAY, -row.carried, row.id))


def unconfirmed(row: ShownFact, now: float) -> str:
    """Format the time since a fact was confirmed: `Last confirmed 3 days ago`."""
    return f"Last confirmed {ago(_last_confirmed(row), now)}"


def _last_confirmed(row: ShownFact) -> float:
    # Where confirmations are unknown (0), a fact counts from when it was learned.
    return row.fact.confirmed_at or row.fact.created_at


def matching_rows(rows: Iterable[ShownFact], wanted: FactFilter, *, now: float) -> list[ShownFact]:
    """Rows that contain every word of the search and pass every filter."""
    words = wanted.words.casefold().split()
    youngest = now - AGES[wanted.age]

    def passes(row: ShownFact) -> bool:
        text = row.fact.text.casefold()
        return (
            all(word in text for word in words)
            and (not wanted.states or bool(_states(row) & set(wanted.states)))
            and (not wanted.sources or row.source in wanted.sources)
            and row.fact.created_at >= youngest
            and (wanted.where == "any" or row.here == (wanted.where == "here"))
            and (bool(row.flags) or not wanted.suspicious)
            and (not wanted.categories or row.fact.category in wanted.categories)
            and (not wanted.topics or bool(set(row.fact.topics) & set(wanted.topics)))
        )

    return [row for row in rows if passes(row)]


def sorted_rows(rows: Iterable[ShownFact], order: str) -> list[ShownFact]:
    """Rows sorted by one of `SORTS`; ties newest first, among the longest unconfirmed oldest first."""
    keys: Mapping[str, Callable[[ShownFact], tuple[float | str, ...]]] = {
        "newest": lambda row: (-row.id,),
        "oldest": lambda row: (row.id,),
        "changed": lambda row: (-row.fact.updated_at, -row.id),
        "unconfirmed": lambda row: (_last_confirmed(row), row.id),
        "words": lambda row: (row.fact.text.casefold(), -row.id),
        "tokens": lambda row: (-row.fact.tokens, -row.id),
        "carried": lambda row: (-row.carried, -row.id),
        "cut": lambda row: (-row.cut, -row.id),
    }
    return sorted(rows, key=keys[order])


def chips(row: ShownFact) -> list[str]:
    """Chips in the state column of a row; none for an active fact without marks or flags."""
    labels = _kept_labels(row)
    # Flags ask for a decision, which a fact that was put away does not need.
    labels += [FLAGS[flag] for flag in row.flags if flag in FLAGS] if row.fact.state in ("active", "proposed") else []
    if row.fact.state != "active":
        return [STATES[row.fact.state], *labels]
    return labels


def _kept_labels(row: ShownFact) -> list[str]:
    marks = {label: getattr(row.fact, name) for name, (label, _, _) in MARKS.items()}
    labels = {"Quarantined": row.quarantined, **marks, "To ask": to_ask(row.fact.metadata)}
    return [label for label, applies in labels.items() if applies]


def states_of(row: ShownFact) -> list[str]:
    """Chips in the panel, where the state is always shown."""
    return [*_kept_labels(row), STATES[row.fact.state], *(FLAGS[flag] for flag in row.flags if flag in FLAGS)]


# -- sentences -----------------------------------------------------------------------------------


def opening(rows: Sequence[ShownFact], *, past_turn: int | None = None) -> str:
    """Summary of the page: `9 active facts, 126 tokens. 3 to review.`"""
    active = in_view(rows, "active")
    sizes = sum(row.fact.tokens for row in active)
    size = f"{count(len(active), 'active fact')}, {count(sizes, 'token')}" if active else "No active facts"
    if past_turn is not None:
        return f"After turn {past_turn}: {size}."
    waiting = len(in_view(rows, "review"))
    return f"{size}. {_waiting(waiting)}"


def selected(rows: Sequence[ShownFact]) -> str:
    """Title of the panel for several facts: `3 facts selected, 38 tokens`."""
    return f"{count(len(rows), 'fact')} selected, {count(sum(row.fact.tokens for row in rows), 'token')}"


def used(carried: int, cut: int) -> str:
    """Describe how often a fact was in prompts: `In 3 prompts, cut 0 times.`"""
    if not carried and not cut:
        return "Not in a prompt yet."
    return f"In {count(carried, 'prompt')}, cut {count(cut, 'time')}."


def nothing_found(rows: Sequence[ShownFact], wanted: FactFilter, view: View, *, now: float) -> str:
    """Reason why the list is empty although the view is not, and where there are matches. Not escaped: it quotes."""
    kind = "active fact" if view == "active" else "fact here"
    ways = [f'contains "{wanted.words.strip()}"'] if wanted.words.strip() else []
    ways += ["passes the filter"] if wanted.filters or not ways else []
    matching = matching_rows(rows, wanted, now=now)
    others = {VIEWS[other]: len(in_view(matching, other)) for other in ("active", "retired") if other != view}
    under = "".join(f" {tokens(size)} under {name}." for name, size in others.items() if size)
    return f"No {kind} {' and '.join(ways)}.{under}"


def _waiting(waiting: int) -> str:
    return f"{tokens(waiting)} to review." if waiting else "Nothing to review."


def _states(row: ShownFact) -> set[str]:
    return {row.fact.state, *(name for name in MARKS if getattr(row.fact, name))}


# -- selection -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Picked:
    """Selection in the list, by id: the fact whose panel is open, and the ticked ones."""

    open: int | None = None
    ticked: tuple[int, ...] = ()


def merged_words(texts: Sequence[str]) -> str:
    """Return the sentence into which near copies are merged: the longest one, or empty if they say different things.

    >>> merged_words(["Ana likes jazz", "Ana likes jazz a lot"]), merged_words(["Ana likes jazz", "Rui lives in Oslo"])
    ('Ana likes jazz a lot', '')
    """
    longest = max(texts, key=len)
    # All must resemble the longest one, or merging would lose what the others say.
    return longest if all(similarity(text, longest) >= NEAR_DUPLICATE for text in texts) else ""


def picked_now(before: Picked, ids: Sequence[int], ticked_rows: Sequence[int], cell_row: int | None) -> Picked:
    """Selection after a click in the list. Row numbers are indexes into `ids`, in the order drawn.

    Clicking a fact's text opens it; so does ticking it.
    """
    ticked = tuple(ids[row] for row in sorted(ticked_rows) if 0 <= row < len(ids))
    clicked = ids[cell_row] if cell_row is not None and 0 <= cell_row < len(ids) else None
    # Rows hidden by a filter stay ticked: the list only reports on those it draws.
    hidden = tuple(id for id in before.ticked if id not in ids)
    new = [id for id in ticked if id not in before.ticked]
    opened = before.open
    if clicked is not None and clicked != before.open:
        opened = clicked
    # A new tick wins: the grid still reports the cell that was clicked before it.
    if new:
        opened = new[-1]
    return Picked(opened, (*hidden, *ticked))


def still_there(picked: Picked, ids: Collection[int]) -> Picked:
    """The selection without facts that are no longer listed."""
    return Picked(picked.open if picked.open in ids else None, tuple(id for id in picked.ticked if id in ids))


def categories_count(rows: Iterable[ShownFact]) -> Counter[str]:
    """Number of rows in each category, the most frequent first."""
    # A Counter keeps insertion order, so its most common come first when it is iterated.
    return Counter(dict(Counter(row.fact.category for row in rows if row.fact.category).most_common()))


def topics_count(rows: Iterable[ShownFact]) -> Counter[str]:
    """Number of rows with each topic, the most frequent first."""
    return Counter(dict(Counter(topic for row in rows for topic in row.fact.topics).most_common()))


def states_count(rows: Iterable[ShownFact]) -> Counter[str]:
    """Number of rows in each state, for the labels of the filter."""
    return Counter(state for row in rows for state in _states(row))


# -- edits of the grid ----------------------------------------------------------------------------

TEXT, PINNED = "Fact", "Pinned"


@dataclass(frozen=True, slots=True)
class Conflict:
    """A row whose fact was changed elsewhere after the table was opened."""

    row: int
    """Row number in the table, from 1."""
    theirs: Fact | None
    """The present fact; None if it was deleted."""


@dataclass(frozen=True, slots=True)
class Edits:
    """Edits in the grid, by index in the snapshot."""

    edited: Mapping[int, Mapping[str, Any]]
    added: Sequence[Mapping[str, Any]]
    deleted: Sequence[int]

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> "Edits":
        """Read the edits from the state of a data editor; ignore new rows left empty."""
        # The data editor adds a row as soon as somebody clicks below the last one.
        added = [row for row in state.get("added_rows", ()) if str(row.get(TEXT) or "").strip()]
        return cls(state.get("edited_rows", {}), added, state.get("deleted_rows", ()))

    @property
    def touched(self) -> set[int]:
        return {int(place) for place in self.edited} | set(self.deleted)

    def __len__(self) -> int:
        return len(self.touched) + len(self.added)


def plan_table(snapshot: Sequence[Fact], edits: Edits) -> ChangeSet:
    """All edits as one change set: changed texts and pins, deleted rows (retired) and new rows.

    Raises:
        MessageError: a fact was left without words, or nothing would change.
    """
    wished: list[ChangeSet] = []
    for place, values in sorted(edits.edited.items()):
        fact = snapshot[int(place)]
        # A row that was edited and then deleted is only deleted.
        if int(place) in edits.deleted:
            continue
        # An unchanged cell is missing from the edits, so the present value is the default.
        text = " ".join(str(values.get(TEXT, fact.text) or "").split())
        if text != fact.text:
            wished.append(_named(int(place), partial(plans.edit, fact, text)))
        pinned = bool(values.get(PINNED, fact.pinned))
        if pinned != fact.pinned:
            wished.append(plans.pin([fact], pinned))
    # One retirement for all deleted rows, so that they are one change.
    gone = [snapshot[place] for place in sorted(edits.deleted)]
    wished += [plans.retire(gone)] if gone else []
    wished += [plans.add(str(row[TEXT]), bool(row.get(PINNED))) for row in edits.added]
    return plans.together("edit", *wished)


def conflicts(snapshot: Sequence[Fact], now: Sequence[Fact], edits: Edits) -> list[Conflict]:
    """Edited rows whose facts were changed elsewhere after the table was opened."""
    current = {fact.id: fact for fact in now}
    conflicting = []
    for place in sorted(edits.touched):
        theirs = current.get(snapshot[place].id)
        # Gone or changed since: both would overwrite what somebody else did.
        if theirs is None or theirs.version != snapshot[place].version:
            conflicting.append(Conflict(place + 1, theirs))
    return conflicting


def over_theirs(snapshot: Sequence[Fact], now: Sequence[Fact]) -> tuple[Fact, ...]:
    """The snapshot with the present versions of its facts, for overwriting them deliberately."""
    current = {fact.id: fact for fact in now}
    return tuple(current.get(fact.id, fact) for fact in snapshot)


def _named(place: int, plan: Callable[[], ChangeSet]) -> ChangeSet:
    """Call `plan`; if it fails, name the row in the error."""
    try:
        return plan()
    except MessageError as error:
        raise MessageError(f"Row {place + 1}: {error}") from error

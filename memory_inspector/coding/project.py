"""Many sessions of coding agents together: their cost by project and day, and what their compactions lost most."""

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from statistics import median

from memory_core.errors import FormatError
from memory_core.text import words
from memory_inspector.coding.coding_session import CodingSession
from memory_inspector.coding.listing import SessionOverview
from memory_inspector.coding.statement_fates import Fate, statements_at

MAX_SESSIONS = 50
"""Sessions in which lost instructions are looked for, by default."""


@dataclass(slots=True)
class ProjectDay:
    """Sessions of a project that were last written to on one day."""

    folder: str
    """Folder that the agent worked in, or that of the session's file while that is unknown."""
    project: str
    day: str
    """Local date, as `2026-02-28`."""
    sessions: int = 0
    compactions: int = 0
    tokens: int = 0
    dollars: float = 0
    """Estimated cost of the sessions whose models have a known price."""
    without_price: int = 0
    """Number of the other sessions."""


def by_project_and_day(overviews: Iterable[SessionOverview]) -> list[ProjectDay]:
    """Return what sessions took, the newest day first, then by tokens. All of a session counts on its last day."""
    rows: dict[tuple[str, str], ProjectDay] = {}
    for one in overviews:
        folder, day = one.folder or str(one.path.parent), time.strftime("%Y-%m-%d", time.localtime(one.changed))
        row = rows.setdefault((folder, day), ProjectDay(folder, one.project, day))
        # A session that goes over midnight counts on its last day.
        row.sessions += 1
        row.compactions += one.compactions
        row.tokens += one.tokens
        row.dollars += one.cost or 0
        row.without_price += bool(one.tokens) and one.cost is None
    by_tokens = sorted(rows.values(), key=lambda row: -row.tokens)
    return sorted(by_tokens, key=lambda row: row.day, reverse=True)


@dataclass(slots=True)
class LostInstruction:
    """A sentence of the user, and what became of it at the compactions that it crossed."""

    text: str
    """Its words where they were met first."""
    is_rule: bool
    fates: Counter[Fate] = field(default_factory=Counter)
    """Number of compactions by fate; the total is how often it crossed one."""
    calls_until_back: list[int] = field(default_factory=list)
    """Calls after each compaction that lost it until it was in a prompt again, where it came back."""

    @property
    def lost(self) -> int:
        """Return the number of compactions that left it out of their summary."""
        return self.fates.total() - self.fates["kept"] - self.fates["reworded"]

    @property
    def median_until_back(self) -> float | None:
        """Return the median of calls until it came back; None if it never did."""
        return median(self.calls_until_back) if self.calls_until_back else None


def lost_instructions(
    sessions: Iterable[CodingSession], most: int = MAX_SESSIONS
) -> tuple[list[LostInstruction], list[str]]:
    """Return what became of the user's sentences at all compactions, those lost most often first, with notes.

    Of the sessions, newest first, `most` are followed, one at a time; the notes say how many were left out, and which
    cannot be read. Sentences with the same words are one; a compaction that several branches share counts once.
    """
    rows: dict[str, LostInstruction] = {}
    notes, remaining = [], iter(sessions)
    for session in islice(remaining, most):
        try:
            session.follow()
        except FormatError as error:
            notes.append(str(error))
            continue
        boundaries: set[str] = set()
        # Branches that share a compaction share what it lost.
        for branch in session.main.branches:
            for window in branch.compactions:
                if window.boundary is None or window.boundary.id in boundaries:
                    continue
                boundaries.add(window.boundary.id)
                for one in statements_at(session, branch, window):
                    row = rows.setdefault(" ".join(words(one.text)), LostInstruction(one.text, one.is_rule))
                    row.fates[one.fate] += 1
                    if one.fate not in ("kept", "reworded") and one.back_after is not None:
                        row.calls_until_back.append(one.back_after)
    if left_out := sum(1 for _ in remaining):
        notes.append(f"{left_out:,} older {'session is' if left_out == 1 else 'sessions are'} left out.")
    return sorted(rows.values(), key=lambda row: (-row.lost, -row.fates["said_again"], not row.is_rule)), notes

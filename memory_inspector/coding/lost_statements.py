"""Find the user's statements that compactions lost for good, and the sentence nearest to one that nobody said. Pure."""

from functools import cache

from memory_core.planning.phrase_matching import Phrase
from memory_core.text import words
from memory_inspector.coding.coding_session import Branch, CodingSession, Window
from memory_inspector.coding.statement_fates import IndexedTexts, Statement, has_summary, statements_at
from memory_inspector.coding.transcript import Item


def lost_statements(session: CodingSession, branch: Branch) -> list[tuple[Statement, Window]]:
    """Return the user's statements that the latest window lacks, rules first, each with the window that lost it.

    A compaction whose summary cannot be read loses nothing here.
    """

    @cache  # whole texts may have to be read from the file
    def texts(number: int) -> tuple[IndexedTexts, str]:
        window = branch.windows[number]
        whole = [(item.kind, session.main.whole(item)) for item in window.items]
        return IndexedTexts([text for _, text in whole]), "\n".join(text for kind, text in whole if kind == "summary")

    def has(window: Window, wanted: Phrase) -> bool:
        items, summary = texts(window.number)
        return items.first(wanted) is not None or (len(wanted.stems) > 1 and bool(wanted.reworded_in(summary)))

    latest = {
        " ".join(words(statement.text)): (statement, window, Phrase.of(statement.text))
        for window in branch.compactions
        for statement in statements_at(session, branch, window)
    }
    losses = []
    for statement, first, wanted in latest.values():
        if has(branch.windows[-1], wanted):
            continue
        after = [window for window in branch.windows[first.number :] if has_summary(window)]
        gone = first if statement.fate in ("gone", "subagent") and first in after else None
        if lost := gone or next((window for window in after if not has(window, wanted)), None):
            losses.append((statement, lost))
    return sorted(losses, key=lambda loss: (not loss[0].is_rule, loss[0].item.line))


def nearest_said(session: CodingSession, wanted: Phrase, branch: Branch) -> tuple[Item, str, int] | None:
    """Return the item and the sentence that shares most stems with a phrase, and their number; None without any."""
    items = (item for window in branch.windows for item in window.of("user", "assistant", "summary", "injected"))
    near = [(item, *wanted.nearest(session.main.whole(item))) for item in items]
    return max(filter(lambda one: one[2], near), key=lambda one: one[2], default=None)

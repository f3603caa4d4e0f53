"""Display data of the list of sessions: rows, titles, origins. Pure; no Streamlit."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence

from memory_core.sessions.overview import Overview
from memory_inspector.reading.event_rows import session_cost
from memory_inspector.server.shipped_demo import DEMO_SESSION
from memory_inspector.wording.formatting import ago, count, session_name, short, tokens

EVERYONE = ""
"""Filter value that matches all sessions; no user has an empty name."""

NOBODY = "\x00"
"""Filter value that matches sessions without a user; no stored name can contain it."""

LIVE = "live"
"""Shown as the last activity of a session in which an agent of another process works."""

_LETTERED = re.compile(r"^(?P<name>.*\S) (?P<letter>[B-Y])$", re.DOTALL)


def named(overview: Overview) -> str:
    return session_name(overview.status.title, overview.status.session_id)


def rows(
    sessions: Sequence[Overview],
    now: float,
    agents: Collection[str] = (),
) -> list[dict[str, object]]:
    """Return a table row per session, in their order; the words are cells, not markdown.

    Columns that distinguish sessions come first: a phone shows two or three columns. `agents`: ids of the sessions in
    which an agent works.
    """
    rows: list[dict[str, object]] = [
        {
            "Session": named(session),
            "Last activity": LIVE if session.status.session_id in agents else ago(session.status.updated_at, now),
            "Lost": lost_words(session),
            "Errors": session.totals.errors or None,
            "Cost": session_cost(session.totals),
            **_numbers(session),
            "From": origin(session),
            "User": session.status.user_id or "",
        }
        for session in sessions
    ]
    # An empty column would take the width that a phone does not have.
    empty = {name for name in ("Lost", "Errors", "Cost", "User") if not any(row[name] for row in rows)}
    return [{name: value for name, value in row.items() if name not in empty} for row in rows]


def _numbers(session: Overview) -> dict[str, int]:
    return {
        "Turns": session.status.turns,
        # A user's facts count only where a block of this session reads them.
        "Facts": session.facts + (session.user_facts if session.reads_user_facts else 0),
        "All tokens": session.tokens,
        "Flushes": session.status.flushes,
    }


def lost_words(overview: Overview) -> str:
    """Losses in the session's present state, in words; empty if nothing was lost."""
    # Worst first: what was given up is gone, and what was cut may come back.
    losses = overview.totals.losses
    parts = [
        f"{count(losses.parked, 'delivery')} given up" if losses.parked else "",
        f"{count(losses.untaken, 'message')} to no block" if losses.untaken else "",
        f"{count(losses.left_out, 'message')} left out" if losses.left_out else "",
        f"cut {count(losses.cut, 'token')}" if losses.cut else "",
    ]
    return ", ".join(filter(None, parts))


def origin(overview: Overview) -> str:
    """Short origin: `demo`, `import`, `opened`, `attached`, `branch at turn 12` or `new`."""
    if overview.status.session_id == DEMO_SESSION:
        return "demo"
    if overview.origin.kind == "branch" and overview.origin.turn is not None:
        return f"branch at turn {tokens(overview.origin.turn)}"
    return overview.origin.kind


def origin_in_words(overview: Overview, titles: Mapping[str, str]) -> str:
    """Return the origin of a session as a sentence, empty if new; `titles`: titles of the existing sessions, by id."""
    if overview.status.session_id == DEMO_SESSION:
        return "The demo."
    source, turn = overview.origin.source, overview.origin.turn
    if overview.origin.kind == "branch" and turn is not None:
        source_title = f"“{short(titles[source])}”" if source in titles else "a session that has been deleted since"
        return f"Branched from {source_title} at turn {tokens(turn)}."
    sentences = {
        "import": f"Imported from “{short(source, 40)}”.",
        "opened": f"Opened from {short(source, 40)}, read only.",
    }
    return sentences.get(overview.origin.kind, "")


def totals(overview: Overview) -> str:
    """Contents of a session, in numbers."""
    parts = [
        count(overview.status.turns, "turn"),
        count(overview.messages, "message"),
        count(overview.tokens, "token"),
        count(overview.facts, "fact"),
    ]
    text = ", ".join(parts) + "."
    if overview.status.user_id and overview.user_facts:
        text += f" {overview.status.user_id} has {count(overview.user_facts, 'fact')} across sessions."
    if lost := lost_words(overview):
        text += f" Lost: {lost}."
    return text


def users(sessions: Sequence[Overview]) -> list[str]:
    """Names of all users with a session."""
    return sorted({session.status.user_id for session in sessions if session.status.user_id})


def of_user(sessions: Sequence[Overview], user: str) -> list[Overview]:
    """The sessions that match a filter: `EVERYONE`, `NOBODY` or a user's name."""
    if user == EVERYONE:
        return list(sessions)
    return [session for session in sessions if (session.status.user_id or NOBODY) == user]


ORDERS: Mapping[str, Callable[[Overview], float]] = {
    "last activity": lambda session: session.status.updated_at,
    "cost": lambda session: session_cost(session.totals) or 0,
    "tokens": lambda session: session.tokens,
    "errors": lambda session: session.totals.errors,
}
"""Orders of the list, each largest first."""


def sorted_sessions(
    sessions: Sequence[Overview], words: str, source: str | None, *, lost_only: bool, by: str
) -> list[Overview]:
    """The sessions from a source whose name or user has all words, or whose id begins with them, in an order."""
    wanted = words.casefold().split()
    matching = [
        session
        for session in sessions
        if all(_has(session, word) for word in wanted)
        and (source is None or source == source_of(session))
        and (lost_words(session) or not lost_only)
    ]
    return sorted(matching, key=ORDERS[by], reverse=True)


ID_CHARACTERS = 4
"""Least characters of the beginning of an id by which a session is found."""


def _has(session: Overview, word: str) -> bool:
    # An id is random letters and digits: within one, any short word would be found.
    text = f"{named(session)} {session.status.user_id or ''}".casefold()
    return word in text or (len(word) >= ID_CHARACTERS and session.status.session_id.casefold().startswith(word))


def source_of(overview: Overview) -> str:
    """Kind of origin by which the list is filtered."""
    return "demo" if overview.status.session_id == DEMO_SESSION else overview.origin.kind


def branch_title(title: str, taken: Collection[str]) -> str:
    """Default title of a branch: the title with the next free letter.

    >>> branch_title("Birthday dinner", {"Birthday dinner", "Birthday dinner B"})
    'Birthday dinner C'
    >>> branch_title("Birthday dinner B", {"Birthday dinner B"})
    'Birthday dinner C'
    """
    lettered = _LETTERED.match(title)
    name = lettered["name"] if lettered else title
    # A branch of B is called C, not "B B".
    first = ord(lettered["letter"]) + 1 if lettered else ord("B")
    for letter in range(first, ord("Z") + 1):
        if (wanted := f"{name} {chr(letter)}") not in taken:
            return wanted
    # All letters are taken: titles need not be unique, ids are.
    return f"{title} B"


def delete_question(overview: Overview) -> str:
    """Question before deleting, with what is deleted and what is kept."""
    question = (
        f'Delete "{short(named(overview), 60)}" with {count(overview.messages, "message")} '
        f"and {count(overview.facts, 'fact')}?"
    )
    user = overview.status.user_id
    return f"{question} Facts that belong to {short(user)} stay." if user else question

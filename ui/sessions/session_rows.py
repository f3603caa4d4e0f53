"""Display data of the list of sessions: rows, titles, origins. Pure; no Streamlit."""

import re
from collections.abc import Collection, Mapping, Sequence

from memory_core.sessions.overview import Overview
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
    # An empty column would take the width that a phone does not have.
    users = any(session.status.user_id for session in sessions)
    return [
        {
            "Session": named(session),
            "Last activity": LIVE if session.status.session_id in agents else ago(session.status.updated_at, now),
            **_numbers(session),
            "From": origin(session),
            **({"User": session.status.user_id or ""} if users else {}),
        }
        for session in sessions
    ]


def _numbers(session: Overview) -> dict[str, int]:
    return {
        "Turns": session.status.turns,
        # A user's facts count only where a block of this session reads them.
        "Facts": session.facts + (session.user_facts if session.reads_user_facts else 0),
        "All tokens": session.tokens,
        "Flushes": session.status.flushes,
    }


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
    return text


def users(sessions: Sequence[Overview]) -> list[str]:
    """Names of all users with a session."""
    return sorted({session.status.user_id for session in sessions if session.status.user_id})


def of_user(sessions: Sequence[Overview], user: str) -> list[Overview]:
    """The sessions that match a filter: `EVERYONE`, `NOBODY` or a user's name."""
    if user == EVERYONE:
        return list(sessions)
    return [session for session in sessions if (session.status.user_id or NOBODY) == user]


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


def milliseconds(seconds: float) -> str:
    """Response time in words: `under 1 ms`, `7 ms`, `1.2 s`."""
    if seconds < 0.001:
        return "under 1 ms"
    # From 0.9995 s on, it would be rounded to "1000 ms".
    return f"{seconds * 1000:.0f} ms" if seconds < 0.9995 else f"{seconds:.1f} s"

"""MCP tools over coding agents' sessions: an agent can ask why its own session lacked something."""

import json
from threading import Lock

from memory_inspector.coding.listing import Listing, SessionOverview
from memory_inspector.coding.session_answers import follow_in, lost_values, session_values
from memory_inspector.reading_tools import PHRASE, TEXT, ReadingTools, tool_spec

_SESSION = {"session": TEXT | {"description": "beginning of a session's id; the one written to last without it"}}

MAX_SESSIONS, LIST_SECONDS = 50, 10.0
"""Maximum number of sessions that are listed, and seconds in which what is new in them is counted."""


class CodingTools(ReadingTools):
    """Tools over the sessions of coding agents on this machine. Answers are JSON, found by comparing texts."""

    specs = (
        tool_spec("list_coding_sessions", "Sessions of coding agents on this machine, newest first.", {}),
        tool_spec(
            "why_in_coding_session",
            "Where a phrase was said in a coding agent's session, its fate at each compaction, and whether the last "
            "prompt has it.",
            PHRASE,
            _SESSION,
        ),
        tool_spec("lost_at_compaction", "What the user said and compactions lost, rules first.", {}, _SESSION),
    )

    def __init__(self, listing: Listing) -> None:
        self._listing = listing
        self._lock = Lock()  # a client may call several tools at once
        self._tools = {
            "list_coding_sessions": self._list,
            "why_in_coding_session": lambda phrase, session="latest": _json(
                follow_in(self._find(session), phrase).values()
            ),
            "lost_at_compaction": lambda session="latest": _json(lost_values(self._find(session))),
        }

    def _find(self, session: str) -> SessionOverview:
        with self._lock:
            return self._listing.find(session)

    def _list(self) -> str:
        with self._lock:
            return _json([session_values(one) for one in self._listing.look(LIST_SECONDS)[:MAX_SESSIONS]])


def _json(values: object) -> str:
    return json.dumps(values, ensure_ascii=False)

"""The rule that decides whether the app may change a session; used by every page and by the server's own work.

The engine itself refuses nobody: two processes that write one session interleave without loss. But a stray
click of a person who watches a running agent should not change its memory, so the app only reads such a session until
it is taken over. No Streamlit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from memory_core import Database, Memory
from memory_core.access import Role
from memory_core.events import AgentAttached
from memory_core.history.by_turn import History
from memory_inspector.upkeep.agents import running_agent, taken_over
from memory_inspector.wording.formatting import plain, short


@dataclass(frozen=True, slots=True)
class ReadOnly:
    """Reason why a session is read-only here."""

    because: Literal["past", "attached", "agent", "role"]
    sentence: str


PAST = ReadOnly("past", "Changes are possible only at the latest turn.")
VIEWER = ReadOnly("role", "You are a viewer here: you read everything, and change nothing.")
ROLE_MEANS: Mapping[Role, str] = {
    "viewer": "A viewer reads everything and changes nothing.",
    "curator": "A curator also writes messages, starts sessions and corrects what was learned.",
    "owner": "An owner changes everything: settings and blocks, too, and imports, deletes and forgets.",
}
"""Sentence on what a person of each role may do."""
BRANCH_IT = "Branch it to make and try changes."


def read_only(memory: Memory, history: History) -> ReadOnly | None:
    """Return the reason why a session cannot be changed here now; None if it can.

    Raises:
        StoreError: the database cannot be reached.
    """
    # An attached session is never writable, so no lease has to be read from the database.
    if history.attachment is not None:
        return shown_only(history.attachment)
    return left_to_agent(memory.session.database, memory.session_id)


def shown_only(attachment: AgentAttached) -> ReadOnly:
    """Return the reason why a session that shows an agent, or an opened file, is never changed."""
    whose = "This memory belongs to the agent and is only read here."
    if attachment.source == "file":
        whose = f"Opened from {plain(short(attachment.name))}, read only: changes to the file appear here."
    return ReadOnly("attached", f"{whose} {BRANCH_IT}")


def left_to_agent(database: Database, session_id: str) -> ReadOnly | None:
    """Return why a session is left to the agent that works in it; None if none does, or a person took it over."""
    agent = running_agent(database, session_id)
    # A person who took the session over may write although the agent still runs.
    if agent is None or taken_over(database, session_id):
        return None
    # Another machine is named, as the process number means nothing here.
    process = f"process {agent.process}" if agent.here else f"process {agent.process} on {agent.machine}"
    return ReadOnly("agent", f"Live: {process} is writing. Read-only.")


def taken_from_agent(database: Database, session_id: str) -> bool:
    """Tell whether an agent works in a session that a person has taken over."""
    return running_agent(database, session_id) is not None and taken_over(database, session_id)

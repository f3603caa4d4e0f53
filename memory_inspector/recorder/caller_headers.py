"""Read from the headers of a call whose it is: its conversation, the agent in it, and its kind. Pure.

Seen 2026-11-29: Claude Code 2.1.332, Codex 0.171.0, OpenCode 1.18.33; Mistral Vibe 3.0.2 by its description.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memory_inspector.files.json_values import read_json

MAX_ID = 80
"""Characters of an id that are kept."""

_CONVERSATIONS = ("x-parent-session-id", "x-claude-code-session-id", "session-id", "x-session-id", "x-affinity")
_AGENTS = ("x-claude-code-agent-id", "thread-id", "x-session-id")
"""Headers, the first that is present counts; an agent with the id of its conversation is its main agent."""
_SUBAGENT, _TURN = "x-openai-subagent", "x-codex-turn-metadata"
NAMES = frozenset({*_CONVERSATIONS, *_AGENTS, _SUBAGENT, _TURN})
"""The headers that are read; no other is kept, as it may be a key."""
_KINDS = {"compact": "summarise", "compaction": "summarise", "title": "title", "memory_consolidation": "memory"}
"""Purpose of a call by its kind in Codex' headers."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Conversation, agent and purpose that the headers of a call name; empty where they name none."""

    conversation: str = ""
    agent: str = ""
    purpose: str = ""


def caller_of(headers: Mapping[str, str]) -> Caller:
    """Read the headers of a request, by their lower-case names. Never raises: they may hold anything."""

    def first(names: Sequence[str]) -> str:
        ids = (re.sub(r"[^\w-]", "", headers[name], flags=re.ASCII)[-MAX_ID:] for name in names if name in headers)
        return next(filter(None, ids), "")

    conversation, agent = first(_CONVERSATIONS), first(_AGENTS)
    turn = read_json(headers.get(_TURN, "").encode())
    kind = turn.get("request_kind") if isinstance(turn, dict) else None
    purpose = _KINDS.get(headers.get(_SUBAGENT, "")) or _KINDS.get(str(kind), "")
    return Caller(conversation, agent if agent != conversation else "", purpose)

"""Choose the session of a call by its conversation, agent and kind, under one name of the recording proxy.

A client's headers name its conversation and the agent in it (`caller_of`). The first conversation has the name
itself, `my-agent`; a later one `my-agent 5ba1c0de`, a subagent `my-agent agent-5ba1c0de`. Calls without headers (pi,
Gemini CLI, Qwen Code, Copilot CLI, Cline) are told apart by the beginning of the system prompt: titles, summaries and
extractions of memory are `my-agent title` and so on, another agent with nothing in common `my-agent agent-1f2e3d`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from memory_core.engine.session import Session
from memory_core.messages import ChatMessage, MessageRole, content_hash
from memory_core.store.message_rows import hashes_by_seq
from memory_inspector.files.located_json import read_json
from memory_inspector.recorder.prompt_messages import MAX_SUMMARIES, SUMMARISE, is_about_summary
from memory_inspector.recorder.recording import attach, attachment_of, record_exchange, split_reasoning
from memory_inspector.recorder.wire import Exchange

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


SHOWN = 8
"""Characters of the end of an id that are shown in a name."""
LEAST_BEGINNING, BEGINNING = 40, 200
"""Characters of a system prompt that tell agents apart; a shorter one tells nothing."""
MAX_CONVERSATIONS = 200
"""Number of conversations whose latest summaries are kept; the oldest is forgotten."""

_TITLE = re.compile(r"generat\w*\b.*\btitles?\b|\btitles? generat", re.IGNORECASE | re.DOTALL)
_MEMORY = re.compile(r"memor(y|ies)\b.*\b(extract|consolidat)|(extract|consolidat).*\bmemor(y|ies)\b", re.I | re.DOTALL)


class Conversations:
    """Records calls in the sessions of their conversations. Not thread-safe."""

    def __init__(self) -> None:
        self._written: dict[tuple[str, str], list[str]] = {}
        """Summaries that were written beside a conversation, newest first, by tenant and session."""

    def record(self, opened: Callable[[str], Session], name: str, exchange: Exchange, caller: Caller) -> None:
        """Record a call under a name.

        Raises:
            ConfigError: The session is an ordinary one, or of another source.
            MessageError: A message cannot be stored; nothing was stored.
            StoreError: The database cannot be reached.
        """
        begins, kind = beginning_of(exchange.messages), _kind(exchange) or caller.purpose
        # 1. The conversation that the headers name: the first of a name has the name itself.
        begun = attachment_of(opened(name))
        if caller.conversation and begun is not None and begun.conversation != caller.conversation:
            short = f"{name} {caller.conversation[-SHOWN:]}"
            other = attachment_of(opened(short))
            # Ids of two conversations may end alike.
            is_free = other is None or other.conversation == caller.conversation
            name = short if is_free else f"{name} {caller.conversation}"
        if caller.agent:
            name = f"{name} agent-{caller.agent[-SHOWN:]}"
        main = opened(name)
        begun = attachment_of(main)
        # 2. What is beside it, as its system prompt begins otherwise: a call of another kind, or another agent's.
        beside = ""
        if begun is None:
            # A title is asked for before the conversation's own first call; without headers only a title is known.
            beside = kind if not exchange.tools and (caller.conversation or kind == "title") else ""
        elif "" not in (begins, begun.begins) and begins != begun.begins:
            beside = kind or ("" if _shares(main, exchange) else f"agent-{begins[:6]}")
        session = opened(f"{name} {beside}") if beside else main
        attach(session, conversation=caller.conversation, begins=begins)
        if exchange.purpose == "reply" and (beside == kind or caller.purpose):
            exchange = replace(exchange, purpose=kind or "reply")
        # 3. A summary that was written beside a conversation may stand in its next prompt.
        written = self._written.setdefault((main.database.tenant, main.id), [])
        record_exchange(session, exchange if beside else replace(exchange, summaries=tuple(written)))
        if beside and kind == SUMMARISE and exchange.answer is not None:
            written.insert(0, exchange.answer.content or "")
            del written[MAX_SUMMARIES:]
        while len(self._written) > MAX_CONVERSATIONS:
            del self._written[next(iter(self._written))]


def beginning_of(messages: Sequence[ChatMessage]) -> str:
    """Return a mark of how the system prompt begins, the same whatever numbers and dates it has; empty if too short."""
    front = next((n for n, message in enumerate(messages) if message.role is not MessageRole.SYSTEM), len(messages))
    longest = max((message.content or "" for message in messages[:front]), key=len, default="")[:BEGINNING]
    return content_hash(re.sub(r"\d+", "", longest)) if len(longest) >= LEAST_BEGINNING else ""


def _kind(exchange: Exchange) -> str:
    """Return the purpose of a call that is not the conversation's own, by its system prompt; empty for others."""
    if exchange.purpose != "reply" or not exchange.messages:
        return exchange.purpose if exchange.purpose == SUMMARISE else ""
    first = exchange.messages[0]
    words = (first.content or "")[:BEGINNING] if first.role is MessageRole.SYSTEM else ""
    # An agent with tools may be told that its conversation will be compacted.
    summarises = not exchange.tools and is_about_summary(words)
    kinds = {"title": _TITLE.search(words), "memory": _MEMORY.search(words), SUMMARISE: summarises}
    return next((kind for kind, fits in kinds.items() if fits), "")


def _shares(session: Session, exchange: Exchange) -> bool:
    """Return whether a session has a message of this prompt, system messages aside."""
    spoken = [
        part
        for message in exchange.messages
        if message.role is not MessageRole.SYSTEM
        for part in split_reasoning(message)
    ]
    with session.database.read() as connection:
        stored = set(hashes_by_seq(connection, session.id).values())
    return any(content_hash(message.to_json()) in stored for message in spoken)

"""Collect a page's turns with their messages, prompts and traces."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from memory_core.engine.session import Session
from memory_core.history.by_turn import History
from memory_core.history.slices.message_slice import adds_message
from memory_core.messages import ChatMessage, message_text
from memory_core.sessions.handle import SessionHandle
from memory_core.sessions.session_log import SessionLog
from memory_core.tracing.showing.contents import ShownTurn, contents
from memory_core.tracing.showing.page import Page
from memory_core.tracing.values import Trace


def shown_page(
    session: Session,
    log: SessionLog,
    history: History,
    turns: Sequence[int],
    trace: Callable[[int], Trace] | None,
    start: int | None,
) -> Page:
    """Build the page of some turns of a history; `trace` returns the trace to a turn's prompt."""
    messages = _messages(log, history, set(turns))
    shown = [
        ShownTurn(
            record=history.turns[turn],
            messages=tuple(
                (role, None if message is None else message_text(message)) for role, message in messages.get(turn, ())
            ),
            prompt=log.prompt(built) if (built := history.turns[turn].built) is not None else None,
            trace=trace(turn) if trace is not None else None,
        )
        for turn in turns
    ]
    title = SessionHandle(session).status().title or session.id
    return Page(contents(title, shown, start=start))


def _messages(log: SessionLog, history: History, turns: set[int]) -> Mapping[int, list[tuple[str, ChatMessage | None]]]:
    """Return role and message of everything said in these turns; None for erased messages."""
    added: list[tuple[int, Any]] = [
        (record.turn, record.event) for record in history.records if adds_message(record.event) and record.turn in turns
    ]
    texts = log.texts(event.content for _, event in added)
    by_turn: dict[int, list[tuple[str, ChatMessage | None]]] = {}
    for turn, event in added:
        text = texts.get(event.content)
        message = None if text is None else ChatMessage.from_json(text)
        by_turn.setdefault(turn, []).append((event.role, message))
    return by_turn

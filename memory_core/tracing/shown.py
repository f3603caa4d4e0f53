"""Gathers what is put on a page: turns with their messages, prompts and traces, and the names that are known."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from memory_core.curation.graph import GraphDesk
from memory_core.engine.session import Session
from memory_core.history.by_turn import History
from memory_core.history.prompt import Prompt
from memory_core.messages import ChatMessage, message_text
from memory_core.planning.graph import THE_USER
from memory_core.planning.speech import parse_message
from memory_core.sessions.handle import SessionHandle
from memory_core.sessions.log import SessionLog
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
    """The page of some turns of a history; `trace` follows something to the prompt of a turn."""
    said = _messages(log, history, set(turns))
    shown = [
        ShownTurn(
            record=history.turns[turn],
            said=tuple(
                (role, None if message is None else message_text(message)) for role, message in said.get(turn, ())
            ),
            prompt=log.prompt(built) if (built := history.turns[turn].built) is not None else None,
            trace=trace(turn) if trace is not None else None,
        )
        for turn in turns
    ]
    messages = [message for spoken in said.values() for _, message in spoken if message is not None]
    messages += [
        m for turn in shown if turn.prompt for part in turn.prompt.parts for e in part.entries for m in e.messages
    ]
    people, known = _entities(session)
    people |= {speaker for message in messages if (speaker := parse_message(message).speaker)}
    if session.user_id:
        known.add(session.user_id.partition("@")[0].title())
    title = SessionHandle(session).status().title or session.id
    return Page(contents(title, shown, start=start), frozenset(people), frozenset(known), tuple(sorted(_facts(shown))))


def _messages(log: SessionLog, history: History, turns: set[int]) -> Mapping[int, list[tuple[str, ChatMessage | None]]]:
    """Role and message of everything said in these turns; None for words that were erased."""
    added: list[tuple[int, Any]] = [
        (record.turn, record.event)
        for record in history.records
        if record.kind == "message_added" and record.turn in turns
    ]
    texts = log.texts(event.content for _, event in added)
    found: dict[int, list[tuple[str, ChatMessage | None]]] = {}
    for turn, event in added:
        text = texts.get(event.content)
        message = None if text is None else ChatMessage.from_json(text)
        found.setdefault(turn, []).append((event.role, message))
    return found


def _entities(session: Session) -> tuple[set[str], set[str]]:
    """Names of persons, and of everything else but dates, that the session's graphs know."""
    people: set[str] = set()
    known: set[str] = set()
    for attached in session.blocks:
        if attached.kind == "graph":
            for entity in GraphDesk(session, attached.name).graph().entities.values():
                if entity.name != THE_USER and entity.type != "date":
                    (people if entity.type == "person" else known).update((entity.name, *entity.aliases))
    return people, known


def _facts(turns: Sequence[ShownTurn]) -> set[str]:
    """Words of the facts in the prompts of some turns, and of those that a trace follows."""
    prompts: list[Prompt] = [turn.prompt for turn in turns if turn.prompt is not None]
    entries = [entry for prompt in prompts for part in prompt.parts for entry in part.entries]
    followed = [track.carrier for turn in turns if turn.trace is not None for track in turn.trace.tracks]
    return {entry.words for entry in entries if entry.ref.kind == "fact" and entry.words} | {
        carrier.words for carrier in followed if carrier.kind == "fact" and carrier.words
    }
